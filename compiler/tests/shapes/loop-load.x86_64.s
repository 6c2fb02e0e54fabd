# 0 (run)
# 13 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    xor %rax, %rax
    mov %esi, %r8d
L1:
    mov 0x8(%r8,%rdi), %ecx
    sub $0x1, %edx
    add %rcx, %rax
    add $0x4, %r8d
    test %edx, %edx
    jne L1
    mov %rbp, %rsp
    pop %rbp
    ret
