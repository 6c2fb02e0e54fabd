// Processor instructions for guests, by pirn's names. docs/reference/intrinsics.md describes each.
//
// immintrin.h and arm_neon.h define the names of C compilers, for existing code. For engines
// without the `hw` imports, compile a guest with -DHW_PORTABLE and link it with
// compiler/src/intrinsics/portable.c, which implements the same functions in plain WebAssembly.
#ifndef PIRN_HW_H
#define PIRN_HW_H

// A fatal warning stops clang at this message; after #error clang would report further errors. The
// #error below covers -w, which silences warnings.
#pragma clang diagnostic push
#pragma clang diagnostic fatal "-W#warnings"
#if !defined(__wasm__)
#warning "this header is for guests, and this target is not wasm; compile with --target=wasm32-wasi -msimd128, or without -I here"
#elif !defined(__wasm_simd128__)
#warning "this header needs vectors, and they are off; compile with -msimd128"
#endif
#pragma clang diagnostic pop
#ifndef __wasm_simd128__
#error "this header is for guests with vectors; compile with clang --target=wasm32-wasi -msimd128"
#endif

#include <stdint.h>
#include <wasm_simd128.h>

#ifdef HW_PORTABLE
#define HW_IMPORT(name) extern __attribute__((const))
#else
#define HW_IMPORT(name) extern __attribute__((const, import_module("hw"), import_name(name)))
#endif
#define HW_INLINE static inline __attribute__((always_inline, unused))

