//! Bad input to `cli/release/build` and `cli/release/compare`. Each script prints one line, which
//! names the remedy, and deletes nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn release() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A small repository with one commit, which has the scripts and a package `pirn-compiler`.
struct Repository(TempDir);

impl Repository {
    fn new(rust_version: &str) -> Self {
        let repository = Self(tempfile::tempdir().expect("a folder"));
        repository.write("src/lib.rs", "");
        repository.write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"pirn-compiler\"\nversion = \"0.2.0\"\nedition = \"2024\"\n\
                 rust-version = \"{rust_version}\"\n[workspace]\n"
            ),
        );
        let lock = "version = 4\n\n[[package]]\nname = \"pirn-compiler\"\nversion = \"0.2.0\"\n";
        repository.write("Cargo.lock", lock);
        for script in ["build", "compare"] {
            let text = fs::read_to_string(release().join(script)).expect("a script");
            repository.write(&format!("cli/release/{script}"), &text);
        }
        repository
    }

    fn path(&self) -> PathBuf {
        self.0.path().canonicalize().expect("a folder")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        let user = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let output = git.args(user).args(args).current_dir(self.path()).output();
        let output = output.expect("git");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn commit(&self) {
        self.git(&["init", "--quiet"]);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "a commit"]);
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.arg(self.path().join("cli/release").join(script));
        // The repositories of this test have no other repository around them.
        command.env_remove("GIT_DIR").current_dir(self.path());
        command
    }

    /// The only line that the script prints before it fails.
    fn error(&self, script: &str, args: &[&str]) -> String {
        error(&self.command(script).args(args).output().expect("bash"))
    }
}

fn error(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(
        said.starts_with("cli/release/") && said.lines().count() == 1,
        "{said}"
    );
    said.trim_end().to_owned()
}

#[test]
fn help_prints_the_options_of_each_script() {
    for (script, words) in [
        ("build", &["--profile PROFILE", "--dirty", "FOLDER"][..]),
        ("compare", &["[FOLDER]", ".buildinfo"]),
        ("packages", &["--verify", "--out FOLDER"]),
    ] {
        let mut command = Command::new(release().join(script));
        let output = command.arg("--help").output().expect("the script");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(!text.contains('#') && !text.contains("set -"), "{text}");
        for word in words {
            assert!(text.contains(word), "{script}: {text}");
        }
    }
}

#[test]
fn wrong_options_are_named() {
    let repository = Repository::new("1.85");
    repository.commit();
    for (script, args, expected) in [
        ("build", &["--fast"][..], "option --fast is unknown; use"),
        ("build", &["--profile"], "--profile names no profile; give"),
        ("compare", &["--fast"], "option --fast is unknown; use"),
        ("compare", &["a", "b"], "2 folders are given, not 1; name"),
    ] {
        let said = repository.error(script, args);
        assert!(
            said.starts_with(&format!("cli/release/{script}: {expected}")),
            "{said}"
        );
    }
}

#[test]
fn a_build_deletes_no_files_but_those_of_an_earlier_release() {
    let repository = Repository::new("1.85");
    repository.commit();
    for folder in [".", "src", "mine"] {
        repository.write("mine/of-a-user", "kept");
        let said = repository.error("build", &[folder]);
        assert!(
            said.contains("is not empty and has no SHA256SUMS; name another"),
            "{said}"
        );
    }
    let sum = "0".repeat(64);
    repository.write("mine/SHA256SUMS", &format!("{sum}  a-file\n"));
    repository.write("mine/a-file", "");
    let said = repository.error("build", &["mine"]);
    assert!(
        said.contains("mine has of-a-user, which is of no release; name another"),
        "{said}"
    );
    for (name, text) in [("mine/of-a-user", "kept"), ("mine/a-file", "")] {
        let found = fs::read_to_string(repository.path().join(name));
        assert_eq!(found.expect("a file"), text);
    }
}

