// 0 (run)
// 24 instructions, 16.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    add x0, x2, w4, uxtw
    add x15, x2, #0x54
    ldr q17, [x15, w4, uxtw]
    ldr q16, [x2, w4, uxtw]
    ldr q18, [x0, #0x10]
    ldr q19, [x0, #0x20]
    ldr q20, [x0, #0x30]
    ldr q21, [x0, #0x40]
    ldr q22, [x0, #0x50]
    add x0, x2, w3, uxtw
    add x15, x2, #0x54
    ldr q23, [x15, w3, uxtw]
    add x1, x2, #0x54
    str q17, [x1, w3, uxtw]
    str q16, [x2, w3, uxtw]
    str q18, [x0, #0x10]
    str q19, [x0, #0x20]
    str q20, [x0, #0x30]
    str q21, [x0, #0x40]
    str q22, [x0, #0x50]
    ldp x29, x30, [sp], #0x10
    ret
