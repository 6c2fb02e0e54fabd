//! The guest of `tests/guests/sockets`, in a region of its own.

#![allow(dead_code, reason = "no suite uses all of it")]

use pirn_compiler::{OptLevel, Options, compile};
use pirn_component::{CallError, Component, Instance, Limits, Linker, TypedFunc};
use pirn_runtime::{Module, Region};
use pirn_wasi2::{Bounded, Network, Pipe, RUN, Wasi, WasiBuilder};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Time after which a guest hangs.
const HANG: Duration = Duration::from_secs(600);

fn component() -> &'static Component {
    static COMPONENT: OnceLock<Component> = OnceLock::new();
    COMPONENT.get_or_init(|| {
        let wasm = include_bytes!("../guests/sockets.wasm");
        let mut options = Options::default();
        options.opt_level = OptLevel::None;
        let so = compile(wasm, &options).expect("it compiles");
        let module = Module::from_bytes(&so).expect("it opens");
        Component::new(&module).expect("it is a component")
    })
}

/// A guest that has not begun.
pub(crate) struct Guest {
    pub(crate) instance: Instance<Wasi>,
    pub(crate) run: TypedFunc<(), Result<(), ()>>,
    pub(crate) out: Pipe<Bounded<Vec<u8>>>,
    err: Pipe<Bounded<Vec<u8>>>,
}

/// What a guest has written.
fn text(pipe: &Pipe<Bounded<Vec<u8>>>) -> String {
    pipe.with(|all| String::from_utf8_lossy(all.get_ref()).into_owned())
}

/// The first line that a guest writes to a pipe, while `is_running`. A pipe wakes nobody, so it is
/// read again and again.
pub(crate) async fn line(out: &Pipe<Bounded<Vec<u8>>>, is_running: impl Fn() -> bool) -> String {
    loop {
        let is_last = !is_running();
        if let Some((line, _)) = text(out).split_once('\n') {
            return line.to_owned();
        }
        assert!(!is_last, "the guest printed nothing");
        // Leaves the processor to the guest.
        sleep(Duration::from_millis(5)).await;
    }
}

impl Guest {
    pub(crate) fn new(network: Network, args: &[&str]) -> Self {
        let mut linker = Linker::<Wasi>::new();
        pirn_wasi2::link(&mut linker).expect("nothing is defined twice");
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = linker.prepare(&region, component()).expect("it links");
        let [out, err] = [vec![], vec![]].map(|all| Pipe::new(Bounded::new(all, 1 << 16)));
        let wasi = WasiBuilder::new().network(network);
        let wasi = wasi.stdout(out.clone()).stderr(err.clone());
        let wasi = args.iter().fold(wasi, |wasi, arg| wasi.arg(*arg));
        Self {
            run: prepared.typed(RUN).expect("it is exported"),
            instance: prepared.instantiate(wasi.build()).expect("a slot is free"),
            out,
            err,
        }
    }

    /// Runs the guest to its end.
    pub(crate) async fn run(mut self) -> Result<(), CallError> {
        let called = self
            .instance
            .call_typed_async(Limits::default(), &self.run, ());
        let ended = timeout(HANG, called).await;
        let ended = ended.expect("the guest ends");
        eprint!("{}", text(&self.err));
        ended.map(|result| result.expect("the guest succeeds"))
    }

    /// Runs the guest beside the test.
    pub(crate) fn start(self) -> Running {
        let out = self.out.clone();
        let task = tokio::spawn(self.run());
        Running { out, task }
    }
}

/// A guest that runs.
pub(crate) struct Running {
    out: Pipe<Bounded<Vec<u8>>>,
    task: JoinHandle<Result<(), CallError>>,
}

impl Running {
    /// The first line that the guest prints.
    pub(crate) async fn line(&self) -> String {
        line(&self.out, || !self.task.is_finished()).await
    }

    /// Waits for its end.
    pub(crate) async fn end(self) {
        let ended = self.task.await.expect("the guest does not panic");
        ended.expect("the guest finds no error");
    }

    /// Drops the guest where it is.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.is_err(), "it was running");
    }
}
