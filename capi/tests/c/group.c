/* Groups: instances that import from each other, their calls, limits and ends, and misuse. Prints
 * nothing and returns 0 if all is as it must be.
 *
 * group MATHS.so USER.so ASKS.so MATHS-WITH-FUEL.so
 */

#include "expect.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(kind, text, error) expect_at(__LINE__, kind, text, error)

static const pirn_kind_t I32[] = {PIRN_I32};
static pirn_group_t *running;
static pirn_func_t *add;
static pirn_caller_t *kept;
static int answered = 42;
static atomic_int freed;

static pirn_val_t i32(int32_t number) {
    pirn_val_t value = {PIRN_I32, {.i32 = number}};
    return value;
}

static void count_free(void *env) {
    (void)env;
    freed++;
}

/* What a host function may do in a group, by the number that the guest passes. */
static pirn_error_t *twice(void *env, pirn_caller_t *caller, const uint64_t *args,
                           uint64_t *result) {
    uint64_t words[] = {4, 2}, word = 0;
    pirn_member_t member = 9;
    pirn_val_t values[] = {i32(1), i32(2)};
    (void)env;
    THAT(pirn_caller_data(caller) == &answered);
    kept = caller;
    switch (args[0]) {
    case 1: /* A group in use. */
        EXPECT(PIRN_ERROR_BUSY, "group is in use",
               pirn_group_call_words(running, add, NULL, words, &word));
        EXPECT(PIRN_ERROR_BUSY, "group is in use", pirn_group_named(running, "maths", &member));
        EXPECT(PIRN_ERROR_BUSY, "group is in use",
               pirn_group_memory_size(running, 1, NULL, &word));
        THAT(member == 9 && word == 0 && pirn_group_data(running) == NULL);
        break;
    case 2: /* Nested calls of the instance that called. */
        OK(pirn_caller_call_words(caller, add, words, &word));
        THAT(word == 6);
        OK(pirn_caller_call_name(caller, "add", values, 2, values, 1));
        THAT(values[0].of.i32 == 3);
        break;
    case 3: /* The group ends when the call has returned. */
        pirn_group_delete(running);
        break;
    case 4:
        return pirn_error_new("no number", 17);
    }
    *result = args[0] * 2;
    return NULL;
}

static int32_t called(pirn_group_t *group, pirn_member_t member, const char *name, int32_t one) {
    pirn_val_t value = i32(one), result = i32(-1);
    OK(pirn_group_call_name(group, member, name, NULL, &value, 1, &result, 1));
    return result.of.i32;
}

static void *kill_it(void *kill_switch) {
    while (!pirn_kill_switch_is_running(kill_switch)) {
        sched_yield();
    }
    OK(pirn_kill_switch_kill(kill_switch, NULL));
    return NULL;
}

