//! Snapshots: instances that begin with the state of another instance.

use crate::common;

mod crafted;
mod failing;
mod first;
mod mapped;
mod outside;
mod random;
mod refused;
mod saved;
mod tenants;

use common::values::{Lend as _, region};
use pirn_compiler::Options;
use pirn_runtime::{
    Group, Instance, LinkError, Linker, Module, Prepared, Region, TableError, Value,
};

/// A guest with state of every kind. `change(n)` changes all mutable state. `look` passes each
/// value that the guest can read to the host function `note`.
const GUEST: &str = r#"(module
  (import "host" "note" (func $note (param i64)))
  (memory (export "memory") 2 20)
  (memory $more (export "more") 1 20)
  (memory $tiny (export "tiny") 100 9000 (pagesize 1))
  (data (i32.const 100) "first page")
  (data (memory $more) (i32.const 60000) "more")
  (data $kept "kept") (data $gone "gone")
  (global $i32 (export "i32") (mut i32) (i32.const 1))
  (global $i64 (mut i64) (i64.const 2))
  (global $f32 (mut f32) (f32.const 3.5))
  (global $f64 (mut f64) (f64.const 4.5))
  (global $v128 (mut v128) (v128.const i64x2 5 6))
  (global $func (mut funcref) (ref.null func))
  (global $typed (mut (ref $get)) (ref.func $five))
  (global $i31 (mut anyref) (ref.null any))
  (global $constant i32 (i32.const 7))
  (type $get (func (result i32)))
  (table $t (export "table") 3 100 funcref)
  (table $a 2 50 anyref)
  (table $filled 4 (ref $get) (ref.func $five))
  (elem (i32.const 1) func $five)
  (elem $spare func $six $five) (elem $lost func $six)
  (func $five (type $get) (i32.const 5))
  (func $six (type $get) (i32.const 6))
  (start $begin)
  (func $begin (call $note (i64.const -1))
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))))

  (func (export "change") (param $n i32)
    (drop (memory.grow (i32.const 3)))
    (drop (memory.grow $more (i32.const 2)))
    (drop (memory.grow $tiny (i32.const 5001)))
    (memory.fill (i32.const 70000) (local.get $n) (i32.const 200))
    (i32.store8 (i32.const 300000) (local.get $n))
    (memory.fill $more (i32.const 131000) (local.get $n) (i32.const 200))
    (memory.fill $tiny (i32.const 5000) (local.get $n) (i32.const 101))
    (global.set $i32 (local.get $n))
    (global.set $i64 (i64.extend_i32_u (local.get $n)))
    (global.set $f32 (f32.convert_i32_s (local.get $n)))
    (global.set $f64 (f64.const -nan:0x4000000000001))
    (global.set $v128 (i8x16.splat (local.get $n)))
    (global.set $func (ref.func $six))
    (global.set $typed (ref.func $six))
    (global.set $i31 (ref.i31 (i32.sub (i32.const 0) (local.get $n))))
    (drop (table.grow $t (ref.func $six) (i32.const 2)))
    (table.set $t (i32.const 0) (ref.func $five))
    (table.set $t (i32.const 1) (ref.null func))
    (drop (table.grow $a (ref.i31 (local.get $n)) (i32.const 1)))
    (table.set $filled (i32.const 2) (ref.func $six))
    (data.drop $gone) (elem.drop $lost))

  (func $see (param i64) (call $note (local.get 0)))
  (func $call (param funcref) (result i64)
    (if (result i64) (ref.is_null (local.get 0))
      (then (i64.const -5))
      (else (i64.extend_i32_s (call_ref $get (ref.cast (ref $get) (local.get 0)))))))
  (func $number (param anyref) (result i64)
    (if (result i64) (ref.is_null (local.get 0))
      (then (i64.const -6))
      (else (i64.extend_i32_s (i31.get_s (ref.cast i31ref (local.get 0)))))))
  (func (export "look") (local $at i32)
    (call $see (i64.extend_i32_u (memory.size)))
    (call $see (i64.extend_i32_u (memory.size $more)))
    (call $see (i64.extend_i32_u (memory.size $tiny)))
    (call $see (i64.extend_i32_u (global.get $i32)))
    (call $see (global.get $i64))
    (call $see (i64.extend_i32_u (i32.reinterpret_f32 (global.get $f32))))
    (call $see (i64.reinterpret_f64 (global.get $f64)))
    (call $see (i64x2.extract_lane 0 (global.get $v128)))
    (call $see (i64x2.extract_lane 1 (global.get $v128)))
    (call $see (call $call (global.get $func)))
    (call $see (call $call (global.get $typed)))
    (call $see (call $number (global.get $i31)))
    (call $see (i64.extend_i32_u (global.get $constant)))
    (call $see (i64.extend_i32_u (table.size $t)))
    (loop $next
      (call $see (call $call (table.get $t (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $at) (table.size $t))))
    (local.set $at (i32.const 0))
    (call $see (i64.extend_i32_u (table.size $a)))
    (loop $next
      (call $see (call $number (table.get $a (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $at) (table.size $a))))
    (call $see (call $call (table.get $filled (i32.const 1))))
    (call $see (call $call (table.get $filled (i32.const 2))))
    (call $see (i64.load (i32.const 0)))
    (call $see (i64.load (i32.const 100)))
    (call $see (i64.load (i32.const 70192)))
    (call $see (i64.load $more (i32.const 60000)))
    (call $see (i64.load $tiny (i32.const 92))))

  (func (export "use kept segments")
    (memory.init $kept (i32.const 0) (i32.const 0) (i32.const 4))
    (table.init $t $spare (i32.const 0) (i32.const 0) (i32.const 2)))
  (func (export "use gone data") (memory.init $gone (i32.const 0) (i32.const 0) (i32.const 1)))
  (func (export "use gone elements")
    (table.init $t $lost (i32.const 0) (i32.const 0) (i32.const 1)))
  (func (export "use active data") (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1)))
  (func (export "five") (result i32) (call $five)))"#;

