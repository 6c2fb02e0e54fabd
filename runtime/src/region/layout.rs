//! [`Layout`]: offsets of the parts of a slot. Pure arithmetic.
//!
//! ```text
//!  start of slot                                                                  end of slot
//!  │ stack    │ stack                │ tables      │ instance area │ memory 0      │ memory  │
//!  │ guard    │       ◀── grows down │             │        ◀── end│ 4 GiB reach   │ guard   │
//!  └──────────┴──────────────────────┴─────────────┴───────────────┴───────────────┴─────────┘
//!    never      read-write             read-write    read-write    ^ up to its       never
//!    accessible                                                 vmctx  current size  accessible
//! ```
//!
//! Memory 0 is the first memory that the module defines. If slots hold more memories, each further
//! memory follows with its own guard.
//!
//! The stack guard does not share addresses with the memory guard of the slot below. So a fault
//! address alone tells which slot caused the fault, and whether its stack or its memory did.

use core::ops::Range;
use pirn_format::layout::{
    CONTEXT_BYTES, ELEMENT_BYTES, GUARD_BYTES, MEMORY_BYTES_MAX, MEMORY_REACH_BYTES,
    WASM_PAGE_BYTES,
};

/// Alignment of the start and the end of every part of a slot, in bytes. This is the largest page
/// size of a kernel for our targets.
pub(crate) const PART_ALIGN: usize = 64 << 10;

/// Inaccessible bytes below each stack. Generated code touches every page that a frame spans, so
/// one page is enough.
pub(crate) const STACK_GUARD_BYTES: usize = 64 << 10;

/// Cache colouring: the stack tops of neighbouring slots differ by cache lines, so that they do not
/// compete for the same cache sets. There are `COLOURS` offsets, `COLOUR_BYTES` apart.
const COLOURS: u32 = 56;
const COLOUR_BYTES: usize = 64;

/// Limits of a region: the number of slots, and the maximum contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Number of slots.
    pub(crate) slots: u32,
    /// Maximum number of memories that a module defines.
    pub(crate) memories: u32,
    /// Maximum size of each memory, in bytes.
    pub(crate) memory_bytes_max: usize,
    /// Maximum number of tables that a module defines.
    pub(crate) tables: u32,
    /// Maximum number of elements of each table.
    pub(crate) table_elements: u32,
    /// Size of the stack, in bytes.
    pub(crate) stack_bytes: usize,
    /// Size of globals, imports, function references and the context, in bytes.
    pub(crate) instance_bytes: usize,
}

/// A limit that is out of range: its name, its value, and the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutOfRange {
    pub(crate) setting: &'static str,
    pub(crate) found: u64,
    pub(crate) allowed: core::ops::RangeInclusive<u64>,
}

/// Offsets of the parts of a slot, in bytes from the slot's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// End of the stack guard, start of the stack.
    stack: usize,
    /// End of the stack, start of the tables.
    tables: usize,
    /// Bytes from one table to the next.
    table_bytes: usize,
    /// End of the tables, start of the instance area.
    instance: usize,
    /// End of the instance area: the context pointer.
    vmctx: usize,
    /// End of the slot.
    end: usize,
}

