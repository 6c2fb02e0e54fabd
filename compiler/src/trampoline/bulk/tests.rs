//! Checks the masks in the IR of the trampolines that copy and fill.

use crate::analysis::idioms::Multiplications;
use crate::analysis::known_tables::KnownTables;
use crate::analysis::leaves::Leaves;
use crate::budget::Budget;
use crate::codegen::isa;
use crate::intrinsics::imports::Imports;
use crate::options::Options;
use crate::symbol::Symbol;
use crate::translate::Env;
use crate::{parse, trampoline};
use cranelift_codegen::ir::Function;
use cranelift_frontend::FunctionBuilderContext;
use pirn_format::exit::Builtin;

/// The IR of a trampoline, line by line.
fn lines(builtin: Builtin) -> Vec<String> {
    let wasm = crate::parse_text(b"(module (memory 1))").expect("the text is well-formed");
    let parsed = parse::parse(&wasm).expect("the module is valid");
    let options = Options::default();
    let isa = isa::build(&options, false).expect("the target exists");
    let env = Env {
        metadata: &parsed.metadata,
        imported: parsed.metadata.imported(),
        layout: &parsed.layout,
        isa: &*isa,
        passes: options.passes,
        spectre: options.spectre,
        relaxed_simd: options.relaxed_simd,
        cpu: options.cpu,
        intrinsics: &Imports::default(),
        tables: &KnownTables::default(),
        structs: &parsed.structs,
        plain: false,
        multiplications: &Multiplications::new(),
        leaves: &Leaves::default(),
        #[cfg(feature = "faults")]
        fault: None,
        budget: &Budget::new(wasm.len() as u64, options.work_per_byte),
    };
    let mut func = Function::new();
    let mut context = FunctionBuilderContext::new();
    trampoline::build(Symbol::Builtin(builtin), env, &mut context, &mut func);
    let text = func.display().to_string();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// Every difference is masked before any other use. Under misprediction a difference may be
/// negative, and the context lies below the base.
#[test]
fn no_offset_is_negative_under_a_wrong_prediction() {
    let counted = [(Builtin::MemoryCopy, 6), (Builtin::MemoryFill, 6)];
    for (builtin, wanted) in counted {
        let lines = lines(builtin);
        let mut differences = 0;
        for (at, line) in lines.iter().enumerate() {
            // A negative constant, the sum that uses the constant, and the mask of the sum.
            let Some((constant, number)) = line.split_once(" = iconst.i64 -") else {
                continue;
            };
            // What a routine returns when all is done. No address is made of it.
            if number == "1" {
                continue;
            }
            differences += 1;
            let (sum, added) = lines[at + 1].split_once(" = iadd").expect("a difference");
            assert!(added.contains(constant), "{added}");
            let (mask, _) = lines[at + 2]
                .split_once(" = iconst.i64 63")
                .expect("a mask");
            let (masked, and) = lines[at + 3].split_once(" = ").expect("a value");
            assert!(and.starts_with(&format!("band {sum}, {mask}")), "{and}");
            let word = |line: &String| line.split(|c: char| !c.is_alphanumeric()).any(|w| w == sum);
            let uses = lines.iter().filter(|line| word(line)).count();
            assert_eq!(uses, 2, "{sum} is made and masked: only {masked} is used");
        }
        assert_eq!(differences, wanted, "{builtin:?}: {lines:#?}");
    }
}
