// 1 (run)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    sub sp, sp, #0x20
    mov x0, #0xfffffffffffffdb0
    ldr x0, [x2, x0]
    cbz x0, L2
    mov x0, sp
    stur w3, [sp]
    mov x1, #0x5
    stur x1, [sp, #0x10]
    mov x1, #0xfffffffffffffdb8
    ldr x1, [x2, x1]
    ldur x3, [x2, #-0x18]
    mov x4, x0
    mov x0, x2
    mov x2, x4
    blr x3
    ldur x2, [sp]
L1:
    add x2, x2, #0x1
    add sp, sp, #0x20
    ldp x29, x30, [sp], #0x10
    ret
L2:
    mov x0, #0xfffffffffffffda0
    ldr x0, [x2, x0]
    mov x1, #0xfffffffffffffda8
    ldr x2, [x2, x1]
    mov x4, #0x5
    blr x0
    b L1
