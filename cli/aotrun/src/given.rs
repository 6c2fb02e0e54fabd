//! [`Given`]: the arguments, variables and directories that the options give the guest.

use crate::args::Args;
use crate::memory_dir::MemoryDirectory;
use anyhow::{Context, Result, bail};
use pirn_wasi::{Dir, MemoryDir, WasiCtxBuilder, ambient_authority};
use std::path::Path;

/// The arguments, variables, directories and limits that the options give the guest. The
/// directories are open.
pub(crate) struct Given {
    /// The name of the program, and the guest's arguments.
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
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
        let name = name.map(|name| name.to_string_lossy().into_owned());
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
                .arg(arg)
                .with_context(|| format!("argument {arg:?} cannot be passed to the guest"))?;
        }
        for (name, value) in &self.env {
            wasi = wasi
                .env(name, value)
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
fn variable_of(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some(("", _)) | None if text.is_empty() || text.starts_with('=') => {
            bail!("--env {text:?} names no variable; write --env NAME=VALUE")
        }
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match std::env::var(text) {
            Ok(value) => Ok((text.to_owned(), value)),
            Err(error) => bail!("--env {text}: {error}; give it a value with --env {text}=VALUE"),
        },
    }
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
        assert_eq!(
            variable_of("A=b=c").unwrap(),
            ("A".to_owned(), "b=c".to_owned())
        );
        assert_eq!(variable_of("A=").unwrap(), ("A".to_owned(), String::new()));
        for text in ["", "=", "=b", "PIRN_NO_SUCH_VARIABLE"] {
            assert!(variable_of(text).is_err(), "{text}");
        }
    }
}
