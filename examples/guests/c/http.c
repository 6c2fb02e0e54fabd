// Answers HTTP requests by path. ../README.md lists the paths. `guest.h` holds the bindings that
// build.sh generates.

#include "guest.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The bindings name each type and function in full.
#define TYPES(name) wasi_http_types_##name
#define BORROW(type, own) TYPES(borrow_##type)(own)

typedef TYPES(own_incoming_request_t) request_t;
typedef TYPES(own_response_outparam_t) out_t;
typedef TYPES(own_fields_t) fields_t;
typedef TYPES(own_incoming_body_t) incoming_t;
typedef wasi_io_streams_borrow_output_stream_t to_t;

// Where the pieces of a body go. Returns false to end.
typedef bool (*each_t)(void *context, uint8_t *bytes, size_t count);

static unsigned kept;

static void add(fields_t fields, const char *name, const void *value, size_t bytes) {
    guest_string_t key = {(uint8_t *)name, strlen(name)};
    TYPES(field_value_t) field = {(uint8_t *)value, bytes};
    TYPES(header_error_t) error;
    if (!TYPES(method_fields_append)(BORROW(fields, fields), &key, &field, &error)) abort();
}

static fields_t text_fields(void) {
    fields_t fields = TYPES(constructor_fields)();
    add(fields, "content-type", "text/plain", 10);
    return fields;
}

// A response whose body is being written.
typedef struct {
    TYPES(own_outgoing_body_t) body;
    wasi_io_streams_own_output_stream_t stream;
} answer_t;

static answer_t answer(out_t out, uint16_t status, fields_t fields) {
    answer_t answer;
    TYPES(own_outgoing_response_t) response = TYPES(constructor_outgoing_response)(fields);
    TYPES(borrow_outgoing_response_t) at = BORROW(outgoing_response, response);
    TYPES(result_own_outgoing_response_error_code_t) result = {.val.ok = response};
    if (!TYPES(method_outgoing_response_set_status_code)(at, status)) abort();
    if (!TYPES(method_outgoing_response_body)(at, &answer.body)) abort();
    TYPES(static_response_outparam_set)(out, &result);
    TYPES(borrow_outgoing_body_t) body = BORROW(outgoing_body, answer.body);
    if (!TYPES(method_outgoing_body_write)(body, &answer.stream)) abort();
    return answer;
}

// Writes pieces as large as the host takes at once, and waits for the last.
static bool write_all(void *context, uint8_t *bytes, size_t count) {
    to_t to = wasi_io_streams_borrow_output_stream(((answer_t *)context)->stream);
    wasi_io_streams_stream_error_t error;
    while (count > 0) {
        guest_list_u8_t piece = {bytes, count < 4096 ? count : 4096};
        if (!wasi_io_streams_method_output_stream_blocking_write_and_flush(to, &piece, &error)) {
            wasi_io_streams_stream_error_free(&error);
            return false;
        }
        bytes += piece.len;
        count -= piece.len;
    }
    return true;
}

static void end(answer_t answer, fields_t *trailers) {
    TYPES(error_code_t) error;
    wasi_io_streams_output_stream_drop_own(answer.stream);
    if (!TYPES(static_outgoing_body_finish)(answer.body, trailers, &error))
        TYPES(error_code_free)(&error);
}

static void text(out_t out, uint16_t status, const char *format, ...) {
    char line[100];
    va_list rest;
    va_start(rest, format);
    int bytes = vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    answer_t to = answer(out, status, text_fields());
    write_all(&to, (uint8_t *)line, bytes);
    end(to, NULL);
}

// Gives the pieces of a body to `each`, as they arrive.
static void each_piece(incoming_t body, each_t each, void *context) {
    wasi_io_streams_own_input_stream_t stream;
    wasi_io_streams_stream_error_t error;
    guest_list_u8_t piece;
    bool more = true;
    if (!TYPES(method_incoming_body_stream)(BORROW(incoming_body, body), &stream)) abort();
    wasi_io_streams_borrow_input_stream_t at = wasi_io_streams_borrow_input_stream(stream);
    while (more) {
        if (!wasi_io_streams_method_input_stream_blocking_read(at, 16384, &piece, &error)) {
            wasi_io_streams_stream_error_free(&error);
            break;
        }
        more = each(context, piece.ptr, piece.len);
        guest_list_u8_free(&piece);
    }
    wasi_io_streams_input_stream_drop_own(stream);
    TYPES(incoming_body_drop_own)(body);
}

