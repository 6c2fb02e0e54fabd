//! The configuration file: what it sets, what wins over it, and each error with its line.

use crate::common;
use crate::common::serving;

use common::guest;
use pirn_server::config::CONFIG_BYTES_MAX;
use serving::{Serving, refusal, serve};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with a configuration file, and with some guests beside it.
fn folder(config: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("serve.toml");
    fs::write(&path, config).expect("room for a file");
    for name in ["web-hello.wasm", "loop.wat", "exit.wat"] {
        fs::copy(guest(name), folder.path().join(name)).expect("room for a guest");
    }
    (folder, path)
}

fn args(path: &Path) -> [&str; 2] {
    ["--config", path.to_str().expect("a temporary path is text")]
}

#[test]
fn it_sets_what_the_command_line_does_not() {
    let (_folder, path) = folder(
        r#"
        listen = "127.0.0.1:0"
        slots = 3
        deadline = "3600s"
        header_timeout = "3600s"
        log = "off"
        [[route]]
        path = "/loop"
        module = "loop.wat"
        deadline = "20ms"
        [[route]]
        path = "/hello"
        module = "web-hello.wasm"
        [[route]]
        path = "/other/"
        module = "exit.wat"
        "#,
    );
    let mut command = serve();
    command.args(args(&path)).args(["--slots", "2", "--route"]);
    command.arg(format!("/other={}", guest("web-hello.wasm").display()));
    let serving = Serving::start(command);
    let metrics = serving.get("/metrics");
    assert!(metrics.contains("\npirn_slots 2\n"), "{metrics}");
    assert!(serving.get("/loop").starts_with("HTTP/1.0 504 "));
    // Modules of the file are beside it. The command line replaces the route of the file.
    for path in ["/hello", "/other"] {
        let answer = serving.get(path);
        assert!(answer.ends_with("hello from a slot\n"), "{answer}");
    }
    assert_eq!(serving.stop(), "", "the log is off");
}

#[test]
fn a_route_has_its_own_number_of_requests() {
    let (_folder, path) = folder(
        r#"
        listen = "127.0.0.1:0"
        deadline = "3600s"
        [[route]]
        path = "/one"
        module = "loop.wat"
        requests = 1
        "#,
    );
    let mut command = serve();
    command.args(args(&path)).args(["--log", "off"]);
    let serving = Serving::start(command);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| serving.get("/one"));
        while !serving.get("/metrics").contains("\npirn_slots_used 1\n") {}
        assert!(serving.get("/one").starts_with("HTTP/1.0 503 "));
        serving.signal("KILL");
        // The first request never ends by itself. Its connection does, in one way or the other.
        drop(first.join());
    });
}

#[test]
fn a_check_loads_everything_and_serves_nothing() {
    let good = "[[route]]\npath = '/'\nmodule = 'web-hello.wasm'\n";
    let (_folder, path) = folder(good);
    let output = serve().args(args(&path)).arg("--check-config").output();
    let output = output.expect("it starts");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"configuration is good: 1 routes\n");
    let bad = good.replace("web-hello.wasm", "serve.toml");
    let (_folder, path) = folder(&bad);
    let [config, name] = args(&path);
    let error = refusal(&["--check-config", "--log", "off", config, name]);
    let start = format!("pirn-serve: {name}:1: ");
    assert!(error.starts_with(&start), "{error}");
}

/// The error of a file, without the program's and the file's name.
fn error(config: &str) -> String {
    let (_folder, path) = folder(config);
    let error = refusal(&args(&path));
    let start = format!("pirn-serve: {}", path.display());
    let error = error
        .strip_prefix(&start)
        .unwrap_or_else(|| panic!("{error}"));
    error.trim_end().trim_start_matches(':').to_owned()
}

#[test]
fn each_error_has_its_line_and_value_and_remedy() {
    let route = "[[route]]\npath = '/'\nmodule = 'web-hello.wasm'\n";
    let cases = [
        (
            "\nslots = 0",
            "2: \"0\" is not a count; write a number from 1 to 4294967295",
        ),
        ("slots = -1", "1: \"-1\" is not a count"),
        ("slots = 4294967296", "1: \"4294967296\" is not a count"),
        ("\n\nslots = 1.5", "3: \"1.5\" is not a count"),
        (
            "deadline = 20",
            "1: \"20\" is not a time above 0; write it as in 500us, 20ms or 2s",
        ),
        (
            "memory_max = '1KB'",
            "1: \"1KB\" is not a size; write it as in 65536 or 64MiB",
        ),
        (
            "listen = 'here'",
            "1: \"here\" is not an address; write it as in 127.0.0.1:8080",
        ),
        (
            "log = 'loud'",
            "1: error parsing level filter: expected one of \"off\"",
        ),
        (
            "warm = 'yes'",
            "1: invalid type: string \"yes\", expected a boolean",
        ),
        (
            "slotz = 1",
            "1: unknown field `slotz`, expected one of `listen`, `admin`",
        ),
        (
            "route = [3]",
            "1: invalid type: integer `3`, expected a table",
        ),
        ("memory-max = 1", "1: unknown field `memory-max`"),
        ("slots = 1\nslots = 2", "2: duplicate key"),
        ("slots", "1: "),
        ("slots = 'a", "1: "),
        (
            "[route]\npath = '/'",
            "1: invalid type: map, expected a sequence",
        ),
        ("[[route]]\npath = '/'", "1: missing field `module`"),
        ("[[route]]\nmodule = '/'", "1: missing field `path`"),
        (
            "[[route]]\npath = '/'\nmodule = 'a'\nslots = 1",
            "4: unknown field `slots`",
        ),
        (
            "[[route]]\npath = '/'\nmodule = 'a'\nrequests = 0",
            "4: \"0\" is not a count",
        ),
        (
            "[[route]]\npath = '/'\nmodule = 'a'\ndeadline = '0s'",
            "4: \"0s\" is not a time",
        ),
        (
            "\n[[route]]\npath = 'a'\nmodule = 'a'",
            "2: route \"a\" is not a path",
        ),
        (
            "\n[[route]]\npath = '/metrics'\nmodule = 'a'",
            "2: route \"/metrics\" is a path of",
        ),
    ];
    for (config, part) in cases {
        let found = error(config);
        assert!(found.starts_with(part), "{config:?}: {found}");
    }
    let twice = error(&format!("{route}{}", route.replace("'/'", "'//'")));
    assert!(
        twice.starts_with("4: route \"//\" is given twice"),
        "{twice}"
    );
    let missing = error(&format!(
        "{route}[[route]]\npath = '/a'\nmodule = 'none.so'"
    ));
    assert!(
        missing.starts_with("4: ") && missing.contains("none.so: No such file"),
        "{missing}"
    );
}

