//! [`Cache`]: a folder of functions that were compiled earlier, for compilations to come. Off by default.
//!
//! A function is found by a hash of all that decides its machine code, and nothing else: this very compiler, the
//! settings, and the function as translated, in which other functions have no names, only numbers of its own, and
//! places in the WebAssembly file are told from its first one. So a function is found again though it has moved, or
//! those that it calls have. What is kept is its [`Piece`], in the same terms.
//!
//! Keys are spread evenly over a fixed number of files, the [`Pack`]s, each of which holds [entries](entry).
//!
//! A pack is written anew as a whole and renamed, so readers see one or the other. What has been read is believed only
//! if its checksum, over key and content, is right; anything else is as if it were not there. That finds accidents,
//! not enemies: who can write into the folder decides what guests do. So nobody else may.

mod entry;
mod pack;

use crate::compile::{Piece, Wanted};
use crate::error::CompileError;
use crate::names::Callee;
use crate::options::Options;
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use entry::Entry;
use pack::Pack;
use rayon::prelude::*;
use std::fs::{self, DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Packs of a folder. Each is an open file while a module is compiled, and is written anew for one new function.
const PACKS: usize = 64;

/// Most bytes of the packs of a folder, unless [`Cache::bytes_max`] says otherwise.
const CACHE_BYTES_MAX: u64 = 1 << 30;

/// Permission of a folder or file by which the group or all others may write.
const OTHERS_WRITE: u32 = 0o022;

/// BLAKE3 of all that decides what a function is compiled to.
type Key = [u8; 32];

/// A folder of functions that were compiled earlier ([`Options::cache`]). It may be used by many compilations at once,
/// of this process and others, and deleted at any time.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    bytes_max: u64,
    /// Of the running program.
    build: Key,
    hits: AtomicUsize,
    misses: AtomicUsize,
}

impl Cache {
    /// Opens a folder, which is made, for this user alone, if it is not there.
    ///
    /// Whoever can write into it decides what guests' code does: machine code is taken from it.
    ///
    /// # Errors
    ///
    /// [`CompileError::Options`] if it is no folder, cannot be made, or others may write to it: it is of neither this
    /// user nor root, or its mode allows it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, CompileError> {
        let folder = folder.into();
        check(&folder).map_err(|message| {
            CompileError::Options(format!("cache {}: {message}", folder.display()))
        })?;
        let build = build().map_err(|error| {
            CompileError::Options(format!(
                "cache: the running program, whose bytes tell its build, cannot be read: {}; do without a cache",
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

    /// Sets how many bytes the 64 files of the folder may have together, instead of 1 GiB. Each may
    /// have a 64th, and is cut to that when it is written next. One compilation adds at most a
    /// quarter of that to each file, so that no single module can evict all else.
    #[must_use]
    pub fn bytes_max(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Functions that were found, by all compilations with this.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::Relaxed)
    }

    /// Functions that were not found, and compiled. Those that contain intrinsics are not looked for.
    #[must_use]
    pub fn misses(&self) -> usize {
        self.misses.load(Ordering::Relaxed)
    }
}

/// Makes the folder if it is not there, and refuses one that others may write to.
fn check(folder: &Path) -> Result<(), String> {
    if !folder.exists() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("{}; name another folder", error.kind()))?;
    }
    let metadata = fs::metadata(folder).map_err(|error| error.kind().to_string())?;
    if !metadata.is_dir() {
        return Err("it is no folder; name one, or one that can be made".to_owned());
    }
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user && owner != 0 {
        return Err(format!(
            "it is user {owner}'s, who could put code into it, and this is user {user}; name a folder of your own"
        ));
    }
    let mode = metadata.mode() & 0o777;
    if mode & OTHERS_WRITE != 0 {
        let private = mode & !OTHERS_WRITE;
        return Err(format!(
            "others could put code into it, its mode is {mode:o}; make that {private:o}, if it has only been yours"
        ));
    }
    Ok(())
}

/// A hash of the program that runs: a compiler that differs in anything is another.
fn build() -> io::Result<Key> {
    static BUILD: OnceLock<Key> = OnceLock::new();
    if let Some(known) = BUILD.get() {
        return Ok(*known);
    }
    // By this name it is the program that runs, though another may have been put in its place.
    let program = File::open("/proc/self/exe");
    let program = program.or_else(|_| File::open(std::env::current_exe()?))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(program)?;
    Ok(*BUILD.get_or_init(|| hasher.finalize().into()))
}

/// A cache while a module is compiled.
pub(crate) struct Run<'a> {
    cache: &'a Cache,
    /// What every key is of, beside the function.
    settings: blake3::Hasher,
    packs: Vec<Pack>,
}

impl<'a> Run<'a> {
    /// None if there is no cache, or nothing for it to keep.
    pub(crate) fn new(options: &'a Options, wanted: Wanted, isa: &dyn TargetIsa) -> Option<Self> {
        // All of them, so that a new one is not forgotten.
        let Options {
            cpu,
            opt_level,
            spectre,
            relaxed_simd,
            fuel,
            debug_info,
            // It decides whether there is code, and not which.
            work_per_byte: _,
            cache,
        } = options;
        let Wanted { clif, locations } = wanted;
        let cache = cache.as_deref().filter(|_| !clif)?;
        let mut all = Input(vec![]);
        (pack::MAGIC, cache.build, cranelift_codegen::VERSION).hash(&mut all);
        format!("{cpu:?} {opt_level:?} {relaxed_simd:?}").hash(&mut all);
        (spectre, fuel, debug_info, locations).hash(&mut all);
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
        Some(Self {
            cache,
            settings,
            packs: (0..PACKS).map(pack).collect(),
        })
    }

    /// The key of a function as translated.
    pub(crate) fn key(&self, func: &ir::Function) -> Key {
        let mut input = Input(vec![]);
        func.stencil.hash(&mut input);
        let mut hasher = self.settings.clone();
        hasher.update(&input.0).finalize().into()
    }

    /// What there is for a function, with its names and places.
    pub(crate) fn get(&self, key: &Key, callee: Callee, func: &ir::Function) -> Option<Piece> {
        let content = self.pack(key).get(key);
        let piece = content.and_then(|content| Entry::piece(&content, callee, &func.params));
        let counter = match piece {
            Some(_) => &self.cache.hits,
            None => &self.cache.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        piece
    }

    /// Keeps what a function was compiled to.
    pub(crate) fn add(&self, key: Key, piece: &Piece, func: &ir::Function) {
        if let Some(content) = Entry::content(piece, &func.params) {
            self.pack(&key).add(key, content);
        }
    }

    /// Writes what is new.
    ///
    /// # Errors
    ///
    /// One line that says why it could not be written.
    pub(crate) fn write(self) -> Result<(), String> {
        let Self { cache, packs, .. } = self;
        let written = packs.into_par_iter().map(|pack| pack.write(&cache.folder));
        let all: io::Result<()> = written.collect();
        all.map_err(|error| {
            let folder = cache.folder.display();
            let kind = error.kind();
            format!("cache {folder}: {kind}, so it does not keep this; let it be written to, or name another folder")
        })
    }

    fn pack(&self, key: &Key) -> &Pack {
        &self.packs[usize::from(key[0]) % PACKS]
    }
}

/// What is to be hashed, in one piece: hashes of many small ones take longer.
struct Input(Vec<u8>);

impl Hasher for Input {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Nobody asks for 64 bits.
    fn finish(&self) -> u64 {
        0
    }
}
