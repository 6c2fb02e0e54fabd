//! Exceptions (spec 3.0, 4.4.9 and 4.4.10): `throw`, `throw_ref`, `try_table`. Also the legacy
//! operators of the proposal's third phase, which compilers still emit: `try`, `catch`,
//! `catch_all`, `delegate` and `rethrow`.
//!
//! A throw exits to the runtime. The runtime finds the innermost call on the guest's stack that has
//! a handler, and continues there. All calls in the body of a `try` share one handler block,
//! whatever is thrown:
//!
//! ```text
//! call in a body          try_call: continues after the call, or in the handler
//! handler                 compares the tag of the exception, from the context, with each clause
//!   a clause matches      load the values, keep the exception if a reference is wanted, branch
//!   no clause matches     the handler of the next enclosing `try`; if there is none, rethrow
//! ```
//!
//! Calls outside any body are plain calls, and other code is unchanged: only a throw costs time.

use super::call::Code;
use super::frame::{BlockKind, Caught, Try};
use super::function::{FuncTranslator, Region};
use crate::error::CompileError;
use crate::ir::types::{POINTER, value_type};
use crate::symbol::Symbol;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, Block, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value,
};
use pirn_format::exit::{Builtin, CELL_BYTES, TrapCode};
use pirn_format::layout::{CONTEXT_EXCEPTION_TAG, CONTEXT_EXCEPTION_VALUES};
use pirn_format::types::ValType;
use wasmparser::{BlockType, Catch, Operator, TryTable};

impl FuncTranslator<'_, '_> {
    pub(super) fn try_table(&mut self, table: &TryTable) -> Result<(), CompileError> {
        let try_block = Try {
            catches: table.catches.clone(),
            ..Try::default()
        };
        self.enter_try(table.ty, try_block)
    }

