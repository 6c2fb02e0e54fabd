//! Atomic stores: on x86_64 one exchange each, and no `mfence`, which takes eight times as long.

use crate::common;

use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::Arch;

/// A function with one store, of a memory that may be shared.
fn function(store: &str, ty: &str) -> String {
    format!(
        "(module (memory 1 1 shared)
           (func (param i32 {ty}) ({store} (local.get 0) (local.get 1))))"
    )
}

/// Each store, the type of its value, and the bits of its register on x86_64.
const STORES: [(&str, &str, u32); 7] = [
    ("i32.atomic.store", "i32", 32),
    ("i32.atomic.store8", "i32", 8),
    ("i32.atomic.store16", "i32", 16),
    ("i64.atomic.store", "i64", 64),
    ("i64.atomic.store8", "i64", 8),
    ("i64.atomic.store16", "i64", 16),
    ("i64.atomic.store32", "i64", 32),
];

/// Bits of `%edx`, `%dl`, `%dx`, `%rdx` and the like.
fn width(register: &str) -> u32 {
    match register.trim_start_matches('%') {
        name if name.starts_with('r') => 64,
        name if name.starts_with('e') => 32,
        name if name.ends_with('l') => 8,
        _ => 16,
    }
}

const LEVELS: [OptLevel; 3] = [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize];

fn code(text: &str, arch: Arch, level: OptLevel) -> Vec<String> {
    let mut options = Options::new(arch);
    options.opt_level = level;
    common::first_function(text, &options)
}

#[test]
fn a_store_is_one_exchange_on_x86_64() {
    for (store, ty, bits) in STORES {
        for level in LEVELS {
            let code = code(&function(store, ty), Arch::X86_64, level);
            let exchanges: Vec<_> = code.iter().filter(|line| line.contains("xchg")).collect();
            assert_eq!(exchanges.len(), 1, "{store} {level:?}: {code:#?}");
            let register = exchanges[0]
                .split([' ', ','])
                .find(|word| word.starts_with('%'));
            assert_eq!(register.map(width), Some(bits), "{store}: {exchanges:?}");
            assert!(!code.iter().any(|line| line.contains("fence")), "{store}");
        }
    }
}

#[test]
fn a_store_is_a_store_with_release_on_aarch64() {
    for (store, ty, _) in STORES {
        for level in LEVELS {
            let code = code(&function(store, ty), Arch::Aarch64, level);
            let stores: Vec<_> = code
                .iter()
                .filter(|line| line.starts_with("stlr"))
                .collect();
            assert_eq!(stores.len(), 1, "{store} {level:?}: {code:#?}");
        }
    }
}

/// A fence of the guest stays one.
#[test]
fn a_fence_is_a_fence() {
    let text = "(module (memory 1 1 shared) (func (atomic.fence)))";
    for level in LEVELS {
        let code = code(text, Arch::X86_64, level);
        assert!(code.iter().any(|line| line == "mfence"), "{code:#?}");
    }
}
