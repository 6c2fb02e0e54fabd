//! Random guests with up to five memories, of 32 and 64 bits, defined and imported, some imported
//! twice. A model predicts the loaded values, the final bytes of each memory, and traps.

use crate::common::campaign::share;
use crate::common::random::Random;
use crate::common::values::Lend as _;
use crate::common::{self, values};
use core::fmt::Write;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Group, Linker, MemberId, Region, TrapCode, Value};

const PAGE: u64 = 1 << 16;
/// The largest size of a memory in pages.
const PAGES_MAX: u64 = 3;
/// The largest size in bytes of a memory with one-byte pages.
const BYTES_MAX: u64 = 2 * PAGE + 4100;
/// Number of parameters of the guest's function.
const PARAMS: u64 = 3;
/// The passive data segment.
const SEGMENT: &[u8] = b"a segment that is passive, of some bytes";

/// A memory as the guest sees it.
#[derive(Clone, Copy)]
struct Memory {
    is_wide: bool,
    /// Whether its pages have one byte.
    of_bytes: bool,
    /// Index of the memory's storage. Two imports may share one.
    store: usize,
    is_imported: bool,
}

impl Memory {
    fn ty(&self) -> &'static str {
        if self.is_wide { "i64" } else { "i32" }
    }

    fn page(&self) -> u64 {
        if self.of_bytes { 1 } else { PAGE }
    }

    fn pages_max(&self) -> u64 {
        if self.of_bytes { BYTES_MAX } else { PAGES_MAX }
    }
}

/// An address: a parameter plus a constant, masked. For 64-bit memories an extra summand follows.
#[derive(Clone, Copy)]
struct At {
    param: u64,
    add: u32,
    mask: u32,
    wide_add: u64,
}

#[derive(Clone, Copy)]
enum Length {
    Known(u32),
    /// The masked low bits of a parameter.
    Param(u64, u32),
}

#[derive(Clone, Copy)]
enum Op {
    Load(usize, u64, At, u64),
    Store(usize, u64, At, u64, u64),
    Fill(usize, At, u32, Length),
    Copy(usize, usize, At, At, Length),
    Init(usize, At, u32, u32),
    Grow(usize, u64),
    Size(usize),
}

struct Program {
    memories: Vec<Memory>,
    /// Initial pages of each storage.
    pages: Vec<u64>,
    /// Active segments: memory, address and bytes.
    segments: Vec<(usize, u64, String)>,
    ops: Vec<Op>,
}

impl Program {
    fn new(random: &mut Random) -> Self {
        let count = 2 + random.below(4) as usize;
        let imported = random.below(count as u64 + 1) as usize;
        let mut memories: Vec<Memory> = vec![];
        let mut stores = 0;
        for n in 0..count {
            let again = n > 0 && n < imported && random.below(3) == 0;
            if again {
                let first = memories[random.below(n as u64) as usize];
                memories.push(first);
                continue;
            }
            memories.push(Memory {
                is_wide: random.below(4) == 0,
                of_bytes: random.below(3) == 0,
                store: stores,
                is_imported: n < imported,
            });
            stores += 1;
        }
        let pages = (0..stores).map(|store| {
            let is_it = |one: &Memory| one.store == store && one.of_bytes;
            match memories.iter().any(is_it) {
                true => 20 + random.below(2 * PAGE),
                false => 1 + random.below(2),
            }
        });
        let pages: Vec<_> = pages.collect();
        let mut segments = vec![];
        for n in 0..random.below(5) {
            let memory = random.below(count as u64) as usize;
            let bytes = pages[memories[memory].store] * memories[memory].page();
            let at = random.below(bytes - 16);
            segments.push((memory, at, format!("segment {n}")));
        }
        let mut program = Self {
            memories,
            pages,
            segments,
            ops: vec![],
        };
        // Use few addresses in several memories, because the optimiser must not apply a fact about
        // one memory to another.
        let places: Vec<_> = (0..3).map(|_| at(random)).collect();
        for _ in 0..4 + random.below(30) {
            let op = program.op(random, &places);
            program.ops.push(op);
        }
        program
    }

