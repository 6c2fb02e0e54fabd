/* Misuse that the header says is an error, the ends of handles, and threads. It prints nothing and
 * returns 0 if all is as it must be. Runs by itself, with AddressSanitizer and under valgrind.
 *
 * check GUEST.so OTHER.so DAMAGED.so FUEL.so VERSION.so
 */

#include "expect.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(kind, error) expect_at(__LINE__, kind, "", error)

static const pirn_kind_t I32[] = {PIRN_I32, PIRN_I32}, I64[] = {PIRN_I64};
static pirn_region_t *region;
static atomic_int freed;
static pirn_instance_t *running;
static pirn_caller_t *kept;
static pirn_func_t *doomed;
static pirn_func_t *add, *average, *forever, *twice, *sum, *count;

static void count_free(void *env) {
    (void)env;
    freed++;
}

static pirn_error_t *log_text(void *env, pirn_caller_t *caller, const uint64_t *args,
                              uint64_t *result) {
    (void)env;
    (void)result;
    char byte;
    /* Past the end of the memory: the guest traps. */
    return pirn_caller_memory_read(caller, NULL, 65536 - args[1], &byte, args[1] + 1);
}

/* What a host function may not do, by the number that the guest passes. */
static pirn_error_t *square(void *env, pirn_caller_t *caller, const pirn_val_t *args,
                            pirn_val_t *results) {
    (void)env;
    int32_t n = args[0].of.i32;
    uint64_t words[] = {4, 2}, word = 0;
    pirn_val_t value = {PIRN_I32, {.i32 = 1}}, values[2] = {value, value};
    THAT(results[0].kind == PIRN_I32 && results[0].of.i32 == 0);
    kept = caller;
    switch (n) {
    case 1: /* An instance in use. */
        EXPECT(PIRN_ERROR_BUSY, pirn_instance_call_words(running, add, NULL, words, &word));
        EXPECT(PIRN_ERROR_BUSY, pirn_instance_memory_size(running, NULL, &word));
        EXPECT(PIRN_ERROR_BUSY, pirn_instance_cancel(running));
        THAT(pirn_instance_is_suspended(running) == 0 && pirn_instance_data(running) == NULL);
        break;
    case 2: /* Nested calls. */
        OK(pirn_caller_call_words(caller, add, words, &word));
        THAT(word == 6);
        OK(pirn_caller_call(caller, average, values, 2, values, 1));
        THAT(values[0].of.i32 == 1);
        EXPECT(PIRN_ERROR_ARGUMENT, pirn_caller_call(caller, average, values, 1, values, 1));
        EXPECT(PIRN_ERROR_ARGUMENT, pirn_caller_call(caller, average, values, 2, values, 2));
        EXPECT(PIRN_ERROR_ARGUMENT, pirn_caller_call_ref(caller, value, NULL, 0, NULL, 0));
        EXPECT(PIRN_ERROR_ARGUMENT, pirn_caller_call_name(caller, "none", NULL, 0, NULL, 0));
        EXPECT(PIRN_ERROR_STATE, pirn_caller_call_words(caller, sum, words, &word));
        /* The inner host function got the same handle. It leads to this function again. */
        values[0].of.i32 = 7;
        OK(pirn_caller_call_name(caller, "twice", values, 1, values, 1));
        THAT(values[0].of.i32 == 14);
        OK(pirn_caller_memory_size(caller, NULL, &word));
        THAT(word == 65536);
        break;
    case 3: /* The error of a nested call is that of the guest's. */
        words[1] = 0;
        return pirn_caller_call_words(caller, average, words, &word);
    case 4:
        return pirn_error_trap(PIRN_TRAP_UNREACHABLE);
    case 5:
        results[0].kind = PIRN_I64;
        return NULL;
    case 6:
        results[0].kind = 99;
        return NULL;
    case 8: /* The instance ends when the call has returned. */
        pirn_instance_delete(running);
        pirn_instance_delete(NULL);
        break;
    case 10: /* The function that is being called. */
        pirn_func_delete(doomed);
        break;
    case 9:
        return pirn_error_new("bad \xff text", 7);
    default:
        break;
    }
    results[0].of.i32 = n;
    return NULL;
}

