/* Two maps from numbers to numbers: a hash table with open addressing that grows, and a balanced
   tree (AA tree) of nodes from malloc. Inserts, finds, removes, and visits in order. */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>

#define KEYS 8000

typedef struct {
    uint32_t key, value;
} entry;

static struct {
    entry *entries;
    uint32_t capacity, count;
} table;

typedef struct node {
    struct node *left, *right;
    uint32_t key, value;
    int level;
} node;

static node nothing = { &nothing, &nothing, 0, 0, 0 };
static node *root = &nothing;
static uint64_t state = 51;
static uint32_t found, checksum;

void prepare(void)
{
}

/* The entry of a key, or the free one where it belongs. Keys are not 0. */
static entry *entry_of(entry *entries, uint32_t capacity, uint32_t key)
{
    uint32_t at = key * 0x9e3779b1u >> 7 & (capacity - 1);
    while (entries[at].key && entries[at].key != key) {
        at = (at + 1) & (capacity - 1);
    }
    return entries + at;
}

static void put(uint32_t key, uint32_t value)
{
    if (4 * (table.count + 1) > 3 * table.capacity) {
        uint32_t capacity = table.capacity ? 2 * table.capacity : 16;
        entry *entries = calloc(capacity, sizeof *entries);
        for (uint32_t i = 0; i < table.capacity; i++) {
            if (table.entries[i].key) {
                *entry_of(entries, capacity, table.entries[i].key) = table.entries[i];
            }
        }
        free(table.entries);
        table.entries = entries;
        table.capacity = capacity;
    }
    entry *at = entry_of(table.entries, table.capacity, key);
    table.count += at->key == 0;
    *at = (entry) { key, value };
}

static node *skew(node *top)
{
    node *left = top->left;
    if (top->level == 0 || left->level != top->level) {
        return top;
    }
    top->left = left->right;
    left->right = top;
    return left;
}

static node *split(node *top)
{
    node *right = top->right;
    if (top->level == 0 || right->right->level != top->level) {
        return top;
    }
    top->right = right->left;
    right->left = top;
    right->level++;
    return right;
}

static node *insert(node *top, uint32_t key, uint32_t value)
{
    if (top == &nothing) {
        node *made = malloc(sizeof *made);
        *made = (node) { &nothing, &nothing, key, value, 1 };
        return made;
    }
    if (key < top->key) {
        top->left = insert(top->left, key, value);
    } else if (key > top->key) {
        top->right = insert(top->right, key, value);
    } else {
        top->value = value;
    }
    return split(skew(top));
}

static const node *find(uint32_t key)
{
    const node *at = root;
    while (at != &nothing && at->key != key) {
        at = key < at->key ? at->left : at->right;
    }
    return at;
}

static void visit(node *at)
{
    if (at != &nothing) {
        visit(at->left);
        checksum = checksum * 31 + at->key + at->value;
        visit(at->right);
    }
}

static void release(node *at)
{
    if (at != &nothing) {
        release(at->left);
        release(at->right);
        free(at);
    }
}

void pass(void)
{
    found = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        uint32_t key = next_number(&state) % (4 * KEYS) + 1;
        put(key, i);
        root = insert(root, key, i);
    }
    for (uint32_t i = 0; i < 4 * KEYS; i++) {
        uint32_t key = next_number(&state) % (4 * KEYS) + 1;
        const entry *at = entry_of(table.entries, table.capacity, key);
        found += at->key ? at->value == find(key)->value : 0;
    }
    visit(root);
    release(root);
    root = &nothing;
    free(table.entries);
    table.entries = NULL;
    table.capacity = table.count = 0;
}

void tell(void)
{
    printf("%u found, checksum %08x\n", found, checksum);
}
