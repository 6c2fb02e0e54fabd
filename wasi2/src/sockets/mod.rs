//! `wasi:sockets`: TCP, UDP and names, for the addresses that [`Network`](crate::Network) allows.
//!
//! The address of every operation that makes one effective is checked before the kernel gets it:
//! `start-bind`, `start-connect`, `stream`, and each datagram that says where it goes. A guest that
//! may use no address by TCP (or UDP) gets no socket at all. There are no implicit binds but that
//! of a connect: the interface wants sockets to be bound before they listen, receive or send.

mod types;
mod fd;
mod options;
mod connection;
mod tcp;
mod tcp_link;
mod datagrams;
mod udp;
mod udp_link;
mod lookup;

use crate::io::IoError;
use crate::streams::ErrorType;
use crate::table::Resource;
use crate::wasi::View;
use pirn_component::{Borrow, LinkError, Linker, Own, ResourceType};
use std::io;
use types::{ErrorCode, NETWORK, NetworkType};

/// The default network. It has no state: what is allowed is the same for all sockets of a guest.
struct Default;

impl Resource for Default {}

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.resource(NETWORK, NetworkType::NAME, |state, network| {
        let table = &mut state.data_mut().wasi().table;
        table.remove(network.rep()).map(drop)
    })?;
    let interface = "wasi:sockets/instance-network@0.2.12";
    linker.func(interface, "instance-network", |state, ()| {
        let table = &mut state.data_mut().wasi().table;
        table.add(Default).map(Own::<NetworkType>::host)
    })?;
    type Error = (Borrow<ErrorType>,);
    linker.func(NETWORK, "network-error-code", |state, (error,): Error| {
        let table = &mut state.data_mut().wasi().table;
        let error = table.get::<IoError>(error.rep())?;
        Ok(error.downcast_ref::<io::Error>().and_then(ErrorCode::of))
    })?;
    tcp_link::link(linker)?;
    udp_link::link(linker)?;
    lookup::link(linker)
}
