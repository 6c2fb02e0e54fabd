//! Walks a guest's frames by frame pointers, from the point where the guest left.
//!
//! Generated code keeps frame pointers: the caller's frame pointer is at `[fp]`, the return address
//! at `[fp + 8]` (psABI x86-64 3.4.1, AAPCS64 6.4.6). The chain ends with 0, which the stack switch
//! stored. Every step is checked against the bounds of the stack, and the chain must ascend: a
//! damaged chain ends the walk.
//!
//! A signal can stop a guest at any instruction, so the innermost frame may not exist:
//!
//! - At the first instruction of a function or trampoline, the frame pointer is the caller's, or 0
//!   in the entry trampoline. The return address is on top of the stack (x86_64) or in the link
//!   register (aarch64), and the walk takes the return address from there.
//! - After the push of the caller's frame pointer and before the frame pointer is set, and after
//!   the frame is removed and before the return, the frame pointer is the caller's, too. The walk
//!   then begins with the caller's frame, so the backtrace lacks the caller. Only a stopped guest
//!   can be at these instructions, which do not trap.
//! - If the switch refused to enter the guest, there are no frames. The activation then has no exit
//!   (see [`Activation::forget_exit`]).
//!
//! So the walk reads only words that a call or a prologue has written.
//!
//! # Safety
//!
//! Reads only words of the running stack between its bounds.
#![allow(unsafe_code)]

use super::frame::Frame;
use crate::account::HostBytesError;
use crate::module::Module;
use crate::switch::activation::within;
use crate::switch::{Activation, Fault, Guest, arch};
use core::iter;
use pirn_format::traps::CodeKind;
use smallvec::SmallVec;
use std::sync::OnceLock;

/// Maximum number of frames in a backtrace. If the stack has more frames, the backtrace only says
/// so.
const FRAMES_MAX: usize = 64;

/// The program counters on a guest's stack. A trace translates them to functions on demand.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// Modules of the instances that the call could reach: one module, unless the instance was in a
    /// group.
    modules: SmallVec<[Module; 1]>,
    /// The program counters, innermost first.
    pcs: SmallVec<[usize; 8]>,
    /// Whether the first program counter is the faulting instruction. The other program counters
    /// are return addresses.
    exact: bool,
    /// Whether the stack has more program counters than `pcs`.
    more: bool,
    /// The host memory request that was refused, if the guest left because of the refusal.
    pub(crate) host_bytes: Option<HostBytesError>,
    frames: OnceLock<Vec<Frame>>,
}

impl Trace {
    /// Collects the program counters of the guest that left at `activation`.
    ///
    /// # Safety
    ///
    /// `root` must be the guest of the called instance, and all its links must be valid.
    /// `activation` must belong to the same call, and its guest must have left. `modules` must give
    /// all modules that the call could reach.
    pub(crate) unsafe fn of(
        activation: &Activation,
        root: *const Guest,
        modules: impl Iterator<Item = Module>,
    ) -> Box<Self> {
        let mut trace = Box::write(
            Box::new_uninit(),
            Self {
                modules: SmallVec::new(),
                pcs: SmallVec::new(),
                exact: activation.fault.is_some(),
                more: false,
                host_bytes: None,
                frames: OnceLock::new(),
            },
        );
        // The list is filled in its final place: moving a list just after filling it would wait for
        // the stores.
        modules.for_each(|module| trace.modules.push(module));
        // SAFETY: the caller promises a valid chain of guests, and an activation whose guest has
        // left.
        unsafe { trace.walk(activation, root) };
        trace
    }

    /// Creates a trace without program counters.
    pub(crate) fn of_nothing(host_bytes: Option<HostBytesError>) -> Self {
        Self {
            modules: SmallVec::new(),
            pcs: SmallVec::new(),
            exact: false,
            more: false,
            host_bytes,
            frames: OnceLock::new(),
        }
    }

    /// Creates a trace of program counters that were recorded while an exception left the guest,
    /// innermost first.
    pub(crate) fn of_pcs(pcs: &[usize], modules: impl Iterator<Item = Module>) -> Box<Self> {
        let mut trace = Box::new(Self {
            modules: modules.collect(),
            pcs: SmallVec::new(),
            exact: false,
            more: false,
            host_bytes: None,
            frames: OnceLock::new(),
        });
        for pc in pcs {
            trace.push(*pc);
        }
        trace
    }

    /// The WebAssembly functions, innermost first.
    pub(crate) fn frames(&self) -> &[Frame] {
        self.frames
            .get_or_init(|| self.all_frames().take(FRAMES_MAX).collect())
    }

    /// The functions at all program counters, also functions for which a backtrace has no room.
    fn all_frames(&self) -> impl Iterator<Item = Frame> {
        let pcs = self.pcs.iter().enumerate();
        let at = |(depth, pc): (usize, &usize)| {
            frames_at(self.module_of(*pc)?, *pc, depth == 0 && self.exact)
        };
        pcs.filter_map(at).flatten()
    }

    /// Whether the stack has more frames than [`frames`](Self::frames) gives.
    pub(crate) fn has_more(&self) -> bool {
        self.more || self.all_frames().count() > FRAMES_MAX
    }

