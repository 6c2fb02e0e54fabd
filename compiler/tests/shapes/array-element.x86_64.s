# 0 (run)
# 16 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    test %rsi, %rsi
    je L2
    mov 0x2(%rsi), %eax
    cmp %eax, %edx
    jae L1
    mov %edx, %ecx
    lea (%rcx,%rsi), %r11
    xor %rdx, %rdx
    cmp %rax, %rcx
    cmovae %rdx, %r11
    movzbq 0x6(%r11), %rax
    mov %rbp, %rsp
    pop %rbp
    ret
L1:
    call outside                             # stub of trap "out of bounds array access"
    ud2
L2:
    call outside                             # stub of trap "null array reference"
    ud2
