//! [`Value`]: what the verifier knows about a register or a stack slot.
//!
//! A value is a base of some [`Kind`] plus an integer. The integer is
//! `(symbol << shift) + constant`, and lies in an interval. A [`Symbol`] names one integer that the
//! code has computed. So two values with one symbol are related: a comparison of one value bounds
//! the other value.

use crate::conversion::Part;
pub(crate) use crate::symbol::Symbol;
use crate::widening::Widening;
use pirn_format::layout::TAG_ARRAY;
use pirn_format::types::{CompositeKind, HeapType};

/// The base of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unknown bits, which may be an address or another guest's data. Nothing may depend on them.
    Junk,
    /// The lowest 8 bits are a number. The other bits are as in [`Junk`](Self::Junk).
    Byte,
    /// The lowest 16 bits are a number. The other bits are as in [`Junk`](Self::Junk).
    Short,
    /// The lowest 32 bits are a number.
    Single,
    /// Of 128 bits, the lowest 64 are a number.
    Double,
    /// No base: the value is an integer.
    Number,
    /// `vmctx`: the end of the context, and byte 0 of the module's first own memory.
    Instance,
    /// Byte 0 of the memory with this index.
    Memory(u32),
    /// The descriptor of an imported memory.
    MemoryDesc(u32),
    /// The current size of a memory in bytes.
    MemoryBytes,
    /// Element 0 of the table with this index.
    Table(u32),
    /// An element of the table with this index.
    TableSlot(u32),
    /// The descriptor of an imported table.
    TableDesc(u32),
    /// The current number of elements of the table with this index.
    TableLen(u32),
    /// The cell of an imported mutable global, in the instance that defines it.
    GlobalCell(u32),
    /// The stack pointer when the function was entered.
    Stack,
    /// The first byte of the text.
    Text,
    /// A reference of a guest with this type. It may be null if [`Value::null`] is set.
    Reference(HeapType),
    /// The identity of the type with this index.
    TypeId(u32),
    /// The type identity that the function with this reference has.
    TypeOf(Symbol),
    /// The code of the function with this reference.
    CodeOf(Symbol),
    /// The context of the function with this reference.
    ContextOf(Symbol),
    /// `FuncImport::code` of an imported function.
    ImportCode(u32),
    /// `FuncImport::vmctx` of an imported function: the first argument of the function's code.
    ImportContext(u32),
    /// `FuncImport::instance` of an imported function: null if a module defines the function.
    ImportInstance(u32),
    /// `FuncImport::host` of an imported function.
    ImportHost(u32),
    /// The address of the `FuncImport` that an import trampoline gets. The imported function has
    /// this type.
    Import(u32),
    /// `FuncImport::instance`, loaded by an import trampoline.
    AnyInstance,
    /// `FuncImport::host`, loaded by an import trampoline.
    AnyHost,
    /// The routine that leaves the guest with a reason.
    Exit,
    /// The routine that calls a host function.
    HostCall,
    /// A routine that copies or fills memory 0.
    Bulk,
    /// The code argument of an entry trampoline.
    EntryCode,
    /// The context argument of an entry trampoline, which the trampoline passes to its code
    /// argument. It is no context of this module if another module or the host defines the
    /// function.
    EntryContext,
    /// A 32-bit entry of a jump table.
    JumpOffset(Entries),
    /// The code that an entry of a jump table names. Fields: the table's text offset, its entries.
    JumpTarget(u32, Entries),
    /// The type number in an entry of a dispatch table.
    DispatchType(EntryAddress),
    /// The code offset in an entry of a dispatch table. Fields: the entries, their type number.
    DispatchOffset(Entries, u32),
    /// The code that an entry of a dispatch table names. Fields: the table's text offset, its
    /// entries, their type number.
    DispatchCode(u32, Entries, u32),
    /// The return address of this function.
    ReturnAddress,
    /// The value of this register at the function's entry. The function must restore the register.
    Saved(u8),
    /// The memory of the caller for results that do not fit in registers.
    ResultArea,
    /// The identity of the tag of the caught exception.
    ExceptionTag,
    /// The identity of the tag with this index.
    TagId(u32),
    /// The values of the caught exception.
    ExceptionValues,
    /// The address of the next struct or array of the instance.
    HeapNext,
    /// The end of the accessible memory for structs and arrays, or a lower address.
    HeapEnd,
    /// The address of an object that the function allocates and has not completely written.
    Fresh(Symbol),
    /// The header of the array that this symbol names, and the index of the array's type.
    InArray(Symbol, u32),
    /// The number of elements of the array with this reference.
    ArrayLen(Symbol),
    /// The tag bits of a reference that a mask selects.
    Tag(Symbol, u8),
    /// The table of types and their supertypes.
    TypeRows,
    /// The type identity of an object, multiplied by the bytes of a row in the table of types.
    RowIndex(Symbol),
    /// The address of the row of an object's type.
    Row(Symbol),
    /// The row of an object's type.
    RowWord(Symbol),
    /// The number of supertypes of an object's type: the lower half of the row.
    RowLen(Symbol),
    /// The distance of an object's chain of supertypes from the table: the upper half of the row.
    RowChain(Symbol),
    /// The address of an object's chain of supertypes.
    Chain(Symbol),
    /// The identity of a supertype of an object's type, by its position in the chain.
    Ancestor(Symbol, i64),
    /// The lowest 8 bits are 1 or 0. The other bits are as in [`Junk`](Self::Junk).
    Bit(bool),
    /// The result of `bsf` or `bsr`: a number if the zero flag is not set, otherwise as in
    /// [`Junk`](Self::Junk).
    Found,
    /// A reference that the runtime made for the builtin of this trampoline.
    BuiltinResult,
    /// A part of the reference with this symbol. `Value::null` says whether the reference may be
    /// null.
    Part(Symbol, Part),
}

