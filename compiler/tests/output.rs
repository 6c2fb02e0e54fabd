//! The compiler's output: equal bytes for equal input, in the shape that the format specifies.

use crate::common;

use common::campaign::{every, sampled};
use common::{emit, guest, leb};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{LittleEndian as LE, Object as _, ObjectSection as _, ObjectSymbol as _, elf};
use pirn_compiler::{Compilation, Emit, OptLevel, Options, compile, parse_text};
use pirn_format::cpu::{Arch, CpuFeatures};
use pirn_format::image::ImageRun;
use pirn_format::metadata::{SegmentMode, Snapshot};
use pirn_format::read::{Checked, slice};
use pirn_format::rewrite;
use pirn_format::sections::Section;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const GUESTS: [&str; 6] = [
    "null.wat",
    "add.wat",
    "traps.wat",
    "fib.wasm",
    "hello.wasm",
    "tour-rust.wasm",
];

/// All guests in a campaign. By default without the last, which has most of the code.
fn sampled_guests() -> impl Iterator<Item = &'static str> {
    let left_out = usize::from(every(2) > 1);
    GUESTS.into_iter().take(GUESTS.len() - left_out)
}

/// A guest that is compiled with the default options of an architecture, once for all tests.
fn compiled(name: &str, arch: Arch) -> &'static [u8] {
    static ALL: [OnceLock<Vec<u8>>; GUESTS.len() * Arch::ALL.len()] =
        [const { OnceLock::new() }; GUESTS.len() * Arch::ALL.len()];
    let at = GUESTS.iter().position(|guest| *guest == name);
    let at = at.expect("it is one of the guests") * Arch::ALL.len() + arch as usize;
    ALL[at].get_or_init(|| {
        let so = compile(&guest(name), &Options::new(arch));
        so.expect("the guest is valid")
    })
}

fn threads(count: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new()
        .num_threads(count)
        .build()
        .expect("threads")
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for (at, name) in GUESTS.into_iter().enumerate() {
        let wasm = guest(name);
        for arch in sampled(Arch::ALL, 2, at) {
            let options = Options::new(arch);
            let first = compiled(name, arch);
            for count in sampled([1, 2, 7], 3, at) {
                let again = threads(count).install(|| compile(&wasm, &options));
                assert!(
                    again.expect("the guest is valid") == first,
                    "{name} for {arch}, {count} threads"
                );
            }
        }
    }
}

#[test]
fn a_processor_without_the_features_for_v128_is_refused() {
    for name in ["ssse3", "sse4.1"] {
        let mut options = Options::new(Arch::X86_64);
        options.cpu = options.cpu.without(name).expect("it exists");
        let error = compile(&guest("null.wat"), &options).expect_err(name);
        assert_eq!(
            error.to_string(),
            format!(
                "cpu baseline,-{name} lacks {name}, which code for v128 and for rounding needs; do \
                 not remove it"
            )
        );
    }
    // The required features suffice for shuffles, and for rounding of scalars and vectors.
    let text = r#"(module (func (param v128 f32) (result v128 f32)
      (f32x4.ceil (i8x16.swizzle (local.get 0) (i8x16.shuffle 3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3 (local.get 0) (local.get 0))))
      (f32.nearest (local.get 1))))"#;
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let mut options = Options::new(Arch::X86_64);
    options.cpu = CpuFeatures::none(Arch::X86_64);
    for name in ["ssse3", "sse4.1"] {
        options.cpu = options.cpu.with(name).expect("it exists");
    }
    compile(&wasm, &options).expect("these features suffice");
}

#[test]
fn the_reported_error_is_in_the_first_invalid_function() {
    let mut text = String::from("(module ");
    for i in 0..200 {
        // Each function from number 100 is invalid, at a different offset.
        text.push_str(if i < 100 {
            "(func nop)"
        } else {
            "(func i32.add)"
        });
    }
    text.push(')');
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let refuse = |count| {
        let result = threads(count).install(|| compile(&wasm, &Options::default()));
        result.expect_err("it is invalid").to_string()
    };
    let first = refuse(1);
    for _ in 0..20 {
        assert_eq!(refuse(4), first);
    }
}

#[test]
fn the_file_has_the_shape_that_the_format_specifies() {
    for name in GUESTS {
        for arch in Arch::ALL {
            let so = compiled(name, arch);
            let checked = Checked::new(so).expect("it passes its own check");
            assert_eq!(checked.header.cpu, Options::new(arch).cpu);
            shape(so, &checked, arch);
        }
    }
}

