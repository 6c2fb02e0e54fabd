//! Where passes insert instructions.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Function, Inst};

/// The place before an instruction. Inserted instructions get the source location of `inst`.
pub(crate) fn before(func: &mut Function, inst: Inst) -> FuncCursor<'_> {
    let mut cursor = FuncCursor::new(func).at_inst(inst);
    cursor.use_srcloc(inst);
    cursor
}
