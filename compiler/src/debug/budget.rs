//! [`StepBudget`]: limits the work that debug information may cause, in proportion to its size.
//!
//! Parts of debug information refer to each other by offsets. So a small file could make the reader
//! read the same bytes many times. Units may share a table, tables may overlap, and entries of no
//! bytes may have a million attributes. The output of compilers is read about once.

use pirn_format::text::one_line;
use std::fmt;

/// Steps for each byte. A step is a byte read through an offset, an attribute, or a row.
const STEPS_PER_BYTE: u64 = 16;
/// Steps for debug information of any size.
const STEPS_MIN: u64 = 1 << 16;

/// The remaining steps.
pub(super) struct StepBudget {
    left: u64,
}

impl StepBudget {
    /// The budget for debug information of this many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            left: STEPS_MIN + STEPS_PER_BYTE * bytes,
        }
    }

    /// Takes steps.
    ///
    /// # Errors
    ///
    /// [`Fault::Work`] if fewer steps are left. The budget is 0 then.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Fault> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Fault::Work)
    }
}

/// The reason why a part of the debug information is omitted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The part is not DWARF, or an unknown kind of DWARF.
    Dwarf(gimli::Error),
    /// The part contains a contradiction, which the message describes.
    Wrong(&'static str),
    /// The part exceeds a limit, which the message names.
    Limit(String),
    /// The part causes more work than its size allows.
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
                let message = one_line(error);
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
        let mut budget = StepBudget::new(100);
        let all = (STEPS_MIN + 100 * STEPS_PER_BYTE) as usize;
        assert_eq!(budget.spend(all - 1), Ok(()));
        assert_eq!(budget.spend(1), Ok(()));
        assert_eq!(budget.spend(0), Ok(()));
        assert_eq!(budget.spend(1), Err(Fault::Work));
        // A refused request uses up the budget, so that smaller ones fail as well.
        let mut budget = StepBudget::new(100);
        assert_eq!(budget.spend(all + 1), Err(Fault::Work));
        assert_eq!(budget.spend(1), Err(Fault::Work));
    }
}
