//! Numbers that are unique in the process, for types and for modules. With these numbers, a call
//! through a table compares one number, whatever modules are involved.
//!
//! A type has its number as long as an open module has the type. Then another type may get the
//! number. These invariants hold:
//!
//! 1. Two types that have numbers at the same time have equal numbers if and only if the types are
//!    equal.
//! 2. Each [`Module`](crate::Module), and with it each instance, holds all of its types. The
//!    numbers of these types do not change, and no other type gets them. A module also has all
//!    types that its types name, and their supertypes.
//! 3. Each stored number (ids in instance areas, object headers, function references) belongs to a
//!    type of the instance or of another instance of its group. The stored number is not read after
//!    these instances end. A used slot keeps numbers only for instances of the same open module,
//!    which it recognises by a number that no other module ever has ([`fresh_module`]).
//!
//! From invariant 3 it follows that a number is never read for a type that no longer has it.
//! `runtime/tests/numbers.rs` and the tests below search for counterexamples.

mod table;

use crate::sys::fork_lock::{ForkLock, Rank};
use pirn_format::metadata::Metadata;
use pirn_format::types::{SubType, number_types};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use table::{BLOCKS_MAX, NUMBERS_MAX, Table, full};

/// The types that have numbers.
static KNOWN: ForkLock<Option<Known>> = ForkLock::new(Rank::new(1), None);

/// Address of the table of types; 0 while there is no table.
static ROWS: AtomicU64 = AtomicU64::new(0);

/// Flag of a reference to a type of the same group: the other bits are the position of the type in
/// the group, see [`number_types`].
const WITHIN: u32 = 1 << 31;

/// The types that have numbers.
#[derive(Debug)]
pub(super) struct Known {
    groups: HashMap<Arc<[SubType]>, TypeGroup>,
    /// Free numbers that types had before. The number that has been free longest comes first.
    free: VecDeque<u32>,
    /// The first number that was never given to a type.
    next: u32,
    /// Limit of the numbers: [`NUMBERS_MAX`], except in tests.
    numbers_max: usize,
    blocks_max: usize,
    /// `None` while no type has subtypes.
    table: Option<Table>,
}

/// A group of types with numbers.
#[derive(Debug)]
struct TypeGroup {
    numbers: Box<[u32]>,
    /// Number of declarations in open modules. Never 0.
    holders: usize,
}

/// The numbers of a module's types, reserved while this value lives.
#[derive(Debug)]
pub(super) struct Numbers {
    /// Number of each type, by its index in the module.
    numbers: Vec<u32>,
    groups: Vec<Arc<[SubType]>>,
}

/// Numbers the types of a module: equal types have equal numbers.
///
/// # Errors
///
/// If the open modules have too many types, or the system has no memory for the table of types.
pub(super) fn number(metadata: &Metadata) -> io::Result<Numbers> {
    let mut known = KNOWN.take();
    let known = known.get_or_insert_with(|| Known::new(NUMBERS_MAX, BLOCKS_MAX));
    let numbers = known.hold(metadata)?;
    if let Some(table) = &known.table {
        ROWS.store(table.start() as u64, Ordering::Release);
    }
    Ok(numbers)
}

/// Address of the table of types; 0 while no type has subtypes.
pub(crate) fn rows() -> u64 {
    ROWS.load(Ordering::Acquire)
}

/// Whether the types are equal, or `found` is declared as a subtype of `wanted`.
pub(crate) fn is_subtype(found: u32, wanted: u32) -> bool {
    found == wanted || {
        let known = KNOWN.take();
        let table = known.as_ref().and_then(|known| known.table.as_ref());
        table.is_some_and(|table| table.chain(found).any(|above| above == wanted))
    }
}

impl Numbers {
    /// Number of each type, by its index in the module.
    pub(super) fn as_slice(&self) -> &[u32] {
        &self.numbers
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        let mut known = KNOWN.take();
        if let Some(known) = known.as_mut() {
            known.release(&self.groups);
        }
    }
}

impl Known {
    fn new(numbers_max: usize, blocks_max: usize) -> Self {
        Self {
            groups: HashMap::new(),
            free: VecDeque::new(),
            // Type number 0 is never given, see `table`.
            next: 1,
            numbers_max,
            blocks_max,
            table: None,
        }
    }

