//! Attempts to make an access land in another memory or at another address.

use super::*;
use crate::common::campaign::sampled;
use crate::common::values::Lend as _;

/// A member of a group that uses several memories, its own and an owner's. The test knows all their
/// bytes.
struct Pair {
    group: Group<()>,
    user: MemberId,
    /// For each memory index of the user: the exporting member and the export's name. Equal entries
    /// are one memory.
    places: Vec<(MemberId, String)>,
}

/// Names of the memories that the user imports from the owner. None of them is the owner's first
/// memory.
const IMPORTED: [&str; 4] = ["b", "a", "b", "w"];

/// Memories that the user defines after its imports: pages, and whether addresses have 64 bits.
const DEFINED: [(usize, bool); 3] = [(1, false), (2, true), (2, false)];

/// The owner's memories: name, pages, and whether addresses have 64 bits.
const OWNED: [(&str, usize, bool); 3] = [("a", 1, false), ("b", 2, false), ("w", 1, true)];

/// For each memory of the user: its pages, and whether addresses have 64 bits.
fn user_memories(imports: bool) -> Vec<(usize, bool)> {
    let imported = IMPORTED.map(|name| {
        let owned = OWNED.iter().find(|owned| owned.0 == name);
        owned
            .map(|(_, pages, wide)| (*pages, *wide))
            .expect("a name")
    });
    let imported = imported.into_iter().filter(|_| imports);
    imported.chain(DEFINED).collect()
}

impl Pair {
    fn new(imports: bool, functions: &str, level: OptLevel) -> Self {
        let mut options = Options::default();
        options.opt_level = level;
        let user = common::wat_with(&user_text(imports, functions), &options);
        Self::of(imports, &user)
    }

    fn of(imports: bool, user: &Module) -> Self {
        let mut group = Group::new(&region(2, 4), ());
        let mut owner = String::from("(module (memory 1)");
        for (name, pages, wide) in OWNED {
            let ty = if wide { "i64" } else { "" };
            owner += &format!("(memory (export \"{name}\") {ty} {pages} {pages})");
        }
        let owner = group.instantiate(&common::wat(&(owner + ")")), &Linker::new());
        let owner = owner.expect("it fits");
        group.name("o", owner);
        let user = group.instantiate(user, &Linker::new()).expect("it fits");
        let imported = IMPORTED.iter().filter(|_| imports);
        let mut places: Vec<_> = imported.map(|name| (owner, (*name).to_owned())).collect();
        for index in places.len()..places.len() + DEFINED.len() {
            places.push((user, format!("m{index}")));
        }
        Self {
            group,
            user,
            places,
        }
    }

    /// Fills each memory with different bytes; returns a model of their content.
    fn fill(&mut self, random: &mut Random) -> Model {
        let mut model = Model {
            memories: vec![],
            of: vec![],
        };
        for (index, place) in self.places.iter().enumerate() {
            if let Some(same) = self.places[..index].iter().position(|other| other == place) {
                model.of.push(model.of[same]);
                continue;
            }
            model.of.push(model.memories.len());
            let mut lent = self.group.lend(place.0);
            let memory = lent.exported_memory_mut(&place.1);
            let mut memory = memory.expect("it is exported");
            let bytes = (0..memory.len())
                .map(|_| random.u64() as u8)
                .collect::<Vec<_>>();
            memory.write(0, &bytes).expect("inside");
            model.memories.push(bytes);
        }
        model
    }

    fn holds(&self, model: &Model) -> bool {
        self.places.iter().zip(&model.of).all(|(place, of)| {
            let lent = self.group.at(place.0);
            let memory = lent.exported_memory(&place.1);
            memory.expect("it is exported").as_slice() == model.memories[*of]
        })
    }

    fn call(&mut self, name: &str, params: &[Value]) -> Result<Vec<Value>, TrapCode> {
        outcome(self.group.lend(self.user).call_values(name, params))
    }
}

