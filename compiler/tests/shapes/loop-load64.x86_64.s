# 0 (run)
# 15 instructions, 6.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    xor %rax, %rax
L1:
    mov %esi, %ecx
    cmp %rsi, %rcx
    jne L2
    mov 0x8(%rdi,%rcx), %ecx
    add $0xffffffff, %edx
    add %rcx, %rax
    add $0x4, %rsi
    test %edx, %edx
    jne L1
    mov %rbp, %rsp
    pop %rbp
    ret
L2:
    call outside                             # stub of trap "out of bounds memory access"
    ud2
