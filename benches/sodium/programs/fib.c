/* Fibonacci numbers by their definition: calls, and little else. */
#include "program.h"
#include <stdio.h>

static unsigned fib(unsigned n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

/* Volatile, so that nobody computes it once and for all. */
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