impl Kind {
    /// Whether values of this kind are 32-bit secrets that a guest must not learn, and whose
    /// comparisons prove something. A register holds such a value zero-extended.
    pub(crate) fn is_word(self) -> bool {
        matches!(
            self,
            Self::TypeOf(_)
                | Self::TypeId(_)
                | Self::DispatchType(_)
                | Self::Ancestor(..)
                | Self::RowLen(_)
        )
    }
}

/// Entries of a table of code, from the text offset `first` to `last`. Code has selected one of
/// these entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entries {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// The address of an entry of a dispatch table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryAddress {
    symbol: Symbol,
    shift: u8,
    constant: i32,
}

/// The verifier's knowledge of a value, see the description of this module.
#[derive(Debug, Clone, Copy, Eq)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) symbol: Symbol,
    pub(crate) shift: u8,
    /// Whether the value may be 0 instead of a value of `kind`.
    pub(crate) null: bool,
    /// A table with more elements than the index `symbol + (constant >> shift)`, or [`NO_TABLE`].
    /// The shift of the constant leaves no remainder.
    pub(crate) below: u32,
    pub(crate) constant: i64,
    /// Least and greatest value of the integer.
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// Compares the fields that differ most often first.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.symbol == other.symbol
            && self.low == other.low
            && self.high == other.high
            && self.constant == other.constant
            && (self.shift, self.null, self.below) == (other.shift, other.null, other.below)
            && self.kind == other.kind
    }
}

/// Maximum distance between the stack pointer at entry and a stack address that code passes to a
/// call. Frames are smaller. The sum of this distance and the bytes of all values of a function
/// type fits in 32 bits.
const STACK_DISTANCE_MAX: i64 = 1 << 30;

/// See [`Value::below`].
pub(crate) const NO_TABLE: u32 = u32::MAX;

impl Value {
    pub(crate) const JUNK: Self = Self::of(Kind::Junk);

    /// A value of a kind, without an integer.
    pub(crate) const fn of(kind: Kind) -> Self {
        Self {
            kind,
            symbol: Symbol::ZERO,
            shift: 0,
            null: false,
            below: NO_TABLE,
            constant: 0,
            low: 0,
            high: 0,
        }
    }

    pub(crate) const fn constant(value: i64) -> Self {
        Self::at(Kind::Number, value)
    }

    /// A constant distance from a base.
    pub(crate) const fn at(kind: Kind, distance: i64) -> Self {
        let mut value = Self::of(kind);
        value.constant = distance;
        value.low = distance;
        value.high = distance;
        value
    }

    /// An integer with a known interval.
    pub(crate) const fn number(symbol: Symbol, low: i64, high: i64) -> Self {
        if low == high {
            return Self::constant(low);
        }
        // An empty interval gives an unknown value, so that no check passes because of it.
        if low > high {
            return Self::any(symbol);
        }
        let mut value = Self::of(Kind::Number);
        value.symbol = symbol;
        value.low = low;
        value.high = high;
        value
    }

