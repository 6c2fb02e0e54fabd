//! [`State`]: what is known before an instruction about registers, the frame and comparisons.

use crate::abi::{Convention, value_bytes};
use crate::chunks::{Chunks, Shared};
use crate::comparison::{Comparison, Relation, bounds};
use crate::heap::{Heap, Term};
use crate::value::{EntryAddress, Kind, Symbol, Value};
use crate::vector::{Extent, VECTORS, Vector};
use crate::widening::Widening;
use pirn_format::types::ValType;

/// A word of the frame, or of the arguments on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) value: Value,
    /// Mask of the bytes that this function or its caller has written. Bit 0 is the lowest byte.
    pub(crate) written: u8,
}

impl Slot {
    pub(crate) const UNWRITTEN: Self = Self {
        value: Value::JUNK,
        written: 0,
    };

    /// A word whose bytes are all written.
    pub(crate) const fn whole(value: Value) -> Self {
        Self {
            value,
            written: u8::MAX,
        }
    }
}

/// A fact that holds on every path to this point, and that a [`Value`] cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// The function with this reference has the type with this index.
    FunctionType(Symbol, u32),
    /// The dispatch table's entry at this address has this type number.
    DispatchNumber(EntryAddress, u32),
    /// The table has at least this many elements.
    Elements(u32, u64),
    /// The imported function is a function of the host.
    IsHost(u32),
    /// The caught exception has the tag with this index.
    Caught(u32),
    /// The lowest 32 bits of a number, which this symbol names, lie between these bounds.
    Bounds(Symbol, i64, i64),
    /// The lowest 32 bits of a number, which this symbol names, are less than the number of
    /// elements of this table.
    Index(Symbol, u32),
    /// The relation holds between two values. At least one value is no number.
    Holds(Comparison, Relation),
}

/// Most facts that a state keeps. A new fact replaces the oldest fact.
const FACTS_MAX: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) abi: &'static Convention,
    pub(crate) registers: Vec<Value>,
    /// Copies of this state share the vectors until a copy changes them.
    vectors: Shared<[Vector; VECTORS]>,
    pub(crate) flags: Option<Comparison>,
    /// The flags that the guest may read, because they depend only on numbers.
    pub(crate) readable: u32,
    /// Copies of this state share the facts, too.
    facts: Shared<Vec<Fact>>,
    pub(crate) heap: Shared<Heap>,
    /// Words from `end` downwards.
    slots: Chunks<Slot>,
    /// End of the arguments on the stack, in bytes above the stack pointer at entry.
    top: i32,
    /// End of the result area. The verifier gives this area the offsets after the arguments.
    end: i32,
    /// Whether the function caught an exception and made no call since then. Only then does the
    /// context name the exception's tag and values.
    pub(crate) is_landed: bool,
    /// Lowest byte of the stack that was accessed on every path to here.
    pub(crate) touched: i32,
}

/// Location numbers from this one on are vector registers. A frame has fewer words.
const VECTOR_NAMES: usize = 1 << 23;

/// Vector registers that hold data of the host. Each symbol combines `name` and the register's
/// number.
fn unknown_vectors(name: u64) -> [Vector; VECTORS] {
    std::array::from_fn(|at| Vector::new(Extent::Nothing, Symbol(name | (at as u64) << 40)))
}

impl Clone for State {
    fn clone(&self) -> Self {
        Self {
            registers: self.registers.clone(),
            slots: self.slots.clone(),
            ..self.without_words()
        }
    }

    /// Reuses the memory of this state.
    fn clone_from(&mut self, other: &Self) {
        self.registers.clone_from(&other.registers);
        self.slots.clone_from(&other.slots);
        *self = Self {
            registers: std::mem::take(&mut self.registers),
            slots: std::mem::take(&mut self.slots),
            ..other.without_words()
        };
    }
}

