//! Calls, tail calls, returns and exits to the host.

use super::{Machine, Step, builtin_parameter, builtins, signature};
use crate::abi::{Place, Places};
use crate::access::{of_type, typed};
use crate::error::{Proof, Property, refuse};
use crate::frame::{reach, touch};
use crate::state::{Fact, Slot};
use crate::value::{Entries, Kind, Symbol, Value};
use crate::vector::Extent;
use pirn_format::exit::{self, Builtin, CELL_BYTES, TrapCode};
use pirn_format::traps::CodeKind;
use pirn_format::types::{CompositeKind, FuncType, ValType};
use std::borrow::Cow;

/// The code that a call enters.
enum Callee {
    /// Guest code of a type, whose first argument must have this kind.
    Guest {
        ty: u32,
        context: Kind,
    },
    Builtin(Builtin),
    /// The stub of a trap, which does not return.
    Trap,
}

impl<'m, M: Machine<'m>> Step<'_, 'm, M> {
    /// A call of the code that starts at a text offset. The call returns to `next`.
    pub(crate) fn call_direct(&mut self, target: u32, next: u32) -> Proof<()> {
        self.grows_only(false)?;
        match self.direct(target)? {
            Callee::Guest { ty, context } => self.call_guest(ty, context, next),
            Callee::Builtin(builtin) => self.call_builtin(builtin, next),
            Callee::Trap => {
                self.needs_context(M::CONVENTION.parameter(0), Kind::Instance)?;
                self.stub_argument(target)?;
                self.frame_chain(0)?;
                let pointer = self.stack_pointer()?;
                self.enters_at(pointer)?;
                self.after_call(pointer, 0, next)
            }
        }
    }

    /// A call of the code at an address.
    pub(crate) fn call_indirect(&mut self, target: Value, next: u32) -> Proof<()> {
        self.grows_only(target.kind == Kind::Exit)?;
        match target.kind {
            Kind::HostCall => self.call_host(next),
            Kind::Exit => self.call_exit(next),
            Kind::Bulk => self.call_bulk(next),
            _ => {
                let (ty, context) = self.indirect(target)?;
                self.call_guest(ty, context, next)
            }
        }
    }

    /// A call of a routine that copies or fills memory 0. The routine checks its arguments, and
    /// returns numbers that follow from them: so the arguments must not be addresses.
    fn call_bulk(&mut self, next: u32) -> Proof<()> {
        self.frame_chain(0)?;
        let pointer = self.stack_pointer()?;
        self.enters_at(pointer)?;
        let [context, words @ ..] = M::CONVENTION.bulk;
        self.needs_context(context, Kind::Instance)?;
        for register in words {
            self.has_type(self.state.registers[register], ValType::I64)?;
        }
        self.after_call(pointer, 0, next)?;
        for (number, register) in M::CONVENTION.bulk_results.into_iter().enumerate() {
            self.state.registers[register] = typed(ValType::I64, self.result(number));
        }
        Ok(())
    }

    /// Refuses calls of the trampoline of `heap.grow`, except the exit. Its caller still relies on
    /// the address of the next object, which a called function could change.
    fn grows_only(&self, is_exit: bool) -> Proof<()> {
        match self.is_heap_grow() && !is_exit {
            true => refuse(
                Property::Targets,
                "the trampoline of heap.grow calls a function",
            ),
            false => Ok(()),
        }
    }

    /// Whether this is the trampoline of `heap.grow`.
    pub(crate) fn is_heap_grow(&self) -> bool {
        self.walk.entry.kind == CodeKind::Builtin(Builtin::HeapGrow as u32)
    }

    /// Checks that a function entered with this stack pointer is not far below the lowest access to
    /// the stack.
    pub(super) fn enters_at(&mut self, pointer: i32) -> Proof<()> {
        match M::CONVENTION.pushed {
            // The call itself touches the stack.
            pushed @ 1.. => touch(self.state, pointer - pushed),
            _ => reach(self.state, pointer),
        }
    }