    fn op(&self, random: &mut Random, places: &[At]) -> Op {
        let count = self.memories.len() as u64;
        let (memory, other) = (random.below(count) as usize, random.below(count) as usize);
        let mut place = || {
            let mut place = places[random.below(3) as usize];
            match random.below(4) {
                0 => at(random),
                1 => place,
                _ => {
                    place.add = place.add.wrapping_add(random.below(64) as u32);
                    place
                }
            }
        };
        let (to, from) = (place(), place());
        let offset = match random.below(80) {
            0 => random.below(3 * PAGE),
            1 => (32 << 20) - random.below(20),
            2 => (1 << 32) - 1 - random.below(3 * PAGE),
            _ => random.below(100),
        };
        let width = [1, 2, 4, 8, 16][random.below(5) as usize];
        let length = match random.below(3) {
            0 => Length::Param(random.below(PARAMS), 0x7ff),
            _ => {
                let known = [0, 1, 3, 8, 16, 33, 128, 129, 1024, 1025, 5000];
                Length::Known(known[random.below(11) as usize])
            }
        };
        match random.below(20) {
            0..=5 => Op::Load(memory, width, to, offset),
            6..=12 => Op::Store(memory, width, to, offset, random.u64()),
            13 | 14 => Op::Fill(memory, to, random.below(256) as u32, length),
            15 | 16 => Op::Copy(memory, other, to, from, length),
            17 => Op::Init(memory, to, random.below(30) as u32, random.below(12) as u32),
            18 if self.memories[memory].of_bytes => Op::Grow(memory, random.below(5000)),
            18 => Op::Grow(memory, random.below(3)),
            _ => Op::Size(memory),
        }
    }

    /// The texts of the module that owns the imported memories, and of the guest.
    fn texts(&self) -> [String; 2] {
        let (mut owner, mut guest) = (String::from("(module "), String::from("(module "));
        for (n, memory) in self.memories.iter().enumerate() {
            let (min, max) = (self.pages[memory.store], memory.pages_max());
            let ty = format!("{} {min} {max} (pagesize {})", memory.ty(), memory.page());
            if memory.is_imported {
                let store = memory.store;
                let _ = write!(guest, "(import \"o\" \"m{store}\" (memory $m{n} {ty}))");
                let is_first = self.memories[..n].iter().all(|other| other.store != store);
                if is_first {
                    let _ = write!(owner, "(memory (export \"m{store}\") {ty})");
                }
            } else {
                let _ = write!(guest, "(memory $m{n} {ty})");
            }
        }
        for n in 0..self.memories.len() {
            let _ = write!(guest, "(export \"g{n}\" (memory $m{n}))");
        }
        for (memory, at, bytes) in &self.segments {
            let ty = self.memories[*memory].ty();
            let _ = write!(
                guest,
                "(data (memory $m{memory}) ({ty}.const {at}) {bytes:?})"
            );
        }
        let segment = std::str::from_utf8(SEGMENT).expect("it is text");
        let _ = write!(guest, "(data $passive {segment:?})");
        guest.push_str("(global $sum (export \"sum\") (mut i64) (i64.const 0))");
        guest.push_str("(func $note (param i64) (global.set $sum (i64.add (i64.mul (global.get $sum) (i64.const 31)) (local.get 0))))");
        guest.push_str("(func (export \"run\") (param i32 i32 i32)");
        for op in &self.ops {
            guest.push_str(&self.written(*op));
        }
        guest.push_str("))");
        owner.push(')');
        [owner, guest]
    }

    fn written(&self, op: Op) -> String {
        let index = |memory: usize, at: At| {
            let At {
                param, add, mask, ..
            } = at;
            let mut text = format!(
                "(i32.add (local.get {param}) (i32.const {}))",
                add.cast_signed()
            );
            if mask != u32::MAX {
                text = format!("(i32.and {text} (i32.const {mask}))");
            }
            if self.memories[memory].is_wide {
                let add = at.wide_add.cast_signed();
                text = format!("(i64.add (i64.extend_i32_u {text}) (i64.const {add}))");
            }
            text
        };
        let length = |length: Length, is_wide: bool| {
            let text = match length {
                Length::Known(known) => format!("(i32.const {known})"),
                Length::Param(param, mask) => {
                    format!("(i32.and (local.get {param}) (i32.const {mask}))")
                }
            };
            match (is_wide, length) {
                (false, _) => text,
                (true, Length::Known(known)) => format!("(i64.const {known})"),
                (true, _) => format!("(i64.extend_i32_u {text})"),
            }
        };
        let wide = |memory: usize| self.memories[memory].is_wide;
        match op {
            Op::Load(m, width, at, offset) => {
                let at = index(m, at);
                match width {
                    16 => format!(
                        "(call $note (i64x2.extract_lane 1 (v128.load $m{m} offset={offset} {at})))"
                    ),
                    8 => format!("(call $note (i64.load $m{m} offset={offset} {at}))"),
                    _ => format!(
                        "(call $note (i64.load{}_u $m{m} offset={offset} {at}))",
                        width * 8
                    ),
                }
            }
            Op::Store(m, width, at, offset, value) => {
                let (at, value) = (index(m, at), format!("(i64.const {})", value.cast_signed()));
                match width {
                    16 => format!("(v128.store $m{m} offset={offset} {at} (i64x2.splat {value}))"),
                    8 => format!("(i64.store $m{m} offset={offset} {at} {value})"),
                    _ => format!(
                        "(i64.store{} $m{m} offset={offset} {at} {value})",
                        width * 8
                    ),
                }
            }
            Op::Fill(m, at, byte, len) => {
                let (at, len) = (index(m, at), length(len, wide(m)));
                format!("(memory.fill $m{m} {at} (i32.const {byte}) {len})")
            }
            Op::Copy(to, from, at, from_at, len) => {
                let (at, from_at) = (index(to, at), index(from, from_at));
                let len = length(len, wide(to) && wide(from));
                format!("(memory.copy $m{to} $m{from} {at} {from_at} {len})")
            }
            Op::Init(m, at, from, len) => {
                let at = index(m, at);
                format!("(memory.init $m{m} $passive {at} (i32.const {from}) (i32.const {len}))")
            }
            Op::Grow(m, pages) if wide(m) => {
                format!("(call $note (memory.grow $m{m} (i64.const {pages})))")
            }
            Op::Grow(m, pages) => {
                format!("(call $note (i64.extend_i32_s (memory.grow $m{m} (i32.const {pages}))))")
            }
            Op::Size(m) if wide(m) => format!("(call $note (memory.size $m{m}))"),
            Op::Size(m) => format!("(call $note (i64.extend_i32_s (memory.size $m{m})))"),
        }
    }
}

