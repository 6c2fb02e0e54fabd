//! Functions of the host with Rust types, and types with `#[derive(Typed)]`.

use crate::common;

use bytes::Bytes;
use common::{component, guest, run};
use pirn_component::{
    AnyResource, Borrow, CallError, LinkError, Linker, Own, Resource, ResourceType, Typed,
};
use pirn_runtime::Region;

#[derive(Debug, Clone, PartialEq, Typed)]
struct Person {
    full_name: String,
    age: u8,
    #[component(name = "home")]
    address: Option<Address>,
}

#[derive(Debug, Clone, PartialEq, Typed)]
struct Address {
    street: String,
    number: u32,
}

#[derive(Debug, Clone, PartialEq, Typed)]
enum Shape {
    Empty,
    Circle(f64),
    Named(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Typed)]
enum Colour {
    Red,
    DarkGreen,
}

#[derive(Debug, Clone, Copy, PartialEq, Typed)]
#[component(flags)]
struct Access {
    read: bool,
    write: bool,
    append_only: bool,
    f3: bool,
    f4: bool,
    f5: bool,
    f6: bool,
    f7: bool,
    last_of_nine: bool,
}

const TYPES: &str = r#"
    (type $address' (record (field "street" string) (field "number" u32)))
    (export "address" (type $address (eq $address')))
    (type $person' (record (field "full-name" string) (field "age" u8)
      (field "home" (option $address))))
    (export "person" (type $person (eq $person')))
    (type $shape' (variant (case "empty") (case "circle" f64) (case "named" (list string))))
    (export "shape" (type $shape (eq $shape')))
    (type $colour' (enum "red" "dark-green"))
    (export "colour" (type $colour (eq $colour')))
    (type $access' (flags "read" "write" "append-only" "f3" "f4" "f5" "f6" "f7" "last-of-nine"))
    (export "access" (type $access (eq $access')))"#;

/// A component whose function `echo` gives a value of a type to the host's `test:host/api#echo`,
/// and returns the host's answer. `flat` are the core types of the value. The result is in memory
/// if there is more than one of them.
fn through_the_host(ty: &str, flat: &str) -> String {
    let several = flat.contains(' ');
    let (import, pushed) = match several {
        true => (format!("(param {flat} i32)"), "(i32.const 16)"),
        false => (format!("(param {flat}) (result {flat})"), ""),
    };
    let result = if several { "i32" } else { flat };
    let passed: String = (0..flat.split(' ').count())
        .map(|n| format!("(local.get {n})"))
        .collect();
    let after = if several { "(i32.const 16)" } else { "" };
    format!(
        r#"(component
          (import "test:host/api@1.0.0" (instance $api {TYPES}
            (export "echo" (func (param "value" {ty}) (result {ty})))))
          (alias export $api "address" (type $address))
          (alias export $api "person" (type $person))
          (alias export $api "shape" (type $shape))
          (alias export $api "colour" (type $colour))
          (alias export $api "access" (type $access))
          (core module $memory
            (memory (export "memory") 2)
            (global $next (mut i32) (i32.const 1024))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32)
              (global.get $next)
              (global.set $next (i32.and (i32.const -8)
                (i32.add (i32.const 7) (i32.add (global.get $next) (local.get 3)))))))
          (core instance $memory (instantiate $memory))
          (core func $echo (canon lower (func $api "echo") (memory (core memory $memory "memory"))
            (realloc (core func $memory "realloc"))))
          (core module $m
            (import "host" "echo" (func $echo {import}))
            (func (export "echo") (param {flat}) (result {result})
              {passed} {pushed} (call $echo) {after}))
          (core instance $i (instantiate $m
            (with "host" (instance (export "echo" (func $echo))))))
          (func $result (param "value" {ty}) (result {ty})
            (canon lift (core func $i "echo") (memory (core memory $memory "memory"))
              (realloc (core func $memory "realloc"))))
          (component $exported
            (import "types" (instance $types {TYPES}))
            (alias export $types "address" (type $address))
            (alias export $types "person" (type $person))
            (alias export $types "shape" (type $shape))
            (alias export $types "colour" (type $colour))
            (alias export $types "access" (type $access))
            (import "echo" (func $echo (param "value" {ty}) (result {ty})))
            (export "run" (func $echo)))
          (instance $exported (instantiate $exported
            (with "types" (instance $api)) (with "echo" (func $result))))
          (export "test:guest/run@1.0.0" (instance $exported)))"#
    )
}

/// Values that go to the guest, from there to the host, and back the same way.
fn check<V: Typed + Clone + PartialEq + std::fmt::Debug + Sync>(
    ty: &str,
    flat: &str,
    values: &[V],
) {
    for waits in [false, true] {
        let mut linker = Linker::<Vec<V>>::new();
        let defined = match waits {
            false => linker.func("test:host/api@1.0.0", "echo", |state, (value,): (V,)| {
                state.data_mut().push(value.clone());
                Ok(value)
            }),
            true => linker.func_async("test:host/api@1.0.0", "echo", |state, (value,): (V,)| {
                Box::pin(async move {
                    common::Later(false).await;
                    state.data_mut().push(value.clone());
                    Ok(value)
                })
            }),
        };
        defined.expect("it is new");
        let mut guest = guest(&through_the_host(ty, flat), &linker);
        let name = "test:guest/run@1.0.0#run";
        let echo = guest.prepared.typed::<(V,), V>(name).expect("its types");
        let instance = guest.instance.as_mut().expect("it lives");
        for value in values {
            let call = instance.call_typed_async(Default::default(), &echo, (value.clone(),));
            let found = run(call, 3).expect("it ends").expect("it returns");
            assert_eq!(&found, value);
        }
        assert_eq!(instance.data(), values);
    }
}

fn person(address: Option<Address>) -> Person {
    let full_name = "Zo\u{eb}".to_owned();
    let age = 255;
    Person {
        full_name,
        age,
        address,
    }
}

#[test]
fn records_variants_enums_and_flags_go_both_ways() {
    let street = "\u{1f600} street".to_owned();
    let address = Address {
        street,
        number: u32::MAX,
    };
    let people = [person(None), person(Some(address))];
    check("$person", "i32 i32 i32 i32 i32 i32 i32", &people);
    let names = vec![String::new(), "x".to_owned()];
    let shapes = [Shape::Empty, Shape::Circle(-0.5), Shape::Named(names)];
    check("$shape", "i32 i64 i32", &shapes);
    check("$colour", "i32", &[Colour::Red, Colour::DarkGreen]);
    let all = [true; 9];
    for set in [
        all,
        [false; 9],
        [true, false, false, false, false, false, false, false, true],
    ] {
        let [read, write, append_only, f3, f4, f5, f6, f7, last_of_nine] = set;
        let access = Access {
            read,
            write,
            append_only,
            f3,
            f4,
            f5,
            f6,
            f7,
            last_of_nine,
        };
        check("$access", "i32", &[access]);
    }
    check(
        "(list u8)",
        "i32 i32",
        &[Bytes::new(), Bytes::from_static(b"bytes")],
    );
    check(
        "(list $colour)",
        "i32 i32",
        &[vec![Colour::DarkGreen, Colour::Red]],
    );
    check("(list $person)", "i32 i32", &[people.to_vec()]);
}

#[test]
fn a_function_of_other_types_is_refused_when_a_component_is_prepared() {
    /// As [`Colour`], with another order.
    #[derive(Debug, Typed)]
    enum Swapped {
        DarkGreen,
        Red,
    }
    /// As [`Address`], with another name.
    #[derive(Debug, Typed)]
    struct Renamed {
        road: String,
        number: u32,
    }
    /// As [`Access`], without the last flag.
    #[derive(Debug, Typed)]
    #[component(flags)]
    struct Eight {
        read: bool,
    }
    fn refused<V: Typed>(ty: &str, flat: &str) {
        let mut linker = Linker::<()>::new();
        linker
            .func("test:host/api@1.0.0", "echo", |_, (value,): (V,)| Ok(value))
            .expect("it is new");
        let region = Region::builder().slots(1).build().expect("a region");
        let component = component(&through_the_host(ty, flat));
        let error = linker
            .prepare(&region, &component)
            .err()
            .expect("another type");
        assert!(matches!(error, LinkError::FuncType { .. }), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    refused::<Swapped>("$colour", "i32");
    refused::<Shape>("$colour", "i32");
    refused::<u32>("$colour", "i32");
    refused::<Renamed>("$address", "i32 i32 i32");
    refused::<(String, u8)>("$address", "i32 i32 i32");
    refused::<Eight>("$access", "i32");
    refused::<Vec<u16>>("(list u8)", "i32 i32");
    refused::<Option<String>>("string", "i32 i32");
    refused::<Colour>("$shape", "i32 i64 i32");
}

/// The resource type of the tests.
struct File;

impl ResourceType for File {
    const INTERFACE: &'static str = "test:host/files@1.2.0";
    const NAME: &'static str = "file";
}

/// A component that opens a file of the host, and gives it to functions of the host as `$passed`
/// says. Its imports have this version, and `other` is the type that `size` borrows.
fn opens(version: &str, other: &str) -> String {
    format!(
        r#"(component
          (import "test:host/files@{version}" (instance $files
            (export "file" (type $file (sub resource)))
            (export "folder" (type $folder (sub resource)))
            (export "open" (func (param "name" string) (result (own $file))))
            (export "size" (func (param "self" (borrow ${other})) (result u64)))
            (export "close" (func (param "self" (own $file))))))
          (alias export $files "file" (type $file))
          (core module $memory (memory (export "memory") 1))
          (core instance $memory (instantiate $memory))
          (core func $open (canon lower (func $files "open")
            (memory (core memory $memory "memory"))))
          (core func $size (canon lower (func $files "size")))
          (core func $close (canon lower (func $files "close")))
          (core module $m
            (import "host" "open" (func $open (param i32 i32) (result i32)))
            (import "host" "size" (func $size (param i32) (result i64)))
            (import "host" "close" (func $close (param i32)))
            (func (export "run") (result i64) (local $file i32)
              (local.set $file (call $open (i32.const 0) (i32.const 3)))
              (call $size (local.get $file))
              (call $close (local.get $file))))
          (core instance $i (instantiate $m (with "host" (instance
            (export "open" (func $open)) (export "size" (func $size))
            (export "close" (func $close))))))
          (func (export "run") (result u64) (canon lift (core func $i "run"))))"#
    )
}

fn files() -> Linker<Vec<u32>> {
    let mut linker = Linker::<Vec<u32>>::new();
    let files = File::INTERFACE;
    linker
        .func(files, "open", |_, (name,): (String,)| {
            Ok(Own::<File>::host(name.len() as u32 + 7))
        })
        .expect("it is new")
        .func(files, "size", |_, (file,): (Borrow<File>,)| {
            Ok(u64::from(file.rep()) * 100)
        })
        .expect("it is new")
        .func(files, "close", |state, (file,): (Own<File>,)| {
            state.data_mut().push(file.rep());
            Ok(())
        })
        .expect("it is new")
        .resource(files, "file", |_, _| Ok(()))
        .expect("it is new")
        .resource(files, "folder", |_, _| Ok(()))
        .expect("it is new");
    linker
}

#[test]
fn handles_have_the_resource_type_of_the_host() {
    for version in ["1.2.0", "1.0.3", "1.7.0"] {
        let mut guest = guest(&opens(version, "file"), &files());
        let run = guest.prepared.typed::<(), u64>("run").expect("its type");
        let instance = guest.instance.as_mut().expect("it lives");
        assert_eq!(instance.call_typed(&run, ()).expect("it returns"), 1000);
        assert_eq!(instance.data(), &[10]);
    }
}

#[test]
fn a_handle_of_another_resource_type_is_refused() {
    let region = Region::builder().slots(1).build().expect("a region");
    let component = component(&opens("1.2.0", "folder"));
    let error = files().prepare(&region, &component).err();
    let message = error.expect("a folder is no file").to_string();
    assert!(message.contains("size"), "{message}");
}

#[test]
fn a_resource_of_a_guest_is_given_once() {
    let wat = r#"(component
      (type $thing' (resource (rep i32)))
      (export $thing "thing" (type $thing'))
      (core func $new (canon resource.new $thing))
      (core module $m
        (import "host" "new" (func $new (param i32) (result i32)))
        (func (export "make") (result i32) (call $new (i32.const 42)))
        (func (export "look") (param i32) (result i32) (local.get 0))
        (func (export "take") (param i32)))
      (core instance $i (instantiate $m
        (with "host" (instance (export "new" (func $new))))))
      (func (export "make") (result (own $thing)) (canon lift (core func $i "make")))
      (func (export "look") (param "it" (borrow $thing)) (result u32)
        (canon lift (core func $i "look")))
      (func (export "take") (param "it" (own $thing)) (canon lift (core func $i "take"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    type Any = AnyResource;
    let make = guest
        .prepared
        .typed::<(), Own<Any>>("make")
        .expect("its type");
    let look = guest
        .prepared
        .typed::<(Borrow<Any>,), u32>("look")
        .expect("its type");
    let take = guest
        .prepared
        .typed::<(Own<Any>,), ()>("take")
        .expect("its type");
    let instance = guest.instance.as_mut().expect("it lives");
    let thing = instance
        .call_typed(&make, ())
        .expect("it returns")
        .resource();
    assert_eq!(thing.rep(), 42);
    let look_at = |instance: &mut pirn_component::Instance<()>, thing: Resource| {
        instance.call_typed(&look, (thing.into(),))
    };
    assert_eq!(look_at(instance, thing).expect("it returns"), 42);
    instance
        .call_typed(&take, (thing.into(),))
        .expect("the host owns it");
    let error = look_at(instance, thing).expect_err("the host gave it away");
    assert!(matches!(error, CallError::Abi(_)), "{error}");
}

#[test]
fn a_forged_resource_is_refused() {
    let wat = r#"(component
      (type $thing' (resource (rep i32)))
      (export $thing "thing" (type $thing'))
      (core module $m (func (export "look") (param i32) (result i32) (local.get 0)))
      (core instance $i (instantiate $m))
      (func (export "look") (param "it" (borrow $thing)) (result u32)
        (canon lift (core func $i "look"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    let look = guest.prepared.typed::<(Borrow<AnyResource>,), u32>("look");
    let look = look.expect("its type");
    let instance = guest.instance.as_mut().expect("it lives");
    let error = instance.call_typed(&look, (Borrow::host(7),));
    assert!(matches!(error, Err(CallError::Abi(_))), "{error:?}");
}
