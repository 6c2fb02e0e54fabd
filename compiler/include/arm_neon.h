// Arm's intrinsics for guests: a subset for hashes, encryption and checksums.
//
//     clang --target=wasm32-wasi -msimd128 -I include -O3 ...
//
// SHA-1, SHA-256, AES, PMULL and CRC32 become processor instructions (hw.h). The others become
// WebAssembly's own operators. Each name behaves as in Arm's C Language Extensions. Counts and
// lanes must be constants. C operators treat a vector as lanes of its type, as on Arm; but
// poly128_t is a vector here, not an integer.
#ifndef PIRN_ARM_NEON_H
#define PIRN_ARM_NEON_H

#include "hw.h"

typedef uint8_t uint8x16_t __attribute__((__vector_size__(16)));
typedef uint32_t uint32x4_t __attribute__((__vector_size__(16)));
typedef uint64_t uint64x2_t __attribute__((__vector_size__(16)));
typedef uint8_t poly8_t;
typedef uint64_t poly64_t;
typedef poly8_t poly8x16_t __attribute__((__vector_size__(16)));
typedef poly64_t poly64x2_t __attribute__((__vector_size__(16)));
typedef poly64_t poly128_t __attribute__((__vector_size__(16)));

// Define `name` on Arm's vector types by a function `what` on v128_t.
#define HW_ARM_OF_1(type, name, what) HW_INLINE type name(type a) { return (type)what((v128_t)a); }
#define HW_ARM_OF_2(type, name, what) HW_INLINE type name(type a, type b) { return (type)what((v128_t)a, (v128_t)b); }
#define HW_ARM_OF_3(type, name, what) \
    HW_INLINE type name(type a, type b, type c) { return (type)what((v128_t)a, (v128_t)b, (v128_t)c); }
#define HW_SHA1(name, what) \
    HW_INLINE uint32x4_t name(uint32x4_t abcd, uint32_t e, uint32x4_t w) { \
        return (uint32x4_t)what((v128_t)abcd, hw_lowest(e), (v128_t)w); \
    }

// ------------------------------------------------------------------------------------ instructions

HW_INLINE v128_t hw_lowest(uint32_t word) { return wasm_u32x4_make(word, 0, 0, 0); }
HW_SHA1(vsha1cq_u32, hw_aarch64_sha1c)
HW_SHA1(vsha1pq_u32, hw_aarch64_sha1p)
HW_SHA1(vsha1mq_u32, hw_aarch64_sha1m)
HW_INLINE uint32_t vsha1h_u32(uint32_t e) { return wasm_u32x4_extract_lane(hw_aarch64_sha1h(hw_lowest(e)), 0); }
HW_ARM_OF_3(uint32x4_t, vsha1su0q_u32, hw_aarch64_sha1su0)
HW_ARM_OF_2(uint32x4_t, vsha1su1q_u32, hw_aarch64_sha1su1)
HW_ARM_OF_3(uint32x4_t, vsha256hq_u32, hw_aarch64_sha256h)
HW_ARM_OF_3(uint32x4_t, vsha256h2q_u32, hw_aarch64_sha256h2)
HW_ARM_OF_2(uint32x4_t, vsha256su0q_u32, hw_aarch64_sha256su0)
HW_ARM_OF_3(uint32x4_t, vsha256su1q_u32, hw_aarch64_sha256su1)

HW_ARM_OF_2(uint8x16_t, vaeseq_u8, hw_aarch64_aese)
HW_ARM_OF_2(uint8x16_t, vaesdq_u8, hw_aarch64_aesd)
HW_ARM_OF_1(uint8x16_t, vaesmcq_u8, hw_aarch64_aesmc)
HW_ARM_OF_1(uint8x16_t, vaesimcq_u8, hw_aarch64_aesimc)

HW_INLINE poly128_t vmull_p64(poly64_t a, poly64_t b) {
    return (poly128_t)hw_aarch64_pmull(wasm_u64x2_make(a, 0), wasm_u64x2_make(b, 0));
}
HW_INLINE poly128_t vmull_high_p64(poly64x2_t a, poly64x2_t b) { return (poly128_t)hw_aarch64_pmull2((v128_t)a, (v128_t)b); }

HW_INLINE uint32_t __crc32b(uint32_t crc, uint8_t data) { return hw_aarch64_crc32b(crc, data); }
HW_INLINE uint32_t __crc32h(uint32_t crc, uint16_t data) { return hw_aarch64_crc32h(crc, data); }
HW_INLINE uint32_t __crc32w(uint32_t crc, uint32_t data) { return hw_aarch64_crc32w(crc, data); }
HW_INLINE uint32_t __crc32d(uint32_t crc, uint64_t data) { return hw_aarch64_crc32x(crc, data); }
HW_INLINE uint32_t __crc32cb(uint32_t crc, uint8_t data) { return hw_aarch64_crc32cb(crc, data); }
HW_INLINE uint32_t __crc32ch(uint32_t crc, uint16_t data) { return hw_aarch64_crc32ch(crc, data); }
HW_INLINE uint32_t __crc32cw(uint32_t crc, uint32_t data) { return hw_aarch64_crc32cw(crc, data); }
HW_INLINE uint32_t __crc32cd(uint32_t crc, uint64_t data) { return hw_aarch64_crc32cx(crc, data); }

// --------------------------------------------------------------------- WebAssembly's own operators

HW_INLINE uint8x16_t vld1q_u8(const uint8_t *from) { return (uint8x16_t)wasm_v128_load(from); }
HW_INLINE uint32x4_t vld1q_u32(const uint32_t *from) { return (uint32x4_t)wasm_v128_load(from); }
HW_INLINE void vst1q_u8(uint8_t *to, uint8x16_t a) { wasm_v128_store(to, (v128_t)a); }
HW_INLINE void vst1q_u32(uint32_t *to, uint32x4_t a) { wasm_v128_store(to, (v128_t)a); }
HW_INLINE uint8x16_t vdupq_n_u8(uint8_t a) { return (uint8x16_t)wasm_u8x16_splat(a); }
HW_INLINE uint32x4_t vdupq_n_u32(uint32_t a) { return (uint32x4_t)wasm_u32x4_splat(a); }
HW_ARM_OF_2(uint32x4_t, vaddq_u32, wasm_i32x4_add)
HW_ARM_OF_2(uint8x16_t, veorq_u8, wasm_v128_xor)
HW_ARM_OF_2(uint32x4_t, veorq_u32, wasm_v128_xor)
HW_ARM_OF_2(uint64x2_t, veorq_u64, wasm_v128_xor)
HW_INLINE uint8x16_t vrev32q_u8(uint8x16_t a) {
    return __builtin_shufflevector(a, a, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
}
#define vgetq_lane_u32(a, lane) ((uint32x4_t)(a))[(lane)]
#define vgetq_lane_u64(a, lane) ((uint64x2_t)(a))[(lane)]
#define vreinterpretq_u8_u32(a) ((uint8x16_t)(uint32x4_t)(a))
#define vreinterpretq_u32_u8(a) ((uint32x4_t)(uint8x16_t)(a))
#define vreinterpretq_u8_p128(a) ((uint8x16_t)(poly128_t)(a))
#define vreinterpretq_u64_p128(a) ((uint64x2_t)(poly128_t)(a))
#define vreinterpretq_p64_u8(a) ((poly64x2_t)(uint8x16_t)(a))
#define vreinterpretq_p64_u64(a) ((poly64x2_t)(uint64x2_t)(a))

#endif