static pirn_linker_t *new_linker(void) {
    pirn_linker_t *linker = pirn_linker_new();
    OK(pirn_linker_words(linker, "host", "log", I32, 2, NULL, 0, log_text, NULL, NULL));
    OK(pirn_linker_func(linker, "host", "square", I32, 1, I32, 1, square, &freed, count_free));
    OK(pirn_linker_ask(linker, "host", "fetch", I32, 1, I64, 1, 1));
    return linker;
}

static pirn_instance_t *new_instance(const pirn_prepared_t *prepared) {
    pirn_instance_t *instance = NULL;
    OK(pirn_instance_new(prepared, &failures, NULL, 0, &instance));
    return instance;
}

static pirn_func_t *find(const pirn_prepared_t *prepared, const char *name) {
    pirn_func_t *func = NULL;
    OK(pirn_prepared_func(prepared, name, &func));
    return func;
}

static void nulls(const pirn_module_t *module, const pirn_prepared_t *prepared) {
    pirn_module_t *opened = NULL;
    pirn_region_t *made = NULL;
    pirn_func_t *func = NULL;
    pirn_extern_t item;
    pirn_frame_t frame;
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_module_open(NULL, &opened));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_module_open("x", NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_module_from_bytes(NULL, 1, &opened));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_module_from_bytes((const uint8_t *)"", SIZE_MAX, &opened));
    EXPECT(PIRN_ERROR_OPEN, pirn_module_from_bytes(NULL, 0, &opened));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_region_new(NULL, 1, &made));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_region_new(NULL, 0, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_region_prepare(region, module, NULL, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_prepared_func(prepared, NULL, &func));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_prepared_func(NULL, "add", &func));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_prepared_func(prepared, "add", NULL));
    /* A handle at an address that no handle has. */
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_prepared_func((const pirn_prepared_t *)((const char *)prepared + 1), "add", &func));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_prepared_func(prepared, "\xff\xfe", &func));
    EXPECT(PIRN_ERROR_LINK, pirn_prepared_func(prepared, "none", &func));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call_words(NULL, add, NULL, NULL, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_snapshot(NULL, NULL, 0, &opened));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_kill_switch(NULL, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_kill_switch_kill(NULL, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_wasi_arg(NULL, "x"));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_linker_wasi(NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_caller_set_fuel(NULL, 1));
    THAT(opened == NULL && made == NULL && func == NULL);
    THAT(pirn_module_clone(NULL) == NULL && pirn_region_clone(NULL) == NULL);
    THAT(pirn_prepared_clone(NULL) == NULL && pirn_linker_clone(NULL) == NULL);
    THAT(pirn_kill_switch_clone(NULL) == NULL && pirn_files_clone(NULL) == NULL);
    THAT(pirn_caller_data(NULL) == NULL && pirn_caller_is_stopped(NULL) == 1);
    THAT(pirn_error_kind(NULL) == PIRN_OK && pirn_error_user(NULL) == 0);
    THAT(strcmp(pirn_error_message(NULL), "") == 0 && pirn_error_frame_count(NULL) == 0);
    THAT(pirn_error_frame(NULL, 0, &frame) == 0 && pirn_module_import(NULL, 0, &item) == 0);
    THAT(pirn_bytes_data(NULL) == NULL && pirn_bytes_len(NULL) == 0);
    THAT(pirn_region_slots_free(NULL) == 0 && pirn_kill_switch_preempt(NULL) == 0);
    pirn_module_delete(NULL);
    pirn_region_delete(NULL);
    pirn_linker_delete(NULL);
    pirn_prepared_delete(NULL);
    pirn_func_delete(NULL);
    pirn_wasi_delete(NULL);
    pirn_files_delete(NULL);
    pirn_capture_delete(NULL);
    pirn_instance_delete(NULL);
    pirn_kill_switch_delete(NULL);
    pirn_bytes_delete(NULL);
    pirn_error_delete(NULL);
}

