//! Facts about Cranelift IR that several modules need: types and signatures, definitions of values,
//! the data flow of a block.

pub(crate) mod types;
pub(crate) mod values;
pub(crate) mod liveness;
pub(crate) mod block;
