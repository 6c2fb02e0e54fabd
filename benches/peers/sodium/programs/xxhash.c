/* Hashes of short and long inputs by xxHash: XXH32, XXH64, and XXH3 without vectors. */
#include "program.h"
#define XXH_STATIC_LINKING_ONLY
#include "xxhash.h"
#include <stdio.h>

#define BYTES 32768

static unsigned char data[BYTES];
static uint64_t sum;

void prepare(void)
{
    uint64_t state = 231;
    for (int i = 0; i < BYTES; i++) {
        data[i] = next_number(&state) >> 24;
    }
}

void pass(void)
{
    sum = XXH32(data, BYTES, sum) + XXH64(data, BYTES, sum) + XXH3_64bits_withSeed(data, BYTES, sum);
    for (int bytes = 0; bytes < 240; bytes++) {
        sum ^= XXH3_64bits_withSeed(data + bytes, bytes, sum) + XXH64(data + bytes, bytes, sum);
    }
}

void tell(void)
{
    printf("%016llx\n", (unsigned long long) sum);
}
