/* SHA-256 by FIPS 180-4, in plain C. */
#include "program.h"
#include <stdio.h>
#include <string.h>

#define BLOCK 64
#define MESSAGE 16384

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t value, int by)
{
    return value >> by | value << (32 - by);
}

static void compress(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    for (int t = 0; t < 16; t++) {
        const unsigned char *at = block + 4 * t;
        w[t] = (uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 | (uint32_t) at[2] << 8 | at[3];
    }
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotated(w[t - 15], 7) ^ rotated(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotated(w[t - 2], 17) ^ rotated(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + constants[t] + w[t];
        uint32_t s0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

static void sha256(unsigned char digest[32], const unsigned char *message, size_t bytes)
{
    uint32_t state[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    size_t left = bytes;
    for (; left >= BLOCK; left -= BLOCK, message += BLOCK) {
        compress(state, message);
    }
    unsigned char last[2 * BLOCK] = {0};
    memcpy(last, message, left);
    last[left] = 0x80;
    size_t end = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    uint64_t bits = (uint64_t) bytes * 8;
    for (int i = 0; i < 8; i++) {
        last[end - 1 - i] = (unsigned char) (bits >> 8 * i);
    }
    for (size_t at = 0; at < end; at += BLOCK) {
        compress(state, last + at);
    }
    for (int i = 0; i < 32; i++) {
        digest[i] = (unsigned char) (state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

static unsigned char message[MESSAGE];

void prepare(void)
{
    uint64_t state = 2;
    for (int i = 0; i < MESSAGE; i++) {
        message[i] = (unsigned char) next_number(&state);
    }
}

/* The next message begins with this one's digest. */
void pass(void)
{
    unsigned char digest[32];
    sha256(digest, message, MESSAGE);
    memcpy(message, digest, sizeof digest);
}

static void print(const char *what, const unsigned char *digest)
{
    printf("SHA-256 of %s: ", what);
    for (int i = 0; i < 32; i++) {
        printf("%02x", digest[i]);
    }
    printf("\n");
}

void tell(void)
{
    unsigned char digest[32];
    sha256(digest, (const unsigned char *) "abc", 3);
    print("abc", digest);
    /* 56 bytes: the block has no room for the length, so the padding needs a second block. */
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    sha256(digest, (const unsigned char *) two, strlen(two));
    print("two blocks", digest);
    print("the message", message);
}
