//! [`Image`]: the sparse initial contents of the module's first own memory, and the remaining data
//! segments.

use super::constant::Constants;
use pirn_format::image::ImageRun;
use pirn_format::layout::IMAGE_PAGE_BYTES;
use pirn_format::metadata::{DataSegment, Metadata, SegmentMode};
use std::collections::BTreeMap;

const PAGE: usize = IMAGE_PAGE_BYTES as usize;

/// The initial contents of the module's first own memory, and the remaining data segments.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// Initially accessible bytes of the module's first own memory; 0 if the module has none.
    pub(crate) memory_bytes: u64,
    /// Encoded [`ImageRun`]s.
    pub(crate) runs: Vec<u8>,
    /// The bytes of all runs' pages.
    pub(crate) pages: Vec<u8>,
    /// Bytes of the segments outside the image.
    pub(crate) data: Vec<u8>,
}

impl Image {
    /// Builds the image from all active segments of the module's first own memory. This requires
    /// that each active data segment, of any memory, and each active element segment has a known
    /// offset ([`Constants`]) and fits. Otherwise the image is empty, and the runtime writes the
    /// segments in order at each start, elements first. The order matters, because a segment that
    /// does not fit ends the start with the previous ones written (spec 4.5.4, steps 15 and 16).
    /// Segments of other memories are written at each start in any case.
    ///
    /// Updates `metadata.data` to say how each segment is handled.
    pub(crate) fn build(metadata: &mut Metadata, data: &[&[u8]]) -> Self {
        let (own, first) = (
            metadata.own_memories().first(),
            metadata.imported_memories(),
        );
        // The parser checks the initial size: `limits::MEMORY_PAGES` limits pages of 64 KiB, and
        // `limits::MEMORY_BYTES` limits pages of one byte.
        let memory_bytes = own.map_or(0, |memory| memory.accessible_bytes().unwrap_or(u64::MAX));
        let mut image = Self {
            memory_bytes,
            ..Self::default()
        };
        let constants = Constants::new(metadata);
        let pages = if own.is_some() && constants.elements_fit(metadata) {
            pages(metadata, &constants, data)
        } else {
            None
        };
        if let Some(pages) = &pages {
            image.write_pages(pages);
        }
        for (segment, bytes) in metadata.data.iter_mut().zip(data) {
            let is_in_image = pages.is_some()
                && matches!(segment.mode, SegmentMode::Active { index, .. } if index == first);
            if !is_in_image {
                segment.start = image.data.len() as u32;
                segment.len = bytes.len() as u32;
                image.data.extend_from_slice(bytes);
            } else {
                *segment = DataSegment {
                    mode: SegmentMode::Done,
                    start: 0,
                    len: 0,
                };
            }
        }
        image
    }

    /// Encodes the pages as runs.
    fn write_pages(&mut self, pages: &BTreeMap<u32, Box<[u8; PAGE]>>) {
        let mut run: Option<ImageRun> = None;
        for (number, page) in pages {
            self.pages.extend_from_slice(&page[..]);
            match &mut run {
                Some(run) if run.first + run.pages == *number => run.pages += 1,
                other => {
                    if let Some(done) = other.replace(ImageRun {
                        first: *number,
                        pages: 1,
                    }) {
                        self.runs.extend(done.encode());
                    }
                }
            }
        }
        if let Some(done) = run {
            self.runs.extend(done.encode());
        }
    }
}

