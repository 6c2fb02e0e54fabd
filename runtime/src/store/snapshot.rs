//! The state of an instance as the initial state of a new module: see
//! [`Instance::snapshot`](crate::Instance::snapshot).
//!
//! # Safety
//!
//! This file reads the instance area and the memories of an instance whose guest does not run. The
//! file reads a page of tracked memory only if the page is present. write(2) copies these pages to
//! a file, and fails with `EFAULT` on a missing page.
#![allow(unsafe_code)]

use super::descriptors;
use super::member::Member;
use crate::error::SnapshotError;
use crate::module::{Image, Module, listed};
use crate::value::Cell;
use core::ops::Range;
use core::slice;
use pirn_format::layout::{IMAGE_PAGE_BYTES, TAG_I31};
use pirn_format::metadata::{
    ConstExpr, ConstOp, Element, ElementItems, Export, ExportItem, Metadata, SegmentMode, Snapshot,
};
use pirn_format::types::{HeapType, ValType};

const PAGE: usize = IMAGE_PAGE_BYTES as usize;
static ZEROS: [u8; PAGE] = [0; PAGE];

impl<T> Member<T> {
    /// A module whose instances begin with the state of this instance. The module does not have the
    /// exports in `made_by`, which must exist.
    ///
    /// The guest must not run, and no call may be suspended. This process must have the memory of
    /// the instance.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] for a part of the state that no other instance can have, and for the error
    /// of a system call.
    pub(crate) fn snapshot(&self, made_by: &[&str]) -> Result<Module, SnapshotError> {
        let module = &self.inner.module;
        let mut metadata = module.metadata().clone();
        self.refuse_outside(&metadata)?;
        let before = metadata.snapshot.take();
        let mut made = before.map_or(vec![], |snapshot| snapshot.made_by);
        for name in made_by {
            // Interfaces find their memory by its export, so only exports of functions can be
            // removed.
            let is_func = |export: &&Export| matches!(export.item, ExportItem::Func(_));
            let all = metadata.exports.iter();
            let found = |export: &Export| export.name == *name && is_func(&export);
            let Some(at) = all.clone().position(found) else {
                return Err(SnapshotError::NoExport {
                    name: (*name).to_owned(),
                    exports: listed(all.filter(is_func).map(|export| export.name.as_str())),
                });
            };
            made.push(metadata.exports.remove(at).name);
        }
        // The start function has run.
        metadata.start = None;
        for (index, init) in (module.imported().globals..).zip(&mut metadata.global_inits) {
            let ty = module.metadata().globals[index as usize].content;
            let place = || format!("global {index}");
            *init = self.value(descriptors::global(self, index), ty, place)?;
        }
        self.keep_segments(&mut metadata);
        let tables = self.tables(&mut metadata)?;
        let images = self.images(&mut metadata)?;
        let further = images.iter().skip(1);
        metadata.snapshot = Some(Snapshot {
            of: module.source_hash(),
            made_by: made,
            tables,
            further: further.map(|image| image.runs().to_vec()).collect(),
        });
        Ok(module.snapshot(metadata, images)?)
    }

    /// Refuses shared memories, and passive element segments that refer to heap objects.
    fn refuse_outside(&self, metadata: &Metadata) -> Result<(), SnapshotError> {
        let shared = self.inner.imports.shared.iter().next();
        if let Some((index, _)) = shared {
            return Err(SnapshotError::SharedMemory { index });
        }
        let made = self.made.iter().enumerate();
        for (segment, _) in made.filter(|(_, made)| !made.is_empty()) {
            let position = descriptors::element_position(self, segment as u32);
            let is_passive = metadata.elements[segment].mode == SegmentMode::Passive;
            if is_passive && !descriptors::is_dropped(self, position) {
                return Err(SnapshotError::Reference {
                    place: format!("element segment {segment}"),
                    found: "objects",
                });
            }
        }
        Ok(())
    }

    /// Keeps the segments that the guest can still use. All other segments count as dropped.
    fn keep_segments(&self, metadata: &mut Metadata) {
        let is_kept = |mode: &SegmentMode, position| {
            *mode == SegmentMode::Passive && !descriptors::is_dropped(self, position)
        };
        for (position, segment) in (0..).zip(&mut metadata.data) {
            if !is_kept(&segment.mode, position) {
                segment.mode = SegmentMode::Done;
                (segment.start, segment.len) = (0, 0);
            }
        }
        for (index, segment) in (0..).zip(&mut metadata.elements) {
            let position = descriptors::element_position(self, index);
            if !is_kept(&segment.mode, position) {
                segment.mode = SegmentMode::Done;
                segment.items = ElementItems::Funcs(vec![]);
            }
        }
    }