fn at(random: &mut Random) -> At {
    At {
        param: random.below(PARAMS),
        add: match random.below(40) {
            0 => random.u64() as u32,
            1 => (PAGE - random.below(20)) as u32,
            2 => 0u32.wrapping_sub(random.below(200) as u32),
            _ => random.below(5000) as u32,
        },
        mask: [u32::MAX, 0xffff, 0xff, 0x7f8][random.below(4) as usize],
        wide_add: match random.below(40) {
            0 => 1 << 32,
            1 => random.u64(),
            _ => random.below(100),
        },
    }
}

/// Everything that a guest can observe of its memories.
struct Model<'a> {
    program: &'a Program,
    stores: Vec<Vec<u8>>,
    sum: i64,
}

impl<'a> Model<'a> {
    fn new(program: &'a Program) -> Self {
        let bytes = |(store, pages): (usize, &u64)| {
            let mut all = program.memories.iter();
            let one = all.find(|one| one.store == store);
            (pages * one.expect("each storage belongs to a memory").page()) as usize
        };
        let bytes = program.pages.iter().enumerate().map(bytes);
        let mut model = Self {
            program,
            stores: bytes.map(|bytes| vec![0; bytes]).collect(),
            sum: 0,
        };
        for (memory, at, bytes) in &program.segments {
            let at = *at as usize;
            model.of(*memory)[at..at + bytes.len()].copy_from_slice(bytes.as_bytes());
        }
        model
    }

    fn of(&mut self, memory: usize) -> &mut Vec<u8> {
        &mut self.stores[self.program.memories[memory].store]
    }

    fn note(&mut self, value: i64) {
        self.sum = self.sum.wrapping_mul(31).wrapping_add(value);
    }

    /// The byte range of an access; `None` if it is out of bounds.
    fn range(
        &mut self,
        memory: usize,
        at: At,
        params: [u32; 3],
        offset: u64,
        len: u64,
    ) -> Option<core::ops::Range<usize>> {
        let index = params[at.param as usize].wrapping_add(at.add) & at.mask;
        let index = match self.program.memories[memory].is_wide {
            true => u64::from(index).wrapping_add(at.wide_add),
            false => u64::from(index),
        };
        let start = index.checked_add(offset)?;
        let end = start.checked_add(len)?;
        (end <= self.of(memory).len() as u64).then_some(start as usize..end as usize)
    }

