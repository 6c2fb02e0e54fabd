# 0 (run)
# 17 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    pxor %xmm0, %xmm0
    mov %esi, %r8d
    mov %edx, %r10d
L1:
    movdqu (%r8,%rdi), %xmm1
    movdqu (%r10,%rdi), %xmm2
    sub $0x1, %ecx
    pmaddwd %xmm2, %xmm1
    paddd %xmm1, %xmm0
    add $0x10, %r8d
    add $0x10, %r10d
    test %ecx, %ecx
    jne L1
    mov %rbp, %rsp
    pop %rbp
    ret