static void wrong_numbers(const pirn_prepared_t *prepared) {
    const pirn_kind_t bad[] = {77};
    pirn_region_t *made = NULL;
    pirn_func_t *func = NULL;
    pirn_region_option_t options[] = {{99, 1}};
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_region_new(options, 1, &made));
    options[0] = (pirn_region_option_t){PIRN_REGION_SLOTS, UINT64_MAX};
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_region_new(options, 1, &made));
    options[0] = (pirn_region_option_t){PIRN_REGION_SLOTS, 0};
    EXPECT(PIRN_ERROR_REGION, pirn_region_new(options, 1, &made));
    options[0] = (pirn_region_option_t){PIRN_REGION_RESET, 99};
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_region_new(options, 1, &made));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_prepared_typed(prepared, "add", bad, 1, NULL, 0, &func));
    EXPECT(PIRN_ERROR_LINK, pirn_prepared_typed(prepared, "add", I32, 2, I64, 1, &func));
    /* The same kinds, but not the same function. */
    EXPECT(PIRN_ERROR_LINK, pirn_prepared_typed(prepared, "add", I32, 1, I32, 2, &func));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_error_trap(0));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_error_trap(PIRN_TRAP_HOST_MEMORY_EXHAUSTED + 1));
    EXPECT(PIRN_ERROR_TRAP, pirn_error_trap(PIRN_TRAP_HOST_MEMORY_EXHAUSTED));

    pirn_linker_t *linker = pirn_linker_new();
    int before = freed;
    /* The library frees `env` in every case. */
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_linker_func(linker, "h", "a", bad, 1, NULL, 0, square, NULL, count_free));
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_linker_func(linker, "h", "a", NULL, 0, NULL, 0, NULL, NULL, count_free));
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_linker_func(NULL, "h", "a", NULL, 0, NULL, 0, square, NULL, count_free));
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_linker_words(linker, "h", "a", I32, 1, I32, 2, log_text, NULL, count_free));
    OK(pirn_linker_func(linker, "h", "a", NULL, 0, NULL, 0, square, NULL, count_free));
    EXPECT(PIRN_ERROR_LINK,
           pirn_linker_func(linker, "h", "a", NULL, 0, NULL, 0, square, NULL, count_free));
    THAT(freed == before + 5);
    pirn_val_t value = {PIRN_FUNCREF, {.reference = 1}};
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_linker_global(linker, "h", "g", value));
    value.kind = PIRN_ANYREF + 1;
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_linker_global(linker, "h", "g", value));
    pirn_linker_delete(linker);
    THAT(freed == before + 6);
    THAT(made == NULL && func == NULL);
}

static void modules(char **argv) {
    pirn_module_t *module = NULL, *again = NULL;
    pirn_prepared_t *prepared = NULL;
    pirn_extern_t item;
    EXPECT(PIRN_ERROR_OPEN, pirn_module_open("no such file", &module));
    EXPECT(PIRN_ERROR_OPEN, pirn_module_open(argv[3], &module));
    pirn_error_t *version = pirn_module_open(argv[5], &module);
    THAT(strstr(pirn_error_message(version), "format version") != NULL);
    EXPECT(PIRN_ERROR_OPEN, version);
    THAT(module == NULL);
    OK(pirn_module_open(argv[1], &module));
    THAT(pirn_module_import(module, 1, &item) == 1 && item.kind == PIRN_EXTERN_FUNC);
    THAT(strcmp(item.module, "host") == 0 && strcmp(item.name, "square") == 0);
    THAT(strcmp(item.type_text, "func (i32) -> i32") == 0 || item.type_text[0] == 'f');
    THAT(pirn_module_export(module, 0, &item) == 1 && item.kind == PIRN_EXTERN_MEMORY);
    THAT(item.module == NULL && strcmp(item.name, "memory") == 0);
    THAT(pirn_module_export(module, SIZE_MAX, &item) == 0);
    THAT(pirn_module_export(module, 0, NULL) == 0);
    THAT(pirn_module_is_snapshot(module) == 0);
    again = pirn_module_clone(module);
    pirn_module_delete(module);
    /* Nothing is linked. */
    pirn_linker_t *linker = pirn_linker_new();
    EXPECT(PIRN_ERROR_LINK, pirn_region_prepare(region, again, linker, &prepared));
    THAT(prepared == NULL);
    pirn_linker_delete(linker);
    pirn_module_delete(again);
}

