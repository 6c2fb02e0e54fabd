// Intel's intrinsics for guests: 128-bit integer vectors up to SSE4.2, and operations on integers.
//
//     clang --target=wasm32-wasi -msimd128 -I include -O3 ...
//
// SHA, AES, PCLMULQDQ, GFNI, CRC32, PEXT and PDEP become processor instructions (hw.h). The others
// become WebAssembly's own operators. docs/guide/intrinsics-in-c.md lists all intrinsics. Each name
// behaves as in Intel's guide. C operators treat a vector as two 64-bit integers, as on x86. Lanes
// and other immediates must be constants.
#ifndef PIRN_IMMINTRIN_H
#define PIRN_IMMINTRIN_H

#include "hw.h"

typedef long long __m128i __attribute__((__vector_size__(16), __aligned__(16), __may_alias__));
typedef long long __m128i_u __attribute__((__vector_size__(16), __aligned__(1), __may_alias__));

// For casts and shuffles only: this header has no floating-point arithmetic.
typedef float __m128 __attribute__((__vector_size__(16), __aligned__(16), __may_alias__));
typedef double __m128d __attribute__((__vector_size__(16), __aligned__(16), __may_alias__));

typedef signed char hw_i8x16 __attribute__((__vector_size__(16)));
typedef short hw_i16x8 __attribute__((__vector_size__(16)));
typedef int hw_i32x4 __attribute__((__vector_size__(16)));

// Define `name` on __m128i by a function or macro `what` on v128_t.
#define HW_OF_1(name, what) HW_INLINE __m128i name(__m128i a) { return (__m128i)what((v128_t)a); }
#define HW_OF_2(name, what) HW_INLINE __m128i name(__m128i a, __m128i b) { return (__m128i)what((v128_t)a, (v128_t)b); }

// ------------------------------------------------------------------------------------ instructions

#define HW_V128(a) ((v128_t)(__m128i)(a))
#define _mm_sha1rnds4_epu32(a, b, group) ((__m128i)hw_x86_sha1rnds4(HW_V128(a), HW_V128(b), (group)))
HW_OF_2(_mm_sha1nexte_epu32, hw_x86_sha1nexte)
HW_OF_2(_mm_sha1msg1_epu32, hw_x86_sha1msg1)
HW_OF_2(_mm_sha1msg2_epu32, hw_x86_sha1msg2)
HW_INLINE __m128i _mm_sha256rnds2_epu32(__m128i a, __m128i b, __m128i k) {
    return (__m128i)hw_x86_sha256rnds2((v128_t)a, (v128_t)b, (v128_t)k);
}
HW_OF_2(_mm_sha256msg1_epu32, hw_x86_sha256msg1)
HW_OF_2(_mm_sha256msg2_epu32, hw_x86_sha256msg2)

HW_OF_2(_mm_aesenc_si128, hw_x86_aesenc)
HW_OF_2(_mm_aesenclast_si128, hw_x86_aesenclast)
HW_OF_2(_mm_aesdec_si128, hw_x86_aesdec)
HW_OF_2(_mm_aesdeclast_si128, hw_x86_aesdeclast)
HW_OF_1(_mm_aesimc_si128, hw_x86_aesimc)
#define _mm_aeskeygenassist_si128(a, rcon) ((__m128i)hw_x86_aeskeygenassist(HW_V128(a), (rcon) & 0xff))

// The instruction uses bits 0 and 4 of the immediate only.
#define _mm_clmulepi64_si128(a, b, halves) ((__m128i)hw_x86_pclmulqdq(HW_V128(a), HW_V128(b), (halves) & 0x11))

HW_OF_2(_mm_gf2p8mul_epi8, hw_x86_gf2p8mulb)
#define _mm_gf2p8affine_epi64_epi8(a, matrix, constant) \
    ((__m128i)hw_x86_gf2p8affineqb(HW_V128(a), HW_V128(matrix), (constant) & 0xff))
#define _mm_gf2p8affineinv_epi64_epi8(a, matrix, constant) \
    ((__m128i)hw_x86_gf2p8affineinvqb(HW_V128(a), HW_V128(matrix), (constant) & 0xff))

HW_INLINE uint32_t _mm_crc32_u8(uint32_t crc, uint8_t data) { return hw_x86_crc32_u8(crc, data); }
HW_INLINE uint32_t _mm_crc32_u16(uint32_t crc, uint16_t data) { return hw_x86_crc32_u16(crc, data); }
HW_INLINE uint32_t _mm_crc32_u32(uint32_t crc, uint32_t data) { return hw_x86_crc32_u32(crc, data); }
HW_INLINE uint64_t _mm_crc32_u64(uint64_t crc, uint64_t data) { return hw_x86_crc32_u64(crc, data); }

