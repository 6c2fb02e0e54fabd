//! [`Parts`]: the addresses of the parts of one slot.

use super::layout::Layout;
use crate::sys::memory::Reservation;
use core::ops::Range;

/// Addresses of the parts of one slot.
pub(super) struct Parts<'a> {
    pub(super) reservation: &'a Reservation,
    start: usize,
    pub(super) layout: &'a Layout,
}

impl<'a> Parts<'a> {
    pub(super) fn new(reservation: &'a Reservation, start: usize, layout: &'a Layout) -> Self {
        Self {
            reservation,
            start,
            layout,
        }
    }

    /// Base of memory 0.
    pub(super) fn vmctx(&self) -> usize {
        self.start + self.layout.vmctx()
    }

    /// Base of memory `number`.
    pub(super) fn memory(&self, number: u32) -> usize {
        self.start + self.layout.memory(number)
    }

    pub(super) fn absolute(&self, part: Range<usize>) -> Range<usize> {
        self.start + part.start..self.start + part.end
    }
}
