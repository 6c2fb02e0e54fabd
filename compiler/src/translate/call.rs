//! Calls and tail calls (spec 4.4.8): direct, of imports, through tables, and through references.
//!
//! A tail call removes the caller's frame before it enters the callee. The callee returns to the
//! caller's caller. Like every function of the guest convention, it pops its own stack parameters.
//! Instructions that replace a tail call are followed by a return.

use super::function::{FuncTranslator, Region};
use crate::analysis::idioms::Multiplication;
use crate::analysis::known_tables::{ENTRY_BYTES, ENTRY_TYPE, Target};
use crate::error::CompileError;
#[cfg(feature = "faults")]
use crate::faults::Fault;
use crate::intrinsics::imports::Provided;
use crate::ir::types::POINTER;
use crate::symbol::Symbol;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, ExceptionTableData, ExceptionTableItem, FuncRef, InstBuilder, SigRef, Value,
    types,
};
use pirn_format::exit::TrapCode;
use pirn_format::layout::{FUNCREF_CODE, FUNCREF_TYPE_ID, FUNCREF_VMCTX};

/// The place that a callee returns to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Returns {
    /// After the call.
    Here,
    /// In the caller of the function that makes the tail call.
    ToCaller,
}

/// The code that a call enters.
#[derive(Clone, Copy)]
pub(super) enum Code {
    /// A function of the module.
    Func(FuncRef),
    /// The code at an address.
    At(Value),
}

impl FuncTranslator<'_, '_> {
    /// Calls the function with this index in the file.
    pub(super) fn call(&mut self, in_file: u32, returns: Returns) -> Result<(), CompileError> {
        let index = self.env.intrinsics.index(in_file);
        match self.env.intrinsics.provided(index) {
            Some(Provided::Intrinsic(id)) => {
                self.intrinsic(index, id)?;
                self.done(returns);
            }
            Some(Provided::Known(known)) => {
                self.known(known);
                self.done(returns);
            }
            None => self.call_func(index, returns)?,
        }
        Ok(())
    }

    /// Calls a function that the module defines or imports.
    pub(super) fn call_func(&mut self, index: u32, returns: Returns) -> Result<(), CompileError> {
        if let Some(multiplication) = self.env.multiplications.get(&index) {
            self.multiply(*multiplication);
            self.done(returns);
            return Ok(());
        }
        if returns == Returns::Here
            && let Some(leaf) = self.leaf(index)
        {
            return self.inline(index, leaf);
        }
        let ty = self.env.metadata.funcs[index as usize];
        if index < self.env.imported.funcs {
            self.call_import(index, ty, returns);
        } else {
            let callee = self.callee(Symbol::Func(index));
            self.enter_code(ty, Code::Func(callee), self.vmctx, returns);
        }
        Ok(())
    }

    /// Completes a call that was replaced by instructions: a tail call still has to return.
    fn done(&mut self, returns: Returns) {
        match returns {
            Returns::Here => {}
            Returns::ToCaller => self.r#return(),
        }
    }

    /// Replaces the call of a function that stores a product of 128-bit or 64-bit numbers.
    fn multiply(&mut self, multiplication: Multiplication) {
        let operands = if multiplication.is_wide { 5 } else { 3 };
        let (address, a, b, upper_halves) = match *self.peek(operands) {
            [address, a, a_high, b, b_high] => (address, a, b, Some((a_high, b_high))),
            [address, a, b] => (address, a, b, None),
            _ => unreachable!("validated: the stack has all operands"),
        };
        self.drop_operands(operands);
        let address = self.memory_index(0, address);
        let product = self.wide_product(a, b);
        let (low, mut high) = self.builder.ins().isplit(product);
        if let Some((a_high, b_high)) = upper_halves {
            let one = self.builder.ins().imul(a, b_high);
            let other = self.builder.ins().imul(a_high, b);
            high = self.builder.ins().iadd(high, one);
            high = self.builder.ins().iadd(high, other);
        }
        let mut stores = [(0, low), (8, high)];
        if multiplication.high_first {
            stores.reverse();
        }
        for (offset, half) in stores {
            self.store_within(address, offset, half);
        }
    }

