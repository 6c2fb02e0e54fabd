//! Random operations on a directory in memory and on a real one: results, errors, and the trees at
//! the end are equal. proptest shrinks what differs. `PROPTEST_CASES` sets the number of cases, of
//! which a third runs by default.

use cap_fs_ext::{DirExt as _, FollowSymlinks, MetadataExt as _};
use cap_fs_ext::{OpenOptionsFollowExt as _, OpenOptionsMaybeDirExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions as RealOptions};
use pirn_memory_files::{
    BaseLimits, FileError, FileKind, Limits, MemoryBase, MemoryDir, MemoryFile, OpenOptions, Opened,
};
use pirn_testing::campaign::share;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Directories and files that a case holds open at most.
const OPEN_MAX: usize = 4;

#[derive(Debug, Clone)]
enum Op {
    Open(usize, String, OpenOptions),
    Mkdir(usize, String),
    Rmdir(usize, String),
    Unlink(usize, String),
    Rename(usize, String, usize, String),
    Link(usize, String, usize, String),
    Symlink(String, usize, String),
    ReadLink(usize, String),
    Stat(usize, String, bool),
    List(usize),
    Read(usize, u64, usize),
    Write(usize, u64, usize, u8),
    SetSize(usize, u64),
    Size(usize),
}

impl Op {
    /// Whether several errors may apply, of which cap-std reports another one first.
    fn has_two_paths(&self) -> bool {
        matches!(self, Self::Rename(..) | Self::Link(..))
    }
}

/// What both sides report. Errors are errno names.
type Answer = Result<String, String>;

/// No path ends in a slash or `.`: cap-std accepts some of those that POSIX refuses, and refuses
/// others. `tests/slashes.rs` compares them with the kernel.
fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![8 => "[a-d]", 1 => Just(".".to_owned()), 1 => Just("..".to_owned())];
    let last = prop_oneof![9 => "[a-d]", 1 => Just("..".to_owned())];
    (prop::collection::vec(name, 0..3), last).prop_map(|(mut names, last)| {
        names.push(last);
        names.join("/")
    })
}

/// A path that ends in a name, for operations on names.
fn named() -> impl Strategy<Value = String> {
    (path(), "[a-d]").prop_map(|(path, name)| match path.rsplit_once('/') {
        Some((above, _)) => format!("{above}/{name}"),
        None => name,
    })
}

