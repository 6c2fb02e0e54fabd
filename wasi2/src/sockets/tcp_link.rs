//! `wasi:sockets/tcp` and `wasi:sockets/tcp-create-socket`.

use super::connection::{Connection, TcpInput, TcpOutput};
use super::options;
use super::tcp::TcpSocket;
use super::types::{
    Answer, ErrorCode, Failure, IpAddressFamily, IpSocketAddress, NetworkType, answer,
};
use crate::network::Access;
use crate::poll::subscribe;
use crate::streams::{InputType, OutputType, add_input, add_output};
use crate::table::Table;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, Own, ResourceType, Typed};
use pirn_runtime::HostError;
use rustix::net::sockopt;
use std::sync::Arc;

const TCP: &str = "wasi:sockets/tcp@0.2.12";
const CREATE: &str = "wasi:sockets/tcp-create-socket@0.2.12";

/// The resource type `tcp-socket`.
struct TcpSocketType;

impl ResourceType for TcpSocketType {
    const INTERFACE: &'static str = TCP;
    const NAME: &'static str = "tcp-socket";
}

type This = Borrow<TcpSocketType>;

/// `shutdown-type`
#[derive(Debug, Clone, Copy, Typed)]
enum ShutdownType {
    Receive,
    Send,
    Both,
}

fn create(wasi: &mut Wasi, family: IpAddressFamily) -> Result<Own<TcpSocketType>, Failure> {
    let network = &wasi.config.network;
    if !network.allows_some(Access::TcpConnect) && !network.allows_some(Access::TcpListen) {
        return Err(ErrorCode::AccessDenied.into());
    }
    let counted = wasi.sockets.take(network.max_sockets());
    let counted = counted.ok_or(ErrorCode::NewSocketLimit)?;
    let socket = TcpSocket::open(Arc::clone(&wasi.config), family, counted)?;
    Ok(wasi.table.add(socket).map(Own::host)?)
}

/// The streams of a connection.
fn streams(
    table: &mut Table,
    connection: &Arc<Connection>,
) -> Result<(Own<InputType>, Own<OutputType>), HostError> {
    let input = add_input(table, Box::new(TcpInput(Arc::clone(connection))))?;
    let output = add_output(table, Box::new(TcpOutput(Arc::clone(connection))))?;
    Ok((input, output))
}

fn finish_connect(
    wasi: &mut Wasi,
    socket: u32,
) -> Result<(Own<InputType>, Own<OutputType>), Failure> {
    let connection = wasi.table.get::<TcpSocket>(socket)?.finish_connect()?;
    Ok(streams(&mut wasi.table, &connection)?)
}

type Accepted = (Own<TcpSocketType>, Own<InputType>, Own<OutputType>);

