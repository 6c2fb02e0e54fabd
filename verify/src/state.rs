//! [`State`]: what is known before an instruction about registers, the frame and comparisons.

use crate::abi::value_bytes;
use crate::value::{EntryAddress, Kind, Symbol, Value};
use iced_x86::RflagsBits;
use pirn_format::layout::INSTANCE_AREA_BYTES_MAX;
use pirn_format::types::ValType;
use std::collections::{HashMap, HashSet};

/// General registers.
pub(crate) const REGISTERS: usize = 16;

/// A word of the frame, or of the arguments on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) value: Value,
    /// Which of its bytes this function or its caller has written, lowest bit first.
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

/// How much of a vector register is a number, from its lowest bit on. The rest may be data of the
/// host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    #[default]
    Nothing,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
    Whole,
}

impl Extent {
    /// How much a value of a type fills.
    pub(crate) fn of(ty: ValType) -> Self {
        match ty {
            ValType::F32 => Self::Single,
            ValType::F64 => Self::Double,
            _ => Self::Whole,
        }
    }
}

/// A vector register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vector {
    pub(crate) extent: Extent,
    /// Registers with one symbol have the same bits.
    pub(crate) symbol: Symbol,
}

/// Vector registers.
pub(crate) const VECTORS: usize = 32;

/// The flags that conditions read, as bits of [`RflagsBits`].
pub(crate) const FLAGS: u32 =
    RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::CF | RflagsBits::PF;

/// The flags that a guest may read after a comparison of two values. Other flags would tell the
/// guest an address, or bits that earlier code left in a register.
pub(crate) fn readable_flags(left: Value, right: Value) -> u32 {
    let known = |value: Value| {
        // Type numbers in dispatch tables are constants of the module.
        value.is_number() || matches!(value.kind, Kind::DispatchType(_))
    };
    if known(left) && known(right) {
        return FLAGS;
    }
    // Whether two references or identities are equal.
    let is_equality = |left: Value, right: Value| {
        let is_null = right.as_constant() == Some(0);
        const AREA: i64 = INSTANCE_AREA_BYTES_MAX as i64;
        // A test whether a function's record is null: no context has such a low address.
        let is_record = |left: Value| {
            left.exact().is_some_and(|at| (-AREA..=0).contains(&at))
                && right
                    .as_constant()
                    .is_some_and(|to| (0..=AREA).contains(&to))
        };
        match (left.kind, right.kind) {
            (Kind::Reference(_) | Kind::ImportInstance(_), _) if is_null => true,
            (Kind::Instance, _) if is_record(left) => true,
            (Kind::Reference(_), Kind::Reference(_)) => true,
            (Kind::TypeOf(_), Kind::TypeId(_)) => true,
            (Kind::ExceptionTag, Kind::TagId(_)) => true,
            _ => false,
        }
    };
    match is_equality(left, right) || is_equality(right, left) {
        true => RflagsBits::ZF,
        false => 0,
    }
}

/// Two values that the last instruction that sets flags has compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) left: Value,
    pub(crate) right: Value,
    /// Whether 32 bits were compared, zero-extended in both values.
    pub(crate) is_word: bool,
}

impl Comparison {
    /// Whether it compares the same values, of which more may be known meanwhile.
    fn is_same(&self, other: &Self) -> bool {
        // Numbers of 64 bits may differ where their lowest 32 bits are equal.
        if self.is_word != other.is_word {
            return false;
        }
        let same = |a: &Value, b: &Value| {
            let of = |value: &Value| (value.kind, value.symbol, value.shift, value.constant);
            of(a) == of(b) && a.null == b.null
        };
        same(&self.left, &other.left) && same(&self.right, &other.right)
    }
}

/// The order of two values, as a branch has found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    /// Less or greater, unsigned.
    Below,
    NotAbove,
    Above,
    NotBelow,
    /// Less or greater, signed.
    Less,
    NotGreater,
    Greater,
    NotLess,
}

/// What holds on every path to this point, and that a [`Value`] cannot express.
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
    /// The relation holds between two values, of which at least one is no number.
    Holds(Comparison, Relation),
}

