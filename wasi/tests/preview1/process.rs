//! Process functions of preview 1: arguments, clocks, random bytes, exit; and bad pointers.

use super::driver::{FOLDER, Guest, Host, OUT};
use super::errno::{BADF, INVAL, SUCCESS};
use pirn_runtime::CallError;
use pirn_wasi::{Exit, WasiCtxBuilder};
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn arguments_and_environment_reach_the_guest() {
    let wasi = WasiCtxBuilder::new().args(["program", "", "last"]).unwrap();
    let mut guest = Guest::new(wasi.env("NAME", "a=b").unwrap().build());
    for (name, count, bytes) in [("args", 3, 14), ("environ", 1, 9)] {
        assert_eq!(
            guest.call(&format!("{name}_sizes_get"), &[OUT, OUT + 4]),
            SUCCESS
        );
        assert_eq!((guest.u32(OUT), guest.u32(OUT + 4)), (count, bytes));
    }
    assert_eq!(guest.call("args_get", &[OUT, 1000]), SUCCESS);
    assert_eq!(guest.bytes(1000, 14), b"program\0\0last\0");
    assert_eq!([0, 4, 8].map(|at| guest.u32(OUT + at)), [1000, 1008, 1009]);
    assert_eq!(guest.call("environ_get", &[OUT, 1000]), SUCCESS);
    assert_eq!(guest.bytes(1000, 9), b"NAME=a=b\0");
}

#[test]
fn clocks_report_time_and_resolution() {
    let mut guest = Guest::new(WasiCtxBuilder::new().build());
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64
    };
    let before = now();
    assert_eq!(guest.call("clock_time_get", &[0, 0, OUT]), SUCCESS);
    assert!((before..=now()).contains(&guest.u64(OUT)));
    let mut last = 0;
    for _ in 0..10 {
        assert_eq!(guest.call("clock_time_get", &[1, 1_000_000, OUT]), SUCCESS);
        assert!(guest.u64(OUT) >= last);
        last = guest.u64(OUT);
    }
    for clock in [0, 1] {
        assert_eq!(guest.call("clock_res_get", &[clock, OUT]), SUCCESS);
        assert!((1..1_000_000_000).contains(&guest.u64(OUT)));
    }
    // Clocks of processor time are not provided, and give the errno of a missing descriptor. Other
    // clocks do not exist.
    for (clock, errno) in [(2, BADF), (3, BADF), (4, INVAL), (-1, INVAL)] {
        assert_eq!(
            guest.call("clock_time_get", &[clock, 0, OUT]),
            errno,
            "{clock}"
        );
        assert_eq!(guest.call("clock_res_get", &[clock, OUT]), errno, "{clock}");
    }
}

#[test]
fn a_sleep_until_an_absolute_time_ends_then() {
    let mut guest = Guest::new(WasiCtxBuilder::new().build());
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64
    };
    let until = now() + 20_000_000;
    let arguments = guest.subscribe(&[(0, 0)]);
    // The realtime clock, absolute.
    guest.put(arguments[0] + 16, &[0; 4]);
    guest.put(arguments[0] + 24, &until.to_le_bytes());
    guest.put(arguments[0] + 40, &[1]);
    assert_eq!(guest.call("poll_oneoff", &arguments), SUCCESS);
    assert_eq!(guest.u32(OUT), 1);
    // Two of the kernel's clocks may differ by their resolution.
    assert!(now() + 5_000_000 >= until);
}

#[test]
fn random_bytes_differ() {
    let mut guest = Guest::new(WasiCtxBuilder::new().build());
    assert_eq!(guest.call("random_get", &[1000, 32]), SUCCESS);
    assert_eq!(guest.call("random_get", &[1032, 32]), SUCCESS);
    assert_ne!(guest.bytes(1000, 32), guest.bytes(1032, 32));
    assert_eq!(guest.bytes(1064, 32), [0; 32]);
    assert_eq!(guest.call("random_get", &[1000, 0]), SUCCESS);
    assert_eq!(guest.call("sched_yield", &[]), SUCCESS);
}

#[test]
fn proc_exit_takes_any_code_and_proc_raise_is_refused() {
    for code in [0, 1, 125, 126, 255, 256, -1] {
        let mut guest = Guest::new(WasiCtxBuilder::new().build());
        let error = guest.try_call("proc_exit", &[code]).expect_err("it ends");
        let exit = Exit::of(&error).expect("it exits");
        assert_eq!(exit.code, code as u32);
    }
    let mut guest = Guest::new(WasiCtxBuilder::new().build());
    let error = guest.try_call("proc_raise", &[6]).expect_err("it ends");
    assert!(
        error.to_string().contains("proc_raise unsupported"),
        "{error}"
    );
    assert_eq!(guest.call("proc_raise", &[31]), INVAL);
}

#[test]
fn pointers_out_of_bounds_trap() {
    let host = Host::new();
    host.write("file", "");
    let mut guest = host.guest();
    const END: i64 = 4 << 16;
    for (name, arguments) in [
        ("args_sizes_get", &[END, OUT][..]),
        ("clock_time_get", &[0, 0, END - 4]),
        ("fd_filestat_get", &[FOLDER, END - 56]),
        ("fd_read", &[0, END - 4, 1, OUT]),
        ("fd_prestat_dir_name", &[FOLDER, END - 1, 100]),
        ("path_create_directory", &[FOLDER, END - 1, 2]),
        ("path_create_directory", &[FOLDER, -1, 2]),
        ("path_open", &[FOLDER, 0, END, 1, 0, 2, 0, 0, OUT]),
        ("random_get", &[END - 1, 2]),
        ("poll_oneoff", &[END - 47, OUT, 1, OUT]),
    ] {
        let error = guest.try_call(name, arguments).expect_err(name);
        assert!(
            matches!(error, CallError::Trap(_) | CallError::Host(_)),
            "{name}: {error}"
        );
    }
}
