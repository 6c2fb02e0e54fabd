//! Paths against Linux: each call of `pirn_testing::paths`, over a directory of the host and over a
//! directory in memory.

use crate::filesystem::driver::{self, Guest, flags, text, to_bytes};
use pirn_component::{Resource, Value};
use pirn_testing::paths::{
    Answer, Call, Files, How, INTENDED, MEMORY_FILES_HAVE_NO_MODE, TOUCHED_S, Tree, calls, compare,
    entry, make, of_directory, of_wasi2,
};
use pirn_wasi2::{BaseLimits, Dir, MemoryBase, MemoryLimits, WasiBuilder, ambient_authority};
use std::fs;
use std::path::{Path, PathBuf};

/// A guest whose directory is `folder`, or a copy of it in memory.
struct Wasi2 {
    folder: PathBuf,
    is_in_memory: bool,
    guest: Option<(Guest, Resource)>,
}

fn lookup(follow: bool) -> Value {
    flags(if follow { &["symlink-follow"] } else { &[] })
}

fn record(value: Option<Value>) -> Vec<(String, Value)> {
    match value {
        Some(Value::Record(fields)) => fields,
        other => panic!("{other:?} is no record"),
    }
}

/// The text of a `descriptor-stat`.
fn stat(found: Option<Value>) -> String {
    let fields = record(found);
    match [&fields[0].1, &fields[1].1, &fields[2].1] {
        [Value::Enum(kind), Value::U64(links), Value::U64(size)] => match &**kind {
            "directory" => "directory".to_owned(),
            "symbolic-link" => format!("link of {size} bytes"),
            _ => format!("file of {size} bytes, {links} links"),
        },
        _ => panic!("{fields:?} is no status"),
    }
}

/// The modification time of a `descriptor-stat`, in seconds.
fn modified_s(found: Option<Value>) -> u64 {
    match record(found).swap_remove(4).1 {
        Value::Option(Some(time)) => match record(Some(*time))[0].1 {
            Value::U64(seconds) => seconds,
            ref other => panic!("{other:?} is no number"),
        },
        other => panic!("{other:?} is no time"),
    }
}

fn read(guest: &mut Guest, file: Resource, len: u64) -> driver::Answer<String> {
    let read = guest.on(file, "read", &[Value::U64(len), Value::U64(0)])?;
    match read {
        Some(Value::Tuple(parts)) => Ok(String::from_utf8(to_bytes(&parts[0])).expect("UTF-8")),
        other => panic!("{other:?} is no tuple"),
    }
}