fn user_text(imports: bool, functions: &str) -> String {
    let mut text = String::from("(module");
    let memories = user_memories(imports);
    for (index, (pages, wide)) in memories.iter().enumerate() {
        let ty = if *wide { "i64" } else { "" };
        text += &match IMPORTED.get(index) {
            Some(name) if imports => format!(r#"(import "o" "{name}" (memory {ty} {pages}))"#),
            _ => format!(r#"(memory (export "m{index}") {ty} {pages} {pages})"#),
        };
    }
    text + functions + ")"
}

/// The content of the user's memories.
#[derive(Clone)]
struct Model {
    memories: Vec<Vec<u8>>,
    /// The entry of `memories` for each memory index of the user.
    of: Vec<usize>,
}

impl Model {
    /// The bytes of an access; `None` if it is out of bounds.
    fn at(&mut self, memory: usize, at: u64, offset: u64, bytes: u64) -> Option<&mut [u8]> {
        let memory = &mut self.memories[self.of[memory]];
        let start = at.checked_add(offset)?;
        let end = start.checked_add(bytes)?;
        (end <= memory.len() as u64).then(|| &mut memory[start as usize..end as usize])
    }
}

/// Operators: text, first bytes of the encoding, number of accessed bytes, and the stored operand
/// (empty for loads).
const OPERATORS: [(&str, &[u8], u64, &str); 15] = [
    ("i32.load8_u", &[0x2d], 1, ""),
    ("i32.load16_s", &[0x2e], 2, ""),
    ("i32.load", &[0x28], 4, ""),
    ("i64.load32_u", &[0x35], 4, ""),
    ("f64.load", &[0x2b], 8, ""),
    ("i32.store8", &[0x3a], 1, "(i32.const -1)"),
    ("i64.store16", &[0x3d], 2, "(i64.const -1)"),
    ("i64.store", &[0x37], 8, "(i64.const -1)"),
    ("v128.load", &[0xfd, 0], 16, ""),
    ("v128.load16x4_u", &[0xfd, 4], 8, ""),
    ("v128.load32_splat", &[0xfd, 9], 4, ""),
    ("v128.load64_zero", &[0xfd, 0x5d], 8, ""),
    ("v128.store", &[0xfd, 11], 16, "(v128.const i64x2 -1 -1)"),
    (
        "v128.load16_lane",
        &[0xfd, 0x55],
        2,
        "(v128.const i64x2 0 0) 3",
    ),
    (
        "v128.store32_lane",
        &[0xfd, 0x5a],
        4,
        "(v128.const i64x2 -1 -1) 2",
    ),
];

/// Offsets around the size of the guard region and where sums wrap around.
const OFFSETS: [u64; 6] = [
    0,
    5,
    (PAGE - 1) as u64,
    (32 << 20) - 4,
    1 << 31,
    (1 << 32) - 1,
];

/// The offsets that are tested with an operator and a memory. By default half of them, and the
/// other half with the next operator or memory.
fn offsets(operator: usize, memory: usize) -> impl Iterator<Item = u64> {
    sampled(OFFSETS, 2, operator + memory)
}

#[test]
fn every_operator_accesses_its_own_memory_and_traps_at_its_offset() {
    for imports in [false, true] {
        let memories = user_memories(imports);
        let mut functions = String::new();
        for (number, (text, _, _, operand)) in OPERATORS.iter().enumerate() {
            for (memory, (_, wide)) in memories.iter().enumerate() {
                let (ty, drop) = (if *wide { "i64" } else { "i32" }, drops(text));
                for offset in offsets(number, memory) {
                    // The lane immediate precedes the operands in the text.
                    let (operand, lane) = match operand.rsplit_once(' ') {
                        Some((operand, lane)) if text.ends_with("_lane") => (operand, lane),
                        _ => (*operand, ""),
                    };
                    functions += &format!(
                        "(func (export \"{number} {memory} {offset}\") (param {ty})
                           ({text} {memory} offset={offset} {lane} (local.get 0) {operand}) {drop})"
                    );
                }
            }
        }
        let text = user_text(imports, &functions);
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
        for level in sampled(LEVELS, 2, imports.into()) {
            let mut options = Options::default();
            options.opt_level = level;
            let user = common::open_with(&wasm, &options).expect("it is valid");
            let mut pair = Pair::of(imports, &user);
            let mut model = pair.fill(&mut Random(1));
            for (number, (text, opcode, bytes, operand)) in OPERATORS.iter().enumerate() {
                for (memory, (pages, wide)) in memories.iter().enumerate() {
                    for offset in offsets(number, memory) {
                        let what = format!("{text} {memory} {offset} {level:?} {imports}");
                        let end = (pages * PAGE) as u64;
                        let place = operator(&wasm, opcode, operand, memory, offset);
                        for index in [
                            0,
                            end.saturating_sub(offset + bytes),
                            end.saturating_sub(offset + bytes) + 1,
                            end.saturating_sub(offset),
                            end,
                            (1 << 31) - offset.min(1 << 31),
                            (1 << 32) - 1,
                            (1 << 32) - bytes,
                            (1 << 32) - offset,
                            1 << 32,
                            (1 << 32) + 64,
                            u64::MAX,
                            offset.wrapping_neg(),
                        ] {
                            let (index, value) = match wide {
                                true => (index, Value::I64(index.cast_signed())),
                                false => (u64::from(index as u32), i32(index as u32)),
                            };
                            let inside = model.at(memory, index, offset, *bytes);
                            let expected = inside.is_some();
                            if let Some(stored) = inside
                                && drops(text).is_empty()
                            {
                                stored.fill(0xff);
                            }
                            let name = format!("{number} {memory} {offset}");
                            match pair.group.lend(pair.user).call_values(&name, &[value]) {
                                Ok(_) => assert!(expected, "{what} at {index:#x} is inside"),
                                Err(CallError::Trap(trap)) => {
                                    assert!(!expected, "{what} at {index:#x} is outside");
                                    assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds, "{what}");
                                    assert_eq!(trap.wasm_offset(), Some(place), "{what}");
                                }
                                Err(other) => panic!("{what}: {other}"),
                            }
                        }
                        if drops(text).is_empty() {
                            assert!(pair.holds(&model), "{what}");
                        }
                    }
                }
            }
            assert!(pair.holds(&model), "{imports} {level:?}");
        }
    }
}

