/* Big numbers by mini-gmp: digits of pi by a spigot, a modular power, and a common divisor. */
#include "program.h"
#include "mini-gmp.h"
#include <stdio.h>
#include <stdlib.h>

#define DIGITS 300

static char digits[DIGITS + 1];
static mpz_t power, divisor;
static unsigned long turn;

void prepare(void)
{
    mpz_init(power);
    mpz_init(divisor);
}

/* J. Gibbons, "Unbounded Spigot Algorithms for the Digits of Pi". */
static void spigot(void)
{
    mpz_t numerator, denominator, sum, a, b;
    mpz_init_set_ui(numerator, 1);
    mpz_init_set_ui(denominator, 1);
    mpz_init(sum);
    mpz_init(a);
    mpz_init(b);
    for (unsigned long k = 1, count = 0; count < DIGITS; k++) {
        mpz_addmul_ui(sum, numerator, 2);
        mpz_mul_ui(sum, sum, 2 * k + 1);
        mpz_mul_ui(denominator, denominator, 2 * k + 1);
        mpz_mul_ui(numerator, numerator, k);
        if (mpz_cmp(numerator, sum) > 0) {
            continue;
        }
        mpz_mul_ui(a, numerator, 3);
        mpz_add(a, a, sum);
        mpz_tdiv_qr(a, b, a, denominator);
        mpz_add(b, b, numerator);
        if (mpz_cmp(b, denominator) >= 0) {
            continue;
        }
        unsigned long digit = mpz_get_ui(a);
        digits[count++] = '0' + digit;
        mpz_submul_ui(sum, denominator, digit);
        mpz_mul_ui(sum, sum, 10);
        mpz_mul_ui(numerator, numerator, 10);
    }
    mpz_clear(numerator);
    mpz_clear(denominator);
    mpz_clear(sum);
    mpz_clear(a);
    mpz_clear(b);
}

void pass(void)
{
    spigot();
    mpz_t base, modulus, exponent;
    mpz_init_set_str(base, "123456789012345678901234567890123456789012345678901234567890123456789", 10);
    mpz_init(modulus);
    mpz_init(exponent);
    mpz_ui_pow_ui(modulus, 2, 521);
    mpz_sub_ui(modulus, modulus, 1);
    mpz_ui_pow_ui(exponent, 3, 200);
    mpz_add_ui(base, base, ++turn);
    mpz_powm(power, base, exponent, modulus);
    mpz_ui_pow_ui(exponent, 30030, 60);
    mpz_mul(base, base, exponent);
    mpz_gcd(divisor, base, power);
    mpz_clear(base);
    mpz_clear(modulus);
    mpz_clear(exponent);
}

void tell(void)
{
    char *text = mpz_get_str(NULL, 16, power), *common = mpz_get_str(NULL, 10, divisor);
    printf("%s\n%s\n%s\n", digits, text, common);
    free(text);
    free(common);
}
