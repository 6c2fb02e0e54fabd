// Real kernels written with v128 intrinsics, each checked in the program against plain C.
//
//     simd [rounds]     rounds: how often the kernels run, 1 if not given; the output is the same
//
// Prints a line for each kernel with the FNV-1a hash of its result. If a kernel differs from plain
// C, the program says so and exits with 1. The vectoriser must be off (see build.sh); otherwise the
// plain C becomes vector code too. Built for another target, the program runs only the plain C. A
// native build made the expected output.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#endif

enum { LEN = 3072, WIDTH = 64 }; // LEN is a multiple of 3 (base64) and of 16 (a vector)

static uint8_t bytes_a[LEN], bytes_b[LEN];
static float floats_a[LEN], floats_b[LEN];
static int16_t samples[LEN + 16], taps[16];

static uint32_t random_state;

static uint32_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static void make_input(void) {
    random_state = 0x9e3779b9;
    for (int i = 0; i < LEN; i++) {
        bytes_a[i] = (uint8_t)(next_random() >> 11);
        bytes_b[i] = (uint8_t)(next_random() >> 13);
        floats_a[i] = (float)(int32_t)next_random() / 65536.0f;
        floats_b[i] = (float)(int32_t)next_random() / 16777216.0f;
    }
    for (int i = 0; i < LEN + 16; i++) samples[i] = (int16_t)next_random();
    for (int i = 0; i < 16; i++) taps[i] = (int16_t)next_random();
}

// --- plain C -------------------------------------------------------------------------------------

// Adds four partial sums in pairs, in the order of the vector code, so that the bits are equal.
static size_t plain_dot(uint8_t *out) {
    float sum[4] = {0};
    for (int i = 0; i < LEN; i++) sum[i % 4] += floats_a[i] * floats_b[i];
    float dot = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    memcpy(out, &dot, sizeof dot);
    return sizeof dot;
}

static uint8_t clamp_u8(int value) { return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value; }

// Computes a * 3/4 + b * 5/8, saturated; then subtracts b, saturated at zero.
static size_t plain_blend(uint8_t *out) {
    for (int i = 0; i < LEN; i++) {
        uint8_t mixed = clamp_u8((bytes_a[i] * 6 + bytes_b[i] * 5 + 4) >> 3);
        out[i] = mixed;
        out[LEN + i] = clamp_u8(mixed - bytes_b[i]);
    }
    return 2 * LEN;
}

static size_t plain_hex(uint8_t *out) {
    for (int i = 0; i < LEN; i++) {
        out[2 * i] = (uint8_t)"0123456789abcdef"[bytes_a[i] >> 4];
        out[2 * i + 1] = (uint8_t)"0123456789abcdef"[bytes_a[i] & 15];
    }
    return 2 * LEN;
}

static size_t plain_base64(uint8_t *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *at = out;
    for (int i = 0; i < LEN; i += 3) {
        uint32_t group = (uint32_t)bytes_a[i] << 16 | (uint32_t)bytes_a[i + 1] << 8 | bytes_a[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6) *at++ = (uint8_t)digits[group >> shift & 63];
    }
    return (size_t)(at - out);
}

static size_t plain_popcount(uint8_t *out) {
    uint32_t count = 0;
    for (int i = 0; i < LEN; i++)
        for (uint8_t rest = bytes_a[i]; rest; rest &= (uint8_t)(rest - 1)) count++;
    memcpy(out, &count, sizeof count);
    return sizeof count;
}

// Number of bytes below 32, and the index of the first byte that equals 10.
static size_t plain_scan(uint8_t *out) {
    uint32_t found[2] = {0, LEN};
    for (int i = 0; i < LEN; i++) {
        found[0] += bytes_b[i] < 32;
        if (bytes_b[i] == 10 && found[1] == LEN) found[1] = (uint32_t)i;
    }
    memcpy(out, found, sizeof found);
    return sizeof found;
}

static size_t plain_filter(uint8_t *out) {
    for (int i = 0; i < LEN; i++) {
        // Unsigned, because the sum of sixteen products may exceed 2^31. Both versions wrap around.
        uint32_t sum = 0;
        for (int t = 0; t < 16; t++) sum += (uint32_t)(samples[i + t] * taps[t]);
        memcpy(out + 4 * i, &sum, 4);
    }
    return 4 * LEN;
}

