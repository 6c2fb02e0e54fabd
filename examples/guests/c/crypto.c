// SHA-1, SHA-256, AES-128 in counter mode, GHASH and CRC-32C with the x86 intrinsics of
// immintrin.h, here from compiler/include/. The functions work on the memory at `buffer`, which the
// host fills. The module imports only the instructions.
//
// Sources: FIPS 180-4, FIPS 197, SP 800-38A and 800-38D; RFC 3720, B.4. The Intel SDM, volume 2,
// describes the instructions by name.
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(name)))

// The host writes input here and reads output.
static uint8_t memory[1 << 20] __attribute__((aligned(16)));

EXPORT("buffer") void *buffer(void) { return memory; }

static inline __m128i load(const void *from) { return _mm_loadu_si128(from); }
static inline void store(void *to, __m128i a) { _mm_storeu_si128(to, a); }

// ------------------------------------------------------------------------------------------- SHA-1

// Four words of big-endian bytes; the first one is in the highest lane.
static inline __m128i words_from_top(const uint8_t *from) {
    return _mm_shuffle_epi8(load(from), _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

// `state`: a, b, c, d, e. `blocks` of 64 bytes each.
EXPORT("sha1") void sha1(uint32_t *state, const uint8_t *from, size_t blocks) {
    __m128i abcd = _mm_shuffle_epi32(load(state), _MM_SHUFFLE(0, 1, 2, 3));
    __m128i e = _mm_set_epi32((int32_t)state[4], 0, 0, 0);
    for (; blocks > 0; blocks--, from += 64) {
        const __m128i abcd_before = abcd, e_before = e;
        __m128i w[4], last = abcd;
        for (int i = 0; i < 4; i++) {
            w[i] = words_from_top(from + 16 * i);
        }
        // Four rounds with the words of group i. The next group's e is abcd before these rounds.
#define ROUNDS(i, f) \
    do { \
        __m128i sum = (i) == 0 ? _mm_add_epi32(e, w[0]) : _mm_sha1nexte_epu32(last, w[(i) % 4]); \
        last = abcd; \
        abcd = _mm_sha1rnds4_epu32(abcd, sum, (f)); \
        if ((i) >= 3 && (i) < 19) { \
            __m128i next = _mm_xor_si128(_mm_sha1msg1_epu32(w[((i) + 1) % 4], w[((i) + 2) % 4]), w[((i) + 3) % 4]); \
            w[((i) + 1) % 4] = _mm_sha1msg2_epu32(next, w[(i) % 4]); \
        } \
    } while (0)
        ROUNDS(0, 0); ROUNDS(1, 0); ROUNDS(2, 0); ROUNDS(3, 0); ROUNDS(4, 0);
        ROUNDS(5, 1); ROUNDS(6, 1); ROUNDS(7, 1); ROUNDS(8, 1); ROUNDS(9, 1);
        ROUNDS(10, 2); ROUNDS(11, 2); ROUNDS(12, 2); ROUNDS(13, 2); ROUNDS(14, 2);
        ROUNDS(15, 3); ROUNDS(16, 3); ROUNDS(17, 3); ROUNDS(18, 3); ROUNDS(19, 3);
#undef ROUNDS
        e = _mm_sha1nexte_epu32(last, e_before);
        abcd = _mm_add_epi32(abcd, abcd_before);
    }
    store(state, _mm_shuffle_epi32(abcd, _MM_SHUFFLE(0, 1, 2, 3)));
    state[4] = (uint32_t)_mm_extract_epi32(e, 3);
}

// ----------------------------------------------------------------------------------------- SHA-256

static const uint32_t K256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

// `state`: a to h. `blocks` of 64 bytes each.
EXPORT("sha256") void sha256(uint32_t *state, const uint8_t *from, size_t blocks) {
    const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i badc = _mm_shuffle_epi32(load(state), _MM_SHUFFLE(2, 3, 0, 1));
    __m128i hgfe = _mm_shuffle_epi32(load(state + 4), _MM_SHUFFLE(0, 1, 2, 3));
    __m128i abef = _mm_alignr_epi8(badc, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
    for (; blocks > 0; blocks--, from += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++) {
            w[i] = _mm_shuffle_epi8(load(from + 16 * i), swap);
        }
        // Four rounds with the words of group i. The words of group i + 4 then replace these words.
#pragma unroll
        for (int i = 0; i < 16; i++) {
            __m128i sum = _mm_add_epi32(w[i % 4], load(K256 + 4 * i));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
            if (i < 12) {
                __m128i middle = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
                __m128i next = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), middle);
                w[i % 4] = _mm_sha256msg2_epu32(next, w[(i + 3) % 4]);
            }
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, _MM_SHUFFLE(0, 1, 2, 3));
    __m128i dchg = _mm_shuffle_epi32(cdgh, _MM_SHUFFLE(2, 3, 0, 1));
    store(state, _mm_blend_epi16(feba, dchg, 0xf0));
    store(state + 4, _mm_alignr_epi8(dchg, feba, 8));
}

// --------------------------------------------------------------------------- AES-128, counter mode

static inline __m128i next_key(__m128i key, __m128i assist) {
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, _mm_shuffle_epi32(assist, _MM_SHUFFLE(3, 3, 3, 3)));
}

