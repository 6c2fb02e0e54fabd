//! Machine code that would leave the sandbox is refused.
//!
//! Each attack is written over the start of a function of a compiled module. It once was proven, or
//! tries what a weaker rule would prove.

mod common;

use pirn_compiler::Options;
use pirn_format::cpu::{CpuFeatures, Feature};
use pirn_format::exit::Builtin;
use pirn_format::layout::{IMPORT_HOST, IMPORT_INSTANCE};
use pirn_format::read::Checked;
use pirn_format::sections::Section;
use pirn_format::traps::{CodeEntry, CodeKind, CodeTable};
use pirn_runtime::{CallError, Caller, Linker, Module, Region, TrapCode};
use pirn_verify::{ARCH, Property, Verifier, VerifyError};

/// Instructions of optional features that are refused, whatever features the header names.
const EXTENSIONS: &[(&str, &str)] = &[
    ("adcx rsi, rsi", "66480f38f6f6"),
    ("adox rsi, rsi", "f3480f38f6f6"),
    ("movbe eax, [rdi]", "0f38f007"),
    ("vcvtph2ps xmm0, xmm0", "c4e27913c0"),
    ("{evex} vpclmulqdq xmm0, xmm1, xmm2, 0", "62f3750844c200"),
    ("{evex} vaesenc xmm0, xmm1, xmm2", "62f27508dcc2"),
    ("{evex} vpaddb xmm0, xmm1, xmm2", "62f17508fcc2"),
    ("vpconflictd xmm0, xmm1", "62f27d08c4c1"),
    ("vpshldw xmm0, xmm1, xmm2, 1", "62f3f50870c201"),
    ("vpdpbusd xmm0, xmm1, xmm2", "62f2750850c2"),
    ("vpopcntd xmm0, xmm1", "62f27d0855c1"),
    ("vpaddd xmm16, xmm1, xmm2", "62e17508fec2"),
    ("vmovq rax, xmm16", "62e1fd087ec0"),
    (
        "sub rsp, 64; vmaskmovps [rsp], xmm1, xmm0",
        "4883ec40c4e2712e0424",
    ),
    (
        "sub rsp, 64; vmaskmovpd [rsp], xmm1, xmm0",
        "4883ec40c4e2712f0424",
    ),
    (
        "sub rsp, 64; vpmaskmovd [rsp], xmm1, xmm0",
        "4883ec40c4e2718e0424",
    ),
    (
        "sub rsp, 64; vpmaskmovq [rsp], xmm1, xmm0",
        "4883ec40c4e2f18e0424",
    ),
];

/// Number of the function that attacks.
const ATTACKER: u32 = 4;

/// Number of another one, which has nine results. The last one lies in memory of its caller.
const WITH_AREA: u32 = 5;

/// Calls of these functions and builtins are marked in the code by such a distance.
const CALLEES: [(u32, CodeKind); 6] = [
    (0x1111_1111, CodeKind::Func(1)),
    (0x2222_2222, CodeKind::Builtin(Builtin::TableCopy as u32)),
    (0x3333_3333, CodeKind::Builtin(Builtin::Throw as u32)),
    (0x4444_4444, CodeKind::Func(2)),
    (0x5555_5555, CodeKind::Func(3)),
    (0x6666_6666, CodeKind::Func(WITH_AREA)),
];

/// Which instructions the trap table has.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// None of the attack.
    Plain,
    /// Each byte of the attack.
    Traps,
}

struct Attack {
    name: &'static str,
    place: Place,
    assembly: &'static str,
    /// The machine code of `assembly` in hexadecimal digits.
    code: &'static str,
}

