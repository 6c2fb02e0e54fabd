/* Reverses prefixes of all permutations of nine numbers until the first number is 1, as "fannkuch"
   does. Permutations are made by rotating prefixes. */
#include "program.h"
#include <stdio.h>
#include <string.h>

#define COUNT 9

static int first[COUNT];
static int most, checksum;

void prepare(void)
{
    for (int i = 0; i < COUNT; i++) {
        first[i] = i;
    }
}

static int flips_of(const int *permutation)
{
    int numbers[COUNT], flips = 0;
    memcpy(numbers, permutation, sizeof numbers);
    for (int top; (top = numbers[0]) != 0; flips++) {
        for (int low = 0, high = top; low < high; low++, high--) {
            int kept = numbers[low];
            numbers[low] = numbers[high];
            numbers[high] = kept;
        }
    }
    return flips;
}

void pass(void)
{
    int permutation[COUNT], rotations[COUNT] = { 0 };
    memcpy(permutation, first, sizeof permutation);
    most = 0;
    for (int even = 1;; even = !even) {
        int flips = flips_of(permutation);
        most = flips > most ? flips : most;
        checksum += even ? flips : -flips;
        int prefix = 1;
        for (; prefix < COUNT; prefix++) {
            int kept = permutation[0];
            memmove(permutation, permutation + 1, prefix * sizeof *permutation);
            permutation[prefix] = kept;
            if (++rotations[prefix] <= prefix) {
                break;
            }
            rotations[prefix] = 0;
        }
        if (prefix == COUNT) {
            return;
        }
    }
}

void tell(void)
{
    printf("%d flips at most, checksum %d\n", most, checksum);
}
