//! libsodium's test programs: the files, the flags, and the programs that are left out.

use super::{Counts, FLAGS, Library, Program, Set, sources};
use crate::source::{self, Packages};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// libsodium uses assembly, intrinsics and inline assembly only for CPUs that the flags name. These
/// flags name none. libsodium uses the AES tables by itself on WebAssembly.
const SODIUM_FLAGS: &[&str] = &[
    "-D_GNU_SOURCE=1",
    "-DCONFIGURED=1",
    "-DDEV_MODE=1",
    "-DFAVOR_PERFORMANCE=1",
    "-DHAVE_ATOMIC_OPS=1",
    "-DHAVE_C11_MEMORY_FENCES=1",
    "-DHAVE_CLOCK_GETTIME=1",
    "-DHAVE_GCC_MEMORY_FENCES=1",
    "-DHAVE_GETENTROPY=1",
    "-DHAVE_INTTYPES_H=1",
    "-DHAVE_NANOSLEEP=1",
    "-DHAVE_POSIX_MEMALIGN=1",
    "-DHAVE_STDINT_H=1",
    "-DHAVE_SYS_PARAM_H=1",
    "-DHAVE_SYS_RANDOM_H=1",
    "-DNATIVE_LITTLE_ENDIAN=1",
    "-include",
    "time.h",
];

/// libsodium programs that fault on purpose, to test the guard pages of a native allocator.
const LEFT_OUT: [&str; 2] = ["sodium_utils2", "sodium_utils3"];

/// libsodium programs that compute nothing when they are timed. AES-GCM needs CPU instructions that
/// the build does not have. Other programs compute only in arguments of printf, which a timed
/// program removes. One program measures the host's random numbers.
const UNTIMED: [&str; 7] = [
    "aead_aes256gcm",
    "aead_aes256gcm2",
    "misuse",
    "onetimeauth2",
    "randombytes",
    "sodium_core",
    "sodium_version",
];

/// Finds the set. Its sources are unpacked below `out`.
pub fn find(packages: &Packages, out: &Path) -> Result<Set> {
    let source = packages.libsodium(out)?;
    let root = source.join("src/libsodium");
    let tests = source.join("test/default");
    let program = |path: PathBuf| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        Some(Program {
            main: path,
            library: 0,
            expected: tests.join(format!("{name}.exp")),
            timed: !UNTIMED.contains(&name.as_str()),
            counts: Counts::Compiled,
            name,
        })
    };
    let mut programs = vec![];
    sources(&tests, &mut programs)?;
    let mut programs: Vec<_> = programs.into_iter().filter_map(program).collect();
    programs.retain(|program| !LEFT_OUT.contains(&program.name.as_str()));
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    let mut files = vec![];
    sources(&root, &mut files)?;
    files.sort();
    let include = root.join("include");
    let version = &packages.get("libsodium-sys-stable")?.version;
    let folder = source::folder()?;
    Ok(Set {
        expects: "libsodium's authors expect",
        about: vec![format!("libsodium: as in libsodium-sys-stable {version}")],
        programs,
        libraries: vec![Library {
            name: "library".to_owned(),
            root,
            files,
            flags: vec!["-fvisibility=hidden".to_owned()],
            ..Library::default()
        }],
        flags: [FLAGS, SODIUM_FLAGS].concat(),
        includes: vec![
            include.clone(),
            include.join("sodium"),
            source.join("test/quirks"),
        ],
        folder: tests,
        contents: vec![
            include_str!("../../../../sodium/right.h").to_owned(),
            include_str!("../../../../sodium/timed.h").to_owned(),
        ],
        headers: Some(["right.h", "timed.h"].map(|name| folder.join(name))),
    })
}
