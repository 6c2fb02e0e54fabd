//! Code of x86_64 that was changed so that it breaks a property is refused.
//!
//! `PIRN_MUTATIONS` is the number of changes, 4,000 in the whole campaign.

use crate::common;

use common::mutations::{Change, Code, Guest, OBJECTS, Trial, example};
use common::section;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use pirn_format::cpu::Arch;
use pirn_format::layout::{CONTEXT_ACTIVATION, CONTEXT_RUNTIME};
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeTable, TrapTable};
use pirn_verify::{Property, Verifier};
use std::collections::{BTreeMap, BTreeSet};

/// The guests whose code is changed: C, Rust, vectors, threads and hand-written modules.
const GUESTS: [&str; 8] = [
    "tour-c.wasm",
    "tour-rust.wasm",
    "simd.wasm",
    "crypto.wasm",
    "threads-c.wasm",
    "warm-c.wasm",
    "traps.wat",
    "hostcalls.wat",
];

/// A module that calls through a table, changes it and throws exceptions.
const CALLS: &str = r#"(module
    (type $binary (func (param i32 i32) (result i32)))
    (import "host" "log" (func $log (param i32 i64)))
    (table $t (export "t") 4 8 funcref)
    (memory 1 2)
    (tag $e (param i32))
    (elem (i32.const 0) $add $sub)
    (func $add (type $binary) (i32.add (local.get 0) (local.get 1)))
    (func $sub (type $binary) (i32.sub (local.get 0) (local.get 1)))
    (func (export "call") (param i32 i32 i32) (result i32)
        (call_indirect $t (type $binary) (local.get 0) (local.get 1) (local.get 2)))
    (func (export "set") (param i32) (table.set $t (local.get 0) (ref.func $sub)))
    (func (export "tail") (param i32 i32 i32) (result i32)
        (return_call_indirect $t (type $binary) (local.get 0) (local.get 1) (local.get 2)))
    (func (export "log") (param i32) (call $log (local.get 0) (i64.const 7)))
    (func $throw (param i32) (throw $e (local.get 0)))
    (func (export "catch") (param i32) (result i32)
        (block $caught (result i32)
            (try_table (catch $e $caught) (call $throw (local.get 0)))
            (i32.const 0)))
)"#;

/// A jump to the second byte of an instruction.
const OVERLAP: &str = "jump into an instruction";

/// The instructions of a function that its start reaches by direct jumps.
fn reachable(text: &[u8], entry: CodeEntry) -> BTreeMap<u32, Instruction> {
    let end = entry.start + entry.len;
    let mut found = BTreeMap::new();
    let mut todo = vec![entry.start];
    while let Some(mut at) = todo.pop() {
        while at < end && !found.contains_key(&at) {
            let bytes = &text[at as usize..end as usize];
            let mut decoder = Decoder::with_ip(64, bytes, u64::from(at), DecoderOptions::NONE);
            let instruction = decoder.decode();
            found.insert(at, instruction);
            if matches!(instruction.op0_kind(), OpKind::NearBranch64)
                && instruction.mnemonic() != Mnemonic::Call
            {
                todo.push(instruction.near_branch_target() as u32);
            }
            if matches!(
                instruction.mnemonic(),
                Mnemonic::Jmp | Mnemonic::Ret | Mnemonic::Ud2
            ) {
                break;
            }
            at = instruction.next_ip() as u32;
        }
    }
    found
}

/// All changes to one function.
fn changes(function: &Code<'_>) -> Vec<Change> {
    let Code {
        text, entry, traps, ..
    } = *function;
    let code = reachable(text, entry);
    let falls = code.values().filter(|instruction| {
        let mnemonic = instruction.mnemonic();
        !matches!(mnemonic, Mnemonic::Jmp | Mnemonic::Ret | Mnemonic::Ud2)
    });
    let leaves = code
        .values()
        .any(|instruction| matches!(instruction.mnemonic(), Mnemonic::Call | Mnemonic::Ret));
    let entered: BTreeSet<u32> = falls
        .map(|instruction| instruction.next_ip() as u32)
        .collect();
    let mut all = vec![];
    for (at, instruction) in &code {
        let mut add = |kind, property, offset: usize, bytes: &[u8]| {
            all.push(Change {
                kind,
                property,
                instruction: *at as usize,
                at: *at as usize + offset,
                bytes: bytes.to_vec(),
            });
        };
        let len = instruction.len();
        forbidden(len, &mut add);
        jumps(entry, instruction, (&code, &entered), &mut add);
        // A function that only traps needs no frame.
        if leaves {
            frames(entry, *at, instruction, &mut add);
        }
        accesses(text, *at, instruction, traps, &mut add);
        if function.metadata.heap {
            objects(text, *at, instruction, &mut add);
        }
        calls(&code, *at, instruction, &mut add);
    }
    all.retain(|change| !text[change.at..].starts_with(&change.bytes));
    all
}