    /// The elements of each table that the module defines. Sets the initial sizes in `metadata`.
    fn tables(&self, metadata: &mut Metadata) -> Result<Vec<Vec<Element>>, SnapshotError> {
        let imported = self.inner.module.imported().tables;
        let mut tables = vec![];
        for (index, ty) in (imported..).zip(&mut metadata.tables[imported as usize..]) {
            let elements = self.elements(index);
            ty.min = elements.len() as u64;
            // Every element type is a reference type.
            let heap = ty.element.heap().unwrap_or(HeapType::Any);
            // Trailing null elements are not stored.
            let len = elements.iter().rposition(|word| *word != 0);
            let written = &elements[..len.map_or(0, |last| last + 1)];
            let mut table = Vec::with_capacity(written.len());
            for (at, word) in written.iter().enumerate() {
                let place = || format!("element {at} of table {index}");
                table.push(self.reference(*word, heap, place)?);
            }
            tables.push(table);
        }
        for init in &mut metadata.table_inits {
            *init = None;
        }
        Ok(tables)
    }

    /// The constant expression that initialises a global of type `ty` with the value in `cell`.
    fn value(
        &self,
        cell: Cell,
        ty: ValType,
        place: impl FnOnce() -> String,
    ) -> Result<ConstExpr, SnapshotError> {
        let op = match ty {
            ValType::I32 => ConstOp::I32(cell.u32() as i32),
            ValType::I64 => ConstOp::I64(cell.u64() as i64),
            ValType::F32 => ConstOp::F32(cell.u32()),
            ValType::F64 => ConstOp::F64(cell.u64()),
            ValType::V128 => ConstOp::V128(cell.0),
            ValType::Ref(ty) => match self.reference(cell.u64(), ty.heap, place)? {
                Element::Null => ConstOp::RefNull,
                Element::Func(index) => ConstOp::RefFunc(index),
                Element::I31(value) => {
                    return Ok(ConstExpr(vec![ConstOp::I32(value), ConstOp::RefI31]));
                }
            },
        };
        Ok(ConstExpr(vec![op]))
    }

    /// The element for a reference, if a new instance can have the same reference.
    fn reference(
        &self,
        word: u64,
        heap: HeapType,
        place: impl FnOnce() -> String,
    ) -> Result<Element, SnapshotError> {
        let found = match heap.top() {
            _ if word == 0 => return Ok(Element::Null),
            HeapType::Func => match self.func_at(word) {
                Some(index) => return Ok(Element::Func(index)),
                None => "a function of another instance",
            },
            HeapType::Extern => "a value of the host",
            HeapType::Exn => "an exception",
            // The lowest bit is the tag, and the number lies above it.
            _ if word & TAG_I31 != 0 => return Ok(Element::I31((word as u32 >> 1) as i32)),
            _ => "an object, or a converted value of the host",
        };
        let place = place();
        Err(SnapshotError::Reference { place, found })
    }

    /// The images of the memories that the module defines. Sets the initial sizes in `metadata`.
    fn images(&self, metadata: &mut Metadata) -> Result<Vec<Image>, SnapshotError> {
        let imported = self.inner.module.imported().memories;
        let mut images = vec![];
        let own = metadata.memories[imported as usize..].iter_mut();
        for (number, ty) in (0..).zip(own) {
            let desc = descriptors::memory(self, imported + number);
            // SAFETY: the descriptor belongs to a memory of this initialised instance, whose guest
            // does not run.
            let (base, bytes) = unsafe { ((*desc).base as *const u8, (*desc).bytes) };
            ty.min = bytes / ty.page.bytes();
            let pieces = self.pieces(number, base, bytes as usize);
            images.push(Image::of_memory(&pieces)?);
        }
        Ok(images)
    }

    /// The non-zero pages of memory `number`: offset, and bytes. Adjacent pages in memory form one
    /// piece. Each page that still has its initial contents is a piece of its own, from the image.
    fn pieces(&self, number: u32, base: *const u8, bytes: usize) -> Vec<(usize, &[u8])> {
        let (region, module) = (&self.inner.region, &self.inner.module);
        let mut pieces: Vec<(usize, &[u8])> = vec![];
        // The last run of pages found in the memory.
        let mut run = 0..0;
        let piece = |run: Range<usize>| {
            let at = base.wrapping_add(run.start);
            // SAFETY: the run consists of accessible pages, as the loop below ensures. The guest
            // does not run, and the slot belongs to this instance.
            (run.start, unsafe { slice::from_raw_parts(at, run.len()) })
        };
        // A memory with pages of one byte may end within a page of the image. The rest of that page
        // is accessible, and zero.
        for start in (0..bytes).step_by(PAGE) {
            if number == 0 && self.slot.is_initial(region, start) {
                pieces.extend(module.image_page(start).map(|page| (start, page)));
                continue;
            }
            let at = base.wrapping_add(start);
            // SAFETY: the page lies in the memory, and the kernel protects whole pages. The memory
            // is untracked, or the page was written and is present. So the page can be read without
            // a fault that needs the signal handler. The guest does not run, and the slot belongs
            // to this instance.
            if unsafe { slice::from_raw_parts(at, PAGE) } == ZEROS {
                continue;
            }
            if run.end != start {
                if !run.is_empty() {
                    pieces.push(piece(run));
                }
                run = start..start;
            }
            run.end = start + PAGE;
        }
        if !run.is_empty() {
            pieces.push(piece(run));
        }
        // An image page is pushed at once, and may precede a pending run with a lower offset.
        pieces.sort_unstable_by_key(|(start, _)| *start);
        pieces
    }
}
