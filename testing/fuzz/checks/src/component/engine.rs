//! [`Engine`]: an engine that runs components of scripted guests, and what it reports.

mod pirn;

pub use pirn::Pirn;

use pirn_component::Value;

/// A component, and the calls of its function `f`.
#[derive(Debug)]
pub struct Plan {
    /// The component.
    pub wasm: Vec<u8>,
    /// Functions without parameters, to be called before each call of `f`.
    pub setups: Vec<&'static str>,
    /// The calls.
    pub calls: Vec<Call>,
}

/// A call. The guest asks the host for the words of its script.
#[derive(Debug, Clone)]
pub struct Call {
    /// Whether the call gets a new instance. A call after a failed one always gets one.
    pub fresh: bool,
    /// The words of the script, each with its index, in the order of the indices. All other words
    /// are 0.
    pub script: Vec<(u32, u64)>,
    /// The parameters.
    pub params: Vec<Value>,
    /// The result of the host function `h`.
    pub answer: Value,
}

impl Call {
    /// The word at an index: the result of the host function `script`.
    #[must_use]
    pub fn word(&self, at: u32) -> u64 {
        let found = self.script.binary_search_by_key(&at, |(at, _)| *at);
        found.map_or(0, |found| self.script[found].1)
    }
}

/// What the host sees of a call.
#[derive(Debug, Default)]
pub struct Seen {
    /// The words that the guest reported with `note`, each with its key.
    pub notes: Vec<(u32, u64)>,
    /// The parameters of `h`.
    pub given: Vec<Value>,
    /// The resources whose destructor ran.
    pub dropped: Vec<u32>,
}

/// The end of a call.
#[derive(Debug)]
pub enum End {
    /// The call returned this value.
    Returned(Value),
    /// The guest trapped, or broke a rule of the canonical ABI.
    Failed(Fault),
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operator `unreachable`.
    Unreachable,
    /// A pointer or length outside of the memory.
    Bounds,
    /// An unaligned pointer.
    Unaligned,
    /// A string that is not valid in its encoding.
    Text,
    /// A number that is no Unicode scalar value.
    Char,
    /// A discriminant without a case.
    Discriminant,
    /// A handle that does not exist, or that does not have the required type.
    Handle,
    /// Borrowed handles that the guest did not drop before it returned.
    Borrows,
    /// A call of an import where none is allowed.
    Leave,
    /// The values are too large for the host.
    Exhausted,
}

/// An engine that runs components.
pub trait Engine {
    /// Name of the engine.
    fn name(&self) -> &'static str;

    /// Runs the calls of a plan.
    ///
    /// # Errors
    ///
    /// If the component cannot run, or fails in a way that [`Fault`] does not list.
    fn run(&self, plan: &Plan) -> Result<Vec<(End, Seen)>, String>;
}
