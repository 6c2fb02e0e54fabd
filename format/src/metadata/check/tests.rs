//! Tests for the checks of types, sizes and initial values.

use crate::metadata::{
    ConstExpr, ConstOp, Element, Export, ExportItem, Import, Metadata, Snapshot,
};
use crate::types::{
    AddrType, CompositeKind, CompositeType, ExternType, FieldType, FuncType, GlobalType, HeapType,
    MemoryType, PageSize, StorageType, SubType, TableType, ValType,
};
use ConstOp::{I32, RefI31};

/// Index of each type of [`typed`].
pub(super) const TAKES_I32: u32 = 0;
pub(super) const NOTHING: u32 = 1;
pub(super) const BASE: u32 = 2;
pub(super) const DERIVED: u32 = 3;
pub(super) const ANYS: u32 = 4;
pub(super) const NUMBERS: u32 = 5;
/// A type that is equal to [`NOTHING`].
pub(super) const NOTHING_AGAIN: u32 = 6;

/// Functions of these types.
pub(super) const F_TAKES_I32: u32 = 1;
pub(super) const F_NOTHING: u32 = 2;
pub(super) const F_NOTHING_AGAIN: u32 = 3;

/// Imported globals.
pub(super) const G_I32: u32 = 0;
pub(super) const G_MUTABLE: u32 = 1;
pub(super) const G_EXTERN: u32 = 2;
pub(super) const GLOBALS: u32 = 3;

pub(super) const fn concrete(kind: CompositeKind, index: u32) -> HeapType {
    HeapType::Concrete(kind, index)
}

pub(super) const fn func_ref(index: u32) -> ValType {
    ValType::non_null(concrete(CompositeKind::Func, index))
}

pub(super) const fn struct_ref(index: u32) -> ValType {
    ValType::non_null(concrete(CompositeKind::Struct, index))
}

pub(super) const fn array_ref(index: u32) -> ValType {
    ValType::non_null(concrete(CompositeKind::Array, index))
}

pub(super) const fn null_or(ty: ValType) -> ValType {
    match ty {
        ValType::Ref(ty) => ValType::nullable(ty.heap),
        other => other,
    }
}

pub(super) fn func(params: &[ValType], results: &[ValType]) -> SubType {
    SubType::alone(CompositeType::Func(FuncType {
        params: params.to_vec(),
        results: results.to_vec(),
    }))
}

pub(super) const fn immutable(storage: StorageType) -> FieldType {
    let mutable = false;
    FieldType { storage, mutable }
}

pub(super) const fn table(element: ValType, address: AddrType) -> TableType {
    TableType {
        element,
        address,
        min: 1,
        max: None,
    }
}

pub(super) const fn memory(address: AddrType) -> MemoryType {
    MemoryType {
        address,
        page: PageSize::Large,
        min: 1,
        max: Some(2),
        shared: false,
    }
}

/// Metadata with functions, structs and arrays, an import of each kind of global, and tables of
/// functions, of functions without parameters, and of any references.
pub(super) fn typed() -> Metadata {
    let i32 = StorageType::Val(ValType::I32);
    let base = vec![immutable(StorageType::I8), immutable(i32)];
    let mut derived = base.clone();
    derived.push(immutable(StorageType::Val(struct_ref(BASE))));
    let globals = [
        (ValType::I32, false),
        (ValType::I64, true),
        (ValType::EXTERNREF, false),
    ];
    let globals = globals.map(|(content, mutable)| GlobalType { content, mutable });
    let import = |ty: &GlobalType| Import {
        module: "m".into(),
        name: "g".into(),
        ty: ExternType::Global(*ty),
    };
    let func_import = Import {
        ty: ExternType::Func(TAKES_I32),
        ..import(&globals[0])
    };
    let types = vec![
        func(&[ValType::I32], &[ValType::I64]),
        func(&[], &[]),
        SubType {
            is_final: false,
            supertype: None,
            composite: CompositeType::Struct(base),
        },
        SubType {
            is_final: false,
            supertype: Some(BASE),
            composite: CompositeType::Struct(derived),
        },
        SubType::alone(CompositeType::Array(immutable(StorageType::Val(
            ValType::ANYREF,
        )))),
        SubType::alone(CompositeType::Array(immutable(StorageType::Val(
            ValType::non_null(HeapType::I31),
        )))),
        func(&[], &[]),
    ];
    let entries = types
        .iter()
        .map(|ty| (ty.kind() == CompositeKind::Func).then_some(64));
    Metadata {
        entries: entries.collect(),
        types,
        imports: [func_import]
            .into_iter()
            .chain(globals.iter().map(import))
            .collect(),
        globals: globals.to_vec(),
        funcs: vec![TAKES_I32, TAKES_I32, NOTHING, NOTHING_AGAIN],
        code: vec![0; 4],
        address_taken: vec![F_TAKES_I32, F_NOTHING, F_NOTHING_AGAIN],
        tables: vec![
            table(ValType::FUNCREF, AddrType::I32),
            table(null_or(func_ref(NOTHING)), AddrType::I64),
            table(ValType::ANYREF, AddrType::I32),
        ],
        table_inits: vec![None; 3],
        memories: vec![memory(AddrType::I32), memory(AddrType::I64)],
        start: Some(F_NOTHING),
        heap: true,
        ..Metadata::default()
    }
}

