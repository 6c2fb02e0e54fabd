//! Random instructions, and groups of instructions, that the verifier may accept.
//!
//! Most instructions use facts that the verifier reasons about. Examples are comparisons before
//! branches, selections and accesses, and operations that keep a part of a register. Other examples
//! are moves between general and vector registers, parts of words of the frame, and fields of the
//! context.

mod control;
mod vectors;

use crate::emit::{Emit, Rm, Size};
use crate::random::Random;
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Registers that a piece may change: all but the stack pointer and the frame pointer.
const ALL: [u8; 14] = [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Registers that pieces use most.
const FEW: [u8; 6] = [0, 1, 2, 6, 8, 10];

const SIZES: [Size; 4] = [Size::Byte, Size::Short, Size::Word, Size::Long];

/// Words of the frame below the frame pointer: five registers of the caller, a loop's counter, and
/// from this distance on the piece's own words. An access of 16 bytes at byte 7 of the first own
/// word does not reach the counter.
pub(crate) const OWN: i32 = 0x48;

/// Bytes of the frame below the frame pointer.
pub(crate) const FRAME: i32 = 0x90;

/// The word of a loop's counter.
const COUNTER: Rm = Rm::Mem(5, None, -0x30);

/// The parts of the module that a piece can use.
pub(crate) struct Places {
    /// Distances of the context's fields, and their bytes.
    pub(crate) fields: Vec<(i32, u32)>,
    /// Base and number of elements of each table, as distances.
    pub(crate) tables: Vec<(i32, i32)>,
    /// Distances of code from the start of the piece's function.
    pub(crate) calls: Vec<i32>,
    /// Distance of the identity of the type of functions that a table may have.
    pub(crate) type_id: i32,
    pub(crate) has_extensions: bool,
}

/// Names of the kinds of groups, for the counts.
pub(crate) const KINDS: [&str; 14] = [
    "move",
    "compute",
    "shift",
    "select",
    "branch",
    "bits",
    "memory",
    "frame",
    "vector",
    "field",
    "table",
    "call",
    "loop",
    "any opcode",
];

pub(crate) struct Grow<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) places: &'a Places,
    /// Bytes of the function before this group.
    pub(crate) at: usize,
}

