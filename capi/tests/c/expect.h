/* Expectations of the test programs in C: each one that fails is printed and counted. */

#ifndef EXPECT_H
#define EXPECT_H

#include <pirn.h>
#include <stdio.h>
#include <string.h>

static int failures;

/* The error must be of kind `wanted`, and its message must contain `text`. */
static void expect_at(int line, pirn_error_kind_t wanted, const char *text, pirn_error_t *error) {
    const char *message = pirn_error_message(error);
    if (pirn_error_kind(error) != wanted || strstr(message, text) == NULL) {
        fprintf(stderr, "line %d: kind %u, not %u %s: %s\n", line,
                (unsigned)pirn_error_kind(error), (unsigned)wanted, text,
                pirn_error_report(error));
        failures++;
    }
    if (strchr(message, '\n') != NULL) {
        fprintf(stderr, "line %d: message of several lines\n", line);
        failures++;
    }
    pirn_error_delete(error);
}

#define OK(error) expect_at(__LINE__, PIRN_OK, "", error)
#define THAT(fact)                                                 \
    do {                                                           \
        if (!(fact)) {                                             \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #fact); \
            failures++;                                            \
        }                                                          \
    } while (0)

#endif
