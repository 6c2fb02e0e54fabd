/* Searches a text: by Boyer, Moore and Horspool, by memchr and memcmp, and by strstr of the C
   library; then counts lines and letters, and folds case. */
#include "program.h"
#include <stdio.h>
#include <string.h>

#define TEXT 65536

static char text[TEXT + 1], folded[TEXT + 1];
static const char *const needles[] = { "thousand yellow", "the harbour", "remember remember", "xyzzy", "international q" };
static unsigned found[3], lines, letters, hash;

void prepare(void)
{
    uint64_t state = 61;
    write_text(text, TEXT, &state);
}

static const char *horspool(const char *in, size_t bytes, const char *needle)
{
    size_t size = strlen(needle), skip[256];
    for (int i = 0; i < 256; i++) {
        skip[i] = size;
    }
    for (size_t i = 0; i + 1 < size; i++) {
        skip[(unsigned char) needle[i]] = size - 1 - i;
    }
    for (size_t at = 0; at + size <= bytes; at += skip[(unsigned char) in[at + size - 1]]) {
        if (in[at + size - 1] == needle[size - 1] && memcmp(in + at, needle, size - 1) == 0) {
            return in + at;
        }
    }
    return NULL;
}

static const char *by_first(const char *in, size_t bytes, const char *needle)
{
    size_t size = strlen(needle);
    const char *end = in + bytes;
    for (; (in = memchr(in, *needle, end - in)) && size <= (size_t) (end - in); in++) {
        if (memcmp(in, needle, size) == 0) {
            return in;
        }
    }
    return NULL;
}

void pass(void)
{
    memset(found, 0, sizeof found);
    for (size_t i = 0; i < sizeof needles / sizeof needles[0]; i++) {
        const char *needle = needles[i], *end = text + TEXT;
        for (const char *at = text; (at = horspool(at, end - at, needle)); at++) {
            found[0]++;
        }
        for (const char *at = text; (at = by_first(at, end - at, needle)); at++) {
            found[1]++;
        }
        for (const char *at = text; (at = strstr(at, needle)); at++) {
            found[2]++;
        }
    }
    lines = letters = 0;
    for (size_t i = 0; i < TEXT; i++) {
        lines += text[i] == '\n';
        letters += (text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z';
        folded[i] = text[i] >= 'a' && text[i] <= 'z' ? text[i] - 0x20 : text[i];
    }
    hash = fnv(hash, folded, TEXT);
    text[TEXT / 2] ^= 1;
}

void tell(void)
{
    printf("%u %u %u found, %u lines, %u letters, %08x\n", found[0], found[1], found[2], lines, letters, hash);
}
