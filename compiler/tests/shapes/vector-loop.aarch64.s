// 0 (run)
// 15 instructions, 9.2 cycles (llvm-mca, neoverse-n1)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    movi v0.16b, #0x0
L1:
    ldr q19, [x2, w3, uxtw]
    ldr q20, [x2, w4, uxtw]
    sub w5, w5, #0x1
    smull v21.4s, v19.4h, v20.4h
    smull2 v19.4s, v19.8h, v20.8h
    addp v19.4s, v21.4s, v19.4s
    add v0.4s, v0.4s, v19.4s
    add w3, w3, #0x10
    add w4, w4, #0x10
    cbnz w5, L1
    ldp x29, x30, [sp], #0x10
    ret
