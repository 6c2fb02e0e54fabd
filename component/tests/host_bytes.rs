//! What the host keeps for a guest is one number with one limit: parameters, results, handles, and
//! strings between component instances.

use crate::common;

use common::{Guest, guest, run};
use pirn_component::{
    AbiError, CallError, Filled, HeldBytes, HostBytes, HostFuture, Linker, Resource, State, Value,
};
use pirn_runtime::{HostError, KillSwitch};
use std::cell::RefCell;

const PIECE: usize = 64 << 10;

/// The account of a guest: bytes that are held, and the most at one time.
fn counted<T: Send + 'static>(guest: &Guest<T>) -> (usize, usize) {
    let account = guest.instance.as_ref().expect("it lives").host_bytes();
    (account.held(), account.peak())
}

/// Checks that a call needs more memory of the host than this limit.
fn is_refused(called: Result<Option<Value>, CallError>, wanted: usize) {
    match called {
        Err(CallError::Abi(AbiError::HostBytes { held, asked, limit })) => {
            assert!(limit == wanted && held <= limit && held + asked > limit);
        }
        other => panic!("{other:?}"),
    }
}

/// A component whose function `run` gets a list of `n` bytes from the host, and returns the sum of
/// the first one and the last one.
const MAKES: &str = r#"(component
  (import "make" (func $make (param "n" u32) (result (list u8))))
  (core module $libc
    (memory (export "memory") 33)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536)))
  (core instance $libc (instantiate $libc))
  (core func $make (canon lower (func $make) (memory (core memory $libc "memory"))
    (realloc (core func $libc "realloc"))))
  (core module $m
    (import "libc" "memory" (memory 33))
    (import "" "make" (func $make (param i32 i32)))
    (func (export "run") (param i32) (result i32)
      (call $make (local.get 0) (i32.const 16))
      (i32.add (i32.load8_u (i32.load (i32.const 16)))
        (i32.load8_u (i32.sub (i32.add (i32.load (i32.const 16)) (i32.load (i32.const 20)))
          (i32.const 1))))))
  (core instance $i (instantiate $m (with "libc" (instance $libc))
    (with "" (instance (export "make" (func $make))))))
  (func (export "run") (param "n" u32) (result u32) (canon lift (core func $i "run"))))"#;

thread_local! {
    /// The lengths of the pieces that were filled.
    static PIECES: RefCell<Vec<usize>> = const { RefCell::new(vec![]) };
    /// Kills the guest when it has so many pieces.
    static KILL: RefCell<Option<(usize, KillSwitch)>> = const { RefCell::new(None) };
}

fn fill(piece: &mut [u8]) {
    piece.fill(7);
    let count = PIECES.with_borrow_mut(|pieces| {
        pieces.push(piece.len());
        pieces.len()
    });
    KILL.with_borrow(|kill| {
        if let Some((at, switch)) = kill
            && *at == count
        {
            switch.kill().expect("it can be killed");
        }
    });
}

fn makes_filled() -> Linker<()> {
    let mut linker = Linker::<()>::new();
    let make = |_: &mut State<()>, (n,): (u32,)| Ok(Filled::new(n, fill));
    linker.func("", "make", make).expect("it is new");
    linker
}

#[test]
fn bytes_that_the_host_makes_in_the_guest_take_no_memory_of_the_host() {
    let mut linker = makes_filled();
    linker.host_bytes_max(100);
    let mut guest = guest(MAKES, &linker);
    for (bytes, pieces) in [
        (1, vec![1]),
        (PIECE, vec![PIECE]),
        (PIECE + 1, vec![PIECE, 1]),
        (2 << 20, vec![PIECE; 32]),
    ] {
        PIECES.take();
        let sum = guest.call("run", &[Value::U32(bytes as u32)]);
        assert_eq!(sum, Ok(Some(Value::U32(14))), "{bytes}");
        assert_eq!(PIECES.take(), pieces);
        let (held, peak) = counted(&guest);
        assert!(held == 0 && peak < 100, "{held} {peak}");
    }
    // The memory has no room for this list.
    let error = guest.call("run", &[Value::U32(3 << 20)]).expect_err("room");
    assert!(error.contains("exceeds the memory"), "{error}");
    assert!(PIECES.take().is_empty());
}

#[test]
fn a_kill_ends_the_work_of_the_host_after_one_piece() {
    for at in [1, 3, 31] {
        let mut guest = guest(MAKES, &makes_filled());
        PIECES.take();
        let switch = guest.instance.as_mut().expect("it lives").kill_switch();
        KILL.set(Some((at, switch)));
        let killed = guest.call_typed("run", &[Value::U32(2 << 20)]);
        KILL.set(None);
        let is_killed = matches!(
            killed,
            Err(CallError::Core(pirn_runtime::CallError::Killed(_)))
        );
        assert!(is_killed, "{killed:?}");
        assert_eq!(PIECES.take(), vec![PIECE; at]);
        assert_eq!(guest.free_slots_after_drop(), 1);
    }
}

