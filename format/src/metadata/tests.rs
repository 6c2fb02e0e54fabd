//! Tests of the encoding and of the check of the metadata.

use super::*;
use crate::types::{AddrType, HeapType, PageSize, StorageType, TableType, ValType};

const fn func(index: u32) -> HeapType {
    HeapType::Concrete(CompositeKind::Func, index)
}

/// A function type that returns a reference to `heap`.
fn func_of(heap: HeapType) -> SubType {
    SubType::alone(CompositeType::Func(FuncType {
        params: vec![],
        results: vec![ValType::nullable(heap)],
    }))
}

fn func_with(params: usize, results: usize) -> SubType {
    SubType::alone(CompositeType::Func(FuncType {
        params: vec![ValType::I32; params],
        results: vec![ValType::I32; results],
    }))
}

fn of_fields(storages: &[StorageType]) -> CompositeType {
    let field = |storage: &StorageType| FieldType {
        storage: *storage,
        mutable: false,
    };
    CompositeType::Struct(storages.iter().map(field).collect())
}

/// Metadata with a struct type and a subtype of it, changed by the caller.
fn several(m: &mut Metadata, change: impl FnOnce(&mut Vec<SubType>)) {
    for supertype in [None, Some(1)] {
        m.types.push(SubType {
            is_final: false,
            supertype,
            composite: of_fields(&[StorageType::I8]),
        });
    }
    change(&mut m.types);
    m.entries.resize(m.types.len(), None);
}

#[test]
fn functions_with_the_most_values_are_sound() {
    let mut m = small();
    several(&mut m, |types| types.push(func_with(1000, 1000)));
    assert_eq!(Metadata::decode(&m.encode().unwrap()), Ok(m));
}

#[test]
fn types_with_supertypes_are_sound() {
    let mut m = small();
    several(&mut m, |types| {
        let last = types.last().cloned().unwrap();
        types.extend((types.len() as u32..65).map(|at| SubType {
            supertype: Some(at - 1),
            ..last.clone()
        }));
    });
    assert_eq!(m.depth(64), 63);
    assert_eq!(Metadata::decode(&m.encode().unwrap()), Ok(m));
}

fn small() -> Metadata {
    let ty = FuncType {
        params: vec![ValType::I32],
        results: vec![ValType::I64],
    };
    let global = GlobalType {
        content: ValType::I32,
        mutable: true,
    };
    Metadata {
        types: vec![SubType::alone(CompositeType::Func(ty))],
        imports: vec![Import {
            module: "a".into(),
            name: "b".into(),
            ty: ExternType::Func(0),
        }],
        exports: vec![Export {
            name: "run".into(),
            item: ExportItem::Func(1),
        }],
        funcs: vec![0, 0],
        tables: vec![TableType {
            element: ValType::nullable(func(0)),
            address: AddrType::I64,
            min: 1,
            max: None,
        }],
        table_inits: vec![Some(ConstExpr(vec![ConstOp::RefFunc(1)]))],
        globals: vec![global],
        global_inits: vec![ConstExpr(vec![ConstOp::I32(-1)])],
        address_taken: vec![1],
        code: vec![0, 32],
        entries: vec![Some(64)],
        fuel: true,
        func_names: vec![(1, "run_it".into())],
        ..Metadata::default()
    }
}

#[test]
fn what_was_encoded_is_decoded() {
    let m = small();
    assert_eq!(Metadata::decode(&m.encode().unwrap()), Ok(m));
}