    /// Checks the argument of a trap stub, if the stub uses it. Refuses calls from a stub to a
    /// stub.
    fn stub_argument(&self, stub: u32) -> Proof<()> {
        let value = self.state.registers[M::CONVENTION.parameter(1)];
        let is_type = matches!(value.kind, Kind::DispatchType(_));
        if matches!(self.walk.entry.kind, CodeKind::Trap(_)) {
            return refuse(Property::Targets, "calls a stub from a stub");
        }
        match is_type || self.walk.module.plain_stubs.contains(&stub) {
            true => Ok(()),
            false => self.has_type(value, ValType::I64),
        }
    }

    /// The code that starts at a text offset.
    fn direct(&self, target: u32) -> Proof<Callee> {
        let module = self.walk.module;
        let Some(entry) = module.entry(target) else {
            return refuse(
                Property::Targets,
                format!("calls text offset {target:#x}, where no function starts"),
            );
        };
        match entry.kind {
            CodeKind::Func(index) => Ok(Callee::Guest {
                ty: module.metadata.funcs[index as usize],
                context: Kind::Instance,
            }),
            CodeKind::Builtin(number) => match Builtin::from_number(number) {
                Some(builtin) => Ok(Callee::Builtin(builtin)),
                None => refuse(Property::Targets, format!("calls builtin {number}")),
            },
            CodeKind::Trap(_) => Ok(Callee::Trap),
            CodeKind::Import(_) | CodeKind::Entry(_) => refuse(
                Property::Targets,
                format!("calls {:?}, which only the runtime enters", entry.kind),
            ),
        }
    }

    /// The type of the code at an address, and the kind of its first argument.
    fn indirect(&mut self, target: Value) -> Proof<(u32, Kind)> {
        let module = self.walk.module;
        if target.null {
            return refuse(
                Property::Targets,
                "calls an address that a mask may have made null",
            );
        }
        match target.kind {
            Kind::CodeOf(reference) => {
                let is_func = |ty| module.metadata.kind(ty) == Some(CompositeKind::Func);
                let types = self.state.facts().filter_map(|fact| match fact {
                    Fact::FunctionType(of, ty) if of == reference && is_func(ty) => Some(ty),
                    _ => None,
                });
                match types.last() {
                    Some(ty) => Ok((ty, Kind::ContextOf(reference))),
                    None => refuse(
                        Property::Types,
                        "calls a function reference without a comparison of its type",
                    ),
                }
            }
            Kind::ImportCode(import) => {
                let ty = module.metadata.funcs[import as usize];
                Ok((ty, Kind::ImportContext(import)))
            }
            Kind::EntryCode => match self.walk.entry.kind {
                CodeKind::Entry(ty) => Ok((ty, Kind::EntryContext)),
                _ => refuse(Property::Targets, "calls an argument"),
            },
            Kind::DispatchCode(table, entries, number) => {
                Ok((self.dispatched(table, entries, number)?, Kind::Instance))
            }
            // The code of a table's entry with a constant index.
            Kind::Text => {
                let at = target.exact().and_then(|at| u32::try_from(at).ok());
                match self.direct(at.unwrap_or(u32::MAX))? {
                    Callee::Guest { ty, context } => Ok((ty, context)),
                    _ => refuse(Property::Targets, "calls a stub by a table"),
                }
            }
            kind => refuse(
                Property::Targets,
                format!("jumps to {kind:?}, which is no address of checked code"),
            ),
        }
    }