    /// Calls the function at an index of a table, if it has the type `ty`.
    pub(super) fn call_indirect(
        &mut self,
        ty: u32,
        table: u32,
        returns: Returns,
    ) -> Result<(), CompileError> {
        let index = self.pop();
        let (tables, position) = (self.env.tables, self.constant_value(index));
        let func = position.and_then(|at| tables.func(self.env.metadata, table, ty, at));
        match (func, tables.target(table, ty)) {
            (Some(func), _) => self.call_func(func, returns)?,
            (None, Some(Target::One { position, func })) => {
                let position = i64::from(position);
                let differs = self
                    .builder
                    .ins()
                    .icmp_imm_u(IntCC::NotEqual, index, position);
                self.unless(differs, |t| {
                    let (_, _, found) = t.entry(table, index);
                    t.trap_mistyped(found);
                });
                self.call_func(func, returns)?;
            }
            (None, Some(Target::Many { number })) => {
                let (dispatch_table, entry, found) = self.entry(table, index);
                let number = i64::from(number);
                let differs = self
                    .builder
                    .ins()
                    .icmp_imm_u(IntCC::NotEqual, found, number);
                self.unless(differs, |t| t.trap_mistyped(found));
                let flags = self.flags(Region::Constant).with_readonly();
                let code = self.builder.ins().sload32(flags, entry, 0);
                let code = self.builder.ins().iadd(dispatch_table, code);
                let code = self.null_where(differs, code);
                self.enter_code(ty, Code::At(code), self.vmctx, returns);
            }
            (None, None) => self.call_element(ty, table, index, returns),
        }
        Ok(())
    }

    /// The address of a known table's dispatch table, the address of the entry for `index`, an i32
    /// or i64, and the entry's type. All indices out of bounds select one further entry, without a
    /// branch. So the address is in the table even under speculation.
    fn entry(&mut self, table: u32, index: Value) -> (Value, Value, Value) {
        let dispatch_table = self.dispatch_table(table);
        let index = self.extended(index);
        let last = self.word(self.env.tables.len(table));
        let outside = IntCC::UnsignedGreaterThanOrEqual;
        let outside = self.builder.ins().icmp(outside, index, last);
        #[cfg(feature = "faults")]
        let last = match self.has(Fault::DispatchIndexUnchecked) {
            true => index,
            false => last,
        };
        let ins = self.builder.ins();
        let index = match self.env.spectre {
            true => ins.select_spectre_guard(outside, last, index),
            false => ins.select(outside, last, index),
        };
        let scaled = self.builder.ins().imul_imm_s(index, i64::from(ENTRY_BYTES));
        let entry = self.builder.ins().iadd(dispatch_table, scaled);
        let found = self.load_constant(types::I32, entry, ENTRY_TYPE);
        (dispatch_table, entry, found)
    }

    /// Calls the function at an index of a table that is not known, if the function has the type
    /// `ty`.
    fn call_element(&mut self, ty: u32, table: u32, index: Value, returns: Returns) {
        let element = self.table_element(table, index, TrapCode::UndefinedElement);
        let flags = self.flags(Region::Table);
        let reference = self.builder.ins().load(POINTER, flags, element, 0);
        self.trap_if_zero(reference, TrapCode::UninitializedElement);
        #[cfg(feature = "faults")]
        if self.has(Fault::CalleeTypeUnchecked) {
            return self.enter_reference(ty, reference, returns);
        }
        let found = self.load_reference(types::I32, reference, FUNCREF_TYPE_ID);
        let differs = if self.env.metadata.types[ty as usize].is_final {
            let wanted = self.env.layout.type_id(ty);
            let wanted = self.load_constant(types::I32, self.vmctx, wanted);
            self.builder.ins().icmp(IntCC::NotEqual, found, wanted)
        } else {
            let is_it = self.is_subtype(found, ty);
            self.is_false(is_it)
        };
        self.trap_if(differs, TrapCode::IndirectCallTypeMismatch);
        // There is no code at address null.
        let reference = self.null_where(differs, reference);
        self.enter_reference(ty, reference, returns);
    }

    /// Calls a reference, which is null or refers to a function of the type `ty`.
    pub(super) fn call_ref(&mut self, ty: u32, returns: Returns) {
        let reference = self.pop();
        self.trap_if_zero(reference, TrapCode::NullFunctionReference);
        self.enter_reference(ty, reference, returns);
    }

