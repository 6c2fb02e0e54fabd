//! [`Image`]: the initial contents of a memory, without its pages of zeros.

use crate::sys::memory::{FileView, image_file};
use once_cell::race::OnceBox;
use pirn_format::image::ImageRun;
use pirn_format::layout::IMAGE_PAGE_BYTES;
use std::fs::File;
use std::io;

/// The initial contents of a memory, without its pages of zeros.
///
/// The pages of a file's image lie in the file's image section, and every method that reads them
/// takes that section. A snapshot's image is a sealed file in memory, which holds each page at the
/// page's offset in the memory.
pub(crate) struct Image {
    runs: Vec<ImageRun>,
    /// Offset of each run's bytes: in the file's image section, or in the snapshot's view.
    starts: Vec<usize>,
    /// The pages of a snapshot; `None` if the pages lie in the image section of a file.
    view: Option<FileView>,
    /// The image as a file, in which each page is at its offset in the memory. Made when a region
    /// first maps the image.
    file: OnceBox<File>,
}

impl Image {
    /// An image in a compiled file. The runs lie one after another in the image section, the first
    /// run at `at`.
    pub(super) fn of_file(runs: Vec<ImageRun>, at: usize) -> Self {
        let sum = |sum: &mut usize, run: &ImageRun| {
            let start = *sum;
            *sum += run.len() as usize;
            Some(start)
        };
        Self {
            starts: runs.iter().scan(at, sum).collect(),
            runs,
            view: None,
            file: OnceBox::new(),
        }
    }

    /// The image of a memory with these non-zero pieces: offset, and bytes. The pieces consist of
    /// whole pages of [`IMAGE_PAGE_BYTES`] and ascend. The pieces do not overlap, but may be
    /// adjacent.
    ///
    /// # Errors
    ///
    /// The error of memfd_create(2), write(2), fcntl(2) or mmap(2).
    pub(crate) fn of_memory(pieces: &[(usize, &[u8])]) -> io::Result<Self> {
        let pages = |bytes: usize| (bytes / IMAGE_PAGE_BYTES as usize) as u32;
        let mut runs: Vec<ImageRun> = vec![];
        for (start, bytes) in pieces {
            let (first, count) = (pages(*start), pages(bytes.len()));
            match runs.last_mut() {
                Some(last) if last.first + last.pages == first => last.pages += count,
                _ => runs.push(ImageRun {
                    first,
                    pages: count,
                }),
            }
        }
        let mut image = Self {
            starts: runs.iter().map(|run| run.start() as usize).collect(),
            runs,
            view: None,
            file: OnceBox::new(),
        };
        if !pieces.is_empty() {
            let file = image_file(pieces.iter().copied())?;
            image.view = Some(FileView::new(&file, image.end())?);
            image.file = OnceBox::with_value(Box::new(file));
        }
        Ok(image)
    }

    /// The image as a sealed file with each page at its offset in the memory. The first call for a
    /// compiled module makes the file, so it can fail with the error of memfd_create(2) or
    /// write(2).
    pub(crate) fn file(&self, section: &[u8]) -> io::Result<&File> {
        let make = || image_file(self.pieces(section));
        self.file.get_or_try_init(|| make().map(Box::new))
    }

    fn pages<'a>(&'a self, section: &'a [u8]) -> &'a [u8] {
        self.view.as_ref().map_or(section, FileView::bytes)
    }

    /// The non-zero pieces: offset in the memory, and bytes.
    pub(super) fn pieces<'a>(
        &'a self,
        section: &'a [u8],
    ) -> impl Iterator<Item = (usize, &'a [u8])> {
        let pages = self.pages(section);
        let piece = |(run, start): (&ImageRun, &usize)| {
            // In range: the check of a file compared the sum of the runs' lengths with the length
            // of the section, and the view of a snapshot has all of its runs.
            (
                run.start() as usize,
                &pages[*start..*start + run.len() as usize],
            )
        };
        self.runs.iter().zip(&self.starts).map(piece)
    }

    /// The pages that are not zero.
    pub(crate) fn runs(&self) -> &[ImageRun] {
        &self.runs
    }

    /// Size of all pages that are not zero, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.len() as usize).sum()
    }

    /// End of the last page that is not zero, in the memory.
    pub(crate) fn end(&self) -> usize {
        let last = self.runs.last();
        last.map_or(0, |run| (run.start() + run.len()) as usize)
    }

    /// Number of the image page at an offset in the memory. Numbers start at 1; 0 is a zero page.
    ///
    /// Async-signal-safe.
    pub(super) fn source(&self, offset: usize) -> u32 {
        let after = self
            .runs
            .partition_point(|run| run.start() <= offset as u64);
        let Some(at) = after.checked_sub(1) else {
            return 0;
        };
        let (run, start) = (self.runs[at], self.starts[at]);
        let within = offset - run.start() as usize;
        if within as u64 >= run.len() {
            return 0;
        }
        ((start + within) / IMAGE_PAGE_BYTES as usize) as u32 + 1
    }

    /// The page with this number, counted from 1; `None` for 0.
    ///
    /// Async-signal-safe.
    pub(super) fn page<'a>(&'a self, section: &'a [u8], source: u32) -> Option<&'a [u8]> {
        let start = source.checked_sub(1)? as usize * IMAGE_PAGE_BYTES as usize;
        Some(&self.pages(section)[start..start + IMAGE_PAGE_BYTES as usize])
    }
}
