/* Runs a WASI program that `aotc` compiled:
 *
 *     cargo run --release --bin aotc -- examples/guests/hello.wasm -o hello.so
 *     cc examples/c/hello.c -I capi/include -L target/release -lpirn -o hello
 *     LD_LIBRARY_PATH=target/release ./hello hello.so
 */

#include <pirn.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints an error and ends the program. NULL is no error. */
static void check(pirn_error_t *error) {
    if (error != NULL) {
        fprintf(stderr, "hello: %s\n", pirn_error_report(error));
        pirn_error_delete(error);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: hello MODULE.so\n");
        return 2;
    }

    /* What all instances share is made once. */
    pirn_module_t *module;
    check(pirn_module_open(argv[1], &module));
    pirn_region_t *region;
    check(pirn_region_new(NULL, 0, &region));
    pirn_linker_t *linker = pirn_linker_new();
    check(pirn_linker_wasi(linker));
    pirn_prepared_t *prepared;
    check(pirn_region_prepare(region, module, linker, &prepared));
    pirn_func_t *start;
    check(pirn_prepared_typed(prepared, "_start", NULL, 0, NULL, 0, &start));

    /* Each run has a context of WASI and an instance. */
    pirn_wasi_t *wasi = pirn_wasi_new();
    check(pirn_wasi_arg(wasi, "hello"));
    check(pirn_wasi_inherit_stdio(wasi));
    pirn_instance_t *instance;
    check(pirn_instance_new(prepared, NULL, wasi, 0, &instance));
    pirn_error_t *ended = pirn_instance_call_words(instance, start, NULL, NULL, NULL);
    int code = 0;
    if (pirn_error_kind(ended) == PIRN_ERROR_EXIT) {
        code = (int)pirn_error_exit_code(ended);
        pirn_error_delete(ended);
    } else {
        check(ended);
    }
    pirn_instance_delete(instance);

    /* In any order. */
    pirn_func_delete(start);
    pirn_prepared_delete(prepared);
    pirn_linker_delete(linker);
    pirn_region_delete(region);
    pirn_module_delete(module);
    return code;
}
