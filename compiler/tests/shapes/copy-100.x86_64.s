# 0 (run)
# 22 instructions, 7.9 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    mov %edx, %eax
    movdqu 0x54(%rax,%rdi), %xmm0
    movdqu (%rax,%rdi), %xmm1
    movdqu 0x10(%rax,%rdi), %xmm2
    movdqu 0x20(%rax,%rdi), %xmm3
    movdqu 0x30(%rax,%rdi), %xmm4
    movdqu 0x40(%rax,%rdi), %xmm5
    movdqu 0x50(%rax,%rdi), %xmm6
    mov %esi, %eax
    movdqu 0x54(%rdi,%rax), %xmm7
    movdqu %xmm0, 0x54(%rdi,%rax)
    movdqu %xmm1, (%rdi,%rax)
    movdqu %xmm2, 0x10(%rdi,%rax)
    movdqu %xmm3, 0x20(%rdi,%rax)
    movdqu %xmm4, 0x30(%rdi,%rax)
    movdqu %xmm5, 0x40(%rdi,%rax)
    movdqu %xmm6, 0x50(%rdi,%rax)
    mov %rbp, %rsp
    pop %rbp
    ret