// `keys`: room for eleven keys. `key`: 16 bytes.
EXPORT("aes128_keys") void aes128_keys(__m128i *keys, const uint8_t *key) {
    keys[0] = load(key);
#define NEXT(i, rcon) keys[i] = next_key(keys[(i) - 1], _mm_aeskeygenassist_si128(keys[(i) - 1], (rcon)))
    NEXT(1, 0x01); NEXT(2, 0x02); NEXT(3, 0x04); NEXT(4, 0x08); NEXT(5, 0x10);
    NEXT(6, 0x20); NEXT(7, 0x40); NEXT(8, 0x80); NEXT(9, 0x1b); NEXT(10, 0x36);
#undef NEXT
}

#define LANES 8

// `counter`: 16 bytes. The last four are a big-endian number, incremented for each block. Encrypts
// or decrypts `blocks` of 16 bytes in place.
EXPORT("aes128_ctr") void aes128_ctr(const __m128i *keys, uint8_t *counter, uint8_t *data, size_t blocks) {
    const __m128i reverse = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i next = _mm_shuffle_epi8(load(counter), reverse);
    const __m128i one = _mm_set_epi32(0, 0, 0, 1);
    __m128i b[LANES];
    for (; blocks >= LANES; blocks -= LANES, data += 16 * LANES) {
#define EACH _Pragma("unroll") for (int i = 0; i < LANES; i++)
        __m128i key = load(keys);
        EACH {
            b[i] = _mm_xor_si128(_mm_shuffle_epi8(next, reverse), key);
            next = _mm_add_epi32(next, one);
        }
#pragma unroll
        for (int round = 1; round < 10; round++) {
            key = load(keys + round);
            EACH b[i] = _mm_aesenc_si128(b[i], key);
        }
        key = load(keys + 10);
        EACH {
            // Combining the data with the last key shortens the dependency chain by one step.
            __m128i last = _mm_xor_si128(key, load(data + 16 * i));
            store(data + 16 * i, _mm_aesenclast_si128(b[i], last));
        }
#undef EACH
    }
    for (; blocks > 0; blocks--, data += 16) {
        __m128i a = _mm_xor_si128(_mm_shuffle_epi8(next, reverse), load(keys));
        next = _mm_add_epi32(next, one);
        for (int round = 1; round < 10; round++) {
            a = _mm_aesenc_si128(a, load(keys + round));
        }
        store(data, _mm_xor_si128(_mm_aesenclast_si128(a, load(keys + 10)), load(data)));
    }
    store(counter, _mm_shuffle_epi8(next, reverse));
}

// ------------------------------------------------------------------------------------------- GHASH

// Numbers are bit-reversed, so a product is one bit short; the key compensates for that.
typedef struct {
    __m128i low, middle, high;
} product;

static inline product multiply(__m128i a, __m128i b) {
    product p = {
        _mm_clmulepi64_si128(a, b, 0x00),
        _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x01), _mm_clmulepi64_si128(a, b, 0x10)),
        _mm_clmulepi64_si128(a, b, 0x11),
    };
    return p;
}

static inline product add(product a, product b) {
    product p = {_mm_xor_si128(a.low, b.low), _mm_xor_si128(a.middle, b.middle), _mm_xor_si128(a.high, b.high)};
    return p;
}

