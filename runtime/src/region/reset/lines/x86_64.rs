//! x86_64: routines that compare a line of 64 bytes with AVX-512, or its two halves with AVX2.
//!
//! # Safety
//!
//! Each routine has a `target_feature` attribute. [`add`] adds a routine only if the processor has
//! the routine's feature.
#![allow(unsafe_code)]

use super::routine::Lines;
use crate::region::reset::memory0::PAGE;
use core::arch::x86_64::{
    __m256i, __m512i, _mm256_load_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_setzero_si256,
    _mm256_store_si256, _mm256_testz_si256, _mm256_xor_si256, _mm512_cmpneq_epi64_mask,
    _mm512_load_si512, _mm512_loadu_si512, _mm512_or_si512, _mm512_setzero_si512,
    _mm512_store_si512, _mm512_test_epi64_mask, _mm512_xor_si512,
};

/// Number of lines that are compared before a branch. In most groups, no line differs.
const GROUP: usize = 4;

/// Adds the routines that this processor can run.
pub(super) fn add(all: &mut Vec<Lines>) {
    if std::arch::is_x86_feature_detected!("avx512f") {
        all.push(Lines {
            name: "avx512",
            restore: put_back_512::<false>,
            clear: put_back_512::<true>,
        });
    }
    if std::arch::is_x86_feature_detected!("avx2") {
        all.push(Lines {
            name: "avx2",
            restore: put_back_256::<false>,
            clear: put_back_256::<true>,
        });
    }
}

/// AVX-512 routine, see [`super::routine::PutBack`].
///
/// # Safety
///
/// The conditions of [`super::routine::PutBack`] must hold.
#[target_feature(enable = "avx512f")]
unsafe fn put_back_512<const ZEROS: bool>(page: *mut u8, initial: *const u8) -> bool {
    let (page, initial) = (page.cast::<__m512i>(), initial.cast::<__m512i>());
    let mut changed = false;
    for first in (0..PAGE / 64).step_by(GROUP) {
        let wanted = [0, 1, 2, 3].map(|i| {
            if ZEROS {
                _mm512_setzero_si512()
            } else {
                // SAFETY: the line lies in `initial`, which the caller ensures is a readable page.
                unsafe { _mm512_loadu_si512(initial.add(first + i)) }
            }
        });
        let differ = |i: usize| {
            // SAFETY: the line lies in `page`, which the caller ensures is writable and aligned.
            let now = unsafe { _mm512_load_si512(page.add(first + i)) };
            _mm512_xor_si512(now, wanted[i])
        };
        let any = _mm512_or_si512(
            _mm512_or_si512(differ(0), differ(1)),
            _mm512_or_si512(differ(2), differ(3)),
        );
        if _mm512_test_epi64_mask(any, any) == 0 {
            continue;
        }
        changed = true;
        for (i, wanted) in wanted.into_iter().enumerate() {
            // SAFETY: the line lies in `page`, which the caller ensures is writable and aligned.
            unsafe {
                let line = page.add(first + i);
                if _mm512_cmpneq_epi64_mask(_mm512_load_si512(line), wanted) != 0 {
                    _mm512_store_si512(line, wanted);
                }
            }
        }
    }
    changed
}

/// AVX2 routine, see [`super::routine::PutBack`].
///
/// # Safety
///
/// The conditions of [`super::routine::PutBack`] must hold.
#[target_feature(enable = "avx2")]
unsafe fn put_back_256<const ZEROS: bool>(page: *mut u8, initial: *const u8) -> bool {
    let (page, initial) = (page.cast::<__m256i>(), initial.cast::<__m256i>());
    let mut changed = false;
    for first in (0..PAGE / 32).step_by(2) {
        let wanted = [0, 1].map(|i| {
            if ZEROS {
                _mm256_setzero_si256()
            } else {
                // SAFETY: the half line lies in `initial`, which the caller ensures is a readable
                // page.
                unsafe { _mm256_loadu_si256(initial.add(first + i)) }
            }
        });
        // SAFETY: both halves of the line lie in `page`, which the caller ensures is writable and
        // aligned.
        unsafe {
            let (low, high) = (page.add(first), page.add(first + 1));
            let differ = _mm256_or_si256(
                _mm256_xor_si256(_mm256_load_si256(low), wanted[0]),
                _mm256_xor_si256(_mm256_load_si256(high), wanted[1]),
            );
            if _mm256_testz_si256(differ, differ) == 0 {
                changed = true;
                _mm256_store_si256(low, wanted[0]);
                _mm256_store_si256(high, wanted[1]);
            }
        }
    }
    changed
}
