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

use crate::switch::activation::within;
use crate::switch::{Activation, Fault, Guest, arch};
use crate::trap::Frame;
use pirn_format::traps::CodeKind;

use crate::module::Module;

/// Most frames that a backtrace holds; more are only said to exist.
pub(crate) const FRAMES_MAX: usize = 64;

/// The frames of WebAssembly functions from where `activation` left, innermost first, and whether
/// there are more of them than are listed.
///
/// # Safety
///
/// `root` must be the guest of the instance that was called, with all links valid, and `activation`
/// that of the same call, whose guest has left.
pub(crate) unsafe fn walk<'m>(
    activation: &Activation,
    root: *const Guest,
    module_of: impl Fn(usize) -> Option<&'m Module>,
) -> (Vec<Frame>, bool) {
    // SAFETY: the caller vouches for it.
    let stack = unsafe { (*root).stack };
    let word = |address: usize| {
        let inside =
            within(stack, address) && within(stack, address + 7) && address.is_multiple_of(8);
        // SAFETY: eight aligned bytes inside the stack, which stays mapped while the slot is taken.
        inside.then(|| unsafe { *(address as *const usize) })
    };
    let mut frames = vec![];
    let mut visit = |pc: usize, exact: bool| {
        let Some(module) = module_of(pc) else {
            return true;
        };
        if let Some(frame) = frame(module, pc, exact) {
            if frames.len() == FRAMES_MAX {
                return false;
            }
            frames.push(frame);
        }
        true
    };
    let mut fp = if let Some(Fault { pc, sp, fp, .. }) = activation.fault {
        visit(pc, true);
        if module_of(pc).is_some_and(|module| is_start(module, pc)) {
            // The first instruction of a function pushes the caller's frame pointer, and could not: the
            // return address is on top of the stack, and the frame is the caller's.
            if let Some(pc) = word(sp) {
                visit(pc, false);
            }
        }
        fp
    } else {
        // What called the exit routine is a stub or a trampoline: the frames start with its caller.
        activation.guest_registers[arch::FRAME_POINTER] as usize
    };
    while let (Some(next), Some(pc)) = (word(fp), word(fp.wrapping_add(8))) {
        // The frame of the entry trampoline is the last, and has none before it.
        if word(next) == Some(0) {
            break;
        }
        if !visit(pc, false) {
            return (frames, true);
        }
        if next <= fp {
            break;
        }
        fp = next;
    }
    (frames, false)
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