/// Attacks by numbers whose sums or differences overflow, and the function that each is written to.
const OVERFLOWS: &[(u32, Attack)] = &[
    (
        WITH_AREA,
        Attack {
            name: "a result that is stored 2 GiB above the memory for results",
            place: Place::Plain,
            assembly: "push rbp; mov rbp, rsp; mov [rdi + 0x7ffffff8], rdx; mov [rdi], rdx; xor \
                eax, eax; xor ecx, ecx; xor edx, edx; xor esi, esi; xor edi, edi; xor r8d, r8d; \
                xor r9d, r9d; xor r10d, r10d; pop rbp; ret",
            code: "554889e5488997f8ffff7f48891731c031c931d231f631ff4531c04531c94531d25dc3",
        },
    ),
    (
        ATTACKER,
        Attack {
            name: "memory for results 2 GiB above the frame",
            place: Place::Plain,
            assembly: "push rbp; mov rbp, rsp; mov rsi, rdi; lea rdi, [rsp + 0x7ffffff8]; xor \
                edx, edx; call 0x66666666; xor eax, eax; pop rbp; ret",
            code: "554889e54889fe488dbc24f8ffff7f31d2e86666666631c05dc3",
        },
    ),
    (
        ATTACKER,
        Attack {
            name: "a result of the host 2 GiB above the frame",
            place: Place::Plain,
            assembly: "push rbp; mov rbp, rsp; mov rax, [rdi + 0x5a5a5a05]; test rax, rax; je 1f; \
                mov rsi, [rdi + 0x5a5a5a06]; lea rdx, [rsp + 0x7ffffff8]; call [rdi - 24]; 1: xor \
                eax, eax; pop rbp; ret",
            code: "554889e5488b87055a5a5a4885c07412488bb7065a5a5a488d9424f8ffff7fff57e831c05dc3",
        },
    ),
    (
        ATTACKER,
        Attack {
            name: "a frame pointer 2 GiB above the frame",
            place: Place::Plain,
            assembly: "push rbp; lea rbp, [rsp + 0x7ffffff8]; lea rbp, [rbp + 8]; call \
                0x11111111; xor eax, eax; pop rbp; ret",
            code: "55488dac24f8ffff7f488d6d08e81111111131c05dc3",
        },
    ),
    (
        ATTACKER,
        Attack {
            name: "a frame pointer at the lowest distance of 64 bits",
            place: Place::Plain,
            assembly: "movabs rcx, 0x8000000000000000; lea rbp, [rsp + rcx]; call 0x11111111; xor \
                eax, eax; ret",
            code: "48b90000000000000080488d2c0ce81111111131c0c3",
        },
    ),
    (
        ATTACKER,
        Attack {
            name: "a probe of the stack down to the lowest number",
            place: Place::Plain,
            assembly: "movabs r11, 0x8000000000000000; 1: sub rsp, 4096; mov dword ptr [rsp], 0; \
                cmp rsp, r11; jne 1b; xor eax, eax; ret",
            code: "49bb00000000000000804881ec00100000c70424000000004c39dc75ed31c0c3",
        },
    ),
];

