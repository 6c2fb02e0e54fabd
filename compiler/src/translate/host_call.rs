//! Calls of imports (spec 4.4.8.1): calls host functions in place, and other functions through
//! their code.
//!
//! A host function gets its parameters in cells on the guest's stack. The trampoline of the
//! function's type stores the parameters in the cells and exits to the host. A guest function that
//! calls an import does both itself, which saves a call and a return. The import's descriptor tells
//! whether the import is a host function.

use super::call::{Code, Returns};
use super::function::{FuncTranslator, Region};
use crate::ir::types::{POINTER, host_signature};
use cranelift_codegen::ir::{
    BlockArg, InstBuilder, MemFlagsData, SigRef, StackSlotData, StackSlotKind, Value,
};
use pirn_format::exit::CELL_BYTES;
use pirn_format::layout::{
    CONTEXT_HOST_CALL, IMPORT_CODE, IMPORT_HOST, IMPORT_INSTANCE, IMPORT_VMCTX,
};

/// Most parameters, and most results, of a host function that is called in place. With more values,
/// storing and loading takes longer than the trampoline.
const VALUES_MAX: usize = 8;

impl FuncTranslator<'_, '_> {
    /// Calls the imported function `index` of the type `ty`.
    pub(super) fn call_import(&mut self, index: u32, ty: u32, returns: Returns) {
        let import = self.env.layout.import(index);
        let func_type = self.env.metadata.func_type(ty);
        let is_short = func_type.params.len().max(func_type.results.len()) <= VALUES_MAX;
        let may_be_caught = !self.tries.is_empty();
        if !is_short || returns == Returns::ToCaller || may_be_caught || self.is_cold() {
            return self.call_code_of_import(import, ty, returns);
        }
        let arguments = self.peek(func_type.params.len()).to_vec();
        // Null if the import is not a host function.
        let instance = self.load_here(import + IMPORT_INSTANCE);
        let (of_host, other, next) = (
            self.successor(false),
            self.successor(true),
            self.successor(false),
        );
        let signature = self.signature(ty);
        let results = self.builder.func.dfg.signatures[signature].returns.clone();
        for result in &results {
            self.builder.append_block_param(next, result.value_type);
        }
        self.builder.ins().brif(instance, of_host, [], other, []);
        self.builder.seal_block(of_host);
        self.builder.seal_block(other);

        self.builder.switch_to_block(of_host);
        let types: Vec<_> = results.iter().map(|result| result.value_type).collect();
        let (cells, signature) = self.exit(arguments.len().max(types.len()));
        let flags = MemFlagsData::new().with_notrap();
        let offsets = || (0..).step_by(CELL_BYTES as usize);
        for (at, argument) in offsets().zip(&arguments) {
            self.builder.ins().store(flags, *argument, cells, at);
        }
        let host = self.load_here(import + IMPORT_HOST);
        let routine = self.load_here(CONTEXT_HOST_CALL);
        let arguments = [self.vmctx, host, cells];
        self.calls = true;
        let ins = self.builder.ins();
        ins.call_indirect(signature, routine, &arguments);
        let values: Vec<BlockArg> = offsets()
            .zip(types)
            .map(|(at, ty)| self.builder.ins().load(ty, flags, cells, at).into())
            .collect();
        self.builder.ins().jump(next, &values);

        self.builder.switch_to_block(other);
        self.call_code_of_import(import, ty, Returns::Here);
        let height = self.stack.len() - results.len();
        let values: Vec<BlockArg> = self.stack.drain(height..).map(BlockArg::from).collect();
        self.builder.ins().jump(next, &values);
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
        self.stack
            .extend_from_slice(self.builder.block_params(next));
    }

    /// Calls an import through the code that its descriptor, at the offset `import`, names.
    fn call_code_of_import(&mut self, import: i32, ty: u32, returns: Returns) {
        let code = self.load_here(import + IMPORT_CODE);
        let vmctx = self.load_here(import + IMPORT_VMCTX);
        #[cfg(feature = "faults")]
        let vmctx = match self.has(crate::faults::Fault::ImportContext) {
            true => self.vmctx,
            false => vmctx,
        };
        self.enter_code(ty, Code::At(code), vmctx, returns);
    }

    /// Loads a constant field of the context, at this place. If the load moved out of a loop, its
    /// value would be live across the call.
    fn load_here(&mut self, offset: i32) -> Value {
        let flags = self.flags(Region::Constant).with_readonly();
        self.builder.ins().load(POINTER, flags, self.vmctx, offset)
    }

    /// Address of the array of cells that all host calls of this function share, and the signature
    /// of the exit routine. The array has room for `count` cells.
    fn exit(&mut self, count: usize) -> (Value, SigRef) {
        let bytes = count.max(1) as u32 * CELL_BYTES;
        let func = &mut self.builder.func;
        let (slot, signature) = *self.host_calls.get_or_insert_with(|| {
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 0, 4);
            let signature = func.import_signature(host_signature());
            (func.create_sized_stack_slot(slot), signature)
        });
        let slots = &mut func.sized_stack_slots;
        slots[slot].size = slots[slot].size.max(bytes);
        (self.builder.ins().stack_addr(POINTER, slot, 0), signature)
    }
}
