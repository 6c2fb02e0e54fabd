// The intrinsics in plain WebAssembly, for a --cpu that lacks the instruction.
//
// portable.sh builds portable.wasm from this file. The compiler embeds that module and translates
// its functions like functions of a guest. A function here must not use a memory, a table, a global
// or another function.
//
// The code runs in constant time: no branch and no address depends on an operand. The S-box
// therefore reads all rows of its table.
//
// Sources: FIPS 197 (AES), FIPS 180-4 (SHA), the Intel SDM, volume 2, and the Arm ARM, C6.2 and
// C7.2. Both manuals list the operations by name.
#include <stdint.h>
#include <wasm_simd128.h>

// With HW_PORTABLE this file is linked into a guest for engines without `hw`.
#ifdef HW_PORTABLE
#define HW(name)
#else
#define HW(name) __attribute__((export_name(name)))
#endif
#define INLINE static inline __attribute__((always_inline))

// ------------------------------------------------------------------------------------------- AES

#define S_BOX(ROW) \
    ROW(0, 0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab, 0x76) \
    ROW(1, 0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0, 0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0) \
    ROW(2, 0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f, 0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15) \
    ROW(3, 0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07, 0x12, 0x80, 0xe2, 0xeb, 0x27, 0xb2, 0x75) \
    ROW(4, 0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0, 0x52, 0x3b, 0xd6, 0xb3, 0x29, 0xe3, 0x2f, 0x84) \
    ROW(5, 0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf) \
    ROW(6, 0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45, 0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8) \
    ROW(7, 0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5, 0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2) \
    ROW(8, 0xcd, 0x0c, 0x13, 0xec, 0x5f, 0x97, 0x44, 0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73) \
    ROW(9, 0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88, 0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb) \
    ROW(10, 0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c, 0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79) \
    ROW(11, 0xe7, 0xc8, 0x37, 0x6d, 0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08) \
    ROW(12, 0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a) \
    ROW(13, 0x70, 0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e, 0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e) \
    ROW(14, 0xe1, 0xf8, 0x98, 0x11, 0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf) \
    ROW(15, 0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68, 0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16)

