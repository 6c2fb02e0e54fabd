/* The functions that main.c calls in each program. Each program is a file of its own, so that the
   compiler does not know how often main.c calls them. */
#include <stddef.h>
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

/* FNV-1a over `bytes` of `data`, continued from `hash`; 0 starts a new one. */
static inline uint32_t fnv(uint32_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *) data;
    hash = hash ? hash : 0x811c9dc5;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * 0x01000193;
    }
    return hash;
}

/* A word of a small vocabulary; the first ones are the most frequent, as in a language. */
static inline const char *next_word(uint64_t *state)
{
    static const char *const words[] = {
        "the", "of", "and", "a", "to", "in", "is", "was", "it", "for", "with", "as", "his", "on", "be", "at",
        "server", "request", "memory", "compiler", "instance", "answer", "between", "function", "table", "module",
        "every", "morning", "ships", "harbour", "measure", "distance", "na\xc3\xafve", "stra\xc3\x9f" "e", "hundred",
        "thousand", "quickly", "language", "question", "international", "neighbour", "engine", "throughput", "yellow",
        "winter", "mountain", "letters", "remember",
    };
    const unsigned count = sizeof words / sizeof words[0];
    unsigned a = next_number(state) % count, b = next_number(state) % count;
    return words[a < b ? a : b];
}

/* Writes sentences of exactly `bytes` to `to`, without a terminator. */
static inline void write_text(char *to, size_t bytes, uint64_t *state)
{
    for (size_t at = 0, column = 0; at < bytes;) {
        for (const char *word = next_word(state); *word && at < bytes; word++) {
            to[at++] = *word;
            column++;
        }
        unsigned end = next_number(state) % 16;
        if (end == 0 && at < bytes) {
            to[at++] = column % 2 ? ',' : '.';
        }
        if (at < bytes) {
            to[at++] = column > 90 ? (column = 0, '\n') : ' ';
        }
    }
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
