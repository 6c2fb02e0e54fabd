# 0 (run)
# 10 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov %edx, %r8d
    movdqu (%r8,%rdi), %xmm7
    mov %esi, %r8d
    movdqu (%rdi,%r8), %xmm0
    movdqu %xmm7, (%rdi,%r8)
    mov %rbp, %rsp
    pop %rbp
    ret