    /// Enters the function that a reference refers to. The function has the type `ty`.
    fn enter_reference(&mut self, ty: u32, reference: Value, returns: Returns) {
        let code = self.load_reference(POINTER, reference, FUNCREF_CODE);
        let vmctx = self.load_reference(POINTER, reference, FUNCREF_VMCTX);
        #[cfg(feature = "faults")]
        let vmctx = match self.has(Fault::CalleeContext) {
            true => self.vmctx,
            false => vmctx,
        };
        self.enter_code(ty, Code::At(code), vmctx, returns);
    }

    /// Enters code of a type, with the last operands as parameters.
    pub(super) fn enter_code(&mut self, ty: u32, code: Code, vmctx: Value, returns: Returns) {
        let params = self.env.metadata.func_type(ty).params.len();
        let arguments: Vec<_> = [&[vmctx], self.peek(params)].concat();
        let signature = self.signature(ty);
        #[cfg(feature = "faults")]
        let (arguments, signature) = match (code, self.has(Fault::ArgumentClass)) {
            (Code::At(_), true) => self.in_vector_register(arguments, signature),
            _ => (arguments, signature),
        };
        match (returns, code) {
            (Returns::Here, code) => {
                let handler = self.handler();
                let results = self.call_code(signature, code, &arguments, handler);
                self.drop_operands(params);
                self.stack.extend(results);
            }
            (Returns::ToCaller, code) => {
                let ins = self.builder.ins();
                match code {
                    Code::Func(callee) => ins.return_call(callee, &arguments),
                    Code::At(code) => ins.return_call_indirect(signature, code, &arguments),
                };
                self.reachable = false;
            }
        }
    }

    /// A signature whose first i64 parameter after the context is an f64.
    #[cfg(feature = "faults")]
    fn in_vector_register(
        &mut self,
        mut arguments: Vec<Value>,
        signature: SigRef,
    ) -> (Vec<Value>, SigRef) {
        let mut changed = self.builder.func.dfg.signatures[signature].clone();
        let mut params = changed.params.iter().skip(1);
        let Some(at) = params.position(|param| param.value_type == types::I64) else {
            return (arguments, signature);
        };
        changed.params[at + 1].value_type = types::F64;
        let ins = self.builder.ins();
        let flags = cranelift_codegen::ir::MemFlagsData::new();
        arguments[at + 1] = ins.bitcast(types::F64, flags, arguments[at + 1]);
        (arguments, self.builder.import_signature(changed))
    }

    /// Calls code that may throw, and returns its results. Exceptions go to `handler`, or leave the
    /// function if `handler` is `None`.
    pub(super) fn call_code(
        &mut self,
        signature: SigRef,
        code: Code,
        arguments: &[Value],
        handler: Option<Block>,
    ) -> Vec<Value> {
        self.calls = true;
        let Some(handler) = handler else {
            let ins = self.builder.ins();
            let call = match code {
                Code::Func(callee) => ins.call(callee, arguments),
                Code::At(code) => ins.call_indirect(signature, code, arguments),
            };
            return self.builder.inst_results(call).to_vec();
        };
        let next = self.successor(false);
        let results = self.builder.func.dfg.signatures[signature].returns.clone();
        for result in &results {
            self.builder.append_block_param(next, result.value_type);
        }
        let dfg = &mut self.builder.func.dfg;
        let results: Vec<_> = (0..results.len() as u32)
            .map(BlockArg::TryCallRet)
            .collect();
        let continuation = dfg.block_call(next, &results);
        let catches = ExceptionTableItem::Default(dfg.block_call(handler, &[]));
        let table = ExceptionTableData::new(signature, continuation, [catches]);
        let table = dfg.exception_tables.push(table);
        let ins = self.builder.ins();
        match code {
            Code::Func(callee) => ins.try_call(callee, arguments, table),
            Code::At(code) => ins.try_call_indirect(code, arguments, table),
        };
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
        self.builder.block_params(next).to_vec()
    }

    /// Loads a field of a function reference that is not null. The field is constant, but the load
    /// must not move above the null check.
    pub(super) fn load_reference(
        &mut self,
        ty: cranelift_codegen::ir::Type,
        reference: Value,
        offset: i32,
    ) -> Value {
        let flags = self.flags(Region::Constant).with_readonly();
        self.builder.ins().load(ty, flags, reference, offset)
    }
}
