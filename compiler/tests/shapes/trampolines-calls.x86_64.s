# trampoline of imports of type 0
    push %rbp
    mov %rsp, %rbp
    sub $0x20, %rsp
    lea (%rsp), %r8
    mov %esi, (%rsp)
    mov %rdx, 0x10(%rsp)
    mov 0x18(%rdi), %rsi
    mov 0x10(%rdi), %rdi
    mov -0x18(%rdi), %r10
    mov %r8, %rdx
    call *%r10
    mov (%rsp), %rax
    add $0x20, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret

# trampoline of type 1
    push %rbp
    mov %rsp, %rbp
    mov %rsi, %r10
    mov (%rdx), %esi
    movsd 0x10(%rdx), %xmm0
    call *%r10
    mov %rbp, %rdi
    mov %rax, 0x10(%rdi)
    mov %rbp, %rsp
    pop %rbp
    ret
