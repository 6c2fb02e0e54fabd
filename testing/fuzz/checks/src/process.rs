//! [`watched`]: runs one case of a check that counts what its whole process has.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time after which the check reports a call as endless. It is in minutes, because a busy machine
/// may delay a call by any number of seconds.
const HANG: Duration = Duration::from_secs(600);

/// Runs a case on a thread that the check watches, so that it can report an endless call. The case
/// says in the string what it does now. Cases do not run in parallel, and must not leave
/// descriptors open.
///
/// # Errors
///
/// The error of the case, or what it did when it panicked, was found endless, or left descriptors.
pub(crate) fn watched<T: Send + 'static>(
    case: impl FnOnce(&Mutex<String>) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Arc::new(Mutex::new(String::from("before the first call")));
    let (tell, told) = mpsc::channel();
    let said = Arc::clone(&now);
    let before = descriptors();
    let worker = thread::spawn(move || {
        // If the call counts as endless, the receiver is dropped.
        let _ = tell.send(case(&said));
    });
    match told.recv_timeout(HANG) {
        Ok(result) => {
            worker.join().map_err(|_| "the check panicked".to_owned())?;
            let (left, result) = (descriptors(), result?);
            if left > before {
                return Err(format!(
                    "{left} descriptors are open after the guest, {before} were before"
                ));
            }
            Ok(result)
        }
        Err(RecvTimeoutError::Timeout) => Err(format!(
            "a call has not ended after {} s: {}",
            HANG.as_secs(),
            held(&now)
        )),
        Err(RecvTimeoutError::Disconnected) => Err(format!("the host panicked: {}", held(&now))),
    }
}

/// How long this thread has been ready to run without a processor: the second number of
/// `/proc/thread-self/schedstat`. Zero if the kernel does not count it.
pub(crate) fn time_without_processor() -> Duration {
    let counts = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = counts.split(' ').nth(1);
    let waited_ns = waited.and_then(|ns| ns.parse().ok());
    Duration::from_nanos(waited_ns.unwrap_or(0))
}

/// How many descriptors this process has open.
pub(crate) fn descriptors() -> usize {
    // One is the folder itself.
    fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() - 1)
}

pub(crate) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