static size_t plain_convert(uint8_t *out) {
    for (int i = 0; i < LEN; i++) {
        float scaled = floats_a[i] * floats_b[i] * 4096.0f;
        int32_t whole = scaled >= 2147483648.0f ? INT32_MAX : scaled < -2147483648.0f ? INT32_MIN : (int32_t)scaled;
        memcpy(out + 4 * i, &whole, 4);
    }
    return 4 * LEN;
}

static size_t plain_mandelbrot(uint8_t *out) {
    for (int y = 0; y < WIDTH; y++)
        for (int x = 0; x < WIDTH; x++) {
            double cr = x / 32.0 - 1.5, ci = y / 32.0 - 1.0, zr = 0, zi = 0;
            uint8_t steps = 0;
            while (steps < 100 && zr * zr + zi * zi <= 4.0) {
                double next = zr * zr - zi * zi + cr;
                zi = 2.0 * zr * zi + ci;
                zr = next;
                steps++;
            }
            out[y * WIDTH + x] = steps;
        }
    return WIDTH * WIDTH;
}

static size_t plain_transpose(uint8_t *out) {
    for (int block = 0; block < LEN / 64; block++)
        for (int row = 0; row < 4; row++)
            for (int column = 0; column < 4; column++)
                memcpy(out + 64 * block + 16 * column + 4 * row, bytes_a + 64 * block + 16 * row + 4 * column, 4);
    return LEN;
}

// --- v128 ----------------------------------------------------------------------------------------

#ifdef __wasm_simd128__

static size_t simd_dot(uint8_t *out) {
    v128_t sum = wasm_f32x4_splat(0);
    for (int i = 0; i < LEN; i += 4)
        sum = wasm_f32x4_add(sum, wasm_f32x4_mul(wasm_v128_load(floats_a + i), wasm_v128_load(floats_b + i)));
    sum = wasm_f32x4_add(sum, wasm_i32x4_shuffle(sum, sum, 2, 3, 0, 1));
    float dot = wasm_f32x4_extract_lane(sum, 0) + wasm_f32x4_extract_lane(sum, 1);
    memcpy(out, &dot, sizeof dot);
    return sizeof dot;
}

static v128_t weigh(v128_t a, v128_t b) {
    v128_t sum = wasm_i16x8_add(wasm_i16x8_mul(a, wasm_i16x8_const_splat(6)), wasm_i16x8_mul(b, wasm_i16x8_const_splat(5)));
    return wasm_u16x8_shr(wasm_i16x8_add(sum, wasm_i16x8_const_splat(4)), 3);
}

static size_t simd_blend(uint8_t *out) {
    for (int i = 0; i < LEN; i += 16) {
        v128_t a = wasm_v128_load(bytes_a + i), b = wasm_v128_load(bytes_b + i);
        v128_t low = weigh(wasm_u16x8_extend_low_u8x16(a), wasm_u16x8_extend_low_u8x16(b));
        v128_t high = weigh(wasm_u16x8_extend_high_u8x16(a), wasm_u16x8_extend_high_u8x16(b));
        v128_t mixed = wasm_u8x16_narrow_i16x8(low, high);
        wasm_v128_store(out + i, mixed);
        wasm_v128_store(out + LEN + i, wasm_u8x16_sub_sat(mixed, b));
    }
    return 2 * LEN;
}

