// A reactor: no `main`, an exported function that a host calls many times.
// Recursive, to measure calls and returns; the compiler turns one of the two calls into a loop.
#include <stdint.h>

__attribute__((export_name("fib"))) int32_t fib(int32_t n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
