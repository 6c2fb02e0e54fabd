//! [`Module`]: a compiled module, checked and mapped.

mod error;
mod load;
pub(crate) mod types;

use crate::sys;
use crate::sys::fork_lock::{self, ForkLock, Rank};
use crate::value::{FuncType, GlobalType, MemoryType, TableType};
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};
pub use error::OpenError;
use load::Loaded;
use once_cell::race::OnceBox;
use pirn_format::image::ImageRun;
use pirn_format::layout::{IMAGE_PAGE_BYTES, InstanceLayout};
use pirn_format::metadata::{ExportItem, Imported, Metadata};
use pirn_format::sections::Section;
use pirn_format::traps::{CodeTable, HandlerTable, SiteTable};
use pirn_format::types::{ExternType as FormatType, Layouts};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

/// A compiled module, checked and mapped. A clone is a handle to the same module.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

/// The data that all handles of a module share.
pub(crate) struct Inner {
    /// Identifies this module. No two modules of a process have equal ids.
    id: u64,
    loaded: Loaded,
    metadata: Metadata,
    layout: InstanceLayout,
    runs: Vec<ImageRun>,
    /// Offset of each run's bytes in the image section.
    run_starts: Vec<usize>,
    /// The image as a separate file, made when a region first maps it.
    image_file: OnceBox<File>,
    /// Number of imports of each kind.
    imported: Imported,
    /// Process-wide ids of its types.
    types: types::Numbers,
    /// Offsets of the fields of its structs.
    structs: Layouts,
    /// Number of instances that used more memory than a slot keeps track of. No longer exact above
    /// [`LARGE_WORKING_SETS`].
    large_working_sets: AtomicU32,
}

/// Type of an import or export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternType {
    /// A function.
    Func(FuncType),
    /// A table.
    Table(TableType),
    /// A memory.
    Memory(MemoryType),
    /// A global.
    Global(GlobalType),
    /// A tag: the parameters are the values of its exceptions, and there are no results.
    Tag(FuncType),
}

impl fmt::Display for ExternType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Func(ty) => write!(f, "func {ty}"),
            Self::Table(ty) => write!(f, "table {ty}"),
            Self::Memory(ty) => write!(f, "memory {ty}"),
            Self::Global(ty) => write!(f, "global {ty}"),
            Self::Tag(ty) => write!(f, "tag {ty}"),
        }
    }
}

/// The open modules. Files with equal contents are mapped once, so that slots that are warm for one
/// handle are warm for all.
static OPEN: ForkLock<Vec<Weak<Inner>>> = ForkLock::new(Rank::new(0), vec![]);

