# 1 (run)
    push %rbp
    mov %rsp, %rbp
    sub $0x20, %rsp
    mov -0x250(%rdi), %rax
    test %rax, %rax
    je L2
    lea (%rsp), %rdx
    mov %esi, (%rsp)
    movq $0x5, 0x10(%rsp)
    mov -0x248(%rdi), %rsi
    mov -0x18(%rdi), %rax
    call *%rax
    mov (%rsp), %rax
L1:
    add $0x1, %rax
    add $0x20, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L2:
    mov -0x260(%rdi), %rax
    mov -0x258(%rdi), %rdi
    mov $0x5, %edx
    call *%rax
    jmp L1
