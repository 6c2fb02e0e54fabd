//! What is known of a module's tables before its functions are translated.

use crate::parse::Body;
use rayon::prelude::*;
use wasmparser::{BinaryReaderError, FunctionBody, Operator};

/// Whether an instruction of a module writes to a table.
pub(crate) fn are_written(bodies: &[Body<'_>]) -> bool {
    // What cannot be read is refused once it is translated.
    let bodies = bodies.par_iter();
    bodies.any(|body| writes(&body.body).unwrap_or(true))
}

fn writes(body: &FunctionBody<'_>) -> Result<bool, BinaryReaderError> {
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        if is_write(&operators.read()?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an operator writes to a table, which the translator compares with what was found.
pub(crate) fn is_write(op: &Operator<'_>) -> bool {
    matches!(
        op,
        Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. }
    )
}
