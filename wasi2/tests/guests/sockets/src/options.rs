//! The options of TCP sockets.

use crate::net::*;

const SECOND: u64 = 1_000_000_000;
const BAD: Result<(), ErrorCode> = Err(ErrorCode::InvalidArgument);

/// All options of a socket.
fn of(socket: &TcpSocket) -> Result<(bool, u64, u64, u32, u8, u64, u64), ErrorCode> {
    Ok((
        socket.keep_alive_enabled()?,
        socket.keep_alive_idle_time()?,
        socket.keep_alive_interval()?,
        socket.keep_alive_count()?,
        socket.hop_limit()?,
        socket.receive_buffer_size()?,
        socket.send_buffer_size()?,
    ))
}

fn check(socket: &TcpSocket) {
    for value in [true, false] {
        socket.set_keep_alive_enabled(value).expect("it is valid");
        assert_eq!(socket.keep_alive_enabled(), Ok(value));
    }
    // The kernel has seconds, at most 32,767.
    for (set, expected) in [(1, 1), (SECOND, 1), (SECOND + 1, 2), (u64::MAX, 32_767)] {
        socket.set_keep_alive_idle_time(set).expect("it is clamped");
        assert_eq!(socket.keep_alive_idle_time(), Ok(expected * SECOND));
        socket.set_keep_alive_interval(set).expect("it is clamped");
        assert_eq!(socket.keep_alive_interval(), Ok(expected * SECOND));
    }
    for (set, expected) in [(1, 1), (127, 127), (128, 127), (u32::MAX, 127)] {
        socket.set_keep_alive_count(set).expect("it is clamped");
        assert_eq!(socket.keep_alive_count(), Ok(expected));
    }
    for value in [1, 64, 255] {
        socket.set_hop_limit(value).expect("it is valid");
        assert_eq!(socket.hop_limit(), Ok(value));
    }
    for value in [1, 10_000, 1 << 20, u64::MAX] {
        socket
            .set_receive_buffer_size(value)
            .expect("it is clamped");
        socket.set_send_buffer_size(value).expect("it is clamped");
        let sizes = [socket.receive_buffer_size(), socket.send_buffer_size()];
        assert!(
            sizes.iter().all(|size| matches!(size, Ok(1..=0x20_0000))),
            "{sizes:?}"
        );
    }
    let before = of(socket);
    assert_eq!(socket.set_keep_alive_idle_time(0), BAD);
    assert_eq!(socket.set_keep_alive_interval(0), BAD);
    assert_eq!(socket.set_keep_alive_count(0), BAD);
    assert_eq!(socket.set_hop_limit(0), BAD);
    assert_eq!(socket.set_receive_buffer_size(0), BAD);
    assert_eq!(socket.set_send_buffer_size(0), BAD);
    assert_eq!(of(socket), before);
}

pub fn all() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let socket = socket_for(address);
        check(&socket);
        for value in [1, 100, u64::MAX] {
            assert_eq!(socket.set_listen_backlog_size(value), Ok(()));
        }
        assert_eq!(socket.set_listen_backlog_size(0), BAD);
        bind(&socket, address).expect("it binds");
        check(&socket);
        listen(&socket).expect("it listens");
        assert_eq!(socket.set_listen_backlog_size(2), Ok(()));
        assert_eq!(socket.set_listen_backlog_size(0), BAD);
        check(&socket);
        socket.set_keep_alive_enabled(true).expect("it is valid");
        // A connection that is accepted has the options of its listener.
        let bound = local(&socket).expect("it is bound").to_string();
        let (client, ..) = connected(&bound);
        let accepted = finish(&socket.subscribe(), || socket.accept());
        let (accepted, ..) = accepted.expect("a connection");
        let (listener, accepted) = (
            of(&socket).expect("options"),
            of(&accepted).expect("options"),
        );
        assert_eq!(
            (listener.0, listener.1, listener.2, listener.3),
            (accepted.0, accepted.1, accepted.2, accepted.3)
        );
        check(&client);
    }
}
