//! The instructions that guest code may contain.
//!
//! The list names every instruction on general registers. It selects vector instructions by their
//! extension, except instructions that change or reveal more than their operands.

use iced_x86::{Code, CpuidFeature, FlowControl, Instruction, Mnemonic, OpKind, Register};
use pirn_format::cpu::CpuFeatures;
use std::sync::LazyLock;

/// The properties of all instructions with one code of the decoder.
struct Rule {
    /// Whether the instruction is on the list, if its operands are allowed.
    is_listed: bool,
    /// Whether the instruction computes on general registers, or jumps.
    is_general: bool,
    /// Whether the next instruction may not follow.
    is_jump: bool,
    /// Whether the instruction needs an extension that not every x86_64 processor has.
    is_extension: bool,
}

/// The rules of all codes, by their numbers.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| Code::values().map(Rule::of).collect());

impl Rule {
    fn of(code: Code) -> Self {
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        let mnemonic = code.mnemonic();
        let is_general = is_general(mnemonic);
        let is_vector = is_vector(code) && !is_special(mnemonic);
        let is_listed = (is_general || is_vector) && !instruction.is_vsib();
        Self {
            is_listed: is_listed && is_whole(&instruction),
            is_general,
            is_jump: code.flow_control() != FlowControl::Next,
            is_extension: !code.cpuid_features().iter().copied().all(is_everywhere),
        }
    }
}

/// Whether an instruction is no jump, no call and no trap, so that the next instruction always
/// follows.
pub(super) fn is_plain(instruction: &Instruction) -> bool {
    !RULES[instruction.code() as usize].is_jump
}

/// Whether the verifier knows the effects of an instruction. `code` starts with the instruction's
/// bytes.
pub(super) fn is_allowed(instruction: &Instruction, code: &[u8]) -> bool {
    let rule = &RULES[instruction.code() as usize];
    if !rule.is_listed || !has_ordinary_registers(instruction, rule.is_general) {
        return false;
    }
    // Other segments start at address 0 (Intel SDM volume 1, 3.4.2.1).
    let is_offset = matches!(instruction.segment_prefix(), Register::FS | Register::GS);
    let is_masked = !rule.is_general && instruction.op_mask() != Register::None;
    let is_short = rule.is_jump && is_shortened(bytes(instruction, code));
    !is_offset && !is_masked && !is_short
}

/// The name of an extension that an instruction needs and that the file's header does not name.
/// Processors without the extension reject the instruction, or execute another instruction: `bsf`
/// for `tzcnt`. Headers cannot name some extensions, so the verifier refuses their instructions.
pub(super) fn absent(instruction: &Instruction, cpu: CpuFeatures) -> Option<String> {
    if !RULES[instruction.code() as usize].is_extension {
        return None;
    }
    instruction.cpuid_features().iter().find_map(|feature| {
        let name = match feature {
            feature if is_everywhere(*feature) => return None,
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

/// Whether every x86_64 processor has an extension.
fn is_everywhere(feature: CpuidFeature) -> bool {
    matches!(
        feature,
        CpuidFeature::INTEL8086
            | CpuidFeature::INTEL186
            | CpuidFeature::INTEL286
            | CpuidFeature::INTEL386
            | CpuidFeature::INTEL486
            | CpuidFeature::X64
            | CpuidFeature::CMOV
            | CpuidFeature::MULTIBYTENOP
            | CpuidFeature::SSE
            | CpuidFeature::SSE2
    )
}

/// Whether all register operands are general registers or the vector registers 0 to 15. Moves of
/// segment and control registers have the same mnemonics. When the runtime interrupts a guest, it
/// saves the vector registers 0 to 15, but not AVX-512's other 16. The verifier knows 128 bits of a
/// vector register, so vector instructions have no larger registers.
fn has_ordinary_registers(instruction: &Instruction, is_general: bool) -> bool {
    (0..instruction.op_count())
        .filter(|at| instruction.op_kind(*at) == OpKind::Register)
        .map(|at| instruction.op_register(at))
        .all(|register| {
            let is_vector = if is_general {
                register.is_vector_register()
            } else {
                register.is_xmm()
            };
            register.is_gpr() || (is_vector && register.number() < 16)
        })
}

/// Whether an instruction that moves the stack pointer moves it by words of 64 bits.
fn is_whole(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Call => instruction.stack_pointer_increment() == -8,
        Mnemonic::Pop => instruction.stack_pointer_increment() == 8,
        Mnemonic::Ret => matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16),
        _ => true,
    }
}

fn bytes<'c>(instruction: &Instruction, code: &'c [u8]) -> &'c [u8] {
    &code[..instruction.len().min(code.len())]
}