/// The instruction after an operator: `drop` for its result, nothing for a store.
fn drops(text: &str) -> &'static str {
    if text.contains("store") { "" } else { "drop" }
}

/// The position in a module of the only operator with these first bytes, memory and offset.
fn operator(wasm: &[u8], opcode: &[u8], operand: &str, memory: usize, offset: u64) -> u32 {
    // The address operand, or the stored operand, is just before the operator.
    let before = match operand {
        "" => vec![0x20, 0],
        "(i32.const -1)" => vec![0x41, 0x7f],
        "(i64.const -1)" => vec![0x42, 0x7f],
        vector => {
            let byte = if vector.contains("-1 -1") { 0xff } else { 0 };
            [vec![0xfd, 12], vec![byte; 16]].concat()
        }
    };
    let mut leb = vec![];
    let mut rest = offset;
    while rest > 0x7f {
        leb.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    leb.push(rest as u8);
    let (first, behind) = (opcode.len(), opcode.len() + 1);
    // The encoding omits memory index 0.
    let (flag, index): (_, &[u8]) = match memory {
        0 => (0, &[]),
        other => (0x40, &[other as u8]),
    };
    let tail = [index, &leb].concat();
    let found = (0..wasm.len()).filter(|at| {
        wasm[*at..].starts_with(opcode)
            && wasm[..*at].ends_with(&before)
            && wasm.get(at + first).is_some_and(|align| align & !7 == flag)
            && wasm[at + behind..].starts_with(&tail)
    });
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), 1, "{opcode:x?} {memory} {offset}: {found:x?}");
    found[0] as u32
}

/// An access of a random function: memory, constant added to the address, offset, bytes, and
/// whether it stores.
type Access = (usize, u32, u64, u64, bool);