    /// The type of all functions that a call by a dispatch table may enter.
    fn dispatched(&mut self, table: u32, entries: Entries, number: u32) -> Proof<u32> {
        let module = self.walk.module;
        self.walk
            .spend((entries.last - entries.first) as usize / 8)?;
        let mut found = None;
        for at in (entries.first..=entries.last).step_by(8) {
            let (Some(offset), Some(of)) = (module.word(at), module.word(at + 4)) else {
                return refuse(
                    Property::Targets,
                    format!("the dispatch table at {table:#x} ends after the text"),
                );
            };
            if of != number {
                continue;
            }
            let target = table.wrapping_add(offset);
            let Callee::Guest { ty, .. } = self.direct(target)? else {
                return refuse(
                    Property::Targets,
                    format!("entry {at:#x} of a dispatch table names {target:#x}, no function"),
                );
            };
            match found {
                Some(other) if !module.subtypes.is_same(other, ty) => {
                    return refuse(
                        Property::Types,
                        format!("functions of types {other} and {ty} have one number, {number}"),
                    );
                }
                _ => found = Some(ty),
            }
        }
        match found {
            Some(ty) => Ok(ty),
            None => refuse(
                Property::Targets,
                format!("the dispatch table at {table:#x} has no function with number {number}"),
            ),
        }
    }

    fn call_guest(&mut self, ty: u32, context: Kind, next: u32) -> Proof<()> {
        let places = self.walk.module.places(M::CONVENTION, ty);
        self.frame_chain(places.argument_bytes)?;
        let pointer = self.stack_pointer()?;
        self.enters_at(pointer)?;
        self.needs_context(places.context, context)?;
        self.has_values(&places.params, pointer)?;
        let area = match places.area {
            None => None,
            Some(register) => Some(self.area(register, pointer, places)?),
        };
        if let Some(area) = area {
            for at in (area..area + places.area_bytes).step_by(8) {
                self.state.set_slot(at, Slot::UNWRITTEN);
            }
        }
        self.after_call(pointer, places.argument_bytes, next)?;
        for (number, (place, ty)) in places.results.iter().enumerate() {
            let value = typed(*ty, self.result(number));
            match (*place, area) {
                (Place::General(register), _) => self.state.registers[register] = value,
                (Place::Vector(register), _) => {
                    self.state.vector_mut(register).extent = Extent::of(*ty);
                }
                (Place::Memory(at), Some(area)) => self.state.set_cell(area + at, *ty, value),
                (Place::Memory(_), None) => {}
            }
        }
        Ok(())
    }

    /// A symbol for a result of this call.
    pub(super) fn result(&self, number: usize) -> Symbol {
        Symbol(u64::from(self.at) << 4 | 1 << 60 | (number as u64) << 40)
    }

    /// Checks the types of values in their places. Places in memory start at the frame offset
    /// `memory`.
    fn has_values(&self, places: &[(Place, ValType)], memory: i32) -> Proof<()> {
        for (place, ty) in places {
            match *place {
                Place::General(register) => {
                    self.has_type(self.state.registers[register], *ty)?;
                }
                Place::Vector(register) => self.has_vector(register, *ty)?,
                Place::Memory(at) => self.has_cell(memory + at, *ty)?,
            }
        }
        Ok(())
    }

    pub(super) fn has_type(&self, value: Value, ty: ValType) -> Proof<()> {
        of_type(self.walk.module, value, ty)
    }

    fn has_vector(&self, register: usize, ty: ValType) -> Proof<()> {
        if self.state.vector(register).extent >= Extent::of(ty) {
            return Ok(());
        }
        refuse(
            Property::Types,
            format!("passes vector register {register}, which holds no number"),
        )
    }

    /// The distance of a result area from the stack pointer at entry. The area must lie in this
    /// frame.
    fn area(&self, register: usize, pointer: i32, places: &Places) -> Proof<i32> {
        let value = self.state.registers[register];
        match value.stack_distance() {
            Some(at)
                if at >= pointer + places.argument_bytes
                    && at + places.area_bytes <= self.frame_pointer()? =>
            {
                Ok(at)
            }
            _ => refuse(
                Property::Stack,
                format!(
                    "passes {:?} as memory for results, not its frame",
                    value.kind
                ),
            ),
        }
    }

    /// The frame pointer's distance from the stack pointer at entry.
    fn frame_pointer(&self) -> Proof<i32> {
        match self.state.registers[M::CONVENTION.frame].stack_distance() {
            Some(at) => Ok(at),
            None => refuse(Property::Stack, "the frame pointer is unknown at a call"),
        }
    }

