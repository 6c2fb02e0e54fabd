//! Each instance must start with exactly its module's initial state. Random sequences of hostile
//! instances use one slot or a few, from one thread or two, with modules of all shapes. A "tenant"
//! is an instance that used the slot.
//!
//! In a canary test, one byte is left over, and the check must fail.
#![allow(
    unsafe_code,
    reason = "this test leaves a byte behind on purpose, and advises the kernel"
)]

mod swapped;

use crate::common;

use common::campaign::share;
use common::first_difference;
use pirn_runtime::{CallError, Instance, Linker, Module, Prepared, Region, Reset, Value};
use proptest::prelude::*;
use std::sync::OnceLock;
use std::time::Duration;

const PAGE: usize = 64 << 10;

/// A module with its expected initial memory, byte for byte.
struct Shape {
    module: Module,
    memory: Vec<u8>,
    max: usize,
}

/// The text of a module with these pages and segments. Every module has the same exports.
fn text(pages: usize, max: usize, data: &[(usize, usize)]) -> String {
    let segment = |(at, len): &(usize, usize)| {
        let period = (*at..at + PERIOD).map(|at| format!("\\{:02x}", byte(at)));
        let bytes = period.collect::<String>().repeat(len.div_ceil(PERIOD));
        // Each byte is three characters.
        format!("(data (i32.const {at}) \"{}\")", &bytes[..3 * len])
    };
    let data: String = data.iter().map(segment).collect();
    format!(
        r#"(module
          (memory (export "memory") {pages} {max}) {data}
          (global $g (export "g") (mut i64) (i64.const {pages}))
          (table $t 5 500 funcref) (elem (i32.const 1) func $f) (data $p "passive") (elem $e func $f)
          (func $f (result i32) (i32.const 1))
          (func (export "fill") (param i32 i32 i32)
            (memory.fill (local.get 0) (local.get 1) (local.get 2)))
          (func (export "read") (param i32 i32)
            (loop $next
              (drop (i32.load8_u (local.get 0)))
              (local.set 0 (i32.add (local.get 0) (i32.const 4096)))
              (br_if $next (i32.lt_u (local.get 0) (local.get 1)))))
          (func (export "grow") (param i32) (drop (memory.grow (local.get 0))))
          (func (export "state") (param i64)
            (global.set $g (local.get 0)) (data.drop $p) (elem.drop $e)
            (drop (table.grow $t (ref.func $f) (i32.const 40)))
            (table.fill $t (i32.const 0) (ref.func $f) (table.size $t)))
          (func (export "trap") unreachable)
          (func (export "forever") (param $at i32)
            (loop $next
              (local.set $at (i32.add (i32.mul (local.get $at) (i32.const 1664525))
                (i32.const 1013904223)))
              (i32.store8
                (i32.rem_u (local.get $at) (i32.mul (memory.size) (i32.const 65536)))
                (local.get $at))
              (global.set $g (i64.extend_i32_u (local.get $at)))
              (table.set $t (i32.const 4) (ref.func $f))
              (call $deep (i32.const 20))
              (if (i32.eqz (i32.and (local.get $at) (i32.const 0xff00)))
                (then (drop (memory.grow (i32.const 1)))))
              (br $next)))
          (func $deep (export "deep") (param i32)
            (if (local.get 0) (then (call $deep (i32.sub (local.get 0) (i32.const 1))))))
          (func (export "nulls") (result i32)
            (table.init $t $e (i32.const 3) (i32.const 0) (i32.const 1))
            (i32.add (i32.mul (table.size $t) (i32.const 100))
              (i32.add (ref.is_null (table.get $t (i32.const 0)))
                (ref.is_null (table.get $t (i32.const 1))))))
          (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0))))"#
    )
}

/// Number of bytes after which the bytes of an image repeat.
const PERIOD: usize = 251;

/// A byte of an image. All values occur except zero.
fn byte(at: usize) -> u8 {
    (at % PERIOD) as u8 + 1
}

/// Modules with an empty memory, no image, a sparse one, a dense one, and an image at the end.
fn shapes() -> &'static [Shape] {
    static SHAPES: OnceLock<Vec<Shape>> = OnceLock::new();
    SHAPES.get_or_init(|| {
        let shape = |pages: usize, max: usize, data: &[(usize, usize)]| {
            let mut memory = vec![0; pages * PAGE];
            for (at, len) in data {
                let period: Vec<u8> = (*at..at + PERIOD).map(byte).collect();
                let bytes = period.repeat(len.div_ceil(PERIOD));
                memory[*at..at + len].copy_from_slice(&bytes[..*len]);
            }
            Shape {
                module: common::wat(&text(pages, max, data)),
                memory,
                max: max * PAGE,
            }
        };
        let sparse: Vec<_> = (0..30).map(|i| (i * 9000 + 17, 40)).collect();
        vec![
            shape(0, 3, &[]),
            shape(1, 1, &[]),
            shape(1, 9, &[(0, 10)]),
            shape(5, 20, &sparse),
            shape(18, 40, &[(0, 1 << 20)]),
            shape(6, 6, &[(5 * PAGE + 100, 30), (6 * PAGE - 1, 1)]),
            // More pages than a slot tracks.
            shape(70, 90, &[(3, 5), (4 << 20, 9)]),
        ]
    })
}

