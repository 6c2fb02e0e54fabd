/* Embeds a guest: host functions, memory, traps, limits, kills, suspended calls, snapshots.
 *
 *     cargo run --release --bin aotc -- examples/c/guest.wat -o guest.so
 *     cc examples/c/embed.c -I capi/include -L target/release -lpirn -o embed
 *     LD_LIBRARY_PATH=target/release ./embed guest.so
 */

#include <inttypes.h>
#include <pirn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* The number by which the guest's questions are known. */
enum { TAG_FETCH = 1 };

static void check(pirn_error_t *error) {
    if (error != NULL) {
        fprintf(stderr, "embed: %s\n", pirn_error_report(error));
        pirn_error_delete(error);
        exit(1);
    }
}

/* host.log(address, length): prints a text of the guest, with the name of the request. */
static pirn_error_t *log_text(void *env, pirn_caller_t *caller, const uint64_t *args,
                              uint64_t *result) {
    (void)env;
    (void)result;
    uint8_t *text;
    pirn_error_t *error = pirn_caller_memory_slice(caller, NULL, args[0], args[1], &text);
    if (error != NULL) {
        return error; /* The guest traps. */
    }
    const char *request = pirn_caller_data(caller);
    printf("%s: %.*s\n", request, (int)args[1], (const char *)text);
    return NULL;
}

/* host.square(n): an error for numbers that are too large. */
static pirn_error_t *square(void *env, pirn_caller_t *caller, const uint64_t *args,
                            uint64_t *result) {
    (void)env;
    (void)caller;
    if (args[0] > 46340) {
        return pirn_error_new("square of a number above 46340", 42);
    }
    *result = args[0] * args[0];
    return NULL;
}

static pirn_linker_t *make_linker(void) {
    const pirn_kind_t i32[] = {PIRN_I32, PIRN_I32}, i64[] = {PIRN_I64};
    pirn_linker_t *linker = pirn_linker_new();
    check(pirn_linker_words(linker, "host", "log", i32, 2, NULL, 0, log_text, NULL, NULL));
    check(pirn_linker_words(linker, "host", "square", i32, 1, i32, 1, square, NULL, NULL));
    check(pirn_linker_ask(linker, "host", "fetch", i32, 1, i64, 1, TAG_FETCH));
    return linker;
}

static pirn_instance_t *make_instance(const pirn_prepared_t *prepared, char *request) {
    pirn_instance_t *instance;
    check(pirn_instance_new(prepared, request, NULL, 0, &instance));
    return instance;
}

static pirn_func_t *find(const pirn_prepared_t *prepared, const char *name) {
    pirn_func_t *func;
    check(pirn_prepared_func(prepared, name, &func));
    return func;
}

static void calls(const pirn_prepared_t *prepared) {
    pirn_instance_t *instance = make_instance(prepared, "request 1");
    pirn_func_t *greet = find(prepared, "greet"), *add = find(prepared, "add");
    pirn_func_t *swap = find(prepared, "swap");

    /* By words: the fast form. */
    check(pirn_instance_call_words(instance, greet, NULL, NULL, NULL));
    uint64_t sum, numbers[] = {40, 2};
    check(pirn_instance_call_words(instance, add, NULL, numbers, &sum));
    printf("add: %" PRIu64 "\n", sum);

    /* By values: any types, any number of results. */
    pirn_val_t values[2] = {{PIRN_I64, {.i64 = -5}}, {PIRN_F64, {.f64 = 0.5}}};
    check(pirn_instance_call(instance, swap, NULL, values, 2, values, 2));
    printf("swap: %g %" PRId64 "\n", values[0].of.f64, values[1].of.i64);

    /* Memory and globals. */
    char text[6] = {0};
    check(pirn_instance_memory_read(instance, "memory", 16, text, 5));
    check(pirn_instance_memory_write(instance, "memory", 16, "HELLO", 5));
    check(pirn_instance_call_words(instance, greet, NULL, NULL, NULL));
    pirn_val_t limit = {PIRN_I64, {.i64 = 8}};
    check(pirn_instance_set_global(instance, "limit", limit));
    check(pirn_instance_global(instance, "limit", &limit));
    printf("memory: %s, global: %" PRId64 "\n", text, limit.of.i64);

    pirn_func_delete(greet);
    pirn_func_delete(add);
    pirn_func_delete(swap);
    pirn_instance_delete(instance);
}

static void errors(const pirn_prepared_t *prepared) {
    pirn_instance_t *instance = make_instance(prepared, "request 2");
    pirn_func_t *average = find(prepared, "average"), *twice = find(prepared, "twice");
    pirn_func_t *forever = find(prepared, "forever");
    uint64_t result = 0, zeros[] = {1, 0}, large[] = {50000};

    /* A trap, with its backtrace. */
    pirn_error_t *error = pirn_instance_call_words(instance, average, NULL, zeros, &result);
    printf("trap %" PRIu32 ":\n", pirn_error_trap_code(error));
    pirn_frame_t frame;
    for (size_t at = 0; pirn_error_frame(error, at, &frame); at++) {
        printf("  %s!%s at 0x%" PRIx64 "\n", frame.module_name, frame.func_name,
               (uint64_t)frame.wasm_offset);
    }
    pirn_error_delete(error);

    /* An error of a host function. */
    error = pirn_instance_call_words(instance, twice, NULL, large, &result);
    printf("host error %" PRIu64 ": %s\n", pirn_error_user(error), pirn_error_message(error));
    pirn_error_delete(error);

    /* A deadline. The instance can be called again. */
    pirn_limits_t limits = {.deadline_ns = 2000000};
    error = pirn_instance_call_words(instance, forever, &limits, NULL, NULL);
    printf("deadline: %d\n", pirn_error_kind(error) == PIRN_ERROR_DEADLINE);
    pirn_error_delete(error);
    uint64_t seven[] = {7};
    check(pirn_instance_call_words(instance, twice, NULL, seven, &result));
    printf("twice: %" PRIu64 "\n", result);

    pirn_func_delete(average);
    pirn_func_delete(twice);
    pirn_func_delete(forever);
    pirn_instance_delete(instance);
}