/* Items that the two instances share. */
static void shares(pirn_group_t *group, pirn_member_t maths, pirn_member_t user) {
    pirn_val_t values[2], result = i32(-1), found;
    pirn_func_t *sum, *none = NULL;
    uint64_t words[] = {20, 3}, word = 0, size = 0;
    uint8_t *slice = NULL;
    int32_t number = 0;
    const pirn_kind_t kinds[] = {PIRN_I32, PIRN_I32, PIRN_I64};
    EXPECT(PIRN_ERROR_LINK, "the caller wants (i32, i64) -> i32",
           pirn_group_typed(group, user, "sum", &kinds[1], 2, kinds, 1, &none));
    EXPECT(PIRN_ERROR_ARGUMENT, "`params` is NULL",
           pirn_group_typed(group, user, "sum", NULL, 2, kinds, 1, &none));
    OK(pirn_group_typed(group, user, "sum", kinds, 2, kinds, 1, &sum));
    OK(pirn_group_call_words(group, sum, NULL, words, &word));
    THAT(word == 23);
    values[0] = i32(-5), values[1] = i32(3);
    OK(pirn_group_call(group, sum, NULL, values, 2, values, 1));
    THAT(values[0].kind == PIRN_I32 && values[0].of.i32 == -2);
    OK(pirn_group_memory_read(group, maths, "memory", 8, &number, 4));
    THAT(number == -2);
    OK(pirn_group_memory_slice(group, user, NULL, 8, 4, &slice));
    memcpy(&number, slice, 4);
    THAT(number == -2);
    number = 77;
    OK(pirn_group_memory_write(group, user, NULL, 12, &number, 4));
    OK(pirn_group_memory_read(group, maths, NULL, 12, &number, 4));
    THAT(number == 77);
    OK(pirn_group_memory_size(group, maths, "memory", &size));
    THAT(size == 65536);
    OK(pirn_group_global(group, maths, "total", &found));
    THAT(found.kind == PIRN_I64 && found.of.i64 == 2);
    found.of.i64 = 40;
    OK(pirn_group_set_global(group, user, "total", found));
    OK(pirn_group_call_words(group, sum, NULL, words, &word));
    OK(pirn_group_global(group, user, "total", &found));
    THAT(found.of.i64 == 41);

    /* A reference of one instance, from the table of the other, is called in the first. */
    OK(pirn_group_call_name(group, user, "put", NULL, NULL, 0, NULL, 0));
    OK(pirn_group_table_get(group, maths, "table", 0, &found));
    THAT(found.kind == PIRN_FUNCREF && found.of.reference != 0);
    values[0] = i32(1), values[1] = i32(2);
    OK(pirn_group_call_ref(group, found, NULL, values, 2, &result, 1));
    THAT(result.of.i32 == 3);
    OK(pirn_group_table_fill(group, user, "table", 1, found, 1));
    OK(pirn_group_table_grow(group, maths, "table", 1, found, &size));
    THAT(size == 2);
    OK(pirn_group_table_size(group, user, "table", &size));
    THAT(size == 3);
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_table_grow(group, maths, "table", 2, found, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "3 elements, element 3",
           pirn_group_table_get(group, user, "table", 3, &found));
    EXPECT(PIRN_ERROR_LINK, "no table \"none\"",
           pirn_group_table_size(group, user, "none", &size));
    EXPECT(PIRN_ERROR_ARGUMENT, "refers to no function",
           pirn_group_call_ref(group, i32(1), NULL, NULL, 0, NULL, 0));
    found.of.reference++;
    EXPECT(PIRN_ERROR_ARGUMENT, "was not given by this instance",
           pirn_group_call_ref(group, found, NULL, values, 2, &result, 1));

    EXPECT(PIRN_ERROR_LINK, "\"none\"", pirn_group_func(group, user, "none", &none));
    EXPECT(PIRN_ERROR_LINK, "\"none\"",
           pirn_group_call_name(group, user, "none", NULL, NULL, 0, NULL, 0));
    EXPECT(PIRN_ERROR_LINK, "no global \"none\"", pirn_group_global(group, user, "none", &found));
    EXPECT(PIRN_ERROR_LINK, "no memory \"none\"",
           pirn_group_memory_size(group, user, "none", &size));
    EXPECT(PIRN_ERROR_TRAP, "", pirn_group_memory_read(group, user, NULL, 65533, &number, 4));
    EXPECT(PIRN_ERROR_ARGUMENT, "returns 1 values",
           pirn_group_call(group, sum, NULL, values, 2, values, 2));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_call(group, sum, NULL, values, 1, values, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, "does not count fuel", pirn_group_set_fuel(group, user, 5));
    THAT(none == NULL);
    pirn_func_delete(sum);
}