    /// Any 64 bits.
    pub(crate) const fn any(symbol: Symbol) -> Self {
        Self::number(symbol, i64::MIN, i64::MAX)
    }

    /// Any 32 bits, zero-extended.
    pub(crate) const fn word(symbol: Symbol) -> Self {
        Self::number(symbol, 0, u32::MAX as i64)
    }

    pub(crate) const fn reference(symbol: Symbol, heap: HeapType, null: bool) -> Self {
        let mut value = Self::of(Kind::Reference(heap));
        value.symbol = symbol;
        value.null = null;
        value
    }

    /// A value with a symbol, of a kind that has no integer.
    pub(crate) const fn named(symbol: Symbol, kind: Kind) -> Self {
        let mut value = Self::of(kind);
        value.symbol = symbol;
        value
    }

    /// The integer, if it is constant.
    pub(crate) fn exact(&self) -> Option<i64> {
        (self.low == self.high).then_some(self.low)
    }

    /// The distance from the stack pointer at entry. `None` if the value is no aligned stack
    /// address, or the distance exceeds [`STACK_DISTANCE_MAX`].
    pub(crate) fn stack_distance(&self) -> Option<i32> {
        let distance = self.exact().filter(|_| self.kind == Kind::Stack)?;
        let near = -STACK_DISTANCE_MAX..=STACK_DISTANCE_MAX;
        let is_word = distance % 8 == 0 && near.contains(&distance);
        i32::try_from(distance).ok().filter(|_| is_word)
    }

    /// The integer, if the value is a constant number.
    pub(crate) fn as_constant(&self) -> Option<i64> {
        if self.kind == Kind::Number {
            self.exact()
        } else {
            None
        }
    }

    /// Whether the guest may compute with the value: a number, or a size that a guest may learn.
    pub(crate) fn is_number(&self) -> bool {
        matches!(
            self.kind,
            Kind::Number
                | Kind::MemoryBytes
                | Kind::TableLen(_)
                | Kind::ArrayLen(_)
                | Kind::Tag(..)
        )
    }

    /// Whether the value is a number, or an address to which code may add numbers.
    fn has_integer(&self) -> bool {
        self.is_number()
            || matches!(
                self.kind,
                Kind::Instance
                    | Kind::Memory(_)
                    | Kind::MemoryDesc(_)
                    | Kind::Table(_)
                    | Kind::Stack
                    | Kind::Text
                    | Kind::HeapNext
                    | Kind::Fresh(_)
                    | Kind::InArray(..)
            )
    }

    /// The code that an entry of a table names, if this value is the table's address.
    fn code(self, entry: Self) -> Option<Self> {
        let start = self.exact().filter(|_| self.kind == Kind::Text)?;
        let start = u32::try_from(start).ok()?;
        let kind = match entry.kind {
            Kind::JumpOffset(entries) => Kind::JumpTarget(start, entries),
            Kind::DispatchOffset(entries, number) => Kind::DispatchCode(start, entries, number),
            _ => return None,
        };
        Some(Self::of(kind))
    }

    /// The sum of two values; `None` if the sum has no meaning.
    pub(crate) fn plus(self, other: Self, fresh: Symbol) -> Option<Self> {
        if let Some(code) = self.code(other).or_else(|| other.code(self)) {
            // Code may clear a register with such a value by combining the register with a copy.
            // The symbol shows that both are equal.
            return Some(match code.kind {
                Kind::JumpTarget(..) => Self::named(fresh, code.kind),
                _ => code,
            });
        }
        let (base, number) = match (self.is_number(), other.is_number()) {
            (_, true) => (self.in_array(), other),
            (true, false) => (other.in_array(), self),
            (false, false) => return self.row(other).or_else(|| other.row(self)),
        };
        if !base.has_integer() || base.null {
            return None;
        }
        let kind = if base.is_number() {
            Kind::Number
        } else {
            base.kind
        };
        let (low, high) = match (
            base.low.checked_add(number.low),
            base.high.checked_add(number.high),
        ) {
            (Some(low), Some(high)) => (low, high),
            _ if kind == Kind::Number => (i64::MIN, i64::MAX),
            _ => return None,
        };
        // A sum with a constant keeps the symbol, unless the constants wrap around.
        let constant = base.constant.checked_add(number.constant);
        let (term, constant) = match constant {
            Some(constant) if number.symbol == Symbol::ZERO => (base, constant),
            Some(constant) if base.symbol == Symbol::ZERO => (number, constant),
            _ => {
                let fresh = Self::number(fresh, low, high);
                (fresh, fresh.constant)
            }
        };
        // `below` holds for the compared index only, and another constant means another index.
        let below = match constant == term.constant {
            true => term.below,
            false => NO_TABLE,
        };
        let sum = Self {
            kind,
            constant,
            low,
            high,
            null: false,
            below,
            ..term
        };
        Some(sum.as_array())
    }

