//! [`Heap`]: what is known about structs and arrays that a [`Value`] cannot express.
//!
//! An object never moves, and neither its type nor its length changes. So knowledge about an object
//! stays true until another value gets the symbol of the object or of the index.

use crate::conversion::Classes;
use crate::value::{Symbol, Value};
use std::borrow::Cow;

/// An object between its allocation and the last write that makes it a valid object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// Names the object's address.
    pub(crate) object: Symbol,
    /// The number of the object's bytes: the integer of a sum with `Kind::HeapNext`.
    pub(crate) bytes: Value,
    /// The type in the object's header, once code has written the type.
    pub(crate) ty: Option<u32>,
    /// Offsets of unwritten fields that must not be null, in order.
    pub(crate) missing: Vec<i64>,
    /// The written elements, if the object is an array of references that must not be null.
    pub(crate) filled: Option<Filled>,
    /// Whether all words of the object's header are written.
    pub(crate) is_headed: bool,
}

impl Fresh {
    /// Whether the offset of the first missing element uses a symbol that the join at `name`'s
    /// block defines anew.
    fn is_renamed(&self, name: Symbol) -> bool {
        let filled = self.filled;
        filled.is_some_and(|filled| is_of_block(filled.at.symbol, name))
    }
}

/// Whether both symbols come from joins at one block. The first symbol may name the lowest 32 bits
/// of a number.
fn is_of_block(symbol: Symbol, name: Symbol) -> bool {
    (symbol.0 & !Symbol::WORD) >> Symbol::LOCATION_BITS == name.0 >> Symbol::LOCATION_BITS
}

/// How far the elements of a new array are written. Code writes them in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Offset of the first element that was not written yet.
    pub(crate) at: Term,
    /// Offset after the last element.
    pub(crate) end: Term,
}

/// An integer: a symbol, shifted, plus a constant. [`Symbol::ZERO`] is the integer 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) symbol: Symbol,
    pub(crate) shift: u8,
    pub(crate) constant: i64,
}

impl Term {
    pub(crate) const fn constant(constant: i64) -> Self {
        Self {
            symbol: Symbol::ZERO,
            shift: 0,
            constant,
        }
    }

    /// The integer of a value.
    pub(crate) fn of(value: Value) -> Self {
        match value.exact() {
            Some(exact) => Self::constant(exact),
            None => Self {
                symbol: value.symbol,
                shift: value.shift,
                constant: value.constant,
            },
        }
    }

    /// The integer divided by a power of two, if the division leaves no remainder.
    pub(crate) fn divided(self, log2: u32) -> Option<Self> {
        let is_exact = self.is_small() && self.constant & ((1 << log2) - 1) == 0;
        let shift = match self.symbol {
            Symbol::ZERO => Some(0),
            _ => u32::from(self.shift).checked_sub(log2),
        };
        let shift = shift.filter(|_| is_exact)?;
        Some(Self {
            symbol: self.symbol,
            shift: shift as u8,
            constant: self.constant >> log2,
        })
    }

    /// Whether sums with the constant do not wrap around. Values are known modulo 2^64 only, so for
    /// greater constants, an index could be above a length and the sum below the length.
    const fn is_small(self) -> bool {
        self.constant.unsigned_abs() < 1 << 48
    }

    /// The integer multiplied by a power of two.
    pub(crate) fn scaled(self, log2: u32) -> Option<Self> {
        let shift = match self.symbol {
            Symbol::ZERO => 0,
            _ => u32::from(self.shift) + log2,
        };
        Some(Self {
            symbol: self.symbol,
            shift: u8::try_from(shift).ok().filter(|shift| *shift < 64)?,
            constant: self.constant.checked_mul(1_i64.checked_shl(log2)?)?,
        })
    }

    /// The distance from another integer, if the distance is constant.
    pub(crate) fn distance(self, from: Self) -> Option<i64> {
        let is_constant = (self.symbol, self.shift) == (from.symbol, from.shift);
        is_constant.then(|| self.constant.checked_sub(from.constant))?
    }

    pub(crate) fn plus(self, constant: i64) -> Option<Self> {
        let constant = self.constant.checked_add(constant)?;
        Some(Self { constant, ..self })
    }
}

