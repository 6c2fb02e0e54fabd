//! [`Passed`]: the values that branches pass to the parameters of blocks.

use cranelift_codegen::ir::{Block, Function, Inst, Value};

/// A value that a branch passes to a parameter of a block.
pub(crate) struct Passed {
    /// The block that the branch ends.
    pub(crate) block: Block,
    pub(crate) branch: Inst,
    /// Position of the destination among the branch's destinations.
    pub(crate) destination: usize,
    pub(crate) target: Block,
    /// Position of the value among the arguments for this destination.
    pub(crate) argument: usize,
    pub(crate) param: Value,
    /// The value, which is not an alias. `None` for a result or an exception of the call that ends
    /// the block.
    pub(crate) value: Option<Value>,
}

/// All values that are passed, in the order of branches, destinations and arguments.
pub(crate) fn passed(func: &Function) -> impl Iterator<Item = Passed> {
    let dfg = &func.dfg;
    let ends = func.layout.blocks().filter_map(|block| {
        let branch = func.layout.last_inst(block)?;
        Some((block, branch))
    });
    let calls = ends.flat_map(move |(block, branch)| {
        let tables = (&dfg.jump_tables, &dfg.exception_tables);
        let destinations = dfg.insts[branch].branch_destination(tables.0, tables.1);
        let calls = destinations.iter().enumerate();
        calls.map(move |(destination, call)| (block, branch, destination, call))
    });
    calls.flat_map(move |(block, branch, destination, call)| {
        let target = call.block(&dfg.value_lists);
        let values = call.args(&dfg.value_lists).zip(dfg.block_params(target));
        values
            .enumerate()
            .map(move |(argument, (passed, param))| Passed {
                block,
                branch,
                destination,
                target,
                argument,
                param: *param,
                value: passed.as_value().map(|value| dfg.resolve_aliases(value)),
            })
    })
}
