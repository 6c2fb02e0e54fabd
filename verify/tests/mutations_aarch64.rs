//! Code of aarch64 that was changed so that it breaks a property is refused.
//!
//! `PIRN_MUTATIONS` is the number of changes, 2,000 in the whole campaign.

use crate::common;

use common::mutations::{Change, Code, Guest, OBJECTS, Trial, example};
use pirn_format::cpu::Arch;
use pirn_verify::Property;

/// The guests whose code is changed.
const GUESTS: [&str; 5] = [
    "tour-c.wasm",
    "simd.wasm",
    "threads-c.wasm",
    "traps.wat",
    "hostcalls.wat",
];

/// A module that calls through a table.
const CALLS: &str = r#"(module
    (type $binary (func (param i32 i32) (result i32)))
    (table $t (export "t") 4 8 funcref)
    (elem (i32.const 0) $add)
    (func $add (type $binary) (i32.add (local.get 0) (local.get 1)))
    (func (export "call") (param i32 i32 i32) (result i32)
        (i32.add (local.get 0)
            (call_indirect $t (type $binary) (local.get 0) (local.get 1) (local.get 2))))
    (func (export "set") (param i32) (table.set $t (local.get 0) (ref.func $add)))
)"#;

const NOP: u32 = 0xd503_201f;
const SVC: u32 = 0xd400_0001;
const RET: u32 = 0xd65f_03c0;

const SVC_BYTES: [u8; 4] = SVC.to_le_bytes();

/// Instructions that no guest may execute.
const FORBIDDEN: [(&str, u32); 8] = [
    ("svc #0", SVC),
    ("brk #0", 0xd420_0000),
    ("udf #0", 0),
    ("mrs x2, tpidr_el0", 0xd53b_d042),
    ("msr fpcr, x2", 0xd51b_4402),
    ("dc zva, x2", 0xd50b_7422),
    ("ret x9", 0xd65f_0120),
    ("ldr x9, [x2], #8", 0xf840_8449),
];

fn word(text: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(text[at..at + 4].try_into().expect("four bytes"))
}

/// A changed word of the text.
fn change(kind: &'static str, property: Property, at: usize, word: u32) -> Change {
    Change {
        kind,
        property,
        instruction: at,
        at,
        bytes: word.to_le_bytes().to_vec(),
    }
}

/// All changes to one function. Its constants and tables are never reached.
fn changes(function: &Code<'_>) -> Vec<Change> {
    let Code {
        text,
        entry,
        traps,
        metadata,
    } = *function;
    let (start, end) = (entry.start as usize, (entry.start + entry.len) as usize);
    // A function that only traps needs no frame.
    let is_exit = |at: usize| {
        let word = word(text, at);
        word == RET || word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000
    };
    let leaves = (start..end).step_by(4).any(is_exit);
    let mut all = vec![];
    for at in (start..end).step_by(4) {
        let old = word(text, at);
        let mut add = |kind, property, word| all.push(change(kind, property, at, word));
        for (kind, word) in FORBIDDEN {
            add(kind, Property::Instructions, word);
        }
        let to = |target: usize| (target.wrapping_sub(at) >> 2) as u32 & 0x03ff_ffff;
        match old & 0xfc00_0000 {
            // `bl`
            0x9400_0000 => {
                add("call after a start", Property::Targets, old.wrapping_add(1));
                let next = 0x9400_0000 | to(at + 4);
                add("call of the next instruction", Property::Targets, next);
            }
            // `b`
            0x1400_0000 => {
                let after = 0x1400_0000 | to(end + 4);
                add("jump out of the function", Property::Targets, after);
            }
            _ => {}
        }
        if leaves {
            frames(old, at == start, &mut add);
        }
        accesses(old, traps.code(at as u32).is_some(), &mut add);
        if metadata.heap {
            objects(old, &mut add);
        }
        // `blr`
        if old & 0xffff_fc1f == 0xd63f_0000 {
            add("call of the context", Property::Targets, 0xd63f_0040);
            // Code loads the callee's context from the record of the function.
            let before = word(text, at - 4);
            if before & 0xffff_fc1f == 0xf940_0402 && before >> 5 & 31 != 31 {
                let word = before + (1 << 10);
                let kind = "another word as the callee's context";
                all.push(change(kind, Property::Types, at - 4, word));
            }
        }
    }
    all
}