#[test]
fn a_kill_ends_the_work_of_the_host_after_a_wait() {
    let mut linker = Linker::<()>::new();
    fn make(_: &mut State<()>, (n,): (u32,)) -> HostFuture<'_, Filled> {
        Box::pin(async move {
            common::Later(false).await;
            Ok(Filled::new(n, fill))
        })
    }
    linker.func_async("", "make", make).expect("it is new");
    for kill_at in [None, Some(3)] {
        let mut guest = guest(MAKES, &linker);
        PIECES.take();
        let func = guest.prepared.func("run").expect("it is exported");
        let instance = guest.instance.as_mut().expect("it lives");
        let switch = instance.kill_switch();
        KILL.set(kill_at.map(|at| (at, switch)));
        let params = [Value::U32(1 << 20)];
        let called = run(instance.call_async(&func, &params), 100).expect("it ends");
        KILL.set(None);
        match called {
            Ok(sum) => assert_eq!((sum, kill_at), (Some(Value::U32(14)), None)),
            Err(CallError::Core(pirn_runtime::CallError::Killed(_))) => {
                assert_eq!(kill_at, Some(3));
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(PIECES.take().len(), kill_at.unwrap_or(16));
    }
}

#[test]
fn a_result_counts_until_the_guest_has_it() {
    let linker = |max: usize| {
        let mut linker = Linker::<()>::new();
        linker.host_bytes_max(max);
        let make = |_: &mut State<()>, (n,): (u32,)| Ok(vec![7_u8; n as usize]);
        linker.func("", "make", make).expect("it is new");
        linker
    };
    const N: usize = 1 << 20;
    let mut one = guest(MAKES, &linker(N + 100));
    let sum = one.call("run", &[Value::U32(N as u32)]);
    assert_eq!(sum, Ok(Some(Value::U32(14))));
    let (held, peak) = counted(&one);
    assert!(held == 0 && (N..N + 100).contains(&peak), "{held} {peak}");
    let mut other = guest(MAKES, &linker(N - 1));
    is_refused(other.call_typed("run", &[Value::U32(N as u32)]), N - 1);
    assert_eq!(counted(&other).0, 0);
}

/// A component whose function `run` gives the host the first `n` bytes of its memory.
const GIVES: &str = r#"(component
  (import "take" (func $take (param "bytes" (list u8)) (result u32)))
  (core module $libc (memory (export "memory") 33))
  (core instance $libc (instantiate $libc))
  (core func $take (canon lower (func $take) (memory (core memory $libc "memory"))))
  (core module $m
    (import "" "take" (func $take (param i32 i32) (result i32)))
    (func (export "run") (param i32) (result i32) (call $take (i32.const 0) (local.get 0))))
  (core instance $i (instantiate $m (with "" (instance (export "take" (func $take))))))
  (func (export "run") (param "n" u32) (result u32) (canon lift (core func $i "run"))))"#;

/// The data of an instance, which has an account of its own.
#[derive(Default)]
struct Data {
    host_bytes: HostBytes,
    kept: Vec<HeldBytes>,
}

#[test]
fn parameters_and_what_host_functions_keep_share_one_limit() {
    const N: usize = 1 << 20;
    let mut linker = Linker::<Data>::new();
    linker.host_bytes_max(3 * N + 10);
    linker.host_bytes_of(|data| &data.host_bytes);
    let take = |state: &mut State<Data>, (bytes,): (Vec<u8>,)| -> Result<u32, HostError> {
        // The parameters count during the call. The host function keeps as much.
        assert_eq!(bytes.capacity(), bytes.len());
        let before = state.host_bytes().held();
        let held = state.host_bytes().hold(bytes.len())?;
        state.data_mut().kept.push(held);
        Ok(before as u32)
    };
    linker.func("", "take", take).expect("it is new");
    let mut guest = guest(GIVES, &linker);
    let params = [Value::U32(N as u32)];
    for kept in 1..=2 {
        let held = guest.call("run", &params);
        assert_eq!(held, Ok(Some(Value::U32((kept * N) as u32))));
        assert_eq!(counted(&guest), (kept * N, (kept + 1) * N));
    }
    let data = guest.instance.as_mut().expect("it lives").data_mut();
    assert_eq!(
        (data.host_bytes.held(), data.host_bytes.max()),
        (2 * N, 3 * N + 10)
    );
    // There is room for the parameters, but not for what the function keeps.
    is_refused(guest.call_typed("run", &params), 3 * N + 10);
    assert_eq!(counted(&guest).0, 2 * N);
    let data = guest.instance.take().expect("it lives").into_data();
    assert_eq!(data.host_bytes.held(), 2 * N);
    let Data { host_bytes, kept } = data;
    drop(kept);
    assert_eq!(host_bytes.held(), 0);
}

