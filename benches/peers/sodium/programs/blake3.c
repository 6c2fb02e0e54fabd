/* BLAKE3 in portable C: a long message and short ones. */
#include "program.h"
#include "blake3.h"
#include <stdio.h>

#define BYTES 32768

static uint8_t message[BYTES], hash[BLAKE3_OUT_LEN];

void prepare(void)
{
    uint64_t state = 251;
    for (int i = 0; i < BYTES; i++) {
        message[i] = next_number(&state) >> 24;
    }
}

static void digest(size_t bytes)
{
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, message, bytes);
    blake3_hasher_finalize(&hasher, hash, sizeof hash);
    message[bytes % BYTES] ^= hash[0];
}

void pass(void)
{
    digest(BYTES);
    for (int bytes = 1; bytes < 2000; bytes *= 3) {
        digest(bytes);
    }
}

void tell(void)
{
    for (size_t i = 0; i < sizeof hash; i++) {
        printf("%02x", hash[i]);
    }
    printf("\n");
}
