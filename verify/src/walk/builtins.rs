//! Calls of builtins: the parameters that the runtime trusts.

use super::{Machine, Step};
use crate::abi::{Place, Places};
use crate::access::typed;
use crate::error::{Proof, Property, refuse};
use crate::module::Module;
use crate::objects::{self, Amount};
use crate::value::{Kind, Symbol, Value};
use pirn_format::exit::Builtin;
use pirn_format::metadata::Metadata;
use pirn_format::types::{
    AddrType, CompositeKind, FieldType, FuncType, HeapType, StorageType, ValType,
};

/// Whether a parameter of a builtin is an address or a length of 32 bits, zero-extended. The
/// trampolines of copies and fills add such parameters without a check.
pub(super) fn is_word(module: &Module<'_>, builtin: Builtin, number: usize) -> bool {
    let mut memories = module.metadata.memories.iter();
    is_checked(builtin as u32, number) && memories.all(|memory| memory.address == AddrType::I32)
}

/// Whether the runtime takes any number as this parameter of a builtin: an address, a byte or a
/// length of a copy or a fill. The trampoline may pass what is left to do.
pub(super) fn is_checked(builtin: u32, number: usize) -> bool {
    match Builtin::from_number(builtin) {
        Some(Builtin::MemoryCopy) => number >= 2,
        Some(Builtin::MemoryFill) => number >= 1,
        _ => false,
    }
}

/// Whether a parameter of a builtin is a reference, or an address of values. The builtin's
/// trampoline must pass the parameter unchanged, and must not reveal it to the guest.
pub(super) fn is_address(builtin: Builtin, number: usize) -> bool {
    matches!(
        (builtin, number),
        (Builtin::TableGrow | Builtin::Throw, 1)
            | (Builtin::TableFill, 2)
            | (Builtin::ThrowRef | Builtin::HostBox, 0)
            | (
                Builtin::ArrayInitData | Builtin::ArrayInitElem | Builtin::ArrayCopy,
                1
            )
            | (Builtin::ArrayCopy, 0)
    )
}

/// The heap type of a reference that the runtime makes for a builtin, if the builtin's arguments
/// decide the reference's type. The trampoline must return exactly this reference.
pub(super) fn made(builtin: Builtin) -> Option<HeapType> {
    match builtin {
        Builtin::ArrayNewData | Builtin::ArrayNewElem => Some(HeapType::Array),
        Builtin::HostBox => Some(HeapType::Any),
        _ => None,
    }
}

/// Whether a parameter is an offset in a segment, or a number of elements of a new array, which the
/// runtime takes as 32 bits.
fn is_array_word(builtin: Builtin, number: usize) -> bool {
    matches!(builtin, Builtin::ArrayNewData | Builtin::ArrayNewElem) && number >= 2
}

/// The signature of a builtin. All its parameters are words.
pub(super) fn signature(builtin: Builtin) -> FuncType {
    let result = match (builtin, made(builtin)) {
        (_, Some(heap)) => ValType::nullable(heap),
        (Builtin::Keep, _) => ValType::non_null(HeapType::Exn),
        _ => ValType::I64,
    };
    FuncType {
        params: vec![ValType::I64; builtin.params()],
        results: vec![result; usize::from(builtin.has_result())],
    }
}

/// The arguments of a call of a builtin. Arguments that are indices must be constants.
struct Arguments<'a> {
    metadata: &'a Metadata,
    builtin: Builtin,
    words: &'a [Value],
}

