//! [`Progress`]: a line on the terminal that shows how far a long compilation is.

use rustix::termios::tcgetwinsize;
use std::io::{IsTerminal, Write as _, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A compilation that takes longer than this shows its progress.
const QUIET: Duration = Duration::from_secs(1);

/// Shortest time between two updates of the line.
const PAUSE: Duration = Duration::from_millis(100);

/// Width of the bar.
const BAR_COLUMNS: usize = 40;

/// Erases the terminal's line from the cursor to its end.
const ERASE: &str = "\x1b[K";

/// Shows progress on a terminal, and nothing elsewhere.
pub(crate) struct Progress {
    start: Instant,
    /// Whether standard error is a terminal that can erase a line.
    is_shown: bool,
    /// When the line was written last.
    written: Mutex<Option<Instant>>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        Self {
            start: Instant::now(),
            is_shown: stderr().is_terminal() && !is_dumb,
            written: Mutex::new(None),
        }
    }

    /// Shows that `done` of `total` functions are compiled, if [`PAUSE`] has passed since the last
    /// update. All threads of the compiler call this function, and no thread waits in it.
    pub(crate) fn show(&self, done: usize, total: usize) {
        let elapsed = self.start.elapsed();
        if !self.is_shown || elapsed < QUIET {
            return;
        }
        let Ok(mut written) = self.written.try_lock() else {
            return; // another thread writes the line
        };
        if written.is_none_or(|at| at.elapsed() >= PAUSE) {
            *written = Some(Instant::now());
            let columns = tcgetwinsize(stderr()).map_or(80, |size| usize::from(size.ws_col));
            // A longer line would wrap, and `ERASE` erases only one line.
            let line = line(done, total, elapsed);
            let line: String = line.chars().take(columns.saturating_sub(1)).collect();
            // The compilation does not depend on the terminal.
            let _ = write!(stderr(), "\r{line}{ERASE}");
        }
    }

    /// Erases the line.
    pub(crate) fn clear(&self) {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_some() {
            let _ = write!(stderr(), "\r{ERASE}");
        }
    }
}

/// A bar, the numbers of functions, and the estimated time that is left.
fn line(done: usize, total: usize, elapsed: Duration) -> String {
    let filled = (BAR_COLUMNS * done / total.max(1)).min(BAR_COLUMNS);
    let (full, empty) = ("█".repeat(filled), "░".repeat(BAR_COLUMNS - filled));
    let left = total.saturating_sub(done) as f64 / done.max(1) as f64;
    // Rounded up: a second is left until all functions are compiled.
    let seconds = (elapsed.as_secs_f64() * left).ceil() as u64;
    let left = match seconds {
        0..120 => format!("{seconds}s"),
        _ => format!("{}m", seconds / 60),
    };
    format!("{full}{empty} {done}/{total} functions, {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_one_width_and_the_time_is_estimated() {
        for (done, total, seconds, filled, text) in [
            (0, 0, 2, 0, "0/0 functions, 0s left"),
            (0, 10, 2, 0, "0/10 functions, 20s left"),
            (64, 128, 2, 20, "64/128 functions, 2s left"),
            (127, 128, 2, 39, "127/128 functions, 1s left"),
            (128, 128, 2, 40, "128/128 functions, 0s left"),
            (64, 6400, 2, 0, "64/6400 functions, 3m left"),
            (9, 8, 2, 40, "9/8 functions, 0s left"),
        ] {
            let line = line(done, total, Duration::from_secs(seconds));
            let (bar, rest) = line.split_once(' ').expect("a bar");
            assert_eq!(bar.chars().count(), BAR_COLUMNS, "{line}");
            assert_eq!(
                bar.chars().filter(|char| *char == '█').count(),
                filled,
                "{line}"
            );
            assert_eq!(rest, text);
        }
    }

    #[test]
    fn a_line_with_the_most_functions_fits_a_terminal() {
        let line = line(1_000_000, 1_000_000, Duration::from_secs(5));
        assert!(line.chars().count() < 80, "{line}");
    }

    #[test]
    fn nothing_is_shown_where_no_terminal_is_or_in_the_first_second() {
        let long_ago = Instant::now()
            .checked_sub(2 * QUIET)
            .expect("the clock is later");
        for (start, is_shown) in [(Instant::now() + QUIET, true), (long_ago, false)] {
            let progress = Progress {
                start,
                is_shown,
                written: Mutex::new(None),
            };
            progress.show(64, 128);
            assert_eq!(*progress.written.lock().expect("no panic"), None);
        }
    }
}
