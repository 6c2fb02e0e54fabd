//! Translates calls of intrinsics, see [`crate::intrinsics`].

use super::call::Returns;
use super::function::FuncTranslator;
use crate::error::CompileError;
use crate::intrinsics::imports;
use crate::intrinsics::known::Known;
use crate::intrinsics::patch_point::{Part, PatchPoint};
use crate::intrinsics::placeholder::PlaceholderOpcode;
use crate::intrinsics::{Id, Intrinsic};
use crate::ir::types::value_type;
use crate::symbol::Symbol;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, AbiParam, ExtFuncData, ExternalName, FuncRef, InstBuilder, Signature, Type, Value, types,
};
use cranelift_codegen::isa::CallConv;
use pirn_format::exit::TrapCode;
use pirn_format::types::ValType;

/// The most immediate values that the wrapper function of an intrinsic compares its argument with.
const IMMEDIATES_MAX: usize = 16;

/// Whether the wrapper function of an intrinsic can contain its instruction, once for each value of
/// the immediate.
pub(crate) fn has_instruction(id: Id) -> bool {
    id.get().immediates().count() <= IMMEDIATES_MAX
}

impl FuncTranslator<'_, '_> {
    /// Translates a call of an intrinsic, which is the function with this index.
    ///
    /// # Errors
    ///
    /// [`CompileError::Intrinsic`] for an immediate that is not constant or not in the intrinsic's
    /// range, whether or not the processor has the instruction.
    pub(super) fn intrinsic(&mut self, index: u32, id: Id) -> Result<(), CompileError> {
        let intrinsic = id.get();
        let immediate = match intrinsic.immediate {
            Some(_) => {
                // An immediate is an i32.
                let constant = self.constant_value(self.peek(1)[0]);
                let constant = constant.map(|constant| constant as u32);
                let offset = self.builder.srcloc().bits();
                imports::immediate(intrinsic, constant, offset, || self.described())?
            }
            None => 0,
        };
        if !id.is_promised(self.env.cpu) || (intrinsic.is_pair() && self.env.plain) {
            self.call_func(index, Returns::Here)?;
            return Ok(());
        }
        let operands = self.operands(intrinsic);
        let result = match (intrinsic.placeholder, &operands[..]) {
            (Some((placeholder, _)), [a, b]) if !self.env.plain => {
                self.placeholders.insert(self.builder.srcloc().bits(), id);
                self.placeholder(placeholder, *a, *b)
            }
            _ => self.patch_point(id, immediate, &operands),
        };
        self.push(result);
        Ok(())
    }

    /// Translates a call of a function that an operator computes.
    pub(super) fn known(&mut self, known: Known) {
        let operand = self.pop();
        let result = known.emit(self.builder.ins(), operand);
        self.push(result);
    }

    /// Builds the body of a known function, for references to the function.
    pub(super) fn known_body(&mut self, known: Known) {
        for (variable, _) in self.locals.clone() {
            let param = self.builder.use_var(variable);
            let result = known.emit(self.builder.ins(), param);
            self.builder.ins().return_(&[result]);
        }
    }

    /// Describes the current function, for an error message.
    fn described(&self) -> String {
        let name = self.builder.func.name.get_user();
        let symbol = name.and_then(Symbol::from_name);
        symbol.map_or_else(String::new, |symbol| symbol.describe(self.env.metadata))
    }

    /// Builds the body of an intrinsic's wrapper function, for references to the intrinsic.
    pub(super) fn intrinsic_body(&mut self, id: Id) {
        let intrinsic = id.get();
        for (variable, _) in self.locals.clone() {
            let param = self.builder.use_var(variable);
            self.push(param);
        }
        let immediate = intrinsic.immediate.map(|_| self.peek(1)[0]);
        let operands = self.operands(intrinsic);
        for value in intrinsic.immediates() {
            let next = immediate.map(|immediate| {
                let (this, next) = (self.builder.create_block(), self.builder.create_block());
                let value = i64::from(value);
                let is_this = self
                    .builder
                    .ins()
                    .icmp_imm_u(IntCC::Equal, immediate, value);
                self.builder.ins().brif(is_this, this, [], next, []);
                self.builder.switch_to_block(this);
                next
            });
            let result = self.patch_point(id, value, &operands);
            self.builder.ins().return_(&[result]);
            if let Some(next) = next {
                self.builder.switch_to_block(next);
            }
        }
        if immediate.is_some() {
            // Unreachable: direct calls have constant immediates, and nothing refers to this
            // function.
            self.trap(TrapCode::Unreachable);
        }
    }

