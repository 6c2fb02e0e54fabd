//! [`Program`]: a guest that is a WASI program and speaks CGI.

use super::bounds::Bounds;
use super::engine::{Begun, End, Ended, Exchange};
use super::errors::core_end;
use super::grants::{GrantedDir, Grants};
use crate::cgi::{Environment, Input, Output};
use anyhow::{Result, bail};
use pirn_runtime::{
    CallError, ExternType, Instance, InstantiateError, Measure, Module, Prepared, Results,
    TypedFunc, Usage,
};
use pirn_wasi::conventions::call_after_restore;
use pirn_wasi::pipe::WritePipe;
use pirn_wasi::{Bounded, Exit, MemoryDir, WasiCtx, WasiCtxBuilder};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::yield_now;

/// A WASI program, ready to be instantiated for each request.
pub(super) struct Program {
    prepared: Prepared<WasiCtx>,
    functions: Arc<Functions>,
    memory_dirs: Arc<[GrantedDir]>,
}

/// The functions of a program that the host calls.
struct Functions {
    /// The initialisation of a reactor, if the host must still call it.
    init: Option<TypedFunc<(), ()>>,
    answer: Answer,
}

/// The function that answers a request.
enum Answer {
    /// `_start` of a command, or `handle` of a reactor.
    Plain(TypedFunc<(), ()>),
    /// `handle` of a reactor, which returns an exit code.
    Code(TypedFunc<(), i32>),
}

/// The export of a reactor that answers a request.
const HANDLE: &str = "handle";

impl Program {
    /// Finds the functions of a program.
    pub(super) fn new(prepared: &Prepared<WasiCtx>, module: &Module) -> Result<Self> {
        // Reading the clocks costs 1 us of the tens of microseconds of a request.
        let prepared = prepared.measured(Measure::CpuTime);
        let prepared = call_after_restore(prepared, module)?;
        let functions = Arc::new(functions(&prepared, module)?);
        Ok(Self {
            prepared,
            functions,
            memory_dirs: Arc::default(),
        })
    }

    /// Limits the time of a start function.
    pub(super) fn set_start_deadline(&mut self, limit: Duration) {
        self.prepared = self.prepared.start_deadline(limit);
    }

    /// Applies the grants of the guest.
    pub(super) fn allow(&mut self, grants: &Grants) {
        self.memory_dirs = grants.memory_dirs.as_slice().into();
    }

    /// Gives a request to a new instance. The guest runs while the caller polls the result's `run`.
    pub(super) fn begin(&self, exchange: Exchange, bounds: Bounds) -> Begun {
        let (output, answer) = Output::new();
        let (prepared, functions) = (self.prepared.clone(), Arc::clone(&self.functions));
        let dirs = Arc::clone(&self.memory_dirs);
        let run = async move {
            let begin = Instant::now();
            let printed = bounded(output.clone(), bounds.output_max);
            let errors = bounded(vec![], bounds.errors_max);
            let input = Input::new(exchange.request.into_body());
            let made = context(&exchange.environment, input, (&printed, &errors), &dirs);
            let (end, since, usage) = match made {
                Err(error) => {
                    let why = format!("no environment for the guest: {error}");
                    (End::System(why), begin, Usage::default())
                }
                Ok(context) => {
                    let made = prepared.instantiate_async(context);
                    let (made, since) = exchange.place.wait(made).await?;
                    let (end, usage) = match made {
                        Err(error) => (not_made(error), Usage::default()),
                        Ok(mut instance) => {
                            let called = functions.answer(bounds, &mut instance);
                            let end = output.sent_while(called).await.unwrap_or_else(ended);
                            (end, instance.usage_without_pages())
                        }
                    };
                    (end, since, usage)
                }
            };
            let took = since.elapsed();
            let has_overflowed = taken(printed).is_none_or(|printed| printed.is_refusing());
            Some(Ended {
                end: completed(end, output, has_overflowed),
                errors: taken(errors).map(Bounded::into_inner).unwrap_or_default(),
                waited: since - begin,
                took,
                usage,
            })
        };
        Begun {
            answer,
            run: Box::pin(run),
        }
    }
}