impl Layout {
    /// Places the parts. Sets the limits to the rounded sizes of the parts.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] for a limit that is too small to be useful, or too large for the layout.
    pub(crate) fn new(limits: &mut Limits) -> Result<Self, OutOfRange> {
        let check = |setting, found: u64, allowed: core::ops::RangeInclusive<u64>| {
            if allowed.contains(&found) {
                return Ok(());
            }
            Err(OutOfRange {
                setting,
                found,
                allowed,
            })
        };
        check("memories", u64::from(limits.memories), 1..=MEMORIES_MAX)?;
        let slots_max = SLOTS_MAX / u64::from(limits.memories);
        check("slots", u64::from(limits.slots), 1..=slots_max)?;
        check(
            "memory_bytes_max",
            limits.memory_bytes_max as u64,
            0..=MEMORY_REACH_BYTES,
        )?;
        check("tables", u64::from(limits.tables), 0..=TABLES_MAX)?;
        check(
            "table_elements",
            u64::from(limits.table_elements),
            0..=ELEMENTS_MAX,
        )?;
        check(
            "stack_bytes",
            limits.stack_bytes as u64,
            STACK_BYTES_MIN..=PART_BYTES_MAX,
        )?;
        check(
            "instance_bytes",
            limits.instance_bytes as u64,
            u64::from(CONTEXT_BYTES)..=PART_BYTES_MAX,
        )?;
        limits.memory_bytes_max = limits
            .memory_bytes_max
            .next_multiple_of(WASM_PAGE_BYTES as usize)
            .min(MEMORY_BYTES_MAX as usize);
        limits.stack_bytes = limits.stack_bytes.next_multiple_of(PART_ALIGN);
        limits.instance_bytes = limits.instance_bytes.next_multiple_of(PART_ALIGN);
        // Every table has room for one element. When the processor mispredicts a bounds check,
        // generated code reads the first element instead of an element past the end.
        let table_bytes = limits.table_elements.max(1) as usize * ELEMENT_BYTES as usize;
        let table_bytes = table_bytes.next_multiple_of(PART_ALIGN);
        let stack = STACK_GUARD_BYTES;
        let tables = stack + limits.stack_bytes;
        let instance = tables + limits.tables as usize * table_bytes;
        let vmctx = instance + limits.instance_bytes;
        let end = vmctx + limits.memories as usize * MEMORY_STRIDE;
        let layout = Self {
            stack,
            tables,
            table_bytes,
            instance,
            vmctx,
            end,
        };
        debug_assert_eq!(layout.broken_invariant(limits), None);
        Ok(layout)
    }

    /// Returns the first invariant of the layout that does not hold, if any. All other code relies
    /// on these invariants.
    pub(crate) fn broken_invariant(&self, limits: &Limits) -> Option<&'static str> {
        let aligned = [
            self.stack,
            self.tables,
            self.instance,
            self.vmctx,
            self.end,
            self.table_bytes,
        ];
        let checks = [
            (
                aligned.iter().all(|at| at.is_multiple_of(PART_ALIGN)),
                "parts are aligned",
            ),
            (self.stack >= STACK_GUARD_BYTES, "a stack has a guard"),
            (
                self.tables - self.stack == limits.stack_bytes,
                "the stack is as large as said",
            ),
            (
                self.instance - self.tables == limits.tables as usize * self.table_bytes,
                "the tables are apart",
            ),
            (
                self.table_bytes >= limits.table_elements as usize * ELEMENT_BYTES as usize,
                "a table holds its elements",
            ),
            (
                self.vmctx - self.instance == limits.instance_bytes,
                "the instance area fits",
            ),
            (
                (self.end - self.vmctx) == limits.memories as usize * MEMORY_STRIDE,
                "no access of a guest leaves its memory",
            ),
            (
                limits.memory_bytes_max as u64 <= MEMORY_BYTES_MAX,
                "no memory has more pages than generated code relies on",
            ),
        ];
        checks
            .into_iter()
            .find(|(holds, _)| !holds)
            .map(|(_, what)| what)
    }

    /// Bytes from one slot to the next.
    pub(crate) fn bytes(&self) -> usize {
        self.end
    }

    /// The guard below the stack.
    pub(crate) fn stack_guard(&self) -> Range<usize> {
        0..self.stack
    }

    /// The whole stack.
    pub(crate) fn whole_stack(&self) -> Range<usize> {
        self.stack..self.tables
    }

    /// The stack that the guest of slot `index` uses.
    pub(crate) fn stack(&self, index: u32) -> Range<usize> {
        let colour = (index % COLOURS) as usize * COLOUR_BYTES;
        self.stack..self.tables - colour
    }

    /// All tables.
    pub(crate) fn tables(&self) -> Range<usize> {
        self.tables..self.instance
    }

    /// Start of table `index`.
    pub(crate) fn table(&self, index: u32) -> usize {
        let at = self.tables + index as usize * self.table_bytes;
        debug_assert!(at < self.instance);
        at
    }

    /// The part that is accessible for any size of the memory: stack, tables, instance area.
    pub(crate) fn fixed(&self) -> Range<usize> {
        self.stack..self.vmctx
    }

    /// The context pointer: base of memory 0.
    pub(crate) fn vmctx(&self) -> usize {
        self.vmctx
    }

    /// Base of memory `number`, counted among the memories that a module defines.
    pub(crate) fn memory(&self, number: u32) -> usize {
        let at = self.vmctx + number as usize * MEMORY_STRIDE;
        debug_assert!(at < self.end);
        at
    }
}