/* Host functions, traps, limits and the kill switch, across both instances. */
static void ends(pirn_group_t *group, pirn_member_t user) {
    pirn_limits_t limits = {1000000, 0, 0};
    pirn_val_t value = i32(4), result;
    pirn_kill_switch_t *kill_switch;
    pthread_t thread;
    THAT(called(group, user, "twice", 1) == 2 && called(group, user, "twice", 2) == 4);
    EXPECT(PIRN_ERROR_BUSY, "outside its host function", pirn_caller_fuel(kept, &(uint64_t){0}));
    pirn_error_t *error = pirn_group_call_name(group, user, "twice", NULL, &value, 1, &result, 1);
    THAT(pirn_error_kind(error) == PIRN_ERROR_HOST && pirn_error_user(error) == 17);
    pirn_error_delete(error);
    error = pirn_group_call_name(group, user, "fail", NULL, NULL, 0, NULL, 0);
    const char *report = pirn_error_report(error);
    THAT(pirn_error_kind(error) == PIRN_ERROR_TRAP && strstr(report, "unreachable") != NULL);
    /* The backtrace has the frames of both instances. */
    THAT(pirn_error_frame_count(error) == 2);
    pirn_error_delete(error);
    EXPECT(PIRN_ERROR_DEADLINE, "",
           pirn_group_call_name(group, user, "spin", &limits, NULL, 0, NULL, 0));
    limits.deadline_ns = 0, limits.cpu_ns = 1000000;
    EXPECT(PIRN_ERROR_CPU_BUDGET, "",
           pirn_group_call_name(group, user, "spin", &limits, NULL, 0, NULL, 0));
    limits.cpu_ns = 0, limits.slice_ns = 1000000;
    EXPECT(PIRN_ERROR_STATE, "",
           pirn_group_call_name(group, user, "spin", &limits, NULL, 0, NULL, 0));
    THAT(called(group, user, "twice", 5) == 10);

    OK(pirn_group_kill_switch(group, &kill_switch));
    THAT(pthread_create(&thread, NULL, kill_it, kill_switch) == 0);
    EXPECT(PIRN_ERROR_KILLED, "",
           pirn_group_call_name(group, user, "spin", NULL, NULL, 0, NULL, 0));
    pthread_join(thread, NULL);
    value = i32(5);
    EXPECT(PIRN_ERROR_KILLED, "",
           pirn_group_call_name(group, user, "twice", NULL, &value, 1, &result, 1));
    pirn_kill_switch_delete(kill_switch);
}

