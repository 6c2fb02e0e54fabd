//! The interfaces of WASI 0.2.12, for the worlds of the tests. They are read from the crate
//! `wasip2`, which cargo downloads because the tests depend on it.

use pirn_testing::registry::Locked;
use std::path::Path;
use wit_parser::Resolve;

/// All interfaces, also those of features that are not on by default.
pub(crate) fn wasi() -> Resolve {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cached = Locked::of(&root, "wasip2").cached();
    let cached = cached.expect("cargo has built wasip2 from a folder in CARGO_HOME/registry/src");
    let mut resolve = Resolve {
        all_features: true,
        ..Resolve::default()
    };
    let pushed = resolve.push_dir(cached.sources.join("wit"));
    pushed.expect("the interfaces are well-formed");
    resolve
}
