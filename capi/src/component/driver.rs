//! [`Driver`]: runs the asynchronous functions of WASI 0.2 for calls that block their thread.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use tokio::runtime::{Builder, Runtime};

/// A thread that waits for timers, sockets and pipes of guests. A call polls its own future on the
/// thread of the caller, so a host function may call another component.
pub(crate) struct Driver(Option<Runtime>);

/// Wakes the thread of a call.
struct Unpark {
    thread: Thread,
    /// The flag is needed because a nested call parks the same thread, and may consume the token of
    /// `Thread::unpark`.
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Driver {
    pub(crate) fn new() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("pirn-wasi");
        Ok(Self(Some(builder.enable_all().build()?)))
    }

    /// Runs a future to its end.
    pub(crate) fn block_on<R>(&self, future: impl Future<Output = R>) -> R {
        let _context = self.0.as_ref().map(Runtime::enter);
        let mut future = pin!(future);
        let unpark = Arc::new(Unpark {
            thread: thread::current(),
            is_woken: AtomicBool::new(false),
        });
        let waker = Waker::from(Arc::clone(&unpark));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                return result;
            }
            while !unpark.is_woken.swap(false, Ordering::Acquire) {
                thread::park();
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Does not wait for the thread: a host function may delete the last handle, and a child of
        // fork(2) lacks the thread.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
