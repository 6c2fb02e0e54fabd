//! [`World`]: the host resources of a guest: directories, files in memory, standard streams,
//! sockets on the loopback address, and servers; and files that it must not reach. [`Host`]: the
//! data of an instance, which counts host functions and kills the guest.

use super::bounds::{CALL_BYTES_MAX, Canary, KEPT_BYTES_MAX, KILLED_BYTES_MAX, MEMORY_DIR_BYTES};
use super::ledger::Ledger;
use crate::folder::{Folder, made};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use pirn_component::{LinkError, Linker};
use pirn_runtime::KillSwitch;
use pirn_wasi2::http::{
    ErrorCode, IncomingBody, OutgoingBody, RequestTimeouts, SendRequest, Sending,
};
use pirn_wasi2::{
    Access, Bounded, Dir, Input, MemoryBase, MemoryLimits, Network, Output, StreamFailure, View,
    Wasi, WasiBuilder, WasiConfig, ambient_authority,
};
use std::convert::Infallible;
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Bytes of each piece of a response's body.
const PIECE_BYTES: usize = 48 << 10;

/// The data of an instance.
pub(super) struct Host {
    wasi: Wasi,
    pub(super) ledger: Arc<Ledger>,
    /// How often host functions have used this data. Most functions use it once.
    pub(super) uses: u64,
    /// The guest is killed at the use with this number.
    pub(super) kill_at: Option<u64>,
    pub(super) switch: Option<KillSwitch>,
    /// The number of the use at which the guest was killed.
    pub(super) killed_at: Option<u64>,
}

impl Host {
    pub(super) fn new(wasi: Wasi, ledger: Arc<Ledger>) -> Self {
        Self {
            wasi,
            ledger,
            uses: 0,
            kill_at: None,
            switch: None,
            killed_at: None,
        }
    }

    /// Kills the guest, and measures from then on.
    fn kill(&mut self) {
        if let Some(switch) = &self.switch {
            // It is killed at most once, and it exists while its function runs.
            let _ = switch.kill();
            self.killed_at = Some(self.uses);
            self.ledger.mark();
        }
    }
}

impl View for Host {
    fn wasi(&mut self) -> &mut Wasi {
        self.uses += 1;
        if self.kill_at == Some(self.uses) {
            self.kill();
        }
        &mut self.wasi
    }
}

/// Adds the function that breaks a bound: see [`Canary`].
pub(super) fn link_canary(linker: &mut Linker<Host>) -> Result<(), LinkError> {
    static KEPT: Mutex<(Vec<File>, Vec<Vec<u8>>)> = Mutex::new((vec![], vec![]));
    linker.func("canary", "break-a-bound", |state, (which,): (u32,)| {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        match Canary::ALL[which as usize % Canary::ALL.len()] {
            Canary::Memory => drop(vec![1_u8; KEPT_BYTES_MAX + CALL_BYTES_MAX + 1]),
            Canary::Leak => kept.1.push(vec![1; 1 << 20]),
            Canary::Descriptors => kept.0.extend(File::open("/dev/null").ok()),
            Canary::Panic => {
                drop(kept);
                panic!("the canary")
            }
            Canary::Killed => {
                state.data_mut().kill();
                drop(vec![1_u8; KILLED_BYTES_MAX + 1]);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// A stream that never has bytes and never takes any.
struct Silent;

impl Input for Silent {
    fn read(&mut self, _: usize) -> Result<Bytes, StreamFailure> {
        Ok(Bytes::new())
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Output for Silent {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        Ok(0)
    }

    fn write(&mut self, _: Bytes) -> Result<(), StreamFailure> {
        Err(StreamFailure::Closed)
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// A body without an end.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![7; PIECE_BYTES])))))
    }
}

/// Answers requests of the guest, by the length of the path.
struct Servers;

impl SendRequest for Servers {
    fn send(
        &self,
        request: Request<OutgoingBody>,
        _: RequestTimeouts,
    ) -> Result<Sending, ErrorCode> {
        let path_bytes = request.uri().path().len();
        match path_bytes % 4 {
            0 => Err(ErrorCode::HttpRequestDenied),
            // The request's body is never read.
            1 => Ok(Box::pin(async move {
                let _request = request;
                std::future::pending().await
            })),
            2 => Ok(Box::pin(async { Err(ErrorCode::ConnectionRefused) })),
            _ => Ok(Box::pin(async move {
                drop(request);
                Ok(Response::new(IncomingBody::new(Endless)))
            })),
        }
    }
}

/// A directory, a listening socket and a socket for datagrams.
pub(super) struct World {
    folder: Folder,
    listener: TcpListener,
    datagrams: UdpSocket,
    memory: MemoryBase,
}

impl World {
    pub(super) fn new() -> Result<Self, String> {
        let links = [("link", "file"), ("loop", "loop"), ("up", "..")];
        Ok(Self {
            folder: Folder::new(200_000, &links)?,
            listener: made(TcpListener::bind("127.0.0.1:0"))?,
            datagrams: made(UdpSocket::bind("127.0.0.1:0"))?,
            memory: MemoryBase::empty(),
        })
    }

    /// The ports of the listening socket and of the socket for datagrams.
    pub(super) fn ports(&self) -> Result<[u16; 2], String> {
        Ok([
            made(self.listener.local_addr())?.port(),
            made(self.datagrams.local_addr())?.port(),
        ])
    }

    /// The configuration of a guest. Its sockets may use the loopback address, and send only to the
    /// sockets of this world; or no address is allowed.
    pub(super) fn config(&self, network: bool) -> Result<Arc<WasiConfig>, String> {
        let inside = self.folder.inside();
        let inside = made(Dir::open_ambient_dir(inside, ambient_authority()))?;
        let limits = MemoryLimits {
            bytes_max: MEMORY_DIR_BYTES,
            ..MemoryLimits::default()
        };
        let [tcp, udp] = self.ports()?;
        let network = match network {
            true => Network::none()
                .allow_loopback(Access::TcpConnect, tcp..=tcp)
                .allow_loopback(Access::TcpListen, ..)
                .allow_loopback(Access::UdpBind, ..)
                .allow_loopback(Access::UdpSend, udp..=udp),
            false => Network::none(),
        };
        let builder = WasiBuilder::new()
            .arg("guest")
            .env("NAME", "value")
            .cwd("/")
            .preopened_dir(inside, "/")
            .memory_dir(&self.memory, limits, "/memory")
            .disk_bytes_max(4 << 20)
            .network(network)
            .outgoing(Servers);
        Ok(Arc::new(builder.config()))
    }

    /// The resources of an instance. Standard input is silent or has some bytes. Standard output
    /// has a limit, and standard error takes nothing.
    pub(super) fn wasi(config: &Arc<WasiConfig>, silent: bool) -> Wasi {
        let mut wasi = Wasi::new(config);
        match silent {
            true => wasi.set_stdin(Silent),
            false => wasi.set_stdin(Bytes::from_static(&[7; 100])),
        }
        wasi.set_stdout(Bounded::new(vec![], 4096));
        wasi.set_stderr(Silent);
        wasi
    }

    /// Checks that no file beside the guest's directory has changed.
    pub(super) fn untouched(&self) -> Result<(), String> {
        self.folder.untouched(&[])
    }
}
