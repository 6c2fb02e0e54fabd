// The C tour: uses everything that a command gets from its host and prints what it finds.
//
// rust/src/main.rs and go/tour/main.go do the same: after the first line all three print equal
// bytes for equal input (fixtures/tour.expected.txt). README.md, "The tour", describes the output,
// its order and the reasons.
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DATA "/data"
#define INPUT DATA "/input.txt"
#define MISSING DATA "/missing.txt"
#define OUT DATA "/out-c.txt"
#define OUT_PARTIAL DATA "/out-c.partial"

// Largest exit code that every WASI host returns unchanged.
enum { EXIT_CODE_MAX = 125 };

extern char **environ;

typedef struct {
    char *bytes;
    size_t len, cap;
} Buffer;

// Size, lines and hash of a byte stream: enough to distinguish two, and short to print.
typedef struct {
    size_t bytes, lines;
    uint64_t fnv1a;
} Digest;

__attribute__((noreturn)) static void fail(const char *doing, const char *what) {
    int reason = errno;
    fflush(stdout);
    fprintf(stderr, "tour: cannot %s %s: %s\n", doing, what, strerror(reason));
    exit(1);
}

static void reserve(Buffer *buffer, size_t more) {
    if (buffer->cap - buffer->len >= more) return;
    size_t cap = buffer->cap ? buffer->cap : 4096;
    while (cap - buffer->len < more) cap *= 2;
    buffer->bytes = realloc(buffer->bytes, cap);
    if (!buffer->bytes) fail("allocate", "a buffer");
    buffer->cap = cap;
}

static void append(Buffer *buffer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0) fail("format", "a line");
    reserve(buffer, (size_t)len + 1);
    va_start(args, format);
    vsnprintf(buffer->bytes + buffer->len, (size_t)len + 1, format, args);
    va_end(args);
    buffer->len += (size_t)len;
}

static Buffer read_to_end(FILE *file, const char *name) {
    Buffer buffer = {0};
    for (;;) {
        reserve(&buffer, 4096);
        size_t got = fread(buffer.bytes + buffer.len, 1, buffer.cap - buffer.len, file);
        buffer.len += got;
        if (got == 0) break;
    }
    if (ferror(file)) fail("read", name);
    return buffer;
}

static Buffer read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("open", path);
    Buffer buffer = read_to_end(file, path);
    fclose(file);
    return buffer;
}

static Digest digest(const Buffer *buffer) {
    Digest d = {.bytes = buffer->len, .fnv1a = 0xcbf29ce484222325};
    for (size_t i = 0; i < buffer->len; i++) {
        d.fnv1a = (d.fnv1a ^ (uint8_t)buffer->bytes[i]) * 0x100000001b3;
        d.lines += buffer->bytes[i] == '\n';
    }
    // A last line without a line feed counts too.
    if (buffer->len && buffer->bytes[buffer->len - 1] != '\n') d.lines++;
    return d;
}

static void print_digest(const char *name, Digest d) {
    printf("%s: %zu lines, %zu bytes, fnv1a %016" PRIx64 "\n", name, d.lines, d.bytes, d.fnv1a);
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t print_arguments(int argc, char **argv) {
    // Omit argv[0], the runner's name for the program, which differs between runners.
    size_t count = argc > 1 ? (size_t)argc - 1 : 0;
    printf("arguments: %zu\n", count);
    for (size_t i = 1; i <= count; i++) printf("  %zu: %s\n", i, argv[i]);
    return count;
}

static const char *print_environment(void) {
    const char *greeting = getenv("PIRN_GREETING");
    if (!greeting) greeting = "(none)";
    printf("greeting: %s\n", greeting);

    size_t count = 0;
    while (environ && environ[count]) count++;
    char **sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted) fail("allocate", "the environment");
    // Without variables `environ` may be null, which memcpy must not be given.
    if (count) memcpy(sorted, environ, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_bytes);
    printf("environment: %zu\n", count);
    for (size_t i = 0; i < count; i++) printf("  %s\n", sorted[i]);
    free(sorted);
    return greeting;
}

