//! Widens 32-bit values that are extended by zeros to 64 bits, where the wide value costs nothing.
//!
//! The index of an access to memory has 32 bits and is extended. On x86_64 every instruction with a
//! 32-bit result clears the upper half of its register, but lowering uses this fact only for some
//! operators ([`clears_upper_half`]). For most other values it emits a `mov` for each extension, in
//! each iteration of a loop. This pass computes such a value in 64 bits from the start:
//!
//! * a load, a mask and a `select` have a form with a 64-bit result that costs the same;
//! * a parameter of a block becomes wide if each value that is passed for it is wide, or becomes
//!   wide at no cost. A value that enters a loop from outside need not be wide: one extension
//!   before the loop suffices.
//!
//! The narrow value is then the low half of the wide one, which needs no instruction.

use super::loads::ValueUses;
use crate::ir::cursor::before;
use crate::ir::edges::{Passed, passed};
use crate::ir::values;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::packed_option::PackedOption;
use cranelift_codegen::entity::{EntitySet, SecondaryMap};
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{
    Block, BlockArg, Function, Inst, InstBuilder, InstructionData, Opcode, Value,
};

/// Most rounds in which the set of parameters that become wide grows, and then shrinks. A removal
/// can exclude other parameters in the next round. If parameters with narrow arguments are left
/// after the last round, branches get extensions.
const ROUNDS: usize = 4;

/// Most 32-bit values that the branches of a function may pass. With more, its parameters stay
/// narrow: a value could need an extension for each branch that passes it into a loop.
const EDGES_MAX: usize = 1 << 16;

/// Widens the values of an optimised function.
pub(crate) fn widen(func: &mut Function, domtree: &DominatorTree) {
    let extensions = extensions(func);
    if extensions.is_empty() {
        return;
    }
    let mut wide = Wide(SecondaryMap::new());
    let uses = ValueUses::of(func);
    for (_, narrow) in &extensions {
        // Lowering merges a load of 32 bits that is used once with its extension.
        let opcode = values::opcode(&func.dfg, *narrow);
        if opcode != Some(Opcode::Load) || !uses.is_once(*narrow) {
            wide.load(func, *narrow);
        }
        wide.mask(func, *narrow);
    }
    let edges = Edges::of(func, domtree);
    let params = match edges.0.len() {
        ..=EDGES_MAX => edges.wide_params(func, &extensions, &wide),
        _ => EntitySet::new(),
    };
    for block in func.layout.blocks().collect::<Vec<_>>() {
        wide.params(func, block, &params);
    }
    edges.pass(func, &params, &mut wide);
    for (_, narrow) in &extensions {
        wide.select(func, *narrow);
    }
    for (inst, narrow) in extensions {
        if let Some(wide) = wide.0[narrow].expand() {
            let extended = func.dfg.first_result(inst);
            func.layout.remove_inst(inst);
            func.dfg.clear_results(inst);
            func.dfg.change_to_alias(extended, wide);
        }
    }
}

/// The instructions that extend 32 bits to 64 by zeros, and their operands.
fn extensions(func: &Function) -> Vec<(Inst, Value)> {
    let blocks = func.layout.blocks();
    let insts = blocks.flat_map(|block| func.layout.block_insts(block));
    let extended = insts.filter_map(|inst| match func.dfg.insts[inst] {
        InstructionData::Unary {
            opcode: Opcode::Uextend,
            arg,
        } => {
            let types = [func.dfg.first_result(inst), arg].map(|it| func.dfg.value_type(it));
            (types == [I64, I32]).then(|| (inst, func.dfg.resolve_aliases(arg)))
        }
        _ => None,
    });
    extended.collect()
}

/// Whether lowering knows that the instruction of a 32-bit value clears the upper half of its
/// register (`value32_zeros_upper32` of Cranelift's x64 backend). An extension of the value costs
/// nothing.
fn clears_upper_half(func: &Function, value: Value) -> bool {
    matches!(
        values::opcode(&func.dfg, value),
        Some(
            Opcode::Iadd
                | Opcode::Isub
                | Opcode::Imul
                | Opcode::Band
                | Opcode::Bor
                | Opcode::Bxor
                | Opcode::Ishl
                | Opcode::Ushr
        )
    )
}

/// Whether a value is loaded from memory, and a load with a 64-bit result exists.
fn is_load(func: &Function, value: Value) -> bool {
    let opcode = values::opcode(&func.dfg, value);
    let has_wide = matches!(
        opcode,
        Some(Opcode::Load | Opcode::Uload8 | Opcode::Uload16)
    );
    has_wide && func.dfg.value_type(value) == I32
}

