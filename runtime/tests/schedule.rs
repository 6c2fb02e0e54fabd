//! The compiler reorders a block with more live values than registers. Results, traps, and the
//! memory at a trap must be as in the guest's order.

use crate::common;

use common::guest::{Guest, MEMORY};
use common::random::Random;
use pirn_compiler::{OptLevel, Options};
use std::fmt::Write;

/// FIPS 202, 3.2.2: the rotation of each lane, at index x + 5 y.
const TURNS: [u32; 25] = [
    0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14,
];
const ROUNDS: usize = 24;

/// FIPS 202, 3.2.5: the round constants, from the linear feedback shift register.
fn round_constants() -> [u64; ROUNDS] {
    let mut register = 1u8;
    let mut bit = || {
        let bit = register & 1;
        register = (register << 1) ^ ((register >> 7) * 0x71);
        u64::from(bit)
    };
    std::array::from_fn(|_| (0..7).fold(0, |all, j| all | bit() << ((1 << j) - 1)))
}

/// The permutation of the standard; returns the first lane after each round.
fn keccak(lanes: &mut [u64; 25]) -> [u64; ROUNDS] {
    round_constants().map(|constant| {
        let column = |x: usize| (0..5).fold(0, |sum, y| sum ^ lanes[x + 5 * y]);
        let columns: [u64; 5] = std::array::from_fn(column);
        let mut turned = [0; 25];
        for (at, lane) in lanes.iter().enumerate() {
            let (x, y) = (at % 5, at / 5);
            let changed = lane ^ columns[(x + 4) % 5] ^ columns[(x + 1) % 5].rotate_left(1);
            turned[y + 5 * ((2 * x + 3 * y) % 5)] = changed.rotate_left(TURNS[at]);
        }
        *lanes = std::array::from_fn(|at| {
            let row = |x: usize| turned[(at + x) % 5 + at / 5 * 5];
            turned[at] ^ !row(1) & row(2)
        });
        lanes[0] ^= constant;
        lanes[0]
    })
}

/// A guest that runs Keccak on the first bytes of its memory in one block. Each step handles all
/// lanes, which maximises register pressure. Each round stores its first lane at the address in the
/// parameter.
fn guest() -> String {
    let mut code = String::new();
    let mut line = |text: String| writeln!(code, "({text})").expect("a string");
    let get = |name: &str, at: usize| format!("(local.get ${name}{at})");
    let xor = |a: &str, b: &str| format!("(i64.xor {a} {b})");
    for at in 0..25 {
        line(format!(
            "local.set $a{at} (i64.load offset={} (i32.const 0))",
            at * 8
        ));
    }
    for (round, constant) in round_constants().into_iter().enumerate() {
        for x in 0..5 {
            let lane = |y: usize| get("a", x + 5 * y);
            let sum = (1..5).fold(lane(0), |sum, y| xor(&sum, &lane(y)));
            line(format!("local.set $c{x} {sum}"));
        }
        for x in 0..5 {
            let turned = format!("(i64.rotl {} (i64.const 1))", get("c", (x + 1) % 5));
            line(format!(
                "local.set $d{x} {}",
                xor(&get("c", (x + 4) % 5), &turned)
            ));
        }
        for (at, turn) in TURNS.iter().enumerate() {
            let (x, y) = (at % 5, at / 5);
            let (to, changed) = (
                y + 5 * ((2 * x + 3 * y) % 5),
                xor(&get("a", at), &get("d", x)),
            );
            line(format!(
                "local.set $b{to} (i64.rotl {changed} (i64.const {turn}))"
            ));
        }
        for at in 0..25 {
            let row = |x: usize| get("b", (at + x) % 5 + at / 5 * 5);
            let and = format!("(i64.and {} {})", xor(&row(1), "(i64.const -1)"), row(2));
            line(format!("local.set $a{at} {}", xor(&row(0), &and)));
        }
        let constant = format!("(i64.const {})", constant.cast_signed());
        line(format!("local.set $a0 {}", xor(&get("a", 0), &constant)));
        line(format!(
            "i64.store offset={} (local.get $to) {}",
            round * 8,
            get("a", 0)
        ));
    }
    for at in 0..25 {
        line(format!(
            "i64.store offset={} (i32.const 0) {}",
            at * 8,
            get("a", at)
        ));
    }
    let locals = [("a", 25), ("b", 25), ("c", 5), ("d", 5)];
    let local = |(name, count)| (0..count).map(move |at| format!("(local ${name}{at} i64)"));
    let locals: String = locals.into_iter().flat_map(local).collect();
    format!(
        r#"(module (memory (export "memory") 1)
             (func (export "run") (param $to i32) {locals} {code}))"#
    )
}

fn compiled(level: OptLevel) -> Vec<u8> {
    let wasm = pirn_compiler::parse_text(guest().as_bytes()).map(std::borrow::Cow::into_owned);
    let mut options = Options::default();
    options.opt_level = level;
    let so = pirn_compiler::compile(&wasm.expect("it is well-formed"), &options);
    so.expect("it is valid")
}

fn of(lanes: &[u64]) -> Vec<u8> {
    lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect()
}

const LEVELS: [OptLevel; 3] = [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize];

#[test]
fn reordered_keccak_equals_the_standard() {
    let mut lanes = [0; 25];
    keccak(&mut lanes);
    // From the authors' test vectors, "KeccakF-1600-IntermediateValues".
    assert_eq!(
        [lanes[0], lanes[24]],
        [0xf125_8f79_40e1_dde7, 0xeaf1_ff7b_5cec_a249]
    );
    for level in LEVELS {
        let (mut guest, mut random) = (Guest::new(&guest(), level), Random(7));
        for _ in 0..20 {
            let mut lanes = std::array::from_fn(|_| random.u64());
            let (trap, found) = guest.run(&of(&lanes), 1024);
            let first = keccak(&mut lanes);
            assert!(trap.is_none() && found[..200] == of(&lanes), "{level:?}");
            assert!(found[1024..][..ROUNDS * 8] == of(&first), "{level:?}");
        }
    }
}

#[test]
fn reordered_code_traps_in_the_same_round() {
    for level in LEVELS {
        let (mut guest, mut random) = (Guest::new(&guest(), level), Random(8));
        for round in 0..ROUNDS {
            let begin = std::array::from_fn(|_| random.u64());
            // The store of this round is the first one that is not entirely in bounds.
            let to = MEMORY - round * 8 - random.below(8) as usize;
            let (trap, found) = guest.run(&of(&begin), to as u32);
            let first = keccak(&mut begin.clone());
            assert!(trap.is_some(), "{level:?}, {round}");
            let mut wanted = vec![0; MEMORY];
            wanted[..200].copy_from_slice(&of(&begin));
            wanted[to..][..round * 8].copy_from_slice(&of(&first[..round]));
            assert!(found == wanted, "{level:?}, {round}");
        }
    }
}

/// In the guest's order the code spills more values than in the optimiser's order, so it is longer.
#[test]
fn reordering_shortens_the_code() {
    if std::env::consts::ARCH != "x86_64" {
        common::not_run("aarch64 has registers for nearly all values of the guest");
        return;
    }
    let [plain, ordered] = [OptLevel::None, OptLevel::Speed].map(|level| compiled(level).len());
    assert!(
        ordered * 20 < plain * 19,
        "{ordered} bytes, and {plain} in the guest's order"
    );
}
