//! The functions that Java programs import if TeaVM compiled them.

use crate::common::setup::module;
use pirn_runtime::{Linker, Region};
use pirn_wasi::{VirtualClock, WasiCtx, WasiCtxBuilder};
use std::time::SystemTime;

/// Exports all functions but the operators.
const GUEST: &str = r#"(module
  (import "teavmMath" "sin" (func $sin (param f64) (result f64)))
  (import "teavmMath" "cos" (func $cos (param f64) (result f64)))
  (import "teavmMath" "tan" (func $tan (param f64) (result f64)))
  (import "teavmMath" "asin" (func $asin (param f64) (result f64)))
  (import "teavmMath" "acos" (func $acos (param f64) (result f64)))
  (import "teavmMath" "atan" (func $atan (param f64) (result f64)))
  (import "teavmMath" "exp" (func $exp (param f64) (result f64)))
  (import "teavmMath" "log" (func $log (param f64) (result f64)))
  (import "teavmMath" "atan2" (func $atan2 (param f64 f64) (result f64)))
  (import "teavm" "nanoTime" (func $time (result f64)))
  (memory (export "memory") 1)
  (export "sin" (func $sin)) (export "cos" (func $cos)) (export "tan" (func $tan))
  (export "asin" (func $asin)) (export "acos" (func $acos)) (export "atan" (func $atan))
  (export "exp" (func $exp)) (export "log" (func $log)) (export "atan2" (func $atan2))
  (export "time" (func $time)))"#;

/// Results of OpenJDK 17's `StrictMath`, in bits.
const STRICT: [(&str, f64, u64); 40] = [
    ("sin", 0.5, 0x3fde_aee8_744b_05f0),
    ("cos", 0.5, 0x3fec_1528_065b_7d50),
    ("tan", 0.5, 0x3fe1_7b4f_5bf3_474a),
    ("asin", 0.5, 0x3fe0_c152_382d_7366),
    ("acos", 0.5, 0x3ff0_c152_382d_7366),
    ("atan", 0.5, 0x3fdd_ac67_0561_bb4f),
    ("exp", 0.5, 0x3ffa_6129_8e1e_069c),
    ("log", 0.5, 0xbfe6_2e42_fefa_39ef),
    ("sin", -0.25, 0xbfcf_aaee_d4f3_1577),
    ("cos", -0.25, 0x3fef_0154_9f7d_eea1),
    ("tan", -0.25, 0xbfd0_5785_a43c_4c56),
    ("asin", -0.25, 0xbfd0_2be9_ce0b_87cd),
    ("acos", -0.25, 0x3ffd_2cf5_c7c7_0f0c),
    ("atan", -0.25, 0xbfcf_5b75_f92c_80dd),
    ("exp", -0.25, 0x3fe8_ebef_9eac_820b),
    ("sin", 1.0e22, 0xbfeb_453a_b76b_f397),
    ("cos", 1.0e22, 0x3fe0_be2c_ef01_c8f4),
    ("tan", 1.0e22, 0xbffa_0f79_c1b6_b258),
    ("atan", 1.0e22, 0x3ff9_21fb_5444_2d18),
    ("exp", 1.0e22, 0x7ff0_0000_0000_0000),
    ("log", 1.0e22, 0x4049_5414_6219_54fe),
    ("sin", 0.1, 0x3fb9_8eae_cb8b_cb2c),
    ("cos", 0.1, 0x3fef_d712_f9a8_17c0),
    ("tan", 0.1, 0x3fb9_af88_7743_0b80),
    ("asin", 0.1, 0x3fb9_a492_7603_7884),
    ("acos", 0.1, 0x3ff7_87b2_2ce3_f590),
    ("atan", 0.1, 0x3fb9_83e2_82e2_cc4d),
    ("exp", 0.1, 0x3ff1_aec7_b35a_00d4),
    ("log", 0.1, 0xc002_6bb1_bbb5_5515),
    ("sin", 3.75, 0xbfe2_4a3a_f675_0621),
    ("cos", 3.75, 0xbfea_4205_b286_67f7),
    ("tan", 3.75, 0x3fe6_4a25_02b0_ca3b),
    ("atan", 3.75, 0x3ff4_f68d_ea67_2618),
    ("exp", 3.75, 0x4045_42b2_d0a2_66e7),
    ("log", 3.75, 0x3ff5_25e9_73a0_564f),
    ("sin", -1.0e300, 0x3fea_2c16_b010_e385),
    ("cos", -1.0e300, 0xbfe2_6990_22ad_c4c1),
    ("tan", -1.0e300, 0xbff6_be41_1f37_ac77),
    ("atan", -1.0e300, 0xbff9_21fb_5444_2d18),
    ("exp", -1.0e300, 0x0000_0000_0000_0000),
];

