//! The instance context: the only home of offsets that generated code and the runtime share.
//!
//! One pointer, `vmctx`, is all that generated code is given. It is at once the base of memory 0 and
//! the end of the instance's own data, which lies below it, so that a guest, whose addresses are
//! unsigned and added to the base, can form no address of it:
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
//! The parts grow downwards: element 0 of each part has the highest address. Everything in the
//! instance area is placed by [`InstanceLayout`], a pure function of the module's [`Counts`].

use core::mem::{offset_of, size_of};

/// Bytes of address space, from the memory base, that an unchecked access can reach by its index:
/// a 32-bit index spans 4 GiB.
pub const MEMORY_REACH_BYTES: u64 = 1 << 32;

/// Inaccessible bytes behind [`MEMORY_REACH_BYTES`]: an access whose static offset plus size is at
/// most this needs no check.
pub const GUARD_BYTES: u64 = 32 << 20;

/// Bytes of one page of linear memory (spec 4.2.8).
pub const WASM_PAGE_BYTES: u64 = 64 << 10;

/// Most pages of a memory: one less than 32 bits address. So an index that was inside the memory does not wrap
/// when as many bytes as a page has are added to it; generated code relies on it.
pub const MEMORY_PAGES_MAX: u64 = MEMORY_REACH_BYTES / WASM_PAGE_BYTES - 1;

/// Most bytes of a memory.
pub const MEMORY_BYTES_MAX: u64 = MEMORY_PAGES_MAX * WASM_PAGE_BYTES;

/// Bytes of one page of an initial memory image in the file, on every target.
///
/// It is a unit of the format, not the page size of any machine.
pub const IMAGE_PAGE_BYTES: u64 = 4096;

/// Bytes of one global: the widest value is a `v128`.
pub const GLOBAL_BYTES: u32 = 16;

/// Bytes of one table element: an address of a [`FuncRef`], a host reference, or 0 for null.
pub const ELEMENT_BYTES: u32 = 8;

/// Bytes of the header of a struct or an array: the process-wide id of its type, and of an array the number of its
/// elements, which follow, or of a struct its fields. A reference to a struct is the address of its header.
pub const OBJECT_HEADER_BYTES: u32 = 8;

/// What the addresses of structs and arrays are multiples of.
pub const OBJECT_ALIGN: u32 = 8;

/// Offset of the id of the type in a header.
pub const OBJECT_TYPE: i32 = 0;
/// Offset of the number of elements in the header of an array.
pub const ARRAY_LEN: i32 = 4;

/// The lowest bits of a reference that is not null: a struct has 0, a number of 31 bits [`TAG_I31`] in the lowest alone.
pub const TAG_BITS: u64 = 7;
/// The lowest bit of a number of 31 bits, which lies above it.
pub const TAG_I31: u64 = 1;
/// Those of a reference to an array, above which is the address of its header.
pub const TAG_ARRAY: u64 = 2;
/// Those of a reference of the host's, whose number lies above them.
pub const TAG_HOST: u64 = 4;
/// Those of a reference of the host's whose number does not fit there: above them is the address of a header, which the
/// number follows.
pub const TAG_BOXED: u64 = 6;

/// How far the number of a reference of the host's lies above its tag.
pub const HOST_SHIFT: u32 = 3;

/// The upper bits of an `externref` that is a guest's reference, below which it lies, and how many these are. No number of
/// the host's has them.
pub const EXTERNAL_PREFIX: u64 = 0xfffe;
/// How far the prefix is shifted.
pub const EXTERNAL_SHIFT: u32 = 48;

/// Bytes of an entry of the table of types: how many types its chain of supertypes has, and where it lies. A chain begins
/// with the type that is a subtype of no other, and ends before the type itself; it has 4 bytes for the id of each.
pub const TYPE_ROW_BYTES: u32 = 8;

/// Base and current size of a linear memory, as generated code reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryDesc {
    /// Address of byte 0.
    pub base: u64,
    /// Current size in bytes, a multiple of a page of the memory's type.
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

/// Where to call an imported function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct FuncImport {
    /// Address of code with the guest's calling convention. The imported functions of a module that
    /// have one type share a trampoline for calls of the host.
    pub code: u64,
    /// First argument of that code: the context of the instance that defines the function, or, for
    /// a host function, the address of this [`FuncImport`].
    pub vmctx: u64,
    /// Context of the instance that imports a host function. Read by the trampoline.
    pub instance: u64,
    /// Which host function it is: what the trampoline gives to the routine for host functions.
    pub host: u64,
}

/// What a non-null function reference points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct FuncRef {
    /// Address of code with the guest's calling convention.
    pub code: u64,
    /// First argument of that code, see [`FuncImport::vmctx`].
    pub vmctx: u64,
    /// Process-wide id of its type: equal ids, equal types.
    pub type_id: u32,
    /// Unused, zero.
    pub reserved: u32,
}

