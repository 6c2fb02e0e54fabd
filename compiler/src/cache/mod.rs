//! [`Cache`]: a folder of compiled functions for later compilations. Off by default.
//!
//! The key of a function is a hash of everything that decides the machine code: this exact
//! compiler, the settings, and the translated function. In the translated function, other functions
//! have local numbers instead of names, and locations in the WebAssembly file are relative to the
//! function's first location. So the cache finds a function even if the function or its callees
//! have moved. The cache stores a [`CompiledFunction`] in the same relative form.
//!
//! Keys are distributed evenly over a fixed number of files, the [`Pack`]s, each of which holds
//! [entries](entry).
//! A pack is rewritten as a whole and renamed, so readers see either the old or the new one.
//! Content is used only if its checksum, over key and content, is right; otherwise it is treated as
//! absent. This detects accidents but not attackers: anyone with write access to the folder
//! controls what guests do. So other users must not have write access.

mod entry;
mod pack;

use crate::code::CompiledFunction;
use crate::error::CompileError;
use crate::symbol::Symbol;
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use entry::StoredFunction;
use pack::Pack;
use rayon::prelude::*;
use std::fs::{self, DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of packs of a folder. A pack is an open file while a module is compiled, and one new
/// function causes a rewrite of a whole pack.
const PACKS: usize = 64;

/// Most bytes of the packs of a folder, unless [`Cache::bytes_max`] says otherwise.
const CACHE_BYTES_MAX: u64 = 1 << 30;

/// Permission bits that let the group or all others write to a folder or file.
const OTHERS_WRITE: u32 = 0o022;

/// BLAKE3 of everything that decides the machine code of a function.
type Key = [u8; 32];

/// A folder of compiled functions ([`Options::cache`](crate::Options::cache)). Many compilations,
/// in this process and in others, may use the folder at once. The folder may be deleted at any
/// time.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    bytes_max: u64,
    /// Hash of the running program.
    build: Key,
    hits: AtomicUsize,
    misses: AtomicUsize,
}

impl Cache {
    /// Opens a folder. Creates it, for this user only, if it does not exist.
    ///
    /// Anyone who can write to the folder controls the code of guests, because machine code is read
    /// from it.
    ///
    /// # Errors
    ///
    /// [`CompileError::Options`] if the path is no folder, if the folder cannot be created, or if
    /// others may write to it. Others may write if the owner is neither this user nor root, or if
    /// the mode allows it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, CompileError> {
        let folder = folder.into();
        check(&folder).map_err(|message| {
            CompileError::Options(format!("cache {}: {message}", folder.display()))
        })?;
        let build = build().map_err(|error| {
            CompileError::Options(format!(
                "cache: cannot read the running program, whose hash is a part of each key: {}; \
                 compile without a cache",
                error.kind()
            ))
        })?;
        pack::remove_leftovers(&folder);
        Ok(Self {
            folder,
            bytes_max: CACHE_BYTES_MAX,
            build,
            hits: AtomicUsize::new(0),
            misses: AtomicUsize::new(0),
        })
    }

    /// Sets the maximum size in bytes of the folder's 64 files together (default: 1 GiB). A file
    /// may have a 64th of this size, and is cut to its share at its next write. One compilation
    /// adds at most a quarter of the share to a file, so that no single module can evict all
    /// others.
    #[must_use]
    pub fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Functions that all compilations with this cache have found.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    /// Functions that were not found and were compiled. Functions with intrinsics are not looked
    /// up.
    #[must_use]
    pub fn misses(&self) -> usize {
        self.misses.load(Ordering::Relaxed)
    }
}

/// Creates the folder if it does not exist, and refuses a folder that others may write to.
fn check(folder: &Path) -> Result<(), String> {
    if !folder.exists() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("{}; name another folder", error.kind()))?;
    }
    let metadata = fs::metadata(folder);
    let metadata = metadata.map_err(|error| format!("{}; name another folder", error.kind()))?;
    if !metadata.is_dir() {
        return Err(
            "it is not a folder; name a folder, or a path where one can be made".to_owned(),
        );
    }
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user && owner != 0 {
        return Err(format!(
            "its owner is user {owner}, aotc runs as user {user}, and the owner could put code \
             into it; name a folder of your own"
        ));
    }
    let mode = metadata.mode() & 0o777;
    if mode & OTHERS_WRITE != 0 {
        let private = mode & !OTHERS_WRITE;
        return Err(format!(
            "its mode {mode:o} lets other users put code into it; if nobody has, change the mode \
             to {private:o}"
        ));
    }
    Ok(())
}

