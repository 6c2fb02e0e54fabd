// A reactor: it has no `main`, and a host calls the exported function many times.
// The recursion measures calls and returns. The compiler turns one of the two calls into a loop.
#include <stdint.h>

__attribute__((export_name("fib"))) int32_t fib(int32_t n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
