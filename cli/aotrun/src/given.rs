//! [`Given`]: the arguments, variables and directories that the options give the guest.

use crate::args::Args;
use crate::memory_dir::MemoryDirectory;
use anyhow::{Context, Result, bail};
use pirn_wasi::{Dir, MemoryDir, WasiCtxBuilder, ambient_authority};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The arguments, variables, directories and limits that the options give the guest. The
/// directories are open.
pub(crate) struct Given {
    /// The name of the program, and the guest's arguments.
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) dirs: Vec<OpenDirectory>,
    pub(crate) memory_dirs: Vec<MemoryDirectory>,
    pub(crate) descriptors_max: u32,
    pub(crate) disk_bytes_max: Option<u64>,
}

/// A directory that an option gives the guest.
pub(crate) struct OpenDirectory {
    /// The option's text as the user wrote it.
    text: String,
    pub(crate) dir: Dir,
    /// The path at which the guest sees the directory.
    pub(crate) guest: String,
    pub(crate) is_read_only: bool,
}

impl Given {
    /// Checks the options, and opens the directories.
    pub(crate) fn of(args: &Args) -> Result<Self> {
        let name = args.program.file_name();
        let name = name.map(ToOwned::to_owned);
        let arguments = if args.invoke.is_some() {
            &[][..]
        } else {
            &args.args
        };
        let env = args.env.iter().map(|text| variable_of(text));
        let env = env.collect::<Result<_>>()?;
        let dirs = args.dir.iter().map(|text| Directory::of(text)?.open());
        let memory = |text: &String| MemoryDirectory::of(text, args.memory_dir_max as u64);
        let memory_dirs = args.memory_dir.iter().map(memory);
        Ok(Self {
            memory_dirs: memory_dirs.collect::<Result<_>>()?,
            args: name.into_iter().chain(arguments.iter().cloned()).collect(),
            env,
            dirs: dirs.collect::<Result<_>>()?,
            descriptors_max: args.fd_max,
            disk_bytes_max: args.disk_max.map(|bytes| bytes as u64),
        })
    }

    /// Number of descriptors with which a guest of preview 1 starts: the standard streams and the
    /// directories.
    pub(crate) fn descriptors(&self) -> u32 {
        3 + (self.dirs.len() + self.memory_dirs.len()) as u32
    }

    /// Adds the arguments, variables, streams and directories to a context of WASI preview 1.
    pub(crate) fn add_to(self, wasi: WasiCtxBuilder) -> Result<WasiCtxBuilder> {
        let mut wasi = wasi.inherit_stdio().descriptors_max(self.descriptors_max);
        if let Some(bytes) = self.disk_bytes_max {
            wasi = wasi.disk_bytes_max(bytes);
        }
        for arg in &self.args {
            wasi = wasi
                .arg(arg.as_bytes())
                .with_context(|| format!("argument {arg:?} cannot be passed to the guest"))?;
        }
        for (name, value) in &self.env {
            wasi = wasi
                .env(name.as_bytes(), value.as_bytes())
                .with_context(|| format!("variable {name:?} cannot be passed to the guest"))?;
        }
        for OpenDirectory {
            text,
            dir,
            guest,
            is_read_only,
        } in self.dirs
        {
            let given = match is_read_only {
                true => wasi.preopened_dir_read_only(dir, &guest),
                false => wasi.preopened_dir(dir, &guest),
            };
            wasi = given.with_context(|| format!("--dir {text}: cannot be given to the guest"))?;
        }
        for given in self.memory_dirs {
            let dir = MemoryDir::new(&given.base, given.limits);
            let text = given.text;
            wasi = wasi
                .memory_dir(dir, &given.guest)
                .with_context(|| format!("--memory-dir {text}: cannot be given to the guest"))?;
        }
        Ok(wasi)
    }
}

/// A parsed `--dir` option.
#[derive(Debug, PartialEq, Eq)]
struct Directory<'a> {
    /// The option's text as the user wrote it.
    text: &'a str,
    host: &'a str,
    guest: &'a str,
    is_read_only: bool,
}