const ATTACKS: &[Attack] = &[
    Attack {
        name: "a bit that is shifted so that its bounds change places",
        place: Place::Traps,
        assembly: "push rbp; mov rbp, rsp; mov rax, rsi; and eax, 1; shl rax, 63; shr rax, 30; mov \
            rax, [rdi + rax]; pop rbp; ret",
        code: "554889e54889f083e00148c1e03f48c1e81e488b04075dc3",
    },
    Attack {
        name: "an address that is no multiple of 16, with an entry in the trap table",
        place: Place::Traps,
        assembly: "push rbp; mov rbp, rsp; mov edx, edx; movaps xmm0, [rdi + rdx + 1]; xor eax, \
            eax; pop rbp; ret",
        code: "554889e589d20f2844170131c05dc3",
    },
    Attack {
        name: "a null that is joined with a reference of the loop's last pass",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor ecx, ecx; xor r10d, r10d; 1: mov r8, [rdi + \
            0x5a5a5a01]; mov rax, [r8]; test rax, rax; je 3f; cmp r10, 1; jne 2f; mov r9, [rcx]; \
            2: test rsi, rsi; je 4f; mov rcx, rax; 4: mov r10d, 1; jmp 1b; 3: xor eax, eax; pop \
            rbp; ret",
        code: "554889e531c94531d24c8b87015a5a5a498b004885c074194983fa0175034c8b094885f674034889c1\
            41ba01000000ebd831c05dc3",
    },
    Attack {
        name: "a number of the last pass, after a computed jump into a block that was proven",
        place: Place::Traps,
        assembly: "push rbp; mov rbp, rsp; xor ecx, ecx; mov edx, edx; 1: mov rax, [rdi + rdx]; \
            cmp rax, 100; ja 2f; mov r9, [rdi + rcx]; xor eax, eax; pop rbp; ret; 2: mov rcx, \
            rax; lea r9, [rip + 1b]; jmp r9",
        code: "554889e531c989d2488b04174883f86477084c8b0c0f31c05dc34889c14c8d0de4ffffff41ffe1",
    },
    Attack {
        name: "equal unknown bits, of which a loop changes one copy",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; test rsi, rsi; je 1f; mov rcx, r10; mov r8, r10; jmp \
            2f; 1: mov rcx, r11; mov r8, r11; 2: mov rax, rcx; xor rax, r8; mov rcx, r11; test \
            rsi, rsi; jne 2b; pop rbp; ret",
        code: "554889e54885f674084c89d14d89d0eb064c89d94d89d84889c84c31c04c89d94885f675f25dc3",
    },
    Attack {
        name: "a comparison that orders the context's address and a number",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor eax, eax; cmp rdi, rsi; seta al; pop rbp; ret",
        code: "554889e531c04839f70f97c05dc3",
    },
    Attack {
        name: "a comparison of a byte that a register was left with",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor eax, eax; cmp r10b, 5; seta al; pop rbp; ret",
        code: "554889e531c04180fa050f97c05dc3",
    },
    Attack {
        name: "the carry of an address and a number",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor eax, eax; add rdi, rsi; adc rax, rax; pop rbp; ret",
        code: "554889e531c04801f74811c05dc3",
    },
    Attack {
        name: "flags that the caller has left",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; setb al; movzx eax, al; pop rbp; ret",
        code: "554889e50f92c00fb6c05dc3",
    },
    Attack {
        name: "a comparison of 32 bits that is taken for one of 64",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; test r10d, r10d; jne 1f; test r10, r10; je 1f; \
            syscall; 1: xor eax, eax; pop rbp; ret",
        code: "554889e54585d275074d85d274020f0531c05dc3",
    },
    Attack {
        name: "the upper half of a register whose lower half was copied",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; test rsi, rsi; sete r10b; mov ecx, r10d; xor rcx, r10; \
            mov rax, rcx; pop rbp; ret",
        code: "554889e54885f6410f94c24489d14c31d14889c85dc3",
    },
    Attack {
        name: "two bytes of a register that are taken for one",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor al, ah; movzx eax, al; pop rbp; ret",
        code: "554889e530e00fb6c05dc3",
    },
    Attack {
        name: "an element of a table at an exact distance that is no multiple of 8",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; mov r8, [rdi + 0x5a5a5a01]; cmp rsi, 4; jne 1f; mov \
            rax, [r8 + rsi]; 1: xor eax, eax; pop rbp; ret",
        code: "554889e54c8b87015a5a5a4883fe047504498b043031c05dc3",
    },
    Attack {
        name: "a search for bits that leaves an address in its register",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor ecx, ecx; mov rax, rdi; bsf rax, rcx; pop rbp; ret",
        code: "554889e531c94889f8480fbcc15dc3",
    },
    Attack {
        name: "a search for bits that leaves 64 bits in its register",
        place: Place::Traps,
        assembly: "push rbp; mov rbp, rsp; xor ecx, ecx; mov rax, rsi; bsf eax, ecx; mov rax, \
            [rdi + rax]; pop rbp; ret",
        code: "554889e531c94889f00fbcc1488b04075dc3",
    },
    Attack {
        name: "a search for bits from above that leaves 64 bits in its register",
        place: Place::Traps,
        assembly: "push rbp; mov rbp, rsp; xor ecx, ecx; mov rax, rsi; bsr eax, ecx; mov rax, \
            [rdi + rax]; pop rbp; ret",
        code: "554889e531c94889f00fbdc1488b04075dc3",
    },
    Attack {
        name: "a field below a context that may be null",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor ecx, ecx; mov rax, rdi; test rsi, rsi; cmove rax, \
            rcx; mov rcx, [rax - 24]; xor eax, eax; pop rbp; ret",
        code: "554889e531c94889f84885f6480f44c1488b48e831c05dc3",
    },
    Attack {
        name: "a conversion that takes the upper half from another register",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; pxor xmm0, xmm0; vcvtsi2sd xmm0, xmm5, rsi; pextrq \
            rax, xmm0, 1; pop rbp; ret",
        code: "554889e5660fefc0c4e1d32ac666480f3a16c0015dc3",
    },
    Attack {
        name: "a comparison of 64 bits of which 32 are a number",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; cvtsd2ss xmm1, xmm0; movaps xmm2, xmm1; cmpltsd xmm1, \
            xmm2; movd eax, xmm1; pop rbp; ret",
        code: "554889e5f20f5ac80f28d1f20fc2ca01660f7ec85dc3",
    },
    Attack {
        name: "unknown bits that a vector leaves beside a word of the frame",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; sub rsp, 64; mov [rsp + 16], r10; movups [rsp + 4], \
            xmm5; mov eax, [rsp + 16]; add rsp, 64; pop rbp; ret",
        code: "554889e54883ec404c895424100f116c24048b4424104883c4405dc3",
    },
    Attack {
        name: "a store 2 GiB above the stack pointer",
        place: Place::Plain,
        assembly: "mov [rsp + 0x7fffffff], eax; ret",
        code: "898424ffffff7fc3",
    },
    Attack {
        name: "a call with a stack pointer that is no multiple of 16",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; sub rsp, 8; .byte 0xe8; .long 0x11111111; xor eax, \
            eax; add rsp, 8; pop rbp; ret",
        code: "554889e54883ec08e81111111131c04883c4085dc3",
    },
    Attack {
        name: "a call with a frame pointer below the stack pointer",
        place: Place::Plain,
        assembly: "mov rax, [rsp]; sub rsp, 40; mov [rsp], rbp; mov [rsp + 8], rax; mov [rsp + \
            32], rbp; mov rbp, rsp; add rsp, 32; .byte 0xe8; .long 0x11111111; xor eax, eax; pop \
            rbp; ret",
        code: "488b04244883ec2848892c24488944240848896c24204889e54883c420e81111111131c05dc3",
    },
    Attack {
        name: "a return to an address of 16 bits",
        place: Place::Plain,
        assembly: "xor eax, eax; .byte 0x66, 0xc3",
        code: "31c066c3",
    },
    Attack {
        name: "a push of 16 bits",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor eax, eax; .byte 0x66, 0x50, 0x66, 0x58; pop rbp; \
            ret",
        code: "554889e531c0665066585dc3",
    },
    Attack {
        name: "a write of a segment register",
        place: Place::Plain,
        assembly: "xor eax, eax; mov gs, eax; ret",
        code: "31c08ee8c3",
    },
    Attack {
        name: "a write of the segment register of the thread's data",
        place: Place::Plain,
        assembly: "xor eax, eax; .byte 0x48, 0x8e, 0xe4; ret",
        code: "31c0488ee4c3",
    },
    Attack {
        name: "a read of a control register",
        place: Place::Plain,
        assembly: "mov rax, cr0; xor eax, eax; ret",
        code: "0f20c031c0c3",
    },
    Attack {
        name: "a segment register that is taken for a general one",
        place: Place::Traps,
        assembly: "push rbp; mov rbp, rsp; xor eax, eax; mov ecx, ds; mov eax, ecx; pop rbp; ret",
        code: "554889e531c08cd989c85dc3",
    },
    Attack {
        name: "a load in the loop that touches the frame",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor eax, eax; mov r11, rsp; sub r11, 8192; 1: sub rsp, \
            4096; mov rax, [rsp]; cmp rsp, r11; jne 1b; add rsp, 8192; pop rbp; ret",
        code: "554889e531c04989e34981eb002000004881ec00100000488b04244c39dc75f04881c4002000005dc3",
    },
    Attack {
        name: "a comparison with memory in the loop that touches the frame",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; mov rax, rsp; sub rax, 8192; 1: sub rsp, 4096; mov \
            dword ptr [rsp], 0; cmp rsp, [rsi]; jne 1b; xor eax, eax; add rsp, 8192; pop rbp; ret",
        code: "554889e54889e0482d002000004881ec00100000c7042400000000483b2675ed31c04881c400200000\
            5dc3",
    },
    Attack {
        name: "a step from a register in the loop that touches the frame",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; mov r11, rsp; sub r11, 8192; 1: sub rsp, r11; mov \
            dword ptr [rsp], 0; cmp rsp, r11; jne 1b; xor eax, eax; add rsp, 8192; pop rbp; ret",
        code: "554889e54989e34981eb002000004c29dcc70424000000004c39dc75f131c04881c4002000005dc3",
    },
    Attack {
        name: "a copy from a table of another type",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor esi, esi; mov edx, 1; xor ecx, ecx; xor r8d, r8d; \
            mov r9d, 1; .byte 0xe8; .long 0x22222222; xor eax, eax; pop rbp; ret",
        code: "554889e531f6ba0100000031c94531c041b901000000e82222222231c05dc3",
    },
    Attack {
        name: "values of an exception below the stack pointer",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; sub rsp, 64; mov [rsp], rsi; mov rdx, rsp; xor esi, \
            esi; add rsp, 64; .byte 0xe8; .long 0x33333333; xor eax, eax; pop rbp; ret",
        code: "554889e54883ec40488934244889e231f64883c440e83333333331c05dc3",
    },
    Attack {
        name: "an address that is passed on the stack as a number",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; sub rsp, 16; mov [rsp], rdi; pxor xmm1, xmm1; pxor \
            xmm2, xmm2; pxor xmm3, xmm3; pxor xmm4, xmm4; pxor xmm5, xmm5; pxor xmm6, xmm6; pxor \
            xmm7, xmm7; .byte 0xe8; .long 0x44444444; xor eax, eax; pop rbp; ret",
        code: "554889e54883ec1048893c24660fefc9660fefd2660fefdb660fefe4660fefed660feff6660fefffe8\
            4444444431c05dc3",
    },
    Attack {
        name: "a jump with a prefix that shortens it on some processors",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor eax, eax; .byte 0x66, 0xe9; .long 0; pop rbp; ret",
        code: "554889e531c066e9000000005dc3",
    },
    Attack {
        name: "an instruction that means another one without its extension",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; tzcnt rax, rsi; pop rbp; ret",
        code: "554889e5f3480fbcc65dc3",
    },
    Attack {
        name: "a function that may be null passed as one that is not",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; xor ecx, ecx; lea rax, [rdi + 0x5a5a5a03]; test rsi, \
            rsi; cmove rax, rcx; mov rsi, rax; .byte 0xe8; .long 0x55555555; xor eax, eax; pop \
            rbp; ret",
        code: "554889e531c9488d87035a5a5a4885f6480f44c14889c6e85555555531c05dc3",
    },
    Attack {
        name: "a push of an immediate, which would be read for ever",
        place: Place::Plain,
        assembly: "push 5; pop rax; syscall",
        code: "6a05580f05",
    },
    Attack {
        name: "a computed jump to itself, which would be followed for ever, before an unknown \
            instruction",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; nop; 1: test rsi, rsi; jne 2f; lea rax, [rip + 1b]; \
            jmp rax; 2: syscall",
        code: "554889e5904885f67509488d05f4ffffffffe00f05",
    },
    Attack {
        name: "a frame of 1 GiB, of which the verifier would keep each word",
        place: Place::Plain,
        assembly: "push rbp; mov rbp, rsp; mov r11, rsp; sub r11, 0x40000000; 1: sub rsp, 4096; \
            mov dword ptr [rsp], 0; cmp rsp, r11; jne 1b; mov dword ptr [rsp], 0; xor eax, eax; \
            add rsp, 0x40000000; pop rbp; ret",
        code: "554889e54989e34981eb000000404881ec00100000c70424000000004c39dc75edc704240000000031\
            c04881c4000000405dc3",
    },
];

