//! Wasmtime at the settings that make a cycle fastest.

use wasmtime::{Config, Enabled, PoolingAllocationConfig};

/// Bytes of a memory or table that stay resident between instances.
const RESIDENT_BYTES: usize = 4 << 20;

/// Pages are reset by PAGEMAP_SCAN where the kernel has it, and stay resident; images are mapped
/// copy-on-write; no backtraces are collected.
pub fn best(pool: &mut PoolingAllocationConfig, config: &mut Config) {
    pool.linear_memory_keep_resident(RESIDENT_BYTES)
        .table_keep_resident(RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    config.memory_init_cow(true).wasm_backtrace_max_frames(None);
}
