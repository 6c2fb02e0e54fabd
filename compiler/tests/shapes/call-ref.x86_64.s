# 0 (run)
    push %rbp
    mov %rsp, %rbp
    test %rdx, %rdx
    je L1
    mov (%rdx), %r8
    mov 0x8(%rdx), %rdi
    call *%r8
    mov %rbp, %rsp
    pop %rbp
    ret
L1:
    call outside                             # stub of trap "null function reference"
    ud2
