/* The WebAssembly interpreter wasm3, itself interpreted or compiled: calls a recursion. */
#include "program.h"
#include "wasm3.h"
#include <stdio.h>
#include <stdlib.h>

/* (memory 1)
   (func $fib (param i32) (result i32)
     (if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
       (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
                      (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
   (func (export "run") (i32.store (i32.const 0) (call $fib (i32.load (i32.const 0))))) */
static const uint8_t module[] = {
    0, 'a', 's', 'm', 1, 0, 0, 0, 1, 9, 2, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 0, 0, 3, 3, 2, 0, 1, 5, 3, 1, 0, 1, 7, 7, 1, 3, 'r', 'u',
    'n', 0, 1, 10, 45, 2, 28, 0, 0x20, 0, 0x41, 2, 0x49, 0x04, 0x7f, 0x20, 0, 0x05, 0x20, 0, 0x41, 1, 0x6b, 0x10, 0, 0x20, 0,
    0x41, 2, 0x6b, 0x10, 0, 0x6a, 0x0b, 0x0b, 14, 0, 0x41, 0, 0x41, 0, 0x28, 2, 0, 0x10, 0, 0x36, 2, 0, 0x0b,
};

static IM3Runtime runtime;
static IM3Function run;
static unsigned turn, result;

static void must(M3Result error)
{
    if (error) {
        fprintf(stderr, "wasm3: %s\n", error);
        abort();
    }
}

void prepare(void)
{
    IM3Environment environment = m3_NewEnvironment();
    runtime = m3_NewRuntime(environment, 65536, NULL);
    IM3Module parsed;
    must(m3_ParseModule(environment, &parsed, module, sizeof module));
    must(m3_LoadModule(runtime, parsed));
    must(m3_FindFunction(&run, runtime, "run"));
}

void pass(void)
{
    uint32_t *memory = (uint32_t *) m3_GetMemory(runtime, NULL, 0);
    *memory = 19 + turn++ % 2;
    must(m3_Call(run));
    result = *memory;
}

void tell(void)
{
    printf("%u\n", result);
}
