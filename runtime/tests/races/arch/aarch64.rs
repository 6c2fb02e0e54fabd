//! On aarch64 a program cannot single-step itself. So `brk` replaces each instruction at which an
//! interrupt has an effect: the guest's instructions, and those of the runtime's routines around
//! the guest.
//!
//! The signal handler restores the instruction that was reached, and replaces the previous one by
//! `brk` again. This needs no decoder. No other thread runs that code.

use core::arch::asm;
use core::ptr;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicPtr, AtomicUsize};
use std::fs;
use std::ops::Range;
use std::sync::OnceLock;

/// Stepped instructions of several iterations of a loop.
pub(crate) const ITERATIONS: u32 = 300;
/// Whether the runtime's own code is stepped too, beyond its routines around the guest.
pub(crate) const EVERYWHERE: bool = false;

/// `brk #0x7069` (Arm ARM, C6.2).
const BRK: u32 = 0xd420_0000 | 0x7069 << 5;

/// The address of an instruction, and the instruction word.
type Word = (usize, u32);

/// The instructions that are replaced during steps, in ascending order of address.
static REPLACED: AtomicPtr<Vec<Word>> = AtomicPtr::new(ptr::null_mut());
/// The address of the instruction that was reached last and is restored now; 0 if none is.
static LATEST: AtomicUsize = AtomicUsize::new(0);

extern "C" fn trapped(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context (sigaction(2)). `REPLACED` points to a live list
    // while any instruction is replaced.
    let (pc, replaced) = unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        (context.uc_mcontext.pc as usize, &*REPLACED.load(SeqCst))
    };
    let met = replaced.binary_search_by_key(&pc, |(at, _)| *at);
    let (at, word) = replaced[met.expect("only the test inserts breakpoints")];
    let latest = LATEST.swap(at, SeqCst);
    if latest != 0 {
        write(latest, BRK);
    }
    write(at, word);
    crate::races::instant();
}

/// Makes each stepped instruction call [`crate::races::instant`].
pub(crate) fn install() {
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = trapped;
    super::handle(
        libc::SIGTRAP,
        handler as *const () as usize,
        libc::SA_SIGINFO,
    );
}

/// Runs a function step by step.
pub(crate) fn stepped<R>(run: impl FnOnce() -> R) -> R {
    static OURS: OnceLock<Vec<Word>> = OnceLock::new();
    let mut words = OURS.get_or_init(routines).clone();
    // The guests of this test have no constants in their code, and zeros after it.
    words.extend(mapped("pirn-module").into_iter().flat_map(read));
    words.retain(|(_, word)| *word != 0);
    words.sort_unstable();
    let words: *mut Vec<Word> = Box::into_raw(Box::new(words));
    REPLACED.store(words, SeqCst);
    LATEST.store(0, SeqCst);
    // SAFETY: `words` came from `Box::into_raw` in this function. Until it is freed, this function
    // and the handler only read it.
    let all = unsafe { &*words };
    all.iter().for_each(|(at, _)| write(*at, BRK));
    let result = run();
    all.iter().for_each(|(at, word)| write(*at, *word));
    // SAFETY: `words` came from `Box::into_raw` in this function. No instruction is replaced now,
    // so the handler reads it no more.
    drop(unsafe { Box::from_raw(words) });
    result
}

/// The instructions of two kinds of runtime routines: those that check the interrupt flag, and
/// those that leave for the host, up to that check. Each ends with two `udf` that spell "pirn".
fn routines() -> Vec<Word> {
    const END: [u32; 2] = [0x7069, 0x726e];
    /// `movz xzr, #0x7069, lsl #16`: it follows a host call.
    const MARK: u32 = 0xd2ae_0d3f;
    /// `ldrb w11, [x11]`: the second instruction of a routine that enters the guest.
    const LOOKS: u32 = 0x3940_016b;
    /// `ldur x9, [x0, ...]`: the first instruction of a routine that leaves, and the mask of its
    /// immediate.
    const LEAVES: (u32, u32) = (0xf840_0009, 0x001f_f000);
    let this = std::env::current_exe().expect("this program");
    let name = this.file_name().expect("a name").to_string_lossy();
    let (mut found, mut others) = (vec![], 0);
    for range in mapped(&name) {
        let words = read(range);
        let is = |at: usize, word: u32| words[at].1 == word;
        let mut after_last = 0;
        for end in 64..words.len() - 1 {
            if !is(end, END[0]) || !is(end + 1, END[1]) {
                continue;
            }
            let first = (after_last.max(end - 64)..end).rev();
            after_last = end + END.len();
            let enters = first.clone().find(|at| is(*at, LOOKS)).map(|at| at - 1);
            let leaves = |at: &usize| words[*at].1 & !LEAVES.1 == LEAVES.0;
            let start = match first.clone().find(|at| leaves(at) || is(*at, LOOKS)) {
                // One of these routines loads two fields, so the match may be its second load.
                Some(at) if leaves(&at) => (at - 2..=at).find(leaves),
                _ => enters,
            };
            match start {
                Some(start) => found.extend(&words[start..end]),
                None => others += 1,
            }
        }
    }
    // The two routines that copy and fill, and two that end them. A breakpoint between an exclusive
    // load and its store would let the store fail for ever, so x86_64 steps through these routines.
    assert_eq!(others, 4, "routines without a breakpoint");
    // The runtime finds its host calls by this marker, so it must stay as it is.
    found.retain(|(_, word)| *word != MARK);
    assert!(found.len() > 100, "they are there");
    found
}

/// Address ranges where a file with this name is mapped as executable.
fn mapped(name: &str) -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").expect("proc(5)");
    let executed =
        |line: &&str| line.contains(name) && line.contains("r-xp") | line.contains("rwxp");
    let range = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let hex = |text| usize::from_str_radix(text, 16).ok();
        Some(hex(start)?..hex(rest.split(' ').next()?)?)
    };
    let lines = maps.lines().filter(executed);
    lines.map(|line| range(line).expect("a range")).collect()
}

/// The instructions of a range, which becomes writable.
fn read(range: Range<usize>) -> Vec<Word> {
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: the range is whole pages of a private mapping, which keeps every access right that it
    // had.
    let done = unsafe { libc::mprotect(range.start as *mut _, range.len(), access) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    let words = range.step_by(4);
    // SAFETY: `range` is mapped, readable code.
    words
        .map(|at| (at, unsafe { *(at as *const u32) }))
        .collect()
}

/// Replaces an instruction on all processors (Arm ARM, B2.4.4). A cache line has at least 64 bytes.
fn write(at: usize, word: u32) {
    // SAFETY: `at` is an instruction in code that `read` has made writable. No other thread runs
    // that code.
    unsafe {
        (at as *mut u32).write_volatile(word);
        asm!("dc cvau, {at}", "dsb ish", "ic ivau, {at}", "dsb ish", "isb", at = in(reg) at);
    }
}
