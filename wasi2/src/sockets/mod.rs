//! `wasi:sockets`: TCP, UDP and names, for the addresses that [`Network`](crate::Network) allows.
//!
//! Each operation checks its address before the kernel gets it: `start-bind`, `start-connect`,
//! `stream`, and the sending of a datagram with a destination. If the guest may use no address by
//! TCP, it gets no TCP socket at all; UDP works likewise. Only a TCP connect binds a socket
//! implicitly. The interface requires a bind before a socket listens, receives or sends.

mod types;
mod calls;
mod fd;
mod options;
mod connection;
mod tcp;
mod tcp_link;
mod datagrams;
mod udp;
mod udp_link;
mod lookup;

use crate::methods::{code_of_error, resource};
use crate::wasi::View;
use pirn_component::{LinkError, Linker};
use std::io;
use types::{ErrorCode, NETWORK, NetworkHandle};

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, NetworkHandle>(linker)?;
    let interface = "wasi:sockets/instance-network@0.2.12";
    linker.func(interface, "instance-network", |state, ()| {
        state.data_mut().wasi().table.own(NetworkHandle)
    })?;
    code_of_error(linker, NETWORK, "network-error-code", |error| {
        error.downcast_ref::<io::Error>().and_then(ErrorCode::of)
    })?;
    tcp_link::link(linker)?;
    udp_link::link(linker)?;
    lookup::link(linker)
}
