# 0 (run)
# 14 instructions, 7.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov %esi, %esi
    test $0x3, %rsi
    jne L2
    mov $0x1, %r8d
    lock add %r8d, (%rdi,%rsi)
    test $0x7, %rsi
    jne L1
    mov %rdx, %rax
    lock xadd %rax, 0x8(%rdi,%rsi)
    mov %rbp, %rsp
    pop %rbp
    ret
L1:
    call outside                             # stub of trap "unaligned atomic"
    ud2
L2:
    call outside                             # stub of trap "unaligned atomic"
    ud2