fn accept(wasi: &mut Wasi, socket: u32) -> Result<Accepted, Failure> {
    let counted = wasi.sockets.take(wasi.config.network.max_sockets());
    let listener = wasi.table.get::<TcpSocket>(socket)?;
    let (socket, connection) = listener.accept(counted)?;
    let socket = wasi.table.add(socket).map(Own::host)?;
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

/// Adds a method with a parameter. Its errors go to the guest.
fn method<T: View, P, R>(
    linker: &mut Linker<T>,
    name: &str,
    method: impl Fn(&mut TcpSocket, P) -> Result<R, ErrorCode> + Send + Sync + 'static,
) -> Result<(), LinkError>
where
    P: Typed,
    R: Typed,
{
    let name = format!("[method]tcp-socket.{name}");
    linker.func(TCP, &name, move |state, (this, value): (This, P)| {
        let socket = state.data_mut().wasi().table.get(this.rep())?;
        Ok(method(socket, value))
    })?;
    Ok(())
}

/// Adds a method without parameters.
fn getter<T: View, R: Typed>(
    linker: &mut Linker<T>,
    name: &str,
    method: impl Fn(&mut TcpSocket) -> Result<R, Failure> + Send + Sync + 'static,
) -> Result<(), LinkError> {
    let name = format!("[method]tcp-socket.{name}");
    linker.func(TCP, &name, move |state, (this,): (This,)| -> Answer<R> {
        let socket = state.data_mut().wasi().table.get(this.rep())?;
        answer(method(socket))
    })?;
    Ok(())
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.resource(TCP, TcpSocketType::NAME, |state, socket| {
        state.data_mut().wasi().table.remove(socket.rep()).map(drop)
    })?;
    linker.func(CREATE, "create-tcp-socket", |state, (family,)| {
        answer(create(state.data_mut().wasi(), family))
    })?;
    link_states(linker)?;
    link_options(linker)?;
    link_keep_alive(linker)
}

fn link_states<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type Address = (This, Borrow<NetworkType>, IpSocketAddress);
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
    let name = "[method]tcp-socket.finish-connect";
    linker.func(TCP, name, |state, (this,): (This,)| {
        answer(finish_connect(state.data_mut().wasi(), this.rep()))
    })?;
    getter(linker, "start-listen", TcpSocket::start_listen)?;
    getter(linker, "finish-listen", TcpSocket::finish_listen)?;
    let name = "[method]tcp-socket.accept";
    linker.func(TCP, name, |state, (this,): (This,)| {
        answer(accept(state.data_mut().wasi(), this.rep()))
    })?;
    let name = "[method]tcp-socket.is-listening";
    linker.func(TCP, name, |state, (this,): (This,)| {
        let socket = state.data_mut().wasi().table.get::<TcpSocket>(this.rep())?;
        Ok(socket.is_listening())
    })?;
    let name = "[method]tcp-socket.address-family";
    linker.func(TCP, name, |state, (this,): (This,)| {
        let socket = state.data_mut().wasi().table.get::<TcpSocket>(this.rep())?;
        Ok(socket.family())
    })?;
    getter(linker, "local-address", |socket| {
        Ok(IpSocketAddress::from(socket.local_address()?))
    })?;
    getter(linker, "remote-address", |socket| {
        Ok(IpSocketAddress::from(socket.remote_address()?))
    })?;
    method(linker, "shutdown", |socket, ty| shutdown(socket, ty))?;
    let name = "[method]tcp-socket.subscribe";
    linker.func(TCP, name, |state, (this,): (This,)| {
        subscribe(&mut state.data_mut().wasi().table, this.rep())
    })?;
    Ok(())
}

fn link_options<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    method(linker, "set-listen-backlog-size", TcpSocket::set_backlog)?;
    getter(linker, "hop-limit", |socket| {
        Ok(options::hop_limit(socket.fd()?, socket.family())?)
    })?;
    method(linker, "set-hop-limit", |socket, hops: u8| {
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

fn link_keep_alive<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    getter(linker, "keep-alive-enabled", |socket| {
        Ok(sockopt::socket_keepalive(socket.fd()?)?)
    })?;
    method(linker, "set-keep-alive-enabled", |socket, is_on: bool| {
        Ok(sockopt::set_socket_keepalive(socket.fd()?, is_on)?)
    })?;
    getter(linker, "keep-alive-idle-time", |socket| {
        Ok(sockopt::tcp_keepidle(socket.fd()?)?.as_nanos() as u64)
    })?;
    method(linker, "set-keep-alive-idle-time", |socket, time: u64| {
        let time = options::keep_alive_time(time)?;
        Ok(sockopt::set_tcp_keepidle(socket.fd()?, time)?)
    })?;
    getter(linker, "keep-alive-interval", |socket| {
        Ok(sockopt::tcp_keepintvl(socket.fd()?)?.as_nanos() as u64)
    })?;
    method(linker, "set-keep-alive-interval", |socket, time: u64| {
        let time = options::keep_alive_time(time)?;
        Ok(sockopt::set_tcp_keepintvl(socket.fd()?, time)?)
    })?;
    getter(linker, "keep-alive-count", |socket| {
        Ok(sockopt::tcp_keepcnt(socket.fd()?)?)
    })?;
    method(linker, "set-keep-alive-count", |socket, count: u32| {
        let count = options::keep_alive_count(count)?;
        Ok(sockopt::set_tcp_keepcnt(socket.fd()?, count)?)
    })
}