impl State {
    /// The state of a function with `top` bytes of return address and arguments. The result area
    /// has the offsets from `top` on.
    pub(crate) fn new(abi: &'static Convention, top: i32, area_bytes: i32) -> Self {
        Self {
            abi,
            end: top + area_bytes,
            registers: vec![Value::JUNK; abi.registers],
            vectors: Shared::new(unknown_vectors(1 << 53)),
            flags: None,
            readable: 0,
            is_landed: false,
            facts: Shared::default(),
            heap: Shared::default(),
            slots: Chunks::new(),
            top,
            touched: 0,
        }
    }

    pub(crate) fn top(&self) -> i32 {
        self.top
    }

    /// Registers, known words of the frame, and words of new objects.
    pub(crate) fn words(&self) -> usize {
        self.registers.len() + VECTORS + self.slots.len() + self.heap.words()
    }

    /// A copy of this state without the words of the frame.
    pub(crate) fn without_frame(&self) -> Self {
        Self {
            registers: self.registers.clone(),
            ..self.without_words()
        }
    }

    /// A copy of this state without registers, nor words of the frame.
    fn without_words(&self) -> Self {
        Self {
            registers: vec![],
            vectors: self.vectors.clone(),
            facts: self.facts.clone(),
            heap: self.heap.clone(),
            slots: Chunks::new(),
            ..*self
        }
    }

    pub(crate) fn vector(&self, register: usize) -> Vector {
        self.vectors[register]
    }

    /// Mutable access to a vector register.
    pub(crate) fn vector_mut(&mut self, register: usize) -> &mut Vector {
        &mut self.vectors[register]
    }

    /// Forgets all vector registers, except the lower halves that a callee restores. Each new
    /// symbol combines `name` and the register's number.
    pub(crate) fn forget_vectors(&mut self, name: u64) {
        let mut vectors = unknown_vectors(name);
        for vector in self.abi.preserved_vectors.clone() {
            vectors[vector].saved = self.vectors[vector].saved;
        }
        self.vectors = Shared::new(vectors);
    }

    /// Forgets which vector registers still have their lower halves of the function's start.
    pub(crate) fn forget_saved_vectors(&mut self) {
        if self.vectors.iter().any(|vector| vector.saved.is_some()) {
            self.vectors
                .iter_mut()
                .for_each(|vector| vector.saved = None);
        }
    }

    pub(crate) fn area_bytes(&self) -> i32 {
        self.end - self.top
    }

    fn index(&self, offset: i32) -> Option<usize> {
        let distance = self.end.checked_sub(offset)?.checked_sub(1)?;
        usize::try_from(distance / 8).ok().filter(|_| distance >= 0)
    }

    /// The word at an offset that is a multiple of 8.
    pub(crate) fn slot(&self, offset: i32) -> Slot {
        let slot = self.index(offset).and_then(|at| self.slots.get(at));
        slot.copied().unwrap_or(Slot::UNWRITTEN)
    }

    pub(crate) fn set_slot(&mut self, offset: i32, slot: Slot) {
        let Some(at) = self.index(offset) else { return };
        self.slots.grow(at + 1, Slot::UNWRITTEN);
        if let Some(old) = self.slots.get_mut(at) {
            *old = slot;
        }
    }

    /// Stores a value of a type at an offset that is a multiple of 8.
    pub(crate) fn set_cell(&mut self, offset: i32, ty: ValType, value: Value) {
        let written = match value_bytes(ty) {
            4 => 0x0f,
            _ => 0xff,
        };
        self.set_slot(offset, Slot { value, written });
        if ty == ValType::V128 {
            let upper = Value::any(value.symbol.upper());
            self.set_slot(offset + 8, Slot::whole(upper));
        }
    }

    /// The value of a type at an offset, if all bytes of the value were written.
    pub(crate) fn cell(&self, offset: i32, ty: ValType) -> Option<Value> {
        let slot = self.slot(offset);
        let is_written = match value_bytes(ty) {
            4 => slot.written & 0x0f == 0x0f,
            8 => slot.written == 0xff,
            _ => slot.written == 0xff && self.slot(offset + 8).written == 0xff,
        };
        is_written.then_some(slot.value)
    }

