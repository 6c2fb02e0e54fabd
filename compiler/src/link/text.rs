//! [`Text`]: all compiled functions placed one after another, with every call resolved.

use super::dispatch_tables::DispatchTables;
use crate::analysis::known_tables::KnownTables;
use crate::code::{CompiledFunction, FunctionReloc};
use crate::error::CompileError;
use crate::limits;
use crate::symbol::Symbol;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::TargetIsa;
use pirn_format::metadata::Metadata;
use pirn_format::traps::{CodeEntry, HandlerEntry, InlinedEntry, SiteEntry, TrapEntry};
use std::collections::HashMap;

/// The machine code of a module and the tables that describe it.
pub(crate) struct Text {
    /// The machine code.
    pub(crate) bytes: Vec<u8>,
    /// The location of each function, in the order of the functions.
    pub(crate) entries: Vec<CodeEntry>,
    /// The dispatch tables after the functions.
    pub(crate) dispatch_tables: DispatchTables,
    /// Encoded [`CodeEntry`]s.
    pub(crate) code: Vec<u8>,
    /// Encoded [`TrapEntry`]s.
    pub(crate) traps: Vec<u8>,
    /// Encoded [`SiteEntry`]s.
    pub(crate) address_map: Vec<u8>,
    /// Encoded [`InlinedEntry`]s.
    pub(crate) inlined: Vec<u8>,
    /// Encoded [`HandlerEntry`]s.
    pub(crate) handlers: Vec<u8>,
}

impl Text {
    /// Places the functions, and writes the offsets of functions and entry trampolines to the
    /// metadata.
    ///
    /// # Errors
    ///
    /// [`CompileError::Limit`] for too much code, [`CompileError::Codegen`] for a reference that
    /// cannot be resolved inside the text.
    pub(crate) fn lay(
        functions: &[CompiledFunction],
        tables: &KnownTables,
        metadata: &mut Metadata,
        isa: &dyn TargetIsa,
    ) -> Result<Self, CompileError> {
        let mut builder = isa.text_section_builder(functions.len());
        let mut control = ControlPlane::default();
        let labels: HashMap<Symbol, usize> = functions
            .iter()
            .enumerate()
            .map(|(label, function)| (function.symbol, label))
            .collect();
        let mut text = Self {
            bytes: vec![],
            entries: Vec::with_capacity(functions.len()),
            dispatch_tables: DispatchTables::default(),
            code: vec![],
            traps: vec![],
            address_map: vec![],
            inlined: vec![],
            handlers: vec![],
        };
        let mut table_relocs = vec![];
        for function in functions {
            let start = builder.append(true, &function.code, function.align, &mut control);
            limits::TEXT_BYTES.check(start + function.code.len() as u64)?;
            for reloc in &function.relocs {
                let at = start + u64::from(reloc.offset);
                if let Symbol::Table(table) = reloc.target {
                    text.dispatch_tables.want(table);
                    table_relocs.push((at as u32, function, reloc, table));
                    continue;
                }
                let resolved = labels.get(&reloc.target).is_some_and(|label| {
                    builder.resolve_reloc(at, reloc.kind, reloc.addend, *label)
                });
                if !resolved {
                    return Err(unresolved(function, reloc, metadata));
                }
            }
            // In range: `TEXT_BYTES` was checked.
            text.place(function, start as u32);
        }
        text.dispatch_tables
            .lay(&mut *builder, tables, &mut control)?;
        text.bytes = builder.finish(&mut control);
        limits::TEXT_BYTES.check(text.bytes.len() as u64)?;
        text.write_offsets(functions, metadata);
        // The stub exists if any dispatch table exists.
        if let Some(stub) = labels.get(&Symbol::Mistyped) {
            let stub = text.entries[*stub].start;
            text.dispatch_tables
                .write(&mut text.bytes, tables, metadata, stub);
        }
        for (at, function, reloc, table) in table_relocs {
            if !text
                .dispatch_tables
                .resolve(&mut text.bytes, at, reloc, table)
            {
                return Err(unresolved(function, reloc, metadata));
            }
        }
        Ok(text)
    }

    fn place(&mut self, function: &CompiledFunction, start: u32) {
        let entry = CodeEntry {
            start,
            len: function.code.len() as u32,
            kind: function.symbol.kind(),
        };
        self.entries.push(entry);
        self.code.extend(entry.encode());
        for (offset, code) in &function.traps {
            let offset = start + offset;
            self.traps.extend(
                TrapEntry {
                    offset,
                    code: *code,
                }
                .encode(),
            );
        }
        for (offset, wasm) in &function.address_map {
            let offset = start + offset;
            self.address_map.extend(
                SiteEntry {
                    offset,
                    wasm: *wasm,
                }
                .encode(),
            );
        }
        for inlined in &function.inlined {
            let placed = InlinedEntry {
                offset: start + inlined.offset,
                ..*inlined
            };
            self.inlined.extend(placed.encode());
        }
        for handler in &function.handlers {
            let placed = HandlerEntry {
                offset: start + handler.offset,
                handler: start + handler.handler,
                ..*handler
            };
            self.handlers.extend(placed.encode());
        }
    }

    /// Writes the offsets of functions and entry trampolines to the metadata.
    fn write_offsets(&self, functions: &[CompiledFunction], metadata: &mut Metadata) {
        metadata.code = vec![0; metadata.funcs.len()];
        let imported = metadata.imported_funcs() as usize;
        let mut imports = HashMap::new();
        metadata.entries = vec![None; metadata.types.len()];
        for (function, entry) in functions.iter().zip(&self.entries) {
            match function.symbol {
                Symbol::Func(index) => metadata.code[index as usize] = entry.start,
                Symbol::Import(ty) => {
                    imports.insert(ty, entry.start);
                }
                Symbol::Entry(ty) => metadata.entries[ty as usize] = Some(entry.start),
                Symbol::Builtin(_) | Symbol::Trap(_) | Symbol::Mistyped | Symbol::Table(_) => {}
            }
        }
        for (code, ty) in metadata.code.iter_mut().zip(&metadata.funcs).take(imported) {
            // Each type of an imported function has a trampoline.
            *code = imports[ty];
        }
    }
}

/// The error for a reference that cannot be resolved.
fn unresolved(
    function: &CompiledFunction,
    reloc: &FunctionReloc,
    metadata: &Metadata,
) -> CompileError {
    let (kind, target) = (reloc.kind, reloc.target.describe(metadata));
    CompileError::Codegen {
        func: function.symbol.describe(metadata),
        message: format!("relocation {kind:?} to {target} cannot be resolved"),
    }
}
