/* `_start` of a program. It calls the constructors itself: a linker that finds no such call adds
 * one to each export, and so to the start of each thread. */
#include <stdlib.h>

void __wasm_call_ctors(void);
void __wasm_call_dtors(void);
int __main_void(void);

__attribute__((export_name("_start"))) void _start(void) {
    __wasm_call_ctors();
    int code = __main_void();
    __wasm_call_dtors();
    if (code) _Exit(code);
}
