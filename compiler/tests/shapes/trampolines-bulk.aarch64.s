// trampoline of type 0
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    ldr w3, [x2]
    ldr w4, [x2, #0x10]
    ldr w5, [x2, #0x20]
    mov x2, x0
    blr x1
    ldp x29, x30, [sp], #0x10
    ret

// trampoline of memory.copy
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    sub sp, sp, #0xb0
    cmp x7, #0x40
    b.hi L7
    ldur x1, [x2, #-0x8]
    cmp x5, x6
    csel x8, x5, x6, hi
    add x8, x8, x7
    cmp x8, x1
    b.hi L8
    mov x4, #0x0
    cmp x7, #0x40
    csel x7, x4, x7, hi
    csdb
    cmp x7, #0x10
    b.hs L5
    cmp x7, #0x8
    b.hs L4
    cmp x7, #0x4
    b.hs L3
    cmp x7, #0x2
    b.hs L2
    cbnz x7, L1
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L1:
    ldrb w0, [x2, x6]
    strb w0, [x2, x5]
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L2:
    add x1, x2, x6
    ldrh w0, [x2, x6]
    sub x3, x7, #0x2
    and x3, x3, #0x3f
    ldrh w1, [x1, x3]
    add x4, x2, x5
    strh w0, [x2, x5]
    strh w1, [x4, x3]
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L3:
    add x1, x2, x6
    ldr w0, [x2, x6]
    sub x3, x7, #0x4
    and x3, x3, #0x3f
    ldr w1, [x1, x3]
    add x4, x2, x5
    str w0, [x2, x5]
    str w1, [x4, x3]
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L4:
    add x1, x2, x6
    ldr x0, [x2, x6]
    sub x3, x7, #0x8
    and x3, x3, #0x3f
    ldr x1, [x1, x3]
    add x4, x2, x5
    str x0, [x2, x5]
    str x1, [x4, x3]
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L5:
    cmp x7, #0x21
    b.hs L6
    add x0, x2, x6
    ldr q29, [x2, x6]
    sub x1, x7, #0x10
    and x1, x1, #0x3f
    ldr q30, [x0, x1]
    add x0, x2, x5
    str q29, [x2, x5]
    str q30, [x0, x1]
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L6:
    add x0, x2, x6
    ldr q0, [x2, x6]
    ldr q1, [x0, #0x10]
    sub x1, x7, #0x20
    and x1, x1, #0x3f
    ldr q2, [x0, x1]
    sub x3, x7, #0x10
    and x3, x3, #0x3f
    ldr q3, [x0, x3]
    add x0, x2, x5
    str q0, [x2, x5]
    str q1, [x0, #0x10]
    str q2, [x0, x1]
    str q3, [x0, x3]
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L7:
    mov x0, x2
    stur x4, [sp, #0x10]
    stur x5, [sp, #0x20]
    mov x1, x5
    stur x6, [sp, #0x30]
    mov x2, x6
    stur x7, [sp, #0x40]
    mov x6, x7
    stur x0, [sp, #0x50]
    stur x3, [sp, #0x58]
    ldur x4, [x0, #-0x68]
    mov x3, x6
    blr x4
    mov x2, #0xffffffffffffffff
    cmp x0, x2
    b.ne L9
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L8:
    add x0, sp, #0x60
    stur x3, [sp, #0x60]
    stur x4, [sp, #0x70]
    stur x5, [sp, #0x80]
    stur x6, [sp, #0x90]
    stur x7, [sp, #0xa0]
    ldur x3, [x2, #-0x20]
    mov x1, #0x101
    mov x4, x0
    mov x0, x2
    mov x2, x4
    blr x3
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret
L9:
    ldur x2, [sp, #0x20]
    add x2, x2, x0
    stur x2, [sp, #0x20]
    ldur x2, [sp, #0x30]
    add x0, x2, x0
    stur x0, [sp, #0x30]
    stur x1, [sp, #0x40]
    ldur x0, [sp, #0x50]
    ldur x1, [sp, #0x58]
    mov x2, sp
    stur x1, [sp]
    ldur x3, [x0, #-0x20]
    mov x1, #0x101
    blr x3
    add sp, sp, #0xb0
    ldp x29, x30, [sp], #0x10
    ret

// trampoline of memory.fill
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    sub sp, sp, #0x90
    cmp x6, #0x40
    b.hi L16
    ldur x0, [x2, #-0x8]
    add x1, x4, x6
    cmp x1, x0
    b.hi L17
    mov x0, #0x0
    cmp x6, #0x40
    csel x0, x0, x6, hi
    csdb
    cmp x0, #0x10
    b.hs L14
    cmp x0, #0x8
    b.hs L13
    cmp x0, #0x4
    b.hs L12
    cmp x0, #0x2
    b.hs L11
    cbnz x0, L10
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L10:
    strb w5, [x2, x4]
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L11:
    and w6, w5, #0xff
    mov w7, #0x101
    mul w6, w6, w7
    add x7, x2, x4
    strh w6, [x2, x4]
    sub x8, x0, #0x2
    and x8, x8, #0x3f
    strh w6, [x7, x8]
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L12:
    and w9, w5, #0xff
    mov w10, #0x1010101
    mul w9, w9, w10
    add x10, x2, x4
    str w9, [x2, x4]
    sub x11, x0, #0x4
    and x11, x11, #0x3f
    str w9, [x10, x11]
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L13:
    and x12, x5, #0xff
    mov x13, #0x101010101010101
    mul x12, x12, x13
    add x13, x2, x4
    str x12, [x2, x4]
    sub x14, x0, #0x8
    and x14, x14, #0x3f
    str x12, [x13, x14]
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L14:
    cmp x0, #0x21
    b.hs L15
    dup v17.16b, w5
    add x1, x2, x4
    str q17, [x2, x4]
    sub x0, x0, #0x10
    and x0, x0, #0x3f
    str q17, [x1, x0]
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L15:
    dup v20.16b, w5
    add x1, x2, x4
    str q20, [x2, x4]
    str q20, [x1, #0x10]
    sub x2, x0, #0x20
    and x2, x2, #0x3f
    str q20, [x1, x2]
    sub x0, x0, #0x10
    and x0, x0, #0x3f
    str q20, [x1, x0]
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L16:
    mov x0, x2
    stur x4, [sp, #0x10]
    mov x1, x4
    stur x5, [sp, #0x20]
    mov x2, x5
    stur x6, [sp, #0x30]
    mov x5, x6
    stur x0, [sp, #0x40]
    stur x3, [sp, #0x48]
    ldur x4, [x0, #-0x60]
    mov x3, x5
    blr x4
    mov x2, #0xffffffffffffffff
    cmp x0, x2
    b.ne L18
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L17:
    mov x8, x2
    add x2, sp, #0x50
    stur x3, [sp, #0x50]
    stur x4, [sp, #0x60]
    stur x5, [sp, #0x70]
    stur x6, [sp, #0x80]
    ldur x3, [x8, #-0x20]
    mov x1, #0x201
    mov x0, x8
    blr x3
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
L18:
    ldur x2, [sp, #0x10]
    add x0, x2, x0
    stur x0, [sp, #0x10]
    stur x1, [sp, #0x30]
    ldur x0, [sp, #0x40]
    ldur x1, [sp, #0x48]
    mov x2, sp
    stur x1, [sp]
    ldur x3, [x0, #-0x20]
    mov x1, #0x201
    blr x3
    add sp, sp, #0x90
    ldp x29, x30, [sp], #0x10
    ret
