//! `wasi:sockets/udp` and `wasi:sockets/udp-create-socket`.

use super::calls::getter;
use super::datagrams::{Incoming, Outgoing, OutgoingDatagram, UDP};
use super::options;
use super::types::{ErrorCode, Failure, IpAddressFamily, IpSocketAddress, NetworkHandle, answer};
use super::udp::UdpSocket;
use crate::methods::{self, pollable, resource};
use crate::network::Access;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, Own};
use std::net::SocketAddr;
use std::sync::Arc;

const CREATE: &str = "wasi:sockets/udp-create-socket@0.2.12";

fn create(wasi: &mut Wasi, family: IpAddressFamily) -> Result<Own<UdpSocket>, Failure> {
    let network = &wasi.config.network;
    // A socket must be bound before it sends, so a guest without a rule for UdpBind can use no UDP
    // socket.
    if !network.allows_some(Access::UdpBind) {
        return Err(ErrorCode::AccessDenied.into());
    }
    let counted = wasi.sockets.take(network.max_sockets());
    let counted = counted.ok_or(ErrorCode::NewSocketLimit)?;
    let socket = UdpSocket::open(Arc::clone(&wasi.config), family, counted)?;
    Ok(wasi.table.own(socket)?)
}

fn stream(
    wasi: &mut Wasi,
    socket: u32,
    remote: Option<IpSocketAddress>,
) -> Result<(Own<Incoming>, Own<Outgoing>), Failure> {
    let socket = wasi.table.get::<UdpSocket>(socket)?;
    let (incoming, outgoing) = socket.stream(remote.map(SocketAddr::from))?;
    Ok((wasi.table.own(incoming)?, wasi.table.own(outgoing)?))
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, UdpSocket>(linker)?;
    linker.func(CREATE, "create-udp-socket", |state, (family,)| {
        answer(create(state.data_mut().wasi(), family))
    })?;
    options::link::<T, UdpSocket>(linker, "unicast-hop-limit")?;
    link_socket(linker)?;
    link_datagrams(linker)
}

fn link_socket<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type Address = (Borrow<UdpSocket>, Borrow<NetworkHandle>, IpSocketAddress);
    let name = "[method]udp-socket.start-bind";
    linker.func(UDP, name, |state, (this, _, address): Address| {
        let socket = state.data_mut().wasi().table.get::<UdpSocket>(this.rep())?;
        answer(socket.start_bind(address.into()))
    })?;
    getter(linker, "finish-bind", UdpSocket::finish_bind)?;
    type Remote = (Borrow<UdpSocket>, Option<IpSocketAddress>);
    let name = "[method]udp-socket.stream";
    linker.func(UDP, name, |state, (this, remote): Remote| {
        answer(stream(state.data_mut().wasi(), this.rep(), remote))
    })?;
    Ok(())
}

fn link_datagrams<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, Incoming>(linker)?;
    methods::method(linker, "receive", |stream: &mut Incoming, max: u64| {
        answer(stream.receive(max))
    })?;
    pollable::<T, Incoming>(linker)?;
    resource::<T, Outgoing>(linker)?;
    getter(linker, "check-send", Outgoing::check_send)?;
    type Datagrams = Vec<OutgoingDatagram>;
    methods::method(
        linker,
        "send",
        |stream: &mut Outgoing, datagrams: Datagrams| answer(stream.send(&datagrams)),
    )?;
    pollable::<T, Outgoing>(linker)
}