static size_t simd_hex(uint8_t *out) {
    const v128_t digits = wasm_v128_load("0123456789abcdef");
    for (int i = 0; i < LEN; i += 16) {
        v128_t bytes = wasm_v128_load(bytes_a + i);
        v128_t high = wasm_i8x16_swizzle(digits, wasm_u8x16_shr(bytes, 4));
        v128_t low = wasm_i8x16_swizzle(digits, wasm_v128_and(bytes, wasm_i8x16_const_splat(15)));
        wasm_v128_store(out + 2 * i, wasm_i8x16_shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
        wasm_v128_store(out + 2 * i + 16, wasm_i8x16_shuffle(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
    }
    return 2 * LEN;
}

// Turns twelve bytes into sixteen 6-bit numbers, then adds to each the offset of its digit range.
static size_t simd_base64(uint8_t *out) {
    uint8_t *at = out;
    for (int i = 0; i < LEN; i += 12) {
        uint8_t padded[16] = {0};
        memcpy(padded, bytes_a + i, 12);
        v128_t in = wasm_v128_load(padded);
        // Each 32-bit lane gets, from its lowest byte, the bytes b a c b of a group a b c.
        in = wasm_i8x16_shuffle(in, in, 1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
        v128_t first = wasm_v128_and(wasm_u32x4_shr(in, 10), wasm_i32x4_const_splat(0x0000003f));
        v128_t second = wasm_v128_and(wasm_i32x4_shl(in, 4), wasm_i32x4_const_splat(0x00003f00));
        v128_t third = wasm_v128_and(wasm_u32x4_shr(in, 6), wasm_i32x4_const_splat(0x003f0000));
        v128_t fourth = wasm_v128_and(wasm_i32x4_shl(in, 8), wasm_i32x4_const_splat(0x3f000000));
        v128_t number = wasm_v128_or(wasm_v128_or(first, second), wasm_v128_or(third, fourth));

        v128_t offset = wasm_i8x16_const_splat('A');
        offset = wasm_v128_bitselect(wasm_i8x16_const_splat('a' - 26), offset, wasm_i8x16_gt(number, wasm_i8x16_const_splat(25)));
        offset = wasm_v128_bitselect(wasm_i8x16_const_splat('0' - 52), offset, wasm_i8x16_gt(number, wasm_i8x16_const_splat(51)));
        offset = wasm_v128_bitselect(wasm_i8x16_const_splat('+' - 62), offset, wasm_i8x16_eq(number, wasm_i8x16_const_splat(62)));
        offset = wasm_v128_bitselect(wasm_i8x16_const_splat('/' - 63), offset, wasm_i8x16_eq(number, wasm_i8x16_const_splat(63)));
        wasm_v128_store(at, wasm_i8x16_add(number, offset));
        at += 16;
    }
    return (size_t)(at - out);
}

static size_t simd_popcount(uint8_t *out) {
    v128_t sum = wasm_i32x4_splat(0);
    for (int i = 0; i < LEN; i += 16) {
        v128_t counts = wasm_i8x16_popcnt(wasm_v128_load(bytes_a + i));
        sum = wasm_i32x4_add(sum, wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16(counts)));
    }
    uint32_t lanes[4], count;
    wasm_v128_store(lanes, sum);
    count = lanes[0] + lanes[1] + lanes[2] + lanes[3];
    memcpy(out, &count, sizeof count);
    return sizeof count;
}

static size_t simd_scan(uint8_t *out) {
    uint32_t found[2] = {0, LEN};
    for (int i = 0; i < LEN; i += 16) {
        v128_t bytes = wasm_v128_load(bytes_b + i);
        found[0] += (uint32_t)__builtin_popcount(wasm_i8x16_bitmask(wasm_u8x16_lt(bytes, wasm_u8x16_const_splat(32))));
        v128_t feeds = wasm_i8x16_eq(bytes, wasm_i8x16_const_splat(10));
        if (found[1] == LEN && wasm_v128_any_true(feeds))
            found[1] = (uint32_t)(i + __builtin_ctz(wasm_i8x16_bitmask(feeds)));
    }
    memcpy(out, found, sizeof found);
    return sizeof found;
}

static size_t simd_filter(uint8_t *out) {
    v128_t low = wasm_v128_load(taps), high = wasm_v128_load(taps + 8);
    for (int i = 0; i < LEN; i++) {
        v128_t sum = wasm_i32x4_add(wasm_i32x4_dot_i16x8(wasm_v128_load(samples + i), low),
                                    wasm_i32x4_dot_i16x8(wasm_v128_load(samples + i + 8), high));
        sum = wasm_i32x4_add(sum, wasm_i32x4_shuffle(sum, sum, 2, 3, 0, 1));
        sum = wasm_i32x4_add(sum, wasm_i32x4_shuffle(sum, sum, 1, 0, 3, 2));
        wasm_v128_store32_lane(out + 4 * i, sum, 0);
    }
    return 4 * LEN;
}

static size_t simd_convert(uint8_t *out) {
    for (int i = 0; i < LEN; i += 4) {
        v128_t product = wasm_f32x4_mul(wasm_v128_load(floats_a + i), wasm_v128_load(floats_b + i));
        wasm_v128_store(out + 4 * i, wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_mul(product, wasm_f32x4_const_splat(4096.0f))));
    }
    return 4 * LEN;
}

static size_t simd_mandelbrot(uint8_t *out) {
    for (int y = 0; y < WIDTH; y++)
        for (int x = 0; x < WIDTH; x += 2) {
            v128_t cr = wasm_f64x2_make(x / 32.0 - 1.5, (x + 1) / 32.0 - 1.5), ci = wasm_f64x2_splat(y / 32.0 - 1.0);
            v128_t zr = wasm_f64x2_splat(0), zi = zr, steps = wasm_i64x2_splat(0), inside = wasm_i64x2_splat(-1);
            for (int step = 0; step < 100; step++) {
                v128_t rr = wasm_f64x2_mul(zr, zr), ii = wasm_f64x2_mul(zi, zi);
                // Once a point has escaped, later values of z must not count it again.
                inside = wasm_v128_and(inside, wasm_f64x2_le(wasm_f64x2_add(rr, ii), wasm_f64x2_splat(4.0)));
                if (!wasm_v128_any_true(inside)) break;
                steps = wasm_i64x2_sub(steps, inside);
                zi = wasm_f64x2_add(wasm_f64x2_mul(wasm_f64x2_mul(wasm_f64x2_splat(2.0), zr), zi), ci);
                zr = wasm_f64x2_add(wasm_f64x2_sub(rr, ii), cr);
            }
            out[y * WIDTH + x] = (uint8_t)wasm_i64x2_extract_lane(steps, 0);
            out[y * WIDTH + x + 1] = (uint8_t)wasm_i64x2_extract_lane(steps, 1);
        }
    return WIDTH * WIDTH;
}

static size_t simd_transpose(uint8_t *out) {
    for (int i = 0; i < LEN; i += 64) {
        v128_t a = wasm_v128_load(bytes_a + i), b = wasm_v128_load(bytes_a + i + 16);
        v128_t c = wasm_v128_load(bytes_a + i + 32), d = wasm_v128_load(bytes_a + i + 48);
        v128_t ab_low = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), ab_high = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
        v128_t cd_low = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), cd_high = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
        wasm_v128_store(out + i, wasm_i64x2_shuffle(ab_low, cd_low, 0, 2));
        wasm_v128_store(out + i + 16, wasm_i64x2_shuffle(ab_low, cd_low, 1, 3));
        wasm_v128_store(out + i + 32, wasm_i64x2_shuffle(ab_high, cd_high, 0, 2));
        wasm_v128_store(out + i + 48, wasm_i64x2_shuffle(ab_high, cd_high, 1, 3));
    }
    return LEN;
}

