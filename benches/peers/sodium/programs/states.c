/* A state machine that classifies each word of a text as a kind of number, and counts how often it
   enters each state. */
#include "program.h"
#include <stdio.h>
#include <string.h>

#define TEXT 2048

enum state { START, SIGN, INTEGER, FRACTION, DOT, POWER, POWER_SIGN, SCIENTIFIC, INVALID, STATES };

static char text[TEXT];
static unsigned text_bytes;
static uint16_t crc;

static const char *const words[] = {
    "5012", "-874", "+122", "7", "1234567890", "35.54400", ".1234500", "-110.700", "+0.64400", "0.5",
    "5.500e+3", "-.123e-2", "-87e+832", "+0.6e-12", "1e9", "T0.3e-1F", "-T.T++Tq", "1T3.4e4z", "34.0e-T^", "..",
};

void prepare(void)
{
    uint64_t state = 5;
    for (;;) {
        const char *word = words[next_number(&state) % (sizeof words / sizeof words[0])];
        size_t length = strlen(word);
        if (text_bytes + length + 1 > TEXT) {
            break;
        }
        memcpy(text + text_bytes, word, length);
        text_bytes += length;
        text[text_bytes++] = ',';
    }
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The state after a character other than a comma. */
static enum state after(enum state state, char c)
{
    switch (state) {
    case START:
        return is_digit(c) ? INTEGER : c == '+' || c == '-' ? SIGN : c == '.' ? DOT : INVALID;
    case SIGN:
        return is_digit(c) ? INTEGER : c == '.' ? DOT : INVALID;
    case INTEGER:
        return is_digit(c) ? INTEGER : c == '.' ? FRACTION : c == 'e' || c == 'E' ? POWER : INVALID;
    case DOT:
        return is_digit(c) ? FRACTION : INVALID;
    case FRACTION:
        return is_digit(c) ? FRACTION : c == 'e' || c == 'E' ? POWER : INVALID;
    case POWER:
        return is_digit(c) ? SCIENTIFIC : c == '+' || c == '-' ? POWER_SIGN : INVALID;
    case POWER_SIGN:
    case SCIENTIFIC:
        return is_digit(c) ? SCIENTIFIC : INVALID;
    default:
        return INVALID;
    }
}

static void run(unsigned ends[STATES], unsigned entered[STATES])
{
    enum state state = START;
    for (unsigned at = 0; at < text_bytes; at++) {
        if (text[at] == ',') {
            ends[state]++;
            state = START;
            continue;
        }
        enum state next = after(state, text[at]);
        if (next != state) {
            entered[next]++;
        }
        state = next;
    }
}

static void spoil(unsigned step)
{
    for (unsigned at = 0; at < text_bytes; at += step) {
        if (text[at] != ',') {
            text[at] ^= 0x15;
        }
    }
}

/* Runs over the text, corrupts some characters, runs again, and restores those characters. */
void pass(void)
{
    unsigned ends[STATES] = {0}, entered[STATES] = {0};
    unsigned step = 23 + crc % 8;
    run(ends, entered);
    spoil(step);
    run(ends, entered);
    spoil(step);
    for (int state = 0; state < STATES; state++) {
        crc = crc16(crc, (uint16_t) ends[state]);
        crc = crc16(crc, (uint16_t) entered[state]);
    }
}

void tell(void)
{
    unsigned ends[STATES] = {0}, entered[STATES] = {0};
    run(ends, entered);
    printf("%u bytes: %u integers, %u fractions, %u scientific, %u invalid, CRC %04x\n", text_bytes, ends[INTEGER],
        ends[FRACTION], ends[SCIENTIFIC], ends[INVALID], crc);
}
