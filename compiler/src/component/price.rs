//! The prices of a component's parts, in units of the budget.
//!
//! Most prices pay for memory: [`memory`] converts bytes to units. The bytes are the most that a
//! part was measured to take at a time, over both validators, the library that reads components,
//! and the joined module. `testing/fuzz/checks/tests/cost.rs` compares them with the heap.

use crate::budget::UNIT_BYTES;

/// The units that pay for `bytes` bytes of memory.
const fn memory(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT_BYTES)
}

/// For each node of a lowered function's type, for the code of an adapter that the library may
/// make. The adapter's code is charged again when it is compiled.
pub(super) const ADAPTER_NODE: u64 = memory(300);

/// For an adapter between two component instances, besides the nodes of its type.
pub(super) const ADAPTER: u64 = memory(2800);

/// For a core module of adapters, besides its adapters and its [`SNAPSHOT`]s.
pub(super) const ADAPTER_MODULE: u64 = memory(10_000);

/// For each item that is given, aliased or exported, and for each item in such an instance: the
/// validators and the library copy the item with its type.
pub(super) const COPIED: u64 = memory(880);

/// For each node of a type that is copied with an item: a type that contains a resource, because
/// each import and each instance has its own resources, a core module or a component.
pub(super) const COPIED_NODE: u64 = memory(320);

/// For each component or core module that another component captures, directly or indirectly. The
/// library copies the captures with that component.
pub(super) const CAPTURED: u64 = memory(60);

/// For a component or core module that is defined, in each instance of the enclosing component.
pub(super) const DEFINED: u64 = memory(40);

/// For an instance of a component.
pub(super) const INSTANCE: u64 = memory(600);

/// For an instance of a core module, besides its bytes and its items.
pub(super) const CORE_INSTANCE: u64 = memory(1200);

/// For an instance that is made of exports, besides its items.
pub(super) const EXPORTS: u64 = memory(240);

/// For each item of a core module that an instance has again: types, functions, segments and the
/// like, names of functions, and elements of segments.
pub(super) const CORE_ITEM: u64 = memory(400);

/// A function also takes memory for its machine code and its tables.
pub(super) const ITEMS_PER_FUNCTION: u64 = 3;

/// An active segment may be written by the start function of the joined module. Cranelift takes
/// some kilobytes for the operators that write it, with fuel 21.
pub(super) const ITEMS_PER_SEGMENT: u64 = 60;

/// Bytes of a section of names. This number of bytes has the price of an item.
pub(super) const NAMING_BYTES: u64 = 8;

/// Parameters and results of a function type. This number of them has the price of an item of a
/// core module.
pub(super) const VALUES_PER_ITEM: u64 = 32;

/// For a function that is lifted, or that a component lowers from the host.
pub(super) const FUNCTION: u64 = memory(840);

/// For a resource type. Each instance has its own.
pub(super) const RESOURCE: u64 = memory(420);

/// For each resource type that is known where a component is instantiated: the library
/// copies its tables of resources for each instance, and restores them after it.
pub(super) const KNOWN_RESOURCE: u64 = memory(100);

/// For each earlier snapshot of a validator's types, at each snapshot. The end of each component
/// and core module, and the start of each code section, makes a snapshot, which lists all earlier
/// snapshots for each kind of type. All snapshots are kept.
pub(super) const SNAPSHOT: u64 = memory(160);

/// For each type that an import or export has named so far, at each snapshot.
pub(super) const NAMED_TYPE: u64 = memory(24);

/// Nodes of a string: its conversion between two instances takes more code than other values.
pub(super) const STRING_NODES: u64 = 6;

/// Bytes of the path of an imported function that are compared in a unit.
pub(super) const COMPARED_BYTES: u64 = 64;

/// Levels of imported instances around an item that cost as much to copy as the item.
pub(super) const COPIED_LEVELS: u64 = 8;

/// Levels of component instances around a function that take a unit in each copy of the function.
pub(super) const LEVELS_PER_UNIT: u64 = 2;
