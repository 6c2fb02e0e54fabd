//! The instance context: defines all offsets that generated code and the runtime share.
//!
//! Generated code receives a single pointer, `vmctx`, which is the base of memory 0. The instance's
//! own data lies below it. A guest cannot form an address in that data, because guest addresses are
//! unsigned offsets from the base:
//!
//! ```text
//!     low addresses                                                    high addresses
//!     ┌───────────────────────── instance area ─────────────────────┬─────────┬──────────────
//!     │ tags │ funcrefs │ type ids │ imports ║ segments │ memories │ tables │ globals │ Context │ memory 0 ...
//!     └─────────────────────────────────────────────────────────────┴─────────┴──────────────
//!       written when the slot gets the   ║ restored at every reset            ^         ^
//!       module, constant thereafter      ║                        vmctx - 512 ┘         └ vmctx
//! ```
//!
//! The parts grow downwards: element 0 of each part has the highest address. [`InstanceLayout`]
//! places every part in the instance area. The layout is a pure function of the module's
//! [`Counts`].

use core::mem::{offset_of, size_of};

/// Bytes of address space that a 32-bit index spans from the memory base: 4 GiB.
pub const MEMORY_REACH_BYTES: u64 = 1 << 32;

/// Inaccessible bytes after [`MEMORY_REACH_BYTES`]. An access needs no bounds check if its static
/// offset plus its size is at most this number.
pub const GUARD_BYTES: u64 = 32 << 20;

/// Bytes of one page of linear memory (spec 4.2.8).
pub const WASM_PAGE_BYTES: u64 = 64 << 10;

/// Most pages of a memory: one less than a 32-bit address space holds. Generated code relies on
/// this limit: a valid index plus the bytes of one page does not wrap around in 32 bits.
pub const MEMORY_PAGES_MAX: u64 = MEMORY_REACH_BYTES / WASM_PAGE_BYTES - 1;

/// Most bytes of a memory.
pub const MEMORY_BYTES_MAX: u64 = MEMORY_PAGES_MAX * WASM_PAGE_BYTES;

/// Bytes of one page of an initial memory image in the file, on every target.
///
/// This page is a unit of the format, not the page size of any machine.
pub const IMAGE_PAGE_BYTES: u64 = 4096;

/// Bytes of one global: the widest value is a `v128`.
pub const GLOBAL_BYTES: u32 = 16;

/// Bytes of one table element: an address of a [`FuncRef`], a host reference, or 0 for null.
pub const ELEMENT_BYTES: u32 = 8;

/// Bytes of the header of a struct or an array.
///
/// The header starts with the process-wide type id. In an array the number of elements follows, and
/// then the elements. In a struct the fields follow the header. A reference to a struct is the
/// address of its header.
pub const OBJECT_HEADER_BYTES: u32 = 8;

/// Alignment of structs and arrays, in bytes.
pub const OBJECT_ALIGN: u32 = 8;

/// Offset of the type id in the header of a struct or an array.
pub const OBJECT_TYPE: i32 = 0;
/// Offset of the number of elements in the header of an array.
pub const ARRAY_LEN: i32 = 4;

/// The tag bits of a reference that is not null. A struct has tag 0; a 31-bit integer sets
/// [`TAG_I31`], and its other tag bits belong to the integer.
pub const TAG_BITS: u64 = 7;
/// Tag bit of a 31-bit integer, whose value is stored in the bits above it.
pub const TAG_I31: u64 = 1;
/// Tag of a reference to an array. The bits above it are the address of the array's header.
pub const TAG_ARRAY: u64 = 2;
/// Tag of a host reference whose number is stored above the tag.
pub const TAG_HOST: u64 = 4;
/// Tag of a host reference whose number does not fit in the reference. The bits above the tag are
/// the address of a header, and the number follows the header.
pub const TAG_BOXED: u64 = 6;

/// Shift of the number in a host reference with [`TAG_HOST`].
pub const HOST_SHIFT: u32 = 3;

/// Upper 16 bits of an `externref` that wraps a guest reference, which is in the lower bits. No
/// host number has these upper bits.
pub const EXTERNAL_PREFIX: u64 = 0xfffe;
/// Shift of [`EXTERNAL_PREFIX`].
pub const EXTERNAL_SHIFT: u32 = 48;

/// Bytes of a row in the table of types: the length of the type's supertype chain, and the chain's
/// position.
///
/// A chain is an array of 4-byte type ids, from the root type to the direct supertype.
pub const TYPE_ROW_BYTES: u32 = 8;