/// Most facts that a state keeps, the newest ones.
const FACTS_MAX: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) registers: [Value; REGISTERS],
    pub(crate) vectors: [Vector; VECTORS],
    pub(crate) flags: Option<Comparison>,
    /// The flags that the guest may read, because they depend only on numbers.
    pub(crate) readable: u32,
    facts: Vec<Fact>,
    /// Words from `end` downwards.
    slots: Vec<Slot>,
    /// End of the arguments on the stack, in bytes above the stack pointer at entry.
    top: i32,
    /// End of the result area, which has the offsets after the arguments here.
    end: i32,
    /// Whether the function caught an exception and made no call since then. Only then does the
    /// context name the exception's tag and values.
    pub(crate) is_landed: bool,
    /// Lowest byte of the stack that was accessed on every path to here.
    pub(crate) touched: i32,
}

/// Names of locations from here on are those of vector registers. A frame has fewer words.
const VECTOR_NAMES: usize = 1 << 23;

/// Vector registers that hold data of the host. The symbols follow from a name.
pub(crate) fn unknown_vectors(name: u64) -> [Vector; VECTORS] {
    std::array::from_fn(|at| Vector {
        extent: Extent::Nothing,
        symbol: Symbol(name | (at as u64) << 40),
    })
}

impl State {
    /// The state of a function with `top` bytes of return address and arguments, and an area for
    /// results, which has offsets from `top` on.
    pub(crate) fn new(top: i32, area_bytes: i32) -> Self {
        Self {
            end: top + area_bytes,
            registers: [Value::JUNK; REGISTERS],
            vectors: unknown_vectors(1 << 53),
            flags: None,
            readable: 0,
            is_landed: false,
            facts: vec![],
            slots: vec![],
            top,
            touched: 0,
        }
    }

    pub(crate) fn top(&self) -> i32 {
        self.top
    }

    /// Registers and known words of the frame.
    pub(crate) fn words(&self) -> usize {
        REGISTERS + VECTORS + self.slots.len()
    }

    /// A copy of this state without the words of the frame.
    pub(crate) fn without_frame(&self) -> Self {
        Self {
            registers: self.registers,
            vectors: self.vectors,
            facts: self.facts.clone(),
            slots: vec![],
            ..*self
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
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Slot::UNWRITTEN);
        }
        self.slots[at] = slot;
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

    /// Whether a value of a type was stored at an offset, and the value.
    pub(crate) fn cell(&self, offset: i32, ty: ValType) -> Option<Value> {
        let slot = self.slot(offset);
        let is_written = match value_bytes(ty) {
            4 => slot.written & 0x0f == 0x0f,
            8 => slot.written == 0xff,
            _ => slot.written == 0xff && self.slot(offset + 8).written == 0xff,
        };
        is_written.then_some(slot.value)
    }