#define INVERSE_S_BOX(ROW) \
    ROW(0, 0x52, 0x09, 0x6a, 0xd5, 0x30, 0x36, 0xa5, 0x38, 0xbf, 0x40, 0xa3, 0x9e, 0x81, 0xf3, 0xd7, 0xfb) \
    ROW(1, 0x7c, 0xe3, 0x39, 0x82, 0x9b, 0x2f, 0xff, 0x87, 0x34, 0x8e, 0x43, 0x44, 0xc4, 0xde, 0xe9, 0xcb) \
    ROW(2, 0x54, 0x7b, 0x94, 0x32, 0xa6, 0xc2, 0x23, 0x3d, 0xee, 0x4c, 0x95, 0x0b, 0x42, 0xfa, 0xc3, 0x4e) \
    ROW(3, 0x08, 0x2e, 0xa1, 0x66, 0x28, 0xd9, 0x24, 0xb2, 0x76, 0x5b, 0xa2, 0x49, 0x6d, 0x8b, 0xd1, 0x25) \
    ROW(4, 0x72, 0xf8, 0xf6, 0x64, 0x86, 0x68, 0x98, 0x16, 0xd4, 0xa4, 0x5c, 0xcc, 0x5d, 0x65, 0xb6, 0x92) \
    ROW(5, 0x6c, 0x70, 0x48, 0x50, 0xfd, 0xed, 0xb9, 0xda, 0x5e, 0x15, 0x46, 0x57, 0xa7, 0x8d, 0x9d, 0x84) \
    ROW(6, 0x90, 0xd8, 0xab, 0x00, 0x8c, 0xbc, 0xd3, 0x0a, 0xf7, 0xe4, 0x58, 0x05, 0xb8, 0xb3, 0x45, 0x06) \
    ROW(7, 0xd0, 0x2c, 0x1e, 0x8f, 0xca, 0x3f, 0x0f, 0x02, 0xc1, 0xaf, 0xbd, 0x03, 0x01, 0x13, 0x8a, 0x6b) \
    ROW(8, 0x3a, 0x91, 0x11, 0x41, 0x4f, 0x67, 0xdc, 0xea, 0x97, 0xf2, 0xcf, 0xce, 0xf0, 0xb4, 0xe6, 0x73) \
    ROW(9, 0x96, 0xac, 0x74, 0x22, 0xe7, 0xad, 0x35, 0x85, 0xe2, 0xf9, 0x37, 0xe8, 0x1c, 0x75, 0xdf, 0x6e) \
    ROW(10, 0x47, 0xf1, 0x1a, 0x71, 0x1d, 0x29, 0xc5, 0x89, 0x6f, 0xb7, 0x62, 0x0e, 0xaa, 0x18, 0xbe, 0x1b) \
    ROW(11, 0xfc, 0x56, 0x3e, 0x4b, 0xc6, 0xd2, 0x79, 0x20, 0x9a, 0xdb, 0xc0, 0xfe, 0x78, 0xcd, 0x5a, 0xf4) \
    ROW(12, 0x1f, 0xdd, 0xa8, 0x33, 0x88, 0x07, 0xc7, 0x31, 0xb1, 0x12, 0x10, 0x59, 0x27, 0x80, 0xec, 0x5f) \
    ROW(13, 0x60, 0x51, 0x7f, 0xa9, 0x19, 0xb5, 0x4a, 0x0d, 0x2d, 0xe5, 0x7a, 0x9f, 0x93, 0xc9, 0x9c, 0xef) \
    ROW(14, 0xa0, 0xe0, 0x3b, 0x4d, 0xae, 0x2a, 0xf5, 0xb0, 0xc8, 0xeb, 0xbb, 0x3c, 0x83, 0x53, 0x99, 0x61) \
    ROW(15, 0x17, 0x2b, 0x04, 0x7e, 0xba, 0x77, 0xd6, 0x26, 0xe1, 0x69, 0x14, 0x63, 0x55, 0x21, 0x0c, 0x7d)

// Reads all 16 rows; the swizzle gives 0 for an index over 15, that is, for a byte of another row.
#define LOOK_UP(row, ...) \
    out = wasm_v128_or(out, wasm_i8x16_swizzle(wasm_u8x16_const(__VA_ARGS__), wasm_v128_xor(in, wasm_i8x16_splat((int8_t)((row) << 4)))));

INLINE v128_t sub_bytes(v128_t in) {
    v128_t out = wasm_u64x2_const(0, 0);
    S_BOX(LOOK_UP)
    return out;
}

INLINE v128_t inverse_sub_bytes(v128_t in) {
    v128_t out = wasm_u64x2_const(0, 0);
    INVERSE_S_BOX(LOOK_UP)
    return out;
}

INLINE v128_t shift_rows(v128_t a) {
    return wasm_i8x16_shuffle(a, a, 0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11);
}

INLINE v128_t inverse_shift_rows(v128_t a) {
    return wasm_i8x16_shuffle(a, a, 0, 13, 10, 7, 4, 1, 14, 11, 8, 5, 2, 15, 12, 9, 6, 3);
}

// Multiplies each byte by x, modulo x^8 + x^4 + x^3 + x + 1.
INLINE v128_t times_x(v128_t a) {
    v128_t carry = wasm_i8x16_lt(a, wasm_u64x2_const(0, 0));
    return wasm_v128_xor(wasm_i8x16_shl(a, 1), wasm_v128_and(carry, wasm_i8x16_splat(0x1b)));
}

// Rotate the four bytes of each column up by one byte, and by two.
INLINE v128_t up_1(v128_t a) {
    return wasm_i8x16_shuffle(a, a, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12);
}

