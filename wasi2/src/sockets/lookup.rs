//! `wasi:sockets/ip-name-lookup`.

use super::fd::runtime;
use super::types::{ErrorCode, Failure, IpAddress, NetworkHandle, answer};
use crate::limits::LOOKUPS_MAX;
use crate::methods::{getter, pollable, resource};
use crate::quota::Token;
use crate::resolver::{Resolver, is_name};
use crate::table::Resource;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, Own, ResourceType};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
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
async fn look_up(
    resolver: Resolver,
    name: String,
    counted: Token,
) -> Result<Vec<IpAddr>, ErrorCode> {
    let found = resolver.look_up(name, 0, counted).await.unwrap_or_default();
    match found.is_empty() {
        true => Err(ErrorCode::NameUnresolvable),
        false => Ok(found.iter().map(SocketAddr::ip).collect()),
    }
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
            let resolver = wasi.config.resolver.clone();
            Lookup::Runs(runtime.spawn(look_up(resolver, name, counted)))
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
