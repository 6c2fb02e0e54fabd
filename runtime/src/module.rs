//! [`Module`]: a compiled module, checked and mapped.

mod error;
mod image;
mod load;
pub(crate) mod types;

use crate::sys::fork_lock::{self, ForkLock, Rank};
use crate::value::{FuncType, GlobalType, MemoryType, TableType};
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};
pub use error::OpenError;
pub(crate) use image::Image;
use load::Loaded;
use pirn_format::component::Component;
use pirn_format::header::HASH_BYTES;
use pirn_format::layout::InstanceLayout;
use pirn_format::metadata::{ExportItem, Imported, Metadata};
use pirn_format::rewrite;
use pirn_format::sections::Section;
use pirn_format::text;
use pirn_format::traps::{CodeTable, HandlerTable, InlinedTable, SiteTable};
use pirn_format::types::{ExternType as FormatType, Layouts};
use pirn_signature::PublicKey;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

/// A compiled module, checked and mapped. A clone is a handle to the same module.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

/// The data that all handles of a module share.
pub(crate) struct Inner {
    /// Identifies this module. No two modules of a process have equal ids.
    id: u64,
    origin: Origin,
    metadata: Metadata,
    layout: InstanceLayout,
    /// The initial contents of the first memory that the module defines.
    image: Image,
    /// The contents of each further memory that the module defines. Only snapshots have such
    /// contents.
    further: Vec<Image>,
    /// Initial size of the first memory that the module defines, in bytes.
    memory_bytes: u64,
    /// Number of imports of each kind.
    imported: Imported,
    /// Number of instances that used more memory than a slot keeps track of. The number is not
    /// exact above [`LARGE_WORKING_SETS`].
    large_working_sets: AtomicU32,
    /// The exports by name. Made at the first look-up in a module with many exports.
    exports: OnceLock<HashMap<Box<str>, ExportItem>>,
}

/// Where the code of a module is.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few modules, and calls read their code"
)]
enum Origin {
    /// In the module's own file, mapped.
    File(Code),
    /// In the file of this module, from which the snapshot was made in this process. A snapshot of
    /// a snapshot names that module, too, so the named module always has a file.
    Snapshot(Module),
}

/// The parts of a file that its snapshots share.
struct Code {
    loaded: Loaded,
    /// Process-wide ids of the module's types.
    types: types::Numbers,
    /// Offsets of the fields of the module's structs.
    structs: Layouts,
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
/// handle are warm for all handles.
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

    /// Checks that one of these keys signed a file that `aotc` wrote, and maps the checked bytes.
    ///
    /// The signature lies beside the file, under the file's name plus `.minisig`. minisign and
    /// `aotc --sign` write such files. Each of the two files is read once, and the module has at
    /// most 4 GiB. The signature is checked before anything else is read from the bytes. The module
    /// maps a sealed copy of the checked bytes, so nobody can change the code later.
    ///
    /// As with [`from_bytes`](Self::from_bytes), debuggers know the functions only as long as the
    /// process lives, profilers do not know them, and one file descriptor stays open. A signature
    /// says who made the module, not when: an earlier module with its own signature is accepted.
    ///
    /// # Errors
    ///
    /// [`OpenError::Signature`], which says how the file and the signature disagree, and otherwise
    /// as [`from_bytes`](Self::from_bytes).
    pub fn open_signed(path: impl AsRef<Path>, keys: &[PublicKey]) -> Result<Self, OpenError> {
        fork_lock::hold_over_forks();
        Self::from_file(load::File::signed(path.as_ref(), keys)?)
    }

    /// Proves that a file's machine code stays in its sandbox, and maps a copy of the proven bytes.
    ///
    /// The file is read once, so nobody can exchange it after the proof. The documentation of
    /// `pirn-verify` names the proven properties, and the modules that the proof refuses because it
    /// does not know their code. As with [`from_bytes`](Self::from_bytes), debuggers know the
    /// functions only as long as the process lives, profilers do not know them, and one file
    /// descriptor stays open.
    ///
    /// # Errors
    ///
    /// [`OpenError::Unproven`] with the property, the function and the place in the text that could
    /// not be proven, and otherwise as [`from_bytes`](Self::from_bytes).
    #[cfg(feature = "verify")]
    pub fn open_verified(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        fork_lock::hold_over_forks();
        Self::from_file(load::File::verified(path.as_ref())?)
    }