static void calls(const pirn_prepared_t *prepared, const pirn_prepared_t *other) {
    pirn_instance_t *instance = new_instance(prepared);
    pirn_func_t *foreign = find(other, "add"), *swap = find(prepared, "swap");
    uint64_t words[] = {UINT64_MAX, UINT64_C(0xffffffff00000002)}, word = 5;
    pirn_val_t values[3] = {{PIRN_I32, {.i32 = 1}}, {PIRN_I32, {.i32 = 2}}, {PIRN_I64, {.i64 = 3}}};
    OK(pirn_instance_call_words(instance, add, NULL, words, &word));
    THAT(word == 1);
    word = 5;
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call_words(instance, foreign, NULL, words, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call_words(instance, swap, NULL, words, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call_words(instance, add, NULL, NULL, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call_words(instance, add, NULL, words, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call(instance, foreign, NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call(instance, add, NULL, values, 3, values, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call(instance, add, NULL, values, 2, values, 0));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call(instance, add, NULL, values + 1, 2, values, 1));
    EXPECT(PIRN_ERROR_LINK, pirn_instance_call_name(instance, "none", NULL, NULL, 0, NULL, 0));
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_instance_call_ref(instance, values[0], NULL, NULL, 0, NULL, 0));
    pirn_val_t forged = {PIRN_FUNCREF, {.reference = (uint64_t)(uintptr_t)&values}};
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call_ref(instance, forged, NULL, NULL, 0, NULL, 0));
    THAT(word == 5 && values[0].of.i32 == 1);
    pirn_limits_t slice = {.slice_ns = 1000000};
    EXPECT(PIRN_ERROR_STATE, pirn_instance_call_words(instance, add, &slice, words, &word));

    pirn_kind_t kinds[4];
    size_t params = 0, results = 0;
    OK(pirn_func_type(swap, kinds, 4, &params, &results));
    THAT(params == 2 && results == 2 && kinds[1] == PIRN_F64 && kinds[2] == PIRN_F64);
    OK(pirn_func_type(swap, NULL, 0, NULL, NULL));

    char bytes[16];
    uint8_t *place = NULL;
    EXPECT(PIRN_ERROR_TRAP, pirn_instance_memory_read(instance, NULL, 65536 - 15, bytes, 16));
    EXPECT(PIRN_ERROR_TRAP, pirn_instance_memory_read(instance, NULL, UINT64_MAX, bytes, 16));
    EXPECT(PIRN_ERROR_TRAP, pirn_instance_memory_write(instance, NULL, UINT64_C(1) << 32, "", 1));
    EXPECT(PIRN_ERROR_TRAP, pirn_instance_memory_slice(instance, NULL, 1, UINT64_MAX, &place));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_memory_read(instance, NULL, 0, NULL, 1));
    EXPECT(PIRN_ERROR_LINK, pirn_instance_memory_read(instance, "none", 0, bytes, 1));
    OK(pirn_instance_memory_read(instance, NULL, 65536, NULL, 0));
    OK(pirn_instance_memory_slice(instance, "memory", 65520, 16, &place));
    memcpy(place, "sixteen bytes...", 16);
    OK(pirn_instance_memory_read(instance, NULL, 65520, bytes, 16));
    THAT(memcmp(bytes, "sixteen bytes...", 16) == 0);
    EXPECT(PIRN_ERROR_LINK, pirn_instance_global(instance, "none", values));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_set_global(instance, "limit", values[0]));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_fuel(instance, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_set_fuel(instance, 1));
    THAT(pirn_instance_data(instance) == &failures);
    pirn_func_delete(foreign);
    pirn_func_delete(swap);
    pirn_instance_delete(instance);
}

