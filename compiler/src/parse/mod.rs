//! [`ParsedModule`]: the description of a validated module, ready for the translation of its
//! functions.

mod constant;
mod features;
pub(crate) mod hints;
mod names;
pub(crate) mod text;
pub(crate) mod types;

use crate::debug;
use crate::error::CompileError;
use crate::intrinsics;
use crate::intrinsics::imports::{Imports, Provided};
use crate::intrinsics::known::Known;
use crate::limits;
use features::FEATURES;
use pirn_format::layout::InstanceLayout;
use pirn_format::metadata::{
    ConstExpr, DataSegment, ElementItems, ElementSegment, Export, ExportItem, Import, Metadata,
    SegmentMode,
};
use pirn_format::types::{CompositeKind, ExternType, Layouts};
use types::{global_type, memory_type, table_type};
use wasmparser::{
    BranchHint, FuncToValidate, FunctionBody, KnownCustom, Parser, Payload, SectionLimited,
    ValidPayload, Validator, ValidatorResources,
};

/// A module whose sections, except the function bodies, are validated and described.
pub(crate) struct ParsedModule<'a> {
    /// The description. `code` and `entries` are empty until the module is linked. Data segments
    /// keep their own modes; their `start` and `len` refer to the concatenation of
    /// [`data`](Self::data). `tables_change` says only whether the host can change a table:
    /// [`analysis`](crate::analysis) examines the function bodies.
    pub(crate) metadata: Metadata,
    /// The layout of the instance area.
    pub(crate) layout: InstanceLayout,
    /// The bytes of each data segment, in order.
    pub(crate) data: Vec<&'a [u8]>,
    /// The imported intrinsics and known functions, which have no bodies here. In the index space,
    /// these functions follow the host's imports.
    pub(crate) intrinsics: Imports,
    /// The field offsets of the module's structs.
    pub(crate) structs: Layouts,
    /// The bodies of all other functions, in order.
    pub(crate) bodies: Vec<Body<'a>>,
    /// Debug information, not parsed yet.
    pub(crate) debug: debug::Sections<'a>,
}

/// The body of one defined function, not yet validated.
pub(crate) struct Body<'a> {
    /// Index of the function; imported functions count.
    pub(crate) index: u32,
    /// The locals and operators of the function.
    pub(crate) body: FunctionBody<'a>,
    /// The validator for the body.
    pub(crate) validate: FuncToValidate<ValidatorResources>,
    /// The branch hints of the function, if the module has any.
    pub(crate) hints: Option<SectionLimited<'a, BranchHint>>,
}

impl Body<'_> {
    /// A copy of this body, to translate it again.
    pub(crate) fn again(&self) -> Self {
        Self {
            index: self.index,
            body: self.body.clone(),
            validate: FuncToValidate {
                resources: self.validate.resources.clone(),
                ..self.validate
            },
            hints: self.hints.clone(),
        }
    }
}

/// Parses and validates everything except the function bodies.
///
/// # Errors
///
/// [`CompileError::Invalid`] if the bytes are not a valid module, [`CompileError::Limit`] if the
/// module is too large.
pub(crate) fn parse(wasm: &[u8]) -> Result<ParsedModule<'_>, CompileError> {
    limits::MODULE_BYTES.check(wasm.len() as u64)?;
    let mut validator = Validator::new_with_features(FEATURES);
    let mut builder = Builder::default();
    let mut parser = Parser::new(0);
    // The encoding of operators depends on the features as well.
    parser.set_features(FEATURES);
    // Computed once, at the first body: a module may have a million imports and as many bodies.
    let mut imported = None;
    for payload in parser.parse_all(wasm) {
        let payload = payload?;
        let valid = validator.payload(&payload)?;
        if let ValidPayload::Func(validate, body) = valid {
            let imported = imported.get_or_insert_with(|| {
                builder.metadata.imported_funcs() + builder.intrinsics.len()
            });
            let index = *imported + builder.bodies.len() as u32;
            builder.bodies.push(Body {
                index,
                body,
                validate,
                hints: builder.hints.take(index),
            });
        } else {
            builder.section(payload)?;
        }
    }
    builder.finish(validator)
}