#[test]
fn every_truncation_is_refused() {
    let bytes = small().encode().unwrap();
    for len in 0..bytes.len() {
        assert!(
            Metadata::decode(&bytes[..len]).is_err(),
            "{len} of {} bytes",
            bytes.len()
        );
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(Metadata::decode(&longer).is_err());
}

#[test]
fn no_changed_byte_makes_the_decoder_panic() {
    let bytes = small().encode().unwrap();
    // Miri takes 15 ms for each byte value.
    let step = if cfg!(miri) { 51 } else { 1 };
    for at in 0..bytes.len() {
        for value in (0..=255).step_by(step) {
            let mut changed = bytes.clone();
            changed[at] = value;
            // An error, or a value whose every index is in range: both are correct here.
            let _ = Metadata::decode(&changed);
        }
    }
}

/// A change that makes valid metadata invalid, and the text that the error must contain.
type Damage = (fn(&mut Metadata), &'static str);

#[test]
fn every_index_out_of_range_is_refused_by_name() {
    let damages: &[Damage] = &[
        (|m| m.funcs[1] = 1, "type of a function"),
        (|m| m.code.clear(), "code offsets"),
        (|m| m.entries.clear(), "entry trampolines"),
        (|m| m.entries[0] = None, "entry trampoline"),
        (|m| m.global_inits.clear(), "global values"),
        (|m| m.table_inits.clear(), "table values"),
        (|m| m.table_inits.push(None), "table values"),
        (
            |m| m.table_inits[0] = Some(ConstExpr(vec![ConstOp::RefFunc(0)])),
            "referred function",
        ),
        (
            |m| m.tables[0].element = ValType::non_null(func(1)),
            "type of a reference",
        ),
        (
            |m| m.globals[0].content = ValType::nullable(func(1)),
            "type of a reference",
        ),
        // A type names only earlier types and types of its group.
        (|m| m.types[0] = func_of(func(1)), "type of a reference"),
        (
            |m| m.types[0] = func_of(HeapType::Concrete(CompositeKind::Array, 0)),
            "another kind",
        ),
        (|m| m.groups.0.push((0, 2)), "groups of types"),
        (|m| m.groups.0.push((1, 1)), "groups of types"),
        (|m| m.types[0].supertype = Some(0), "supertype"),
        (
            |m| m.types[0].composite = CompositeType::Struct(vec![]),
            "another kind",
        ),
        (
            |m| several(m, |types| types[1].is_final = true),
            "supertype",
        ),
        (
            |m| several(m, |types| types[1].supertype = Some(2)),
            "supertype",
        ),
        (
            |m| several(m, |types| types[2].supertype = Some(0)),
            "supertype",
        ),
        (
            |m| {
                several(m, |types| {
                    types[2].composite = CompositeType::Struct(vec![]);
                });
            },
            "supertype",
        ),
        (
            |m| {
                several(m, |types| {
                    types[2].composite = of_fields(&[StorageType::I16]);
                });
            },
            "supertype",
        ),
        (
            |m| {
                several(m, |types| {
                    types[2].composite = of_fields(&[StorageType::I8; 10_001]);
                });
            },
            "10001, the limit is 10000",
        ),
        (
            |m| several(m, |types| types.push(func_with(1001, 0))),
            "parameters: 1001, the limit is 1000",
        ),
        (
            |m| several(m, |types| types.push(func_with(0, 1001))),
            "results: 1001, the limit is 1000",
        ),
        (
            |m| {
                several(m, |types| {
                    let last = types.last().cloned().unwrap();
                    types.extend((types.len() as u32..66).map(|at| SubType {
                        supertype: Some(at - 1),
                        ..last.clone()
                    }));
                });
            },
            "a type has 64, the limit is 63",
        ),
        (
            |m| m.global_inits[0] = ConstExpr(vec![ConstOp::StructNew(0)]),
            "the module has no heap",
        ),
        (
            |m| {
                m.heap = true;
                m.global_inits[0] = ConstExpr(vec![ConstOp::StructNew(0)]);
            },
            "struct of a constant",
        ),
        (
            |m| {
                m.heap = true;
                m.global_inits[0] = ConstExpr(vec![ConstOp::ArrayNewFixed(1, 0)]);
            },
            "array of a constant",
        ),
        (
            |m| {
                m.memories.push(MemoryType {
                    address: AddrType::I32,
                    page: PageSize::Large,
                    min: 0,
                    max: None,
                    shared: true,
                });
            },
            "shared memory",
        ),
        (|m| m.address_taken = vec![2], "function"),
        (|m| m.address_taken = vec![1, 1], "not ascending"),
        (|m| m.address_taken = vec![0], "no reference"),
        (|m| m.start = Some(2), "function"),
        (
            |m| m.exports[0].item = ExportItem::Memory(0),
            "exported memory",
        ),
        (
            |m| m.exports[0].item = ExportItem::Table(0),
            "constant tables",
        ),
        (|m| m.imports[0].ty = ExternType::Func(7), "import"),
        (
            |m| {
                m.imports[0].ty = ExternType::Memory(MemoryType {
                    address: AddrType::I32,
                    page: PageSize::Large,
                    min: 0,
                    max: None,
                    shared: false,
                });
            },
            "import",
        ),
        (
            |m| m.global_inits[0] = ConstExpr(vec![ConstOp::GlobalGet(1)]),
            "global of a constant",
        ),
        (
            |m| m.global_inits[0] = ConstExpr(vec![ConstOp::RefFunc(0)]),
            "no reference",
        ),
        (
            |m| {
                m.data = vec![DataSegment {
                    mode: SegmentMode::Passive,
                    start: 1,
                    len: u32::MAX,
                }];
            },
            "4 GiB",
        ),
        (
            |m| {
                let offset = ConstExpr(vec![ConstOp::I32(0)]);
                let mode = SegmentMode::Active { index: 0, offset };
                m.data = vec![DataSegment {
                    mode,
                    start: 0,
                    len: 0,
                }];
            },
            "data segment",
        ),
    ];
    for (damage, mention) in damages {
        let mut m = small();
        damage(&mut m);
        let error = Metadata::decode(&m.encode().unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(mention),
            "{error:?} does not mention {mention:?}"
        );
    }
}

#[test]
fn a_function_is_named_by_the_name_section_first() {
    let mut m = small();
    assert_eq!(m.func_name(1), Some("run_it"));
    m.func_names.clear();
    assert_eq!(m.func_name(1), Some("run"));
    assert_eq!(m.func_name(0), None);
}
