/* Regular expressions by Oniguruma: all matches of five patterns in a text in UTF-8. */
#include "program.h"
#include "oniguruma.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 32768

static const char *const patterns[] = {
    "(\\w+)ing\\b|qu(\\w+)", "(?<first>[a-z]+) (?<second>\\k<first>)", "[^\\s,.]{9,}", "(?i)THE\\s+(?!server)\\w+",
    "(a|b|c)+d?e*[f-t]\\S{2}(?=\\.)",
};

#define PATTERNS (sizeof patterns / sizeof patterns[0])

static UChar text[TEXT];
static regex_t *regexes[PATTERNS];
static unsigned found[PATTERNS], hash;

void prepare(void)
{
    uint64_t state = 151;
    write_text((char *) text, TEXT, &state);
    OnigEncoding encoding = ONIG_ENCODING_UTF8;
    onig_initialize(&encoding, 1);
    for (size_t i = 0; i < PATTERNS; i++) {
        const UChar *pattern = (const UChar *) patterns[i];
        if (onig_new(&regexes[i], pattern, pattern + strlen(patterns[i]), ONIG_OPTION_DEFAULT, encoding,
                ONIG_SYNTAX_DEFAULT, NULL)) {
            fprintf(stderr, "the pattern %s was not compiled\n", patterns[i]);
            abort();
        }
    }
}

void pass(void)
{
    OnigRegion *region = onig_region_new();
    for (size_t i = 0; i < PATTERNS; i++) {
        found[i] = 0;
        const UChar *end = text + TEXT;
        for (const UChar *at = text; at <= end;) {
            if (onig_search(regexes[i], text, end, at, end, region, ONIG_OPTION_NONE) < 0) {
                break;
            }
            found[i]++;
            hash = hash * 31 + region->beg[0] + region->end[0];
            at = text + region->end[0] + (region->end[0] == region->beg[0]);
        }
    }
    onig_region_free(region, 1);
}

void tell(void)
{
    printf("%u %u %u %u %u matches, %08x\n", found[0], found[1], found[2], found[3], found[4], hash);
}
