// Intel's intrinsics of 128 bits for guests, as far as code that hashes, encrypts and checks needs them: SHA,
// AES, PCLMULQDQ, GFNI, CRC32, PEXT and PDEP are the instructions (hw.h), the others are WebAssembly's own.
//
//     clang --target=wasm32-wasi -msimd128 -I include -O3 ...
//
// Each means what Intel's guide says of the name. Counts and lanes are constants.
#ifndef PIRN_IMMINTRIN_H
#define PIRN_IMMINTRIN_H

#include "hw.h"

typedef v128_t __m128i;

#ifndef HW_INLINE
#define HW_INLINE static inline __attribute__((always_inline, unused))
#endif

// ------------------------------------------------------------------------------------------- the instructions

#define _mm_sha1rnds4_epu32(a, b, group) hw_x86_sha1rnds4((a), (b), (group))
HW_INLINE __m128i _mm_sha1nexte_epu32(__m128i a, __m128i b) { return hw_x86_sha1nexte(a, b); }
HW_INLINE __m128i _mm_sha1msg1_epu32(__m128i a, __m128i b) { return hw_x86_sha1msg1(a, b); }
HW_INLINE __m128i _mm_sha1msg2_epu32(__m128i a, __m128i b) { return hw_x86_sha1msg2(a, b); }
HW_INLINE __m128i _mm_sha256rnds2_epu32(__m128i a, __m128i b, __m128i k) { return hw_x86_sha256rnds2(a, b, k); }
HW_INLINE __m128i _mm_sha256msg1_epu32(__m128i a, __m128i b) { return hw_x86_sha256msg1(a, b); }
HW_INLINE __m128i _mm_sha256msg2_epu32(__m128i a, __m128i b) { return hw_x86_sha256msg2(a, b); }

HW_INLINE __m128i _mm_aesenc_si128(__m128i a, __m128i key) { return hw_x86_aesenc(a, key); }
HW_INLINE __m128i _mm_aesenclast_si128(__m128i a, __m128i key) { return hw_x86_aesenclast(a, key); }
HW_INLINE __m128i _mm_aesdec_si128(__m128i a, __m128i key) { return hw_x86_aesdec(a, key); }
HW_INLINE __m128i _mm_aesdeclast_si128(__m128i a, __m128i key) { return hw_x86_aesdeclast(a, key); }
HW_INLINE __m128i _mm_aesimc_si128(__m128i a) { return hw_x86_aesimc(a); }
#define _mm_aeskeygenassist_si128(a, rcon) hw_x86_aeskeygenassist((a), (rcon))

// Of the immediate only bits 0 and 4 count.
#define _mm_clmulepi64_si128(a, b, halves) hw_x86_pclmulqdq((a), (b), (halves) & 0x11)

HW_INLINE __m128i _mm_gf2p8mul_epi8(__m128i a, __m128i b) { return hw_x86_gf2p8mulb(a, b); }
#define _mm_gf2p8affine_epi64_epi8(a, matrix, constant) hw_x86_gf2p8affineqb((a), (matrix), (constant) & 0xff)
#define _mm_gf2p8affineinv_epi64_epi8(a, matrix, constant) hw_x86_gf2p8affineinvqb((a), (matrix), (constant) & 0xff)

HW_INLINE uint32_t _mm_crc32_u8(uint32_t crc, uint8_t data) { return hw_x86_crc32_u8(crc, data); }
HW_INLINE uint32_t _mm_crc32_u16(uint32_t crc, uint16_t data) { return hw_x86_crc32_u16(crc, data); }
HW_INLINE uint32_t _mm_crc32_u32(uint32_t crc, uint32_t data) { return hw_x86_crc32_u32(crc, data); }
HW_INLINE uint64_t _mm_crc32_u64(uint64_t crc, uint64_t data) { return hw_x86_crc32_u64(crc, data); }

HW_INLINE uint32_t _pext_u32(uint32_t a, uint32_t mask) { return hw_x86_pext_u32(a, mask); }
HW_INLINE uint64_t _pext_u64(uint64_t a, uint64_t mask) { return hw_x86_pext_u64(a, mask); }
HW_INLINE uint32_t _pdep_u32(uint32_t a, uint32_t mask) { return hw_x86_pdep_u32(a, mask); }
HW_INLINE uint64_t _pdep_u64(uint64_t a, uint64_t mask) { return hw_x86_pdep_u64(a, mask); }

