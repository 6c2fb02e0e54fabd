//! The function bodies of a [`Shape`].

use super::shapes::Shape;
use super::types::{ARRAY, BOTH, EMPTY, MAKES, STRUCT, TAKES, VECTOR};
use std::borrow::Cow;
use wasm_encoder::{BlockType, Catch, HeapType, Instruction as I, MemArg, MemArgTarget};

/// A function body: its type, the number of its locals, and its operators.
pub(super) struct Body {
    pub(super) ty: u32,
    pub(super) locals: u32,
    pub(super) operators: Vec<I<'static>>,
}

type Operators = Vec<I<'static>>;

/// Concatenates the operators for each number below `count`.
fn each(count: u32, operators: impl Fn(u32) -> Operators) -> Operators {
    (0..count).flat_map(operators).collect()
}

const NEAR: MemArg = MemArg {
    offset: 0,
    align: 0,
    target: MemArgTarget::Memory(0),
    ordering: None,
};
/// An offset beyond the memory's guard region, so that the access needs a bounds check.
const FAR: MemArg = MemArg {
    offset: 1 << 30,
    ..NEAR
};

/// The body of each function of a module; `None` if its kind repeats no function.
pub(super) fn body(shape: Shape) -> Option<Body> {
    let Shape {
        repeats,
        arity,
        depth,
        locals,
        ..
    } = shape;
    let params = each(arity, |at| vec![I::LocalGet(at)]);
    let ends = each(depth, |_| vec![I::End]);
    let both = BlockType::FunctionType(BOTH);
    let mut used = 0;
    let (ty, operators) = match shape.name() {
        "catches that return values" => {
            let catches = vec![Catch::One { tag: 0, label: 0 }; repeats.min(100) as usize];
            let table = I::TryTable(BlockType::Empty, Cow::Owned(catches));
            (MAKES, vec![table, I::Call(0), I::End, I::Unreachable])
        }
        "catches in catches" => {
            let tables = each(depth, |label| {
                let catches = vec![Catch::One { tag: 0, label }];
                vec![I::TryTable(BlockType::Empty, Cow::Owned(catches))]
            });
            let calls = each(repeats, |_| vec![I::Call(0)]);
            (MAKES, [tables, calls, ends, vec![I::Unreachable]].concat())
        }
        "throws" => {
            let throw = |_| [unlikely(), params.clone(), vec![I::Throw(0), I::End]].concat();
            (TAKES, each(repeats, throw))
        }
        "calls" => (EMPTY, each(repeats, |_| vec![I::Call(1), I::Call(2)])),
        "calls by a table" => {
            let call = |at, type_index| {
                let call = I::CallIndirect {
                    type_index,
                    table_index: 0,
                };
                vec![I::I32Const(at), call]
            };
            let both = |_| [call(1, MAKES), call(2, TAKES)].concat();
            (EMPTY, each(repeats, both))
        }
        "calls by reference" => {
            let calls = [
                I::RefFunc(1),
                I::CallRef(MAKES),
                I::RefFunc(2),
                I::CallRef(TAKES),
            ];
            (EMPTY, each(repeats, |_| calls.to_vec()))
        }
        "tail calls" => {
            let calls = vec![I::Call(1), I::ReturnCall(2), I::End];
            (
                EMPTY,
                each(repeats, |_| [unlikely(), calls.clone()].concat()),
            )
        }
        "blocks with parameters and results" => {
            let block = [I::Block(both), I::I32Const(0), I::BrIf(0), I::End];
            let blocks = each(repeats, |_| block.to_vec());
            (BOTH, [params, blocks].concat())
        }
        "blocks in blocks with values" => {
            let blocks = each(depth, |at| match at % 2 {
                0 => vec![I::Loop(both)],
                _ => vec![I::Block(both)],
            });
            let branches = each(repeats, |at| vec![I::I32Const(1), I::BrIf(at % depth)]);
            (BOTH, [params, blocks, branches, ends].concat())
        }
        "branches with values" => {
            let branches = each(repeats, |_| vec![I::I32Const(0), I::BrIf(0)]);
            (MAKES, [vec![I::Call(1)], branches].concat())
        }
        "tables of branches" => {
            let labels = (0..repeats).map(|at| at % (depth + 1)).collect();
            let table = vec![I::I32Const(0), I::BrTable(labels, 0)];
            let blocks = each(depth, |_| vec![I::Block(both)]);
            (MAKES, [vec![I::Call(1)], blocks, table, ends].concat())
        }
        "loops in loops that change locals" => {
            used = locals;
            let loops = each(depth, |_| vec![I::Loop(BlockType::Empty)]);
            let moves = each(repeats, |at| copy(at, locals));
            let again = each(depth, |_| vec![I::I32Const(1), I::BrIf(0), I::End]);
            (EMPTY, [loops, moves, again].concat())
        }
        "ifs that change locals" => {
            used = locals;
            let ifs = each(repeats, |at| {
                let call = match at % depth {
                    0 => vec![I::Call(0)],
                    _ => vec![],
                };
                let begin = vec![I::I32Const(1), I::If(BlockType::Empty)];
                [begin, copy(at, locals), call, vec![I::End]].concat()
            });
            (EMPTY, ifs)
        }
        "values live across operators" => {
            let load = |at: u32| vec![I::I32Const(at.cast_signed()), I::I32Load(NEAR)];
            let store = |at: u32| {
                vec![
                    I::I32Const(8),
                    I::I32Const(at.cast_signed()),
                    I::I32Store(NEAR),
                ]
            };
            let sum = each(arity, |_| vec![I::I32Add]);
            let begin = vec![I::I32Const(0), I::I32Const(0)];
            let end = vec![I::I32Store(NEAR)];
            let (loads, stores) = (each(arity, load), each(repeats, store));
            (EMPTY, [begin, loads, stores, sum, end].concat())
        }
        "vectors live across operators" => {
            let load = |at: u32| vec![I::I32Const(at.cast_signed()), I::V128Load(NEAR)];
            let product = |_| vec![I::LocalGet(0), I::I64x2Mul];
            let sum = each(arity - 1, |_| vec![I::I64x2Mul]);
            (
                VECTOR,
                [each(arity, load), each(repeats, product), sum].concat(),
            )
        }
        "functions with locals" => {
            used = locals;
            (EMPTY, vec![])
        }
        "small functions" => (EMPTY, each(repeats - 1, |_| vec![I::Call(0)])),
        "exports" => (EMPTY, vec![]),
        "arrays of values" => {
            let values = each(arity, |_| vec![I::I32Const(1)]);
            let array = I::ArrayNewFixed {
                array_type_index: ARRAY,
                array_size: arity,
            };
            let array = [values, vec![array, I::Drop]].concat();
            (EMPTY, each(repeats, |_| array.clone()))
        }
        "structs" => {
            let make = [I::StructNewDefault(STRUCT), I::Drop];
            (EMPTY, each(repeats, |_| make.to_vec()))
        }
        "casts" => {
            let test = |at| {
                let ty = HeapType::Concrete(if at % 2 == 0 { STRUCT } else { ARRAY });
                vec![I::RefNull(HeapType::ANY), I::RefTestNullable(ty), I::Drop]
            };
            (EMPTY, each(repeats, test))
        }
        "costly operators" => (EMPTY, each(repeats, |at| costly(at.wrapping_add(depth)))),
        _ => return None,
    };
    Some(Body {
        ty,
        locals: used,
        operators,
    })
}