/// A module whose last two functions are long, and have an entry of the trap table for each of 200
/// loads.
fn source() -> String {
    let body = "(local.set 0 (i64.load (i32.wrap_i64 (local.get 0))))".repeat(200);
    format!(
        r#"(module
    (type $f (func (param f64 f64 f64 f64 f64 f64 f64 f64 f64)))
    (import "host" "now" (func (result i64)))
    (memory 1)
    (table $t 4 4 funcref)
    (table $x 4 4 externref)
    (tag $e (param i64))
    (elem declare func $plain)
    (func $plain)
    (func $floats (type $f))
    (func $takes (param (ref func)))
    (func (export "f") (param i64 i64 f64) (result i64)
        (table.copy $t $t (i32.const 0) (i32.const 0) (i32.const 0))
        (call $takes (ref.func $plain))
        (call $floats (f64.const 0) (f64.const 0) (f64.const 0) (f64.const 0) (f64.const 0)
            (f64.const 0) (f64.const 0) (f64.const 0) (f64.const 0))
        {body}
        (if (i64.eqz (local.get 1)) (then (throw $e (local.get 0))))
        (local.get 0))
    (func (export "g") (param i64) (result i64 i64 i64 i64 i64 i64 i64 i64 i64)
        {body}
        (local.get 0) (local.get 0) (local.get 0) (local.get 0) (local.get 0) (local.get 0)
        (local.get 0) (local.get 0) (local.get 0)))"#
    )
}

