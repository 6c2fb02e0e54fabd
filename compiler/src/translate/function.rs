//! [`FuncTranslator`]: the state of one function's translation. Holds the operand stack, the
//! locals, and helpers for all modules of this folder.

use super::Env;
use super::frame::{Frame, LoopStart};
use super::inlined_calls::Inlining;
use crate::intrinsics::patch_point::PatchPoint;
use crate::intrinsics::placeholder::Placeholders;
use crate::ir::types::{POINTER, guest_signature, value_type, word_signature};
use crate::ir::values;
use crate::parse::hints::Hints;
use crate::symbol::Symbol;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, AliasRegion, AliasRegionData, Block, ExtFuncData, ExternalName, FuncRef, GlobalValue,
    GlobalValueData, InstBuilder, MemFlagsData, SigRef, StackSlot, Type, Value, types,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use pirn_format::exit::{Builtin, TrapCode};
use pirn_format::types::ValType;
use std::borrow::Cow;
use std::collections::HashMap;

/// Disjoint parts of memory: a store to one part does not invalidate loads from the other parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Region {
    /// A linear memory. All memories share this region, because two memories may be the same memory
    /// by import.
    Memory,
    /// The values of globals, defined and imported.
    Global,
    /// Elements of tables.
    Table,
    /// Descriptors of memories and tables: only the runtime writes them, at calls.
    Descriptor,
    /// Data that is constant for the lifetime of an instance: imports, type ids, function
    /// references.
    Constant,
    /// The fuel counter.
    Fuel,
    /// The address of the next struct or array, and the end of the heap.
    Heap,
    /// Headers of structs and arrays: types and lengths, written once.
    Header,
    /// Fields of structs and elements of arrays.
    Field,
}

impl Region {
    const ALL: [(Self, &'static str); 9] = [
        (Self::Memory, "memory"),
        (Self::Global, "globals"),
        (Self::Table, "tables"),
        (Self::Descriptor, "descriptors"),
        (Self::Constant, "constants"),
        (Self::Fuel, "fuel"),
        (Self::Heap, "heap"),
        (Self::Header, "headers"),
        (Self::Field, "fields"),
    ];
}

/// A comparison of an index, or of the end of a range, with its bound.
#[derive(Clone, Copy)]
pub(super) struct BoundsCheck {
    /// The comparison that holds out of bounds.
    pub(super) outside: IntCC,
    pub(super) value: Value,
    pub(super) bound: Value,
}

/// The fuel counter during the translation of a function.
#[derive(Clone, Copy)]
pub(super) struct FuelCounter {
    /// The remaining fuel, before the cost of the current run.
    pub(super) left: Variable,
    /// Cost of the operators since the last branch point.
    pub(super) run: i64,
}

/// The state of one function's translation.
pub(super) struct FuncTranslator<'a, 'e> {
    pub(super) env: Env<'e>,
    pub(super) builder: FunctionBuilder<'a>,
    /// The context.
    pub(super) vmctx: Value,
    /// Address of byte 0 of the module's own memory.
    pub(super) own_base: Value,
    /// The operand stack. Every v128 is an `i8x16`.
    pub(super) stack: Vec<Value>,
    /// Enclosing blocks, the function's own first.
    pub(super) frames: Vec<Frame>,
    /// How much of the start of a loop with a `br_table` precedes the current operator.
    pub(super) loop_start: LoopStart,
    /// Indices in `frames` of the `try`s whose bodies have not ended.
    pub(super) tries: Vec<usize>,
    /// The locals of the function, or of the leaf being inlined.
    pub(super) locals: Vec<(Variable, ValType)>,
    /// Index in `frames` of the body of the function, or of the leaf being inlined.
    pub(super) body_frame: usize,
    /// Offset in the module's bytes of the operator being translated.
    pub(super) offset: u32,
    /// Block parameters that jump threading may still add; `None` if branches are not threaded.
    pub(super) target_params: Option<u64>,
    /// Whether a loop was found whose branches may be threaded.
    pub(super) is_threaded: bool,
    /// The calls that are inlined.
    pub(super) inlining: Inlining,
    /// Whether the operator being translated can be reached.
    pub(super) reachable: bool,
    /// Whether any operator calls a function that returns.
    pub(super) calls: bool,
    /// The fuel counter, if the module counts fuel.
    pub(super) fuel: Option<FuelCounter>,
    /// Branch hints of the module for this function.
    pub(super) hints: Hints<'e>,
    regions: [AliasRegion; Region::ALL.len()],
    callees: HashMap<Symbol, FuncRef>,
    dispatch_tables: HashMap<u32, GlobalValue>,
    signatures: HashMap<u32, SigRef>,
    pub(super) patch_points: HashMap<PatchPoint, FuncRef>,
    /// Intrinsics that placeholder opcodes stand for, so far.
    pub(super) placeholders: Placeholders,
    /// Stack slot for the values of exceptions that this function throws.
    pub(super) thrown: Option<StackSlot>,
    /// For host functions that are called in place: the cells for parameters and results, and the
    /// signature of the exit routine.
    pub(super) host_calls: Option<(StackSlot, SigRef)>,
    /// Stack slot for expected values of compare-exchange, on targets that need it.
    pub(super) compared: Option<StackSlot>,
}

impl<'a, 'e> FuncTranslator<'a, 'e> {
    /// Starts in the entry block of `builder`'s function, whose signature is set.
    pub(super) fn new(env: Env<'e>, mut builder: FunctionBuilder<'a>, ty: u32) -> Self {
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        builder.seal_block(entry);
        let params = builder.block_params(entry).to_vec();
        let regions = Region::ALL.map(|(region, name)| {
            builder.func.dfg.alias_regions.insert(AliasRegionData {
                user_id: region as u32,
                description: Cow::Borrowed(name),
            })
        });
        let mut t = Self {
            env,
            builder,
            vmctx: params[0],
            own_base: params[0],
            stack: vec![],
            frames: vec![],
            loop_start: LoopStart::default(),
            tries: vec![],
            locals: vec![],
            body_frame: 0,
            offset: 0,
            target_params: None,
            is_threaded: false,
            inlining: Inlining::default(),
            reachable: true,
            calls: false,
            fuel: None,
            hints: Hints::default(),
            regions,
            callees: HashMap::new(),
            dispatch_tables: HashMap::new(),
            signatures: HashMap::new(),
            patch_points: HashMap::new(),
            placeholders: Placeholders::new(),
            thrown: None,
            host_calls: None,
            compared: None,
        };
        let ty = env.metadata.func_type(ty);
        for (param, ty) in params[1..].iter().zip(&ty.params) {
            let variable = t.declare_local(*ty);
            t.builder.def_var(variable, *param);
        }
        t
    }

