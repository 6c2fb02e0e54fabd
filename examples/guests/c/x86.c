// What include/immintrin.h makes of Intel's intrinsics, by the names. A line each: the name, and a hash of what it
// computes of every value in a table. An argument is a name: its results are printed one by one.
//
// fixtures/x86.expected.txt is what the same prints on x86, by the compiler's own header:
//
//     clang -O2 -msse4.2 -maes -mpclmul -msha -mgfni -mbmi -mbmi2 -mlzcnt x86.c
#include <immintrin.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// ------------------------------------------------------------------------------------------- results

static const char *wanted = "";
static uint64_t hash;

static void begin(void) { hash = 0xcbf29ce484222325; }

static __attribute__((noinline)) void bytes(const char *name, const void *from, size_t count) {
    const uint8_t *at = from;
    for (size_t i = 0; i < count; i++) hash = (hash ^ at[i]) * 0x100000001b3;
    if (strcmp(name, wanted) == 0) {
        for (size_t i = count; i > 0; i--) printf("%02x", at[i - 1]);
        printf("\n");
    }
}

static void vector(const char *name, __m128i a) { bytes(name, &a, 16); }
static void number(const char *name, uint64_t a) { bytes(name, &a, 8); }
static void end(const char *name) { printf("%016" PRIx64 " %s\n", hash, name); }

// ------------------------------------------------------------------------------------------- operands

#define VALUES 24
static __m128i v[VALUES];

// Ends of the ranges of every lane, in lanes of every width, and some by chance.
static void values(void) {
    static const uint64_t edges[] = {
        0, UINT64_MAX, 1, 0x8000000000000000, 0x7fffffffffffffff, 0x8000000080000000, 0x7fffffff7fffffff,
        0x0000000100000001, 0x8000800080008000, 0x7fff7fff7fff7fff, 0x8080808080808080, 0x7f7f7f7f7f7f7f7f,
        0x00000000ffffffff, 0xff00ff00ff00ff00, 0x0706050403020100, 0x8182830f0e0d4ff1,
    };
    uint64_t random = 1;
    for (int i = 0; i < VALUES; i++) {
        uint64_t halves[2];
        for (int half = 0; half < 2; half++) {
            random = random * 6364136223846793005 + 1442695040888963407;
            halves[half] = i < 16 ? edges[(i + half * (i & 1)) % 16] : random ^ random >> 31;
        }
        memcpy(&v[i], halves, 16);
    }
}

// An operand is evaluated once, however often it is needed.
#define ONCE(name, ...) \
    begin(); \
    for (const __m128i *q = v, *r = v + 1; q < v + VALUES && r < v + VALUES;) \
        vector(#name, name(_mm_loadu_si128(q++), ##__VA_ARGS__)); \
    end(#name " of q++")

static void operands(void) {
    ONCE(_mm_shuffle_epi32, 0x1b);
    ONCE(_mm_srli_si128, 3);
    ONCE(_mm_slli_si128, 3);
    ONCE(_mm_aeskeygenassist_si128, 0x1b);
    ONCE(_mm_alignr_epi8, _mm_loadu_si128(r++), 5);
    ONCE(_mm_blend_epi16, _mm_loadu_si128(r++), 0x5a);
    ONCE(_mm_clmulepi64_si128, _mm_loadu_si128(r++), 0x10);
    ONCE(_mm_sha1rnds4_epu32, _mm_loadu_si128(r++), 2);
    ONCE(_mm_gf2p8affine_epi64_epi8, _mm_loadu_si128(r++), 0x63);
    ONCE(_mm_gf2p8affineinv_epi64_epi8, _mm_loadu_si128(r++), 0x63);
    begin();
    int lane = 0;
    for (const __m128i *q = v; q < v + VALUES - 4;) {
        vector("insert", _mm_insert_epi32(_mm_loadu_si128(q++), lane++, 2));
        vector("insert", _mm_insert_epi64(_mm_loadu_si128(q++), lane++, 1));
        number("insert", (uint32_t)_mm_extract_epi32(_mm_loadu_si128(q++), 1));
        number("insert", (uint64_t)_mm_extract_epi64(_mm_loadu_si128(q++), 1));
    }
    end("insert, extract of q++");
}

int main(int argc, char **argv) {
    if (argc > 1) wanted = argv[1];
    values();
    operands();
}
