//! `crypto.wasm`, a guest that uses compiler/include/immintrin.h. Its results are compared with the
//! standards' published vectors and, for inputs of every length, with plain code in this file.

use super::common::random::Random;
use super::{cpus, instance, operand, options};
use pirn_format::cpu::CpuFeatures;
use pirn_runtime::{Instance, Value};

/// Offsets in the guest's buffer.
const STATE: u32 = 0;
const KEYS: u32 = 1024;
const INPUT: u32 = 4096;

struct Crypto {
    instance: Instance<()>,
    buffer: u32,
}

impl Crypto {
    fn new(cpu: CpuFeatures) -> Self {
        let wasm = include_bytes!("../../../examples/guests/crypto.wasm");
        let module = super::common::open_with(wasm, &options(cpu)).expect("it is valid");
        assert_eq!(module.imports().count(), 0, "the module has no imports");
        let mut instance = instance(&module);
        let buffer = instance.call_values("buffer", &[]).expect("it returns");
        let [Value::I32(buffer)] = buffer[..] else {
            panic!("buffer gives an address")
        };
        let buffer = buffer.cast_unsigned();
        Self { instance, buffer }
    }

    fn write(&mut self, at: u32, bytes: &[u8]) {
        let mut memory = self.instance.memory_mut();
        memory
            .write(self.buffer + at, bytes)
            .expect("it is in memory");
    }

    fn read<const N: usize>(&self, at: u32) -> [u8; N] {
        let mut bytes = [0; N];
        let memory = self.instance.memory();
        memory
            .read(self.buffer + at, &mut bytes)
            .expect("it is in memory");
        bytes
    }

    /// Calls a function with addresses in the buffer, followed by a number.
    fn call(&mut self, name: &str, places: &[u32], number: Option<u32>) -> Vec<Value> {
        let places = places.iter().map(|at| self.buffer + at).chain(number);
        let params: Vec<_> = places
            .map(|param| Value::I32(param.cast_signed()))
            .collect();
        self.instance
            .call_values(name, &params)
            .expect("it returns")
    }

    fn hash(&mut self, name: &str, start: &[u32], message: &[u8]) -> Vec<u32> {
        let state: Vec<u8> = start.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(STATE, &state);
        let blocks = padded(message);
        self.write(INPUT, &blocks);
        self.call(name, &[STATE, INPUT], Some(blocks.len() as u32 / 64));
        let state: [u8; 32] = self.read(STATE);
        let words = state.as_chunks::<4>().0.iter();
        words
            .take(start.len())
            .map(|word| u32::from_le_bytes(*word))
            .collect()
    }
}

/// FIPS 180-4, 5.1.1.
fn padded(message: &[u8]) -> Vec<u8> {
    let mut blocks = message.to_vec();
    blocks.push(0x80);
    blocks.resize((message.len() + 9).next_multiple_of(64) - 8, 0);
    blocks.extend((8 * message.len() as u64).to_be_bytes());
    blocks
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.as_chunks::<2>().0.iter();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(|pair| byte(pair).expect("two digits")).collect()
}

const SHA1: [u32; 5] = [
    0x6745_2301,
    0xefcd_ab89,
    0x98ba_dcfe,
    0x1032_5476,
    0xc3d2_e1f0,
];
const SHA256: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
const TWO_BLOCKS: &[u8] = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