static incoming_t request_body(request_t request) {
    incoming_t body;
    if (!TYPES(method_incoming_request_consume)(BORROW(incoming_request, request), &body)) abort();
    return body;
}

static void echo(request_t request, guest_string_t target, out_t out) {
    static const char *const names[] = {
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
    };
    TYPES(method_t) method;
    TYPES(method_incoming_request_method)(BORROW(incoming_request, request), &method);
    fields_t fields = TYPES(constructor_fields)();
    if (method.tag == WASI_HTTP_TYPES_METHOD_OTHER)
        add(fields, "x-method", method.val.other.ptr, method.val.other.len);
    else
        add(fields, "x-method", names[method.tag], strlen(names[method.tag]));
    add(fields, "x-path", target.ptr, target.len);
    TYPES(method_free)(&method);
    answer_t to = answer(out, 200, fields);
    each_piece(request_body(request), write_all, &to);
    end(to, NULL);
}

static int by_bytes(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void headers(request_t request, out_t out) {
    TYPES(list_tuple2_field_name_field_value_t) all;
    fields_t of = TYPES(method_incoming_request_headers)(BORROW(incoming_request, request));
    TYPES(method_fields_entries)(BORROW(fields, of), &all);
    TYPES(fields_drop_own)(of);
    char **lines = calloc(all.len + 1, sizeof *lines);
    for (size_t n = 0; n < all.len; n++) {
        guest_string_t name = all.ptr[n].f0;
        TYPES(field_value_t) value = all.ptr[n].f1;
        lines[n] = malloc(name.len + value.len + 4);
        sprintf(lines[n], "%.*s: %.*s\n", (int)name.len, (char *)name.ptr, (int)value.len,
                (char *)value.ptr);
    }
    qsort(lines, all.len, sizeof *lines, by_bytes);
    answer_t to = answer(out, 200, text_fields());
    for (size_t n = 0; n < all.len; n++) write_all(&to, (uint8_t *)lines[n], strlen(lines[n]));
    end(to, NULL);
}

static bool count_bytes(void *context, uint8_t *bytes, size_t count) {
    (void)bytes;
    *(size_t *)context += count;
    return true;
}

// Sends a GET request and waits for the response.
static bool fetch(char *url, TYPES(own_incoming_response_t) * response) {
    TYPES(scheme_t) scheme = {.tag = WASI_HTTP_TYPES_SCHEME_HTTP};
    if (strncmp(url, "https://", 8) == 0) scheme.tag = WASI_HTTP_TYPES_SCHEME_HTTPS;
    else if (strncmp(url, "http://", 7) != 0) return false;
    char *host = strchr(url, '/') + 2;
    size_t host_bytes = strcspn(host, "/");
    char *path = host[host_bytes] ? host + host_bytes : "/";
    guest_string_t authority = {(uint8_t *)host, host_bytes};
    guest_string_t target = {(uint8_t *)path, strlen(path)};
    TYPES(own_outgoing_request_t) request =
        TYPES(constructor_outgoing_request)(TYPES(constructor_fields)());
    TYPES(borrow_outgoing_request_t) at = BORROW(outgoing_request, request);
    if (!TYPES(method_outgoing_request_set_scheme)(at, &scheme) ||
        !TYPES(method_outgoing_request_set_authority)(at, &authority) ||
        !TYPES(method_outgoing_request_set_path_with_query)(at, &target)) {
        TYPES(outgoing_request_drop_own)(request);
        return false;
    }
    TYPES(own_future_incoming_response_t) future;
    TYPES(error_code_t) error;
    if (!wasi_http_outgoing_handler_handle(request, NULL, &future, &error)) {
        TYPES(error_code_free)(&error);
        return false;
    }
    TYPES(borrow_future_incoming_response_t) waiting = BORROW(future_incoming_response, future);
    TYPES(own_pollable_t) ready = TYPES(method_future_incoming_response_subscribe)(waiting);
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(ready));
    wasi_io_poll_pollable_drop_own(ready);
    TYPES(result_result_own_incoming_response_error_code_void_t) result;
    if (!TYPES(method_future_incoming_response_get)(waiting, &result) || result.is_err) abort();
    TYPES(future_incoming_response_drop_own)(future);
    if (result.val.ok.is_err) {
        TYPES(error_code_free)(&result.val.ok.val.err);
        return false;
    }
    *response = result.val.ok.val.ok;
    return true;
}

