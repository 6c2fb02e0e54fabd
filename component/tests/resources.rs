//! Handles to resources, of the host and of guests: owned, lent, dropped, forged and moved.

use crate::common;

use common::guest;
use pirn_component::{LinkError, Linker, Resource, State, Value};

/// A component that uses a resource type of the host. The core functions get handles as numbers.
const USES: &str = r#"(component
  (import "test:host/api" (instance $host
    (export "file" (type $file (sub resource)))
    (export "open" (func (result (own $file))))
    (export "size" (func (param "file" (borrow $file)) (result u32)))
    (export "eat" (func (param "file" (own $file))))))
  (alias export $host "file" (type $file))
  (core func $drop (canon resource.drop $file))
  (core func $open (canon lower (func $host "open")))
  (core func $size (canon lower (func $host "size")))
  (core func $eat (canon lower (func $host "eat")))
  (core module $m
    (import "" "drop" (func $drop (param i32)))
    (import "" "open" (func $open (result i32)))
    (import "" "size" (func $size (param i32) (result i32)))
    (import "" "eat" (func $eat (param i32)))
    (func (export "open") (result i32) (call $open))
    (func (export "size") (param i32) (result i32) (call $size (local.get 0)))
    (func (export "eat") (param i32) (call $eat (local.get 0)))
    (func (export "drop") (param i32) (call $drop (local.get 0)))
    (func (export "lend") (param i32) (result i32)
      (call $size (local.get 0)) (call $drop (local.get 0)))
    (func (export "keep") (param i32)))
  (core instance $i (instantiate $m (with "" (instance
    (export "drop" (func $drop)) (export "open" (func $open))
    (export "size" (func $size)) (export "eat" (func $eat))))))
  (func (export "open") (result u32) (canon lift (core func $i "open")))
  (func (export "size") (param "n" u32) (result u32) (canon lift (core func $i "size")))
  (func (export "eat") (param "n" u32) (canon lift (core func $i "eat")))
  (func (export "drop") (param "n" u32) (canon lift (core func $i "drop")))
  (func (export "lend") (param "file" (borrow $file)) (result u32)
    (canon lift (core func $i "lend")))
  (func (export "keep") (param "file" (borrow $file)) (canon lift (core func $i "keep"))))"#;

/// The numbers of files that were dropped, and of the next file.
type Files = (Vec<u32>, u32);

fn files() -> Linker<Files> {
    let mut linker = Linker::<Files>::new();
    let dropped = |state: &mut State<Files>, file: Resource| {
        state.data_mut().0.push(file.rep());
        Ok(())
    };
    let open = |state: &mut State<Files>, _: Vec<Value>| {
        state.data_mut().1 += 100;
        Ok(Some(Value::Own(Resource::host(state.data().1))))
    };
    let size = |_: &mut State<Files>, params: Vec<Value>| match params[..] {
        [Value::Borrow(file)] => Ok(Some(Value::U32(file.rep() + 1))),
        _ => panic!("{params:?}"),
    };
    let eat = |state: &mut State<Files>, params: Vec<Value>| match params[..] {
        [Value::Own(file)] => {
            state.data_mut().0.push(file.rep() + 5000);
            Ok(None)
        }
        _ => panic!("{params:?}"),
    };
    let api = "test:host/api";
    linker.resource(api, "file", dropped).expect("it is new");
    linker.func_values(api, "open", open).expect("it is new");
    linker.func_values(api, "size", size).expect("it is new");
    linker.func_values(api, "eat", eat).expect("it is new");
    linker
}

fn number(n: u32) -> [Value; 1] {
    [Value::U32(n)]
}

