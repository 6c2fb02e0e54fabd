/* Protocol buffers: writes orders in the wire format and reads them again, skipping fields that it
   does not know.
   message Item { uint64 id = 1; string name = 2; sint32 count = 3; double price = 4; }
   message Order { fixed64 time = 1; repeated Item items = 2; repeated uint32 codes = 3; } */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDERS 100
#define CODES 24

enum wire { VARINT, FIXED64, BYTES };

static unsigned char buffer[1 << 18], item_buffer[256], codes_buffer[256];
static uint64_t state = 81;
static struct {
    uint64_t ids, codes, times;
    int64_t counts;
    double prices;
    size_t name_bytes, items, bytes, unknown;
} found;

void prepare(void)
{
}

static unsigned char *put_varint(unsigned char *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *to++ = value | 0x80;
    }
    *to++ = value;
    return to;
}

static unsigned char *put_tag(unsigned char *to, unsigned field, enum wire wire)
{
    return put_varint(to, field << 3 | wire);
}

static unsigned char *put_fixed(unsigned char *to, const void *value)
{
    memcpy(to, value, 8);
    return to + 8;
}

static unsigned char *put_bytes(unsigned char *to, unsigned field, const void *from, size_t bytes)
{
    to = put_varint(put_tag(to, field, BYTES), bytes);
    memcpy(to, from, bytes);
    return to + bytes;
}

static unsigned char *put_order(unsigned char *to)
{
    uint64_t time = 1700000000000u + next_number(&state);
    to = put_fixed(put_tag(to, 1, FIXED64), &time);
    for (unsigned item = 0; item < 1 + time % 7; item++) {
        const char *name = next_word(&state);
        int32_t count = (int32_t) next_number(&state) >> next_number(&state) % 31;
        double price = next_number(&state) / 100.0;
        unsigned char *at = put_varint(put_tag(item_buffer, 1, VARINT), (uint64_t) next_number(&state) << 8);
        at = put_bytes(at, 2, name, strlen(name));
        at = put_varint(put_tag(at, 3, VARINT), (uint32_t) count << 1 ^ (uint32_t) (count >> 31));
        at = put_fixed(put_tag(at, 4, FIXED64), &price);
        at = put_varint(put_tag(at, 9, VARINT), item);
        to = put_bytes(to, 2, item_buffer, at - item_buffer);
    }
    unsigned char *at = codes_buffer;
    for (int code = 0; code < CODES; code++) {
        at = put_varint(at, next_number(&state) >> next_number(&state) % 32);
    }
    return put_bytes(to, 3, codes_buffer, at - codes_buffer);
}

static void fail(void)
{
    fprintf(stderr, "the buffer is not well formed\n");
    abort();
}

static uint64_t get_varint(const unsigned char **from, const unsigned char *end)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (*from == end) {
            fail();
        }
        unsigned char byte = *(*from)++;
        value |= (uint64_t) (byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    fail();
    return 0;
}

static const unsigned char *skipped(const unsigned char **from, const unsigned char *end, size_t bytes)
{
    if (bytes > (size_t) (end - *from)) {
        fail();
    }
    const unsigned char *start = *from;
    *from += bytes;
    return start;
}

static void get_item(const unsigned char *from, const unsigned char *end)
{
    found.items++;
    while (from < end) {
        uint64_t tag = get_varint(&from, end), value = 0;
        const unsigned char *bytes = NULL;
        switch (tag & 7) {
        case VARINT:
            value = get_varint(&from, end);
            break;
        case FIXED64:
            bytes = skipped(&from, end, 8);
            break;
        case BYTES:
            value = get_varint(&from, end);
            bytes = skipped(&from, end, value);
            break;
        default:
            fail();
        }
        switch (tag >> 3) {
        case 1:
            found.ids += value;
            break;
        case 2:
            found.name_bytes += value + bytes[0];
            break;
        case 3:
            found.counts += (int32_t) (value >> 1 ^ -(value & 1));
            break;
        case 4: {
            double price;
            memcpy(&price, bytes, 8);
            found.prices += price;
            break;
        }
        default:
            found.unknown++;
        }
    }
}

static void get_orders(const unsigned char *from, const unsigned char *end)
{
    while (from < end) {
        uint64_t tag = get_varint(&from, end);
        if (tag == (1 << 3 | FIXED64)) {
            uint64_t time;
            memcpy(&time, skipped(&from, end, 8), 8);
            found.times += time;
            continue;
        }
        size_t bytes = get_varint(&from, end);
        const unsigned char *start = skipped(&from, end, bytes);
        if (tag == (2 << 3 | BYTES)) {
            get_item(start, start + bytes);
        } else {
            while (start < from) {
                found.codes += get_varint(&start, from);
            }
        }
    }
}

void pass(void)
{
    memset(&found, 0, sizeof found);
    unsigned char *to = buffer;
    for (int order = 0; order < ORDERS; order++) {
        to = put_order(to);
    }
    found.bytes = to - buffer;
    for (int time = 0; time < 4; time++) {
        get_orders(buffer, to);
    }
}

void tell(void)
{
    printf("%zu bytes, %zu items, ids %llu, names %zu, counts %lld, prices %.17g, codes %llu, times %llu, %zu unknown\n",
        found.bytes, found.items, (unsigned long long) found.ids, found.name_bytes, (long long) found.counts,
        found.prices, (unsigned long long) found.codes, (unsigned long long) found.times, found.unknown);
}