    fn from_file(file: load::File) -> Result<Self, OpenError> {
        // The lock is held until the module is in the list, so that no content is mapped twice.
        let mut open = OPEN.take();
        open.retain(|module| module.strong_count() > 0);
        let alive: Vec<_> = open.iter().filter_map(Weak::upgrade).collect();
        let same = alive.iter().find(|inner| file.is(&inner.code().loaded));
        if let Some(same) = same {
            same.code().loaded.keep(file);
            return Ok(Self(Arc::clone(same)));
        }
        let loaded = file.load(alive.iter().map(|inner| &inner.code().loaded))?;
        let path = || loaded.path.clone();
        let types = types::number(&file.checked.metadata).map_err(|error| OpenError::Read {
            path: path(),
            error,
        })?;
        let checked = file.checked;
        let structs = Layouts::new(&checked.metadata.types);
        let image = Image::of_file(checked.runs, 0);
        let snapshot = checked.metadata.snapshot.as_ref();
        let mut bytes_before = image.bytes();
        let further = snapshot.iter().flat_map(|snapshot| &snapshot.further);
        let further = further.map(|runs| {
            let image = Image::of_file(runs.clone(), bytes_before);
            bytes_before += image.bytes();
            image
        });
        let further = further.collect();
        let inner = Arc::new(Inner {
            id: types::fresh_module(),
            memory_bytes: checked.header.memory_bytes,
            imported: checked.metadata.imported(),
            metadata: checked.metadata,
            layout: checked.layout,
            image,
            further,
            large_working_sets: AtomicU32::new(0),
            exports: OnceLock::new(),
            origin: Origin::File(Code {
                loaded,
                types,
                structs,
            }),
        });
        open.push(Arc::downgrade(&inner));
        Ok(Self(inner))
    }

