//! Walking a guest's frames from where it left, by frame pointers.
//!
//! Generated code keeps frame pointers: at `[fp]` is the caller's, at `[fp + 8]` the return address
//! (psABI x86-64 3.4.1, AAPCS64 6.4.6). The chain ends with 0, which the switch put there. Every step
//! is checked against the stack's bounds, and the chain must ascend: a damaged chain ends the walk.
//!
//! # Safety
//!
//! Reads only words of the running stack between its bounds.
#![allow(unsafe_code)]

use crate::account::HostBytesError;
use crate::module::Module;
use crate::switch::activation::within;
use crate::switch::{Activation, Fault, Guest, arch};
use crate::trap::Frame;
use core::iter;
use pirn_format::traps::CodeKind;
use smallvec::SmallVec;
use std::sync::OnceLock;

/// Most frames that a backtrace holds; more are only said to exist.
const FRAMES_MAX: usize = 64;

/// The program counters on a guest's stack; what they mean is found out when somebody asks.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// Those of the instances that the call could reach: one, unless it was of a group.
    modules: SmallVec<[Module; 1]>,
    /// Innermost first.
    pcs: SmallVec<[usize; 8]>,
    /// Whether the first is of the faulting instruction; the others are where calls return to.
    exact: bool,
    /// Whether there are more than these.
    pub(crate) more: bool,
    /// What the host refused to hold for the guest, if that was why it left.
    pub(crate) host_bytes: Option<HostBytesError>,
    frames: OnceLock<Vec<Frame>>,
}

impl Trace {
    /// The program counters from where `activation` left.
    ///
    /// # Safety
    ///
    /// `root` must be the guest of the instance that was called, with all links valid, and `activation`
    /// that of the same call, whose guest has left. All modules that it could reach are given.
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
        // Where they stay: a list that is moved is loaded before what was stored of it has arrived.
        modules.for_each(|module| trace.modules.push(module));
        // SAFETY: the caller's promises.
        unsafe { trace.walk(activation, root) };
        trace
    }

    /// A trace without program counters.
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

    /// The program counters that were noted on the way out of a guest, innermost first.
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
        self.frames.get_or_init(|| {
            let pcs = self.pcs.iter().enumerate();
            let frame = |(depth, pc): (usize, &usize)| {
                frame(self.module_of(*pc)?, *pc, depth == 0 && self.exact)
            };
            pcs.filter_map(frame).collect()
        })
    }

    /// The module in whose text an address lies.
    fn module_of(&self, pc: usize) -> Option<&Module> {
        let mut modules = self.modules.iter();
        modules.find(|module| module.text().contains(&pc))
    }

    /// Adds an address; tells whether there was room.
    fn push(&mut self, pc: usize) -> bool {
        if self.module_of(pc).is_none() {
            return true;
        }
        if self.pcs.len() == FRAMES_MAX {
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
        // SAFETY: the caller vouches for it.
        let stack = unsafe { (*root).stack };
        let fp = if let Some(Fault { at, .. }) = activation.fault {
            self.push(at.pc);
            let at_start = self
                .module_of(at.pc)
                .is_some_and(|module| is_start(module, at.pc));
            // The first instruction of a function pushes the caller's frame pointer, and could not: the
            // return address is where the call put it, and the frame is the caller's.
            let returns_to = match at.link {
                // SAFETY: the guest's stack, which it has left.
                0 => unsafe { word(stack, at.sp) },
                link => Some(link),
            };
            if let (true, Some(pc)) = (at_start, returns_to) {
                self.push(pc);
            }
            at.fp
        } else {
            // What called the exit routine is a stub or a trampoline: the frames start with its caller.
            activation.guest_registers[arch::FRAME_POINTER] as usize
        };
        // SAFETY: the guest's stack, which it has left.
        for call in unsafe { calls(stack, fp) } {
            if !self.push(call.pc) {
                break;
            }
        }
    }
}

/// A call that is under way on a guest's stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    /// Where it returns to.
    pub(crate) pc: usize,
    /// The frame pointer of what was called.
    pub(crate) of: usize,
    /// The frame pointer of what has called. If it does not lie above, the chain is damaged, and ends.
    pub(crate) by: usize,
}

/// The calls that are under way on a stack of these bounds, innermost first, from a frame pointer on. The entry trampoline's is
/// the last frame, and has none before it: what it calls is not among them.
///
/// # Safety
///
/// `stack` must be a guest's, which does not run, and its slot taken as long as the calls are asked for.
pub(crate) unsafe fn calls(stack: [usize; 2], fp: usize) -> impl Iterator<Item = Call> {
    // SAFETY: the caller's promise.
    let word = move |address| unsafe { word(stack, address) };
    let call = move |of: usize| {
        let (by, pc) = (word(of)?, word(of.wrapping_add(8))?);
        (word(by) != Some(0)).then_some(Call { pc, of, by })
    };
    iter::successors(call(fp), move |last| {
        (last.by > last.of).then(|| call(last.by)).flatten()
    })
}

/// The word at an address of a stack, if it is one, and aligned.
///
/// # Safety
///
/// As [`calls`].
unsafe fn word(stack: [usize; 2], address: usize) -> Option<usize> {
    let is_inside = within(stack, address) && within(stack, address.wrapping_add(7));
    let is_word = is_inside && address.is_multiple_of(8);
    // SAFETY: eight aligned bytes inside the stack, which stays mapped while the slot is taken.
    is_word.then(|| unsafe { *(address as *const usize) })
}

/// Whether a function or trampoline starts at an address of a module's text.
fn is_start(module: &Module, pc: usize) -> bool {
    let offset = pc.checked_sub(module.text().start).map(u32::try_from);
    matches!(offset, Some(Ok(offset)) if module.code_table().at(offset).is_some())
}

/// The WebAssembly function at an address of a module's text; `None` for trampolines and stubs.
fn frame(module: &Module, pc: usize, exact: bool) -> Option<Frame> {
    let offset = u32::try_from(pc.checked_sub(module.text().start)?).ok()?;
    // A return address may lie behind the last byte of its function.
    let inside = if exact {
        offset
    } else {
        offset.checked_sub(1)?
    };
    match module.code_table().find(inside)?.kind {
        CodeKind::Func(func) => Some(Frame::new(
            module.clone(),
            func,
            module.sites().wasm_offset(offset),
        )),
        _ => None,
    }
}
