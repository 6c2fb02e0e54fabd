//! Modules of compilers with a fault are refused, each for the property that the fault breaks.
//!
//! Every guest is compiled without the fault, and proven. Then it is compiled with the fault. If
//! the fault changes the machine code, the verifier must refuse the module. Each fault must change
//! some guest. A fault may change a guest's code in a harmless way. `Guest::suits` leaves such
//! guests out.

mod guests;

use broken_compiler::faults::Fault;
use broken_compiler::{OptLevel, Options};
use guests::{Guest, guests};
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;
use pirn_verify::Property::{self, Accesses, Instructions, Stack, Targets, Types};
use pirn_verify::{VerifyError, verify};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The properties that a refusal may name, and the minimum number of guests that the fault changes.
fn expected(fault: Fault) -> (&'static [Property], usize) {
    match fault {
        Fault::TableCheckDropped => (&[Accesses, Targets, Types], 8),
        Fault::TableCheckOffByOne => (&[Accesses, Targets, Types], 8),
        Fault::DispatchIndexUnchecked => (&[Accesses, Targets, Types], 1),
        Fault::IndexSignExtended => (&[Accesses, Targets, Types], 8),
        Fault::OffsetPastGuard => (&[Accesses, Types], 8),
        Fault::UpperHalfUnchecked => (&[Accesses, Types], 1),
        Fault::CalleeTypeUnchecked => (&[Targets, Types], 8),
        Fault::CalleeContext => (&[Types], 8),
        Fault::ImportContext => (&[Types], 1),
        Fault::ArgumentClass => (&[Stack, Types], 2),
        Fault::ImmutableGlobalWritten => (&[Accesses], 8),
        Fault::DescriptorWritten => (&[Accesses], 8),
        Fault::FuelElsewhere => (&[Accesses, Types], 8),
        Fault::StackProbeDropped => (&[Stack], 4),
        Fault::JumpIndexUnchecked => (&[Accesses, Targets, Types], 8),
        Fault::ReloadBeyondFrame => (&[Accesses, Stack, Types], 1),
        Fault::RegisterNotRestored => (&[Stack], 8),
        Fault::TrapEntryMissing => (&[Accesses, Instructions], 8),
        Fault::TrapEntryMoved => (&[Accesses, Instructions], 8),
    }
}

/// A guest, compiled without a fault.
struct Sound<'a> {
    guest: &'a Guest,
    options: Options,
    module: Vec<u8>,
}

/// Compiles all guests with and without the optimiser, and proves their modules.
fn all_sound(guests: &[Guest], has_fuel: bool) -> Vec<Sound<'_>> {
    let sound = guests.par_iter().flat_map(|guest| {
        [OptLevel::Speed, OptLevel::None]
            .into_par_iter()
            .map(|level| {
                let mut options = Options::new(Arch::X86_64);
                options.opt_level = level;
                options.fuel = has_fuel;
                let module = compile(guest, &options);
                verify(&module).expect(&guest.name);
                Sound {
                    guest,
                    options,
                    module,
                }
            })
    });
    sound.collect()
}

fn compile(guest: &Guest, options: &Options) -> Vec<u8> {
    broken_compiler::compile(&guest.wasm, options).expect(&guest.name)
}

/// The result for each module that the fault changes.
fn refusals(fault: Fault, all: &[Sound<'_>]) -> Vec<(String, Result<Property, String>)> {
    let suitable = all.par_iter().filter(|sound| sound.guest.suits(fault));
    let results = suitable.filter_map(|sound| {
        let mut options = sound.options.clone();
        options.fault = Some(fault);
        let broken = compile(sound.guest, &options);
        if sound.module == broken {
            return None;
        }
        // The format's check finds nothing: the hash, the tables and the metadata are consistent.
        Checked::new(&broken).expect("the compiler wrote the file");
        let result = match verify(&broken) {
            Err(VerifyError::Refused(refusal)) => Ok(refusal.property),
            other => Err(format!("{other:?}")),
        };
        Some((
            format!("{}, {:?}", sound.guest.name, options.opt_level),
            result,
        ))
    });
    results.collect()
}

/// The first two calls prove all guests without a fault: a compiler with faults is sound until the
/// options name a fault.
#[test]
fn each_fault_is_refused_for_its_property() {
    let guests = guests();
    let (plain, metered) = (all_sound(&guests, false), all_sound(&guests, true));
    let mut wrong = vec![];
    for fault in Fault::ALL {
        let (allowed, changed_min) = expected(fault);
        let all = match fault {
            Fault::FuelElsewhere => &metered,
            _ => &plain,
        };
        let results = refusals(fault, all);
        let changed = results.len();
        let mut counts = BTreeMap::new();
        for (name, result) in results {
            match result {
                Ok(property) if allowed.contains(&property) => {
                    *counts.entry(property.name()).or_insert(0) += 1;
                }
                other => wrong.push(format!("{fault:?} in {name}: {other:?}")),
            }
        }
        let name = format!("{fault:?}");
        println!("{name:<24}{changed:>4} changed {counts:?}");
        if changed < changed_min {
            wrong.push(format!("{fault:?} changed {changed} modules only"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