#[test]
fn hashes_equal_fips_180() {
    for cpu in cpus() {
        let mut crypto = Crypto::new(cpu);
        let sha1 = |crypto: &mut Crypto, message: &[u8]| crypto.hash("sha1", &SHA1, message);
        assert_eq!(
            sha1(&mut crypto, b"abc"),
            [
                0xa999_3e36,
                0x4706_816a,
                0xba3e_2571,
                0x7850_c26c,
                0x9cd0_d89d
            ]
        );
        assert_eq!(
            sha1(&mut crypto, TWO_BLOCKS),
            [
                0x8498_3e44,
                0x1c3b_d26e,
                0xbaae_4aa1,
                0xf951_29e5,
                0xe546_70f1
            ]
        );
        let million = vec![b'a'; 1_000_000];
        let sha256 = |crypto: &mut Crypto, message: &[u8]| crypto.hash("sha256", &SHA256, message);
        assert_eq!(
            sha256(&mut crypto, b"abc"),
            [
                0xba78_16bf,
                0x8f01_cfea,
                0x4141_40de,
                0x5dae_2223,
                0xb003_61a3,
                0x9617_7a9c,
                0xb410_ff61,
                0xf200_15ad
            ]
        );
        assert_eq!(
            sha256(&mut crypto, TWO_BLOCKS),
            [
                0x248d_6a61,
                0xd206_38b8,
                0xe5c0_2693,
                0x0c3e_6039,
                0xa33c_e459,
                0x64ff_2167,
                0xf6ec_edd4,
                0x19db_06c1
            ]
        );
        // A million times "a", in chunks of whole blocks; each call continues from the state of the
        // previous one.
        for (name, start, end) in [
            (
                "sha1",
                &SHA1[..],
                &[
                    0x34aa_973c,
                    0xd4c4_daa4,
                    0xf61e_eb2b,
                    0xdbad_2731,
                    0x6534_016f,
                ][..],
            ),
            (
                "sha256",
                &SHA256,
                &[
                    0xcdc7_6e5c,
                    0x9914_fb92,
                    0x81a1_c7e2,
                    0x84d7_3e67,
                    0xf180_9a48,
                    0xa497_200e,
                    0x046d_39cc,
                    0xc711_2cd0,
                ],
            ),
        ] {
            let state: Vec<u8> = start.iter().flat_map(|word| word.to_le_bytes()).collect();
            crypto.write(STATE, &state);
            let blocks = padded(&million);
            for piece in blocks.chunks(64 * 1000) {
                crypto.write(INPUT, piece);
                crypto.call(name, &[STATE, INPUT], Some(piece.len() as u32 / 64));
            }
            let state: [u8; 32] = crypto.read(STATE);
            let words = state
                .as_chunks::<4>()
                .0
                .iter()
                .map(|word| u32::from_le_bytes(*word));
            assert_eq!(words.take(end.len()).collect::<Vec<_>>(), end, "{name}");
        }
    }
}

/// The vector of SP 800-38A, F.5.1; then the same counter for any number of blocks.
#[test]
fn counter_mode_equals_sp_800_38a() {
    let key = bytes("2b7e151628aed2a6abf7158809cf4f3c");
    let counter = bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    let plain = bytes(
        "6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
         30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710",
    );
    let cipher = bytes(
        "874d6191b620e3261bef6864990db6ce 9806f66b7970fdff8617187bb9fffdff
         5ae4df3edbd5d35e5b4f09020db03eab 1e031dda2fbe03d1792170a0f3009cee",
    );
    for cpu in cpus() {
        let mut crypto = Crypto::new(cpu);
        crypto.write(STATE, &key);
        crypto.call("aes128_keys", &[KEYS, STATE], None);
        // FIPS 197, A.1: the last round's key.
        let last = bytes("d014f9a8c9ee2589e13f0cc8b6630ca6");
        assert_eq!(crypto.read::<16>(KEYS + 160)[..], last);
        crypto.write(STATE, &counter);
        crypto.write(INPUT, &plain);
        crypto.call("aes128_ctr", &[KEYS, STATE, INPUT], Some(4));
        assert_eq!(crypto.read::<64>(INPUT)[..], cipher);
        // The guest processes several blocks at once. That count of blocks and a few more must give
        // the result of single blocks.
        let stream = |crypto: &mut Crypto, pieces: &[u32]| {
            crypto.write(STATE, &counter);
            crypto.write(INPUT, &[0; 16 * 29]);
            let mut at = INPUT;
            for blocks in pieces {
                crypto.call("aes128_ctr", &[KEYS, STATE, at], Some(*blocks));
                at += 16 * blocks;
            }
            (crypto.read::<{ 16 * 29 }>(INPUT), crypto.read::<16>(STATE))
        };
        let at_once = stream(&mut crypto, &[29]);
        assert_eq!(stream(&mut crypto, &[1; 29]), at_once);
        assert_eq!(stream(&mut crypto, &[3, 17, 9]), at_once);
        for (a, (b, c)) in at_once.0.iter().zip(plain.iter().zip(&cipher)) {
            assert_eq!(*a, b ^ c);
        }
    }
}