#[test]
fn a_folder_is_relative_to_the_caller_or_absolute() {
    let repository = Repository::new("1.85");
    repository.write("elsewhere/mine/of-a-user", "kept");
    repository.commit();
    let elsewhere = repository.path().join("elsewhere");
    let mine = elsewhere.join("mine");
    for folder in [Path::new("mine"), &mine] {
        for (script, expected) in [
            ("build", "is not empty and has no SHA256SUMS; name another"),
            ("compare", "has no SHA256SUMS; run cli/release/build first"),
        ] {
            let mut command = repository.command(script);
            let output = command.arg(folder).current_dir(&elsewhere).output();
            let said = error(&output.expect("bash"));
            let expected = format!("cli/release/{script}: {} {expected}", mine.display());
            assert!(said.starts_with(&expected), "{said}");
        }
    }
}

#[test]
fn packages_are_copied_to_a_folder_of_the_caller() {
    // No package: a program that prints nothing stands for Cargo and for `pirn-release`.
    let bin = tempfile::tempdir().expect("a folder");
    fs::create_dir(bin.path().join("debug")).expect("a folder");
    for program in ["cargo", "debug/pirn-release"] {
        symlink("/bin/true", bin.path().join(program)).expect("a link");
    }
    let elsewhere = tempfile::tempdir().expect("a folder");
    let absolute = elsewhere.path().join("absolute");
    for folder in [Path::new("relative"), &absolute] {
        let path = std::env::var("PATH").expect("a search path");
        let mut command = Command::new(release().join("packages"));
        command.arg("--out").arg(folder).current_dir(&elsewhere);
        command.env("PATH", format!("{}:{path}", bin.path().display()));
        command.env("CARGO_TARGET_DIR", bin.path());
        let output = command.output().expect("the script");
        assert!(output.status.success(), "{output:?}");
        assert!(elsewhere.path().join(folder).is_dir(), "{folder:?}");
    }
}

#[test]
fn a_missing_tool_is_named_with_its_package() {
    let repository = Repository::new("1.85");
    repository.commit();
    let tools = [
        ("git", "git"),
        ("cargo", "rustup"),
        ("cc", "gcc"),
        ("xz", "xz-utils"),
        ("readelf", "binutils"),
    ];
    let find = |tool: &str| {
        let path = std::env::var_os("PATH").expect("a search path");
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(tool));
        let place = places.find(|place| place.is_file());
        place.unwrap_or_else(|| panic!("{tool} is not installed"))
    };
    for (missing, package) in tools {
        let bin = tempfile::tempdir().expect("a folder");
        let link = |tool: &str, name: &str| {
            symlink(find(tool), bin.path().join(name)).expect("a link");
        };
        for tool in ["bash", "dirname", "ls", "realpath"] {
            link(tool, tool);
        }
        // The script looks for all tools before it runs one.
        let present = tools.iter().map(|(tool, _)| *tool);
        let present = present.chain(["objdump", "rustc", "tar"]);
        present
            .filter(|tool| *tool != missing)
            .for_each(|tool| link("true", tool));
        let mut command = repository.command("build");
        let said = error(&command.env("PATH", bin.path()).output().expect("bash"));
        let expected = format!("cli/release/build: {missing} is missing; install {package}");
        assert_eq!(said, expected);
    }
}

#[test]
fn a_build_needs_a_commit_with_the_right_version() {
    let repository = Repository::new("1.85");
    let said = repository.error("build", &[]);
    assert!(
        said.ends_with("is no git repository with a commit; clone the repository"),
        "{said}"
    );
    repository.commit();
    repository.git(&["tag", "v0.1.0"]);
    let said = repository.error("build", &[]);
    assert_eq!(
        said,
        "cli/release/build: the commit has the tag v0.1.0, and Cargo.toml has version 0.2.0; \
         change one of them"
    );
    repository.write("src/lib.rs", "// changed\n");
    let said = repository.error("build", &[]);
    assert!(
        said.ends_with("files differ from the last commit; commit them, or give --dirty"),
        "{said}"
    );
}

