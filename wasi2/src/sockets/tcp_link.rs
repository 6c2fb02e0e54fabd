//! `wasi:sockets/tcp` and `wasi:sockets/tcp-create-socket`.

use super::calls::coded;
use super::connection::{Connection, TcpInput, TcpOutput};
use super::options::{self, Socket, keep_alive_count, keep_alive_time};
use super::tcp::TcpSocket;
use super::types::{ErrorCode, Failure, IpAddressFamily, IpSocketAddress, NetworkHandle, answer};
use crate::methods::{itself, methods, resource, with_wasi};
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
    methods! { linker, TcpSocket, coded;
        "start-bind"(_network: Borrow<NetworkHandle>, address: IpSocketAddress) => |socket| {
            socket.start_bind(address.into())
        };
        "finish-bind"() => TcpSocket::finish_bind;
        "start-connect"(_network: Borrow<NetworkHandle>, address: IpSocketAddress) => |socket| {
            socket.start_connect(address.into())
        };
        "start-listen"() => TcpSocket::start_listen;
        "finish-listen"() => TcpSocket::finish_listen;
        "set-listen-backlog-size"(size: u64) => |socket| Ok(socket.set_backlog(size)?);
        "shutdown"(ty: ShutdownType) => |socket| Ok(shutdown(socket, ty)?);
    }
    methods! { linker, TcpSocket, with_wasi;
        "finish-connect"() => |wasi, this| answer(finish_connect(wasi, this));
        "accept"() => |wasi, this| answer(accept(wasi, this));
    }
    methods! { linker, TcpSocket, itself;
        "is-listening"() => |socket| Ok(socket.is_listening());
    }
    Ok(())
}

fn link_keep_alive<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, TcpSocket, coded;
        "keep-alive-enabled"() => |socket| Ok(sockopt::socket_keepalive(socket.fd()?)?);
        "set-keep-alive-enabled"(is_on: bool) => |socket| {
            Ok(sockopt::set_socket_keepalive(socket.fd()?, is_on)?)
        };
        "keep-alive-idle-time"() => |socket| {
            Ok(sockopt::tcp_keepidle(socket.fd()?)?.as_nanos() as u64)
        };
        "set-keep-alive-idle-time"(time: u64) => |socket| {
            Ok(sockopt::set_tcp_keepidle(socket.fd()?, keep_alive_time(time)?)?)
        };
        "keep-alive-interval"() => |socket| {
            Ok(sockopt::tcp_keepintvl(socket.fd()?)?.as_nanos() as u64)
        };
        "set-keep-alive-interval"(time: u64) => |socket| {
            Ok(sockopt::set_tcp_keepintvl(socket.fd()?, keep_alive_time(time)?)?)
        };
        "keep-alive-count"() => |socket| Ok(sockopt::tcp_keepcnt(socket.fd()?)?);
        "set-keep-alive-count"(count: u32) => |socket| {
            Ok(sockopt::set_tcp_keepcnt(socket.fd()?, keep_alive_count(count)?)?)
        };
    }
    Ok(())
}
