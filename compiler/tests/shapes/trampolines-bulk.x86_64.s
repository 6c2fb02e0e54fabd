# trampoline of type 0
    push %rbp
    mov %rsp, %rbp
    mov %rsi, %r10
    mov (%rdx), %esi
    mov 0x10(%rdx), %r8d
    mov 0x20(%rdx), %ecx
    mov %r8, %rdx
    call *%r10
    mov %rbp, %rsp
    pop %rbp
    ret

# trampoline of memory.copy
    push %rbp
    mov %rsp, %rbp
    sub $0xb0, %rsp
    cmp $0x40, %r9
    ja L7
    mov -0x8(%rdi), %rax
    cmp %rcx, %r8
    mov %rcx, %r10
    cmovae %r8, %r10
    add %r9, %r10
    cmp %rax, %r10
    ja L8
    xor %rdx, %rdx
    cmp $0x40, %r9
    mov %r9, %rsi
    cmova %rdx, %rsi
    cmp $0x10, %rsi
    jae L5
    cmp $0x8, %rsi
    jae L4
    cmp $0x4, %rsi
    jae L3
    cmp $0x2, %rsi
    jae L2
    test %rsi, %rsi
    jne L1
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L1:
    movzbq (%rdi,%r8), %rax
    mov %al, (%rdi,%rcx)
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L2:
    lea (%rdi,%r8), %r9
    movzwq (%rdi,%r8), %rax
    lea -0x2(%rsi), %rdx
    and $0x3f, %rdx
    movzwq (%r9,%rdx), %rsi
    lea (%rdi,%rcx), %r8
    mov %ax, (%rdi,%rcx)
    mov %si, (%r8,%rdx)
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L3:
    lea (%rdi,%r8), %r9
    mov (%rdi,%r8), %eax
    lea -0x4(%rsi), %rdx
    and $0x3f, %rdx
    mov (%r9,%rdx), %esi
    lea (%rdi,%rcx), %r8
    mov %eax, (%rdi,%rcx)
    mov %esi, (%r8,%rdx)
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L4:
    lea (%rdi,%r8), %r9
    mov (%rdi,%r8), %rax
    lea -0x8(%rsi), %rdx
    and $0x3f, %rdx
    mov (%r9,%rdx), %rsi
    lea (%rdi,%rcx), %r8
    mov %rax, (%rdi,%rcx)
    mov %rsi, (%r8,%rdx)
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L5:
    cmp $0x21, %rsi
    jae L6
    lea (%rdi,%r8), %rdx
    movdqu (%rdi,%r8), %xmm0
    lea -0x10(%rsi), %rax
    and $0x3f, %rax
    movdqu (%rdx,%rax), %xmm1
    lea (%rdi,%rcx), %rdx
    movdqu %xmm0, (%rdi,%rcx)
    movdqu %xmm1, (%rdx,%rax)
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L6:
    lea (%rdi,%r8), %rdx
    movdqu (%rdi,%r8), %xmm0
    movdqu 0x10(%rdi,%r8), %xmm1
    lea -0x20(%rsi), %rax
    and $0x3f, %rax
    movdqu (%rdx,%rax), %xmm2
    add $0xfffffffffffffff0, %rsi
    and $0x3f, %rsi
    movdqu (%rdx,%rsi), %xmm3
    lea (%rdi,%rcx), %rdx
    movdqu %xmm0, (%rdi,%rcx)
    movdqu %xmm1, 0x10(%rdi,%rcx)
    movdqu %xmm2, (%rax,%rdx)
    movdqu %xmm3, (%rdx,%rsi)
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L7:
    mov %rdx, 0x10(%rsp)
    lea 0x20(%rsp), %rax
    mov %rcx, 0x20(%rsp)
    lea 0x30(%rsp), %rax
    mov %r8, 0x30(%rsp)
    mov %r8, %rdx
    mov %r9, 0x40(%rsp)
    mov %r9, %r8
    mov %rdi, 0x50(%rsp)
    mov %rsi, 0x58(%rsp)
    mov -0x68(%rdi), %rax
    mov %rcx, %rsi
    mov %r8, %rcx
    call *%rax
    cmp $0xffffffffffffffff, %rax
    jne L9
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L8:
    lea 0x60(%rsp), %rax
    mov %rsi, 0x60(%rsp)
    mov %rdx, 0x70(%rsp)
    mov %rcx, 0x80(%rsp)
    mov %r8, 0x90(%rsp)
    mov %r9, 0xa0(%rsp)
    mov -0x20(%rdi), %rcx
    mov $0x101, %esi
    mov %rax, %rdx
    call *%rcx
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L9:
    add %rax, 0x20(%rsp)
    add %rax, 0x30(%rsp)
    mov %rdx, 0x40(%rsp)
    mov 0x50(%rsp), %rdi
    mov 0x58(%rsp), %rax
    lea (%rsp), %rdx
    mov %rax, (%rsp)
    mov -0x20(%rdi), %rax
    mov $0x101, %esi
    call *%rax
    add $0xb0, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret

