//! [`Module`]: the tables of a compiled module, as the verifier looks them up.

use crate::abi::{Convention, Places};
use crate::error::{Proof, Property, Refusal, VerifyError, refuse};
use pirn_format::FormatError;
use pirn_format::cpu::CpuFeatures;
use pirn_format::exit::{Builtin, TrapCode};
use pirn_format::layout::{
    CONTEXT_BYTES, CONTEXT_COPY, CONTEXT_EXCEPTION_TAG, CONTEXT_EXCEPTION_VALUES, CONTEXT_EXIT,
    CONTEXT_FILL, CONTEXT_FUEL, CONTEXT_HOST_CALL, CONTEXT_MEMORY, Counts, FuncRef, GLOBAL_BYTES,
    IMPORT_CODE, IMPORT_HOST, IMPORT_INSTANCE, IMPORT_VMCTX, InstanceLayout, MEMORY_BASE,
    MEMORY_BYTES, TABLE_BASE, TABLE_ELEMENTS,
};
use pirn_format::metadata::{Imported, Metadata};
use pirn_format::read::{Checked, slice};
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeKind, CodeTable, HandlerTable, TrapTable};
use pirn_format::types::{CompositeKind, Layouts, Subtypes};
use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;

/// The meaning of a word of the instance area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A byte of the value of a global.
    Global {
        index: u32,
        byte: u32,
    },
    TableBase(u32),
    TableLen(u32),
    /// The address of the descriptor of an imported table.
    TableDesc(u32),
    MemoryBase(u32),
    MemoryBytes,
    /// The address of the descriptor of an imported memory.
    MemoryDesc(u32),
    ImportCode(u32),
    ImportContext(u32),
    ImportInstance(u32),
    ImportHost(u32),
    TypeId(u32),
    TagId(u32),
    Fuel,
    Exit,
    HostCall,
    /// A routine that copies or fills memory 0.
    Bulk,
    ExceptionTag,
    ExceptionValues,
}

pub(crate) struct Module<'a> {
    pub(crate) text: &'a [u8],
    /// The features that a processor must have, and the code may use.
    pub(crate) cpu: CpuFeatures,
    pub(crate) code: CodeTable<'a>,
    pub(crate) traps: TrapTable<'a>,
    pub(crate) handlers: HandlerTable<'a>,
    pub(crate) metadata: &'a Metadata,
    pub(crate) layout: &'a InstanceLayout,
    pub(crate) subtypes: Subtypes<'a>,
    pub(crate) imported: Imported,
    /// Offsets of the fields of structs.
    pub(crate) structs: Layouts,
    /// Whether code can use structs, arrays, references to them, or the table of types.
    pub(crate) has_objects: bool,
    /// End of the last function. Dispatch tables follow it.
    pub(crate) code_end: u32,
    /// Text offsets of trap stubs that are proven for any value of their argument.
    pub(crate) plain_stubs: HashSet<u32>,
    /// Places of parameters and results, by type index. The last entry, without values, is for
    /// indices out of range.
    places: Vec<OnceLock<Places>>,
    /// Words of work of all functions that were walked so far, see `Walk::spend`.
    pub(crate) work: AtomicUsize,
}

impl<'a> Module<'a> {
    /// Looks up the tables of a checked file. Also checks that the code table names code that
    /// exists.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Format`] if `checked` is of another file, [`VerifyError::Refused`] for an
    /// entry of the code table that names no function, type, builtin or trap.
    pub(crate) fn new(file: &'a [u8], checked: &'a Checked) -> Result<Self, VerifyError> {
        let module = Self::tables(file, checked).ok_or_else(|| {
            let why = "its sections are not where its header says, or its text has 2 GiB or more";
            let why = why.to_owned();
            VerifyError::Format(FormatError::NotAModule(why))
        })?;
        match module.code.iter().find(|entry| !module.exists(*entry)) {
            None => Ok(module),
            Some(entry) => Err(VerifyError::Refused(Refusal {
                property: Property::Targets,
                code: entry.kind,
                offset: entry.start,
                message: "the code table names code that does not exist in the module".to_owned(),
            })),
        }
    }

