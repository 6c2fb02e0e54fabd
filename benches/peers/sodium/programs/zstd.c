/* Zstandard: compresses a text at two levels, and expands it. */
#include "program.h"
#include "zstd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 262144

static char text[TEXT], packed[TEXT], back[TEXT];
static size_t sizes[2];
static unsigned hash;
static ZSTD_CCtx *packer;

void prepare(void)
{
    uint64_t state = 101;
    write_text(text, TEXT, &state);
    packer = ZSTD_createCCtx();
}

void pass(void)
{
    static const int levels[] = { 1, 5 };
    for (int i = 0; i < 2; i++) {
        sizes[i] = ZSTD_compressCCtx(packer, packed, sizeof packed, text, TEXT, levels[i]);
        hash = ZSTD_isError(sizes[i]) ? 0 : fnv(hash, packed, sizes[i]);
        if (ZSTD_decompress(back, TEXT, packed, sizes[i]) != TEXT || memcmp(text, back, TEXT)) {
            fprintf(stderr, "the text did not come back\n");
            abort();
        }
    }
    text[hash % TEXT] ^= 1;
}

void tell(void)
{
    printf("%u bytes become %zu and %zu, %08x\n", TEXT, sizes[0], sizes[1], hash);
}