fn open(guest: &mut Guest, root: Resource, how: How, path: &str) -> driver::Answer<String> {
    let set = |all: &[(bool, &'static str)]| {
        let set = all.iter().filter(|(is_set, _)| *is_set);
        flags(&set.map(|(_, name)| *name).collect::<Vec<_>>())
    };
    let params = [
        lookup(how.follows),
        text(path),
        set(&[
            (how.creates, "create"),
            (how.is_exclusive, "exclusive"),
            (how.truncates, "truncate"),
            (how.is_directory, "directory"),
        ]),
        set(&[(how.access.reads(), "read"), (how.access.writes(), "write")]),
    ];
    let opened = guest.make(root, "open-at", &params)?;
    let mut found = stat(guest.on(opened, "stat", &[])?);
    if found.starts_with("file") {
        if how.access.reads() {
            found += &read(guest, opened, 16)?;
        }
        if how.access.writes() {
            guest.on(opened, "write", &[driver::bytes(b"+"), Value::U64(0)])?;
        }
    }
    guest.drop(opened)?;
    Ok(found)
}

impl Wasi2 {
    fn new(folder: &Path, is_in_memory: bool) -> Self {
        Self {
            folder: folder.join("wasi2"),
            is_in_memory,
            guest: None,
        }
    }

    fn answer(&mut self, call: &Call) -> driver::Answer<String> {
        let (guest, root) = self.guest.as_mut().expect("there is a guest");
        let root = *root;
        let to = Value::Borrow(root);
        let done = |_| String::new();
        let mut on = |name: &str, params: &[Value]| guest.on(root, name, params);
        match call {
            Call::Open { how, path } => open(guest, root, *how, path),
            Call::CreateDirectory(path) => on("create-directory-at", &[text(path)]).map(done),
            Call::RemoveDirectory(path) => on("remove-directory-at", &[text(path)]).map(done),
            Call::Unlink(path) => on("unlink-file-at", &[text(path)]).map(done),
            Call::Rename(from, new) => on("rename-at", &[text(from), to, text(new)]).map(done),
            Call::Link {
                follow,
                from,
                to: new,
            } => {
                on("link-at", &[lookup(*follow), text(from), to, text(new)])?;
                on("stat-at", &[lookup(false), text(new)]).map(stat)
            }
            Call::Symlink { target, path } => {
                on("symlink-at", &[text(target), text(path)]).map(done)
            }
            Call::ReadLink(path) => match on("readlink-at", &[text(path)])? {
                Some(Value::String(target)) => Ok(target),
                other => panic!("{other:?} is no text"),
            },
            Call::Stat { follow, path } => on("stat-at", &[lookup(*follow), text(path)]).map(stat),
            Call::SetTimes { follow, path } => {
                let time = Value::Record(vec![
                    ("seconds".to_owned(), Value::U64(TOUCHED_S)),
                    ("nanoseconds".to_owned(), Value::U32(0)),
                ]);
                let time = Value::Variant("timestamp".to_owned(), Some(Box::new(time)));
                let params = [lookup(*follow), text(path), time.clone(), time];
                on("set-times-at", &params).map(done)
            }
        }
    }

    /// What the directory contains, as the guest sees it.
    fn seen(&mut self) -> driver::Answer<Tree> {
        fn add(
            guest: &mut Guest,
            root: Resource,
            tree: &mut Tree,
            path: &str,
        ) -> driver::Answer<()> {
            let params = [lookup(false), text(path)];
            let found = guest.on(root, "stat-at", &params)?;
            let (kind, modified_s) = (stat(found.clone()), modified_s(found));
            let kind = if kind == "directory" {
                let dir = guest.open(root, path, &[], &["read"])?;
                let entries = guest.make(dir, "read-directory", &[])?;
                while let Some(Value::Option(Some(found))) =
                    guest.on(entries, "read-directory-entry", &[])?
                {
                    let Value::String(name) = &record(Some(*found))[1].1 else {
                        panic!("an entry without a name")
                    };
                    let below = match path {
                        "." => name.clone(),
                        _ => format!("{path}/{name}"),
                    };
                    add(guest, root, tree, &below)?;
                }
                guest.drop(entries)?;
                guest.drop(dir)?;
                kind
            } else if kind.starts_with("link") {
                match guest.on(root, "readlink-at", &[text(path)])? {
                    Some(Value::String(target)) => format!("link to {target}"),
                    other => panic!("{other:?} is no text"),
                }
            } else {
                let file = guest.open(root, path, &[], &["read"])?;
                let content = read(guest, file, 100)?;
                guest.drop(file)?;
                format!("file {content:?}")
            };
            let entry = entry(&kind, MEMORY_FILES_HAVE_NO_MODE, modified_s);
            tree.insert(path.to_owned(), entry);
            Ok(())
        }
        let (guest, root) = self.guest.as_mut().expect("there is a guest");
        let mut tree = Tree::new();
        add(guest, *root, &mut tree, ".").map(|()| tree)
    }
}

impl Files for Wasi2 {
    fn renew(&mut self) {
        self.guest = None;
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir(&self.folder).expect("room for a directory");
        make(&self.folder);
        let dir = Dir::open_ambient_dir(&self.folder, ambient_authority()).expect("it is there");
        let wasi = WasiBuilder::new();
        let wasi = if self.is_in_memory {
            let base = MemoryBase::from_dir(&dir, &BaseLimits::default()).expect("it is small");
            wasi.memory_dir(&base, MemoryLimits::default(), "/")
        } else {
            wasi.preopened_dir(dir, "/")
        };
        let mut guest = Guest::new(wasi.build());
        let (root, _) = guest.directories()[0];
        self.guest = Some((guest, root));
    }

    fn call(&mut self, call: &Call) -> Answer {
        self.answer(call).map_err(|code| of_wasi2(&code))
    }

    fn tree(&mut self) -> Tree {
        match self.is_in_memory {
            true => self.seen().expect("the tree can be read"),
            false => of_directory(&self.folder),
        }
    }
}

fn check(is_in_memory: bool) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut files = Wasi2::new(folder.path(), is_in_memory);
    // WASI 0.2 opens no file to append: it has a stream for that.
    let calls = calls();
    let calls = calls
        .into_iter()
        .filter(|call| !matches!(call, Call::Open { how, .. } if how.appends));
    compare(folder.path(), &mut files, calls, &INTENDED);
}

#[test]
fn directories_of_the_host_answer_as_linux() {
    check(false);
}

#[test]
fn directories_in_memory_answer_as_linux() {
    check(true);
}