/// Base and current size of a linear memory, as generated code reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryDesc {
    /// Address of byte 0.
    pub base: u64,
    /// Current size in bytes, a multiple of the memory's page size.
    pub bytes: u64,
}

/// Base and current size of a table, as generated code reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct TableDesc {
    /// Address of element 0; elements are [`ELEMENT_BYTES`] apart.
    pub base: u64,
    /// Current number of elements.
    pub elements: u64,
}

/// The data that generated code needs to call an imported function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct FuncImport {
    /// Address of code with the guest's calling convention. Imported host functions of one type
    /// share a trampoline.
    pub code: u64,
    /// First argument of `code`: the context of the instance that defines the function. For a host
    /// function, the argument is the address of this [`FuncImport`].
    pub vmctx: u64,
    /// Context of the instance that imports a host function. Null if a module defines the function.
    pub instance: u64,
    /// Byte offset of the host function's entry in the instance's table of entries. The caller, a
    /// trampoline or a function that calls the import, passes the offset to [`Context::host_call`].
    pub host: u64,
}

/// The target of a non-null function reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct FuncRef {
    /// Address of code with the guest's calling convention.
    pub code: u64,
    /// First argument of `code`, see [`FuncImport::vmctx`].
    pub vmctx: u64,
    /// Process-wide id of the function's type. Equal ids mean equal types.
    pub type_id: u32,
    /// Unused, zero.
    pub reserved: u32,
}

/// The fixed fields of an instance. The fields end where memory 0 begins.
///
/// The alignment is part of the layout that generated code shares. The alignment is no padding
/// against false sharing, and does not follow the processor's cache lines.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Context {
    /// Private to the runtime: generated code does not access it.
    pub runtime: [u64; RUNTIME_WORDS],
    /// Address of the routine that copies within memory 0, see [`crate::exit`].
    pub copy: u64,
    /// Address of the routine that fills memory 0, see [`crate::exit`].
    pub fill: u64,
    /// Address of the next struct or array of this instance; 0 if the module makes none. All bytes
    /// from this address on are zero. Generated code therefore advances this field before it writes
    /// to a new object.
    pub heap_next: u64,
    /// End of the accessible memory for structs and arrays.
    pub heap_end: u64,
    /// Address of the process-wide table of types and their supertypes, indexed by type id; 0 as
    /// long as no type has a supertype.
    pub type_rows: u64,
    /// Identity of the tag of the most recently caught exception. The tag may belong to any
    /// instance that the running call can reach. The runtime writes this field and
    /// `exception_values` together.
    pub exception_tag: u64,
    /// Address of the values of the most recently caught exception, in cells. Valid until the guest
    /// calls a function.
    pub exception_values: u64,
    /// Remaining fuel, if the code counts fuel. Negative once the guest used more fuel than it had.
    /// The runtime writes this field when a call starts and between calls.
    pub fuel: i64,
    /// Address of the runtime's record of the running call. The runtime's routines read it.
    pub activation: u64,
    /// Address of the exit routine, see [`crate::exit`].
    pub exit: u64,
    /// Address of the routine that calls a host function, see [`crate::exit`].
    pub host_call: u64,
    /// Descriptor of memory 0, if the module defines memory 0; otherwise all zero.
    pub memory: MemoryDesc,
}

/// Bytes of [`Context`].
pub const CONTEXT_BYTES: u32 = 576;
/// Words of [`Context::runtime`].
pub const RUNTIME_WORDS: usize = CONTEXT_BYTES as usize / 8 - 13;
const _: () = assert!(size_of::<Context>() == CONTEXT_BYTES as usize);

/// Distance of a field of [`Context`] from `vmctx`, in bytes; always negative.
const fn context_field(offset_in_context: usize) -> i32 {
    offset_in_context as i32 - CONTEXT_BYTES as i32
}