HW_INLINE uint32_t _pext_u32(uint32_t a, uint32_t mask) { return hw_x86_pext_u32(a, mask); }
HW_INLINE uint64_t _pext_u64(uint64_t a, uint64_t mask) { return hw_x86_pext_u64(a, mask); }
HW_INLINE uint32_t _pdep_u32(uint32_t a, uint32_t mask) { return hw_x86_pdep_u32(a, mask); }
HW_INLINE uint64_t _pdep_u64(uint64_t a, uint64_t mask) { return hw_x86_pdep_u64(a, mask); }

// ---------------------------------------------------------------------------------------- integers

HW_INLINE int _mm_popcnt_u32(unsigned a) { return __builtin_popcount(a); }
HW_INLINE long long _mm_popcnt_u64(unsigned long long a) { return __builtin_popcountll(a); }
HW_INLINE int _popcnt32(int a) { return __builtin_popcount((unsigned)a); }
HW_INLINE long long _popcnt64(long long a) { return __builtin_popcountll((unsigned long long)a); }
HW_INLINE unsigned _lzcnt_u32(unsigned a) { return a == 0 ? 32 : (unsigned)__builtin_clz(a); }
HW_INLINE unsigned long long _lzcnt_u64(unsigned long long a) { return a == 0 ? 64 : (unsigned)__builtin_clzll(a); }
HW_INLINE unsigned _tzcnt_u32(unsigned a) { return a == 0 ? 32 : (unsigned)__builtin_ctz(a); }
HW_INLINE unsigned long long _tzcnt_u64(unsigned long long a) { return a == 0 ? 64 : (unsigned)__builtin_ctzll(a); }
HW_INLINE int _bswap(int a) { return (int)__builtin_bswap32((uint32_t)a); }
HW_INLINE long long _bswap64(long long a) { return (long long)__builtin_bswap64((uint64_t)a); }
#define HW_OF_BITS(type, bits) \
    HW_INLINE type _andn_##bits(type a, type b) { return ~a & b; } \
    HW_INLINE type _blsi_##bits(type a) { return a & (0 - a); } \
    HW_INLINE type _blsr_##bits(type a) { return a & (a - 1); } \
    HW_INLINE type _blsmsk_##bits(type a) { return a ^ (a - 1); } \
    HW_INLINE type _bzhi_##bits(type a, type from) { \
        return (from & 0xff) < sizeof a * 8 ? a & (((type)1 << (from & 0xff)) - 1) : a; \
    } \
    HW_INLINE type _bextr_##bits(type a, unsigned from, unsigned count) { \
        return (from & 0xff) < sizeof a * 8 ? _bzhi_##bits(a >> (from & 0xff), count) : 0; \
    }
HW_OF_BITS(unsigned, u32)
HW_OF_BITS(unsigned long long, u64)

// Any carry other than 0 means 1. With -mwide-arithmetic, 128-bit arithmetic needs fewer
// instructions than the builtins, which compare to compute the carry.
#define HW_CARRIED(name, type, what) \
    HW_INLINE unsigned char name(unsigned char carry, type a, type b, type *to) { \
        type out; \
        *to = what(a, b, (type)(carry != 0), &out); \
        return (unsigned char)out; \
    }
HW_CARRIED(_addcarry_u32, unsigned, __builtin_addc)
HW_CARRIED(_subborrow_u32, unsigned, __builtin_subc)
#ifdef __wasm_wide_arithmetic__
#define HW_CARRIED_WIDE(name, op) \
    HW_INLINE unsigned char name(unsigned char carry, unsigned long long a, unsigned long long b, unsigned long long *to) { \
        unsigned __int128 result = (unsigned __int128)a op b op (unsigned long long)(carry != 0); \
        *to = (unsigned long long)result; \
        return (unsigned char)(result >> 64 & 1); \
    }
HW_CARRIED_WIDE(_addcarry_u64, +)
HW_CARRIED_WIDE(_subborrow_u64, -)
#else
HW_CARRIED(_addcarry_u64, unsigned long long, __builtin_addcll)
HW_CARRIED(_subborrow_u64, unsigned long long, __builtin_subcll)
#endif
HW_INLINE unsigned long long _mulx_u64(unsigned long long a, unsigned long long b, unsigned long long *high) {
    unsigned __int128 product = (unsigned __int128)a * b;
    *high = (unsigned long long)(product >> 64);
    return (unsigned long long)product;
}

