/* XML by Expat: parses a document with namespaces, attributes, entities and comments. */
#include "program.h"
#include "expat.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 60000

static char text[TEXT + 1024];
static size_t text_bytes;
static unsigned elements, attributes, characters, hash;

void prepare(void)
{
    uint64_t state = 181;
    char *at = text;
    at += sprintf(at, "<?xml version='1.0' encoding='UTF-8'?>\n<!DOCTYPE list [<!ENTITY name 'a name'>]>\n<list xmlns='urn:a' xmlns:b='urn:b'>\n");
    while (at < text + TEXT) {
        at += sprintf(at, "  <item id='%u' b:kind=\"%s &amp; %s\">\n    <title>%s &name; %s</title>\n", next_number(&state),
            next_word(&state), next_word(&state), next_word(&state), next_word(&state));
        at += sprintf(at, "    <!-- %s --><b:price>%u.%02u</b:price><![CDATA[<%s>]]>&#228;\n  </item>\n", next_word(&state),
            next_number(&state) % 1000, next_number(&state) % 100, next_word(&state));
    }
    at += sprintf(at, "</list>\n");
    text_bytes = at - text;
}

static void start(void *unused, const XML_Char *name, const XML_Char **pairs)
{
    elements++;
    hash = fnv(hash, name, strlen(name));
    for (; *pairs; pairs += 2) {
        attributes++;
        hash = fnv(hash, pairs[1], strlen(pairs[1]));
    }
}

static void end(void *unused, const XML_Char *name)
{
    hash += name[0];
}

static void data(void *unused, const XML_Char *from, int count)
{
    characters += count;
}

void pass(void)
{
    elements = attributes = characters = 0;
    XML_Parser parser = XML_ParserCreateNS("UTF-8", '|');
    XML_SetHashSalt(parser, 1);
    XML_SetElementHandler(parser, start, end);
    XML_SetCharacterDataHandler(parser, data);
    for (size_t at = 0; at < text_bytes; at += 4096) {
        size_t bytes = text_bytes - at < 4096 ? text_bytes - at : 4096;
        if (XML_Parse(parser, text + at, bytes, at + bytes == text_bytes) == XML_STATUS_ERROR) {
            fprintf(stderr, "xml: %s\n", XML_ErrorString(XML_GetErrorCode(parser)));
            abort();
        }
    }
    XML_ParserFree(parser);
}

void tell(void)
{
    printf("%u elements, %u attributes, %u characters, %08x\n", elements, attributes, characters, hash);
}
