/* Included first in a libsodium test program that is timed. Such a program seeds libsodium's
   generator from the host, and in some programs the numbers determine the amount of work. Here the
   generator uses a cipher of the same family with a fixed seed, so that all runs do equal work. */
#include "sodium.h"

static const char *fixed_name(void)
{
    return "fixed";
}

static struct {
    unsigned char seed[randombytes_SEEDBYTES];
    uint32_t numbers[256];
    unsigned left;
} fixed_state;

static void fixed_next_seed(void)
{
    sodium_increment(fixed_state.seed, sizeof fixed_state.seed);
}

static void fixed_buf(void *buf, size_t size)
{
    fixed_next_seed();
    randombytes_buf_deterministic(buf, size, fixed_state.seed);
}

static uint32_t fixed_random(void)
{
    if (fixed_state.left == 0) {
        fixed_buf(fixed_state.numbers, sizeof fixed_state.numbers);
        fixed_state.left = sizeof fixed_state.numbers / sizeof fixed_state.numbers[0];
    }
    return fixed_state.numbers[--fixed_state.left];
}

static struct randombytes_implementation fixed_implementation = {
    .implementation_name = fixed_name,
    .random = fixed_random,
    .buf = fixed_buf,
};
#define randombytes_salsa20_implementation fixed_implementation
