//! `wasi:cli`: arguments, variables, standard streams, terminals, and the end of the program.

use crate::methods::resource;
use crate::streams::{InputStream, OutputStream};
use crate::table::{Resource, resource_type};
use crate::wasi::View;
use pirn_component::{LinkError, Linker, Own, ResourceType, State};
use pirn_runtime::HostError;
use pirn_wasi::Exit;

/// The function that a command exports. [`Prepared::typed`](pirn_component::Prepared::typed) also
/// finds the function of another 0.2 version by this name.
pub const RUN: &str = "wasi:cli/run@0.2.12#run";

const ENVIRONMENT: &str = "wasi:cli/environment@0.2.12";
const EXIT: &str = "wasi:cli/exit@0.2.12";

/// A terminal to read from: the resource type `terminal-input`. No function has a parameter of this
/// type.
#[derive(Default)]
struct TerminalInput;

resource_type!(
    TerminalInput,
    "wasi:cli/terminal-input@0.2.12",
    "terminal-input",
    ready
);

/// A terminal to write to: the resource type `terminal-output`. No function has a parameter of this
/// type.
#[derive(Default)]
struct TerminalOutput;

resource_type!(
    TerminalOutput,
    "wasi:cli/terminal-output@0.2.12",
    "terminal-output",
    ready
);

/// A terminal resource, if the standard stream with this number is a terminal.
fn terminal<T: View, R: Resource + ResourceType + Default>(
    state: &mut State<T>,
    number: usize,
) -> Result<Option<Own<R>>, HostError> {
    let wasi = state.data_mut().wasi();
    match wasi.terminals[number] {
        true => wasi.table.own(R::default()).map(Some),
        false => Ok(None),
    }
}

fn exit(code: u8) -> Result<(), HostError> {
    let code = code.into();
    Err(Exit { code }.into())
}

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.func(ENVIRONMENT, "get-environment", |state, ()| {
        let wasi = state.data_mut().wasi();
        let env = &wasi.config.env;
        let bytes = env.iter().map(|(name, value)| name.len() + value.len());
        wasi.host_bytes
            .check(bytes.sum::<usize>() + size_of_val(&env[..]))?;
        Ok(env.clone())
    })?;
    linker.func(ENVIRONMENT, "get-arguments", |state, ()| {
        let wasi = state.data_mut().wasi();
        let args = &wasi.config.args;
        let bytes = args.iter().map(String::len);
        wasi.host_bytes
            .check(bytes.sum::<usize>() + size_of_val(&args[..]))?;
        Ok(args.clone())
    })?;
    linker.func(ENVIRONMENT, "initial-cwd", |state, ()| {
        Ok(state.data_mut().wasi().config.cwd.clone())
    })?;
    linker.func(EXIT, "exit", |_, (status,): (Result<(), ()>,)| {
        exit(u8::from(status.is_err()))
    })?;
    linker.func(EXIT, "exit-with-code", |_, (code,): (u8,)| exit(code))?;
    linker.func("wasi:cli/stdin@0.2.12", "get-stdin", |state, ()| {
        let wasi = state.data_mut().wasi();
        let input = wasi.stdin();
        wasi.table.own(InputStream::new(input))
    })?;
    linker.func("wasi:cli/stdout@0.2.12", "get-stdout", |state, ()| {
        let wasi = state.data_mut().wasi();
        let output = wasi.stdout();
        wasi.table.own(OutputStream::new(output))
    })?;
    linker.func("wasi:cli/stderr@0.2.12", "get-stderr", |state, ()| {
        let wasi = state.data_mut().wasi();
        let output = wasi.stderr();
        wasi.table.own(OutputStream::new(output))
    })?;
    link_terminals(linker)
}

fn link_terminals<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, TerminalInput>(linker)?;
    resource::<T, TerminalOutput>(linker)?;
    let interface = "wasi:cli/terminal-stdin@0.2.12";
    linker.func(interface, "get-terminal-stdin", |state, ()| {
        terminal::<T, TerminalInput>(state, 0)
    })?;
    let interface = "wasi:cli/terminal-stdout@0.2.12";
    linker.func(interface, "get-terminal-stdout", |state, ()| {
        terminal::<T, TerminalOutput>(state, 1)
    })?;
    let interface = "wasi:cli/terminal-stderr@0.2.12";
    linker.func(interface, "get-terminal-stderr", |state, ()| {
        terminal::<T, TerminalOutput>(state, 2)
    })?;
    Ok(())
}
