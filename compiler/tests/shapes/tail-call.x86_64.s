# 0 (run)
# 48 instructions, 24.1 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    sub $0x20, %rsp
    mov %rbx, (%rsp)
    mov %r12, 0x8(%rsp)
    mov %r13, 0x10(%rsp)
    mov %r14, 0x18(%rsp)
    mov %rdx, %r13
    mov %rsi, %r14
    mov 0x10(%rbp), %r11
    mov 0x18(%rbp), %r12
    mov 0x20(%rbp), %rdx
    mov 0x28(%rbp), %rsi
    mov -0x250(%rdi), %rax
    mov -0x248(%rdi), %r10
    cmp $0x1, %r10
    jbe L3
    lea 0x8(%rax), %rbx
    cmp $0x1, %r10
    cmovbe %rax, %rbx
    mov (%rbx), %rax
    test %rax, %rax
    je L2
    mov 0x10(%rax), %ebx
    mov -0x254(%rdi), %r10d
    cmp %r10d, %ebx
    jne L1
    xor %rdi, %rdi
    cmp %r10d, %ebx
    cmovne %rdi, %rax
    mov (%rax), %r10
    mov 0x8(%rax), %rdi
    mov %r8, 0x10(%rbp)
    mov %rcx, 0x18(%rbp)
    mov %r13, %rax
    mov %rax, 0x20(%rbp)
    mov %r14, %rax
    mov %rax, 0x28(%rbp)
    mov %r12, %rcx
    mov %r11, %r8
    mov (%rsp), %rbx
    mov 0x8(%rsp), %r12
    mov 0x10(%rsp), %r13
    mov 0x18(%rsp), %r14
    add $0x20, %rsp
    mov %rbp, %rsp
    pop %rbp
    jmp *%r10
L1:
    call outside                             # stub of trap "indirect call type mismatch"
    ud2
L2:
    call outside                             # stub of trap "uninitialized element"
    ud2
L3:
    call outside                             # stub of trap "undefined element"
    ud2