/// The configuration that packagers start from names only keys that there are.
#[test]
fn the_example_is_sound() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/serve.toml");
    let error = refusal(&["--check-config", "--config", path]);
    assert!(
        error.contains("serve.toml:10: /srv/pirn/web.so: No such file"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_none_is_refused() {
    let none = refusal(&["--config", "/nowhere/serve.toml"]);
    assert!(none.contains("/nowhere/serve.toml: No such file"), "{none}");
    let folder_for_file = refusal(&["--config", env!("CARGO_MANIFEST_DIR")]);
    assert!(
        folder_for_file.contains("it is a directory; name a regular file"),
        "{folder_for_file}"
    );
    let (_folder, path) = folder("");
    assert!(refusal(&args(&path)).contains("there is no route"));
    let longest = CONFIG_BYTES_MAX as usize;
    fs::write(&path, " ".repeat(longest)).expect("room");
    assert!(refusal(&args(&path)).contains("there is no route"));
    fs::write(&path, " ".repeat(longest + 1)).expect("room");
    assert!(refusal(&args(&path)).contains("it has more than 1048576 bytes, the limit"));
    fs::write(&path, b"\nslots = \"\xff\"").expect("room");
    let not_text = refusal(&args(&path));
    assert!(
        not_text.contains("serve.toml:2: it is not valid UTF-8"),
        "{not_text}"
    );
    let routes = "[[route]]\npath = '/metrics'\nmodule = 'a'\n".repeat(2);
    fs::write(&path, routes.repeat(3)).expect("room");
    assert!(
        refusal(&args(&path)).contains(":1: "),
        "the first error is named"
    );
}

/// Nobody writes to the pipe or reads it, so opening it would wait for ever. A device has no end.
#[test]
fn files_that_are_pipes_or_devices_are_refused_at_once() {
    let (folder, path) = folder("");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("there is a mkfifo").success());
    for file in [pipe.as_path(), Path::new("/dev/zero")] {
        let name = file.display().to_string();
        let why = format!("{name}: it is a pipe, a socket or a device; name a regular file\n");
        let error = refusal(&["--log", "off", "--config", &name]);
        assert_eq!(error, format!("pirn-serve: {why}"));
        let route = format!("/=a.so={name}");
        let error = refusal(&["--log", "off", "--route", &route, "--trust", &name]);
        assert!(
            error.starts_with(&format!(
                "pirn-serve: --trust {name}: cannot read it: it is a pipe"
            )),
            "{error}"
        );
    }
    let (name, hello) = (pipe.display(), guest("web-hello.wasm"));
    fs::write(
        &path,
        format!("[[route]]\npath = '/'\nmodule = '{}'\n", hello.display()),
    )
    .expect("room");
    let name = name.to_string();
    let log = ["--listen=127.0.0.1:0", "--log=off", "--access-log", &name];
    let error = refusal(&[&args(&path)[..], &log].concat());
    let why = format!("cannot open access log {name}: no process reads it; start the reader");
    assert!(error.contains(&why), "{error}");
    let memory = format!("/data={name}");
    let error = refusal(&[&args(&path)[..], &["--memory-dir", &memory]].concat());
    assert!(
        error.ends_with("it is neither a directory nor a tar archive\n"),
        "{error}"
    );
}

/// Nobody writes to the pipe, so reading it would wait for ever. A device has no end.
#[test]
fn a_module_that_is_a_pipe_or_a_device_is_refused_at_once() {
    let (folder, path) = folder("");
    let pipe = folder.path().join("pipe.so");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("there is a mkfifo").success());
    for module in [pipe.as_path(), Path::new("/dev/zero")] {
        let route = format!("/a={}", module.display());
        let module = module.display().to_string();
        let why = format!("{module}: it is a pipe, a socket or a device; name a regular file\n");
        let error = refusal(&["--log", "off", "--route", &route]);
        assert!(error.ends_with(&why), "{error}");
        fs::write(
            &path,
            format!("[[route]]\npath = '/a'\nmodule = '{module}'\n"),
        )
        .expect("room");
        for options in [&[][..], &["--check-config"]] {
            let error = refusal(&[options, &args(&path)].concat());
            assert!(error.ends_with(&why), "{error}");
        }
    }
}
