//! Programs in C, C++, Python and Go that use the library: the examples and their output, misuse
//! that the header says is an error, and the same under AddressSanitizer and valgrind.
//!
//! A tool that is missing is named on stderr with `NOT RUN`, as in the other suites.

mod tools;

use pirn_testing::campaign;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::process::Command;
use tools::{
    built, cc, ended, example, example_output, fails, folder, guest, have, linked, run, sources,
    succeeds,
};

/// Arguments of the C compilers: the rules of the header hold for strict programs.
const STRICT: [&str; 8] = [
    "-std=c11",
    "-D_DEFAULT_SOURCE",
    "-Wall",
    "-Wextra",
    "-pedantic",
    "-Werror",
    "-O1",
    "-g",
];

/// What a static library of Rust needs from the system.
const STATIC: [&str; 5] = ["-lpthread", "-ldl", "-lm", "-lgcc_s", "-lc"];

/// The arguments of the program `check`.
fn check_arguments() -> [PathBuf; 5] {
    [
        "guest.so",
        "other.so",
        "damaged.so",
        "fuel.so",
        "version.so",
    ]
    .map(guest)
}

/// The arguments of the program `component`.
fn component_arguments() -> [PathBuf; 3] {
    ["component.so", "guest.so", "hello-p2.so"].map(guest)
}

/// The arguments of the program `group`.
fn group_arguments() -> [PathBuf; 4] {
    ["maths.so", "user.so", "asks.so", "maths-fuel.so"].map(guest)
}

/// The arguments of the program `shared`.
fn shared_arguments() -> [PathBuf; 2] {
    ["shared.so", "guest.so"].map(guest)
}

#[test]
fn c_examples_print_what_they_say() {
    for compiler in ["gcc", "clang"] {
        if !have("examples in C", compiler, "--version") {
            continue;
        }
        for (name, guests) in [
            ("hello", &["hello.so"][..]),
            ("embed", &["guest.so"]),
            ("component", &["shop.so", "hello-p2.so"]),
        ] {
            let source = example(&format!("c/{name}.c"));
            let program = linked(compiler, &STRICT, &source, &format!("{name}-{compiler}"));
            let guests = guests.iter().map(|name| guest(name));
            let output = run(Command::new(&program).args(guests));
            assert_eq!(output, example_output(&format!("c/{name}")), "{compiler}");
        }
    }
}

/// An exception that leaves a host function ends the process, and does not unwind frames of Rust or
/// of the guest.
#[test]
fn a_cpp_exception_never_passes_a_guest() {
    if !have("exceptions in C++", "g++", "--version") {
        return;
    }
    let program = linked("g++", &["-std=c++17"], &sources("throws.cpp"), "throws");
    let output = ended(Command::new(&program).arg(guest("guest.so")));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("foreign exception"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "group\ncalled\n");
    assert!(!output.status.success());
}

/// The program that times calls runs; its figures decide nothing.
#[test]
fn the_timed_example_runs() {
    if !have("the timed example in C", "gcc", "--version") {
        return;
    }
    let program = linked("gcc", &STRICT, &example("c/calls.c"), "calls");
    let output = run(Command::new(&program).arg(guest("guest.so")).arg("10"));
    assert_eq!(output.lines().count(), 4, "{output}");
}

#[test]
fn a_c_program_links_the_static_library() {
    if !have("the static library", "gcc", "--version") {
        return;
    }
    let program = folder().join("hello-static");
    let mut build = cc("gcc", &STRICT, &example("c/hello.c"), &program);
    build.arg(tools::library("libpirn.a")).args(STATIC);
    // Copying the debug information takes most of the time.
    built(build.arg("-Wl,--strip-debug"));
    // The program does not look for the shared library.
    let linked = run(Command::new("ldd").arg(&program));
    assert!(!linked.contains("libpirn"), "{linked}");
    let output = run(Command::new(&program).arg(guest("hello.so")));
    assert_eq!(output, example_output("c/hello"));
}

/// A compiler takes seconds for each example. By default each example has a compiler of its own.
#[test]
fn cpp_examples_print_what_they_say() {
    let compilers = ["g++", "clang++"];
    let is_there = |compiler: &&str| have("examples in C++", compiler, "--version");
    let compilers: Vec<_> = compilers.into_iter().filter(is_there).collect();
    let examples = [
        ("embed", &["guest.so"][..]),
        ("component", &["shop.so", "hello-p2.so"]),
    ];
    for (at, compiler) in compilers.iter().enumerate() {
        for (name, guests) in campaign::sampled(examples, compilers.len(), at) {
            let strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread"];
            let source = example(&format!("cpp/{name}.cpp"));
            let program = linked(compiler, &strict, &source, &format!("{name}-{compiler}"));
            let guests = guests.iter().map(|name| guest(name));
            let output = run(Command::new(&program).args(guests));
            assert_eq!(output, example_output(&format!("cpp/{name}")), "{compiler}");
        }
    }
}