#[test]
fn an_old_rust_is_named() {
    let repository = Repository::new("999.0");
    repository.commit();
    let said = repository.error("build", &[]);
    assert!(
        said.ends_with("required is 999.0; run 'rustup update'"),
        "{said}"
    );
}

#[test]
fn a_comparison_needs_an_undamaged_release_of_a_commit() {
    let repository = Repository::new("1.85");
    repository.commit();
    let said = |expected: &str| {
        let said = repository.error("compare", &["made"]);
        assert!(said.contains(expected), "{said}");
    };
    said("made has no SHA256SUMS; run cli/release/build first");
    // The SHA-256 of an empty file.
    let sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    repository.write("made/SHA256SUMS", &format!("{sum}  a-file\n"));
    repository.write("made/a-file", "");
    said(".buildinfo; run cli/release/build again");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let info = |text: &str| repository.write(&format!("made/pirn-0.2.0-{target}.buildinfo"), text);
    info("profile: dev\n");
    said("names no commit or no profile; run cli/release/build again");
    let commit = repository.git(&["rev-parse", "HEAD"]);
    info(&format!("profile: dev\ncommit: {commit}files: other\n"));
    said("made has files of no commit; commit them, and run cli/release/build without --dirty");
    let unknown = "1".repeat(40);
    info(&format!(
        "profile: dev\ncommit: {unknown}\nfiles: committed\n"
    ));
    said(&format!("the repository has no commit {unknown}"));
    repository.write("made/a-file", "damaged");
    said("made differs from its SHA256SUMS: a-file: FAILED; run cli/release/build again");
}

/// Compares a folder with what a script in place of `cli/release/build` makes in a second clone.
fn compare(script: &str) -> Output {
    let repository = Repository::new("1.85");
    repository.write("cli/release/build", script);
    let path = repository.path().join("cli/release/build");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("permissions");
    repository.commit();
    let commit = repository.git(&["rev-parse", "HEAD"]);
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    repository.write(
        &format!("made/pirn-0.2.0-{target}.buildinfo"),
        &format!("profile: dev\ncommit: {commit}files: committed\nSOURCE_DATE_EPOCH: 7\n"),
    );
    repository.write("made/a-file", "dev 7\n");
    let mut sums = Command::new("sha256sum");
    let sums = sums
        .arg("a-file")
        .current_dir(repository.path().join("made"));
    let sums = sums.output().expect("sha256sum").stdout;
    repository.write("made/SHA256SUMS", &String::from_utf8(sums).expect("text"));
    repository.write("second/empty", "");
    let mut command = repository.command("compare");
    let second = repository.path().join("second");
    let output = command.arg("made").env("TMPDIR", &second).output();
    // Only a difference keeps the second build.
    let output = output.expect("bash");
    let kept = fs::read_dir(second).expect("a folder").count() - 1;
    assert_eq!(kept, usize::from(!output.status.success()), "{output:?}");
    output
}

#[test]
fn the_same_files_are_reported() {
    let output = compare(
        "#!/bin/sh\nmkdir \"$3\" && cd \"$3\" && echo \"$2 $SOURCE_DATE_EPOCH\" >a-file && \
         sha256sum a-file >SHA256SUMS\n",
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("all 1 files of a second build are the same"),
        "{text}"
    );
}

#[test]
fn a_file_that_differs_is_named() {
    let output = compare(
        "#!/bin/sh\nmkdir \"$3\" && cd \"$3\" && echo \"$PWD\" >a-file && \
         sha256sum a-file >SHA256SUMS\n",
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(text.contains("a-file: FAILED"), "{text}");
    assert!(
        said.contains("differ; run 'diffoscope FILE FILE'"),
        "{said}"
    );
}
