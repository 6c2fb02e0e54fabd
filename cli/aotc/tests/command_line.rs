//! The command line of `aotc`.

use crate::common::{aotc, refused, text, works};
use pirn_compiler::{Options, compile, parse_text};
use pirn_testing::guests;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A temporary folder with a copy of a guest.
fn folder(guest: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join(guest);
    fs::copy(guests::guest(guest), &path).expect("the guest is there");
    (folder, path)
}

#[test]
fn the_default_output_is_a_shared_object_beside_the_input() {
    let (_folder, wasm) = folder("hello.wasm");
    assert_eq!(works(&aotc([&wasm])), "");
    let so = fs::read(wasm.with_extension("so")).expect("it is written");
    let bytes = fs::read(&wasm).expect("the guest");
    assert!(so == compile(&bytes, &Options::default()).expect("it is valid"));
    let mode = fs::metadata(wasm.with_extension("so"))
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(
        mode & 0o444,
        0o444,
        "readable by all, as far as the mask allows"
    );
}

#[test]
fn the_output_option_names_the_output_file() {
    let (folder, wat) = folder("add.wat");
    let expected = compile(
        &parse_text(&fs::read(&wat).expect("the guest")).expect("text"),
        &Options::default(),
    );
    let expected = expected.expect("it is valid");
    let other = folder.path().join("other.so");
    let path = |path: &Path| path.as_os_str().to_owned();
    // The second time, the output file exists already.
    for _ in 0..2 {
        works(&aotc([path(&wat), "-o".into(), path(&other)]));
        assert!(fs::read(&other).expect("it is written") == expected);
    }
    let output = aotc([path(&wat), "-o".into(), "-".into()]);
    assert!(output.stdout == expected);
    assert_eq!(
        fs::read_dir(folder.path()).expect("the folder").count(),
        2,
        "nothing else is left"
    );
}

#[test]
fn the_input_is_not_overwritten() {
    let (folder, wasm) = folder("fib.wasm");
    let bytes = fs::read(&wasm).expect("the guest");
    let named = |name: &str| folder.path().join(name);
    let (link, hard) = (named("link.wasm"), named("hard.wasm"));
    std::os::unix::fs::symlink(&wasm, &link).expect("room for a link");
    fs::hard_link(&wasm, &hard).expect("room for a link");
    let spared = |input: &Path, output: &Path, option: bool| {
        let mut args = vec![input.as_os_str().to_owned()];
        if option {
            args.extend(["-o".into(), output.as_os_str().to_owned()]);
        }
        let cannot = format!(
            "cannot write {}: it is the input, {}",
            output.display(),
            input.display()
        );
        refused(&aotc(args), &[&cannot, "give another name"]);
        assert!(fs::read(input).expect("it is there") == bytes);
    };
    spared(&wasm, &wasm, true);
    spared(&wasm, &named("./fib.wasm"), true);
    for other in [&link, &hard] {
        spared(&wasm, other, true);
        spared(other, &wasm, true);
    }
    // The output name that is derived from the input's name.
    let so = named("fib.so");
    fs::rename(&wasm, &so).expect("a free name");
    spared(&so, &so, false);
    // A copy of the input, and a new file, are not the input.
    let copy = named("copy.wasm");
    fs::copy(&so, &copy).expect("room for a file");
    for output in [&copy, &named("new.so")] {
        works(&aotc([so.as_os_str(), "-o".as_ref(), output.as_os_str()]));
        assert!(
            fs::read(output)
                .expect("it is written")
                .starts_with(b"\x7fELF")
        );
    }
    assert!(fs::read(&so).expect("it is there") == bytes);
}

#[test]
fn everything_is_emitted_for_both_targets() {
    let (_folder, wat) = folder("add.wat");
    for target in ["x86_64", "aarch64"] {
        for (emit, extension, start) in [
            ("clif", "clif", &b";; 0 (add)"[..]),
            ("asm", "s", b";; 0 (add)"),
            ("obj", "o", b"\x7fELF"),
            ("so", "so", b"\x7fELF"),
        ] {
            let args = ["--target", target, "--emit", emit].map(Into::into);
            works(&aotc(args.into_iter().chain([wat.as_os_str().to_owned()])));
            let written = fs::read(wat.with_extension(extension)).expect("it is written");
            assert!(written.starts_with(start), "{emit} for {target}");
        }
    }
}