#[test]
fn a_guest_owns_lends_gives_and_drops_resources_of_the_host() {
    let mut guest = guest(USES, &files());
    for handle in 1..4 {
        assert_eq!(guest.call("open", &[]), Ok(Some(Value::U32(handle))));
    }
    assert_eq!(guest.call("size", &number(2)), Ok(Some(Value::U32(201))));
    assert_eq!(guest.call("eat", &number(2)), Ok(None));
    assert_eq!(guest.call("drop", &number(1)), Ok(None));
    let instance = guest.instance.as_ref().expect("it lives");
    assert_eq!(instance.data().0, [5200, 100]);
    // Numbers are used again.
    assert_eq!(guest.call("open", &[]), Ok(Some(Value::U32(1))));
    assert_eq!(guest.call("size", &number(1)), Ok(Some(Value::U32(401))));
}

#[test]
fn handles_that_are_forged_or_used_after_transfer_end_the_instance() {
    for (name, handle, wanted) in [
        ("size", 0, "the component instance has no handle 0"),
        ("size", 7, "the component instance has no handle 7"),
        (
            "size",
            u32::MAX,
            "the component instance has no handle 4294967295",
        ),
        ("drop", 2, "the component instance has no handle 2"),
        ("eat", 2, "the component instance has no handle 2"),
    ] {
        let mut guest = guest(USES, &files());
        assert_eq!(guest.call("open", &[]), Ok(Some(Value::U32(1))));
        assert_eq!(guest.call("open", &[]), Ok(Some(Value::U32(2))));
        assert_eq!(guest.call("eat", &number(2)), Ok(None));
        assert_eq!(
            guest.call(name, &number(handle)),
            Err(wanted.to_owned()),
            "{name}"
        );
        assert_eq!(guest.free_slots_after_drop(), 1);
    }
}

#[test]
fn a_borrowed_handle_lives_as_long_as_the_call() {
    let mut one = guest(USES, &files());
    let file = [Value::Borrow(Resource::host(41))];
    assert_eq!(one.call("lend", &file), Ok(Some(Value::U32(42))));
    let instance = one.instance.as_ref().expect("it lives");
    // The end of a borrow is not the end of the resource.
    assert_eq!(instance.data().0, [0; 0]);
    let kept = one.call("keep", &file);
    assert_eq!(
        kept,
        Err("a call returned without dropping 1 borrowed handles".to_owned())
    );
    let mut other = guest(USES, &files());
    let owned = other.call("lend", &[Value::Own(Resource::host(1))]);
    assert_eq!(
        owned,
        Err("file is own, its type is borrow; give a value of that type".to_owned())
    );
}

#[test]
fn a_missing_resource_type_is_named() {
    let region = pirn_runtime::Region::builder()
        .slots(1)
        .build()
        .expect("a region");
    let error = Linker::<()>::new().prepare(&region, &common::component(USES));
    let error = error.err().expect("nothing is defined");
    assert!(matches!(&error, LinkError::MissingResource { path } if path == "test:host/api#file"));
}