type Add<'a> = &'a mut dyn FnMut(&'static str, Property, u32);

/// Prologues and epilogues.
fn frames(old: u32, is_start: bool, add: Add<'_>) {
    /// `stp x29, x30, [sp, #-16]!` and `ldp x29, x30, [sp], #16`
    const SAVES: u32 = 0xa9bf_7bfd;
    const RESTORES: u32 = 0xa8c1_7bfd;
    match old {
        SAVES if is_start => {
            add(
                "no store of the frame pointer",
                Property::Stack,
                0xa9bf_7ffe,
            );
            add("a store of the pair in turn", Property::Stack, 0xa9bf_77fe);
        }
        RESTORES => {
            add("no load of the frame pointer", Property::Stack, NOP);
            add("a load of the pair in turn", Property::Stack, 0xa8c1_77fe);
        }
        RET => add("a return to the context", Property::Targets, 0xd61f_0040),
        _ => {}
    }
    // `sub sp, sp, #bytes`
    if old & 0xffc0_03ff == 0xd100_03ff {
        add("a frame of other bytes", Property::Stack, old ^ 1 << 13);
    }
}

/// Addresses.
fn accesses(old: u32, is_trap: bool, add: Add<'_>) {
    let base = old >> 5 & 31;
    // Loads and stores of one register, by a constant or a register.
    let is_access = old & 0x3a00_0000 == 0x3800_0000;
    if is_access && is_trap && base != 31 {
        let word = old & !(31 << 5) | 30 << 5;
        add("an access by the return address", Property::Accesses, word);
        // The register with the value.
        if old & 0x00c0_0000 == 0 && old & 1 << 26 == 0 {
            let word = old & !31 | 30;
            add("a store of the return address", Property::Accesses, word);
        }
    }
    // `ldur x, [base, #-bytes]` of a field of the context.
    if old & 0xffe0_0c00 == 0xf840_0000 && old & 1 << 20 != 0 && base != 31 && base != 29 {
        let private = (-128_i32).cast_unsigned() & 0x1ff;
        let word = old & !(0x1ff << 12) | private << 12;
        add("a private field of the context", Property::Accesses, word);
    }
}

/// Fields of objects, and comparisons before allocations, accesses to arrays and casts.
fn objects(old: u32, add: Add<'_>) {
    let property = Property::Accesses;
    // `b.cond`
    if old & 0xff00_0010 == 0x5400_0000 {
        match old & 15 {
            2 | 3 => add("no comparison of an index", property, NOP),
            8 | 9 => add("no comparison of room, range or supertypes", property, NOP),
            _ => {}
        }
    }
    let base = old >> 5 & 31;
    if matches!(base, 2 | 29 | 31) {
        return;
    }
    // Loads and stores of general registers by a constant, which is not negative.
    let is_scaled = old & 0x3f00_0000 == 0x3900_0000;
    let is_unscaled = old & 0x3f20_0c00 == 0x3800_0000 && old & 1 << 20 == 0;
    if is_scaled {
        let word = old & !(0xfff << 10) | 0x7f << 10;
        add("beside a field", property, word);
    } else if is_unscaled {
        let word = old & !(0x1ff << 12) | 0x7f << 12;
        add("beside a field", property, word);
    }
    // Half of a reference. Byte 32 of a struct is in the field that is a number of 64 bits.
    let place = old >> 10 & 0xfff;
    if is_scaled && old >> 30 == 3 && place != 4 {
        let word = old & !(1 << 30 | 0xfff << 10) | place << 11;
        add("half of a reference", property, word);
    }
}

#[test]
fn no_change_that_breaks_a_property_is_proven() {
    let sources = GUESTS.into_iter().map(example);
    let sources = sources.chain([CALLS, OBJECTS].map(|text| text.as_bytes().to_vec()));
    let guests = sources.map(|source| Guest::new(Arch::Aarch64, &source, changes));
    let trial = Trial {
        forbidden: &SVC_BYTES,
        count: 2_000,
        // Padding and tables between functions are among the places.
        reached_of: 4,
        is_harmless: |_, _, _| false,
    };
    trial.run(guests.collect());
}