    /// A reference to an array, as an address in this array.
    pub(crate) fn in_array(self) -> Self {
        match self.kind {
            Kind::Reference(HeapType::Concrete(CompositeKind::Array, ty))
                if !self.null && self.symbol != Symbol::ZERO =>
            {
                Self::at(Kind::InArray(self.symbol, ty), TAG_ARRAY as i64)
            }
            _ => self,
        }
    }

    /// An address in an array, as a reference if it is the address that references to the array
    /// have.
    pub(crate) fn as_array(self) -> Self {
        match (self.kind, self.exact()) {
            (Kind::InArray(array, ty), Some(at)) if at == TAG_ARRAY as i64 => {
                Self::reference(array, HeapType::Concrete(CompositeKind::Array, ty), false)
            }
            _ => self,
        }
    }

    /// The sum as an address in the table of types, if this value is the table's address.
    fn row(self, other: Self) -> Option<Self> {
        match (self.kind, other.kind) {
            (Kind::TypeRows, Kind::RowIndex(object)) => Some(Self::of(Kind::Row(object))),
            (Kind::TypeRows, Kind::RowChain(object)) => Some(Self::of(Kind::Chain(object))),
            _ => None,
        }
    }

    /// Whether the value is a number that is also a valid reference to a 31-bit integer: odd, with
    /// at most 32 bits.
    pub(crate) fn is_i31(&self) -> bool {
        let is_odd = match self.exact() {
            Some(exact) => exact & 1 == 1,
            None => self.shift > 0 && self.constant & 1 == 1,
        };
        self.is_number() && is_odd && self.low >= 0 && self.high <= i64::from(u32::MAX)
    }

    /// The lowest byte, if it is known.
    pub(crate) fn low_byte(&self) -> Option<i64> {
        match self.kind {
            Kind::Bit(bit) => Some(i64::from(bit)),
            _ => self.as_constant().map(|value| value & 0xff),
        }
    }

    /// The value multiplied by a power of two.
    pub(crate) fn shifted(self, by: u32, fresh: Symbol) -> Self {
        if by == 0 {
            return self;
        }
        // Multiplication by 2^63 as a signed number would change the order of the bounds.
        let factor = 1_i64.checked_shl(by).filter(|factor| *factor > 0);
        let scale = |x: i64| x.checked_mul(factor?);
        let (Some(low), Some(high)) = (scale(self.low), scale(self.high)) else {
            return Self::any(fresh);
        };
        if low == high {
            return Self::constant(low);
        }
        // A constant that wraps around would make the value another multiple of the symbol.
        let constant = scale(self.constant).filter(|_| by + u32::from(self.shift) <= 32);
        let Some(constant) = constant else {
            return Self::number(fresh, low, high);
        };
        Self {
            kind: Kind::Number,
            shift: self.shift + by as u8,
            constant,
            low,
            high,
            ..self
        }
    }

    /// The value with its integer negated, if it is a number.
    pub(crate) fn negated(self, fresh: Symbol) -> Self {
        match (self.low.checked_neg(), self.high.checked_neg()) {
            (Some(high), Some(low)) if self.is_number() => Self::number(fresh, low, high),
            _ => Self::any(fresh),
        }
    }

    /// The lowest 32 bits of a number, zero-extended. Equal numbers have equal lowest bits, so the
    /// symbol follows from the number's symbol.
    pub(crate) fn low_word(self, fresh: Symbol) -> Self {
        let is_term = self.symbol != Symbol::ZERO && self.shift == 0 && self.constant == 0;
        match self.is_number() && self.low >= 0 && self.high <= i64::from(u32::MAX) {
            true => self,
            false if is_term => Self::word(self.symbol.word()),
            false => Self::word(fresh),
        }
    }