INLINE v128_t up_2(v128_t a) {
    return wasm_i8x16_shuffle(a, a, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}

// MixColumns: multiplies each column by (2 3 1 1).
INLINE v128_t mix_columns(v128_t a) {
    v128_t b = wasm_v128_xor(a, up_1(a));
    return wasm_v128_xor(wasm_v128_xor(times_x(b), up_1(a)), up_2(b));
}

// InvMixColumns: multiplies each column by (14 11 13 9), as the product of (5 0 4 0) and (2 3 1 1).
INLINE v128_t inverse_mix_columns(v128_t a) {
    v128_t b = times_x(times_x(wasm_v128_xor(a, up_2(a))));
    return mix_columns(wasm_v128_xor(a, b));
}

HW("x86.aesenc") v128_t hw_x86_aesenc(v128_t a, v128_t key) {
    return wasm_v128_xor(mix_columns(sub_bytes(shift_rows(a))), key);
}

HW("x86.aesenclast") v128_t hw_x86_aesenclast(v128_t a, v128_t key) {
    return wasm_v128_xor(sub_bytes(shift_rows(a)), key);
}

HW("x86.aesdec") v128_t hw_x86_aesdec(v128_t a, v128_t key) {
    return wasm_v128_xor(inverse_mix_columns(inverse_sub_bytes(inverse_shift_rows(a))), key);
}

HW("x86.aesdeclast") v128_t hw_x86_aesdeclast(v128_t a, v128_t key) {
    return wasm_v128_xor(inverse_sub_bytes(inverse_shift_rows(a)), key);
}

HW("x86.aesimc") v128_t hw_x86_aesimc(v128_t a) {
    return inverse_mix_columns(a);
}

HW("aarch64.aese") v128_t hw_aarch64_aese(v128_t a, v128_t key) {
    return sub_bytes(shift_rows(wasm_v128_xor(a, key)));
}

HW("aarch64.aesd") v128_t hw_aarch64_aesd(v128_t a, v128_t key) {
    return inverse_sub_bytes(inverse_shift_rows(wasm_v128_xor(a, key)));
}

HW("aarch64.aesmc") v128_t hw_aarch64_aesmc(v128_t a) { return mix_columns(a); }
HW("aarch64.aesimc") v128_t hw_aarch64_aesimc(v128_t a) { return inverse_mix_columns(a); }

HW("x86.aeskeygenassist") v128_t hw_x86_aeskeygenassist(v128_t a, int32_t rcon) {
    // Substitutes words 1, 1, 3 and 3. The second word of each pair is rotated by a byte, and the
    // round constant is added to that word.
    v128_t s = sub_bytes(a);
    s = wasm_i8x16_shuffle(s, s, 4, 5, 6, 7, 5, 6, 7, 4, 12, 13, 14, 15, 13, 14, 15, 12);
    v128_t second = wasm_u32x4_const(0, 0xff, 0, 0xff);
    return wasm_v128_xor(s, wasm_v128_and(wasm_i32x4_splat(rcon), second));
}

// -------------------------------------------------------------------------- polynomials over GF(2)

INLINE v128_t carryless(uint64_t x, uint64_t y) {
    uint64_t low = 0, high = 0;
    for (int i = 0; i < 64; i++) {
        // Shift the partial product right by a bit. The bit shifted out is final: keep it in `low`.
        uint64_t taken = high ^ (x & -(y >> i & 1));
        low = low >> 1 | taken << 63;
        high = taken >> 1;
    }
    return wasm_u64x2_make(low, high);
}

HW("x86.pclmulqdq") v128_t hw_x86_pclmulqdq(v128_t a, v128_t b, int32_t halves) {
    uint64_t x = halves & 0x01 ? wasm_u64x2_extract_lane(a, 1) : wasm_u64x2_extract_lane(a, 0);
    uint64_t y = halves & 0x10 ? wasm_u64x2_extract_lane(b, 1) : wasm_u64x2_extract_lane(b, 0);
    return carryless(x, y);
}

HW("aarch64.pmull") v128_t hw_aarch64_pmull(v128_t a, v128_t b) {
    return carryless(wasm_u64x2_extract_lane(a, 0), wasm_u64x2_extract_lane(b, 0));
}

HW("aarch64.pmull2") v128_t hw_aarch64_pmull2(v128_t a, v128_t b) {
    return carryless(wasm_u64x2_extract_lane(a, 1), wasm_u64x2_extract_lane(b, 1));
}

// Multiplies bytes as polynomials, modulo the polynomial of AES.
INLINE v128_t times(v128_t a, v128_t b) {
    v128_t product = wasm_u64x2_const(0, 0);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v128_t bit = wasm_v128_and(b, wasm_i8x16_splat((int8_t)(1 << i)));
        product = wasm_v128_xor(product, wasm_v128_and(a, wasm_i8x16_ne(bit, wasm_u64x2_const(0, 0))));
        a = times_x(a);
    }
    return product;
}