#[test]
fn python_examples_print_what_they_say() {
    if !have("the examples in Python", "python3", "--version") {
        return;
    }
    for (name, guests) in [
        ("embed", ["guest.so", "hello.so"]),
        ("component", ["shop.so", "hello-p2.so"]),
    ] {
        let mut python = Command::new("python3");
        python
            .args(["-B".into(), example(&format!("python/{name}.py"))])
            .args(guests.map(guest))
            .env("PIRN_LIBRARY", tools::library("libpirn.so"));
        let wanted = example_output(&format!("python/{name}"));
        assert_eq!(run(&mut python), wanted);
    }
}

#[test]
fn go_examples_print_what_they_say() {
    if !have("the examples in Go", "go", "version") {
        return;
    }
    let library = tools::library("libpirn.so");
    let library = library.parent().expect("a folder").display();
    let programs = folder().join("go");
    fs::create_dir_all(&programs).expect("a folder");
    // Go's cache does not notice that a header outside of the package has changed.
    let header = fs::read(example("../capi/include/pirn.h")).expect("the header");
    let mut hasher = DefaultHasher::new();
    hasher.write(&header);
    let header = format!("-O2 -g -DPIRN_HEADER={}", hasher.finish());
    // Both at once: a program has the name of its folder or module. Go compiles its library for
    // each build mode, and the tests of Go hosts need this one.
    let mut go = Command::new("go");
    go.current_dir(example("go"))
        .args(["build", "-buildvcs=false", "-buildmode", "pie", "-o"])
        .arg(&programs)
        .args([".", "./component"])
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", header)
        .env("GOFLAGS", "")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .env("CGO_LDFLAGS", format!("-L{library} -Wl,-rpath,{library}"));
    built(&mut go);
    for (name, guests) in [
        ("embed", ["guest.so", "hello.so"]),
        ("component", ["shop.so", "hello-p2.so"]),
    ] {
        let program = programs.join(name);
        let output = run(Command::new(&program).args(guests.map(guest)));
        assert_eq!(output, example_output(&format!("go/{name}")));
    }
}

/// Runs a program of these tests. It prints nothing if all is as it must be.
fn prints_nothing(what: &str, name: &str, arguments: &[PathBuf]) {
    if !have(what, "gcc", "--version") {
        return;
    }
    let program = linked("gcc", &STRICT, &sources(&format!("{name}.c")), name);
    assert_eq!(run(Command::new(&program).args(arguments)), "");
}

#[test]
fn misuse_is_an_error() {
    prints_nothing("misuse in C", "check", &check_arguments());
}

#[test]
fn values_of_every_kind_pass() {
    prints_nothing("values in C", "values", &[guest("values.so")]);
}

#[test]
fn instances_on_several_threads_share_a_memory() {
    prints_nothing("shared memories in C", "shared", &shared_arguments());
}

#[test]
fn instances_of_a_group_import_from_each_other() {
    prints_nothing("groups in C", "group", &group_arguments());
}

#[test]
fn components_pass_values_and_refuse_misuse() {
    prints_nothing("components in C", "component", &component_arguments());
}

/// The tour of `examples/guests` uses arguments, variables, streams, directories and the exit code.
#[test]
fn a_program_gets_all_of_wasi() {
    if !have("WASI in C", "gcc", "--version") {
        return;
    }
    let program = linked("gcc", &STRICT, &sources("wasi.c"), "wasi");
    let fixture = |name: &str| example(&format!("guests/fixtures/{name}"));
    let text = |name: &str| fs::read_to_string(fixture(name)).expect("a fixture");
    let arguments = text("tour.args.txt");
    for mode in ["memory", "host", "read-only"] {
        let data = folder().join(format!("data-{mode}"));
        let mut copy = Command::new("cp");
        run(copy.arg("-r").arg(fixture("data")).arg(&data));
        let mut command = Command::new(&program);
        command.arg(guest("tour.so")).arg(mode).arg(&data);
        command.args([fixture("tour.stdin.txt"), fixture("tour.env.txt")]);
        let output = ended(command.args(arguments.split_terminator('\n')));
        let printed = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        let written = data.join("out-c.txt");
        if mode == "read-only" {
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("Read-only"), "{said}");
        } else {
            let expected = text("tour.expected.txt").replace("{language}", "C");
            assert_eq!(printed, expected, "{said}");
            assert_eq!(said, text("tour.stderr.expected.txt"));
            assert_eq!(output.status.code(), Some(7));
        }
        // Only the directory of the host has changed.
        assert_eq!(written.exists(), mode == "host", "{mode}");
    }
}

