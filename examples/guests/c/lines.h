// The function that the compiler inlines into functions of lines.c.
#include <stdint.h>

static int32_t clamped;

static inline int32_t clamp(int32_t x) {
    if (x > 1000) {
        clamped += x / 1000;
        return 1000;
    }
    return x;
}