/// Whether some processors shorten a jump with these bytes, because it has the prefix for 16 bits
/// (AMD64 APM volume 3, 1.2.7).
fn is_shortened(bytes: &[u8]) -> bool {
    let is_prefix = |byte: &&u8| {
        matches!(
            byte,
            0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
        )
    };
    bytes.iter().take_while(is_prefix).any(|byte| *byte == 0x66)
}

/// Instructions on general registers, and jumps.
fn is_general(mnemonic: Mnemonic) -> bool {
    is_conditional(mnemonic)
        || matches!(
            mnemonic,
            Mnemonic::Adc
                | Mnemonic::Add
                | Mnemonic::And
                | Mnemonic::Andn
                | Mnemonic::Bextr
                | Mnemonic::Blsi
                | Mnemonic::Blsmsk
                | Mnemonic::Blsr
                | Mnemonic::Bsf
                | Mnemonic::Bsr
                | Mnemonic::Bswap
                | Mnemonic::Bt
                | Mnemonic::Btc
                | Mnemonic::Btr
                | Mnemonic::Bts
                | Mnemonic::Bzhi
                | Mnemonic::Call
                | Mnemonic::Cbw
                | Mnemonic::Cdq
                | Mnemonic::Cdqe
                | Mnemonic::Cmp
                | Mnemonic::Cmpxchg
                | Mnemonic::Cmpxchg16b
                | Mnemonic::Cqo
                | Mnemonic::Crc32
                | Mnemonic::Cwd
                | Mnemonic::Cwde
                | Mnemonic::Dec
                | Mnemonic::Div
                | Mnemonic::Idiv
                | Mnemonic::Imul
                | Mnemonic::Inc
                | Mnemonic::Jmp
                | Mnemonic::Lea
                | Mnemonic::Lzcnt
                | Mnemonic::Mfence
                | Mnemonic::Mov
                | Mnemonic::Movsx
                | Mnemonic::Movsxd
                | Mnemonic::Movzx
                | Mnemonic::Mul
                | Mnemonic::Mulx
                | Mnemonic::Neg
                | Mnemonic::Nop
                | Mnemonic::Not
                | Mnemonic::Or
                | Mnemonic::Pdep
                | Mnemonic::Pext
                | Mnemonic::Pop
                | Mnemonic::Popcnt
                | Mnemonic::Push
                | Mnemonic::Ret
                | Mnemonic::Rol
                | Mnemonic::Ror
                | Mnemonic::Rorx
                | Mnemonic::Sar
                | Mnemonic::Sarx
                | Mnemonic::Sbb
                | Mnemonic::Shl
                | Mnemonic::Shld
                | Mnemonic::Shlx
                | Mnemonic::Shr
                | Mnemonic::Shrd
                | Mnemonic::Shrx
                | Mnemonic::Sub
                | Mnemonic::Test
                | Mnemonic::Tzcnt
                | Mnemonic::Ud2
                | Mnemonic::Xadd
                | Mnemonic::Xchg
                | Mnemonic::Xor
        )
}