    /// Forgets all words below an offset, because a callee may overwrite them.
    pub(crate) fn forget_below(&mut self, offset: i32) {
        let count = (self.end - offset).max(0) as usize / 8;
        self.slots.truncate(count);
    }

    pub(crate) fn has(&self, fact: Fact) -> bool {
        self.facts.contains(&fact)
    }

    pub(crate) fn facts(&self) -> impl Iterator<Item = Fact> {
        self.facts.iter().copied()
    }

    pub(crate) fn add(&mut self, fact: Fact) {
        if self.facts.last() == Some(&fact) {
            return;
        }
        let facts = &mut *self.facts;
        // A fact that is found again becomes the newest fact.
        let old = facts.iter().position(|known| *known == fact);
        if let Some(at) = old.or_else(|| (facts.len() == FACTS_MAX).then_some(0)) {
            facts.remove(at);
        }
        facts.push(fact);
    }

    /// Forgets which exception was caught: a call may catch another exception.
    pub(crate) fn forget_caught(&mut self) {
        // Only a landed state has facts about an exception. A join with a state that has not landed
        // drops these facts.
        if !std::mem::take(&mut self.is_landed) {
            return;
        }
        let is_caught =
            |value: &Value| matches!(value.kind, Kind::ExceptionTag | Kind::ExceptionValues);
        self.facts.retain(|fact| match fact {
            Fact::Caught(_) => false,
            Fact::Holds(comparison, _) => {
                !is_caught(&comparison.left) && !is_caught(&comparison.right)
            }
            _ => true,
        });
        self.update(is_caught, |value| *value = Value::JUNK);
    }

    /// Changes all registers and words of the frame for which `is_wanted` returns true.
    pub(crate) fn update(
        &mut self,
        is_wanted: impl Fn(&Value) -> bool,
        change: impl Fn(&mut Value),
    ) {
        let registers = self.registers.iter_mut();
        registers.filter(|value| is_wanted(value)).for_each(&change);
        let is_wanted = |slot: &Slot| is_wanted(&slot.value);
        self.slots.update(is_wanted, |slot| change(&mut slot.value));
    }

    /// Forgets the address of the next object, because the address changes. Values that contain it
    /// become unknown, except values that `kept` accepts.
    pub(crate) fn forget_next_object(&mut self, kept: impl Fn(&Value) -> bool) {
        let is_next = |value: &Value| value.kind == Kind::HeapNext;
        let compares =
            |comparison: &Comparison| is_next(&comparison.left) || is_next(&comparison.right);
        let is_stale =
            |fact: &Fact| matches!(fact, Fact::Holds(comparison, _) if compares(comparison));
        if self.facts.iter().any(is_stale) {
            self.facts.retain(|fact| !is_stale(fact));
        }
        if self.flags.as_ref().is_some_and(compares) {
            self.flags = None;
        }
        self.heap.forget_next();
        self.update(
            |value| is_next(value) && !kept(value),
            |value| *value = Value::JUNK,
        );
    }

    /// The values of all registers and then of all words of the frame, by location number.
    pub(crate) fn locations(&self) -> Vec<Value> {
        let slots = self.slots.iter().map(|slot| slot.value);
        self.registers.iter().copied().chain(slots).collect()
    }

    /// The value of a register or of a whole word of the frame, by its number in `locations`.
    fn location(&self, location: usize) -> Value {
        match location.checked_sub(self.registers.len()) {
            None => self.registers[location],
            Some(at) => match self.slots.get(at) {
                Some(slot) if slot.written == 0xff => slot.value,
                _ => Value::JUNK,
            },
        }
    }

    /// Sets the value of a register or of a word of the frame, by its number in `locations`.
    /// Ignores a word that the frame no longer has.
    pub(crate) fn set_location(&mut self, location: usize, value: Value) {
        match location.checked_sub(self.registers.len()) {
            None => self.registers[location] = value,
            Some(at) => {
                if let Some(slot) = self.slots.get_mut(at) {
                    slot.value = value;
                }
            }
        }
    }

