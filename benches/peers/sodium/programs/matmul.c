/* The product of two matrices of doubles by plain loops. The innermost loop runs along rows. The
   numbers are small multiples of 1/8, so each sum is exact, whatever the order of additions. */
#include "program.h"
#include <stdio.h>

#define N 128

static double a[N][N], b[N][N], c[N][N];

void prepare(void)
{
    uint64_t state = 1;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            a[i][j] = (next_number(&state) % 256) / 8.0 - 16;
            b[i][j] = (next_number(&state) % 256) / 8.0 - 16;
        }
    }
}

void pass(void)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            c[i][j] = 0;
        }
        for (int k = 0; k < N; k++) {
            for (int j = 0; j < N; j++) {
                c[i][j] += a[i][k] * b[k][j];
            }
        }
    }
    /* Change an input of the next pass. */
    a[0][0] = -a[0][0];
}

void tell(void)
{
    double diagonal = 0, all = 0;
    for (int i = 0; i < N; i++) {
        diagonal += c[i][i];
        for (int j = 0; j < N; j++) {
            all += c[i][j] * ((i * 7 + j) % 16);
        }
    }
    printf("matrices of %d: corner %.6f, diagonal %.6f, weighted %.6f\n", N, c[0][0], diagonal, all);
}
