//! Finds the library, compiles guests, and builds and runs programs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tempfile::TempDir;

/// Time limit of a program in seconds. timeout(1) kills a program that hangs, and the test fails. A
/// program takes a few seconds; a busy machine may need many times as long.
const TIMEOUT_SECONDS: &str = "900";

/// A folder with the compiled guests, which exists as long as this test program.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let compile = |from: &[u8], options: &pirn_compiler::Options| {
        let wasm = pirn_compiler::parse_text(from).expect("a module");
        pirn_compiler::compile(&wasm, options).expect("it compiles")
    };
    let read = |path: &str| fs::read(root.join(path)).expect("a guest");
    // These tests are about the library: the code need not be fast.
    let mut plain = pirn_compiler::Options::default();
    plain.opt_level = pirn_compiler::OptLevel::None;
    let guest = compile(&read("examples/c/guest.wat"), &plain);
    let mut damaged = guest.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let mut fuel = plain.clone();
    fuel.fuel = true;
    let other = b"(module $other
        (func (export \"add\") (param i32 i32) (result i32) (i32.const 0)))";
    for (name, bytes) in [
        ("fuel.so", compile(&read("examples/c/guest.wat"), &fuel)),
        (
            "hello.so",
            compile(&read("examples/guests/hello.wasm"), &plain),
        ),
        (
            "component.so",
            compile(&read("capi/tests/c/component.wat"), &plain),
        ),
        (
            "hello-p2.so",
            compile(&read("examples/guests/hello-p2.wasm"), &plain),
        ),
        ("other.so", compile(other, &plain)),
        (
            "shared.so",
            compile(&read("capi/tests/c/shared.wat"), &plain),
        ),
        ("maths.so", compile(&read("capi/tests/c/maths.wat"), &plain)),
        (
            "maths-fuel.so",
            compile(&read("capi/tests/c/maths.wat"), &fuel),
        ),
        ("user.so", compile(&read("capi/tests/c/user.wat"), &plain)),
        ("asks.so", compile(&read("capi/tests/c/asks.wat"), &plain)),
        (
            "shop.so",
            compile(&read("examples/c/component.wat"), &plain),
        ),
        (
            "tour.so",
            compile(&read("examples/guests/tour-c.wasm"), &plain),
        ),
        (
            "values.so",
            compile(&read("capi/tests/c/values.wat"), &plain),
        ),
        ("version.so", other_version(&guest)),
        ("guest.so", guest),
        ("damaged.so", damaged),
    ] {
        fs::write(folder.path().join(name), bytes).expect("a module");
    }
    folder
});

/// A module with another format version.
fn other_version(module: &[u8]) -> Vec<u8> {
    let version = pirn_format::FORMAT_VERSION.to_le_bytes();
    let places = module.windows(version.len()).enumerate();
    let mut places = places.filter(|(_, bytes)| *bytes == version);
    let changed = places.find_map(|(at, _)| {
        let mut file = module.to_vec();
        file[at] ^= 0x80;
        let error = pirn_runtime::Module::from_bytes(&file).err()?.to_string();
        error.contains("format version").then_some(file)
    });
    changed.expect("the version is somewhere")
}

/// The folder of the guests, for programs too.
pub(crate) fn folder() -> &'static Path {
    FOLDER.path()
}

/// A compiled guest.
pub(crate) fn guest(name: &str) -> PathBuf {
    folder().join(name)
}

/// A file of the library, which lies in the folder of this test program: both are built together.
pub(crate) fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let library = test.with_file_name(name);
    assert!(library.exists(), "{} is built", library.display());
    library
}

/// A folder with a copy of the shared library without its debug information, which valgrind would
/// read at each start of a program. The library keeps its symbols.
pub(crate) fn stripped() -> PathBuf {
    let stripped = folder().join("stripped");
    fs::create_dir_all(&stripped).expect("a folder");
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg(library("libpirn.so"));
    built(strip.arg("-o").arg(stripped.join("libpirn.so")));
    stripped
}

/// The arguments that link the shared library.
fn shared() -> Vec<String> {
    let library = library("libpirn.so");
    let folder = library.parent().expect("a folder").display();
    vec![
        format!("-L{folder}"),
        "-lpirn".into(),
        format!("-Wl,-rpath,{folder}"),
        "-pthread".into(),
    ]
}

/// A source of these tests.
pub(crate) fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(name)
}

/// A file of the examples.
pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples")
        .join(name)
}

/// What an example prints.
pub(crate) fn example_output(name: &str) -> String {
    let path = example(&format!("{name}.expected.txt"));
    fs::read_to_string(path).expect("the expected output")
}

/// A command that compiles a source to a program.
pub(crate) fn cc(compiler: &str, options: &[&str], source: &Path, program: &Path) -> Command {
    let mut command = Command::new(compiler);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    command.args(options).arg(source).arg("-I").arg(include);
    command.arg("-o").arg(program);
    command
}

/// A program that is compiled from a source, with the shared library.
pub(crate) fn linked(compiler: &str, options: &[&str], source: &Path, name: &str) -> PathBuf {
    let program = folder().join(name);
    built(cc(compiler, options, source, &program).args(shared()));
    program
}

/// Whether a tool works. If not, prints that `what` is not run.
pub(crate) fn have(what: &str, tool: &str, argument: &str) -> bool {
    let there = Command::new(tool).arg(argument).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        // Written to stderr directly: the test harness hides what a passing test prints.
        let said = writeln!(std::io::stderr(), "NOT RUN: {what}, for want of `{tool}`");
        said.expect("stderr is open");
    }
    there
}

/// Runs a build command.
pub(crate) fn built(command: &mut Command) {
    let output = command.output().expect("the tool starts");
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

/// Runs a command with a limit on its time.
fn limited(command: &Command) -> Output {
    let mut limited = Command::new("timeout");
    limited.args(["--signal=KILL", TIMEOUT_SECONDS]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.output().expect("timeout(1) starts")
}

/// Runs a program that must succeed and print nothing on stderr. Returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = limited(command);
    let silent = output.stderr.is_empty();
    assert!(
        output.status.success() && silent,
        "{command:?}: {}",
        said(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program to its end, whatever that is.
pub(crate) fn ended(command: &mut Command) -> Output {
    limited(command)
}

/// Runs a program that must succeed, and may print anything.
pub(crate) fn succeeds(command: &mut Command) {
    let output = limited(command);
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

/// Runs a program that must fail. Returns what it prints on stderr.
pub(crate) fn fails(command: &mut Command) -> String {
    let output = limited(command);
    assert!(!output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The exit status and all output of a program.
fn said(output: &Output) -> String {
    let [told, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{}\n{told}\n{said}", output.status)
}