    /// A module with the code of this module and another initial state. The code stays mapped once.
    /// `images` are the contents of all memories that the module defines.
    ///
    /// `metadata` must have the items of this module's metadata, in number and types. Only the
    /// initial sizes of memories and tables may differ. Then the instance area has the same layout.
    ///
    /// # Errors
    ///
    /// The error of a system call that makes an image.
    pub(crate) fn snapshot(&self, metadata: Metadata, images: Vec<Image>) -> io::Result<Self> {
        let of = match &self.0.origin {
            Origin::File(_) => self.clone(),
            Origin::Snapshot(of) => of.clone(),
        };
        let mut images = images.into_iter();
        let image = images.next().map_or_else(|| Image::of_memory(&[]), Ok)?;
        let memory = metadata.own_memories().first();
        Ok(Self(Arc::new(Inner {
            id: types::fresh_module(),
            memory_bytes: memory.and_then(MemoryType::accessible_bytes).unwrap_or(0),
            imported: self.0.imported,
            layout: self.0.layout,
            image,
            further: images.collect(),
            large_working_sets: AtomicU32::new(0),
            exports: OnceLock::new(),
            origin: Origin::Snapshot(of),
            metadata,
        })))
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

    /// Minimum value of [`RegionBuilder::memories`](crate::RegionBuilder::memories) for instances
    /// of the module. Each memory that the module defines counts. A module that makes structs or
    /// arrays needs one more memory after the first.
    #[must_use]
    pub fn memories(&self) -> u32 {
        let own = self.own_memories().len() as u32;
        self.heap().map_or(own, |heap| heap + 1)
    }

    /// The types, imports and exports of the component that the module was compiled from. `None`
    /// for a core module.
    #[must_use]
    pub fn component(&self) -> Option<&Component> {
        self.0.metadata.component.as_ref()
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

    /// The export with a name. Fast even if a caller looks up each of many exports.
    pub(crate) fn export(&self, name: &str) -> Option<ExportItem> {
        const FEW: usize = 32;
        let exports = &self.0.metadata.exports;
        if exports.len() <= FEW {
            return self.0.metadata.export(name);
        }
        let by_name = self.0.exports.get_or_init(|| {
            let exports = exports.iter();
            exports
                .map(|export| (export.name.as_str().into(), export.item))
                .collect()
        });
        by_name.get(name).copied()
    }

    /// The names of the first exports, for an error about an export that does not exist.
    #[cold]
    pub(crate) fn listed_exports(&self) -> String {
        let exports = &self.metadata().exports;
        listed(exports.iter().map(|export| export.name.as_str()))
    }

    pub(crate) fn layout(&self) -> &InstanceLayout {
        &self.0.layout
    }

    /// Number of imports of each kind.
    pub(crate) fn imported(&self) -> Imported {
        self.0.imported
    }

    /// Number of the memory whose place holds the structs and arrays, if the module makes structs
    /// or arrays. Never the number of the first memory.
    pub(crate) fn heap(&self) -> Option<u32> {
        let heap = (self.own_memories().len() as u32).max(1);
        self.0.metadata.heap.then_some(heap)
    }

    /// Offsets of the fields of the module's structs.
    pub(crate) fn structs(&self) -> &Layouts {
        &self.0.code().structs
    }

    /// Process-wide ids of the module's types. Types are equal if and only if their ids are equal.
    pub(crate) fn type_ids(&self) -> &[u32] {
        self.0.code().types.as_slice()
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
        let text = self.section(Section::Text).as_ptr_range();
        text.start as usize..text.end as usize
    }

    /// Address of an offset in the text.
    pub(crate) fn code(&self, offset: u32) -> usize {
        self.text().start + offset as usize
    }

    pub(crate) fn code_table(&self) -> CodeTable<'_> {
        CodeTable::view(self.section(Section::Code))
    }

    pub(crate) fn sites(&self) -> SiteTable<'_> {
        SiteTable::view(self.section(Section::Sites))
    }

