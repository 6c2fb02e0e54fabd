//! Tests: reading a signal's context, and finding the parts of the routines.

use super::frame::{Extension, RECORDS};
use super::*;

/// A context with these records in the kernel's layout.
fn context(records: &[&[u64]]) -> libc::ucontext_t {
    // SAFETY: all zeros is a valid `ucontext_t`, and it has room for the records.
    unsafe {
        let mut context: libc::ucontext_t = core::mem::zeroed();
        let mut to = (&raw mut context.uc_mcontext)
            .byte_add(RECORDS)
            .cast::<u64>();
        for record in records {
            ptr::copy_nonoverlapping(record.as_ptr(), to, record.len());
            to = to.add(record.len());
        }
        context
    }
}

/// A syndrome record: its head, and the syndrome.
fn syndrome(esr: u64) -> [u64; 2] {
    [u64::from(Syndrome::MAGIC) | 16 << 32, esr]
}

/// The record of an instance without a module, with this interrupt flag.
fn record_of(flag: *const core::sync::atomic::AtomicU8) -> crate::switch::Record {
    crate::switch::Record::new(
        crate::switch::Guest {
            text: [0; 2],
            traps: [0; 2],
            memory: [0; 2],
            shared: ptr::null(),
            stack_guard: [0; 2],
            stack: [0; 2],
            next: ptr::null(),
        },
        0,
        (0, 0),
        0,
        flag,
        ptr::null(),
    )
}

#[test]
fn a_write_is_told_by_the_syndrome() {
    let mut vectors = [0; 66];
    vectors[0] = u64::from(FpSimd::MAGIC) | 528 << 32;
    let told = |esr| wrote(&context(&[&vectors, &syndrome(esr)]));
    // Data aborts with and without WnR, a data abort by cache maintenance, and an exception that is
    // not a data abort.
    assert!(told(0x9200_0047));
    assert!(!told(0x9200_0007));
    assert!(!told(0x9200_0147));
    assert!(told(0x8200_0007));
    // A context without a record of the fault, and a context with a record that is too large.
    assert!(wrote(&context(&[&vectors])));
    assert!(wrote(&context(&[
        &[7 | 4096 << 32, 0],
        &syndrome(0x9200_0007)
    ])));
    assert!(wrote(&context(&[])));
}

#[test]
fn registers_are_those_of_the_context() {
    let mut vectors = [0; 66];
    vectors[0] = u64::from(FpSimd::MAGIC) | 528 << 32;
    vectors[1] = 0x0100_0000_0800_0001;
    (2..66).for_each(|at| vectors[at] = at as u64);
    let mut context = context(&[&vectors]);
    (0..GENERAL).for_each(|at| context.uc_mcontext.regs[at] = 100 + at as u64);
    context.uc_mcontext.pstate = 0xa000_1000;
    (context.uc_mcontext.sp, context.uc_mcontext.pc) = (4096, 8);
    let host = [130_u64; RETURNS_TO + 1];
    let mut record = record_of(ptr::null());
    record.activation.host_sp = host.as_ptr() as u64;
    let mut taken = Registers::none();
    // SAFETY: the context has all of its records, and `host_sp` points to a host stack.
    unsafe {
        taken.take(
            &context,
            &raw const record.activation,
            interrupted(&context),
        )
    };
    assert!(taken.taken);
    // x30 was the return address of the first call.
    assert_eq!(taken.general[LINK], returned as *const () as u64);
    assert_eq!(taken.general[..LINK], context.uc_mcontext.regs[..LINK]);
    assert_eq!((taken.sp, taken.pc), (4096, 8));
    assert_eq!((taken.flags, taken.fpsr), (0xa000_0000, 0x0800_0001));
    for (at, vector) in taken.vector.into_iter().enumerate() {
        let at = 2 + 2 * at as u128;
        assert_eq!(vector, at | (at + 1) << 64);
    }
}

#[test]
fn the_parts_with_an_interrupt_flag_are_where_they_seem_to_be() {
    // The assembled parts are a few instructions each.
    for part in coming_back().into_iter().chain([entering(), reentering()]) {
        assert!((28..96).contains(&part.len()), "{part:x?}");
    }
    assert!(
        (160..220).contains(&restoring().len()),
        "{:x?}",
        restoring()
    );
}

/// An exclusive store, and a store of its result. Stands for a guest that was interrupted before
/// its exclusive store.
#[unsafe(naked)]
unsafe extern "C" fn store_exclusively() {
    naked_asm!(
        "stlxr w2, x1, [x0]",
        "str x2, [x3]",
        "b {returned}",
        returned = sym returned,
    )
}

/// The guest of this test makes no request.
unsafe extern "C" fn no_answer(
    _: *mut u8,
    _: u64,
    _: *mut crate::value::Cell,
    _: *mut (),
) -> *mut Activation {
    ptr::null_mut()
}

#[test]
fn a_guest_that_was_interrupted_before_an_exclusive_store_loads_again() {
    let flag = core::sync::atomic::AtomicU8::new(GO);
    let mut record = record_of(&raw const flag);
    let activation = &raw mut record.activation;
    let (mut word, mut refused) = (5_u64, 7_u64);
    let mut stack = [0_u128; 64];
    let mut registers = Registers::none();
    registers.general[0] = &raw mut word as u64;
    registers.general[1] = 6;
    registers.general[3] = &raw mut refused as u64;
    registers.general[20] = activation as u64;
    registers.pc = store_exclusively as *const () as u64;
    registers.sp = (&raw mut stack[32]) as u64;
    // SAFETY: the registers make the guest run a routine that stores to the two words and returns.
    // The routine's stack is the array, and the interrupt flag is clear.
    let has_returned = unsafe {
        // Another guest on this thread, whose comparison failed, leaves this exclusive load behind.
        asm!("ldaxr {found}, [{at}]", found = out(reg) _, at = in(reg) &raw mut word);
        resume(
            activation,
            &raw const registers,
            (&raw mut stack[48]).cast(),
            no_answer,
            ptr::null_mut(),
        )
    };
    assert!(has_returned);
    assert_eq!((refused, word), (1, 5), "the store was to fail");
}
