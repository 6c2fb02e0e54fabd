//! Compiles the modules that it reads from standard input, for tests under an emulator:
//! `compiler/client` starts it and describes the messages.

use pirn_compiler::{CompileError, OptLevel, Options, RelaxedSimd, compile};
use pirn_format::cpu::{Arch, CpuFeatures};
use std::io::{self, Read, Write};

fn main() -> io::Result<()> {
    let (mut requests, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let mut len = [0; 4];
    // The client closes the pipe when it ends.
    while requests.read_exact(&mut len).is_ok() {
        let mut request = vec![0; u32::from_le_bytes(len) as usize];
        requests.read_exact(&mut request)?;
        let (kind, bytes) = answer(&request);
        answers.write_all(&[kind])?;
        answers.write_all(&(bytes.len() as u32).to_le_bytes())?;
        answers.write_all(&bytes)?;
        answers.flush()?;
    }
    Ok(())
}

/// The kind of the answer, and its bytes.
fn answer(request: &[u8]) -> (u8, Vec<u8>) {
    let Some((options, wasm)) = settings(request) else {
        return (3, b"the settings of the request are invalid".to_vec());
    };
    match compile(wasm, &options) {
        Ok(so) => (0, so),
        Err(error) => {
            let kind = match error {
                CompileError::Invalid { .. } => 1,
                CompileError::Limit { .. } => 2,
                _ => 3,
            };
            (kind, error.to_string().into_bytes())
        }
    }
}

/// The options of a request, and its module.
fn settings(request: &[u8]) -> Option<(Options, &[u8])> {
    let (&[arch], rest) = request.split_first_chunk()?;
    let (cpu, rest) = rest.split_first_chunk()?;
    let (&[level, spectre, relaxed, fuel, debug_info], rest) = rest.split_first_chunk()?;
    let (work, wasm) = rest.split_first_chunk()?;
    let arch = match arch {
        0 => Arch::X86_64,
        _ => Arch::Aarch64,
    };
    let mut options = Options::new(arch);
    options.cpu = CpuFeatures::from_bits(arch, u64::from_le_bytes(*cpu))?;
    options.opt_level = match level {
        0 => OptLevel::None,
        1 => OptLevel::Speed,
        _ => OptLevel::SpeedAndSize,
    };
    options.relaxed_simd = match relaxed {
        0 => RelaxedSimd::Fastest,
        _ => RelaxedSimd::Deterministic,
    };
    options.spectre = spectre != 0;
    options.fuel = fuel != 0;
    options.debug_info = debug_info != 0;
    options.work_per_byte = u64::from_le_bytes(*work);
    Some((options, wasm))
}
