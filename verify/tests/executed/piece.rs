//! [`Builder`]: grows a piece of code, group by group, so that the verifier accepts it.

use crate::emit::{Emit, Rm, Size};
use crate::grow::{self, FRAME, Grow};
use crate::guest::Guest;
use crate::places::{Place, Places};
use crate::random::Random;
use pirn_format::sections::Section;
use pirn_format::traps::CodeEntry;
use pirn_verify::Verifier;

/// Registers that the caller relies on, in the order of their words below the frame pointer.
const SAVED: [u8; 5] = [3, 12, 13, 14, 15];

/// Where code stores registers to make them visible to the guest: a distance from the base of
/// memory 0.
const SINKS: i32 = 0x4000;

/// Numbers of groups of instructions that the generator has tried and that the verifier has
/// accepted.
#[derive(Default, Clone)]
pub(crate) struct Counts {
    /// Bytes of all pieces.
    pub(crate) bytes: usize,
    /// By kind of group.
    pub(crate) tried: [u64; grow::KINDS.len()],
    /// By kind of group.
    pub(crate) accepted: [u64; grow::KINDS.len()],
    /// Stores of registers to memory 0: tried stores, and accepted stores.
    pub(crate) sinks: [u64; 2],
    /// Searches for the bound of a register, and searches that found a bound.
    pub(crate) tight: [u64; 2],
}

/// Grows the code of one function.
pub(crate) struct Builder<'a> {
    pub(crate) guest: &'a mut Guest,
    pub(crate) entry: CodeEntry,
    pub(crate) values: &'a Places,
    pub(crate) places: &'a grow::Places,
    /// Most bytes of the piece.
    pub(crate) bytes_max: usize,
    pub(crate) random: Random,
}

