//! The functions of `examples/guests/c/crypto.c`, translated line by line, with the host's own
//! intrinsics. The guests are compared with them. They exist only for x86-64.

#![allow(
    unused_assignments,
    reason = "the last rounds of an unrolled loop compute words that no later round uses"
)]
#![allow(
    unsafe_code,
    reason = "instructions of a processor that has been asked for them"
)]

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// A function that processes `data` in the same way each time.
pub(crate) type Work = fn(&mut [u8]);

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn all() -> Vec<(&'static str, Work)> {
    vec![]
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::Work;
    use std::arch::x86_64::*;

    /// All functions by name; empty if this processor lacks an instruction.
    pub(crate) fn all() -> Vec<(&'static str, Work)> {
        let has = is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("aes")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("sse4.2");
        if !has {
            return vec![];
        }
        vec![
            ("sha1", |data| {
                // SAFETY: `has` is true: this processor has the features that `sha1` needs.
                unsafe { sha1(&mut [0; 5], data) };
            }),
            ("sha256", |data| {
                // SAFETY: `has` is true: this processor has the features that `sha256` needs.
                unsafe { sha256(&mut [0; 8], data) };
            }),
            ("aes128_ctr", |data| {
                // SAFETY: `has` is true: this processor has the features that the AES functions
                // need.
                unsafe { aes128_ctr(&aes128_keys([7; 16]), data) };
            }),
            ("ghash", |data| {
                // SAFETY: `has` is true: this processor has the features that `ghash` needs.
                unsafe { ghash([7; 16], data) };
            }),
            ("crc32c", |data| {
                // SAFETY: `has` is true: this processor has the features that `crc32c` needs.
                unsafe { crc32c(data) };
            }),
        ]
    }

    fn load(from: &[u8]) -> __m128i {
        let from: &[u8; 16] = from.first_chunk().expect("16 bytes");
        // SAFETY: both types have 16 bytes, and every bit pattern is a valid `__m128i`.
        unsafe { std::mem::transmute::<[u8; 16], __m128i>(*from) }
    }

    fn load_words(from: &[u32]) -> __m128i {
        let from: &[u32; 4] = from.first_chunk().expect("4 words");
        // SAFETY: both types have 16 bytes, and every bit pattern is a valid `__m128i`.
        unsafe { std::mem::transmute::<[u32; 4], __m128i>(*from) }
    }

    fn store(to: &mut [u8], a: __m128i) {
        // SAFETY: both types have 16 bytes, and every bit pattern is a valid `[u8; 16]`.
        let bytes = unsafe { std::mem::transmute::<__m128i, [u8; 16]>(a) };
        *to.first_chunk_mut().expect("16 bytes") = bytes;
    }

    #[target_feature(enable = "sse4.1,ssse3,sha")]
    fn sha1(state: &mut [u32; 5], data: &[u8]) {
        let swap = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let mut abcd = _mm_shuffle_epi32::<0x1b>(load_words(&state[..]));
        let mut e = _mm_set_epi32(state[4].cast_signed(), 0, 0, 0);
        for block in data.chunks_exact(64) {
            let (abcd_before, e_before) = (abcd, e);
            let mut w = [e; 4];
            for (w, from) in w.iter_mut().zip(block.chunks_exact(16)) {
                *w = _mm_shuffle_epi8(load(from), swap);
            }
            let mut last = abcd;
            macro_rules! rounds {
                ($f:literal: $($i:literal)*) => {$(
                    let sum = if $i == 0 {
                        _mm_add_epi32(e, w[0])
                    } else {
                        _mm_sha1nexte_epu32(last, w[$i % 4])
                    };
                    last = abcd;
                    abcd = _mm_sha1rnds4_epu32::<$f>(abcd, sum);
                    if $i >= 3 && $i < 19 {
                        let next = _mm_sha1msg1_epu32(w[($i + 1) % 4], w[($i + 2) % 4]);
                        let next = _mm_xor_si128(next, w[($i + 3) % 4]);
                        w[($i + 1) % 4] = _mm_sha1msg2_epu32(next, w[$i % 4]);
                    }
                )*};
            }
            rounds!(0: 0 1 2 3 4);
            rounds!(1: 5 6 7 8 9);
            rounds!(2: 10 11 12 13 14);
            rounds!(3: 15 16 17 18 19);
            e = _mm_sha1nexte_epu32(last, e_before);
            abcd = _mm_add_epi32(abcd, abcd_before);
        }
        let mut bytes = [0; 16];
        store(&mut bytes, _mm_shuffle_epi32::<0x1b>(abcd));
        for (word, bytes) in state.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        state[4] = _mm_extract_epi32::<3>(e).cast_unsigned();
        std::hint::black_box(state);
    }

    static K256: [u32; 64] = [
        0x428a_2f98,
        0x7137_4491,
        0xb5c0_fbcf,
        0xe9b5_dba5,
        0x3956_c25b,
        0x59f1_11f1,
        0x923f_82a4,
        0xab1c_5ed5,
        0xd807_aa98,
        0x1283_5b01,
        0x2431_85be,
        0x550c_7dc3,
        0x72be_5d74,
        0x80de_b1fe,
        0x9bdc_06a7,
        0xc19b_f174,
        0xe49b_69c1,
        0xefbe_4786,
        0x0fc1_9dc6,
        0x240c_a1cc,
        0x2de9_2c6f,
        0x4a74_84aa,
        0x5cb0_a9dc,
        0x76f9_88da,
        0x983e_5152,
        0xa831_c66d,
        0xb003_27c8,
        0xbf59_7fc7,
        0xc6e0_0bf3,
        0xd5a7_9147,
        0x06ca_6351,
        0x1429_2967,
        0x27b7_0a85,
        0x2e1b_2138,
        0x4d2c_6dfc,
        0x5338_0d13,
        0x650a_7354,
        0x766a_0abb,
        0x81c2_c92e,
        0x9272_2c85,
        0xa2bf_e8a1,
        0xa81a_664b,
        0xc24b_8b70,
        0xc76c_51a3,
        0xd192_e819,
        0xd699_0624,
        0xf40e_3585,
        0x106a_a070,
        0x19a4_c116,
        0x1e37_6c08,
        0x2748_774c,
        0x34b0_bcb5,
        0x391c_0cb3,
        0x4ed8_aa4a,
        0x5b9c_ca4f,
        0x682e_6ff3,
        0x748f_82ee,
        0x78a5_636f,
        0x84c8_7814,
        0x8cc7_0208,
        0x90be_fffa,
        0xa450_6ceb,
        0xbef9_a3f7,
        0xc671_78f2,
    ];

    #[target_feature(enable = "sse4.1,ssse3,sha")]
    fn sha256(state: &mut [u32; 8], data: &[u8]) {
        let swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
        let badc = _mm_shuffle_epi32::<0xb1>(load_words(&state[..]));
        let hgfe = _mm_shuffle_epi32::<0x1b>(load_words(&state[4..]));
        let mut abef = _mm_alignr_epi8::<8>(badc, hgfe);
        let mut cdgh = _mm_blend_epi16::<0xf0>(hgfe, badc);
        for block in data.chunks_exact(64) {
            let (abef_before, cdgh_before) = (abef, cdgh);
            let mut w = [abef; 4];
            for (w, from) in w.iter_mut().zip(block.chunks_exact(16)) {
                *w = _mm_shuffle_epi8(load(from), swap);
            }
            macro_rules! rounds {
                ($($i:literal)*) => {$(
                    let sum = _mm_add_epi32(w[$i % 4], load_words(&K256[4 * $i..]));
                    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
                    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32::<0x4e>(sum));
                    if $i < 12 {
                        let middle = _mm_alignr_epi8::<4>(w[($i + 3) % 4], w[($i + 2) % 4]);
                        let next = _mm_sha256msg1_epu32(w[$i % 4], w[($i + 1) % 4]);
                        w[$i % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(next, middle), w[($i + 3) % 4]);
                    }
                )*};
            }
            rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            abef = _mm_add_epi32(abef, abef_before);
            cdgh = _mm_add_epi32(cdgh, cdgh_before);
        }
        let feba = _mm_shuffle_epi32::<0x1b>(abef);
        let dchg = _mm_shuffle_epi32::<0xb1>(cdgh);
        let mut bytes = [0; 32];
        store(&mut bytes, _mm_blend_epi16::<0xf0>(feba, dchg));
        store(&mut bytes[16..], _mm_alignr_epi8::<8>(dchg, feba));
        for (word, bytes) in state.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        std::hint::black_box(state);
    }

    #[target_feature(enable = "aes")]
    fn aes128_keys(key: [u8; 16]) -> [__m128i; 11] {
        let mut keys = [load(&key); 11];
        macro_rules! next {
            ($($i:literal $rcon:literal)*) => {$(
                let assist = _mm_aeskeygenassist_si128::<$rcon>(keys[$i - 1]);
                let mut key = keys[$i - 1];
                key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
                key = _mm_xor_si128(key, _mm_slli_si128::<8>(key));
                keys[$i] = _mm_xor_si128(key, _mm_shuffle_epi32::<0xff>(assist));
            )*};
        }
        next!(1 1 2 2 3 4 4 8 5 16 6 32 7 64 8 128 9 27 10 54);
        keys
    }

    #[target_feature(enable = "aes,ssse3")]
    fn aes128_ctr(keys: &[__m128i; 11], data: &mut [u8]) {
        let reverse = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let one = _mm_set_epi32(0, 0, 0, 1);
        let mut next = _mm_setzero_si128();
        for eight in data.chunks_exact_mut(128) {
            let mut b = [next; 8];
            for b in &mut b {
                *b = _mm_xor_si128(_mm_shuffle_epi8(next, reverse), keys[0]);
                next = _mm_add_epi32(next, one);
            }
            for key in &keys[1..10] {
                for b in &mut b {
                    *b = _mm_aesenc_si128(*b, *key);
                }
            }
            for (b, data) in b.iter().zip(eight.chunks_exact_mut(16)) {
                let last = _mm_xor_si128(keys[10], load(data));
                store(data, _mm_aesenclast_si128(*b, last));
            }
        }
        std::hint::black_box(next);
    }

    #[derive(Clone, Copy)]
    struct Product {
        low: __m128i,
        middle: __m128i,
        high: __m128i,
    }

    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn multiply(a: __m128i, b: __m128i) -> Product {
        let middle = _mm_clmulepi64_si128::<0x01>(a, b);
        Product {
            low: _mm_clmulepi64_si128::<0x00>(a, b),
            middle: _mm_xor_si128(middle, _mm_clmulepi64_si128::<0x10>(a, b)),
            high: _mm_clmulepi64_si128::<0x11>(a, b),
        }
    }

    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn add(a: Product, b: Product) -> Product {
        Product {
            low: _mm_xor_si128(a.low, b.low),
            middle: _mm_xor_si128(a.middle, b.middle),
            high: _mm_xor_si128(a.high, b.high),
        }
    }

    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn reduce(p: Product) -> __m128i {
        let polynomial = _mm_set_epi64x(0, 0xc200_0000_0000_0000_u64.cast_signed());
        let mut low = _mm_xor_si128(p.low, _mm_slli_si128::<8>(p.middle));
        let high = _mm_xor_si128(p.high, _mm_srli_si128::<8>(p.middle));
        for _ in 0..2 {
            let times = _mm_clmulepi64_si128::<0x00>(low, polynomial);
            low = _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(low), times);
        }
        _mm_xor_si128(low, high)
    }

    #[target_feature(enable = "pclmulqdq,ssse3")]
    fn ghash(key: [u8; 16], data: &[u8]) {
        let reverse = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        // The key does not affect the time, so any key will do.
        let mut powers = [load(&key); 4];
        for i in 1..4 {
            powers[i] = reduce(multiply(powers[i - 1], powers[0]));
        }
        let mut x = _mm_setzero_si128();
        for four in data.chunks_exact(64) {
            let block = |i: usize| _mm_shuffle_epi8(load(&four[16 * i..]), reverse);
            let mut p = multiply(_mm_xor_si128(x, block(0)), powers[3]);
            p = add(p, multiply(block(1), powers[2]));
            p = add(p, multiply(block(2), powers[1]));
            p = add(p, multiply(block(3), powers[0]));
            x = reduce(p);
        }
        std::hint::black_box(x);
    }

    /// Bytes of each of three interleaved streams. `ADVANCE` has the factors that advance a
    /// checksum over one and two streams of zeros.
    const STREAM: usize = 1024;
    const ADVANCE: [i64; 2] = [0x1700_76fa, 0xa51b_6135];

    #[inline]
    #[target_feature(enable = "pclmulqdq,sse4.2")]
    fn advance(crc: u64, by: i64) -> u64 {
        let crc = _mm_cvtsi64_si128(crc.cast_signed());
        let product = _mm_clmulepi64_si128::<0>(crc, _mm_cvtsi64_si128(by));
        _mm_crc32_u64(0, _mm_cvtsi128_si64(product).cast_unsigned())
    }

    #[target_feature(enable = "pclmulqdq,sse4.2")]
    fn crc32c(data: &[u8]) {
        let mut crc = u64::from(u32::MAX);
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let three = data.chunks_exact(3 * STREAM);
        let rest = three.remainder();
        for three in three {
            let (words, _) = three.as_chunks::<8>();
            let (first, others) = words.split_at(STREAM / 8);
            let (second, third) = others.split_at(STREAM / 8);
            let mut sums = [crc, 0, 0];
            for ((a, b), c) in first.iter().zip(second).zip(third) {
                sums[0] = _mm_crc32_u64(sums[0], word(a));
                sums[1] = _mm_crc32_u64(sums[1], word(b));
                sums[2] = _mm_crc32_u64(sums[2], word(c));
            }
            crc = advance(sums[0], ADVANCE[1]) ^ advance(sums[1], ADVANCE[0]) ^ sums[2];
        }
        for bytes in rest.as_chunks::<8>().0 {
            crc = _mm_crc32_u64(crc, word(bytes));
        }
        std::hint::black_box(crc);
    }
}
