/* Regular expressions by PCRE2's interpreter: finds dates, addresses and repeated words in a text,
   and replaces. */
#include "program.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pcre2.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 32768

static const char *const patterns[] = {
    "\\b(\\d{4})-(\\d\\d)-(\\d\\d)\\b", "[\\w.]+@[\\w]+\\.(?:com|org|net)", "\\b(\\w+) \\1\\b", "(?:[^.]{30,60}){1,2}y",
    "\\p{L}{12,}",
};

#define PATTERNS (sizeof patterns / sizeof patterns[0])

static char text[TEXT], replaced[2 * TEXT];
static pcre2_code *codes[PATTERNS];
static unsigned found[PATTERNS], hash;
static PCRE2_SIZE replaced_bytes;

void prepare(void)
{
    uint64_t state = 161;
    write_text(text, TEXT, &state);
    for (int at = 100; at + 100 < TEXT; at += 400) {
        unsigned number = next_number(&state);
        char piece[64];
        int bytes = sprintf(piece, " 20%02u-%02u-%02u user%u@example.org ", number % 100, number % 12 + 1, number % 28 + 1, number);
        memcpy(text + at, piece, bytes);
    }
    for (size_t i = 0; i < PATTERNS; i++) {
        int error;
        PCRE2_SIZE at;
        codes[i] = pcre2_compile((PCRE2_SPTR) patterns[i], PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_NO_UTF_CHECK, &error, &at, NULL);
        if (!codes[i]) {
            fprintf(stderr, "the pattern %s was not compiled: error %d\n", patterns[i], error);
            abort();
        }
    }
}

void pass(void)
{
    pcre2_match_data *data = pcre2_match_data_create(10, NULL);
    for (size_t i = 0; i < PATTERNS; i++) {
        found[i] = 0;
        for (PCRE2_SIZE at = 0; at < TEXT;) {
            if (pcre2_match(codes[i], (PCRE2_SPTR) text, TEXT, at, PCRE2_NO_UTF_CHECK, data, NULL) < 0) {
                break;
            }
            const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data);
            found[i]++;
            hash = hash * 31 + (unsigned) range[0] + (unsigned) range[1];
            at = range[1] + (range[1] == range[0]);
        }
    }
    replaced_bytes = sizeof replaced;
    pcre2_substitute(codes[0], (PCRE2_SPTR) text, TEXT, 0, PCRE2_SUBSTITUTE_GLOBAL | PCRE2_NO_UTF_CHECK, data, NULL,
        (PCRE2_SPTR) "$3.$2.$1", PCRE2_ZERO_TERMINATED, (PCRE2_UCHAR *) replaced, &replaced_bytes);
    hash = fnv(hash, replaced, replaced_bytes);
    pcre2_match_data_free(data);
}

void tell(void)
{
    printf("%u %u %u %u %u matches, %08x\n", found[0], found[1], found[2], found[3], found[4], hash);
}