impl Arguments<'_> {
    /// The index in an argument. It must be a constant below `count`, the module's number of these
    /// items.
    fn index(&self, at: usize, count: usize, what: &str) -> Proof<usize> {
        let found = self.words[at].as_constant();
        match found.and_then(|index| usize::try_from(index).ok()) {
            Some(index) if index < count => Ok(index),
            _ => refuse(
                Property::Types,
                format!(
                    "passes {found:?} as the index of a {what} to {}; the module has {count}",
                    self.builtin.name()
                ),
            ),
        }
    }

    fn memory(&self, at: usize) -> Proof<()> {
        let memories = self.metadata.memories.len();
        self.index(at, memories, "memory").map(|_| ())
    }

    /// Checks the index of a data segment.
    fn data(&self, at: usize) -> Proof<()> {
        let segments = self.metadata.data.len();
        self.index(at, segments, "data segment").map(|_| ())
    }

    /// The index of an element segment.
    fn segment(&self, at: usize) -> Proof<usize> {
        self.index(at, self.metadata.elements.len(), "element segment")
    }

    /// The type of a table's elements.
    fn table(&self, at: usize) -> Proof<ValType> {
        let table = self.index(at, self.metadata.tables.len(), "table")?;
        Ok(self.metadata.tables[table].element)
    }
}

impl<'m, M: Machine<'m>> Step<'_, 'm, M> {
    /// A call of a builtin. Checks the types and the indices that the runtime trusts.
    pub(super) fn call_builtin(&mut self, builtin: Builtin, next: u32) -> Proof<()> {
        let ty = signature(builtin);
        let places = Places::of(M::CONVENTION, &ty);
        self.frame_chain(places.argument_bytes)?;
        self.needs_context(places.context, Kind::Instance)?;
        let pointer = self.stack_pointer()?;
        self.enters_at(pointer)?;
        let words: Vec<Value> = places
            .params
            .iter()
            .map(|(place, ty)| match *place {
                Place::General(register) => self.state.registers[register],
                Place::Memory(at) => self.state.cell(pointer + at, *ty).unwrap_or(Value::JUNK),
                Place::Vector(_) => Value::JUNK,
            })
            .collect();
        let array = self.builtin(builtin, &words)?;
        let next_object = match builtin {
            Builtin::HeapGrow => Some((self.state.locations(), self.state.heap.clone())),
            _ => None,
        };
        self.after_call(pointer, places.argument_bytes, next)?;
        if let Some((values, heap)) = next_object {
            self.restore_next_objects(&values, words[0]);
            self.state.heap.restore_places(&heap);
        }
        if let Some(result) = ty.results.first() {
            let result = array.unwrap_or(*result);
            self.state.registers[M::CONVENTION.results[0]] = typed(result, self.result(0));
        }
        Ok(())
    }

    /// After `heap.grow`, which does not allocate, there is room for an object of the given size.
    /// `before` has the values of all locations before the call.
    fn restore_next_objects(&mut self, before: &[Value], bytes: Value) {
        let abi = M::CONVENTION;
        for (location, value) in before.iter().enumerate() {
            let survives = location >= abi.registers || abi.preserved.contains(&location);
            if survives && value.kind == Kind::HeapNext {
                self.state.set_location(location, *value);
            }
        }
        self.state.heap.room = Value::of(Kind::HeapNext).plus(bytes, Symbol::ZERO);
    }

