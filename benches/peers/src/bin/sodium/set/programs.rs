//! Programs of many kinds. `programs/programs.json` lists those in C and C++: each has a C file of
//! the project, and perhaps sources from packages. `programs/go` has those in Go.

use super::{Counts, FLAGS, Library, Program, Set};
use crate::source::{self, Packages};
use crate::tool::said;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that programs include as the elements of a C array.
const EMBEDDED: [&str; 2] = ["script.lua", "script.js"];

/// Finds the set. The scripts are written as C arrays below `out`.
pub fn find(packages: &Packages, out: &Path) -> Result<Set> {
    let folder = source::folder()?.join("programs");
    let arrays = out.join("script");
    for name in EMBEDDED {
        embed(&folder.join(name), &arrays)?;
    }
    let list = folder.join("programs.json");
    let list: Value = serde_json::from_str(&fs::read_to_string(&list)?)
        .with_context(|| list.display().to_string())?;
    let rows = list.as_array().context("programs.json: no array")?;
    let mut used = BTreeSet::new();
    let mut libraries = vec![];
    for row in rows {
        let library = library(row, &folder, packages, &mut used)?;
        libraries.push(library);
    }
    let in_c = |(number, library): (usize, &Library)| {
        program(&folder, &library.name, folder.join("main.c"), number)
    };
    let mut programs: Vec<_> = libraries.iter().enumerate().map(in_c).collect();
    programs.extend(in_go(&folder)?);
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    let about = |name: &String| Ok(format!("{name} {}", packages.get(name)?.version));
    let about: Vec<String> = used.iter().map(about).collect::<Result<_>>()?;
    let about = vec![format!("sources in: {}", about.join(", "))];
    Ok(Set {
        expects: "the files beside them hold",
        contents: contents(&folder, &about)?,
        about,
        programs,
        libraries,
        flags: FLAGS.to_vec(),
        includes: vec![folder.clone(), arrays],
        folder,
        headers: None,
    })
}

/// A program that prints its results or, with an argument, its time.
fn program(folder: &Path, name: &str, main: PathBuf, library: usize) -> Program {
    Program {
        name: name.to_owned(),
        main,
        library,
        expected: folder.join(name).with_extension("exp"),
        timed: true,
        counts: Counts::Argument,
    }
}

/// The programs in Go. There are none without Go's compiler.
fn in_go(folder: &Path) -> Result<Vec<Program>> {
    if let Err(error) = said(Command::new("go").arg("version")) {
        eprintln!("NOT MEASURED: programs in Go; install Go 1.23 or later ({error:#})");
        return Ok(vec![]);
    }
    let mut programs = vec![];
    for entry in fs::read_dir(folder.join("go"))? {
        let main = entry?.path();
        let name = main.file_stem().context("a name")?.to_string_lossy();
        if name != "main" {
            let name = name.into_owned();
            programs.push(program(folder, &name, main, 0));
        }
    }
    Ok(programs)
}

/// The library of one row. Adds the packages that the row names to `used`.
fn library(
    row: &Value,
    folder: &Path,
    packages: &Packages,
    used: &mut BTreeSet<String>,
) -> Result<Library> {
    let name = row["name"].as_str().context("programs.json: no name")?;
    let texts = |key: &str| -> Vec<&str> {
        let texts = row[key].as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).collect()
    };
    let mut expand = |text: &str| -> Result<String> {
        let Some((before, rest)) = text.split_once('@') else {
            return Ok(match text.strip_prefix("-I") {
                Some(path) => format!("-I{}", folder.join(path).display()),
                None => text.to_owned(),
            });
        };
        let (package, path) = rest.split_once('/').context("a path in a package")?;
        used.insert(package.to_owned());
        let root = packages.get(package)?.folder.join(path);
        Ok(format!("{before}{}", root.display()))
    };
    let main = row["main"].as_str();
    let main = main.map_or_else(|| format!("{name}.c"), str::to_owned);
    let mut files = vec![folder.join(main)];
    let without = texts("without");
    for source in texts("sources") {
        let path = PathBuf::from(expand(source)?);
        match source.ends_with("/*.c") {
            true => files.extend(all_c(path.parent().context("a folder")?, &without)?),
            false => files.push(path),
        }
    }
    let flags = texts("flags").into_iter().map(&mut expand);
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
    Ok(Library {
        name: name.to_owned(),
        root: folder.to_owned(),
        files,
        flags: flags.collect::<Result<_>>()?,
        wasm_flags: owned(texts("wasm_flags")),
        wasm_links: owned(texts("wasm_links")),
    })
}

/// The C files of a folder but for some, sorted.
fn all_c(folder: &Path, without: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let is_c = path.extension().is_some_and(|extension| extension == "c");
        if is_c && !without.iter().any(|name| path.ends_with(name)) {
            found.push(path);
        }
    }
    ensure!(!found.is_empty(), "{}: no C files", folder.display());
    found.sort();
    Ok(found)
}

/// Writes a file as the elements of a C array.
fn embed(file: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(file).with_context(|| file.display().to_string())?;
    let text: String = bytes.iter().map(|byte| format!("{byte},")).collect();
    let Some(name) = file.file_name() else {
        bail!("{}: no file", file.display());
    };
    fs::create_dir_all(to)?;
    Ok(fs::write(to.join(name).with_added_extension("inc"), text)?)
}

/// The contents of all files of the project, and the versions of packages.
fn contents(folder: &Path, about: &[String]) -> Result<Vec<String>> {
    let mut files = vec![];
    for entry in fs::read_dir(folder)?.chain(fs::read_dir(folder.join("go"))?) {
        let path = entry?.path();
        let is_output = path.extension().is_some_and(|extension| extension == "exp");
        if path.is_file() && !is_output {
            files.push(path);
        }
    }
    files.sort();
    let texts = files.iter().map(fs::read_to_string);
    let mut contents = texts.collect::<Result<Vec<_>, _>>()?;
    contents.extend_from_slice(about);
    contents.push(include_str!("../../../../sodium/pad.c").to_owned());
    Ok(contents)
}