static void host_functions(const pirn_prepared_t *prepared) {
    running = new_instance(prepared);
    uint64_t word = 0, arg;
    for (arg = 1; arg <= 2; arg++) {
        OK(pirn_instance_call_words(running, twice, NULL, &arg, &word));
        THAT(word == 2 * arg);
    }
    arg = 3;
    pirn_error_t *error = pirn_instance_call_words(running, twice, NULL, &arg, &word);
    THAT(pirn_error_trap_code(error) == PIRN_TRAP_INTEGER_DIVIDE_BY_ZERO);
    /* The frames of the nested call. */
    pirn_frame_t frame = {0};
    THAT(pirn_error_frame_count(error) == 2 && pirn_error_frame(error, 1, &frame) == 1);
    THAT(frame.func_name != NULL && strcmp(frame.func_name, "average") == 0);
    THAT(frame.module_name != NULL && strcmp(frame.module_name, "guest") == 0);
    THAT(pirn_error_frame(error, 2, &frame) == 0 && pirn_error_frame(error, 0, NULL) == 0);
    EXPECT(PIRN_ERROR_TRAP, error);
    arg = 4;
    error = pirn_instance_call_words(running, twice, NULL, &arg, &word);
    THAT(pirn_error_trap_code(error) == PIRN_TRAP_UNREACHABLE);
    THAT(pirn_error_frame_count(error) == 1);
    EXPECT(PIRN_ERROR_TRAP, error);
    arg = 5;
    EXPECT(PIRN_ERROR_HOST, pirn_instance_call_words(running, twice, NULL, &arg, &word));
    arg = 6;
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call_words(running, twice, NULL, &arg, &word));
    arg = 9;
    error = pirn_instance_call_words(running, twice, NULL, &arg, &word);
    THAT(pirn_error_user(error) == 7);
    EXPECT(PIRN_ERROR_HOST, error);
    EXPECT(PIRN_ERROR_TRAP, pirn_instance_call_name(running, "greet", NULL, NULL, 0, NULL, 0));
    /* The handle of a host function that has returned. */
    THAT(pirn_caller_data(kept) == NULL && pirn_caller_is_stopped(kept) == 1);
    EXPECT(PIRN_ERROR_BUSY, pirn_caller_memory_size(kept, NULL, &word));
    EXPECT(PIRN_ERROR_BUSY, pirn_caller_call_words(kept, add, (uint64_t[]){1, 2}, &word));
    /* The handle of a function ends in a call of the function, by each way of calling. */
    pirn_val_t value = {PIRN_I32, {.i32 = 10}};
    pirn_step_t step;
    arg = 10;
    doomed = find(prepared, "twice");
    OK(pirn_instance_call_words(running, doomed, NULL, &arg, &word));
    doomed = find(prepared, "twice");
    OK(pirn_instance_call(running, doomed, NULL, &value, 1, &value, 1));
    doomed = find(prepared, "twice");
    OK(pirn_instance_start(running, doomed, NULL, &arg, &step));
    THAT(word == 20 && value.of.i32 == 20 && step.result == 20);
    /* The instance ends in its own host function. */
    size_t free_slots = pirn_region_slots_free(region);
    arg = 8;
    OK(pirn_instance_call_words(running, twice, NULL, &arg, &word));
    THAT(word == 16 && pirn_region_slots_free(region) == free_slots + 1);
}