    /// Checks the arguments. Returns the type of the result, if the arguments decide this type.
    ///
    /// Longer than a screen: one arm for each builtin, so that none can be left out.
    fn builtin(&mut self, builtin: Builtin, words: &[Value]) -> Proof<Option<ValType>> {
        let metadata = self.walk.module.metadata;
        let arguments = Arguments {
            metadata,
            builtin,
            words,
        };
        if matches!(
            builtin,
            Builtin::TableGrow | Builtin::TableFill | Builtin::TableCopy | Builtin::TableInit
        ) {
            self.walk.module.changes_tables()?;
        }
        let mut result = None;
        // From this parameter on, all parameters are numbers.
        let numbers = match builtin {
            Builtin::MemoryGrow
            | Builtin::MemoryFill
            | Builtin::MemoryWait32
            | Builtin::MemoryWait64
            | Builtin::MemoryNotify => {
                arguments.memory(0)?;
                1
            }
            Builtin::MemoryCopy => {
                arguments.memory(0)?;
                arguments.memory(1)?;
                2
            }
            Builtin::MemoryInit => {
                arguments.memory(0)?;
                arguments.data(1)?;
                2
            }
            Builtin::DataDrop => {
                arguments.data(0)?;
                0
            }
            Builtin::ElemDrop => {
                arguments.segment(0)?;
                0
            }
            Builtin::TableGrow => {
                self.has_type(words[1], arguments.table(0)?)?;
                2
            }
            Builtin::TableFill => {
                self.has_type(words[2], arguments.table(0)?)?;
                self.has_type(words[1], ValType::I64)?;
                3
            }
            Builtin::TableCopy => {
                self.copies_table(arguments.table(1)?, arguments.table(0)?)?;
                2
            }
            Builtin::TableInit => {
                self.segment_fits(arguments.segment(1)?, arguments.table(0)?)?;
                2
            }
            Builtin::Throw => {
                let tag = arguments.index(0, metadata.tags.len(), "tag")?;
                self.thrown(tag, words[1])?;
                2
            }
            Builtin::ThrowRef => {
                self.has_type(words[0], ValType::non_null(HeapType::Exn))?;
                1
            }
            Builtin::Rethrow | Builtin::Keep => 0,
            Builtin::HeapGrow => {
                self.object_size(words[0])?;
                0
            }
            Builtin::ArrayNewData | Builtin::ArrayNewElem => {
                result = Some(self.new_array(&arguments)?);
                2
            }
            Builtin::ArrayInitData | Builtin::ArrayInitElem => {
                self.writes_array(&arguments)?;
                2
            }
            Builtin::ArrayCopy => {
                let to = self.range(words[0], words[2], Amount::Bytes)?;
                let from = self.range(words[1], words[2], Amount::Bytes)?;
                self.is_mutable(to, words[0])?;
                self.copies(from, to)?;
                2
            }
            Builtin::HostBox => {
                self.has_type(words[0], ValType::EXTERNREF)?;
                self.makes_objects()?;
                if !words[0].null && words[0].as_reference().is_some() {
                    result = Some(ValType::non_null(HeapType::Any));
                }
                1
            }
        };
        for (number, value) in words.iter().enumerate().skip(numbers) {
            self.takes_number(builtin, number, *value)?;
        }
        Ok(result)
    }

    /// Checks a parameter that is a number.
    fn takes_number(&self, builtin: Builtin, number: usize, value: Value) -> Proof<()> {
        self.has_type(value, ValType::I64)?;
        let has_32_bits =
            is_array_word(builtin, number) || is_word(self.walk.module, builtin, number);
        let fits = value.low >= 0 && value.high <= i64::from(u32::MAX);
        if fits || !has_32_bits {
            return Ok(());
        }
        refuse(
            Property::Accesses,
            format!(
                "passes {} to {} as parameter {number} of {}, which has 32 bits",
                value.low,
                value.high,
                builtin.name()
            ),
        )
    }

    /// Checks that elements of one table may be copied to another table.
    fn copies_table(&self, from: ValType, to: ValType) -> Proof<()> {
        match self.walk.module.subtypes.matches(from, to) {
            true => Ok(()),
            false => refuse(
                Property::Types,
                format!("copies elements of type {from} to a table of type {to}"),
            ),
        }
    }

    /// Checks the source of a new array, and returns the type of the reference to the array.
    fn new_array(&mut self, arguments: &Arguments<'_>) -> Proof<ValType> {
        let types = arguments.metadata.types.len();
        let ty = arguments.index(0, types, "type")? as u32;
        let element = self.element(ty)?;
        match arguments.builtin == Builtin::ArrayNewData {
            true => {
                arguments.data(1)?;
                self.holds_numbers(element)?;
            }
            false => self.segment_fits(arguments.segment(1)?, element.storage.value())?,
        }
        self.makes_objects()?;
        let heap = HeapType::Concrete(CompositeKind::Array, ty);
        Ok(ValType::non_null(heap))
    }

