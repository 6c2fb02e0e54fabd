//! Optimiser passes that a compilation leaves out.

use crate::common;

use common::guests;
use pirn_compiler::{Emit, Options, Pass, Passes, emit};
use std::fs;

/// Passes that change none of the guests below: no block of them is long enough.
const OF_LONG_BLOCKS: [Pass; 2] = [Pass::Schedule, Pass::Spill];

/// Each pass changes the code of some guest, so its name leaves out something.
#[test]
fn without_a_pass_the_code_differs() {
    let names = ["tour-rust.wasm", "tour-c.wasm", "warm-c.wasm"];
    let guests = names.map(|name| fs::read(guests().join(name)).expect("the guest is there"));
    let listings = |passes| {
        let mut options = Options::default();
        options.passes = passes;
        let listing = |wasm: &Vec<u8>| emit(wasm, &options, Emit::Asm, &|_, _| ());
        guests
            .each_ref()
            .map(|wasm| listing(wasm).expect("it is valid"))
    };
    let all = listings(Passes::ALL);
    let differs = |pass: &Pass| listings(Passes::ALL.without(*pass)) != all;
    let same: Vec<_> = Pass::ALL
        .into_iter()
        .filter(|pass| !differs(pass))
        .collect();
    assert_eq!(same, OF_LONG_BLOCKS);
}

#[test]
fn a_set_has_the_passes_that_it_was_given() {
    for pass in Pass::ALL {
        assert!(Passes::ALL.has(pass) && !Passes::ALL.without(pass).has(pass));
        assert!(Passes::NONE.with(pass).has(pass) && !Passes::NONE.has(pass));
        let of_name = Pass::ALL.iter().filter(|other| other.name() == pass.name());
        assert_eq!(of_name.count(), 1, "{pass:?}");
    }
}