static void suspended(const pirn_prepared_t *prepared) {
    pirn_instance_t *instance = new_instance(prepared);
    uint64_t args[] = {3}, word = 0;
    pirn_step_t step;
    pirn_module_t *snapshot = NULL;
    EXPECT(PIRN_ERROR_STATE, pirn_instance_resume(instance, sum, NULL, &step));
    EXPECT(PIRN_ERROR_STATE, pirn_instance_answer(instance, sum, NULL, 1, &step));
    EXPECT(PIRN_ERROR_STATE, pirn_instance_call_words(instance, sum, NULL, args, &word));
    OK(pirn_instance_start(instance, sum, NULL, args, &step));
    THAT(step.kind == PIRN_STEP_ASKED && step.args_count == 1 && step.args[0] == 3);
    THAT(step.tag == 1 && pirn_instance_is_suspended(instance) == 1);
    EXPECT(PIRN_ERROR_STATE, pirn_instance_start(instance, sum, NULL, args, &step));
    EXPECT(PIRN_ERROR_STATE, pirn_instance_resume(instance, sum, NULL, &step));
    EXPECT(PIRN_ERROR_STATE, pirn_instance_call_words(instance, count, NULL, NULL, &word));
    EXPECT(PIRN_ERROR_STATE, pirn_instance_answer(instance, twice, NULL, 1, &step));
    pirn_val_t limit = {PIRN_I64, {.i64 = 1}};
    EXPECT(PIRN_ERROR_STATE, pirn_instance_set_global(instance, "limit", limit));
    /* Memory can be read. */
    OK(pirn_instance_memory_read(instance, NULL, 0, &word, 8));
    OK(pirn_instance_answer(instance, sum, NULL, 1, &step));
    THAT(step.kind == PIRN_STEP_ASKED && step.args[0] == 4);
    OK(pirn_instance_answer(instance, sum, NULL, 2, &step));
    THAT(step.kind == PIRN_STEP_RETURNED && step.result == 3);
    EXPECT(PIRN_ERROR_STATE, pirn_instance_answer(instance, sum, NULL, 2, &step));
    /* An answer that is an error, which a wrong function does not lose. */
    OK(pirn_instance_start(instance, sum, NULL, args, &step));
    EXPECT(PIRN_ERROR_STATE,
           pirn_instance_answer_error(instance, add, pirn_error_new("lost", 1)));
    pirn_error_t *error = pirn_instance_answer_error(instance, sum, pirn_error_new("no", 2));
    THAT(pirn_error_user(error) == 2 && pirn_instance_is_suspended(instance) == 0);
    EXPECT(PIRN_ERROR_HOST, error);
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_answer_error(instance, sum, NULL));
    /* Cancelled, and cancelled again. */
    OK(pirn_instance_start(instance, sum, NULL, args, &step));
    OK(pirn_instance_cancel(instance));
    OK(pirn_instance_cancel(instance));
    THAT(pirn_instance_is_suspended(instance) == 0);
    /* A snapshot of a suspended instance is refused, and the instance has ended. */
    size_t free_slots = pirn_region_slots_free(region);
    OK(pirn_instance_start(instance, sum, NULL, args, &step));
    EXPECT(PIRN_ERROR_SNAPSHOT, pirn_instance_snapshot(instance, NULL, 0, &snapshot));
    THAT(snapshot == NULL && pirn_region_slots_free(region) == free_slots + 1);
    instance = new_instance(prepared);
    const char *names[] = {"none"};
    EXPECT(PIRN_ERROR_SNAPSHOT, pirn_instance_snapshot(instance, names, 1, &snapshot));
    /* Deleted while suspended. */
    instance = new_instance(prepared);
    OK(pirn_instance_start(instance, sum, NULL, args, &step));
    pirn_instance_delete(instance);
    /* All slots are taken. */
    pirn_instance_t *all[4] = {0}, *none = NULL;
    for (int at = 0; at < 4; at++) {
        all[at] = new_instance(prepared);
    }
    EXPECT(PIRN_ERROR_FULL, pirn_instance_new(prepared, NULL, pirn_wasi_new(), 0, &none));
    EXPECT(PIRN_ERROR_FULL, pirn_instance_new(prepared, NULL, NULL, 1000, &none));
    for (int at = 0; at < 4; at++) {
        pirn_instance_delete(all[at]);
    }
    THAT(none == NULL);
}

static void *kill_it(void *kill_switch) {
    while (!pirn_kill_switch_is_running(kill_switch)) {
        sched_yield();
    }
    uint32_t met = 99;
    OK(pirn_kill_switch_kill(kill_switch, &met));
    THAT(met == PIRN_KILL_GUEST || met == PIRN_KILL_HOST);
    return NULL;
}

