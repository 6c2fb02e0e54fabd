/* Arithmetic on small matrices of 16-bit integers with 32-bit results: adds and multiplies by a
   constant, a vector and a matrix, and sums bit fields of products. */
#include "program.h"
#include <stdio.h>

#define N 24

static int16_t a[N][N], b[N][N];
static int32_t c[N][N];
static uint16_t crc;

void prepare(void)
{
    uint64_t state = 4;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            a[i][j] = (int16_t) (next_number(&state) % 200 - 100);
            b[i][j] = (int16_t) (next_number(&state) % 200 - 100);
        }
    }
}

static void add(int16_t value)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            a[i][j] = (int16_t) (a[i][j] + value);
        }
    }
}

static void scale(int16_t by)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            c[i][j] = a[i][j] * by;
        }
    }
}

static void multiply_vector(void)
{
    for (int i = 0; i < N; i++) {
        c[0][i] = 0;
        for (int j = 0; j < N; j++) {
            c[0][i] += a[i][j] * b[0][j];
        }
    }
}

static void multiply(void)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            int32_t sum = 0;
            for (int k = 0; k < N; k++) {
                sum += a[i][k] * b[k][j];
            }
            c[i][j] = sum;
        }
    }
}

static void multiply_bits(void)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            int32_t sum = 0;
            for (int k = 0; k < N; k++) {
                int32_t product = a[i][k] * b[k][j];
                sum += (product >> 2 & 0xf) * (product >> 5 & 0x7f);
            }
            c[i][j] = sum;
        }
    }
}

/* Counts elements greater than their predecessor, and sums that exceed a limit. A sum that exceeds
   the limit restarts from 0. Adds the count to the CRC. */
static void take(int32_t limit)
{
    int32_t sum = 0, last = 0;
    int16_t result = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            sum += c[i][j];
            if (sum > limit) {
                result = (int16_t) (result + 10);
                sum = 0;
            } else {
                result = (int16_t) (result + (c[i][j] > last));
            }
            last = c[i][j];
        }
    }
    crc = crc16(crc, (uint16_t) result);
}

void pass(void)
{
    int16_t value = (int16_t) (crc % 50 + 1);
    add(value);
    scale(value);
    take(1000);
    multiply_vector();
    take(5000);
    multiply();
    take(20000);
    multiply_bits();
    take(20000);
    add((int16_t) -value);
}

void tell(void)
{
    printf("matrices of %d: CRC %04x\n", N, crc);
}