/// A component whose function `run` makes `n` resources of its own, and drops the first `dropped`.
const HANDLES: &str = r#"(component
  (type $r (resource (rep i32)))
  (core func $new (canon resource.new $r))
  (core func $drop (canon resource.drop $r))
  (core module $m
    (import "" "new" (func $new (param i32) (result i32)))
    (import "" "drop" (func $drop (param i32)))
    (func (export "run") (param $n i32) (param $again i32) (result i32) (local $last i32)
      (loop $more
        (local.set $last (call $new (i32.const 1)))
        (if (local.get $again) (then (call $drop (local.get $last))))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br_if $more (local.get $n)))
      (local.get $last)))
  (core instance $i (instantiate $m
    (with "" (instance (export "new" (func $new)) (export "drop" (func $drop))))))
  (func (export "run") (param "n" u32) (param "again" bool) (result u32)
    (canon lift (core func $i "run"))))"#;

#[test]
fn tables_of_handles_count_by_their_capacity() {
    const MAX: usize = 1 << 20;
    const HANDLE: usize = 16;
    let mut linker = Linker::<()>::new();
    linker.host_bytes_max(MAX);
    let mut one = guest(HANDLES, &linker);
    let run = |n: u32, again: bool| [Value::U32(n), Value::Bool(again)];
    // Dropped handles are used again.
    assert_eq!(
        one.call("run", &run(100_000, true)),
        Ok(Some(Value::U32(1)))
    );
    assert!(counted(&one).1 < 200, "{:?}", counted(&one));
    // The table has twice as many places as before when it is full.
    assert_eq!(
        one.call("run", &run(32_768, false)),
        Ok(Some(Value::U32(32_768)))
    );
    let (held, _) = counted(&one);
    assert!(
        (32_768 * HANDLE..32_768 * HANDLE + 200).contains(&held),
        "{held}"
    );
    is_refused(one.call_typed("run", &run(u32::MAX, false)), MAX);
    assert!(counted(&one).1 <= MAX);
    let mut other = guest(HANDLES, &Linker::<()>::new());
    let error = other.call("run", &run(u32::MAX, false)).expect_err("full");
    assert!(error.contains("more than 1048576 handles"), "{error}");
    let (held, peak) = counted(&other);
    assert_eq!(held, peak);
    assert!(
        (HANDLE << 20..(HANDLE << 20) + 200).contains(&held),
        "{held}"
    );
}

#[test]
fn handles_that_are_lent_to_a_call_count_during_the_call() {
    let wat = r#"(component
      (import "test:host/api" (instance $host
        (export "file" (type $file (sub resource)))
        (export "open" (func (result (own $file))))
        (export "look" (func (param "all" (list (borrow $file)))))))
      (core module $libc (memory (export "memory") 2))
      (core instance $libc (instantiate $libc))
      (core func $open (canon lower (func $host "open")))
      (core func $look (canon lower (func $host "look") (memory (core memory $libc "memory"))))
      (core module $m
        (import "libc" "memory" (memory 2))
        (import "" "open" (func $open (result i32)))
        (import "" "look" (func $look (param i32 i32)))
        (func (export "run") (param $n i32) (local $file i32) (local $at i32)
          (local.set $file (call $open))
          (loop $more
            (i32.store (local.get $at) (local.get $file))
            (local.set $at (i32.add (local.get $at) (i32.const 4)))
            (br_if $more (i32.lt_u (local.get $at) (i32.mul (local.get $n) (i32.const 4)))))
          (call $look (i32.const 0) (local.get $n))))
      (core instance $i (instantiate $m (with "libc" (instance $libc))
        (with "" (instance (export "open" (func $open)) (export "look" (func $look))))))
      (func (export "run") (param "n" u32) (canon lift (core func $i "run"))))"#;
    let mut linker = Linker::<()>::new();
    let dropped = |_: &mut State<()>, _: Resource| Ok(());
    linker
        .resource("test:host/api", "file", dropped)
        .expect("it is new");
    let open = |_: &mut State<()>, _: Vec<Value>| Ok(Some(Value::Own(Resource::host(1))));
    linker
        .func_values("test:host/api", "open", open)
        .expect("it is new");
    let look = |_: &mut State<()>, _: Vec<Value>| Ok(None);
    linker
        .func_values("test:host/api", "look", look)
        .expect("it is new");
    let mut guest = guest(wat, &linker);
    let before = counted(&guest).0;
    assert_eq!(guest.call("run", &[Value::U32(20_000)]), Ok(None));
    let (held, peak) = counted(&guest);
    // A place in the table of the lent handle, and nothing more, remains.
    assert!(held - before < 200, "{held}");
    // 12 bytes for each lent handle, and 32 for each value.
    assert!(peak > 20_000 * (12 + 32), "{peak}");
}

