/* Linked lists: searches a list, reverses it, and sorts it by the nodes' keys and places. */
#include "program.h"
#include <stdio.h>

#define NODES 256

struct value {
    int16_t key;
    int16_t place;
};

struct node {
    struct node *next;
    struct value *value;
};

static struct node nodes[NODES];
static struct value values[NODES];
static struct node *list;
static uint16_t crc;
static uint16_t turn;

/* The next node in the list is 77 nodes away in memory, so that the accesses are not sequential. 77
   and the number of nodes have no common divisor, so the list visits all nodes. */
void prepare(void)
{
    uint64_t state = 3;
    int at = 0;
    for (int i = 0; i < NODES; i++) {
        int next = (at + 77) % NODES;
        values[at].key = (int16_t) (next_number(&state) % 1000);
        values[at].place = (int16_t) i;
        nodes[at].value = &values[at];
        nodes[at].next = i + 1 < NODES ? &nodes[next] : NULL;
        at = next;
    }
    list = &nodes[0];
}

static struct node *reversed(struct node *from)
{
    struct node *to = NULL;
    while (from) {
        struct node *next = from->next;
        from->next = to;
        to = from;
        from = next;
    }
    return to;
}

static const struct node *found(const struct node *from, int16_t key)
{
    while (from && from->value->key != key) {
        from = from->next;
    }
    return from;
}

static int by_key(const struct value *a, const struct value *b)
{
    return a->key != b->key ? a->key - b->key : a->place - b->place;
}

static int by_place(const struct value *a, const struct value *b)
{
    return a->place - b->place;
}

typedef int order(const struct value *, const struct value *);

static struct node *merged(struct node *a, struct node *b, order *compare)
{
    struct node *first = NULL, **end = &first;
    while (a && b) {
        if (compare(a->value, b->value) <= 0) {
            *end = a;
            a = a->next;
        } else {
            *end = b;
            b = b->next;
        }
        end = &(*end)->next;
    }
    *end = a ? a : b;
    return first;
}

static struct node *sorted(struct node *from, order *compare)
{
    if (!from || !from->next) {
        return from;
    }
    struct node *middle = from, *end = from->next;
    while (end && end->next) {
        middle = middle->next;
        end = end->next->next;
    }
    struct node *half = middle->next;
    middle->next = NULL;
    return merged(sorted(from, compare), sorted(half, compare), compare);
}

void pass(void)
{
    for (int16_t key = 0; key < 32; key++) {
        const struct node *node = found(list, (int16_t) (key * 31 + turn % 7));
        crc = crc16(crc, node ? (uint16_t) node->value->place : 0xffff);
        list = reversed(list);
    }
    list = sorted(list, by_key);
    for (const struct node *node = list; node; node = node->next) {
        crc = crc16(crc, (uint16_t) node->value->place);
    }
    list = sorted(list, by_place);
    list->value->key = (int16_t) (turn++ % 1000);
}

void tell(void)
{
    unsigned length = 0, right = 1;
    for (const struct node *node = list; node; node = node->next) {
        right &= node->value->place == (int16_t) length++;
    }
    printf("list of %u nodes, %s order, CRC %04x\n", length, right ? "in" : "out of", crc);
}