    pub(crate) fn inlined(&self) -> InlinedTable<'_> {
        InlinedTable::view(self.section(Section::Inlined))
    }

    pub(crate) fn handlers(&self) -> HandlerTable<'_> {
        HandlerTable::view(self.section(Section::Handlers))
    }

    pub(crate) fn trap_bytes(&self) -> &[u8] {
        self.section(Section::Traps)
    }

    /// Bytes of the data segments that are not in the image.
    pub(crate) fn data(&self) -> &[u8] {
        self.section(Section::Data)
    }

    fn section(&self, section: Section) -> &[u8] {
        self.0.code().loaded.section(section)
    }

    /// Whether [`Instance::snapshot`](crate::Instance::snapshot) made this module, in this process
    /// or in the process that saved the snapshot.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.0.metadata.snapshot.is_some()
    }

    /// End of the last non-zero page in further memory `number`: 1 is the second memory that the
    /// module defines. A module that is no snapshot has no image of further memories: each instance
    /// copies the data segments.
    pub(crate) fn further_image_end(&self, number: u32) -> usize {
        let image = self.0.further.get(number as usize - 1);
        image.map_or(0, Image::end)
    }

    /// A sealed file with the contents of further memory `number` up to
    /// [`further_image_end`](Self::further_image_end), which must not be 0.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(crate) fn further_image_file(&self, number: u32) -> io::Result<&File> {
        self.0.further[number as usize - 1].file(self.0.image_section())
    }

    /// The file of the module: [`from_bytes`](Self::from_bytes) of these bytes is an equal module.
    /// The same state gives the same bytes.
    ///
    /// The code of a snapshot is read from the file of the module from which the snapshot was made.
    /// A module with the content of an open module has the open module's path.
    ///
    /// # Errors
    ///
    /// [`OpenError::Read`] if the file cannot be read, and [`OpenError::Replaced`] if the path now
    /// has another content.
    pub fn to_bytes(&self) -> Result<Vec<u8>, OpenError> {
        let code = self.0.code();
        let file = code.loaded.read()?;
        let Origin::Snapshot(_) = &self.0.origin else {
            return Ok(file);
        };
        let section = self.0.image_section();
        let images = [&self.0.image].into_iter().chain(&self.0.further);
        let pages: Vec<&[u8]> = images
            .flat_map(|image| image.pieces(section).map(|(_, bytes)| bytes))
            .collect();
        let runs = self.0.image.runs();
        rewrite::snapshot(&file, &self.0.metadata, runs, &pages).map_err(|error| {
            OpenError::Format {
                path: code.loaded.path.clone(),
                error,
            }
        })
    }

    /// Content hash of the file from `aotc` that the code comes from.
    pub(crate) fn source_hash(&self) -> [u8; HASH_BYTES] {
        let snapshot = self.0.metadata.snapshot.as_ref();
        snapshot.map_or(self.0.code().loaded.hash, |snapshot| snapshot.of)
    }

    /// The non-zero pieces of the initial memory: offset in memory 0, and bytes.
    pub(crate) fn image_pieces(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.0.image.pieces(self.0.image_section())
    }

    /// The page of the image at an offset in memory 0; `None` if the page is all zeros. A page has
    /// [`IMAGE_PAGE_BYTES`](pirn_format::layout::IMAGE_PAGE_BYTES).
    pub(crate) fn image_page(&self, offset: usize) -> Option<&[u8]> {
        self.0.image_at(self.0.image_source(offset))
    }

    /// The data that all handles of this module share.
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Records that an instance used more memory than a slot keeps track of.
    pub(crate) fn note_large_working_set(&self) {
        // Relaxed, because the count is only a hint.
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
        self.0.image.bytes()
    }

    /// Whether the module defines a memory, however small.
    pub(crate) fn has_memory(&self) -> bool {
        !self.own_memories().is_empty()
    }

    /// End of the last non-zero piece in memory 0.
    pub(crate) fn image_end(&self) -> usize {
        self.0.image.end()
    }

    /// A sealed file with the initial memory up to [`image_end`](Self::image_end), rounded up to a
    /// page.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(crate) fn image_file(&self) -> io::Result<&File> {
        self.0.image.file(self.0.image_section())
    }
}

/// The first few names, in one line.
#[cold]
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const LISTED_MAX: usize = 8;
    // The module chose the names.
    let shown = |name: &str| text::plain(name).to_string();
    let mut listed: Vec<_> = names.take(LISTED_MAX + 1).map(shown).collect();
    if listed.len() > LISTED_MAX {
        listed[LISTED_MAX] = "...".to_owned();
    }
    match listed.as_slice() {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    }
}

/// Number of instances with a large working set after which [`Module::has_large_working_set`]
/// holds.
const LARGE_WORKING_SETS: u32 = 3;

/// Functions that the signal handler may call: they take no lock and do not allocate.
impl Inner {
    /// The mapped file and its types. A snapshot uses the file and the types of the module from
    /// which it was made.
    #[inline]
    fn code(&self) -> &Code {
        match &self.origin {
            Origin::File(code) => code,
            Origin::Snapshot(of) => of.0.code(),
        }
    }

    /// The section of the file that holds the pages of the image. A snapshot's image holds its
    /// pages itself.
    fn image_section(&self) -> &[u8] {
        self.code().loaded.section(Section::Image)
    }

    /// Number of the image page at an offset in memory 0. Numbers start at 1; 0 is a zero page.
    pub(crate) fn image_source(&self, offset: usize) -> u32 {
        self.image.source(offset)
    }

    /// The page of the image with this number, counted from 1; `None` for 0.
    pub(crate) fn image_at(&self, source: u32) -> Option<&[u8]> {
        self.image.page(self.image_section(), source)
    }

    /// Initial size of the first memory that the module defines, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_snapshot() {
            "Snapshot"
        } else {
            "Module"
        };
        write!(f, "{kind}({})", self.0.code().loaded.path.display())
    }
}