/// Checks the file's shape with an independent ELF reader.
fn shape(so: &[u8], checked: &Checked, arch: Arch) {
    let file = ElfFile64::<LE>::parse(so).expect("an independent reader accepts the file");
    let page = if arch == Arch::X86_64 {
        0x1000
    } else {
        0x10000
    };
    let segments = file
        .elf_header()
        .program_headers(LE, so)
        .expect("program headers");
    let loads: Vec<_> = segments
        .iter()
        .filter(|s| s.p_type(LE) == elf::PT_LOAD)
        .collect();
    assert!(!loads.is_empty());
    for pair in loads.windows(2) {
        // No page contains bytes of two segments.
        let end = (pair[0].p_vaddr(LE) + pair[0].p_memsz(LE)).next_multiple_of(page);
        assert!(end <= pair[1].p_vaddr(LE), "segments share a page");
    }
    for load in loads {
        let flags = load.p_flags(LE);
        assert!(
            flags & elf::PF_W == 0 || flags & elf::PF_X == 0,
            "writable and executable"
        );
        assert_eq!(load.p_vaddr(LE) % page, 0);
        assert_eq!(load.p_align(LE), page);
    }
    let dynamic: Vec<_> = file
        .dynamic_symbols()
        .filter_map(|s| s.name().ok())
        .collect();
    assert_eq!(dynamic, ["pirn_module"]);
    assert!(
        file.dynamic_relocations()
            .is_none_or(|mut all| all.next().is_none())
    );
    assert!(
        file.symbols()
            .all(|symbol| !symbol.is_undefined() || symbol.name() == Ok(""))
    );
    for section in Section::ALL {
        let range = checked.header.section(section);
        let found = file
            .section_by_name(section.name())
            .expect("it has a header");
        assert_eq!(
            (found.address(), found.size()),
            (range.vaddr, range.len),
            "{}",
            section.name()
        );
    }
    // The dynamic loader writes addresses to `.dynamic`, and then makes the segment read-only.
    for section in file
        .sections()
        .filter(|section| section.name() != Ok(".dynamic"))
    {
        let flags = section.elf_section_header().sh_flags(LE);
        assert_eq!(flags & u64::from(elf::SHF_WRITE), 0, "{:?}", section.name());
    }
}

/// The file of a snapshot has the same shape, and every section but three is as it was.
#[test]
fn the_file_of_a_snapshot_has_the_shape_that_the_format_specifies() {
    let replaced = [Section::Image, Section::ImageRuns, Section::Metadata].map(Section::name);
    for name in GUESTS {
        for (arch, debug_info) in Arch::ALL.into_iter().zip([true, false]) {
            let mut options = Options::new(arch);
            options.debug_info = debug_info;
            let so = compile(&guest(name), &options).expect("the guest is valid");
            let checked = Checked::new(&so).expect("it passes its own check");
            let mut metadata = checked.metadata.clone();
            metadata.start = None;
            let data = metadata.data.iter_mut().map(|segment| &mut segment.mode);
            let elements = metadata
                .elements
                .iter_mut()
                .map(|segment| &mut segment.mode);
            for mode in data.chain(elements) {
                if matches!(mode, SegmentMode::Active { .. }) {
                    *mode = SegmentMode::Done;
                }
            }
            let memories = metadata.own_memories().len();
            let tables = metadata.tables.len() - metadata.imported_tables() as usize;
            metadata.snapshot = Some(Snapshot {
                of: checked.header.hash,
                made_by: vec!["_initialize".to_owned()],
                tables: vec![vec![]; tables],
                further: vec![vec![]; memories.saturating_sub(1)],
            });
            // One page at the start of the memory, if there is any.
            let page = [0xa5; 4096];
            let (runs, pages) = match memories {
                0 => (&[][..], &[][..]),
                _ => (&[ImageRun { first: 0, pages: 1 }][..], &[&page[..]][..]),
            };
            let made = rewrite::snapshot(&so, &metadata, runs, pages).expect("it can be made");
            let sound = Checked::new(&made).expect("it is sound");
            assert_eq!((&sound.metadata, &sound.runs[..]), (&metadata, runs));
            shape(&made, &sound, arch);
            let before = ElfFile64::<LE>::parse(&so[..]).expect("it is one");
            let after = ElfFile64::<LE>::parse(&made[..]).expect("it is one");
            let mut count = 0;
            for (before, after) in before.sections().zip(after.sections()) {
                assert_eq!(before.name(), after.name());
                let name = before.name().expect("it has a name");
                if name == ".note.pirn" || replaced.contains(&name) {
                    continue;
                }
                assert_eq!(before.data(), after.data(), "{name}");
                assert_eq!(before.address(), after.address(), "{name}");
                count += 1;
            }
            assert!(count > 10 && before.sections().count() == after.sections().count());
            // A snapshot of the snapshot has the same bytes.
            let again = rewrite::snapshot(&made, &metadata, runs, pages);
            assert!(again.expect("it can be made") == made);
        }
    }
}