/// A bitwise product in GF(2^128) (SP 800-38D, 6.3), and published hashes for a published cipher.
#[test]
fn ghash_equals_sp_800_38d() {
    let times = |x: u128, y: u128| {
        let (mut z, mut v) = (0, y);
        for i in 0..128 {
            if x >> (127 - i) & 1 == 1 {
                z ^= v;
            }
            v = v >> 1 ^ if v & 1 == 1 { 0xe1 << 120 } else { 0 };
        }
        z
    };
    let mut random = Random(3);
    for cpu in cpus() {
        let mut crypto = Crypto::new(cpu);
        // Test case 2 of the GCM specification: the hash key (the block 0 encrypted by the key),
        // one block, and the lengths.
        let h = bytes("66e94bd4ef8a2c3b884cfa59ca342b2e");
        crypto.write(STATE, &h);
        crypto.call("ghash_key", &[KEYS, STATE], None);
        let input = bytes("0388dace60b6a392f328c2b971b2fe78 00000000000000000000000000000080");
        crypto.write(STATE, &[0; 16]);
        crypto.write(INPUT, &input);
        crypto.call("ghash", &[KEYS, STATE, INPUT], Some(2));
        assert_eq!(
            crypto.read::<16>(STATE)[..],
            bytes("f38cbb1ad69223dcc3457ae5b6b0f885")
        );
        for blocks in [0, 1, 3, 4, 5, 8, 31] {
            let h = operand(&mut random);
            crypto.write(STATE, &h.to_be_bytes());
            crypto.call("ghash_key", &[KEYS, STATE], None);
            let start = operand(&mut random);
            let input: Vec<u128> = (0..blocks).map(|_| operand(&mut random)).collect();
            let wanted = input.iter().fold(start, |sum, block| times(sum ^ block, h));
            let input: Vec<u8> = input.iter().flat_map(|block| block.to_be_bytes()).collect();
            crypto.write(STATE, &start.to_be_bytes());
            crypto.write(INPUT, &input);
            crypto.call("ghash", &[KEYS, STATE, INPUT], Some(blocks));
            assert_eq!(
                u128::from_be_bytes(crypto.read(STATE)),
                wanted,
                "{blocks} blocks"
            );
        }
    }
}

#[test]
fn checksums_equal_rfc_3720() {
    let model = |data: &[u8]| {
        !data.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
            })
        })
    };
    let mut random = Random(4);
    for cpu in cpus() {
        let mut crypto = Crypto::new(cpu);
        let mut sum = |before: u32, data: &[u8]| {
            crypto.write(INPUT, data);
            let buffer = crypto.buffer;
            let params = [before, buffer + INPUT, data.len() as u32];
            let params = params.map(|param| Value::I32(param.cast_signed()));
            let sum = crypto
                .instance
                .call_values("crc32c", &params)
                .expect("it returns");
            match sum[..] {
                [Value::I32(sum)] => sum.cast_unsigned(),
                _ => panic!("a sum is a number"),
            }
        };
        // RFC 3720, B.4, and the customary check of the digits 1 to 9.
        assert_eq!(sum(0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(sum(0, &[0xff; 32]), 0x62a8_ab43);
        assert_eq!(sum(0, b"123456789"), 0xe306_9283);
        for length in [0, 1, 7, 8, 15, 3071, 3072, 3073, 6144, 20_001] {
            let data: Vec<u8> = (0..length).map(|_| random.u64() as u8).collect();
            let wanted = model(&data);
            assert_eq!(sum(0, &data), wanted, "{length} bytes");
            let (head, tail) = data.split_at(length / 3);
            let half = sum(0, head);
            assert_eq!(sum(half, tail), wanted, "{length} bytes in two pieces");
        }
    }
}
