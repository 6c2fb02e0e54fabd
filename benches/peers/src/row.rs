//! [`Row`]: an operation on each engine.

/// Executes a number of operations of one row on one engine.
pub type Run<'a> = Box<dyn FnMut(u64) + 'a>;

/// One row: its name, and the operation on each engine.
pub struct Row<'a> {
    pub name: String,
    pub ours: Run<'a>,
    pub best: Run<'a>,
    /// `None` if the row does not use Wasmtime's default pool.
    pub pool: Option<Run<'a>>,
    /// `None` if Wasmer does not have the operation.
    pub wasmer: Option<Run<'a>>,
}