/// The fixed fields of an instance, ending where memory 0 begins.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Context {
    /// For the runtime alone: generated code never looks here.
    pub runtime: [u64; RUNTIME_WORDS],
    /// Where the next struct or array of this instance lies; 0 if the module makes none. What is behind it is zero, so it is
    /// moved on before anything of one is written.
    pub heap_next: u64,
    /// End of what is accessible for structs and arrays.
    pub heap_end: u64,
    /// The process's table of types and their supertypes, by ids; 0 as long as no type has any.
    pub type_rows: u64,
    /// Identity of the tag of the exception that was caught last, for who caught it: of any instance that the
    /// running call can reach. Written by the runtime, as the next field.
    pub exception_tag: u64,
    /// Address of the values of that exception, in cells, until the guest calls anything.
    pub exception_values: u64,
    /// Fuel that is left, read and written by generated code that counts it; negative once more was
    /// used than there was. The runtime writes it at each start and between calls.
    pub fuel: i64,
    /// Address of the runtime's record of the running call, read by the exit routine.
    pub activation: u64,
    /// Address of the exit routine, see [`crate::exit`].
    pub exit: u64,
    /// Address of the routine that calls a host function, see [`crate::exit`].
    pub host_call: u64,
    /// Memory 0, if the module defines it; all zero otherwise.
    pub memory: MemoryDesc,
}

/// Bytes of [`Context`].
pub const CONTEXT_BYTES: u32 = 512;
/// Words of [`Context::runtime`].
pub const RUNTIME_WORDS: usize = CONTEXT_BYTES as usize / 8 - 11;
const _: () = assert!(size_of::<Context>() == CONTEXT_BYTES as usize);

/// Distance of a field of [`Context`] from `vmctx`, in bytes; always negative.
const fn context_field(offset_in_context: usize) -> i32 {
    offset_in_context as i32 - CONTEXT_BYTES as i32
}

/// Offset of [`Context::runtime`] from `vmctx`.
pub const CONTEXT_RUNTIME: i32 = context_field(offset_of!(Context, runtime));
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

/// How many of everything a module has; all that [`InstanceLayout`] depends on.
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
    /// Functions that can be referred to: see [`Metadata::escaped`](crate::metadata::Metadata).
    pub escaped_funcs: u32,
    /// Tags, imported ones included.
    pub tags: u32,
}

/// Bytes of a tag's identity.
const TAG_BYTES: usize = 8;

/// Most operators of a constant expression.
pub const CONSTANT_OPERATORS_MAX: u64 = 16_384;

/// Most bytes of an instance area: 1 GiB keeps every offset far inside an `i32`.
pub const INSTANCE_AREA_BYTES_MAX: u64 = 1 << 30;

/// Where the parts of one module's instance area lie. All offsets are from `vmctx`, negative.
///
/// * A global cell holds the value itself, or, for an imported *mutable* global, the address of the
///   owner's cell. An imported immutable global is copied.
/// * A table cell holds a [`TableDesc`], or, for an imported table, the address of the owner's.
/// * A memory cell holds the address of the owner's [`MemoryDesc`] for an imported memory. Memory 0,
///   when defined, has its descriptor in the [`Context`] and its cell is unused.
/// * A tag cell holds the tag's identity: the address of the owner's cell.
/// * A segment bit is 1 once the segment was dropped; data segments come first.
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
    /// Places the parts for a module with these counts; `None` if they exceed
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
        let funcrefs = part(counts.escaped_funcs, size_of::<FuncRef>());
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

    /// The counts it was made for.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes from the lowest cell up to `vmctx`, the [`Context`] included; a multiple of 16.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        (-self.end) as u32
    }

    /// Offset of the lowest byte that a guest's own instructions can change: everything from here
    /// up to the [`Context`] is state, everything below is constant while the slot keeps the module.
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

    /// Offset of the [`FuncRef`] of the escaped function at `position` in
    /// [`Metadata::escaped`](crate::metadata::Metadata).
    #[must_use]
    pub fn funcref(&self, position: u32) -> i32 {
        debug_assert!(position < self.counts.escaped_funcs);
        cell(self.funcrefs, position, size_of::<FuncRef>())
    }

    /// Offset of the identity of tag `index`.
    #[must_use]
    pub fn tag(&self, index: u32) -> i32 {
        debug_assert!(index < self.counts.tags);
        cell(self.tags, index, TAG_BYTES)
    }
}

/// Offset of element `index` in a part that starts (at its high end) at `start`.
fn cell(start: i64, index: u32, bytes: usize) -> i32 {
    // In range: `InstanceLayout::new` bounds the whole area to 1 GiB.
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
        all.extend((0..c.escaped_funcs).map(|i| (layout.funcref(i), 24)));
        all.extend((0..c.tags).map(|i| (layout.tag(i), 8)));
        all.sort_unstable();
        all
    }

    fn counts() -> impl Strategy<Value = Counts> {
        let n = || 0..200_u32;
        (n(), n(), n(), n(), n(), n(), n(), n()).prop_map(
            |(globals, tables, memories, segments, imported_funcs, types, escaped_funcs, tags)| {
                Counts {
                    globals,
                    tables,
                    memories,
                    segments,
                    imported_funcs,
                    types,
                    escaped_funcs,
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
                prop_assert!(offset >= at, "cell at {offset} overlaps what ends at {at}");
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
            for i in 0..counts.escaped_funcs { prop_assert!(layout.funcref(i) < layout.state()); }
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
        assert_eq!(CONTEXT_RUNTIME, -512);
    }
}
