//! The extent of a vector register that an instruction uses.
//!
//! A floating-point number lies in the lowest bits of a vector register. The other bits may be data
//! of the host, as after a call, which the guest must not see. An instruction may read such a
//! register if the result does not depend on the other bits, or if each bit stays in its place.

use crate::vector::Extent;
use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};

/// The extent of the vector operands that must be a number.
pub(super) fn needed(instruction: &Instruction) -> Extent {
    let mnemonic = instruction.mnemonic();
    let stored = match instruction.op0_kind() {
        OpKind::Memory => Extent::of_bits(8 * instruction.memory_size().size() as u32),
        _ => Extent::Nothing,
    };
    match mnemonic {
        _ if replaced(instruction).is_some() => Extent::Nothing,
        _ if lane(instruction).is_some() => Extent::Nothing,
        _ if is_lanewise(mnemonic) => stored,
        Mnemonic::Vpbroadcastb => Extent::Byte,
        Mnemonic::Vpbroadcastw => Extent::Short,
        _ if is_low_splat(instruction) => Extent::Short,
        _ if is_splat(instruction) || is_single(mnemonic) => Extent::Single,
        _ if is_double(mnemonic) || is_low_half(mnemonic) || is_wide_splat(instruction) => {
            Extent::Double
        }
        _ => Extent::Whole,
    }
}

/// The part of a vector in memory that must be a number, if it is larger than the part for register
/// operands.
pub(super) fn needed_in_memory(instruction: &Instruction) -> Extent {
    match replaced(instruction).is_some() {
        true => Extent::Whole,
        false => Extent::Nothing,
    }
}

/// The extent of the result, from the extents of the operands and of the old value.
pub(super) fn result(instruction: &Instruction, operands: Extent, old: Extent) -> Extent {
    let mnemonic = instruction.mnemonic();
    if let Some((read, replaced)) = lane(instruction) {
        return if operands >= read {
            old.max(replaced)
        } else {
            Extent::Nothing
        };
    }
    if let Some((below, replaced)) = replaced(instruction) {
        return match old >= below {
            true => old.max(replaced),
            false => old,
        };
    }
    match mnemonic {
        Mnemonic::Vpbroadcastb | Mnemonic::Vpbroadcastw => Extent::Whole,
        _ if is_low_splat(instruction) => operands.max(Extent::Double),
        Mnemonic::Vcvtsd2ss => Extent::Single,
        Mnemonic::Vcvtss2sd => Extent::Double,
        _ if is_splat(instruction) || is_wide_splat(instruction) || is_low_half(mnemonic) => {
            Extent::Whole
        }
        _ => operands,
    }
}

/// Whether an access of 16 bytes must be at a multiple of 16 (Intel SDM volume 1, 4.1.1 and 14.9).
pub(super) fn needs_alignment(instruction: &Instruction) -> bool {
    match instruction.encoding() {
        EncodingKind::Legacy => !matches!(
            instruction.mnemonic(),
            Mnemonic::Lddqu | Mnemonic::Movdqu | Mnemonic::Movupd | Mnemonic::Movups
        ),
        _ => matches!(
            instruction.mnemonic(),
            Mnemonic::Vmovapd
                | Mnemonic::Vmovaps
                | Mnemonic::Vmovdqa
                | Mnemonic::Vmovdqa32
                | Mnemonic::Vmovdqa64
                | Mnemonic::Vmovntdq
                | Mnemonic::Vmovntdqa
                | Mnemonic::Vmovntpd
                | Mnemonic::Vmovntps
        ),
    }
}

/// Whether the instruction moves a whole register.
pub(super) fn is_whole_move(instruction: &Instruction) -> bool {
    let is_move = matches!(
        instruction.mnemonic(),
        Mnemonic::Movapd
            | Mnemonic::Movaps
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Movupd
            | Mnemonic::Movups
            | Mnemonic::Vmovapd
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovdqa
            | Mnemonic::Vmovdqu
            | Mnemonic::Vmovupd
            | Mnemonic::Vmovups
    );
    let is_register = instruction.op0_register().is_xmm() && instruction.op1_register().is_xmm();
    is_move && (is_register || instruction.memory_size().size() == 16)
}