/// Alignment makes the position of a loop in a cache line independent of other functions.
#[test]
fn functions_larger_than_a_cache_line_are_aligned_to_one() {
    for (arch, name) in Arch::ALL
        .into_iter()
        .flat_map(|arch| GUESTS.map(|name| (arch, name)))
    {
        let so = compiled(name, arch);
        let file = ElfFile64::<LE>::parse(so).expect("an independent reader accepts the file");
        let code: Vec<_> = file.symbols().filter(|symbol| symbol.size() > 64).collect();
        assert!(
            !code.is_empty() || name == "null.wat" || name == "add.wat",
            "{name}"
        );
        for symbol in code {
            assert_eq!(
                symbol.address() % 64,
                0,
                "{name} for {arch}: {:?}",
                symbol.name()
            );
        }
    }
}

#[test]
fn symbols_are_the_guests_function_names() {
    let so = compile(&guest("traps.wat"), &Options::default()).expect("the guest is valid");
    let file = ElfFile64::<LE>::parse(&so[..]).expect("an independent reader accepts the file");
    let names: Vec<_> = file
        .symbols()
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    for name in [
        "inner",
        "middle",
        "outer",
        "trap unreachable",
        "entry of type 0",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let strange = "(module (func (export \"a\\00b\\n\\u{1f980}\")))";
    let wasm = parse_text(strange.as_bytes()).expect("the text is well-formed");
    let so = compile(&wasm, &Options::default()).expect("it is valid");
    let file = ElfFile64::<LE>::parse(&so[..]).expect("an independent reader accepts the file");
    assert!(
        file.symbols()
            .any(|symbol| symbol.name() == Ok("a\\u{0}b\\n\u{1f980}"))
    );
}

#[test]
fn symbols_contain_no_control_characters() {
    // The name section of a module with five functions: two of one name, an empty name, one with
    // control characters that a terminal would obey, and one as long as the validator permits.
    let long = "n".repeat(100_000);
    let names = ["twice", "twice", "", "a\0b\n\u{1b}[31mc\u{7f}", &long];
    let mut map = vec![names.len() as u8];
    for (index, name) in (0..).zip(names) {
        map.push(index);
        map.extend(leb(name.len()));
        map.extend(name.as_bytes());
    }
    let mut section = b"\x04name\x01".to_vec();
    section.extend(leb(map.len()));
    section.extend(map);
    let wasm = parse_text(b"(module (func) (func) (func) (func) (func))");
    let mut wasm = wasm.expect("the text is well-formed").into_owned();
    wasm.push(0);
    wasm.extend(leb(section.len()));
    wasm.extend(section);
    let so = compile(&wasm, &Options::default()).expect("it is valid");
    let file = ElfFile64::<LE>::parse(&so[..]).expect("an independent reader accepts the file");
    let symbols: Vec<_> = file.symbols().filter_map(|s| s.name().ok()).collect();
    assert_eq!(
        symbols,
        ["twice", "twice", "", r"a\u{0}b\n\u{1b}[31mc\u{7f}", &long],
        "in the order of their functions"
    );
}

#[test]
fn unwind_tables_cover_every_piece_of_code() {
    use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, UnwindSection};
    for arch in Arch::ALL {
        let so = compile(&guest("hello.wasm"), &Options::new(arch)).expect("the guest is valid");
        let file = ElfFile64::<LE>::parse(&so[..]).expect("an independent reader accepts the file");
        let section = |name| file.section_by_name(name).expect("it is there");
        let (hdr, frames) = (section(".eh_frame_hdr"), section(".eh_frame"));
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(hdr.address())
            .set_eh_frame(frames.address())
            .set_text(section(".text").address());
        let address_size = 8;
        let hdr = EhFrameHdr::new(hdr.data().expect("its bytes"), LittleEndian)
            .parse(&bases, address_size)
            .expect("a header");
        let frames = EhFrame::new(frames.data().expect("its bytes"), LittleEndian);
        let table = hdr.table().expect("a table");
        for symbol in file.symbols().filter(|symbol| symbol.size() > 0) {
            // Look up an address inside the function: the table is searched by address.
            let pc = symbol.address() + symbol.size() / 2;
            let fde = table.fde_for_address(&frames, &bases, pc, EhFrame::cie_from_offset);
            let fde = fde.unwrap_or_else(|error| panic!("{arch} {:?}: {error}", symbol.name()));
            assert_eq!(
                (fde.initial_address(), fde.len()),
                (symbol.address(), symbol.size())
            );
        }
    }
}