    /// The join of two different values: the facts that hold for both.
    pub(crate) fn join(self, other: Self, fresh: Symbol, widening: Widening) -> Self {
        if self.kind != other.kind {
            return self.join_kinds(other, fresh, widening);
        }
        let null = (self.null || other.null) && self.kind != Kind::Junk;
        let same = self.symbol == other.symbol
            && self.shift == other.shift
            && self.constant == other.constant
            && self.null == other.null;
        if let (Kind::Table(a), false) = (self.kind, same)
            && self.is_slot_of(a)
            && other.is_slot_of(a)
        {
            return Self {
                null,
                ..Self::of(Kind::TableSlot(a))
            };
        }
        if let Kind::Reference(_) = self.kind {
            let symbol = if same { self.symbol } else { fresh };
            return Self {
                symbol,
                null,
                ..self
            };
        }
        if !self.has_integer() {
            let is_byte = self.kind == Kind::Byte;
            return match same {
                true => Self { null, ..self },
                false if is_byte => Self::named(fresh, Kind::Byte),
                false => Self::named(fresh, Kind::Junk),
            };
        }
        let (mut low, mut high) = (self.low.min(other.low), self.high.max(other.high));
        if (low, high) != (self.low, self.high) {
            (low, high) = widening.widened((self.low, self.high), (low, high));
        }
        let base = if same {
            self
        } else {
            self.congruent(other, fresh)
        };
        let below = if same && self.below == other.below {
            self.below
        } else {
            NO_TABLE
        };
        Self {
            null,
            below,
            low,
            high,
            ..base
        }
    }

    /// A number with a new symbol and a wider interval, which contains this number's interval.
    pub(crate) fn widened(self, name: Symbol) -> Self {
        let bounds = (self.low, self.high);
        let (low, high) = Widening::Whole.widened(bounds, bounds);
        Self::number(name, low, high)
    }

    /// The join of two congruences: the result keeps the largest power of two, at most 256, modulo
    /// which both integers are equal.
    fn congruent(self, other: Self, fresh: Symbol) -> Self {
        const SHIFT_MAX: u32 = 8;
        let shift = |value: Self| match value.exact() {
            Some(exact) => (SHIFT_MAX, exact),
            None => (u32::from(value.shift).min(SHIFT_MAX), value.constant),
        };
        let ((a_shift, a), (b_shift, b)) = (shift(self), shift(other));
        let equal = a.wrapping_sub(b).trailing_zeros();
        let by = a_shift.min(b_shift).min(equal);
        let mut value = Self::named(fresh, self.kind);
        value.shift = by as u8;
        value.constant = a & ((1 << by) - 1);
        value
    }

    fn join_kinds(self, other: Self, fresh: Symbol, widening: Widening) -> Self {
        // The number of a type in a dispatch table is a constant of the module.
        let plain = |value: Self| match value.kind {
            Kind::DispatchType(_) => Self::word(value.symbol),
            _ => value,
        };
        if plain(self) != self || plain(other) != other {
            return match (plain(self), plain(other)) {
                (a, b) if a == b => a,
                (a, b) => a.join(b, fresh, widening),
            };
        }
        if self.is_number() && other.is_number() {
            let number = |value: Self| Self {
                kind: Kind::Number,
                ..value
            };
            return match (number(self), number(other)) {
                (a, b) if a == b => a,
                (a, b) => a.join(b, fresh, widening),
            };
        }
        let is_single = |value: Self| value.kind == Kind::Single;
        if (is_single(self) && other.is_number()) || (self.is_number() && is_single(other)) {
            return Self::of(Kind::Single);
        }
        // A mask against speculation selects null in place of an address that a check refused.
        let null = |value: Self| value.as_constant() == Some(0);
        let masked = |value: Self| {
            matches!(
                value.kind,
                Kind::Instance | Kind::Memory(_) | Kind::Reference(_) | Kind::DispatchCode(..)
            )
        };
        // The result differs from the unmasked value, so it gets a new symbol.
        let or_null = |value: Value| Self {
            null: true,
            symbol: fresh,
            ..value
        };
        match (self, other) {
            (a, b) if null(b) && masked(a) => or_null(a),
            (a, b) if null(a) && masked(b) => or_null(b),
            (a, b) => match (a.as_reference(), b.as_reference()) {
                (Some(a_heap), Some(b_heap)) if a_heap.top() == b_heap.top() => {
                    Self::reference(fresh, a_heap.top(), a.null || b.null)
                }
                _ if a.low_byte().is_some_and(|byte| matches!(byte, 0 | 1))
                    && a.low_byte() == b.low_byte() =>
                {
                    Self::of(Kind::Bit(a.low_byte() == Some(1)))
                }
                _ if a.has_short() && b.has_short() => Self::of(Kind::Short),
                _ if a.has_byte() && b.has_byte() => Self::named(fresh, Kind::Byte),
                _ => Self::named(fresh, Kind::Junk),
            },
        }
    }