/// The lane that an instruction replaces in a copy of a register: the extent below the lane, and
/// the extent up to the lane's end. `None` for other instructions, and for lanes at whose end no
/// [`Extent`] ends.
fn replaced(instruction: &Instruction) -> Option<(Extent, Extent)> {
    use Extent::{Byte, Double, Nothing, Short, Single, Whole};
    // The last operand selects the lane. The upper bits of this operand have no meaning (Intel SDM
    // volume 2, `PINSRB`, `PINSRW`).
    let last = instruction.op_count().saturating_sub(1);
    let lane = |mask: u64| instruction.immediate(last) & mask;
    match instruction.mnemonic() {
        Mnemonic::Cvtsi2ss | Mnemonic::Vcvtsi2ss | Mnemonic::Vcvtusi2ss => Some((Nothing, Single)),
        Mnemonic::Cvtsi2sd | Mnemonic::Vcvtsi2sd | Mnemonic::Vcvtusi2sd => Some((Nothing, Double)),
        Mnemonic::Pinsrb | Mnemonic::Vpinsrb => match lane(15) {
            0 => Some((Nothing, Byte)),
            1 => Some((Byte, Short)),
            _ => None,
        },
        Mnemonic::Pinsrw | Mnemonic::Vpinsrw => match lane(7) {
            0 => Some((Nothing, Short)),
            1 => Some((Short, Single)),
            _ => None,
        },
        Mnemonic::Pinsrd | Mnemonic::Vpinsrd => match lane(3) {
            0 => Some((Nothing, Single)),
            1 => Some((Single, Double)),
            _ => None,
        },
        Mnemonic::Pinsrq | Mnemonic::Vpinsrq => match lane(1) {
            0 => Some((Nothing, Double)),
            _ => Some((Double, Whole)),
        },
        _ => None,
    }
}

/// The register whose other bits an instruction keeps. Instructions with a VEX or EVEX prefix name
/// this register as their second operand.
pub(super) fn kept(instruction: &Instruction) -> Register {
    let second = instruction.op1_register();
    let is_apart = instruction.encoding() != EncodingKind::Legacy && second.is_xmm();
    let is_kept = replaced(instruction).is_some() || lane(instruction).is_some();
    match is_apart && is_kept {
        true => second,
        false => instruction.op0_register(),
    }
}

/// The register whose lowest lane an instruction moves to a lane of [`kept`].
pub(super) fn inserted(instruction: &Instruction) -> Register {
    match instruction.encoding() {
        EncodingKind::Legacy => instruction.op1_register(),
        _ => instruction.op2_register(),
    }
}

/// If the instruction copies the lowest byte of a register to all bytes where its mask is 0: the
/// register of the mask.
pub(super) fn byte_splat_mask(instruction: &Instruction) -> Option<Register> {
    let mask = match instruction.mnemonic() {
        Mnemonic::Pshufb => instruction.op1_register(),
        Mnemonic::Vpshufb if instruction.op1_register().is_xmm() => instruction.op2_register(),
        _ => return None,
    };
    (mask.is_xmm() && instruction.op0_register().is_xmm()).then_some(mask)
}

/// Whether the instruction copies the lowest 16 bits of a register to its lower half, and keeps its
/// upper half.
fn is_low_splat(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Pshuflw | Mnemonic::Vpshuflw
    ) && instruction.op1_register().is_xmm()
        && instruction.immediate(2) == 0
}

/// If the instruction replaces the lowest lane of its first operand and keeps the other bits: the
/// extents that it reads and that it replaces.
pub(super) fn lane(instruction: &Instruction) -> Option<(Extent, Extent)> {
    use Extent::{Double, Single};
    let is_register = instruction.op1_kind() == OpKind::Register;
    match instruction.mnemonic() {
        Mnemonic::Movss if is_register => Some((Single, Single)),
        Mnemonic::Movsd if is_register => Some((Double, Double)),
        // The form with memory has two operands.
        Mnemonic::Vmovss if instruction.op_count() == 3 => Some((Single, Single)),
        Mnemonic::Vmovsd if instruction.op_count() == 3 => Some((Double, Double)),
        // The upper bits of the immediate select the lane of the second operand.
        Mnemonic::Insertps if is_register && instruction.immediate(2) >> 6 & 3 == 0 => {
            Some((Single, Extent::Nothing))
        }
        Mnemonic::Vinsertps
            if instruction.op2_kind() == OpKind::Register
                && instruction.immediate(3) >> 6 & 3 == 0 =>
        {
            Some((Single, Extent::Nothing))
        }
        Mnemonic::Roundss | Mnemonic::Sqrtss => Some((Single, Single)),
        Mnemonic::Roundsd | Mnemonic::Sqrtsd => Some((Double, Double)),
        Mnemonic::Cvtss2sd => Some((Single, Double)),
        Mnemonic::Cvtsd2ss => Some((Double, Single)),
        _ => None,
    }
    .filter(|_| instruction.op0_kind() == OpKind::Register)
}

/// Whether the instruction copies the lowest lane of 32 bits to all lanes.
fn is_splat(instruction: &Instruction) -> bool {
    let last = instruction.op_count().saturating_sub(1);
    match instruction.mnemonic() {
        Mnemonic::Vbroadcastss => true,
        Mnemonic::Pshufd | Mnemonic::Shufps | Mnemonic::Vpshufd | Mnemonic::Vshufps => {
            instruction.op_kind(last) == OpKind::Immediate8 && instruction.immediate(last) == 0
        }
        _ => false,
    }
}

/// Whether the instruction copies the lower half to both halves.
fn is_wide_splat(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Pshufd | Mnemonic::Vpshufd)
        && instruction.immediate(2) == 0b01_00_01_00
}

