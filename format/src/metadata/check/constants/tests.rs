//! Tests of constant expressions and of segments.

use crate::metadata::check::tests::{
    ANYS, BASE, DERIVED, F_NOTHING, F_NOTHING_AGAIN, F_TAKES_I32, G_EXTERN, G_I32, G_MUTABLE,
    GLOBALS, NOTHING, NOTHING_AGAIN, NUMBERS, TAKES_I32, accept, array_ref, expr, func_ref, global,
    null_or, refuse, struct_ref, table, typed,
};
use crate::metadata::{
    ConstExpr, ConstOp, DataSegment, ElementItems, ElementSegment, Metadata, SegmentMode,
};
use crate::types::{AddrType, HeapType, ValType};
use ConstOp::{
    AnyConvertExtern, ArrayNew, ArrayNewDefault, ArrayNewFixed, ExternConvertAny, F32, F64,
    GlobalGet, I32, I32Add, I32Mul, I32Sub, I64, I64Add, I64Mul, I64Sub, RefFunc, RefI31, RefNull,
    StructNew, StructNewDefault, V128,
};

/// Adds an active element segment that starts at index 0 of a table.
fn active(index: u32, items: ElementItems) -> impl FnOnce(&mut Metadata) {
    move |m| {
        let offset = match m.tables[index as usize].address {
            AddrType::I32 => expr(&[I32(0)]),
            AddrType::I64 => expr(&[I64(0)]),
        };
        let mode = SegmentMode::Active { index, offset };
        m.elements.push(ElementSegment { mode, items });
    }
}

fn passive(items: ElementItems) -> impl FnOnce(&mut Metadata) {
    move |m| {
        let mode = SegmentMode::Passive;
        m.elements.push(ElementSegment { mode, items });
    }
}

fn funcs(funcs: &[u32]) -> ElementItems {
    ElementItems::Funcs(funcs.to_vec())
}

fn exprs(exprs: &[&[ConstOp]]) -> ElementItems {
    ElementItems::Exprs(exprs.iter().map(|ops| expr(ops)).collect())
}

#[test]
fn constants_of_the_wanted_type_are_sound() {
    let any = ValType::ANYREF;
    let values: [(ValType, &[ConstOp]); 33] = [
        (ValType::I32, &[I32(1)]),
        (ValType::I64, &[I64(1)]),
        (ValType::F32, &[F32(1)]),
        (ValType::F64, &[F64(1)]),
        (ValType::V128, &[V128([1; 16])]),
        (ValType::I32, &[I32(1), I32(2), I32Add, I32(3), I32Mul]),
        (ValType::I32, &[I32(1), I32(2), I32(3), I32Sub, I32Add]),
        (
            ValType::I64,
            &[I64(1), I64(2), I64Add, I64(3), I64Mul, I64(4), I64Sub],
        ),
        (ValType::I32, &[GlobalGet(G_I32), I32(1), I32Add]),
        (ValType::EXTERNREF, &[GlobalGet(G_EXTERN)]),
        (ValType::FUNCREF, &[RefNull]),
        (ValType::EXTERNREF, &[RefNull]),
        (ValType::EXNREF, &[RefNull]),
        (ValType::nullable(HeapType::None), &[RefNull]),
        (null_or(func_ref(TAKES_I32)), &[RefNull]),
        (ValType::FUNCREF, &[RefFunc(F_TAKES_I32)]),
        (ValType::non_null(HeapType::Func), &[RefFunc(F_NOTHING)]),
        (func_ref(TAKES_I32), &[RefFunc(F_TAKES_I32)]),
        // Equal types with different indices.
        (func_ref(NOTHING), &[RefFunc(F_NOTHING_AGAIN)]),
        (null_or(func_ref(NOTHING_AGAIN)), &[RefFunc(F_NOTHING)]),
        (ValType::non_null(HeapType::I31), &[I32(1), RefI31]),
        (ValType::nullable(HeapType::Eq), &[I32(1), RefI31]),
        (struct_ref(BASE), &[I32(1), I32(2), StructNew(BASE)]),
        (
            struct_ref(BASE),
            &[I32(1), I32(2), StructNewDefault(BASE), StructNew(DERIVED)],
        ),
        (any, &[StructNewDefault(BASE)]),
        (array_ref(ANYS), &[RefNull, I32(7), ArrayNew(ANYS)]),
        (
            array_ref(ANYS),
            &[
                StructNewDefault(BASE),
                I32(7),
                RefI31,
                ArrayNewFixed(ANYS, 2),
            ],
        ),
        (array_ref(ANYS), &[ArrayNewFixed(ANYS, 0)]),
        (
            ValType::nullable(HeapType::Array),
            &[I32(7), ArrayNewDefault(ANYS)],
        ),
        (
            array_ref(NUMBERS),
            &[I32(1), RefI31, I32(7), ArrayNew(NUMBERS)],
        ),
        (any, &[GlobalGet(G_EXTERN), AnyConvertExtern]),
        (
            ValType::EXTERNREF,
            &[RefNull, AnyConvertExtern, ExternConvertAny],
        ),
        (
            ValType::non_null(HeapType::Extern),
            &[I32(1), RefI31, ExternConvertAny],
        ),
    ];
    for (wanted, ops) in values {
        println!("{wanted} {ops:?}");
        accept(global(wanted, ops));
    }
}