    /// Ends the function.
    pub(super) fn finish(mut self) {
        self.builder.seal_all_blocks();
        self.builder.finalize(self.env.isa.frontend_config());
    }

    /// Adds a local variable. The caller must define its value before any use.
    fn declare_local(&mut self, ty: ValType) -> Variable {
        let variable = self.builder.declare_var(value_type(ty));
        self.locals.push((variable, ty));
        variable
    }

    /// Adds local variables of value zero.
    pub(super) fn declare_zero_locals(&mut self, count: u32, ty: ValType) {
        if count == 0 {
            return;
        }
        let zero = self.zero(ty);
        for _ in 0..count {
            let variable = self.declare_local(ty);
            self.builder.def_var(variable, zero);
        }
    }

    /// A zero, or a null reference.
    pub(super) fn zero(&mut self, ty: ValType) -> Value {
        match ty {
            ValType::F32 => self.builder.ins().f32const(0.0),
            ValType::F64 => self.builder.ins().f64const(0.0),
            ValType::V128 => {
                let zero = self
                    .builder
                    .func
                    .dfg
                    .constants
                    .insert([0; 16].as_slice().into());
                self.builder.ins().vconst(types::I8X16, zero)
            }
            _ => self.builder.ins().iconst(value_type(ty), 0),
        }
    }

    /// Pushes an operand.
    pub(super) fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    /// Pops an operand. The validator has checked that there is one.
    pub(super) fn pop(&mut self) -> Value {
        self.stack
            .pop()
            .expect("validated: the operand stack is not empty")
    }

    /// Pops two operands, and gives them in the order they were pushed.
    pub(super) fn pop2(&mut self) -> (Value, Value) {
        let b = self.pop();
        (self.pop(), b)
    }

    /// Pops three operands, and gives them in the order they were pushed.
    pub(super) fn pop3(&mut self) -> (Value, Value, Value) {
        let c = self.pop();
        let (a, b) = self.pop2();
        (a, b, c)
    }

    /// The last `count` operands.
    pub(super) fn peek(&self, count: usize) -> &[Value] {
        &self.stack[self.stack.len() - count..]
    }

    /// Drops the last `count` operands.
    pub(super) fn drop_operands(&mut self, count: usize) {
        self.stack.truncate(self.stack.len() - count);
    }

    /// The Cranelift type of a value.
    pub(super) fn type_of(&self, value: Value) -> Type {
        self.builder.func.dfg.value_type(value)
    }

