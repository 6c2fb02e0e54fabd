//! The runtime as a C library with one guest in it, for the tests that load it into a Go program
//! and a Java virtual machine. Those handle the same signals for purposes of their own.
//!
//! [`pirn_hosts_run`] lets the guest do one of the things that end in a signal, and says whether it
//! came out as it must. `Java_Hosts_run` is the same for Java.
//!
//! # Safety
//!
//! Owns nothing: it calls functions that it was given, with the pointers that came with them.
#![allow(unsafe_code)]

pub mod jni;

use core::ffi::c_void;
use core::ptr;
use pirn_runtime::{CallError, Caller, Instance, Linker, Module, Prepared, Region, Step, TrapCode};
use std::error::Error;
use std::sync::LazyLock;
use std::time::Duration;

/// Code of the host's that a guest calls: with what came with it and a number, it gives a number.
pub type Back = unsafe extern "C" fn(*mut c_void, i32) -> i32;

/// What the guest of a call can call.
struct Host {
    back: Back,
    with: *mut c_void,
}

/// How many instances there are at a time; who wants another waits.
const SLOTS: u32 = 16;
/// How long a guest may loop.
const DEADLINE: Duration = Duration::from_millis(2);
/// How long it runs until it is suspended.
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
        // SAFETY: whoever called `pirn_hosts_run` promised that it can be called with that.
        unsafe { (host.back)(host.with, n) }
    })?;
    let region = Region::builder().slots(SLOTS).memory_max(16 << 20);
    let region = region.stack(1 << 18).build()?;
    eprintln!("{}", region.describe());
    Ok(region.prepare(&module, &linker)?)
}

/// The guest's `mix`, computed by the host.
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

/// Has the guest do a thing, in an instance of its own.
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

/// Runs a guest in slices of time, for so long that it has had more than one.
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
        // The timer thread may have had to wait for a processor.
        n = (n * 2).min(1 << 28);
    }
    Ok(())
}

/// As what a function traps.
fn expected(what: &str) -> Option<TrapCode> {
    match what {
        "unreachable" => Some(TrapCode::Unreachable),
        "divide" => Some(TrapCode::IntegerDivideByZero),
        "out_of_bounds" => Some(TrapCode::MemoryOutOfBounds),
        "overflow" => Some(TrapCode::StackOverflow),
        _ => None,
    }
}

/// What a guest can do, by number, and what with.
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

/// How many things a guest can do.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_hosts_count() -> i32 {
    ALL.len() as i32
}

/// Makes the region, and with it installs the handlers, as the first [`pirn_hosts_run`] would.
/// Later it makes another, of no other use: it puts the handlers in front of those that came
/// meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_hosts_open() {
    LazyLock::force(&PREPARED);
    let region = Region::builder().slots(1).build();
    drop(region.expect("there is room for another region"));
}

/// Has a guest do a thing; gives 0 if that came out as it must, and says what is wrong otherwise.
/// `back` is to give three times what it gets.
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

/// Reads where nothing is mapped: a fault that is the host's own.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_hosts_fault() {
    let nowhere = ptr::without_provenance::<u8>(16);
    // SAFETY: none: the process is to die of it.
    core::hint::black_box(unsafe { core::hint::black_box(nowhere).read_volatile() });
}