#[test]
fn constants_of_another_type_are_refused() {
    let non_null = ValType::non_null;
    let values: [(ValType, &[ConstOp], &str); 44] = [
        // An address of the host as a number.
        (
            ValType::I64,
            &[RefFunc(F_NOTHING)],
            "value of a global: (ref 1), expected i64",
        ),
        (ValType::I32, &[RefFunc(F_NOTHING)], "(ref 1), expected i32"),
        (ValType::I64, &[RefNull], "null, expected i64"),
        (
            ValType::I64,
            &[GlobalGet(G_EXTERN)],
            "externref, expected i64",
        ),
        (
            ValType::I64,
            &[RefFunc(F_NOTHING), I64(0), I64Add],
            "operand of a constant",
        ),
        (
            ValType::I64,
            &[I64(0), RefFunc(F_NOTHING), I64Sub],
            "operand of a constant",
        ),
        (
            ValType::I64,
            &[RefNull, I64(1), I64Mul],
            "operand of a constant",
        ),
        // A forged reference.
        (ValType::FUNCREF, &[I64(4096)], "i64, expected funcref"),
        (
            ValType::FUNCREF,
            &[I64(1), I64(2), I64Add],
            "i64, expected funcref",
        ),
        (
            ValType::FUNCREF,
            &[GlobalGet(G_I32)],
            "i32, expected funcref",
        ),
        (ValType::EXTERNREF, &[I64(1)], "i64, expected externref"),
        (
            ValType::EXTERNREF,
            &[RefFunc(F_NOTHING)],
            "(ref 1), expected externref",
        ),
        (
            ValType::EXNREF,
            &[GlobalGet(G_EXTERN)],
            "externref, expected exnref",
        ),
        (ValType::ANYREF, &[I64(1)], "i64, expected anyref"),
        (
            ValType::ANYREF,
            &[GlobalGet(G_EXTERN)],
            "externref, expected anyref",
        ),
        (
            ValType::nullable(HeapType::NoFunc),
            &[RefFunc(F_NOTHING)],
            "expected nullfuncref",
        ),
        // Null, or a function of a wrong type.
        (func_ref(TAKES_I32), &[RefNull], "null, expected (ref 0)"),
        (
            non_null(HeapType::Extern),
            &[GlobalGet(G_EXTERN)],
            "externref, expected (ref extern)",
        ),
        (
            func_ref(TAKES_I32),
            &[RefFunc(F_NOTHING)],
            "(ref 1), expected (ref 0)",
        ),
        (
            null_or(func_ref(NOTHING)),
            &[RefFunc(F_TAKES_I32)],
            "(ref 0), expected (ref null 1)",
        ),
        // Numbers of a wrong width.
        (ValType::I64, &[I32(1)], "i32, expected i64"),
        (ValType::F32, &[I32(1)], "i32, expected f32"),
        (ValType::F64, &[V128([0; 16])], "v128, expected f64"),
        (
            ValType::I32,
            &[I32(1), I64(1), I32Add],
            "operand of a constant: i64, expected i32",
        ),
        // Expressions that do not result in exactly one value.
        (ValType::I32, &[], "it gives 0 values, expected 1"),
        (
            ValType::I32,
            &[I32(1), I32(2)],
            "it gives 2 values, expected 1",
        ),
        (
            ValType::I32,
            &[I32(1), I32Mul],
            "operand of a constant: missing, expected i32",
        ),
        // Globals.
        (ValType::I64, &[GlobalGet(G_MUTABLE)], "global 1 is mutable"),
        (ValType::I32, &[GlobalGet(GLOBALS)], "index 3, there are 3"),
        // Structs and arrays.
        (
            ValType::ANYREF,
            &[I64(1), RefI31],
            "operand of a constant: i64, expected i32",
        ),
        (
            struct_ref(DERIVED),
            &[StructNewDefault(BASE)],
            "(ref 2), expected (ref 3)",
        ),
        (
            struct_ref(BASE),
            &[StructNewDefault(DERIVED)],
            "without a default",
        ),
        (
            struct_ref(BASE),
            &[I32(1), StructNew(BASE)],
            "missing, expected i32",
        ),
        (
            struct_ref(BASE),
            &[I32(1), I64(2), StructNew(BASE)],
            "i64, expected i32",
        ),
        (
            struct_ref(BASE),
            &[I32(1), I32(2), RefNull, StructNew(DERIVED)],
            "null, expected",
        ),
        (
            array_ref(ANYS),
            &[RefNull, I64(1), ArrayNew(ANYS)],
            "i64, expected i32",
        ),
        (
            array_ref(ANYS),
            &[I64(9), I32(1), ArrayNew(ANYS)],
            "i64, expected anyref",
        ),
        (
            array_ref(ANYS),
            &[I64(9), ArrayNewFixed(ANYS, 1)],
            "i64, expected anyref",
        ),
        (
            array_ref(ANYS),
            &[ArrayNewFixed(ANYS, u32::MAX)],
            "missing, expected anyref",
        ),
        (
            array_ref(ANYS),
            &[I64(1), ArrayNewDefault(ANYS)],
            "i64, expected i32",
        ),
        (
            array_ref(NUMBERS),
            &[I32(1), ArrayNewDefault(NUMBERS)],
            "without a default",
        ),
        (
            array_ref(NUMBERS),
            &[RefNull, ArrayNewFixed(NUMBERS, 1)],
            "null, expected (ref i31)",
        ),
        (
            ValType::ANYREF,
            &[I64(1), AnyConvertExtern],
            "i64, expected externref",
        ),
        (
            non_null(HeapType::Any),
            &[GlobalGet(G_EXTERN), AnyConvertExtern],
            "anyref, expected (ref any)",
        ),
    ];
    for (wanted, ops, mention) in values {
        refuse(mention, global(wanted, ops));
    }
    refuse(
        "i64, expected anyref",
        global(ValType::ANYREF, &[I64(1), ExternConvertAny]),
    );
}