// ADCX uses another flag than ADC does. Guests have no flags, so the functions are equal.
HW_INLINE unsigned char _addcarryx_u32(unsigned char carry, unsigned a, unsigned b, unsigned *to) { return _addcarry_u32(carry, a, b, to); }
HW_INLINE unsigned char _addcarryx_u64(unsigned char carry, unsigned long long a, unsigned long long b, unsigned long long *to) {
    return _addcarry_u64(carry, a, b, to);
}

// Prefetches do nothing. Fences order memory accesses for the C compiler only.
#define _MM_HINT_NTA 0
#define _MM_HINT_T0 3
#define _MM_HINT_T1 2
#define _MM_HINT_T2 1
#define _mm_prefetch(at, hint) ((void)(at), (void)(hint))
HW_INLINE void _mm_pause(void) {}
HW_INLINE void _mm_sfence(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
HW_INLINE void _mm_lfence(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
HW_INLINE void _mm_mfence(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

// ---------------------------------------------------------------------------- memory and constants

HW_INLINE __m128i _mm_load_si128(const __m128i *from) { return (__m128i)wasm_v128_load(from); }
HW_INLINE __m128i _mm_loadu_si128(const __m128i_u *from) { return (__m128i)wasm_v128_load(from); }
HW_INLINE __m128i _mm_lddqu_si128(const __m128i_u *from) { return (__m128i)wasm_v128_load(from); }
HW_INLINE __m128i _mm_loadl_epi64(const __m128i_u *from) { return (__m128i)wasm_v128_load64_zero(from); }
HW_INLINE void _mm_store_si128(__m128i *to, __m128i a) { wasm_v128_store(to, (v128_t)a); }
HW_INLINE void _mm_storeu_si128(__m128i_u *to, __m128i a) { wasm_v128_store(to, (v128_t)a); }
HW_INLINE void _mm_storel_epi64(__m128i_u *to, __m128i a) { wasm_v128_store64_lane(to, (v128_t)a, 0); }
HW_INLINE __m128i _mm_stream_load_si128(const void *from) { return (__m128i)wasm_v128_load(from); }
HW_INLINE void _mm_stream_si128(__m128i *to, __m128i a) { wasm_v128_store(to, (v128_t)a); }
HW_INLINE __m128i _mm_loadu_si64(const void *from) { return (__m128i)wasm_v128_load64_zero(from); }
HW_INLINE __m128i _mm_loadu_si32(const void *from) { return (__m128i)wasm_v128_load32_zero(from); }
HW_INLINE __m128i _mm_loadu_si16(const void *from) {
    return (__m128i)wasm_v128_load16_lane(from, wasm_i64x2_make(0, 0), 0);
}
HW_INLINE void _mm_storeu_si64(void *to, __m128i a) { wasm_v128_store64_lane(to, (v128_t)a, 0); }
HW_INLINE void _mm_storeu_si32(void *to, __m128i a) { wasm_v128_store32_lane(to, (v128_t)a, 0); }
HW_INLINE void _mm_storeu_si16(void *to, __m128i a) { wasm_v128_store16_lane(to, (v128_t)a, 0); }

HW_INLINE __m128i _mm_setzero_si128(void) { return (__m128i){0, 0}; }
HW_INLINE __m128i _mm_undefined_si128(void) { return (__m128i){0, 0}; }
HW_INLINE __m128i _mm_set1_epi8(char a) { return (__m128i)wasm_i8x16_splat(a); }
HW_INLINE __m128i _mm_set1_epi16(short a) { return (__m128i)wasm_i16x8_splat(a); }
HW_INLINE __m128i _mm_set1_epi32(int a) { return (__m128i)wasm_i32x4_splat(a); }
HW_INLINE __m128i _mm_set1_epi64x(long long a) { return (__m128i)wasm_i64x2_splat(a); }
HW_INLINE __m128i _mm_set_epi64x(long long b, long long a) { return (__m128i)wasm_i64x2_make(a, b); }
HW_INLINE __m128i _mm_set_epi32(int d, int c, int b, int a) { return (__m128i)wasm_i32x4_make(a, b, c, d); }
HW_INLINE __m128i _mm_setr_epi32(int a, int b, int c, int d) { return (__m128i)wasm_i32x4_make(a, b, c, d); }
HW_INLINE __m128i _mm_setr_epi16(short a, short b, short c, short d, short e, short f, short g, short h) {
    return (__m128i)wasm_i16x8_make(a, b, c, d, e, f, g, h);
}
HW_INLINE __m128i _mm_set_epi16(short h, short g, short f, short e, short d, short c, short b, short a) {
    return (__m128i)wasm_i16x8_make(a, b, c, d, e, f, g, h);
}
HW_INLINE __m128i _mm_setr_epi8(char a, char b, char c, char d, char e, char f, char g, char h, char i, char j, char k, char l,
                                char m, char n, char o, char p) {
    return (__m128i)wasm_i8x16_make(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
}
HW_INLINE __m128i _mm_set_epi8(char p, char o, char n, char m, char l, char k, char j, char i, char h, char g, char f, char e,
                               char d, char c, char b, char a) {
    return (__m128i)wasm_i8x16_make(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
}

HW_INLINE int _mm_cvtsi128_si32(__m128i a) { return wasm_i32x4_extract_lane((v128_t)a, 0); }
HW_INLINE long long _mm_cvtsi128_si64(__m128i a) { return a[0]; }
HW_INLINE __m128i _mm_cvtsi32_si128(int a) { return (__m128i)wasm_i32x4_make(a, 0, 0, 0); }
HW_INLINE __m128i _mm_cvtsi64_si128(long long a) { return (__m128i){a, 0}; }
HW_INLINE __m128i _mm_move_epi64(__m128i a) { return (__m128i){a[0], 0}; }
HW_INLINE __m128 _mm_castsi128_ps(__m128i a) { return (__m128)a; }
HW_INLINE __m128d _mm_castsi128_pd(__m128i a) { return (__m128d)a; }
HW_INLINE __m128i _mm_castps_si128(__m128 a) { return (__m128i)a; }
HW_INLINE __m128i _mm_castpd_si128(__m128d a) { return (__m128i)a; }
HW_INLINE __m128 _mm_castpd_ps(__m128d a) { return (__m128)a; }
HW_INLINE __m128d _mm_castps_pd(__m128 a) { return (__m128d)a; }
#define _mm_extract_epi8(a, lane) ((int)wasm_u8x16_extract_lane(HW_V128(a), (lane) & 15))
#define _mm_extract_epi16(a, lane) ((int)wasm_u16x8_extract_lane(HW_V128(a), (lane) & 7))
#define _mm_extract_epi32(a, lane) wasm_i32x4_extract_lane(HW_V128(a), (lane) & 3)
#define _mm_extract_epi64(a, lane) wasm_i64x2_extract_lane(HW_V128(a), (lane) & 1)
#define _mm_insert_epi8(a, value, lane) ((__m128i)wasm_i8x16_replace_lane(HW_V128(a), (lane) & 15, (int8_t)(value)))
#define _mm_insert_epi16(a, value, lane) ((__m128i)wasm_i16x8_replace_lane(HW_V128(a), (lane) & 7, (int16_t)(value)))
#define _mm_insert_epi32(a, value, lane) ((__m128i)wasm_i32x4_replace_lane(HW_V128(a), (lane) & 3, (value)))
#define _mm_insert_epi64(a, value, lane) ((__m128i)wasm_i64x2_replace_lane(HW_V128(a), (lane) & 1, (value)))

// -------------------------------------------------------------------------------------- arithmetic

HW_OF_2(_mm_xor_si128, wasm_v128_xor)
HW_OF_2(_mm_or_si128, wasm_v128_or)
HW_OF_2(_mm_and_si128, wasm_v128_and)
HW_INLINE __m128i _mm_andnot_si128(__m128i a, __m128i b) { return (__m128i)wasm_v128_andnot((v128_t)b, (v128_t)a); }
HW_OF_2(_mm_add_epi8, wasm_i8x16_add)
HW_OF_2(_mm_add_epi16, wasm_i16x8_add)
HW_OF_2(_mm_add_epi32, wasm_i32x4_add)
HW_OF_2(_mm_add_epi64, wasm_i64x2_add)
HW_OF_2(_mm_adds_epi8, wasm_i8x16_add_sat)
HW_OF_2(_mm_adds_epi16, wasm_i16x8_add_sat)
HW_OF_2(_mm_adds_epu8, wasm_u8x16_add_sat)
HW_OF_2(_mm_adds_epu16, wasm_u16x8_add_sat)
HW_OF_2(_mm_sub_epi8, wasm_i8x16_sub)
HW_OF_2(_mm_sub_epi16, wasm_i16x8_sub)
HW_OF_2(_mm_sub_epi32, wasm_i32x4_sub)
HW_OF_2(_mm_sub_epi64, wasm_i64x2_sub)
HW_OF_2(_mm_subs_epi8, wasm_i8x16_sub_sat)
HW_OF_2(_mm_subs_epi16, wasm_i16x8_sub_sat)
HW_OF_2(_mm_subs_epu8, wasm_u8x16_sub_sat)
HW_OF_2(_mm_subs_epu16, wasm_u16x8_sub_sat)
HW_OF_2(_mm_avg_epu8, wasm_u8x16_avgr)
HW_OF_2(_mm_avg_epu16, wasm_u16x8_avgr)
HW_OF_2(_mm_mullo_epi16, wasm_i16x8_mul)
HW_OF_2(_mm_mullo_epi32, wasm_i32x4_mul)
HW_OF_2(_mm_madd_epi16, wasm_i32x4_dot_i16x8)
HW_OF_2(_mm_max_epi8, wasm_i8x16_max)
HW_OF_2(_mm_min_epi8, wasm_i8x16_min)
HW_OF_2(_mm_max_epi16, wasm_i16x8_max)
HW_OF_2(_mm_min_epi16, wasm_i16x8_min)
HW_OF_2(_mm_max_epi32, wasm_i32x4_max)
HW_OF_2(_mm_min_epi32, wasm_i32x4_min)
HW_OF_2(_mm_max_epu8, wasm_u8x16_max)
HW_OF_2(_mm_min_epu8, wasm_u8x16_min)
HW_OF_2(_mm_max_epu16, wasm_u16x8_max)
HW_OF_2(_mm_min_epu16, wasm_u16x8_min)
HW_OF_2(_mm_max_epu32, wasm_u32x4_max)
HW_OF_2(_mm_min_epu32, wasm_u32x4_min)
HW_OF_2(_mm_cmpeq_epi8, wasm_i8x16_eq)
HW_OF_2(_mm_cmpeq_epi16, wasm_i16x8_eq)
HW_OF_2(_mm_cmpeq_epi32, wasm_i32x4_eq)
HW_OF_2(_mm_cmpeq_epi64, wasm_i64x2_eq)
HW_OF_2(_mm_cmpgt_epi8, wasm_i8x16_gt)
HW_OF_2(_mm_cmpgt_epi16, wasm_i16x8_gt)
HW_OF_2(_mm_cmpgt_epi32, wasm_i32x4_gt)
HW_OF_2(_mm_cmpgt_epi64, wasm_i64x2_gt)
HW_OF_2(_mm_cmplt_epi8, wasm_i8x16_lt)
HW_OF_2(_mm_cmplt_epi16, wasm_i16x8_lt)
HW_OF_2(_mm_cmplt_epi32, wasm_i32x4_lt)
HW_OF_1(_mm_abs_epi8, wasm_i8x16_abs)
HW_OF_1(_mm_abs_epi16, wasm_i16x8_abs)
HW_OF_1(_mm_abs_epi32, wasm_i32x4_abs)
HW_INLINE int _mm_movemask_epi8(__m128i a) { return (int)wasm_i8x16_bitmask((v128_t)a); }
HW_INLINE int _mm_testz_si128(__m128i a, __m128i b) { return !wasm_v128_any_true((v128_t)(a & b)); }
HW_INLINE int _mm_testc_si128(__m128i a, __m128i b) { return !wasm_v128_any_true((v128_t)(~a & b)); }
HW_INLINE int _mm_testnzc_si128(__m128i a, __m128i b) { return !_mm_testz_si128(a, b) && !_mm_testc_si128(a, b); }
#define _mm_test_all_zeros(a, mask) _mm_testz_si128((a), (mask))
#define _mm_test_mix_ones_zeros(a, mask) _mm_testnzc_si128((a), (mask))
HW_INLINE int _mm_test_all_ones(__m128i a) { return !wasm_v128_any_true((v128_t)~a); }
HW_INLINE __m128i _mm_blendv_epi8(__m128i a, __m128i b, __m128i by) {
    return (__m128i)wasm_v128_bitselect((v128_t)b, (v128_t)a, wasm_i8x16_shr((v128_t)by, 7));
}

// Selects lanes 0 and 2 of four. This intrinsic keeps the C compiler from folding the shuffle into
// 64-bit multiplications.
HW_INLINE v128_t hw_even(__m128i a) { return wasm_i32x4_shuffle((v128_t)a, (v128_t)a, 0, 2, 0, 2); }
HW_INLINE __m128i _mm_mul_epu32(__m128i a, __m128i b) {
    return (__m128i)wasm_u64x2_extmul_low_u32x4(hw_even(a), hw_even(b));
}
HW_INLINE __m128i _mm_mul_epi32(__m128i a, __m128i b) {
    return (__m128i)wasm_i64x2_extmul_low_i32x4(hw_even(a), hw_even(b));
}
// Selects the upper 16 bits of eight 32-bit products.
#define HW_UPPER(low, high) __builtin_shufflevector((hw_i16x8)(low), (hw_i16x8)(high), 1, 3, 5, 7, 9, 11, 13, 15)
HW_INLINE __m128i _mm_mulhi_epi16(__m128i a, __m128i b) {
    return (__m128i)HW_UPPER(wasm_i32x4_extmul_low_i16x8((v128_t)a, (v128_t)b), wasm_i32x4_extmul_high_i16x8((v128_t)a, (v128_t)b));
}
HW_INLINE __m128i _mm_mulhi_epu16(__m128i a, __m128i b) {
    return (__m128i)HW_UPPER(wasm_u32x4_extmul_low_u16x8((v128_t)a, (v128_t)b), wasm_u32x4_extmul_high_u16x8((v128_t)a, (v128_t)b));
}
// In Q15, -1 times -1 is -1 on x86. WebAssembly saturates that product to the largest value.
HW_INLINE __m128i _mm_mulhrs_epi16(__m128i a, __m128i b) {
    const __m128i least = _mm_set1_epi16((short)0x8000);
    __m128i product = (__m128i)wasm_i16x8_q15mulr_sat((v128_t)a, (v128_t)b);
    return product ^ (_mm_cmpeq_epi16(a, least) & _mm_cmpeq_epi16(b, least));
}
// Multiplies unsigned bytes of a by signed bytes of b, and adds adjacent products.
HW_INLINE __m128i _mm_maddubs_epi16(__m128i a, __m128i b) {
    v128_t even = wasm_i16x8_mul((v128_t)(a & _mm_set1_epi16(0xff)), wasm_i16x8_shr(wasm_i16x8_shl((v128_t)b, 8), 8));
    v128_t odd = wasm_i16x8_mul(wasm_u16x8_shr((v128_t)a, 8), wasm_i16x8_shr((v128_t)b, 8));
    return (__m128i)wasm_i16x8_add_sat(even, odd);
}
HW_INLINE __m128i _mm_sad_epu8(__m128i a, __m128i b) {
    v128_t difference = (v128_t)(_mm_subs_epu8(a, b) | _mm_subs_epu8(b, a));
    v128_t sums = wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16(difference));
    return ((__m128i)sums & _mm_set1_epi64x(0xffffffff)) + (__m128i)wasm_u64x2_shr(sums, 32);
}
#define HW_SIGN(name, lanes, bits) \
    HW_INLINE __m128i name(__m128i a, __m128i b) { \
        v128_t negative = wasm_##lanes##_shr((v128_t)b, (bits) - 1), zero = wasm_##lanes##_eq((v128_t)b, wasm_i64x2_make(0, 0)); \
        return (__m128i)wasm_v128_andnot(wasm_##lanes##_sub(wasm_v128_xor((v128_t)a, negative), negative), zero); \
    }
HW_SIGN(_mm_sign_epi8, i8x16, 8)
HW_SIGN(_mm_sign_epi16, i16x8, 16)
HW_SIGN(_mm_sign_epi32, i32x4, 32)

// On x86 a count is unsigned. A count of at least the lane's width gives 0, or the sign bit in all
// bits. WebAssembly takes the count modulo the width, so large counts are a case of their own here.
#define HW_SHIFTS(by_number, by_vector, what, bits) \
    HW_INLINE __m128i by_number(__m128i a, int n) { \
        return (uint32_t)n < (bits) ? (__m128i)what((v128_t)a, (uint32_t)n) : _mm_setzero_si128(); \
    } \
    HW_INLINE __m128i by_vector(__m128i a, __m128i n) { \
        return (uint64_t)n[0] < (bits) ? (__m128i)what((v128_t)a, (uint32_t)n[0]) : _mm_setzero_si128(); \
    }
HW_SHIFTS(_mm_slli_epi16, _mm_sll_epi16, wasm_i16x8_shl, 16)
HW_SHIFTS(_mm_slli_epi32, _mm_sll_epi32, wasm_i32x4_shl, 32)
HW_SHIFTS(_mm_slli_epi64, _mm_sll_epi64, wasm_i64x2_shl, 64)
HW_SHIFTS(_mm_srli_epi16, _mm_srl_epi16, wasm_u16x8_shr, 16)
HW_SHIFTS(_mm_srli_epi32, _mm_srl_epi32, wasm_u32x4_shr, 32)
HW_SHIFTS(_mm_srli_epi64, _mm_srl_epi64, wasm_u64x2_shr, 64)
#define HW_SIGNED_SHIFTS(by_number, by_vector, what, bits) \
    HW_INLINE __m128i by_number(__m128i a, int n) { \
        return (__m128i)what((v128_t)a, (uint32_t)n < (bits) ? (uint32_t)n : (bits) - 1); \
    } \
    HW_INLINE __m128i by_vector(__m128i a, __m128i n) { \
        return (__m128i)what((v128_t)a, (uint64_t)n[0] < (bits) ? (uint32_t)n[0] : (bits) - 1); \
    }
HW_SIGNED_SHIFTS(_mm_srai_epi16, _mm_sra_epi16, wasm_i16x8_shr, 16)
HW_SIGNED_SHIFTS(_mm_srai_epi32, _mm_sra_epi32, wasm_i32x4_shr, 32)

// ------------------------------------------------------------------------------------------- lanes

#define _MM_SHUFFLE(d, c, b, a) (((d) << 6) | ((c) << 4) | ((b) << 2) | (a))
#define _mm_shuffle_epi32(a, by) \
    ((__m128i)__builtin_shufflevector((hw_i32x4)(__m128i)(a), (hw_i32x4)_mm_setzero_si128(), (by) & 3, (by) >> 2 & 3, \
                                      (by) >> 4 & 3, (by) >> 6 & 3))

#define _mm_shufflelo_epi16(a, by) \
    ((__m128i)__builtin_shufflevector((hw_i16x8)(__m128i)(a), (hw_i16x8)_mm_setzero_si128(), (by) & 3, (by) >> 2 & 3, \
                                      (by) >> 4 & 3, (by) >> 6 & 3, 4, 5, 6, 7))
#define _mm_shufflehi_epi16(a, by) \
    ((__m128i)__builtin_shufflevector((hw_i16x8)(__m128i)(a), (hw_i16x8)_mm_setzero_si128(), 0, 1, 2, 3, ((by) & 3) + 4, \
                                      ((by) >> 2 & 3) + 4, ((by) >> 4 & 3) + 4, ((by) >> 6 & 3) + 4))
#define _MM_SHUFFLE2(b, a) (((b) << 1) | (a))
#define _mm_shuffle_ps(a, b, by) \
    ((__m128)__builtin_shufflevector((__m128)(a), (__m128)(b), (by) & 3, (by) >> 2 & 3, ((by) >> 4 & 3) + 4, ((by) >> 6 & 3) + 4))
#define _mm_shuffle_pd(a, b, by) \
    ((__m128d)__builtin_shufflevector((__m128d)(a), (__m128d)(b), (by) & 1, ((by) >> 1 & 1) + 2))

// An index with bit 7 set selects 0; any other index is taken modulo 16. The C compiler folds the
// mask if the indexes are constant.
HW_INLINE __m128i _mm_shuffle_epi8(__m128i a, __m128i by) {
    return (__m128i)wasm_i8x16_swizzle((v128_t)a, wasm_v128_and((v128_t)by, wasm_i8x16_splat((int8_t)0x8f)));
}

#define HW_MIXED(name, lanes, ...) \
    HW_INLINE __m128i name(__m128i a, __m128i b) { \
        return (__m128i)__builtin_shufflevector((lanes)a, (lanes)b, __VA_ARGS__); \
    }
HW_MIXED(_mm_unpacklo_epi8, hw_i8x16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
HW_MIXED(_mm_unpackhi_epi8, hw_i8x16, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
HW_MIXED(_mm_unpacklo_epi16, hw_i16x8, 0, 8, 1, 9, 2, 10, 3, 11)
HW_MIXED(_mm_unpackhi_epi16, hw_i16x8, 4, 12, 5, 13, 6, 14, 7, 15)
HW_MIXED(_mm_unpacklo_epi32, hw_i32x4, 0, 4, 1, 5)
HW_MIXED(_mm_unpackhi_epi32, hw_i32x4, 2, 6, 3, 7)
HW_MIXED(_mm_unpacklo_epi64, __m128i, 0, 2)
HW_MIXED(_mm_unpackhi_epi64, __m128i, 1, 3)
HW_OF_2(_mm_packs_epi16, wasm_i8x16_narrow_i16x8)
HW_OF_2(_mm_packus_epi16, wasm_u8x16_narrow_i16x8)
HW_OF_2(_mm_packs_epi32, wasm_i16x8_narrow_i32x4)
HW_OF_2(_mm_packus_epi32, wasm_u16x8_narrow_i32x4)
HW_OF_1(_mm_cvtepi8_epi16, wasm_i16x8_extend_low_i8x16)
HW_OF_1(_mm_cvtepi16_epi32, wasm_i32x4_extend_low_i16x8)
HW_OF_1(_mm_cvtepi32_epi64, wasm_i64x2_extend_low_i32x4)
HW_INLINE __m128i _mm_cvtepi8_epi32(__m128i a) { return _mm_cvtepi16_epi32(_mm_cvtepi8_epi16(a)); }
HW_INLINE __m128i _mm_cvtepi16_epi64(__m128i a) { return _mm_cvtepi32_epi64(_mm_cvtepi16_epi32(a)); }
HW_INLINE __m128i _mm_cvtepi8_epi64(__m128i a) { return _mm_cvtepi16_epi64(_mm_cvtepi8_epi16(a)); }
HW_OF_1(_mm_cvtepu8_epi16, wasm_u16x8_extend_low_u8x16)
HW_OF_1(_mm_cvtepu16_epi32, wasm_u32x4_extend_low_u16x8)
HW_OF_1(_mm_cvtepu32_epi64, wasm_u64x2_extend_low_u32x4)
HW_INLINE __m128i _mm_cvtepu8_epi32(__m128i a) { return _mm_cvtepu16_epi32(_mm_cvtepu8_epi16(a)); }
HW_INLINE __m128i _mm_cvtepu16_epi64(__m128i a) { return _mm_cvtepu32_epi64(_mm_cvtepu16_epi32(a)); }
HW_INLINE __m128i _mm_cvtepu8_epi64(__m128i a) { return _mm_cvtepu16_epi64(_mm_cvtepu8_epi16(a)); }
// Apply `what` to pairs of adjacent lanes.
#define HW_NEIGHBOURS_16(name, what) \
    HW_INLINE __m128i name(__m128i a, __m128i b) { \
        return (__m128i)what((v128_t)__builtin_shufflevector((hw_i16x8)a, (hw_i16x8)b, 0, 2, 4, 6, 8, 10, 12, 14), \
                             (v128_t)HW_UPPER(a, b)); \
    }
#define HW_NEIGHBOURS_32(name, what) \
    HW_INLINE __m128i name(__m128i a, __m128i b) { \
        return (__m128i)what((v128_t)__builtin_shufflevector((hw_i32x4)a, (hw_i32x4)b, 0, 2, 4, 6), \
                             (v128_t)__builtin_shufflevector((hw_i32x4)a, (hw_i32x4)b, 1, 3, 5, 7)); \
    }
HW_NEIGHBOURS_16(_mm_hadd_epi16, wasm_i16x8_add)
HW_NEIGHBOURS_32(_mm_hadd_epi32, wasm_i32x4_add)
HW_NEIGHBOURS_16(_mm_hadds_epi16, wasm_i16x8_add_sat)
HW_NEIGHBOURS_16(_mm_hsub_epi16, wasm_i16x8_sub)
HW_NEIGHBOURS_32(_mm_hsub_epi32, wasm_i32x4_sub)
HW_NEIGHBOURS_16(_mm_hsubs_epi16, wasm_i16x8_sub_sat)

// 16 bytes from byte n of the 32 bytes that are `low` followed by `high`; n is 0 to 16.
#define HW_BYTES(low, high, n) \
    ((__m128i)__builtin_shufflevector((hw_i8x16)(__m128i)(low), (hw_i8x16)(__m128i)(high), (n), (n) + 1, (n) + 2, (n) + 3, \
                                      (n) + 4, (n) + 5, (n) + 6, (n) + 7, (n) + 8, (n) + 9, (n) + 10, (n) + 11, (n) + 12, \
                                      (n) + 13, (n) + 14, (n) + 15))
// The lowest 8 bits of an immediate, at most 16; and the part that exceeds 16, at most 16.
#define HW_TO_16(n) (((n) & 0xff) > 16 ? 16 : (n) & 0xff)
#define HW_BEYOND_16(n) (((n) & 0xff) < 16 ? 0 : HW_TO_16(((n) & 0xff) - 16))
// Zeros follow the bytes of b and a.
#define _mm_alignr_epi8(a, b, n) HW_BYTES(HW_BYTES((b), (a), HW_TO_16(n)), _mm_setzero_si128(), HW_BEYOND_16(n))
#define _mm_srli_si128(a, n) HW_BYTES((a), _mm_setzero_si128(), HW_TO_16(n))
#define _mm_slli_si128(a, n) HW_BYTES(_mm_setzero_si128(), (a), 16 - HW_TO_16(n))
#define _mm_bsrli_si128(a, n) _mm_srli_si128(a, n)
#define _mm_bslli_si128(a, n) _mm_slli_si128(a, n)

#define HW_PICK(from, lane) (((from) >> (lane) & 1) * 8 + (lane))
#define _mm_blend_epi16(a, b, from) \
    ((__m128i)__builtin_shufflevector((hw_i16x8)(__m128i)(a), (hw_i16x8)(__m128i)(b), HW_PICK((from), 0), HW_PICK((from), 1), \
                                      HW_PICK((from), 2), HW_PICK((from), 3), HW_PICK((from), 4), HW_PICK((from), 5), \
                                      HW_PICK((from), 6), HW_PICK((from), 7)))

#endif