impl Module {
    /// Checks a file that `aotc` wrote, and maps it.
    ///
    /// The file is trusted like a program: the checks find damage and mistakes, but no malicious
    /// code.
    ///
    /// # Errors
    ///
    /// [`OpenError`], with the file and its defect.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        fork_lock::hold_over_forks();
        Self::from_file(load::File::read(path.as_ref())?)
    }

    /// Checks a module that `aotc` or the compiler's library made, and maps a copy of it.
    ///
    /// Debuggers know the functions of such a module by name only as long as the process lives, and
    /// profilers do not know them. One file descriptor stays open as long as the module.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). [`OpenError::Read`] if the system refuses a file in memory that may
    /// be executed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OpenError> {
        fork_lock::hold_over_forks();
        Self::from_file(load::File::copy(bytes)?)
    }

    fn from_file(file: load::File) -> Result<Self, OpenError> {
        // Held until the module is in the list, so that no content is mapped twice.
        let mut open = OPEN.take();
        open.retain(|module| module.strong_count() > 0);
        let alive: Vec<_> = open.iter().filter_map(Weak::upgrade).collect();
        let same = alive
            .iter()
            .find(|inner| inner.loaded.hash == file.checked.header.hash);
        if let Some(same) = same {
            return Ok(Self(Arc::clone(same)));
        }
        let loaded = file.load(alive.iter().map(|inner| &inner.loaded))?;
        let path = || loaded.path.clone();
        let types = types::number(&file.checked.metadata).map_err(|error| OpenError::Read {
            path: path(),
            error,
        })?;
        let checked = file.checked;
        let inner = Arc::new(Inner {
            id: types::fresh_module(),
            types,
            structs: Layouts::new(&checked.metadata.types),
            loaded,
            imported: checked.metadata.imported(),
            metadata: checked.metadata,
            layout: checked.layout,
            run_starts: starts(&checked.runs),
            image_file: OnceBox::new(),
            large_working_sets: AtomicU32::new(0),
            runs: checked.runs,
        });
        open.push(Arc::downgrade(&inner));
        Ok(Self(inner))
    }

    /// Name of the module, from its name section.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.metadata.name.as_deref()
    }

    /// Module, name and type of each import, in order.
    pub fn imports(&self) -> impl Iterator<Item = (&str, &str, ExternType)> {
        let imports = self.0.metadata.imports.iter();
        imports.map(|import| {
            (
                import.module.as_str(),
                import.name.as_str(),
                self.describe(&import.ty),
            )
        })
    }

    /// Name and type of each export, in order.
    pub fn exports(&self) -> impl Iterator<Item = (&str, ExternType)> {
        let m = &self.0.metadata;
        m.exports.iter().map(move |export| {
            let ty = match export.item {
                ExportItem::Func(i) => FormatType::Func(m.funcs[i as usize]),
                ExportItem::Table(i) => FormatType::Table(m.tables[i as usize]),
                ExportItem::Memory(i) => FormatType::Memory(m.memories[i as usize]),
                ExportItem::Global(i) => FormatType::Global(m.globals[i as usize]),
                ExportItem::Tag(i) => FormatType::Tag(m.tags[i as usize]),
            };
            (export.name.as_str(), self.describe(&ty))
        })
    }

    /// Minimum value of [`RegionBuilder::memories`](crate::RegionBuilder::memories) for its
    /// instances. This is the number of memories that the module defines, plus one after the first
    /// if it makes structs or arrays.
    #[must_use]
    pub fn memories(&self) -> u32 {
        let own = self.own_memories().len() as u32;
        self.heap().map_or(own, |heap| heap + 1)
    }

    /// Whether the code counts fuel: the module was compiled with `aotc --fuel`.
    #[must_use]
    pub fn counts_fuel(&self) -> bool {
        self.0.metadata.fuel
    }

    fn describe(&self, ty: &FormatType) -> ExternType {
        match ty {
            FormatType::Func(ty) => ExternType::Func(self.0.metadata.func_type(*ty).clone()),
            FormatType::Table(ty) => ExternType::Table(*ty),
            FormatType::Memory(ty) => ExternType::Memory(*ty),
            FormatType::Global(ty) => ExternType::Global(*ty),
            FormatType::Tag(ty) => ExternType::Tag(self.0.metadata.func_type(*ty).clone()),
        }
    }
}

