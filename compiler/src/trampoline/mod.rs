//! Trampolines: the generated code that translates between the guests' calling convention and the
//! platform's.
//!
//! Guest and host exchange values in arrays of cells, see [`pirn_format::exit`].

mod bulk;

use crate::analysis::known_tables;
use crate::ir::types::{POINTER, guest_signature, host_signature, value_type, word_signature};
use crate::symbol::Symbol;
use crate::translate::Env;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Type, UserFuncName,
    Value,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use pirn_format::exit::{self, Builtin, CELL_BYTES, Kind, TrapCode};
use pirn_format::layout::{CONTEXT_EXIT, CONTEXT_HOST_CALL, IMPORT_HOST, IMPORT_INSTANCE};
use pirn_format::types::{FuncType, ValType};

/// Builds one trampoline in `func`, which must be empty.
pub(crate) fn build(
    symbol: Symbol,
    env: Env<'_>,
    context: &mut FunctionBuilderContext,
    func: &mut ir::Function,
) {
    let metadata = env.metadata;
    func.name = UserFuncName::User(symbol.name());
    let (signature, ty) = match symbol {
        Symbol::Entry(ty) => (host_signature(), Some(ty)),
        Symbol::Import(ty) => (guest_signature(metadata.func_type(ty)), Some(ty)),
        Symbol::Builtin(builtin) => (
            word_signature(builtin.params(), usize::from(builtin.has_result())),
            None,
        ),
        Symbol::Trap(_) => (word_signature(0, 0), None),
        Symbol::Mistyped => (word_signature(1, 0), None),
        Symbol::Func(_) | Symbol::Table(_) => {
            unreachable!("functions and dispatch tables are no trampolines")
        }
    };
    func.signature = signature;
    let ty = ty.map(|ty| metadata.func_type(ty));
    let mut t = Trampoline::new(FunctionBuilder::new(func, context));
    match (symbol, ty) {
        (Symbol::Entry(_), Some(ty)) => t.entry(ty),
        (Symbol::Import(_), Some(ty)) => t.import(ty),
        (Symbol::Builtin(builtin), _) => t.builtin(builtin, env),
        (Symbol::Trap(code), _) => t.trap(code),
        (Symbol::Mistyped, _) => t.mistyped(),
        (Symbol::Entry(_) | Symbol::Import(_), None) | (Symbol::Func(_) | Symbol::Table(_), _) => {
            unreachable!("an entry or import has a type, and functions and tables were refused")
        }
    }
    t.builder.seal_all_blocks();
    t.builder.finalize(env.isa.frontend_config());
}

/// Bytes of the saved frame pointer and the return address. On both targets the frame pointer
/// points to the saved frame pointer, the first of the two (psABI x86-64 3.2.2, AAPCS64 6.4.6).
const FRAME_BYTES: i64 = 16;

struct Trampoline<'a> {
    builder: FunctionBuilder<'a>,
    params: Vec<Value>,
}

impl<'a> Trampoline<'a> {
    fn new(mut builder: FunctionBuilder<'a>) -> Self {
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let params = builder.block_params(block).to_vec();
        Self { builder, params }
    }

    /// `entry(vmctx, code, cells)`: calls `code` with parameters from the cells, and stores the
    /// results in the cells.
    fn entry(&mut self, ty: &FuncType) {
        let [vmctx, code, cells] = self.params[..] else {
            unreachable!("an entry has three parameters")
        };
        let mut arguments = vec![vmctx];
        arguments.extend(self.load(cells, &ty.params));
        let signature = self.builder.import_signature(guest_signature(ty));
        let call = self
            .builder
            .ins()
            .call_indirect(signature, code, &arguments);
        let results = self.builder.inst_results(call).to_vec();
        // The cells start directly above the frame pointer and the return address. So `cells` need
        // not be live across the call.
        let frame = self.builder.ins().get_frame_pointer(POINTER);
        let cells = self.builder.ins().iadd_imm_u(frame, FRAME_BYTES);
        self.store(cells, &results);
        self.builder.ins().return_(&[]);
    }

