# 0 (run)
# 28 instructions, 21.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov $0x3, %r9d
    mov %esi, %r10d
    cmp %r9d, %r10d
    cmovb %r10d, %r9d
    lea L1, %rcx
    movslq (%rcx,%r9,4), %rax
    add %rax, %rcx
    jmp *%rcx
L1:
    .long L4-L1
    .long L3-L1
    .long L2-L1
    .long L5-L1
L2:
    imul $0x21, %edx, %eax
    mov %rbp, %rsp
    pop %rbp
    ret
L3:
    mov %rdx, %rax
    xor $0x16, %eax
    mov %rbp, %rsp
    pop %rbp
    ret
L4:
    lea 0xb(%rdx), %eax
    mov %rbp, %rsp
    pop %rbp
    ret
L5:
    mov %rdx, %rax
    rol $0x4, %eax
    mov %rbp, %rsp
    pop %rbp
    ret