/// A hash of the running program, so that any change of the compiler changes all keys.
fn build() -> io::Result<Key> {
    static BUILD: OnceLock<Key> = OnceLock::new();
    if let Some(known) = BUILD.get() {
        return Ok(*known);
    }
    // This path refers to the running program, even if its file was replaced.
    let program = File::open("/proc/self/exe");
    let program = program.or_else(|_| File::open(std::env::current_exe()?))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(program)?;
    Ok(*BUILD.get_or_init(|| hasher.finalize().into()))
}

/// The use of a cache by one compilation.
pub(crate) struct Run<'a> {
    cache: &'a Cache,
    /// The part of every key besides the function.
    settings: blake3::Hasher,
    packs: Vec<Pack>,
}

impl<'a> Run<'a> {
    /// Starts to use a cache for code that is generated with these settings. `hash_settings` hashes
    /// everything else that decides a [`CompiledFunction`].
    pub(crate) fn new(
        cache: &'a Cache,
        isa: &dyn TargetIsa,
        hash_settings: impl FnOnce(&mut Input),
    ) -> Self {
        let mut all = Input(vec![]);
        (pack::MAGIC, cache.build, cranelift_codegen::VERSION).hash(&mut all);
        hash_settings(&mut all);
        (
            isa.name(),
            isa.triple(),
            isa.flags(),
            isa.isa_flags_hash_key(),
        )
            .hash(&mut all);
        let mut settings = blake3::Hasher::new();
        settings.update(&all.0);
        let bytes_max = cache.bytes_max / PACKS as u64;
        let pack = |number| Pack::new(cache.folder.join(format!("{number:02x}")), bytes_max);
        Self {
            cache,
            settings,
            packs: (0..PACKS).map(pack).collect(),
        }
    }

    /// The key of a translated function.
    pub(crate) fn key(&self, func: &ir::Function) -> Key {
        let mut input = Input(vec![]);
        func.stencil.hash(&mut input);
        let mut hasher = self.settings.clone();
        hasher.update(&input.0).finalize().into()
    }

    /// The stored code of a translated function, with the function's names and locations.
    pub(crate) fn get(
        &self,
        key: &Key,
        symbol: Symbol,
        func: &ir::Function,
    ) -> Option<CompiledFunction> {
        let content = self.pack(key).get(key);
        let function =
            content.and_then(|content| StoredFunction::function(&content, symbol, &func.params));
        let counter = match function {
            Some(_) => &self.cache.hits,
            None => &self.cache.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        function
    }

    /// Stores the code of a translated function.
    pub(crate) fn add(&self, key: Key, function: &CompiledFunction, func: &ir::Function) {
        if let Some(content) = StoredFunction::content(function, &func.params) {
            self.pack(&key).add(key, content);
        }
    }

    /// Writes the new entries.
    ///
    /// # Errors
    ///
    /// One line that says why the entries could not be written.
    pub(crate) fn write(self) -> Result<(), String> {
        let Self { cache, packs, .. } = self;
        let written = packs.into_par_iter().map(|pack| pack.write(&cache.folder));
        let all: io::Result<()> = written.collect();
        all.map_err(|error| {
            let folder = cache.folder.display();
            let kind = error.kind();
            format!(
                "cache {folder}: {kind}, so the new functions are not stored; make the folder \
                 writable, or name another"
            )
        })
    }

    fn pack(&self, key: &Key) -> &Pack {
        &self.packs[usize::from(key[0]) % PACKS]
    }
}

/// Buffers the input of a hash, because hashing many small inputs takes longer.
pub(crate) struct Input(Vec<u8>);

impl Hasher for Input {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Required by the trait; the 64-bit result is not used.
    fn finish(&self) -> u64 {
        0
    }
}
