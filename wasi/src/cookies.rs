//! [`Cookies`]: the positions in directories that a guest gets.
//!
//! The kernel's positions may have 63 bits (ext4: a hash of the name). A guest with 32-bit numbers
//! cannot keep such a position: telldir(3) returns a `long`. So a guest gets positions below 2^31.

use crate::errno::Errno;
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Smaller positions are their own cookies, larger ones get successive cookies from here on.
const FIRST: u64 = 1 << 30;
/// Most positions of a guest that get a cookie. They take about 512 KiB of host memory.
const COOKIES_MAX: usize = 16 << 10;
/// Marks the cookie of a further position: the position itself, with this bit. A guest that keeps
/// 64 bits can use such a cookie.
const WIDE: u64 = 1 << 63;

/// The positions in directories that a guest has got, for all of its directories.
#[derive(Debug, Default)]
pub(crate) struct Cookies(Mutex<Positions>);

#[derive(Debug, Default)]
struct Positions {
    /// The positions, by their cookies.
    all: Vec<u64>,
    cookies: HashMap<u64, u64, FxBuildHasher>,
}

impl Cookies {
    /// The cookie of a position.
    pub(crate) fn cookie(&self, position: u64) -> u64 {
        if position < FIRST {
            return position;
        }
        let mut positions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cookie) = positions.cookies.get(&position) {
            return *cookie;
        }
        if positions.all.len() == COOKIES_MAX {
            return position | WIDE;
        }
        let cookie = FIRST + positions.all.len() as u64;
        positions.all.push(position);
        positions.cookies.insert(position, cookie);
        cookie
    }

    /// The position of a cookie.
    ///
    /// # Errors
    ///
    /// `inval` for a cookie that the guest did not get.
    pub(crate) fn position(&self, cookie: u64) -> Result<u64, Errno> {
        if cookie < FIRST {
            return Ok(cookie);
        }
        let positions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cookie & WIDE != 0 && positions.all.len() == COOKIES_MAX {
            return Ok(cookie & !WIDE);
        }
        let index = usize::try_from(cookie - FIRST).ok();
        let position = index.and_then(|index| positions.all.get(index));
        position.copied().ok_or(Errno::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_has_31_bits_and_leads_back_to_its_position() {
        let cookies = Cookies::default();
        let positions = [0, 1, FIRST - 1, FIRST, 1 << 31, 1 << 40, i64::MAX as u64];
        for _ in 0..2 {
            for position in positions {
                let cookie = cookies.cookie(position);
                assert!(cookie < 1 << 31, "{position}: {cookie}");
                assert_eq!(cookies.position(cookie), Ok(position));
            }
        }
        for cookie in [FIRST + 4, 1 << 40, WIDE, u64::MAX] {
            assert_eq!(cookies.position(cookie), Err(Errno::INVAL));
        }
    }

    #[test]
    fn the_number_of_cookies_is_bounded() {
        let cookies = Cookies::default();
        for position in (1 << 40..).take(COOKIES_MAX + 10) {
            let cookie = cookies.cookie(position);
            assert_eq!(cookies.position(cookie), Ok(position));
        }
        assert_eq!(cookies.0.lock().unwrap().all.len(), COOKIES_MAX);
        assert_eq!(cookies.cookie(7 << 40), WIDE | 7 << 40);
    }
}
