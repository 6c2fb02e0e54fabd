// Runs Intel's intrinsics of compiler/include/immintrin.h. Prints a line for each: the name, and a
// hash of its results for all values of a table. With a name as argument, prints that intrinsic's
// results.
//
// fixtures/x86.expected.txt is the output of this program on x86 with the compiler's own header:
//
//     clang -O2 -msse4.2 -maes -mpclmul -msha -mgfni -mbmi -mbmi2 -mlzcnt -madx x86.c
#include <x86intrin.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// ----------------------------------------------------------------------------------------- results

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

// ---------------------------------------------------------------------------------------- operands

#define VALUES 24
static __m128i v[VALUES];

// Extreme values of lanes of every width, and random values.
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

// An intrinsic must evaluate its operand once, even if its definition needs the operand often.
#define ONCE(name, ...) \
    begin(); \
    for (const __m128i *q = v, *r = v + 1; q < v + VALUES && r < v + VALUES;) \
        vector(#name, name(_mm_loadu_si128(q++), ##__VA_ARGS__)); \
    end(#name " of q++")

static void operands(void) {
    ONCE(_mm_shuffle_epi32, 0x1b);
    ONCE(_mm_shufflelo_epi16, 0x1b);
    ONCE(_mm_shufflehi_epi16, 0x1b);
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

// Each intrinsic with every value, and with every pair of values.
#define OF_1(name, ...) \
    begin(); \
    for (int i = 0; i < VALUES; i++) vector(#name, name(v[i], ##__VA_ARGS__)); \
    end(#name)
#define OF_2(name, ...) \
    begin(); \
    for (int i = 0; i < VALUES * VALUES; i++) vector(#name, name(v[i / VALUES], v[i % VALUES], ##__VA_ARGS__)); \
    end(#name)

// Intrinsics with immediates: at the ends of every range, and past them.
#define FOUR(put, name, a, b, c, d) put(name, a); put(name, b); put(name, c); put(name, d);
#define EACH(put, name) \
    begin(); \
    for (int i = 0; i < VALUES - 1; i++) { \
        FOUR(put, name, 0, 1, 2, 3) FOUR(put, name, 4, 7, 8, 9) FOUR(put, name, 15, 16, 17, 18) FOUR(put, name, 24, 0x1b, 31, 32) \
        FOUR(put, name, 33, 0x4e, 63, 64) FOUR(put, name, 0x93, 0xb1, 0xe4, 255) \
    } \
    end(#name)
#define PUT_1(name, n) vector(#name, name(v[i], n))
#define PUT_2(name, n) vector(#name, name(v[i], v[i + 1], n))

#define FLOATS(a, b, n) _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(a), _mm_castpd_ps(_mm_castsi128_pd(b)), (n) & 0xff))
#define DOUBLES(a, b, n) _mm_castpd_si128(_mm_shuffle_pd(_mm_castsi128_pd(a), _mm_castps_pd(_mm_castsi128_ps(b)), (n) & 3))
#define EXTRACT(a, n) \
    _mm_set_epi32(_mm_extract_epi8(a, (n) & 15), _mm_extract_epi16(a, (n) & 7), _mm_extract_epi32(a, (n) & 3), \
                  (int)_mm_extract_epi64(a, (n) & 1))
#define INSERT(a, n) \
    _mm_insert_epi8(_mm_insert_epi16(_mm_insert_epi32(_mm_insert_epi64(a, i, (n) & 1), i + 7, (n) & 3), i - 99, (n) & 7), i - 300, (n) & 15)

static void immediates(void) {
    EACH(PUT_1, _mm_shuffle_epi32);
    EACH(PUT_1, _mm_shufflelo_epi16);
    EACH(PUT_1, _mm_shufflehi_epi16);
    EACH(PUT_1, _mm_srli_si128);
    EACH(PUT_1, _mm_slli_si128);
    EACH(PUT_1, _mm_bsrli_si128);
    EACH(PUT_1, _mm_bslli_si128);
    EACH(PUT_2, _mm_alignr_epi8);
    EACH(PUT_2, _mm_blend_epi16);
    EACH(PUT_2, _mm_clmulepi64_si128);
    EACH(PUT_2, FLOATS);
    EACH(PUT_2, DOUBLES);
    EACH(PUT_1, EXTRACT);
    EACH(PUT_1, INSERT);
}

// Shift counts that are known only at run time. A negative count, taken as unsigned, exceeds every
// width.
static void shifts(void) {
    static volatile const int counts[] = {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, INT32_MAX, INT32_MIN, -1, -32, -64};
#define BY_NUMBER(name) \
    begin(); \
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) { \
        for (int i = 0; i < VALUES; i++) vector(#name, name(v[i], counts[n])); \
    } \
    vector(#name, name(v[20], 33)); \
    vector(#name, name(v[20], -1)); \
    vector(#name, name(v[20], 256)); \
    end(#name)
// All 64 bits of the lower half are the shift count.
#define BY_VECTOR(name) \
    begin(); \
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) { \
        for (int i = 0; i < VALUES; i++) { \
            vector(#name, name(v[i], _mm_set_epi64x(-1, counts[n]))); \
            vector(#name, name(v[i], _mm_set_epi64x(0, 0x100000000 + counts[n]))); \
        } \
    } \
    end(#name)
    BY_NUMBER(_mm_slli_epi16);
    BY_NUMBER(_mm_slli_epi32);
    BY_NUMBER(_mm_slli_epi64);
    BY_NUMBER(_mm_srli_epi16);
    BY_NUMBER(_mm_srli_epi32);
    BY_NUMBER(_mm_srli_epi64);
    BY_NUMBER(_mm_srai_epi16);
    BY_NUMBER(_mm_srai_epi32);
    BY_VECTOR(_mm_sll_epi16);
    BY_VECTOR(_mm_sll_epi32);
    BY_VECTOR(_mm_sll_epi64);
    BY_VECTOR(_mm_srl_epi16);
    BY_VECTOR(_mm_srl_epi32);
    BY_VECTOR(_mm_srl_epi64);
    BY_VECTOR(_mm_sra_epi16);
    BY_VECTOR(_mm_sra_epi32);
}

// A vector consists of two signed 64-bit numbers, and may alias other memory.
static void operators(void) {
#define OPERATOR(op) \
    begin(); \
    for (int i = 0; i < VALUES * VALUES; i++) vector(#op, (__m128i)(v[i / VALUES] op v[i % VALUES])); \
    end("a " #op " b")
    OPERATOR(+);
    OPERATOR(-);
    OPERATOR(*);
    OPERATOR(&);
    OPERATOR(|);
    OPERATOR(^);
    OPERATOR(==);
    OPERATOR(!=);
    OPERATOR(<);
    OPERATOR(>);
    OPERATOR(<=);
    OPERATOR(>=);
    begin();
    for (int i = 0; i < VALUES; i++) {
        vector("~a", ~v[i]);
        vector("~a", -v[i]);
        vector("~a", v[i] << 3);
        vector("~a", v[i] >> 3);
        vector("~a", (__m128i){v[i][1], i});
    }
    end("~a, -a, a << 3, a >> 3, a[1]");
    begin();
    uint32_t words[8] = {0};
    for (int i = 0; i < VALUES; i++) {
        words[i % 8] = 1;
        *(__m128i *)(words + 4 * (i & 1)) ^= v[i];
        *(__m128i_u *)(words + 1) += v[i];
        for (int word = 0; word < 8; word++) number("words", words[word]);
    }
    end("words as vectors");
}

static void names(void) {
    OF_2(_mm_sha1nexte_epu32);
    OF_2(_mm_sha1msg1_epu32);
    OF_2(_mm_sha1msg2_epu32);
    OF_2(_mm_sha256msg1_epu32);
    OF_2(_mm_sha256msg2_epu32);
    OF_2(_mm_aesenc_si128);
    OF_2(_mm_aesenclast_si128);
    OF_2(_mm_aesdec_si128);
    OF_2(_mm_aesdeclast_si128);
    OF_2(_mm_gf2p8mul_epi8);
    OF_2(_mm_xor_si128);
    OF_2(_mm_or_si128);
    OF_2(_mm_and_si128);
    OF_2(_mm_add_epi8);
    OF_2(_mm_add_epi16);
    OF_2(_mm_add_epi32);
    OF_2(_mm_add_epi64);
    OF_2(_mm_adds_epi8);
    OF_2(_mm_adds_epi16);
    OF_2(_mm_adds_epu8);
    OF_2(_mm_adds_epu16);
    OF_2(_mm_sub_epi8);
    OF_2(_mm_sub_epi16);
    OF_2(_mm_sub_epi32);
    OF_2(_mm_sub_epi64);
    OF_2(_mm_subs_epi8);
    OF_2(_mm_subs_epi16);
    OF_2(_mm_subs_epu8);
    OF_2(_mm_subs_epu16);
    OF_2(_mm_avg_epu8);
    OF_2(_mm_avg_epu16);
    OF_2(_mm_mullo_epi16);
    OF_2(_mm_mullo_epi32);
    OF_2(_mm_madd_epi16);
    OF_2(_mm_max_epi8);
    OF_2(_mm_min_epi8);
    OF_2(_mm_max_epi16);
    OF_2(_mm_min_epi16);
    OF_2(_mm_max_epi32);
    OF_2(_mm_min_epi32);
    OF_2(_mm_max_epu8);
    OF_2(_mm_min_epu8);
    OF_2(_mm_max_epu16);
    OF_2(_mm_min_epu16);
    OF_2(_mm_max_epu32);
    OF_2(_mm_min_epu32);
    OF_2(_mm_cmpeq_epi8);
    OF_2(_mm_cmpeq_epi16);
    OF_2(_mm_cmpeq_epi32);
    OF_2(_mm_cmpeq_epi64);
    OF_2(_mm_cmpgt_epi8);
    OF_2(_mm_cmpgt_epi16);
    OF_2(_mm_cmpgt_epi32);
    OF_2(_mm_cmpgt_epi64);
    OF_2(_mm_cmplt_epi8);
    OF_2(_mm_cmplt_epi16);
    OF_2(_mm_cmplt_epi32);
    OF_2(_mm_sign_epi8);
    OF_2(_mm_sign_epi16);
    OF_2(_mm_sign_epi32);
    OF_2(_mm_unpacklo_epi8);
    OF_2(_mm_unpackhi_epi8);
    OF_2(_mm_unpacklo_epi16);
    OF_2(_mm_unpackhi_epi16);
    OF_2(_mm_unpacklo_epi32);
    OF_2(_mm_unpackhi_epi32);
    OF_2(_mm_unpacklo_epi64);
    OF_2(_mm_unpackhi_epi64);
    OF_2(_mm_packs_epi16);
    OF_2(_mm_packus_epi16);
    OF_2(_mm_packs_epi32);
    OF_2(_mm_packus_epi32);
    OF_2(_mm_hadd_epi16);
    OF_2(_mm_hadd_epi32);
    OF_2(_mm_hadds_epi16);
    OF_2(_mm_hsub_epi16);
    OF_2(_mm_hsub_epi32);
    OF_2(_mm_hsubs_epi16);
    OF_2(_mm_andnot_si128);
    OF_2(_mm_mul_epu32);
    OF_2(_mm_mul_epi32);
    OF_2(_mm_mulhi_epi16);
    OF_2(_mm_mulhi_epu16);
    OF_2(_mm_mulhrs_epi16);
    OF_2(_mm_maddubs_epi16);
    OF_2(_mm_sad_epu8);
    OF_2(_mm_shuffle_epi8);
    OF_2(_mm_sha256rnds2_epu32, v[i % 7]);
    OF_2(_mm_blendv_epi8, v[i % 7]);
    OF_1(_mm_aesimc_si128);
    OF_1(_mm_abs_epi8);
    OF_1(_mm_abs_epi16);
    OF_1(_mm_abs_epi32);
    OF_1(_mm_move_epi64);
    OF_1(_mm_cvtepi8_epi16);
    OF_1(_mm_cvtepi8_epi32);
    OF_1(_mm_cvtepi8_epi64);
    OF_1(_mm_cvtepi16_epi32);
    OF_1(_mm_cvtepi16_epi64);
    OF_1(_mm_cvtepi32_epi64);
    OF_1(_mm_cvtepu8_epi16);
    OF_1(_mm_cvtepu8_epi32);
    OF_1(_mm_cvtepu8_epi64);
    OF_1(_mm_cvtepu16_epi32);
    OF_1(_mm_cvtepu16_epi64);
    OF_1(_mm_cvtepu32_epi64);
    begin();
    for (int i = 0; i < VALUES; i++) {
        uint64_t a = (uint64_t)_mm_cvtsi128_si64(v[i]), b = (uint64_t)_mm_extract_epi64(v[i], 1);
        number("scalars", _mm_crc32_u8((uint32_t)a, (uint8_t)b));
        number("scalars", _mm_crc32_u16((uint32_t)a, (uint16_t)b));
        number("scalars", _mm_crc32_u32((uint32_t)a, (uint32_t)b));
        number("scalars", _mm_crc32_u64(a, b));
        number("scalars", _pext_u32((uint32_t)a, (uint32_t)b));
        number("scalars", _pext_u64(a, b));
        number("scalars", _pdep_u32((uint32_t)a, (uint32_t)b));
        number("scalars", _pdep_u64(a, b));
    }
    end("_mm_crc32_u8 to _pdep_u64");
    begin();
    for (int i = 0; i < VALUES * VALUES; i++) {
        uint64_t a = (uint64_t)v[i / VALUES][0], b = (uint64_t)v[i % VALUES][1];
        number("numbers", (uint64_t)_mm_popcnt_u32((uint32_t)a) << 8 | (uint64_t)_mm_popcnt_u64(a));
        number("numbers", (uint64_t)_lzcnt_u32((uint32_t)a) << 8 | _lzcnt_u64(a));
        number("numbers", (uint64_t)_tzcnt_u32((uint32_t)a) << 8 | _tzcnt_u64(a));
        number("numbers", (uint64_t)_popcnt32((int)a) << 8 | (uint64_t)_popcnt64((long long)a));
        number("numbers", (uint64_t)_bswap((int)a) ^ (uint64_t)_bswap64((long long)b));
        number("numbers", _andn_u32((uint32_t)a, (uint32_t)b) ^ _andn_u64(a, b));
        number("numbers", _blsi_u32((uint32_t)a) ^ _blsi_u64(b));
        number("numbers", _blsr_u32((uint32_t)a) ^ _blsr_u64(b));
        number("numbers", _blsmsk_u32((uint32_t)a) ^ _blsmsk_u64(b));
        for (unsigned n = 0; n < 260; n += n < 4 || (n > 28 && n < 34) || (n > 60 && n < 66) || n > 250 ? 1 : 7) {
            number("numbers", _bzhi_u32((uint32_t)a, n) ^ _bzhi_u64(b, n));
            number("numbers", _bextr_u32((uint32_t)a, n, 5) ^ _bextr_u64(b, n, 5));
            number("numbers", _bextr_u32((uint32_t)a, 3, n) ^ _bextr_u64(b, 3, n));
        }
    }
    end("_mm_popcnt_u32 to _bextr_u64");
    begin();
    for (int i = 0; i < VALUES * VALUES; i++) {
        unsigned long long a = (uint64_t)v[i / VALUES][0], b = (uint64_t)v[i % VALUES][1], sum;
        unsigned half;
        for (int carry = 0; carry < 256; carry += 51) {
            unsigned char in = (unsigned char)carry;
            number("carries", _addcarry_u32(in, (unsigned)a, (unsigned)b, &half)), number("carries", half);
            number("carries", _subborrow_u32(in, (unsigned)a, (unsigned)b, &half)), number("carries", half);
            number("carries", _addcarry_u64(in, a, b, &sum)), number("carries", sum);
            number("carries", _subborrow_u64(in, a, b, &sum)), number("carries", sum);
            number("carries", _addcarryx_u32(in, (unsigned)a, (unsigned)b, &half)), number("carries", half);
            number("carries", _addcarryx_u64(in, a, b, &sum)), number("carries", sum);
        }
        number("carries", _mulx_u64(a, b, &sum)), number("carries", sum);
    }
    end("_addcarry_u32 to _mulx_u64");
    begin();
    for (int i = 0; i < VALUES * VALUES; i++) {
        __m128i a = v[i / VALUES], b = v[i % VALUES];
        number("tests", (uint64_t)(_mm_testz_si128(a, b) | _mm_testc_si128(a, b) << 1 | _mm_testnzc_si128(a, b) << 2));
        number("tests", (uint64_t)(_mm_test_all_zeros(a, b) | _mm_test_mix_ones_zeros(a, b) << 1 | _mm_test_all_ones(a) << 2));
    }
    end("_mm_testz_si128 and others");
    begin();
    for (int i = 0; i < VALUES; i++) {
        __m128i to[3] = {v[3], v[4], v[5]};
        uint8_t *at = (uint8_t *)to;
        vector("memory", _mm_loadl_epi64((const __m128i_u *)((const uint8_t *)v + i)));
        vector("memory", _mm_lddqu_si128((const __m128i *)((const uint8_t *)v + i)));
        vector("memory", _mm_load_si128(v + i));
        vector("memory", _mm_stream_load_si128(v + i));
        vector("memory", _mm_loadu_si64((const uint8_t *)v + i));
        vector("memory", _mm_loadu_si32((const uint8_t *)v + i));
        vector("memory", _mm_loadu_si16((const uint8_t *)v + i));
        _mm_prefetch((const char *)(v + i), _MM_HINT_T0);
        _mm_pause();
        _mm_storeu_si128((__m128i_u *)(at + i), v[i]);
        _mm_storel_epi64((__m128i_u *)(at + 37), v[i]);
        bytes("memory", to, sizeof to);
        _mm_storeu_si64(at + i, v[i]);
        _mm_storeu_si32(at + i + 9, v[i]);
        _mm_storeu_si16(at + i + 17, v[i]);
        bytes("memory", to, sizeof to);
        _mm_store_si128(to + 1, v[i]);
        _mm_stream_si128(to + 2, v[i]);
        _mm_lfence();
        _mm_sfence();
        _mm_mfence();
        bytes("memory", to, sizeof to);
    }
    end("loads and stores");
    begin();
    for (int i = 0; i < VALUES; i++) {
        long long a = v[i][0];
        vector("set", _mm_set1_epi8((char)a));
        vector("set", _mm_set1_epi16((short)a));
        vector("set", _mm_set1_epi32((int)a));
        vector("set", _mm_set1_epi64x(a));
        vector("set", _mm_set_epi64x(a, i));
        vector("set", _mm_set_epi32((int)a, i, 2, 3));
        vector("set", _mm_setr_epi32((int)a, i, 2, 3));
        vector("set", _mm_set_epi8((char)a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, (char)(a >> 8)));
        vector("set", _mm_setr_epi8((char)a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, (char)(a >> 8)));
        vector("set", _mm_set_epi16((short)a, 1, 2, 3, 4, 5, 6, (short)(a >> 8)));
        vector("set", _mm_setr_epi16((short)a, 1, 2, 3, 4, 5, 6, (short)(a >> 8)));
        vector("set", _mm_undefined_si128() & _mm_setzero_si128());
        vector("set", _mm_cvtsi32_si128((int)a));
        vector("set", _mm_cvtsi64_si128(a));
        vector("set", _mm_setzero_si128());
        number("set", (uint64_t)_mm_cvtsi128_si32(v[i]));
        number("set", (uint64_t)_mm_movemask_epi8(v[i]));
    }
    end("set and convert");
}

int main(int argc, char **argv) {
    if (argc > 1) wanted = argv[1];
    values();
    operands();
    operators();
    shifts();
    immediates();
    names();
}
