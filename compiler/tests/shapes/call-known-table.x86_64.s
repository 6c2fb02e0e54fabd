# 0 (run)
    push %rbp
    mov %rsp, %rbp
    mov %rsi, %r8
    lea outside, %rax                        # table 0
    mov %edx, %ecx
    mov $0x3, %edx
    cmp $0x3, %rcx
    cmovae %rdx, %rcx
    mov 0x4(%rax,%rcx,8), %esi
    test %esi, %esi
    jne L1
    movslq (%rax,%rcx,8), %rdx
    xor %rcx, %rcx
    add %rdx, %rax
    test %esi, %esi
    cmovne %rcx, %rax
    mov %r8, %rsi
    call *%rax
    mov %rbp, %rsp
    pop %rbp
    ret
L1:
    call outside                             # stub of traps in calls by a table
    ud2

# 1 (one)
# 6 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    lea 0x1(%rsi), %eax
    mov %rbp, %rsp
    pop %rbp
    ret

# 2 (two)
# 7 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov %rsi, %rax
    imul %esi, %eax
    mov %rbp, %rsp
    pop %rbp
    ret

# 3 (three)
# 10 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov $0xffffffffffffffff, %rdi
    bsr %esi, %esi
    cmove %edi, %esi
    mov $0x1f, %eax
    sub %esi, %eax
    mov %rbp, %rsp
    pop %rbp
    ret
