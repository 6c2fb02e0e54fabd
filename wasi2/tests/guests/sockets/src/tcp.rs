//! Connections.

use crate::net::*;
use wasip2::io::poll::poll;

/// Accepts one connection, and sends back what it receives.
pub fn serve(address: &str) {
    let (listener, at) = listener(address);
    assert!(listener.is_listening());
    assert!(matches!(listener.accept(), Err(ErrorCode::WouldBlock)));
    say(&at);
    let (socket, input, output) =
        finish(&listener.subscribe(), || listener.accept()).expect("a connection");
    assert_eq!(local(&socket), local(&listener));
    assert_eq!(socket.address_family(), family(address));
    assert!(socket.remote_address().is_ok() && !socket.is_listening());
    loop {
        match input.blocking_read(10_000) {
            Ok(bytes) => write_all(&output, &bytes).expect("it writes"),
            Err(StreamError::Closed) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Sends a million bytes, and checks that they come back. Sends and receives at the same time.
pub fn echo(to: &str) {
    let (socket, input, output) = connected(to);
    assert_eq!(
        from_wasi(socket.remote_address().expect("a peer")).to_string(),
        to
    );
    let bytes = pattern(1_000_000);
    let (mut sent, mut received) = (0, vec![]);
    let (readable, writable) = (input.subscribe(), output.subscribe());
    while sent < bytes.len() {
        poll(&[&readable, &writable]);
        let permitted = output.check_write().expect("it is open") as usize;
        let end = bytes.len().min(sent + permitted);
        output.write(&bytes[sent..end]).expect("it writes");
        sent = end;
        received.extend(input.read(1 << 20).expect("it is open"));
    }
    socket
        .shutdown(ShutdownType::Send)
        .expect("it is connected");
    assert!(matches!(output.check_write(), Err(StreamError::Closed)));
    received.extend(read_all(&input));
    assert!(received == bytes, "{} bytes came back", received.len());
}

/// Fills a connection until it takes nothing for 300 ms. A busy host may take more later.
fn fill(output: &OutputStream) -> usize {
    let mut written = 0;
    let bytes = pattern(1 << 16);
    let writable = output.subscribe();
    loop {
        let permitted = output.check_write().expect("it is open") as usize;
        assert!(permitted <= bytes.len());
        // One permit is for many writes, also when the kernel takes no more of them.
        for chunk in bytes[..permitted].chunks(1_000) {
            output.write(chunk).expect("it writes");
        }
        written += permitted;
        assert!(written < 64 << 20, "nothing stops the guest");
        if permitted == 0 && !within(&writable, 300) {
            return written;
        }
    }
}

/// Writes to a peer that does not read, until the peer reads.
pub fn full(to: &str) {
    let (socket, _input, output) = connected(to);
    let mut written = fill(&output);
    while output.check_write().expect("it is open") != 0 || output.subscribe().ready() {
        written += fill(&output);
        assert!(written < 64 << 20, "nothing stops the guest");
    }
    say(&written.to_string());
    output.blocking_flush().expect("the peer reads");
    output
        .blocking_write_and_flush(b"end")
        .expect("the peer reads");
    socket
        .shutdown(ShutdownType::Both)
        .expect("it is connected");
}

/// Fills a connection, and waits for ever.
pub fn stuck(to: &str) {
    let (_socket, input, output) = connected(to);
    let (listener, _) = listener("127.0.0.1:0");
    fill(&output);
    say("full");
    loop {
        let ready = poll(&[
            &listener.subscribe(),
            &input.subscribe(),
            &output.subscribe(),
        ]);
        assert_eq!(ready, [2], "the peer does nothing");
        fill(&output);
    }
}

/// Fills a connection, and asks for its end. What was written arrives nevertheless.
pub fn dropped_rest(to: &str) {
    let (socket, input, output) = connected(to);
    let written = fill(&output);
    drop(output);
    say(&written.to_string());
    assert_eq!(read_all(&input), b"all");
    drop(socket);
}

/// Drops socket and streams in all orders. Each connection gets "hello".
pub fn drops(to: &str) {
    for order in 0..6 {
        let (socket, input, output) = connected(to);
        output
            .blocking_write_and_flush(b"hello")
            .expect("it writes");
        let (mut socket, mut input, mut output) = (Some(socket), Some(input), Some(output));
        let first = order % 3;
        let second = (first + 1 + order / 3) % 3;
        for number in [first, second, 3 - first - second] {
            match number {
                0 => drop(socket.take()),
                1 => drop(input.take()),
                _ => drop(output.take()),
            }
            if let (2, Some(input)) = (number, &input) {
                // The peer has seen the end, and answers.
                assert_eq!(read_all(input), b"bye");
            }
        }
    }
}

pub fn refused(to: &str) {
    let socket = socket_for(to);
    assert!(matches!(
        connect(&socket, to),
        Err(ErrorCode::ConnectionRefused)
    ));
    // Nothing can be done with the socket any more.
    let network = instance_network();
    assert_eq!(
        socket.start_connect(&network, at(to)),
        Err(ErrorCode::InvalidState)
    );
    assert_eq!(
        socket.start_bind(&network, at(to)),
        Err(ErrorCode::InvalidState)
    );
    assert_eq!(socket.start_listen(), Err(ErrorCode::InvalidState));
    assert!(matches!(
        socket.finish_connect(),
        Err(ErrorCode::NotInProgress)
    ));
    assert_eq!(local(&socket), Err(ErrorCode::InvalidState));
    assert_eq!(socket.hop_limit(), Err(ErrorCode::InvalidState));
    assert_eq!(
        socket.set_listen_backlog_size(1),
        Err(ErrorCode::InvalidState)
    );
    assert!(socket.subscribe().ready());
}

/// The peer resets the connection.
pub fn reset(to: &str) {
    let (_socket, input, output) = connected(to);
    say("connected");
    let Err(StreamError::LastOperationFailed(error)) = input.blocking_read(10) else {
        panic!("a reset connection has no bytes");
    };
    assert!(error.to_debug_string().contains("reset"));
    assert!(matches!(input.read(10), Err(StreamError::Closed)));
    output.subscribe().block();
    let written = output.check_write().and_then(|_| output.write(b"x"));
    assert!(matches!(written, Err(StreamError::Closed)));
}

/// Pollables of sockets wait as long as nothing happens, and no longer.
pub fn timeouts(to: &str) {
    let (listener, own) = listener("127.0.0.1:0");
    let accepts = listener.subscribe();
    assert!(!accepts.ready() && !within(&accepts, 50));
    let (_client, client_in, client_out) = connected(&own);
    accepts.block();
    assert!(accepts.ready());
    let (_server, server_in, _server_out) = listener.accept().expect("a connection");
    assert!(!within(&accepts, 50), "there is no second connection");
    let readable = server_in.subscribe();
    for _ in 0..3 {
        assert!(!within(&readable, 50));
        assert!(server_in.read(10).expect("it is open").is_empty());
        client_out
            .blocking_write_and_flush(b"four")
            .expect("it writes");
        readable.block();
        assert_eq!(server_in.read(10).expect("it is open"), b"four");
    }
    drop((client_in, client_out));
    readable.block();
    assert!(matches!(server_in.read(10), Err(StreamError::Closed)));
    assert!(readable.ready());
    // A connect that nobody answers.
    let socket = socket_for(to);
    socket
        .start_connect(&instance_network(), at(to))
        .expect("it begins");
    let pollable = socket.subscribe();
    assert!(!within(&pollable, 200));
    assert!(matches!(
        socket.finish_connect(),
        Err(ErrorCode::WouldBlock)
    ));
    let network = instance_network();
    assert_eq!(
        socket.start_connect(&network, at(to)),
        Err(ErrorCode::ConcurrencyConflict)
    );
    assert_eq!(socket.start_listen(), Err(ErrorCode::ConcurrencyConflict));
    assert_eq!(
        socket.shutdown(ShutdownType::Both),
        Err(ErrorCode::InvalidState)
    );
}

/// `shutdown` closes one stream or both, as often as it is called.
pub fn shut(to: &str) {
    let (socket, input, output) = connected(to);
    for _ in 0..2 {
        socket
            .shutdown(ShutdownType::Receive)
            .expect("it is connected");
        assert!(matches!(input.read(1), Err(StreamError::Closed)));
        assert!(input.subscribe().ready());
    }
    output
        .blocking_write_and_flush(b"still open")
        .expect("it is open");
    for _ in 0..2 {
        socket
            .shutdown(ShutdownType::Both)
            .expect("it is connected");
        assert!(matches!(output.check_write(), Err(StreamError::Closed)));
        assert!(output.subscribe().ready());
    }
}