// Multiplies each byte by the 8x8 bit matrix in its 64-bit half. Row 7 - i gives bit i.
INLINE v128_t affine(v128_t a, v128_t matrix, int32_t constant) {
    v128_t out = wasm_u64x2_const(0, 0);
#define ROW(i) \
    do { \
        v128_t row = wasm_i8x16_shuffle(matrix, matrix, 7 - (i), 7 - (i), 7 - (i), 7 - (i), 7 - (i), 7 - (i), 7 - (i), 7 - (i), \
                                        15 - (i), 15 - (i), 15 - (i), 15 - (i), 15 - (i), 15 - (i), 15 - (i), 15 - (i)); \
        v128_t parity = wasm_v128_and(wasm_i8x16_popcnt(wasm_v128_and(row, a)), wasm_i8x16_splat(1)); \
        out = wasm_v128_or(out, wasm_i8x16_shl(parity, (i))); \
    } while (0)
    ROW(0); ROW(1); ROW(2); ROW(3); ROW(4); ROW(5); ROW(6); ROW(7);
    return wasm_v128_xor(out, wasm_i8x16_splat((int8_t)constant));
}

HW("x86.gf2p8mulb") v128_t hw_x86_gf2p8mulb(v128_t a, v128_t b) { return times(a, b); }

HW("x86.gf2p8affineqb") v128_t hw_x86_gf2p8affineqb(v128_t a, v128_t matrix, int32_t constant) {
    return affine(a, matrix, constant);
}

HW("x86.gf2p8affineinvqb") v128_t hw_x86_gf2p8affineinvqb(v128_t a, v128_t matrix, int32_t constant) {
    // The inverse of a is a^254, the square of a^127.
    v128_t power = a;
    for (int i = 0; i < 6; i++) {
        power = times(times(power, power), a);
    }
    return affine(times(power, power), matrix, constant);
}

// The polynomials of CRC-32C and CRC-32, bit-reversed, as the data is.
#define CASTAGNOLI 0x82f63b78
#define ETHERNET 0xedb88320

INLINE uint64_t crc32(uint64_t polynomial, uint64_t crc, uint64_t data, int bits) {
    crc ^= data;
    for (int i = 0; i < bits; i++) {
        crc = crc >> 1 ^ (polynomial & -(crc & 1));
    }
    return crc;
}

#define CRC32_WORD(import, name, polynomial, bits, mask) \
    HW(import) uint32_t name(uint32_t crc, uint32_t data) { return crc32((polynomial), crc, data & (mask), (bits)); }

