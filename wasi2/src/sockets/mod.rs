//! `wasi:sockets`: TCP, UDP and names, for the addresses that [`Network`](crate::Network) allows.
//!
//! Each operation checks its address before the kernel gets it: `start-bind`, `start-connect`,
//! `stream`, and the sending of a datagram with a destination. If the guest may use no address by
//! TCP, it gets no TCP socket at all; UDP works likewise. Only a TCP connect binds a socket
//! implicitly. The interface requires a bind before a socket listens, receives or sends.

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

/// The default network. It has no state, because the same rules apply to all sockets of a guest.
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
