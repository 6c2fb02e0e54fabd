/* Times calls through the library: by words and by values, without and with a host function.
 *
 *     cargo run --release --bin aotc -- examples/c/guest.wat -o guest.so
 *     cc -O2 examples/c/calls.c -I capi/include -L target/release -lpirn -o calls
 *     LD_LIBRARY_PATH=target/release ./calls guest.so 1000000
 */

#include <pirn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(pirn_error_t *error) {
    if (error != NULL) {
        fprintf(stderr, "calls: %s\n", pirn_error_report(error));
        pirn_error_delete(error);
        exit(1);
    }
}

static pirn_error_t *square(void *env, pirn_caller_t *caller, const uint64_t *args,
                            uint64_t *result) {
    (void)env;
    (void)caller;
    *result = args[0] * args[0];
    return NULL;
}

static pirn_error_t *nothing(void *env, pirn_caller_t *caller, const uint64_t *args,
                             uint64_t *result) {
    (void)env;
    (void)caller;
    (void)args;
    (void)result;
    return NULL;
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void words(pirn_instance_t *instance, pirn_func_t *func, uint64_t calls, const char *name) {
    double start = now_ns();
    for (uint64_t n = 0; n < calls; n++) {
        uint64_t args[2] = {n, 1};
        check(pirn_instance_call_words(instance, func, NULL, args, args));
    }
    printf("%s: %.1f ns\n", name, (now_ns() - start) / (double)calls);
}

static void values(pirn_instance_t *instance, pirn_func_t *func, uint64_t calls, size_t count,
                   const char *name) {
    double start = now_ns();
    for (uint64_t n = 0; n < calls; n++) {
        pirn_val_t args[2] = {{PIRN_I32, {.i32 = (int32_t)n}}, {PIRN_I32, {.i32 = 1}}};
        check(pirn_instance_call(instance, func, NULL, args, count, args, 1));
    }
    printf("%s: %.1f ns\n", name, (now_ns() - start) / (double)calls);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: calls GUEST.so CALLS\n");
        return 2;
    }
    uint64_t calls = strtoull(argv[2], NULL, 10);
    const pirn_kind_t i32[] = {PIRN_I32, PIRN_I32}, i64[] = {PIRN_I64};
    const pirn_region_option_t slots = {PIRN_REGION_SLOTS, 1};
    pirn_module_t *module;
    pirn_region_t *region;
    pirn_prepared_t *prepared;
    pirn_instance_t *instance;
    pirn_func_t *add, *twice;
    pirn_linker_t *linker = pirn_linker_new();
    check(pirn_module_open(argv[1], &module));
    check(pirn_region_new(&slots, 1, &region));
    check(pirn_linker_words(linker, "host", "log", i32, 2, NULL, 0, nothing, NULL, NULL));
    check(pirn_linker_words(linker, "host", "square", i32, 1, i32, 1, square, NULL, NULL));
    check(pirn_linker_words(linker, "host", "fetch", i32, 1, i64, 1, nothing, NULL, NULL));
    check(pirn_region_prepare(region, module, linker, &prepared));
    check(pirn_prepared_typed(prepared, "add", i32, 2, i32, 1, &add));
    check(pirn_prepared_typed(prepared, "twice", i32, 1, i32, 1, &twice));
    check(pirn_instance_new(prepared, NULL, NULL, 0, &instance));

    words(instance, add, calls, "call by words");
    words(instance, twice, calls, "call by words, with a host function by words");
    values(instance, add, calls, 2, "call by values");
    values(instance, twice, calls, 1, "call by values, with a host function by words");

    pirn_func_delete(add);
    pirn_func_delete(twice);
    pirn_instance_delete(instance);
    pirn_prepared_delete(prepared);
    pirn_linker_delete(linker);
    pirn_region_delete(region);
    pirn_module_delete(module);
    return 0;
}
