//! [`FEATURES`]: the accepted WebAssembly features, and names for the refused features.
//! docs/reference/features.md has a row for each feature.

use crate::error::CompileError;
use pirn_format::text::one_line;
use wasmparser::{BinaryReaderError, WasmFeatures};

/// The accepted features: WebAssembly 3.0, and threads, custom page sizes, legacy exceptions and
/// wide arithmetic. The validator refuses all other features.
pub(crate) const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::CUSTOM_PAGE_SIZES)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::EXCEPTIONS)
    .union(WasmFeatures::LEGACY_EXCEPTIONS)
    .union(WasmFeatures::FUNCTION_REFERENCES)
    .union(WasmFeatures::GC)
    .union(WasmFeatures::MEMORY64)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::THREADS)
    .union(WasmFeatures::WIDE_ARITHMETIC);

/// Refused features, each with its verb for the message.
const REFUSED: [(WasmFeatures, &str); 4] = [
    (WasmFeatures::CUSTOM_DESCRIPTORS, "custom descriptors are"),
    (
        WasmFeatures::SHARED_EVERYTHING_THREADS,
        "shared-everything threads are",
    ),
    (WasmFeatures::STACK_SWITCHING, "stack switching is"),
    (WasmFeatures::MEMORY_CONTROL, "memory control is"),
];

/// The refused feature that the module needs.
fn missing(error: &BinaryReaderError) -> Option<&'static str> {
    let feature = error.missing_wasm_feature();
    let mut refused = REFUSED.iter();
    let (_, name) = refused.find(|(refused, _)| Some(*refused) == feature)?;
    Some(name)
}

impl From<BinaryReaderError> for CompileError {
    fn from(error: BinaryReaderError) -> Self {
        let message = match missing(&error) {
            Some(feature) => format!("{feature} not supported"),
            // The message must not suggest that the feature can be enabled.
            None => one_line(error.message()).replace("not enabled", "not supported"),
        };
        Self::Invalid {
            message,
            offset: error.offset() as usize,
        }
    }
}
