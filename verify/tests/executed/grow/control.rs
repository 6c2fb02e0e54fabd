//! Groups with branches, loops and calls.

use super::{COUNTER, Grow};
use crate::emit::{Emit, Rm, Size};

impl Grow<'_> {
    /// Instructions that run on one side of a branch only.
    fn block(&mut self) -> Emit {
        let mut block = Emit::default();
        for _ in 0..=self.random.below(2) {
            match self.random.below(7) {
                0 => self.moves(&mut block),
                1 => self.computes(&mut block),
                2 => self.shifts(&mut block),
                3 => self.accesses(&mut block),
                4 => self.spills(&mut block),
                5 => self.vectors(&mut block),
                _ => self.selects(&mut block),
            }
        }
        block
    }

    pub(super) fn branches(&mut self, out: &mut Emit) {
        if !self.random.one_of(6) {
            self.compares(out);
        }
        if self.random.one_of(5) {
            self.moves(out);
        }
        let block = self.block();
        let condition = self.condition();
        if self.random.one_of(3) {
            // Both sides have instructions.
            let other = self.block();
            out.jump_if(condition, block.0.len() + 5).bytes(&block.0);
            let over = other.0.len() as u32;
            out.bytes(&[0xe9])
                .bytes(&over.to_le_bytes())
                .bytes(&other.0);
            return;
        }
        out.jump_if(condition, block.0.len()).bytes(&block.0);
    }

    /// An access to a table's element after a comparison, and perhaps a call.
    pub(super) fn tables(&mut self, out: &mut Emit) {
        let (base_at, elements_at) = self.random.pick(&self.places.tables);
        let context = self.context();
        let (index, base, element) = (self.register(), self.target(), self.target());
        let mut inner = Emit::default();
        inner.load(Size::Long, base, Rm::Mem(context, None, base_at));
        let size = self
            .random
            .pick(&[Size::Long, Size::Long, Size::Long, Size::Word]);
        let displacement = self.random.pick(&[0, 0, 0, 0, 8, -8]);
        let slot = Rm::Mem(base, Some((index, 3)), displacement);
        match self.random.below(4) {
            0 => inner.store(size, slot, element),
            _ => inner.load(size, element, slot),
        };
        if self.random.one_of(2) {
            self.calls_reference(&mut inner, element, context);
        }
        let condition = self.random.pick(&[3, 3, 3, 7, 2, 6, 13]);
        match self.random.below(3) {
            0 => {
                // The index is a constant.
                let constant = self.random.below(6);
                out.constant(index, constant);
                out.bytes(&inner.0);
            }
            1 => {
                let constant = self.random.below(6) as u8;
                let size = self.wide();
                out.sized(size, false, &[0x83], 7, Rm::Reg(index))
                    .bytes(&[constant]);
                out.jump_if(condition, inner.0.len()).bytes(&inner.0);
            }
            _ => {
                if self.random.one_of(2) {
                    out.op(Size::Word, &[0x88], index, Rm::Reg(index));
                }
                let size = self.random.pick(&[Size::Long, Size::Long, Size::Word]);
                out.op(size, &[0x3a], index, Rm::Mem(context, None, elements_at));
                out.jump_if(condition, inner.0.len()).bytes(&inner.0);
            }
        }
    }

    /// A comparison of a function's type, and a call of the function.
    fn calls_reference(&mut self, out: &mut Emit, reference: u8, context: u8) {
        let (code, id) = (self.target(), self.target());
        let mut call = Emit::default();
        call.load(Size::Long, code, Rm::Mem(reference, None, 0));
        call.load(Size::Long, 7, Rm::Mem(reference, None, 8));
        call.bytes(&[0x40 | code >> 3, 0xff, 0xd0 | code & 7]);
        if context == 3 || self.random.one_of(2) {
            call.mov(7, 3);
        }
        let mut check = Emit::default();
        check.load(Size::Word, id, Rm::Mem(context, None, self.places.type_id));
        check.op(Size::Word, &[0x3a], id, Rm::Mem(reference, None, 16));
        let condition = self.random.pick(&[5, 5, 5, 5, 4]);
        check.jump_if(condition, call.0.len()).bytes(&call.0);
        match self.random.one_of(4) {
            true => out.bytes(&check.0),
            false => {
                out.op(Size::Long, &[0x84], reference, Rm::Reg(reference));
                out.jump_if(4, check.0.len()).bytes(&check.0)
            }
        };
    }

    pub(super) fn calls(&mut self, out: &mut Emit) {
        let target = self.random.pick(&self.places.calls);
        out.mov(7, 3);
        if self.random.one_of(2) {
            let value = self.register();
            out.mov(6, value);
        }
        let next = self.at + out.0.len() + 5;
        let distance = target - next as i32;
        out.bytes(&[0xe8]).bytes(&distance.to_le_bytes());
        if !self.random.one_of(4) {
            out.mov(7, 3);
        }
    }

    /// A loop that runs a few times.
    pub(super) fn loops(&mut self, out: &mut Emit) {
        let count = 2 + self.random.below(3) as u32;
        out.op(Size::Word, &[0xc6], 0, COUNTER)
            .bytes(&count.to_le_bytes());
        let start = out.0.len();
        let block = self.block();
        out.bytes(&block.0);
        if self.random.one_of(2) {
            let more = self.block();
            out.bytes(&more.0);
        }
        // dec
        out.op(Size::Word, &[0xfe], 1, COUNTER);
        let back = start as i32 - (out.0.len() as i32 + 6);
        out.bytes(&[0x0f, 0x85]).bytes(&back.to_le_bytes());
    }
}