/// An action of an instance. Its numbers are reduced to fit the module.
#[derive(Debug, Clone)]
enum Act {
    Fill(u32, u8, u32),
    Read(u32, u32),
    Grow(u32),
    State(i64),
    Deep(u32),
    Trap,
    Late(u32, u64),
    Killed(u32),
    HostWrite(u32, u8),
    MoveOut,
    MakeHuge,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (any::<u32>(), any::<u8>(), 0..70_000_u32).prop_map(|(a, b, c)| Act::Fill(a, b, c)),
        1 => (any::<u32>(), any::<u8>(), 0..6_000_000_u32).prop_map(|(a, b, c)| Act::Fill(a, b, c)),
        2 => (any::<u32>(), any::<u32>()).prop_map(|(a, b)| Act::Read(a, b)),
        2 => (0..30_u32).prop_map(Act::Grow),
        2 => any::<i64>().prop_map(Act::State),
        1 => (0..30_000_u32).prop_map(Act::Deep),
        1 => Just(Act::Trap),
        1 => (any::<u32>(), 1..400_u64).prop_map(|(a, b)| Act::Late(a, b)),
        1 => any::<u32>().prop_map(Act::Killed),
        2 => (any::<u32>(), any::<u8>()).prop_map(|(a, b)| Act::HostWrite(a, b)),
        1 => Just(Act::MoveOut),
        1 => Just(Act::MakeHuge),
    ]
}

/// Instances that use the slots in turn: for each, the index of its module, and its actions.
fn tenants() -> impl Strategy<Value = Vec<(usize, Vec<Act>)>> {
    let tenant = (0..7_usize, proptest::collection::vec(act(), 0..6));
    proptest::collection::vec(tenant, 1..12)
}

struct Setup {
    prepared: Vec<Prepared<()>>,
    region: Region,
}

impl Setup {
    fn new(reset: Reset, slots: u32) -> Self {
        let builder = Region::builder()
            .slots(slots)
            .memory_bytes_max(90 * PAGE)
            .table_elements(600);
        let region = builder.reset(reset).build().expect("a region");
        let prepare = |shape: &Shape| {
            region
                .prepare(&shape.module, &Linker::new())
                .expect("it fits")
        };
        Self {
            prepared: shapes().iter().map(prepare).collect(),
            region,
        }
    }

    fn instance(&self, which: usize) -> Instance<()> {
        self.prepared[which].instantiate(()).expect("a slot")
    }

    /// Creates an instance, checks its initial state, performs its actions and drops it.
    fn host(&self, which: usize, acts: &[Act]) -> Result<(), String> {
        let mut instance = self.instance(which);
        check(&mut instance, &shapes()[which])?;
        // The check itself writes to the memory before the actions do.
        for act in acts {
            perform(&mut instance, act);
        }
        Ok(())
    }
}

/// Checks that an instance has exactly its module's initial state.
fn check(instance: &mut Instance<()>, shape: &Shape) -> Result<(), String> {
    let memory = instance.memory();
    let (found, expected) = (memory.as_slice(), &shape.memory);
    if found.len() != expected.len() {
        return Err(format!(
            "memory has {} bytes, not {}",
            found.len(),
            expected.len()
        ));
    }
    if let Some(at) = first_difference(found, expected) {
        return Err(format!(
            "byte {at:#x} is {}, not {}",
            found[at], expected[at]
        ));
    }
    let pages = (expected.len() / PAGE) as i64;
    if instance.global("g") != Some(Value::I64(pages)) {
        return Err("the global is another".to_owned());
    }
    let nulls = instance
        .call_values("nulls", &[])
        .map_err(|error| error.to_string())?;
    if nulls != [Value::I32(501)] {
        return Err(format!("the table is another: {nulls:?}"));
    }
    for at in [
        expected.len(),
        expected.len() + 5000,
        shape.max - 1,
        shape.max,
        u32::MAX as usize,
    ] {
        let beyond = instance.call_values("load", &[Value::I32((at as u32).cast_signed())]);
        if at >= expected.len() && beyond.is_ok() {
            return Err(format!("byte {at:#x} is beyond the memory, and readable"));
        }
    }
    Ok(())
}