/// Offset of [`Context::runtime`] from `vmctx`.
pub const CONTEXT_RUNTIME: i32 = context_field(offset_of!(Context, runtime));
/// Offset of [`Context::copy`] from `vmctx`.
pub const CONTEXT_COPY: i32 = context_field(offset_of!(Context, copy));
/// Offset of [`Context::fill`] from `vmctx`.
pub const CONTEXT_FILL: i32 = context_field(offset_of!(Context, fill));
/// Offset of [`Context::heap_next`] from `vmctx`.
pub const CONTEXT_HEAP_NEXT: i32 = context_field(offset_of!(Context, heap_next));
/// Offset of [`Context::heap_end`] from `vmctx`.
pub const CONTEXT_HEAP_END: i32 = context_field(offset_of!(Context, heap_end));
/// Offset of [`Context::type_rows`] from `vmctx`.
pub const CONTEXT_TYPE_ROWS: i32 = context_field(offset_of!(Context, type_rows));
/// Offset of [`Context::exception_tag`] from `vmctx`.
pub const CONTEXT_EXCEPTION_TAG: i32 = context_field(offset_of!(Context, exception_tag));
const _: () = assert!(CONTEXT_EXCEPTION_VALUES == CONTEXT_EXCEPTION_TAG + 8);
/// Offset of [`Context::exception_values`] from `vmctx`.
pub const CONTEXT_EXCEPTION_VALUES: i32 = context_field(offset_of!(Context, exception_values));
/// Offset of [`Context::fuel`] from `vmctx`.
pub const CONTEXT_FUEL: i32 = context_field(offset_of!(Context, fuel));
/// Offset of [`Context::activation`] from `vmctx`.
pub const CONTEXT_ACTIVATION: i32 = context_field(offset_of!(Context, activation));
/// Offset of [`Context::exit`] from `vmctx`.
pub const CONTEXT_EXIT: i32 = context_field(offset_of!(Context, exit));
/// Offset of [`Context::host_call`] from `vmctx`.
pub const CONTEXT_HOST_CALL: i32 = context_field(offset_of!(Context, host_call));
/// Offset of [`Context::memory`] from `vmctx`.
pub const CONTEXT_MEMORY: i32 = context_field(offset_of!(Context, memory));

/// Offset of [`MemoryDesc::base`] in its struct.
pub const MEMORY_BASE: i32 = offset_of!(MemoryDesc, base) as i32;
/// Offset of [`MemoryDesc::bytes`] in its struct.
pub const MEMORY_BYTES: i32 = offset_of!(MemoryDesc, bytes) as i32;
/// Offset of [`TableDesc::base`] in its struct.
pub const TABLE_BASE: i32 = offset_of!(TableDesc, base) as i32;
/// Offset of [`TableDesc::elements`] in its struct.
pub const TABLE_ELEMENTS: i32 = offset_of!(TableDesc, elements) as i32;
/// Offset of [`FuncImport::code`] in its struct.
pub const IMPORT_CODE: i32 = offset_of!(FuncImport, code) as i32;
/// Offset of [`FuncImport::vmctx`] in its struct.
pub const IMPORT_VMCTX: i32 = offset_of!(FuncImport, vmctx) as i32;
/// Offset of [`FuncImport::instance`] in its struct.
pub const IMPORT_INSTANCE: i32 = offset_of!(FuncImport, instance) as i32;
/// Offset of [`FuncImport::host`] in its struct.
pub const IMPORT_HOST: i32 = offset_of!(FuncImport, host) as i32;
/// Offset of [`FuncRef::code`] in its struct.
pub const FUNCREF_CODE: i32 = offset_of!(FuncRef, code) as i32;
/// Offset of [`FuncRef::vmctx`] in its struct.
pub const FUNCREF_VMCTX: i32 = offset_of!(FuncRef, vmctx) as i32;
/// Offset of [`FuncRef::type_id`] in its struct.
pub const FUNCREF_TYPE_ID: i32 = offset_of!(FuncRef, type_id) as i32;

/// Number of items of each kind in a module: the only input of [`InstanceLayout`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Globals, imported ones included.
    pub globals: u32,
    /// Tables, imported ones included.
    pub tables: u32,
    /// Memories, imported ones included.
    pub memories: u32,
    /// Data segments plus element segments.
    pub segments: u32,
    /// Imported functions.
    pub imported_funcs: u32,
    /// Types.
    pub types: u32,
    /// Functions that can be referred to: see
    /// [`Metadata::address_taken`](crate::metadata::Metadata).
    pub address_taken_funcs: u32,
    /// Tags, imported ones included.
    pub tags: u32,
}

/// Bytes of a tag's identity.
const TAG_BYTES: usize = 8;

/// Most operators of a constant expression.
pub const CONSTANT_OPERATORS_MAX: u64 = 16_384;

/// Most bytes of an instance area: 1 GiB keeps every offset far inside an `i32`.
pub const INSTANCE_AREA_BYTES_MAX: u64 = 1 << 30;