/// What the guest has told the host.
type Notes = Vec<i64>;

fn linker() -> Linker<Notes> {
    let mut linker = Linker::new();
    let note = |mut caller: pirn_runtime::Caller<'_, Notes>, n: i64| caller.data_mut().push(n);
    linker.func("host", "note", note).expect("the name is free");
    linker
}

/// A region with room for [`GUEST`].
fn wide_region(slots: u32) -> Region {
    let region = Region::builder().slots(slots).memories(4).tables(3);
    region.build().expect("the region is built")
}

fn prepare(region: &Region, module: &Module) -> Prepared<Notes> {
    region.prepare(module, &linker()).expect("it links")
}

fn fresh(prepared: &Prepared<Notes>) -> Instance<Notes> {
    prepared.try_instantiate(vec![]).expect("a slot is free")
}

fn run(instance: &mut Instance<Notes>, name: &str, params: &[Value]) {
    let done = instance.call_values(name, params);
    done.expect("the call returns");
}

/// A snapshot of an instance whose state has changed.
fn changed(module: &Module) -> Module {
    let mut instance = fresh(&prepare(&wide_region(1), module));
    run(&mut instance, "change", &[Value::I32(1)]);
    instance.snapshot().expect("it can be taken")
}

/// What the guest sees of its state, and the bytes of its memories.
fn look(instance: &mut Instance<Notes>) -> (Notes, [Vec<u8>; 3]) {
    instance.data_mut().clear();
    run(instance, "look", &[]);
    let memories = ["memory", "more", "tiny"].map(|name| {
        let memory = instance.exported_memory(name).expect("it is exported");
        memory
            .slice(0, memory.len() as u32)
            .expect("all of it")
            .to_vec()
    });
    (instance.data().clone(), memories)
}

#[test]
fn instances_of_a_snapshot_have_the_state_of_the_instance() {
    for options in common::values::levels() {
        let region = wide_region(2);
        let module = common::wat_with(GUEST, &options);
        let prepared = prepare(&region, &module);
        let mut instance = fresh(&prepared);
        assert_eq!(*instance.data(), [-1], "the start function has run");
        run(&mut instance, "change", &[Value::I32(0xa7)]);
        let wanted = look(&mut instance);
        let snapshot = instance.snapshot().expect("it can be taken");
        assert!(snapshot.is_snapshot() && !module.is_snapshot());
        assert_eq!(region.slots_free(), 2);
        drop((prepared, module));
        let prepared = prepare(&region, &snapshot);
        for round in 0..4 {
            let mut instance = fresh(&prepared);
            assert!(instance.data().is_empty(), "the start function runs again");
            assert_eq!(look(&mut instance), wanted, "{round}");
            // The next instance must find none of these changes.
            run(&mut instance, "change", &[Value::I32(round)]);
            run(&mut instance, "use kept segments", &[]);
            for gone in ["use gone data", "use gone elements", "use active data"] {
                let trapped = instance.call_values(gone, &[]);
                assert!(trapped.is_err(), "{gone}");
            }
        }
    }
}