/// Two component instances: the outer one calls the inner one with a string of `n` letters.
fn passes(outer: &str, inner: &str) -> String {
    format!(
        r#"(component
      (component $inner
        (core module $m
          (memory (export "memory") 64)
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
          (func (export "length") (param i32 i32) (result i32) (local.get 1)))
        (core instance $i (instantiate $m))
        (func (export "length") (param "s" string) (result u32)
          (canon lift (core func $i "length") (memory (core memory $i "memory"))
            (realloc (core func $i "realloc")) {inner})))
      (component $outer
        (import "length" (func $length (param "s" string) (result u32)))
        (core module $libc (memory (export "memory") 33))
        (core instance $libc (instantiate $libc))
        (core func $length
          (canon lower (func $length) (memory (core memory $libc "memory")) {outer}))
        (core module $m
          (import "libc" "memory" (memory 33))
          (import "" "length" (func $length (param i32 i32) (result i32)))
          (func (export "run") (param $units i32) (result i32)
            (memory.fill (i32.const 0) (i32.const 97) (i32.const 2097152))
            (call $length (i32.const 0) (local.get $units))))
        (core instance $i (instantiate $m (with "libc" (instance $libc))
          (with "" (instance (export "length" (func $length))))))
        (func (export "run") (param "n" u32) (result u32) (canon lift (core func $i "run"))))
      (instance $inner (instantiate $inner))
      (instance $outer (instantiate $outer (with "length" (func $inner "length"))))
      (export "run" (func $outer "run")))"#
    )
}

#[test]
fn strings_between_component_instances_take_a_piece_of_the_host() {
    let encodings = ["utf8", "utf16", "latin1+utf16"];
    for outer in encodings {
        for inner in encodings {
            let encoding = |name: &str| format!("string-encoding={name}");
            let wat = passes(&encoding(outer), &encoding(inner));
            let mut linker = Linker::<()>::new();
            linker.host_bytes_max(4 * PIECE);
            let mut guest = guest(&wat, &linker);
            let length = guest.call("run", &[Value::U32(1_000_000)]);
            assert!(matches!(length, Ok(Some(Value::U32(_)))), "{length:?}");
            let (held, peak) = counted(&guest);
            assert_eq!(held, 0, "{outer} {inner}");
            assert!(peak <= 3 * PIECE, "{outer} {inner}: {peak}");
        }
    }
}

/// The room for all elements of a list counts before its first element is read. So lists within
/// lists, here at the same place, do not have more room together than the limit.
#[test]
fn the_room_of_a_list_counts_while_its_elements_are_read() {
    let text = r#"(component
      (core module $m
        (memory (export "memory") 1)
        (func (export "run") (result i32) (local $n i32)
          (i64.store (i32.const 0) (i64.const 0x3e8_00000010))
          (loop $more
            (i64.store offset=16 (i32.shl (local.get $n) (i32.const 3))
              (i64.const 0x3e8_00000010))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $n) (i32.const 1000))))
          (i32.const 0)))
      (core instance $i (instantiate $m))
      (func (export "run") (result (list (list u32)))
        (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#;
    const ELEMENTS: usize = 1000 * size_of::<Value>();
    let mut linker = Linker::<()>::new();
    linker.host_bytes_max(ELEMENTS + 10_000);
    match guest(text, &linker).call_typed("run", &[]) {
        Err(CallError::Abi(AbiError::HostBytes { asked, .. })) => {
            assert!(asked >= 2 * ELEMENTS, "{asked}");
        }
        other => panic!("{other:?}"),
    }
    linker.host_bytes_max(1001 * (ELEMENTS + size_of::<Value>()));
    let read = guest(text, &linker).call_typed("run", &[]);
    let Ok(Some(Value::List(lists))) = read else {
        panic!("{read:?}");
    };
    let inner: Vec<_> = [16, 1000].repeat(500).into_iter().map(Value::U32).collect();
    assert_eq!(lists, vec![Value::List(inner); 1000]);
}
