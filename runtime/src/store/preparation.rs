//! [`Preparation`]: a module prepared for a region, and [`Share`], a thread's reference to a
//! preparation.

use super::growth::Limiter;
use super::host_func::Hosts;
use super::imports::Imports;
use super::plan::Plan;
use crate::error::LinkError;
use crate::module::Module;
use crate::region::Region;
use crate::sys;
use crate::value::{Cell, InstanceId};
use core::ops::Deref;
use crossbeam_utils::CachePadded;
use pirn_format::layout::WASM_PAGE_BYTES;
use pirn_format::types::{CompositeType, MemoryType};
use std::sync::Arc;

/// A module prepared for a region: the data that all its instances share.
#[derive(Debug)]
pub(crate) struct Preparation<T> {
    /// Identifies this preparation: no other preparation in the process has this id.
    pub(crate) id: InstanceId,
    pub(crate) module: Module,
    pub(crate) region: Region,
    pub(crate) hosts: Hosts<T>,
    pub(crate) limiter: Limiter<T>,
    pub(crate) imports: Imports,
    pub(crate) plan: Plan,
}

impl<T> Preparation<T> {
    /// Whether an instance has work at its start, under the limits of one call: dynamic segments,
    /// values that it makes, large tables to fill, or a start function.
    #[inline]
    pub(crate) fn starts(&self) -> bool {
        self.plan.prepares || self.module.metadata().start.is_some()
    }

    /// Prepares a module whose imports are already resolved.
    ///
    /// # Errors
    ///
    /// [`LinkError::Limit`].
    pub(crate) fn linked(
        module: &Module,
        region: &Region,
        imports: Imports,
        hosts: Hosts<T>,
        limiter: Limiter<T>,
    ) -> Result<Self, LinkError> {
        check_limits(module, region)?;
        let plan = Plan::new(module, &imports);
        Ok(Self {
            id: InstanceId::fresh(),
            module: module.clone(),
            region: region.clone(),
            hosts,
            limiter,
            imports,
            plan,
        })
    }
}

/// A shared reference to a preparation, on cache lines of its own.
///
/// The number of shares is the number of processors, rounded up to a power of two, at most 64. A
/// thread's number selects its share. Instances increment and decrement the reference count of a
/// share. So threads that instantiate one preparation avoid false sharing.
#[derive(Debug)]
pub(crate) struct Share<T>(CachePadded<Arc<Preparation<T>>>);

impl<T> Share<T> {
    /// Shares of a preparation. A thread uses the share at its number modulo the number of shares.
    pub(crate) fn split(inner: Preparation<T>) -> Box<[Arc<Self>]> {
        let inner = Arc::new(inner);
        let share = |_| Arc::new(Self(CachePadded::new(Arc::clone(&inner))));
        (0..sys::thread::parts()).map(share).collect()
    }

    /// The only share of a preparation.
    pub(crate) fn alone(inner: Preparation<T>) -> Arc<Self> {
        Arc::new(Self(CachePadded::new(Arc::new(inner))))
    }
}

impl<T> Deref for Share<T> {
    type Target = Preparation<T>;

    #[inline]
    fn deref(&self) -> &Preparation<T> {
        &self.0
    }
}

/// Checks that a module fits into the slots of a region.
///
/// # Errors
///
/// [`LinkError::Limit`].
fn check_limits(module: &Module, region: &Region) -> Result<(), LinkError> {
    let (metadata, limits) = (module.metadata(), region.limits());
    let check = |what, needed: u64, limit: u64, setting| {
        let error = LinkError::Limit {
            what,
            needed,
            limit,
            setting,
        };
        if needed > limit { Err(error) } else { Ok(()) }
    };
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let memories = module.own_memories();
    check(
        "memories",
        u64::from(module.memories()),
        u64::from(limits.memories),
        "memories",
    )?;
    let bytes = memories.iter().map(MemoryType::accessible_bytes);
    let bytes = bytes.map(|bytes| bytes.unwrap_or(u64::MAX)).max();
    let memory = bytes.unwrap_or(0).div_ceil(WASM_PAGE_BYTES);
    let memory_max = limits.memory_bytes_max as u64 / WASM_PAGE_BYTES;
    check("pages of memory", memory, memory_max, "memory_bytes_max")?;
    let area = u64::from(module.layout().bytes());
    let area_max = limits.instance_bytes as u64;
    check(
        "KiB of globals and imports",
        kib(area),
        area_max / 1024,
        "instance_bytes",
    )?;
    let own = &metadata.tables[module.imported().tables as usize..];
    check(
        "tables",
        own.len() as u64,
        u64::from(limits.tables),
        "tables",
    )?;
    let elements = own.iter().map(|table| table.min).max().unwrap_or(0);
    let elements_max = u64::from(limits.table_elements);
    check(
        "elements of a table",
        elements,
        elements_max,
        "table_elements",
    )?;
    let widest = metadata
        .types
        .iter()
        .filter_map(|ty| match &ty.composite {
            CompositeType::Func(ty) => Some(ty.params.len().max(ty.results.len())),
            _ => None,
        })
        .max();
    let cells = (widest.unwrap_or(0) * size_of::<Cell>()) as u64;
    // The cells of a call lie on the stack. At least three quarters of the stack remain for the
    // guest.
    check(
        "KiB of parameters",
        kib(cells),
        limits.stack_bytes as u64 / 4096,
        "stack_bytes",
    )
}