    /// Forgets all words below an offset: a callee may use them.
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
        if self.has(fact) {
            return;
        }
        if self.facts.len() == FACTS_MAX {
            self.facts.remove(0);
        }
        self.facts.push(fact);
    }

    /// Forgets which exception was caught: a call may catch another one.
    pub(crate) fn forget_caught(&mut self) {
        self.is_landed = false;
        let is_caught =
            |value: &Value| matches!(value.kind, Kind::ExceptionTag | Kind::ExceptionValues);
        self.facts.retain(|fact| match fact {
            Fact::Caught(_) => false,
            Fact::Holds(comparison, _) => {
                !is_caught(&comparison.left) && !is_caught(&comparison.right)
            }
            _ => true,
        });
        for value in self.values().filter(|value| is_caught(value)) {
            *value = Value::JUNK;
        }
    }

    fn values(&mut self) -> impl Iterator<Item = &mut Value> {
        let slots = self.slots.iter_mut().map(|slot| &mut slot.value);
        self.registers.iter_mut().chain(slots)
    }

    /// Takes over what another path knows here. Returns whether anything changed. `name` gives the
    /// symbol of a location whose values differ.
    pub(crate) fn join(
        &mut self,
        other: &Self,
        widen: bool,
        name: impl Fn(usize) -> Symbol,
    ) -> bool {
        let mut changed = false;
        // Locations that have the same unknown bits on both paths have the same ones after them.
        let mut unknown = HashMap::new();
        // Names of locations that have other bits than before.
        let mut given = HashSet::new();
        let mut update = |old: &mut Value, new: Value, at: usize| {
            let is_unknown = old.is_unknown() && new.is_unknown();
            // The join may have given this symbol to other bits at an earlier location. Then this
            // location needs another symbol.
            let is_same = *old == new;
            if is_same && !(is_unknown && given.contains(&old.symbol)) {
                return;
            }
            let own = name(at);
            let bits = |value: Value| (value.symbol, value.kind == Kind::Byte);
            let symbol = match is_unknown {
                true => *unknown.entry((bits(*old), bits(new))).or_insert(own),
                false => own,
            };
            given.insert(symbol);
            let mut joined = match is_same {
                true => old.renamed(symbol),
                false => old.join(new, symbol, widen),
            };
            // On the other path, the symbol may name a value of an earlier loop iteration.
            if joined.symbol == new.symbol && joined.symbol != old.symbol {
                joined = joined.renamed(own);
            }
            changed |= joined != *old;
            *old = joined;
        };
        for (at, (old, new)) in self.registers.iter_mut().zip(other.registers).enumerate() {
            update(old, new, at);
        }
        let len = self.slots.len().min(other.slots.len());
        let pairs = self.slots.iter_mut().zip(&other.slots);
        let mut written = false;
        for (at, (old, new)) in pairs.enumerate() {
            update(&mut old.value, new.value, REGISTERS + at);
            written |= old.written & !new.written != 0;
            old.written &= new.written;
        }
        changed |= written || len < self.slots.len();
        self.slots.truncate(len);
        let mut vectors = self.vectors;
        for (at, (vector, other)) in vectors.iter_mut().zip(other.vectors).enumerate() {
            vector.extent = vector.extent.min(other.extent);
            if vector.symbol != other.symbol {
                vector.symbol = name(VECTOR_NAMES + at);
            }
        }
        let flags = self.flags.filter(|_| self.flags == other.flags);
        let readable = self.readable & other.readable;
        let is_landed = self.is_landed && other.is_landed;
        let facts = self.facts.len();
        self.facts.retain(|fact| other.facts.contains(fact));
        let touched = self.touched.max(other.touched);
        changed |= vectors != self.vectors
            || flags != self.flags
            || readable != self.readable
            || is_landed != self.is_landed
            || facts != self.facts.len()
            || touched != self.touched;
        (self.vectors, self.flags, self.touched) = (vectors, flags, touched);
        (self.readable, self.is_landed) = (readable, is_landed);
        changed
    }

    /// Gives all values new symbols. This is for a path that jumps back: when its instructions run
    /// again, they make new values under the symbols of their previous results.
    pub(crate) fn rename(&mut self, name: impl Fn(usize) -> Symbol) {
        for (at, value) in self.values().enumerate() {
            *value = value.renamed(name(at));
        }
        for (at, vector) in self.vectors.iter_mut().enumerate() {
            vector.symbol = name(VECTOR_NAMES + at);
        }
        self.flags = None;
        self.facts.retain(|fact| match fact {
            Fact::FunctionType(of, _) => of.0 & Symbol::FUNCTION != 0,
            Fact::Elements(..) | Fact::IsHost(_) | Fact::Caught(_) => true,
            Fact::DispatchNumber(..) | Fact::Bounds(..) | Fact::Holds(..) => false,
        });
    }

    /// Learns that a relation holds between the compared values. Returns whether it can hold.
    pub(crate) fn assume(&mut self, comparison: Comparison, relation: Relation) -> bool {
        let Comparison {
            left,
            right,
            is_word,
        } = comparison;
        let contradicts = |fact: &Fact| match fact {
            Fact::Holds(other, known) => comparison.is_same(other) && *known == relation.negated(),
            _ => false,
        };
        if self.facts.iter().any(contradicts) {
            return false;
        }
        if !(left.is_number() && right.is_number()) {
            self.add(Fact::Holds(comparison, relation));
        }
        self.assume_kinds(left, right, relation);
        self.assume_kinds(right, left, relation.swapped());
        let is_wide = |value: Value| value.high > i64::from(i32::MAX);
        if !(left.is_number() && right.is_number())
            || (is_word && relation.is_signed() && (is_wide(left) || is_wide(right)))
        {
            return true;
        }
        let Some(bounds) = bounds(left, right, relation) else {
            return false;
        };
        self.narrow(left, bounds);
        let Some(bounds) = self::bounds(right, left, relation.swapped()) else {
            return false;
        };
        self.narrow(right, bounds);
        true
    }

    /// What a relation says about values that are not numbers alone.
    fn assume_kinds(&mut self, left: Value, right: Value, relation: Relation) {
        match (left.kind, right.kind, relation) {
            (_, Kind::TableLen(table), Relation::Below) if left.exact().is_some() => {
                if let Some(index) = left.exact().and_then(|index| u64::try_from(index).ok()) {
                    self.add(Fact::Elements(table, index + 1));
                }
            }
            (_, Kind::TableLen(table), Relation::Below)
                if left.is_number()
                    && left.shift == 0
                    && left.constant == 0
                    && left.symbol != Symbol::ZERO =>
            {
                for value in self.values().filter(|value| value.symbol == left.symbol) {
                    value.below = table;
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
                for value in self.values() {
                    if value.symbol == left.symbol && value.as_reference().is_some() {
                        value.null = false;
                    }
                }
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

    /// The lowest 32 bits of a number, with the bounds that a comparison of them has found.
    pub(crate) fn low_word(&self, number: Value, fresh: Symbol) -> Value {
        let mut word = number.low_word(fresh);
        for fact in &self.facts {
            if let Fact::Bounds(symbol, low, high) = *fact
                && symbol == word.symbol
                && word.shift == 0
                && word.constant == 0
            {
                word.low = word.low.max(low);
                word.high = word.high.min(high).max(word.low);
            }
        }
        word
    }

    /// Narrows all values that contain the same symbol as `value`, which lies within `bounds`.
    fn narrow(&mut self, value: Value, (low, high): (i64, i64)) {
        if value.symbol == Symbol::ZERO {
            return;
        }
        let term = |bound: i64| bound.checked_sub(value.constant);
        let (Some(low), Some(high)) = (term(low), term(high)) else {
            return;
        };
        // The number may be in a register whose lowest bits alone were compared.
        if value.symbol.is_word() && value.shift == 0 {
            self.add(Fact::Bounds(value.symbol, low, high));
        }
        for other in self.values().filter(|other| other.symbol == value.symbol) {
            let Some(by) = other.shift.checked_sub(value.shift) else {
                continue;
            };
            let place = |bound: i64| {
                let scaled = bound.checked_mul(1 << by)?;
                scaled.checked_add(other.constant)
            };
            // A number that may have wrapped around has no bounds that narrow others.
            if let (Some(low), Some(high)) = (place(low), place(high)) {
                other.low = other.low.max(low);
                other.high = other.high.min(high).max(other.low);
            }
        }
    }
}

impl Relation {
    /// The relation that holds where this one does not.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Below => Self::NotBelow,
            Self::NotBelow => Self::Below,
            Self::Above => Self::NotAbove,
            Self::NotAbove => Self::Above,
            Self::Less => Self::NotLess,
            Self::NotLess => Self::Less,
            Self::Greater => Self::NotGreater,
            Self::NotGreater => Self::Greater,
        }
    }

    fn is_signed(self) -> bool {
        matches!(
            self,
            Self::Less | Self::NotLess | Self::Greater | Self::NotGreater
        )
    }

    /// The relation with its operands exchanged.
    fn swapped(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Below => Self::Above,
            Self::Above => Self::Below,
            Self::NotBelow => Self::NotAbove,
            Self::NotAbove => Self::NotBelow,
            Self::Less => Self::Greater,
            Self::Greater => Self::Less,
            Self::NotLess => Self::NotGreater,
            Self::NotGreater => Self::NotLess,
        }
    }
}