impl Builder<'_> {
    /// Whether the verifier proves this code.
    pub(crate) fn is_proven(&mut self, code: &[u8]) -> bool {
        if code.len() > self.bytes_max {
            return false;
        }
        let text = self.guest.section(Section::Text).start + self.entry.start as usize;
        self.guest.file[text..text + code.len()].copy_from_slice(code);
        let verifier = Verifier::new(&self.guest.file, &self.guest.checked);
        verifier.is_ok_and(|verifier| verifier.verify_code(self.entry).is_ok())
    }

    fn prologue(&self) -> Emit {
        let mut code = Emit::default();
        code.bytes(&[0x55]).mov(5, 4);
        code.op(Size::Long, &[0x80], 5, Rm::Reg(4))
            .bytes(&FRAME.to_le_bytes());
        for (at, register) in SAVED.into_iter().enumerate() {
            code.store(Size::Long, Rm::Mem(5, None, -8 - 8 * at as i32), register);
        }
        code.mov(3, self.values.context as u8);
        code
    }

    /// The end of the function, after the code that sets its results.
    fn epilogue(&self) -> Emit {
        let mut code = Emit::default();
        for (at, register) in SAVED.into_iter().enumerate() {
            code.load(Size::Long, register, Rm::Mem(5, None, -8 - 8 * at as i32));
        }
        code.mov(4, 5).bytes(&[0x5d]);
        match self.values.argument_bytes {
            0 => code.bytes(&[0xc3]),
            bytes => code.bytes(&[0xc2]).bytes(&(bytes as u16).to_le_bytes()),
        };
        code
    }

    /// Code that sets a result to a constant.
    fn setter(place: Place) -> Emit {
        let mut code = Emit::default();
        match place {
            Place::General(register) => code.constant(register as u8, 1),
            Place::Vector(register) => {
                let register = register as u8;
                code.legacy(
                    (None, false, false),
                    &[0x0f, 0x57],
                    register,
                    Rm::Reg(register),
                )
            }
            Place::Memory(_) => &mut code,
        };
        code
    }

    /// Grows a piece. The last proven code is in the file when this returns.
    pub(crate) fn grow(&mut self, groups: u64, counts: &mut Counts) -> Vec<u8> {
        let mut body = self.prologue();
        let mut setters: Vec<Emit> = vec![];
        for (place, _) in &self.values.results {
            setters.push(Self::setter(*place));
        }
        let epilogue = self.epilogue();
        let whole = |body: &Emit, setters: &[Emit]| {
            let mut code = body.clone();
            setters.iter().for_each(|setter| {
                code.bytes(&setter.0);
            });
            code.bytes(&epilogue.0);
            code.0
        };
        assert!(self.is_proven(&whole(&body, &setters)), "an empty piece");
        // Most registers hold a number at first. The other registers keep the bits that the caller
        // has left.
        for _ in 0..8 {
            let mut longer = body.clone();
            self.number(&mut longer);
            if self.is_proven(&whole(&longer, &setters)) {
                body = longer;
            }
        }
        for _ in 0..groups {
            let mut longer = body.clone();
            let mut group = Emit::default();
            let kind = Grow {
                random: &mut self.random,
                places: self.places,
                at: body.0.len(),
            }
            .group(&mut group);
            longer.bytes(&group.0);
            counts.tried[kind] += 1;
            if !group.0.is_empty() && self.is_proven(&whole(&longer, &setters)) {
                counts.accepted[kind] += 1;
                body = longer;
            }
        }
        for _ in 0..8 {
            let mut longer = body.clone();
            self.sink(&mut longer);
            counts.sinks[0] += 1;
            if self.is_proven(&whole(&longer, &setters)) {
                counts.sinks[1] += 1;
                body = longer;
            }
        }
        if self.random.one_of(4) {
            counts.tight[0] += 1;
            if let Some(longer) = self.tight(&body, &|body| whole(body, &setters)) {
                counts.tight[1] += 1;
                body = longer;
            }
        }
        // Registers may hold results already.
        for at in 0..setters.len() {
            let old = std::mem::take(&mut setters[at]);
            if !self.is_proven(&whole(&body, &setters)) {
                setters[at] = old;
            }
        }
        let code = whole(&body, &setters);
        assert!(self.is_proven(&code), "it was proven before");
        code
    }

    /// Code that sets a register to a number.
    fn number(&mut self, code: &mut Emit) {
        let params = self
            .values
            .params
            .iter()
            .filter_map(|(place, _)| match place {
                Place::General(register) => Some(*register as u8),
                _ => None,
            });
        let params: Vec<u8> = params.collect();
        let to = self.random.pick(&[0, 1, 2, 6, 8, 9, 10, 11, 12, 13]);
        match self.random.below(4) {
            0 | 1 if !params.is_empty() => {
                let from = self.random.pick(&params);
                let size = self.random.pick(&[Size::Word, Size::Long]);
                code.store(size, Rm::Reg(to), from)
            }
            2 => {
                let number = self.random.number();
                code.constant(to, number)
            }
            _ => {
                let at = 8 * self.random.below(256) as i32;
                let size = self
                    .random
                    .pick(&[Size::Byte, Size::Short, Size::Word, Size::Long]);
                match size {
                    Size::Byte | Size::Short => {
                        let opcode = 0xb6 | u8::from(size == Size::Short);
                        code.sized(Size::Long, false, &[0x0f, opcode], to, Rm::Mem(3, None, at))
                    }
                    _ => code.load(size, to, Rm::Mem(3, None, at)),
                }
            }
        };
    }

    /// Code that stores a part of a register where the guest can see it. The verifier accepts the
    /// code if the part is a number.
    fn sink(&mut self, code: &mut Emit) {
        const GENERAL: [u8; 13] = [0, 1, 2, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let base = self.random.pick(&[7, 3, 3]);
        let at = SINKS + 16 * self.random.below(64) as i32;
        let to = Rm::Mem(base, None, at);
        let register = self.random.pick(&GENERAL);
        let vector = self.random.pick(&[0, 1, 2, 3, 5, 9]);
        match self.random.below(8) {
            0..3 => code.store(Size::Long, to, register),
            3 => {
                let size = self.random.pick(&[Size::Byte, Size::Short, Size::Word]);
                code.store(size, to, register)
            }
            4 => {
                let condition = self.random.below(16) as u8;
                code.op(Size::Byte, &[0x0f, 0x90 | condition], 0, to)
            }
            5 => code.legacy((None, false, false), &[0x0f, 0x11], vector, to),
            6 => {
                let prefix = self.random.pick(&[Some(0xf3), Some(0xf2)]);
                code.legacy((prefix, false, false), &[0x0f, 0x11], vector, to)
            }
            _ => {
                let opcode = self.random.pick(&[0x14, 0x15, 0x16]);
                let lane = self.random.below(4) as u8;
                code.legacy(
                    (Some(0x66), false, false),
                    &[0x0f, 0x3a, opcode],
                    vector,
                    to,
                )
                .bytes(&[lane])
            }
        };
    }

    /// An access that the verifier accepts, but not with an address that is 1 higher, or 1 lower.
    /// So the access leaves the reservation if the verifier's bound of a register is wrong.
    fn tight(&mut self, body: &Emit, whole: &dyn Fn(&Emit) -> Vec<u8>) -> Option<Emit> {
        /// Bytes after a memory's base that code may access.
        const REACH: i64 = (4 << 30) + (32 << 20);
        let first = self.random.below(7) as usize;
        let scale = self.random.pick(&[0, 0, 1, 3]);
        let is_low = self.random.one_of(3);
        let access = |register: u8, distance: i64| {
            let mut longer = body.clone();
            // mov r11, constant; lea r11, [rbx + r11]; mov r11b, [r11 + register * scale]
            longer.constant(11, distance.cast_unsigned());
            longer.sized(Size::Long, false, &[0x8d], 11, Rm::Mem(3, Some((11, 0)), 0));
            longer.load(Size::Byte, 11, Rm::Mem(11, Some((register, scale)), 0));
            longer
        };
        // The least distance that is refused on one side, and a distance that is accepted.
        let (mut accepted, mut refused) = match is_low {
            true => (REACH / 2, -REACH),
            false => (0, REACH),
        };
        let mut registers = [0, 1, 2, 6, 8, 9, 10];
        registers.rotate_left(first);
        let mut registers = registers.into_iter();
        let mut proven = |register, distance| self.is_proven(&whole(&access(register, distance)));
        let register = registers.find(|register| proven(*register, accepted))?;
        while (accepted - refused).abs() > 1 {
            let middle = i64::midpoint(accepted, refused);
            match proven(register, middle) {
                true => accepted = middle,
                false => refused = middle,
            }
        }
        Some(access(register, accepted))
    }
}
