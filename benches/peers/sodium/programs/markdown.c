/* Markdown to HTML by hoedown, with tables and code blocks. */
#include "program.h"
#include "document.h"
#include "html.h"
#include <stdio.h>
#include <string.h>

#define TEXT 40000

static char text[TEXT + 1024];
static size_t text_bytes;
static uint64_t state = 171;
static hoedown_buffer *page;
static unsigned hash;

void prepare(void)
{
    char *at = text;
    while (at < text + TEXT) {
        at += sprintf(at, "%.*s %s\n\n", (int) (next_number(&state) % 4 + 1), "####", next_word(&state));
        for (unsigned i = 0; i < next_number(&state) % 60 + 4; i++) {
            static const char *const forms[] = { "%s ", "*%s* ", "**%s** ", "`%s` ", "%s, ", "[%s](https://example.org/a_b) ", "%s\n", "&amp; %s " };
            at += sprintf(at, forms[next_number(&state) % 8], next_word(&state));
        }
        at += sprintf(at, "\n\n* %s\n* %s\n    1. %s\n\n", next_word(&state), next_word(&state), next_word(&state));
        at += sprintf(at, "| %s | b |\n|---|---|\n| 1 | %s |\n\n```c\nint %s;\n```\n\n> %s\n\n", next_word(&state),
            next_word(&state), next_word(&state), next_word(&state));
    }
    text_bytes = at - text;
    page = hoedown_buffer_new(1024);
}

void pass(void)
{
    hoedown_renderer *renderer = hoedown_html_renderer_new(0, 0);
    hoedown_document *document = hoedown_document_new(renderer, HOEDOWN_EXT_TABLES | HOEDOWN_EXT_FENCED_CODE | HOEDOWN_EXT_AUTOLINK, 16);
    page->size = 0;
    hoedown_document_render(document, page, (const uint8_t *) text, text_bytes);
    hash = fnv(hash, page->data, page->size / 16);
    hoedown_document_free(document);
    hoedown_html_renderer_free(renderer);
}

void tell(void)
{
    printf("%zu bytes of Markdown, %zu of HTML, %08x\n", text_bytes, page->size, fnv(hash, page->data, page->size));
}
