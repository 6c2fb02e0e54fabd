//! Schedules random blocks: effects keep their order, and definitions precede their uses.

use super::*;
use crate::ir::block::CLASSES;
use cranelift_codegen::entity::EntitySet;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, UserFuncName, Value, types};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_codegen::settings::{self, Flags};
use cranelift_codegen::verify_function;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use target_lexicon::PointerWidth;

/// Fewer registers than any processor has.
const FEW: Registers = Registers([3, 3]);

fn target() -> TargetFrontendConfig {
    TargetFrontendConfig {
        default_call_conv: CallConv::Tail,
        pointer_width: PointerWidth::U64,
        page_size_align_log2: 12,
    }
}

/// A random number below `end`: Marsaglia, "Xorshift RNGs".
fn below(state: &mut u64, end: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % end as u64) as usize
}

/// A function of two blocks. The first block computes, loads, stores and divides at random. The
/// second block uses some of the results.
pub(crate) fn random(mut seed: u64, insts: usize) -> Function {
    let mut func = Function::new();
    func.name = UserFuncName::testcase("random");
    for _ in 0..3 {
        func.signature.params.push(AbiParam::new(types::I64));
    }
    func.signature.params.push(AbiParam::new(types::F64));
    func.signature.returns.push(AbiParam::new(types::I64));
    func.signature.returns.push(AbiParam::new(types::F64));
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut func, &mut context);
    let [first, second] = [(); 2].map(|()| builder.create_block());
    builder.append_block_params_for_function_params(first);
    builder.switch_to_block(first);
    let params = builder.block_params(first).to_vec();
    let (mut numbers, mut floats) = (params[..3].to_vec(), params[3..].to_vec());
    let flags = MemFlagsData::new();
    for _ in 0..insts {
        let mut any = |of: &[Value]| of[below(&mut seed, of.len())];
        let (a, b, x, y) = (any(&numbers), any(&numbers), any(&floats), any(&floats));
        let ins = builder.ins();
        match below(&mut seed, 30) {
            0 => numbers.push(ins.iconst(types::I64, 7)),
            1 => numbers.push(ins.udiv(a, b)),
            2 => numbers.push(ins.load(types::I64, flags, a, 8)),
            3 => {
                ins.store(flags, a, b, 16);
            }
            4 => floats.push(ins.load(types::F64, flags, a, 0)),
            5 => floats.push(ins.fadd(x, y)),
            6 => floats.push(ins.fmul(x, y)),
            7 => {
                let less = ins.icmp(IntCC::UnsignedLessThan, a, b);
                numbers.push(builder.ins().select(less, a, b));
            }
            8 => numbers.push(ins.rotl(a, b)),
            9 => numbers.push(ins.bitcast(types::I64, MemFlagsData::new(), x)),
            10 => {
                let (sum, carry) = ins.uadd_overflow(a, b);
                numbers.push(sum);
                numbers.push(builder.ins().uextend(types::I64, carry));
            }
            11 => numbers.push(ins.iadd(a, b)),
            _ => numbers.push(ins.bxor(a, b)),
        }
    }
    builder.append_block_param(second, types::I64);
    let argument = numbers[below(&mut seed, numbers.len())];
    builder.ins().jump(second, &[argument.into()]);
    builder.switch_to_block(second);
    let param = builder.block_params(second)[0];
    let other = numbers[below(&mut seed, numbers.len())];
    let sum = builder.ins().iadd(param, other);
    let float = floats[below(&mut seed, floats.len())];
    builder.ins().return_(&[sum, float]);
    builder.seal_all_blocks();
    builder.finalize(target());
    func
}

pub(crate) fn insts(func: &Function) -> Vec<Vec<Inst>> {
    let of = |block| func.layout.block_insts(block).collect();
    func.layout.blocks().map(of).collect()
}

#[test]
fn effects_keep_their_order_and_values_come_before_their_users() {
    let flags = Flags::new(settings::builder());
    let mut moved = 0;
    for seed in 1..300 {
        let mut func = random(seed, 20 + seed as usize);
        verify_function(&func, &flags).expect("the function is valid before the pass");
        let before = insts(&func);
        let is_changed = schedule(&mut func, FEW);
        verify_function(&func, &flags).expect("the function is valid after the pass");
        let behind = insts(&func);
        assert!(is_changed || before == behind, "seed {seed}");
        moved += usize::from(before != behind);
        let effects = |blocks: &[Vec<Inst>]| {
            let has_effect = |inst: &Inst| !is_free(func.dfg.insts[*inst].opcode());
            let of = |block: &Vec<Inst>| block.iter().copied().filter(has_effect).collect();
            blocks.iter().map(of).collect::<Vec<Vec<Inst>>>()
        };
        assert_eq!(effects(&before), effects(&behind), "seed {seed}");
        for (mut before, mut behind) in before.into_iter().zip(behind) {
            before.sort_unstable();
            behind.sort_unstable();
            assert_eq!(before, behind, "seed {seed}");
        }
        let mut again = random(seed, 20 + seed as usize);
        assert_eq!(schedule(&mut again, FEW), is_changed);
        assert_eq!(insts(&func), insts(&again), "seed {seed}");
    }
    assert!(moved > 150, "only {moved} changed");
}

#[test]
fn what_is_computed_long_before_its_use_is_computed_beside_it() {
    let mut func = Function::new();
    func.signature.params.push(AbiParam::new(types::I64));
    func.signature.returns.push(AbiParam::new(types::I64));
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut func, &mut context);
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    let param = builder.block_params(block)[0];
    // Sixty values that are live at the same time.
    let values: Vec<_> = (1..=60)
        .map(|by| {
            let by = builder.ins().iconst(types::I64, by);
            builder.ins().rotl(param, by)
        })
        .collect();
    let sum = values
        .into_iter()
        .reduce(|sum, value| builder.ins().iadd(sum, value));
    builder.ins().return_(&[sum.expect("sixty addends")]);
    builder.seal_all_blocks();
    builder.finalize(target());
    let exceeds = |func: &Function, count: usize| {
        let list = List::new(
            func,
            &insts(func)[0],
            &EntitySet::new(),
            &mut Numbers::new(),
        );
        list.exceeds(Registers([count; CLASSES]))
    };
    assert!(exceeds(&func, 58));
    // Beside the sum and the parameter, the values without a register are 57, 56, ... 1 where they
    // are made, and again where they are used.
    let before = excess(&func, FEW);
    assert!(before > 50 * 50, "{before}");
    assert_eq!(excess(&func, Registers([60; CLASSES])), 0);
    // Enough registers: the block is left as it is.
    let as_it_was = insts(&func);
    assert!(!schedule(&mut func, Registers([60; CLASSES])));
    assert_eq!(insts(&func), as_it_was);
    assert!(schedule(&mut func, FEW));
    assert!(!exceeds(&func, 3), "{}", func.display());
    assert_eq!(excess(&func, Registers([3; CLASSES])), 0);
}