type Add<'a> = &'a mut dyn FnMut(&'static str, Property, usize, &[u8]);

/// An instruction that no guest may execute.
fn forbidden(len: usize, add: Add<'_>) {
    let forbidden: [(&str, &[u8]); 6] = [
        ("hlt", &[0xf4]),
        ("syscall", &[0x0f, 0x05]),
        ("int 0x80", &[0xcd, 0x80]),
        ("cpuid", &[0x0f, 0xa2]),
        ("rdtscp", &[0x0f, 0x01, 0xf9]),
        ("ldmxcsr [rax]", &[0x0f, 0xae, 0x10]),
    ];
    for (kind, bytes) in forbidden {
        if bytes.len() <= len {
            add(kind, Property::Instructions, 0, bytes);
        }
    }
    // An access to the thread's own data of the host.
    if len >= 5 {
        let bytes = [0x64, 0x48, 0x8b, 0x04, 0x25];
        add("mov rax, fs:[...]", Property::Instructions, 0, &bytes);
    }
}

/// Jumps and calls to other places.
fn jumps(
    entry: CodeEntry,
    instruction: &Instruction,
    (code, entered): (&BTreeMap<u32, Instruction>, &BTreeSet<u32>),
    add: Add<'_>,
) {
    if instruction.op0_kind() != OpKind::NearBranch64 || instruction.len() < 5 {
        return;
    }
    let (at, len) = (instruction.ip() as u32, instruction.len());
    let target = instruction.near_branch_target() as u32;
    let mut to = |kind, opcode: u8, target: u32| {
        // A conditional jump becomes an unconditional jump, which is always taken.
        let distance = target.wrapping_sub(at + 5).to_le_bytes();
        let mut bytes = vec![opcode];
        bytes.extend(distance);
        bytes.resize(len, 0x90);
        add(kind, Property::Targets, 0, &bytes);
    };
    if instruction.mnemonic() == Mnemonic::Call {
        to("call after a start", 0xe8, target + 1);
        to("call of the next instruction", 0xe8, at + 5);
        return;
    }
    to(
        "jump out of the function",
        0xe9,
        entry.start + entry.len + 1,
    );
    to(
        "jump before the function",
        0xe9,
        entry.start.wrapping_sub(1),
    );
    // The target must also be reached from the instruction before it. Otherwise, the jump into the
    // target overlaps no instruction.
    let is_always = instruction.mnemonic() == Mnemonic::Jmp;
    if is_always && entered.contains(&target) && !code.contains_key(&(target + 1)) {
        to(OVERLAP, 0xe9, target + 1);
    }
}

/// Prologues and epilogues.
fn frames(entry: CodeEntry, at: u32, instruction: &Instruction, add: Add<'_>) {
    let property = Property::Stack;
    match instruction.mnemonic() {
        Mnemonic::Push if at == entry.start => {
            add("no push of the frame pointer", property, 0, &[0x90]);
        }
        Mnemonic::Pop if instruction.op0_register() == Register::RBP => {
            add("no pop of the frame pointer", property, 0, &[0x90]);
        }
        _ => {}
    }
}

/// Addresses.
fn accesses(text: &[u8], at: u32, instruction: &Instruction, traps: &TrapTable<'_>, add: Add<'_>) {
    let is_access = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory)
        && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    let base = instruction.memory_base();
    if !is_access
        || matches!(
            base,
            Register::RIP | Register::RSP | Register::RBP | Register::None
        )
    {
        return;
    }
    let displacement = instruction.memory_displacement64().cast_signed();
    let bytes = &text[at as usize..at as usize + instruction.len()];
    let size = instruction.memory_displ_size() as usize;
    let wide = (displacement as i32).to_le_bytes();
    let offset = match size {
        4 | 8 => bytes.windows(4).position(|window| *window == wide),
        1 => bytes.iter().rposition(|byte| *byte == displacement as u8),
        _ => None,
    };
    let Some(offset) = offset else { return };
    let is_wide = size >= 4;
    if displacement < 0 {
        // A negative displacement is a distance from the context.
        if is_wide {
            let private = (CONTEXT_RUNTIME + 64).to_le_bytes();
            add(
                "a private field of the context",
                Property::Accesses,
                offset,
                &private,
            );
            let below = (-(1_i32 << 29)).to_le_bytes();
            add("below the instance", Property::Accesses, offset, &below);
        } else {
            let private = [CONTEXT_ACTIVATION as u8];
            add(
                "the activation of the call",
                Property::Accesses,
                offset,
                &private,
            );
        }
    } else if is_wide && traps.code(at).is_some() {
        let below = (-(1_i32 << 28)).to_le_bytes();
        add("below the memory", Property::Accesses, offset, &below);
    }
}

