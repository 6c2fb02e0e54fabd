//! `wasi:sockets/tcp` and `wasi:sockets/tcp-create-socket`.

use super::calls::{getter, method};
use super::connection::{Connection, TcpInput, TcpOutput};
use super::options::{self, Socket};
use super::tcp::{TCP, TcpSocket};
use super::types::{ErrorCode, Failure, IpAddressFamily, IpSocketAddress, NetworkHandle, answer};
use crate::methods::{self, resource, with_wasi};
use crate::network::Access;
use crate::streams::{InputStream, OutputStream};
use crate::table::Table;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, Own, Typed};
use pirn_runtime::HostError;
use rustix::net::sockopt;
use std::sync::Arc;

const CREATE: &str = "wasi:sockets/tcp-create-socket@0.2.12";

/// `shutdown-type`
#[derive(Debug, Clone, Copy, Typed)]
enum ShutdownType {
    Receive,
    Send,
    Both,
}

fn create(wasi: &mut Wasi, family: IpAddressFamily) -> Result<Own<TcpSocket>, Failure> {
    let network = &wasi.config.network;
    if !network.allows_some(Access::TcpConnect) && !network.allows_some(Access::TcpListen) {
        return Err(ErrorCode::AccessDenied.into());
    }
    let counted = wasi.sockets.take(network.max_sockets());
    let counted = counted.ok_or(ErrorCode::NewSocketLimit)?;
    let socket = TcpSocket::open(Arc::clone(&wasi.config), family, counted)?;
    Ok(wasi.table.own(socket)?)
}

/// The streams of a connection.
fn streams(
    table: &mut Table,
    connection: &Arc<Connection>,
) -> Result<(Own<InputStream>, Own<OutputStream>), HostError> {
    let input = Box::new(TcpInput(Arc::clone(connection)));
    let output = Box::new(TcpOutput(Arc::clone(connection)));
    Ok((
        table.own(InputStream::new(input))?,
        table.own(OutputStream::new(output))?,
    ))
}

fn finish_connect(
    wasi: &mut Wasi,
    socket: u32,
) -> Result<(Own<InputStream>, Own<OutputStream>), Failure> {
    let Wasi {
        table, host_bytes, ..
    } = wasi;
    let connection = table.get::<TcpSocket>(socket)?.finish_connect(host_bytes)?;
    Ok(streams(table, &connection)?)
}

type Accepted = (Own<TcpSocket>, Own<InputStream>, Own<OutputStream>);

fn accept(wasi: &mut Wasi, socket: u32) -> Result<Accepted, Failure> {
    let counted = wasi.sockets.take(wasi.config.network.max_sockets());
    let listener = wasi.table.get::<TcpSocket>(socket)?;
    let (socket, connection) = listener.accept(counted, &wasi.host_bytes)?;
    let socket = wasi.table.own(socket)?;
    let (input, output) = streams(&mut wasi.table, &connection)?;
    Ok((socket, input, output))
}

fn shutdown(socket: &TcpSocket, ty: ShutdownType) -> Result<(), ErrorCode> {
    let connection = socket.connection()?;
    if matches!(ty, ShutdownType::Receive | ShutdownType::Both) {
        connection.shut_receive();
    }
    if matches!(ty, ShutdownType::Send | ShutdownType::Both) {
        connection.shut_send();
    }
    Ok(())
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, TcpSocket>(linker)?;
    linker.func(CREATE, "create-tcp-socket", |state, (family,)| {
        answer(create(state.data_mut().wasi(), family))
    })?;
    options::link::<T, TcpSocket>(linker, "hop-limit")?;
    link_states(linker)?;
    link_keep_alive(linker)
}

fn link_states<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type Address = (Borrow<TcpSocket>, Borrow<NetworkHandle>, IpSocketAddress);
    let name = "[method]tcp-socket.start-bind";
    linker.func(TCP, name, |state, (this, _, address): Address| {
        let socket = state.data_mut().wasi().table.get::<TcpSocket>(this.rep())?;
        answer(socket.start_bind(address.into()))
    })?;
    getter(linker, "finish-bind", TcpSocket::finish_bind)?;
    let name = "[method]tcp-socket.start-connect";
    linker.func(TCP, name, |state, (this, _, address): Address| {
        let socket = state.data_mut().wasi().table.get::<TcpSocket>(this.rep())?;
        answer(socket.start_connect(address.into()))
    })?;
    with_wasi::<T, TcpSocket, _>(linker, "finish-connect", |wasi, this| {
        answer(finish_connect(wasi, this))
    })?;
    getter(linker, "start-listen", TcpSocket::start_listen)?;
    getter(linker, "finish-listen", TcpSocket::finish_listen)?;
    with_wasi::<T, TcpSocket, _>(linker, "accept", |wasi, this| answer(accept(wasi, this)))?;
    methods::getter(linker, "is-listening", |socket: &mut TcpSocket| {
        Ok(socket.is_listening())
    })?;
    method(linker, "set-listen-backlog-size", TcpSocket::set_backlog)?;
    method(linker, "shutdown", |socket: &mut TcpSocket, ty| {
        shutdown(socket, ty)
    })
}

fn link_keep_alive<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    getter(linker, "keep-alive-enabled", |socket: &mut TcpSocket| {
        Ok(sockopt::socket_keepalive(socket.fd()?)?)
    })?;
    method(
        linker,
        "set-keep-alive-enabled",
        |socket: &mut TcpSocket, is_on: bool| {
            Ok(sockopt::set_socket_keepalive(socket.fd()?, is_on)?)
        },
    )?;
    getter(linker, "keep-alive-idle-time", |socket: &mut TcpSocket| {
        Ok(sockopt::tcp_keepidle(socket.fd()?)?.as_nanos() as u64)
    })?;
    method(
        linker,
        "set-keep-alive-idle-time",
        |socket: &mut TcpSocket, time: u64| {
            let time = options::keep_alive_time(time)?;
            Ok(sockopt::set_tcp_keepidle(socket.fd()?, time)?)
        },
    )?;
    getter(linker, "keep-alive-interval", |socket: &mut TcpSocket| {
        Ok(sockopt::tcp_keepintvl(socket.fd()?)?.as_nanos() as u64)
    })?;
    method(
        linker,
        "set-keep-alive-interval",
        |socket: &mut TcpSocket, time: u64| {
            let time = options::keep_alive_time(time)?;
            Ok(sockopt::set_tcp_keepintvl(socket.fd()?, time)?)
        },
    )?;
    getter(linker, "keep-alive-count", |socket: &mut TcpSocket| {
        Ok(sockopt::tcp_keepcnt(socket.fd()?)?)
    })?;
    method(
        linker,
        "set-keep-alive-count",
        |socket: &mut TcpSocket, count: u32| {
            let count = options::keep_alive_count(count)?;
            Ok(sockopt::set_tcp_keepcnt(socket.fd()?, count)?)
        },
    )
}