/// Instructions that use the lower half of each operand and fill the whole result.
fn is_low_half(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Movddup
            | Mnemonic::Movlhps
            | Mnemonic::Punpcklbw
            | Mnemonic::Punpckldq
            | Mnemonic::Punpcklqdq
            | Mnemonic::Punpcklwd
            | Mnemonic::Unpcklpd
            | Mnemonic::Unpcklps
            | Mnemonic::Vmovddup
            | Mnemonic::Vmovlhps
            | Mnemonic::Vpunpcklbw
            | Mnemonic::Vpunpckldq
            | Mnemonic::Vpunpcklqdq
            | Mnemonic::Vpunpcklwd
            | Mnemonic::Vunpcklpd
            | Mnemonic::Vunpcklps
    )
}

/// Whether the instruction is a bitwise XOR, so that the result of equal operands is 0.
pub(super) fn is_xor(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Pxor
            | Mnemonic::Vpxor
            | Mnemonic::Vxorpd
            | Mnemonic::Vxorps
            | Mnemonic::Xorpd
            | Mnemonic::Xorps
    )
}

/// Instructions on the lowest 32 bits.
fn is_single(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Addss
            | Mnemonic::Cmpss
            | Mnemonic::Vcmpss
            | Mnemonic::Comiss
            | Mnemonic::Cvtss2sd
            | Mnemonic::Cvtss2si
            | Mnemonic::Cvttss2si
            | Mnemonic::Divss
            | Mnemonic::Maxss
            | Mnemonic::Minss
            | Mnemonic::Movd
            | Mnemonic::Movss
            | Mnemonic::Mulss
            | Mnemonic::Roundss
            | Mnemonic::Sqrtss
            | Mnemonic::Subss
            | Mnemonic::Ucomiss
            | Mnemonic::Vaddss
            | Mnemonic::Vcomiss
            | Mnemonic::Vcvtss2sd
            | Mnemonic::Vcvtss2si
            | Mnemonic::Vcvttss2si
            | Mnemonic::Vdivss
            | Mnemonic::Vfmadd132ss
            | Mnemonic::Vfmadd213ss
            | Mnemonic::Vfmadd231ss
            | Mnemonic::Vmaxss
            | Mnemonic::Vminss
            | Mnemonic::Vmovd
            | Mnemonic::Vmovss
            | Mnemonic::Vmulss
            | Mnemonic::Vroundss
            | Mnemonic::Vsqrtss
            | Mnemonic::Vsubss
            | Mnemonic::Vucomiss
    )
}

/// Instructions on the lowest 64 bits.
fn is_double(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Addsd
            | Mnemonic::Cmpsd
            | Mnemonic::Vcmpsd
            | Mnemonic::Comisd
            | Mnemonic::Cvtsd2si
            | Mnemonic::Cvtsd2ss
            | Mnemonic::Cvttsd2si
            | Mnemonic::Divsd
            | Mnemonic::Maxsd
            | Mnemonic::Minsd
            | Mnemonic::Movq
            | Mnemonic::Movsd
            | Mnemonic::Mulsd
            | Mnemonic::Roundsd
            | Mnemonic::Sqrtsd
            | Mnemonic::Subsd
            | Mnemonic::Ucomisd
            | Mnemonic::Vaddsd
            | Mnemonic::Vcomisd
            | Mnemonic::Vcvtsd2si
            | Mnemonic::Vcvtsd2ss
            | Mnemonic::Vcvttsd2si
            | Mnemonic::Vdivsd
            | Mnemonic::Vfmadd132sd
            | Mnemonic::Vfmadd213sd
            | Mnemonic::Vfmadd231sd
            | Mnemonic::Vmaxsd
            | Mnemonic::Vminsd
            | Mnemonic::Vmovq
            | Mnemonic::Vmovsd
            | Mnemonic::Vmulsd
            | Mnemonic::Vroundsd
            | Mnemonic::Vsqrtsd
            | Mnemonic::Vsubsd
            | Mnemonic::Vucomisd
    )
}

/// Instructions that compute each bit of the result from bits at the same place.
fn is_lanewise(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Andnpd
            | Mnemonic::Andnps
            | Mnemonic::Andpd
            | Mnemonic::Andps
            | Mnemonic::Movapd
            | Mnemonic::Movaps
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Movupd
            | Mnemonic::Movups
            | Mnemonic::Orpd
            | Mnemonic::Orps
            | Mnemonic::Pand
            | Mnemonic::Pandn
            | Mnemonic::Por
            | Mnemonic::Pxor
            | Mnemonic::Vandnpd
            | Mnemonic::Vandnps
            | Mnemonic::Vandpd
            | Mnemonic::Vandps
            | Mnemonic::Vmovapd
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovdqa
            | Mnemonic::Vmovdqu
            | Mnemonic::Vmovupd
            | Mnemonic::Vmovups
            | Mnemonic::Vorpd
            | Mnemonic::Vorps
            | Mnemonic::Vpand
            | Mnemonic::Vpandn
            | Mnemonic::Vpor
            | Mnemonic::Vpxor
            | Mnemonic::Vxorpd
            | Mnemonic::Vxorps
            | Mnemonic::Xorpd
            | Mnemonic::Xorps
    )
}
