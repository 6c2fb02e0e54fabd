//! `-g`: independent DWARF readers must find the guest's lines and functions in the output.
//! Damaged, unsupported or expensive debug information must do no harm.

use crate::common;

use addr2line::Context;
use common::campaign::{sampled, share};
use common::{except_source, guest, guests, leb};
use gimli::write::{self, Address, AttributeValue, EndianVec, LineProgram, LineString};
use gimli::{Encoding, Format, LineEncoding, LittleEndian};
use object::read::elf::{ElfFile64, SectionHeader as _};
use object::{LittleEndian as LE, Object as _, ObjectSection as _, ObjectSymbol as _, elf};
use pirn_compiler::{Compilation, Emit, Options, compile, parse_text};
use pirn_format::cpu::Arch;
use pirn_format::read::{Checked, slice};
use pirn_format::sections::Section;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The file with debug information, and the notes of the compilation.
fn with_lines(wasm: &[u8], arch: Arch, what: Emit) -> (Vec<u8>, Vec<String>) {
    with_lines_of(wasm, Options::new(arch), what)
}

/// As [`with_lines`], with these options.
fn with_lines_of(wasm: &[u8], mut options: Options, what: Emit) -> (Vec<u8>, Vec<String>) {
    options.debug_info = true;
    let emitted = Compilation::new(&options).emit(what).run(wasm);
    let emitted = emitted.expect("the guest is valid");
    (emitted.bytes, emitted.notes)
}

/// A file as a debug-information reader sees it.
struct Found<'a> {
    file: ElfFile64<'a, LE>,
    context: Context<gimli::EndianSlice<'a, LittleEndian>>,
}

impl<'a> Found<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let file = ElfFile64::<LE>::parse(bytes).expect("an independent reader accepts the file");
        let section = |id: gimli::SectionId| -> Result<_, gimli::Error> {
            let data = file.section_by_name(id.name()).map(|s| s.data());
            let data = data.map_or(&[][..], |data| data.expect("its bytes"));
            Ok(gimli::EndianSlice::new(data, LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).expect("sections");
        let context = Context::from_dwarf(dwarf).expect("debug information");
        Self { file, context }
    }

    /// File and line of an address.
    fn line(&self, address: u64) -> Option<(String, u32)> {
        let location = self.context.find_location(address).expect("sound tables")?;
        Some((location.file?.to_owned(), location.line.unwrap_or(0)))
    }

    /// Start and end of a function.
    fn function(&self, name: &str) -> std::ops::Range<u64> {
        let mut symbols = self.file.symbols();
        let symbol = symbols.find(|symbol| symbol.name() == Ok(name));
        let symbol = symbol.unwrap_or_else(|| panic!("{name} is a symbol"));
        symbol.address()..symbol.address() + symbol.size()
    }

    /// All lines of a function.
    fn lines(&self, name: &str) -> BTreeSet<(String, u32)> {
        let all = self.function(name).filter_map(|address| self.line(address));
        all.filter(|(_, line)| *line != 0).collect()
    }
}

/// The line that contains a text in a guest's source, and the source's path in the debug
/// information.
fn at(source: &str, text: &str) -> (String, u32) {
    let all =
        std::fs::read_to_string(guests().join("c").join(source)).expect("the source is there");
    let before = all.lines().position(|line| line.contains(text));
    let before = before.unwrap_or_else(|| panic!("{text} is in {source}"));
    (format!("./{source}"), before as u32 + 1)
}