/// Layout of a module's instance area. All offsets are relative to `vmctx` and negative.
///
/// * A global's cell holds its value. For an imported *mutable* global, the cell holds the address
///   of the owner's cell. An imported immutable global is copied.
/// * A table's cell holds a [`TableDesc`], or, for an imported table, the address of the owner's
///   [`TableDesc`].
/// * A memory's cell holds, for an imported memory, the address of the owner's [`MemoryDesc`]. If
///   the module defines memory 0, its descriptor is in the [`Context`] and the cell is unused.
/// * A tag's cell holds the tag's identity: the address of the owner's cell.
/// * A segment's bit is 1 after the segment was dropped. Data segments come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceLayout {
    counts: Counts,
    tables: i64,
    memories: i64,
    segments: i64,
    imports: i64,
    types: i64,
    funcrefs: i64,
    tags: i64,
    end: i64,
}

impl InstanceLayout {
    /// Computes the layout for these counts; `None` if the area exceeds
    /// [`INSTANCE_AREA_BYTES_MAX`].
    #[must_use]
    pub fn new(counts: Counts) -> Option<Self> {
        let mut at = -i64::from(CONTEXT_BYTES);
        let mut part = |count: u32, bytes: usize| {
            let start = at;
            at -= (i64::from(count) * bytes as i64 + 15) & !15;
            start
        };
        part(counts.globals, GLOBAL_BYTES as usize);
        let tables = part(counts.tables, size_of::<TableDesc>());
        let memories = part(counts.memories, size_of::<MemoryDesc>());
        let segments = part(counts.segments.div_ceil(64), 8);
        let imports = part(counts.imported_funcs, size_of::<FuncImport>());
        let types = part(counts.types, 4);
        let funcrefs = part(counts.address_taken_funcs, size_of::<FuncRef>());
        let tags = part(counts.tags, TAG_BYTES);
        let end = at;
        (end >= -(INSTANCE_AREA_BYTES_MAX as i64)).then_some(Self {
            counts,
            tables,
            memories,
            segments,
            imports,
            types,
            funcrefs,
            tags,
            end,
        })
    }

    /// The counts that the layout was computed from.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes from the lowest cell to `vmctx`, including the [`Context`]; a multiple of 16.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        (-self.end) as u32
    }

    /// Offset of the lowest byte that the guest's instructions can change.
    ///
    /// Everything from here up to the [`Context`] is state. Everything below is constant as long as
    /// the slot holds the module.
    #[must_use]
    pub fn state(&self) -> i32 {
        self.imports as i32
    }

    /// Offset of the cell of global `index`.
    #[must_use]
    pub fn global(&self, index: u32) -> i32 {
        debug_assert!(index < self.counts.globals);
        cell(-i64::from(CONTEXT_BYTES), index, GLOBAL_BYTES as usize)
    }

    /// Offset of the cell of table `index`.
    #[must_use]
    pub fn table(&self, index: u32) -> i32 {
        debug_assert!(index < self.counts.tables);
        cell(self.tables, index, size_of::<TableDesc>())
    }

    /// Offset of the cell of memory `index`.
    #[must_use]
    pub fn memory(&self, index: u32) -> i32 {
        debug_assert!(index < self.counts.memories);
        cell(self.memories, index, size_of::<MemoryDesc>())
    }

    /// Offset of the 64-bit word, and the bit in it, of segment `index` (data segments first).
    #[must_use]
    pub fn segment(&self, index: u32) -> (i32, u32) {
        debug_assert!(index < self.counts.segments);
        (cell(self.segments, index / 64, 8), index % 64)
    }

    /// Offset of the [`FuncImport`] of imported function `index`.
    #[must_use]
    pub fn import(&self, index: u32) -> i32 {
        debug_assert!(index < self.counts.imported_funcs);
        cell(self.imports, index, size_of::<FuncImport>())
    }

    /// Offset of the 32-bit process-wide id of type `index`.
    #[must_use]
    pub fn type_id(&self, index: u32) -> i32 {
        debug_assert!(index < self.counts.types);
        cell(self.types, index, 4)
    }

    /// Offset of the [`FuncRef`] of the address-taken function at `position` in
    /// [`Metadata::address_taken`](crate::metadata::Metadata).
    #[must_use]
    pub fn funcref(&self, position: u32) -> i32 {
        debug_assert!(position < self.counts.address_taken_funcs);
        cell(self.funcrefs, position, size_of::<FuncRef>())
    }

    /// Offset of the identity of tag `index`.
    #[must_use]
    pub fn tag(&self, index: u32) -> i32 {
        debug_assert!(index < self.counts.tags);
        cell(self.tags, index, TAG_BYTES)
    }
}