/// The start of a block that branches to its end at once.
fn unlikely() -> Operators {
    vec![I::Block(BlockType::Empty), I::I32Const(1), I::BrIf(0)]
}

/// Sets one local to another.
fn copy(at: u32, locals: u32) -> Operators {
    let from = at.wrapping_mul(7) % locals;
    vec![I::LocalGet(from), I::LocalSet(at % locals)]
}

/// Operators that compile to many instructions.
fn costly(which: u32) -> Operators {
    let bytes = || vec![I::I32Const(0), I::I32Const(64), I::I32Const(127)];
    let copy = I::MemoryCopy {
        src_mem: 0,
        dst_mem: 0,
    };
    let call = I::CallIndirect {
        type_index: EMPTY,
        table_index: 0,
    };
    let (begin, operator) = match which % 12 {
        0 => return [bytes(), vec![copy]].concat(),
        1 => return [bytes(), vec![I::MemoryFill(0)]].concat(),
        2 => return vec![I::I32Const(0), I::RefNull(HeapType::FUNC), I::TableSet(0)],
        3 => return vec![I::I32Const(0), call],
        4 => (I::F64Const(1.0.into()), vec![I::I64TruncF64S]),
        5 => (I::F32Const(1.0.into()), vec![I::I32TruncF32U]),
        6 => (I::I32Const(0), vec![I::TableGet(0)]),
        7 => (I::I32Const(7), vec![I::I64Load(FAR), I::I64Popcnt]),
        8 => (I::I32Const(7), vec![I::V128Load(FAR), I::I8x16Popcnt]),
        9 => (
            I::I32Const(7),
            vec![I::V128Load(FAR), I::I32Const(3), I::I8x16ShrS],
        ),
        10 => (I::I32Const(1), vec![I::MemoryGrow(0)]),
        _ => (I::I64Const(5), vec![I::I64Const(0), I::I64RemS]),
    };
    [vec![begin], operator, vec![I::Drop]].concat()
}