fn functions(prepared: &Prepared<WasiCtx>, module: &Module) -> Result<Functions> {
    let func = |wanted: &str| {
        module.exports().find_map(|(name, ty)| match ty {
            ExternType::Func(ty) if name == wanted => Some(ty),
            _ => None,
        })
    };
    if func("_start").is_some() {
        return Ok(Functions {
            init: None,
            answer: Answer::Plain(prepared.func("_start")?),
        });
    }
    let answer = match func(HANDLE) {
        Some(ty) if ty.results.is_empty() => Answer::Plain(prepared.func(HANDLE)?),
        Some(_) => Answer::Code(prepared.func(HANDLE)?),
        None => {
            bail!("it exports neither _start nor {HANDLE}, so it answers no request; export one")
        }
    };
    let init = func("_initialize").map(|_| prepared.func("_initialize"));
    let init = init.transpose()?;
    Ok(Functions { init, answer })
}

impl Functions {
    /// Calls the functions of a guest. The deadline covers all calls together.
    async fn answer(
        &self,
        bounds: Bounds,
        instance: &mut Instance<WasiCtx>,
    ) -> Result<End, CallError> {
        let begin = Instant::now();
        let left = || Bounds {
            deadline: bounds.deadline.saturating_sub(begin.elapsed()),
            ..bounds
        };
        if let Some(init) = &self.init {
            call(instance, init, left()).await?;
        }
        let code = match &self.answer {
            Answer::Plain(answer) => {
                call(instance, answer, left()).await?;
                0
            }
            Answer::Code(answer) => call(instance, answer, left()).await?,
        };
        Ok(End::Exited(code.cast_unsigned()))
    }
}

/// Calls a function of a guest.
async fn call<R: Results>(
    instance: &mut Instance<WasiCtx>,
    func: &TypedFunc<(), R>,
    bounds: Bounds,
) -> Result<R, CallError> {
    let limited = instance
        .deadline(bounds.deadline)
        .timeslice(bounds.timeslice);
    let call = limited.call_async(func, ());
    call.yield_with(|| Box::pin(yield_now())).await
}

/// The end of a guest after its output was checked. Completes the response of a guest that has
/// succeeded.
fn completed(end: End, output: Output, has_overflowed: bool) -> End {
    match end {
        // A program often fails after the server refused its output. Then report the output as the
        // cause.
        End::Exited(_) | End::Trap(_) if has_overflowed => End::Output,
        End::Exited(0) => match output.finish() {
            Ok(()) => End::Exited(0),
            Err(malformed) => End::Malformed(malformed.to_string()),
        },
        end => end,
    }
}

/// The destination of a guest's output.
type Bound<W> = WritePipe<Bounded<W>>;

fn bounded<W: Write>(writer: W, bytes_max: usize) -> Bound<W> {
    WritePipe::new(Bounded::new(writer, bytes_max))
}

/// The writer of an output. The guest has ended by now.
fn taken<W: Write>(output: Bound<W>) -> Option<Bounded<W>> {
    output.try_into_inner().ok()
}

/// The guest's WASI context: its request and its directories in memory, but no sockets.
fn context(
    environment: &Environment,
    input: Input,
    (output, errors): (&Bound<Output>, &Bound<Vec<u8>>),
    dirs: &[GrantedDir],
) -> Result<WasiCtx> {
    let builder = WasiCtxBuilder::new()
        .envs(environment.iter().map(|(name, value)| (&**name, value)))?
        .stdin_source(input)
        .stdout(output.clone())
        .stderr(errors.clone());
    Ok(with_memory_dirs(builder, dirs)?.build())
}

/// Gives a guest new directories in memory.
pub(super) fn with_memory_dirs(
    builder: WasiCtxBuilder,
    dirs: &[GrantedDir],
) -> Result<WasiCtxBuilder> {
    dirs.iter().try_fold(builder, |builder, dir| {
        let made = MemoryDir::new(&dir.base, dir.limits);
        Ok(builder.memory_dir(made, &dir.path)?)
    })
}

fn not_made(error: InstantiateError) -> End {
    match error {
        InstantiateError::Start(error) => ended(error),
        error => End::System(error.to_string()),
    }
}

/// The end of a guest whose call failed with this error.
fn ended(error: CallError) -> End {
    if let Some(exit) = Exit::of(&error) {
        return End::Exited(exit.code);
    }
    core_end(error)
}