/// Bytes from one memory to the next: all addresses that an access can reach.
const MEMORY_STRIDE: usize = (MEMORY_REACH_BYTES + GUARD_BYTES) as usize;
const _: () = assert!(MEMORY_STRIDE.is_multiple_of(PART_ALIGN));
/// Maximum number of memories that a module defines: the limit of validation.
const MEMORIES_MAX: u64 = 100;
/// Maximum number of memories of all slots. Each memory takes 4 GiB of a 47-bit address space.
const SLOTS_MAX: u64 = 32_500;
/// Maximum number of tables that a module defines.
const TABLES_MAX: u64 = 1_000;
/// Maximum number of elements of a table: 1 GiB.
const ELEMENTS_MAX: u64 = 1 << 27;
/// Minimum size of a stack, in bytes. The minimum includes the bytes that cache colouring leaves
/// unused.
const STACK_BYTES_MIN: u64 = 16 << 10;
/// Maximum size of the stack and of the instance area, in bytes.
const PART_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits() -> impl Strategy<Value = Limits> {
        (
            1..=325_u32,
            1..=100_u32,
            0..=1_usize << 32,
            0..=1_000_u32,
            0..=1_u32 << 20,
            16_usize << 10..=1 << 30,
            512_usize..=1 << 30,
        )
            .prop_map(
                |(
                    slots,
                    memories,
                    memory_bytes_max,
                    tables,
                    table_elements,
                    stack_bytes,
                    instance_bytes,
                )| {
                    Limits {
                        slots,
                        memories,
                        memory_bytes_max,
                        tables,
                        table_elements,
                        stack_bytes,
                        instance_bytes,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn every_layout_keeps_the_invariants(limits in limits()) {
            let mut rounded = limits;
            let layout = Layout::new(&mut rounded).unwrap();
            prop_assert_eq!(layout.broken_invariant(&rounded), None);
            prop_assert!(rounded.memory_bytes_max >= limits.memory_bytes_max.min(MEMORY_BYTES_MAX as usize));
            prop_assert!(rounded.stack_bytes >= limits.stack_bytes);
            prop_assert!(rounded.instance_bytes >= limits.instance_bytes);
            let memories = (0..rounded.memories).map(|number| layout.memory(number));
            let ends = memories.clone().skip(1).chain([layout.bytes()]);
            for (start, end) in memories.zip(ends) {
                prop_assert_eq!((end - start) as u64, MEMORY_REACH_BYTES + GUARD_BYTES);
            }
            for index in [0, 1, 55, 56, 57] {
                let stack = layout.stack(index);
                prop_assert!(stack.end <= layout.whole_stack().end && stack.end.is_multiple_of(16));
                prop_assert!(stack.len() + 4096 > rounded.stack_bytes);
            }
        }
    }

    fn some() -> Limits {
        Limits {
            slots: 1,
            memories: 1,
            memory_bytes_max: 1 << 20,
            tables: 1,
            table_elements: 10,
            stack_bytes: 1 << 20,
            instance_bytes: 4096,
        }
    }

    #[test]
    fn limits_are_kept_and_one_past_them_is_named() {
        type Set = fn(&mut Limits, u64);
        let cases: [(&str, Set, u64, u64); 7] = [
            ("slots", |l, n| l.slots = n as u32, 1, SLOTS_MAX),
            ("memories", |l, n| l.memories = n as u32, 1, MEMORIES_MAX),
            (
                "memory_bytes_max",
                |l, n| l.memory_bytes_max = n as usize,
                0,
                1 << 32,
            ),
            ("tables", |l, n| l.tables = n as u32, 0, TABLES_MAX),
            (
                "table_elements",
                |l, n| l.table_elements = n as u32,
                0,
                ELEMENTS_MAX,
            ),
            (
                "stack_bytes",
                |l, n| l.stack_bytes = n as usize,
                STACK_BYTES_MIN,
                PART_BYTES_MAX,
            ),
            (
                "instance_bytes",
                |l, n| l.instance_bytes = n as usize,
                u64::from(CONTEXT_BYTES),
                PART_BYTES_MAX,
            ),
        ];
        for (setting, set, least, most) in cases {
            for (value, fits) in [(least, true), (most, true), (most + 1, false)] {
                let mut limits = some();
                set(&mut limits, value);
                let layout = Layout::new(&mut limits);
                assert_eq!(layout.is_ok(), fits, "{setting} {value}");
                if let Err(error) = layout {
                    assert_eq!((error.setting, error.found), (setting, value));
                }
            }
            if let Some(below) = least.checked_sub(1) {
                let mut limits = some();
                set(&mut limits, below);
                assert!(Layout::new(&mut limits).is_err(), "{setting} {below}");
            }
        }
    }

    #[test]
    fn there_are_fewer_slots_of_more_memories() {
        let with = |slots, memories| {
            let mut limits = Limits {
                slots,
                memories,
                ..some()
            };
            Layout::new(&mut limits).map(|layout| layout.bytes() * slots as usize)
        };
        assert!(with(3_250, 10).is_ok_and(|bytes| bytes < 1 << 47));
        let error = with(3_251, 10).expect_err("it is refused");
        assert_eq!((error.setting, error.allowed), ("slots", 1..=3_250));
        assert!(with(325, 100).is_ok() && with(326, 100).is_err());
    }

    #[test]
    fn a_memory_has_all_pages_of_4_gib_but_the_last() {
        let rounded = |memory_bytes_max| {
            let mut limits = some();
            limits.memory_bytes_max = memory_bytes_max;
            let layout = Layout::new(&mut limits).unwrap();
            assert_eq!(layout.broken_invariant(&limits), None);
            limits.memory_bytes_max
        };
        let page = WASM_PAGE_BYTES as usize;
        let most = 65_535 * page;
        for asked in [most, most + 1, 1 << 32] {
            assert_eq!(rounded(asked), most, "{asked}");
        }
        assert_eq!(rounded(most - page), most - page);
        let mut limits = some();
        let layout = Layout::new(&mut limits).unwrap();
        limits.memory_bytes_max = most + page;
        assert!(layout.broken_invariant(&limits).is_some());
    }

    #[test]
    fn a_broken_layout_is_noticed() {
        let mut limits = some();
        let good = Layout::new(&mut limits).unwrap();
        let bad = |change: fn(&mut Layout)| {
            let mut layout = good;
            change(&mut layout);
            layout.broken_invariant(&limits).is_some()
        };
        assert!(bad(|layout| layout.stack -= PART_ALIGN));
        assert!(bad(|layout| layout.end -= PART_ALIGN));
        assert!(bad(|layout| layout.vmctx += 16));
        assert!(bad(|layout| layout.table_bytes = 0));
    }
}
