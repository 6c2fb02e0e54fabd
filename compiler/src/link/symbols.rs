//! Names of the compiled functions for `.symtab`, which perf, gdb and objdump show.

use crate::code::CompiledFunction;
use crate::symbol::Symbol;
use pirn_format::metadata::{ExportItem, Metadata};
use pirn_format::text;
use std::collections::HashMap;

/// The name of each function, without zero bytes and control characters, which a string table or
/// a terminal cannot handle.
pub(super) fn names(functions: &[CompiledFunction], metadata: &Metadata) -> Vec<String> {
    let imports = names_of_imports(metadata);
    let names = func_names(metadata);
    let name = |function: &CompiledFunction| match function.symbol {
        Symbol::Func(index) => match names.get(&index) {
            Some(name) => (*name).to_owned(),
            None => format!("wasm[{index}]"),
        },
        Symbol::Import(ty) => match imports.get(&ty) {
            Some(Some(name)) => format!("import {name}"),
            _ => format!("imports of type {ty}"),
        },
        Symbol::Entry(ty) => format!("entry of type {ty}"),
        Symbol::Builtin(builtin) => builtin.name().to_owned(),
        Symbol::Trap(code) => format!("trap {code}"),
        Symbol::Mistyped => "trap in a call by a table".to_owned(),
        Symbol::Table(index) => format!("table {index}"),
    };
    let printable = |name: String| text::plain(&name).to_string();
    functions
        .iter()
        .map(|function| printable(name(function)))
        .collect()
}

/// For each type of an imported function, the name of its only import; `None` if several imports
/// share the trampoline.
fn names_of_imports(metadata: &Metadata) -> HashMap<u32, Option<String>> {
    let mut names = HashMap::new();
    for (import, ty) in metadata.imports_of_funcs().zip(&metadata.funcs) {
        let name = || Some(format!("{}.{}", import.module, import.name));
        let known = names.entry(*ty);
        known.and_modify(|name| *name = None).or_insert_with(name);
    }
    names
}

/// The result of [`Metadata::func_name`] for each function with a name, computed in one pass. A
/// module may have as many exports as functions, so a search per function would be quadratic.
fn func_names(metadata: &Metadata) -> HashMap<u32, &str> {
    let exports = metadata.exports.iter().rev();
    let exported = exports.filter_map(|export| match export.item {
        ExportItem::Func(index) => Some((index, export.name.as_str())),
        _ => None,
    });
    let named = metadata.func_names.iter();
    exported
        .chain(named.map(|(index, name)| (*index, name.as_str())))
        .collect()
}
