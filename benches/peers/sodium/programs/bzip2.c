/* bzip2: sorts the blocks of a text to compress it, and expands it. */
#include "program.h"
#include "bzlib.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 98304

static char text[TEXT], packed[TEXT], back[TEXT];
static unsigned size, hash;

/* The library calls it when it finds its own state to be wrong. */
void bz_internal_error(int code)
{
    fprintf(stderr, "bzip2 error %d\n", code);
    abort();
}

void prepare(void)
{
    uint64_t state = 131;
    write_text(text, TEXT, &state);
}

void pass(void)
{
    unsigned bytes = TEXT;
    size = sizeof packed;
    int failed = BZ2_bzBuffToBuffCompress(packed, &size, text, TEXT, 1, 0, 0);
    hash = fnv(hash, packed, size);
    failed |= BZ2_bzBuffToBuffDecompress(back, &bytes, packed, size, 0, 0);
    if (failed || memcmp(text, back, TEXT)) {
        fprintf(stderr, "the text did not come back\n");
        abort();
    }
    text[hash % TEXT] ^= 1;
}

void tell(void)
{
    printf("%u bytes become %u, %08x\n", TEXT, size, hash);
}
