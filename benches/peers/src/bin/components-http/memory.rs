//! [`Held`]: the memory of this process.

use anyhow::{Context as _, Result};
use std::fmt;
use std::ops::Sub;

/// Memory of this process, in KiB.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Pages of this process, and its share of pages that others or other mappings have, too.
    share: f64,
    /// Each mapping of a page counts.
    resident: f64,
    tables: f64,
}

impl Held {
    /// What smaps_rollup and status of proc(5) say.
    pub fn now() -> Result<Self> {
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
        let status = std::fs::read_to_string("/proc/self/status")?;
        Ok(Self {
            share: kib(&rollup, "Pss:")?,
            resident: kib(&rollup, "Rss:")?,
            tables: kib(&status, "VmPTE:")?,
        })
    }
}

impl Sub for Held {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            share: self.share - other.share,
            resident: self.resident - other.resident,
            tables: self.tables - other.tables,
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            share,
            resident,
            tables,
        } = self;
        write!(f, "{share:>14.0} {resident:>14.0} {tables:>14.0}")
    }
}

fn kib(text: &str, name: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kib = kib.with_context(|| format!("no {name}"))?;
    Ok(kib.trim().parse()?)
}
