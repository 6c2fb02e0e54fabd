// 0 (run)
    stp x29, x30, [sp, #-0x10]!
    mov x29, sp
    cbz x4, L1
    ldr x7, [x4]
    ldr x2, [x4, #0x8]
    blr x7
    ldp x29, x30, [sp], #0x10
    ret
L1:
    bl outside                               // stub of trap "null function reference"
    udf #0xc11f
