// The guest of test.sh. The first argument selects a test.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Opens a file for reading and writing. Prints the result.
static int probe(const char *path) {
    int fd = open(path, O_RDWR);
    printf("%s: %s\n", path, fd < 0 ? strerror(errno) : "opened");
    return fd < 0;
}

static int list(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) {
        printf("%s: %s\n", path, strerror(errno));
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') printf("%s\n", entry->d_name);
    closedir(dir);
    return 0;
}

// Writes to `mib` MiB of memory.
static int use(size_t mib) {
    for (size_t i = 0; i < mib; i++) {
        volatile char *piece = malloc(1 << 20);
        if (!piece) {
            printf("no memory after %zu MiB\n", i);
            return 1;
        }
        for (size_t at = 0; at < 1 << 20; at += 4096) piece[at] = 1;
    }
    printf("used %zu MiB\n", mib);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const char *with = argc > 2 ? argv[2] : "";
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(what, "exit")) return atoi(with);
    if (!strcmp(what, "trap")) __builtin_trap();
    if (!strcmp(what, "open")) return probe(with);
    if (!strcmp(what, "list")) return list(with);
    if (!strcmp(what, "use")) return use((size_t)atoi(with));
    if (!strcmp(what, "env")) {
        const char *value = getenv(with);
        puts(value ? value : "(none)");
        return 0;
    }
    if (!strcmp(what, "spin")) {
        puts("spinning");
        for (volatile int i = 0;; i++) {
        }
    }
    if (!strcmp(what, "sleep")) {
        puts("sleeping");
        for (;;) sleep(3600);
    }
    fprintf(stderr, "probe: unknown %s\n", what);
    return 2;
}
