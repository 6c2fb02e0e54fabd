//! [`Portable`]: the bodies of intrinsics where there is no instruction for them.
//!
//! They are WebAssembly, made of `portable.c` by `portable.sh`, and translated as a guest's functions are. The
//! module that they come in is never instantiated: a body works on its parameters alone.

use crate::error::CompileError;
use crate::parse::{self, Body, ParsedModule};
use pirn_format::metadata::{ExportItem, Metadata};

const WASM: &[u8] = include_bytes!("portable.wasm");

/// The module of the bodies.
pub(crate) struct Portable {
    parsed: ParsedModule<'static>,
}

impl Portable {
    /// # Errors
    ///
    /// None, unless the module were damaged.
    pub(crate) fn new() -> Result<Self, CompileError> {
        let parsed = parse::parse(WASM)?;
        Ok(Self { parsed })
    }

    /// What the bodies are translated against.
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
    use crate::hw::Id;
    use wasmparser::Operator;

    #[test]
    fn every_intrinsic_has_a_body_of_its_type() {
        let portable = Portable::new().expect("it is valid");
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

    /// In the module of a guest its memory, globals, tables and functions are others.
    #[test]
    fn bodies_work_on_their_parameters_alone() {
        let portable = Portable::new().expect("it is valid");
        for body in &portable.parsed.bodies {
            let operators = body.body.get_operators_reader().expect("operators");
            for op in operators {
                let op = op.expect("an operator");
                let name = format!("{op:?}");
                let parts = [
                    "Memory", "Table", "Call", "Global", "Ref", "Load", "Store", "Data", "Elem",
                ];
                assert!(!parts.iter().any(|part| name.contains(part)), "{name}");
                // A time that tells a value would be by a branch on it; loops count.
                assert!(
                    !matches!(op, Operator::If { .. } | Operator::BrTable { .. }),
                    "{name}"
                );
            }
        }
    }
}
