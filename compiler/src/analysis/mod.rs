//! Facts about a module, found before its functions are translated: constant contents, tables that
//! never change, functions recognised by their results, small functions to inline.

mod constant;
pub(crate) mod image;
pub(crate) mod known_tables;
pub(crate) mod idioms;
pub(crate) mod leaves;

use crate::options::Options;
use crate::parse::ParsedModule;
use crate::passes::Pass;
use idioms::Multiplications;
use known_tables::KnownTables;
use leaves::Leaves;

/// Facts about a module, found before its functions are translated.
pub(crate) struct Facts<'a> {
    /// The tables whose elements are known.
    pub(crate) tables: KnownTables,
    /// The functions that compute a 128-bit product.
    pub(crate) multiplications: Multiplications,
    /// The functions to inline; empty if the options disable inlining.
    pub(crate) leaves: Leaves<'a>,
}

impl<'a> Facts<'a> {
    /// Examines a module whose bodies are not validated yet. Sets `tables_change` of the module's
    /// description if an instruction writes to a table.
    pub(crate) fn of(parsed: &mut ParsedModule<'a>, options: &Options) -> Self {
        let (metadata, bodies) = (&mut parsed.metadata, &parsed.bodies);
        metadata.tables_change = metadata.tables_change
            || !metadata.tables.is_empty() && known_tables::are_written(bodies);
        // Fuel is counted operator by operator, in called functions as well.
        let finds_products = options.passes.has(Pass::WideProducts) && !metadata.fuel;
        let multiplications = match finds_products {
            true => idioms::multiplications(bodies, metadata),
            false => Multiplications::new(),
        };
        let tables = match options.passes.has(Pass::KnownTables) {
            true => KnownTables::new(metadata),
            false => KnownTables::default(),
        };
        let leaves = match options.inlines() {
            true => Leaves::find(bodies, metadata, &parsed.intrinsics),
            false => Leaves::default(),
        };
        Self {
            tables,
            multiplications,
            leaves,
        }
    }
}
