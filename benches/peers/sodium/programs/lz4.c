/* LZ4: compresses a text in the fast mode, and expands it. */
#include "program.h"
#include "lz4.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 262144

static char text[TEXT], packed[TEXT], back[TEXT];
static int size;
static unsigned turn;

void prepare(void)
{
    uint64_t state = 111;
    write_text(text, TEXT, &state);
}

void pass(void)
{
    size = LZ4_compress_default(text, packed, TEXT, sizeof packed);
    for (int time = 0; time < 4; time++) {
        if (LZ4_decompress_safe(packed, back, size, TEXT) != TEXT || memcmp(text, back, TEXT)) {
            fprintf(stderr, "the text did not come back\n");
            abort();
        }
    }
    text[turn++ % TEXT] ^= 1;
}

void tell(void)
{
    /* LZ4 hashes words of the target, so compressed bytes differ between 32 and 64 bits. */
    printf("%u bytes come back\n", TEXT);
}
