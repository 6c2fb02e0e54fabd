//! [`Pack`]: a file of the cache.
//!
//! ```text
//! pack = magic 8 │ count 4 │ count × (key 32 │ checksum 32 │ bytes 4) │ contents, in order
//! ```
//!
//! The newest entries come first. Numbers are little-endian.

use super::{Key, OTHERS_WRITE};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The first bytes of a pack. The digits change with the encoding of the contents.
pub(super) const MAGIC: [u8; 8] = *b"pirnpk01";

/// One compilation adds at most a quarter of a pack's maximum size. So a stranger's module cannot
/// evict everything that others have compiled.
const ADDED_PART: u64 = 4;

/// The prefix of a file's name while it is written.
const TEMPORARY: &str = ".aotc-";

/// The longest time that writing a file may take. An older temporary file belongs to a compiler
/// that was killed.
const WRITING_MAX: Duration = Duration::from_secs(3600);

const HEAD_BYTES: usize = MAGIC.len() + 4;
const ROW_BYTES: usize = 32 + 32 + 4;

/// A pack during one compilation.
pub(super) struct Pack {
    path: PathBuf,
    /// The file's entries, read at the first lookup.
    known: OnceLock<ReadPack>,
    /// Most bytes of the file. The oldest entries are evicted.
    bytes_max: u64,
    /// Entries to add.
    new: Mutex<New>,
}

/// The entries that a compilation adds to a pack.
#[derive(Default)]
struct New {
    contents: HashMap<Key, Vec<u8>>,
    bytes: u64,
}

impl Pack {
    pub(super) fn new(path: PathBuf, bytes_max: u64) -> Self {
        Self {
            path,
            bytes_max,
            known: OnceLock::new(),
            new: Mutex::default(),
        }
    }

    /// The content of a key in the file, as the file was at the first lookup.
    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let known = self.known.get_or_init(|| ReadPack::read(&self.path));
        known.content(key)
    }

    /// Queues an entry for [`Pack::write`], unless the compilation has added too much already.
    pub(super) fn add(&self, key: Key, content: Vec<u8>) {
        let more = (ROW_BYTES + content.len()) as u64;
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.bytes + more <= self.bytes_max / ADDED_PART
            && new.contents.insert(key, content).is_none()
        {
            new.bytes += more;
        }
    }

    /// Rewrites the file in this folder, if there is something to add.
    pub(super) fn write(self, folder: &Path) -> io::Result<()> {
        let new = self.new.into_inner();
        let new = new.unwrap_or_else(PoisonError::into_inner).contents;
        if new.is_empty() {
            return Ok(());
        }
        // Another compilation may have written the file since the first lookup.
        let known = ReadPack::read(&self.path);
        let mut old: Vec<_> = known.places.iter().collect();
        old.retain(|(key, _)| !new.contains_key(*key));
        old.sort_unstable_by_key(|(_, place)| place.start);
        let old = old
            .into_iter()
            .filter_map(|(key, _)| Some((*key, known.content(key)?)));
        let mut entries: Vec<_> = new.into_iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        entries.extend(old);
        let mut bytes = HEAD_BYTES as u64;
        entries.retain(|(_, content)| {
            let more = bytes + (ROW_BYTES + content.len()) as u64;
            let fits = more <= self.bytes_max;
            bytes = if fits { more } else { bytes };
            fits
        });
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempfile_in(folder)?;
        let mut out = BufWriter::new(&mut file);
        out.write_all(&MAGIC)?;
        out.write_all(&(entries.len() as u32).to_le_bytes())?;
        for (key, content) in &entries {
            out.write_all(key)?;
            out.write_all(&checksum(key, content))?;
            out.write_all(&(content.len() as u32).to_le_bytes())?;
        }
        for (_, content) in &entries {
            out.write_all(content)?;
        }
        out.flush()?;
        drop(out);
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Removes temporary files of killed compilers from a folder.
pub(super) fn remove_leftovers(folder: &Path) {
    let Ok(files) = fs::read_dir(folder) else {
        return;
    };
    let leftovers = files.flatten().filter(|file| {
        let is_ours = file.file_name().to_string_lossy().starts_with(TEMPORARY);
        let modified = || file.metadata().ok()?.modified().ok()?.elapsed().ok();
        is_ours && modified().is_some_and(|age| age > WRITING_MAX)
    });
    for file in leftovers {
        // Another compiler may have removed the file. In a read-only folder the file stays.
        let _ = fs::remove_file(file.path());
    }
}

/// A pack as it was read.
#[derive(Default)]
struct ReadPack {
    file: Option<File>,
    places: HashMap<Key, ContentPlace>,
}

/// The location of a content in its pack.
struct ContentPlace {
    start: u64,
    bytes: u32,
    checksum: Key,
}

impl ReadPack {
    /// Reads the valid entries of the pack; none if the file is absent or damaged.
    fn read(path: &Path) -> Self {
        Self::try_read(path).unwrap_or_default()
    }

    fn try_read(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        if metadata.mode() & OTHERS_WRITE != 0 {
            return None;
        }
        let mut head = [0; HEAD_BYTES];
        file.read_exact_at(&mut head, 0).ok()?;
        let (magic, count) = head.split_last_chunk::<4>()?;
        let count = u32::from_le_bytes(*count);
        let rows_bytes = u64::from(count) * ROW_BYTES as u64;
        let mut start = HEAD_BYTES as u64 + rows_bytes;
        if *magic != MAGIC || start > metadata.len() {
            return None;
        }
        let mut rows = vec![0; rows_bytes as usize];
        file.read_exact_at(&mut rows, HEAD_BYTES as u64).ok()?;
        let mut places = HashMap::with_capacity(count as usize);
        for row in rows.chunks_exact(ROW_BYTES) {
            let (key, rest) = row.split_first_chunk()?;
            let (checksum, bytes) = rest.split_first_chunk()?;
            let bytes = u32::from_le_bytes(*bytes.first_chunk()?);
            let place = ContentPlace {
                start,
                bytes,
                checksum: *checksum,
            };
            start += u64::from(bytes);
            // Entries past the end of the file are dropped.
            if start <= metadata.len() {
                places.insert(*key, place);
            }
        }
        let file = Some(file);
        Some(Self { file, places })
    }

    /// The content of this key, if its checksum is right.
    fn content(&self, key: &Key) -> Option<Vec<u8>> {
        let (file, place) = (self.file.as_ref()?, self.places.get(key)?);
        let mut content = vec![0; place.bytes as usize];
        file.read_exact_at(&mut content, place.start).ok()?;
        (checksum(key, &content) == place.checksum).then_some(content)
    }
}

fn checksum(key: &Key, content: &[u8]) -> Key {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key).update(content).finalize().into()
}
