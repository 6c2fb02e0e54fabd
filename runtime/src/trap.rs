//! [`Trap`]: a fault of a guest, with its position in the WebAssembly code.

pub(crate) mod backtrace;
mod frame;

use crate::account::HostBytesError;
use crate::value::Value;
use backtrace::Trace;
use core::fmt;
use core::time::Duration;
pub use frame::Frame;
pub use pirn_format::exit::TrapCode;
use pirn_format::text;

/// A fault of a guest (spec 4.4, "traps"). A trap ends the call, never the process. The instance
/// can be called again, and the guest's earlier changes to its state remain.
#[derive(Debug, Clone)]
pub struct Trap {
    code: TrapCode,
    trace: Option<Box<Trace>>,
}

impl Trap {
    /// Creates a trap for a host function to return: the guest's call of the function traps with
    /// the code `code`.
    #[must_use]
    pub fn new(code: TrapCode) -> Self {
        Self { code, trace: None }
    }

    pub(crate) fn with_trace(code: TrapCode, trace: Box<Trace>) -> Self {
        let trace = Some(trace);
        Self { code, trace }
    }

    /// The kind of fault.
    #[must_use]
    pub fn code(&self) -> TrapCode {
        self.code
    }

    /// The frames of WebAssembly functions on the stack, innermost first, at most 64; empty for a
    /// trap that a host function made and that has not reached a caller yet.
    #[must_use]
    pub fn backtrace(&self) -> &[Frame] {
        match &self.trace {
            Some(trace) => trace.frames(),
            None => &[],
        }
    }

    /// The host memory that was held, requested and allowed, if the code is
    /// [`TrapCode::HostMemoryExhausted`].
    #[must_use]
    pub fn host_bytes(&self) -> Option<HostBytesError> {
        self.trace.as_ref()?.host_bytes
    }

    /// Offset of the faulting instruction in the `.wasm` file, in bytes, if it is known.
    #[must_use]
    pub fn wasm_offset(&self) -> Option<u32> {
        self.backtrace().first()?.wasm_offset()
    }

    /// The trap and the frames of its backtrace, a line each, without a line break at the end.
    #[must_use]
    pub fn report(&self) -> String {
        report(self.described(), self.trace.as_deref())
    }

    fn described(&self) -> String {
        match self.host_bytes() {
            Some(refused) => format!("trap: {}: {refused}", self.code),
            None => format!("trap: {}", self.code),
        }
    }
}

/// The trap and the innermost frame, in one line.
impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.described())?;
        match self.backtrace().first() {
            Some(frame) => write!(f, " in {frame}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Trap {}

impl From<HostBytesError> for Trap {
    fn from(error: HostBytesError) -> Self {
        let trace = Box::new(Trace::of_nothing(Some(error)));
        Self::with_trace(TrapCode::HostMemoryExhausted, trace)
    }
}

impl From<TrapCode> for Trap {
    fn from(code: TrapCode) -> Self {
        Self::new(code)
    }
}

/// An exception that no handler in the guest caught. Such an exception ends the call. The instance
/// can be called again, and the guest's earlier changes to its state remain.
#[derive(Debug, Clone)]
pub struct Exception(Box<(Option<String>, Vec<Value>, Box<Trace>)>);

impl Exception {
    pub(crate) fn new(tag: Option<String>, values: Vec<Value>, trace: Box<Trace>) -> Self {
        // Boxed, because every result of a call has room for an exception.
        Self(Box::new((tag, values, trace)))
    }

    /// The name by which the throwing module imports or exports the exception's tag, if there is
    /// such a name.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.0.0.as_deref()
    }

    /// The values of the exception.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.0.1
    }

    /// The WebAssembly functions that the exception left, innermost first, at most 64. If a
    /// function caught the exception and threw it again, the list continues at the second throw.
    #[must_use]
    pub fn backtrace(&self) -> &[Frame] {
        self.0.2.frames()
    }

    /// The exception and the frames of its backtrace, a line each, without a line break at the end.
    #[must_use]
    pub fn report(&self) -> String {
        report(self.described(), Some(&self.0.2))
    }

    fn described(&self) -> String {
        let tag = match self.tag() {
            Some(tag) => format!(" of tag {}", text::plain(tag)),
            None => String::new(),
        };
        let values: Vec<_> = self.values().iter().map(Value::to_string).collect();
        format!("uncaught exception{tag} ({})", values.join(", "))
    }
}

/// The exception and the innermost frame, in one line.
impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.described())?;
        match self.backtrace().first() {
            Some(frame) => write!(f, " in {frame}"),
            None => Ok(()),
        }
    }
}

/// Formats a description and the frames, one frame per line.
fn report(mut what: String, trace: Option<&Trace>) -> String {
    let frames = trace.map_or(&[][..], Trace::frames);
    for (depth, frame) in frames.iter().enumerate() {
        what.push_str(&format!("\n  {depth:>2}: {frame}"));
    }
    if trace.is_some_and(Trace::has_more) {
        what.push_str("\n      ... and more");
    }
    what
}

/// A guest that was stopped from outside, with its position.
#[derive(Debug, Clone)]
pub struct Interruption(Box<(Option<Duration>, Option<Box<Trace>>)>);

impl Interruption {
    pub(crate) fn new(limit: Option<Duration>, trace: Option<Box<Trace>>) -> Self {
        // Boxed, because every result of a call has room for an interruption.
        Self(Box::new((limit, trace)))
    }

    /// The end of a call whose time was over while the host, not the guest, worked for the call.
    #[must_use]
    pub fn in_host(limit: Duration) -> Self {
        Self::new(Some(limit), None)
    }

    pub(crate) fn set_limit(&mut self, ns: Option<u64>) {
        self.0.0 = ns.map(Duration::from_nanos);
    }

    /// The time limit of the call; `None` if the guest was killed.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.0.0
    }

    /// The frames of WebAssembly functions on the stack, innermost first, at most 64. Empty if the
    /// guest was stopped before it was entered. If a function had just been entered, its caller may
    /// be missing. A function that the compiler inlined is missing, unless the guest was stopped at
    /// one of its instructions that may trap.
    #[must_use]
    pub fn backtrace(&self) -> &[Frame] {
        self.0.1.as_ref().map_or(&[], |trace| trace.frames())
    }
}

/// The limit, and the innermost frame.
impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(limit) = self.limit() {
            write!(f, " of {limit:?}")?;
        }
        match self.backtrace().first() {
            Some(frame) => write!(f, " in {frame}"),
            None => Ok(()),
        }
    }
}
