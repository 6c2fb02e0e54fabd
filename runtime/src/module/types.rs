//! Numbers that are unique in the process: of types, so that a call through a table compares one number whatever modules
//! are involved, and of modules.
//!
//! A type has its number as long as a module is open that has the type; then another type may get it. These hold:
//!
//! 1. Two types that have numbers at the same time have equal ones if they are equal, and only then.
//! 2. Each [`Module`](crate::Module), and with it each instance, holds all of its types: its numbers do not change, and no
//!    other type gets them. A module also has all types that its types name, and their supertypes.
//! 3. Wherever a number lies (ids in instance areas, headers of objects, function references), it is one of the types of
//!    the instance or of another one of its group, and is not read after they end. A slot that has
//!    been used keeps numbers only for instances of the same open module, which is told by a number that no other module
//!    ever has ([`fresh_module`]).
//!
//! From 3 it follows that nothing reads a number in the name of a type that does not have it any more.
//! `runtime/tests/numbers.rs` and the tests below look for the contrary.

mod table;

use crate::{locks, sys};
use pirn_format::metadata::Metadata;
use pirn_format::types::{SubType, number_types};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use table::{BLOCKS_MAX, NUMBERS_MAX, Table};

/// The types that have numbers.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Where the table of types begins; 0 as long as there is none.
static ROWS: AtomicU64 = AtomicU64::new(0);

/// Numbers of a group itself begin here: see [`number_types`].
const WITHIN: u32 = 1 << 31;

/// The types that have numbers.
#[derive(Debug)]
pub(super) struct Known {
    groups: HashMap<Arc<[SubType]>, Group>,
    /// Numbers that types had and none has, the one that waits longest first.
    free: VecDeque<u32>,
    /// The first number that no type ever had.
    next: u32,
    /// Where numbers end: [`NUMBERS_MAX`], but in tests.
    numbers_max: usize,
    blocks_max: usize,
    /// None as long as no type has subtypes.
    table: Option<Table>,
}

/// A group of types that has numbers.
#[derive(Debug)]
struct Group {
    numbers: Box<[u32]>,
    /// How often open modules declare it. Never 0.
    holders: usize,
}

/// The numbers of a module's types, which are theirs as long as this lives.
#[derive(Debug)]
pub(super) struct Numbers {
    /// By the type's index in the module.
    numbers: Vec<u32>,
    groups: Vec<Arc<[SubType]>>,
}

/// The lock of this module.
pub(super) type Lock = MutexGuard<'static, Option<Known>>;

/// Takes it.
pub(super) fn lock() -> Lock {
    sys::lock(&KNOWN)
}

/// Numbers the types of a module: equal types have equal numbers.
///
/// # Errors
///
/// If the open modules have too many types, or the system has no memory for the table of types.
pub(super) fn number(metadata: &Metadata) -> io::Result<Numbers> {
    let mut known = locks::take(&KNOWN);
    let known = known.get_or_insert_with(|| Known::new(NUMBERS_MAX, BLOCKS_MAX));
    let numbers = known.hold(metadata)?;
    if let Some(table) = &known.table {
        ROWS.store(table.start() as u64, Ordering::Release);
    }
    Ok(numbers)
}

/// Where the table of types begins; 0 as long as no type has subtypes.
pub(crate) fn rows() -> u64 {
    ROWS.load(Ordering::Acquire)
}

/// Whether a type is another, or is declared as a subtype of it.
pub(crate) fn is_subtype(found: u32, wanted: u32) -> bool {
    found == wanted || {
        let known = locks::take(&KNOWN);
        let table = known.as_ref().and_then(|known| known.table.as_ref());
        table.is_some_and(|table| table.chain(found).any(|above| above == wanted))
    }
}

impl Numbers {
    /// By the type's index in the module.
    pub(super) fn as_slice(&self) -> &[u32] {
        &self.numbers
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        let mut known = locks::take(&KNOWN);
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
            // 0 is no type's, see `table`.
            next: 1,
            numbers_max,
            blocks_max,
            table: None,
        }
    }

    /// Numbers the types of a module, and counts it among those that hold them.
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
            // Not numbers of types, and nobody gets them.
            numbers.resize(numbers.len() + len, 0);
        });
        if let Err(error) = result {
            self.release(&groups);
            return Err(error);
        }
        Ok(Numbers { numbers, groups })
    }

    /// Counts one more that holds a group, which gets numbers if it has none.
    fn hold_group(&mut self, group: Cow<'_, [SubType]>) -> io::Result<(Arc<[SubType]>, &[u32])> {
        let key = match self.groups.get_key_value(&*group) {
            Some((key, _)) => Arc::clone(key),
            None => {
                let added = Group {
                    numbers: self.add(&group)?,
                    holders: 0,
                };
                let key = Arc::<[SubType]>::from(group.into_owned());
                self.groups.insert(Arc::clone(&key), added);
                key
            }
        };
        let group = self.groups.get_mut(&key).expect("it is there");
        group.holders += 1;
        Ok((key, &group.numbers))
    }

    /// Gives numbers to the types of a group, which name others by their numbers.
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

    /// Counts one less that holds each of these groups. Those that nobody holds lose their numbers.
    ///
    /// They are all the groups of a module, so of types that name each other, or are subtypes of each other, none is kept
    /// whose others are not.
    fn release(&mut self, groups: &[Arc<[SubType]>]) {
        // Subtypes come after their supertypes, and lose their rows before those lose the chains that the rows name.
        for key in groups.iter().rev() {
            let group = self.groups.get_mut(key).expect("a module holds it");
            group.holders -= 1;
            if group.holders == 0 {
                let group = self.groups.remove(key).expect("it was there");
                self.forget(&group.numbers);
            }
        }
        // What many types took does not stay when few are left.
        if self.groups.len() < self.groups.capacity() / 8 {
            self.groups.shrink_to(self.groups.len() * 2);
        }
    }

    /// Takes back the numbers of a group.
    fn forget(&mut self, numbers: &[u32]) {
        if let Some(table) = &mut self.table {
            for number in numbers.iter().rev() {
                table.forget(*number);
            }
        }
        self.free.extend(numbers);
    }
}

fn full(what: &str, found: usize, limit: usize) -> io::Error {
    let message = format!(
        "open modules have {found} {what}, the limit of a process is {limit}; close modules, or open this one in \
         another process"
    );
    io::Error::other(message)
}

/// A number for a module that was opened just now.
pub(super) fn fresh_module() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only its being unique matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