    /// Calls `change` for each location of this state and the same location of `other`. Returns
    /// whether any call returns true.
    pub(crate) fn update_pairs(
        &mut self,
        other: &mut Self,
        change: impl Fn(&mut Value, &mut Value) -> bool,
    ) -> bool {
        let mut changed = false;
        for (own, other) in self.registers.iter_mut().zip(&mut other.registers) {
            changed |= change(own, other);
        }
        for at in 0..self.slots.len().min(other.slots.len()) {
            let (Some(own), Some(others)) = (self.slots.get(at), other.slots.get(at)) else {
                break;
            };
            let (mut left, mut right) = (own.value, others.value);
            changed |= change(&mut left, &mut right);
            let (is_left, is_right) = (left != own.value, right != others.value);
            if is_left && let Some(slot) = self.slots.get_mut(at) {
                slot.value = left;
            }
            if is_right && let Some(slot) = other.slots.get_mut(at) {
                slot.value = right;
            }
        }
        changed
    }

    /// Joins the state of another path: keeps what holds on both paths. Returns whether anything
    /// changed. `name` gives the symbol of a location whose values differ.
    pub(crate) fn join(
        &mut self,
        other: &Self,
        widening: Widening,
        name: impl Fn(usize) -> Symbol,
    ) -> bool {
        let mut changed = false;
        let joins_heaps = self.heap != other.heap || self.heap.is_renamed(name(0));
        let cursor = match joins_heaps {
            true => self.cursor(other, name(0)),
            false => None,
        };
        for (at, (old, new)) in self.registers.iter_mut().zip(&other.registers).enumerate() {
            if !old.is_top()
                && old != new
                && let Some(joined) = joined(old, new, name(at), widening)
            {
                (*old, changed) = (joined, true);
            }
        }
        let len = self.slots.len().min(other.slots.len());
        changed |= len < self.slots.len();
        self.slots.truncate(len);
        for chunk in 0..Chunks::<Slot>::count(len) {
            changed |= self.join_chunk(other, chunk, &name, widening);
        }
        changed |= self.join_vectors(other, &name);
        if self.facts != other.facts {
            let is_known = |fact: &Fact| other.facts.contains(fact);
            if !self.facts.iter().all(is_known) {
                self.facts.retain(is_known);
                changed = true;
            }
        }
        let flags = self.flags.filter(|_| self.flags == other.flags);
        let readable = self.readable & other.readable;
        let is_landed = self.is_landed && other.is_landed;
        let touched = self.touched.max(other.touched);
        if joins_heaps {
            let written = cursor.and_then(|(array, location, distance)| {
                let value = self.location(location);
                let end = Term::of(value).plus(distance)?;
                (value.kind == Kind::Fresh(array)).then_some((array, end))
            });
            changed |= self.heap.join(&other.heap, written, name(0));
        }
        changed |= flags != self.flags
            || readable != self.readable
            || is_landed != self.is_landed
            || touched != self.touched;
        (self.flags, self.touched) = (flags, touched);
        (self.readable, self.is_landed) = (readable, is_landed);
        changed
    }

    /// Finds a new array that a loop fills. Returns the array's symbol, a location with an address
    /// in the array, and the distance from this address to the first unwritten element. The
    /// distance is the same on both paths. `name` is a symbol that the join gives to any location.
    fn cursor(&self, other: &Self, name: Symbol) -> Option<(Symbol, usize, i64)> {
        let (array, mine, others) = self.heap.filled_differently(&other.heap, name)?;
        let is_in = |value: Value| value.kind == Kind::Fresh(array);
        let count = self.registers.len() + self.slots.len();
        (0..count).find_map(|at| {
            let (old, new) = (self.location(at), other.location(at));
            let distance = mine
                .distance(Term::of(old))
                .filter(|_| is_in(old) && is_in(new))?;
            let is_same = others.distance(Term::of(new)) == Some(distance);
            is_same.then_some((array, at, distance))
        })
    }

