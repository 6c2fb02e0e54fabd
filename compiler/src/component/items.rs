//! The items of a core module that each of its instances has again in the joined module.

use super::price;
use super::shape::{Module, names};
use crate::error::CompileError;
use wasmparser::{CompositeInnerType, DataKind, ElementItems, ElementKind, Payload};

/// Adds the nodes of the imports and exports in a section of a core module, and the items that each
/// instance has.
pub(super) fn count(module: &mut Module, payload: Payload<'_>) -> Result<(), CompileError> {
    module.items += match payload {
        Payload::TypeSection(section) => {
            let mut items = 0;
            for group in section {
                for ty in group?.types() {
                    let values = match &ty.composite_type.inner {
                        CompositeInnerType::Func(ty) => ty.params().len() + ty.results().len(),
                        CompositeInnerType::Struct(ty) => ty.fields.len(),
                        _ => 0,
                    };
                    items += 1 + values as u64 / price::VALUES_PER_ITEM;
                }
            }
            items
        }
        Payload::ImportSection(section) => {
            for import in section.into_imports() {
                let import = import?;
                module.nodes += 1 + names([import.module, import.name]);
            }
            0
        }
        Payload::ExportSection(section) => {
            for export in section {
                module.nodes += 1 + names([export?.name]);
            }
            0
        }
        Payload::ElementSection(section) => {
            let mut items = 0;
            for segment in section {
                let segment = segment?;
                items += match segment.kind {
                    ElementKind::Active { .. } => price::ITEMS_PER_SEGMENT,
                    ElementKind::Passive | ElementKind::Declared => 1,
                };
                items += u64::from(match segment.items {
                    ElementItems::Functions(items) => items.count(),
                    ElementItems::Expressions(_, items) => items.count(),
                });
            }
            items
        }
        Payload::DataSection(section) => {
            let mut items = 0;
            for segment in section {
                items += match segment?.kind {
                    DataKind::Active { .. } => price::ITEMS_PER_SEGMENT,
                    DataKind::Passive => 1,
                };
            }
            items
        }
        Payload::FunctionSection(section) => u64::from(section.count()) * price::ITEMS_PER_FUNCTION,
        Payload::TableSection(section) => section.count().into(),
        Payload::MemorySection(section) => section.count().into(),
        Payload::TagSection(section) => section.count().into(),
        Payload::GlobalSection(section) => section.count().into(),
        Payload::CustomSection(section) if section.name() == "name" => {
            section.data().len() as u64 / price::NAMING_BYTES
        }
        _ => 0,
    };
    Ok(())
}
