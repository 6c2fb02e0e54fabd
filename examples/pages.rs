//! Compiles the programs in the README and in the guide, and runs them.
//!
//! The pages are doc tests of this package, because the packages of published crates do not contain
//! the pages.

/// README.md.
#[doc = include_str!("../README.md")]
pub struct Readme;

/// docs/guide/components.md.
#[doc = include_str!("../docs/guide/components.md")]
pub struct Components;

/// docs/guide/first-sandbox.md.
#[doc = include_str!("../docs/guide/first-sandbox.md")]
pub struct FirstSandbox;

/// docs/guide/limits.md.
#[doc = include_str!("../docs/guide/limits.md")]
pub struct Limits;

/// docs/guide/signatures.md.
#[doc = include_str!("../docs/guide/signatures.md")]
pub struct Signatures;

/// docs/guide/suspending.md.
#[doc = include_str!("../docs/guide/suspending.md")]
pub struct Suspending;

/// docs/guide/threads.md.
#[doc = include_str!("../docs/guide/threads.md")]
pub struct Threads;

/// docs/guide/warm-starts.md.
#[doc = include_str!("../docs/guide/warm-starts.md")]
pub struct WarmStarts;