    /// Joins the vector registers. Returns whether anything changed.
    fn join_vectors(&mut self, other: &Self, name: impl Fn(usize) -> Symbol) -> bool {
        if self.vectors.is_shared(&other.vectors) {
            return false;
        }
        let mut changed = false;
        for at in 0..self.abi.vectors {
            let (old, new) = (self.vectors[at], other.vectors[at]);
            if old == new {
                continue;
            }
            let joined = Vector {
                extent: old.extent.min(new.extent),
                saved: old.saved.filter(|_| old.saved == new.saved),
                symbol: match old.symbol == new.symbol {
                    true => old.symbol,
                    false => name(VECTOR_NAMES + at),
                },
            };
            if joined != old {
                self.vectors[at] = joined;
                changed = true;
            }
        }
        changed
    }

    /// Joins a chunk of the frame's words. Returns whether anything changed.
    fn join_chunk(
        &mut self,
        other: &Self,
        chunk: usize,
        name: impl Fn(usize) -> Symbol,
        widening: Widening,
    ) -> bool {
        if self.slots.is_shared(&other.slots, chunk) {
            return false;
        }
        let first = self.registers.len() + Chunks::<Slot>::start(chunk);
        let mut changed = false;
        for (at, new) in other.slots.items(chunk).iter().enumerate() {
            let Some(old) = self.slots.items(chunk).get(at) else {
                break;
            };
            let written = old.written & new.written;
            if written == old.written && (old.value.is_top() || old.value == new.value) {
                continue;
            }
            let joined = joined(&old.value, &new.value, name(first + at), widening);
            if joined.is_none() && written == old.written {
                continue;
            }
            let value = joined.unwrap_or(old.value);
            self.slots.items_mut(chunk)[at] = Slot { value, written };
            changed = true;
        }
        changed
    }

    /// Gives all values new symbols. A path that jumps back needs new symbols: when its
    /// instructions run again, they give new values the symbols of their previous results.
    pub(crate) fn rename(&mut self, name: impl Fn(usize) -> Symbol) {
        for (at, value) in self.registers.iter_mut().enumerate() {
            *value = value.renamed(name(at));
        }
        let registers = self.registers.len();
        for at in 0..self.slots.len() {
            if let Some(slot) = self.slots.get_mut(at) {
                slot.value = slot.value.renamed(name(registers + at));
            }
        }
        for at in 0..VECTORS {
            self.vector_mut(at).symbol = name(VECTOR_NAMES + at);
        }
        self.flags = None;
        self.heap = Shared::default();
        self.facts.retain(|fact| match fact {
            Fact::FunctionType(of, _) => of.0 & Symbol::FUNCTION != 0,
            Fact::Elements(..) | Fact::IsHost(_) | Fact::Caught(_) => true,
            Fact::DispatchNumber(..) | Fact::Bounds(..) | Fact::Index(..) | Fact::Holds(..) => {
                false
            }
        });
    }

    /// Widens the interval of each number in registers and in words of the frame, and gives the
    /// number a new symbol.
    pub(crate) fn widen(&mut self, name: impl Fn(usize) -> Symbol) {
        for (at, value) in self.locations().into_iter().enumerate() {
            if value.kind == Kind::Number {
                self.set_location(at, value.widened(name(at)));
            }
        }
    }

    /// At a loop head: drops relations, dead vector registers, and equalities of vector registers
    /// that the loop writes.
    pub(crate) fn forget_in_loop(
        &mut self,
        is_unneeded: impl Fn(usize) -> bool,
        is_written: impl Fn(usize) -> bool,
        name: impl Fn(usize) -> Symbol,
    ) {
        let vectors = &mut self.vectors[..self.abi.vectors];
        for (at, vector) in vectors.iter_mut().enumerate() {
            if is_unneeded(at) {
                *vector = Vector::new(Extent::Nothing, name(VECTOR_NAMES + at));
            } else if is_written(at) {
                vector.symbol = name(VECTOR_NAMES + at);
            }
        }
        let is_relation = |fact: &Fact| {
            matches!(
                fact,
                Fact::DispatchNumber(..) | Fact::Bounds(..) | Fact::Index(..) | Fact::Holds(..)
            )
        };
        if self.facts.iter().any(is_relation) {
            self.facts.retain(|fact| !is_relation(fact));
        }
    }

