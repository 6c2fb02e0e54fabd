// A guest for the tests of debug information (`-g`): one function is called, one is inlined from
// another file, and one is removed by the linker.
#include "lines.h"
#include <stdint.h>

static int32_t squares;

__attribute__((noinline)) static int32_t square(int32_t x) {
    squares++;
    return x * x;
}

__attribute__((export_name("sum"))) int32_t sum(const int32_t *values, int32_t count) {
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        total += clamp(values[i]);
    }
    return total;
}

__attribute__((export_name("work"))) int32_t work(int32_t rounds) {
    int32_t total = 0;
    for (int32_t i = 0; i < rounds; i++) {
        total ^= square(i) + clamp(total);
    }
    return total / (squares - clamped);
}

// Unused: the linker removes the code and keeps the debug information.
int32_t dropped(int32_t x) {
    return x / 7;
}
