/* What main.c has each program do. They lie in files of their own, so that a compiler that sees one does not
   know how often it is called. */
#include <stdint.h>

/* What is not timed. */
void prepare(void);
/* What is timed, once. Each call finds what the call before has left. */
void pass(void);
/* Prints what there is to be right. */
void tell(void);

/* The same numbers everywhere: a linear congruential generator, of which the upper half is taken. */
static inline uint32_t next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (*state >> 32);
}

/* CRC-16 of polynomial 0x8005, bit by bit, least first. */
static inline uint16_t crc16(uint16_t crc, uint16_t value)
{
    crc ^= value;
    for (int bit = 0; bit < 16; bit++) {
        crc = crc & 1 ? crc >> 1 ^ 0xa001 : crc >> 1;
    }
    return crc;
}
