//! [`Portable`]: the bodies of intrinsics for processors without the instructions.
//!
//! The bodies are WebAssembly, built from `intrinsics/portable.c` by `intrinsics/portable.sh`, and
//! are translated like a guest's functions. The module that contains them is never instantiated,
//! because a body uses only its parameters.

use crate::error::CompileError;
use crate::parse::{self, Body, ParsedModule};
use pirn_format::metadata::{ExportItem, Metadata};

const WASM: &[u8] = include_bytes!("../intrinsics/portable.wasm");

/// The module of the bodies.
pub(crate) struct Portable {
    parsed: ParsedModule<'static>,
}

impl Portable {
    /// # Errors
    ///
    /// None, unless the module is damaged.
    pub(crate) fn new() -> Result<Self, CompileError> {
        let parsed = parse::parse(WASM)?;
        Ok(Self { parsed })
    }

    /// The module, for the translation of its bodies.
    pub(crate) fn module(&self) -> &ParsedModule<'static> {
        &self.parsed
    }

    /// The body of an intrinsic.
    pub(crate) fn body(&self, name: &str) -> Option<Body<'static>> {
        let ParsedModule {
            metadata, bodies, ..
        } = &self.parsed;
        let index = exported(metadata, name)?;
        let body = bodies.iter().find(|body| body.index == index)?;
        Some(body.again())
    }
}

fn exported(metadata: &Metadata, name: &str) -> Option<u32> {
    let export = metadata.exports.iter().find(|export| export.name == name)?;
    match export.item {
        ExportItem::Func(index) => Some(index),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intrinsics::Id;
    use wasmparser::Operator;

    #[test]
    fn every_intrinsic_has_a_body_of_its_type() {
        let portable = Portable::new().expect("the module is valid");
        let metadata = &portable.parsed.metadata;
        for id in Id::all() {
            let intrinsic = id.get();
            let body = portable.body(intrinsic.name).expect(intrinsic.name);
            let ty = metadata.funcs[body.index as usize];
            assert_eq!(
                *metadata.func_type(ty),
                intrinsic.ty(),
                "{}",
                intrinsic.name
            );
        }
        assert_eq!(metadata.imports.len(), 0);
        assert_eq!(
            metadata.funcs.len(),
            Id::all().count(),
            "no other functions"
        );
    }

    /// A body is compiled into a guest's module, which has other memories, globals, tables and
    /// functions.
    #[test]
    fn bodies_work_on_their_parameters_alone() {
        let portable = Portable::new().expect("the module is valid");
        for body in &portable.parsed.bodies {
            let operators = body.body.get_operators_reader().expect("operators");
            for op in operators {
                let op = op.expect("an operator");
                let name = format!("{op:?}");
                let parts = [
                    "Memory", "Table", "Call", "Global", "Ref", "Load", "Store", "Data", "Elem",
                ];
                assert!(!parts.iter().any(|part| name.contains(part)), "{name}");
                // A branch on a value would make the time depend on the value. Loops have a fixed
                // count.
                assert!(
                    !matches!(op, Operator::If { .. } | Operator::BrTable { .. }),
                    "{name}"
                );
            }
        }
    }
}