    fn tables(file: &'a [u8], checked: &'a Checked) -> Option<Self> {
        let bytes = |section: Section| slice(file, checked.header.section(section));
        let text = bytes(Section::Text).filter(|text| i32::try_from(text.len()).is_ok())?;
        let code = CodeTable::new(bytes(Section::Code)?)?;
        let code_end = code.iter().map(|entry| entry.start + entry.len).max();
        Some(Self {
            text,
            cpu: checked.header.cpu,
            code,
            traps: TrapTable::new(bytes(Section::Traps)?)?,
            handlers: HandlerTable::new(bytes(Section::Handlers)?)?,
            metadata: &checked.metadata,
            layout: &checked.layout,
            subtypes: checked.metadata.subtypes(),
            imported: checked.metadata.imported(),
            structs: Layouts::new(&checked.metadata.types),
            has_objects: checked.metadata.heap
                || checked.metadata.has_object_types()
                || has_type_rows(&checked.metadata),
            code_end: code_end.unwrap_or(0),
            plain_stubs: HashSet::new(),
            places: vec![OnceLock::new(); checked.metadata.types.len() + 1],
            work: AtomicUsize::new(0),
        })
    }

    /// The places of the parameters and results of the function type with this index.
    pub(crate) fn places(&self, abi: &Convention, ty: u32) -> &Places {
        let last = self.places.len() - 1;
        let of = || Places::of(abi, self.metadata.func_type(ty));
        self.places[last.min(ty as usize)].get_or_init(of)
    }

    /// Whether the function, type, builtin or trap exists that an entry of the code table names.
    fn exists(&self, entry: CodeEntry) -> bool {
        let metadata = self.metadata;
        let is_func_type = |ty| metadata.kind(ty) == Some(CompositeKind::Func);
        match entry.kind {
            CodeKind::Func(index) => {
                index >= self.imported.funcs
                    && metadata.code.get(index as usize) == Some(&entry.start)
            }
            CodeKind::Import(ty) | CodeKind::Entry(ty) => is_func_type(ty),
            CodeKind::Builtin(number) => Builtin::from_number(number).is_some(),
            CodeKind::Trap(number) => TrapCode::from_number(number).is_some(),
        }
    }

    /// The entry of the code that starts at a text offset.
    pub(crate) fn entry(&self, offset: u32) -> Option<CodeEntry> {
        self.code.find(offset).filter(|entry| entry.start == offset)
    }

    /// Whether the module defines a memory, whose base is the context's end.
    pub(crate) fn has_own_memory(&self) -> bool {
        self.metadata.memories.len() > self.imported.memories as usize
    }

    /// Refuses code that changes a table if the metadata says that no table changes. The runtime
    /// does not reset such tables, so the slot's next instance would see the change.
    pub(crate) fn changes_tables(&self) -> Proof<()> {
        match self.metadata.tables_change {
            true => Ok(()),
            false => refuse(
                Property::Accesses,
                "changes a table, and the metadata says that no table changes",
            ),
        }
    }

