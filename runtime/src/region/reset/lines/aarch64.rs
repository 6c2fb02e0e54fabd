//! aarch64: lines of 64 bytes by four NEON registers, which every processor of our targets has.
//!
//! # Safety
//!
//! NEON is part of the baseline.
#![allow(unsafe_code)]

use super::{LINE, Lines, PAGE};
use core::arch::aarch64::{
    uint8x16_t, vdupq_n_u8, veorq_u8, vld1q_u8, vmaxvq_u8, vorrq_u8, vst1q_u8,
};

/// Adds what this processor has.
pub(super) fn add(all: &mut Vec<Lines>) {
    all.push(Lines {
        name: "neon",
        restore: put_back::<false>,
        clear: put_back::<true>,
    });
}

/// # Safety
///
/// A line must be readable there.
unsafe fn load(line: *const u8) -> [uint8x16_t; 4] {
    // SAFETY: the caller's promise.
    [0, 16, 32, 48].map(|at| unsafe { vld1q_u8(line.add(at)) })
}

/// # Safety
///
/// A line must be writable there.
unsafe fn store(line: *mut u8, values: [uint8x16_t; 4]) {
    for (i, value) in values.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { vst1q_u8(line.add(16 * i), value) };
    }
}

/// Whether any bit is set.
fn any([a, b, c, d]: [uint8x16_t; 4]) -> bool {
    // SAFETY: NEON is there.
    unsafe { vmaxvq_u8(vorrq_u8(vorrq_u8(a, b), vorrq_u8(c, d))) != 0 }
}

/// # Safety
///
/// As for [`super::PutBack`].
unsafe fn put_back<const ZEROS: bool>(page: *mut u8, initial: *const u8) -> bool {
    let mut changed = false;
    for at in (0..PAGE).step_by(LINE) {
        // SAFETY: lines of both pages.
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
