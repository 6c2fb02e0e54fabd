//! `wasi:sockets/ip-name-lookup`.

use super::fd::runtime;
use super::types::{ErrorCode, Failure, IpAddress, NetworkHandle, answer};
use crate::limits::{ADDRESSES_MAX, LOOKUPS_MAX};
use crate::methods::{getter, pollable, resource};
use crate::quota::Token;
use crate::resolver;
use crate::table::Resource;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, Own, ResourceType};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::vec;
use tokio::task::JoinHandle;

const LOOKUP: &str = "wasi:sockets/ip-name-lookup@0.2.12";

/// A `resolve-address-stream`.
enum Lookup {
    Runs(JoinHandle<Result<Vec<IpAddr>, ErrorCode>>),
    Done(vec::IntoIter<IpAddr>),
    Failed(ErrorCode),
}

/// Looks up a name. It counts as one of the guest's lookups until getaddrinfo(3) returns.
async fn look_up(name: String, counted: Token) -> Result<Vec<IpAddr>, ErrorCode> {
    let found = resolver::look_up(name, 0, counted)
        .await
        .unwrap_or_default();
    let mut addresses = vec![];
    for address in found.iter().map(|address| address.ip().to_canonical()) {
        if addresses.len() < ADDRESSES_MAX && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err(ErrorCode::NameUnresolvable),
        false => Ok(addresses),
    }
}

/// Whether a name is a domain name: labels of letters, digits, hyphens and underscores.
fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_part);
    name.len() <= 253 && name.split('.').all(is_label)
}

fn resolve(wasi: &mut Wasi, name: String) -> Result<Own<Lookup>, Failure> {
    let lookup = match name.parse::<IpAddr>() {
        // An address needs no lookup.
        Ok(address) => Lookup::Done(vec![address.to_canonical()].into_iter()),
        Err(_) if !wasi.config.network.allows_lookups() => {
            return Err(ErrorCode::AccessDenied.into());
        }
        // The guest must convert such a name to Punycode.
        Err(_) if !name.is_ascii() => return Err(ErrorCode::NotSupported.into()),
        Err(_) if !is_name(&name) => return Err(ErrorCode::InvalidArgument.into()),
        Err(_) => {
            let runtime = runtime()?;
            let counted = wasi.lookups.take(LOOKUPS_MAX);
            let counted = counted.ok_or(ErrorCode::TemporaryResolverFailure)?;
            Lookup::Runs(runtime.spawn(look_up(name, counted)))
        }
    };
    Ok(wasi.table.own(lookup)?)
}

impl Lookup {
    fn next(&mut self) -> Result<Option<IpAddress>, ErrorCode> {
        let mut context = Context::from_waker(Waker::noop());
        // The task has ended, so `poll_ready` stores its result.
        if matches!(self, Self::Runs(task) if task.is_finished()) {
            let _ = self.poll_ready(&mut context);
        }
        match self {
            Self::Runs(_) => Err(ErrorCode::WouldBlock),
            Self::Done(addresses) => Ok(addresses.next().map(IpAddress::from)),
            Self::Failed(code) => Err(*code),
        }
    }
}

impl ResourceType for Lookup {
    const INTERFACE: &'static str = LOOKUP;
    const NAME: &'static str = "resolve-address-stream";
}

impl Resource for Lookup {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Self::Runs(task) = self {
            let Poll::Ready(found) = Pin::new(task).poll(context) else {
                return Poll::Pending;
            };
            let found = found.unwrap_or(Err(ErrorCode::TemporaryResolverFailure));
            *self = found.map_or_else(Self::Failed, |all| Self::Done(all.into_iter()));
        }
        Poll::Ready(())
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        if let Self::Runs(task) = self {
            task.abort();
        }
    }
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, Lookup>(linker)?;
    type Name = (Borrow<NetworkHandle>, String);
    linker.func(LOOKUP, "resolve-addresses", |state, (_, name): Name| {
        answer(resolve(state.data_mut().wasi(), name))
    })?;
    getter(linker, "resolve-next-address", |lookup: &mut Lookup| {
        Ok(lookup.next())
    })?;
    pollable::<T, Lookup>(linker)
}

#[cfg(test)]
mod tests {
    use super::is_name;

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
