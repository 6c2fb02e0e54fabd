//! Operations in each state of a TCP socket.

use crate::net::*;

const INVALID: Result<(), ErrorCode> = Err(ErrorCode::InvalidState);
const CONFLICT: Result<(), ErrorCode> = Err(ErrorCode::ConcurrencyConflict);
const NONE: Result<(), ErrorCode> = Err(ErrorCode::NotInProgress);

/// Nothing is in progress: nothing can be finished.
#[track_caller]
fn nothing_to_finish(socket: &TcpSocket) {
    assert_eq!(socket.finish_bind(), NONE);
    assert_eq!(socket.finish_listen(), NONE);
    assert!(matches!(
        socket.finish_connect(),
        Err(ErrorCode::NotInProgress)
    ));
}

/// No operation can begin.
#[track_caller]
fn nothing_begins(socket: &TcpSocket, code: Result<(), ErrorCode>) {
    let (network, address) = (instance_network(), at("127.0.0.1:9"));
    assert_eq!(socket.start_bind(&network, address), code);
    assert_eq!(socket.start_connect(&network, address), code);
    assert_eq!(socket.start_listen(), code);
    assert!(matches!(socket.accept(), Err(code_) if Err(code_) == code));
}

#[track_caller]
fn not_connected(socket: &TcpSocket) {
    assert_eq!(socket.remote_address().map(drop), INVALID);
    for ty in [
        ShutdownType::Receive,
        ShutdownType::Send,
        ShutdownType::Both,
    ] {
        assert_eq!(socket.shutdown(ty), INVALID);
    }
}

pub fn all() {
    let network = instance_network();
    let own = at("127.0.0.1:0");
    // Unbound.
    let socket = create_tcp_socket(IpAddressFamily::Ipv4).expect("a socket");
    nothing_to_finish(&socket);
    not_connected(&socket);
    assert_eq!(socket.local_address().map(drop), INVALID);
    assert_eq!(socket.start_listen(), INVALID);
    assert!(matches!(socket.accept(), Err(ErrorCode::InvalidState)));
    assert!(!socket.is_listening() && socket.subscribe().ready());
    // A failed bind leaves it unbound.
    for (bad, code) in [
        ("[::1]:0", ErrorCode::InvalidArgument),
        ("[::ffff:127.0.0.1]:0", ErrorCode::InvalidArgument),
        ("224.0.0.1:0", ErrorCode::InvalidArgument),
        ("255.255.255.255:0", ErrorCode::InvalidArgument),
        ("192.0.2.1:0", ErrorCode::AddressNotBindable),
    ] {
        assert_eq!(socket.start_bind(&network, at(bad)), Err(code), "{bad}");
        nothing_to_finish(&socket);
    }
    // Bind started.
    assert_eq!(socket.start_bind(&network, own), Ok(()));
    nothing_begins(&socket, CONFLICT);
    not_connected(&socket);
    assert_eq!(socket.finish_listen(), NONE);
    assert_eq!(socket.local_address().map(drop), INVALID);
    assert_eq!(socket.finish_bind(), Ok(()));
    // Bound.
    nothing_to_finish(&socket);
    not_connected(&socket);
    assert_eq!(socket.start_bind(&network, own), INVALID);
    assert!(matches!(socket.accept(), Err(ErrorCode::InvalidState)));
    let bound = local(&socket).expect("it is bound");
    assert_ne!(bound.port(), 0);
    // Listen started.
    assert_eq!(socket.start_listen(), Ok(()));
    nothing_begins(&socket, CONFLICT);
    assert!(!socket.is_listening());
    assert_eq!(socket.finish_bind(), NONE);
    assert_eq!(socket.finish_listen(), Ok(()));
    // Listening.
    assert!(socket.is_listening());
    nothing_to_finish(&socket);
    not_connected(&socket);
    assert_eq!(socket.start_bind(&network, own), INVALID);
    assert_eq!(socket.start_connect(&network, to_wasi(bound)), INVALID);
    assert_eq!(socket.start_listen(), INVALID);
    assert_eq!(local(&socket), Ok(bound));
    // The port is taken.
    let other = create_tcp_socket(IpAddressFamily::Ipv4).expect("a socket");
    assert_eq!(
        other.start_bind(&network, to_wasi(bound)),
        Err(ErrorCode::AddressInUse)
    );
    // Connected, from a bound socket.
    let client = create_tcp_socket(IpAddressFamily::Ipv4).expect("a socket");
    bind(&client, "127.0.0.1:0").expect("it binds");
    let own_end = local(&client);
    assert_eq!(client.start_connect(&network, to_wasi(bound)), Ok(()));
    nothing_begins(&client, CONFLICT);
    not_connected(&client);
    assert_eq!(client.finish_bind(), NONE);
    let streams = finish(&client.subscribe(), || client.finish_connect());
    let _streams = streams.expect("a connection");
    nothing_begins(&client, INVALID);
    nothing_to_finish(&client);
    assert_eq!(local(&client), own_end);
    assert_eq!(client.remote_address().map(from_wasi), Ok(bound));
    assert_eq!(client.set_listen_backlog_size(1), INVALID);
    assert!(client.subscribe().ready());
}