# trampoline of memory.fill
    push %rbp
    mov %rsp, %rbp
    sub $0x90, %rsp
    cmp $0x40, %r8
    ja L16
    mov -0x8(%rdi), %rax
    lea (%rdx,%r8), %r9
    cmp %rax, %r9
    ja L17
    xor %rsi, %rsi
    cmp $0x40, %r8
    mov %r8, %rax
    cmova %rsi, %rax
    cmp $0x10, %rax
    jae L14
    cmp $0x8, %rax
    jae L13
    cmp $0x4, %rax
    jae L12
    cmp $0x2, %rax
    jae L11
    test %rax, %rax
    jne L10
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L10:
    mov %cl, (%rdi,%rdx)
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L11:
    mov %rcx, %r8
    and $0xff, %r8w
    imul $0x101, %r8w
    lea (%rdi,%rdx), %r9
    mov %r8w, (%rdi,%rdx)
    lea -0x2(%rax), %r10
    and $0x3f, %r10
    mov %r8w, (%r9,%r10)
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L12:
    movzbl %cl, %r11d
    imul $0x1010101, %r11d
    lea (%rdi,%rdx), %rcx
    mov %r11d, (%rdi,%rdx)
    add $0xfffffffffffffffc, %rax
    and $0x3f, %rax
    mov %r11d, (%rcx,%rax)
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L13:
    movzbq %cl, %rcx
    imul L19, %rcx
    lea (%rdi,%rdx), %rsi
    mov %rcx, (%rdi,%rdx)
    add $0xfffffffffffffff8, %rax
    and $0x3f, %rax
    mov %rcx, (%rsi,%rax)
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L14:
    cmp $0x21, %rax
    jae L15
    movd %ecx, %xmm0
    pxor %xmm1, %xmm1
    pshufb %xmm1, %xmm0
    lea (%rdi,%rdx), %rcx
    movdqu %xmm0, (%rdi,%rdx)
    add $0xfffffffffffffff0, %rax
    and $0x3f, %rax
    movdqu %xmm0, (%rcx,%rax)
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L15:
    movd %ecx, %xmm0
    pxor %xmm1, %xmm1
    pshufb %xmm1, %xmm0
    lea (%rdi,%rdx), %rcx
    movdqu %xmm0, (%rdi,%rdx)
    movdqu %xmm0, 0x10(%rdi,%rdx)
    lea -0x20(%rax), %rdx
    and $0x3f, %rdx
    movdqu %xmm0, (%rdx,%rcx)
    add $0xfffffffffffffff0, %rax
    and $0x3f, %rax
    movdqu %xmm0, (%rcx,%rax)
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L16:
    mov %rdx, %r9
    lea 0x10(%rsp), %rax
    mov %r9, 0x10(%rsp)
    mov %rcx, 0x20(%rsp)
    mov %rcx, %rdx
    mov %r8, 0x30(%rsp)
    mov %r8, %rcx
    mov %rdi, 0x40(%rsp)
    mov %rsi, 0x48(%rsp)
    mov -0x60(%rdi), %rax
    mov %r9, %rsi
    call *%rax
    cmp $0xffffffffffffffff, %rax
    jne L18
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L17:
    mov %rdx, %r9
    lea 0x50(%rsp), %rdx
    mov %rsi, 0x50(%rsp)
    mov %r9, 0x60(%rsp)
    mov %rcx, 0x70(%rsp)
    mov %r8, 0x80(%rsp)
    mov -0x20(%rdi), %rax
    mov $0x201, %esi
    call *%rax
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
L18:
    add %rax, 0x10(%rsp)
    mov %rdx, 0x30(%rsp)
    mov 0x40(%rsp), %rdi
    mov 0x48(%rsp), %rax
    lea (%rsp), %rdx
    mov %rax, (%rsp)
    mov -0x20(%rdi), %rax
    mov $0x201, %esi
    call *%rax
    add $0x90, %rsp
    mov %rbp, %rsp
    pop %rbp
    ret
    .byte outside,0x00
L19:
    .byte outside,0x01,0x01,0x01,0x01,0x01,0x01,0x01
