//! `aotc`: compiles a WebAssembly module ahead of time, and inspects, signs and verifies compiled
//! modules. The interface serves this program and pirn's tools, and can change with any version.

#![forbid(unsafe_code)]

mod key;
mod progress;
mod args;
mod signing;
mod inspect;

use anyhow::{Context, Result};
use args::{Args, Command};
use clap::{CommandFactory, Parser};
use pirn_cli::text::one_line;
use pirn_cli::{output, usage};
use pirn_compiler::Compilation;
use pirn_signature::{SIGNED_BYTES_MAX, printable, read_regular, signature_path};
use progress::Progress;
use signal_hook::consts::SIGABRT;
use signal_hook::flag;
use std::any::Any;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the program with the arguments of the process. Returns its exit code.
pub fn main() -> ExitCode {
    if let Err(error) = end_without_memory() {
        eprintln!("aotc: {}", one_line(format_args!("{error:#}")));
        return ExitCode::FAILURE;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage::tell("aotc", &error),
    };
    match std::panic::catch_unwind(|| run(&args)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("aotc: {}", one_line(format_args!("{error:#}")));
            ExitCode::FAILURE
        }
        // The out-of-memory message has been printed. Any other panic is a fault of the compiler.
        Err(payload) if is_out_of_memory(&*payload) => ExitCode::FAILURE,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// The description of the command line.
pub fn command() -> clap::Command {
    Args::command().disable_help_subcommand(true)
}

/// Whether a panic payload reports a failed allocation. Cranelift raises this panic in some places,
/// instead of the standard library.
fn is_out_of_memory(payload: &(dyn Any + Send)) -> bool {
    let message = payload.downcast_ref::<String>();
    message.is_some_and(|message| message.contains("out of memory"))
}

/// Makes a failed allocation end the program like any other error, without a core dump. The
/// standard library prints a message and then aborts.
fn end_without_memory() -> Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    flag::register_conditional_shutdown(SIGABRT, 1, always).context("cannot handle SIGABRT")?;
    Ok(())
}

fn run(args: &Args) -> Result<()> {
    match (&args.command, &args.input) {
        (Some(Command::Inspect { file }), _) => {
            output::print(&inspect::describe(&read(file)?).with_context(|| name(file))?)
        }
        (
            Some(Command::Keygen {
                output,
                no_password,
                password_file,
            }),
            _,
        ) => {
            let told = key::generate(output, !no_password, password_file.as_deref())?;
            output::print(&told)
        }
        (
            Some(Command::Sign {
                file,
                key,
                password_file,
            }),
            _,
        ) => signing::sign(file, &read(file)?, key, password_file.as_deref()),
        (Some(Command::Verify { file, keys }), _) if keys.is_empty() => {
            output::print(&prove(file)?)
        }
        (Some(Command::Verify { file, keys }), _) => output::print(&signing::verify(file, keys)?),
        (None, Some(input)) => compile(args, input),
        (None, None) => {
            anyhow::bail!("no module was given; run `aotc module.wasm`, or see `aotc --help`")
        }
    }
}

/// Proves the machine code of a module. Returns the message for the user.
fn prove(file: &Path) -> Result<String> {
    let report = pirn_verify::verify(&read(file)?).with_context(|| name(file))?;
    Ok(format!(
        "{}: {} functions stay in the sandbox: {} instructions, {} bytes of code\n",
        printable(&name(file)),
        report.functions,
        report.instructions,
        report.code_bytes
    ))
}

fn compile(args: &Args, input: &Path) -> Result<()> {
    let options = args.options()?;
    let output = args.output(input)?;
    let bytes = read(input)?;
    let wasm = pirn_compiler::parse_text(&bytes).with_context(|| name(input))?;
    output.spares(input)?;
    let signer = signing::signer(args, input, &output)?;
    let progress = Progress::new();
    let show = |done: usize, total: usize| {
        if done.is_multiple_of(64) {
            progress.show(done, total);
        }
    };
    let mut notes = vec![];
    if args.has_idle_debug_info() {
        notes.push("-g has no effect with --emit clif; remove it".to_owned());
    }
    let compilation = Compilation::new(&options).emit(args.emit.into());
    let result = compilation.progress(&show).run(&wasm);
    progress.clear();
    let emitted = result.with_context(|| name(input))?;
    notes.extend(emitted.notes);
    match signer {
        Some(signer) => {
            let module = output.replaced()?;
            let file_name = module.file_name().unwrap_or_default();
            let signature = signer.sign(file_name, &emitted.bytes)?;
            output.write_signed(&emitted.bytes, &signature_path(module), &signature)?;
        }
        None => {
            output.write(&emitted.bytes)?;
            notes.extend(signing::outdated(args, &output));
        }
    }
    for note in notes {
        let note = one_line(format_args!("{}: {note}", name(input)));
        eprintln!("aotc: warning: {note}");
    }
    Ok(())
}

/// Reads a module. Refuses pipes and devices, which might block or never end.
fn read(path: &Path) -> Result<Vec<u8>> {
    read_regular(path, SIGNED_BYTES_MAX).with_context(|| format!("cannot read {}", name(path)))
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