/// Each kind of output has the content that its name promises.
#[test]
fn each_kind_of_output_has_its_content() {
    let wasm = guest("add.wat");
    for arch in Arch::ALL {
        let make = |what| emit(&wasm, &Options::new(arch), what).expect("it is valid");
        let clif = String::from_utf8(make(Emit::Clif)).expect("text");
        assert!(
            clif.contains(";; 0 (add)") && clif.contains("iadd"),
            "{clif}"
        );
        let asm = String::from_utf8(make(Emit::Asm)).expect("text");
        assert!(
            asm.contains(";; 0 (add)")
                && asm.contains(match arch {
                    Arch::X86_64 => "%rbp",
                    Arch::Aarch64 => "add w",
                }),
            "{asm}"
        );
        let obj = make(Emit::Obj);
        let file = ElfFile64::<LE>::parse(&obj[..]).expect("an object");
        assert!(file.symbols().any(|symbol| symbol.name() == Ok("add")));
        // ADRP computes 4 KiB pages, so the linker must place the text at a multiple of 4 KiB. The
        // section's alignment requests this.
        let text = file.section_by_name(".text").expect("machine code");
        assert_eq!(text.align() % 4096, 0, "{arch}");
        assert_eq!(
            make(Emit::So),
            compile(&wasm, &Options::new(arch)).expect("it is valid")
        );
    }
}

fn listing(wasm: &[u8], options: &Options) -> String {
    let asm = emit(wasm, options, Emit::Asm).expect("the guest is valid");
    String::from_utf8(asm).expect("text")
}

/// Offset in the text of each instruction of a listing, with its offset in the WebAssembly file, if
/// the listing states one.
fn listed(asm: &str) -> BTreeMap<u32, Option<u32>> {
    let hex = |digits: &str| u32::from_str_radix(digits, 16).expect("a number");
    let lines = asm.lines().filter(|line| line.starts_with(' '));
    let instructions = lines.map(|line| {
        let (at, rest) = line.trim_start().split_once(": ").expect("an offset");
        let from = rest.split_once(";; @").map(|(_, from)| hex(&from[..6]));
        (hex(at), from)
    });
    instructions.collect()
}

#[test]
fn listings_state_the_operator_of_each_instruction() {
    for (at, name) in sampled_guests().enumerate() {
        let wasm = guest(name);
        for arch in sampled(Arch::ALL, 2, at) {
            let asm = listing(&wasm, &Options::new(arch));
            let listed = listed(&asm);
            let so = compiled(name, arch);
            let checked = Checked::new(so).expect("it is sound");
            // The runtime's tables must describe the same code as the listing.
            let words = |section| {
                let bytes = slice(so, checked.header.section(section)).expect("its bytes");
                let (pairs, _) = bytes.as_chunks::<8>();
                let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four"));
                let words = pairs
                    .iter()
                    .map(|pair| (word(&pair[..4]), word(&pair[4..])));
                words.collect::<BTreeMap<_, _>>()
            };
            let (traps, sites) = (words(Section::Traps), words(Section::Sites));
            for at in traps.keys() {
                let from = sites.get(at).copied();
                assert_eq!(listed.get(at), Some(&from), "{name} for {arch}, {at:#x}");
            }
            // The listing has a header for every function, with the offset of its body.
            let mut index = checked.metadata.imported_funcs();
            for payload in wasmparser::Parser::new(0).parse_all(&wasm) {
                let payload = payload.expect("the guest is valid");
                if let wasmparser::Payload::CodeSectionEntry(body) = payload {
                    let body = body.range();
                    let what = match checked.metadata.func_name(index) {
                        Some(name) => format!("{index} ({name})"),
                        None => index.to_string(),
                    };
                    let header = format!("\n;; {what}: {:06x}..{:06x}\n", body.start, body.end);
                    assert!(format!("\n{asm}").contains(&header), "{header}");
                    index += 1;
                }
            }
        }
    }
}