    /// Checks a write of a segment to an array: the segment and the range of elements.
    fn writes_array(&mut self, arguments: &Arguments<'_>) -> Proof<()> {
        let words = arguments.words;
        let element = match arguments.builtin == Builtin::ArrayInitData {
            true => {
                arguments.data(0)?;
                let element = self.range(words[1], words[3], Amount::Bytes)?;
                self.holds_numbers(element)?;
                element
            }
            false => {
                let segment = arguments.segment(0)?;
                let element = self.range(words[1], words[3], Amount::Elements)?;
                self.segment_fits(segment, element.storage.value())?;
                element
            }
        };
        self.is_mutable(element, words[1])
    }

    /// Checks that the references of an element segment have the type of a table's or an array's
    /// elements.
    fn segment_fits(&mut self, segment: usize, ty: ValType) -> Proof<()> {
        let Module {
            metadata, subtypes, ..
        } = self.walk.module;
        self.walk.spend(metadata.elements[segment].items.len())?;
        if metadata.elements_match(segment as u32, ty, subtypes) {
            return Ok(());
        }
        refuse(
            Property::Types,
            format!("initialises elements of type {ty} from segment {segment} of another type"),
        )
    }

    /// Checks the values of an exception.
    fn thrown(&self, tag: usize, cells: Value) -> Proof<()> {
        let metadata = self.walk.module.metadata;
        let ty = metadata.func_type(metadata.tags[tag]);
        let at = self.cells_at(cells, ty.params.len())?;
        self.has_cells(at, &ty.params)
    }

    /// The element type of an array type.
    fn element(&self, ty: u32) -> Proof<FieldType> {
        match self.walk.module.metadata.array_element(ty) {
            Some(element) => Ok(element),
            None => refuse(
                Property::Types,
                format!("makes an array of type {ty}, which is none"),
            ),
        }
    }

    /// Refuses allocations in a module that has no memory for objects.
    fn makes_objects(&self) -> Proof<()> {
        match self.walk.module.metadata.heap {
            true => Ok(()),
            false => refuse(
                Property::Types,
                "makes objects in a module that has no place for them",
            ),
        }
    }

    /// Checks the size of an object for which the runtime makes room.
    fn object_size(&self, bytes: Value) -> Proof<()> {
        self.makes_objects()?;
        match bytes.is_number()
            && (0..=objects::OBJECT_BYTES_MAX).contains(&bytes.low)
            && bytes.high <= objects::OBJECT_BYTES_MAX
        {
            true => Ok(()),
            false => refuse(
                Property::Accesses,
                format!("asks for room of {} to {} bytes", bytes.low, bytes.high),
            ),
        }
    }

    /// Checks that a range of elements lies in an array. Returns the element type.
    fn range(&self, address: Value, amount: Value, of: Amount) -> Proof<FieldType> {
        let range = objects::range(self.walk.module, self.state, address, (amount, of));
        match range {
            Some(element) => Ok(element),
            None => refuse(
                Property::Accesses,
                format!(
                    "passes {:?} as a range of elements without a comparison with the length",
                    address.kind
                ),
            ),
        }
    }

    fn holds_numbers(&self, element: FieldType) -> Proof<()> {
        match element.storage {
            StorageType::Val(ValType::Ref(_)) => {
                refuse(Property::Types, "copies data to an array of references")
            }
            _ => Ok(()),
        }
    }

    fn is_mutable(&self, element: FieldType, address: Value) -> Proof<()> {
        match element.mutable || objects::is_new(address) {
            true => Ok(()),
            false => refuse(Property::Accesses, "copies to an array that is immutable"),
        }
    }

    /// Checks that elements of one array may be copied to another array.
    fn copies(&self, from: FieldType, to: FieldType) -> Proof<()> {
        let matches = match (from.storage, to.storage) {
            (StorageType::Val(from), StorageType::Val(to)) => {
                self.walk.module.subtypes.matches(from, to)
            }
            (from, to) => from == to,
        };
        match matches {
            true => Ok(()),
            false => refuse(
                Property::Types,
                format!(
                    "copies elements of type {:?} to {:?}",
                    from.storage, to.storage
                ),
            ),
        }
    }
}
