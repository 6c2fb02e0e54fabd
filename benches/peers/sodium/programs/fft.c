/* A fast Fourier transform of 4096 complex doubles, there and back, by radix 2 in place. */
#include "program.h"
#include <math.h>
#include <stdio.h>

#define BITS 12
#define POINTS (1 << BITS)

typedef struct {
    double real, imaginary;
} complex_number;

static complex_number points[POINTS], roots[POINTS / 2];

void prepare(void)
{
    uint64_t state = 21;
    for (int i = 0; i < POINTS; i++) {
        points[i].real = next_number(&state) * 0x1p-32;
        points[i].imaginary = next_number(&state) * 0x1p-32;
    }
    /* Square roots of earlier roots, because the C libraries' sines differ. */
    complex_number step[BITS] = { { -1, 0 } };
    for (int bit = 1; bit < BITS; bit++) {
        step[bit].real = sqrt((1 + step[bit - 1].real) / 2);
        step[bit].imaginary = sqrt((1 - step[bit - 1].real) / 2);
    }
    for (int i = 0; i < POINTS / 2; i++) {
        complex_number root = { 1, 0 };
        for (int bit = 0; bit < BITS - 1; bit++) {
            if (i >> bit & 1) {
                complex_number factor = step[BITS - 1 - bit];
                double real = root.real * factor.real - root.imaginary * factor.imaginary;
                root.imaginary = root.real * factor.imaginary + root.imaginary * factor.real;
                root.real = real;
            }
        }
        roots[i] = root;
    }
}

static void transform(double sign)
{
    for (unsigned i = 0, reversed = 0; i < POINTS; i++) {
        if (i < reversed) {
            complex_number kept = points[i];
            points[i] = points[reversed];
            points[reversed] = kept;
        }
        unsigned bit = POINTS / 2;
        for (; reversed & bit; bit /= 2) {
            reversed ^= bit;
        }
        reversed |= bit;
    }
    for (int half = 1; half < POINTS; half *= 2) {
        int stride = POINTS / 2 / half;
        for (int start = 0; start < POINTS; start += 2 * half) {
            complex_number *low = points + start, *high = low + half;
            for (int i = 0; i < half; i++) {
                complex_number root = roots[i * stride];
                root.imaginary *= sign;
                double real = high[i].real * root.real - high[i].imaginary * root.imaginary;
                double imaginary = high[i].real * root.imaginary + high[i].imaginary * root.real;
                high[i].real = low[i].real - real;
                high[i].imaginary = low[i].imaginary - imaginary;
                low[i].real += real;
                low[i].imaginary += imaginary;
            }
        }
    }
}

void pass(void)
{
    transform(1);
    transform(-1);
    for (int i = 0; i < POINTS; i++) {
        points[i].real /= POINTS;
        points[i].imaginary /= POINTS;
    }
}

void tell(void)
{
    printf("%.12f %.12f\n", points[1].real, points[POINTS - 1].imaginary);
}
