/* Runs a program. With an argument, which is a number of passes, prints the picoseconds of one pass
   by the program's own clock. Without one, runs two passes and prints their results. */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

int main(int count, char **arguments)
{
    prepare();
    if (count > 1) {
        unsigned long long passes = strtoull(arguments[1], NULL, 10);
        unsigned long long start_ns = now_ns();
        for (unsigned long long i = 0; i < passes; i++) {
            pass();
        }
        printf("%llu\n", 1000 * (now_ns() - start_ns) / passes);
    } else {
        for (int i = 0; i < 2; i++) {
            pass();
            tell();
        }
    }
    /* wasm3 ends the program before the C library flushes its buffers at exit. */
    fflush(stdout);
    return 0;
}