/// The runtime evaluates a global before the globals that follow it.
#[test]
fn constants_use_only_globals_that_have_their_values() {
    let get = |index| vec![GlobalGet(index)];
    let two = |m: &mut Metadata, first: Vec<ConstOp>, second: Vec<ConstOp>| {
        global(ValType::I32, &first)(m);
        global(ValType::I32, &second)(m);
    };
    accept(|m| two(m, get(G_I32), get(GLOBALS)));
    refuse("index 3, there are 3", |m| two(m, get(GLOBALS), get(G_I32)));
    refuse("index 4, there are 3", |m| {
        two(m, get(GLOBALS + 1), get(G_I32));
    });
    // The runtime initialises tables and segments after all globals.
    let function = func_ref(NOTHING);
    accept(|m| {
        m.tables.push(table(function, AddrType::I32));
        m.table_inits.push(Some(expr(&get(GLOBALS))));
        global(function, &[RefFunc(F_NOTHING)])(m);
        active(3, exprs(&[&get(GLOBALS)]))(m);
    });
}

#[test]
fn values_of_tables_have_their_type() {
    let non_null = |init: Option<ConstExpr>| {
        |m: &mut Metadata| {
            m.tables.push(table(func_ref(NOTHING), AddrType::I32));
            m.table_inits.push(init);
        }
    };
    accept(non_null(Some(expr(&[RefFunc(F_NOTHING_AGAIN)]))));
    refuse("value of a table: null, expected (ref 1)", non_null(None));
    refuse("value of a table: null", non_null(Some(expr(&[RefNull]))));
    refuse(
        "value of a table: (ref 0)",
        non_null(Some(expr(&[RefFunc(F_TAKES_I32)]))),
    );
    refuse("value of a table: i64", |m| {
        m.table_inits[0] = Some(expr(&[I64(1)]));
    });
    refuse("its elements are i64", |m| {
        m.tables[0].element = ValType::I64;
    });
}