/// Offset of element `index` in a part whose high end is at `start`.
fn cell(start: i64, index: u32, bytes: usize) -> i32 {
    // Fits in an `i32`: `InstanceLayout::new` limits the whole area to 1 GiB.
    (start - (i64::from(index) + 1) * bytes as i64) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every cell of a layout as (offset, bytes), lowest address first.
    fn cells(layout: &InstanceLayout) -> Vec<(i32, i32)> {
        let c = layout.counts();
        let mut all = vec![];
        all.extend((0..c.globals).map(|i| (layout.global(i), 16)));
        all.extend((0..c.tables).map(|i| (layout.table(i), 16)));
        all.extend((0..c.memories).map(|i| (layout.memory(i), 16)));
        all.extend((0..c.segments.div_ceil(64)).map(|i| (layout.segment(i * 64).0, 8)));
        all.extend((0..c.imported_funcs).map(|i| (layout.import(i), 32)));
        all.extend((0..c.types).map(|i| (layout.type_id(i), 4)));
        all.extend((0..c.address_taken_funcs).map(|i| (layout.funcref(i), 24)));
        all.extend((0..c.tags).map(|i| (layout.tag(i), 8)));
        all.sort_unstable();
        all
    }

    fn counts() -> impl Strategy<Value = Counts> {
        let n = || 0..200_u32;
        (n(), n(), n(), n(), n(), n(), n(), n()).prop_map(
            |(
                globals,
                tables,
                memories,
                segments,
                imported_funcs,
                types,
                address_taken_funcs,
                tags,
            )| {
                Counts {
                    globals,
                    tables,
                    memories,
                    segments,
                    imported_funcs,
                    types,
                    address_taken_funcs,
                    tags,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn cells_are_disjoint_aligned_and_below_the_context(counts in counts()) {
            let layout = InstanceLayout::new(counts).unwrap();
            let mut at = -(layout.bytes() as i32);
            for (offset, bytes) in cells(&layout) {
                prop_assert!(offset >= at, "cell at {offset} overlaps the cell that ends at {at}");
                prop_assert_eq!(offset % bytes.min(8), 0);
                at = offset + bytes;
            }
            prop_assert!(at <= -(CONTEXT_BYTES as i32));
            prop_assert_eq!(layout.bytes() % 16, 0);
        }

        #[test]
        fn state_lies_above_constants(counts in counts()) {
            let layout = InstanceLayout::new(counts).unwrap();
            for i in 0..counts.globals { prop_assert!(layout.global(i) >= layout.state()); }
            for i in 0..counts.tables { prop_assert!(layout.table(i) >= layout.state()); }
            for i in 0..counts.segments { prop_assert!(layout.segment(i).0 >= layout.state()); }
            for i in 0..counts.imported_funcs { prop_assert!(layout.import(i) < layout.state()); }
            for i in 0..counts.types { prop_assert!(layout.type_id(i) < layout.state()); }
            for i in 0..counts.address_taken_funcs {
                prop_assert!(layout.funcref(i) < layout.state());
            }
            for i in 0..counts.tags { prop_assert!(layout.tag(i) < layout.state()); }
        }
    }

    #[test]
    fn an_area_over_the_limit_is_refused_and_one_at_it_is_not() {
        let most = ((INSTANCE_AREA_BYTES_MAX - u64::from(CONTEXT_BYTES)) / 16) as u32;
        let with = |globals| {
            InstanceLayout::new(Counts {
                globals,
                ..Counts::default()
            })
        };
        assert_eq!(
            with(most).map(|l| u64::from(l.bytes())),
            Some(INSTANCE_AREA_BYTES_MAX)
        );
        assert_eq!(with(most + 1), None);
        assert_eq!(with(u32::MAX), None);
    }

    #[test]
    fn the_context_ends_at_memory() {
        assert_eq!(CONTEXT_MEMORY, -16);
        assert_eq!(CONTEXT_EXIT, -32);
        assert_eq!(CONTEXT_HOST_CALL, -24);
        assert_eq!(CONTEXT_ACTIVATION, -40);
        assert_eq!(CONTEXT_FUEL, -48);
        assert_eq!(CONTEXT_FILL, -96);
        assert_eq!(CONTEXT_COPY, -104);
        assert_eq!(CONTEXT_RUNTIME, -576);
    }
}
