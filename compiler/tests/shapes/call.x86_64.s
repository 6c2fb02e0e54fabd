# 0 (fib)
L1:
    push %rbp
    mov %rsp, %rbp
    sub $0x20, %rsp
    mov %rbx, (%rsp)
    mov %r12, 0x8(%rsp)
    mov %r13, 0x10(%rsp)
    mov %rdi, %r13
    cmp $0x2, %esi
    mov %rsi, %r12
    jb L2
    mov %r12, %rax
    lea -0x1(%rax), %esi
    mov %r13, %rdi
    call L1                                  # 0 (fib)
    mov %rax, %rbx
    mov %r12, %rsi
    add $0xfffffffe, %esi
    mov %r13, %rdi
    call L1                                  # 0 (fib)
    mov %rbx, %rcx
    lea (%rcx,%rax), %esi
    jmp L3
L2:
    mov %r12, %rsi
L3:
    mov %rsi, %rax
    mov (%rsp), %rbx
    mov 0x8(%rsp), %r12
    mov 0x10(%rsp), %r13
    add $0x20, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