    /// Runs all operations; `None` for a trap.
    fn run(&mut self, params: [u32; 3]) -> Option<()> {
        let length = |length| match length {
            Length::Known(known) => u64::from(known),
            Length::Param(param, mask) => u64::from(params[param as usize] & mask),
        };
        for op in &self.program.ops {
            match *op {
                Op::Load(m, width, at, offset) => {
                    let range = self.range(m, at, params, offset, width)?;
                    let bytes = &self.of(m)[range];
                    let mut word = [0; 8];
                    let low = bytes.len().min(8);
                    word[..low].copy_from_slice(&bytes[bytes.len() - low..]);
                    self.note(i64::from_le_bytes(word));
                }
                Op::Store(m, width, at, offset, value) => {
                    let range = self.range(m, at, params, offset, width)?;
                    let bytes = [value.to_le_bytes(), value.to_le_bytes()].concat();
                    self.of(m)[range].copy_from_slice(&bytes[..width as usize]);
                }
                Op::Fill(m, at, byte, len) => {
                    let range = self.range(m, at, params, 0, length(len))?;
                    self.of(m)[range].fill(byte as u8);
                }
                Op::Copy(to, from, at, from_at, len) => {
                    let source = self.range(from, from_at, params, 0, length(len))?;
                    let range = self.range(to, at, params, 0, length(len))?;
                    let bytes = self.of(from)[source].to_vec();
                    self.of(to)[range].copy_from_slice(&bytes);
                }
                Op::Init(m, at, from, len) => {
                    let range = self.range(m, at, params, 0, len.into())?;
                    let source = SEGMENT.get(from as usize..(from + len) as usize)?;
                    self.of(m)[range].copy_from_slice(source);
                }
                Op::Grow(m, pages) => {
                    let ty = self.program.memories[m];
                    let memory = self.of(m);
                    let now = memory.len() as u64 / ty.page();
                    let grows = now + pages <= ty.pages_max();
                    if grows {
                        memory.resize(((now + pages) * ty.page()) as usize, 0);
                    }
                    self.note(if grows { now as i64 } else { -1 });
                }
                Op::Size(m) => {
                    let page = self.program.memories[m].page();
                    let now = self.of(m).len() as u64 / page;
                    self.note(now as i64);
                }
            }
        }
        Some(())
    }
}

/// Runs a program and compares it with the model.
fn check(program: &Program, options: &Options, calls: &[[u32; 3]], region: &Region) -> [usize; 2] {
    let [owner, guest] = program.texts();
    let mut group: Group<()> = Group::new(region, ());
    let linker = Linker::new();
    let mut add = |text: &str| -> MemberId {
        let module = common::wat_with(text, options);
        group.instantiate(&module, &linker).expect("it is linked")
    };
    if program.memories[0].is_imported {
        let owner = add(&owner);
        group.name("o", owner);
    }
    let member = group
        .instantiate(&common::wat_with(&guest, options), &linker)
        .expect("it is linked");
    let mut model = Model::new(program);
    let mut counts = [0; 2];
    for params in calls {
        let values = params.map(|param| Value::I32(param.cast_signed()));
        let ended = match group.lend(member).call_values("run", &values) {
            Ok(_) => Some(()),
            Err(CallError::Trap(trap)) => {
                assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds, "{guest}");
                None
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(ended, model.run(*params), "{params:?} {guest}");
        counts[usize::from(ended.is_none())] += 1;
        let sum = group.at(member).global("sum");
        assert_eq!(sum, Some(Value::I64(model.sum)), "{params:?} {guest}");
        for n in 0..program.memories.len() {
            let lent = group.at(member);
            let memory = lent.exported_memory(&format!("g{n}"));
            let memory = memory.expect("it is exported");
            // Not `assert_eq!`, which would print both memories.
            assert!(
                memory.as_slice() == model.of(n),
                "memory {n} {params:?} {guest}"
            );
        }
        let lent = group.at(member);
        let first = lent.memory();
        assert!(first.as_slice() == model.of(0), "{params:?} {guest}");
    }
    counts
}

#[test]
fn random_guests_access_their_own_memories() {
    let mut counts = [0; 2];
    let guests = share(120, 6);
    for seed in 0..guests {
        let mut random = Random(seed);
        let program = Program::new(&mut random);
        let mut param = || match random.below(40) {
            0 => random.u64() as u32,
            1 => (2 * PAGE - random.below(100)) as u32,
            _ => random.below(3000) as u32,
        };
        let calls: Vec<[u32; 3]> = (0..4).map(|_| core::array::from_fn(|_| param())).collect();
        let region = Region::builder().slots(2).memories(5);
        let region = region.memory_bytes_max((PAGES_MAX * PAGE) as usize).build();
        let region = region.expect("a region");
        for options in values::levels() {
            if options.opt_level == OptLevel::SpeedAndSize {
                continue;
            }
            // The second time the slots have been used before.
            for _ in 0..2 {
                let ended = check(&program, &options, &calls, &region);
                counts = [counts[0] + ended[0], counts[1] + ended[1]];
            }
        }
    }
    println!("{} calls returned, {} trapped", counts[0], counts[1]);
    // Each guest makes 16 calls.
    let least = 4 * guests as usize;
    assert!(counts.iter().all(|count| *count > least), "{counts:?}");
}
