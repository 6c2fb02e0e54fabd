// trampoline of imports of type 0
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    sub sp, sp, #0x20
    mov x8, sp
    stur w3, [sp]
    stur x4, [sp, #0x10]
    ldr x1, [x2, #0x18]
    ldr x0, [x2, #0x10]
    ldur x10, [x0, #-0x18]
    mov x2, x8
    blr x10
    ldur x2, [sp]
    add sp, sp, #0x20
    ldp x29, x30, [sp], #0x10
    ret

// trampoline of type 1
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    ldr w3, [x2]
    ldr d0, [x2, #0x10]
    mov x2, x0
    blr x1
    mov x7, x29
    str x2, [x7, #0x10]
    ldp x29, x30, [sp], #0x10
    ret