#[test]
fn items_of_active_segments_have_the_type_of_their_table() {
    accept(active(0, funcs(&[F_TAKES_I32, F_NOTHING])));
    accept(active(1, funcs(&[F_NOTHING, F_NOTHING_AGAIN])));
    accept(active(1, exprs(&[&[RefNull], &[RefFunc(F_NOTHING)]])));
    accept(active(
        2,
        exprs(&[&[RefNull], &[I32(1), RefI31], &[StructNewDefault(BASE)]]),
    ));
    refuse(
        "element segment: (ref 0), expected (ref null 1)",
        active(1, funcs(&[F_TAKES_I32])),
    );
    refuse(
        "(ref 0), expected (ref null 1)",
        active(1, funcs(&[F_NOTHING, F_TAKES_I32])),
    );
    refuse("(ref 1), expected anyref", active(2, funcs(&[F_NOTHING])));
    refuse("no reference", active(0, funcs(&[0])));
    refuse(
        "element segment: i64, expected funcref",
        active(0, exprs(&[&[I64(1)]])),
    );
    refuse(
        "(ref 0), expected",
        active(1, exprs(&[&[RefNull], &[RefFunc(F_TAKES_I32)]])),
    );
    refuse(
        "(ref i31), expected funcref",
        active(0, exprs(&[&[I32(1), RefI31]])),
    );
    refuse("null, expected (ref 1)", |m| {
        m.tables[1].element = func_ref(NOTHING);
        m.table_inits[1] = Some(expr(&[RefFunc(F_NOTHING)]));
        active(1, exprs(&[&[RefNull]]))(m);
    });
}

#[test]
fn items_of_other_segments_are_references_of_one_hierarchy() {
    let functions: &[&[ConstOp]] = &[&[RefNull], &[RefFunc(F_NOTHING)], &[RefFunc(F_TAKES_I32)]];
    accept(passive(exprs(functions)));
    accept(passive(exprs(&[&[GlobalGet(G_EXTERN)], &[RefNull]])));
    refuse("i64, expected a reference", passive(exprs(&[&[I64(1)]])));
    refuse(
        "i64, expected funcref",
        passive(exprs(&[&[RefFunc(F_NOTHING)], &[I64(1)]])),
    );
    refuse(
        "externref, expected funcref",
        passive(exprs(&[&[RefFunc(F_NOTHING)], &[GlobalGet(G_EXTERN)]])),
    );
    refuse("element segment: i64", |m| {
        passive(exprs(&[&[RefNull], &[I64(1), I64(2), I64Add]]))(m);
        m.elements[0].mode = SegmentMode::Done;
    });
}

/// The verifier calls `elements_match` for each instruction that reads a segment.
#[test]
fn segments_are_compared_with_the_types_that_instructions_want() {
    let mut m = typed();
    passive(funcs(&[F_NOTHING, F_NOTHING_AGAIN]))(&mut m);
    passive(exprs(&[&[RefNull], &[RefFunc(F_TAKES_I32)]]))(&mut m);
    passive(exprs(&[&[RefNull]]))(&mut m);
    let subtypes = m.subtypes();
    let matches = |segment, wanted| m.elements_match(segment, wanted, &subtypes);
    assert!(matches(0, func_ref(NOTHING)));
    assert!(matches(0, ValType::FUNCREF));
    assert!(!matches(0, func_ref(TAKES_I32)));
    assert!(!matches(0, ValType::EXTERNREF));
    assert!(matches(1, null_or(func_ref(TAKES_I32))));
    assert!(!matches(1, func_ref(TAKES_I32)), "null");
    assert!(!matches(1, null_or(func_ref(NOTHING))));
    assert!(matches(2, ValType::EXTERNREF));
    assert!(matches(2, null_or(struct_ref(BASE))));
    assert!(!matches(2, struct_ref(BASE)));
    assert!(!matches(3, ValType::FUNCREF), "there is no such segment");
}

#[test]
fn offsets_have_the_type_of_the_addresses() {
    let elements = |index, ops: &[ConstOp]| {
        let offset = expr(ops);
        move |m: &mut Metadata| {
            m.elements.push(ElementSegment {
                mode: SegmentMode::Active { index, offset },
                items: funcs(&[]),
            });
        }
    };
    let data = |index, ops: &[ConstOp]| {
        let offset = expr(ops);
        move |m: &mut Metadata| {
            m.data.push(DataSegment {
                mode: SegmentMode::Active { index, offset },
                start: 0,
                len: 0,
            });
        }
    };
    accept(elements(0, &[GlobalGet(G_I32), I32(1), I32Add]));
    accept(elements(1, &[I64(1)]));
    accept(data(0, &[GlobalGet(G_I32)]));
    accept(data(1, &[I64(1), I64(1), I64Add]));
    refuse(
        "offset of a segment: i64, expected i32",
        elements(0, &[I64(1)]),
    );
    refuse(
        "offset of a segment: i32, expected i64",
        elements(1, &[I32(1)]),
    );
    refuse("offset of a segment: i64, expected i32", data(0, &[I64(1)]));
    refuse("offset of a segment: i32, expected i64", data(1, &[I32(1)]));
    refuse(
        "offset of a segment: (ref 1)",
        data(1, &[RefFunc(F_NOTHING)]),
    );
    refuse("target of a data segment", data(2, &[I32(1)]));
    refuse("target of an element segment", elements(3, &[I32(1)]));
}