    /// Identifies the address of an entry at a displacement from this value. `None` if the constant
    /// of the address exceeds 32 bits.
    pub(crate) fn entry_address(&self, displacement: i64) -> Option<EntryAddress> {
        let constant = self.constant.wrapping_add(displacement);
        Some(EntryAddress {
            symbol: self.symbol,
            shift: self.shift,
            constant: i32::try_from(constant).ok()?,
        })
    }

    /// The value under a new symbol. The old symbol may name another value on another path.
    pub(crate) fn renamed(self, name: Symbol) -> Self {
        let is_lasting = |symbol: Symbol| symbol.0 & Symbol::FUNCTION != 0;
        match self.kind {
            Kind::TypeOf(of) | Kind::CodeOf(of) | Kind::ContextOf(of) if !is_lasting(of) => {
                Self::named(name, Kind::Junk)
            }
            Kind::DispatchType(_) => Self::named(name, Kind::Junk),
            Kind::ArrayLen(_) | Kind::Tag(..) => Self::number(name, self.low, self.high),
            Kind::HeapNext
            | Kind::Fresh(_)
            | Kind::InArray(..)
            | Kind::RowIndex(_)
            | Kind::Row(_)
            | Kind::RowWord(_)
            | Kind::RowLen(_)
            | Kind::RowChain(_)
            | Kind::Chain(_)
            | Kind::Ancestor(..)
            | Kind::Part(..) => Self::named(name, Kind::Junk),
            _ if self.symbol == Symbol::ZERO => self,
            _ => Self {
                symbol: name,
                ..self
            },
        }
    }

    /// Whether nothing is known of the value.
    pub(crate) fn is_top(&self) -> bool {
        self.symbol == Symbol::ZERO && self.kind == Kind::Junk && *self == Self::JUNK
    }

    /// The number 0 if the value is a reference that is always null, otherwise the value itself.
    pub(crate) fn null_as_number(self) -> Self {
        match self.kind {
            Kind::Reference(heap) if heap.is_bottom() => Self::constant(0),
            _ => self,
        }
    }

    /// Whether the value is unknown bits with a symbol.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.kind, Kind::Junk | Kind::Byte) && self.symbol != Symbol::ZERO
    }

    /// The base and the integer of the value, without what is known of their bounds.
    pub(crate) fn identity(&self) -> (Kind, Symbol, u8, i64) {
        (self.kind, self.symbol, self.shift, self.constant)
    }

    /// Whether both values have the same bits at run time.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_named = self.symbol != Symbol::ZERO
            || (self.has_integer() && self.low == self.high)
            || matches!(self.kind, Kind::Saved(_));
        is_named && !self.null && self == other
    }

    /// Whether the lowest byte is a number.
    pub(crate) fn has_byte(&self) -> bool {
        self.has_short() || matches!(self.kind, Kind::Byte | Kind::Bit(_))
    }

    /// Whether the lowest 16 bits are a number.
    pub(crate) fn has_short(&self) -> bool {
        self.is_number() || self.kind == Kind::Short
    }

    pub(crate) fn as_reference(&self) -> Option<HeapType> {
        match self.kind {
            Kind::Reference(heap) => Some(heap),
            _ => None,
        }
    }

    /// Whether the value is the address of element 0, or of an element whose index was compared
    /// with the table's length.
    pub(crate) fn is_slot_of(&self, table: u32) -> bool {
        self.is_checked_slot_of(table)
            || (self.kind == Kind::Table(table) && self.exact() == Some(0))
    }

    /// Whether the value is the address of an element whose index was compared with the table's
    /// length.
    pub(crate) fn is_checked_slot_of(&self, table: u32) -> bool {
        let is_compared = self.below == table && self.shift == 3 && self.constant & 7 == 0;
        self.kind == Kind::Table(table) && is_compared
    }
}
