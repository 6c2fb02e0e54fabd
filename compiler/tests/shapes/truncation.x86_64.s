# 0 (run)
# 48 instructions, 9.6 cycles (llvm-mca, znver3)
L1:
    push %rbp
    mov %rsp, %rbp
    ucomisd %xmm0, %xmm0
    jp L9
    movabs $0xc1e0000000200000, %rax
    movq %rax, %xmm1
    ucomisd %xmm0, %xmm1
    setae %al
    ucomisd L10, %xmm0
    setae %cl
    or %ecx, %eax
    test %al, %al
    jne L8
    cvttsd2si %xmm0, %eax
    cmp $0x1, %eax
    jno L3
    ucomisd %xmm0, %xmm0
    jnp L2
    xor %eax, %eax
    jmp L3
L2:
    xorpd %xmm1, %xmm1
    ucomisd %xmm0, %xmm1
    jae L3
    mov $0x7fffffff, %eax
L3:
    movabs $0x41e0000000000000, %rcx
    movq %rcx, %xmm2
    ucomisd %xmm2, %xmm0
    jae L5
    jnp L4
    xor %edx, %edx
    jmp L7
L4:
    cvttsd2si %xmm0, %edx
    cmp $0x0, %edx
    jge L7
    xor %edx, %edx
    jmp L7
L5:
    movaps %xmm0, %xmm1
    subsd %xmm2, %xmm1
    cvttsd2si %xmm1, %edx
    cmp $0x0, %edx
    jge L6
    mov $0xffffffff, %edx
    jmp L7
L6:
    add $0x80000000, %edx
L7:
    add %edx, %eax
    mov %rbp, %rsp
    pop %rbp
    ret
L8:
    call outside                             # stub of trap "integer overflow"
    ud2
L9:
    call outside                             # stub of trap "invalid conversion to integer"
    ud2
    .byte L1,0x00,0x00
L10:
    .byte L1,0x00,0x00,0x00,0x00,0x00,0xe0,0x41
    .byte L1,0x00,0x00,0x00,0x00,0x00,0x00,0x00