static void kills(const pirn_prepared_t *prepared) {
    uint64_t args[] = {1, 2}, word;
    uint32_t met = 99;
    pirn_step_t step;
    pirn_kill_switch_t *kill_switch = NULL;
    /* Before a call. */
    pirn_instance_t *instance = new_instance(prepared);
    OK(pirn_instance_kill_switch(instance, &kill_switch));
    THAT(pirn_kill_switch_is_running(kill_switch) == 0);
    OK(pirn_kill_switch_kill(kill_switch, &met));
    THAT(met == PIRN_KILL_IDLE);
    EXPECT(PIRN_ERROR_STATE, pirn_kill_switch_kill(kill_switch, &met));
    EXPECT(PIRN_ERROR_KILLED, pirn_instance_call_words(instance, add, NULL, args, &word));
    /* After the end of the instance. */
    pirn_instance_delete(instance);
    EXPECT(PIRN_ERROR_STATE, pirn_kill_switch_kill(kill_switch, NULL));
    pirn_kill_switch_delete(kill_switch);
    /* While a call is suspended. */
    instance = new_instance(prepared);
    OK(pirn_instance_start(instance, sum, NULL, args, &step));
    OK(pirn_instance_kill_switch(instance, &kill_switch));
    OK(pirn_kill_switch_kill(kill_switch, &met));
    THAT(met == PIRN_KILL_SUSPENDED);
    EXPECT(PIRN_ERROR_KILLED, pirn_instance_answer(instance, sum, NULL, 1, &step));
    pirn_kill_switch_delete(kill_switch);
    pirn_instance_delete(instance);
    /* During a call, by a clone of the switch. */
    instance = new_instance(prepared);
    OK(pirn_instance_kill_switch(instance, &kill_switch));
    pirn_kill_switch_t *clone = pirn_kill_switch_clone(kill_switch);
    pirn_kill_switch_delete(kill_switch);
    pthread_t thread;
    THAT(pthread_create(&thread, NULL, kill_it, clone) == 0);
    EXPECT(PIRN_ERROR_KILLED, pirn_instance_call_words(instance, forever, NULL, NULL, NULL));
    pthread_join(thread, NULL);
    pirn_kill_switch_delete(clone);
    pirn_instance_delete(instance);
}

static const pirn_prepared_t *shared_prepared;

/* Instances of one region on several threads, until a slot was used many times. */
static void *many(void *unused) {
    (void)unused;
    for (uint64_t n = 0; n < 50; n++) {
        pirn_instance_t *instance = NULL;
        OK(pirn_instance_new(shared_prepared, NULL, NULL, UINT64_MAX, &instance));
        uint64_t args[] = {n, n + 1}, word = 0;
        OK(pirn_instance_call_words(instance, add, NULL, args, &word));
        THAT(word == 2 * n + 1);
        OK(pirn_instance_call_words(instance, count, NULL, NULL, &word));
        THAT(word == 1);
        args[1] = 0;
        EXPECT(PIRN_ERROR_TRAP, pirn_instance_call_words(instance, average, NULL, args, &word));
        pirn_instance_delete(instance);
    }
    return NULL;
}

/* Two threads that use one instance: one of them is told so, and nothing breaks. */
static void *use(void *instance) {
    uint64_t args[] = {1, 2}, word = 0;
    for (int n = 0; n < 200; n++) {
        pirn_error_t *error = pirn_instance_call_words(instance, add, NULL, args, &word);
        THAT(error == NULL ? word == 3 : pirn_error_kind(error) == PIRN_ERROR_BUSY);
        pirn_error_delete(error);
    }
    return NULL;
}

static void threads(const pirn_prepared_t *prepared) {
    pthread_t all[2];
    shared_prepared = prepared;
    for (int at = 0; at < 2; at++) {
        THAT(pthread_create(&all[at], NULL, many, NULL) == 0);
    }
    for (int at = 0; at < 2; at++) {
        pthread_join(all[at], NULL);
    }
    pirn_instance_t *instance = new_instance(prepared);
    for (int at = 0; at < 2; at++) {
        THAT(pthread_create(&all[at], NULL, use, instance) == 0);
    }
    for (int at = 0; at < 2; at++) {
        pthread_join(all[at], NULL);
    }
    pirn_instance_delete(instance);
}