/// The guest uses equal addresses in memories of several sizes, some of which are one memory. The
/// compiler must not reuse the bounds check of one memory for another.
#[test]
fn bounds_checks_of_one_memory_are_not_reused_for_another() {
    const FUNCTIONS: usize = 120;
    for imports in [false, true] {
        let memories = user_memories(imports);
        let mut random = Random(if imports { 11 } else { 12 });
        let constants = [
            0,
            0,
            1,
            4,
            8,
            100,
            65_535,
            65_536,
            65_537,
            u32::MAX,
            u32::MAX - 7,
        ];
        let mut access = || -> Access {
            let constant = constants[random.below(constants.len() as u64) as usize];
            let offset = [0, 0, 0, 1, 8, 65_528, 1 << 20][random.below(7) as usize];
            let bytes = [1, 2, 4, 8][random.below(4) as usize];
            let memory = random.below(memories.len() as u64) as usize;
            (memory, constant, offset, bytes, random.below(2) == 0)
        };
        let bodies: Vec<Vec<_>> = (0..FUNCTIONS)
            .map(|_| (0..8).map(|_| access()).collect())
            .collect();
        let mut functions = String::new();
        for (number, body) in bodies.iter().enumerate() {
            functions +=
                &format!("(func (export \"{number}\") (param i32) (result i64) (local i64)");
            for (step, (memory, constant, offset, bytes, stores)) in body.iter().enumerate() {
                let index = format!(
                    "(i32.add (local.get 0) (i32.const {}))",
                    constant.cast_signed()
                );
                let index = match memories[*memory].1 {
                    true => format!("(i64.extend_i32_u {index})"),
                    false => index,
                };
                let bits = 8 * bytes;
                functions += &match (stores, bytes) {
                    (true, 8) => format!(
                        "(i64.store {memory} offset={offset} {index} (i64.add (local.get 1) (i64.const {step})))"
                    ),
                    (true, _) => format!(
                        "(i64.store{bits} {memory} offset={offset} {index} (i64.add (local.get 1)
                 (i64.const {step})))"
                    ),
                    (false, _) => {
                        let load = if *bytes == 8 {
                            "load".to_owned()
                        } else {
                            format!("load{bits}_u")
                        };
                        format!(
                            "(local.set 1 (i64.add (i64.mul (local.get 1) (i64.const 31))
                               (i64.{load} {memory} offset={offset} {index})))"
                        )
                    }
                };
            }
            functions += "(local.get 1))";
        }
        for level in LEVELS {
            let mut pair = Pair::new(imports, &functions, level);
            let mut model = pair.fill(&mut Random(5));
            for (number, body) in bodies.iter().enumerate() {
                let ends = [1_u32, 2].map(|pages| pages << 16);
                let near = ends.map(|end| [end - 1, end - 8, end - 9, end - 108]);
                for index in near
                    .into_iter()
                    .flatten()
                    .chain([0, 7, 8, 65_000, u32::MAX - 3])
                {
                    let mut sum = 0_u64;
                    let expected = 'run: {
                        for (step, (memory, constant, offset, bytes, stores)) in
                            body.iter().enumerate()
                        {
                            let at = u64::from(index.wrapping_add(*constant));
                            let Some(found) = model.at(*memory, at, *offset, *bytes) else {
                                break 'run Err(TrapCode::MemoryOutOfBounds);
                            };
                            let mut value = [0; 8];
                            if *stores {
                                let stored = sum.wrapping_add(step as u64).to_le_bytes();
                                found.copy_from_slice(&stored[..found.len()]);
                            } else {
                                value[..found.len()].copy_from_slice(found);
                                sum = sum.wrapping_mul(31).wrapping_add(u64::from_le_bytes(value));
                            }
                        }
                        Ok(vec![Value::I64(sum.cast_signed())])
                    };
                    let ended = pair.call(&number.to_string(), &[i32(index)]);
                    let what = format!("{imports} {level:?} {index:#x} {body:?}");
                    assert_eq!(ended, expected, "{what}");
                    assert!(pair.holds(&model), "{what}");
                }
            }
        }
    }
}

/// Lengths around the limits up to which the compiler emits inline code of different kinds.
const LENGTHS: [u64; 16] = [
    0, 1, 3, 8, 15, 16, 17, 33, 64, 100, 128, 1023, 1024, 1025, 3000, 65_536,
];