    /// Builds the body of a function that is never called.
    pub(super) fn never(&mut self) {
        let code = ir::TrapCode::unwrap_user(TrapCode::Unreachable as u8);
        self.builder.ins().trap(code);
    }

    /// Pops the operands, and drops the immediate.
    fn operands(&mut self, intrinsic: &Intrinsic) -> Vec<Value> {
        let params = self.peek(intrinsic.params.len()).to_vec();
        self.drop_operands(params.len());
        params[..intrinsic.operands().len()].to_vec()
    }

    /// Emits a placeholder opcode, which the instruction replaces later. The placeholder belongs to
    /// SSSE3, which every supported processor has.
    fn placeholder(&mut self, placeholder: PlaceholderOpcode, a: Value, b: Value) -> Value {
        let result = match placeholder {
            PlaceholderOpcode::Pmulhrsw => {
                let (a, b) = (self.view(a, types::I16X8), self.view(b, types::I16X8));
                self.builder.ins().x86_pmulhrsw(a, b)
            }
            // The replacing instruction overwrites the placeholder's second operand.
            PlaceholderOpcode::Pmaddubsw => self.builder.ins().x86_pmaddubsw(b, a),
        };
        self.view(result, types::I8X16)
    }

    /// Emits one or two calls that are patched into the instruction.
    fn patch_point(&mut self, id: Id, immediate: u8, operands: &[Value]) -> Value {
        let intrinsic = id.get();
        let wiring = intrinsic.wiring();
        let arguments: Vec<Value> = wiring.arguments.iter().map(|at| operands[*at]).collect();
        let params: Vec<Type> = arguments.iter().map(|value| self.type_of(*value)).collect();
        let result = value_type(intrinsic.result);
        // Values returned before the result are unchanged arguments.
        let mut results = params[..wiring.result].to_vec();
        results.push(result);
        let point = |part| PatchPoint {
            intrinsic: id,
            immediate,
            part,
        };
        if !intrinsic.is_pair() {
            let callee = self.patch_point_callee(point(Part::Whole), &params, &results);
            let call = self.builder.ins().call(callee, &arguments);
            return self.builder.inst_results(call)[wiring.result];
        }
        // Vectors use the same registers for arguments and results, so the second call takes the
        // results of the first. Integers stay in their registers; the first call overwrites the
        // result's register.
        let vectors = intrinsic.result == ValType::V128;
        let between = if vectors {
            params.clone()
        } else {
            vec![types::I64]
        };
        let first = self.patch_point_callee(point(Part::First), &params, &between);
        let first = self.builder.ins().call(first, &arguments);
        let second_arguments = if vectors {
            self.builder.inst_results(first).to_vec()
        } else {
            arguments
        };
        let second = self.patch_point_callee(point(Part::Second), &params, &results);
        let second = self.builder.ins().call(second, &second_arguments);
        self.builder.inst_results(second)[wiring.result]
    }

    /// The `FuncRef` by which this function calls a patch point.
    fn patch_point_callee(
        &mut self,
        point: PatchPoint,
        params: &[Type],
        results: &[Type],
    ) -> FuncRef {
        if let Some(known) = self.patch_points.get(&point) {
            return *known;
        }
        // The convention that preserves all registers is set after the verifier has checked the
        // function.
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params = params.iter().copied().map(AbiParam::new).collect();
        signature.returns = results.iter().copied().map(AbiParam::new).collect();
        let signature = self.builder.import_signature(signature);
        let name = self
            .builder
            .func
            .declare_imported_user_function(point.name());
        let reference = self.builder.import_function(ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated: true,
            patchable: false,
        });
        self.patch_points.insert(point, reference);
        reference
    }
}
