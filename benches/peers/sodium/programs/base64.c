/* Base64 by table, there and back, by RFC 4648. */
#include "program.h"
#include <stdio.h>
#include <string.h>

#define BYTES 49152

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static unsigned char values[256], data[BYTES], back[BYTES];
static char encoded[BYTES / 3 * 4];
static unsigned bad;

void prepare(void)
{
    uint64_t state = 71;
    for (size_t i = 0; i < BYTES; i++) {
        data[i] = next_number(&state) >> 24;
    }
    memset(values, 0xff, sizeof values);
    for (int i = 0; i < 64; i++) {
        values[(unsigned char) letters[i]] = i;
    }
}

void pass(void)
{
    char *to = encoded;
    for (size_t i = 0; i < BYTES; i += 3) {
        uint32_t three = data[i] << 16 | data[i + 1] << 8 | data[i + 2];
        *to++ = letters[three >> 18];
        *to++ = letters[three >> 12 & 63];
        *to++ = letters[three >> 6 & 63];
        *to++ = letters[three & 63];
    }
    unsigned char *out = back;
    for (size_t i = 0; i < sizeof encoded; i += 4) {
        const unsigned char *from = (const unsigned char *) encoded + i;
        unsigned a = values[from[0]], b = values[from[1]], c = values[from[2]], d = values[from[3]];
        if ((a | b | c | d) > 63) {
            bad++;
            continue;
        }
        *out++ = a << 2 | b >> 4;
        *out++ = b << 4 | c >> 2;
        *out++ = c << 6 | d;
    }
    bad += memcmp(data, back, BYTES) != 0;
    data[bad % BYTES]++;
}

void tell(void)
{
    printf("%u bad, %08x\n", bad, fnv(0, encoded, sizeof encoded));
}
