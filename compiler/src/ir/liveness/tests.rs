//! Compares the length of live ranges with data flow analysis, on random control flow graphs.

use super::*;
use cranelift_codegen::ir::{AbiParam, Inst, InstBuilder as _, ValueDef, types};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use std::collections::BTreeSet;

/// A sequence of numbers that depends on the seed alone.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) as usize % count
    }
}

/// A function of up to ten blocks that branch to any others, and read and write six variables.
fn random(seed: u64) -> Function {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut func = Function::new();
    func.signature.params.push(AbiParam::new(types::I64));
    func.signature.returns.push(AbiParam::new(types::I64));
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut func, &mut context);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let param = builder.block_params(entry)[0];
    let variables: Vec<Variable> = (0..6).map(|_| builder.declare_var(types::I64)).collect();
    for variable in &variables {
        builder.def_var(*variable, param);
    }
    let blocks: Vec<_> = (0..1 + numbers.below(9))
        .map(|_| builder.create_block())
        .collect();
    builder.ins().jump(blocks[0], &[]);
    for block in &blocks {
        builder.switch_to_block(*block);
        for _ in 0..numbers.below(8) {
            let [a, b, to] = [(); 3].map(|()| variables[numbers.below(variables.len())]);
            let (a, b) = (builder.use_var(a), builder.use_var(b));
            let sum = builder.ins().iadd(a, b);
            builder.def_var(to, sum);
        }
        let read = builder.use_var(variables[numbers.below(variables.len())]);
        match numbers.below(4) {
            0 => {
                builder.ins().return_(&[read]);
            }
            _ => {
                let [then, other] = [(); 2].map(|()| blocks[numbers.below(blocks.len())]);
                builder.ins().brif(read, then, &[], other, &[]);
            }
        }
    }
    builder.seal_all_blocks();
    builder.finalize(TargetFrontendConfig {
        default_call_conv: CallConv::SystemV,
        pointer_width: target_lexicon::PointerWidth::U64,
        page_size_align_log2: 12,
    });
    func
}

/// The values that are live at the start of each block, by iteration to a fixed point.
fn live_in(func: &Function, cfg: &ControlFlowGraph) -> SecondaryMap<Block, BTreeSet<Value>> {
    let mut live: SecondaryMap<Block, BTreeSet<Value>> = SecondaryMap::new();
    loop {
        let mut is_changed = false;
        for block in func.layout.blocks() {
            let successors = cfg.succ_iter(block);
            let mut now: BTreeSet<_> = successors.flat_map(|next| live[next].clone()).collect();
            let insts: Vec<_> = func.layout.block_insts(block).collect();
            for inst in insts.into_iter().rev() {
                for result in func.dfg.inst_results(inst) {
                    now.remove(result);
                }
                let used = func.dfg.inst_values(inst);
                now.extend(used.map(|value| func.dfg.resolve_aliases(value)));
            }
            for param in func.dfg.block_params(block) {
                now.remove(param);
            }
            is_changed |= live[block] != now;
            live[block] = now;
        }
        if !is_changed {
            return live;
        }
    }
}

/// The total length of all live ranges.
fn model(func: &Function) -> u64 {
    let cfg = ControlFlowGraph::with_function(func);
    let live = live_in(func, &cfg);
    let mut sum = 0;
    for block in func.layout.blocks() {
        let insts: Vec<_> = func.layout.block_insts(block).collect();
        let length = insts.len() as u64;
        sum += live[block].len() as u64 * (length + BLOCK_COST);
        let mut defined: Vec<(Value, u64)> = vec![];
        let params = func.dfg.block_params(block).iter();
        defined.extend(params.map(|param| (*param, 0)));
        for (inst, place) in insts.iter().zip(1..) {
            let results = func.dfg.inst_results(*inst).iter();
            defined.extend(results.map(|result| (*result, place)));
        }
        for (value, place) in defined {
            let uses = |inst: &Inst| {
                let mut used = func.dfg.inst_values(*inst);
                used.any(|used| func.dfg.resolve_aliases(used) == value)
            };
            let last = insts.iter().rposition(uses);
            sum += match cfg.succ_iter(block).any(|next| live[next].contains(&value)) {
                true => length - place,
                false => last.map_or(0, |last| last as u64 + 1 - place),
            };
        }
    }
    sum
}

#[test]
fn live_ranges_are_as_long_as_data_flow_says() {
    let mut longest = 0;
    for seed in 1..500 {
        let func = random(seed);
        let expected = model(&func);
        assert_eq!(live_range_length(&func, u64::MAX), expected, "seed {seed}");
        assert_eq!(live_range_length(&func, expected), expected, "seed {seed}");
        longest = longest.max(expected);
    }
    assert!(longest > 400, "{longest}");
}

#[test]
fn shared_values_are_those_of_two_blocks() {
    let mut count = 0;
    for seed in 1..500 {
        let func = random(seed);
        let shared = shared_values(&func);
        for block in func.layout.blocks() {
            for inst in func.layout.block_insts(block) {
                for value in func.dfg.inst_values(inst) {
                    let value = func.dfg.resolve_aliases(value);
                    let home = match func.dfg.value_def(value) {
                        ValueDef::Result(inst, _) => func.layout.inst_block(inst),
                        ValueDef::Param(block, _) => Some(block),
                        ValueDef::Union(..) => None,
                    };
                    let is_shared = home != Some(block);
                    assert!(shared.contains(value) || !is_shared, "seed {seed}");
                    count += usize::from(is_shared);
                }
            }
        }
    }
    assert!(count > 500, "{count}");
}