/// Copies between all pairs of memories, some of which are one memory, with constant lengths and
/// with lengths in variables.
#[test]
fn copies_use_the_named_memories() {
    for imports in [false, true] {
        let memories = user_memories(imports);
        let ty = |memory: usize| if memories[memory].1 { "i64" } else { "i32" };
        let count = memories.len();
        let mut functions = String::new();
        for to in 0..count {
            for from in 0..count {
                let narrower = if ty(to) == ty(from) { ty(to) } else { "i32" };
                functions += &format!(
                    "(func (export \"copy {to} {from}\") (param {} {} {narrower})
                       (memory.copy {to} {from} (local.get 0) (local.get 1) (local.get 2)))",
                    ty(to),
                    ty(from)
                );
                for len in LENGTHS.into_iter().filter(|len| *len <= 128) {
                    functions += &format!(
                        "(func (export \"copy {to} {from} {len}\") (param {} {})
                           (memory.copy {to} {from} (local.get 0) (local.get 1) ({narrower}.const {len})))",
                        ty(to),
                        ty(from)
                    );
                }
            }
            functions += &format!(
                "(func (export \"fill {to}\") (param {0} i32 {0})
                   (memory.fill {to} (local.get 0) (local.get 1) (local.get 2)))",
                ty(to)
            );
        }
        let number = |memory: usize, value: u64| match memories[memory].1 {
            true => Value::I64(value.cast_signed()),
            false => i32(value as u32),
        };
        for level in sampled(LEVELS, 2, imports.into()) {
            let mut pair = Pair::new(imports, &functions, level);
            let mut random = Random(3);
            let mut model = pair.fill(&mut random);
            for round in 0..count * count * LENGTHS.len() * 3 {
                let (to, from) = (round % count, round / count % count);
                let len = LENGTHS[round / count / count % LENGTHS.len()];
                let mut address = |memory: usize| {
                    let (end, wide) = ((memories[memory].0 * PAGE) as u64, memories[memory].1);
                    let near = end.saturating_sub(len);
                    let high = if wide { (1 << 32) + 100 } else { near };
                    let all = [
                        0,
                        near,
                        near,
                        near + 1,
                        100,
                        108,
                        end,
                        end + 1,
                        high,
                        u64::MAX,
                    ];
                    let at = all[random.below(all.len() as u64) as usize];
                    if wide { at } else { u64::from(at as u32) }
                };
                let (at, source) = (address(to), address(from));
                let known = pair_of(len);
                let what =
                    format!("{imports} {level:?}: {len} from {from} {source:#x} to {to} {at:#x}");
                let bytes = model.at(from, source, 0, len).map(|bytes| bytes.to_vec());
                let inside = match (&bytes, model.at(to, at, 0, len)) {
                    (Some(bytes), Some(into)) => {
                        into.copy_from_slice(bytes);
                        Ok(vec![])
                    }
                    _ => Err(TrapCode::MemoryOutOfBounds),
                };
                let mut params = vec![number(to, at), number(from, source)];
                let mut name = format!("copy {to} {from}");
                if known && random.below(2) == 0 {
                    name += &format!(" {len}");
                } else {
                    let narrow = !(memories[to].1 && memories[from].1);
                    params.push(if narrow {
                        i32(len as u32)
                    } else {
                        Value::I64(len.cast_signed())
                    });
                }
                assert_eq!(pair.call(&name, &params), inside, "{what}");
                assert!(pair.holds(&model), "{what}");
                let filled = match model.at(to, at, 0, len) {
                    Some(into) => {
                        into.fill(round as u8);
                        Ok(vec![])
                    }
                    None => Err(TrapCode::MemoryOutOfBounds),
                };
                let params = [number(to, at), i32(round as u32), number(to, len)];
                assert_eq!(pair.call(&format!("fill {to}"), &params), filled, "{what}");
                // Refill with other bytes than zeros and the fill values.
                if round % 64 == 0 {
                    model = pair.fill(&mut random);
                }
                assert!(pair.holds(&model), "{what}");
            }
        }
    }
}

/// Whether the guest has a function for this constant length.
fn pair_of(len: u64) -> bool {
    len <= 128
}
