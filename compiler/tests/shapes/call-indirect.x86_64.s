# 0 (run)
    push %rbp
    mov %rsp, %rbp
    mov -0x250(%rdi), %rax
    mov -0x248(%rdi), %rcx
    mov %edx, %edx
    cmp %rcx, %rdx
    jae L3
    lea (%rax,%rdx,8), %r8
    cmp %rcx, %rdx
    cmovae %rax, %r8
    mov (%r8), %rax
    test %rax, %rax
    je L2
    mov 0x10(%rax), %ecx
    mov -0x254(%rdi), %edx
    cmp %edx, %ecx
    jne L1
    xor %rdi, %rdi
    cmp %edx, %ecx
    cmovne %rdi, %rax
    mov (%rax), %rcx
    mov 0x8(%rax), %rdi
    call *%rcx
    mov %rbp, %rsp
    pop %rbp
    ret
L1:
    call outside                             # stub of trap "indirect call type mismatch"
    ud2
L2:
    call outside                             # stub of trap "uninitialized element"
    ud2
L3:
    call outside                             # stub of trap "undefined element"
    ud2