impl Grow<'_> {
    fn register(&mut self) -> u8 {
        match self.random.below(3) {
            0 => self.random.pick(&ALL),
            _ => self.random.pick(&FEW),
        }
    }

    /// A register for a result, rarely a register of the context.
    fn target(&mut self) -> u8 {
        loop {
            let register = self.register();
            if !matches!(register, 3 | 7) || self.random.one_of(30) {
                return register;
            }
        }
    }

    /// A register of the context.
    fn context(&mut self) -> u8 {
        self.random.pick(&[7, 7, 3])
    }

    fn vector(&mut self) -> u8 {
        self.random.pick(&[0, 1, 2, 3, 5, 9])
    }

    fn size(&mut self) -> Size {
        self.random.pick(&SIZES)
    }

    fn wide(&mut self) -> Size {
        self.random.pick(&[Size::Word, Size::Long, Size::Long])
    }

    /// An address in linear memory, or near it.
    fn memory(&mut self) -> Rm {
        let base = self.context();
        let displacement = match self.random.below(6) {
            0..3 => self.random.below(64) as i32,
            3 => self
                .random
                .pick(&[0x100, 0xfff8, 0x7fff_fff0, 0x0200_0000 - 8, -8, -1]),
            4 => self.random.immediate(),
            _ => 0,
        };
        let index = (!self.random.one_of(5)).then(|| {
            let scale = self.random.pick(&[0, 0, 0, 1, 2, 3]);
            (self.register(), scale)
        });
        Rm::Mem(base, index, displacement)
    }

    fn slot(&mut self) -> Rm {
        let words = ((FRAME - OWN) / 8) as u64;
        let at = -OWN - 8 * (self.random.below(words) as i32);
        let part = match self.random.below(4) {
            0 => self.random.below(8) as i32,
            1 => 4,
            _ => 0,
        };
        Rm::Mem(5, None, at + part)
    }

    /// A register, a slot or an address.
    fn operand(&mut self) -> Rm {
        match self.random.below(10) {
            0 => self.memory(),
            1 => self.slot(),
            _ => Rm::Reg(self.register()),
        }
    }

    /// A group of instructions, and its kind.
    pub(crate) fn group(&mut self, out: &mut Emit) -> usize {
        const WEIGHTS: [u64; 14] = [10, 14, 8, 12, 14, 10, 12, 12, 12, 8, 5, 3, 4, 10];
        let mut at = self.random.below(WEIGHTS.iter().sum());
        let mut kind = 0;
        while at >= WEIGHTS[kind] {
            at -= WEIGHTS[kind];
            kind += 1;
        }
        match kind {
            0 => self.moves(out),
            1 => self.computes(out),
            2 => self.shifts(out),
            3 => self.selects(out),
            4 => self.branches(out),
            5 => self.searches(out),
            6 => self.accesses(out),
            7 => self.spills(out),
            8 => self.vectors(out),
            9 => self.fields(out),
            10 => self.tables(out),
            11 => self.calls(out),
            12 => self.loops(out),
            _ => self.any(out),
        }
        kind
    }

    fn moves(&mut self, out: &mut Emit) {
        let (to, from) = (self.target(), self.register());
        match self.random.below(6) {
            0 => {
                let value = self.random.number();
                out.constant(to, value);
            }
            1 | 2 => {
                let size = self.size();
                out.op(size, &[0x88], from, Rm::Reg(to));
            }
            3 => {
                // movzx, movsx
                let opcode = self.random.pick(&[0xb6, 0xb7, 0xbe, 0xbf]);
                let size = self.random.pick(&[Size::Short, Size::Word, Size::Long]);
                let rm = self.operand();
                out.sized(size, self.random.one_of(2), &[0x0f, opcode], to, rm);
            }
            4 => {
                let size = self.wide();
                let rm = self.operand();
                out.sized(size, false, &[0x63], to, rm);
            }
            _ => {
                // lea
                let displacement = self
                    .random
                    .pick(&[0, 0, 1, 8, -1, -8, 0x7fff_ffff, i32::MIN]);
                let index =
                    (!self.random.one_of(4)).then(|| (self.register(), self.random.below(4) as u8));
                let rm = Rm::Mem(from, index, displacement);
                let size = self.wide();
                out.sized(size, false, &[0x8d], to, rm);
            }
        }
    }

    fn computes(&mut self, out: &mut Emit) {
        let size = match self.random.below(3) {
            0 => self.size(),
            _ => self.wide(),
        };
        let (to, from) = (self.target(), self.register());
        match self.random.below(10) {
            0..4 => {
                // add, or, adc, sbb, and, sub, xor
                let opcode = self
                    .random
                    .pick(&[0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30]);
                match self.random.one_of(2) {
                    true => out.op(size, &[opcode], from, Rm::Reg(to)),
                    false => {
                        let rm = self.operand();
                        out.op(size, &[opcode | 2], to, rm)
                    }
                };
            }
            4..7 => self.with_immediate(out, size, to),
            7 => {
                // not, neg, mul, imul
                let digit = self.random.pick(&[2, 3, 4, 5]);
                out.op(size, &[0xf6], digit, Rm::Reg(to));
            }
            8 => {
                // inc, dec
                let digit = self.random.below(2) as u8;
                out.op(size, &[0xfe], digit, Rm::Reg(to));
            }
            _ => {
                let rm = self.operand();
                match self.random.below(3) {
                    0 => {
                        out.sized(size, false, &[0x0f, 0xaf], to, rm);
                    }
                    1 => {
                        let immediate = self.random.immediate();
                        out.sized(Size::Long, false, &[0x69], to, rm)
                            .bytes(&immediate.to_le_bytes());
                    }
                    _ => {
                        let immediate = self.random.next() as u8;
                        out.sized(size, false, &[0x6b], to, rm).bytes(&[immediate]);
                    }
                }
            }
        }
    }

    fn with_immediate(&mut self, out: &mut Emit, size: Size, to: u8) {
        let digit = self.random.pick(&[0, 1, 2, 3, 4, 4, 4, 5, 6, 7]);
        let immediate = self.random.immediate();
        let rm = match self.random.one_of(8) {
            true => self.slot(),
            false => Rm::Reg(to),
        };
        match size {
            Size::Byte => out.op(size, &[0x80], digit, rm).bytes(&[immediate as u8]),
            _ if self.random.one_of(2) => out
                .sized(size, false, &[0x83], digit, rm)
                .bytes(&[immediate as u8]),
            Size::Short => out
                .op(size, &[0x80], digit, rm)
                .bytes(&(immediate as i16).to_le_bytes()),
            _ => out
                .op(size, &[0x80], digit, rm)
                .bytes(&immediate.to_le_bytes()),
        };
    }

    fn shifts(&mut self, out: &mut Emit) {
        let (to, from) = (self.target(), self.register());
        let size = match self.random.below(3) {
            0 => self.size(),
            _ => self.wide(),
        };
        let count = self
            .random
            .pick(&[0, 1, 2, 3, 4, 7, 8, 16, 24, 31, 32, 33, 48, 62, 63, 64]);
        // rol, ror, shl, shr, sar
        let digit = self.random.pick(&[0, 1, 4, 4, 5, 5, 5, 7]);
        match self.random.below(6) {
            0..3 => {
                out.op(size, &[0xc0], digit, Rm::Reg(to)).bytes(&[count]);
            }
            3 => {
                out.op(size, &[0xd2], digit, Rm::Reg(to));
            }
            4 => {
                let opcode = self.random.pick(&[0xa4, 0xac]);
                out.sized(size, false, &[0x0f, opcode], from, Rm::Reg(to))
                    .bytes(&[count]);
            }
            _ if self.places.has_extensions => {
                let wide = self.random.one_of(2);
                match self.random.one_of(3) {
                    // rorx
                    true => out
                        .vex((3, 3, wide), 0xf0, to, (0, Rm::Reg(from)))
                        .bytes(&[count]),
                    // shlx, shrx, sarx
                    false => {
                        let prefix = self.random.pick(&[1, 2, 3]);
                        let by = self.register();
                        out.vex((prefix, 2, wide), 0xf7, to, (by, Rm::Reg(from)))
                    }
                };
            }
            _ => {
                let opcode = self.random.pick(&[0xa5, 0xad]);
                out.sized(size, false, &[0x0f, opcode], from, Rm::Reg(to));
            }
        }
    }

    /// A comparison or a test.
    fn compares(&mut self, out: &mut Emit) {
        let size = match self.random.below(4) {
            0 => self.size(),
            _ => self.wide(),
        };
        let (left, right) = (self.register(), self.register());
        let immediate = self.random.immediate();
        match self.random.below(8) {
            0 | 1 => out.op(size, &[0x38], right, Rm::Reg(left)),
            2 => {
                let rm = self.operand();
                out.op(size, &[0x3a], left, rm)
            }
            3 | 4 if size != Size::Byte => out
                .sized(size, false, &[0x83], 7, Rm::Reg(left))
                .bytes(&[immediate as u8]),
            5 if matches!(size, Size::Word | Size::Long) => out
                .op(size, &[0x80], 7, Rm::Reg(left))
                .bytes(&immediate.to_le_bytes()),
            6 => out.op(size, &[0x84], left, Rm::Reg(left)),
            _ => out.op(size, &[0x84], right, Rm::Reg(left)),
        };
    }

    fn condition(&mut self) -> u8 {
        match self.random.below(3) {
            0 => self.random.below(16) as u8,
            // b, ae, be, a, e, ne, l, ge, le, g
            _ => self.random.pick(&[2, 3, 6, 7, 4, 5, 12, 13, 14, 15]),
        }
    }

    fn selects(&mut self, out: &mut Emit) {
        if !self.random.one_of(5) {
            self.compares(out);
        }
        if self.random.one_of(4) {
            self.moves(out);
        }
        for _ in 0..=self.random.below(2) {
            let condition = self.condition();
            let to = self.target();
            match self.random.one_of(2) {
                true => out.op(Size::Byte, &[0x0f, 0x90 | condition], 0, Rm::Reg(to)),
                false => {
                    let size = self.random.pick(&[Size::Short, Size::Word, Size::Long]);
                    let rm = self.operand();
                    out.sized(size, false, &[0x0f, 0x40 | condition], to, rm)
                }
            };
        }
        // A word whose lowest byte `setcc` may have written.
        if self.random.one_of(3) {
            let to = self.target();
            let from = self.register();
            out.sized(Size::Word, true, &[0x0f, 0xb6], to, Rm::Reg(from));
        }
    }

    /// Searches for bits, and other instructions with rare results.
    fn searches(&mut self, out: &mut Emit) {
        let (to, from) = (self.target(), self.register());
        let size = self
            .random
            .pick(&[Size::Short, Size::Word, Size::Long, Size::Long]);
        match self.random.below(12) {
            0..3 => {
                let opcode = self.random.pick(&[0xbc, 0xbd]);
                out.sized(size, false, &[0x0f, opcode], to, Rm::Reg(from));
                if !self.random.one_of(3) {
                    let (copy, other) = (self.target(), self.register());
                    if self.random.one_of(2) {
                        out.mov(copy, to);
                    }
                    let selected = self.random.pick(&[to, copy]);
                    let size = self.random.pick(&[Size::Short, Size::Word, Size::Long]);
                    out.sized(size, false, &[0x0f, 0x44], selected, Rm::Reg(other));
                }
            }
            3 if self.places.has_extensions => {
                // popcnt, tzcnt, lzcnt
                let opcode = self.random.pick(&[0xb8, 0xbc, 0xbd]);
                let wide = size == Size::Long;
                if size == Size::Short {
                    out.bytes(&[0x66]);
                }
                out.legacy(
                    (Some(0xf3), wide, false),
                    &[0x0f, opcode],
                    to,
                    Rm::Reg(from),
                );
            }
            4 => {
                out.bytes(self.random.pick::<&[u8]>(&[
                    &[0x98],
                    &[0x48, 0x98],
                    &[0x66, 0x98],
                    &[0x99],
                    &[0x48, 0x99],
                    &[0x66, 0x99],
                ]));
            }
            5 => {
                let wide = self.random.one_of(2);
                let rex = 0x40 | u8::from(wide) << 3 | to >> 3;
                out.bytes(&[rex, 0x0f, 0xc8 | to & 7]);
            }
            6 => {
                // bt, bts, btr, btc
                let digit = self.random.pick(&[4, 5, 6, 7]);
                let bit = self.random.next() as u8;
                out.sized(size, false, &[0x0f, 0xba], digit, Rm::Reg(to))
                    .bytes(&[bit]);
            }
            7 => {
                let opcode = self.random.pick(&[0xa3, 0xab, 0xb3, 0xbb]);
                out.sized(size, false, &[0x0f, opcode], from, Rm::Reg(to));
            }
            8 => {
                // xchg, xadd, cmpxchg
                let size = self.size();
                let rm = self.operand();
                let opcode = self
                    .random
                    .pick::<&[u8]>(&[&[0x86], &[0x0f, 0xc0], &[0x0f, 0xb0]]);
                out.op(size, opcode, to, rm);
            }
            9 => {
                // div, idiv
                let digit = self.random.pick(&[6, 7]);
                out.op(size, &[0xf6], digit, Rm::Reg(from));
            }
            10 if self.places.has_extensions => {
                let wide = self.random.one_of(2);
                let (prefix, opcode) = self.random.pick(&[
                    (0, 0xf2),
                    (0, 0xf7),
                    (0, 0xf5),
                    (3, 0xf5),
                    (2, 0xf5),
                    (3, 0xf6),
                ]);
                out.vex(
                    (prefix, 2, wide),
                    opcode,
                    to,
                    (from, Rm::Reg(self.random.pick(&FEW))),
                );
            }
            _ => {
                // The second byte of a register.
                let opcode = self
                    .random
                    .pick(&[0x00, 0x08, 0x20, 0x28, 0x30, 0x38, 0x88]);
                let (a, b) = (self.random.below(8) as u8, self.random.below(8) as u8);
                out.bytes(&[opcode, 0xc0 | a << 3 | b]);
            }
        }
    }

    fn accesses(&mut self, out: &mut Emit) {
        let size = self.size();
        let register = self.target();
        if self.random.one_of(3) {
            let index = self.register();
            match self.random.below(3) {
                0 => out.op(Size::Word, &[0x88], index, Rm::Reg(index)),
                1 => out.op(Size::Long, &[0x80], 4, Rm::Reg(index)).bytes(
                    &self
                        .random
                        .pick(&[0xff_i32, 0xffff, 0x7fff_ffff, 0xfff8])
                        .to_le_bytes(),
                ),
                _ => out.op(Size::Long, &[0xc0], 5, Rm::Reg(index)).bytes(&[32]),
            };
        }
        let rm = self.memory();
        match self.random.below(4) {
            0 | 1 => out.load(size, register, rm),
            2 => out.store(size, rm, register),
            _ => {
                let opcode = self
                    .random
                    .pick(&[0x00, 0x02, 0x20, 0x2a, 0x30, 0x38, 0x84]);
                out.op(size, &[opcode], register, rm)
            }
        };
    }

    fn spills(&mut self, out: &mut Emit) {
        for _ in 0..=self.random.below(2) {
            let size = match self.random.below(2) {
                0 => self.size(),
                _ => Size::Long,
            };
            let slot = self.slot();
            match self.random.below(9) {
                0..3 => {
                    let register = self.register();
                    out.store(size, slot, register);
                }
                3..6 => {
                    let register = self.target();
                    out.load(size, register, slot);
                }
                6 => {
                    let vector = self.vector();
                    // movups, movss, movsd
                    let (prefix, store) =
                        self.random
                            .pick(&[(None, 0), (Some(0xf3), 0), (Some(0xf2), 0)]);
                    let opcode = 0x10 | store | self.random.below(2) as u8;
                    out.legacy((prefix, false, false), &[0x0f, opcode], vector, slot);
                }
                7 => {
                    let immediate = self.random.immediate();
                    out.op(Size::Word, &[0xc6], 0, slot)
                        .bytes(&immediate.to_le_bytes());
                }
                _ => {
                    let (pushed, popped) = (self.register(), self.target());
                    out.bytes(&[0x40 | pushed >> 3, 0x50 | pushed & 7]);
                    out.bytes(&[0x40 | popped >> 3, 0x58 | popped & 7]);
                }
            }
        }
    }

    fn fields(&mut self, out: &mut Emit) {
        let (at, bytes) = self.random.pick(&self.places.fields);
        let at = at + self.random.pick(&[0, 0, 0, 0, 4, 8]);
        let size = match (bytes, self.random.below(8)) {
            (_, 0) => self.size(),
            (4, _) => Size::Word,
            _ => Size::Long,
        };
        let rm = Rm::Mem(self.context(), None, at);
        let register = self.target();
        match self.random.below(4) {
            0 => out.store(size, rm, register),
            1 if bytes == 16 => out.legacy((None, false, false), &[0x0f, 0x10], register & 7, rm),
            _ => out.load(size, register, rm),
        };
    }

    /// Any opcode with operands of the usual form.
    fn any(&mut self, out: &mut Emit) {
        let prefix = self
            .random
            .pick(&[None, None, Some(0x66), Some(0xf2), Some(0xf3)]);
        let wide = self.random.one_of(2);
        let opcode = self.random.next() as u8;
        let escapes =
            self.random
                .pick::<&[u8]>(&[&[], &[0x0f], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]]);
        let rm = self.operand();
        let register = self.random.pick(&FEW);
        let mut whole = escapes.to_vec();
        whole.push(opcode);
        let start = out.0.len();
        out.legacy((prefix, wide, self.random.one_of(2)), &whole, register, rm);
        // Some opcodes have an immediate.
        match self.random.below(3) {
            0 => {
                out.bytes(&[self.random.below(8) as u8]);
            }
            1 if escapes.is_empty() => {
                let immediate = self.random.immediate();
                out.bytes(&immediate.to_le_bytes());
            }
            _ => {}
        }
        // A jump back could be a loop without end.
        let mut decoder = Decoder::new(64, &out.0[start..], DecoderOptions::NONE);
        let mut instructions = decoder.iter();
        if instructions.any(|instruction| instruction.flow_control() != FlowControl::Next) {
            out.0.truncate(start);
        }
    }
}