// ------------------------------------------------------------------------------------------- memory and constants

HW_INLINE __m128i _mm_load_si128(const __m128i *from) { return wasm_v128_load(from); }
HW_INLINE __m128i _mm_loadu_si128(const __m128i *from) { return wasm_v128_load(from); }
HW_INLINE __m128i _mm_lddqu_si128(const __m128i *from) { return wasm_v128_load(from); }
HW_INLINE __m128i _mm_loadl_epi64(const __m128i *from) { return wasm_v128_load64_zero(from); }
HW_INLINE void _mm_store_si128(__m128i *to, __m128i a) { wasm_v128_store(to, a); }
HW_INLINE void _mm_storeu_si128(__m128i *to, __m128i a) { wasm_v128_store(to, a); }
HW_INLINE void _mm_storel_epi64(__m128i *to, __m128i a) { wasm_v128_store64_lane(to, a, 0); }

HW_INLINE __m128i _mm_setzero_si128(void) { return wasm_u64x2_make(0, 0); }
HW_INLINE __m128i _mm_set1_epi8(int8_t a) { return wasm_i8x16_splat(a); }
HW_INLINE __m128i _mm_set1_epi16(int16_t a) { return wasm_i16x8_splat(a); }
HW_INLINE __m128i _mm_set1_epi32(int32_t a) { return wasm_i32x4_splat(a); }
HW_INLINE __m128i _mm_set1_epi64x(int64_t a) { return wasm_i64x2_splat(a); }
HW_INLINE __m128i _mm_set_epi64x(int64_t b, int64_t a) { return wasm_i64x2_make(a, b); }
HW_INLINE __m128i _mm_set_epi32(int32_t d, int32_t c, int32_t b, int32_t a) { return wasm_i32x4_make(a, b, c, d); }
HW_INLINE __m128i _mm_setr_epi32(int32_t a, int32_t b, int32_t c, int32_t d) { return wasm_i32x4_make(a, b, c, d); }
#define _mm_setr_epi8(...) wasm_i8x16_make(__VA_ARGS__)
#define _mm_set_epi8(p, o, n, m, l, k, j, i, h, g, f, e, d, c, b, a) \
    wasm_i8x16_make((a), (b), (c), (d), (e), (f), (g), (h), (i), (j), (k), (l), (m), (n), (o), (p))

HW_INLINE int32_t _mm_cvtsi128_si32(__m128i a) { return wasm_i32x4_extract_lane(a, 0); }
HW_INLINE int64_t _mm_cvtsi128_si64(__m128i a) { return wasm_i64x2_extract_lane(a, 0); }
HW_INLINE __m128i _mm_cvtsi32_si128(int32_t a) { return wasm_i32x4_make(a, 0, 0, 0); }
HW_INLINE __m128i _mm_cvtsi64_si128(int64_t a) { return wasm_i64x2_make(a, 0); }
#define _mm_extract_epi32(a, lane) wasm_i32x4_extract_lane((a), (lane) & 3)
#define _mm_extract_epi64(a, lane) wasm_i64x2_extract_lane((a), (lane) & 1)
#define _mm_insert_epi32(a, value, lane) wasm_i32x4_replace_lane((a), (lane) & 3, (value))
#define _mm_insert_epi64(a, value, lane) wasm_i64x2_replace_lane((a), (lane) & 1, (value))

// ------------------------------------------------------------------------------------------- arithmetic

HW_INLINE __m128i _mm_xor_si128(__m128i a, __m128i b) { return wasm_v128_xor(a, b); }
HW_INLINE __m128i _mm_or_si128(__m128i a, __m128i b) { return wasm_v128_or(a, b); }
HW_INLINE __m128i _mm_and_si128(__m128i a, __m128i b) { return wasm_v128_and(a, b); }
HW_INLINE __m128i _mm_andnot_si128(__m128i a, __m128i b) { return wasm_v128_andnot(b, a); }
HW_INLINE __m128i _mm_add_epi8(__m128i a, __m128i b) { return wasm_i8x16_add(a, b); }
HW_INLINE __m128i _mm_add_epi32(__m128i a, __m128i b) { return wasm_i32x4_add(a, b); }
HW_INLINE __m128i _mm_add_epi64(__m128i a, __m128i b) { return wasm_i64x2_add(a, b); }
HW_INLINE __m128i _mm_sub_epi32(__m128i a, __m128i b) { return wasm_i32x4_sub(a, b); }
HW_INLINE __m128i _mm_sub_epi64(__m128i a, __m128i b) { return wasm_i64x2_sub(a, b); }
HW_INLINE __m128i _mm_cmpeq_epi8(__m128i a, __m128i b) { return wasm_i8x16_eq(a, b); }
HW_INLINE __m128i _mm_cmpeq_epi32(__m128i a, __m128i b) { return wasm_i32x4_eq(a, b); }
HW_INLINE int32_t _mm_movemask_epi8(__m128i a) { return (int32_t)wasm_i8x16_bitmask(a); }

