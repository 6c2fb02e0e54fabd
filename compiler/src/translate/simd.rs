//! Vectors (spec 4.4.2).

use super::function::FuncTranslator;
use crate::error::CompileError;
use wasmparser::Operator;

/// Translates an operator on vectors; `false` if it is none.
pub(super) fn translate(
    t: &mut FuncTranslator<'_, '_>,
    op: &Operator<'_>,
) -> Result<bool, CompileError> {
    let _ = (t, op);
    Ok(false)
}