/* Null pointers, and numbers and functions that are not of the group. */
static void misuse(const pirn_region_t *region, pirn_group_t *group, pirn_member_t maths,
                   const pirn_module_t *module, const pirn_linker_t *linker) {
    pirn_group_t *other, *none = NULL;
    pirn_member_t of_other, found = 9;
    pirn_prepared_t *prepared;
    pirn_func_t *func, *of_prepared;
    pirn_instance_t *instance;
    uint64_t words[] = {1, 2}, word = 7;
    pirn_val_t values[] = {i32(1), i32(2)};
    EXPECT(PIRN_ERROR_ARGUMENT, "`region` is NULL", pirn_group_new(NULL, NULL, NULL, &none));
    EXPECT(PIRN_ERROR_ARGUMENT, "`group` is NULL", pirn_group_new(region, NULL, NULL, NULL));
    /* The context is taken over in every case. */
    EXPECT(PIRN_ERROR_ARGUMENT, "`group` is NULL",
           pirn_group_new(region, NULL, pirn_wasi_new(), NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "`group` is NULL", pirn_group_add(NULL, module, linker, &found));
    EXPECT(PIRN_ERROR_ARGUMENT, "`module` is NULL", pirn_group_add(group, NULL, linker, &found));
    EXPECT(PIRN_ERROR_ARGUMENT, "`linker` is NULL", pirn_group_add(group, module, NULL, &found));
    EXPECT(PIRN_ERROR_ARGUMENT, "`member` is NULL", pirn_group_add(group, module, linker, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "`name` is NULL", pirn_group_name(group, NULL, maths));
    EXPECT(PIRN_ERROR_LINK, "no instance has the name \"none\"",
           pirn_group_named(group, "none", &found));
    EXPECT(PIRN_ERROR_ARGUMENT, "`func` is NULL",
           pirn_group_call(group, NULL, NULL, NULL, 0, NULL, 0));
    EXPECT(PIRN_ERROR_ARGUMENT, "`name` is NULL",
           pirn_group_call_name(group, maths, NULL, NULL, NULL, 0, NULL, 0));
    EXPECT(PIRN_ERROR_ARGUMENT, "`value` is NULL", pirn_group_global(group, maths, "total", NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "`to` is NULL",
           pirn_group_memory_read(group, maths, NULL, 0, NULL, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_kill_switch(group, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_start_fuel(NULL, 1));
    THAT(pirn_group_data(NULL) == NULL && pirn_group_data(group) == &answered);
    pirn_group_delete(NULL);

    OK(pirn_group_new(region, &answered, NULL, &other));
    OK(pirn_group_add(other, module, linker, &of_other));
    const pirn_member_t wrong[] = {0, 1, maths + 1000, of_other, UINT64_MAX};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        EXPECT(PIRN_ERROR_ARGUMENT, "no instance of this group",
               pirn_group_name(group, "wrong", wrong[at]));
        EXPECT(PIRN_ERROR_ARGUMENT, "no instance of this group",
               pirn_group_call_name(group, wrong[at], "add", NULL, values, 2, values, 1));
        EXPECT(PIRN_ERROR_ARGUMENT, "no instance of this group",
               pirn_group_memory_size(group, wrong[at], NULL, &word));
        EXPECT(PIRN_ERROR_ARGUMENT, "no instance of this group",
               pirn_group_global(group, wrong[at], "total", values));
        EXPECT(PIRN_ERROR_ARGUMENT, "no instance of this group",
               pirn_group_table_size(group, wrong[at], "table", &word));
        EXPECT(PIRN_ERROR_ARGUMENT, "no instance of this group",
               pirn_group_fuel(group, wrong[at], &word));
    }
    values[0] = i32(1);
    OK(pirn_group_func(other, of_other, "add", &func));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_call_words(group, func, NULL, words, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_call(group, func, NULL, values, 2, values, 1));
    OK(pirn_group_call_words(other, func, NULL, words, &word));
    THAT(word == 3);
    OK(pirn_region_prepare(region, module, linker, &prepared));
    OK(pirn_prepared_func(prepared, "add", &of_prepared));
    OK(pirn_instance_new(prepared, &answered, NULL, 0, &instance));
    EXPECT(PIRN_ERROR_ARGUMENT, "look it up by `pirn_group_func`",
           pirn_group_call_words(group, of_prepared, NULL, words, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, "",
           pirn_group_call(group, of_prepared, NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_instance_call_words(instance, func, NULL, words, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, "",
           pirn_instance_call(instance, func, NULL, values, 2, values, 1));
    pirn_instance_delete(instance);
    pirn_prepared_delete(prepared);
    pirn_func_delete(of_prepared);
    /* A function outlives its group, and calls nothing then. */
    pirn_group_delete(other);
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_call(group, func, NULL, values, 2, values, 1));
    pirn_func_delete(func);
    THAT(none == NULL && found == 9 && word == 3);
}

/* A start that fails keeps its slot and its writes. A guest that asks, and one that counts fuel. */
static void starts(const pirn_region_t *region, pirn_module_t **modules, pirn_linker_t *linker) {
    pirn_group_t *group;
    pirn_member_t maths, asks, fuel, full = 9;
    uint64_t left = 0;
    uint8_t byte = 0;
    pirn_val_t value = i32(1), result = i32(-1), values[] = {i32(1), i32(2)};
    pirn_linker_t *broken = pirn_linker_clone(linker);
    OK(pirn_linker_global(broken, "host", "broken", i32(1)));
    OK(pirn_linker_global(linker, "host", "broken", i32(0)));
    OK(pirn_group_new(region, &answered, NULL, &group));
    EXPECT(PIRN_ERROR_LINK, "maths.memory", pirn_group_add(group, modules[2], linker, &asks));
    OK(pirn_group_add(group, modules[0], linker, &maths));
    OK(pirn_group_name(group, "maths", maths));
    EXPECT(PIRN_ERROR_TRAP, "unreachable", pirn_group_add(group, modules[2], broken, &asks));
    OK(pirn_group_memory_read(group, maths, NULL, 64, &byte, 1));
    THAT(byte == 7);
    OK(pirn_group_add(group, modules[2], linker, &asks));
    EXPECT(PIRN_ERROR_STATE, "",
           pirn_group_call_name(group, asks, "ask", NULL, &value, 1, &result, 1));
    OK(pirn_group_start_fuel(group, 1000));
    OK(pirn_group_add(group, modules[3], linker, &fuel));
    OK(pirn_group_fuel(group, fuel, &left));
    THAT(left == 1000);
    OK(pirn_group_call_name(group, fuel, "add", NULL, values, 2, values, 1));
    OK(pirn_group_fuel(group, fuel, &left));
    THAT(left < 1000);
    OK(pirn_group_set_fuel(group, fuel, 0));
    values[0] = i32(1);
    EXPECT(PIRN_ERROR_TRAP, "fuel",
           pirn_group_call_name(group, fuel, "add", NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_FULL, "", pirn_group_add(group, modules[0], linker, &full));
    THAT(full == 9);
    pirn_group_delete(group);
    pirn_linker_delete(broken);
}

int main(int argc, char **argv) {
    enum { MODULES = 4 };
    if (argc != 1 + MODULES) {
        return 2;
    }
    pirn_region_t *region;
    pirn_module_t *modules[MODULES];
    pirn_group_t *group;
    pirn_member_t maths, user, found = 0;
    /* One slot for each instance of `starts`. */
    const pirn_region_option_t slots = {PIRN_REGION_SLOTS, 4};
    pirn_linker_t *linker = pirn_linker_new();
    for (int at = 0; at < MODULES; at++) {
        OK(pirn_module_open(argv[1 + at], &modules[at]));
    }
    OK(pirn_region_new(&slots, 1, &region));
    OK(pirn_linker_words(linker, "host", "twice", I32, 1, I32, 1, twice, NULL, count_free));
    OK(pirn_linker_ask(linker, "host", "ask", I32, 1, I32, 1, 5));

    OK(pirn_group_new(region, &answered, NULL, &group));
    EXPECT(PIRN_ERROR_LINK, "maths.", pirn_group_add(group, modules[1], linker, &user));
    OK(pirn_group_add(group, modules[0], linker, &maths));
    EXPECT(PIRN_ERROR_LINK, "maths.", pirn_group_add(group, modules[1], linker, &user));
    OK(pirn_group_name(group, "maths", maths));
    OK(pirn_group_named(group, "maths", &found));
    THAT(found == maths && maths != 0);
    OK(pirn_group_add(group, modules[1], linker, &user));
    THAT(user != maths);
    running = group;
    OK(pirn_group_func(group, maths, "add", &add));
    shares(group, maths, user);
    misuse(region, group, maths, modules[0], linker);
    ends(group, user);
    pirn_func_delete(add);
    pirn_group_delete(group);

    /* A group that is deleted in its own host function. */
    OK(pirn_group_new(region, &answered, NULL, &running));
    OK(pirn_group_add(running, modules[0], linker, &maths));
    THAT(called(running, maths, "twice", 3) == 6);
    starts(region, modules, linker);

    for (int at = 0; at < MODULES; at++) {
        pirn_module_delete(modules[at]);
    }
    pirn_region_delete(region);
    THAT(freed == 0);
    pirn_linker_delete(linker);
    THAT(freed == 1);
    return failures != 0;
}
