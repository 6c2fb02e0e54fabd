//! [`Journal`]: logs messages of guests, with a limit of bytes per second.

use super::metrics::{Counter, Outcome};
use std::fmt::{self, Display, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Estimated bytes of a log line besides its text: time, level, route.
const LINE_BYTES: usize = 128;

/// Most characters of the reason for a guest's failure. An uncaught exception would print all of
/// its values.
const WHY_CHARS_MAX: usize = 1024;

/// The period of a quota.
const PERIOD: Duration = Duration::from_secs(1);

/// The start of a text, up to the limit of the log.
pub(crate) fn short(text: impl Display) -> String {
    struct Short(String);

    impl fmt::Write for Short {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            let left = WHY_CHARS_MAX.saturating_sub(self.0.len());
            self.0.extend(piece.chars().take(left));
            match self.0.len() < WHY_CHARS_MAX {
                true => Ok(()),
                false => Err(fmt::Error),
            }
        }
    }

    let mut short = Short(String::new());
    // An error only means that the text is longer than the limit.
    let _ = write!(short, "{text}");
    short.0
}

/// Logs messages of guests, at most `bytes_max` bytes per second for all guests together.
pub(crate) struct Journal {
    bytes_max: usize,
    period: Mutex<Period>,
    /// Counts the lines that were not logged.
    dropped: Arc<Counter>,
}

/// The quota of the current second.
struct Period {
    start: Instant,
    bytes_left: usize,
    dropped: usize,
}

impl Journal {
    pub(crate) fn new(bytes_max: usize, dropped: Arc<Counter>) -> Self {
        Self {
            bytes_max,
            period: Mutex::new(Period {
                start: Instant::now(),
                bytes_left: bytes_max,
                dropped: 0,
            }),
            dropped,
        }
    }

    /// Logs each line of a guest's standard error as one log line.
    pub(crate) fn errors(&self, route: &str, errors: &[u8]) {
        for line in String::from_utf8_lossy(errors).lines() {
            if self.admit(line) {
                // `?line` escapes the text, so that a guest cannot forge log lines of the server.
                tracing::info!(route, ?line, "guest");
            }
        }
    }

    /// Logs that a request failed. Only failures of guests go to the log at its default level.
    /// Otherwise a client could fill the log.
    pub(crate) fn failure(&self, route: &str, outcome: Outcome, why: &str) {
        let name = outcome.name();
        if !outcome.is_guests() {
            tracing::debug!(route, outcome = name, ?why, "refused");
            return;
        }
        let why: String = why.chars().take(WHY_CHARS_MAX).collect();
        if self.admit(&why) {
            tracing::warn!(route, outcome = name, ?why, "guest failed");
        }
    }

    /// Whether the quota of this second has room for a line. Also logs the number of lines that the
    /// previous second dropped.
    fn admit(&self, line: &str) -> bool {
        // The text as `?line` writes it.
        let text = format!("{line:?}").len() - 2;
        let (admitted, dropped) = self.take(LINE_BYTES + text, Instant::now());
        if dropped > 0 {
            tracing::warn!(
                lines = dropped,
                "not logged: lines of guests, over --log-max bytes a second"
            );
        }
        admitted
    }

    /// Takes `bytes` bytes from the quota of this second. Returns whether the quota had these
    /// bytes, and the number of lines that the previous second dropped.
    fn take(&self, bytes: usize, now: Instant) -> (bool, usize) {
        let mut period = self.period.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = 0;
        if now.saturating_duration_since(period.start) >= PERIOD {
            dropped = period.dropped;
            *period = Period {
                start: now,
                bytes_left: self.bytes_max,
                dropped: 0,
            };
        }
        let left = period.bytes_left.checked_sub(bytes);
        match left {
            Some(left) => period.bytes_left = left,
            None => {
                period.dropped += 1;
                self.dropped.add(1);
            }
        }
        (left.is_some(), dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_bytes_and_no_more() {
        let journal = Journal::new(100, Arc::default());
        let start = journal.period.lock().unwrap().start;
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(journal.take(60, at(0)), (true, 0));
        assert_eq!(journal.take(41, at(1)), (false, 0));
        assert_eq!(journal.take(40, at(998)), (true, 0), "what fits is logged");
        assert_eq!(journal.take(1, at(999)), (false, 0));
        assert_eq!(journal.take(100, at(1000)), (true, 2), "two are told of");
        assert_eq!(journal.take(1, at(1999)), (false, 0));
        assert_eq!(journal.take(101, at(3000)), (false, 1), "it never fits");
        assert_eq!(journal.take(100, at(2000)), (true, 0), "clocks of threads");
    }

    #[test]
    fn a_text_without_end_is_cut() {
        struct Endless;

        impl Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("abc\u{e4}")?;
                }
            }
        }

        assert_eq!(short("abc"), "abc");
        let cut = short(Endless);
        assert!((WHY_CHARS_MAX..WHY_CHARS_MAX + 4).contains(&cut.len()));
    }

    #[test]
    fn empty_lines_take_room_and_control_characters_that_of_their_escapes() {
        let journal = Journal::new(1000, Arc::default());
        let left = || journal.period.lock().unwrap().bytes_left;
        assert!(journal.admit(""));
        assert_eq!(left(), 1000 - LINE_BYTES);
        assert!(journal.admit("\u{1b}"));
        assert_eq!(left(), 1000 - 2 * LINE_BYTES - r"\u{1b}".len());
        journal.errors("/", "\n".repeat(100).as_bytes());
        assert!(left() < LINE_BYTES);
        let journal = Journal::new(LINE_BYTES + WHY_CHARS_MAX, Arc::default());
        journal.failure("/", Outcome::Trap, &"x".repeat(1 << 20));
        assert_eq!(journal.period.lock().unwrap().bytes_left, 0);
    }
}
