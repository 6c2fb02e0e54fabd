//! `wasi:sockets/udp` and `wasi:sockets/udp-create-socket`.

use super::datagrams::{Incoming, Outgoing, OutgoingDatagram};
use super::options;
use super::types::{ErrorCode, Failure, IpAddressFamily, IpSocketAddress, NetworkType, answer};
use super::udp::UdpSocket;
use crate::network::Access;
use crate::poll::subscribe;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, Own, ResourceType, Typed};
use std::net::SocketAddr;
use std::sync::Arc;

const UDP: &str = "wasi:sockets/udp@0.2.12";
const CREATE: &str = "wasi:sockets/udp-create-socket@0.2.12";

/// The resource type `udp-socket`.
struct UdpSocketType;

impl ResourceType for UdpSocketType {
    const INTERFACE: &'static str = UDP;
    const NAME: &'static str = "udp-socket";
}

/// The resource type `incoming-datagram-stream`.
struct IncomingType;

impl ResourceType for IncomingType {
    const INTERFACE: &'static str = UDP;
    const NAME: &'static str = "incoming-datagram-stream";
}

/// The resource type `outgoing-datagram-stream`.
struct OutgoingType;

impl ResourceType for OutgoingType {
    const INTERFACE: &'static str = UDP;
    const NAME: &'static str = "outgoing-datagram-stream";
}

type This = Borrow<UdpSocketType>;

fn create(wasi: &mut Wasi, family: IpAddressFamily) -> Result<Own<UdpSocketType>, Failure> {
    let network = &wasi.config.network;
    // Sockets must be bound before they send.
    if !network.allows_some(Access::UdpBind) {
        return Err(ErrorCode::AccessDenied.into());
    }
    let counted = wasi.sockets.take(network.max_sockets());
    let counted = counted.ok_or(ErrorCode::NewSocketLimit)?;
    let socket = UdpSocket::open(Arc::clone(&wasi.config), family, counted)?;
    Ok(wasi.table.add(socket).map(Own::host)?)
}

fn stream(
    wasi: &mut Wasi,
    socket: u32,
    remote: Option<IpSocketAddress>,
) -> Result<(Own<IncomingType>, Own<OutgoingType>), Failure> {
    let socket = wasi.table.get::<UdpSocket>(socket)?;
    let (incoming, outgoing) = socket.stream(remote.map(SocketAddr::from))?;
    let incoming = wasi.table.add(incoming)?;
    let outgoing = wasi.table.add(outgoing)?;
    Ok((Own::host(incoming), Own::host(outgoing)))
}

/// Adds a method with one parameter.
fn method<T: View, P: Typed, R: Typed>(
    linker: &mut Linker<T>,
    name: &str,
    method: impl Fn(&mut UdpSocket, P) -> Result<R, ErrorCode> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    let name = format!("[method]udp-socket.{name}");
    linker.func(UDP, &name, move |state, (this, value): (This, P)| {
        let socket = state.data_mut().wasi().table.get(this.rep())?;
        Ok(method(socket, value))
    })?;
    Ok(())
}

/// Adds a method without parameters.
fn getter<T: View, R: Typed>(
    linker: &mut Linker<T>,
    name: &str,
    method: impl Fn(&mut UdpSocket) -> Result<R, Failure> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    let name = format!("[method]udp-socket.{name}");
    linker.func(UDP, &name, move |state, (this,): (This,)| {
        let socket = state.data_mut().wasi().table.get(this.rep())?;
        answer(method(socket))
    })?;
    Ok(())
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    for name in [UdpSocketType::NAME, IncomingType::NAME, OutgoingType::NAME] {
        linker.resource(UDP, name, |state, dropped| {
            let table = &mut state.data_mut().wasi().table;
            table.remove(dropped.rep()).map(drop)
        })?;
    }
    linker.func(CREATE, "create-udp-socket", |state, (family,)| {
        answer(create(state.data_mut().wasi(), family))
    })?;
    link_socket(linker)?;
    link_options(linker)?;
    link_datagrams(linker)
}

