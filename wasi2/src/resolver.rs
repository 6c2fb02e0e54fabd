//! [`Resolver`]: finds the addresses of a name with getaddrinfo(3), on one of a few threads.

use crate::limits::{ADDRESSES_MAX, LOOKUP_THREADS_MAX};
use crate::quota::Counted;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Limits the threads of the process that look up names.
static THREADS: Semaphore = Semaphore::const_new(LOOKUP_THREADS_MAX);

/// A function that finds the addresses of a name. It may block.
type Find = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Finds the addresses of names. Clones use the same function.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<Find>);

impl Default for Resolver {
    fn default() -> Self {
        Self(Arc::new(|name| Ok((name, 0).to_socket_addrs()?.collect())))
    }
}

impl Resolver {
    /// A resolver that finds what a test says.
    #[cfg(test)]
    pub(crate) fn of(
        find: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(find))
    }

    /// Looks up a name on a separate thread, because getaddrinfo(3) blocks. Nothing can cancel this
    /// function, so `counted` is dropped only when it returns.
    ///
    /// Returns different addresses, at most `ADDRESSES_MAX`. An IPv4-mapped IPv6 address becomes
    /// the IPv4 address, because the kernel treats it so.
    pub(crate) async fn look_up(
        &self,
        name: String,
        port: u16,
        counted: impl Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let find = Arc::clone(&self.0);
        let found = on_thread(move || find(&name), counted).await?;
        let mut addresses = vec![];
        for mut address in found {
            address.set_ip(address.ip().to_canonical());
            address.set_port(port);
            if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }
}

/// How the names in a guest's requests are looked up: an extension of each request.
#[derive(Clone, Default)]
pub(crate) struct Lookups {
    pub(crate) resolver: Resolver,
    /// A lookup counts as a connection of the guest until getaddrinfo(3) returns.
    pub(crate) connection: Option<Counted>,
}

/// Whether a name is a domain name: labels of letters, digits, hyphens and underscores.
pub(crate) fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_part);
    name.len() <= 253 && name.split('.').all(is_label)
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

    #[test]
    fn names_have_labels_of_letters() {
        let label = "a".repeat(63);
        let longest = [label.as_str(); 4].join(".")[..253].to_owned();
        for name in [
            "localhost",
            "a.b",
            "a.b.",
            "_x._tcp.example",
            "xn--a",
            &longest,
        ] {
            assert!(is_name(name), "{name}");
        }
        let too_long = [label.as_str(); 4].join(".")[..254].to_owned();
        let long_label = format!("{label}a.b");
        for name in [
            "",
            ".",
            "a..b",
            ".a",
            "a b",
            "a\0b",
            "a\n",
            "a:1",
            "[::1]",
            "a/b",
            "a%b",
            &too_long,
            &long_label,
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