fn perform(instance: &mut Instance<()>, act: &Act) {
    let len = instance.memory().len() as u32;
    let number = |n: u32| Value::I32(n.cast_signed());
    let within = |n: u32| if len == 0 { 0 } else { n % len };
    let call = |instance: &mut Instance<()>, name: &str, params: &[Value]| match instance
        .call_values(name, params)
    {
        Ok(_) | Err(CallError::Trap(_) | CallError::Killed(_)) => {}
        Err(error) => panic!("{name}: {error}"),
    };
    match *act {
        Act::Fill(at, value, count) => {
            let at = within(at);
            let count = count.min(len - at);
            call(
                instance,
                "fill",
                &[number(at), number(value.into()), number(count)],
            );
        }
        Act::Read(from, to) => call(
            instance,
            "read",
            &[number(within(from)), number(within(to))],
        ),
        Act::Grow(pages) => call(instance, "grow", &[number(pages)]),
        Act::State(value) => call(instance, "state", &[Value::I64(value)]),
        Act::Deep(depth) => call(instance, "deep", &[number(depth)]),
        Act::Trap => call(instance, "trap", &[]),
        Act::Late(at, us) => {
            let limited = instance.deadline(Duration::from_micros(us));
            let error = limited.call_values("forever", &[number(at)]);
            let error = error.expect_err("it does not return");
            let ended = matches!(error, CallError::Deadline(_) | CallError::Killed(_));
            // A guest without memory divides by its size, which is zero, and traps.
            assert!(ended || len == 0, "{error}");
        }
        Act::Killed(at) => {
            let switch = instance.kill_switch();
            std::thread::scope(|scope| {
                // The kill fails if an earlier action has killed the instance.
                scope.spawn(move || switch.kill().ok());
                call(instance, "forever", &[number(at)]);
            });
        }
        Act::HostWrite(at, value) => {
            if let Some(byte) = instance
                .memory_mut()
                .as_mut_slice()
                .get_mut(within(at) as usize)
            {
                *byte = value;
            }
        }
        Act::MoveOut => advise(instance, libc::MADV_PAGEOUT),
        Act::MakeHuge => advise(instance, libc::MADV_COLLAPSE),
    }
}

/// Makes the kernel move the guest's pages, as it does under memory pressure. The kernel may
/// refuse.
fn advise(instance: &mut Instance<()>, advice: i32) {
    let mut memory = instance.memory_mut();
    let bytes = memory.as_mut_slice();
    // SAFETY: the range is the guest's mapped memory, and neither advice changes its content.
    unsafe { libc::madvise(bytes.as_mut_ptr().cast(), bytes.len(), advice) };
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: share(60, 4) as u32,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_instance_finds_its_own_initial_state(tenants in tenants(), slots in 1..3_u32) {
        for reset in common::resets() {
            let setup = Setup::new(reset, slots);
            for (turn, (which, acts)) in tenants.iter().enumerate() {
                let found = setup.host(*which, acts);
                prop_assert!(found.is_ok(), "{}, tenant {}: {:?}", reset, turn, found);
            }
            prop_assert_eq!(setup.region.slots_free(), slots as usize);
        }
    }

    #[test]
    fn instances_of_two_threads_find_their_own_state(a in tenants(), b in tenants()) {
        for reset in common::resets() {
            let setup = Setup::new(reset, 2);
            let run = |tenants: &[(usize, Vec<Act>)]| -> Result<(), String> {
                tenants.iter().try_for_each(|(which, acts)| setup.host(*which, acts))
            };
            let results = std::thread::scope(|scope| {
                let (first, second) = (scope.spawn(|| run(&a)), scope.spawn(|| run(&b)));
                [first, second].map(|thread| thread.join().expect("no panic"))
            });
            prop_assert!(results.iter().all(Result::is_ok), "{}: {:?}", reset, results);
        }
    }
}

#[test]
fn a_leftover_byte_is_detected() {
    for reset in common::resets() {
        for which in 1..shapes().len() {
            let setup = Setup::new(reset, 1);
            let last = shapes()[which].memory.len() - 1;
            for at in [0, 4096, 5000, last] {
                let mut instance = setup.instance(which);
                check(&mut instance, &shapes()[which]).expect("it is fresh");
                let byte = instance.memory_mut().as_mut_slice()[at..].as_mut_ptr();
                drop(instance);
                // SAFETY: `byte` is in the slot's memory, which stays mapped and writable up to its
                // module's initial size. The write simulates a reset that forgets a page.
                unsafe { *byte ^= 0x80 };
                let mut next = setup.instance(which);
                let found =
                    check(&mut next, &shapes()[which]).expect_err("the check detects the byte");
                assert!(found.contains(&format!("byte {at:#x}")), "{found}");
            }
        }
    }
}

#[test]
fn instances_in_a_child_find_their_own_state() {
    for reset in common::resets() {
        common::exited_with(&reset.to_string(), 0);
    }
}

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn case() {
    let reset = common::reset_named(&common::case());
    let setup = Setup::new(reset, 2);
    let dirty = [Act::Fill(0, 9, 3 << 20), Act::Grow(9), Act::State(-1)];
    let all = || -> Result<(), String> {
        for which in [4, 4, 3, 4, 2, 5, 5] {
            setup.host(which, &dirty)?;
        }
        Ok(())
    };
    all().expect("before the fork");
    let mut held = setup.instance(4);
    perform(&mut held, &dirty[0]);
    // SAFETY: the child only runs guests and ends with _exit(2).
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork(2) works");
    drop(held);
    let result = all();
    if child == 0 {
        // SAFETY: _exit(2) takes no pointers. It ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    result.expect("in the parent");
    let mut status = 0;
    // SAFETY: `status` is a valid `c_int` that waitpid(2) writes to.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "exit status of the child");
}
