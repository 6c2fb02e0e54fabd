//! The instructions that guest code may contain.
//!
//! The list names every instruction on general registers. Vector instructions are selected by the
//! extension that they belong to, less those that change or reveal more than their operands.

use iced_x86::{Code, CpuidFeature, FlowControl, Instruction, Mnemonic, OpKind, Register};
use pirn_format::cpu::CpuFeatures;

/// Whether the verifier knows what an instruction with these bytes does.
pub(super) fn is_allowed(instruction: &Instruction, bytes: &[u8]) -> bool {
    if !has_ordinary_registers(instruction) || !has_one_meaning(instruction, bytes) {
        return false;
    }
    // Other segments start at address 0 (Intel SDM volume 1, 3.4.2.1).
    let is_offset = matches!(instruction.segment_prefix(), Register::FS | Register::GS);
    if is_offset || instruction.is_vsib() {
        return false;
    }
    is_general(instruction.mnemonic())
        || (is_vector(instruction) && !is_special(instruction.mnemonic()))
}

/// An extension that an instruction needs, and that the file's header does not name. Processors
/// without it do not know the instruction, or take it for another one, as `tzcnt` for `bsf`. No
/// header names some extensions, so their instructions are refused.
pub(super) fn absent(instruction: &Instruction, cpu: CpuFeatures) -> Option<String> {
    instruction.cpuid_features().iter().find_map(|feature| {
        let name = match feature {
            // Every x86_64 processor has these.
            CpuidFeature::INTEL8086
            | CpuidFeature::INTEL186
            | CpuidFeature::INTEL286
            | CpuidFeature::INTEL386
            | CpuidFeature::INTEL486
            | CpuidFeature::X64
            | CpuidFeature::CMOV
            | CpuidFeature::MULTIBYTENOP
            | CpuidFeature::SSE
            | CpuidFeature::SSE2 => return None,
            CpuidFeature::SSE3 => "sse3",
            CpuidFeature::SSSE3 => "ssse3",
            CpuidFeature::CMPXCHG16B => "cmpxchg16b",
            CpuidFeature::SSE4_1 => "sse4.1",
            CpuidFeature::SSE4_2 => "sse4.2",
            CpuidFeature::POPCNT => "popcnt",
            CpuidFeature::AVX => "avx",
            CpuidFeature::AVX2 => "avx2",
            CpuidFeature::FMA => "fma",
            CpuidFeature::BMI1 => "bmi1",
            CpuidFeature::BMI2 => "bmi2",
            CpuidFeature::LZCNT => "lzcnt",
            CpuidFeature::AVX512F => "avx512f",
            CpuidFeature::AVX512DQ => "avx512dq",
            CpuidFeature::AVX512VL => "avx512vl",
            CpuidFeature::AVX512_BITALG => "avx512bitalg",
            CpuidFeature::AVX512_VBMI => "avx512vbmi",
            CpuidFeature::AES => "aes",
            CpuidFeature::PCLMULQDQ => "pclmulqdq",
            CpuidFeature::SHA => "sha",
            CpuidFeature::GFNI => "gfni",
            other => return Some(format!("{other:?}").to_ascii_lowercase()),
        };
        (!cpu.has(name)).then(|| name.to_string())
    })
}

/// Whether all operands are general registers, vector registers, or none. Moves of segment and
/// control registers have the same mnemonics. The runtime keeps the vector registers 0 to 15 of a
/// guest that it interrupts, but not the 16 others of AVX-512.
fn has_ordinary_registers(instruction: &Instruction) -> bool {
    (0..instruction.op_count())
        .filter(|at| instruction.op_kind(*at) == OpKind::Register)
        .map(|at| instruction.op_register(at))
        .all(|register| {
            register.is_gpr() || (register.is_vector_register() && register.number() < 16)
        })
}

/// Whether the instruction moves the stack pointer by words of 64 bits, and has the same length on
/// all processors: some shorten a jump that has the prefix for 16 bits (AMD64 APM volume 3, 1.2.7).
fn has_one_meaning(instruction: &Instruction, bytes: &[u8]) -> bool {
    let is_whole = match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Call => instruction.stack_pointer_increment() == -8,
        Mnemonic::Pop => instruction.stack_pointer_increment() == 8,
        Mnemonic::Ret => matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16),
        _ => true,
    };
    let is_prefix = |byte: &&u8| {
        matches!(
            byte,
            0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
        )
    };
    let is_shortened = instruction.flow_control() != FlowControl::Next
        && bytes.iter().take_while(is_prefix).any(|byte| *byte == 0x66);
    is_whole && !is_shortened
}

