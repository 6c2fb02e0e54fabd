//! [`look_up()`]: finds the addresses of a name with getaddrinfo(3), on one of a few threads.

use crate::limits::LOOKUP_THREADS_MAX;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Limits the threads of the process that look up names.
static THREADS: Semaphore = Semaphore::const_new(LOOKUP_THREADS_MAX);

/// Looks up a name on a separate thread, because getaddrinfo(3) blocks. Nothing can cancel this
/// function, so `counted` is dropped only when it returns.
pub(crate) async fn look_up(
    name: String,
    port: u16,
    counted: impl Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let all = move || (name, port).to_socket_addrs().map(Iterator::collect);
    on_thread(all, counted).await
}

async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
    counted: impl Send + 'static,
) -> io::Result<T> {
    let permit = THREADS.acquire().await;
    let done = spawn_blocking(move || {
        let _until_it_ends = (permit, counted);
        work()
    });
    done.await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Quota;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    /// The tasks of these lookups are aborted, but their threads still run.
    #[tokio::test]
    async fn lookups_that_are_given_up_still_count() {
        let closed = Arc::new(AtomicBool::new(true));
        let running = Arc::new(AtomicUsize::new(0));
        let mut quota = Quota::default();
        for _ in 0..3 {
            let mut tasks = vec![];
            while let Some(token) = quota.take(2 * LOOKUP_THREADS_MAX) {
                let (closed, running) = (Arc::clone(&closed), Arc::clone(&running));
                let work = move || {
                    running.fetch_add(1, Ordering::Relaxed);
                    while closed.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(())
                };
                tasks.push(tokio::spawn(on_thread(work, token)));
            }
            while running.load(Ordering::Relaxed) < LOOKUP_THREADS_MAX {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            for task in tasks {
                task.abort();
                assert!(task.await.is_err());
            }
            assert!(quota.take(LOOKUP_THREADS_MAX).is_none());
        }
        assert_eq!(running.load(Ordering::Relaxed), LOOKUP_THREADS_MAX);
        closed.store(false, Ordering::Relaxed);
        while quota.take(1).is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
