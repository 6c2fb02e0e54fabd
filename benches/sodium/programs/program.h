/* The functions that main.c calls in each program. Each program is a file of its own, so that the
   compiler does not know how often main.c calls them. */
#include <stdint.h>

/* Sets up the input. Not timed. */
void prepare(void);
/* One timed pass. Each pass continues from the state that the last one left. */
void pass(void);
/* Prints the results, which the bench compares with the expected output. */
void tell(void);

/* Pseudo-random numbers, equal in each run: the upper half of a linear congruential generator. */
static inline uint32_t next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (*state >> 32);
}

/* CRC-16 with polynomial 0x8005, bit by bit, the least significant bit first. */
static inline uint16_t crc16(uint16_t crc, uint16_t value)
{
    crc ^= value;
    for (int bit = 0; bit < 16; bit++) {
        crc = crc & 1 ? crc >> 1 ^ 0xa001 : crc >> 1;
    }
    return crc;
}
