/* HTTP requests by picohttpparser: whole ones, ones that arrive in two parts, and chunks. */
#include "program.h"
#include "picohttpparser.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS 64

static char requests[REQUESTS][1024], chunked[2048], copy[2048];
static size_t bytes[REQUESTS], chunked_bytes;
static unsigned count, incomplete, hash;

void prepare(void)
{
    uint64_t state = 221;
    for (int i = 0; i < REQUESTS; i++) {
        char *at = requests[i];
        at += sprintf(at, "%s /%s/%s?id=%u HTTP/1.1\r\nHost: %s.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:%u)\r\n",
            i % 3 ? "GET" : "POST", next_word(&state), next_word(&state), next_number(&state), next_word(&state), i);
        at += sprintf(at, "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nAccept-Encoding: gzip, br\r\nConnection: keep-alive\r\n");
        for (int header = 0; header < i % 8; header++) {
            at += sprintf(at, "X-%s-%d: %s %u\r\n", "Name", header, next_word(&state), next_number(&state));
        }
        at += sprintf(at, "\r\n");
        bytes[i] = at - requests[i];
    }
    char *at = chunked;
    for (int i = 0; i < 20; i++) {
        char data[40];
        write_text(data, sizeof data, &state);
        unsigned size = next_number(&state) % 39 + 1;
        at += sprintf(at, "%x\r\n%.*s\r\n", size, (int) size, data);
    }
    at += sprintf(at, "0\r\n\r\n");
    chunked_bytes = at - chunked;
}

static int parse(const char *request, size_t size, size_t last)
{
    const char *method, *path;
    size_t method_bytes, path_bytes, headers_count = 32;
    int minor;
    struct phr_header headers[32];
    int result = phr_parse_request(request, size, &method, &method_bytes, &path, &path_bytes, &minor, headers, &headers_count, last);
    if (result > 0) {
        count++;
        hash = hash * 31 + path_bytes + method[0];
        for (size_t i = 0; i < headers_count; i++) {
            hash = hash * 31 + headers[i].name_len + headers[i].value[0];
        }
    }
    return result;
}

void pass(void)
{
    count = incomplete = 0;
    for (int i = 0; i < REQUESTS; i++) {
        size_t part = bytes[i] / 2;
        incomplete += parse(requests[i], part, 0) == -2;
        if (parse(requests[i], bytes[i], part) < 0 || parse(requests[i], bytes[i], 0) < 0) {
            fprintf(stderr, "a request was not parsed\n");
            abort();
        }
    }
    struct phr_chunked_decoder decoder = { .consume_trailer = 1 };
    size_t size = chunked_bytes;
    memcpy(copy, chunked, chunked_bytes);
    if (phr_decode_chunked(&decoder, copy, &size) != 0) {
        fprintf(stderr, "the chunks were not decoded\n");
        abort();
    }
    hash = fnv(hash, copy, size);
}

void tell(void)
{
    printf("%u requests, %u incomplete, %08x\n", count, incomplete, hash);
}
