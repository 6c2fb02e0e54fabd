//! Machine code that would leave the sandbox is refused.
//!
//! The tests write code from the lists over the start of a function of a compiled module. An
//! earlier verifier proved each attack, or a weaker rule would prove it. The verifier must refuse
//! the attack for the property that the attack breaks. Each list also has controls: harmless code
//! of the same kind, which the verifier must prove.

use crate::common;

mod guest;
mod list;

use guest::{F, Guest, MARKS, Mark, mark, short_mark};
use list::Attack;
use pirn_format::cpu::Arch;
use pirn_format::error::FormatError;
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeKind, TrapEntry};
use pirn_runtime::{CallError, Caller, Linker, Module, Region, TrapCode};
use pirn_verify::{Property, Refusal, Verifier, VerifyError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write};
use std::fs;
use std::process::Command;

const LISTS: [(Arch, &str, &str); 15] = [
    (Arch::X86_64, "values.txt", include_str!("values.txt")),
    (Arch::X86_64, "parts.txt", include_str!("parts.txt")),
    (Arch::X86_64, "addresses.txt", include_str!("addresses.txt")),
    (Arch::X86_64, "stack.txt", include_str!("stack.txt")),
    (
        Arch::X86_64,
        "exceptions.txt",
        include_str!("exceptions.txt"),
    ),
    (
        Arch::X86_64,
        "trampolines.txt",
        include_str!("trampolines.txt"),
    ),
    (
        Arch::X86_64,
        "instructions.txt",
        include_str!("instructions.txt"),
    ),
    (Arch::X86_64, "objects.txt", include_str!("objects.txt")),
    (
        Arch::Aarch64,
        "aarch64/values.txt",
        include_str!("aarch64/values.txt"),
    ),
    (
        Arch::Aarch64,
        "aarch64/vectors.txt",
        include_str!("aarch64/vectors.txt"),
    ),
    (
        Arch::Aarch64,
        "aarch64/addresses.txt",
        include_str!("aarch64/addresses.txt"),
    ),
    (
        Arch::Aarch64,
        "aarch64/stack.txt",
        include_str!("aarch64/stack.txt"),
    ),
    (
        Arch::Aarch64,
        "aarch64/exceptions.txt",
        include_str!("aarch64/exceptions.txt"),
    ),
    (
        Arch::Aarch64,
        "aarch64/instructions.txt",
        include_str!("aarch64/instructions.txt"),
    ),
    (
        Arch::Aarch64,
        "aarch64/objects.txt",
        include_str!("aarch64/objects.txt"),
    ),
];

/// All attacks and controls, each with the name of its list.
fn attacks() -> impl Iterator<Item = (&'static str, Attack)> {
    LISTS.into_iter().flat_map(|(arch, file, text)| {
        let attacks = list::read(arch, text).into_iter();
        attacks.map(move |attack| (file, attack))
    })
}

