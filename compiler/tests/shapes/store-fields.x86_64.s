# 0 (run)
# 10 instructions, 7.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov %esi, %esi
    add %edx, 0x4(%rdi,%rsi)
    movb $0x7, 0x8(%rdi,%rsi)
    movslq %edx, %r8
    mov %r8, 0x10(%rdi,%rsi)
    mov %rbp, %rsp
    pop %rbp
    ret
