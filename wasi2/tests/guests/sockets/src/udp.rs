//! Datagrams.

use crate::net::*;
use wasip2::sockets::udp::{
    IncomingDatagram, IncomingDatagramStream, OutgoingDatagram, OutgoingDatagramStream, UdpSocket,
};
use wasip2::sockets::udp_create_socket::create_udp_socket;

/// A socket that is bound to an address.
pub fn bound(address: &str) -> UdpSocket {
    let socket = create_udp_socket(family(address)).expect("a socket");
    socket
        .start_bind(&instance_network(), at(address))
        .expect("it is allowed");
    finish(&socket.subscribe(), || socket.finish_bind()).expect("it binds");
    socket
}

pub fn own_address(socket: &UdpSocket) -> String {
    from_wasi(socket.local_address().expect("it is bound")).to_string()
}

pub fn datagram(data: &[u8], to: Option<&str>) -> OutgoingDatagram {
    OutgoingDatagram {
        data: data.into(),
        remote_address: to.map(at),
    }
}

pub fn send(
    output: &OutgoingDatagramStream,
    datagrams: &[OutgoingDatagram],
) -> Result<u64, ErrorCode> {
    output.subscribe().block();
    assert!(output.check_send()? as usize >= datagrams.len());
    output.send(datagrams)
}

fn receive(input: &IncomingDatagramStream) -> IncomingDatagram {
    loop {
        input.subscribe().block();
        if let Some(datagram) = input.receive(1).expect("no error").pop() {
            return datagram;
        }
    }
}

/// Sends datagrams to a peer that sends them back, with and without a connection.
pub fn echo(to: &str) {
    let own = match family(to) {
        IpAddressFamily::Ipv4 => "127.0.0.1:0",
        IpAddressFamily::Ipv6 => "[::1]:0",
    };
    let socket = bound(own);
    assert_eq!(socket.address_family(), family(to));
    assert_eq!(
        socket.remote_address().map(drop),
        Err(ErrorCode::InvalidState)
    );
    for (remote, destination) in [(None, Some(to)), (Some(to), None), (Some(to), Some(to))] {
        let (input, output) = socket.stream(remote.map(at)).expect("streams");
        for size in [0, 1, 1_000, 60_000] {
            let data = pattern(size);
            assert_eq!(send(&output, &[datagram(&data, destination)]), Ok(1));
            let received = receive(&input);
            assert!(received.data == data);
            assert_eq!(from_wasi(received.remote_address).to_string(), to);
        }
        assert_eq!(socket.remote_address().is_ok(), remote.is_some());
    }
}

/// Nobody is there: the peer's system says so.
pub fn refused(to: &str) {
    let socket = bound("127.0.0.1:0");
    let (input, output) = socket.stream(Some(at(to))).expect("streams");
    let readable = input.subscribe();
    for _ in 0..3 {
        assert!(!within(&readable, 50));
        assert_eq!(send(&output, &[datagram(b"x", None)]), Ok(1));
        // The error comes.
        readable.block();
        assert!(matches!(input.receive(1), Err(ErrorCode::ConnectionRefused)));
        assert!(input.receive(1).expect("an error is told once").is_empty());
    }
}

/// A connected socket receives from its peer only, and keeps its port when it is disconnected.
pub fn peers(address: &str) {
    let (one, two, three) = (bound(address), bound(address), bound(address));
    let own = own_address(&one);
    let (_in_two, out_two) = two.stream(None).expect("streams");
    let (_in_three, out_three) = three.stream(None).expect("streams");
    // These wait when the socket is connected to two.
    assert_eq!(send(&out_three, &[datagram(b"three", Some(&own))]), Ok(1));
    let (old_in, old_out) = one.stream(None).expect("streams");
    let (input, output) = one.stream(Some(at(&own_address(&two)))).expect("streams");
    assert_eq!(send(&out_three, &[datagram(b"three", Some(&own))]), Ok(1));
    assert_eq!(send(&out_two, &[datagram(b"two", Some(&own))]), Ok(1));
    assert_eq!(receive(&input).data, b"two");
    let other = datagram(b"x", Some(&own_address(&three)));
    assert_eq!(send(&output, &[other]), Err(ErrorCode::InvalidArgument));
    // Streams of before do nothing.
    assert!(matches!(old_in.receive(1), Err(ErrorCode::InvalidState)));
    assert_eq!(old_out.check_send(), Err(ErrorCode::InvalidState));
    assert!(old_in.subscribe().ready());
    let (input, output) = one.stream(None).expect("streams");
    assert_eq!(own_address(&one), own);
    assert_eq!(send(&out_three, &[datagram(b"again", Some(&own))]), Ok(1));
    assert_eq!(receive(&input).data, b"again");
    assert_eq!(
        send(&output, &[datagram(b"x", None)]),
        Err(ErrorCode::InvalidArgument)
    );
    // The socket may go before its streams.
    drop(one);
    assert_eq!(send(&out_three, &[datagram(b"last", Some(&own))]), Ok(1));
    assert_eq!(receive(&input).data, b"last");
}