static void print_input(void) {
    Buffer input = read_file(INPUT);
    print_digest("file " INPUT, digest(&input));
    const char *feed = input.len ? memchr(input.bytes, '\n', input.len) : NULL;
    size_t first = feed ? (size_t)(feed - input.bytes) : input.len;
    printf("  first line: %.*s\n", (int)first, input.bytes);
    struct stat about;
    if (stat(INPUT, &about)) fail("stat", INPUT);
    printf("  stat: %" PRIu64 " bytes\n", (uint64_t)about.st_size);
    free(input.bytes);

    FILE *missing = fopen(MISSING, "rb");
    if (missing) fclose(missing);
    printf("file " MISSING ": %s\n", missing ? "there" : errno == ENOENT ? "not found" : "other error");
}

static void print_directory(void) {
    DIR *dir = opendir(DATA);
    if (!dir) fail("open", DATA);
    char **names = NULL;
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        // Skip the file that an earlier tour wrote here.
        if (!strcmp(name, ".") || !strcmp(name, "..") || !strncmp(name, "out-", 4)) continue;
        names = realloc(names, (count + 1) * sizeof *names);
        if (!names || !(names[count++] = strdup(name))) fail("allocate", "a directory");
    }
    closedir(dir);
    if (count) qsort(names, count, sizeof *names, by_bytes);
    printf("directory " DATA ": %zu entries\n", count);
    for (size_t i = 0; i < count; i++) {
        Buffer path = {0};
        append(&path, DATA "/%s", names[i]);
        struct stat about;
        if (stat(path.bytes, &about)) fail("stat", path.bytes);
        if (S_ISDIR(about.st_mode)) printf("  %s: directory\n", names[i]);
        else printf("  %s: %" PRIu64 " bytes\n", names[i], (uint64_t)about.st_size);
        free(path.bytes);
        free(names[i]);
    }
    free(names);
}

// Writes a temporary file and renames it, so that the old file is replaced atomically.
static void write_back(const Buffer *report) {
    FILE *file = fopen(OUT_PARTIAL, "wb");
    if (!file) fail("create", OUT_PARTIAL);
    if (fwrite(report->bytes, 1, report->len, file) != report->len || fclose(file)) fail("write", OUT_PARTIAL);
    if (rename(OUT_PARTIAL, OUT)) fail("rename", OUT_PARTIAL);

    Buffer again = read_file(OUT);
    bool same = again.len == report->len && !memcmp(again.bytes, report->bytes, again.len);
    print_digest("written", digest(report));
    printf("  read back: %s\n", same ? "the same" : "different");
    free(again.bytes);
}

static void print_clock(void) {
    struct timespec before, after, pause = {.tv_nsec = 2000000};
    if (clock_gettime(CLOCK_MONOTONIC, &before)) fail("read", "the clock");
    if (nanosleep(&pause, NULL)) fail("sleep", "2 ms");
    if (clock_gettime(CLOCK_MONOTONIC, &after)) fail("read", "the clock");
    int64_t ns = (int64_t)(after.tv_sec - before.tv_sec) * 1000000000 + (after.tv_nsec - before.tv_nsec);
    // Expect half of the requested time: some hosts count whole milliseconds.
    printf("clock: a sleep of 2 ms took %s\n", ns >= 1000000 ? "its time" : "less than 1 ms");
}

static int exit_code(void) {
    const char *text = getenv("PIRN_EXIT");
    if (!text) return 0;
    size_t len = strlen(text);
    if (len >= 1 && len <= 3 && strspn(text, "0123456789") == len && atoi(text) <= EXIT_CODE_MAX) return atoi(text);
    fprintf(stderr, "tour: PIRN_EXIT is \"%s\"; give a number from 0 to %d\n", text, EXIT_CODE_MAX);
    exit(2);
}

int main(int argc, char **argv) {
    int code = exit_code();
    printf("language: C\n");
    size_t arguments = print_arguments(argc, argv);
    const char *greeting = print_environment();
    print_input();
    Buffer input = read_to_end(stdin, "stdin");
    Digest standard_input = digest(&input);
    print_digest("stdin", standard_input);
    print_directory();
    Buffer report = {0};
    append(&report, "%s\narguments: %zu\nstdin: %zu lines, %zu bytes\n", greeting, arguments,
           standard_input.lines, standard_input.bytes);
    write_back(&report);
    print_clock();
    if (fflush(stdout)) fail("write", "stdout");
    fprintf(stderr, "tour: exit %d\n", code);
    return code;
}