#[test]
fn listings_name_callees() {
    let wasm = parse_text(
        b"(module (import \"a\" \"b\" (func)) (memory 1)
            (func $in (drop (i32.load (i32.const 7))) (drop (memory.grow (i32.const 1))))
            (func (export \"f\") (call $in) (call $in) (unreachable)))",
    );
    let wasm = wasm.expect("the text is well-formed");
    for arch in Arch::ALL {
        let asm = listing(&wasm, &Options::new(arch));
        for called in [
            "-> 1 (in)",
            "-> trampoline of memory.grow",
            "-> stub of trap \"unreachable\"",
        ] {
            let line = asm.lines().find(|line| line.ends_with(called));
            let line = line.unwrap_or_else(|| panic!("{called} is not in {asm}"));
            assert!(line.contains(" ;; @0000"), "{line}");
        }
        // The operators of `f`, in order, with the offsets that wasm-objdump prints.
        let f = asm.split(";; 2").nth(1).expect("its header");
        let from: Vec<_> = f
            .lines()
            .filter(|line| line.contains("->"))
            .filter_map(|line| line.split_once('@'))
            .map(|(_, from)| u32::from_str_radix(&from[..6], 16).expect("a number"))
            .collect();
        let call = wasm.windows(2).position(|bytes| bytes == [0x10, 1]);
        let call = call.expect("the call") as u32;
        assert_eq!(from, [call, call + 2, call + 4], "{asm}");
    }
}

#[test]
fn imports_of_one_type_share_a_trampoline() {
    let module = |more: &str| {
        let text = format!(
            "(module (type $f (func (param i32))) (import \"a\" \"alone\" (func (param f64)))
               (import \"a\" \"b\" (func (type $f))) {more} (func (export \"f\")))"
        );
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        wasm.into_owned()
    };
    let two = module("(import \"a\" \"c\" (func (type $f)))");
    let many = module(&"(import \"a\" \"c\" (func (type $f)))".repeat(500));
    for arch in Arch::ALL {
        let so = |wasm: &[u8]| compile(wasm, &Options::new(arch)).expect("it is valid");
        let symbols = |wasm: &[u8]| -> Vec<String> {
            let so = so(wasm);
            let file = object::File::parse(&*so).expect("it is an object");
            let names = file.symbols().filter_map(|symbol| symbol.name().ok());
            let names: Vec<_> = names.map(str::to_owned).collect();
            names
        };
        let has = |wasm: &[u8], name: &str| symbols(wasm).iter().any(|symbol| symbol == name);
        assert!(has(&module(""), "import a.b") && has(&two, "import a.alone"));
        assert!(has(&two, "imports of type 0") && !has(&two, "import a.b"));
        assert_eq!(symbols(&two), symbols(&many), "{arch}");
        let text_bytes = |wasm: &[u8]| {
            let so = so(wasm);
            let checked = Checked::new(&so).expect("it is sound");
            let starts = &checked.metadata.code[1..3];
            assert_eq!(starts[0], starts[1], "{arch}");
            checked.header.section(Section::Text).len
        };
        assert_eq!(text_bytes(&two), text_bytes(&many), "{arch}");
        let asm = listing(&two, &Options::new(arch));
        let headers = asm
            .lines()
            .filter(|line| line.contains("of imports of type"));
        assert_eq!(headers.count(), 2, "{asm}");
    }
}

/// The functions and trampolines of a listing: the lines after each header.
fn pieces(asm: &str) -> Vec<Vec<&str>> {
    let pieces = asm.trim_end().split("\n\n");
    let pieces = pieces.map(|piece| piece.lines().skip(1));
    pieces.map(Iterator::collect).collect()
}

/// The part of a line between the offset and the comment.
fn content(line: &str) -> &str {
    let (_, rest) = line.split_once(": ").expect("an offset");
    rest.split(";;").next().unwrap_or(rest).trim_end()
}

/// The bytes of a line of constants; `None` for another line.
fn constants(line: &str) -> Option<Vec<u8>> {
    let list = content(line).strip_prefix(".byte ")?;
    let byte = |text: &str| u8::from_str_radix(&text[2..], 16).expect("a byte");
    Some(list.split(',').map(byte).collect())
}

#[test]
fn listings_distinguish_data_from_instructions() {
    // Jump tables, constants in a function, and constants in a trampoline, which has no source
    // locations.
    let wasm = parse_text(
        b"(module (memory 1)
            (func (export \"f\") (param i32 v128) (result v128)
              (loop $again
                (block $b (block $a (br_table $a $b $again $a (local.get 0)))
                  (return (i8x16.add (local.get 1) (v128.const i32x4 1 2 3 4))))
                (memory.fill (i32.const 0) (i32.const 0) (local.get 0)))
              (i32x4.add (local.get 1) (v128.const i32x4 5 6 7 8))))",
    );
    let wasm = wasm.expect("the text is well-formed");
    for arch in Arch::ALL {
        let asm = listing(&wasm, &Options::new(arch));
        let pieces = pieces(&asm);
        // An entry for each label and for the default. All entries belong to one operator.
        let entries: Vec<_> = pieces[0]
            .iter()
            .filter(|line| content(line).starts_with(".long "))
            .collect();
        let from = wasm.windows(2).position(|bytes| bytes == [0x0e, 3]);
        let from = format!(" ;; @{:06x}", from.expect("the table"));
        assert_eq!(entries.len(), 4, "{asm}");
        assert!(entries.iter().all(|line| line.ends_with(&from)), "{asm}");
        let data: Vec<u8> = pieces[0]
            .iter()
            .filter_map(|line| constants(line))
            .flatten()
            .collect();
        for first in [1, 5] {
            let vector: Vec<u8> = (first..first + 4).flat_map(u32::to_le_bytes).collect();
            assert!(data.windows(16).any(|bytes| bytes == vector), "{asm}");
        }
        let fill = pieces.last().expect("the trampoline");
        if arch == Arch::X86_64 {
            let last = fill.last().expect("the factor");
            assert_eq!(constants(last), Some(vec![1; 8]), "{asm}");
        }
    }
}

#[test]
fn only_data_is_listed_as_data() {
    let others = ["crypto.wasm", "simd.wasm"];
    for (at, name) in GUESTS.into_iter().chain(others).enumerate() {
        let wasm = guest(name);
        for arch in sampled(Arch::ALL, 2, at + 1) {
            let options = Options::new(arch);
            let asm = listing(&wasm, &options);
            let listed = listed(&asm);
            for piece in pieces(&asm) {
                let (mut ended, mut data) = (false, false);
                for line in piece {
                    let text = content(line);
                    if let Some(bytes) = constants(line) {
                        // Constants follow the last instruction of the function.
                        assert!(ended && bytes.len() <= 8, "{name} for {arch}: {line}");
                        data = true;
                    } else if let Some(entry) = text.strip_prefix(".long 0x") {
                        let (target, _) = entry.split_once('-').expect("two numbers");
                        let target = u32::from_str_radix(target, 16).expect("a number");
                        assert!(listed.contains_key(&target), "{name} for {arch}: {line}");
                    } else {
                        // The disassembly of zeros.
                        let zeros = ["add %al, (%rax)", "udf #0x0"].contains(&text);
                        assert!(!data && !zeros, "{name} for {arch}: {line}");
                        let word = text.split(' ').next().expect("a word");
                        ended = ["ret", "jmp", "ud2", "b", "br", "udf"].contains(&word);
                    }
                }
            }
        }
    }
}

#[test]
fn every_option_compiles_every_guest() {
    let opt_levels = [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize];
    let mut ways = vec![];
    for arch in Arch::ALL {
        for level in arch.levels() {
            ways.extend(opt_levels.map(|opt_level| (arch, level, opt_level)));
        }
    }
    for (at, name) in GUESTS.into_iter().enumerate() {
        let wasm = guest(name);
        // Together, the first five guests have all ways. The last one, which is large, has one.
        let sample = [5, 20][usize::from(at == GUESTS.len() - 1)];
        for &(arch, level, opt_level) in sampled(&ways, sample, at) {
            let mut options = Options::new(arch);
            options.cpu = CpuFeatures::level(arch, level.name).expect("the level exists");
            options.opt_level = opt_level;
            options.spectre = opt_level != OptLevel::None;
            options.fuel = opt_level == OptLevel::SpeedAndSize;
            let so = compile(&wasm, &options).expect("the guest is valid");
            let checked = Checked::new(&so).expect("the output is sound");
            assert_eq!(checked.header.cpu, options.cpu);
        }
    }
}

#[test]
fn code_for_aarch64_does_not_use_x18_and_has_barriers_after_masks() {
    for (at, name) in GUESTS.into_iter().enumerate() {
        let wasm = guest(name);
        // By default, the guests with masks have them, and the others are not optimised.
        let ways = [(true, OptLevel::Speed), (false, OptLevel::None)];
        for (spectre, opt_level) in sampled(ways, 2, at) {
            let mut options = Options::new(Arch::Aarch64);
            (options.spectre, options.opt_level) = (spectre, opt_level);
            let asm = listing(&wasm, &options);
            let lines = || asm.lines().filter(|line| !line.starts_with(";;"));
            // The runtime uses x18 to resume interrupted guests, so compiled code must not use it.
            let mut words = lines().flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
            assert!(!words.any(|word| word == "x18" || word == "w18"), "{name}");
            let so = compile(&wasm, &options).expect("the guest is valid");
            let file = ElfFile64::<LE>::parse(&so[..]).expect("an object");
            let text = file.section_by_name(".text").expect("code");
            // CSDB (Arm ARM, C6.2).
            let csdb = 0xd503_229f_u32.to_le_bytes();
            let (words, _) = text.data().expect("its bytes").as_chunks::<4>();
            let masks = spectre && ["traps.wat", "hello.wasm", "tour-rust.wasm"].contains(&name);
            assert_eq!(words.contains(&csdb), masks, "{name}");
        }
    }
}

/// With fuel, the intermediate code of both targets is equal. Without fuel, the code does not
/// access the counter.
#[test]
fn all_targets_count_equal_fuel() {
    let field = format!("v0{}\n", pirn_format::layout::CONTEXT_FUEL);
    for name in sampled_guests() {
        let wasm = guest(name);
        let clif = |arch, fuel| {
            let mut options = Options::new(arch);
            options.fuel = fuel;
            let text = emit(&wasm, &options, Emit::Clif).expect("the guest is valid");
            String::from_utf8(text).expect("it is text")
        };
        let [x86_64, aarch64] = Arch::ALL.map(|arch| clif(arch, true));
        assert_eq!(x86_64, aarch64, "{name}");
        assert!(x86_64.contains(&field), "{name} counts");
        assert!(
            !clif(Arch::X86_64, false).contains(&field),
            "{name} does not count"
        );
        for fuel in [false, true] {
            let mut options = Options::default();
            options.fuel = fuel;
            let so = compile(&wasm, &options).expect("the guest is valid");
            let checked = Checked::new(&so).expect("it is sound");
            assert_eq!(checked.metadata.fuel, fuel, "{name}");
        }
    }
}

#[test]
fn progress_counts_every_function_once() {
    let told = std::sync::Mutex::new(vec![]);
    let note = |done, total| told.lock().expect("no panic").push((done, total));
    let options = Options::default();
    let compilation = Compilation::new(&options).progress(&note);
    compilation
        .run(&guest("hello.wasm"))
        .expect("the guest is valid");
    let mut told = told.into_inner().expect("no panic");
    told.sort_unstable();
    let total = told.len() - 1;
    let all: Vec<_> = (0..=total).map(|done| (done, total)).collect();
    assert_eq!(told, all);
}

#[test]
fn a_few_bytes_are_copied_without_a_call() {
    for (bytes, calls) in [
        (0, true),
        (1, false),
        (24, false),
        (128, false),
        (129, true),
    ] {
        for operator in ["memory.copy", "memory.fill"] {
            let text = format!(
                "(module (memory 1) (func (param i32 i32)
                   ({operator} (local.get 0) (local.get 1) (i32.const {bytes}))))"
            );
            let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
            let clif = emit(&wasm, &Options::default(), Emit::Clif);
            let clif = String::from_utf8(clif.expect("the guest is valid")).expect("text");
            let first = clif.split(";;").nth(1).expect("the function is first");
            assert_eq!(
                first.contains(" call "),
                calls,
                "{operator} of {bytes}: {first}"
            );
        }
    }
}
