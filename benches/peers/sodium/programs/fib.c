/* Fibonacci numbers by their recursive definition. Measures calls and returns. */
#include "program.h"
#include <stdio.h>

static unsigned fib(unsigned n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

/* Volatile, so that the compiler cannot compute the result ahead of time. */
static volatile unsigned wanted = 24;
static unsigned found;

void prepare(void)
{
}

void pass(void)
{
    found = fib(wanted);
}

void tell(void)
{
    printf("fib of %u: %u\n", wanted, found);
}
