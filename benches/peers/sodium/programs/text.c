/* Text in UTF-8 by utf8proc: decodes, normalises in four ways, folds case, and finds the borders of
   characters that a reader sees. */
#include "program.h"
#include "utf8proc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 16384

static utf8proc_uint8_t text[TEXT];
static unsigned points, letters, graphemes, hash;
static size_t sizes[4];

void prepare(void)
{
    static const char *const others[] = {
        "\xce\xba\xcf\x8c\xcf\x83\xce\xbc\xce\xb5 ", "\xd0\xbc\xd0\xb8\xd1\x80 ", "e\xcc\x81t\xc3\xa9 ", "\xed\x95\x9c\xea\xb8\x80 ",
        "\xe2\x84\xab\xef\xac\x81 ", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 ", "\xe6\x97\xa5\xe6\x9c\xac ",
    };
    uint64_t state = 211;
    size_t at = 0;
    while (at + 32 < TEXT) {
        const char *word = next_number(&state) % 3 ? next_word(&state) : others[next_number(&state) % 7];
        memcpy(text + at, word, strlen(word));
        at += strlen(word);
    }
    memset(text + at, ' ', TEXT - at);
}

void pass(void)
{
    static const utf8proc_option_t options[4] = {
        UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE,
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_STRIPMARK,
    };
    points = letters = graphemes = 0;
    utf8proc_int32_t point, last = 0, state = 0;
    for (size_t at = 0; at < TEXT;) {
        at += utf8proc_iterate(text + at, TEXT - at, &point);
        utf8proc_category_t category = utf8proc_category(point);
        letters += category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
        graphemes += points++ == 0 || utf8proc_grapheme_break_stateful(last, point, &state);
        last = point;
    }
    for (int i = 0; i < 4; i++) {
        utf8proc_uint8_t *to = NULL;
        utf8proc_ssize_t bytes = utf8proc_map(text, TEXT, &to, options[i]);
        if (bytes < 0) {
            fprintf(stderr, "utf8proc: %s\n", utf8proc_errmsg(bytes));
            abort();
        }
        sizes[i] = bytes;
        hash = fnv(hash, to, bytes);
        free(to);
    }
}

void tell(void)
{
    printf("%u points, %u letters, %u graphemes; %zu %zu %zu %zu bytes, %08x\n", points, letters, graphemes, sizes[0],
        sizes[1], sizes[2], sizes[3], hash);
}