fn linker() -> Linker<WasiCtx> {
    let mut linker = Linker::new();
    pirn_wasi::conventions::link_teavm(&mut linker, |wasi| wasi).expect("the names are free");
    linker
}

/// Java allows an error of one unit in the last place, so that two results differ by at most two.
/// Of these they differ by one.
fn assert_close(found: f64, expected: u64, name: &str) {
    let distance = found.to_bits().abs_diff(expected);
    assert!(distance <= 1, "{name}: {found} {expected:#x}");
}

#[test]
fn functions_have_the_results_of_strict_math() {
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&module(GUEST), &linker()).expect("it links");
    let mut guest = prepared.instantiate(WasiCtxBuilder::new().build()).unwrap();
    let mut compute = |name: &str, x: f64| {
        let function = prepared.func::<f64, f64>(name).expect("it is exported");
        guest.call(&function, x).expect("it returns")
    };
    for (name, x, expected) in STRICT {
        assert_close(compute(name, x), expected, name);
    }
    for (name, x) in [
        ("sin", f64::INFINITY),
        ("tan", f64::NEG_INFINITY),
        ("asin", 1.1),
        ("acos", -1.1),
        ("log", -1.0),
        ("exp", f64::NAN),
    ] {
        assert!(compute(name, x).is_nan(), "{name} {x}");
    }
    for name in ["sin", "tan", "asin", "atan"] {
        assert_eq!(
            compute(name, -0.0).to_bits(),
            (-0.0_f64).to_bits(),
            "{name}"
        );
    }
    assert_eq!(compute("log", 0.0), f64::NEG_INFINITY);
    let atan2 = prepared
        .func::<(f64, f64), f64>("atan2")
        .expect("it is exported");
    for (y, x, expected) in [
        (-0.0, -1.0, 0xc009_21fb_5444_2d18_u64),
        (0.1, -3.75, 0x4008_eb61_a0e1_39a9),
    ] {
        let found = guest.call(&atan2, (y, x)).expect("it returns");
        assert_close(found, expected, "atan2");
    }
}

/// `System.nanoTime` is that of the context's clock, which a snapshot makes virtual.
#[test]
fn time_is_that_of_the_context() {
    let mut linker = linker();
    let clock = VirtualClock::new(SystemTime::UNIX_EPOCH);
    pirn_wasi::link_virtual(&mut linker, |wasi| wasi, clock.clone()).expect("the names are free");
    let region = Region::builder().slots(1).build().expect("a region");
    // Sleeps for 1.5 ms by the monotonic clock.
    let sleeps = r#"(module
      (import "teavm" "nanoTime" (func $time (result f64)))
      (import "wasi_snapshot_preview1" "poll_oneoff"
        (func $poll (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "sleep") (result f64 f64)
        call $time
        (i32.store (i32.const 16) (i32.const 1)) (i64.store (i32.const 24) (i64.const 1500000))
        (drop (call $poll (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200)))
        call $time))"#;
    let prepared = region.prepare(&module(sleeps), &linker).expect("it links");
    let context = WasiCtxBuilder::with_virtual_clock(&clock).build();
    let mut guest = prepared.instantiate(context).unwrap();
    let sleep = prepared
        .func::<(), (f64, f64)>("sleep")
        .expect("it is exported");
    let (before, after) = guest.call(&sleep, ()).expect("it returns");
    // A sleep ends up to a microsecond after its time.
    assert_eq!(before, 0.0);
    assert!((1.5..=1.502).contains(&after), "{after}");
}

#[test]
fn names_are_defined_once() {
    let twice = pirn_wasi::conventions::link_teavm(&mut linker(), |wasi| wasi).unwrap_err();
    assert!(twice.to_string().contains("is defined twice"), "{twice}");
}