CRC32_WORD("x86.crc32_u8", hw_x86_crc32_u8, CASTAGNOLI, 8, 0xff)
CRC32_WORD("x86.crc32_u16", hw_x86_crc32_u16, CASTAGNOLI, 16, 0xffff)
CRC32_WORD("x86.crc32_u32", hw_x86_crc32_u32, CASTAGNOLI, 32, 0xffffffff)
CRC32_WORD("aarch64.crc32cb", hw_aarch64_crc32cb, CASTAGNOLI, 8, 0xff)
CRC32_WORD("aarch64.crc32ch", hw_aarch64_crc32ch, CASTAGNOLI, 16, 0xffff)
CRC32_WORD("aarch64.crc32cw", hw_aarch64_crc32cw, CASTAGNOLI, 32, 0xffffffff)
CRC32_WORD("aarch64.crc32b", hw_aarch64_crc32b, ETHERNET, 8, 0xff)
CRC32_WORD("aarch64.crc32h", hw_aarch64_crc32h, ETHERNET, 16, 0xffff)
CRC32_WORD("aarch64.crc32w", hw_aarch64_crc32w, ETHERNET, 32, 0xffffffff)

HW("x86.crc32_u64") uint64_t hw_x86_crc32_u64(uint64_t crc, uint64_t data) {
    return crc32(CASTAGNOLI, crc & 0xffffffff, data, 64);
}

HW("aarch64.crc32cx") uint32_t hw_aarch64_crc32cx(uint32_t crc, uint64_t data) {
    return crc32(CASTAGNOLI, crc, data, 64);
}

HW("aarch64.crc32x") uint32_t hw_aarch64_crc32x(uint32_t crc, uint64_t data) {
    return crc32(ETHERNET, crc, data, 64);
}

// ------------------------------------------------------------------------------------------- bits

INLINE uint64_t pext(uint64_t a, uint64_t mask, int bits) {
    uint64_t out = 0, to = 0;
    for (int from = 0; from < bits; from++) {
        uint64_t wanted = mask >> from & 1;
        out |= (a >> from & wanted) << to;
        to += wanted;
    }
    return out;
}

INLINE uint64_t pdep(uint64_t a, uint64_t mask, int bits) {
    uint64_t out = 0, from = 0;
    for (int to = 0; to < bits; to++) {
        uint64_t wanted = mask >> to & 1;
        out |= (a >> from & wanted) << to;
        from += wanted;
    }
    return out;
}

HW("x86.pext_u32") uint32_t hw_x86_pext_u32(uint32_t a, uint32_t mask) { return pext(a, mask, 32); }
HW("x86.pext_u64") uint64_t hw_x86_pext_u64(uint64_t a, uint64_t mask) { return pext(a, mask, 64); }
HW("x86.pdep_u32") uint32_t hw_x86_pdep_u32(uint32_t a, uint32_t mask) { return pdep(a, mask, 32); }
HW("x86.pdep_u64") uint64_t hw_x86_pdep_u64(uint64_t a, uint64_t mask) { return pdep(a, mask, 64); }

// ------------------------------------------------------------------------------------------- SHA

INLINE uint32_t rol(uint32_t a, int by) { return a << by | a >> (32 - by); }
INLINE uint32_t ror(uint32_t a, int by) { return a >> by | a << (32 - by); }

INLINE uint32_t word(v128_t a, int i) {
    switch (i) {
        case 0: return wasm_u32x4_extract_lane(a, 0);
        case 1: return wasm_u32x4_extract_lane(a, 1);
        case 2: return wasm_u32x4_extract_lane(a, 2);
        default: return wasm_u32x4_extract_lane(a, 3);
    }
}

