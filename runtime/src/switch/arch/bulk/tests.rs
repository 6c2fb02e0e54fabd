//! Tests of the routines that copy and fill, in a memory without a slot.

use super::*;
use crate::switch::activation::{BULK_MEMORY, INTERRUPT_FLAG};
use crate::switch::interrupt_flag::{GO, SLICE_IS_OVER};
use core::mem::transmute;
use core::sync::atomic::AtomicU8;
use pirn_format::layout::{CONTEXT_ACTIVATION, CONTEXT_BYTES, MemoryDesc};

type Call = unsafe extern "C" fn(*mut u8, u64, u64, u64) -> Rest;

/// Bytes of the memory, and of its surroundings on each side.
const BYTES: usize = 3 * 4096;
const AROUND: usize = 1024;

/// A memory, and a context with the fields that a routine reads.
struct World {
    memory: Vec<u8>,
    context: Vec<u64>,
    activation: Box<[u64; 64]>,
    desc: Box<MemoryDesc>,
    flag: Box<AtomicU8>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            memory: (0..BYTES + 2 * AROUND)
                .map(|at| (at * 31 / 7) as u8)
                .collect(),
            context: vec![0; CONTEXT_BYTES as usize / 8],
            activation: Box::new([0; 64]),
            desc: Box::new(MemoryDesc {
                base: 0,
                bytes: BYTES as u64,
            }),
            flag: Box::new(AtomicU8::new(GO)),
        };
        world.desc.base = world.memory[AROUND..].as_ptr() as u64;
        world.activation[INTERRUPT_FLAG / 8] = &raw const *world.flag as u64;
        let word = |at: i32| (CONTEXT_BYTES as i32 + at) as usize / 8;
        world.context[word(BULK_MEMORY)] = &raw const *world.desc as u64;
        world.context[word(CONTEXT_ACTIVATION)] = world.activation.as_ptr() as u64;
        world
    }

    fn call(&mut self, routine: *const (), words: [u64; 3]) -> Rest {
        let vmctx = self.context.as_mut_ptr_range().end.cast::<u8>();
        let [to, source, len] = words;
        // SAFETY: `routine` is one of the routines, and the context has the fields that it reads.
        unsafe { transmute::<*const (), Call>(routine)(vmctx, to, source, len) }
    }
}

/// The routines that copy, and those that fill. Each can run on this processor.
fn each(is_copy: bool) -> impl Iterator<Item = *const ()> {
    let all = routines::all().into_iter().enumerate();
    all.filter(move |(at, _)| at.is_multiple_of(2) == is_copy && routines::is_possible(*at))
        .map(|(_, (routine, _))| routine)
}

/// Lengths around the sizes at which a routine changes its way.
fn lengths() -> impl Iterator<Item = usize> {
    (65..=400).chain([511, 512, 513, 1000, 4095, 4096, 4097, BYTES - 200])
}

#[test]
fn copies_move_the_bytes_of_all_lengths_and_overlaps() {
    for routine in each(true) {
        let mut world = World::new();
        for len in lengths() {
            let distances = [0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 190];
            for (to, from) in distances
                .into_iter()
                .flat_map(|d| [(d, 0), (0, d), (3 + d, 3)])
            {
                if to.max(from) + len > BYTES {
                    continue;
                }
                let mut expected = world.memory.clone();
                expected.copy_within(AROUND + from..AROUND + from + len, AROUND + to);
                let rest = world.call(routine, [to as u64, from as u64, len as u64]);
                assert_eq!((rest.skip, rest.bytes), (u64::MAX, 0));
                assert!(world.memory == expected, "{len} bytes from {from} to {to}");
                world.memory[AROUND + from] = world.memory[AROUND + from].wrapping_add(len as u8);
            }
        }
    }
}

#[test]
fn fills_write_one_byte_and_nothing_around() {
    for routine in each(false) {
        let mut world = World::new();
        for len in lengths() {
            for to in [0, 1, 15, 33, 199] {
                let mut expected = world.memory.clone();
                expected[AROUND + to..AROUND + to + len].fill(len as u8);
                // Only the lowest byte counts.
                let rest = world.call(
                    routine,
                    [to as u64, 0xabcd_ef00 | len as u64 & 0xff, len as u64],
                );
                assert_eq!((rest.skip, rest.bytes), (u64::MAX, 0));
                assert!(world.memory == expected, "{len} bytes at {to}");
            }
        }
    }
}

#[test]
fn ranges_outside_of_the_memory_and_short_ones_are_left_to_the_caller() {
    let end = BYTES as u64;
    let outside = [
        [0, 0, end + 1],
        [1, 0, end],
        [0, 1, end],
        [end - 99, 0, 100],
        [0, end - 99, 100],
        [end + 1, 0, 100],
        [u64::MAX, 0, 100],
        [0, u64::MAX, 100],
        [1 << 32, 0, 100],
        [0, 0, u64::MAX],
        [100, 0, u64::MAX],
        [u64::MAX, u64::MAX, u64::MAX],
        [0, 100, 0],
        [0, 100, 1],
        [0, 100, 64],
    ];
    for (is_copy, words) in outside
        .iter()
        .flat_map(|words| [(true, *words), (false, *words)])
    {
        // The second number is an address only for a copy.
        let words = if is_copy {
            words
        } else {
            [words[0].max(words[1]), 1, words[2]]
        };
        for routine in each(is_copy) {
            let mut world = World::new();
            let before = world.memory.clone();
            let Rest { skip, bytes } = world.call(routine, words);
            assert_eq!((skip, bytes), (0, words[2]), "{words:x?}");
            assert!(world.memory == before, "{words:x?}");
        }
    }
}

/// The rest of an interrupted routine, done by somebody else, gives what the whole would give.
#[test]
fn a_set_flag_leaves_a_rest() {
    for (to, from) in [(0, 1000), (1000, 0), (0, 8), (8, 0), (64, 0), (0, 64)] {
        for (is_copy, len) in [
            (true, 70),
            (true, 129),
            (true, 4000),
            (false, 70),
            (false, 4000),
        ] {
            for routine in each(is_copy) {
                let mut world = World::new();
                let mut expected = world.memory.clone();
                let range = AROUND + to..AROUND + to + len;
                match is_copy {
                    true => expected.copy_within(AROUND + from..AROUND + from + len, range.start),
                    false => expected[range.clone()].fill(9),
                }
                world.flag.store(SLICE_IS_OVER, Ordering::Relaxed);
                let source = if is_copy { from as u64 } else { 9 };
                let Rest { skip, bytes } = world.call(routine, [to as u64, source, len as u64]);
                assert_ne!(skip, u64::MAX);
                let (skip, bytes) = (skip as usize, bytes as usize);
                // An iteration at most, and what aligns the destination.
                assert!(
                    bytes + 128 + 32 >= len && skip + bytes <= len || bytes == 0,
                    "{skip}, {bytes}"
                );
                let (to, from) = (AROUND + to + skip, AROUND + from + skip);
                match is_copy {
                    true => world.memory.copy_within(from..from + bytes, to),
                    false => world.memory[to..to + bytes].fill(9),
                }
                assert!(world.memory == expected, "{len} bytes, {skip}, {bytes}");
            }
        }
    }
}

#[test]
fn the_accesses_are_where_they_seem_to_be() {
    measure();
    for (Accesses(start, end), (routine, _)) in ACCESSES.iter().zip(routines::all()) {
        let (start, end) = (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed));
        assert!((32..160).contains(&(start - routine as usize)));
        assert!((60..2000).contains(&(end - start)));
        assert!(contains(routine as usize) && contains(end - 1) && !contains(end));
    }
}
