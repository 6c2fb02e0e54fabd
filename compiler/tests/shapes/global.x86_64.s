# 0 (run)
# 8 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov -0x250(%rdi), %eax
    sub %esi, %eax
    mov %eax, -0x250(%rdi)
    mov %rbp, %rsp
    pop %rbp
    ret