/// A component that defines a resource type. Its core module counts destroyed resources.
const DEFINES: &str = r#"(component
  (core module $m0
    (global $destroyed (export "destroyed") (mut i32) (i32.const 0))
    (func (export "destroy") (param i32) (global.set $destroyed (local.get 0))))
  (core instance $i0 (instantiate $m0))
  (type $counter' (resource (rep i32) (dtor (core func $i0 "destroy"))))
  (export $counter "counter" (type $counter'))
  (core func $new (canon resource.new $counter'))
  (core func $rep (canon resource.rep $counter'))
  (core func $drop (canon resource.drop $counter'))
  (core module $m
    (import "" "new" (func $new (param i32) (result i32)))
    (import "" "rep" (func $rep (param i32) (result i32)))
    (import "" "drop" (func $drop (param i32)))
    (import "" "destroyed" (global $destroyed (mut i32)))
    (func (export "new") (param i32) (result i32) (call $new (local.get 0)))
    (func (export "get") (param i32) (result i32) (local.get 0))
    (func (export "take") (param i32) (result i32)
      (call $rep (local.get 0)) (call $drop (local.get 0)))
    (func (export "both") (param i32 i32) (result i32) (call $rep (local.get 0)))
    (func (export "destroyed") (result i32) (global.get $destroyed)))
  (core instance $i (instantiate $m (with "" (instance
    (export "new" (func $new)) (export "rep" (func $rep)) (export "drop" (func $drop))
    (export "destroyed" (global $i0 "destroyed"))))))
  (func (export "new") (param "n" u32) (result (own $counter))
    (canon lift (core func $i "new")))
  (func (export "get") (param "c" (borrow $counter)) (result u32)
    (canon lift (core func $i "get")))
  (func (export "take") (param "c" (own $counter)) (result u32)
    (canon lift (core func $i "take")))
  (func (export "both") (param "c" (own $counter)) (param "d" (borrow $counter)) (result u32)
    (canon lift (core func $i "both")))
  (func (export "destroyed") (result u32) (canon lift (core func $i "destroyed"))))"#;

#[test]
fn the_host_owns_and_lends_resources_of_a_guest() {
    let mut guest = guest(DEFINES, &Linker::<()>::new());
    let mut made = |n| match guest.call("new", &number(n)) {
        Ok(Some(Value::Own(resource))) => resource,
        other => panic!("{other:?}"),
    };
    let (one, two) = (made(7), made(8));
    assert_eq!(
        guest.call("get", &[Value::Borrow(one)]),
        Ok(Some(Value::U32(7)))
    );
    assert_eq!(
        guest.call("take", &[Value::Own(two)]),
        Ok(Some(Value::U32(8)))
    );
    assert_eq!(guest.call("destroyed", &[]), Ok(Some(Value::U32(8))));
    let instance = guest.instance.as_mut().expect("it lives");
    instance.drop_resource(one).expect("its destructor returns");
    assert_eq!(guest.call("destroyed", &[]), Ok(Some(Value::U32(7))));

    // A resource of another instance, or of the host, has another type.
    let mut other = common::guest(DEFINES, &Linker::<()>::new());
    for foreign in [one, Resource::host(7)] {
        let error = other.call("get", &[Value::Borrow(foreign)]);
        let error = error.expect_err("it is foreign");
        assert!(
            error.contains("a resource of another type or instance"),
            "{error}"
        );
    }
}

#[test]
fn a_resource_that_the_host_gave_away_is_gone() {
    let mut guest = guest(DEFINES, &Linker::<()>::new());
    let made = |guest: &mut common::Guest, n| match guest.call("new", &number(n)) {
        Ok(Some(Value::Own(resource))) => resource,
        other => panic!("{other:?}"),
    };
    let refused = |found: Result<Option<Value>, String>| {
        let error = found.expect_err("the host does not own it");
        assert!(error.contains("does not own"), "{error}");
    };
    let one = made(&mut guest, 7);
    assert_eq!(
        guest.call("take", &[Value::Own(one)]),
        Ok(Some(Value::U32(7)))
    );
    refused(guest.call("take", &[Value::Own(one)]));
    refused(guest.call("get", &[Value::Borrow(one)]));
    let two = made(&mut guest, 8);
    let instance = guest.instance.as_mut().expect("it lives");
    instance.drop_resource(two).expect("its destructor returns");
    assert_eq!(guest.call("destroyed", &[]), Ok(Some(Value::U32(8))));
    let three = made(&mut guest, 9);
    let instance = guest.instance.as_mut().expect("it lives");
    instance
        .drop_resource(three)
        .expect("its destructor returns");
    // The destructor runs once.
    instance.drop_resource(two).expect("nothing happens");
    assert_eq!(guest.call("destroyed", &[]), Ok(Some(Value::U32(9))));
    refused(guest.call("get", &[Value::Borrow(three)]));
    // Within one call, too.
    let four = made(&mut guest, 10);
    refused(guest.call("both", &[Value::Own(four), Value::Borrow(four)]));
}
