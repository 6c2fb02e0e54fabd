//! Optimiser passes that a compilation leaves out.

use crate::common;

use common::{emit, guests};
use pirn_compiler::{Emit, Options, Pass, Passes};
use std::cell::LazyCell;
use std::fs;

/// Passes that change none of the guests below: no block of them is long enough.
const OF_LONG_BLOCKS: [Pass; 2] = [Pass::Schedule, Pass::Spill];

/// Each pass changes the code of some guest, so its name leaves out something.
#[test]
fn without_a_pass_the_code_differs() {
    // The smallest guest is first, because most passes change it.
    let names = ["warm-c.wasm", "tour-c.wasm", "tour-rust.wasm"];
    // An object has the code, and does not name the options.
    let code = |wasm: &[u8], passes: Passes| {
        let mut options = Options::default();
        options.passes = passes;
        emit(wasm, &options, Emit::Obj).expect("it is valid")
    };
    let guests = names.map(|name| {
        let wasm = fs::read(guests().join(name)).expect("the guest is there");
        let plain = LazyCell::new({
            let wasm = wasm.clone();
            move || code(&wasm, Passes::ALL)
        });
        (wasm, plain)
    });
    let differs = |pass: &Pass| {
        let passes = Passes::ALL.without(*pass);
        let mut guests = guests.iter();
        guests.any(|(wasm, plain)| code(wasm, passes) != **plain)
    };
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
