# 0 (run)
# 25 instructions, 11.1 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    xor %r8d, %r8d
    test %rsi, %rsi
    je L1
    xor %r8d, %r8d
    test $0x7, %rsi
    jne L1
    xor %rax, %rax
    test $0x7, %rsi
    cmovne %rax, %rsi
    mov (%rsi), %eax
    cmp -0x248(%rdi), %eax
    sete %r8b
L1:
    test %r8b, %r8b
    je L3
    xor %rax, %rax
    test %r8b, %r8b
    cmove %rax, %rsi
    test %rsi, %rsi
    je L2
    mov 0x10(%rsi), %rax
    mov %rbp, %rsp
    pop %rbp
    ret
L2:
    call outside                             # stub of trap "null structure reference"
    ud2
L3:
    call outside                             # stub of trap "cast failure"
    ud2

# 1 (open)
# 41 instructions, 23.1 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    xor %r8d, %r8d
    test %rsi, %rsi
    je L4
    xor %r8d, %r8d
    test $0x7, %rsi
    jne L4
    xor %rax, %rax
    test $0x7, %rsi
    cmovne %rax, %rsi
    mov (%rsi), %ecx
    mov -0x244(%rdi), %eax
    cmp %eax, %ecx
    sete %r8b
    cmp %eax, %ecx
    je L4
    mov -0x48(%rdi), %rdx
    mov (%rdx,%rcx,8), %rcx
    xor %r8d, %r8d
    test %ecx, %ecx
    je L4
    mov %rcx, %r8
    shr $0x20, %r8
    mov (%r8,%rdx), %edx
    cmp %eax, %edx
    sete %r8b
    test %ecx, %ecx
    setne %al
    and %eax, %r8d
L4:
    test %r8b, %r8b
    je L6
    xor %rax, %rax
    test %r8b, %r8b
    cmove %rax, %rsi
    test %rsi, %rsi
    je L5
    mov 0x8(%rsi), %eax
    mov %rbp, %rsp
    pop %rbp
    ret
L5:
    call outside                             # stub of trap "null structure reference"
    ud2
L6:
    call outside                             # stub of trap "cast failure"
    ud2
