//! Proves from the bytes of a compiled module that its machine code stays in its sandbox.
//!
//! The verifier shares no code with the compiler but the module format. It decodes the text, walks
//! over each function, and refuses what it cannot prove. A refusal names one of five properties:
//! [`Property`]. `docs/internals/verifier.md` defines the properties and lists what is not proven.
//!
//! ```
//! let wasm = pirn_compiler::parse_text(b"(module (memory 1) (func (export \"f\")))")?;
//! let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default())?;
//! let report = pirn_verify::verify(&so)?;
//! assert!(report.instructions > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

// In this order each module uses only modules before it (`format/tests/layers.rs`).
mod error;
mod chunks;
mod symbol;
mod widening;
mod conversion;
mod value;
mod arithmetic;
mod abi;
mod heap;
mod comparison;
mod vector;
mod state;
mod container;
mod module;
mod address;
mod frame;
mod access;
mod external;
mod objects;
mod casts;
mod walk;
mod aarch64;
mod x86_64;

pub use error::{Property, Refusal, VerifyError};

use module::Module;
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;
use pirn_format::traps::{CodeEntry, CodeKind};
use rayon::prelude::*;

/// Counts of the proven code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Functions, trampolines and stubs.
    pub functions: usize,
    /// Decoded instructions: all that are reachable if each branch may go both ways.
    pub instructions: usize,
    /// Bytes of code.
    pub code_bytes: usize,
}

/// Proves all properties of a compiled module, on all processors.
///
/// # Errors
///
/// [`VerifyError::Format`] for a damaged file, [`VerifyError::Container`] for an ELF file that does
/// not have the compiler's shape. [`VerifyError::Refused`] for the first function, in the order of
/// the text, that could not be proven. The refusal's offset is where the proof stopped.
pub fn verify(file: &[u8]) -> Result<Report, VerifyError> {
    let checked = Checked::new(file)?;
    let verifier = Verifier::new(file, &checked)?;
    container::check(file, &checked)?;
    verifier.verify()
}

/// The verifier of one module's machine code. It does not check what the rest of the file tells the
/// dynamic loader; [`verify`] does.
pub struct Verifier<'a>(Module<'a>);

impl<'a> Verifier<'a> {
    /// Makes the verifier of a checked file. Does not compare the file with its hash again.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Format`] or [`VerifyError::Refused`] if the file's tables contradict
    /// `checked`.
    pub fn new(file: &'a [u8], checked: &'a Checked) -> Result<Self, VerifyError> {
        let mut module = Module::new(file, checked)?;
        let stubs = module.code.iter();
        let stubs = stubs.filter(|entry| matches!(entry.kind, CodeKind::Trap(_)));
        let plain = stubs.filter(|stub| prove(&module, *stub, false).is_ok());
        module.plain_stubs = plain.map(|stub| stub.start).collect();
        Ok(Self(module))
    }

    /// Proves all properties of all code, on all processors.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Refused`] for the first function, in the order of the text, that could not be
    /// proven. The refusal's offset is where the proof stopped.
    pub fn verify(&self) -> Result<Report, VerifyError> {
        let entries: Vec<_> = self.0.code.iter().collect();
        let proofs: Vec<_> = entries
            .par_iter()
            .map(|entry| self.verify_code(*entry))
            .collect();
        let mut report = Report {
            functions: entries.len(),
            instructions: 0,
            code_bytes: entries.iter().map(|entry| entry.len as usize).sum(),
        };
        for proof in proofs {
            report.instructions += proof?;
        }
        Ok(report)
    }

    /// Proves all properties of the function, trampoline or stub of a code table entry. Returns the
    /// number of decoded instructions.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Refused`] for a property that could not be proven, and for an entry that the
    /// module's code table does not have.
    pub fn verify_code(&self, entry: CodeEntry) -> Result<usize, VerifyError> {
        if self.0.entry(entry.start) != Some(entry) {
            return Err(VerifyError::Refused(Refusal {
                property: Property::Targets,
                code: entry.kind,
                offset: entry.start,
                message: "the module's code table has no such entry".to_owned(),
            }));
        }
        prove(&self.0, entry, true).map_err(VerifyError::Refused)
    }
}

/// Proves the code of one entry, on the architecture of the module.
fn prove(module: &Module<'_>, entry: CodeEntry, has_argument: bool) -> Result<usize, Refusal> {
    match module.cpu.arch() {
        Arch::X86_64 => walk::prove::<x86_64::X86<'_>>(module, entry, has_argument),
        Arch::Aarch64 => walk::prove::<aarch64::A64<'_>>(module, entry, has_argument),
    }
}