/// `-g` keeps the guest's debug information. It warns if the guest has no debug information.
#[test]
fn debug_lines_are_kept_or_a_warning_reports_their_absence() {
    let (_folder, wasm) = folder("lines.wasm");
    for option in ["-g", "--debug-info"] {
        assert_eq!(works(&aotc([option.as_ref(), wasm.as_os_str()])), "");
        let so = fs::read(wasm.with_extension("so")).expect("it is written");
        let mut options = Options::default();
        options.debug_info = true;
        let bytes = fs::read(&wasm).expect("the guest");
        assert!(so == compile(&bytes, &options).expect("it is valid"));
        assert!(so.windows(12).any(|bytes| bytes == b".debug_line\0"));
    }
    let (_folder, wasm) = folder("hello.wasm");
    let output = aotc(["-g".as_ref(), wasm.as_os_str()]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    let start = format!("aotc: warning: {}: it has no debug", wasm.display());
    assert!(
        said.starts_with(&start) && said.lines().count() == 1,
        "{said}"
    );
    assert!(wasm.with_extension("so").exists());
}

#[test]
fn verify_proves_the_machine_code_of_a_module() {
    let (_folder, wasm) = folder("hello.wasm");
    works(&aotc([&wasm]));
    let so = wasm.with_extension("so");
    let verify = |path: &Path| aotc(["verify".as_ref(), path.as_os_str()]);
    let said = works(&verify(&so));
    let start = format!("{}: ", so.display());
    assert!(
        said.starts_with(&start) && said.lines().count() == 1,
        "{said}"
    );
    assert!(said.contains(" functions stay in the sandbox: "), "{said}");
    // A file that is damaged, cut, absent, or no module. Code of another architecture is proven.
    let module = fs::read(&so).expect("it is written");
    let mut damaged = module.clone();
    damaged[module.len() / 2] ^= 1;
    let other = wasm.with_file_name("other.so");
    for (bytes, part) in [
        (&damaged[..], "hash"),
        (&module[..100], "header"),
        (b"", "module"),
    ] {
        fs::write(&other, bytes).expect("room for a file");
        refused(&verify(&other), &["other.so: ", part]);
    }
    refused(&verify(&wasm), &["hello.wasm: ", "not a compiled module"]);
    refused(
        &verify(&wasm.with_file_name("no.so")),
        &["cannot read ", "no.so"],
    );
    let arm = ["--target", "aarch64"].map(OsStr::new);
    works(&aotc([wasm.as_os_str()].into_iter().chain(arm)));
    let said = works(&verify(&so));
    assert!(said.contains(" functions stay in the sandbox: "), "{said}");
    refused(&aotc(["verify"]), &["FILE"]);
}

/// Nobody writes to the pipe, so reading it would wait for ever. A device might never end.
#[test]
fn pipes_and_devices_are_refused_at_once() {
    let (folder, _wasm) = folder("hello.wasm");
    let pipe = folder.path().join("pipe.so");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("coreutils are installed").success());
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        for command in [Some("verify"), Some("inspect"), None] {
            let command = command.map(OsStr::new);
            let args = command.into_iter().chain([path.as_os_str()]);
            let parts = ["cannot read ", "it is a pipe, a socket or a device"];
            refused(&aotc(args), &parts);
        }
    }
}

/// Nobody reads the pipe, so opening it would wait for ever.
#[test]
fn a_pipe_gets_the_output_only_if_it_has_a_reader() {
    let (folder, wasm) = folder("hello.wasm");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("coreutils are installed").success());
    let args = [wasm.as_os_str(), "-o".as_ref(), pipe.as_os_str()];
    refused(
        &aotc(args),
        &["pipe: no process reads it", "start the reader"],
    );
    let path = pipe.clone();
    let reader = std::thread::spawn(move || fs::read(path).expect("a pipe"));
    // Until the reader has opened it.
    let written = loop {
        let output = aotc(args);
        if output.status.success() {
            break reader.join().expect("it reads");
        }
        refused(&output, &["no process reads it"]);
    };
    works(&aotc([wasm.as_os_str()]));
    let expected = fs::read(wasm.with_extension("so")).expect("it is there");
    assert!(written == expected, "the pipe has another module");
}

/// The output of `aotc inspect` for a module's shared object.
fn inspected(module: &Path) -> String {
    let so = module.with_extension("so");
    works(&aotc(["inspect".as_ref(), so.as_os_str()]))
}

