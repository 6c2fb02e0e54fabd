//! Names of the pieces for `.symtab`: what perf, gdb and objdump show.

use crate::compile::Piece;
use crate::names::Callee;
use pirn_format::metadata::Metadata;

/// The symbol of each piece, without zero bytes or control characters, which a string table or a
/// terminal would trip over.
pub(super) fn names(pieces: &[Piece], metadata: &Metadata) -> Vec<String> {
    let imported = metadata.imported_funcs();
    let name = |piece: &Piece| match piece.callee {
        Callee::Func(index) if index < imported => {
            match metadata.imports_of_funcs().nth(index as usize) {
                Some(import) => format!("import {}.{}", import.module, import.name),
                None => format!("import {index}"),
            }
        }
        Callee::Func(index) => match metadata.func_name(index) {
            Some(name) => name.to_owned(),
            None => format!("wasm[{index}]"),
        },
        Callee::Entry(ty) => format!("entry of type {ty}"),
        Callee::Builtin(builtin) => builtin.name().to_owned(),
        Callee::Trap(code) => format!("trap {code}"),
        Callee::Mistyped => "trap in a call by a table".to_owned(),
        Callee::Table(index) => format!("table {index}"),
    };
    let printable = |name: String| name.replace(char::is_control, "_");
    pieces.iter().map(|piece| printable(name(piece))).collect()
}