#define KERNEL(name) {#name, plain_##name, simd_##name}
#else
#define KERNEL(name) {#name, plain_##name, plain_##name}
#endif

// --- comparison ----------------------------------------------------------------------------------

typedef size_t Kernel(uint8_t *out);

static const struct {
    const char *name;
    Kernel *plain, *simd;
} kernels[] = {
    KERNEL(dot),    KERNEL(blend),   KERNEL(hex),        KERNEL(base64),    KERNEL(popcount), KERNEL(scan),
    KERNEL(filter), KERNEL(convert), KERNEL(mandelbrot), KERNEL(transpose),
};

static uint64_t fnv1a(const uint8_t *bytes, size_t len) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++) hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

int main(int argc, char **argv) {
    static uint8_t plain[4 * LEN], simd[4 * LEN];
    int rounds = argc > 1 ? atoi(argv[1]) : 1, wrong = 0;
    if (rounds < 1) {
        fprintf(stderr, "simd: rounds is \"%s\"; give a number from 1 up\n", argv[1]);
        return 2;
    }
    make_input();
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        size_t plain_len = kernels[k].plain(plain), simd_len = 0;
        for (int round = 0; round < rounds; round++) {
            memset(simd, 0xee, sizeof simd);
            simd_len = kernels[k].simd(simd);
        }
        int agree = plain_len == simd_len && !memcmp(plain, simd, plain_len);
        printf("%-10s %5zu bytes, fnv1a %016" PRIx64 "%s\n", kernels[k].name, simd_len, fnv1a(simd, simd_len),
               agree ? "" : ", DISAGREES with plain C");
        wrong += !agree;
    }
    return wrong != 0;
}