/// Maps narrow values to their wide forms. A wide form is available wherever its narrow value is.
struct Wide(SecondaryMap<Value, PackedOption<Value>>);

impl Wide {
    /// Widens a load.
    fn load(&mut self, func: &mut Function, narrow: Value) {
        if self.0[narrow].is_some() || !is_load(func, narrow) {
            return;
        }
        let Some(inst) = values::definition(&func.dfg, narrow) else {
            return;
        };
        if let InstructionData::Load { opcode, .. } = &mut func.dfg.insts[inst]
            && *opcode == Opcode::Load
        {
            *opcode = Opcode::Uload32;
        }
        let wide = func.dfg.replace_result(narrow, I64);
        let mut cursor = FuncCursor::new(func).after_inst(inst);
        cursor.use_srcloc(inst);
        cursor.ins().with_result(narrow).ireduce(I32, wide);
        self.0[narrow] = wide.into();
    }

    /// Widens a mask of 8 or 16 bits.
    fn mask(&mut self, func: &mut Function, narrow: Value) {
        let Some(inst) = values::definition(&func.dfg, narrow) else {
            return;
        };
        let InstructionData::Binary {
            opcode: Opcode::Band,
            args: [value, mask],
        } = func.dfg.insts[inst]
        else {
            return;
        };
        let low = match values::constant(&func.dfg, mask) {
            Some(0xff) => I8,
            Some(0xffff) => I16,
            _ => return,
        };
        let mut cursor = before(func, inst);
        let low = cursor.ins().ireduce(low, value);
        let wide = cursor.ins().uextend(I64, low);
        self.narrow(func, inst, wide);
    }

    /// Widens a `select` whose operands have free wide forms.
    fn select(&mut self, func: &mut Function, narrow: Value) {
        if self.0[narrow].is_some() {
            return;
        }
        if let Some((inst, [condition, a, b])) = self.wide_select(func, narrow) {
            let [a, b] = [a, b].map(|operand| self.extended(func, inst, operand));
            let wide = before(func, inst).ins().select(condition, a, b);
            self.narrow(func, inst, wide);
        }
    }

    /// A `select` whose operands have free wide forms.
    fn wide_select(&self, func: &Function, narrow: Value) -> Option<(Inst, [Value; 3])> {
        let inst = values::definition(&func.dfg, narrow)?;
        let InstructionData::Ternary {
            opcode: Opcode::Select,
            args,
        } = func.dfg.insts[inst]
        else {
            return None;
        };
        let [_, a, b] = args;
        let are_free = [a, b].map(|value| self.is_free(func, func.dfg.resolve_aliases(value)));
        (are_free == [true, true]).then_some((inst, args))
    }

    /// Replaces an instruction by the low half of the wide value.
    fn narrow(&mut self, func: &mut Function, inst: Inst, wide: Value) {
        self.0[func.dfg.first_result(inst)] = wide.into();
        let (opcode, arg) = (Opcode::Ireduce, wide);
        func.dfg.insts[inst] = InstructionData::Unary { opcode, arg };
    }

    /// Widens those parameters of a block that are in the set.
    fn params(&mut self, func: &mut Function, block: Block, params: &EntitySet<Value>) {
        for param in func.dfg.block_params(block).to_vec() {
            if params.contains(param) {
                let wide = func.dfg.replace_block_param(param, I64);
                let mut cursor = FuncCursor::new(func).at_first_insertion_point(block);
                cursor.ins().with_result(param).ireduce(I32, wide);
                self.0[param] = wide.into();
            }
        }
    }

    /// Whether the wide form of a value needs no instruction.
    fn is_free(&self, func: &Function, value: Value) -> bool {
        self.0[value].is_some()
            || clears_upper_half(func, value)
            || is_load(func, value)
            || values::constant(&func.dfg, value).is_some()
    }

    /// The wide form of a value for use at `inst`. A free wide form is made once, after the value's
    /// definition, because many branches may pass the value. Any other wide form is made before
    /// `inst`.
    fn extended(&mut self, func: &mut Function, inst: Inst, value: Value) -> Value {
        let value = func.dfg.resolve_aliases(value);
        self.load(func, value);
        self.select(func, value);
        if let Some(wide) = self.0[value].expand() {
            return wide;
        }
        let constant = values::constant(&func.dfg, value);
        let definition = values::definition(&func.dfg, value);
        let is_free = constant.is_some() || clears_upper_half(func, value);
        let Some(definition) = definition.filter(|_| is_free) else {
            return before(func, inst).ins().uextend(I64, value);
        };
        let mut cursor = FuncCursor::new(func).after_inst(definition);
        cursor.use_srcloc(definition);
        let wide = match constant {
            Some(constant) => cursor.ins().iconst(I64, i64::from(constant as u32)),
            None => cursor.ins().uextend(I64, value),
        };
        self.0[value] = wide.into();
        wide
    }
}