fn baseline() -> CpuFeatures {
    CpuFeatures::level(ARCH, "baseline").expect("x86_64 has it")
}

struct Guest {
    file: Vec<u8>,
    checked: Checked,
}

impl Guest {
    fn new(cpu: CpuFeatures) -> Self {
        let text = source();
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is a module");
        let mut options = Options::new(ARCH);
        options.opt_level = pirn_compiler::OptLevel::None;
        options.cpu = cpu;
        let file = pirn_compiler::compile(&wasm, &options).expect("it compiles");
        let checked = Checked::new(&file).expect("the compiler wrote it");
        Self { file, checked }
    }

    fn range(&self, section: Section) -> std::ops::Range<usize> {
        common::section(&self.checked, section)
    }

    fn entry(&self, kind: CodeKind) -> CodeEntry {
        let bytes = &self.file[self.range(Section::Code)];
        let table = CodeTable::new(bytes).expect("the compiler wrote it");
        let found = table.iter().find(|entry| entry.kind == kind);
        found.unwrap_or_else(|| panic!("the module has no {kind:?}"))
    }

    /// Replaces the marks of calls and of offsets from the context.
    fn resolve(&self, entry: CodeEntry, code: &mut [u8]) {
        let layout = &self.checked.layout;
        let offsets = [
            (0x5a5a_5a01, layout.table(0)),
            (0x5a5a_5a03, layout.funcref(0)),
            (0x5a5a_5a05, layout.import(0) + IMPORT_INSTANCE),
            (0x5a5a_5a06, layout.import(0) + IMPORT_HOST),
        ];
        for at in 0..code.len().saturating_sub(3) {
            let mark = u32::from_le_bytes(code[at..at + 4].try_into().expect("four bytes"));
            let offset = offsets.iter().find(|(of, _)| *of == mark);
            let callee = CALLEES.iter().find(|(of, _)| *of == mark);
            let word = match (offset, callee) {
                (Some((_, offset)), _) => offset.cast_unsigned(),
                (_, Some((_, kind))) => {
                    let target = self.entry(*kind).start;
                    target.wrapping_sub(entry.start + at as u32 + 4)
                }
                _ => continue,
            };
            code[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Moves the function's entries of the trap table.
    fn traps(&mut self, entry: CodeEntry, first: u32) {
        let table = self.range(Section::Traps);
        let end = entry.start + entry.len;
        let mut moved = 0;
        for at in table.step_by(8) {
            let bytes = &mut self.file[at..at + 4];
            let offset = u32::from_le_bytes((&*bytes).try_into().expect("four bytes"));
            if (entry.start..end).contains(&offset) {
                bytes.copy_from_slice(&(first + moved).to_le_bytes());
                moved += 1;
            }
        }
        assert!(moved >= 200 && first + moved <= end, "{moved} entries");
    }

    /// Replaces a function's code.
    fn replace(&mut self, function: u32, place: Place, code: &str) -> CodeEntry {
        let digits: Vec<char> = code.chars().collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
        let bytes = digits.chunks(2).map(|pair| byte(pair).expect("two digits"));
        let mut code: Vec<u8> = bytes.collect();
        let entry = self.entry(CodeKind::Func(function));
        assert!(code.len() <= 200 && entry.len > 1000, "{}", entry.len);
        self.resolve(entry, &mut code);
        let first = match place {
            Place::Plain => entry.start + 500,
            Place::Traps => entry.start,
        };
        self.traps(entry, first);
        let start = self.range(Section::Text).start + entry.start as usize;
        self.file[start..start + code.len()].copy_from_slice(&code);
        entry
    }

    /// Verifies the code in place of a function's own.
    fn verify(mut self, function: u32, place: Place, code: &str) -> Result<usize, VerifyError> {
        let entry = self.replace(function, place, code);
        Verifier::new(&self.file, &self.checked)?.verify_code(entry)
    }
}

#[test]
fn attacks_are_refused() {
    let mut proven = vec![];
    let attacks = ATTACKS.iter().map(|attack| (ATTACKER, attack));
    let overflows = OVERFLOWS
        .iter()
        .map(|(function, attack)| (*function, attack));
    for (function, attack) in attacks.chain(overflows) {
        let verify = || Guest::new(baseline()).verify(function, attack.place, attack.code);
        match std::panic::catch_unwind(verify) {
            Ok(Err(VerifyError::Refused(refusal))) => println!("{}: {refusal}", attack.name),
            other => proven.push((attack.name, attack.assembly, other)),
        }
    }
    assert!(proven.is_empty(), "proven: {proven:#?}");
}

#[test]
fn instructions_of_optional_features_are_refused() {
    let with = |cpu: CpuFeatures, feature: &Feature| cpu.with(feature.name);
    let none = CpuFeatures::none(ARCH);
    let all = ARCH.features().iter().try_fold(none, with);
    let all = all.expect("they are the architecture's own");
    // push rbp; mov rbp, rsp; xorps xmm1, xmm1; xorps xmm2, xmm2; ...; xor eax, eax; pop rbp; ret
    let verify = |code: &str| {
        Guest::new(all).verify(
            ATTACKER,
            Place::Plain,
            &format!("554889e50f57c90f57d2{code}31c05dc3"),
        )
    };
    // vpaddd xmm0, xmm1, xmm2 of AVX-512, which a header can name
    verify("62f17508fec2").expect("its feature is named");
    for (assembly, code) in EXTENSIONS {
        match verify(code) {
            Err(VerifyError::Refused(refusal)) => {
                let property = refusal.property;
                assert_eq!(property, Property::Instructions, "{assembly}: {refusal}");
            }
            other => panic!("{assembly}: {other:?}"),
        }
    }
}

/// The context that an entry trampoline passes on may be another guest's.
#[test]
fn entry_trampolines_only_pass_the_context_on() {
    for (code, is_proven) in [
        // push rbp; mov rbp, rsp; pop rbp; ret
        (&[0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3][..], true),
        // push rbp; mov rbp, rsp; mov rax, [rdi - 24]; pop rbp; ret
        (
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x47, 0xe8, 0x5d, 0xc3],
            false,
        ),
    ] {
        let mut guest = Guest::new(baseline());
        let ty = guest.checked.metadata.funcs[ATTACKER as usize];
        let entry = guest.entry(CodeKind::Entry(ty));
        let start = guest.range(Section::Text).start + entry.start as usize;
        guest.file[start..start + code.len()].copy_from_slice(code);
        let verifier = Verifier::new(&guest.file, &guest.checked).expect("it is a module");
        let proof = verifier.verify_code(entry);
        assert_eq!(proof.is_ok(), is_proven, "{proof:?}");
    }
}

/// Nothing proves that a mask against speculation never selects null. If it does, the access faults
/// in the lowest page, and the guest traps.
#[test]
fn an_access_at_null_of_proven_code_is_a_trap() {
    let mut guest = Guest::new(baseline());
    // push rbp; mov rbp, rsp; xor ecx, ecx; mov rax, rdi; test rsi, rsi; cmove rax, rcx;
    // mov rax, [rax]; pop rbp; ret
    let code = "554889e531c94889f84885f6480f44c1488b005dc3";
    guest.replace(ATTACKER, Place::Traps, code);
    common::set_hash(&mut guest.file, guest.checked.header_at);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("module.so");
    std::fs::write(&path, &guest.file).expect("room");
    let module = Module::open_verified(&path).expect("it is proven");
    let region = Region::builder().slots(1).build().expect("a region");
    let mut linker = Linker::<()>::new();
    linker
        .func("host", "now", |_: Caller<'_, ()>| 0_i64)
        .expect("a new name");
    let prepared = region.prepare(&module, &linker).expect("it fits");
    let f = prepared
        .func::<(i64, i64, f64), i64>("f")
        .expect("it is exported");
    let mut instance = prepared.instantiate(()).expect("a slot");
    instance
        .call(&f, (1, 0, 0.0))
        .expect("it reads byte 0 of its memory");
    drop(instance);
    let mut instance = prepared.instantiate(()).expect("a slot");
    let error = instance.call(&f, (0, 0, 0.0)).expect_err("it reads null");
    let code = TrapCode::MemoryOutOfBounds;
    assert!(
        matches!(&error, CallError::Trap(trap) if trap.code() == code),
        "{error}"
    );
}

/// The harness itself: code that does no harm is proven.
#[test]
fn harmless_code_is_proven() {
    for (function, place, code) in [
        // push rbp; mov rbp, rsp; mov rax, rsi; pop rbp; ret
        (ATTACKER, Place::Plain, "554889e54889f05dc3"),
        // push rbp; mov rbp, rsp; mov eax, edx; mov rax, [rdi + rax]; pop rbp; ret
        (ATTACKER, Place::Traps, "554889e589d0488b04075dc3"),
        // push rbp; mov rbp, rsp; call $plain; xor eax, eax; pop rbp; ret
        (ATTACKER, Place::Plain, "554889e5e81111111131c05dc3"),
        // push rbp; mov rbp, rsp; sub rsp, 16; mov rsi, rdi; mov rdi, rsp; xor edx, edx; call $g;
        // xor eax, eax; add rsp, 16; pop rbp; ret
        (
            ATTACKER,
            Place::Plain,
            "554889e54883ec104889fe4889e731d2e86666666631c04883c4105dc3",
        ),
        // push rbp; mov rbp, rsp; sub rsp, 16; mov rax, [rdi + 0x5a5a5a05]; test rax, rax; je 1f;
        // mov rsi, [rdi + 0x5a5a5a06]; mov rdx, rsp; call [rdi - 24]; 1: xor eax, eax;
        // add rsp, 16; pop rbp; ret
        (
            ATTACKER,
            Place::Plain,
            "554889e54883ec10488b87055a5a5a4885c0740d488bb7065a5a5a4889e2ff57e831c04883c4105dc3",
        ),
        // push rbp; mov rbp, rsp; mov [rdi], rdx; xor eax, eax; xor ecx, ecx; xor edx, edx;
        // xor esi, esi; xor edi, edi; xor r8d, r8d; xor r9d, r9d; xor r10d, r10d; pop rbp; ret
        (
            WITH_AREA,
            Place::Plain,
            "554889e548891731c031c931d231f631ff4531c04531c94531d25dc3",
        ),
    ] {
        let guest = Guest::new(baseline());
        guest.verify(function, place, code).expect("it is harmless");
    }
}
