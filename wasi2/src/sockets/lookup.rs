//! `wasi:sockets/ip-name-lookup`.

use super::fd::runtime;
use super::types::{ErrorCode, Failure, IpAddress, NetworkHandle, answer};
use crate::limits::LOOKUPS_MAX;
use crate::methods::{itself, methods, pollable, resource};
use crate::quota::Token;
use crate::resolver::{Resolver, is_name};
use crate::table::{Resource, resource_type};
use crate::threads::User;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, Own};
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

/// Looks up a name. The lookup counts against the guest's limit until getaddrinfo(3) returns.
async fn look_up(
    resolver: Resolver,
    user: User,
    name: String,
    counted: Token,
) -> Result<Vec<IpAddr>, ErrorCode> {
    let found = resolver.look_up(user, name, 0, counted).await;
    let found = found.unwrap_or_default();
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
        // The guest must convert a name with other characters to Punycode.
        Err(_) if !name.is_ascii() => return Err(ErrorCode::NotSupported.into()),
        Err(_) if !is_name(&name) => return Err(ErrorCode::InvalidArgument.into()),
        Err(_) => {
            let runtime = runtime()?;
            let counted = wasi.lookups.take(LOOKUPS_MAX);
            let counted = counted.ok_or(ErrorCode::TemporaryResolverFailure)?;
            let (resolver, user) = (wasi.config.resolver.clone(), wasi.user());
            Lookup::Runs(runtime.spawn(look_up(resolver, user, name, counted)))
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

resource_type!(Lookup, LOOKUP, "resolve-address-stream");

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
    methods! { linker, Lookup, itself;
        "resolve-next-address"() => |lookup| Ok(lookup.next());
    }
    pollable::<T, Lookup>(linker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use crate::resolver::tests::Blocked;
    use crate::wasi::{WasiBuilder, WasiConfig};
    use std::sync::Arc;

    fn config(blocked: &Blocked) -> Arc<WasiConfig> {
        let network = Network::none().allow_lookups();
        let mut config = WasiBuilder::new().network(network).config();
        config.resolver = blocked.resolver.clone();
        Arc::new(config)
    }

    /// Begins the most lookups that a guest may have at a time.
    fn begin(wasi: &mut Wasi, name: &str) {
        for _ in 0..LOOKUPS_MAX {
            resolve(wasi, name.to_owned()).expect("it begins");
        }
        let Err(Failure::Code(code)) = resolve(wasi, name.to_owned()) else {
            panic!("a lookup began beyond the limit of a guest");
        };
        assert_eq!(code, ErrorCode::TemporaryResolverFailure);
    }

    /// Each guest begins lookups that do not return. Then the guest is dropped, as after a request.
    #[tokio::test]
    async fn guests_that_are_dropped_leave_threads_to_other_programs() {
        // A program may hold 6 of the 16 threads.
        let mut blocked = Blocked::new(16);
        let hostile = config(&blocked);
        for (held, waiting) in [(4, 0), (6, 2), (6, 4), (6, 4)] {
            let mut wasi = Wasi::new(&hostile);
            begin(&mut wasi, "hostile.example");
            blocked.counts(held, waiting).await;
            drop(wasi);
            blocked.counts(held, 0).await;
        }
        for _ in 0..6 {
            assert_eq!(blocked.began().await, "hostile.example");
        }
        let other = config(&blocked);
        let mut wasi = Wasi::new(&other);
        resolve(&mut wasi, "other.example".to_owned()).expect("it begins");
        assert_eq!(blocked.began().await, "other.example");
        blocked.counts(7, 0).await;
        blocked.open().await;
    }

    /// Guests that each have their own builder count as one program.
    #[tokio::test]
    async fn guests_without_a_shared_configuration_have_one_share() {
        let mut blocked = Blocked::new(16);
        let mut guests = vec![];
        for _ in 0..3 {
            let network = Network::none().allow_lookups();
            let mut builder = WasiBuilder::new().network(network);
            builder.config.resolver = blocked.resolver.clone();
            let mut wasi = builder.build();
            begin(&mut wasi, "hostile.example");
            guests.push(wasi);
        }
        blocked.counts(6, 6).await;
        for _ in 0..6 {
            assert_eq!(blocked.began().await, "hostile.example");
        }
        let other = config(&blocked);
        let mut wasi = Wasi::new(&other);
        resolve(&mut wasi, "other.example".to_owned()).expect("it begins");
        assert_eq!(blocked.began().await, "other.example");
        drop((guests, wasi));
        blocked.open().await;
    }
}