    /// Checks that the frame pointer leads to the caller's frame pointer and return address. The
    /// runtime finds frames by this chain.
    ///
    /// The frame pointer must lie above the bytes that the callee may change. The stack pointer
    /// must be at a multiple of 16.
    pub(super) fn frame_chain(&self, argument_bytes: i32) -> Proof<()> {
        let frame = self.frame_pointer()?;
        let pointer = self.stack_pointer()?;
        if pointer & 15 != M::CONVENTION.aligned() {
            return refuse(
                Property::Stack,
                format!(
                    "calls with the stack pointer {pointer} bytes from its value at entry, so that \
                     it is no multiple of 16"
                ),
            );
        }
        if frame < pointer + argument_bytes {
            return refuse(
                Property::Stack,
                format!(
                    "calls with the frame pointer at {frame}, below the end of the arguments at {}",
                    pointer + argument_bytes
                ),
            );
        }
        let saved = self.state.slot(frame);
        let return_address = self.state.slot(frame + 8);
        if saved == Slot::whole(Value::of(Kind::Saved(M::CONVENTION.frame as u8)))
            && return_address == Slot::whole(Value::of(Kind::ReturnAddress))
            && frame + 16 <= self.state.top()
        {
            return Ok(());
        }
        refuse(
            Property::Stack,
            "the frame pointer does not lead to the caller's frame at a call",
        )
    }

    pub(super) fn needs_context(&self, register: usize, kind: Kind) -> Proof<()> {
        let value = self.state.registers[register];
        let named = match kind {
            Kind::ContextOf(_) => value.kind == kind,
            _ => value == Value::of(kind),
        };
        if named && value.exact() == Some(0) && !value.null {
            return Ok(());
        }
        refuse(
            Property::Types,
            format!(
                "passes {:?} as the first argument, not {kind:?}",
                value.kind
            ),
        )
    }

    /// The state after a call: callee-saved registers and the frame above the arguments survive,
    /// all else is unknown.
    pub(super) fn after_call(&mut self, pointer: i32, argument_bytes: i32, next: u32) -> Proof<()> {
        let after = pointer + argument_bytes;
        if after > 0 {
            return refuse(
                Property::Stack,
                "calls a function that would remove this function's return address or arguments",
            );
        }
        let abi = M::CONVENTION;
        let preserved =
            |register: usize| register == abi.stack || abi.preserved.contains(&register);
        for register in (0..self.state.registers.len()).filter(|at| !preserved(*at)) {
            let name = Symbol(u64::from(self.at) << 4 | 1 << 59 | (register as u64) << 40);
            self.state.registers[register] = Value::named(name, Kind::Junk);
        }
        let name = u64::from(self.at) << 4 | 1 << 52;
        self.state.forget_vectors(name);
        self.walk.spend(self.state.words())?;
        (self.state.flags, self.state.readable) = (None, 0);
        self.state.forget_below(after);
        self.state.forget_caught();
        if self.walk.module.has_objects {
            self.state.forget_next_object(|_| false);
        }
        self.state.registers[abi.stack] = Value::at(Kind::Stack, i64::from(after));
        self.handler(next)
    }

    /// Adds the path to the handler, if the function catches exceptions of this call.
    fn handler(&mut self, next: u32) -> Proof<()> {
        let Some(handler) = self.walk.module.handlers.find(next) else {
            return Ok(());
        };
        let frame = self.frame_pointer()?;
        let abi = M::CONVENTION;
        let mut state = self.state.clone();
        for (register, value) in state.registers.iter_mut().enumerate() {
            // Bit 0 keeps these symbols apart from the symbols of `after_call`.
            let name = u64::from(self.at) << 4 | 1 | 1 << 59 | (register as u64) << 40;
            *value = Value::named(Symbol(name), Kind::Junk);
        }
        state.registers[abi.frame] = Value::at(Kind::Stack, i64::from(frame));
        state.forget_saved_vectors();
        let pointer = i32::try_from(handler.frame_bytes)
            .ok()
            .and_then(|bytes| frame.checked_sub(bytes))
            .filter(|pointer| pointer & 15 == abi.aligned());
        let Some(pointer) = pointer else {
            return refuse(
                Property::Stack,
                format!(
                    "has a handler whose stack pointer is {} bytes below the frame pointer at \
                     {frame}, so that it is no multiple of 16",
                    handler.frame_bytes
                ),
            );
        };
        state.registers[abi.stack] = Value::at(Kind::Stack, i64::from(pointer));
        match abi.pushed {
            // To enter the handler, the runtime writes the handler's address below the stack
            // pointer.
            pushed @ 1.. => touch(&mut state, pointer - pushed)?,
            _ => reach(&state, pointer)?,
        }
        state.forget_below(pointer);
        state.is_landed = true;
        self.walk.flow(handler.handler, Cow::Owned(state))
    }

