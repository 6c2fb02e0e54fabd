//! Checks that every index of a decoded component is in range, so that readers may index without a
//! check.

use super::{Adapter, CanonicalOptions, Component, Layouts, ValueType};
use crate::error::FormatError;

impl Component {
    /// Checks every index, against the number of functions that the core module imports and the
    /// names that it exports.
    ///
    /// # Errors
    ///
    /// [`FormatError::Damaged`], which names the wrong part.
    pub(crate) fn check(
        &self,
        imported: usize,
        exported: impl Fn(&str) -> bool,
    ) -> Result<(), FormatError> {
        let layouts = Layouts::of(&self.types)?;
        let value = |ty: ValueType| match ty {
            ValueType::Own(table) | ValueType::Borrow(table) => self.check_table(table),
            ty => layouts.value(ty).map(drop),
        };
        self.types.iter().flat_map(values).try_for_each(value)?;
        // Bounds the number of instances by the size of the file: hosts keep handles for each
        // instance.
        let exported = |name: String| match exported(&name) {
            true => Ok(()),
            false => damaged(&format!("the core module exports no \"{name}\"")),
        };
        (0..self.instances)
            .map(super::flags_name)
            .try_for_each(exported)?;
        for func in &self.funcs {
            func.params.iter().map(|(_, ty)| *ty).try_for_each(value)?;
            func.result.into_iter().try_for_each(value)?;
        }
        for import in &self.imports {
            index("type of a function", import.ty, self.funcs.len())?;
        }
        for resource in &self.resources {
            index("instance", resource.instance, self.instances as usize)?;
        }
        let resources = self.imported_resources.len() + self.resources.len();
        for table in self.tables.iter().flatten() {
            index("resource type", table.resource, resources)?;
            index("instance", table.instance, self.instances as usize)?;
        }
        for (number, resource) in self.resources.iter().enumerate() {
            if resource.has_destructor {
                exported(super::destructor_name(number as u32))?;
            }
        }
        for options in &self.options {
            self.check_options(options, &exported)?;
        }
        if self.adapters.len() != imported {
            let adapters = self.adapters.len();
            return damaged(&format!(
                "{adapters} adapters for {imported} imported functions"
            ));
        }
        for adapter in &self.adapters {
            self.check_adapter(*adapter, &exported)?;
        }
        for export in &self.exports {
            index("type of a function", export.ty, self.funcs.len())?;
            index("options", export.options, self.options.len())?;
            exported(export.core.clone())?;
        }
        Ok(())
    }

    fn check_table(&self, table: u32) -> Result<(), FormatError> {
        index("table of handles", table, self.tables.len())?;
        match self.tables[table as usize] {
            Some(_) => Ok(()),
            None => damaged(&format!("table of handles {table} is not defined")),
        }
    }

    fn check_options(
        &self,
        options: &CanonicalOptions,
        exported: &impl Fn(String) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        index("instance", options.instance, self.instances as usize)?;
        let memory = options.memory.map(super::memory_name);
        let realloc = options.realloc.map(super::realloc_name);
        let post_return = options.post_return.map(super::post_return_name);
        let mut names = [memory, realloc, post_return].into_iter().flatten();
        names.try_for_each(exported)
    }

    fn check_adapter(
        &self,
        adapter: Adapter,
        exported: &impl Fn(String) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        match adapter {
            Adapter::Lower {
                import,
                ty,
                options,
            } => {
                index("imported function", import, self.imports.len())?;
                index("type of a function", ty, self.funcs.len())?;
                index("options", options, self.options.len())
            }
            Adapter::ResourceNew(table)
            | Adapter::ResourceRep(table)
            | Adapter::ResourceDrop(table) => self.check_table(table),
            Adapter::Transcode { from, to, .. } => {
                exported(super::memory_name(from))?;
                exported(super::memory_name(to))
            }
            Adapter::TransferOwn
            | Adapter::TransferBorrow
            | Adapter::EnterCall
            | Adapter::ExitCall
            | Adapter::Trap
            | Adapter::CannotLeave
            | Adapter::Allocated => Ok(()),
        }
    }
}

/// The types that a type directly contains.
fn values(ty: &super::DefinedType) -> Vec<ValueType> {
    use super::DefinedType as Ty;
    match ty {
        Ty::Record(fields) => fields.iter().map(|(_, ty)| *ty).collect(),
        Ty::Variant(cases) => cases.iter().filter_map(|(_, ty)| *ty).collect(),
        Ty::Tuple(fields) => fields.clone(),
        Ty::List(ty) | Ty::Option(ty) => vec![*ty],
        Ty::Result(ok, error) => ok.iter().chain(error).copied().collect(),
        Ty::Flags(_) | Ty::Enum(_) => vec![],
    }
}

fn index(what: &str, index: u32, len: usize) -> Result<(), FormatError> {
    match (index as usize) < len {
        true => Ok(()),
        false => damaged(&format!("{what} {index} of {len}")),
    }
}

fn damaged<T>(damage: &str) -> Result<T, FormatError> {
    Err(FormatError::Damaged(format!("component: {damage}")))
}