// Reduces modulo x^128 + x^7 + x^2 + x + 1, 64 bits at a time.
static inline __m128i reduce(product p) {
    const __m128i polynomial = _mm_set_epi64x(0, (int64_t)0xc200000000000000);
    __m128i low = _mm_xor_si128(p.low, _mm_slli_si128(p.middle, 8));
    __m128i high = _mm_xor_si128(p.high, _mm_srli_si128(p.middle, 8));
    for (int i = 0; i < 2; i++) {
        __m128i times = _mm_clmulepi64_si128(low, polynomial, 0x00);
        low = _mm_xor_si128(_mm_shuffle_epi32(low, _MM_SHUFFLE(1, 0, 3, 2)), times);
    }
    return _mm_xor_si128(low, high);
}

// `powers`: room for four powers. `h`: 16 bytes.
EXPORT("ghash_key") void ghash_key(__m128i *powers, const uint8_t *h) {
    const __m128i reverse = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i key = _mm_shuffle_epi8(load(h), reverse);
    uint64_t low = (uint64_t)_mm_extract_epi64(key, 0), high = (uint64_t)_mm_extract_epi64(key, 1);
    uint64_t carry = -(high >> 63);
    powers[0] = _mm_set_epi64x((int64_t)((high << 1 | low >> 63) ^ (carry & 0xc200000000000000)), (int64_t)(low << 1 ^ (carry & 1)));
    for (int i = 1; i < 4; i++) {
        powers[i] = reduce(multiply(powers[i - 1], powers[0]));
    }
}

// `sum`: 16 bytes, to which `blocks` of 16 bytes are added.
EXPORT("ghash") void ghash(const __m128i *powers, uint8_t *sum, const uint8_t *from, size_t blocks) {
    const __m128i reverse = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i x = _mm_shuffle_epi8(load(sum), reverse);
#define BLOCK(i) _mm_shuffle_epi8(load(from + 16 * (i)), reverse)
    for (; blocks >= 4; blocks -= 4, from += 64) {
        product p = multiply(_mm_xor_si128(x, BLOCK(0)), powers[3]);
        p = add(p, multiply(BLOCK(1), powers[2]));
        p = add(p, multiply(BLOCK(2), powers[1]));
        p = add(p, multiply(BLOCK(3), powers[0]));
        x = reduce(p);
    }
    for (; blocks > 0; blocks--, from += 16) {
        x = reduce(multiply(_mm_xor_si128(x, BLOCK(0)), powers[0]));
    }
#undef BLOCK
    store(sum, _mm_shuffle_epi8(x, reverse));
}

// ----------------------------------------------------------------------------------------- CRC-32C

// Bytes of each of three interleaved streams. The instruction has a latency of three cycles and a
// throughput of one a cycle.
#define STREAM 1024
// x to the power of 8 n - 33, bit-reversed, where n is the bytes of one stream, or of two. The
// product with this factor advances a checksum over n zero bytes.
#define ADVANCE_ONE 0x170076fa
#define ADVANCE_TWO 0xa51b6135

static inline uint64_t word(const uint8_t *from) {
    uint64_t word;
    __builtin_memcpy(&word, from, 8);
    return word;
}

static inline uint64_t advance(uint64_t crc, int64_t by) {
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi64_si128(by), 0x00);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

// Continues a checksum over `bytes` more bytes. `before` is the checksum so far, at first 0.
EXPORT("crc32c") uint32_t crc32c(uint32_t before, const uint8_t *from, size_t bytes) {
    uint64_t crc = ~before;
    for (; bytes >= 3 * STREAM; bytes -= 3 * STREAM, from += 3 * STREAM) {
        uint64_t second = 0, third = 0;
        for (const uint8_t *at = from; at < from + STREAM; at += 64) {
#pragma unroll
            for (int i = 0; i < 64; i += 8) {
                crc = _mm_crc32_u64(crc, word(at + i));
                second = _mm_crc32_u64(second, word(at + i + STREAM));
                third = _mm_crc32_u64(third, word(at + i + 2 * STREAM));
            }
        }
        crc = advance(crc, ADVANCE_TWO) ^ advance(second, ADVANCE_ONE) ^ third;
    }
    for (; bytes >= 8; bytes -= 8, from += 8) {
        crc = _mm_crc32_u64(crc, word(from));
    }
    for (; bytes > 0; bytes--, from++) {
        crc = _mm_crc32_u8((uint32_t)crc, *from);
    }
    return ~(uint32_t)crc;
}