#[test]
fn inspect_lists_the_content_of_a_module() {
    let (_folder, wasm) = folder("hello.wasm");
    works(&aotc([
        wasm.as_os_str(),
        "--target".as_ref(),
        "aarch64".as_ref(),
    ]));
    let said = inspected(&wasm);
    for part in [
        "target     aarch64\n",
        "cpu        baseline\n",
        "functions  54 defined, 7 imported\n",
        "memory     128 KiB, no maximum\n",
        "fuel       not counted\n",
        "imports    7\n",
        "  wasi_snapshot_preview1.fd_write: func (i32, i32, i32, i32) -> i32\n",
        "exports    2\n",
        "  _start: func () -> ()\n",
        "  .text",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let wide = wasm.with_file_name("wide.wat");
    let text =
        "(module (import \"a\" \"m\" (memory i64 1 2)) (table (export \"t\") i64 3 funcref))";
    fs::write(&wide, text).expect("room for a file");
    works(&aotc([&wide]));
    let said = inspected(&wide);
    for part in [
        "memory     i64 64 KiB, at most 128 KiB\n",
        "table      i64 3.. funcref\n",
        "  a.m: memory i64 1..2 pages\n",
        "  t: table i64 3.. funcref\n",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(!said.contains("objects"), "{said}");
    let text = "(module (memory 1 2 shared) (type $t (struct)) (func (drop (struct.new $t))))";
    fs::write(&wide, text).expect("room for a file");
    works(&aotc([&wide]));
    let said = inspected(&wide);
    for part in [
        "memory     64 KiB, at most 128 KiB, shared\n",
        "heap       the module allocates structs or arrays\n",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let cpu = ["--fuel", "--target", "aarch64", "--cpu", "armv8.4-a,+fp16"].map(OsStr::new);
    works(&aotc([wasm.as_os_str()].into_iter().chain(cpu)));
    let said = inspected(&wasm);
    assert!(said.contains("fuel       counted\n"), "{said}");
    assert!(
        said.contains("cpu        armv8.4-a,+fp16: lse, fp16, dotprod\n"),
        "{said}"
    );
    refused(
        &aotc(["inspect".as_ref(), wasm.as_os_str()]),
        &["hello.wasm", "it is a WebAssembly module"],
    );
    refused(
        &aotc(["inspect", "/no/such.so"]),
        &["cannot read /no/such.so"],
    );
}

/// With deterministic relaxed SIMD, the compiler emits other instructions than by default.
#[test]
fn relaxed_simd_is_deterministic_on_request() {
    let (folder, _) = folder("add.wat");
    let relaxed = folder.path().join("relaxed.wat");
    let text = "(module (func (param v128) (result v128)
        (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))";
    fs::write(&relaxed, text).expect("room for a file");
    let of = |options: &[&str]| {
        let args = ["--target", "x86_64", "--emit", "asm", "-o", "-"];
        let output = aotc(
            options
                .iter()
                .chain(&args)
                .map(OsStr::new)
                .chain([relaxed.as_os_str()]),
        );
        works(&output);
        self::text(&output.stdout)
    };
    let plain = of(&[]);
    assert_eq!(of(&["--relaxed-simd", "fastest"]), plain);
    let same = of(&["--relaxed-simd=deterministic"]);
    // `paddusb` sets the top bit of each index that selects no lane.
    assert!(
        same.contains("paddusb") && !plain.contains("paddusb"),
        "{same}"
    );
}

#[test]
fn errors_are_reported_in_one_line() {
    let (folder, wat) = folder("add.wat");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("room for a file");
        path
    };
    refused(
        &aotc::<&str>([]),
        &["no module was given", "aotc module.wasm"],
    );
    refused(&aotc(["/no/such.wasm"]), &["cannot read /no/such.wasm"]);
    refused(&aotc([folder.path()]), &["cannot read"]);
    refused(
        &aotc([file("empty.wasm", "")]),
        &["empty.wasm", "it is empty"],
    );
    refused(
        &aotc([file("text.wat", "(module\n  (func\n    i32.cons))")]),
        &["text.wat", "at 3:"],
    );
    refused(
        &aotc([file("bad.wat", "(module (func (result i32)))")]),
        &["bad.wat", "invalid module", "offset 0x"],
    );
    let with = |option: &str, value: &str| aotc([wat.as_os_str(), option.as_ref(), value.as_ref()]);
    refused(
        &with("--target", "riscv64"),
        &["target riscv64 is not supported", "x86_64, aarch64"],
    );
    // The permitted levels depend on the machine's architecture.
    refused(
        &with("--cpu", "pentium"),
        &["\"pentium\" is unknown for", "use one of baseline, "],
    );
    refused(&with("--cpu", "baseline,+neon"), &["\"+neon\" is unknown"]);
    refused(
        &with("-o", "/no/such/folder/x.so"),
        &["cannot write /no/such/folder/x.so"],
    );
    // The message does not contain the temporary name of the output file.
    let said = text(&with("-o", "/no/such/folder/x.so").stderr);
    assert!(
        said.contains("folder /no/such/folder does not exist;") && !said.contains(".aotc-"),
        "{said}"
    );
    refused(
        &aotc([wat.as_os_str(), "-o".as_ref(), folder.path().as_os_str()]),
        &["it is a folder; name a file in it"],
    );
    refused(
        &with("--cpu", "baseline,"),
        &["\"baseline,\" has a comma without a feature"],
    );
    refused(&with("--cpu", "+aes"), &["begin with a level"]);
    refused(
        &with("--relaxed-simd", "sometimes"),
        &["\"sometimes\"", "fastest", "deterministic"],
    );
    refused(
        &aotc([file(
            "cont.wat",
            "(module (type $f (func)) (type (cont $f)))",
        )]),
        &["invalid module: stack switching is not supported (at"],
    );
    let so = folder.path().join("x.so");
    works(&aotc([wat.as_os_str(), "-o".as_ref(), so.as_os_str()]));
    refused(
        &aotc([&so]),
        &["x.so: it is an ELF file", "run it with `aotrun`"],
    );
    assert!(!wat.with_extension("so").exists(), "nothing was written");
    assert!(works(&aotc(["--help"])).contains("inspect"));
}

#[test]
fn invalid_command_lines_are_reported_in_one_line() {
    for (line, parts) in [
        (
            &["--emit", "wasm", "x.wasm"][..],
            &["--emit \"wasm\" is unknown", "asm, obj, so"][..],
        ),
        (
            &["--without-pass", "pass", "x.wasm"],
            &["--without-pass \"pass\" is unknown", "schedule, spill"],
        ),
        (
            &["--opt-level", "3", "x.wasm"],
            &["--opt-level \"3\"", "one of none, speed,"],
        ),
        (&["-O2", "x.wasm"], &["option -O is unknown"]),
        (
            &["--emti", "asm", "x.wasm"],
            &["option --emti is unknown; --emit is similar"],
        ),
        (&["inspect"], &["<FILE> is missing"]),
        (
            &["inspect", "x.so", "y.so"],
            &["\"y.so\" is one argument too many"],
        ),
        (&["x.wasm", "-o", ""], &["--output has no value"]),
        (&["x.wasm", "-o"], &["--output has no value"]),
        (
            &["x.wasm", "--fuel=3"],
            &["--fuel takes no value, \"3\" was given"],
        ),
        (
            &["--cpu", "native", "--cpu", "native", "x.wasm"],
            &["--cpu is given twice"],
        ),
        (
            &["x.wasm", "y.wasm"],
            &["\"y.wasm\" is one argument too many", "give one module"],
        ),
        (
            &["--fuel", "inspect", "x.so"],
            &["a command as the first argument"],
        ),
        (
            &["--emit", "a\nb", "x.wasm"],
            &["--emit \"a\\nb\" is unknown"],
        ),
        (&["--a\nb", "x.wasm"], &["is unknown"]),
    ] {
        let output = aotc(line.iter().copied());
        refused(&output, parts);
        refused(&output, &["; see `aotc --help`\n"]);
    }
    for asked in ["--help", "--version"] {
        assert!(works(&aotc([asked])).contains("aotc"));
    }
}

/// `-g` has no effect on intermediate code, and the compiler says so.
#[test]
fn debug_information_for_intermediate_code_is_reported_as_useless() {
    let (_folder, wasm) = folder("lines.wasm");
    let output = aotc([wasm.as_os_str(), "-g".as_ref(), "--emit=clif".as_ref()]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("-g has no effect with --emit clif"), "{said}");
}

#[test]
fn the_work_of_a_module_is_limited_by_its_bytes() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (bomb, so) = (
        folder.path().join("bomb.wat"),
        folder.path().join("bomb.so"),
    );
    let values = "i32 ".repeat(1000);
    let func = "(func (type 1) (try_table (catch 0 0) (call 0)) unreachable)";
    let text = format!(
        "(module (type (func)) (type (func (result {values}))) (type (func (param {values})))
          (tag (type 2)) (func (type 0)) {})",
        func.repeat(30)
    );
    fs::write(&bomb, text).expect("there is room");
    let path = |path: &Path| path.as_os_str().to_owned();
    let with = |option: &str| aotc([option.into(), "--opt-level=none".into(), path(&bomb)]);
    refused(
        &with("--work-per-byte=0"),
        &[
            "units of compile work, the limit",
            "1000000",
            "--work-per-byte",
        ],
    );
    assert!(!so.exists());
    works(&with("--work-per-byte=10000"));
    assert!(so.exists());
    refused(&with("--work-per-byte=-1"), &["--work-per-byte \"-1\""]);
}