    /// The value of an i32 or i64, zero-extended, if it is a constant.
    pub(super) fn constant_value(&self, value: Value) -> Option<u64> {
        let bits = values::constant(&self.builder.func.dfg, value)?;
        Some(match self.type_of(value) {
            types::I32 => u64::from(bits as u32),
            _ => bits.cast_unsigned(),
        })
    }

    /// Flags for an access to one region at an address that is always mapped.
    pub(super) fn flags(&self, region: Region) -> MemFlagsData {
        self.guest_flags(region).with_notrap().with_aligned()
    }

    /// Flags for an access to one region that may fault and may be unaligned.
    pub(super) fn guest_flags(&self, region: Region) -> MemFlagsData {
        MemFlagsData::new()
            .with_endianness(ir::Endianness::Little)
            .with_alias_region(Some(self.regions[region as usize]))
    }

    /// Loads a value that is constant for the lifetime of the instance.
    pub(super) fn load_constant(&mut self, ty: Type, base: Value, offset: i32) -> Value {
        let flags = self.flags(Region::Constant).with_readonly().with_can_move();
        self.builder.ins().load(ty, flags, base, offset)
    }

    /// Exits with a trap if `condition` is not zero.
    ///
    /// Each operator gets its own cold block. The call of the trap stub determines the WebAssembly
    /// offset that the trap reports, so operators must not share the block.
    pub(super) fn trap_if(&mut self, condition: Value, code: TrapCode) {
        self.unless(condition, |t| t.trap(code));
    }

    /// Exits with a trap if a value is zero or null.
    pub(super) fn trap_if_zero(&mut self, value: Value, code: TrapCode) {
        let zero = self.builder.ins().icmp_imm_u(IntCC::Equal, value, 0);
        self.trap_if(zero, code);
    }

    /// Exits with a trap if a value is out of bounds.
    pub(super) fn trap_outside(&mut self, check: BoundsCheck, code: TrapCode) {
        let outside = self.is_outside(check);
        self.trap_if(outside, code);
    }

    /// `address`, or `safe` if the value is out of bounds, selected without a branch. A `safe` of
    /// `None` means null.
    ///
    /// The comparison is repeated after the branch of [`trap_outside`](Self::trap_outside), so that
    /// the mask depends on the data and not on the prediction.
    pub(super) fn mask_outside(
        &mut self,
        check: BoundsCheck,
        address: Value,
        safe: Option<Value>,
    ) -> Value {
        if !self.env.spectre {
            return address;
        }
        let outside = self.is_outside(check);
        let safe = safe.unwrap_or_else(|| self.builder.ins().iconst(POINTER, 0));
        let ins = self.builder.ins();
        ins.select_spectre_guard(outside, safe, address)
    }

    fn is_outside(&mut self, check: BoundsCheck) -> Value {
        let ins = self.builder.ins();
        ins.icmp(check.outside, check.value, check.bound)
    }

    /// `value`, or null if `wrong` is not zero, selected without a branch.
    ///
    /// A check that traps if `wrong` is not zero is a branch, which the processor may mispredict.
    /// The instructions after it use the value returned here, so under misprediction they get null,
    /// not `value`.
    pub(super) fn null_where(&mut self, wrong: Value, value: Value) -> Value {
        if !self.env.spectre {
            return value;
        }
        let null = self.builder.ins().iconst(POINTER, 0);
        let ins = self.builder.ins();
        ins.select_spectre_guard(wrong, null, value)
    }

    /// Whether an i8 that is 0 or 1 is 0.
    pub(super) fn is_false(&mut self, value: Value) -> Value {
        self.builder.ins().icmp_imm_u(IntCC::Equal, value, 0)
    }

    /// Emits code that does not return, in a cold block that runs if `condition` is not zero.
    pub(super) fn unless(&mut self, condition: Value, leave: impl FnOnce(&mut Self)) {
        let (cold, next) = (self.successor(true), self.successor(false));
        self.builder.ins().brif(condition, cold, [], next, []);
        self.builder.switch_to_block(cold);
        self.builder.seal_block(cold);
        leave(self);
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
    }

    /// Whether the current block is unlikely to be executed.
    pub(super) fn is_cold(&self) -> bool {
        let block = self.builder.current_block();
        block.is_some_and(|block| self.builder.func.layout.is_cold(block))
    }

    /// A new block whose only predecessor is the current block. The new block is cold if the
    /// current block is cold, or if the branch is unlikely (`seldom`).
    pub(super) fn successor(&mut self, seldom: bool) -> Block {
        let block = self.builder.create_block();
        if seldom || self.is_cold() {
            self.builder.set_cold_block(block);
        }
        block
    }

