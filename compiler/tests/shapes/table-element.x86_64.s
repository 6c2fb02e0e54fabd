# 0 (run)
# 21 instructions, 9.1 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov -0x250(%rdi), %rax
    mov -0x248(%rdi), %rcx
    mov %edx, %edx
    cmp %rcx, %rdx
    jae L2
    lea (%rax,%rdx,8), %r8
    cmp %rcx, %rdx
    cmovae %rax, %r8
    mov (%r8), %rdx
    mov %esi, %esi
    cmp %rcx, %rsi
    jae L1
    lea (%rax,%rsi,8), %rdi
    cmp %rcx, %rsi
    cmovae %rax, %rdi
    mov %rdx, (%rdi)
    mov %rbp, %rsp
    pop %rbp
    ret
L1:
    call outside                             # stub of trap "out of bounds table access"
    ud2
L2:
    call outside                             # stub of trap "out of bounds table access"
    ud2