/// Encodes and decodes metadata. Returns the error's text.
pub(super) fn decoded(m: &Metadata) -> Result<(), String> {
    let bytes = m.encode().map_err(|error| error.to_string())?;
    match Metadata::decode(&bytes) {
        Ok(found) => {
            assert_eq!(found, *m);
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

#[track_caller]
pub(super) fn accept(change: impl FnOnce(&mut Metadata)) {
    let mut m = typed();
    change(&mut m);
    assert_eq!(decoded(&m), Ok(()));
}

/// The text of the error must contain `mention`.
#[track_caller]
pub(super) fn refuse(mention: &str, change: impl FnOnce(&mut Metadata)) {
    let mut m = typed();
    change(&mut m);
    let error = decoded(&m).expect_err(mention);
    assert!(
        error.contains(mention),
        "{error:?} does not mention {mention:?}"
    );
}

pub(super) fn expr(ops: &[ConstOp]) -> ConstExpr {
    ConstExpr(ops.to_vec())
}

/// Adds a global with an initial value.
pub(super) fn global(content: ValType, ops: &[ConstOp]) -> impl FnOnce(&mut Metadata) {
    move |m| {
        let mutable = false;
        m.globals.push(GlobalType { content, mutable });
        m.global_inits.push(expr(ops));
    }
}

#[test]
fn subtypes_match_their_supertypes() {
    /// Makes type 2 open, with the first structure, and type 3 a subtype of type 2, with the second
    /// structure.
    fn declare(above: CompositeType, below: CompositeType) -> impl FnOnce(&mut Metadata) {
        |m| {
            m.types[BASE as usize].composite = above;
            m.types[DERIVED as usize].composite = below;
        }
    }
    let func = |params: &[ValType], results: &[ValType]| func(params, results).composite;
    let array = |ty, mutable| {
        let storage = StorageType::Val(ty);
        CompositeType::Array(FieldType { storage, mutable })
    };
    let mentions = "type 3 does not match type 2";
    let (any, eq) = (ValType::ANYREF, ValType::nullable(HeapType::Eq));
    accept(declare(func(&[eq], &[any]), func(&[any], &[eq])));
    accept(declare(
        func(&[func_ref(NOTHING)], &[]),
        func(&[ValType::FUNCREF], &[]),
    ));
    accept(declare(array(any, false), array(eq, false)));
    accept(declare(array(any, true), array(any, true)));
    refuse(mentions, declare(func(&[any], &[]), func(&[eq], &[])));
    refuse(mentions, declare(func(&[], &[eq]), func(&[], &[any])));
    refuse(
        mentions,
        declare(func(&[], &[ValType::I64]), func(&[], &[ValType::EXTERNREF])),
    );
    refuse(
        mentions,
        declare(func(&[ValType::EXTERNREF], &[]), func(&[ValType::I64], &[])),
    );
    refuse(mentions, declare(array(any, true), array(eq, true)));
    refuse(mentions, declare(array(any, false), array(any, true)));
    refuse(
        mentions,
        declare(array(ValType::I64, false), array(any, false)),
    );
    refuse(mentions, declare(array(any, false), func(&[], &[])));
}

/// Two types of a recursion group refer to each other. Another group has the same structure.
#[test]
fn subtypes_may_refer_to_their_own_group() {
    let node = |to: u32, supertype: Option<u32>| SubType {
        is_final: false,
        supertype,
        composite: CompositeType::Struct(vec![immutable(StorageType::Val(struct_ref(to)))]),
    };
    let groups = |to: u32| {
        move |m: &mut Metadata| {
            // Types 7 and 8 are a group, and so are 9 and 10. Type 11 is a subtype of type 7.
            let types = [node(8, None), node(7, None), node(10, None), node(9, None)];
            m.types.extend(types);
            m.types.push(node(to, Some(7)));
            m.groups.0 = vec![(7, 2), (9, 2)];
            m.entries.resize(m.types.len(), None);
        }
    };
    accept(groups(8));
    accept(groups(10));
    refuse("type 11 does not match type 7", groups(7));
    refuse("type 11 does not match type 7", groups(9));
}

#[test]
fn the_start_function_takes_and_gives_nothing() {
    accept(|m| m.start = Some(F_NOTHING_AGAIN));
    refuse("start function: it is (i32) -> i64", |m| {
        m.start = Some(F_TAKES_I32);
    });
    refuse("no reference", |m| m.start = Some(0));
    refuse("start function: it is () -> i32", |m| {
        m.types[NOTHING as usize] = func(&[], &[ValType::I32]);
    });
}

#[test]
fn sizes_are_within_what_addresses_reach() {
    fn memory(
        address: AddrType,
        page: PageSize,
        min: u64,
        max: Option<u64>,
    ) -> impl FnOnce(&mut Metadata) {
        move |m| {
            m.memories[0] = MemoryType {
                address,
                page,
                min,
                max,
                shared: false,
            };
        }
    }
    use AddrType::{I32, I64};
    use PageSize::{Byte, Large};
    accept(memory(I32, Large, 1 << 16, None));
    accept(memory(I32, Byte, 0, Some(u64::from(u32::MAX))));
    accept(memory(I64, Large, 0, Some(1 << 48)));
    accept(memory(I64, Byte, 0, Some(u64::MAX)));
    refuse(
        "its addresses allow 65536",
        memory(I32, Large, (1 << 16) + 1, None),
    );
    refuse(
        "its addresses allow 65536",
        memory(I32, Large, 0, Some((1 << 16) + 1)),
    );
    refuse(
        "its addresses allow 4294967295",
        memory(I32, Byte, 1 << 32, None),
    );
    refuse(
        "its addresses allow 281474976710656",
        memory(I64, Large, 0, Some((1 << 48) + 1)),
    );
    refuse("exceeds its maximum", memory(I32, Large, 2, Some(1)));
    accept(|m| m.tables[0].max = Some(u64::from(u32::MAX)));
    accept(|m| m.tables[1].max = Some(u64::MAX));
    refuse("its addresses allow 4294967295", |m| {
        m.tables[0].min = 1 << 32;
    });
    refuse("its addresses allow 4294967295", |m| {
        m.tables[0].max = Some(1 << 32);
    });
    refuse("exceeds its maximum", |m| m.tables[1].max = Some(0));
}

#[test]
fn functions_tags_and_exports_are_compared_with_their_types() {
    refuse("type of an entry trampoline", |m| {
        m.entries[BASE as usize] = Some(64);
    });
    refuse("it has no entry trampoline", |m| {
        m.entries[NOTHING as usize] = None;
    });
    accept(|m| m.tags.push(NOTHING));
    refuse("type of a tag: it has results", |m| m.tags.push(TAKES_I32));
    let export = |name: &str| Export {
        name: name.into(),
        item: ExportItem::Memory(0),
    };
    accept(|m| m.exports = vec![export("a"), export("b")]);
    refuse("exports: two have the same name", |m| {
        m.exports = vec![export("a"), export("b"), export("a")];
    });
}

/// Each table of a snapshot has exactly as many elements as its size. The check treats a snapshot's
/// globals like other constants.
#[test]
fn values_of_snapshots_have_the_type_of_their_place() {
    fn elements(at: usize, elements: &[Element]) -> impl FnOnce(&mut Metadata) {
        move |m| {
            m.start = None;
            let mut tables = vec![vec![]; m.tables.len()];
            tables[at] = elements.to_vec();
            m.tables[at].min = elements.len() as u64;
            m.snapshot = Some(Snapshot {
                of: [0; 32],
                made_by: vec![],
                tables,
                further: vec![vec![]],
            });
        }
    }
    use Element::{Func, I31, Null};
    let non_null = |element, change: Vec<Element>| {
        move |m: &mut Metadata| {
            m.tables[1].element = element;
            elements(1, &change)(m);
        }
    };
    accept(elements(0, &[Func(F_TAKES_I32), Null, Func(F_NOTHING)]));
    accept(elements(1, &[Null, Func(F_NOTHING_AGAIN)]));
    accept(elements(2, &[I31(-1), Null]));
    accept(non_null(func_ref(NOTHING), vec![Func(F_NOTHING)]));
    accept(|m| {
        elements(0, &[])(m);
        global(ValType::nullable(HeapType::Eq), &[I32(1), RefI31])(m);
    });
    refuse(
        "an element is (ref 0), expected (ref null 1)",
        elements(1, &[Func(F_TAKES_I32)]),
    );
    refuse(
        "an element is (ref i31), expected funcref",
        elements(0, &[I31(1)]),
    );
    refuse(
        "an element is (ref 1), expected anyref",
        elements(2, &[Func(F_NOTHING)]),
    );
    refuse("no reference", elements(0, &[Func(0)]));
    refuse(
        "an element is null",
        non_null(func_ref(NOTHING), vec![Null]),
    );
    refuse("an element is null", |m| {
        non_null(func_ref(NOTHING), vec![])(m);
        m.tables[1].min = 1;
    });
    let structs = ValType::nullable(HeapType::Struct);
    refuse(
        "an element is (ref i31), expected structref",
        non_null(structs, vec![I31(1)]),
    );
    refuse("i32, expected eqref", |m| {
        elements(0, &[])(m);
        global(ValType::nullable(HeapType::Eq), &[I32(1)])(m);
    });
}