    /// Numbers the types of a module, and counts the module as a holder of their groups.
    fn hold(&mut self, metadata: &Metadata) -> io::Result<Numbers> {
        let mut groups = vec![];
        let mut result = Ok(());
        let numbers = number_types(&metadata.types, &metadata.groups, |group, numbers| {
            let len = group.len();
            if result.is_ok() {
                match self.hold_group(group) {
                    Ok((key, found)) => {
                        numbers.extend_from_slice(found);
                        groups.push(key);
                        return;
                    }
                    Err(error) => result = Err(error),
                }
            }
            // These zeros are not numbers of types, and no caller gets them.
            numbers.resize(numbers.len() + len, 0);
        });
        if let Err(error) = result {
            self.release(&groups);
            return Err(error);
        }
        Ok(Numbers { numbers, groups })
    }

    /// Adds a holder to a group. A new group gets numbers.
    fn hold_group(&mut self, group: Cow<'_, [SubType]>) -> io::Result<(Arc<[SubType]>, &[u32])> {
        let key = match self.groups.get_key_value(&*group) {
            Some((key, _)) => Arc::clone(key),
            None => {
                let added = TypeGroup {
                    numbers: self.add(&group)?,
                    holders: 0,
                };
                let key = Arc::<[SubType]>::from(group.into_owned());
                self.groups.insert(Arc::clone(&key), added);
                key
            }
        };
        let group = self.groups.get_mut(&key).expect("the group exists now");
        group.holders += 1;
        Ok((key, &group.numbers))
    }

    /// Gives numbers to the types of a group. The types name other types by number.
    fn add(&mut self, group: &[SubType]) -> io::Result<Box<[u32]>> {
        let used = self.next as usize - self.free.len() - 1;
        let (found, limit) = (used + group.len(), self.numbers_max - 1);
        if found > limit {
            return Err(full("types", found, limit));
        }
        if self.table.is_none() && group.iter().any(|ty| !ty.is_final) {
            self.table = Some(Table::new(self.blocks_max)?);
        }
        let fresh = group.len().saturating_sub(self.free.len()) as u32;
        if let Some(table) = &mut self.table {
            table.reach((self.next + fresh) as usize)?;
        }
        let reused = group.len() - fresh as usize;
        let reused = self.free.drain(..reused);
        let numbers: Box<[u32]> = reused.chain(self.next..self.next + fresh).collect();
        self.next += fresh;
        let mut result = Ok(());
        if let Some(table) = &mut self.table {
            let mut types = numbers.iter().zip(group);
            result = types.try_for_each(|(number, ty)| {
                let above = ty.supertype.map(|above| match above.checked_sub(WITHIN) {
                    Some(within) => numbers[within as usize],
                    None => above,
                });
                above.map_or(Ok(()), |above| table.write(*number, above))
            });
        }
        match result {
            Ok(()) => Ok(numbers),
            Err(error) => {
                self.forget(&numbers);
                Err(error)
            }
        }
    }

    /// Removes a holder from each of these groups. Groups without holders lose their numbers.
    ///
    /// `groups` must be all groups of a module. So no group is kept while a group that it names, or
    /// the group of a supertype, is released.
    fn release(&mut self, groups: &[Arc<[SubType]>]) {
        // In reverse order: a subtype comes after its supertypes. Its row must be cleared before
        // the chain that the row names is released.
        for key in groups.iter().rev() {
            let group = self.groups.get_mut(key).expect("a module holds the group");
            group.holders -= 1;
            if group.holders == 0 {
                let group = self.groups.remove(key).expect("the map has this group");
                self.forget(&group.numbers);
            }
        }
        // The map shrinks after many types are gone.
        if self.groups.len() < self.groups.capacity() / 8 {
            self.groups.shrink_to(self.groups.len() * 2);
        }
    }

    /// Releases the numbers of a group.
    fn forget(&mut self, numbers: &[u32]) {
        if let Some(table) = &mut self.table {
            for number in numbers.iter().rev() {
                table.forget(*number);
            }
        }
        self.free.extend(numbers);
    }
}

/// Returns a new number for a module.
pub(super) fn fresh_module() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only uniqueness matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
