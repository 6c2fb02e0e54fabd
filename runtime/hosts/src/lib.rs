//! The runtime as a C library with one guest. Tests load it into a Go program and a Java virtual
//! machine, which handle the same signals as the runtime.
//!
//! [`pirn_hosts_run`] makes the guest perform an action, checks the result, and reports whether it
//! is correct. Most actions cause a signal. `Java_Hosts_run` does this for Java.
//!
//! # Safety
//!
//! This file owns no invariants. It calls functions of its callers, with the pointers that they
//! passed.
#![allow(unsafe_code)]

pub mod jni;

use core::ffi::c_void;
use core::ptr;
use pirn_runtime::{CallError, Caller, Instance, Linker, Module, Prepared, Region, Step, TrapCode};
use std::error::Error;
use std::sync::LazyLock;
use std::time::Duration;

/// A host function that a guest calls: takes the host's pointer and a number, and returns a number.
pub type Back = unsafe extern "C" fn(*mut c_void, i32) -> i32;

/// The host function of a call, with its pointer.
struct Host {
    back: Back,
    with: *mut c_void,
}

/// Maximum number of live instances. Further calls wait.
const SLOTS: u32 = 16;
/// Time after which a looping guest is stopped.
const DEADLINE: Duration = Duration::from_millis(2);
/// Length of a time slice.
const SLICE: Duration = Duration::from_micros(300);

static PREPARED: LazyLock<Prepared<Host>> = LazyLock::new(|| {
    prepare().unwrap_or_else(|error| panic!("the guest cannot be prepared: {error}"))
});

fn prepare() -> Result<Prepared<Host>, Box<dyn Error>> {
    let wasm = pirn_compiler::parse_text(include_bytes!("guest.wat"))?;
    let so = pirn_compiler::compile(&wasm, &pirn_compiler::Options::default())?;
    let module = Module::from_bytes(&so)?;
    let mut linker = Linker::<Host>::new();
    linker.func("host", "back", |caller: Caller<'_, Host>, n: i32| {
        let host = caller.data();
        // SAFETY: the caller of `pirn_hosts_run` guarantees that `back` can be called with `with`.
        unsafe { (host.back)(host.with, n) }
    })?;
    let region = Region::builder().slots(SLOTS).memory_bytes_max(16 << 20);
    let region = region.stack_bytes(1 << 18).build()?;
    eprintln!("{}", region.describe());
    Ok(region.prepare(&module, &linker)?)
}

/// The expected result of the guest's function `mix`.
fn mix(n: i32) -> i32 {
    let (mut x, mut sum) = (0x9e37_79b9_u32, 0_u32);
    for _ in 0..n {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        sum = sum.wrapping_add(x);
    }
    sum.cast_signed()
}

/// Makes the guest perform an action, in its own instance.
fn run(what: &str, n: i32, host: Host) -> Result<(), Box<dyn Error>> {
    let prepared = &*PREPARED;
    let mut instance = prepared.instantiate(host)?;
    if what == "sliced" {
        return sliced(&mut instance);
    }
    let func = prepared.func::<i32, i32>(what)?;
    let ended = match what {
        "forever" => instance.deadline(DEADLINE).call(&func, n),
        _ => instance.call(&func, n),
    };
    let right = match (what, &ended) {
        ("mix", Ok(sum)) => *sum == mix(n),
        ("grow", Ok(pages)) => *pages == n * 16,
        ("back", Ok(sum)) => *sum == n.wrapping_mul(3).wrapping_add(mix(n)),
        ("forever", Err(CallError::Deadline(_))) => true,
        (_, Err(CallError::Trap(trap))) => Some(trap.code()) == expected(what),
        _ => false,
    };
    if right {
        Ok(())
    } else {
        Err(format!("came to {ended:?}").into())
    }
}

/// Runs a guest in time slices, long enough for more than one.
fn sliced(instance: &mut Instance<Host>) -> Result<(), Box<dyn Error>> {
    let func = PREPARED.func::<i32, i32>("mix")?;
    let (mut n, mut slices) = (200_000, 0);
    while slices == 0 {
        let mut step = instance.timeslice(SLICE).start(&func, n)?;
        let sum = loop {
            match step {
                Step::Returned(sum) => break sum,
                _ => step = instance.timeslice(SLICE).resume(&func)?,
            }
            slices += 1;
        };
        if sum != mix(n) {
            return Err(format!("came to {sum} and not {}, after {slices} slices", mix(n)).into());
        }
        // The slice may end late, if the timer thread waited for a processor. Run the guest for
        // longer.
        n = (n * 2).min(1 << 28);
    }
    Ok(())
}

/// The expected trap of a function.
fn expected(what: &str) -> Option<TrapCode> {
    match what {
        "unreachable" => Some(TrapCode::Unreachable),
        "divide" => Some(TrapCode::IntegerDivideByZero),
        "out_of_bounds" => Some(TrapCode::MemoryOutOfBounds),
        "overflow" => Some(TrapCode::StackOverflow),
        _ => None,
    }
}

/// The guest's actions, by number, each with its parameter.
const ALL: [(&str, i32); 9] = [
    ("mix", 1_000),
    ("unreachable", 0),
    ("divide", 1),
    ("out_of_bounds", 0),
    ("overflow", 0),
    ("forever", 0),
    ("sliced", 0),
    ("grow", 7),
    ("back", 14),
];

/// Number of actions.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_hosts_count() -> i32 {
    ALL.len() as i32
}

/// Creates the region, which installs the runtime's signal handlers, as the first
/// [`pirn_hosts_run`] would. A later call creates another region. This installs the handlers again,
/// over any handlers that were installed meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_hosts_open() {
    LazyLock::force(&PREPARED);
    let region = Region::builder().slots(1).build();
    drop(region.expect("there is room for another region"));
}

/// Makes a guest perform an action; returns 0 if the result is correct, and prints the error
/// otherwise. `back` must return three times its argument.
///
/// # Safety
///
/// `back` must be a function that can be called with `with` on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_hosts_run(what: i32, back: Back, with: *mut c_void) -> i32 {
    let what = usize::try_from(what).ok().and_then(|what| ALL.get(what));
    let Some((name, n)) = what else { return 2 };
    match run(name, *n, Host { back, with }) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{name}({n}): {error}");
            1
        }
    }
}

/// Reads an address at which nothing is mapped: a fault of the host itself.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_hosts_fault() {
    let nowhere = ptr::without_provenance::<u8>(16);
    // SAFETY: the read is invalid on purpose: it ends the process.
    core::hint::black_box(unsafe { core::hint::black_box(nowhere).read_volatile() });
}