/// The state while the sections of a module are read.
#[derive(Default)]
struct Builder<'a> {
    metadata: Metadata,
    /// The kind of each type.
    kinds: Vec<CompositeKind>,
    intrinsics: Imports,
    data: Vec<&'a [u8]>,
    bodies: Vec<Body<'a>>,
    debug: debug::Sections<'a>,
    hints: hints::HintSection<'a>,
    /// Indices of functions that can be referred to.
    address_taken: Vec<u32>,
    exports_table: bool,
}

impl<'a> Builder<'a> {
    /// Describes one section. Longer than other functions: it has an arm for each section.
    fn section(&mut self, payload: Payload<'a>) -> Result<(), CompileError> {
        let m = &mut self.metadata;
        match payload {
            Payload::TypeSection(types) => {
                self.kinds = types::kinds(types.clone())?;
                types::read(types, &self.kinds, m)?;
            }
            Payload::ImportSection(imports) => {
                let mut funcs = vec![];
                for import in imports.into_imports() {
                    self.import(&import?, &mut funcs)?;
                }
                self.own(&funcs)?;
            }
            Payload::FunctionSection(funcs) => {
                for ty in funcs {
                    m.funcs.push(ty?);
                }
            }
            Payload::TableSection(tables) => {
                for table in tables {
                    let table = table?;
                    m.tables.push(table_type(&table.ty, &self.kinds)?);
                    let init = match &table.init {
                        wasmparser::TableInit::RefNull => None,
                        wasmparser::TableInit::Expr(init) => Some(constant::expr(
                            init,
                            &self.intrinsics,
                            &mut self.address_taken,
                        )?),
                    };
                    m.table_inits.push(init);
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    m.memories.push(memory_type(&memory?)?);
                }
            }
            Payload::TagSection(tags) => {
                for tag in tags {
                    m.tags.push(tag?.func_type_idx);
                }
            }
            Payload::GlobalSection(globals) => {
                for global in globals {
                    let global = global?;
                    m.globals.push(global_type(&global.ty, &self.kinds)?);
                    let init = constant::expr(
                        &global.init_expr,
                        &self.intrinsics,
                        &mut self.address_taken,
                    )?;
                    m.global_inits.push(init);
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    self.export(&export?)?;
                }
            }
            Payload::StartSection { func, .. } => {
                let func = self.intrinsics.index(func);
                m.start = Some(func);
                self.address_taken.push(func);
            }
            Payload::ElementSection(elements) => {
                for element in elements {
                    let element = self.element(element?)?;
                    self.metadata.elements.push(element);
                }
            }
            Payload::DataSection(segments) => {
                for segment in segments {
                    self.data_segment(&segment?)?;
                }
            }
            Payload::CodeSectionStart {
                unchecked_range, ..
            } => {
                // In range, unless the section ends after the module; then the bodies are refused.
                self.debug.code = unchecked_range.start as u32..unchecked_range.end as u32;
            }
            Payload::CustomSection(section) => {
                self.debug.note(section.name(), section.data());
                match section.as_known() {
                    KnownCustom::Name(names) => names::read(names, m),
                    KnownCustom::BranchHints(hints) => self.hints.note(hints),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Records an import. For a function, adds to `funcs` the function that the compiler provides
    /// in its place, or `None`.
    fn import(
        &mut self,
        import: &wasmparser::Import<'_>,
        funcs: &mut Vec<Option<(u32, Provided)>>,
    ) -> Result<(), CompileError> {
        let m = &mut self.metadata;
        if import.module == intrinsics::MODULE {
            let declared = match import.ty {
                wasmparser::TypeRef::Func(ty) => Ok(ty),
                wasmparser::TypeRef::Table(_) => Err("a table"),
                wasmparser::TypeRef::Memory(_) => Err("a memory"),
                wasmparser::TypeRef::Global(_) => Err("a global"),
                _ => Err("something else"),
            };
            let ty = declared.and_then(|ty| match m.kind(ty) {
                Some(CompositeKind::Func) => Ok(m.func_type(ty)),
                _ => Err("a function of no type"),
            });
            let intrinsic = intrinsics::imports::find(import.name, ty)?;
            funcs.push(declared.ok().map(|ty| (ty, Provided::Intrinsic(intrinsic))));
            return Ok(());
        }
        let ty = match import.ty {
            wasmparser::TypeRef::Func(ty) => {
                if let Some(known) = known(m, import, ty) {
                    funcs.push(Some((ty, Provided::Known(known))));
                    return Ok(());
                }
                m.funcs.push(ty);
                funcs.push(None);
                ExternType::Func(ty)
            }
            wasmparser::TypeRef::Table(ty) => {
                let ty = table_type(&ty, &self.kinds)?;
                m.tables.push(ty);
                ExternType::Table(ty)
            }
            wasmparser::TypeRef::Memory(ty) => {
                let ty = memory_type(&ty)?;
                m.memories.push(ty);
                ExternType::Memory(ty)
            }
            wasmparser::TypeRef::Global(ty) => {
                let ty = global_type(&ty, &self.kinds)?;
                m.globals.push(ty);
                ExternType::Global(ty)
            }
            wasmparser::TypeRef::Tag(ty) => {
                m.tags.push(ty.func_type_idx);
                ExternType::Tag(ty.func_type_idx)
            }
            wasmparser::TypeRef::FuncExact(_) => {
                return Err(unsupported("an import of an exact function"));
            }
        };
        m.imports.push(Import {
            module: import.module.to_owned(),
            name: import.name.to_owned(),
            ty,
        });
        Ok(())
    }

    /// Appends provided functions to the functions of the module, after the host's imports.
    fn own(&mut self, funcs: &[Option<(u32, Provided)>]) -> Result<(), CompileError> {
        limits::INTRINSICS.check(funcs.iter().flatten().count() as u64)?;
        let provided = funcs.iter().map(|func| func.map(|(_, provided)| provided));
        self.intrinsics = Imports::new(&provided.collect::<Vec<_>>());
        let types = funcs.iter().flatten().map(|(ty, _)| *ty);
        self.metadata.funcs.extend(types);
        Ok(())
    }

    fn export(&mut self, export: &wasmparser::Export<'_>) -> Result<(), CompileError> {
        use wasmparser::ExternalKind;
        let index = export.index;
        let item = match export.kind {
            ExternalKind::Func => {
                let index = self.intrinsics.index(index);
                self.address_taken.push(index);
                ExportItem::Func(index)
            }
            ExternalKind::Table => {
                self.exports_table = true;
                ExportItem::Table(index)
            }
            ExternalKind::Memory => ExportItem::Memory(index),
            ExternalKind::Global => ExportItem::Global(index),
            ExternalKind::Tag => ExportItem::Tag(index),
            _ => return Err(unsupported("an export of an exact function")),
        };
        self.metadata.exports.push(Export {
            name: export.name.to_owned(),
            item,
        });
        Ok(())
    }

    fn element(
        &mut self,
        element: wasmparser::Element<'a>,
    ) -> Result<ElementSegment, CompileError> {
        use wasmparser::ElementKind;
        let mode = match &element.kind {
            ElementKind::Passive => SegmentMode::Passive,
            ElementKind::Declared => SegmentMode::Done,
            ElementKind::Active {
                table_index,
                offset_expr,
            } => SegmentMode::Active {
                index: table_index.unwrap_or(0),
                offset: constant::expr(offset_expr, &self.intrinsics, &mut self.address_taken)?,
            },
        };
        let items = match element.items {
            wasmparser::ElementItems::Functions(funcs) => {
                let funcs = funcs.into_iter();
                let funcs = funcs.map(|func| func.map(|func| self.intrinsics.index(func)));
                let funcs = funcs.collect::<Result<Vec<_>, _>>()?;
                self.address_taken.extend(&funcs);
                ElementItems::Funcs(funcs)
            }
            wasmparser::ElementItems::Expressions(_, exprs) => {
                let exprs = exprs.into_iter();
                let exprs = exprs
                    .map(|expr| constant::expr(&expr?, &self.intrinsics, &mut self.address_taken));
                ElementItems::Exprs(exprs.collect::<Result<_, _>>()?)
            }
        };
        Ok(ElementSegment { mode, items })
    }

    fn data_segment(&mut self, segment: &wasmparser::Data<'a>) -> Result<(), CompileError> {
        let mode = match &segment.kind {
            wasmparser::DataKind::Passive => SegmentMode::Passive,
            wasmparser::DataKind::Active {
                memory_index,
                offset_expr,
            } => SegmentMode::Active {
                index: *memory_index,
                offset: constant::expr(offset_expr, &self.intrinsics, &mut self.address_taken)?,
            },
        };
        let start = self.metadata.data.last().map_or(0, |d| d.start + d.len);
        self.metadata.data.push(DataSegment {
            mode,
            start,
            // In range: the module's size is limited.
            len: segment.data.len() as u32,
        });
        self.data.push(segment.data);
        Ok(())
    }

    fn finish(mut self, _: Validator) -> Result<ParsedModule<'a>, CompileError> {
        self.name_funcs();
        self.address_taken.sort_unstable();
        self.address_taken.dedup();
        self.intrinsics.check_address_taken(&self.address_taken)?;
        self.metadata.address_taken = self.address_taken;
        self.metadata.tables_change = self.exports_table || self.metadata.imported_tables() > 0;
        self.metadata.heap = constants_allocate(&self.metadata);
        let Some(layout) = self.metadata.layout() else {
            return limits::INSTANCE_AREA_BYTES.exceeded();
        };
        let structs = Layouts::new(&self.metadata.types);
        Ok(ParsedModule {
            metadata: self.metadata,
            layout,
            intrinsics: self.intrinsics,
            structs,
            data: self.data,
            bodies: self.bodies,
            debug: self.debug,
        })
    }

    /// Assigns the names of the name section to functions.
    fn name_funcs(&mut self) {
        let (names, intrinsics) = (&mut self.metadata.func_names, &self.intrinsics);
        // The validator does not check the name section, so it may name functions that do not
        // exist.
        let funcs = self.metadata.funcs.len() as u32;
        names.retain(|(index, _)| *index < funcs);
        for (index, _) in names.iter_mut() {
            *index = intrinsics.index(*index);
        }
        names.retain(|(index, _)| intrinsics.provided(*index).is_none());
        let own = intrinsics.iter();
        names.extend(own.map(|(index, provided)| (index, provided.full_name())));
        names.sort_by_key(|(index, _)| *index);
    }
}

/// The known function that replaces an imported function of this type.
fn known(metadata: &Metadata, import: &wasmparser::Import<'_>, ty: u32) -> Option<Known> {
    let is_func = matches!(metadata.kind(ty), Some(CompositeKind::Func));
    is_func.then(|| Known::find(import.module, import.name, metadata.func_type(ty)))?
}

/// The error for an unsupported feature. With [`FEATURES`], the validator rejects such modules;
/// this error is a second line of defence.
fn unsupported(what: &str) -> CompileError {
    CompileError::Invalid {
        message: format!("{what} is not supported"),
        offset: 0,
    }
}

/// Whether constant expressions of the module allocate objects in each instance.
fn constants_allocate(metadata: &Metadata) -> bool {
    let elements = metadata
        .elements
        .iter()
        .flat_map(|segment| match &segment.items {
            ElementItems::Funcs(_) => &[],
            ElementItems::Exprs(exprs) => exprs.as_slice(),
        });
    let tables = metadata.table_inits.iter().flatten();
    let mut all = tables.chain(&metadata.global_inits).chain(elements);
    all.any(ConstExpr::allocates)
}
