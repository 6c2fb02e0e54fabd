//! [`Source`]: bytes for a guest that may arrive later.

use std::io::{self, ErrorKind, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A source of bytes that may arrive later. A read never waits: it fails with
/// [`ErrorKind::WouldBlock`] if no byte is available yet. A read that fails in this way may forget
/// the task that the source must wake.
pub trait Source: Read + Send + 'static {
    /// Ready if a read would return bytes, the end or an error. Otherwise pending; the source then
    /// wakes the task of the context when the source is ready. The next read of a source that is
    /// ready must not fail with [`ErrorKind::WouldBlock`].
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

/// A source that several threads of a guest may read.
pub(crate) struct Shared {
    source: Mutex<Box<dyn Source>>,
    waiting: Arc<Waiting>,
}

/// The tasks that wait for a source. All of them wake at the same time: a source keeps only one
/// waker, and the task that the source wakes may have ended.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().for_each(Waker::wake);
    }
}

impl Shared {
    pub(crate) fn new(source: impl Source) -> Self {
        Self {
            source: Mutex::new(Box::new(source)),
            waiting: Arc::default(),
        }
    }

    /// Reads available bytes; `None` if no byte is available yet.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        // A read that gets no bytes may forget the waker of the tasks that wait.
        let waker = Waker::from(Arc::clone(&self.waiting));
        if source
            .poll_ready(&mut Context::from_waker(&waker))
            .is_pending()
        {
            return Ok(None);
        }
        match source.read(into) {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Source::poll_ready`].
    pub(crate) fn poll_ready(&self, context: &Context<'_>) -> Poll<()> {
        {
            let mut all = self.waiting.0.lock();
            let all = all.as_deref_mut().unwrap_or_else(|error| error.get_mut());
            if !all.iter().any(|waker| waker.will_wake(context.waker())) {
                all.push(context.waker().clone());
            }
        }
        self.poll(&Waker::from(Arc::clone(&self.waiting)))
    }

    /// Whether a read would return bytes, the end or an error now. If a task waits, the source
    /// still wakes it.
    pub(crate) fn is_ready(&self) -> bool {
        self.poll(&Waker::from(Arc::clone(&self.waiting)))
            .is_ready()
    }

    fn poll(&self, waker: &Waker) -> Poll<()> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.poll_ready(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A source that keeps the last waker and never has bytes.
    struct Never(Arc<Mutex<Option<Waker>>>);

    impl Read for Never {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            *self.0.lock().unwrap() = None;
            Err(ErrorKind::WouldBlock.into())
        }
    }

    impl Source for Never {
        fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
            *self.0.lock().unwrap() = Some(context.waker().clone());
            Poll::Pending
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn all_tasks_that_wait_are_woken() {
        let last = Arc::default();
        let source = Shared::new(Never(Arc::clone(&last)));
        let tasks: [Arc<Woken>; 3] = Default::default();
        for task in &tasks {
            let waker = Waker::from(Arc::clone(task));
            for _ in 0..2 {
                assert!(source.poll_ready(&Context::from_waker(&waker)).is_pending());
            }
        }
        // A look without a task takes no waker away.
        assert!(!source.is_ready());
        assert_eq!(source.read(&mut [0]).unwrap(), None);
        last.lock().unwrap().take().unwrap().wake();
        let woken = tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        assert_eq!(woken, [1, 1, 1]);
        assert!(source.waiting.0.lock().unwrap().is_empty());
    }
}
