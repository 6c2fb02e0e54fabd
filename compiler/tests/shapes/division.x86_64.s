# 0 (run)
# 32 instructions, 27.0 cycles (llvm-mca, znver3)
    push %rbp
    mov %rsp, %rbp
    test %edx, %edx
    je L5
    cmp $0xffffffff, %edx
    mov %rdx, %r8
    sete %al
    cmp $0x80000000, %esi
    sete %cl
    test %al, %cl
    jne L4
    mov %rsi, %rax
    cltd
    mov %r8, %rcx
    test %ecx, %ecx
    je L6
    idiv %ecx
    mov %rax, %r8
    test %ecx, %ecx
    je L3
    mov %rsi, %rax
    cltd
    cmp $0xffffffff, %ecx
    jne L1
    mov $0x0, %edx
    jmp L2
L1:
    idiv %ecx
L2:
    mov %r8, %rax
    add %edx, %eax
    mov %rbp, %rsp
    pop %rbp
    ret
L3:
    call outside                             # stub of trap "integer divide by zero"
    ud2
L4:
    call outside                             # stub of trap "integer overflow"
    ud2
L5:
    call outside                             # stub of trap "integer divide by zero"
    ud2
L6:
    ud2
