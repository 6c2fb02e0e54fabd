//! [`Widening`]: how far joins extend intervals.

/// How a join extends intervals that have grown, so that the iteration over a loop ends after few
/// visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widening {
    /// Extends no interval.
    None,
    /// Extends each bound that has grown to the next threshold.
    Bounds,
    /// Extends both bounds to thresholds that few bounds exceed. Needs the fewest visits.
    Whole,
}

/// Thresholds of upper bounds. 1024 bounds loops that copy few bytes, and `u32::MAX` bounds 32-bit
/// numbers. The third threshold bounds the sum of a 32-bit number and a small constant: an address
/// in a memory's reservation.
const WIDENING_THRESHOLDS: [i64; 4] = [
    1024,
    u32::MAX as i64,
    u32::MAX as i64 + (16 << 20),
    i64::MAX,
];

impl Widening {
    /// The bounds of an interval that has grown from `old` to `new`.
    pub(crate) fn widened(self, old: (i64, i64), new: (i64, i64)) -> (i64, i64) {
        let up = |thresholds: &[i64]| {
            let bound = thresholds.iter().find(|bound| new.1 <= **bound);
            bound.copied().unwrap_or(i64::MAX)
        };
        let down = match new.0 {
            0.. => 0,
            low if low >= i64::from(i32::MIN) => i64::from(i32::MIN),
            _ => i64::MIN,
        };
        match self {
            Self::None => new,
            Self::Bounds => (
                if new.0 < old.0 { down } else { new.0 },
                if new.1 > old.1 {
                    up(&WIDENING_THRESHOLDS)
                } else {
                    new.1
                },
            ),
            Self::Whole => (down, up(&WIDENING_THRESHOLDS[1..])),
        }
    }
}
