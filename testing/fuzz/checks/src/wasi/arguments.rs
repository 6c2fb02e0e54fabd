//! Hostile arguments, and the guest memory that they point to.

use super::functions::{FUNCTIONS, Kind};
use super::world::FOLDER;
use crate::folder::SECRET;
use crate::random::Random;
use pirn_runtime::Value;

/// Address where calls store a descriptor or other results.
const ANSWER: i32 = 64;
/// Address of the first path. The paths are 64 bytes apart; two long ones follow them.
const PATHS: i32 = 1024;
const PATH_BYTES: usize = 64;
/// Address of a path that exceeds the limit.
const LONG_PATH: i32 = 4096;
const LONG_BYTES: usize = 6000;
/// Address of vectors that are each as large as the memory and overlap.
const LARGE_VECTORS: usize = 12 << 10;
const LARGE_COUNT: usize = 1500;
/// Address of vectors of a few bytes.
const SMALL_VECTORS: usize = 24 << 10;
const SMALL_COUNT: usize = 1100;
/// Address of subscriptions: clocks, reads and writes.
const SUBSCRIPTIONS: usize = 36 << 10;
const SUBSCRIPTION_BYTES: usize = 48;
const SUBSCRIPTIONS_COUNT: usize = 500;
/// In large memories: address of a million overlapping vectors. More than a million empty ones
/// follow.
const MANY_VECTORS: usize = 1 << 20;
const MANY_COUNT: usize = 1 << 20;

/// Valid and invalid paths, inside and outside the directory.
const PATHS_OF_ALL_KINDS: [&[u8]; 24] = [
    b"file",
    b"append",
    b"fifo",
    b"folder",
    b"folder/10",
    b"link",
    b"loop",
    b"dangling",
    b"absolute",
    b"up",
    b"up/secret",
    b"..",
    b"../secret",
    b"folder/../../secret",
    b"/etc/passwd",
    b".",
    b"",
    b"new",
    b"folder/new",
    b"missing/new",
    b"file/below",
    b"a\0b",
    b"\xff\xfe",
    b"trailing/",
];

/// Parts of the guest's memory: address and contents.
pub(super) fn memory(bytes: usize) -> Vec<(usize, Vec<u8>)> {
    let mut parts = vec![];
    for (at, path) in PATHS_OF_ALL_KINDS.iter().enumerate() {
        parts.push((PATHS as usize + at * PATH_BYTES, path.to_vec()));
    }
    let long = b"a/".repeat(LONG_BYTES / 2);
    parts.push((LONG_PATH as usize, long));
    let vector = |start: u32, len: u32| [start.to_le_bytes(), len.to_le_bytes()].concat();
    let whole = vector(0, bytes as u32);
    parts.push((LARGE_VECTORS, whole.repeat(LARGE_COUNT)));
    parts.push((SMALL_VECTORS, vector(200, 3).repeat(SMALL_COUNT)));
    let subscriptions = (0..SUBSCRIPTIONS_COUNT).flat_map(subscription);
    parts.push((SUBSCRIPTIONS, subscriptions.collect()));
    if bytes > MANY_VECTORS + MANY_COUNT * 8 {
        parts.push((MANY_VECTORS, vector(0, 1 << 20).repeat(MANY_COUNT)));
    }
    parts
}

/// A subscription. Every eighth is of a clock that expires in an hour or is invalid. The others are
/// of a descriptor.
fn subscription(number: usize) -> Vec<u8> {
    let mut bytes = vec![0; SUBSCRIPTION_BYTES];
    bytes[0] = number as u8;
    let tag = if number.is_multiple_of(8) {
        0
    } else {
        1 + (number % 2) as u8
    };
    bytes[8] = tag;
    let what = match tag {
        0 => number / 8 % 5,
        _ => number % 14,
    };
    bytes[16..20].copy_from_slice(&(what as u32).to_le_bytes());
    if tag == 0 {
        let hour: u64 = 3600 * 1_000_000_000;
        bytes[24..32].copy_from_slice(&(hour << (number % 16)).to_le_bytes());
        bytes[40] = (number / 16 % 3) as u8;
    }
    bytes
}

fn path(index: usize) -> (i32, i32) {
    let start = PATHS + (index * PATH_BYTES) as i32;
    (start, PATHS_OF_ALL_KINDS[index].len() as i32)
}

