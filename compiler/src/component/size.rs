//! Limits of what a small component can become.
//!
//! A component whose parts instantiate each other several times has exponentially many instances,
//! and each instance of a core module becomes code.

use super::join::{unsupported, unsupported_named};
use crate::error::CompileError;
use std::collections::HashSet;
use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentTypeRef, Instance, Parser,
    Payload,
};

/// Most instances of a component, with all instances within them.
const INSTANCES_MAX: u64 = 100_000;

/// Most bytes of core modules that are instantiated again.
const REPEATED_BYTES_MAX: u64 = 64 << 20;

/// Checks the number of instances of a component, before it is read.
///
/// Each instance of a component counts as the largest component before it. So a component whose
/// definition is not before its use is refused.
pub(super) fn check_instances(wasm: &[u8]) -> Result<(), CompileError> {
    // The components and modules that are open, innermost last, with their instances so far.
    let mut open: Vec<u64> = vec![];
    let mut largest = 0u64;
    for payload in Parser::new(0).parse_all(wasm) {
        let instances = match payload? {
            Payload::Version { .. } => {
                open.push(0);
                continue;
            }
            Payload::End(_) => {
                largest = largest.max(open.pop().unwrap_or(0));
                continue;
            }
            Payload::InstanceSection(section) => {
                let mut instances = 0;
                for instance in section {
                    instances += u64::from(matches!(instance?, Instance::Instantiate { .. }));
                }
                instances
            }
            Payload::ComponentInstanceSection(section) => {
                let mut instances = 0u64;
                for instance in section {
                    if let ComponentInstance::Instantiate { .. } = instance? {
                        instances = instances.saturating_add(largest + 1);
                    }
                }
                instances
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import?;
                    if let ComponentTypeRef::Component(_) = import.ty {
                        return Err(unsupported_named("an imported component", import.name.name));
                    }
                }
                0
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    if let ComponentAlias::InstanceExport {
                        kind: ComponentExternalKind::Component,
                        ..
                    } = alias?
                    {
                        return Err(unsupported("a component that an instance exports"));
                    }
                }
                0
            }
            _ => 0,
        };
        if let Some(open) = open.last_mut() {
            *open = open.saturating_add(instances);
            limit("instances", *open, INSTANCES_MAX)?;
        }
    }
    Ok(())
}

/// Counts the bytes of core modules that are instantiated more than once.
#[derive(Default)]
pub(super) struct Repeats {
    known: HashSet<u32>,
    bytes: u64,
}

impl Repeats {
    /// Counts an instance of a core module of this size.
    pub(super) fn count(&mut self, module: u32, bytes: usize) -> Result<(), CompileError> {
        if !self.known.insert(module) {
            self.bytes += bytes as u64;
        }
        let what = "bytes of core modules that are instantiated again";
        limit(what, self.bytes, REPEATED_BYTES_MAX)
    }
}

fn limit(what: &'static str, found: u64, limit: u64) -> Result<(), CompileError> {
    match found <= limit {
        true => Ok(()),
        false => Err(CompileError::Limit { what, found, limit }),
    }
}