/// Fields of objects, and comparisons before allocations and accesses to arrays.
fn objects(text: &[u8], at: u32, instruction: &Instruction, add: Add<'_>) {
    let property = Property::Accesses;
    let nop = [0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00];
    match instruction.mnemonic() {
        Mnemonic::Jae | Mnemonic::Jb if instruction.len() == 6 => {
            add("no comparison of an index", property, 0, &nop);
        }
        Mnemonic::Ja if instruction.len() == 6 => {
            add("no comparison of room or of a range", property, 0, &nop);
        }
        _ => {}
    }
    let is_access = (0..2).any(|at| instruction.op_kind(at) == OpKind::Memory)
        && instruction.mnemonic() != Mnemonic::Lea;
    let base = instruction.memory_base();
    let is_frame = matches!(base, Register::RSP | Register::RBP | Register::RIP);
    let displacement = instruction.memory_displacement64().cast_signed();
    if is_access && !is_frame && displacement > 0 && instruction.memory_displ_size() == 1 {
        let bytes = &text[at as usize..at as usize + instruction.len()];
        let offset = bytes.iter().rposition(|byte| *byte == displacement as u8);
        let offset = offset.expect("the instruction has a displacement");
        add("beside a field", property, offset, &[0x7f]);
    }
}

/// Indirect calls.
fn calls(code: &BTreeMap<u32, Instruction>, at: u32, instruction: &Instruction, add: Add<'_>) {
    let mut after = code.range(at + 1..).map(|(_, instruction)| instruction);
    let next = after.next();
    let then = after.next();
    let is_call = |next: Option<&Instruction>| {
        next.is_some_and(|next| {
            next.mnemonic() == Mnemonic::Call && next.op0_kind() == OpKind::Register
        })
    };
    // Code loads the callee's context from the record of the function.
    if instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_register() == Register::RDI
        && instruction.op1_kind() == OpKind::Memory
        && instruction.memory_displacement64() == 8
        && instruction.memory_displ_size() == 1
        && instruction.memory_index() == Register::None
        && instruction.memory_base() != Register::RSP
        && is_call(next)
    {
        let last = instruction.len() - 1;
        add(
            "another word as the callee's context",
            Property::Types,
            last,
            &[0x10],
        );
    }
    // Code compares the type of a function before the call.
    if instruction.mnemonic() == Mnemonic::Jne
        && instruction.len() == 6
        && next.is_some_and(|next| {
            next.mnemonic() == Mnemonic::Xor && next.op0_register() == next.op1_register()
        })
        && then.is_some_and(|then| then.mnemonic() == Mnemonic::Cmp)
    {
        let nop = [0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00];
        add(
            "no comparison of the callee's type",
            Property::Types,
            0,
            &nop,
        );
    }
}

/// `hlt`
const FORBIDDEN: &[u8] = &[0xf4];

/// Whether a jump into an instruction is harmless, because no other jump reaches that instruction.
fn is_harmless(guest: &mut Guest, entry: CodeEntry, change: &Change) -> bool {
    if change.kind != OVERLAP {
        return false;
    }
    let distance = change.bytes[1..5].try_into().expect("four bytes");
    let into = (change.at + 5).wrapping_add_signed(i32::from_le_bytes(distance) as isize);
    guest.with(change.at, &change.bytes, |guest| {
        !guest.refuses(entry, into - 1, FORBIDDEN)
    })
}

#[test]
fn no_change_that_breaks_a_property_is_proven() {
    let written = [CALLS, OBJECTS].map(|text| text.as_bytes().to_vec());
    let sources = GUESTS.into_iter().map(example).chain(written);
    let guests = sources.map(|source| Guest::new(Arch::X86_64, &source, changes));
    let trial = Trial {
        forbidden: FORBIDDEN,
        count: 4_000,
        reached_of: 10,
        is_harmless,
    };
    trial.run(guests.collect());
}

#[test]
fn each_access_to_memory_needs_its_entry_in_the_trap_table() {
    let mut guest = Guest::new(Arch::X86_64, &example("tour-c.wasm"), changes);
    let range = section(&guest.checked, Section::Traps);
    let entries = range.len() / 8;
    let (mut refused, mut unreached) = (0, 0);
    for number in (0..entries).step_by(7) {
        let at = range.start + 8 * number;
        let old = guest.file[at..at + 4].to_vec();
        let offset = u32::from_le_bytes(old.clone().try_into().expect("four bytes"));
        // The table stays ascending. The entry names the second byte of the instruction.
        guest.file[at..at + 4].copy_from_slice(&(offset + 1).to_le_bytes());
        let verifier = Verifier::new(&guest.file, &guest.checked).expect("the tables are sorted");
        let bytes = &guest.file[section(&guest.checked, Section::Code)];
        let table = CodeTable::new(bytes).expect("a code table");
        let entry = table.find(offset).expect("the access is in a function");
        let is_refused = verifier.verify_code(entry).is_err();
        guest.file[at..at + 4].copy_from_slice(&old);
        match is_refused {
            true => refused += 1,
            false => {
                assert!(
                    !guest.refuses(entry, offset as usize, FORBIDDEN),
                    "entry {offset:#x} is not needed"
                );
                unreached += 1;
            }
        }
    }
    println!("{refused} entries are needed, {unreached} are of code that is never reached");
    assert!(refused > 200 && unreached < refused / 20);
}
