//! [`Resolver`]: finds the addresses of a name with getaddrinfo(3), on one of a few threads.

use crate::limits::{ADDRESSES_MAX, LOOKUP_THREADS_MAX, LOOKUPS_MAX};
use crate::quota::Counted;
use crate::threads::{Pool, User};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// The threads of the process that look up names.
static THREADS: Pool = Pool::new(LOOKUP_THREADS_MAX, LOOKUPS_MAX);

/// A function that finds the addresses of a name. It may block.
type Find = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Finds the addresses of names. Clones use the same function and threads.
#[derive(Clone)]
pub(crate) struct Resolver {
    find: Arc<Find>,
    threads: &'static Pool,
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            find: Arc::new(|name| Ok((name, 0).to_socket_addrs()?.collect())),
            threads: &THREADS,
        }
    }
}

impl Resolver {
    /// A resolver with the answers of a test, on the threads of the test.
    #[cfg(test)]
    pub(crate) fn of(
        threads: &'static Pool,
        find: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            find: Arc::new(find),
            threads,
        }
    }

    /// Looks up a name on a separate thread, because getaddrinfo(3) blocks. Nothing can cancel
    /// getaddrinfo(3), so `counted` is dropped only when it returns.
    ///
    /// Returns different addresses, at most `ADDRESSES_MAX`. An IPv4-mapped IPv6 address becomes
    /// the IPv4 address, as in the kernel.
    pub(crate) async fn look_up(
        &self,
        user: User,
        name: String,
        port: u16,
        counted: impl Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let find = Arc::clone(&self.find);
        let work = move || {
            let _until_it_returns = counted;
            find(&name)
        };
        let found = self.threads.run(user, work).await;
        let found = found.unwrap_or_else(|error| Err(io::Error::other(error)))?;
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

/// The resolver for the names in a guest's requests: an extension of each request.
#[derive(Clone, Default)]
pub(crate) struct Lookups {
    pub(crate) resolver: Resolver,
    pub(crate) user: User,
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::task::yield_now;

    type Gate = (Mutex<bool>, Condvar);

    /// A resolver whose lookups wait until this value is dropped.
    pub(crate) struct Blocked {
        pub(crate) resolver: Resolver,
        threads: &'static Pool,
        /// The names of the lookups that have begun.
        names: UnboundedReceiver<String>,
        gate: Arc<Gate>,
    }

    impl Blocked {
        /// A resolver on `threads_max` threads.
        pub(crate) fn new(threads_max: usize) -> Self {
            let threads = Box::leak(Box::new(Pool::new(threads_max, LOOKUPS_MAX)));
            let (began, names) = unbounded_channel();
            let gate = Arc::new(Gate::default());
            let closed = Arc::clone(&gate);
            let resolver = Resolver::of(threads, move |name| {
                // The test may have ended.
                let _ = began.send(name.to_owned());
                let (is_open, opened) = &*closed;
                let is_open = is_open.lock().expect("it is whole");
                drop(opened.wait_while(is_open, |is_open| !*is_open));
                Ok(vec![])
            });
            Self {
                resolver,
                threads,
                names,
                gate,
            }
        }

        /// Waits until `held` lookups have a thread, and `waiting` lookups wait.
        pub(crate) async fn counts(&self, held: usize, waiting: usize) {
            while self.threads.counts() != (held, waiting) {
                yield_now().await;
            }
        }

        /// The name of the next lookup that begins.
        pub(crate) async fn began(&mut self) -> String {
            self.names.recv().await.expect("the resolver exists")
        }

        /// Lets all lookups return, and waits until they have.
        pub(crate) async fn open(self) {
            let threads = self.threads;
            drop(self);
            while threads.counts() != (0, 0) {
                yield_now().await;
            }
        }
    }

    impl Drop for Blocked {
        fn drop(&mut self) {
            let (is_open, opened) = &*self.gate;
            // Needed also while a failed test unwinds, because the runtime waits for the threads.
            if let Ok(mut is_open) = is_open.lock() {
                *is_open = true;
            }
            opened.notify_all();
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