    /// A call of a host function, by the descriptor of an import.
    fn call_host(&mut self, next: u32) -> Proof<()> {
        let module = self.walk.module;
        let registers = &self.state.registers;
        let [context, host, _] = M::CONVENTION.host.map(|register| registers[register]);
        let ty = match (context.kind, host.kind) {
            (Kind::AnyInstance, Kind::AnyHost) => match self.walk.entry.kind {
                CodeKind::Import(ty) => ty,
                _ => return refuse(Property::Targets, "calls an unknown host function"),
            },
            (Kind::Instance, Kind::ImportHost(import))
                if context == Value::of(Kind::Instance) && self.state.has(Fact::IsHost(import)) =>
            {
                module.metadata.funcs[import as usize]
            }
            _ => {
                return refuse(
                    Property::Targets,
                    format!(
                        "calls the host with {:?} and {:?}, which name no host function",
                        context.kind, host.kind
                    ),
                );
            }
        };
        let ty = module.metadata.func_type(ty);
        let cells = self.cells(ty)?;
        self.has_cells(cells, &ty.params)?;
        self.exit(cells, ty, next)
    }

    /// Checks the types of values in successive cells.
    pub(super) fn has_cells(&self, first: i32, types: &[ValType]) -> Proof<()> {
        let mut cells = cell_offsets(first).zip(types);
        cells.try_for_each(|(at, ty)| self.has_cell(at, *ty))
    }

    fn has_cell(&self, at: i32, ty: ValType) -> Proof<()> {
        match self.state.cell(at, ty) {
            Some(value) => {
                let upper = self.state.slot(at + 8).value;
                let is_number = match ty {
                    ValType::F32 => value.is_number() || value.kind == Kind::Single,
                    ValType::F64 => value.is_number(),
                    ValType::V128 => value.is_number() && upper.is_number(),
                    ValType::I32 | ValType::I64 | ValType::Ref(_) => true,
                };
                if !is_number {
                    return refuse(Property::Types, format!("passes {:?} as {ty}", value.kind));
                }
                self.has_type(value, ty)
            }
            None => refuse(Property::Types, "passes a cell that was not written"),
        }
    }

    /// The frame offset of the cells that the third argument points to.
    fn cells(&self, ty: &FuncType) -> Proof<i32> {
        let [.., cells] = M::CONVENTION.host;
        self.cells_at(self.state.registers[cells], cell_count(ty))
    }

    /// The frame offset of `count` cells at an address. Refuses cells outside of this frame.
    pub(super) fn cells_at(&self, address: Value, count: usize) -> Proof<i32> {
        let (pointer, frame) = (self.stack_pointer()?, self.frame_pointer()?);
        let bytes = count as i32 * CELL_BYTES as i32;
        match address.stack_distance() {
            Some(at) if at >= pointer && at + bytes <= frame => Ok(at),
            _ => refuse(
                Property::Stack,
                format!(
                    "passes {:?} as cells, not {count} cells of its frame",
                    address.kind
                ),
            ),
        }
    }