pub fn limits(address: &str) {
    let (one, two) = (bound(address), bound(address));
    let (input, output) = one.stream(None).expect("streams");
    let (_in_two, out_two) = two.stream(None).expect("streams");
    let own = own_address(&one);
    let too_large = pattern(65_508);
    let sent = send(&output, &[datagram(&too_large, Some(&own))]);
    assert_eq!(sent, Err(ErrorCode::DatagramTooLarge));
    assert_eq!(out_two.check_send(), Ok(16));
    let many: Vec<_> = (0..16).map(|n| datagram(&[n], Some(&own))).collect();
    assert_eq!(out_two.send(&many), Ok(16));
    assert_eq!(send(&out_two, &many[..4]), Ok(4));
    input.subscribe().block();
    assert!(input.receive(0).expect("no error").is_empty());
    let first = input.receive(u64::MAX).expect("no error");
    assert_eq!(first.len(), 16);
    assert!((0..).zip(&first).all(|(n, one)| one.data == [n]));
    assert_eq!(input.receive(100).expect("no error").len(), 4);
    assert!(input.receive(100).expect("no error").is_empty());
    assert!(!within(&input.subscribe(), 50));
    // The first error is told if nothing was sent before it.
    let bad = datagram(b"x", None);
    let good = datagram(b"x", Some(&own));
    assert_eq!(send(&out_two, &[good, bad]), Ok(1));
    assert_eq!(out_two.check_send(), Ok(16));
    assert_eq!(out_two.send(&[]), Ok(0));
}

pub fn states() {
    let network = instance_network();
    let socket = create_udp_socket(IpAddressFamily::Ipv4).expect("a socket");
    assert_eq!(socket.finish_bind(), Err(ErrorCode::NotInProgress));
    assert_eq!(
        socket.local_address().map(drop),
        Err(ErrorCode::InvalidState)
    );
    assert!(matches!(socket.stream(None), Err(ErrorCode::InvalidState)));
    for bad in ["[::1]:0", "[::ffff:127.0.0.1]:0"] {
        let result = socket.start_bind(&network, at(bad));
        assert_eq!(result, Err(ErrorCode::InvalidArgument), "{bad}");
    }
    let foreign = at("192.0.2.1:0");
    assert_eq!(
        socket.start_bind(&network, foreign),
        Err(ErrorCode::AddressNotBindable)
    );
    assert_eq!(socket.start_bind(&network, at("127.0.0.1:0")), Ok(()));
    let result = socket.start_bind(&network, at("127.0.0.1:0"));
    assert_eq!(result, Err(ErrorCode::ConcurrencyConflict));
    assert!(matches!(socket.stream(None), Err(ErrorCode::InvalidState)));
    assert_eq!(socket.finish_bind(), Ok(()));
    assert_eq!(socket.finish_bind(), Err(ErrorCode::NotInProgress));
    let result = socket.start_bind(&network, at("127.0.0.1:0"));
    assert_eq!(result, Err(ErrorCode::InvalidState));
    // Nobody else gets the port.
    let other = create_udp_socket(IpAddressFamily::Ipv4).expect("a socket");
    let result = other.start_bind(&network, at(&own_address(&socket)));
    assert_eq!(result, Err(ErrorCode::AddressInUse));
    for bad in [
        "0.0.0.0:1",
        "127.0.0.1:0",
        "[::1]:1",
        "[::ffff:127.0.0.1]:1",
    ] {
        let result = socket.stream(Some(at(bad)));
        assert!(matches!(result, Err(ErrorCode::InvalidArgument)), "{bad}");
    }
    for value in [1, 64, 255] {
        socket.set_unicast_hop_limit(value).expect("it is valid");
        assert_eq!(socket.unicast_hop_limit(), Ok(value));
    }
    assert_eq!(
        socket.set_unicast_hop_limit(0),
        Err(ErrorCode::InvalidArgument)
    );
    assert_eq!(
        socket.set_receive_buffer_size(0),
        Err(ErrorCode::InvalidArgument)
    );
    assert_eq!(
        socket.set_send_buffer_size(0),
        Err(ErrorCode::InvalidArgument)
    );
    for value in [1, 10_000, u64::MAX] {
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
}

/// This ends the guest.
pub fn unpermitted() {
    let socket = bound("127.0.0.1:0");
    let (_input, output) = socket.stream(None).expect("streams");
    let _ = output.send(&[datagram(b"x", Some(&own_address(&socket)))]);
    unreachable!("check-send was not called");
}