    /// The module whose text contains an address.
    fn module_of(&self, pc: usize) -> Option<&Module> {
        let mut modules = self.modules.iter();
        modules.find(|module| module.text().contains(&pc))
    }

    /// Adds an address. Returns whether there was room.
    fn push(&mut self, pc: usize) -> bool {
        if self.module_of(pc).is_none() {
            return true;
        }
        // The list may have one address more, because the first address may belong to no function.
        if self.pcs.len() > FRAMES_MAX {
            self.more = true;
            return false;
        }
        self.pcs.push(pc);
        true
    }

    /// # Safety
    ///
    /// As [`of`](Self::of).
    unsafe fn walk(&mut self, activation: &Activation, root: *const Guest) {
        // SAFETY: the caller promises that `root` is a valid guest.
        let stack = unsafe { (*root).stack };
        let fp = if let Some(Fault { at, .. }) = activation.fault {
            self.push(at.pc);
            let at_start = self
                .module_of(at.pc)
                .is_some_and(|module| is_start(module, at.pc));
            // The first instruction of a function pushes the caller's frame pointer, and has not
            // run. So the return address is where the call put it, and the frame pointer is the
            // caller's frame pointer.
            let returns_to = match at.link {
                // SAFETY: the stack belongs to the guest, which has left it.
                0 => unsafe { word(stack, at.sp) },
                link => Some(link),
            };
            if let (true, Some(pc)) = (at_start, returns_to) {
                self.push(pc);
            }
            at.fp
        } else {
            // A function called the host call routine, or a stub or a trampoline called an exit
            // routine. Only the address of a function becomes a frame.
            // SAFETY: the stack belongs to the guest, which has left it.
            let word = |sp| unsafe { word(stack, sp) };
            if let Some(pc) = arch::exit_returns_to(activation, word) {
                self.push(pc);
            }
            activation.guest_registers[arch::FRAME_POINTER] as usize
        };
        // SAFETY: the stack belongs to the guest, which has left it.
        for call in unsafe { calls(stack, fp) } {
            if !self.push(call.pc) {
                break;
            }
        }
    }
}

/// A call in progress on a guest's stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallInProgress {
    /// Return address of the call.
    pub(crate) pc: usize,
    /// Frame pointer of the callee.
    pub(crate) of: usize,
    /// Frame pointer of the caller. If the caller's frame pointer is not above `of`, the chain is
    /// damaged and ends.
    pub(crate) by: usize,
}

/// Iterates over the calls in progress on a stack with these bounds, innermost first, starting at a
/// frame pointer. The entry trampoline's frame is the last frame. The call that the trampoline
/// makes is not included.
///
/// # Safety
///
/// `stack` must belong to a guest that is not running. Its slot must stay taken while the iterator
/// is used.
pub(crate) unsafe fn calls(stack: [usize; 2], fp: usize) -> impl Iterator<Item = CallInProgress> {
    // SAFETY: the caller promises that the guest is not running and its slot stays taken.
    let word = move |address| unsafe { word(stack, address) };
    let call = move |of: usize| {
        let (by, pc) = (word(of)?, word(of.wrapping_add(8))?);
        (word(by) != Some(0)).then_some(CallInProgress { pc, of, by })
    };
    iter::successors(call(fp), move |last| {
        (last.by > last.of).then(|| call(last.by)).flatten()
    })
}

/// Reads the word at an address, if the address is aligned and inside the stack.
///
/// # Safety
///
/// As [`calls`].
unsafe fn word(stack: [usize; 2], address: usize) -> Option<usize> {
    let is_inside = within(stack, address) && within(stack, address.wrapping_add(7));
    let is_word = is_inside && address.is_multiple_of(8);
    // SAFETY: these eight aligned bytes are inside the stack, which stays mapped while the slot is
    // taken.
    is_word.then(|| unsafe { *(address as *const usize) })
}

/// Whether a function or trampoline starts at an address of a module's text.
fn is_start(module: &Module, pc: usize) -> bool {
    let offset = pc.checked_sub(module.text().start).map(u32::try_from);
    matches!(offset, Some(Ok(offset)) if module.code_table().at(offset).is_some())
}

/// The WebAssembly functions at an address of a module's text, innermost first: functions that were
/// inlined, then the function that contains them. `None` for trampolines and stubs.
fn frames_at(module: &Module, pc: usize, exact: bool) -> Option<impl Iterator<Item = Frame>> {
    let offset = u32::try_from(pc.checked_sub(module.text().start)?).ok()?;
    // The last byte of a call stands for its return address, which may lie after the last byte of
    // its function.
    let inside = if exact {
        offset
    } else {
        offset.checked_sub(1)?
    };
    let CodeKind::Func(func) = module.code_table().find(inside)?.kind else {
        return None;
    };
    let inlined = module.inlined().at(inside);
    let inlined = inlined.map(|entry| Frame::new(module.clone(), entry.func, Some(entry.wasm)));
    let wasm = module.sites().wasm_offset(inside);
    Some(inlined.chain([Frame::new(module.clone(), func, wasm)]))
}