/// Bounds of `left` where it has a relation to `right`; `None` if it never has.
fn bounds(left: Value, right: Value, relation: Relation) -> Option<(i64, i64)> {
    let (mut low, mut high) = (left.low, left.high);
    let is_positive = left.low >= 0 && right.low >= 0;
    match relation {
        Relation::Equal => {
            low = low.max(right.low);
            high = high.min(right.high);
        }
        Relation::NotEqual => {
            let other = right.exact();
            low = low.checked_add(i64::from(other == Some(low)))?;
            high = high.checked_sub(i64::from(other == Some(high)))?;
        }
        // Unsigned numbers below a positive one are positive.
        Relation::Below if right.low >= 0 => {
            low = low.max(0);
            high = high.min(right.high.checked_sub(1)?);
        }
        Relation::NotAbove if right.low >= 0 => {
            low = low.max(0);
            high = high.min(right.high);
        }
        Relation::Above if is_positive => low = low.max(right.low.checked_add(1)?),
        Relation::NotBelow if is_positive => low = low.max(right.low),
        Relation::Less => high = high.min(right.high.checked_sub(1)?),
        Relation::NotGreater => high = high.min(right.high),
        Relation::Greater => low = low.max(right.low.checked_add(1)?),
        Relation::NotLess => low = low.max(right.low),
        Relation::Below | Relation::NotAbove | Relation::Above | Relation::NotBelow => {}
    }
    (low <= high).then_some((low, high))
}