#[test]
fn code_maps_to_the_lines_of_the_guests_source() {
    let wasm = guest("lines.wasm");
    for arch in Arch::ALL {
        for what in [Emit::So, Emit::Obj] {
            let mut options = Options::new(arch);
            options.inline = what == Emit::So;
            let (file, notes) = with_lines_of(&wasm, options.clone(), what);
            assert_eq!(notes, Vec::<String>::new());
            let found = Found::new(&file);
            // `square` is inlined into `work`, and keeps its lines there.
            let inlined = [at("lines.c", "squares++;"), at("lines.c", "return x * x;")];
            for (function, lines) in [
                (
                    "square",
                    &[
                        at("lines.c", "int32_t square(int32_t x) {"),
                        at("lines.c", "squares++;"),
                        at("lines.c", "return x * x;"),
                    ][..],
                ),
                (
                    "work",
                    &[
                        at("lines.c", "int32_t work(int32_t rounds) {"),
                        at("lines.c", "i < rounds"),
                        at("lines.c", "total ^= square(i)"),
                        at("lines.c", "return total / (squares"),
                        at("lines.h", "if (x > 1000)"),
                        at("lines.h", "clamped += x / 1000"),
                    ],
                ),
            ] {
                let lines: BTreeSet<_> = lines.iter().cloned().collect();
                let declared = declared(&lines);
                let mut of_function = found.lines(function);
                if function == "work" && options.inline {
                    assert!(of_function.remove(&inlined[0]), "{of_function:?}");
                    // On aarch64 the product has no row of its own.
                    of_function.remove(&inlined[1]);
                }
                assert_eq!(of_function, lines, "{function} for {arch}");
                let start = found.function(function).start;
                assert_eq!(found.line(start).expect("a line").1, declared);
            }
            // Code that is not from the guest has no line.
            assert_eq!(found.lines("entry of type 0"), BTreeSet::new());
        }
    }
}

/// A function is declared at the first line of its own file.
fn declared(lines: &BTreeSet<(String, u32)>) -> u32 {
    let own = lines.iter().filter(|(file, _)| file == "./lines.c");
    own.map(|(_, line)| *line).min().expect("a line")
}