    /// As `widen`, for the word of the frame at a distance from the stack pointer at entry.
    pub(crate) fn widen_slot(&mut self, distance: i64, name: impl Fn(usize) -> Symbol) {
        let at = i32::try_from(distance & !7)
            .ok()
            .and_then(|offset| self.index(offset));
        let location = |at: usize| self.registers.len() + at;
        if let Some((at, slot)) = at.and_then(|at| Some((at, self.slots.get(at)?)))
            && slot.value.kind == Kind::Number
        {
            let value = slot.value.widened(name(location(at)));
            if let Some(slot) = self.slots.get_mut(at) {
                slot.value = value;
            }
        }
    }

    /// Learns that a relation holds between the compared values. Returns whether the relation can
    /// hold.
    pub(crate) fn assume(&mut self, comparison: Comparison, relation: Relation) -> bool {
        let Comparison { left, right, .. } = comparison;
        if self.contradicts(comparison, relation) {
            return false;
        }
        if !(left.is_number() && right.is_number()) {
            self.add(Fact::Holds(comparison, relation));
        }
        self.assume_kinds(left, right, relation);
        self.assume_kinds(right, left, relation.swapped());
        if !comparison.has_bounds(relation) {
            return true;
        }
        let Some(limits) = bounds(left, right, relation) else {
            return false;
        };
        self.narrow(left, limits);
        let Some(bounds) = bounds(right, left, relation.swapped()) else {
            return false;
        };
        self.narrow(right, bounds);
        true
    }

    /// Whether a relation can hold between the compared values: the answer of `assume`.
    pub(crate) fn allows(&self, comparison: Comparison, relation: Relation) -> bool {
        let Comparison { left, right, .. } = comparison;
        let is_bounded = || {
            bounds(left, right, relation).is_some()
                && bounds(right, left, relation.swapped()).is_some()
        };
        !self.contradicts(comparison, relation)
            && (!comparison.has_bounds(relation) || is_bounded())
    }

    /// Whether it is known that a relation does not hold.
    fn contradicts(&self, comparison: Comparison, relation: Relation) -> bool {
        self.facts.iter().any(|fact| match fact {
            Fact::Holds(other, known) => comparison.is_same(other) && *known == relation.negated(),
            _ => false,
        })
    }

    /// Learns from a relation with a value of a special kind, such as the length of a table.
    fn assume_kinds(&mut self, left: Value, right: Value, relation: Relation) {
        match (left.kind, right.kind, relation) {
            (_, Kind::TableLen(table), Relation::Below) if left.exact().is_some() => {
                if let Some(index) = left.exact().and_then(|index| u64::try_from(index).ok()) {
                    self.add(Fact::Elements(table, index + 1));
                }
            }
            (_, Kind::TableLen(table), Relation::Below)
                if left.is_number() && left.shift == 0 && left.symbol != Symbol::ZERO =>
            {
                let is_index = |value: &Value| {
                    let scaled = left.constant.checked_shl(value.shift.into());
                    value.symbol == left.symbol
                        && scaled == Some(value.constant)
                        && value.constant >> value.shift == left.constant
                };
                self.update(is_index, |value| value.below = table);
                // Another register may hold the 64-bit number whose lowest 32 bits were compared.
                if left.symbol.is_word() && left.constant == 0 {
                    self.add(Fact::Index(left.symbol, table));
                }
                self.add(Fact::Elements(table, 1));
            }
            (Kind::TypeOf(reference), Kind::TypeId(ty), Relation::Equal) => {
                self.add(Fact::FunctionType(reference, ty));
            }
            (Kind::DispatchType(entry), Kind::Number, Relation::Equal) => {
                if let Some(number) = right.exact().and_then(|number| number.try_into().ok()) {
                    self.add(Fact::DispatchNumber(entry, number));
                }
            }
            (Kind::ExceptionTag, Kind::TagId(tag), Relation::Equal) => {
                self.add(Fact::Caught(tag));
            }
            (Kind::Reference(_), Kind::Number, Relation::NotEqual)
                if right.exact() == Some(0) && left.symbol != Symbol::ZERO =>
            {
                let symbol = left.symbol;
                self.update(
                    |value| value.symbol == symbol && value.as_reference().is_some(),
                    |value| value.null = false,
                );
            }
            (Kind::TableLen(table), Kind::Number, Relation::NotEqual)
                if right.exact() == Some(0) =>
            {
                self.add(Fact::Elements(table, 1));
            }
            (Kind::ImportInstance(import), Kind::Number, Relation::NotEqual)
                if right.exact() == Some(0) =>
            {
                self.add(Fact::IsHost(import));
            }
            _ => {}
        }
    }