HW("x86.sha1rnds4") v128_t hw_x86_sha1rnds4(v128_t abcd, v128_t words, int32_t group) {
    uint32_t a = word(abcd, 3), b = word(abcd, 2), c = word(abcd, 1), d = word(abcd, 0);
    // The caller has added the state's fifth word to the first message word.
    uint32_t e = 0;
    uint32_t k = (group & 3) == 0 ? 0x5a827999 : (group & 3) == 1 ? 0x6ed9eba1 : (group & 3) == 2 ? 0x8f1bbcdc : 0xca62c1d6;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t choose = (b & c) ^ (~b & d), parity = b ^ c ^ d, majority = (b & c) ^ (b & d) ^ (c & d);
        uint32_t f = (group & 3) == 0 ? choose : (group & 3) == 2 ? majority : parity;
        uint32_t next = rol(a, 5) + f + e + k + word(words, 3 - i);
        e = d;
        d = c;
        c = rol(b, 30);
        b = a;
        a = next;
    }
    return wasm_u32x4_make(d, c, b, a);
}

HW("x86.sha1nexte") v128_t hw_x86_sha1nexte(v128_t abcd, v128_t words) {
    uint32_t e = rol(word(abcd, 3), 30);
    return wasm_i32x4_add(words, wasm_u32x4_make(0, 0, 0, e));
}

HW("x86.sha1msg1") v128_t hw_x86_sha1msg1(v128_t a, v128_t b) {
    return wasm_v128_xor(a, wasm_i32x4_shuffle(b, a, 2, 3, 4, 5));
}

HW("x86.sha1msg2") v128_t hw_x86_sha1msg2(v128_t a, v128_t b) {
    uint32_t w16 = rol(word(a, 3) ^ word(b, 2), 1);
    uint32_t w17 = rol(word(a, 2) ^ word(b, 1), 1);
    uint32_t w18 = rol(word(a, 1) ^ word(b, 0), 1);
    uint32_t w19 = rol(word(a, 0) ^ w16, 1);
    return wasm_u32x4_make(w19, w18, w17, w16);
}

struct sha256 { uint32_t a, b, c, d, e, f, g, h; };

// Rounds of SHA-256. Round i uses lane i of `words`, to which the round constant is already added.
INLINE struct sha256 sha256(struct sha256 s, v128_t words, int rounds) {
#pragma unroll
    for (int i = 0; i < rounds; i++) {
        uint32_t choose = (s.e & s.f) ^ (~s.e & s.g), majority = (s.a & s.b) ^ (s.a & s.c) ^ (s.b & s.c);
        uint32_t sum = s.h + choose + word(words, i) + (ror(s.e, 6) ^ ror(s.e, 11) ^ ror(s.e, 25));
        uint32_t e = s.d + sum, a = sum + majority + (ror(s.a, 2) ^ ror(s.a, 13) ^ ror(s.a, 22));
        s = (struct sha256){a, s.a, s.b, s.c, e, s.e, s.f, s.g};
    }
    return s;
}

HW("x86.sha256rnds2") v128_t hw_x86_sha256rnds2(v128_t cdgh, v128_t abef, v128_t words) {
    struct sha256 s = {word(abef, 3), word(abef, 2), word(cdgh, 3), word(cdgh, 2),
                       word(abef, 1), word(abef, 0), word(cdgh, 1), word(cdgh, 0)};
    s = sha256(s, words, 2);
    return wasm_u32x4_make(s.f, s.e, s.b, s.a);
}

INLINE v128_t ror_each(v128_t a, int by) {
    return wasm_v128_or(wasm_u32x4_shr(a, by), wasm_i32x4_shl(a, 32 - by));
}

HW("x86.sha256msg1") v128_t hw_x86_sha256msg1(v128_t a, v128_t b) {
    v128_t w = wasm_i32x4_shuffle(a, b, 1, 2, 3, 4);
    v128_t sigma = wasm_v128_xor(wasm_v128_xor(ror_each(w, 7), ror_each(w, 18)), wasm_u32x4_shr(w, 3));
    return wasm_i32x4_add(a, sigma);
}

HW("x86.sha256msg2") v128_t hw_x86_sha256msg2(v128_t a, v128_t b) {
    uint32_t w[6] = {word(b, 2), word(b, 3)};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i + 2] = word(a, i) + (ror(w[i], 17) ^ ror(w[i], 19) ^ w[i] >> 10);
    }
    return wasm_u32x4_make(w[2], w[3], w[4], w[5]);
}

