//! Calls of builtins: the parameters that the runtime trusts.

use super::Step;
use crate::abi::{Place, Places, RAX};
use crate::access::typed;
use crate::error::{Proof, Property, refuse};
use crate::frame::touch;
use crate::module::Module;
use crate::value::{Kind, Value};
use pirn_format::exit::Builtin;
use pirn_format::types::{AddrType, FuncType, HeapType, ValType};

/// Whether a parameter of a builtin is an address or a length of 32 bits, zero-extended. The
/// trampolines of copies and fills add such parameters without a check.
pub(super) fn is_word(module: &Module<'_>, builtin: Builtin, number: usize) -> bool {
    let is_bulk = matches!(builtin, Builtin::MemoryCopy | Builtin::MemoryFill);
    let first = if builtin == Builtin::MemoryCopy { 2 } else { 1 };
    let mut memories = module.metadata.memories.iter();
    is_bulk && number >= first && memories.all(|memory| memory.address == AddrType::I32)
}

/// Whether a parameter of a builtin is a reference, or an address of values. The builtin's
/// trampoline must pass the parameter unchanged, and must not reveal it to the guest.
pub(super) fn is_address(builtin: Builtin, number: usize) -> bool {
    matches!(
        (builtin, number),
        (Builtin::TableGrow | Builtin::Throw, 1) | (Builtin::TableFill, 2) | (Builtin::ThrowRef, 0)
    )
}

/// The signature of a builtin. All its parameters are words.
pub(super) fn signature(builtin: Builtin) -> FuncType {
    let result = match builtin {
        Builtin::Keep => ValType::non_null(HeapType::Exn),
        _ => ValType::I64,
    };
    FuncType {
        params: vec![ValType::I64; builtin.params()],
        results: vec![result; usize::from(builtin.has_result())],
    }
}

impl Step<'_, '_> {
    /// Checks the parameters of a builtin, which the runtime trusts as far as types and indices go.
    pub(super) fn call_builtin(&mut self, builtin: Builtin, next: u32) -> Proof<()> {
        let ty = signature(builtin);
        let places = Places::of(&ty);
        self.frame_chain(places.argument_bytes)?;
        self.needs_context(places.context, Kind::Instance)?;
        let pointer = self.stack_pointer()?;
        touch(self.state, pointer - 8)?;
        let words: Vec<Value> = places
            .params
            .iter()
            .map(|(place, ty)| match *place {
                Place::General(register) => self.state.registers[register],
                Place::Memory(at) => self.state.cell(pointer + at, *ty).unwrap_or(Value::JUNK),
                Place::Vector(_) => Value::JUNK,
            })
            .collect();
        self.builtin(builtin, &words)?;
        self.after_call(pointer, places.argument_bytes, next)?;
        if let Some(result) = ty.results.first() {
            self.state.registers[RAX] = typed(*result, self.result(0));
        }
        Ok(())
    }

    fn builtin(&mut self, builtin: Builtin, words: &[Value]) -> Proof<()> {
        let metadata = self.walk.module.metadata;
        let index = |at: usize, count: usize, what: &str| {
            let found = words[at].as_constant();
            match found.and_then(|index| usize::try_from(index).ok()) {
                Some(index) if index < count => Ok(index),
                _ => refuse(
                    Property::Types,
                    format!(
                        "passes {found:?} as the index of a {what} to {}; the module has {count}",
                        builtin.name()
                    ),
                ),
            }
        };
        let memory = |at| index(at, metadata.memories.len(), "memory").map(|_| ());
        let data = |at| index(at, metadata.data.len(), "data segment").map(|_| ());
        let element = |at| index(at, metadata.elements.len(), "element segment").map(|_| ());
        let table = |at| {
            let table = index(at, metadata.tables.len(), "table")?;
            Ok(metadata.tables[table].element)
        };
        if matches!(
            builtin,
            Builtin::TableGrow | Builtin::TableFill | Builtin::TableCopy | Builtin::TableInit
        ) {
            self.walk.module.changes_tables()?;
        }
        let mut numbers = 0..words.len();
        match builtin {
            Builtin::MemoryGrow | Builtin::MemoryFill => {
                memory(0)?;
                numbers.start = 1;
            }
            Builtin::MemoryCopy => {
                memory(0)?;
                memory(1)?;
                numbers.start = 2;
            }
            Builtin::MemoryInit => {
                memory(0)?;
                data(1)?;
                numbers.start = 2;
            }
            Builtin::DataDrop => data(0)?,
            Builtin::ElemDrop => element(0)?,
            Builtin::TableGrow => {
                self.has_type(words[1], table(0)?)?;
                numbers.start = 2;
            }
            Builtin::TableFill => {
                self.has_type(words[2], table(0)?)?;
                self.has_type(words[1], ValType::I64)?;
                numbers.start = 3;
            }
            Builtin::TableCopy => {
                let (to, from) = (table(0)?, table(1)?);
                if !self.walk.module.subtypes.matches(from, to) {
                    return refuse(
                        Property::Types,
                        format!("copies elements of type {from} to a table of type {to}"),
                    );
                }
                numbers.start = 2;
            }
            Builtin::TableInit => {
                let segment = index(1, metadata.elements.len(), "element segment")?;
                self.walk.spend(metadata.elements[segment].items.len())?;
                self.segment_fits(segment, table(0)?)?;
                numbers.start = 2;
            }
            Builtin::Throw => {
                let tag = index(0, metadata.tags.len(), "tag")?;
                self.thrown(tag, words[1])?;
                numbers.start = 2;
            }
            Builtin::ThrowRef => {
                self.has_type(words[0], ValType::non_null(HeapType::Exn))?;
                numbers.start = 1;
            }
            Builtin::Rethrow | Builtin::Keep => {}
            Builtin::MemoryWait32 | Builtin::MemoryWait64 | Builtin::MemoryNotify => {
                memory(0)?;
                numbers.start = 1;
            }
            _ => {
                return refuse(
                    Property::Types,
                    format!(
                        "calls {}; the verifier does not know structs and arrays",
                        builtin.name()
                    ),
                );
            }
        }
        for number in numbers {
            self.has_type(words[number], ValType::I64)?;
            let value = words[number];
            let fits = value.low >= 0 && value.high <= i64::from(u32::MAX);
            if is_word(self.walk.module, builtin, number) && !fits {
                return refuse(
                    Property::Accesses,
                    format!(
                        "passes {} to {} as parameter {number} of {}, which has 32 bits",
                        value.low,
                        value.high,
                        builtin.name()
                    ),
                );
            }
        }
        Ok(())
    }

    /// Checks that the references of an element segment have the type of a table's elements.
    fn segment_fits(&self, segment: usize, ty: ValType) -> Proof<()> {
        let Module {
            metadata, subtypes, ..
        } = self.walk.module;
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
}
