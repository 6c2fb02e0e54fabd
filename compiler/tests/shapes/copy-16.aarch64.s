// 0 (run)
// 7 instructions, 7.1 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    ldr q5, [x2, w4, uxtw]
    ldr q6, [x2, w3, uxtw]
    str q5, [x2, w3, uxtw]
    ldp x29, x30, [sp], #0x10
    ret
