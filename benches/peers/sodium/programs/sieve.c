/* The sieve of Eratosthenes over bytes. */
#include "program.h"
#include <stdio.h>
#include <string.h>

#define LIMIT 200000

static unsigned char composite[LIMIT];
static unsigned passes, primes, last;

void prepare(void)
{
}

void pass(void)
{
    unsigned limit = LIMIT - ++passes % 64;
    memset(composite, 0, limit);
    primes = 0;
    for (unsigned number = 2; number < limit; number++) {
        if (composite[number]) {
            continue;
        }
        primes++;
        last = number;
        for (unsigned multiple = 2 * number; multiple < limit; multiple += number) {
            composite[multiple] = 1;
        }
    }
}

void tell(void)
{
    printf("%u primes, the last is %u\n", primes, last);
}
