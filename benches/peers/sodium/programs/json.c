/* JSON by yyjson: parses a document, visits each value, and writes the document. The document has
   objects, arrays, numbers of all kinds, and strings with escapes. */
#include "program.h"
#include "yyjson.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS 300
#define DOCUMENT (RECORDS * 512)

static char document[DOCUMENT];
static size_t document_bytes;

/* Totals of the last pass. */
static struct {
    unsigned values[8];
    uint64_t integers;
    double reals;
    size_t characters;
    size_t written_bytes;
} found;
static char *written;

static const char *const words[] = {
    "plain", "two words", "a \\\"quote\\\"", "tab\\tand line\\n", "\\u00fcmlaut", "gr\xc3\xbc\xc3\x9f", "\\ud83d\\ude00",
    "a rather longer string, without anything in it that has to be escaped, as most strings are", "",
};

static const char *word(uint64_t *state)
{
    return words[next_number(state) % (sizeof words / sizeof words[0])];
}

void prepare(void)
{
    uint64_t state = 6;
    char *at = document;
    at += sprintf(at, "{\"version\": 1, \"records\": [\n");
    for (int i = 0; i < RECORDS; i++) {
        unsigned big = next_number(&state), small = next_number(&state) % 1000;
        at += sprintf(at, "  {\"id\": %u, \"name\": \"%s\", \"active\": %s, \"parent\": null,\n", i, word(&state),
            small % 2 ? "true" : "false");
        at += sprintf(at, "   \"count\": %u, \"change\": -%u, \"price\": %u.%02u, \"tiny\": %u.%ue-%u,\n", big, small,
            small, big % 100, small % 10, big, small % 20 + 1);
        at += sprintf(at, "   \"place\": {\"x\": %u.%09u, \"y\": -%u.%09u},\n   \"tags\": [", small % 180, big / 5,
            small % 90, big / 7);
        for (unsigned tag = 0; tag < small % 4; tag++) {
            at += sprintf(at, "%s\"%s\"", tag ? ", " : "", word(&state));
        }
        at += sprintf(at, "]}%s\n", i + 1 < RECORDS ? "," : "");
    }
    at += sprintf(at, "]}\n");
    document_bytes = at - document;
}

static void walk(yyjson_val *value)
{
    found.values[yyjson_get_type(value)]++;
    switch (yyjson_get_type(value)) {
    case YYJSON_TYPE_OBJ: {
        yyjson_obj_iter members = yyjson_obj_iter_with(value);
        for (yyjson_val *key; (key = yyjson_obj_iter_next(&members));) {
            found.characters += yyjson_get_len(key);
            walk(yyjson_obj_iter_get_val(key));
        }
        break;
    }
    case YYJSON_TYPE_ARR: {
        yyjson_arr_iter items = yyjson_arr_iter_with(value);
        for (yyjson_val *item; (item = yyjson_arr_iter_next(&items));) {
            walk(item);
        }
        break;
    }
    case YYJSON_TYPE_STR:
        found.characters += yyjson_get_len(value);
        break;
    case YYJSON_TYPE_NUM:
        if (yyjson_is_real(value)) {
            found.reals += yyjson_get_real(value);
        } else {
            found.integers += yyjson_get_uint(value);
        }
        break;
    }
}

void pass(void)
{
    yyjson_doc *doc = yyjson_read(document, document_bytes, 0);
    if (!doc) {
        fprintf(stderr, "the document was not read\n");
        abort();
    }
    memset(&found, 0, sizeof found);
    walk(yyjson_doc_get_root(doc));
    free(written);
    written = yyjson_write(doc, 0, &found.written_bytes);
    if (!written) {
        fprintf(stderr, "the document was not written\n");
        abort();
    }
    yyjson_doc_free(doc);
    /* Each pass parses a different document. */
    char *version = strstr(document, "version") + 10;
    *version = *version < '9' ? *version + 1 : '1';
}

void tell(void)
{
    uint32_t fnv = 0x811c9dc5;
    for (size_t at = 0; at < found.written_bytes; at++) {
        fnv = (fnv ^ (unsigned char) written[at]) * 0x01000193;
    }
    printf("%zu bytes: %u objects, %u arrays, %u strings, %u numbers, %u others\n", document_bytes,
        found.values[YYJSON_TYPE_OBJ], found.values[YYJSON_TYPE_ARR], found.values[YYJSON_TYPE_STR],
        found.values[YYJSON_TYPE_NUM], found.values[YYJSON_TYPE_BOOL] + found.values[YYJSON_TYPE_NULL]);
    printf("integers %llu, reals %.17g, %zu characters, %zu bytes written, FNV %08x\n",
        (unsigned long long) found.integers, found.reals, found.characters, found.written_bytes, fnv);
}
