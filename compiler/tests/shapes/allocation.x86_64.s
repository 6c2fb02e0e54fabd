# 0 (run)
    push %rbp
    mov %rsp, %rbp
    sub $0x20, %rsp
    mov %rbx, (%rsp)
    mov %r12, 0x8(%rsp)
    mov %r13, 0x10(%rsp)
    mov %r14, 0x18(%rsp)
    mov %rdx, %r13
    mov %rsi, %r14
    mov -0x58(%rdi), %r12
    mov -0x50(%rdi), %r9
    lea 0x18(%r12), %r10
    cmp %r9, %r10
    ja L2
    mov %rdi, %rbx
L1:
    lea 0x18(%r12), %rax
    mov %rax, -0x58(%rbx)
    mov -0x244(%rbx), %eax
    mov %eax, (%r12)
    mov %r14, %rsi
    mov %esi, 0x8(%r12)
    mov %r13, %rdx
    mov %rdx, 0x10(%r12)
    mov %r12, %rax
    mov (%rsp), %rbx
    mov 0x8(%rsp), %r12
    mov 0x10(%rsp), %r13
    mov 0x18(%rsp), %r14
    add $0x20, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L2:
    mov $0x18, %esi
    mov %rdi, %rbx
    call outside                             # trampoline of heap.grow
    jmp L1