    /// The 32-bit word of the text at an offset.
    pub(crate) fn word(&self, offset: u32) -> Option<u32> {
        let bytes = self.text.get(offset as usize..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// The meaning of the bytes at a negative offset from the context's end.
    pub(crate) fn cell(&self, offset: i32, bytes: u32) -> Option<Cell> {
        if offset >= -(CONTEXT_BYTES as i32) {
            return self.context_field(offset, bytes);
        }
        let Counts {
            globals,
            tables,
            memories,
            imported_funcs,
            types,
            tags,
            ..
        } = self.layout.counts();
        let imported = self.imported;
        let within = |count: u32, cell: &dyn Fn(u32) -> i32, cell_bytes: u32| {
            let last = count.checked_sub(1)?;
            let (high, low) = (cell(0) + cell_bytes as i32, cell(last));
            if offset < low || offset >= high {
                return None;
            }
            let index = (high - 1 - offset) as u32 / cell_bytes;
            let byte = (offset - cell(index)) as u32;
            (byte + bytes <= cell_bytes).then_some((index, byte))
        };
        let layout = self.layout;
        if let Some((index, byte)) = within(globals, &|i| layout.global(i), GLOBAL_BYTES) {
            return Some(Cell::Global { index, byte });
        }
        if let Some((index, byte)) = within(tables, &|i| layout.table(i), 16) {
            return match (index < imported.tables, byte as i32, bytes) {
                (true, 0, 8) => Some(Cell::TableDesc(index)),
                (false, TABLE_BASE, 8) => Some(Cell::TableBase(index)),
                (false, TABLE_ELEMENTS, 8) => Some(Cell::TableLen(index)),
                _ => None,
            };
        }
        if let Some((index, byte)) = within(memories, &|i| layout.memory(i), 16) {
            let further = index > imported.memories;
            return match (byte as i32, bytes) {
                (0, 8) if index < imported.memories => Some(Cell::MemoryDesc(index)),
                (MEMORY_BASE, 8) if further => Some(Cell::MemoryBase(index)),
                (MEMORY_BYTES, 8) if further => Some(Cell::MemoryBytes),
                _ => None,
            };
        }
        if let Some((index, byte)) = within(imported_funcs, &|i| layout.import(i), 32) {
            return match (byte as i32, bytes) {
                (IMPORT_CODE, 8) => Some(Cell::ImportCode(index)),
                (IMPORT_VMCTX, 8) => Some(Cell::ImportContext(index)),
                (IMPORT_INSTANCE, 8) => Some(Cell::ImportInstance(index)),
                (IMPORT_HOST, 8) => Some(Cell::ImportHost(index)),
                _ => None,
            };
        }
        if let Some((index, 0)) = within(types, &|i| layout.type_id(i), 4) {
            return (bytes == 4).then_some(Cell::TypeId(index));
        }
        if let Some((index, 0)) = within(tags, &|i| layout.tag(i), 8) {
            return (bytes == 8).then_some(Cell::TagId(index));
        }
        None
    }

    fn context_field(&self, offset: i32, bytes: u32) -> Option<Cell> {
        const BASE: i32 = CONTEXT_MEMORY + MEMORY_BASE;
        const BYTES: i32 = CONTEXT_MEMORY + MEMORY_BYTES;
        let first = self.imported.memories;
        if bytes != 8 {
            return None;
        }
        Some(match offset {
            CONTEXT_FUEL if self.metadata.fuel => Cell::Fuel,
            CONTEXT_EXIT => Cell::Exit,
            CONTEXT_HOST_CALL => Cell::HostCall,
            CONTEXT_COPY | CONTEXT_FILL => Cell::Bulk,
            CONTEXT_EXCEPTION_TAG => Cell::ExceptionTag,
            CONTEXT_EXCEPTION_VALUES => Cell::ExceptionValues,
            BASE => Cell::MemoryBase(first),
            BYTES => Cell::MemoryBytes,
            _ => return None,
        })
    }

    /// The function whose record contains this offset, and the offset within the record.
    pub(crate) fn function_record(&self, offset: i32) -> Option<(u32, i32)> {
        const RECORD: i32 = size_of::<FuncRef>() as i32;
        let count = self.layout.counts().address_taken_funcs;
        let high = count.checked_sub(1).map(|_| self.layout.funcref(0))? + RECORD;
        let distance = high.checked_sub(offset)?.checked_sub(1)?;
        let position = u32::try_from(distance / RECORD)
            .ok()
            .filter(|_| distance >= 0)?;
        let function = self.metadata.address_taken.get(position as usize)?;
        Some((*function, RECORD - 1 - distance % RECORD))
    }

    /// The function whose record starts at this offset.
    pub(crate) fn function_at(&self, offset: i32) -> Option<u32> {
        self.function_record(offset)
            .and_then(|(function, byte)| (byte == 0).then_some(function))
    }
}

/// Whether a module has a type that is not final. Otherwise, the table of types may not exist.
pub(crate) fn has_type_rows(metadata: &Metadata) -> bool {
    metadata.types.iter().any(|ty| !ty.is_final)
}