/// Instructions on general registers, and jumps.
fn is_general(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Adc, Add, And, Andn, Bextr, Blsi, Blsmsk, Blsr, Bsf, Bsr, Bswap, Bt, Btc, Btr, Bts, Bzhi,
        Call, Cbw, Cdq, Cdqe, Cmp, Cmpxchg, Cmpxchg16b, Cqo, Crc32, Cwd, Cwde, Dec, Div, Idiv,
        Imul, Inc, Jmp, Lea, Lzcnt, Mfence, Mov, Movsx, Movsxd, Movzx, Mul, Mulx, Neg, Nop, Not,
        Or, Pdep, Pext, Pop, Popcnt, Push, Ret, Rol, Ror, Rorx, Sar, Sarx, Sbb, Shl, Shld, Shlx,
        Shr, Shrd, Shrx, Sub, Test, Tzcnt, Ud2, Xadd, Xchg, Xor,
    };
    is_conditional(mnemonic)
        || matches!(
            mnemonic,
            Adc | Add
                | And
                | Andn
                | Bextr
                | Blsi
                | Blsmsk
                | Blsr
                | Bsf
                | Bsr
                | Bswap
                | Bt
                | Btc
                | Btr
                | Bts
                | Bzhi
                | Call
                | Cbw
                | Cdq
                | Cdqe
                | Cmp
                | Cmpxchg
                | Cmpxchg16b
                | Cqo
                | Crc32
                | Cwd
                | Cwde
                | Dec
                | Div
                | Idiv
                | Imul
                | Inc
                | Jmp
                | Lea
                | Lzcnt
                | Mfence
                | Mov
                | Movsx
                | Movsxd
                | Movzx
                | Mul
                | Mulx
                | Neg
                | Nop
                | Not
                | Or
                | Pdep
                | Pext
                | Pop
                | Popcnt
                | Push
                | Ret
                | Rol
                | Ror
                | Rorx
                | Sar
                | Sarx
                | Sbb
                | Shl
                | Shld
                | Shlx
                | Shr
                | Shrd
                | Shrx
                | Sub
                | Test
                | Tzcnt
                | Ud2
                | Xadd
                | Xchg
                | Xor
        )
}

/// `jcc`, `cmovcc` and `setcc`.
fn is_conditional(mnemonic: Mnemonic) -> bool {
    is_jcc(mnemonic) || is_cmov(mnemonic) || is_setcc(mnemonic)
}

/// `jcc`.
pub(super) fn is_jcc(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Ja, Jae, Jb, Jbe, Je, Jg, Jge, Jl, Jle, Jne, Jno, Jnp, Jns, Jo, Jp, Js};
    matches!(
        mnemonic,
        Ja | Jae | Jb | Jbe | Je | Jg | Jge | Jl | Jle | Jne | Jno | Jnp | Jns | Jo | Jp | Js
    )
}

/// `cmovcc`.
pub(super) fn is_cmov(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Cmova, Cmovae, Cmovb, Cmovbe, Cmove, Cmovg, Cmovge, Cmovl, Cmovle, Cmovne, Cmovno, Cmovnp,
        Cmovns, Cmovo, Cmovp, Cmovs,
    };
    matches!(
        mnemonic,
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
    )
}

/// `setcc`.
pub(super) fn is_setcc(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Seta, Setae, Setb, Setbe, Sete, Setg, Setge, Setl, Setle, Setne, Setno, Setnp, Setns, Seto,
        Setp, Sets,
    };
    matches!(
        mnemonic,
        Seta | Setae
            | Setb
            | Setbe
            | Sete
            | Setg
            | Setge
            | Setl
            | Setle
            | Setne
            | Setno
            | Setnp
            | Setns
            | Seto
            | Setp
            | Sets
    )
}

/// Whether an instruction belongs to extensions that compute on vector registers alone.
fn is_vector(instruction: &Instruction) -> bool {
    use CpuidFeature::{
        AES, AVX, AVX2, AVX512_BITALG, AVX512_VBMI, AVX512DQ, AVX512F, AVX512VL, FMA, GFNI,
        PCLMULQDQ, SHA, SSE, SSE2, SSE3, SSE4_1, SSE4_2, SSSE3,
    };
    // No register of another size: the verifier knows 128 bits of each vector register.
    let is_other = (0..instruction.op_count()).any(|at| {
        let register = instruction.op_register(at);
        register.is_mm() || register.is_ymm() || register.is_zmm() || register.is_k()
    });
    !is_other
        && instruction.op_mask() == Register::None
        && instruction.cpuid_features().iter().all(|feature| {
            matches!(
                feature,
                SSE | SSE2
                    | SSE3
                    | SSSE3
                    | SSE4_1
                    | SSE4_2
                    | AVX
                    | AVX2
                    | FMA
                    | AES
                    | PCLMULQDQ
                    | SHA
                    | GFNI
                    | AVX512F
                    | AVX512VL
                    | AVX512DQ
                    | AVX512_VBMI
                    | AVX512_BITALG
            )
        })
}

/// Instructions of those extensions that use control or x87 registers, caches or addresses that no
/// operand shows, or that access some elements of an operand and not others.
fn is_special(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Clflush, Cvtpi2pd, Cvtpi2ps, Ldmxcsr, Lfence, Maskmovdqu, Maskmovq, Monitor, Mwait, Pause,
        Prefetchnta, Prefetcht0, Prefetcht1, Prefetcht2, Sfence, Stmxcsr, Vldmxcsr, Vmaskmovdqu,
        Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq, Vstmxcsr, Vzeroall,
    };
    matches!(
        mnemonic,
        Clflush
            | Cvtpi2pd
            | Cvtpi2ps
            | Ldmxcsr
            | Lfence
            | Maskmovdqu
            | Maskmovq
            | Monitor
            | Mwait
            | Pause
            | Prefetchnta
            | Prefetcht0
            | Prefetcht1
            | Prefetcht2
            | Sfence
            | Stmxcsr
            | Vldmxcsr
            | Vmaskmovdqu
            | Vmaskmovpd
            | Vmaskmovps
            | Vpmaskmovd
            | Vpmaskmovq
            | Vstmxcsr
            | Vzeroall
    )
}