fn link_socket<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type Address = (This, Borrow<NetworkType>, IpSocketAddress);
    let name = "[method]udp-socket.start-bind";
    linker.func(UDP, name, |state, (this, _, address): Address| {
        let socket = state.data_mut().wasi().table.get::<UdpSocket>(this.rep())?;
        answer(socket.start_bind(address.into()))
    })?;
    getter(linker, "finish-bind", UdpSocket::finish_bind)?;
    type Remote = (This, Option<IpSocketAddress>);
    let name = "[method]udp-socket.stream";
    linker.func(UDP, name, |state, (this, remote): Remote| {
        answer(stream(state.data_mut().wasi(), this.rep(), remote))
    })?;
    getter(linker, "local-address", |socket| {
        Ok(IpSocketAddress::from(socket.local_address()?))
    })?;
    getter(linker, "remote-address", |socket| {
        Ok(IpSocketAddress::from(socket.remote_address()?))
    })?;
    let name = "[method]udp-socket.address-family";
    linker.func(UDP, name, |state, (this,): (This,)| {
        let socket = state.data_mut().wasi().table.get::<UdpSocket>(this.rep())?;
        Ok(socket.family())
    })?;
    let name = "[method]udp-socket.subscribe";
    linker.func(UDP, name, |state, (this,): (This,)| {
        subscribe(&mut state.data_mut().wasi().table, this.rep())
    })?;
    Ok(())
}

fn link_options<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    getter(linker, "unicast-hop-limit", |socket| {
        Ok(options::hop_limit(socket.fd()?, socket.family())?)
    })?;
    method(linker, "set-unicast-hop-limit", |socket, hops: u8| {
        options::set_hop_limit(socket.fd()?, socket.family(), hops)
    })?;
    getter(linker, "receive-buffer-size", |socket| {
        Ok(options::receive_buffer_size(socket.fd()?)?)
    })?;
    method(linker, "set-receive-buffer-size", |socket, bytes: u64| {
        options::set_receive_buffer_size(socket.fd()?, bytes)
    })?;
    getter(linker, "send-buffer-size", |socket| {
        Ok(options::send_buffer_size(socket.fd()?)?)
    })?;
    method(linker, "set-send-buffer-size", |socket, bytes: u64| {
        options::set_send_buffer_size(socket.fd()?, bytes)
    })
}

fn link_datagrams<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type In = Borrow<IncomingType>;
    type Out = Borrow<OutgoingType>;
    let name = "[method]incoming-datagram-stream.receive";
    linker.func(UDP, name, |state, (this, max): (In, u64)| {
        let stream = state.data_mut().wasi().table.get::<Incoming>(this.rep())?;
        answer(stream.receive(max))
    })?;
    let name = "[method]incoming-datagram-stream.subscribe";
    linker.func(UDP, name, |state, (this,): (In,)| {
        subscribe(&mut state.data_mut().wasi().table, this.rep())
    })?;
    let name = "[method]outgoing-datagram-stream.check-send";
    linker.func(UDP, name, |state, (this,): (Out,)| {
        let stream = state.data_mut().wasi().table.get::<Outgoing>(this.rep())?;
        answer(stream.check_send())
    })?;
    let name = "[method]outgoing-datagram-stream.send";
    type Sent = (Out, Vec<OutgoingDatagram>);
    linker.func(UDP, name, |state, (this, datagrams): Sent| {
        let stream = state.data_mut().wasi().table.get::<Outgoing>(this.rep())?;
        answer(stream.send(&datagrams))
    })?;
    let name = "[method]outgoing-datagram-stream.subscribe";
    linker.func(UDP, name, |state, (this,): (Out,)| {
        subscribe(&mut state.data_mut().wasi().table, this.rep())
    })?;
    Ok(())
}
