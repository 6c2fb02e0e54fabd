//! x86_64: lines of 64 bytes by AVX-512, or by two halves with AVX2.
//!
//! # Safety
//!
//! Each routine is for processors with the instructions that it is marked with.
#![allow(unsafe_code)]

use super::{Lines, PAGE};
use core::arch::x86_64::{
    __m256i, __m512i, _mm256_load_si256, _mm256_loadu_si256, _mm256_or_si256, _mm256_setzero_si256,
    _mm256_store_si256, _mm256_testz_si256, _mm256_xor_si256, _mm512_cmpneq_epi64_mask,
    _mm512_load_si512, _mm512_loadu_si512, _mm512_or_si512, _mm512_setzero_si512,
    _mm512_store_si512, _mm512_test_epi64_mask, _mm512_xor_si512,
};

/// Lines that are compared before the first branch: of most, none differs.
const GROUP: usize = 4;

/// Adds what this processor has.
pub(super) fn add(all: &mut Vec<Lines>) {
    if std::arch::is_x86_feature_detected!("avx512f") {
        all.push(Lines {
            name: "avx512",
            restore: restore_512,
            clear: clear_512,
        });
    }
    if std::arch::is_x86_feature_detected!("avx2") {
        all.push(Lines {
            name: "avx2",
            restore: restore_256,
            clear: clear_256,
        });
    }
}

/// # Safety
///
/// As for [`super::Restore`].
#[target_feature(enable = "avx512f")]
unsafe fn restore_512(page: *mut u8, initial: *const u8) -> bool {
    let (page, initial) = (page.cast::<__m512i>(), initial.cast::<__m512i>());
    let mut changed = false;
    for first in (0..PAGE / 64).step_by(GROUP) {
        // SAFETY: (all) lines of both pages.
        let wanted = [0, 1, 2, 3].map(|i| unsafe { _mm512_loadu_si512(initial.add(first + i)) });
        let differ = |i: usize| {
            // SAFETY: as above.
            _mm512_xor_si512(unsafe { _mm512_load_si512(page.add(first + i)) }, wanted[i])
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
            // SAFETY: as above.
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

/// # Safety
///
/// As for [`super::Clear`].
#[target_feature(enable = "avx512f")]
unsafe fn clear_512(page: *mut u8) -> bool {
    let page = page.cast::<__m512i>();
    let mut changed = false;
    for first in (0..PAGE / 64).step_by(GROUP) {
        // SAFETY: (all) lines of the page.
        let lines = [0, 1, 2, 3].map(|i| unsafe { _mm512_load_si512(page.add(first + i)) });
        let any = _mm512_or_si512(
            _mm512_or_si512(lines[0], lines[1]),
            _mm512_or_si512(lines[2], lines[3]),
        );
        if _mm512_test_epi64_mask(any, any) == 0 {
            continue;
        }
        changed = true;
        for (i, line) in lines.into_iter().enumerate() {
            if _mm512_test_epi64_mask(line, line) != 0 {
                // SAFETY: as above.
                unsafe { _mm512_store_si512(page.add(first + i), _mm512_setzero_si512()) };
            }
        }
    }
    changed
}

/// # Safety
///
/// As for [`super::Restore`].
#[target_feature(enable = "avx2")]
unsafe fn restore_256(page: *mut u8, initial: *const u8) -> bool {
    let (page, initial) = (page.cast::<__m256i>(), initial.cast::<__m256i>());
    let mut changed = false;
    for first in (0..PAGE / 32).step_by(2) {
        // SAFETY: both halves of lines of both pages.
        unsafe {
            let (low, high) = (page.add(first), page.add(first + 1));
            let wanted_low = _mm256_loadu_si256(initial.add(first));
            let wanted_high = _mm256_loadu_si256(initial.add(first + 1));
            let differ = _mm256_or_si256(
                _mm256_xor_si256(_mm256_load_si256(low), wanted_low),
                _mm256_xor_si256(_mm256_load_si256(high), wanted_high),
            );
            if _mm256_testz_si256(differ, differ) == 0 {
                changed = true;
                _mm256_store_si256(low, wanted_low);
                _mm256_store_si256(high, wanted_high);
            }
        }
    }
    changed
}

/// # Safety
///
/// As for [`super::Clear`].
#[target_feature(enable = "avx2")]
unsafe fn clear_256(page: *mut u8) -> bool {
    let page = page.cast::<__m256i>();
    let mut changed = false;
    for first in (0..PAGE / 32).step_by(2) {
        // SAFETY: both halves of lines of the page.
        unsafe {
            let (low, high) = (page.add(first), page.add(first + 1));
            let any = _mm256_or_si256(_mm256_load_si256(low), _mm256_load_si256(high));
            if _mm256_testz_si256(any, any) == 0 {
                changed = true;
                _mm256_store_si256(low, _mm256_setzero_si256());
                _mm256_store_si256(high, _mm256_setzero_si256());
            }
        }
    }
    changed
}