fn options() -> impl Strategy<Value = OpenOptions> {
    any::<[bool; 6]>().prop_map(|[read, write, create, exclusive, truncate, no_follow]| {
        OpenOptions {
            // Open for one of the two at least, as the host must.
            read: read || !write,
            write,
            create: create && write,
            exclusive: exclusive && create && write,
            truncate: truncate && write && !exclusive,
            directory: false,
            no_follow,
        }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..OPEN_MAX;
    let offset = || prop_oneof![0..10_u64, 510..515_u64, 65_530..65_540_u64, 0..200_000_u64];
    prop_oneof![
        4 => (at(), path(), options()).prop_map(|(at, path, how)| Op::Open(at, path, how)),
        3 => (at(), named()).prop_map(|(at, path)| Op::Mkdir(at, path)),
        2 => (at(), named()).prop_map(|(at, path)| Op::Rmdir(at, path)),
        2 => (at(), named()).prop_map(|(at, path)| Op::Unlink(at, path)),
        3 => (at(), named(), at(), named()).prop_map(|(a, p, b, q)| Op::Rename(a, p, b, q)),
        2 => (at(), named(), at(), named()).prop_map(|(a, p, b, q)| Op::Link(a, p, b, q)),
        2 => (path(), at(), named()).prop_map(|(to, at, path)| Op::Symlink(to, at, path)),
        1 => (at(), path()).prop_map(|(at, path)| Op::ReadLink(at, path)),
        2 => (at(), path(), any::<bool>()).prop_map(|(at, path, follows)| Op::Stat(at, path, follows)),
        1 => at().prop_map(Op::List),
        3 => (at(), offset(), 0..140_000_usize).prop_map(|(at, from, len)| Op::Read(at, from, len)),
        4 => (at(), offset(), 0..140_000_usize, any::<u8>())
            .prop_map(|(at, from, len, byte)| Op::Write(at, from, len, byte)),
        2 => (at(), offset()).prop_map(|(at, size)| Op::SetSize(at, size)),
        1 => at().prop_map(Op::Size),
    ]
}

/// A pattern that shows where each byte belongs.
fn bytes(from: u64, len: usize, byte: u8) -> Vec<u8> {
    (from..from + len as u64)
        .map(|at| (at as u8).wrapping_mul(31) ^ byte)
        .collect()
}

/// A hash to compare long contents by.
fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{} bytes, {hash:x}", bytes.len())
}

/// One side: a directory, with directories and files opened below it.
trait Side {
    fn apply(&mut self, op: &Op) -> Answer;
    /// The tree: for each path its kind, links and contents.
    fn tree(&self) -> BTreeMap<String, String>;
}

struct Memory {
    dirs: Vec<MemoryDir>,
    files: Vec<MemoryFile>,
}

impl Side for Memory {
    fn apply(&mut self, op: &Op) -> Answer {
        let dir = |at: &usize| &self.dirs[at % self.dirs.len()];
        let file = |at: &usize| self.files.get(*at).ok_or_else(|| "no file".to_owned());
        let name = |error: FileError| format!("{error:?}");
        let done = |result: Result<(), FileError>| result.map(|()| String::new()).map_err(name);
        match op {
            Op::Open(at, path, how) => match dir(at).open(path, how).map_err(name)? {
                Opened::Dir(dir) => {
                    keep(&mut self.dirs, dir);
                    Ok("directory".into())
                }
                Opened::File(file) => {
                    keep(&mut self.files, file);
                    Ok("file".into())
                }
            },
            Op::Mkdir(at, path) => done(dir(at).create_dir(path)),
            Op::Rmdir(at, path) => done(dir(at).remove_dir(path)),
            Op::Unlink(at, path) => done(dir(at).unlink(path)),
            Op::Rename(at, path, to, new) => done(dir(at).rename(path, dir(to), new)),
            Op::Link(at, path, to, new) => done(dir(at).link(path, dir(to), new)),
            Op::Symlink(to, at, path) => done(dir(at).create_symlink(to, path)),
            Op::ReadLink(at, path) => dir(at).read_link(path).map_err(name),
            Op::Stat(at, path, follows) => {
                let stat = dir(at).stat_path(path, *follows).map_err(name)?;
                Ok(stat_text(stat.kind, stat.links, stat.size_bytes))
            }
            Op::List(at) => Ok(format!("{:?}", sorted(names(dir(at))))),
            Op::Read(at, from, len) => {
                let mut found = vec![0; *len];
                let read = file(at)?.read_at(*from, &mut found).map_err(name)?;
                Ok(digest(&found[..read]))
            }
            Op::Write(at, from, len, byte) => {
                let written = file(at)?.write_at(*from, &bytes(*from, *len, *byte));
                written.map(|written| written.to_string()).map_err(name)
            }
            Op::SetSize(at, size) => done(file(at)?.set_size(*size)),
            Op::Size(at) => Ok(file(at)?.size().to_string()),
        }
    }

    fn tree(&self) -> BTreeMap<String, String> {
        let (mut found, mut left) = (BTreeMap::new(), vec![String::new()]);
        let root = &self.dirs[0];
        while let Some(above) = left.pop() {
            let here = if above.is_empty() { "." } else { &above };
            let how = OpenOptions {
                read: true,
                ..OpenOptions::default()
            };
            let dir = root.open(here, &how).unwrap().into_dir().unwrap();
            for name in names(&dir) {
                let path = format!("{above}{name}");
                let stat = dir.stat_path(&name, false).unwrap();
                let mut text = stat_text(stat.kind, stat.links, stat.size_bytes);
                match stat.kind {
                    FileKind::Directory => left.push(format!("{path}/")),
                    FileKind::Symlink => text += &dir.read_link(&name).unwrap(),
                    FileKind::File => {
                        let file = dir.open(&name, &how).unwrap().into_file().unwrap();
                        let mut contents = vec![0; stat.size_bytes as usize];
                        assert_eq!(file.read_at(0, &mut contents), Ok(contents.len()));
                        text += &digest(&contents);
                    }
                }
                found.insert(path, text);
            }
        }
        found
    }
}

/// The names of a directory, listed three at a time.
fn names(dir: &MemoryDir) -> Vec<String> {
    let (mut names, mut cookie) = (vec![], 0);
    loop {
        let some = dir.read_dir(cookie, 3);
        let Some(last) = some.last() else {
            return names;
        };
        cookie = last.cookie;
        let named = some.into_iter().map(|entry| entry.name);
        names.extend(named.filter(|name| name != "." && name != ".."));
    }
}

struct Real {
    dirs: Vec<Dir>,
    files: Vec<File>,
}

impl Real {
    fn list(dir: &Dir) -> io::Result<Vec<String>> {
        let names = dir.entries()?;
        names
            .map(|entry| Ok(entry?.file_name().into_string().unwrap()))
            .collect()
    }
}

impl Side for Real {
    fn apply(&mut self, op: &Op) -> Answer {
        let dir = |at: &usize| &self.dirs[at % self.dirs.len()];
        let file = |at: &usize| self.files.get(*at).ok_or_else(|| "no file".to_owned());
        let done = |result: io::Result<()>| result.map(|()| String::new()).map_err(errno);
        match op {
            Op::Open(at, path, how) => {
                let mut options = RealOptions::new();
                let follow = if how.no_follow {
                    FollowSymlinks::No
                } else {
                    FollowSymlinks::Yes
                };
                options
                    .maybe_dir(true)
                    .read(how.read)
                    .write(how.write)
                    .create(how.create && !how.exclusive)
                    .create_new(how.exclusive)
                    .truncate(how.truncate)
                    .follow(follow);
                let opened = dir(at).open_with(path, &options).map_err(errno)?;
                if opened.metadata().unwrap().is_dir() {
                    keep(&mut self.dirs, Dir::from_std_file(opened.into_std()));
                    return Ok("directory".into());
                }
                keep(&mut self.files, opened);
                Ok("file".into())
            }
            Op::Mkdir(at, path) => done(dir(at).create_dir(path)),
            Op::Rmdir(at, path) => done(dir(at).remove_dir(path)),
            Op::Unlink(at, path) => done(dir(at).remove_file_or_symlink(path)),
            Op::Rename(at, path, to, new) => done(dir(at).rename(path, dir(to), new)),
            Op::Link(at, path, to, new) => done(dir(at).hard_link(path, dir(to), new)),
            Op::Symlink(to, at, path) => done(dir(at).symlink(to, path)),
            Op::ReadLink(at, path) => {
                let target = dir(at).read_link(path).map_err(errno)?;
                Ok(target.to_str().unwrap().to_owned())
            }
            Op::Stat(at, path, follows) => {
                let found = match follows {
                    true => dir(at).metadata(path),
                    false => dir(at).symlink_metadata(path),
                };
                found.map(|found| real_text(&found)).map_err(errno)
            }
            Op::List(at) => {
                let names = Self::list(dir(at)).map_err(errno)?;
                Ok(format!("{:?}", sorted(names)))
            }
            Op::Read(at, from, len) => {
                let mut found = vec![0; *len];
                let file = file(at)?.try_clone().unwrap().into_std();
                let read = file.read_at(&mut found, *from).map_err(errno)?;
                Ok(digest(&found[..read]))
            }
            Op::Write(at, from, len, byte) => {
                let file = file(at)?.try_clone().unwrap().into_std();
                let written = file.write_at(&bytes(*from, *len, *byte), *from);
                written.map(|written| written.to_string()).map_err(errno)
            }
            Op::SetSize(at, size) => done(file(at)?.set_len(*size)),
            Op::Size(at) => Ok(file(at)?.metadata().unwrap().len().to_string()),
        }
    }

    fn tree(&self) -> BTreeMap<String, String> {
        let (mut found, mut left) = (BTreeMap::new(), vec![String::new()]);
        while let Some(above) = left.pop() {
            let here = if above.is_empty() { "." } else { &above };
            let dir = self.dirs[0].open_dir(here).unwrap();
            for name in Self::list(&dir).unwrap() {
                let path = format!("{above}{name}");
                let stat = dir.symlink_metadata(&name).unwrap();
                let mut text = real_text(&stat);
                if stat.is_dir() {
                    left.push(format!("{path}/"));
                } else if stat.is_symlink() {
                    text += dir.read_link_contents(&name).unwrap().to_str().unwrap();
                } else {
                    text += &digest(&dir.read(&name).unwrap());
                }
                found.insert(path, text);
            }
        }
        found
    }
}

fn real_text(found: &cap_std::fs::Metadata) -> String {
    let kind = match (found.is_dir(), found.is_symlink()) {
        (true, _) => FileKind::Directory,
        (_, true) => FileKind::Symlink,
        _ => FileKind::File,
    };
    stat_text(kind, found.nlink(), found.len())
}

/// Sizes and links of directories depend on the file system.
fn stat_text(kind: FileKind, links: u64, size: u64) -> String {
    match kind {
        FileKind::Directory => "directory ".into(),
        _ => format!("{kind:?} {links} links {size} "),
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn keep<T>(all: &mut Vec<T>, new: T) {
    if all.len() == OPEN_MAX {
        all.remove(1);
    }
    all.push(new);
}

/// The error of an operation on a real directory.
pub(crate) fn file_error(error: &io::Error) -> Option<FileError> {
    use rustix::io::Errno;
    Some(match Errno::from_io_error(error) {
        Some(Errno::NOENT) => FileError::NotFound,
        Some(Errno::EXIST) => FileError::Exists,
        Some(Errno::NOTDIR) => FileError::NotDirectory,
        Some(Errno::ISDIR) => FileError::IsDirectory,
        Some(Errno::NOTEMPTY) => FileError::NotEmpty,
        Some(Errno::LOOP) => FileError::Loop,
        Some(Errno::INVAL) => FileError::Invalid,
        Some(Errno::BUSY) => FileError::Busy,
        Some(Errno::PERM) => FileError::NotPermitted,
        Some(Errno::BADF) => FileError::BadDescriptor,
        None if error.kind() == io::ErrorKind::PermissionDenied => FileError::NotPermitted,
        None if error.kind() == io::ErrorKind::InvalidInput => FileError::Invalid,
        _ => return None,
    })
}

#[allow(clippy::needless_pass_by_value)]
fn errno(error: io::Error) -> String {
    file_error(&error).map_or_else(|| format!("{error:?}"), |name| format!("{name:?}"))
}

/// Runs the first operations on a real directory, makes a base of it, and the rest on both.
fn compare(before: &[Op], after: &[Op]) {
    let folder = tempfile::tempdir().unwrap();
    let open = || Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let mut real = Real {
        dirs: vec![open()],
        files: vec![],
    };
    for op in before {
        let _ = real.apply(op);
    }
    let base = MemoryBase::from_dir(&open(), &BaseLimits::default()).unwrap();
    let root = MemoryDir::new(&base, Limits::default());
    let mut memory = Memory {
        dirs: vec![root.clone()],
        files: vec![],
    };
    real = Real {
        dirs: vec![open()],
        files: vec![],
    };
    assert_eq!(real.tree(), memory.tree(), "the base");
    let fresh = MemoryDir::new(&base, Limits::default());
    let before = Memory {
        dirs: vec![fresh],
        files: vec![],
    }
    .tree();
    for (number, op) in after.iter().enumerate() {
        let answers = (real.apply(op), memory.apply(op));
        if !(op.has_two_paths() && answers.0.is_err() && answers.1.is_err()) {
            assert_eq!(answers.0, answers.1, "operation {number}: {op:?}");
        }
    }
    assert_eq!(real.tree(), memory.tree(), "the trees at the end");
    // Other instances of the base see nothing of it.
    let fresh = MemoryDir::new(&base, Limits::default());
    assert_eq!(
        Memory {
            dirs: vec![fresh],
            files: vec![]
        }
        .tree(),
        before
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: share(ProptestConfig::default().cases.into(), 3) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_operations_do_the_same_as_on_a_real_directory(
        before in prop::collection::vec(op(), 0..30),
        after in prop::collection::vec(op(), 1..60),
    ) {
        compare(&before, &after);
    }
}
