# 0 (checked)
    push %rbp
    mov %rsp, %rbp
    sub $0x10, %rsp
    test %esi, %esi
    mov %rsi, %rax
    jl L1
    add $0x10, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L1:
    lea (%rsp), %rdx
    mov %eax, (%rsp)
    xor %rsi, %rsi
    call outside                             # trampoline of throw
    ud2

# 1 (run)
    push %rbp
    mov %rsp, %rbp
    sub $0x40, %rsp
    mov %rbx, 0x10(%rsp)
    mov %r12, 0x18(%rsp)
    mov %r13, 0x20(%rsp)
    mov %r14, 0x28(%rsp)
    mov %r15, 0x30(%rsp)
    mov %rdi, (%rsp)
    call outside                             # 0 (checked)
    mov 0x10(%rsp), %rbx
    mov 0x18(%rsp), %r12
    mov 0x20(%rsp), %r13
    mov 0x28(%rsp), %r14
    mov 0x30(%rsp), %r15
    add $0x40, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
    mov (%rsp), %rdi
    mov -0x40(%rdi), %rax
    mov -0x278(%rdi), %rcx
    cmp %rcx, %rax
    jne L2
    mov -0x38(%rdi), %rdx
    xor %rsi, %rsi
    cmp %rcx, %rax
    cmovne %rsi, %rdx
    mov (%rdx), %eax
    mov 0x10(%rsp), %rbx
    mov 0x18(%rsp), %r12
    mov 0x20(%rsp), %r13
    mov 0x28(%rsp), %r14
    mov 0x30(%rsp), %r15
    add $0x40, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L2:
    call outside                             # trampoline of rethrow
    ud2