/// `jcc`, `cmovcc` and `setcc`.
fn is_conditional(mnemonic: Mnemonic) -> bool {
    is_jcc(mnemonic) || is_cmov(mnemonic) || is_setcc(mnemonic)
}

/// `jcc`.
pub(super) fn is_jcc(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Ja
            | Mnemonic::Jae
            | Mnemonic::Jb
            | Mnemonic::Jbe
            | Mnemonic::Je
            | Mnemonic::Jg
            | Mnemonic::Jge
            | Mnemonic::Jl
            | Mnemonic::Jle
            | Mnemonic::Jne
            | Mnemonic::Jno
            | Mnemonic::Jnp
            | Mnemonic::Jns
            | Mnemonic::Jo
            | Mnemonic::Jp
            | Mnemonic::Js
    )
}

/// `cmovcc`.
pub(super) fn is_cmov(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Cmova
            | Mnemonic::Cmovae
            | Mnemonic::Cmovb
            | Mnemonic::Cmovbe
            | Mnemonic::Cmove
            | Mnemonic::Cmovg
            | Mnemonic::Cmovge
            | Mnemonic::Cmovl
            | Mnemonic::Cmovle
            | Mnemonic::Cmovne
            | Mnemonic::Cmovno
            | Mnemonic::Cmovnp
            | Mnemonic::Cmovns
            | Mnemonic::Cmovo
            | Mnemonic::Cmovp
            | Mnemonic::Cmovs
    )
}

/// `setcc`.
pub(super) fn is_setcc(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Seta
            | Mnemonic::Setae
            | Mnemonic::Setb
            | Mnemonic::Setbe
            | Mnemonic::Sete
            | Mnemonic::Setg
            | Mnemonic::Setge
            | Mnemonic::Setl
            | Mnemonic::Setle
            | Mnemonic::Setne
            | Mnemonic::Setno
            | Mnemonic::Setnp
            | Mnemonic::Setns
            | Mnemonic::Seto
            | Mnemonic::Setp
            | Mnemonic::Sets
    )
}

/// Whether an instruction belongs to extensions that compute on vector registers alone.
fn is_vector(code: Code) -> bool {
    code.cpuid_features().iter().all(|feature| {
        matches!(
            feature,
            CpuidFeature::SSE
                | CpuidFeature::SSE2
                | CpuidFeature::SSE3
                | CpuidFeature::SSSE3
                | CpuidFeature::SSE4_1
                | CpuidFeature::SSE4_2
                | CpuidFeature::AVX
                | CpuidFeature::AVX2
                | CpuidFeature::FMA
                | CpuidFeature::AES
                | CpuidFeature::PCLMULQDQ
                | CpuidFeature::SHA
                | CpuidFeature::GFNI
                | CpuidFeature::AVX512F
                | CpuidFeature::AVX512VL
                | CpuidFeature::AVX512DQ
                | CpuidFeature::AVX512_VBMI
                | CpuidFeature::AVX512_BITALG
        )
    })
}

/// Instructions of the extensions above that use control registers, x87 registers, caches or
/// implicit addresses, or that access only some elements of an operand.
fn is_special(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Clflush
            | Mnemonic::Cvtpi2pd
            | Mnemonic::Cvtpi2ps
            | Mnemonic::Ldmxcsr
            | Mnemonic::Lfence
            | Mnemonic::Maskmovdqu
            | Mnemonic::Maskmovq
            | Mnemonic::Monitor
            | Mnemonic::Mwait
            | Mnemonic::Pause
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Sfence
            | Mnemonic::Stmxcsr
            | Mnemonic::Vldmxcsr
            | Mnemonic::Vmaskmovdqu
            | Mnemonic::Vmaskmovpd
            | Mnemonic::Vmaskmovps
            | Mnemonic::Vpmaskmovd
            | Mnemonic::Vpmaskmovq
            | Mnemonic::Vstmxcsr
            | Mnemonic::Vzeroall
    )
}