// On aarch64 the lowest lane holds the first word of the state, and `words` includes the constants.
INLINE v128_t sha1(v128_t abcd, v128_t e_first, v128_t words, int group) {
    uint32_t a = word(abcd, 0), b = word(abcd, 1), c = word(abcd, 2), d = word(abcd, 3), e = word(e_first, 0);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t choose = (b & c) ^ (~b & d), parity = b ^ c ^ d, majority = (b & c) ^ (b & d) ^ (c & d);
        uint32_t f = group == 0 ? choose : group == 1 ? parity : majority;
        uint32_t next = rol(a, 5) + f + e + word(words, i);
        e = d;
        d = c;
        c = rol(b, 30);
        b = a;
        a = next;
    }
    return wasm_u32x4_make(a, b, c, d);
}

HW("aarch64.sha1c") v128_t hw_aarch64_sha1c(v128_t abcd, v128_t e, v128_t words) { return sha1(abcd, e, words, 0); }
HW("aarch64.sha1p") v128_t hw_aarch64_sha1p(v128_t abcd, v128_t e, v128_t words) { return sha1(abcd, e, words, 1); }
HW("aarch64.sha1m") v128_t hw_aarch64_sha1m(v128_t abcd, v128_t e, v128_t words) { return sha1(abcd, e, words, 2); }

HW("aarch64.sha1h") v128_t hw_aarch64_sha1h(v128_t e) {
    return wasm_u32x4_make(rol(word(e, 0), 30), 0, 0, 0);
}

HW("aarch64.sha1su0") v128_t hw_aarch64_sha1su0(v128_t w0, v128_t w4, v128_t w8) {
    return wasm_v128_xor(wasm_v128_xor(w0, wasm_i32x4_shuffle(w0, w4, 2, 3, 4, 5)), w8);
}

HW("aarch64.sha1su1") v128_t hw_aarch64_sha1su1(v128_t sum, v128_t w12) {
    v128_t a = wasm_v128_xor(sum, wasm_i32x4_shuffle(w12, wasm_u64x2_const(0, 0), 1, 2, 3, 4));
    uint32_t first = rol(word(a, 0), 1);
    return wasm_u32x4_make(first, rol(word(a, 1), 1), rol(word(a, 2), 1), rol(word(a, 3), 1) ^ rol(first, 1));
}

INLINE struct sha256 sha256_four(v128_t abcd, v128_t efgh, v128_t words) {
    struct sha256 s = {word(abcd, 0), word(abcd, 1), word(abcd, 2), word(abcd, 3),
                       word(efgh, 0), word(efgh, 1), word(efgh, 2), word(efgh, 3)};
    return sha256(s, words, 4);
}

HW("aarch64.sha256h") v128_t hw_aarch64_sha256h(v128_t abcd, v128_t efgh, v128_t words) {
    struct sha256 s = sha256_four(abcd, efgh, words);
    return wasm_u32x4_make(s.a, s.b, s.c, s.d);
}

HW("aarch64.sha256h2") v128_t hw_aarch64_sha256h2(v128_t efgh, v128_t abcd, v128_t words) {
    struct sha256 s = sha256_four(abcd, efgh, words);
    return wasm_u32x4_make(s.e, s.f, s.g, s.h);
}

HW("aarch64.sha256su0") v128_t hw_aarch64_sha256su0(v128_t w0, v128_t w4) { return hw_x86_sha256msg1(w0, w4); }

HW("aarch64.sha256su1") v128_t hw_aarch64_sha256su1(v128_t sum, v128_t w8, v128_t w12) {
    return hw_x86_sha256msg2(wasm_i32x4_add(sum, wasm_i32x4_shuffle(w8, w12, 1, 2, 3, 4)), w12);
}