static void fuel(char **argv) {
    pirn_module_t *module = NULL;
    pirn_prepared_t *prepared = NULL, *little = NULL;
    pirn_linker_t *linker = new_linker();
    OK(pirn_module_open(argv[4], &module));
    OK(pirn_region_prepare(region, module, linker, &prepared));
    OK(pirn_prepared_start_fuel(prepared, 1000, &little));
    pirn_instance_t *instance = new_instance(little);
    uint64_t left = 0;
    pirn_error_t *error = pirn_instance_call_name(instance, "forever", NULL, NULL, 0, NULL, 0);
    THAT(pirn_error_trap_code(error) == PIRN_TRAP_OUT_OF_FUEL);
    EXPECT(PIRN_ERROR_TRAP, error);
    OK(pirn_instance_set_fuel(instance, 500));
    OK(pirn_instance_fuel(instance, &left));
    THAT(left == 500);
    pirn_instance_delete(instance);
    pirn_prepared_delete(little);
    pirn_prepared_delete(prepared);
    pirn_linker_delete(linker);
    pirn_module_delete(module);
}

static void wasi(void) {
    pirn_wasi_t *wasi = pirn_wasi_new();
    pirn_capture_t *capture = NULL;
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_wasi_capture(wasi, PIRN_STDIN, 1, &capture));
    /* The error has spent the context. */
    EXPECT(PIRN_ERROR_POISONED, pirn_wasi_arg(wasi, "x"));
    pirn_wasi_delete(wasi);
    wasi = pirn_wasi_new();
    EXPECT(PIRN_ERROR_SYSTEM, pirn_wasi_preopen_dir(wasi, "/no/such/folder", "/", 0));
    pirn_wasi_delete(wasi);
    wasi = pirn_wasi_new();
    EXPECT(PIRN_ERROR_SYSTEM, pirn_wasi_stdio_fd(wasi, PIRN_STDOUT, 1 << 20));
    pirn_wasi_delete(wasi);
    wasi = pirn_wasi_new();
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_wasi_stdio_fd(wasi, PIRN_STDOUT, -1));
    pirn_wasi_delete(wasi);
    wasi = pirn_wasi_new();
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_wasi_stdio_fd(wasi, 3, 1));
    pirn_wasi_delete(wasi);
    pirn_files_t *files = NULL;
    EXPECT(PIRN_ERROR_SYSTEM, pirn_files_open("/no/such/folder", &files));
    THAT(capture == NULL && files == NULL);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        return 2;
    }
    THAT(pirn_abi_version() == PIRN_ABI_VERSION && pirn_abi_2 == PIRN_ABI_VERSION);
    pirn_region_option_t options[] = {{PIRN_REGION_SLOTS, 4}, {PIRN_REGION_STACK_BYTES, 1 << 16}};
    OK(pirn_region_new(options, 2, &region));
    pirn_module_t *module = NULL, *second = NULL;
    OK(pirn_module_open(argv[1], &module));
    OK(pirn_module_open(argv[2], &second));
    pirn_linker_t *linker = new_linker();
    pirn_prepared_t *prepared = NULL, *other = NULL;
    OK(pirn_region_prepare(region, module, linker, &prepared));
    OK(pirn_region_prepare(region, second, linker, &other));
    add = find(prepared, "add");
    average = find(prepared, "average");
    forever = find(prepared, "forever");
    twice = find(prepared, "twice");
    sum = find(prepared, "sum_of_two");
    count = find(prepared, "count");

    nulls(module, prepared);
    wrong_numbers(prepared);
    modules(argv);
    calls(prepared, other);
    host_functions(prepared);
    suspended(prepared);
    kills(prepared);
    threads(prepared);
    fuel(argv);
    wasi();

    /* Handles end in any order: those that others need first. */
    THAT(pirn_region_slots_free(region) == 4);
    pirn_instance_t *last = new_instance(prepared);
    pirn_region_delete(region);
    pirn_module_delete(module);
    pirn_module_delete(second);
    pirn_linker_delete(linker);
    int before = freed;
    pirn_prepared_delete(prepared);
    pirn_prepared_delete(other);
    uint64_t args[] = {1, 2}, word = 0;
    OK(pirn_instance_call_words(last, add, NULL, args, &word));
    pirn_func_delete(add);
    pirn_func_delete(average);
    pirn_func_delete(forever);
    pirn_func_delete(twice);
    pirn_func_delete(sum);
    pirn_func_delete(count);
    pirn_instance_delete(last);
    THAT(freed == before + 1);
    return failures == 0 ? 0 : 1;
}