/// Access for the rest of the runtime.
impl Module {
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }

    pub(crate) fn layout(&self) -> &InstanceLayout {
        &self.0.layout
    }

    /// Number of imports of each kind.
    pub(crate) fn imported(&self) -> Imported {
        self.0.imported
    }

    /// Number of the memory whose place holds the structs and arrays, if the module makes any.
    /// Never the first memory.
    pub(crate) fn heap(&self) -> Option<u32> {
        let heap = (self.own_memories().len() as u32).max(1);
        self.0.metadata.heap.then_some(heap)
    }

    /// Offsets of the fields of its structs.
    pub(crate) fn structs(&self) -> &Layouts {
        &self.0.structs
    }

    /// Process-wide ids of its types. Types are equal if and only if their ids are equal.
    pub(crate) fn type_ids(&self) -> &[u32] {
        self.0.types.as_slice()
    }

    /// The memories that the module defines. Every reset reads this list.
    pub(crate) fn own_memories(&self) -> &[MemoryType] {
        &self.0.metadata.memories[self.0.imported.memories as usize..]
    }

    /// Initial size of the first memory that the module defines, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }

    /// Address range of the machine code.
    pub(crate) fn text(&self) -> Range<usize> {
        let text = self.0.loaded.section(Section::Text).as_ptr_range();
        text.start as usize..text.end as usize
    }

    /// Address of an offset in the text.
    pub(crate) fn code(&self, offset: u32) -> usize {
        self.text().start + offset as usize
    }

    pub(crate) fn code_table(&self) -> CodeTable<'_> {
        CodeTable::view(self.0.loaded.section(Section::Code))
    }

    pub(crate) fn sites(&self) -> SiteTable<'_> {
        SiteTable::view(self.0.loaded.section(Section::Sites))
    }

    pub(crate) fn handlers(&self) -> HandlerTable<'_> {
        HandlerTable::view(self.0.loaded.section(Section::Handlers))
    }

    pub(crate) fn trap_bytes(&self) -> &[u8] {
        self.0.loaded.section(Section::Traps)
    }

    /// Bytes of the data segments that are not in the image.
    pub(crate) fn data(&self) -> &[u8] {
        self.0.loaded.section(Section::Data)
    }

    /// The non-zero pieces of the initial memory: offset in memory 0, and bytes.
    pub(crate) fn image_pieces(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (0..self.0.runs.len()).map(|at| self.piece(at))
    }

    /// The page of [`IMAGE_PAGE_BYTES`] at an offset in memory 0; `None` if it is all zeros.
    pub(crate) fn image_page(&self, offset: usize) -> Option<&[u8]> {
        self.0.image_at(self.0.image_source(offset))
    }

    /// The data that all handles of this module share.
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Records that an instance used more memory than a slot keeps track of.
    pub(crate) fn note_large_working_set(&self) {
        // Relaxed: this is only a hint.
        let seen = self.0.large_working_sets.load(Ordering::Relaxed);
        self.0
            .large_working_sets
            .store(seen.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether several instances had a large working set: more memory than a slot keeps track of.
    pub(crate) fn has_large_working_set(&self) -> bool {
        self.0.large_working_sets.load(Ordering::Relaxed) >= LARGE_WORKING_SETS
    }

    /// Size of the image, in bytes, without the pages of zeros.
    pub(crate) fn image_bytes(&self) -> usize {
        self.0.loaded.section(Section::Image).len()
    }

    /// Whether it defines a memory, however small.
    pub(crate) fn has_memory(&self) -> bool {
        !self.own_memories().is_empty()
    }

    /// End of the last non-zero piece in memory 0.
    pub(crate) fn image_end(&self) -> usize {
        self.0
            .runs
            .last()
            .map_or(0, |run| (run.start() + run.len()) as usize)
    }

    /// A sealed file with the initial memory up to [`image_end`](Self::image_end), rounded up to a
    /// page.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(crate) fn image_file(&self) -> io::Result<&File> {
        let make = || sys::memory::image_file(self.image_pieces());
        self.0.image_file.get_or_try_init(|| make().map(Box::new))
    }

    fn piece(&self, at: usize) -> (usize, &[u8]) {
        let (run, start) = (self.0.runs[at], self.0.run_starts[at]);
        let image = self.0.loaded.section(Section::Image);
        // In range: `open` has checked that the sum of the runs' lengths is the length of the
        // image.
        (
            run.start() as usize,
            &image[start..start + run.len() as usize],
        )
    }
}

/// Number of instances with a large working set after which [`Module::has_large_working_set`]
/// holds.
const LARGE_WORKING_SETS: u32 = 3;

/// Functions that the signal handler may call: they take no lock and do not allocate.
impl Inner {
    /// The image page at an offset in memory 0, counted from 1; 0 if that page is all zeros.
    pub(crate) fn image_source(&self, offset: usize) -> u32 {
        let after = self
            .runs
            .partition_point(|run| run.start() <= offset as u64);
        let Some(at) = after.checked_sub(1) else {
            return 0;
        };
        let (run, start) = (self.runs[at], self.run_starts[at]);
        let within = offset - run.start() as usize;
        if within as u64 >= run.len() {
            return 0;
        }
        ((start + within) / IMAGE_PAGE_BYTES as usize) as u32 + 1
    }

    /// The page of the image with this number, counted from 1; `None` for 0.
    pub(crate) fn image_at(&self, source: u32) -> Option<&[u8]> {
        let start = source.checked_sub(1)? as usize * IMAGE_PAGE_BYTES as usize;
        Some(&self.loaded.section(Section::Image)[start..start + IMAGE_PAGE_BYTES as usize])
    }

    /// Initial size of the first memory that the module defines, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.loaded.memory_bytes
    }
}

/// Offset of each run's bytes in the image, where the runs lie one after another.
fn starts(runs: &[ImageRun]) -> Vec<usize> {
    let sum = |sum: &mut usize, run: &ImageRun| {
        let start = *sum;
        *sum += run.len() as usize;
        Some(start)
    };
    runs.iter().scan(0, sum).collect()
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({})", self.0.loaded.path.display())
    }
}