    pub(super) fn r#try(&mut self, ty: BlockType) -> Result<(), CompileError> {
        self.enter_try(ty, Try::default())
    }

    fn enter_try(&mut self, ty: BlockType, try_block: Try) -> Result<(), CompileError> {
        let (params, results) = self.block_type(ty)?;
        self.tries.push(self.frames.len());
        self.enter(BlockKind::Try(Box::new(try_block)), params.len(), &results);
        Ok(())
    }

    /// The handler for calls at this point, if this function has an enclosing `try`.
    pub(super) fn handler(&mut self) -> Option<Block> {
        self.handler_within(self.frames.len())
    }

    /// The handler for exceptions thrown within the outermost `count` blocks.
    fn handler_within(&mut self, count: usize) -> Option<Block> {
        // A `try` does not catch exceptions of its clauses; `tries` contains only `try`s whose
        // bodies are open.
        let within = self.tries.partition_point(|at| *at < count);
        let at = *self.tries[..within].last()?;
        let BlockKind::Try(try_block) = &mut self.frames[at].kind else {
            unreachable!("`tries` lists only frames of `try`");
        };
        try_block.ways += 1;
        let builder = &mut self.builder;
        Some(*try_block.handler.get_or_insert_with(|| {
            let block = builder.create_block();
            builder.set_cold_block(block);
            block
        }))
    }

    /// Records that the body of the `try` at index `at` of `frames` has ended. A second call
    /// changes nothing.
    pub(super) fn leave_body(&mut self, at: usize) {
        if self.tries.last() == Some(&at) {
            self.tries.pop();
        }
    }

    /// If the operator ends the body of a `try`: the number of edges to its handler, and the number
    /// of values of all clauses.
    pub(super) fn ends_try(&self, op: &Operator<'_>) -> Option<(usize, usize)> {
        let ends = matches!(
            op,
            Operator::End | Operator::Catch { .. } | Operator::CatchAll | Operator::Delegate { .. }
        );
        let BlockKind::Try(try_block) = &self.frames.last()?.kind else {
            return None;
        };
        if !ends || try_block.handler.is_none() {
            return None;
        }
        let values = try_block.catches.iter().map(|catch| match *catch {
            Catch::One { tag, .. } | Catch::OneRef { tag, .. } => self.tag_params(tag).len() + 1,
            Catch::All { .. } | Catch::AllRef { .. } => 1,
        });
        Some((try_block.ways, values.sum()))
    }

    /// The types of a tag's values.
    fn tag_params(&self, tag: u32) -> &[ValType] {
        let metadata = self.env.metadata;
        &metadata.func_type(metadata.tags[tag as usize]).params
    }

    /// Throws an exception with a tag and the last operands as its values.
    pub(super) fn throw(&mut self, tag: u32) {
        let ty = self.env.metadata.tags[tag as usize];
        let params = self.env.metadata.func_type(ty).params.len();
        let values = self.peek(params).to_vec();
        self.throw_values(tag, &values);
    }

    fn throw_values(&mut self, tag: u32, values: &[Value]) {
        // At most 1000 values, the validator's limit.
        let bytes = values.len().max(1) as u32 * CELL_BYTES;
        let slots = &mut self.builder.func.sized_stack_slots;
        let slot = *self.thrown.get_or_insert_with(|| {
            slots.push(StackSlotData::new(StackSlotKind::ExplicitSlot, 0, 4))
        });
        slots[slot].size = slots[slot].size.max(bytes);
        let cells = self.builder.ins().stack_addr(POINTER, slot, 0);
        for (at, value) in (0..).step_by(CELL_BYTES as usize).zip(values) {
            let flags = MemFlagsData::new().with_notrap();
            self.builder.ins().store(flags, *value, cells, at);
        }
        let tag = self.word(tag);
        let handler = self.handler();
        self.leave_by(Builtin::Throw, &[tag, cells], handler);
    }

    /// Throws the exception that the last operand refers to.
    pub(super) fn throw_ref(&mut self) {
        let reference = self.pop();
        self.trap_if_zero(reference, TrapCode::NullExceptionReference);
        self.throw_reference(reference);
    }

    fn throw_reference(&mut self, reference: Value) {
        let handler = self.handler();
        self.leave_by(Builtin::ThrowRef, &[reference], handler);
    }

    /// Rethrows the exception that a clause of an enclosing legacy `try` has caught.
    pub(super) fn rethrow(&mut self, depth: u32) {
        let at = self.frames.len() - 1 - depth as usize;
        let BlockKind::Try(try_block) = &self.frames[at].kind else {
            unreachable!("validated: the label names a clause");
        };
        match &try_block.caught {
            Some(Caught::Values(tag, values)) => {
                let (tag, values) = (*tag, values.clone());
                self.throw_values(tag, &values);
            }
            Some(Caught::Any(reference)) => {
                let reference = *reference;
                self.throw_reference(reference);
            }
            Some(Caught::Never) | None => unreachable!("validated, and the clause can be reached"),
        }
    }

    /// Exits by a builtin that does not return.
    fn leave_by(&mut self, builtin: Builtin, params: &[Value], handler: Option<Block>) {
        let callee = self.callee(Symbol::Builtin(builtin));
        let signature = self.builder.func.dfg.ext_funcs[callee].signature;
        let arguments: Vec<_> = [self.vmctx].iter().chain(params).copied().collect();
        self.call_code(signature, Code::Func(callee), &arguments, handler);
        self.builder
            .ins()
            .trap(ir::TrapCode::unwrap_user(TrapCode::Unreachable as u8));
        self.reachable = false;
    }

    /// Passes an exception that no clause here catches to a handler of the outermost `count`
    /// blocks, or out of the function.
    fn throw_on(&mut self, count: usize) {
        match self.handler_within(count) {
            Some(handler) => {
                self.builder.ins().jump(handler, []);
            }
            None => self.leave_by(Builtin::Rethrow, &[], None),
        }
    }

    /// Starts the handler of a body that has ended.
    fn enter_handler(&mut self, handler: Block) {
        self.builder.seal_block(handler);
        self.builder.switch_to_block(handler);
        self.load_fuel();
    }

    /// Emits the rest of the handler of a `try` whose end has been translated.
    pub(super) fn end_try(&mut self, try_block: &Try) {
        let height = self.stack.len();
        match (try_block.handler, try_block.next) {
            (Some(handler), _) => self.enter_handler(handler),
            (None, Some(next)) => self.builder.switch_to_block(next),
            (None, None) => return,
        }
        for catch in &try_block.catches {
            let (tag, label, by_reference) = match *catch {
                Catch::One { tag, label } => (Some(tag), label, false),
                Catch::OneRef { tag, label } => (Some(tag), label, true),
                Catch::All { label } => (None, label, false),
                Catch::AllRef { label } => (None, label, true),
            };
            let next = tag.map(|tag| {
                let (differs, next) = self.unless_thrown(tag);
                let values = self.thrown_values(tag, differs);
                self.stack.extend(values);
                next
            });
            if by_reference {
                let reference = self.keep();
                self.push(reference);
            }
            self.branch(label);
            self.stack.truncate(height);
            match next {
                Some(next) => self.builder.switch_to_block(next),
                None => return,
            }
        }
        let outwards = try_block.delegate.unwrap_or_default() as usize;
        self.throw_on(self.frames.len() - outwards);
    }

    /// Continues if the exception has the tag `tag`. Returns the condition that the exception has
    /// another tag, and the block for that case.
    fn unless_thrown(&mut self, tag: u32) -> (Value, Block) {
        let flags = self.flags(Region::Descriptor);
        let ins = self.builder.ins();
        let found = ins.load(POINTER, flags, self.vmctx, CONTEXT_EXCEPTION_TAG);
        let wanted = self.env.layout.tag(tag);
        let wanted = self.load_constant(POINTER, self.vmctx, wanted);
        let differs = self.builder.ins().icmp(IntCC::NotEqual, found, wanted);
        let (here, next) = (self.successor(true), self.successor(true));
        self.builder.ins().brif(differs, next, [], here, []);
        self.builder.seal_block(here);
        self.builder.seal_block(next);
        self.builder.switch_to_block(here);
        (differs, next)
    }

    /// The values of an exception with a tag. If `differs` is not zero but was mispredicted, the
    /// values are read from null. All values together have fewer bytes than the lowest address that
    /// the system maps.
    fn thrown_values(&mut self, tag: u32, differs: Value) -> Vec<Value> {
        let metadata = self.env.metadata;
        let params = &metadata.func_type(metadata.tags[tag as usize]).params;
        let flags = self.flags(Region::Descriptor);
        let ins = self.builder.ins();
        let cells = ins.load(POINTER, flags, self.vmctx, CONTEXT_EXCEPTION_VALUES);
        let cells = self.null_where(differs, cells);
        // The values lie in memory of the runtime, at any alignment.
        let flags = self.guest_flags(Region::Descriptor).with_notrap();
        let places = (0..).step_by(CELL_BYTES as usize).zip(params);
        let load = |(at, ty): (i32, &ValType)| {
            let ins = self.builder.ins();
            ins.load(value_type(*ty), flags, cells, at)
        };
        places.map(load).collect()
    }

    /// A reference to the current exception.
    fn keep(&mut self) -> Value {
        let kept = self.builtin(Builtin::Keep, &[]);
        kept.expect("the builtin has a result")
    }

    /// Ends the body of the innermost legacy `try`, or its previous clause. Returns the block that
    /// tests the next clause, if anything in the body can throw. A `try` in unreachable code has no
    /// such block.
    fn next_clause(&mut self) -> Option<Block> {
        let at = self.frames.len() - 1;
        if !matches!(self.frames[at].kind, BlockKind::Try(_)) {
            return None;
        }
        if self.reachable {
            self.branch(0);
        }
        self.reachable = false;
        self.stack.truncate(self.frames[at].height);
        self.leave_body(at);
        let BlockKind::Try(try_block) = &mut self.frames[at].kind else {
            return None;
        };
        try_block.caught = Some(Caught::Never);
        if let Some(handler) = try_block.handler.take() {
            self.enter_handler(handler);
            return Some(handler);
        }
        let next = try_block.next.take()?;
        self.builder.switch_to_block(next);
        Some(next)
    }

    /// Continues in a clause of the innermost legacy `try`.
    fn enter_clause(&mut self, caught: Caught, next: Option<Block>) {
        self.reachable = true;
        if let Some(frame) = self.frames.last_mut()
            && let BlockKind::Try(try_block) = &mut frame.kind
        {
            (try_block.caught, try_block.next) = (Some(caught), next);
        }
    }

    pub(super) fn catch(&mut self, tag: u32) {
        if self.next_clause().is_none() {
            return;
        }
        let (differs, next) = self.unless_thrown(tag);
        let values = self.thrown_values(tag, differs);
        self.stack.extend_from_slice(&values);
        self.enter_clause(Caught::Values(tag, values), Some(next));
    }

    pub(super) fn catch_all(&mut self) {
        if self.next_clause().is_none() {
            return;
        }
        let reference = self.keep();
        self.enter_clause(Caught::Any(reference), None);
    }

    /// Ends a legacy `try` that delegates its exceptions to a label.
    pub(super) fn delegate(&mut self, depth: u32) {
        if let Some(frame) = self.frames.last_mut()
            && let BlockKind::Try(try_block) = &mut frame.kind
        {
            try_block.delegate = Some(depth);
        }
        self.end();
    }
}
