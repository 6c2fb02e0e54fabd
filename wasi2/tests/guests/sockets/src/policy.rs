//! What is denied.

use crate::names::{literals, look_up};
use crate::net::*;
use crate::udp::{bound as udp_bound, datagram, own_address, send};
use wasip2::sockets::udp_create_socket::create_udp_socket;

const BOTH: [IpAddressFamily; 2] = [IpAddressFamily::Ipv4, IpAddressFamily::Ipv6];

/// Nothing is allowed.
pub fn denied() {
    for family in BOTH {
        assert!(matches!(
            create_tcp_socket(family),
            Err(ErrorCode::AccessDenied)
        ));
        assert!(matches!(
            create_udp_socket(family),
            Err(ErrorCode::AccessDenied)
        ));
    }
    assert!(matches!(look_up("localhost"), Err(ErrorCode::AccessDenied)));
    literals();
}

/// Only listening is allowed, by TCP.
pub fn bound() {
    let (_listener, address) = listener("127.0.0.1:0");
    let socket = socket_for(&address);
    let result = socket.start_connect(&instance_network(), at(&address));
    assert_eq!(result, Err(ErrorCode::AccessDenied));
    assert!(matches!(
        create_udp_socket(BOTH[0]),
        Err(ErrorCode::AccessDenied)
    ));
}

#[track_caller]
fn refuses(address: &str, code: ErrorCode) {
    let socket = socket_for(address);
    let result = socket.start_connect(&instance_network(), at(address));
    assert_eq!(result, Err(code), "connect to {address}");
    // The socket is as before.
    assert!(matches!(
        socket.finish_connect(),
        Err(ErrorCode::NotInProgress)
    ));
}

/// Connections to one address are allowed.
pub fn addresses(allowed: &str) {
    let (_, port) = allowed.rsplit_once(':').expect("a port");
    drop(connected(allowed));
    let other_port = format!("127.0.0.1:{}", port.parse::<u16>().expect("a port") ^ 1);
    for denied in [
        &*other_port,
        "127.0.0.2:80",
        "192.0.2.1:80",
        "[::1]:80",
        "[2001:db8::1]:80",
    ] {
        refuses(denied, ErrorCode::AccessDenied);
    }
    refuses(&format!("127.0.0.2:{port}"), ErrorCode::AccessDenied);
    refuses(&format!("[::1]:{port}"), ErrorCode::AccessDenied);
    refuses(&format!("[::127.0.0.1]:{port}"), ErrorCode::AccessDenied);
    for invalid in [
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "[::]",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        refuses(&format!("{invalid}:{port}"), ErrorCode::InvalidArgument);
    }
    refuses("[ff02::1]:80", ErrorCode::InvalidArgument);
    refuses("127.0.0.1:0", ErrorCode::InvalidArgument);
    // The other family.
    let socket = socket_for("[::1]:0");
    let result = socket.start_connect(&instance_network(), at(allowed));
    assert_eq!(result, Err(ErrorCode::InvalidArgument));
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let result = bind(&socket_for(address), address);
        assert_eq!(result, Err(ErrorCode::AccessDenied), "bind to {address}");
    }
    // A refused socket can still connect.
    let socket = socket_for(allowed);
    let result = socket.start_connect(&instance_network(), at(&other_port));
    assert_eq!(result, Err(ErrorCode::AccessDenied));
    drop(connect(&socket, allowed).expect("this is allowed"));
}

