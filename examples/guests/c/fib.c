// A reactor: no `main`, an exported function that a host calls many times.
// Recursive, so that it measures calls and returns; the compiler makes a loop of one of the two calls.
#include <stdint.h>

__attribute__((export_name("fib"))) int32_t fib(int32_t n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