/* Kills a guest as soon as it runs. */
static void *kill_it(void *kill_switch) {
    while (!pirn_kill_switch_is_running(kill_switch)) {
        sched_yield();
    }
    check(pirn_kill_switch_kill(kill_switch, NULL));
    return NULL;
}

static void kills(const pirn_prepared_t *prepared) {
    pirn_instance_t *instance = make_instance(prepared, "request 3");
    pirn_func_t *forever = find(prepared, "forever");
    pirn_kill_switch_t *kill_switch;
    check(pirn_instance_kill_switch(instance, &kill_switch));
    pthread_t thread;
    if (pthread_create(&thread, NULL, kill_it, kill_switch) != 0) {
        exit(1);
    }
    pirn_error_t *error = pirn_instance_call_words(instance, forever, NULL, NULL, NULL);
    pthread_join(thread, NULL);
    printf("killed: %d\n", pirn_error_kind(error) == PIRN_ERROR_KILLED);
    pirn_error_delete(error);
    pirn_kill_switch_delete(kill_switch);
    pirn_func_delete(forever);
    pirn_instance_delete(instance);
}

static void steps(const pirn_prepared_t *prepared) {
    pirn_instance_t *instance = make_instance(prepared, "request 4");
    pirn_func_t *sum = find(prepared, "sum_of_two"), *forever = find(prepared, "forever");

    /* The guest asks, and the embedder answers: later, or on another thread. */
    uint64_t args[] = {10};
    pirn_step_t step;
    check(pirn_instance_start(instance, sum, NULL, args, &step));
    while (step.kind == PIRN_STEP_ASKED && step.tag == TAG_FETCH) {
        printf("asked for %" PRIu64 "\n", step.args[0]);
        check(pirn_instance_answer(instance, sum, NULL, step.args[0] * 100, &step));
    }
    printf("returned %" PRIu64 "\n", step.result);

    /* Time slices: the guest is suspended wherever it is. */
    pirn_limits_t slice = {.slice_ns = 100000};
    check(pirn_instance_start(instance, forever, &slice, NULL, &step));
    for (int slices = 0; slices < 3; slices++) {
        check(pirn_instance_resume(instance, forever, &slice, &step));
    }
    printf("preempted: %d\n", step.kind == PIRN_STEP_PREEMPTED);
    check(pirn_instance_cancel(instance));

    pirn_func_delete(sum);
    pirn_func_delete(forever);
    pirn_instance_delete(instance);
}

static void snapshots(const pirn_prepared_t *prepared, const pirn_region_t *region) {
    pirn_instance_t *instance = make_instance(prepared, "warm-up");
    pirn_val_t count;
    for (int calls = 0; calls < 3; calls++) {
        check(pirn_instance_call_name(instance, "count", NULL, NULL, 0, &count, 1));
    }
    pirn_module_t *snapshot, *opened;
    check(pirn_instance_snapshot(instance, NULL, 0, &snapshot)); /* The instance has ended. */

    /* A snapshot can be saved, and opened by another process. */
    pirn_bytes_t *bytes;
    check(pirn_module_to_bytes(snapshot, &bytes));
    check(pirn_module_from_bytes(pirn_bytes_data(bytes), pirn_bytes_len(bytes), &opened));
    pirn_bytes_delete(bytes);
    pirn_linker_t *linker = make_linker();
    pirn_prepared_t *warm;
    check(pirn_region_prepare(region, opened, linker, &warm));
    instance = make_instance(warm, "request 5");
    check(pirn_instance_call_name(instance, "count", NULL, NULL, 0, &count, 1));
    printf("warm: %" PRId32 "\n", count.of.i32);

    pirn_instance_delete(instance);
    pirn_prepared_delete(warm);
    pirn_linker_delete(linker);
    pirn_module_delete(opened);
    pirn_module_delete(snapshot);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: embed GUEST.so\n");
        return 2;
    }
    pirn_module_t *module;
    check(pirn_module_open(argv[1], &module));
    pirn_region_option_t options[] = {
        {PIRN_REGION_SLOTS, 4},
        {PIRN_REGION_MEMORY_BYTES_MAX, 16 << 20},
    };
    pirn_region_t *region;
    check(pirn_region_new(options, 2, &region));
    pirn_linker_t *linker = make_linker();
    pirn_prepared_t *prepared;
    check(pirn_region_prepare(region, module, linker, &prepared));
    pirn_linker_delete(linker);

    calls(prepared);
    errors(prepared);
    kills(prepared);
    steps(prepared);
    snapshots(prepared, region);

    pirn_prepared_delete(prepared);
    pirn_region_delete(region);
    pirn_module_delete(module);
    return 0;
}