    /// Calls the host, which reads arguments from the cells and writes results to the cells.
    fn exit(&mut self, cells: i32, ty: &FuncType, next: u32) -> Proof<()> {
        self.frame_chain(0)?;
        let pointer = self.stack_pointer()?;
        self.enters_at(pointer)?;
        let end = cells + (cell_count(ty) as u32 * CELL_BYTES) as i32;
        for at in (cells..end).step_by(8) {
            self.state.set_slot(at, Slot::UNWRITTEN);
        }
        self.after_call(pointer, 0, next)?;
        self.state.heap.has_grown = self.is_heap_grow();
        let is_made = match self.walk.entry.kind {
            CodeKind::Builtin(number) => Builtin::from_number(number).and_then(builtins::made),
            _ => None,
        };
        for (number, (at, ty)) in cell_offsets(cells).zip(&ty.results).enumerate() {
            let value = match is_made {
                Some(_) => Value::of(Kind::BuiltinResult),
                None => typed(*ty, self.result(number)),
            };
            self.state.set_cell(at, *ty, value);
        }
        Ok(())
    }

    /// A call of the exit routine, from the trampoline of a builtin or from the stub of a trap.
    fn call_exit(&mut self, next: u32) -> Proof<()> {
        let [context, reason, _] = M::CONVENTION.host;
        self.needs_context(context, Kind::Instance)?;
        let reason = self.state.registers[reason];
        let is_trap = |reason: i64| {
            let code = u64::try_from(reason).ok().and_then(exit::split);
            matches!(code, Some((exit::Kind::Trap, code)) if TrapCode::from_number(code).is_some())
        };
        match self.walk.entry.kind {
            CodeKind::Trap(_) => {
                // A reason is `kind | code << 8`. Only the code's bits may vary.
                let is_code = reason.exact().is_some()
                    || (reason.shift == 8 && reason.constant == exit::Kind::Trap as i64);
                let sound = is_code && is_trap(reason.low) && is_trap(reason.high);
                if !reason.is_number() || !sound {
                    return refuse(Property::Types, "exits with a reason that is no trap");
                }
                let pointer = self.stack_pointer()?;
                self.frame_chain(0)?;
                self.enters_at(pointer)?;
                self.after_call(pointer, 0, next)
            }
            CodeKind::Builtin(number) => {
                let wanted = exit::reason(exit::Kind::Builtin, number).cast_signed();
                if reason.as_constant() != Some(wanted) {
                    return refuse(
                        Property::Types,
                        format!("exits with reason {:?}, not {wanted}", reason.as_constant()),
                    );
                }
                let ty = signature(self.walk.module, self.walk.entry.kind);
                let cells = self.cells(&ty)?;
                for (at, parameter) in cell_offsets(cells).zip(0..ty.params.len()) {
                    let wanted = builtin_parameter(self.walk.module, number, parameter);
                    match self.state.cell(at, ValType::I64) {
                        Some(value) if builtins::is_checked(number, parameter) => {
                            self.has_type(value, ValType::I64)?;
                        }
                        Some(value) if value.identity() == wanted.identity() && !value.null => {}
                        _ => {
                            return refuse(
                                Property::Types,
                                format!("passes another value as parameter {parameter}"),
                            );
                        }
                    }
                }
                self.exit(cells, &ty, next)
            }
            _ => refuse(
                Property::Targets,
                "exits with a reason that only stubs may give",
            ),
        }
    }

    /// A jump to another function.
    pub(crate) fn tail_call_direct(&mut self, target: u32) -> Proof<()> {
        match self.direct(target)? {
            Callee::Guest { ty, context } => self.tail_call_guest(ty, context),
            Callee::Builtin(_) | Callee::Trap => refuse(
                Property::Targets,
                format!("jumps to text offset {target:#x}, which must be called"),
            ),
        }
    }

    pub(crate) fn tail_call(&mut self, target: Value) -> Proof<()> {
        let (ty, context) = self.indirect(target)?;
        self.tail_call_guest(ty, context)
    }