#[test]
fn a_snapshot_of_a_snapshot_has_the_changes_of_both() {
    let region = wide_region(1);
    let mut module = common::wat(GUEST);
    let mut wanted = None;
    for n in [3, 5, 7] {
        let mut instance = fresh(&prepare(&region, &module));
        if let Some(wanted) = wanted {
            assert_eq!(look(&mut instance), wanted);
        }
        run(&mut instance, "change", &[Value::I32(n)]);
        wanted = Some(look(&mut instance));
        module = instance.snapshot().expect("it can be taken");
    }
    assert_eq!(Some(look(&mut fresh(&prepare(&region, &module)))), wanted);
}

/// The module of the first instance, its snapshot, and a second snapshot share their slots.
#[test]
fn modules_and_their_snapshots_take_turns_in_one_slot() {
    let region = wide_region(1);
    let module = common::wat(GUEST);
    let first = prepare(&region, &module);
    let before = look(&mut fresh(&first));
    let mut instance = fresh(&first);
    run(&mut instance, "change", &[Value::I32(1)]);
    let between = look(&mut instance);
    let second = prepare(&region, &instance.snapshot().expect("it can be taken"));
    let mut instance = fresh(&second);
    run(&mut instance, "change", &[Value::I32(2)]);
    let after = look(&mut instance);
    let third = prepare(&region, &instance.snapshot().expect("it can be taken"));
    for at in [0, 1, 2, 0, 2, 1, 1, 0] {
        let (prepared, wanted) = [(&first, &before), (&second, &between), (&third, &after)][at];
        let mut instance = fresh(prepared);
        assert_eq!(look(&mut instance), *wanted, "{at}");
        run(&mut instance, "change", &[Value::I32(99)]);
    }
}

/// A module without memories, tables and globals has a snapshot, too.
#[test]
fn a_module_without_state_has_a_snapshot() {
    let region = region(1);
    for text in [
        r#"(module (func (export "f") (result i32) (i32.const 5)))"#,
        r#"(module (memory 0) (table 0 funcref) (func (export "f") (result i32) (i32.const 5)))"#,
    ] {
        let module = common::wat(text);
        let instance = region
            .prepare(&module, &Linker::<()>::new())
            .expect("it links")
            .try_instantiate(());
        let snapshot = instance.expect("a slot is free").snapshot();
        let prepared = region.prepare(&snapshot.expect("it can be taken"), &Linker::<()>::new());
        let mut instance = prepared
            .expect("it links")
            .try_instantiate(())
            .expect("a slot is free");
        let result = common::values::number(instance.call_values("f", &[]));
        assert_eq!(result, 5);
    }
}

/// A constant table, and a large table that is written in chunks and ends with null elements.
#[test]
fn tables_of_all_sizes_are_restored() {
    let text = r#"(module
      (table $constant 10 funcref) (elem (i32.const 3) func $f)
      (table $large (export "large") 30000 40000 funcref)
      (func $f)
      (func (export "set") (param i32) (table.set $large (local.get 0) (ref.func $f)))
      (func (export "is") (param i32) (result i32)
        (i32.eqz (ref.is_null (table.get $large (local.get 0)))))
      (func (export "grow") (result i32)
        (table.grow $large (ref.null func) (i32.const 9000)))
      (func (export "call") (call_indirect $constant (i32.const 3))))"#;
    let region = Region::builder().slots(1).tables(2).table_elements(50_000);
    let region = region.build().expect("the region is built");
    let module = common::wat(text);
    let linker = Linker::<()>::new();
    let prepared = region.prepare(&module, &linker).expect("it links");
    for at in [0, 29_999, 15_000] {
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        run_on(&mut instance, "set", at);
        instance.call_values("grow", &[]).expect("it returns");
        let snapshot = instance.snapshot().expect("it can be taken");
        let prepared = region.prepare(&snapshot, &linker).expect("it links");
        for _ in 0..2 {
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            instance.call_values("call", &[]).expect("it returns");
            let table = instance.table("large").expect("it is exported");
            assert_eq!(table.len(), 39_000);
            let set: Vec<_> = (0..39_000)
                .filter(|at| !matches!(table.get(*at), Some(Value::FuncRef(None))))
                .collect();
            assert_eq!(set, [at as u64]);
            run_on(&mut instance, "set", 1);
            let mut table = instance.table_mut("large").expect("it is exported");
            let grown = table.grow(2000, Value::FuncRef(None));
            assert!(matches!(grown, Err(TableError::Limit { .. })), "{grown:?}");
        }
    }
}

fn run_on(instance: &mut Instance<()>, name: &str, param: i32) {
    let done = instance.call_values(name, &[Value::I32(param)]);
    done.expect("the call returns");
}

