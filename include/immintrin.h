// Intel's intrinsics of 128 bits for guests, as far as code that hashes, encrypts and checks needs them: SHA,
// AES, PCLMULQDQ, GFNI, CRC32, PEXT and PDEP are the instructions (hw.h), the others are WebAssembly's own.
//
//     clang --target=wasm32-wasi -msimd128 -I include -O3 ...
//
// Each means what Intel's guide says of the name, and a vector is to operators what it is on x86: two numbers of 64 bits.
// Lanes, and what else is an immediate there, are constants.
#ifndef PIRN_IMMINTRIN_H
#define PIRN_IMMINTRIN_H

#include "hw.h"

typedef long long __m128i __attribute__((__vector_size__(16), __aligned__(16), __may_alias__));
typedef long long __m128i_u __attribute__((__vector_size__(16), __aligned__(1), __may_alias__));

typedef signed char hw_i8x16 __attribute__((__vector_size__(16)));
typedef short hw_i16x8 __attribute__((__vector_size__(16)));
typedef int hw_i32x4 __attribute__((__vector_size__(16)));

// A name for what the function or the macro `what` does with vectors.
#define HW_OF_1(name, what) HW_INLINE __m128i name(__m128i a) { return (__m128i)what((v128_t)a); }
#define HW_OF_2(name, what) HW_INLINE __m128i name(__m128i a, __m128i b) { return (__m128i)what((v128_t)a, (v128_t)b); }

// ------------------------------------------------------------------------------------------- the instructions

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

// Of the immediate only bits 0 and 4 count.
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

// ------------------------------------------------------------------------------------------- memory and constants

HW_INLINE __m128i _mm_load_si128(const __m128i *from) { return (__m128i)wasm_v128_load(from); }
HW_INLINE __m128i _mm_loadu_si128(const __m128i_u *from) { return (__m128i)wasm_v128_load(from); }
HW_INLINE __m128i _mm_lddqu_si128(const __m128i_u *from) { return (__m128i)wasm_v128_load(from); }
HW_INLINE __m128i _mm_loadl_epi64(const __m128i_u *from) { return (__m128i)wasm_v128_load64_zero(from); }
HW_INLINE void _mm_store_si128(__m128i *to, __m128i a) { wasm_v128_store(to, (v128_t)a); }
HW_INLINE void _mm_storeu_si128(__m128i_u *to, __m128i a) { wasm_v128_store(to, (v128_t)a); }
HW_INLINE void _mm_storel_epi64(__m128i_u *to, __m128i a) { wasm_v128_store64_lane(to, (v128_t)a, 0); }

HW_INLINE __m128i _mm_setzero_si128(void) { return (__m128i){0, 0}; }
HW_INLINE __m128i _mm_set1_epi8(char a) { return (__m128i)wasm_i8x16_splat(a); }
HW_INLINE __m128i _mm_set1_epi16(short a) { return (__m128i)wasm_i16x8_splat(a); }
HW_INLINE __m128i _mm_set1_epi32(int a) { return (__m128i)wasm_i32x4_splat(a); }
HW_INLINE __m128i _mm_set1_epi64x(long long a) { return (__m128i)wasm_i64x2_splat(a); }
HW_INLINE __m128i _mm_set_epi64x(long long b, long long a) { return (__m128i)wasm_i64x2_make(a, b); }
HW_INLINE __m128i _mm_set_epi32(int d, int c, int b, int a) { return (__m128i)wasm_i32x4_make(a, b, c, d); }
HW_INLINE __m128i _mm_setr_epi32(int a, int b, int c, int d) { return (__m128i)wasm_i32x4_make(a, b, c, d); }
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
#define _mm_extract_epi32(a, lane) wasm_i32x4_extract_lane(HW_V128(a), (lane) & 3)
#define _mm_extract_epi64(a, lane) wasm_i64x2_extract_lane(HW_V128(a), (lane) & 1)
#define _mm_insert_epi32(a, value, lane) ((__m128i)wasm_i32x4_replace_lane(HW_V128(a), (lane) & 3, (value)))
#define _mm_insert_epi64(a, value, lane) ((__m128i)wasm_i64x2_replace_lane(HW_V128(a), (lane) & 1, (value)))

// ------------------------------------------------------------------------------------------- arithmetic