/// The neighbour at a constant distance after the header of an object that the function allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Neighbour {
    /// The address of the next object.
    Next,
    /// An object that is not completely written.
    Fresh(Symbol),
    /// An object of the type with this index.
    Object(Symbol, u32),
}

/// `what` lies `distance` bytes after the header of the object `after`. Objects that code allocates
/// in turn lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    after: Symbol,
    distance: i64,
    what: Neighbour,
}

/// Most places that a heap keeps. New places replace the oldest places.
const PLACES_MAX: usize = 48;

/// The 64-bit integer `sum` is the sum of `left` and `right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum {
    sum: Symbol,
    left: Symbol,
    right: Symbol,
}

/// A size that was rounded up: a multiple of 8 that is at least `term`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rounded {
    size: Symbol,
    term: Term,
}

/// The array with this symbol has at least `len` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Length {
    array: Symbol,
    len: Term,
}

/// Most incomplete objects that a heap keeps. A new object replaces the oldest object. A join
/// compares each incomplete object of one state with each incomplete object of the other state.
const FRESH_MAX: usize = 48;

/// Most entries of each other list. A new entry replaces the oldest entry.
const ENTRIES_MAX: usize = 12;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Heap {
    /// The address up to which an object can be allocated, as a `Kind::HeapNext`.
    pub(crate) room: Option<Value>,
    /// Whether the last call has made the runtime make room.
    pub(crate) has_grown: bool,
    pub(crate) fresh: Vec<Fresh>,
    sums: Vec<Sum>,
    rounded: Vec<Rounded>,
    /// Names of the lowest 32 bits of sums.
    words: Vec<(Term, Symbol)>,
    lengths: Vec<Length>,
    places: Vec<Place>,
    /// Objects whose types have at least this number of supertypes.
    depths: Vec<(Symbol, i64)>,
    /// References, and the classes that a reference may belong to.
    classes: Vec<(Symbol, Classes)>,
}

fn add<T: PartialEq>(list: &mut Vec<T>, entry: T) {
    if list.contains(&entry) {
        return;
    }
    if list.len() == ENTRIES_MAX {
        list.remove(0);
    }
    list.push(entry);
}

fn keep<T: PartialEq>(list: &mut Vec<T>, other: &[T]) {
    list.retain(|entry| other.contains(entry));
}

impl Heap {
    /// The type of the new object that this symbol names, once its header is complete.
    pub(crate) fn new_object_type(&self, object: Symbol) -> Option<u32> {
        let is_it = |fresh: &&Fresh| fresh.object == object && fresh.is_headed;
        self.fresh.iter().find(is_it)?.ty
    }

    /// A new array whose offset of the first missing element may differ between two paths, and both
    /// offsets. The offsets differ if they are unequal, or if they use a symbol that the join at
    /// `name`'s block defines anew. Such a symbol means another integer on each path.
    pub(crate) fn filled_differently(
        &self,
        other: &Self,
        name: Symbol,
    ) -> Option<(Symbol, Term, Term)> {
        let at = |fresh: &Fresh| fresh.filled.map(|filled| filled.at);
        self.fresh.iter().find_map(|fresh| {
            let other = other
                .fresh
                .iter()
                .find(|other| other.object == fresh.object)?;
            let (mine, others) = (at(fresh)?, at(other)?);
            let differ = mine != others || is_of_block(mine.symbol, name);
            differ.then_some((fresh.object, mine, others))
        })
    }

    /// Whether the offset of a first missing element uses a symbol that the join at `name`'s block
    /// defines anew.
    pub(crate) fn is_renamed(&self, name: Symbol) -> bool {
        self.fresh.iter().any(|fresh| fresh.is_renamed(name))
    }

    /// Sets the offset of the first missing element of a new array. Returns whether the offset has
    /// changed.
    fn set_filled(&mut self, array: Symbol, at: Term) -> bool {
        let mut moved = false;
        let of_array = self.fresh.iter_mut().filter(|fresh| fresh.object == array);
        for filled in of_array.filter_map(|fresh| fresh.filled.as_mut()) {
            moved |= filled.at != at;
            filled.at = at;
        }
        moved
    }