    /// The lowest 32 bits of a number, with the bounds that comparisons of these bits have found.
    pub(crate) fn low_word(&self, number: Value, fresh: Symbol) -> Value {
        let mut word = number.low_word(fresh);
        if word.shift != 0 || word.constant != 0 {
            return word;
        }
        for fact in self.facts.iter() {
            match *fact {
                Fact::Bounds(symbol, low, high) if symbol == word.symbol => {
                    word.low = word.low.max(low);
                    word.high = word.high.min(high).max(word.low);
                }
                Fact::Index(symbol, table) if symbol == word.symbol => word.below = table,
                _ => {}
            }
        }
        word
    }

    /// Narrows all values that contain the symbol of `value`. A comparison has shown that `value`
    /// lies from `low` to `high`.
    fn narrow(&mut self, value: Value, (low, high): (i64, i64)) {
        if value.symbol == Symbol::ZERO {
            return;
        }
        let term = |bound: i64| bound.checked_sub(value.constant);
        let (Some(low), Some(high)) = (term(low), term(high)) else {
            return;
        };
        // Another register may hold the 64-bit number whose lowest 32 bits were compared.
        let is_any = low <= 0 && high >= i64::from(u32::MAX);
        if value.symbol.is_word() && value.shift == 0 && !is_any {
            self.add(Fact::Bounds(value.symbol, low, high));
        }
        let narrowed = |other: &Value| {
            let by = other.shift.checked_sub(value.shift)?;
            let place = |bound: i64| {
                let scaled = bound.checked_mul(1 << by)?;
                scaled.checked_add(other.constant)
            };
            // If a bound overflows, the number may have wrapped around, so the bounds narrow no
            // other value.
            let (low, high) = (place(low)?, place(high)?);
            let low = other.low.max(low);
            let high = other.high.min(high).max(low);
            (low > other.low || high < other.high).then_some((low, high))
        };
        self.update(
            |other| other.symbol == value.symbol && narrowed(other).is_some(),
            |other| (other.low, other.high) = narrowed(other).unwrap_or((other.low, other.high)),
        );
    }
}

/// The value of a location after a join; `None` if the join does not change the value. `own` names
/// the value if it differs between the paths.
fn joined(old: &Value, new: &Value, own: Symbol, widening: Widening) -> Option<Value> {
    if old == new || *old == Value::JUNK {
        return None;
    }
    let mut joined = old.join(*new, own, widening);
    // On the other path, the symbol may name a value of an earlier loop iteration.
    if joined.symbol == new.symbol && joined.symbol != old.symbol {
        joined = joined.renamed(own);
    }
    // Unknown bits need no symbol, because no later comparison tells anything about them.
    if joined.is_unknown() {
        joined = Value::of(joined.kind);
    }
    (joined != *old).then_some(joined)
}
