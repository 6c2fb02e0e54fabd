//! `wasi:sockets/udp` and `wasi:sockets/udp-create-socket`.

use super::calls::coded;
use super::datagrams::{Incoming, Outgoing, OutgoingDatagram};
use super::options;
use super::types::{ErrorCode, Failure, IpAddressFamily, IpSocketAddress, NetworkHandle, answer};
use super::udp::UdpSocket;
use crate::methods::{methods, pollable, resource, with_wasi};
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
    methods! { linker, UdpSocket, coded;
        "start-bind"(_network: Borrow<NetworkHandle>, address: IpSocketAddress) => |socket| {
            socket.start_bind(address.into())
        };
        "finish-bind"() => UdpSocket::finish_bind;
    }
    methods! { linker, UdpSocket, with_wasi;
        "stream"(remote: Option<IpSocketAddress>) => |wasi, this| {
            answer(stream(wasi, this, remote))
        };
    }
    Ok(())
}

fn link_datagrams<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, Incoming>(linker)?;
    pollable::<T, Incoming>(linker)?;
    resource::<T, Outgoing>(linker)?;
    pollable::<T, Outgoing>(linker)?;
    methods! { linker, Incoming, coded;
        "receive"(max: u64) => |stream| stream.receive(max);
    }
    methods! { linker, Outgoing, coded;
        "check-send"() => Outgoing::check_send;
        "send"(datagrams: Vec<OutgoingDatagram>) => |stream| stream.send(&datagrams);
    }
    Ok(())
}
