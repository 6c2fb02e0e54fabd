//! Instructions on vector registers.

use super::Grow;
use crate::emit::{Emit, Rm};

impl Grow<'_> {
    pub(super) fn vectors(&mut self, out: &mut Emit) {
        for _ in 0..=self.random.below(2) {
            self.vector_instruction(out);
        }
    }

    fn vector_instruction(&mut self, out: &mut Emit) {
        const PREFIXES: [Option<u8>; 4] = [None, Some(0x66), Some(0xf3), Some(0xf2)];
        let (a, b) = (self.vector(), self.vector());
        let register = self.target();
        let rm = match self.random.below(6) {
            0 => self.memory(),
            1 => self.slot(),
            _ => Rm::Reg(b),
        };
        match self.random.below(12) {
            // Between general and vector registers: movd, movq.
            0 | 1 => {
                let opcode = self.random.pick(&[0x6e, 0x7e]);
                let wide = self.random.one_of(2);
                out.legacy(
                    (Some(0x66), wide, false),
                    &[0x0f, opcode],
                    a,
                    Rm::Reg(register),
                );
            }
            // pinsrb, pinsrd, pinsrq, pextrb, pextrw, pextrd, pextrq, insertps
            2 => {
                let opcode = self.random.pick(&[0x20, 0x22, 0x14, 0x15, 0x16, 0x17]);
                let wide = self.random.one_of(2);
                let lane = self.random.below(4) as u8;
                out.legacy(
                    (Some(0x66), wide, false),
                    &[0x0f, 0x3a, opcode],
                    a,
                    Rm::Reg(register),
                )
                .bytes(&[lane]);
            }
            // pinsrw, pextrw
            3 => {
                let lane = self.random.below(4) as u8;
                match self.random.one_of(2) {
                    true => out.legacy(
                        (Some(0x66), false, false),
                        &[0x0f, 0xc4],
                        a,
                        Rm::Reg(register),
                    ),
                    false => out.legacy(
                        (Some(0x66), false, false),
                        &[0x0f, 0xc5],
                        register,
                        Rm::Reg(a),
                    ),
                }
                .bytes(&[lane]);
            }
            // pshufd, pshuflw, pshufhw, shufps, insertps, and masks of zeros
            4 => {
                let immediate = self
                    .random
                    .pick(&[0, 0, 0x44, 0x55, 0xe4, 0x1b, 0x0e, 0x40]);
                let (prefix, opcode) = self.random.pick::<(Option<u8>, &[u8])>(&[
                    (Some(0x66), &[0x0f, 0x70]),
                    (Some(0xf2), &[0x0f, 0x70]),
                    (Some(0xf3), &[0x0f, 0x70]),
                    (None, &[0x0f, 0xc6]),
                    (Some(0x66), &[0x0f, 0xc6]),
                    (Some(0x66), &[0x0f, 0x3a, 0x21]),
                ]);
                out.legacy((prefix, false, false), opcode, a, rm)
                    .bytes(&[immediate]);
            }
            5 => {
                if self.random.one_of(2) {
                    out.legacy((Some(0x66), false, false), &[0x0f, 0xef], b, Rm::Reg(b));
                }
                out.legacy(
                    (Some(0x66), false, false),
                    &[0x0f, 0x38, 0x00],
                    a,
                    Rm::Reg(b),
                );
            }
            // Conversions from and to general registers.
            6 => {
                let prefix = self.random.pick(&[Some(0xf2), Some(0xf3)]);
                let wide = self.random.one_of(2);
                match self.random.one_of(2) {
                    true => out.legacy((prefix, wide, false), &[0x0f, 0x2a], a, Rm::Reg(register)),
                    false => out.legacy((prefix, wide, false), &[0x0f, 0x2c], register, rm),
                };
            }
            // Moves, and arithmetic on parts.
            7 | 8 => {
                let prefix = self.random.pick(&PREFIXES);
                let opcode = self.random.pick(&[
                    0x10, 0x11, 0x12, 0x14, 0x16, 0x28, 0x51, 0x54, 0x57, 0x58, 0x59, 0x5a, 0x5c,
                    0x5e, 0x5d, 0x6f, 0x7e, 0xd6, 0x2e,
                ]);
                out.legacy((prefix, false, false), &[0x0f, opcode], a, rm);
            }
            9 => {
                let opcode = 0x60 + self.random.below(0x20) as u8;
                out.legacy((Some(0x66), false, false), &[0x0f, opcode], a, rm);
            }
            10 => {
                let opcode = 0xd0 + self.random.below(0x30) as u8;
                out.legacy((Some(0x66), false, false), &[0x0f, opcode], a, rm);
            }
            _ if self.places.has_extensions => {
                let (prefix, map) = (
                    self.random.below(4) as u8,
                    self.random.pick(&[1, 1, 1, 2, 3]),
                );
                let opcode = self.random.next() as u8;
                let second = self.vector();
                let wide = self.random.one_of(2);
                out.vex((prefix, map, wide), opcode, a, (second, rm));
                if map == 3 {
                    out.bytes(&[self.random.below(8) as u8]);
                }
            }
            _ => {
                let opcode = self.random.next() as u8;
                let prefix = self.random.pick(&PREFIXES);
                out.legacy((prefix, false, false), &[0x0f, 0x38, opcode & 0x3f], a, rm);
            }
        }
    }
}