#[test]
fn address_sanitizer_finds_nothing() {
    let sanitized = [&STRICT[..], &["-fsanitize=address,undefined"]].concat();
    if !have("AddressSanitizer", "gcc", "--version") {
        return;
    }
    let probe = linked("gcc", &sanitized, &sources("canary.c"), "probe");
    let leak = fails(Command::new(&probe).arg("leak"));
    assert!(leak.contains("detected memory leaks"), "{leak}");
    let freed = fails(Command::new(&probe).arg("freed"));
    assert!(freed.contains("heap-use-after-free"), "{freed}");
    let mut value = Command::new(&probe);
    let value = fails(value.arg("value").arg(guest("component.so")));
    assert!(value.contains("heap-use-after-free"), "{value}");
    let programs = [
        (sources("component.c"), component_arguments().to_vec()),
        (sources("check.c"), check_arguments().to_vec()),
        (sources("shared.c"), shared_arguments().to_vec()),
        (example("c/embed.c"), vec![guest("guest.so")]),
        (sources("group.c"), group_arguments().to_vec()),
        (
            example("c/component.c"),
            ["shop.so", "hello-p2.so"].map(guest).to_vec(),
        ),
        (sources("values.c"), vec![guest("values.so")]),
    ];
    // By default every second program runs, from the first one on: all that valgrind does not check
    // then, but for the examples.
    for (source, arguments) in campaign::sampled(programs, 2, 0) {
        let program = linked("gcc", &sanitized, &source, "sanitized");
        run(Command::new(&program).args(arguments));
    }
}

/// By default only the program of misuse runs, because each takes seconds. AddressSanitizer checks
/// the others.
#[test]
fn valgrind_finds_nothing() {
    if !have("valgrind", "valgrind", "--version") || !have("valgrind", "gcc", "--version") {
        return;
    }
    let stripped = tools::stripped();
    let valgrind = || {
        let mut valgrind = Command::new("valgrind");
        // Searched before the path in the program, which is a `RUNPATH`.
        valgrind.env("LD_LIBRARY_PATH", &stripped);
        // Static tables and the timer thread are still there at the end, and valgrind calls memory
        // to which only interior pointers are left "possibly lost". No suppressions are needed.
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        valgrind.arg("--errors-for-leak-kinds=definite,indirect");
        valgrind.arg("--show-leak-kinds=definite,indirect");
        valgrind
    };
    let program = |name: &str| {
        let source = sources(&format!("{name}.c"));
        linked("gcc", &STRICT, &source, &format!("{name}-valgrind"))
    };
    let both = fails(valgrind().arg(program("canary")).arg("both"));
    assert!(both.contains("definitely lost"), "{both}");
    assert!(both.contains("Invalid read"), "{both}");
    let programs = [
        ("check", check_arguments().to_vec()),
        ("values", vec![guest("values.so")]),
        ("group", group_arguments().to_vec()),
        ("component", component_arguments().to_vec()),
        ("shared", shared_arguments().to_vec()),
    ];
    for (name, arguments) in campaign::sampled(programs, 5, 0) {
        // It says on stderr that it does not know userfaultfd(2): regions use another reset then.
        succeeds(valgrind().arg(program(name)).args(arguments));
    }
}

/// A library without the symbol of the header's version: the linker refuses it, and so does the
/// loader.
#[test]
fn a_library_of_another_version_is_refused() {
    if !have("another version of the library", "gcc", "--version") {
        return;
    }
    let other = folder().join("other");
    fs::create_dir_all(&other).expect("a folder");
    let program = linked("gcc", &STRICT, &example("c/hello.c"), "hello-version");
    // The symbols of the library with another version.
    let symbols = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(tools::library("libpirn.so"))
        .output()
        .expect("nm(1) starts");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let names = symbols
        .lines()
        .filter_map(|line| line.split(' ').next_back());
    let names = names.filter(|name| name.starts_with("pirn_"));
    let stubs: String = names
        .map(|name| {
            format!(
                "int {}(void) {{ return 0; }}\n",
                name.replace("_abi_2", "_abi_3")
            )
        })
        .collect();
    let source = folder().join("other.c");
    fs::write(&source, stubs).expect("a source");
    let library = other.join("libpirn.so");
    built(cc("gcc", &["-shared", "-fPIC", "-w"], &source, &library).arg("-nostartfiles"));
    let mut build = cc("gcc", &STRICT, &example("c/hello.c"), &folder().join("no"));
    let refused = fails(build.arg(&library));
    assert!(refused.contains("pirn_abi_2"), "{refused}");
    let mut start = Command::new(&program);
    // Searched before the path in the program, which is a `RUNPATH`.
    start.arg(guest("hello.so")).env("LD_LIBRARY_PATH", &other);
    let refused = fails(&mut start);
    assert!(refused.contains("pirn_abi_2"), "{refused}");
}
