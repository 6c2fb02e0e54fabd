/* zlib: compresses a text at two levels, and expands it. */
#include "program.h"
#include "zlib.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 131072

static unsigned char text[TEXT], packed[TEXT], back[TEXT];
static uLongf sizes[2];
static unsigned hash;

void prepare(void)
{
    uint64_t state = 91;
    write_text((char *) text, TEXT, &state);
}

void pass(void)
{
    static const int levels[] = { 1, 6 };
    for (int i = 0; i < 2; i++) {
        uLongf bytes = TEXT;
        sizes[i] = sizeof packed;
        int failed = compress2(packed, &sizes[i], text, TEXT, levels[i]) != Z_OK;
        hash = fnv(hash, packed, sizes[i]);
        if (failed || uncompress(back, &bytes, packed, sizes[i]) != Z_OK || memcmp(text, back, TEXT)) {
            fprintf(stderr, "the text did not come back\n");
            abort();
        }
    }
    text[hash % TEXT] ^= 1;
}

void tell(void)
{
    printf("%u bytes become %lu and %lu, %08x\n", TEXT, sizes[0], sizes[1], hash);
}