static void call(char *url, out_t out) {
    TYPES(own_incoming_response_t) response;
    if (!fetch(url, &response)) {
        text(out, 502, "no answer\n");
        return;
    }
    TYPES(borrow_incoming_response_t) at = BORROW(incoming_response, response);
    incoming_t body;
    if (!TYPES(method_incoming_response_consume)(at, &body)) abort();
    answer_t to = answer(out, TYPES(method_incoming_response_status)(at), text_fields());
    each_piece(body, write_all, &to);
    end(to, NULL);
    TYPES(incoming_response_drop_own)(response);
}

static void big(size_t bytes, out_t out) {
    static uint8_t piece[16384];
    memset(piece, 'x', sizeof piece);
    answer_t to = answer(out, 200, TYPES(constructor_fields)());
    while (bytes > 0) {
        size_t next = bytes < sizeof piece ? bytes : sizeof piece;
        if (!write_all(&to, piece, next)) break;
        bytes -= next;
    }
    end(to, NULL);
}

// The value of a parameter, with `%XX` replaced by bytes; or an empty string.
static char *parameter(const char *query, const char *name) {
    size_t name_bytes = strlen(name), bytes = 0;
    char *value = calloc(strlen(query) + 1, 1);
    while (strncmp(query, name, name_bytes) != 0 || query[name_bytes] != '=') {
        query = strchr(query, '&');
        if (!query++) return value;
    }
    for (query += name_bytes + 1; *query && *query != '&'; query++) {
        unsigned byte = (unsigned char)*query;
        if (*query == '%' && sscanf(query + 1, "%2x", &byte) == 1) query += 2;
        value[bytes++] = (char)byte;
    }
    return value;
}

void exports_wasi_http_incoming_handler_handle(request_t request, out_t out) {
    guest_string_t target = {NULL, 0};
    TYPES(method_incoming_request_path_with_query)(BORROW(incoming_request, request), &target);
    char *path = strndup((char *)target.ptr, target.len);
    char *query = strchr(path, '?');
    if (query) *query++ = 0;
    else query = "";
    if (strcmp(path, "/hello") == 0) {
        text(out, 200, "hello from C\n");
    } else if (strcmp(path, "/echo") == 0) {
        echo(request, target, out);
    } else if (strcmp(path, "/headers") == 0) {
        headers(request, out);
    } else if (strcmp(path, "/count") == 0) {
        size_t bytes = 0;
        each_piece(request_body(request), count_bytes, &bytes);
        text(out, 200, "%zu\n", bytes);
    } else if (strcmp(path, "/call") == 0) {
        call(parameter(query, "url"), out);
    } else if (strcmp(path, "/keep") == 0) {
        text(out, 200, "%u\n", ++kept);
    } else if (strcmp(path, "/fail") == 0) {
        __builtin_trap();
    } else if (strcmp(path, "/slow") == 0) {
        wasi_io_poll_own_pollable_t slept =
            wasi_clocks_monotonic_clock_subscribe_duration(50 * 1000 * 1000);
        wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(slept));
        wasi_io_poll_pollable_drop_own(slept);
        text(out, 200, "slept\n");
    } else if (strcmp(path, "/big") == 0) {
        big(strtoul(parameter(query, "n"), NULL, 10), out);
    } else if (strcmp(path, "/never") == 0) {
        TYPES(response_outparam_drop_own)(out);
    } else if (strcmp(path, "/trailers") == 0) {
        fields_t trailers = TYPES(constructor_fields)();
        add(trailers, "x-trailer", "last", 4);
        answer_t to = answer(out, 200, text_fields());
        write_all(&to, (uint8_t *)"body\n", 5);
        end(to, &trailers);
    } else {
        text(out, 404, "not found\n");
    }
    TYPES(incoming_request_drop_own)(request);
}
