/* Matrices of floats, multiplied by vectors of four: the compiler's vector types, which become
   SSE natively and SIMD in WebAssembly. */
#include "program.h"
#include <stdio.h>
#include <string.h>

#define SIZE 128

typedef float four __attribute__((vector_size(16)));

static float a[SIZE][SIZE] __attribute__((aligned(16))), b[SIZE][SIZE] __attribute__((aligned(16)));
static float product[SIZE][SIZE] __attribute__((aligned(16)));

void prepare(void)
{
    uint64_t state = 31;
    for (int row = 0; row < SIZE; row++) {
        for (int column = 0; column < SIZE; column++) {
            a[row][column] = (next_number(&state) >> 24) / 256.f;
            b[row][column] = (next_number(&state) >> 24) / 256.f;
        }
    }
}

void pass(void)
{
    for (int row = 0; row < SIZE; row++) {
        for (int column = 0; column < SIZE; column += 16) {
            four sums[4] = { { 0 } };
            for (int i = 0; i < SIZE; i++) {
                float factor = a[row][i];
                const four *from = (const four *) &b[i][column];
                for (int part = 0; part < 4; part++) {
                    sums[part] += factor * from[part];
                }
            }
            memcpy(&product[row][column], sums, sizeof sums);
        }
    }
    a[0][0] += 1;
}

void tell(void)
{
    printf("%08x %.9g\n", fnv(0, product, sizeof product), product[0][0]);
}