/// The pages of the module's first own memory that have a nonzero byte. `None` if the offset of a
/// segment, of any memory, is unknown or out of bounds.
fn pages(
    metadata: &Metadata,
    constants: &Constants,
    data: &[&[u8]],
) -> Option<BTreeMap<u32, Box<[u8; PAGE]>>> {
    let mut pages = BTreeMap::new();
    for (segment, bytes) in metadata.data.iter().zip(data) {
        let SegmentMode::Active { index, offset } = &segment.mode else {
            continue;
        };
        let start = constants.integer(offset)?;
        // An imported memory has at least its type's minimum size.
        let memory = metadata.memories.get(*index as usize)?;
        let end = start.checked_add(bytes.len() as u64)?;
        if memory.min_bytes().is_some_and(|bytes| end > bytes) {
            return None;
        }
        if *index != metadata.imported_memories() {
            continue;
        }
        let (mut at, mut rest) = (start as usize, *bytes);
        while !rest.is_empty() {
            let in_page = at % PAGE;
            let (now, later) = rest.split_at(rest.len().min(PAGE - in_page));
            let page: &mut Box<[u8; PAGE]> = pages
                .entry((at / PAGE) as u32)
                .or_insert_with(|| Box::new([0; PAGE]));
            page[in_page..in_page + now.len()].copy_from_slice(now);
            (at, rest) = (at + now.len(), later);
        }
    }
    pages.retain(|_, page| page.iter().any(|byte| *byte != 0));
    Some(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_format::image::decode_runs;
    use pirn_format::metadata::{ConstExpr, ConstOp};
    use pirn_format::types::{AddrType, MemoryType, PageSize};

    fn build(memory_pages: u64, segments: &[(Option<i32>, &[u8])]) -> (Image, Metadata) {
        let mode = |place: &Option<i32>| match place {
            Some(at) => SegmentMode::Active {
                index: 0,
                offset: ConstExpr(vec![ConstOp::I32(*at)]),
            },
            None => SegmentMode::Passive,
        };
        let segment = |(place, _): &(Option<i32>, &[u8])| DataSegment {
            mode: mode(place),
            start: 0,
            len: 0,
        };
        let mut metadata = Metadata {
            memories: vec![MemoryType {
                address: AddrType::I32,
                page: PageSize::Large,
                min: memory_pages,
                max: None,
                shared: false,
            }],
            data: segments.iter().map(segment).collect(),
            ..Metadata::default()
        };
        let data: Vec<&[u8]> = segments.iter().map(|(_, bytes)| *bytes).collect();
        (Image::build(&mut metadata, &data), metadata)
    }

    #[test]
    fn pages_are_sparse_and_later_segments_win() {
        let (image, metadata) = build(
            4,
            &[
                (Some(4090), b"abcdefgh"),
                (None, b"passive"),
                (Some(4092), b"XY"),
                (Some(131_072), b"z"),
                (Some(65_536), &[0; 100]),
            ],
        );
        let runs = decode_runs(&image.runs, image.pages.len() as u64, image.memory_bytes).unwrap();
        assert_eq!(
            runs,
            [
                ImageRun { first: 0, pages: 2 },
                ImageRun {
                    first: 32,
                    pages: 1
                }
            ]
        );
        assert_eq!(&image.pages[4090..4098], b"abXYefgh");
        assert_eq!(image.pages[8192], b'z');
        assert_eq!(image.data, b"passive");
        let modes: Vec<_> = metadata.data.iter().map(|segment| &segment.mode).collect();
        assert_eq!(
            modes
                .iter()
                .filter(|mode| ***mode == SegmentMode::Done)
                .count(),
            4
        );
        assert_eq!((metadata.data[1].start, metadata.data[1].len), (0, 7));
    }

    #[test]
    fn a_segment_that_does_not_fit_leaves_all_to_the_start() {
        let (image, metadata) = build(1, &[(Some(0), b"first"), (Some(65_534), b"long")]);
        assert!(image.runs.is_empty() && image.pages.is_empty());
        assert_eq!(image.data, b"firstlong");
        assert_eq!(metadata.data[1].start, 5);
        let (image, _) = build(1, &[(Some(65_532), b"long")]);
        assert_eq!(image.pages.len(), PAGE);
        let (image, _) = build(1, &[(Some(-1), b"far")]);
        assert!(image.pages.is_empty());
        let (image, _) = build(0, &[(Some(0), b"")]);
        assert!(image.pages.is_empty() && image.data.is_empty());
    }
}