    /// Keeps what holds on both paths. Returns whether anything changed. `written` is an array, and
    /// the offset up to which both paths have written the array. Other new arrays are forgotten if
    /// their offset uses a symbol that the join at `name`'s block defines anew.
    pub(crate) fn join(
        &mut self,
        other: &Self,
        written: Option<(Symbol, Term)>,
        name: Symbol,
    ) -> bool {
        let mut other = Cow::Borrowed(other);
        let mut moved = false;
        if let Some((array, at)) = written {
            moved = self.set_filled(array, at);
            other.to_mut().set_filled(array, at);
        }
        let before = self.entries();
        let (room, has_grown) = (self.room, self.has_grown);
        self.has_grown &= other.has_grown;
        self.room = self.room.filter(|room| other.room == Some(*room));
        keep(&mut self.fresh, &other.fresh);
        let array = written.map(|(array, _)| array);
        self.fresh
            .retain(|fresh| Some(fresh.object) == array || !fresh.is_renamed(name));
        keep(&mut self.sums, &other.sums);
        keep(&mut self.rounded, &other.rounded);
        keep(&mut self.words, &other.words);
        keep(&mut self.lengths, &other.lengths);
        keep(&mut self.depths, &other.depths);
        keep(&mut self.places, &other.places);
        keep(&mut self.classes, &other.classes);
        moved || before != self.entries() || room != self.room || has_grown != self.has_grown
    }

    fn entries(&self) -> usize {
        self.fresh.len()
            + self.sums.len()
            + self.rounded.len()
            + self.words.len()
            + self.lengths.len()
            + self.depths.len()
            + self.places.len()
            + self.classes.len()
    }

    /// Words of the new objects. A copy of a state copies them, as it copies the words of the
    /// frame.
    pub(crate) fn words(&self) -> usize {
        let words = |fresh: &Fresh| 1 + fresh.missing.len();
        self.fresh.iter().map(words).sum()
    }

    /// Adds an object without written words. Forgets the oldest object if there are too many.
    pub(crate) fn add_fresh(&mut self, fresh: Fresh) {
        self.fresh.retain(|old| old.object != fresh.object);
        if self.fresh.len() == FRESH_MAX {
            self.fresh.remove(0);
        }
        self.fresh.push(fresh);
    }

    /// Notes that a new object lies at the address of the next object. `bytes` is the object's
    /// size, if the size is known.
    pub(crate) fn add_object(&mut self, object: Symbol, bytes: Option<i64>) {
        let is_old = |what| match what {
            Neighbour::Next => false,
            Neighbour::Fresh(of) | Neighbour::Object(of, _) => of == object,
        };
        self.places
            .retain(|place| place.after != object && !is_old(place.what));
        let mut added = vec![];
        for place in &mut self.places {
            if place.what != Neighbour::Next {
                continue;
            }
            place.what = Neighbour::Fresh(object);
            let distance = bytes.and_then(|bytes| place.distance.checked_add(bytes));
            added.extend(distance.map(|distance| Place {
                distance,
                what: Neighbour::Next,
                ..*place
            }));
        }
        added.extend(bytes.map(|distance| Place {
            after: object,
            distance,
            what: Neighbour::Next,
        }));
        self.places.extend(added);
        let surplus = self.places.len().saturating_sub(PLACES_MAX);
        self.places.drain(..surplus);
    }

    /// Copies the places of objects from another state.
    pub(crate) fn restore_places(&mut self, other: &Self) {
        self.places.clone_from(&other.places);
    }

    /// Notes that an object is completely written.
    pub(crate) fn set_complete(&mut self, object: Symbol, ty: u32) {
        for place in &mut self.places {
            if place.what == Neighbour::Fresh(object) {
                place.what = Neighbour::Object(object, ty);
            }
        }
    }

    /// Forgets where the next object is allocated.
    pub(crate) fn forget_next(&mut self) {
        self.room = None;
        self.has_grown = false;
        self.places.retain(|place| place.what != Neighbour::Next);
    }

    /// The nearest neighbour at or before an offset from the header of an object, and the rest of
    /// the offset.
    pub(crate) fn neighbour(&self, object: Symbol, offset: i64) -> Option<(Neighbour, i64)> {
        let of = self.places.iter();
        let before = of.filter(|place| place.after == object && place.distance <= offset);
        let nearest = before.max_by_key(|place| place.distance)?;
        Some((nearest.what, offset - nearest.distance))
    }

