/* Brotli: compresses a text at quality 5, and expands it. */
#include "program.h"
#include "brotli/decode.h"
#include "brotli/encode.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 131072

static uint8_t text[TEXT], packed[TEXT], back[TEXT];
static size_t size;
static unsigned hash;

void prepare(void)
{
    uint64_t state = 121;
    write_text((char *) text, TEXT, &state);
}

void pass(void)
{
    size_t bytes = TEXT;
    size = sizeof packed;
    int done = BrotliEncoderCompress(5, 18, BROTLI_MODE_TEXT, TEXT, text, &size, packed);
    hash = fnv(hash, packed, size);
    if (!done || !BrotliDecoderDecompress(size, packed, &bytes, back) || memcmp(text, back, TEXT)) {
        fprintf(stderr, "the text did not come back\n");
        abort();
    }
    text[hash % TEXT] ^= 1;
}

void tell(void)
{
    printf("%u bytes become %zu, %08x\n", TEXT, size, hash);
}