    fn tail_call_guest(&mut self, ty: u32, context: Kind) -> Proof<()> {
        let module = self.walk.module;
        let ty = module.metadata.func_type(ty);
        let CodeKind::Func(index) = self.walk.entry.kind else {
            return refuse(Property::Targets, "jumps to a function from a trampoline");
        };
        let own = module
            .metadata
            .func_type(module.metadata.funcs[index as usize]);
        let same = ty.results.len() == own.results.len()
            && ty
                .results
                .iter()
                .zip(&own.results)
                .all(|(found, wanted)| module.subtypes.matches(*found, *wanted));
        if !same {
            return refuse(Property::Types, "jumps to a function with other results");
        }
        let places = Places::of(M::CONVENTION, ty);
        let pointer = self.leaves(places.argument_bytes)?;
        self.needs_context(places.context, context)?;
        if let Some(area) = places.area {
            self.needs_context(area, Kind::ResultArea)?;
        }
        reach(self.state, pointer)?;
        self.has_values(&places.params, pointer + M::CONVENTION.pushed)
    }

    /// Checks stack and registers before code leaves the function. `argument_bytes` is the size of
    /// the arguments above the return address. Returns the stack pointer.
    fn leaves(&self, argument_bytes: i32) -> Proof<i32> {
        let pointer = self.stack_pointer()?;
        let abi = M::CONVENTION;
        let return_address = match abi.link {
            Some(link) => Slot::whole(self.state.registers[link]),
            None => self.state.slot(pointer),
        };
        if return_address != Slot::whole(Value::of(Kind::ReturnAddress)) {
            return refuse(
                Property::Stack,
                "leaves the function without the return address where its caller expects it",
            );
        }
        if pointer + abi.pushed + argument_bytes != self.state.top() {
            return refuse(
                Property::Stack,
                format!(
                    "leaves {} bytes of arguments on the stack",
                    self.state.top() - pointer - abi.pushed - argument_bytes
                ),
            );
        }
        for vector in abi.preserved_vectors.clone() {
            if self.state.vector(vector).saved != Some(vector as u8) {
                return refuse(
                    Property::Stack,
                    format!("does not restore the lower half of vector register {vector}"),
                );
            }
        }
        for register in abi.preserved.iter().copied() {
            if self.state.registers[register] != Value::of(Kind::Saved(register as u8)) {
                return refuse(
                    Property::Stack,
                    format!("does not restore general register {register} of its caller"),
                );
            }
        }
        Ok(pointer)
    }

    /// A return that removes bytes of arguments above the return address.
    pub(crate) fn returns(&mut self, popped: i32) -> Proof<()> {
        let pushed = M::CONVENTION.pushed;
        if let CodeKind::Entry(ty) = self.walk.entry.kind {
            let pointer = self.stack_pointer()?;
            // The cells are not arguments that this function removes.
            self.leaves(self.state.top() - pushed)?;
            let ty = self.walk.module.metadata.func_type(ty);
            self.has_cells(pointer + pushed, &ty.results)?;
            return match popped {
                0 => Ok(()),
                _ => refuse(Property::Stack, "removes the cells of its caller"),
            };
        }
        self.leaves(popped)?;
        if self.is_heap_grow() && !self.state.heap.has_grown {
            return refuse(
                Property::Types,
                "heap.grow returns without a request for room",
            );
        }
        if let CodeKind::Builtin(number) = self.walk.entry.kind
            && Builtin::from_number(number)
                .and_then(builtins::made)
                .is_some()
        {
            return match self.state.registers[M::CONVENTION.results[0]]
                == Value::of(Kind::BuiltinResult)
            {
                true => Ok(()),
                false => refuse(
                    Property::Types,
                    "returns another reference than the runtime's",
                ),
            };
        }
        self.has_values(&self.walk.places.results, self.state.top())
    }
}

/// Number of cells of a call that crosses to or from the host. Results reuse the parameters' cells.
pub(super) fn cell_count(ty: &FuncType) -> usize {
    ty.params.len().max(ty.results.len()).max(1)
}

/// Offsets of successive cells, from the offset `first` on.
fn cell_offsets(first: i32) -> impl Iterator<Item = i32> {
    (first..).step_by(CELL_BYTES as usize)
}
