/* Runs a WASI command under wasm3, whose sources come from the crate that bundles them. */
#include "m3_api_wasi.h"
#include "m3_env.h"
#include "wasm3.h"

#include <stdio.h>
#include <stdlib.h>

#define STACK_BYTES (1u << 20)

static void must(M3Result result, const char *what)
{
    if (result != m3Err_none) {
        fprintf(stderr, "wasm3: %s: %s\n", what, result);
        exit(1);
    }
}

int main(int count, char **arguments)
{
    FILE *file = count >= 2 ? fopen(arguments[1], "rb") : NULL;
    long bytes = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        bytes = ftell(file);
        rewind(file);
    }
    unsigned char *wasm = bytes < 0 ? NULL : malloc(bytes);
    if (!wasm || fread(wasm, 1, bytes, file) != (size_t)bytes) {
        fprintf(stderr, "wasm3: cannot read the module\n");
        return 1;
    }

    IM3Runtime runtime = m3_NewRuntime(m3_NewEnvironment(), STACK_BYTES, NULL);
    IM3Module module;
    IM3Function start;
    must(m3_ParseModule(runtime->environment, &module, wasm, bytes), "parse");
    must(m3_LoadModule(runtime, module), "load");
    must(m3_LinkWASI(module), "link");
    must(m3_FindFunction(&start, runtime, "_start"), "_start");
    runtime->argc = count - 1;
    runtime->argv = (ccstr_t *)arguments + 1;
    M3Result result = m3_Call(start);
    fflush(stdout);
    if (result == m3Err_trapExit)
        return runtime->exit_code;
    must(result, "run");
    return 0;
}
