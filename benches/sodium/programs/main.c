/* Runs a program and prints its results. With BENCHMARKS, runs ITERATIONS passes and prints the
   picoseconds of one pass, as libsodium's test programs do. */
#include "program.h"
#include <stdio.h>
#include <time.h>

#ifdef BENCHMARKS
static unsigned long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

int main(void)
{
    prepare();
    unsigned long long start_ns = now_ns();
    for (unsigned i = 0; i < ITERATIONS; i++) {
        pass();
    }
    printf("%llu\n", 1000 * (now_ns() - start_ns) / ITERATIONS);
    return 0;
}
#else
int main(void)
{
    prepare();
    pass();
    tell();
    pass();
    tell();
    /* wasm3 ends the program before the C library flushes its buffers at exit. */
    fflush(stdout);
    return 0;
}
#endif
