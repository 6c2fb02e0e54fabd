//! [`Budget`]: how much work debug information may cause, in proportion to its size.
//!
//! Its parts refer to each other by offsets, so a small file could have the same bytes read again and again:
//! units that share a table, tables that overlap, entries of no bytes and a million attributes. What
//! compilers write is read about once.

use std::fmt;

/// Steps for each byte. A step is a byte that is read by way of an offset, an attribute, or a row.
const STEPS_PER_BYTE: u64 = 16;
/// Steps for debug information of any size.
const STEPS_MIN: u64 = 1 << 16;

/// The steps that are left.
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    /// For debug information of this many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            left: STEPS_MIN + STEPS_PER_BYTE * bytes,
        }
    }

    /// Takes steps.
    ///
    /// # Errors
    ///
    /// [`Fault::Work`] if there are not so many left; then there are none.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Fault> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Fault::Work)
    }
}

/// Why a part of the debug information is left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not DWARF, or of a kind that is not known.
    Dwarf(gimli::Error),
    /// It says this, which cannot be.
    Wrong(&'static str),
    /// It is over a limit, which is in the message.
    Limit(String),
    /// It causes more work than its size allows.
    Work,
}

impl From<gimli::Error> for Fault {
    fn from(error: gimli::Error) -> Self {
        Self::Dwarf(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dwarf(error) => {
                let message = error.to_string().replace('\n', " ");
                let mut letters = message.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                write!(f, "{}{}", first.unwrap_or('?'), letters.as_str())
            }
            Self::Wrong(what) => f.write_str(what),
            Self::Limit(what) => f.write_str(what),
            Self::Work => f.write_str("its parts are read more often than its size allows"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_spent_to_the_last_step_and_no_further() {
        let mut budget = Budget::new(100);
        let all = (STEPS_MIN + 100 * STEPS_PER_BYTE) as usize;
        assert_eq!(budget.spend(all - 1), Ok(()));
        assert_eq!(budget.spend(1), Ok(()));
        assert_eq!(budget.spend(0), Ok(()));
        assert_eq!(budget.spend(1), Err(Fault::Work));
        // What is refused leaves nothing for what is smaller.
        let mut budget = Budget::new(100);
        assert_eq!(budget.spend(all + 1), Err(Fault::Work));
        assert_eq!(budget.spend(1), Err(Fault::Work));
    }
}