/// The slots of a region must hold the sizes that the instance had reached.
#[test]
fn a_snapshot_that_does_not_fit_is_refused() {
    let module = common::wat(GUEST);
    let snapshot = changed(&module);
    let builder = || Region::builder().slots(1).memories(4).tables(3);
    for (region, setting) in [
        (builder().memory_bytes_max(4 << 16), "memory_bytes_max"),
        (builder().table_elements(4), "table_elements"),
        (builder().memories(2), "memories"),
    ] {
        let region = region.build().expect("the region is built");
        prepare_error(&region, &module, &snapshot, setting);
    }
    prepare(
        &builder()
            .memory_bytes_max(5 << 16)
            .table_elements(5)
            .build()
            .expect("the region is built"),
        &snapshot,
    );
}

fn prepare_error(region: &Region, module: &Module, snapshot: &Module, setting: &str) {
    match region.prepare(snapshot, &linker()) {
        Err(LinkError::Limit { setting: found, .. }) => assert_eq!(found, setting),
        other => panic!("{other:?}"),
    }
    // The module itself needs as many memories, but less of everything else.
    let fits = region.prepare(module, &linker()).is_ok();
    assert_eq!(fits, setting != "memories");
}

/// A snapshot keeps its code although its module is dropped, and the file is mapped once.
#[test]
fn a_snapshot_keeps_the_code_of_its_module() {
    let wasm = pirn_compiler::parse_text(GUEST.as_bytes()).expect("the text is well-formed");
    let so = pirn_compiler::compile(&wasm, &Options::default()).expect("the module is valid");
    let file = common::file(&so);
    let region = wide_region(2);
    let module = Module::open(&file).expect("it opens");
    let snapshot = fresh(&prepare(&region, &module)).snapshot();
    let snapshot = snapshot.expect("it can be taken");
    drop(module);
    let again = Module::open(&file).expect("it opens again");
    assert_eq!(
        format!("{again:?}").strip_prefix("Module"),
        format!("{snapshot:?}").strip_prefix("Snapshot")
    );
    let wanted = look(&mut fresh(&prepare(&region, &again)));
    assert_eq!(look(&mut fresh(&prepare(&region, &snapshot))), wanted);
    drop((file, again));
    assert_eq!(look(&mut fresh(&prepare(&region, &snapshot))), wanted);
}

/// A snapshot describes itself as its module does, except for its sizes.
#[test]
fn a_snapshot_has_the_imports_and_exports_of_its_module() {
    let module = common::wat(GUEST);
    let snapshot = changed(&module);
    assert!(snapshot.imports().eq(module.imports()));
    let names = |module: &Module| -> Vec<String> {
        module.exports().map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(names(&snapshot), names(&module));
    let memory = |module: &Module| {
        let mut exports = module.exports();
        let (_, ty) = exports.find(|(name, _)| *name == "memory").expect("it is");
        ty.to_string()
    };
    assert_eq!(memory(&module), "memory 2..20 pages");
    assert_eq!(memory(&snapshot), "memory 5..20 pages");
}

/// The members of a group may be instances of snapshots, and import from each other.
#[test]
fn a_snapshot_is_a_member_of_a_group() {
    const OWNER: &str = r#"(module (memory (export "memory") 1)
      (global (export "counter") (mut i32) (i32.const 0))
      (func (export "store") (i32.store8 (i32.const 5) (i32.const 42))))"#;
    const USER: &str = r#"(module (import "owner" "memory" (memory 1))
      (func (export "load") (result i32) (i32.load8_u (i32.const 5))))"#;
    let region = region(2);
    let linker = Linker::new();
    let prepared = region.prepare(&common::wat(OWNER), &linker);
    let mut instance = prepared
        .expect("it links")
        .try_instantiate(())
        .expect("a slot is free");
    instance.call_values("store", &[]).expect("it returns");
    let snapshot = instance.snapshot().expect("it can be taken");
    for _ in 0..2 {
        let mut group = Group::new(&region, ());
        let owner = group.instantiate(&snapshot, &linker).expect("it starts");
        group.name("owner", owner);
        let user = group.instantiate(&common::wat(USER), &linker);
        let user = user.expect("it links");
        let loaded = common::values::number(group.lend(user).call_values("load", &[]));
        assert_eq!(loaded, 42);
    }
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn case() {
    let (case, reset) = common::case_and_reset();
    match case.as_str() {
        "failing" => failing::calls(reset),
        "outside" => outside::attacks(reset),
        _ => tenants::forks(reset),
    }
}
