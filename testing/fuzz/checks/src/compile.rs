//! For any input, the compiler must report an error or produce a valid compiled module. It must not
//! panic or report an internal error. [`differential`](crate::differential) checks that valid
//! modules compile.

use crate::random::Random;
use crate::setting::Setting;
use arbitrary::{Arbitrary, Unstructured};
use pirn_compiler::{CompileError, Options, RelaxedSimd};
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;
use pirn_runtime::Module;
use std::ops::AddAssign;
use wasm_mutate::WasmMutate;
use wasmparser::{Parser, Payload};

/// Counts of compiled inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs.
    pub inputs: usize,
    /// Inputs that compiled.
    pub compiled: usize,
    /// Inputs that are invalid, or use an unsupported proposal.
    pub invalid: usize,
    /// Inputs that exceed a limit.
    pub limited: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.compiled += other.compiled;
        self.invalid += other.invalid;
        self.limited += other.limited;
    }
}

/// Makes an input from arbitrary bytes and compiles it for one of the architectures. The canary
/// changes a byte of the output.
///
/// # Errors
///
/// If the compiler or its output is at fault.
pub fn check(data: &[u8], canary: bool) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let Ok((input, mut random)) = input(data) else {
        return Ok(tally);
    };
    tally.inputs = 1;
    let native = Options::default().cpu.arch();
    let foreign = random.once_in(3);
    let mut options = Setting::any(&mut random).options();
    if random.once_in(2) {
        options.relaxed_simd = RelaxedSimd::default();
    }
    if foreign {
        let other = [Arch::X86_64, Arch::Aarch64]
            .into_iter()
            .find(|arch| *arch != native);
        options.cpu = Options::new(other.unwrap_or(native)).cpu;
    }
    let mut file = match pirn_compiler::compile(&input, &options) {
        Ok(file) => file,
        Err(
            error @ (CompileError::Codegen { .. }
            | CompileError::Object(_)
            | CompileError::Options(_)),
        ) => {
            return Err(error.to_string());
        }
        Err(CompileError::Limit { .. } | CompileError::Work { .. }) => {
            tally.limited = 1;
            return Ok(tally);
        }
        Err(error) if error.to_string().contains('\n') => {
            return Err(format!("not a line: {error}"));
        }
        Err(_) => {
            tally.invalid = 1;
            return Ok(tally);
        }
    };
    tally.compiled = 1;
    if canary {
        let at = random.below(file.len());
        file[at] ^= 1;
    }
    let checked = Checked::new(&file).map_err(|error| format!("its own: {error}"))?;
    if !foreign {
        Module::from_bytes(&file).map_err(|error| format!("its own: {error}"))?;
    } else if checked.header.cpu.arch() == native {
        return Err("for another architecture than was asked for".to_owned());
    }
    if random.once_in(8) && pirn_compiler::compile(&input, &options).ok().as_ref() != Some(&file) {
        return Err("compiled once more, it is another".to_owned());
    }
    Ok(tally)
}

/// An input that resembles a module.
fn input(data: &[u8]) -> arbitrary::Result<(Vec<u8>, Random)> {
    let mut bytes = Unstructured::new(data);
    let mut random = Random::new(bytes.arbitrary()?);
    let input = match random.below(8) {
        0 => bytes.take_rest().to_vec(),
        1 => [b"\0asm\x01\0\0\0", bytes.take_rest()].concat(),
        2 | 3 => {
            // Any proposal, and function bodies of arbitrary bytes.
            let mut config = wasm_smith::Config::arbitrary(&mut bytes)?;
            (config.allow_invalid_funcs, config.max_funcs) = (random.once_in(2), 20);
            wasm_smith::Module::new(config, &mut bytes)?.to_bytes()
        }
        4 => damaged(module(&mut bytes, &mut random)?, &mut random),
        5 | 6 => mutated(module(&mut bytes, &mut random)?, &mut random),
        _ => debugged(module(&mut bytes, &mut random)?, data, &mut random),
    };
    Ok((input, random))
}

/// A valid module within the features that the compiler supports.
fn module(bytes: &mut Unstructured<'_>, random: &mut Random) -> arbitrary::Result<Vec<u8>> {
    Ok(wasm_smith::Module::new(crate::guest::config(random), bytes)?.to_bytes())
}

/// A module with some bytes changed.
fn damaged(mut wasm: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(4) {
        let at = random.below(wasm.len());
        match random.below(4) {
            0 => wasm[at] ^= 1 << random.below(8),
            1 => wasm[at] = random.bits() as u8,
            2 => wasm.insert(at, random.any() as u8),
            _ => wasm.truncate(at.max(1)),
        }
    }
    wasm
}

/// A module after a few mutations that keep it valid. A module with tags is not mutated:
/// wasm-mutate 0.263 panics on exported tags.
fn mutated(mut wasm: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let has_tags = |payload| matches!(payload, Ok(Payload::TagSection(_)));
    if Parser::new(0).parse_all(&wasm).any(has_tags) {
        return wasm;
    }
    for _ in 0..=random.below(3) {
        let mut mutate = WasmMutate::default();
        mutate
            .seed(random.any())
            .fuel(200)
            .preserve_semantics(random.once_in(2));
        let mutated = mutate.run(&wasm).ok().and_then(|mut all| all.next()?.ok());
        wasm = mutated.unwrap_or(wasm);
    }
    wasm
}

/// A module with custom sections of arbitrary content, under the names that the compiler reads.
fn debugged(mut wasm: Vec<u8>, data: &[u8], random: &mut Random) -> Vec<u8> {
    const NAMES: [&str; 6] = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".debug_str",
        ".debug_ranges",
        "name",
    ];
    for name in NAMES {
        let from = random.below(data.len().max(1));
        let piece = &data[from..data.len().min(from + random.below(100))];
        // Lengths are less than 128, so LEB128 encodes each in one byte.
        let content = [&[name.len() as u8], name.as_bytes(), piece].concat();
        wasm.extend_from_slice(&[0, content.len() as u8 & 127]);
        wasm.extend_from_slice(&content[..content.len() & 127]);
    }
    wasm
}
