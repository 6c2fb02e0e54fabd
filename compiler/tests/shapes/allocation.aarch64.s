// 0 (run)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    stp x21, x23, [sp, #-0x10]!
    stp x19, x20, [sp, #-0x10]!
    mov x20, x4
    mov x21, x3
    ldur x19, [x2, #-0x58]
    ldur x10, [x2, #-0x50]
    add x11, x19, #0x18
    cmp x11, x10
    b.hi L2
    mov x23, x2
L1:
    add x15, x19, #0x18
    stur x15, [x23, #-0x58]
    mov x15, #0xfffffffffffffdbc
    ldr w0, [x23, x15]
    str w0, [x19]
    mov x3, x21
    str w3, [x19, #0x8]
    mov x4, x20
    str x4, [x19, #0x10]
    mov x2, x19
    ldp x19, x20, [sp], #0x10
    ldp x21, x23, [sp], #0x10
    ldp x29, x30, [sp], #0x10
    ret
L2:
    mov x3, #0x18
    mov x23, x2
    bl outside                               // trampoline of heap.grow
    b L1
