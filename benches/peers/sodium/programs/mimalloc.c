/* The allocator mimalloc: blocks of many sizes, which live for different times, are resized, and
   freed in another order. */
#include "program.h"
#include "mimalloc.h"
#include <stdio.h>
#include <string.h>

#define BLOCKS 4096
#define STEPS 60000

static struct {
    unsigned char *at;
    size_t bytes;
} blocks[BLOCKS];
static uint64_t state = 191, sum;

void prepare(void)
{
}

static size_t some_bytes(void)
{
    uint32_t number = next_number(&state);
    return (number >> 8) % (number % 64 ? number % 16 ? 128 : 1024 : 16384) + 1;
}

void pass(void)
{
    for (int step = 0; step < STEPS; step++) {
        unsigned i = next_number(&state) % BLOCKS;
        size_t bytes = some_bytes();
        if (!blocks[i].at) {
            blocks[i].at = mi_malloc(bytes);
        } else if (step % 8 == 0) {
            sum += blocks[i].at[0];
            blocks[i].at = mi_realloc(blocks[i].at, bytes);
        } else {
            sum += blocks[i].at[blocks[i].bytes - 1];
            mi_free(blocks[i].at);
            blocks[i].at = NULL;
            continue;
        }
        blocks[i].bytes = bytes;
        blocks[i].at[0] = blocks[i].at[bytes - 1] = step;
    }
}

void tell(void)
{
    printf("sum %llu\n", (unsigned long long) sum);
}