// A count of all bits or more gives 0, and WebAssembly's shifts take it modulo their width.
HW_INLINE __m128i _mm_slli_epi32(__m128i a, int n) { return n > 31 ? _mm_setzero_si128() : wasm_i32x4_shl(a, n); }
HW_INLINE __m128i _mm_srli_epi32(__m128i a, int n) { return n > 31 ? _mm_setzero_si128() : wasm_u32x4_shr(a, n); }
HW_INLINE __m128i _mm_slli_epi64(__m128i a, int n) { return n > 63 ? _mm_setzero_si128() : wasm_i64x2_shl(a, n); }
HW_INLINE __m128i _mm_srli_epi64(__m128i a, int n) { return n > 63 ? _mm_setzero_si128() : wasm_u64x2_shr(a, n); }

// ------------------------------------------------------------------------------------------- lanes

#define _MM_SHUFFLE(d, c, b, a) (((d) << 6) | ((c) << 4) | ((b) << 2) | (a))
// An operand that is needed twice is evaluated once.
#define _mm_shuffle_epi32(a, by) \
    __extension__({ \
        __m128i hw_once = (a); \
        wasm_i32x4_shuffle(hw_once, hw_once, (by) & 3, (by) >> 2 & 3, (by) >> 4 & 3, (by) >> 6 & 3); \
    })

// An index with its highest bit set gives 0; of others the lowest four count. Constants cost nothing.
HW_INLINE __m128i _mm_shuffle_epi8(__m128i a, __m128i by) {
    return wasm_i8x16_swizzle(a, wasm_v128_and(by, wasm_i8x16_splat((int8_t)0x8f)));
}

HW_INLINE __m128i _mm_unpacklo_epi32(__m128i a, __m128i b) { return wasm_i32x4_shuffle(a, b, 0, 4, 1, 5); }
HW_INLINE __m128i _mm_unpackhi_epi32(__m128i a, __m128i b) { return wasm_i32x4_shuffle(a, b, 2, 6, 3, 7); }
HW_INLINE __m128i _mm_unpacklo_epi64(__m128i a, __m128i b) { return wasm_i64x2_shuffle(a, b, 0, 2); }
HW_INLINE __m128i _mm_unpackhi_epi64(__m128i a, __m128i b) { return wasm_i64x2_shuffle(a, b, 1, 3); }

// 16 bytes of `low` and `high` one behind the other, from byte n on; n is 0 to 16.
#define HW_BYTES(low, high, n) \
    wasm_i8x16_shuffle((low), (high), (n), (n) + 1, (n) + 2, (n) + 3, (n) + 4, (n) + 5, (n) + 6, (n) + 7, \
                       (n) + 8, (n) + 9, (n) + 10, (n) + 11, (n) + 12, (n) + 13, (n) + 14, (n) + 15)
#define _mm_alignr_epi8(a, b, n) HW_BYTES((b), (a), (n))
#define _mm_srli_si128(a, n) HW_BYTES((a), _mm_setzero_si128(), (n) > 16 ? 16 : (n))
#define _mm_slli_si128(a, n) HW_BYTES(_mm_setzero_si128(), (a), (n) > 16 ? 0 : 16 - (n))
#define _mm_bsrli_si128 _mm_srli_si128
#define _mm_bslli_si128 _mm_slli_si128

#define HW_PICK(from, lane) (((from) >> (lane) & 1) * 8 + (lane))
#define _mm_blend_epi16(a, b, from) \
    wasm_i16x8_shuffle((a), (b), HW_PICK((from), 0), HW_PICK((from), 1), HW_PICK((from), 2), HW_PICK((from), 3), \
                       HW_PICK((from), 4), HW_PICK((from), 5), HW_PICK((from), 6), HW_PICK((from), 7))

#endif
