/* Runs a program: to print what it finds, or, as libsodium's test programs do it, so many times as ITERATIONS
   says, to print how many picoseconds once takes. */
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
    /* wasm3 does not come to what would do it at the end. */
    fflush(stdout);
    return 0;
}
#endif