#[test]
fn functions_and_units_are_described() {
    let (file, _) = with_lines(&guest("lines.wasm"), Arch::X86_64, Emit::So);
    let found = Found::new(&file);
    let section = |id: gimli::SectionId| -> Result<_, gimli::Error> {
        let data = found.file.section_by_name(id.name()).map(|s| s.data());
        let data = data.map_or(&[][..], |data| data.expect("its bytes"));
        Ok(gimli::EndianSlice::new(data, LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(section).expect("sections");
    let (mut units, mut described) = (vec![], vec![]);
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().expect("units") {
        let unit = dwarf.unit(header).expect("a unit");
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs().expect("entries") {
            let text = |name| {
                let value = entry.attr_value(name)?;
                let text = dwarf.attr_string(&unit, value).expect("a string");
                Some(text.to_string_lossy().into_owned())
            };
            let name = text(gimli::DW_AT_name).expect("a name");
            if entry.tag() == gimli::DW_TAG_compile_unit {
                let language = entry.attr_value(gimli::DW_AT_language);
                let c = gimli::AttributeValue::Language(gimli::DW_LANG_C11);
                let c99 = gimli::AttributeValue::Language(gimli::DW_LANG_C99);
                assert!(language == Some(c) || language == Some(c99));
                let producer = text(gimli::DW_AT_producer).expect("a producer");
                assert!(producer.contains("clang version 14"), "{producer}");
                units.push((name, text(gimli::DW_AT_comp_dir).expect("a folder")));
            } else {
                assert_eq!(entry.tag(), gimli::DW_TAG_subprogram);
                let line = entry.attr(gimli::DW_AT_decl_line).expect("a line");
                let line = line.udata_value().expect("a number") as u32;
                let Some(gimli::AttributeValue::Addr(low)) = entry.attr_value(gimli::DW_AT_low_pc)
                else {
                    panic!("{name} has no address");
                };
                let high = entry.attr(gimli::DW_AT_high_pc).expect("a length");
                let end = low + high.udata_value().expect("a number");
                assert_eq!(low..end, found.function(&name), "{name}");
                described.push((name, line));
            }
        }
    }
    assert_eq!(
        units,
        [
            (
                "./libc-bottom-half/crt/crt1-reactor.c".to_owned(),
                "./build".to_owned()
            ),
            ("lines.c".to_owned(), ".".to_owned()),
        ]
    );
    described.retain(|(name, _)| name != "_initialize");
    let line = |text| at("lines.c", text).1;
    assert_eq!(
        described,
        [
            ("sum".to_owned(), line("int32_t sum(")),
            ("work".to_owned(), line("int32_t work(")),
            ("square".to_owned(), line("int32_t square(")),
        ],
        "the function that the linker dropped has no entry"
    );
}

/// Debug information must not change the code that runs.
#[test]
fn debug_information_does_not_change_the_code() {
    for name in ["lines.wasm", "tour-rust.wasm"] {
        let wasm = guest(name);
        for arch in Arch::ALL {
            let plain = compile(&wasm, &Options::new(arch)).expect("the guest is valid");
            let (lined, _) = with_lines(&wasm, arch, Emit::So);
            same_but_for_lines(&plain, &lined);
        }
    }
}

/// Checks that both files are valid, and have equal content apart from the debug information and
/// the option that asks for it.
fn same_but_for_lines(plain: &[u8], lined: &[u8]) {
    assert!(except_source(plain) == except_source(lined));
    let file = ElfFile64::<LE>::parse(lined).expect("an independent reader accepts the file");
    let mapped = file
        .segments()
        .map(|s| object::ObjectSegment::file_range(&s));
    let mapped = mapped.map(|(start, bytes)| start + bytes).max();
    for section in file.sections() {
        if section.name().is_ok_and(|name| name.starts_with(".debug_")) {
            let header = section.elf_section_header();
            assert_eq!(header.sh_flags(LE) & u64::from(elf::SHF_ALLOC), 0);
            let (start, _) = section.file_range().expect("bytes");
            assert!(
                Some(start) >= mapped,
                "debug information follows the mapped segments"
            );
        }
    }
}

#[test]
fn a_changed_byte_of_debug_information_is_detected() {
    let (mut file, _) = with_lines(&guest("lines.wasm"), Arch::X86_64, Emit::So);
    let range = {
        let found = Found::new(&file);
        let section = found.file.section_by_name(".debug_line");
        section.and_then(|s| s.file_range()).expect("bytes")
    };
    file[(range.0 + range.1 / 2) as usize] ^= 1;
    let error = Checked::new(&file).expect_err("it is damaged").to_string();
    assert!(error.contains("hash"), "{error}");
}

#[test]
fn a_module_without_debug_information_is_reported() {
    let elsewhere = with_sections(&[("external_debug_info", b"\x06x.wasm")]);
    let lost = unit(4, &[(0, 0, 10), (0, 8, 20)]);
    let lost: Vec<_> = lost.iter().map(|(name, b)| (*name, &b[..])).collect();
    for (wasm, part) in [
        (with_sections(&lost), "link without -O, or run wasm-opt -g"),
        (guest("hello.wasm"), "build the guest with -g"),
        (elsewhere, "is in another file"),
    ] {
        let plain = compile(&wasm, &Options::default()).expect("the guest is valid");
        let (lined, notes) = with_lines(&wasm, Options::default().cpu.arch(), Emit::So);
        assert!(except_source(&plain) == except_source(&lined));
        assert!(notes.len() == 1 && notes[0].contains(part), "{notes:?}");
    }
}

/// Ranges of the custom sections with debug information in a module.
fn debug_sections(wasm: &[u8]) -> Vec<std::ops::Range<usize>> {
    let payloads = wasmparser::Parser::new(0).parse_all(wasm);
    let payloads = payloads.map(|payload| payload.expect("the guest is valid"));
    payloads
        .filter_map(|payload| match payload {
            wasmparser::Payload::CustomSection(section)
                if section.name().starts_with(".debug_") =>
            {
                let start = section.data_offset() as usize;
                Some(start..start + section.data().len())
            }
            _ => None,
        })
        .collect()
}

#[test]
fn damaged_debug_information_is_omitted_and_reported() {
    let wasm = guest("lines.wasm");
    let arch = Arch::X86_64;
    let plain = compile(&wasm, &Options::new(arch)).expect("the guest is valid");
    let checked = Checked::new(&plain).expect("it is sound");
    let text = slice(&plain, checked.header.section(Section::Text)).expect("its text");
    let sections = debug_sections(&wasm);
    assert!(sections.len() >= 4, "{sections:?}");
    let (mut said, mut silent) = (0, 0);
    let values = |at: usize| [0, 0xff, wasm[at] ^ 1].map(|value| (at, value));
    let damages = sections.into_iter().flatten().flat_map(values);
    // Each byte has three values, so the next damage is ten bytes on, with the next value.
    const SAMPLE: usize = 10 * 3 + 1;
    for (at, value) in sampled(damages, SAMPLE, 0) {
        let mut damaged = wasm.clone();
        damaged[at] = value;
        let (lined, notes) = with_lines(&damaged, arch, Emit::So);
        let checked = Checked::new(&lined).expect("it is sound");
        let same = slice(&lined, checked.header.section(Section::Text)) == Some(text);
        assert!(same, "byte {at:#x}");
        assert!(notes.len() <= 1, "{notes:?}");
        match notes.first() {
            Some(note) => {
                assert!(!note.contains('\n') && note.contains("left out"), "{note}");
                said += 1;
            }
            None => silent += 1,
        }
        // Any debug information that is kept must be sound.
        let found = Found::new(&lined);
        for name in ["sum", "work", "square"] {
            for address in found.function(name).step_by(16) {
                let _ = found.line(address);
            }
        }
    }
    let least = share(100, SAMPLE);
    assert!(
        said > least && silent > least,
        "{said} reported, {silent} silent"
    );
}

/// A module of three functions, followed by these custom sections.
fn with_sections(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let text = "(module
        (func $one (export \"one\") (param i32) (result i32) (i32.load (local.get 0)))
        (func $two (export \"two\") (param i32) (result i32) (i32.load8_u (local.get 0)))
        (func $three (export \"three\") (param i32) (result i32) (i32.load16_u (local.get 0)))
        (memory 1))";
    let text = parse_text(text.as_bytes()).expect("the text is well-formed");
    let mut wasm: Cow<'_, [u8]> = text;
    for (name, bytes) in sections {
        let wasm = wasm.to_mut();
        let mut contents = leb(name.len());
        contents.extend_from_slice(name.as_bytes());
        contents.extend_from_slice(bytes);
        wasm.push(0);
        wasm.extend(leb(contents.len()));
        wasm.extend(contents);
    }
    wasm.into_owned()
}

/// Ranges of the function bodies in the module's code section.
fn bodies(wasm: &[u8]) -> Vec<std::ops::Range<u64>> {
    let mut code = 0;
    let mut found = vec![];
    for payload in wasmparser::Parser::new(0).parse_all(wasm) {
        match payload.expect("the module is valid") {
            wasmparser::Payload::CodeSectionStart {
                unchecked_range, ..
            } => code = unchecked_range.start,
            wasmparser::Payload::CodeSectionEntry(body) => {
                found.push(body.range().start - code..body.range().end - code);
            }
            _ => {}
        }
    }
    found
}

/// A unit with line sequences of (start, end, line), in this order.
fn unit(version: u16, sequences: &[(u64, u64, u64)]) -> Vec<(&'static str, Vec<u8>)> {
    let encoding = Encoding {
        format: Format::Dwarf32,
        version,
        address_size: 4,
    };
    let text = |text: &str| LineString::String(text.into());
    let (folder, name) = (text("/src"), text("a.c"));
    let mut program = LineProgram::new(
        encoding,
        LineEncoding::default(),
        folder,
        None,
        name.clone(),
        None,
    );
    let file = program.add_file(name, program.default_directory(), None);
    for (start, end, line) in sequences {
        program.begin_sequence(Some(Address::Constant(*start)));
        program.row().file = file;
        program.row().line = *line;
        program.generate_row();
        program.end_sequence(end.wrapping_sub(*start) & 0xffff);
    }
    let mut dwarf = write::Dwarf::new();
    let id = dwarf.units.add(write::Unit::new(encoding, program));
    let name = AttributeValue::StringRef(dwarf.strings.add("a.c"));
    let folder = AttributeValue::StringRef(dwarf.strings.add("/src"));
    let unit = dwarf.units.get_mut(id);
    let root = unit.root();
    unit.get_mut(root).set(gimli::DW_AT_name, name);
    unit.get_mut(root).set(gimli::DW_AT_comp_dir, folder);
    for (start, end, line) in sequences {
        let entry = unit.add(root, gimli::DW_TAG_subprogram);
        let entry = unit.get_mut(entry);
        let name = AttributeValue::String(format!("f{line}").into());
        entry.set(gimli::DW_AT_name, name);
        let low = AttributeValue::Address(Address::Constant(*start));
        entry.set(gimli::DW_AT_low_pc, low);
        let high = AttributeValue::Udata(end.wrapping_sub(*start) & 0xffff);
        entry.set(gimli::DW_AT_high_pc, high);
    }
    let mut sections = write::Sections::new(EndianVec::new(LittleEndian));
    dwarf.write(&mut sections).expect("it can be written");
    let mut all = vec![];
    let note = |id: gimli::SectionId, bytes: &EndianVec<LittleEndian>| {
        all.push((id.name(), bytes.slice().to_vec()));
        Ok::<(), gimli::Error>(())
    };
    sections.for_each(note).expect("they are there");
    all
}

#[test]
fn dropped_functions_and_unsorted_sequences_do_no_harm() {
    let bodies = bodies(&with_sections(&[]));
    let [one, two, three] = &bodies[..] else {
        panic!("three functions")
    };
    for version in [2, 3, 4, 5] {
        // A linker puts removed functions at address 0, at the largest address, or past the code.
        // The other functions are in reverse order.
        let sections = unit(
            version,
            &[
                (0, three.end, 66),
                (u64::from(u32::MAX), u64::from(u32::MAX) + 8, 67),
                (three.start, three.end, 30),
                (two.start, two.end, 20),
                (1, two.end, 68),
                (one.start, one.end, 10),
                (three.end + 100, three.end + 200, 69),
                (two.start, two.start, 70),
            ],
        );
        let sections: Vec<_> = sections.iter().map(|(name, b)| (*name, &b[..])).collect();
        let wasm = with_sections(&sections);
        let (lined, notes) = with_lines(&wasm, Arch::X86_64, Emit::So);
        assert_eq!(notes, Vec::<String>::new(), "version {version}");
        let found = Found::new(&lined);
        for (name, line) in [("one", 10), ("two", 20), ("three", 30)] {
            let only = BTreeSet::from([("/src/a.c".to_owned(), line)]);
            assert_eq!(found.lines(name), only, "version {version}");
        }
    }
}

#[test]
fn work_and_memory_are_bounded_by_the_size() {
    // A unit with a line program, with 300,000 entries of one byte and 30,000 attributes without
    // bytes.
    let lines = unit(4, &[(2, 3, 1)]);
    let lines = lines.iter().find(|(name, _)| *name == ".debug_line");
    let (_, line) = lines.expect("a line program");
    let mut abbrev = vec![1, 0x11, 1, 0x10, 0x17, 0, 0, 2, 0x2e, 0];
    abbrev.extend([0x3f, 0x19].repeat(30_000));
    abbrev.extend([0, 0, 0]);
    let mut info = (12u32 + 300_000).to_le_bytes().to_vec();
    info.extend([4, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]);
    info.extend([2].repeat(300_000));
    let entries = with_sections(&[
        (".debug_info", &info),
        (".debug_abbrev", &abbrev),
        (".debug_line", line),
    ]);
    // 20,000 units. The abbreviations of each start at another byte and continue to the end.
    let code = |at: u32| [at as u8 | 0x80, (at >> 7) as u8 | 0x80, (at >> 14) as u8];
    let (mut info, mut abbrev) = (vec![], vec![]);
    for at in 0..20_000u32 {
        info.extend(10u32.to_le_bytes());
        info.extend([4, 0]);
        info.extend((at * 7).to_le_bytes());
        info.push(4);
        info.extend(code(at + 1));
        abbrev.extend(code(at + 1));
        abbrev.extend([0x11, 0, 0, 0]);
    }
    let tables = with_sections(&[
        (".debug_info", &info),
        (".debug_abbrev", &abbrev),
        (".debug_line", b"0"),
    ]);
    // Without a limit on the work, the compiler takes minutes for each of these modules.
    for wasm in [entries, tables] {
        let (_, notes) = with_lines(&wasm, Arch::X86_64, Emit::So);
        let said = "its parts are read more often than its size allows";
        assert!(notes.len() == 1 && notes[0].contains(said), "{notes:?}");
    }
}
