//! [`Emit`]: encodings of x86_64 instructions from their parts.

/// The second operand of most instructions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rm {
    Reg(u8),
    /// Base, index and the logarithm of its scale, displacement.
    Mem(u8, Option<(u8, u8)>, i32),
}

/// Bytes of an operation: 1, 2, 4 or 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Byte,
    Short,
    Word,
    Long,
}

/// Machine code that grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Emit(pub(crate) Vec<u8>);

impl Emit {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    fn modrm(&mut self, reg: u8, rm: Rm) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(rm) => self.0.push(0xc0 | reg | rm & 7),
            Rm::Mem(base, index, displacement) => {
                let is_short = i8::try_from(displacement).is_ok();
                let mode = if is_short { 0x40 } else { 0x80 };
                match index {
                    None if base & 7 != 4 => self.0.push(mode | reg | base & 7),
                    None => self.0.extend([mode | reg | 4, 0x24]),
                    Some((index, scale)) => {
                        let sib = scale << 6 | (index & 7) << 3 | base & 7;
                        self.0.extend([mode | reg | 4, sib]);
                    }
                }
                match is_short {
                    true => self.0.push(displacement as u8),
                    false => self.0.extend(displacement.to_le_bytes()),
                }
            }
        }
    }

    fn bits(reg: u8, rm: Rm) -> (u8, u8, u8) {
        let (index, base) = match rm {
            Rm::Reg(rm) => (0, rm),
            Rm::Mem(base, index, _) => (index.map_or(0, |(index, _)| index), base),
        };
        (reg >> 3 & 1, index >> 3 & 1, base >> 3 & 1)
    }

    /// An instruction without VEX: mandatory prefix, opcode, and a register or a digit of the
    /// opcode.
    pub(crate) fn legacy(
        &mut self,
        (prefix, is_wide, has_rex): (Option<u8>, bool, bool),
        opcode: &[u8],
        reg: u8,
        rm: Rm,
    ) -> &mut Self {
        self.0.extend(prefix);
        let (r, x, b) = Self::bits(reg, rm);
        let rex = 0x40 | u8::from(is_wide) << 3 | r << 2 | x << 1 | b;
        if rex != 0x40 || has_rex {
            self.0.push(rex);
        }
        self.0.extend(opcode);
        self.modrm(reg, rm);
        self
    }

    /// An operation on general registers, whose opcode is greater by 1 for all sizes except bytes.
    pub(crate) fn op(&mut self, size: Size, opcode: &[u8], reg: u8, rm: Rm) -> &mut Self {
        let mut opcode = opcode.to_vec();
        if size != Size::Byte
            && let Some(last) = opcode.last_mut()
        {
            *last |= 1;
        }
        // Without this prefix, registers 4 to 7 are the second bytes of 0 to 3.
        let is_low = size == Size::Byte && (reg > 3 || matches!(rm, Rm::Reg(rm) if rm > 3));
        self.sized(size, is_low, &opcode, reg, rm)
    }

    /// An operation on general registers, whose opcode does not depend on the size.
    pub(crate) fn sized(
        &mut self,
        size: Size,
        has_rex: bool,
        opcode: &[u8],
        reg: u8,
        rm: Rm,
    ) -> &mut Self {
        let prefix = (size == Size::Short).then_some(0x66);
        self.legacy((prefix, size == Size::Long, has_rex), opcode, reg, rm)
    }

    /// `mov` of general registers.
    pub(crate) fn mov(&mut self, to: u8, from: u8) -> &mut Self {
        self.op(Size::Long, &[0x88], from, Rm::Reg(to))
    }

    pub(crate) fn load(&mut self, size: Size, to: u8, from: Rm) -> &mut Self {
        self.op(size, &[0x8a], to, from)
    }

    pub(crate) fn store(&mut self, size: Size, to: Rm, from: u8) -> &mut Self {
        self.op(size, &[0x88], from, to)
    }

    pub(crate) fn constant(&mut self, to: u8, value: u64) -> &mut Self {
        self.bytes(&[0x48 | to >> 3, 0xb8 | to & 7])
            .bytes(&value.to_le_bytes())
    }

    /// An instruction with the three-byte VEX prefix, on 128 bits. `fields`: prefix, map, wide.
    pub(crate) fn vex(
        &mut self,
        (prefix, map, is_wide): (u8, u8, bool),
        opcode: u8,
        reg: u8,
        (second, rm): (u8, Rm),
    ) -> &mut Self {
        let (r, x, b) = Self::bits(reg, rm);
        self.0.extend([
            0xc4,
            (1 - r) << 7 | (1 - x) << 6 | (1 - b) << 5 | map,
            u8::from(is_wide) << 7 | (!second & 15) << 3 | prefix,
            opcode,
        ]);
        self.modrm(reg, rm);
        self
    }

    /// A conditional jump over `over` bytes.
    pub(crate) fn jump_if(&mut self, condition: u8, over: usize) -> &mut Self {
        let over = u32::try_from(over).expect("a short block");
        self.bytes(&[0x0f, 0x80 | condition])
            .bytes(&over.to_le_bytes())
    }
}
