//! aarch64: routines that compare a line of 64 bytes in four NEON registers.
//!
//! # Safety
//!
//! Every processor of our targets has NEON, which is part of the baseline.
#![allow(unsafe_code)]

use super::routine::{LINE, Lines};
use crate::region::reset::memory0::PAGE;
use core::arch::aarch64::{
    uint8x16_t, vdupq_n_u8, veorq_u8, vld1q_u8, vmaxvq_u8, vorrq_u8, vst1q_u8,
};

/// Adds the routines that this processor can run.
pub(super) fn add(all: &mut Vec<Lines>) {
    all.push(Lines {
        name: "neon",
        restore: put_back::<false>,
        clear: put_back::<true>,
    });
}

/// Loads a line.
///
/// # Safety
///
/// `line` must be the address of [`LINE`] readable bytes.
unsafe fn load(line: *const u8) -> [uint8x16_t; 4] {
    // SAFETY: the caller ensures that all 64 bytes of the line are readable.
    [0, 16, 32, 48].map(|at| unsafe { vld1q_u8(line.add(at)) })
}

/// Stores a line.
///
/// # Safety
///
/// `line` must be the address of [`LINE`] writable bytes.
unsafe fn store(line: *mut u8, values: [uint8x16_t; 4]) {
    for (i, value) in values.into_iter().enumerate() {
        // SAFETY: the caller ensures that all 64 bytes of the line are writable.
        unsafe { vst1q_u8(line.add(16 * i), value) };
    }
}

/// Whether any bit is set.
fn any([a, b, c, d]: [uint8x16_t; 4]) -> bool {
    // SAFETY: the processor has NEON, as the documentation of this module says.
    unsafe { vmaxvq_u8(vorrq_u8(vorrq_u8(a, b), vorrq_u8(c, d))) != 0 }
}

/// NEON routine, see [`super::routine::PutBack`].
///
/// # Safety
///
/// The conditions of [`super::routine::PutBack`] must hold.
unsafe fn put_back<const ZEROS: bool>(page: *mut u8, initial: *const u8) -> bool {
    let mut changed = false;
    for at in (0..PAGE).step_by(LINE) {
        // SAFETY: `at` is the offset of a line in both pages, for which the caller ensures the
        // conditions of `PutBack`.
        unsafe {
            let wanted = if ZEROS {
                [vdupq_n_u8(0); 4]
            } else {
                load(initial.add(at))
            };
            let now = load(page.add(at));
            if any([0, 1, 2, 3].map(|i: usize| veorq_u8(now[i], wanted[i]))) {
                store(page.add(at), wanted);
                changed = true;
            }
        }
    }
    changed
}