HW_OF_2(_mm_xor_si128, wasm_v128_xor)
HW_OF_2(_mm_or_si128, wasm_v128_or)
HW_OF_2(_mm_and_si128, wasm_v128_and)
HW_INLINE __m128i _mm_andnot_si128(__m128i a, __m128i b) { return (__m128i)wasm_v128_andnot((v128_t)b, (v128_t)a); }
HW_OF_2(_mm_add_epi8, wasm_i8x16_add)
HW_OF_2(_mm_add_epi32, wasm_i32x4_add)
HW_OF_2(_mm_add_epi64, wasm_i64x2_add)
HW_OF_2(_mm_sub_epi32, wasm_i32x4_sub)
HW_OF_2(_mm_sub_epi64, wasm_i64x2_sub)
HW_OF_2(_mm_cmpeq_epi8, wasm_i8x16_eq)
HW_OF_2(_mm_cmpeq_epi32, wasm_i32x4_eq)
HW_INLINE int _mm_movemask_epi8(__m128i a) { return (int)wasm_i8x16_bitmask((v128_t)a); }

// A count is a number without a sign, and one of all bits or more gives 0; WebAssembly's shifts take it modulo their width.
#define HW_SHIFT(name, what, bits) \
    HW_INLINE __m128i name(__m128i a, int n) { \
        return (uint32_t)n < (bits) ? (__m128i)what((v128_t)a, (uint32_t)n) : _mm_setzero_si128(); \
    }
HW_SHIFT(_mm_slli_epi32, wasm_i32x4_shl, 32)
HW_SHIFT(_mm_srli_epi32, wasm_u32x4_shr, 32)
HW_SHIFT(_mm_slli_epi64, wasm_i64x2_shl, 64)
HW_SHIFT(_mm_srli_epi64, wasm_u64x2_shr, 64)

// ------------------------------------------------------------------------------------------- lanes

#define _MM_SHUFFLE(d, c, b, a) (((d) << 6) | ((c) << 4) | ((b) << 2) | (a))
#define _mm_shuffle_epi32(a, by) \
    ((__m128i)__builtin_shufflevector((hw_i32x4)(__m128i)(a), (hw_i32x4)_mm_setzero_si128(), (by) & 3, (by) >> 2 & 3, \
                                      (by) >> 4 & 3, (by) >> 6 & 3))

// An index with its highest bit set gives 0; of others the lowest four count. Constants cost nothing.
HW_INLINE __m128i _mm_shuffle_epi8(__m128i a, __m128i by) {
    return (__m128i)wasm_i8x16_swizzle((v128_t)a, wasm_v128_and((v128_t)by, wasm_i8x16_splat((int8_t)0x8f)));
}

#define HW_MIXED(name, lanes, ...) \
    HW_INLINE __m128i name(__m128i a, __m128i b) { \
        return (__m128i)__builtin_shufflevector((lanes)a, (lanes)b, __VA_ARGS__); \
    }
HW_MIXED(_mm_unpacklo_epi32, hw_i32x4, 0, 4, 1, 5)
HW_MIXED(_mm_unpackhi_epi32, hw_i32x4, 2, 6, 3, 7)
HW_MIXED(_mm_unpacklo_epi64, __m128i, 0, 2)
HW_MIXED(_mm_unpackhi_epi64, __m128i, 1, 3)

// 16 bytes of `low` and `high` one behind the other, from byte n on; n is 0 to 16.
#define HW_BYTES(low, high, n) \
    ((__m128i)__builtin_shufflevector((hw_i8x16)(__m128i)(low), (hw_i8x16)(__m128i)(high), (n), (n) + 1, (n) + 2, (n) + 3, \
                                      (n) + 4, (n) + 5, (n) + 6, (n) + 7, (n) + 8, (n) + 9, (n) + 10, (n) + 11, (n) + 12, \
                                      (n) + 13, (n) + 14, (n) + 15))
// An immediate of 8 bits, but 16 where it is more.
#define HW_TO_16(n) (((n) & 0xff) > 16 ? 16 : (n) & 0xff)
#define HW_BEYOND_16(n) (((n) & 0xff) < 16 ? 0 : HW_TO_16(((n) & 0xff) - 16))
// Zeros come behind both.
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
