//! Facts about Cranelift IR that several modules need: types and signatures, definitions of values,
//! places for new instructions, the data flow of a block.

pub(crate) mod types;
pub(crate) mod values;
pub(crate) mod cursor;
pub(crate) mod edges;
pub(crate) mod liveness;
pub(crate) mod block;