/// A value that a branch passes to a 32-bit parameter of a block.
struct Edge {
    passed: Passed,
    /// Whether the branch enters a loop from outside.
    enters_loop: bool,
}

/// The values that branches pass to 32-bit parameters, in the order of branches, destinations and
/// arguments.
struct Edges(Vec<Edge>);

impl Edges {
    fn of(func: &Function, domtree: &DominatorTree) -> Self {
        let (mut edges, mut headers) = (vec![], EntitySet::new());
        for passed in passed(func) {
            if func.dfg.value_type(passed.param) == I32 {
                let is_back = domtree.block_dominates(passed.target, passed.block);
                if is_back {
                    headers.insert(passed.target);
                }
                edges.push(Edge {
                    passed,
                    enters_loop: !is_back,
                });
            }
        }
        for edge in &mut edges {
            edge.enters_loop &= headers.contains(edge.passed.target);
        }
        Self(edges)
    }

    /// The parameters that become wide: extended parameters, and parameters that are passed for
    /// these in a loop. All values that are passed for a wide parameter must be free.
    fn wide_params(
        &self,
        func: &Function,
        extensions: &[(Inst, Value)],
        wide: &Wide,
    ) -> EntitySet<Value> {
        let (mut params, mut passed) = (EntitySet::new(), EntitySet::new());
        for edge in &self.0 {
            passed.insert(edge.passed.param);
        }
        for (_, narrow) in extensions {
            if passed.contains(*narrow) {
                params.insert(*narrow);
            }
        }
        // Parameters that are passed for a wide parameter in a loop must become wide, too.
        for _ in 0..ROUNDS {
            for edge in self.0.iter().filter(|edge| !edge.enters_loop) {
                if let Some(value) = edge.passed.value.filter(|value| passed.contains(*value))
                    && params.contains(edge.passed.param)
                {
                    params.insert(value);
                }
            }
        }
        for _ in 0..ROUNDS {
            let mut is_stable = true;
            for edge in &self.0 {
                if params.contains(edge.passed.param) && !edge.is_free(func, wide, &params) {
                    params.remove(edge.passed.param);
                    is_stable = false;
                }
            }
            if is_stable {
                break;
            }
        }
        params
    }

    /// Passes wide values to the parameters that became wide.
    fn pass(&self, func: &mut Function, params: &EntitySet<Value>, wide: &mut Wide) {
        let place = |edge: &Edge| (edge.passed.branch, edge.passed.destination);
        for edges in self.0.chunk_by(|a, b| place(a) == place(b)) {
            let (branch, destination) = place(&edges[0]);
            let mut widened = vec![];
            for edge in edges
                .iter()
                .filter(|edge| params.contains(edge.passed.param))
            {
                if let Some(value) = edge.passed.value {
                    widened.push((edge.passed.argument, wide.extended(func, branch, value)));
                }
            }
            let dfg = &mut func.dfg;
            let (tables, exceptions) = (&mut dfg.jump_tables, &mut dfg.exception_tables);
            let calls = dfg.insts[branch].branch_destination_mut(tables, exceptions);
            let mut arguments = 0..;
            let mut widened = widened.into_iter().peekable();
            calls[destination].update_args(&mut dfg.value_lists, |passed| {
                let argument = arguments.next();
                let value = widened.next_if(|(place, _)| Some(*place) == argument);
                value.map_or(passed, |(_, value)| BlockArg::Value(value))
            });
        }
    }
}

impl Edge {
    /// Whether the value can be passed in 64 bits without an instruction in a loop.
    fn is_free(&self, func: &Function, wide: &Wide, params: &EntitySet<Value>) -> bool {
        let Some(value) = self.passed.value else {
            return false;
        };
        let is_free = |value| params.contains(value) || wide.is_free(func, value);
        if self.enters_loop || is_free(value) {
            return true;
        }
        let select = values::definition(&func.dfg, value).map(|inst| func.dfg.insts[inst]);
        match select {
            Some(InstructionData::Ternary {
                opcode: Opcode::Select,
                args: [_, a, b],
            }) => [a, b]
                .into_iter()
                .all(|value| is_free(func.dfg.resolve_aliases(value))),
            _ => false,
        }
    }
}