impl<'a> Directory<'a> {
    /// Parses `HOST[::GUEST][:ro]`. Only a `:ro` at the very end is the flag. The last `::`
    /// separates HOST and GUEST. Therefore the name of HOST may contain `:ro` and `::`.
    fn of(text: &'a str) -> Result<Self> {
        let (rest, is_read_only) = match text.strip_suffix(":ro") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (host, guest) = rest.rsplit_once("::").unwrap_or((rest, rest));
        if host.is_empty() || guest.is_empty() {
            bail!("--dir {text:?} has an empty HOST or GUEST; write --dir HOST[::GUEST][:ro]");
        }
        Ok(Self {
            text,
            host,
            guest,
            is_read_only,
        })
    }

    fn open(&self) -> Result<OpenDirectory> {
        let Self { text, host, .. } = self;
        let dir = Dir::open_ambient_dir(Path::new(host), ambient_authority());
        let dir = dir.with_context(|| {
            let remedy = self.remedy();
            format!("--dir {text}: cannot open the directory {host}{remedy}")
        })?;
        Ok(OpenDirectory {
            text: self.text.to_owned(),
            dir,
            guest: self.guest.to_owned(),
            is_read_only: self.is_read_only,
        })
    }

    /// For the error message: a better `--dir` option if a directory has exactly the given text as
    /// its name.
    fn remedy(&self) -> String {
        let text = self.text;
        match Path::new(text).is_dir() {
            true if text.contains("::") => format!("; for {text} write --dir {text}::GUEST"),
            true => format!("; for {text} write --dir {text}/"),
            false => String::new(),
        }
    }
}

/// Name and value of an `--env` option.
fn variable_of(text: &OsStr) -> Result<(OsString, OsString)> {
    let mut parts = text.as_bytes().splitn(2, |byte| *byte == b'=');
    let (name, value) = (parts.next().unwrap_or_default(), parts.next());
    if name.is_empty() {
        bail!("--env {text:?} names no variable; write --env NAME=VALUE")
    }
    let value = match value {
        Some(value) => OsStr::from_bytes(value).to_owned(),
        None => std::env::var_os(text).with_context(|| {
            let text = text.display();
            format!(
                "--env {text}: environment variable not found; give it a value with --env \
                 {text}=VALUE"
            )
        })?,
    };
    Ok((OsStr::from_bytes(name).to_owned(), value))
}

/// A text for a guest whose interface has no other bytes.
pub(crate) fn utf_8(text: &OsStr) -> Result<&str> {
    text.to_str().with_context(|| {
        format!("{text:?} is not UTF-8, and this guest takes only text; give it another")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_and_may_be_read_only() {
        let parsed = |text| {
            let dir = Directory::of(text).ok()?;
            Some((dir.host, dir.guest, dir.is_read_only))
        };
        assert_eq!(parsed("a"), Some(("a", "a", false)));
        assert_eq!(parsed("a::/b"), Some(("a", "/b", false)));
        assert_eq!(parsed("a:ro"), Some(("a", "a", true)));
        assert_eq!(parsed("a::b:ro"), Some(("a", "b", true)));
        // HOST names that contain `:ro` or `::`.
        assert_eq!(parsed("a:ro/"), Some(("a:ro/", "a:ro/", false)));
        assert_eq!(parsed("a:ro::b"), Some(("a:ro", "b", false)));
        assert_eq!(parsed("a:ro:ro"), Some(("a:ro", "a:ro", true)));
        assert_eq!(parsed("a::b::c:ro"), Some(("a::b", "c", true)));
        for text in ["", ":ro", "::", "a::", "::b", "a:::ro", "::b:ro"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn variables_have_names() {
        let pair = |name: &[u8], value: &[u8]| {
            let text = |bytes| OsStr::from_bytes(bytes).to_owned();
            (text(name), text(value))
        };
        let parsed = |text: &[u8]| variable_of(OsStr::from_bytes(text));
        assert_eq!(parsed(b"A=b=c").unwrap(), pair(b"A", b"b=c"));
        assert_eq!(parsed(b"A=").unwrap(), pair(b"A", b""));
        assert_eq!(parsed(b"\xff=\xfe").unwrap(), pair(b"\xff", b"\xfe"));
        for text in ["", "=", "=b", "PIRN_NO_SUCH_VARIABLE"] {
            assert!(parsed(text.as_bytes()).is_err(), "{text}");
        }
    }
}
