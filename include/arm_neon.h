// Arm's intrinsics for guests, as far as code that hashes, encrypts and checks needs them: SHA-1, SHA-256, AES, PMULL and
// CRC32 are the instructions (hw.h), the others are WebAssembly's own. Vectors of all lanes are one type here.
//
//     clang --target=wasm32-wasi -msimd128 -I include -O3 ...
//
// Each means what Arm's C Language Extensions say of the name. Counts and lanes are constants.
#ifndef PIRN_ARM_NEON_H
#define PIRN_ARM_NEON_H

#include "hw.h"

typedef v128_t uint8x16_t;
typedef v128_t uint32x4_t;
typedef v128_t uint64x2_t;
typedef v128_t poly8x16_t;
typedef v128_t poly64x2_t;
typedef v128_t poly128_t;
typedef uint64_t poly64_t;

#ifndef HW_INLINE
#define HW_INLINE static inline __attribute__((always_inline, unused))
#endif

// ------------------------------------------------------------------------------------------- the instructions

HW_INLINE v128_t hw_lowest(uint32_t word) { return wasm_u32x4_make(word, 0, 0, 0); }
HW_INLINE uint32x4_t vsha1cq_u32(uint32x4_t abcd, uint32_t e, uint32x4_t w) { return hw_aarch64_sha1c(abcd, hw_lowest(e), w); }
HW_INLINE uint32x4_t vsha1pq_u32(uint32x4_t abcd, uint32_t e, uint32x4_t w) { return hw_aarch64_sha1p(abcd, hw_lowest(e), w); }
HW_INLINE uint32x4_t vsha1mq_u32(uint32x4_t abcd, uint32_t e, uint32x4_t w) { return hw_aarch64_sha1m(abcd, hw_lowest(e), w); }
HW_INLINE uint32_t vsha1h_u32(uint32_t e) { return wasm_u32x4_extract_lane(hw_aarch64_sha1h(hw_lowest(e)), 0); }
HW_INLINE uint32x4_t vsha1su0q_u32(uint32x4_t a, uint32x4_t b, uint32x4_t c) { return hw_aarch64_sha1su0(a, b, c); }
HW_INLINE uint32x4_t vsha1su1q_u32(uint32x4_t a, uint32x4_t b) { return hw_aarch64_sha1su1(a, b); }
HW_INLINE uint32x4_t vsha256hq_u32(uint32x4_t abcd, uint32x4_t efgh, uint32x4_t w) { return hw_aarch64_sha256h(abcd, efgh, w); }
HW_INLINE uint32x4_t vsha256h2q_u32(uint32x4_t efgh, uint32x4_t abcd, uint32x4_t w) { return hw_aarch64_sha256h2(efgh, abcd, w); }
HW_INLINE uint32x4_t vsha256su0q_u32(uint32x4_t a, uint32x4_t b) { return hw_aarch64_sha256su0(a, b); }
HW_INLINE uint32x4_t vsha256su1q_u32(uint32x4_t a, uint32x4_t b, uint32x4_t c) { return hw_aarch64_sha256su1(a, b, c); }

HW_INLINE uint8x16_t vaeseq_u8(uint8x16_t a, uint8x16_t key) { return hw_aarch64_aese(a, key); }
HW_INLINE uint8x16_t vaesdq_u8(uint8x16_t a, uint8x16_t key) { return hw_aarch64_aesd(a, key); }
HW_INLINE uint8x16_t vaesmcq_u8(uint8x16_t a) { return hw_aarch64_aesmc(a); }
HW_INLINE uint8x16_t vaesimcq_u8(uint8x16_t a) { return hw_aarch64_aesimc(a); }

HW_INLINE poly128_t vmull_p64(poly64_t a, poly64_t b) { return hw_aarch64_pmull(wasm_u64x2_make(a, 0), wasm_u64x2_make(b, 0)); }
HW_INLINE poly128_t vmull_high_p64(poly64x2_t a, poly64x2_t b) { return hw_aarch64_pmull2(a, b); }

HW_INLINE uint32_t __crc32b(uint32_t crc, uint8_t data) { return hw_aarch64_crc32b(crc, data); }
HW_INLINE uint32_t __crc32h(uint32_t crc, uint16_t data) { return hw_aarch64_crc32h(crc, data); }
HW_INLINE uint32_t __crc32w(uint32_t crc, uint32_t data) { return hw_aarch64_crc32w(crc, data); }
HW_INLINE uint32_t __crc32d(uint32_t crc, uint64_t data) { return hw_aarch64_crc32x(crc, data); }
HW_INLINE uint32_t __crc32cb(uint32_t crc, uint8_t data) { return hw_aarch64_crc32cb(crc, data); }
HW_INLINE uint32_t __crc32ch(uint32_t crc, uint16_t data) { return hw_aarch64_crc32ch(crc, data); }
HW_INLINE uint32_t __crc32cw(uint32_t crc, uint32_t data) { return hw_aarch64_crc32cw(crc, data); }
HW_INLINE uint32_t __crc32cd(uint32_t crc, uint64_t data) { return hw_aarch64_crc32cx(crc, data); }

// ------------------------------------------------------------------------------------------- the rest

HW_INLINE uint8x16_t vld1q_u8(const uint8_t *from) { return wasm_v128_load(from); }
HW_INLINE uint32x4_t vld1q_u32(const uint32_t *from) { return wasm_v128_load(from); }
HW_INLINE void vst1q_u8(uint8_t *to, uint8x16_t a) { wasm_v128_store(to, a); }
HW_INLINE void vst1q_u32(uint32_t *to, uint32x4_t a) { wasm_v128_store(to, a); }
HW_INLINE uint8x16_t vdupq_n_u8(uint8_t a) { return wasm_u8x16_splat(a); }
HW_INLINE uint32x4_t vdupq_n_u32(uint32_t a) { return wasm_u32x4_splat(a); }
HW_INLINE uint32x4_t vaddq_u32(uint32x4_t a, uint32x4_t b) { return wasm_i32x4_add(a, b); }
HW_INLINE uint8x16_t veorq_u8(uint8x16_t a, uint8x16_t b) { return wasm_v128_xor(a, b); }
HW_INLINE uint32x4_t veorq_u32(uint32x4_t a, uint32x4_t b) { return wasm_v128_xor(a, b); }
HW_INLINE uint64x2_t veorq_u64(uint64x2_t a, uint64x2_t b) { return wasm_v128_xor(a, b); }
HW_INLINE uint8x16_t vrev32q_u8(uint8x16_t a) {
    return wasm_i8x16_shuffle(a, a, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
}
#define vgetq_lane_u32(a, lane) wasm_u32x4_extract_lane((a), (lane))
#define vgetq_lane_u64(a, lane) wasm_u64x2_extract_lane((a), (lane))
#define vreinterpretq_u8_u32(a) (a)
#define vreinterpretq_u32_u8(a) (a)
#define vreinterpretq_u8_p128(a) (a)
#define vreinterpretq_u64_p128(a) (a)
#define vreinterpretq_p64_u8(a) (a)
#define vreinterpretq_p64_u64(a) (a)

#endif