    /// Notes that `sum` is the sum of two integers.
    pub(crate) fn add_sum(&mut self, sum: Symbol, left: Symbol, right: Symbol) {
        add(&mut self.sums, Sum { sum, left, right });
    }

    /// The symbol of the sum of two integers, if the sum is known.
    pub(crate) fn sum(&self, left: Symbol, right: Symbol) -> Option<Symbol> {
        let is_it = |found: &&Sum| {
            (found.left, found.right) == (left, right) || (found.left, found.right) == (right, left)
        };
        self.sums.iter().find(is_it).map(|found| found.sum)
    }

    /// Notes a size that is a multiple of 8 and at least `term`. Returns the size's symbol: sizes
    /// of equal terms have one symbol.
    pub(crate) fn add_rounded(&mut self, term: Term, size: Symbol) -> Symbol {
        let found = self.rounded.iter().find(|found| found.term == term);
        if let Some(found) = found {
            return found.size;
        }
        add(&mut self.rounded, Rounded { size, term });
        size
    }

    /// The symbol of the lowest 32 bits of an integer: `name`, unless these bits have a symbol
    /// already. Equal integers have equal lowest bits, so code may compute them twice.
    pub(crate) fn name_word(&mut self, term: Term, name: Symbol) -> Symbol {
        match self.words.iter().find(|(found, _)| *found == term) {
            Some((_, name)) => *name,
            None => {
                add(&mut self.words, (term, name));
                name
            }
        }
    }

    /// A lower bound of a size that was rounded up to a multiple of 8.
    pub(crate) fn rounded(&self, size: Symbol) -> Option<Term> {
        let found = self.rounded.iter().find(|found| found.size == size);
        found.map(|found| found.term)
    }

    /// Notes that an array has at least `len` elements.
    pub(crate) fn add_length(&mut self, array: Symbol, len: Term) {
        if array != Symbol::ZERO && len.is_small() {
            add(&mut self.lengths, Length { array, len });
        }
    }

    /// Whether an array has at least `len` elements.
    pub(crate) fn has_length(&self, array: Symbol, len: Term) -> bool {
        let is_it = |found: &Length| {
            found.array == array
                && found.len.symbol == len.symbol
                && found.len.shift == len.shift
                && found.len.constant >= len.constant
        };
        len.is_small() && self.lengths.iter().any(is_it)
    }

    /// Whether an array has at least `from + count` elements.
    pub(crate) fn has_range(&self, array: Symbol, from: Term, count: Term) -> bool {
        let Some(constant) = from.constant.checked_add(count.constant) else {
            return false;
        };
        let of = |symbol, shift| {
            self.has_length(
                array,
                Term {
                    symbol,
                    shift,
                    constant,
                },
            )
        };
        match (from.symbol, count.symbol) {
            (_, Symbol::ZERO) => of(from.symbol, from.shift),
            (Symbol::ZERO, _) => of(count.symbol, count.shift),
            (a, b) if from.shift == 0 && count.shift == 0 => {
                self.sum(a, b).is_some_and(|sum| of(sum, 0))
            }
            _ => false,
        }
    }

    /// Notes that the type of an object has at least `depth` supertypes.
    pub(crate) fn add_depth(&mut self, object: Symbol, depth: i64) {
        add(&mut self.depths, (object, depth));
    }

    pub(crate) fn has_depth(&self, object: Symbol, depth: i64) -> bool {
        let mut depths = self.depths.iter();
        depths.any(|(of, least)| *of == object && *least >= depth)
    }

    /// The classes that the reference with this symbol may belong to.
    pub(crate) fn classes(&self, of: Symbol) -> Classes {
        let found = self.classes.iter().find(|(found, _)| *found == of);
        found.map_or(Classes::ALL, |(_, classes)| *classes)
    }

    pub(crate) fn set_classes(&mut self, of: Symbol, classes: Classes) {
        self.classes.retain(|(found, _)| *found != of);
        add(&mut self.classes, (of, classes));
    }
}