/// Ports 40000 to 40999 of 127.0.0.1 may be listened at.
pub fn binds() {
    let denied = [
        "127.0.0.1:39999",
        "127.0.0.1:41000",
        "127.0.0.1:0",
        "127.0.0.2:40000",
    ];
    let denied_everywhere = [
        "0.0.0.0:40000",
        "[::]:40000",
        "[::1]:40000",
        "192.0.2.1:40000",
    ];
    for address in denied.iter().chain(&denied_everywhere) {
        let result = bind(&socket_for(address), address);
        assert_eq!(result, Err(ErrorCode::AccessDenied), "{address}");
    }
    for address in [
        "[::ffff:127.0.0.1]:40000",
        "224.0.0.1:40000",
        "255.255.255.255:40000",
    ] {
        let result = bind(&socket_for(address), address);
        assert_eq!(result, Err(ErrorCode::InvalidArgument), "{address}");
    }
    let free = (40_000..41_000).find(|port| {
        let address = format!("127.0.0.1:{port}");
        let socket = socket_for(&address);
        bind(&socket, &address).is_ok() && listen(&socket).is_ok()
    });
    assert!(free.is_some(), "no port is free");
}

/// Datagrams to one address are allowed.
pub fn datagrams(allowed: &str) {
    let socket = udp_bound("127.0.0.1:0");
    let (_input, output) = socket.stream(None).expect("streams");
    let send_to = |to: &str| send(&output, &[datagram(b"x", Some(to))]);
    assert_eq!(send_to(allowed), Ok(1));
    let own = own_address(&socket);
    for denied in [
        &*own,
        "127.0.0.2:80",
        "192.0.2.1:80",
        "224.0.0.1:80",
        "255.255.255.255:80",
    ] {
        assert_eq!(send_to(denied), Err(ErrorCode::AccessDenied), "{denied}");
        let result = socket.stream(Some(at(denied)));
        assert!(matches!(result, Err(ErrorCode::AccessDenied)), "{denied}");
    }
    for invalid in [
        "[::ffff:127.0.0.1]:80",
        "0.0.0.0:80",
        "127.0.0.1:0",
        "[::1]:80",
    ] {
        assert_eq!(
            send_to(invalid),
            Err(ErrorCode::InvalidArgument),
            "{invalid}"
        );
    }
    // A denied one after a sent one is not sent.
    let two = [datagram(b"x", Some(allowed)), datagram(b"x", Some(&own))];
    assert_eq!(send(&output, &two), Ok(1));
    let v6 = udp_bound("[::1]:0");
    let (_input, output) = v6.stream(None).expect("streams");
    let (_, port) = allowed.rsplit_once(':').expect("a port");
    let mapped = format!("[::ffff:127.0.0.1]:{port}");
    let sent = send(&output, &[datagram(b"x", Some(&mapped))]);
    assert_eq!(sent, Err(ErrorCode::InvalidArgument));
}

/// Makes sockets up to the limit `max`, and checks that one more is refused.
pub fn limit(max: &str) {
    let max: usize = max.parse().expect("a number");
    let (listener, address) = listener("127.0.0.1:0");
    let (client, input, output) = connected(&address);
    let mut sockets = vec![];
    loop {
        match create_tcp_socket(BOTH[0]) {
            Ok(socket) => sockets.push(socket),
            Err(code) => {
                assert_eq!(code, ErrorCode::NewSocketLimit);
                break;
            }
        }
    }
    assert_eq!(sockets.len(), max - 2);
    assert!(matches!(
        create_udp_socket(BOTH[1]),
        Err(ErrorCode::NewSocketLimit)
    ));
    // The connection stays in the kernel until there is room.
    listener.subscribe().block();
    for _ in 0..2 {
        assert!(matches!(listener.accept(), Err(ErrorCode::NewSocketLimit)));
    }
    sockets.pop();
    let accepted = finish(&listener.subscribe(), || listener.accept()).expect("a connection");
    // A socket counts while one of its streams is there.
    drop((client, output));
    assert!(matches!(
        create_tcp_socket(BOTH[0]),
        Err(ErrorCode::NewSocketLimit)
    ));
    drop(input);
    sockets.push(create_tcp_socket(BOTH[0]).expect("there is room again"));
    drop(accepted);
    sockets.push(create_tcp_socket(BOTH[0]).expect("there is room again"));
    assert!(matches!(
        create_tcp_socket(BOTH[0]),
        Err(ErrorCode::NewSocketLimit)
    ));
}