#ifdef __cplusplus
extern "C" {
#endif

// An immediate is the last parameter. Every call must pass a constant for it, so do not take the
// address of these functions.

HW_IMPORT("x86.sha1rnds4") v128_t hw_x86_sha1rnds4(v128_t abcd, v128_t words, int32_t group);
HW_IMPORT("x86.sha1nexte") v128_t hw_x86_sha1nexte(v128_t abcd, v128_t words);
HW_IMPORT("x86.sha1msg1") v128_t hw_x86_sha1msg1(v128_t a, v128_t b);
HW_IMPORT("x86.sha1msg2") v128_t hw_x86_sha1msg2(v128_t a, v128_t b);
HW_IMPORT("x86.sha256rnds2") v128_t hw_x86_sha256rnds2(v128_t cdgh, v128_t abef, v128_t words);
HW_IMPORT("x86.sha256msg1") v128_t hw_x86_sha256msg1(v128_t a, v128_t b);
HW_IMPORT("x86.sha256msg2") v128_t hw_x86_sha256msg2(v128_t a, v128_t b);

HW_IMPORT("x86.aesenc") v128_t hw_x86_aesenc(v128_t a, v128_t key);
HW_IMPORT("x86.aesenclast") v128_t hw_x86_aesenclast(v128_t a, v128_t key);
HW_IMPORT("x86.aesdec") v128_t hw_x86_aesdec(v128_t a, v128_t key);
HW_IMPORT("x86.aesdeclast") v128_t hw_x86_aesdeclast(v128_t a, v128_t key);
HW_IMPORT("x86.aesimc") v128_t hw_x86_aesimc(v128_t a);
HW_IMPORT("x86.aeskeygenassist") v128_t hw_x86_aeskeygenassist(v128_t a, int32_t rcon);

HW_IMPORT("x86.pclmulqdq") v128_t hw_x86_pclmulqdq(v128_t a, v128_t b, int32_t halves);

HW_IMPORT("x86.gf2p8mulb") v128_t hw_x86_gf2p8mulb(v128_t a, v128_t b);
HW_IMPORT("x86.gf2p8affineqb") v128_t hw_x86_gf2p8affineqb(v128_t a, v128_t matrix, int32_t constant);
HW_IMPORT("x86.gf2p8affineinvqb") v128_t hw_x86_gf2p8affineinvqb(v128_t a, v128_t matrix, int32_t constant);

HW_IMPORT("x86.crc32_u8") uint32_t hw_x86_crc32_u8(uint32_t crc, uint32_t data);
HW_IMPORT("x86.crc32_u16") uint32_t hw_x86_crc32_u16(uint32_t crc, uint32_t data);
HW_IMPORT("x86.crc32_u32") uint32_t hw_x86_crc32_u32(uint32_t crc, uint32_t data);
HW_IMPORT("x86.crc32_u64") uint64_t hw_x86_crc32_u64(uint64_t crc, uint64_t data);

HW_IMPORT("x86.pext_u32") uint32_t hw_x86_pext_u32(uint32_t a, uint32_t mask);
HW_IMPORT("x86.pext_u64") uint64_t hw_x86_pext_u64(uint64_t a, uint64_t mask);
HW_IMPORT("x86.pdep_u32") uint32_t hw_x86_pdep_u32(uint32_t a, uint32_t mask);
HW_IMPORT("x86.pdep_u64") uint64_t hw_x86_pdep_u64(uint64_t a, uint64_t mask);

// Where SHA-1 uses one word, that word is lane 0 of a vector. The first parameter is the register
// that the instruction overwrites.

HW_IMPORT("aarch64.sha1c") v128_t hw_aarch64_sha1c(v128_t abcd, v128_t e, v128_t words);
HW_IMPORT("aarch64.sha1p") v128_t hw_aarch64_sha1p(v128_t abcd, v128_t e, v128_t words);
HW_IMPORT("aarch64.sha1m") v128_t hw_aarch64_sha1m(v128_t abcd, v128_t e, v128_t words);
HW_IMPORT("aarch64.sha1h") v128_t hw_aarch64_sha1h(v128_t e);
HW_IMPORT("aarch64.sha1su0") v128_t hw_aarch64_sha1su0(v128_t w0, v128_t w4, v128_t w8);
HW_IMPORT("aarch64.sha1su1") v128_t hw_aarch64_sha1su1(v128_t sum, v128_t w12);
HW_IMPORT("aarch64.sha256h") v128_t hw_aarch64_sha256h(v128_t abcd, v128_t efgh, v128_t words);
HW_IMPORT("aarch64.sha256h2") v128_t hw_aarch64_sha256h2(v128_t efgh, v128_t abcd, v128_t words);
HW_IMPORT("aarch64.sha256su0") v128_t hw_aarch64_sha256su0(v128_t w0, v128_t w4);
HW_IMPORT("aarch64.sha256su1") v128_t hw_aarch64_sha256su1(v128_t sum, v128_t w8, v128_t w12);

HW_IMPORT("aarch64.aese") v128_t hw_aarch64_aese(v128_t a, v128_t key);
HW_IMPORT("aarch64.aesd") v128_t hw_aarch64_aesd(v128_t a, v128_t key);
HW_IMPORT("aarch64.aesmc") v128_t hw_aarch64_aesmc(v128_t a);
HW_IMPORT("aarch64.aesimc") v128_t hw_aarch64_aesimc(v128_t a);

HW_IMPORT("aarch64.pmull") v128_t hw_aarch64_pmull(v128_t a, v128_t b);
HW_IMPORT("aarch64.pmull2") v128_t hw_aarch64_pmull2(v128_t a, v128_t b);

HW_IMPORT("aarch64.crc32b") uint32_t hw_aarch64_crc32b(uint32_t crc, uint32_t data);
HW_IMPORT("aarch64.crc32h") uint32_t hw_aarch64_crc32h(uint32_t crc, uint32_t data);
HW_IMPORT("aarch64.crc32w") uint32_t hw_aarch64_crc32w(uint32_t crc, uint32_t data);
HW_IMPORT("aarch64.crc32x") uint32_t hw_aarch64_crc32x(uint32_t crc, uint64_t data);
HW_IMPORT("aarch64.crc32cb") uint32_t hw_aarch64_crc32cb(uint32_t crc, uint32_t data);
HW_IMPORT("aarch64.crc32ch") uint32_t hw_aarch64_crc32ch(uint32_t crc, uint32_t data);
HW_IMPORT("aarch64.crc32cw") uint32_t hw_aarch64_crc32cw(uint32_t crc, uint32_t data);
HW_IMPORT("aarch64.crc32cx") uint32_t hw_aarch64_crc32cx(uint32_t crc, uint64_t data);

#ifdef __cplusplus
}
#endif

#endif
