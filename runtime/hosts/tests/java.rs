//! Guests in a Java virtual machine, which uses SIGSEGV for null pointers, stack overflows and
//! safepoints.

use crate::common;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// The classes, in a folder that exists as long as this test program.
static CLASSES: LazyLock<Option<TempDir>> = LazyLock::new(|| {
    let what = "guests in a Java virtual machine";
    if !common::have(what, "javac", "-version") || !common::have(what, "java", "-version") {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut javac = Command::new("javac");
    javac.arg("-d").arg(folder.path());
    common::build(javac.arg(common::sources("java").join("Hosts.java")));
    Some(folder)
});

fn library() -> PathBuf {
    common::library_folder().join("libpirn_hosts.so")
}

/// Runs the class with options of the virtual machine and with arguments.
fn java(options: &[&str], arguments: &[&str]) -> Option<std::process::Output> {
    let folder = CLASSES.as_ref()?.path();
    let mut all: Vec<OsString> = vec!["-cp".into(), folder.into(), "-Xmx64m".into()];
    all.extend(options.iter().map(OsString::from));
    all.extend(["Hosts".into(), library().into()]);
    all.extend(arguments.iter().map(OsString::from));
    Some(common::host(folder, "java", &all))
}

fn ended_well(options: &[&str]) {
    if let Some(output) = java(options, &[]) {
        common::ended_well(&output);
    }
}

#[test]
fn guests_run_while_java_handles_its_own_signals() {
    ended_well(&[]);
}

/// `-Xcheck:jni` makes the virtual machine check its native callers and its signal handlers.
#[test]
fn guests_run_with_javas_check_of_native_code() {
    ended_well(&["-Xcheck:jni"]);
}

#[test]
fn guests_run_with_reduced_signals_in_java() {
    ended_well(&["-Xrs", "-XX:+UseG1GC"]);
}

#[test]
fn java_reports_a_fault_in_native_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = folder.path().join("report.txt");
    let file = format!("-XX:ErrorFile={}", report.display());
    let Some(output) = java(&["-XX:-CreateCoredumpOnCrash", &file], &["fault"]) else {
        return;
    };
    let said = common::said(&output);
    assert!(!output.status.success(), "{said}");
    for line in ["SIGSEGV (0xb)", "libpirn_hosts.so"] {
        assert!(said.contains(line), "{said}");
    }
    // The faulting frame may be a function that `Java_Hosts_fault` calls, depending on inlining.
    let frames = std::fs::read_to_string(&report).expect("Java wrote its report");
    assert!(frames.contains("Java_Hosts_fault"), "{frames}");
}

/// The folders of the virtual machine's library and headers, if there are any.
fn home() -> Option<PathBuf> {
    let mut java = Command::new("java");
    let asked = java
        .args(["-XshowSettings:properties", "-version"])
        .output();
    let told = String::from_utf8(asked.ok()?.stderr).ok()?;
    let line = told
        .lines()
        .find_map(|line| line.trim().strip_prefix("java.home = "));
    line.map(PathBuf::from)
}

#[test]
fn guests_run_if_java_starts_after_the_runtime() {
    let Some(folder) = CLASSES.as_ref() else {
        return;
    };
    if !common::have(
        "a Java virtual machine that is made later",
        "cc",
        "--version",
    ) {
        return;
    }
    let home = home().expect("Java says where it is");
    let (folder, libraries) = (folder.path(), common::library_folder());
    let (machine, program) = (home.join("lib/server"), folder.join("later"));
    let mut cc = Command::new("cc");
    cc.arg(common::sources("c").join("java.c"))
        .arg("-o")
        .arg(&program);
    for include in ["include", "include/linux"] {
        cc.arg("-I").arg(home.join(include));
    }
    for (folder, name) in [(&machine, "-ljvm"), (&libraries, "-lpirn_hosts")] {
        let folder = folder.display();
        cc.args([
            format!("-L{folder}"),
            format!("-Wl,-rpath,{folder}"),
            name.to_owned(),
        ]);
    }
    common::build(&mut cc);
    common::ended_well(&common::host(folder, program, &[folder.into(), library()]));
}