/// Calls that open what later calls use: a file, a file that appends, a FIFO, a directory.
pub(super) fn openers() -> Vec<(&'static str, Vec<Value>)> {
    const BOTH: i64 = 2 | 64;
    const READ: i64 = 2;
    let open = |index, rights, flags| {
        let (start, len) = path(index);
        let words = [FOLDER as i32, 1, start, len, 0];
        let mut arguments: Vec<_> = words.into_iter().map(Value::I32).collect();
        arguments.extend([Value::I64(rights), Value::I64(rights)]);
        arguments.extend([Value::I32(flags), Value::I32(ANSWER)]);
        ("path_open", arguments)
    };
    vec![
        open(0, BOTH, 0),
        open(1, BOTH, 1),
        open(2, READ, 0),
        open(3, READ, 0),
    ]
}

/// A random function with random arguments, for a memory of `bytes` bytes.
pub(super) fn any(random: &mut Random, bytes: usize) -> (&'static str, Vec<Value>) {
    let (name, kinds) = FUNCTIONS[random.below(FUNCTIONS.len())];
    // Valid arguments are more frequent. Otherwise most calls would end at their first invalid
    // argument.
    let tame = !random.once_in(3);
    let of_paths = kinds.contains(&Kind::Path);
    let mut path_len = None;
    let arguments = kinds.iter().map(|kind| {
        let wild = !tame && random.once_in(2);
        if wild {
            let bits = random.bits();
            return match kind {
                Kind::Wide => Value::I64(bits.cast_signed()),
                _ => Value::I32((bits as u32).cast_signed()),
            };
        }
        let word = match kind {
            Kind::Wide => return Value::I64(wide(random)),
            Kind::Fd if of_paths && !random.once_in(4) => [3, 11][random.below(2)],
            // Descriptors that the guest has opened follow those that it was given.
            Kind::Fd if random.once_in(2) => 8 + random.below(4) as i32,
            Kind::Fd => random.below(14) as i32,
            Kind::Array if name == "poll_oneoff" => {
                let first = random.below(SUBSCRIPTIONS_COUNT / 2);
                (SUBSCRIPTIONS + first * SUBSCRIPTION_BYTES) as i32
            }
            Kind::Array => array(random, bytes),
            Kind::Count => count(random, bytes),
            Kind::Path if random.once_in(20) => {
                path_len = Some(LONG_BYTES as i32);
                LONG_PATH
            }
            Kind::Path => {
                let (start, len) = path(random.below(PATHS_OF_ALL_KINDS.len()));
                path_len = Some(len);
                start
            }
            Kind::Len => path_len.take().unwrap_or_else(|| len(random, bytes)),
            Kind::Out => (ANSWER as usize + 8 * random.below(16)) as i32,
            Kind::Small if random.once_in(2) => random.below(3) as i32,
            Kind::Small => random.below(8) as i32,
        };
        Value::I32(word)
    });
    (name, arguments.collect())
}

/// Rights, offsets and times: zero, all bits, small, large.
fn wide(random: &mut Random) -> i64 {
    match random.below(6) {
        0 => 0,
        1 => -1,
        2 => 2,
        3 => random.below(20_000) as i64,
        4 => 66,
        _ => random.bits().cast_signed(),
    }
}

fn array(random: &mut Random, bytes: usize) -> i32 {
    let places = [
        LARGE_VECTORS,
        SMALL_VECTORS,
        MANY_VECTORS,
        MANY_VECTORS + MANY_COUNT * 8,
        bytes - 8 * (1 + random.below(2000)),
    ];
    (places[random.below(places.len())] % bytes) as i32
}

fn count(random: &mut Random, bytes: usize) -> i32 {
    let counts = [
        0,
        1,
        2,
        3,
        100,
        1023,
        1024,
        1025,
        100_000,
        MANY_COUNT,
        bytes / 8,
        bytes / 16,
    ];
    counts[random.below(counts.len())] as i32
}

fn len(random: &mut Random, bytes: usize) -> i32 {
    let lens = [0, 1, 24, 100, 4096, bytes / 2, bytes - 4096, SECRET.len()];
    lens[random.below(lens.len())] as i32
}