    /// Exits to the host with the parameters in cells, and returns the results from the cells. The
    /// first parameter is the address of the import. The import holds the host function and the
    /// context of the importing instance.
    fn import(&mut self, ty: &FuncType) {
        let cells = self.cells(ty.params.len().max(ty.results.len()));
        let params = self.params[1..].to_vec();
        self.store(cells, &params);
        let import = self.params[0];
        // The optimiser keeps the order of loads that are not `readonly`. So the last load may
        // overwrite the address with the context, which saves a copy.
        let flags = MemFlagsData::trusted();
        let mut load = |field| self.builder.ins().load(POINTER, flags, import, field);
        let (host, vmctx) = (load(IMPORT_HOST), load(IMPORT_INSTANCE));
        self.leave(CONTEXT_HOST_CALL, vmctx, host, cells);
        let results = self.load(cells, &ty.results);
        self.builder.ins().return_(&results);
    }

    fn builtin(&mut self, builtin: Builtin, env: Env<'_>) {
        self.in_place(builtin, env);
        let cells = self.cells(builtin.params());
        let params = self.params[1..].to_vec();
        self.store(cells, &params);
        let reason = self.word(exit::reason(Kind::Builtin, builtin as u32));
        self.leave(CONTEXT_EXIT, self.params[0], reason, cells);
        let results: &[ValType] = if builtin.has_result() {
            &[ValType::I64]
        } else {
            &[]
        };
        let results = self.load(cells, results);
        self.builder.ins().return_(&results);
    }

    fn trap(&mut self, code: TrapCode) {
        let reason = self.word(exit::reason(Kind::Trap, code as u32));
        self.trap_with(reason, code);
    }

    /// Exits with the trap for the type field of a dispatch table entry.
    fn mistyped(&mut self) {
        let code = TrapCode::IndirectCallTypeMismatch;
        let mut reason = self.word(exit::reason(Kind::Trap, code as u32));
        for (kind, code) in [
            (known_tables::NULL, TrapCode::UninitializedElement),
            (known_tables::OUTSIDE, TrapCode::UndefinedElement),
        ] {
            let kind = self.word(kind.into());
            let is_that = self.builder.ins().icmp(IntCC::Equal, self.params[1], kind);
            let other = self.word(exit::reason(Kind::Trap, code as u32));
            reason = self.builder.ins().select(is_that, other, reason);
        }
        self.trap_with(reason, code);
    }

    /// Exits with a trap whose reason is computed. `code` is one of the possible trap codes.
    fn trap_with(&mut self, reason: Value, code: TrapCode) {
        let none = self.word(0);
        self.leave(CONTEXT_EXIT, self.params[0], reason, none);
        // The exit routine does not return from a trap.
        self.builder
            .ins()
            .trap(ir::TrapCode::unwrap_user(code as u8));
    }

    /// Calls the routine whose address is in a field of a context.
    fn leave(&mut self, field: i32, vmctx: Value, what: Value, cells: Value) {
        let flags = MemFlagsData::trusted().with_readonly();
        let routine = self.builder.ins().load(POINTER, flags, vmctx, field);
        let signature = self.builder.import_signature(host_signature());
        self.builder
            .ins()
            .call_indirect(signature, routine, &[vmctx, what, cells]);
    }

    fn word(&mut self, value: u64) -> Value {
        self.builder.ins().iconst(POINTER, value.cast_signed())
    }

    /// Address of an array of at least one cell on the stack.
    fn cells(&mut self, count: usize) -> Value {
        let slot = self.cells_slot(count);
        self.builder.ins().stack_addr(POINTER, slot, 0)
    }

    /// An array of at least one cell on the stack.
    fn cells_slot(&mut self, count: usize) -> StackSlot {
        // At most 1000 parameters or results, the validator's limit.
        let bytes = count.max(1) as u32 * CELL_BYTES;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
        self.builder.create_sized_stack_slot(slot)
    }

    fn load(&mut self, cells: Value, types: &[ValType]) -> Vec<Value> {
        let types: Vec<Type> = types.iter().map(|ty| value_type(*ty)).collect();
        let mut load = |(offset, ty): (i32, Type)| {
            let flags = MemFlagsData::new().with_notrap();
            self.builder.ins().load(ty, flags, cells, offset)
        };
        offsets().zip(types).map(&mut load).collect()
    }

    fn store(&mut self, cells: Value, values: &[Value]) {
        for (offset, value) in offsets().zip(values) {
            let flags = MemFlagsData::new().with_notrap();
            self.builder.ins().store(flags, *value, cells, offset);
        }
    }
}

/// Offsets of cells.
fn offsets() -> impl Iterator<Item = i32> {
    (0..).step_by(CELL_BYTES as usize)
}
