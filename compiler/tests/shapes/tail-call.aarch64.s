// 0 (run)
// 41 instructions, 21.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    mov x11, x4
    mov x12, x3
    ldur x8, [sp, #0x10]
    ldur x9, [sp, #0x18]
    ldur x4, [sp, #0x20]
    ldur x3, [sp, #0x28]
    mov x0, #0xfffffffffffffdb0
    ldr x0, [x2, x0]
    mov x1, #0xfffffffffffffdb8
    ldr x1, [x2, x1]
    cmp x1, #0x1
    b.ls L3
    add x10, x0, #0x8
    cmp x1, #0x1
    csel x0, x0, x10, ls
    csdb
    ldr x0, [x0]
    cbz x0, L2
    ldr w1, [x0, #0x10]
    mov x10, #0xfffffffffffffdac
    ldr w10, [x2, x10]
    cmp w1, w10
    b.ne L1
    mov x2, #0x0
    cmp w1, w10
    csel x0, x2, x0, ne
    csdb
    ldr x1, [x0]
    ldr x2, [x0, #0x8]
    stur x6, [sp, #0x10]
    stur x5, [sp, #0x18]
    mov x0, x11
    stur x0, [sp, #0x20]
    mov x0, x12
    stur x0, [sp, #0x28]
    mov x5, x9
    mov x6, x8
    ldp x29, x30, [sp], #0x10
    br x1
L1:
    bl outside                               // stub of trap "indirect call type mismatch"
    udf #0xc11f
L2:
    bl outside                               // stub of trap "uninitialized element"
    udf #0xc11f
L3:
    bl outside                               // stub of trap "undefined element"
    udf #0xc11f
