//! How an import of a module is resolved to an export of another instance.
//!
//! # Safety
//!
//! This file owns one fact. Every import that the file resolves points into the slot of a member,
//! the owner, which the caller keeps alive.
#![allow(unsafe_code)]

use super::resolve::{describe, limits_fit, memory_matches, memory_now, mismatch};
use crate::error::LinkError;
use crate::module::{Module, types};
use crate::store::descriptors;
use crate::store::imports::{GlobalImport, Imports, LinkedFunc};
use crate::store::member::Member;
use pirn_format::metadata::{ExportItem, Import};
use pirn_format::types::{ExternType, TableType, ValType};

/// An import that is being resolved to an export of a member.
pub(crate) struct Linked<'a> {
    pub(crate) module: &'a Module,
    pub(crate) import: &'a Import,
    pub(crate) imports: &'a mut Imports,
}

impl Linked<'_> {
    /// Resolves the import, and returns whether it is a function.
    pub(crate) fn member<T>(
        &mut self,
        owner: &Member<T>,
        item: ExportItem,
    ) -> Result<bool, LinkError> {
        let matched = match (self.import.ty, item) {
            (ExternType::Func(ty), ExportItem::Func(index)) => {
                self.func(owner, ty, index).then_some(true)
            }
            (ExternType::Global(wanted), ExportItem::Global(index)) => {
                let found = owner.inner.module.metadata().globals[index as usize];
                let (content, into) = self.numbered(owner, found.content, wanted.content);
                let fits = match (found.mutable, wanted.mutable) {
                    (true, true) => content == into,
                    (false, false) => content.matches(into, types::is_subtype),
                    _ => false,
                };
                fits.then(|| self.global(owner, index, wanted.mutable))
            }
            (ExternType::Table(wanted), ExportItem::Table(index)) => {
                let desc = descriptors::table(owner, index);
                // SAFETY: the descriptor belongs to a table of a member, and no guest runs.
                let now = unsafe { (*desc).elements };
                let found = owner.inner.module.metadata().tables[index as usize];
                let (element, into) = self.numbered(owner, found.element, wanted.element);
                let fits = element == into
                    && found.address == wanted.address
                    && limits_fit(now, found.max, wanted.min, wanted.max);
                fits.then(|| {
                    self.imports.tables.push(desc as u64);
                    false
                })
            }
            (ExternType::Memory(wanted), ExportItem::Memory(index)) => {
                let found = owner.inner.module.metadata().memories[index as usize];
                let desc = descriptors::memory(owner, index);
                // SAFETY: the descriptor belongs to a memory of a member, and no guest runs.
                let now = unsafe { descriptors::bytes_of(desc) };
                memory_matches(&found, now, &wanted).then(|| {
                    self.imports.memories.push(desc as u64);
                    self.imports.shared.push(owner.shared(index));
                    false
                })
            }
            (ExternType::Tag(wanted), ExportItem::Tag(index)) => {
                let module = &owner.inner.module;
                let ty = module.metadata().tags[index as usize];
                let fits =
                    module.type_ids()[ty as usize] == self.module.type_ids()[wanted as usize];
                fits.then(|| {
                    let identity = owner.cell::<u64>(module.layout().tag(index));
                    // SAFETY: the cell holds the identity of a tag of a member: `initialise` wrote
                    // it.
                    self.imports.tags.push(unsafe { *identity });
                    false
                })
            }
            _ => None,
        };
        matched.ok_or_else(|| {
            let found = self.found(owner, item);
            mismatch(
                self.module.metadata(),
                self.import,
                found,
                "export what the module wants",
            )
        })
    }

    /// The found type and the wanted type, with type numbers of the process in place of the indices
    /// of each module.
    fn numbered<T>(
        &self,
        owner: &Member<T>,
        found: ValType,
        wanted: ValType,
    ) -> (ValType, ValType) {
        let number =
            |module: &Module, ty: ValType| ty.renamed(|index| module.type_ids()[index as usize]);
        (
            number(&owner.inner.module, found),
            number(self.module, wanted),
        )
    }

    fn func<T>(&mut self, owner: &Member<T>, ty: u32, index: u32) -> bool {
        let Some((target, type_id)) = owner.linked(index) else {
            return false;
        };
        if !types::is_subtype(type_id, self.module.type_ids()[ty as usize]) {
            return false;
        }
        self.imports.funcs.push(Some(LinkedFunc {
            code: target.code as u64,
            vmctx: target.vmctx as u64,
            type_id,
        }));
        true
    }

    fn global<T>(&mut self, owner: &Member<T>, index: u32, mutable: bool) -> bool {
        let cell = owner.global_cell(index);
        self.imports.globals.push(if mutable {
            GlobalImport::At(cell as u64)
        } else {
            // SAFETY: the cell belongs to a global of a member, and no guest runs.
            GlobalImport::Value(unsafe { *cell })
        });
        false
    }

    /// Describes the export in words, with its current size.
    fn found<T>(&self, owner: &Member<T>, item: ExportItem) -> String {
        let metadata = owner.inner.module.metadata();
        let ty = match item {
            ExportItem::Func(i) => ExternType::Func(metadata.funcs[i as usize]),
            ExportItem::Table(i) => ExternType::Table(TableType {
                // SAFETY: the descriptor belongs to a table of a member, and no guest runs.
                min: unsafe { (*descriptors::table(owner, i)).elements },
                ..metadata.tables[i as usize]
            }),
            ExportItem::Memory(i) => {
                let ty = metadata.memories[i as usize];
                // SAFETY: the descriptor belongs to a memory of a member, and no guest runs.
                let bytes = unsafe { descriptors::bytes_of(descriptors::memory(owner, i)) };
                ExternType::Memory(memory_now(ty, bytes))
            }
            ExportItem::Global(i) => ExternType::Global(metadata.globals[i as usize]),
            ExportItem::Tag(i) => ExternType::Tag(metadata.tags[i as usize]),
        };
        describe(metadata, &ty)
    }
}