    /// Exits with a trap and ends the block.
    pub(super) fn trap(&mut self, code: TrapCode) {
        self.call_stub(Symbol::Trap(code), &[], code);
    }

    /// Exits with the trap for the type field of a dispatch-table entry, and ends the block.
    pub(super) fn trap_mistyped(&mut self, found: Value) {
        let found = self.extend(found);
        self.call_stub(
            Symbol::Mistyped,
            &[found],
            TrapCode::IndirectCallTypeMismatch,
        );
    }

    /// Calls a stub that exits with a trap with code `code` or, for `Symbol::Mistyped`, another
    /// code.
    fn call_stub(&mut self, stub: Symbol, params: &[Value], code: TrapCode) {
        self.store_fuel();
        let stub = self.callee(stub);
        let arguments: Vec<_> = [self.vmctx].iter().chain(params).copied().collect();
        self.builder.ins().call(stub, &arguments);
        // Never reached: the stub does not return.
        self.builder
            .ins()
            .trap(ir::TrapCode::unwrap_user(code as u8));
    }

    /// Calls a builtin with the context and 64-bit parameters; returns the result, if there is one.
    pub(super) fn builtin(&mut self, builtin: Builtin, params: &[Value]) -> Option<Value> {
        debug_assert_eq!(params.len(), builtin.params());
        self.calls = true;
        let callee = self.callee(Symbol::Builtin(builtin));
        let mut arguments = vec![self.vmctx];
        arguments.extend_from_slice(params);
        let call = self.builder.ins().call(callee, &arguments);
        self.builder.inst_results(call).first().copied()
    }

    /// A constant such as an index, as a parameter of a builtin.
    pub(super) fn word(&mut self, value: u32) -> Value {
        self.builder.ins().iconst(types::I64, i64::from(value))
    }

    /// Zero-extends an i32 to 64 bits.
    pub(super) fn extend(&mut self, value: Value) -> Value {
        #[cfg(feature = "faults")]
        if self.has(crate::faults::Fault::IndexSignExtended) {
            return self.builder.ins().sextend(types::I64, value);
        }
        self.builder.ins().uextend(types::I64, value)
    }

    /// Whether this compiler has a fault.
    #[cfg(feature = "faults")]
    pub(super) fn has(&self, fault: crate::faults::Fault) -> bool {
        self.env.fault == Some(fault)
    }

    /// An operand as 64 bits: an i32 is zero-extended.
    pub(super) fn extended(&mut self, operand: Value) -> Value {
        match self.type_of(operand) {
            types::I32 => self.extend(operand),
            _ => operand,
        }
    }

    /// The `FuncRef` by which this function calls another function of the module's text.
    pub(super) fn callee(&mut self, callee: Symbol) -> FuncRef {
        if let Some(known) = self.callees.get(&callee) {
            return *known;
        }
        let signature = match callee {
            Symbol::Func(index) => {
                let ty = self.env.metadata.funcs[index as usize];
                self.signature(ty)
            }
            Symbol::Builtin(builtin) => {
                let results = usize::from(builtin.has_result());
                self.word_signature(builtin.params(), results)
            }
            Symbol::Trap(_) => self.word_signature(0, 0),
            Symbol::Mistyped => self.word_signature(1, 0),
            Symbol::Import(_) | Symbol::Entry(_) | Symbol::Table(_) => {
                unreachable!("no guest function calls an entry trampoline or a dispatch table")
            }
        };
        let name = self
            .builder
            .func
            .declare_imported_user_function(callee.name());
        let reference = self.builder.import_function(ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated: true,
            patchable: false,
        });
        self.callees.insert(callee, reference);
        reference
    }

    /// The address of the dispatch table of a known table.
    pub(super) fn dispatch_table(&mut self, table: u32) -> Value {
        let func = &mut self.builder.func;
        let symbol = self.dispatch_tables.entry(table).or_insert_with(|| {
            let name = func.declare_imported_user_function(Symbol::Table(table).name());
            func.create_global_value(GlobalValueData::Symbol {
                name: ExternalName::user(name),
                offset: 0.into(),
                colocated: true,
                tls: false,
            })
        });
        self.builder.ins().symbol_value(POINTER, *symbol)
    }

    fn word_signature(&mut self, params: usize, results: usize) -> SigRef {
        let signature = word_signature(params, results);
        self.builder.import_signature(signature)
    }

    /// The signature of guest functions of a type.
    pub(super) fn signature(&mut self, ty: u32) -> SigRef {
        if let Some(known) = self.signatures.get(&ty) {
            return *known;
        }
        let signature = guest_signature(self.env.metadata.func_type(ty));
        let signature = self.builder.import_signature(signature);
        self.signatures.insert(ty, signature);
        signature
    }
}