#[test]
fn attacks_are_refused_and_controls_are_proven() {
    let (mut wrong, mut names) = (vec![], BTreeSet::new());
    // For each list, the numbers of attacks and of controls.
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (file, attack) in attacks() {
        let found = match std::panic::catch_unwind(|| guest::verify(&attack)) {
            Ok(Ok(_)) => "proven".to_owned(),
            Ok(Err(VerifyError::Refused(refusal))) => {
                println!("{}: {refusal}", attack.name);
                format!("refused: {}", refusal.property.name())
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a panic".to_owned(),
        };
        let expected = match attack.refused {
            None => "proven".to_owned(),
            Some(property) => format!("refused: {}", property.name()),
        };
        if found != expected {
            wrong.push(format!(
                "{file}: {}: {expected}; found: {found}",
                attack.name
            ));
        }
        let (attacks, controls) = counts.entry(file).or_default();
        match attack.refused {
            Some(_) => *attacks += 1,
            None => *controls += 1,
        }
        assert!(
            names.insert((attack.arch.name(), attack.name)),
            "{file}: two blocks have one name"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let documented = include_str!("../../../docs/internals/verifier.md");
    for (file, (attacks, controls)) in counts {
        let row = |line: &&str| line.starts_with(&format!("| `{file}`: "));
        let row = documented
            .lines()
            .find(row)
            .expect("the list is documented");
        assert!(
            attacks > 0 && controls > 0,
            "{file} has attacks and controls"
        );
        assert!(
            row.ends_with(&format!(" | {attacks} | {controls} |")),
            "{row}"
        );
    }
}

/// The assembler's output for each block must equal the digits of the block. To write a new block,
/// start with `hex: 90`, and copy the digits from the message of this test.
#[test]
#[ignore = "needs the GNU assembler, `as`, and objcopy; for aarch64, llvm-mc and llvm-objcopy"]
fn the_assembler_makes_the_digits() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut wrong = vec![];
    for (file, attack) in attacks() {
        for piece in &attack.pieces {
            let assembled = match attack.arch {
                Arch::X86_64 => assemble(folder.path(), &piece.assembly),
                Arch::Aarch64 => assemble_aarch64(folder.path(), &piece.assembly),
            };
            if assembled != piece.code {
                let mut digits = String::new();
                for byte in assembled {
                    write!(digits, "{byte:02x}").expect("room");
                }
                wrong.push(format!("{file}: {}\nhex: {digits}", attack.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a mark stands for code.
fn is_code(name: &str) -> bool {
    let mut marks = MARKS.iter();
    marks.any(|(of, mark)| *of == name && matches!(mark, Mark::Call(_)))
}

/// Writes the source `code.s`, and runs commands that make `code.o` and then `code.bin`.
fn build(folder: &std::path::Path, text: &str, commands: [&[&str]; 2]) -> Vec<u8> {
    fs::write(folder.join("code.s"), text).expect("room");
    for command in commands {
        let status = Command::new(command[0])
            .args(&command[1..])
            .current_dir(folder)
            .status()
            .expect("the tool is installed");
        assert!(status.success(), "{text}: {status}");
    }
    fs::read(folder.join("code.bin")).expect("the last command wrote the file")
}

/// As [`assemble`], for aarch64.
fn assemble_aarch64(folder: &std::path::Path, statements: &str) -> Vec<u8> {
    let position = |name: &str| {
        let found = MARKS.iter().position(|(of, _)| *of == name);
        short_mark(found.unwrap_or_else(|| panic!("no mark is {name}")))
    };
    let mut text = String::new();
    for statement in statements.split("; ") {
        let (label, statement) = match statement.split_once(": ") {
            Some((label, rest)) => (format!("{label}: "), rest.trim()),
            None => (String::new(), statement.trim()),
        };
        let line = match statement.split_once(' ') {
            Some(("bl", name)) if is_code(name) => {
                format!(".inst {:#x}", 0x9400_0000 | position(name))
            }
            Some(("b", name)) if is_code(name) => {
                format!(".inst {:#x}", 0x1400_0000 | position(name))
            }
            Some(("movn", operands)) if operands.contains(", ") && !operands.contains('#') => {
                let (register, name) = operands.split_once(", ").expect("two operands");
                format!("movn {register}, #{}", position(name))
            }
            _ => statement.to_owned(),
        };
        writeln!(text, "{label}{line}").expect("room");
    }
    let features = "--mattr=+lse,+crc,+aes,+sha2,+dotprod,+i8mm,+fullfp16,+mte,+sve,+pauth";
    build(
        folder,
        &text,
        [
            &[
                "llvm-mc",
                "--triple=aarch64",
                features,
                "--filetype=obj",
                "-o",
                "code.o",
                "code.s",
            ],
            &[
                "llvm-objcopy",
                "-O",
                "binary",
                "-j",
                ".text",
                "code.o",
                "code.bin",
            ],
        ],
    )
}

/// Assembles statements of x86_64, and replaces marks by numbers. Marks of cells become symbols.
/// Calls and jumps to marks become bytes, because the assembler would leave their distances to a
/// linker.
fn assemble(folder: &std::path::Path, statements: &str) -> Vec<u8> {
    let mut text = ".intel_syntax noprefix\n".to_owned();
    for (position, (name, _)) in MARKS.iter().enumerate() {
        writeln!(text, ".set {name}, {:#x}", mark(position)).expect("room");
    }
    for statement in statements.split("; ") {
        let (label, statement) = match statement.split_once(": ") {
            Some((label, rest)) => (format!("{label}: "), rest.trim()),
            None => (String::new(), statement.trim()),
        };
        let line = match statement.split_once(' ') {
            Some(("call", name)) if is_code(name) => format!(".byte 0xe8\n.long {name}"),
            Some(("jmp", name)) if is_code(name) => format!(".byte 0xe9\n.long {name}"),
            _ => statement.to_owned(),
        };
        writeln!(text, "{label}{line}").expect("room");
    }
    build(
        folder,
        &text,
        [
            &["as", "--64", "-o", "code.o", "code.s"],
            &[
                "objcopy", "-O", "binary", "-j", ".text", "code.o", "code.bin",
            ],
        ],
    )
}

/// The compiler's entry trampolines are shorter than the functions of the lists.
#[test]
fn entry_trampolines_only_pass_the_context_on() {
    for (code, is_proven) in [
        // push rbp; mov rbp, rsp; pop rbp; ret
        (&[0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3][..], true),
        // push rbp; mov rbp, rsp; mov rax, [rdi - 24]; pop rbp; ret
        (
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x47, 0xe8, 0x5d, 0xc3],
            false,
        ),
    ] {
        let mut guest = Guest::new(Arch::X86_64, false);
        let ty = guest.checked.metadata.funcs[F as usize];
        let entry = guest.entry(CodeKind::Entry(ty));
        guest.write(entry, code);
        let proof = prove(&guest, entry);
        match proof {
            Err(VerifyError::Refused(refusal)) => {
                assert!(
                    !is_proven && refusal.property == Property::Accesses,
                    "{refusal}"
                );
            }
            proof => assert!(proof.is_ok() && is_proven, "{proof:?}"),
        }
    }
}

fn prove(guest: &Guest, entry: CodeEntry) -> Result<usize, VerifyError> {
    Verifier::new(&guest.file, &guest.checked)?.verify_code(entry)
}

/// The verifier does not prove that a mask against speculation never selects null. An access at
/// null faults in the lowest page, and the guest traps.
#[test]
fn an_access_at_null_of_proven_code_is_a_trap() {
    let here = Arch::from_name(std::env::consts::ARCH).expect("a target of ours");
    let name = "an access at a null that a mask may select, with an entry in the trap table";
    let (_, attack) = attacks()
        .find(|(_, attack)| attack.name == name && attack.arch == here)
        .expect("a list has the attack");
    let mut guest = Guest::new(here, false);
    guest.replace(&attack.pieces[0]);
    common::set_hash(&mut guest.file, guest.checked.header_at);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("module.so");
    fs::write(&path, &guest.file).expect("room");
    let module = Module::open_verified(&path).expect("the code is proven");
    let region = Region::builder().slots(1).build().expect("a region");
    let mut linker = Linker::<()>::new();
    linker
        .func("host", "now", |_: Caller<'_, ()>| 0_i64)
        .expect("a new name");
    let prepared = region.prepare(&module, &linker).expect("the module fits");
    let f = prepared
        .func::<(i64, i64, f64), i64>("f")
        .expect("the function is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    instance
        .call(&f, (1, 0, 0.0))
        .expect("the load reads byte 0 of memory 0");
    drop(instance);
    let mut instance = prepared.instantiate(()).expect("a slot");
    let error = instance.call(&f, (0, 0, 0.0)).expect_err("a read of null");
    let code = TrapCode::MemoryOutOfBounds;
    assert!(
        matches!(&error, CallError::Trap(trap) if trap.code() == code),
        "{error}"
    );
}

/// With a number of no trap, the signal handler would not handle the fault, and the process would
/// end.
#[test]
fn trap_tables_with_other_numbers_than_those_of_traps_are_refused() {
    let last = TrapCode::ALL.len() as u32;
    for (number, is_known) in [
        (0, false),
        (1, true),
        (last, true),
        (last + 1, false),
        (999, false),
    ] {
        let mut guest = Guest::new(Arch::X86_64, false);
        let table = guest.section(Section::Traps);
        let code = table.start + TrapEntry::BYTES - 4;
        guest.file[code..code + 4].copy_from_slice(&u32::to_le_bytes(number));
        common::set_hash(&mut guest.file, guest.checked.header_at);
        let proof = pirn_verify::verify(&guest.file);
        let is_damaged = matches!(proof, Err(VerifyError::Format(FormatError::Damaged(_))));
        assert_eq!(
            (proof.is_ok(), is_damaged),
            (is_known, !is_known),
            "{number}: {proof:?}"
        );
        let proof = Verifier::new(&guest.file, &guest.checked);
        assert_eq!(proof.is_ok(), is_known, "{number}");
    }
}

/// If the metadata says that no code changes tables, the runtime does not reset the tables for the
/// slot's next instance.
#[test]
fn tables_that_do_not_change_are_not_written() {
    let body = [
        "(table.set $t (i32.const 0) (ref.null extern))",
        "(drop (table.grow $t (ref.null extern) (i32.const 1)))",
        "(table.fill $t (i32.const 0) (ref.null extern) (i32.const 1))",
        "(table.copy $t $t (i32.const 0) (i32.const 1) (i32.const 1))",
        "(table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1))",
    ];
    for body in body {
        let mut guest = Guest::from_text(
            Arch::X86_64,
            &format!(
                r#"(module (table $t 4 8 externref) (elem $e externref (ref.null extern))
                (func (export "f") {body}))"#
            ),
        );
        let entry = guest.entry(CodeKind::Func(0));
        prove(&guest, entry).expect("the metadata says that tables change");
        guest.checked.metadata.tables_change = false;
        match prove(&guest, entry) {
            Err(VerifyError::Refused(refusal)) => {
                assert_eq!(refusal.property, Property::Accesses, "{body}: {refusal}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

/// The refusal of code that must not be proven.
fn refused<T: Debug>(result: Result<T, VerifyError>) -> Refusal {
    match result {
        Err(VerifyError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// A call changes the verifier's state, which has a word for each 8 bytes of the frame. The
/// verifier counts these words, and refuses a function that needs too many. A conditional move does
/// not touch these words.
#[test]
fn work_with_a_large_frame_is_counted() {
    // push rbp; mov rbp, rsp; push rbx; push rbx; mov rbx, rdi; mov r11, rsp; sub r11, 0x3f0000;
    // 1: sub rsp, 4096; mov dword ptr [rsp], 0; cmp rsp, r11; jne 1b; mov qword ptr [rsp], 0;
    // xor eax, eax; xor ecx, ecx; cmp rsi, rdx
    let start = "554889e553534889fb4989e34981eb00003f004881ec00100000c70424000000004c39dc75ed48c704\
        240000000031c031c94839d6";
    // xor eax, eax; mov rbx, [rbp - 8]; mov rsp, rbp; pop rbp; ret
    let end = "31c0488b5df84889ec5dc3";
    let load = "(local.set 0 (i64.load (i32.wrap_i64 (local.get 0))))";
    let text = format!(
        r#"(module
            (import "host" "now" (func (result i64)))
            (memory 1)
            (func $plain)
            (func (export "f") (param i64 i64) (result i64) {} (call $plain) (local.get 0)))"#,
        load.repeat(4_000)
    );
    let verify = |instructions: &str, count: usize| {
        let mut guest = Guest::from_text(Arch::X86_64, &text);
        let entry = guest.entry(CodeKind::Func(2));
        let code = format!("{start}{}{end}", instructions.repeat(count));
        guest.write(entry, &list::bytes(&code));
        prove(&guest, entry)
    };
    // cmovb rax, rcx
    verify("480f42c1", 3_000).expect("the code needs little work");
    // mov rdi, rbx; call plain
    let call = "4889dfe8005a5a5a";
    verify(call, 10).expect("the code needs little work");
    let refusal = refused(verify(call, 2_500));
    assert!(refusal.message.contains("more work than"), "{refusal}");
}

/// `cmove` after `bsf` may change each word of the frame.
#[test]
fn work_with_found_bits_in_a_large_frame_is_counted() {
    // push rbp; mov rbp, rsp; mov r11, rsp; sub r11, 0x3f0000; 1: sub rsp, 4096; mov dword ptr
    // [rsp], 0; cmp rsp, r11; jne 1b; mov qword ptr [rsp], 0
    let start =
        "554889e54989e34981eb00003f004881ec00100000c70424000000004c39dc75ed48c7042400000000";
    let load = "(local.set 0 (i64.load (i32.wrap_i64 (local.get 0))))";
    let text = format!(
        r#"(module
            (memory 1)
            (func (export "f") (param i64 i64) (result i64) {} (local.get 0)))"#,
        load.repeat(8_000)
    );
    let mut guest = Guest::from_text(Arch::X86_64, &text);
    let entry = guest.entry(CodeKind::Func(0));
    let mut verify = |count: usize| {
        // mov rax, rdi; bsf rax, rdx; cmove rax, rdx
        let found = "4889f8480fbcc2480f44c2".repeat(count);
        // xor eax, eax; mov rsp, rbp; pop rbp; ret
        let code = format!("{start}{found}31c04889ec5dc3");
        guest.write(entry, &list::bytes(&code));
        prove(&guest, entry)
    };
    verify(10).expect("the code needs little work");
    let refusal = refused(verify(3_000));
    assert!(refusal.message.contains("more work than"), "{refusal}");
}

/// A state has all fields of new objects that must not be null. So the verifier counts these fields
/// among the words of blocks.
#[test]
fn fields_of_new_objects_are_counted() {
    let load = "(local.set 1 (i32.load offset=1000 (local.get 1)))";
    let text = format!(
        r#"(module
            (type $s (struct (field i32)))
            (type $w (struct {}))
            (memory 1)
            (func (export "f") (param (ref null $w) i32) (result i64)
                (drop (struct.new_default $s)) {} (i64.const 0))
            (func (export "g") (param anyref) (result i32)
                (ref.test (ref $w) (local.get 0))))"#,
        "(field (ref $s))".repeat(9_000),
        load.repeat(4_000)
    );
    let mut guest = Guest::from_text(Arch::X86_64, &text);
    let entry = guest.entry(CodeKind::Func(0));
    let mut verify = |count: usize| {
        // push rbp; mov rbp, rsp; mov rax, [rdi - 88]; lea r10, [rax + 72008]; cmp r10, [rdi - 80];
        // jbe 1f; xor eax, eax; pop rbp; ret; 1: mov [rdi - 88], r10; mov ecx, [rdi + id_base]; mov
        // [rax], ecx; mov rax, [rdi - 88]; lea r10, [rax + 16]
        let start = "554889e5488b47a84c8d90481901004c3b57b0760431c05dc34c8957a88b8f1c5a5a5a8908488b\
            47a84c8d5010";
        // cmp r10, [rdi - 80]; jbe 1f; 1:
        let compared = "4c3b57b07600".repeat(count);
        guest.write(entry, &list::bytes(&format!("{start}{compared}31c05dc3")));
        prove(&guest, entry)
    };
    verify(10).expect("the code needs little work");
    let refusal = refused(verify(4_000));
    assert!(refusal.message.contains("of more than"), "{refusal}");
}

/// Each join compares all new objects of two states, so the verifier knows only the newest objects.
#[test]
fn few_new_objects_are_known_before_they_are_written() {
    let text = r#"(module
        (type $s (struct (field i32)))
        (memory 1)
        (func (export "f") (param i32) (result i64)
            (drop (struct.new_default $s)) LOADS (i64.const 0)))"#;
    let load = "(local.set 0 (i32.load offset=1000 (local.get 0)))";
    let mut guest = Guest::from_text(Arch::X86_64, &text.replace("LOADS", &load.repeat(400)));
    let entry = guest.entry(CodeKind::Func(0));
    let mut verify = |newer: usize| {
        // mov rax, [rdi - 88]; lea r10, [rax + 16]; cmp r10, [rdi - 80]; jbe 1f; xor eax, eax; pop
        // rbp; ret; 1: mov [rdi - 88], r10
        let new = "488b47a84c8d50104c3b57b0760431c05dc34c8957a8";
        // push rbp; mov rbp, rsp; the first object; mov r9, rax; newer objects; mov ecx, [rdi +
        // id_s]; mov [r9], ecx; xor eax, eax; pop rbp; ret
        let newer = new.repeat(newer);
        let code = format!("554889e5{new}4989c1{newer}8b8f1b5a5a5a41890931c05dc3");
        guest.write(entry, &list::bytes(&code));
        prove(&guest, entry)
    };
    verify(47).expect("the object is known");
    let refusal = refused(verify(48));
    assert_eq!(refusal.property, Property::Accesses, "{refusal}");
}

/// At each test of a tag, the walk splits the path. The tests only set registers, so only the
/// instructions after the tests can need the work.
#[test]
fn work_with_long_blocks_on_many_paths_is_counted() {
    let load = "(local.set 1 (i32.load offset=1000 (local.get 1)))";
    let text = format!(
        r#"(module
            (type $s (struct (field i32)))
            (memory 1)
            (func (export "f") (param anyref i32) (result i64)
                (drop (struct.new_default $s)) {} (i64.const 0)))"#,
        load.repeat(9_000)
    );
    let mut guest = Guest::from_text(Arch::X86_64, &text);
    let entry = guest.entry(CodeKind::Func(0));
    let mut verify = |tests: usize| {
        // test sil, 2; sete al
        let tests = "40f6c6020f94c0".repeat(tests);
        let nops = "90".repeat(60_000);
        // push rbp; mov rbp, rsp; the tests; xor eax, eax; pop rbp; ret
        let code = format!("554889e5{tests}{nops}31c05dc3");
        guest.write(entry, &list::bytes(&code));
        prove(&guest, entry)
    };
    verify(4).expect("the code needs little work");
    let refusal = refused(verify(64));
    assert!(refusal.message.contains("more work than"), "{refusal}");
}
