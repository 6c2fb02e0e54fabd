# 0 (run)
# 8 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov %rsi, %rax
    mul %rdx
    mov %rdx, %rcx
    mov %rbp, %rsp
    pop %rbp
    ret
