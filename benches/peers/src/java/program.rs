//! [`JavaProgram`]: the programs and the files that `benches/peers/java/build.sh` makes of them.

use anyhow::{Context as _, Result};
use std::path::PathBuf;

/// A Java program, with the argument that the study gave it.
#[derive(Debug, Clone, Copy)]
pub struct JavaProgram {
    pub name: &'static str,
    pub class: &'static str,
    pub argument: Option<&'static str>,
    /// What the study measured on Wasmtime, in microseconds an invocation.
    pub study_wasmtime_us: f64,
    /// What the study measured in a shared virtual machine.
    pub study_jvm_us: f64,
}

const fn program(
    name: &'static str,
    class: &'static str,
    argument: Option<&'static str>,
    study_wasmtime_us: f64,
    study_jvm_us: f64,
) -> JavaProgram {
    JavaProgram {
        name,
        class,
        argument,
        study_wasmtime_us,
        study_jvm_us,
    }
}

/// All programs, in the study's order.
pub const PROGRAMS: [JavaProgram; 6] = [
    program("hello", "Hello", None, 69.9, 0.8),
    program("simple", "Simple", Some("2000"), 7162.0, 3623.0),
    program("mandelbrot", "Mandelbrot", Some("200"), 3476.0, 3499.0),
    program("nbody", "Nbody", Some("10000"), 4900.0, 985.0),
    program("pidigits", "Pidigits", Some("100"), 3469.0, 560.0),
    program("spectralnorm", "Spectralnorm", Some("100"), 1759.0, 1439.0),
];

impl JavaProgram {
    /// # Errors
    ///
    /// The file is missing.
    pub fn wasm(&self) -> Result<Vec<u8>> {
        let path = built().join(format!("{}.wasm", self.name));
        std::fs::read(&path)
            .with_context(|| format!("{}; run benches/peers/java/build.sh", path.display()))
    }
}

/// The folder of the built files.
pub fn built() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/java/built"))
}
