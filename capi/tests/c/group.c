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
static pirn_instance_t *running_maths;
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

/* A handle of an instance of a group. */
static pirn_instance_t *lent(pirn_group_t *group, pirn_member_t member) {
    pirn_instance_t *instance = NULL;
    OK(pirn_group_member(group, member, &instance));
    return instance;
}

/* Uses an instance of a group whose call runs on another thread. */
static void *use_it(void *instance) {
    uint64_t bytes = 0;
    EXPECT(PIRN_ERROR_BUSY, "group is in use", pirn_instance_memory_size(instance, NULL, &bytes));
    EXPECT(PIRN_ERROR_BUSY, "group is in use", pirn_instance_cancel(instance));
    THAT(bytes == 0);
    return NULL;
}

/* What a host function may do in a group, by the number that the guest passes. */
static pirn_error_t *twice(void *env, pirn_caller_t *caller, const uint64_t *args,
                           uint64_t *result) {
    uint64_t words[] = {4, 2}, word = 0;
    pirn_member_t member = 9;
    pirn_instance_t *busy = NULL;
    pthread_t thread;
    pirn_val_t values[] = {i32(1), i32(2)};
    (void)env;
    THAT(pirn_caller_data(caller) == &answered);
    kept = caller;
    switch (args[0]) {
    case 1: /* A group in use. */
        EXPECT(PIRN_ERROR_BUSY, "group is in use",
               pirn_instance_call_words(running_maths, add, NULL, words, &word));
        EXPECT(PIRN_ERROR_BUSY, "group is in use", pirn_group_member(running, 1, &busy));
        EXPECT(PIRN_ERROR_BUSY, "group is in use", pirn_group_named(running, "maths", &member));
        EXPECT(PIRN_ERROR_BUSY, "group is in use",
               pirn_instance_memory_size(running_maths, NULL, &word));
        THAT(member == 9 && word == 0 && pirn_group_data(running) == NULL);
        THAT(busy == NULL && pirn_instance_data(running_maths) == NULL);
        break;
    case 2: /* Nested calls of the instance that called. */
        OK(pirn_caller_call_words(caller, add, words, &word));
        THAT(word == 6);
        OK(pirn_caller_call_name(caller, "add", values, 2, values, 1));
        THAT(values[0].of.i32 == 3);
        break;
    case 3: /* The group ends when the call has returned. Handles of its instances stay. */
        pirn_group_delete(running);
        EXPECT(PIRN_ERROR_STATE, "group was deleted",
               pirn_instance_call_words(running_maths, add, NULL, words, &word));
        break;
    case 4:
        return pirn_error_new("no number", 17);
    case 6: /* Only the handle ends. */
        pirn_instance_delete(running_maths);
        running_maths = NULL;
        break;
    case 7: /* Another thread finds the group in use. */
        THAT(pthread_create(&thread, NULL, use_it, running_maths) == 0);
        pthread_join(thread, NULL);
        break;
    }
    *result = args[0] * 2;
    return NULL;
}

static int32_t called(pirn_instance_t *member, const char *name, int32_t one) {
    pirn_val_t value = i32(one), result = i32(-1);
    OK(pirn_instance_call_name(member, name, NULL, &value, 1, &result, 1));
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
static void shares(pirn_instance_t *maths, pirn_instance_t *user) {
    pirn_val_t values[2], result = i32(-1), found;
    pirn_func_t *sum, *none = NULL;
    uint64_t words[] = {20, 3}, word = 0, size = 0;
    uint8_t *slice = NULL;
    int32_t number = 0;
    const pirn_kind_t kinds[] = {PIRN_I32, PIRN_I32, PIRN_I64};
    EXPECT(PIRN_ERROR_LINK, "the caller wants (i32, i64) -> i32",
           pirn_instance_typed(user, "sum", &kinds[1], 2, kinds, 1, &none));
    EXPECT(PIRN_ERROR_ARGUMENT, "`params` is NULL",
           pirn_instance_typed(user, "sum", NULL, 2, kinds, 1, &none));
    OK(pirn_instance_typed(user, "sum", kinds, 2, kinds, 1, &sum));
    OK(pirn_instance_call_words(user, sum, NULL, words, &word));
    THAT(word == 23);
    values[0] = i32(-5), values[1] = i32(3);
    OK(pirn_instance_call(user, sum, NULL, values, 2, values, 1));
    THAT(values[0].kind == PIRN_I32 && values[0].of.i32 == -2);
    OK(pirn_instance_memory_read(maths, "memory", 8, &number, 4));
    THAT(number == -2);
    OK(pirn_instance_memory_slice(user, NULL, 8, 4, &slice));
    memcpy(&number, slice, 4);
    THAT(number == -2);
    number = 77;
    OK(pirn_instance_memory_write(user, NULL, 12, &number, 4));
    OK(pirn_instance_memory_read(maths, NULL, 12, &number, 4));
    THAT(number == 77);
    OK(pirn_instance_memory_size(maths, "memory", &size));
    THAT(size == 65536);
    OK(pirn_instance_global(maths, "total", &found));
    THAT(found.kind == PIRN_I64 && found.of.i64 == 2);
    found.of.i64 = 40;
    OK(pirn_instance_set_global(user, "total", found));
    OK(pirn_instance_call_words(user, sum, NULL, words, &word));
    OK(pirn_instance_global(user, "total", &found));
    THAT(found.of.i64 == 41);

    /* A function that was looked up in one instance is called there, by the handle of another. */
    values[0] = i32(4), values[1] = i32(3);
    OK(pirn_instance_call(maths, sum, NULL, values, 2, values, 1));
    THAT(values[0].of.i32 == 7);
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_instance_call_words(maths, sum, NULL, words, &word));

    /* A reference of one instance, from the table of the other, is called in the first. */
    OK(pirn_instance_call_name(user, "put", NULL, NULL, 0, NULL, 0));
    OK(pirn_instance_table_get(maths, "table", 0, &found));
    THAT(found.kind == PIRN_FUNCREF && found.of.reference != 0);
    values[0] = i32(1), values[1] = i32(2);
    OK(pirn_instance_call_ref(maths, found, NULL, values, 2, &result, 1));
    THAT(result.of.i32 == 3);
    OK(pirn_instance_table_fill(user, "table", 1, found, 1));
    OK(pirn_instance_table_grow(maths, "table", 1, found, &size));
    THAT(size == 2);
    OK(pirn_instance_table_size(user, "table", &size));
    THAT(size == 3);
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_instance_table_grow(maths, "table", 2, found, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "3 elements, element 3",
           pirn_instance_table_get(user, "table", 3, &found));
    EXPECT(PIRN_ERROR_LINK, "no table \"none\"",
           pirn_instance_table_size(user, "none", &size));
    EXPECT(PIRN_ERROR_ARGUMENT, "refers to no function",
           pirn_instance_call_ref(user, i32(1), NULL, NULL, 0, NULL, 0));
    found.of.reference++;
    EXPECT(PIRN_ERROR_ARGUMENT, "was not given by this instance",
           pirn_instance_call_ref(user, found, NULL, values, 2, &result, 1));

    EXPECT(PIRN_ERROR_LINK, "\"none\"", pirn_instance_func(user, "none", &none));
    EXPECT(PIRN_ERROR_LINK, "\"none\"",
           pirn_instance_call_name(user, "none", NULL, NULL, 0, NULL, 0));
    EXPECT(PIRN_ERROR_LINK, "no global \"none\"", pirn_instance_global(user, "none", &found));
    EXPECT(PIRN_ERROR_LINK, "no memory \"none\"",
           pirn_instance_memory_size(user, "none", &size));
    EXPECT(PIRN_ERROR_TRAP, "", pirn_instance_memory_read(user, NULL, 65533, &number, 4));
    EXPECT(PIRN_ERROR_ARGUMENT, "returns 1 values",
           pirn_instance_call(user, sum, NULL, values, 2, values, 2));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_instance_call(user, sum, NULL, values, 1, values, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, "does not count fuel", pirn_instance_set_fuel(user, 5));
    THAT(none == NULL);
    pirn_func_delete(sum);
}

/* Host functions, traps, limits and the kill switch, across both instances. */
static void ends(pirn_group_t *group, pirn_instance_t *user) {
    pirn_limits_t limits = {1000000, 0, 0};
    pirn_val_t value = i32(4), result;
    pirn_kill_switch_t *kill_switch;
    pthread_t thread;
    THAT(called(user, "twice", 1) == 2 && called(user, "twice", 2) == 4);
    THAT(called(user, "twice", 7) == 14);
    EXPECT(PIRN_ERROR_BUSY, "outside its host function", pirn_caller_fuel(kept, &(uint64_t){0}));
    pirn_error_t *error = pirn_instance_call_name(user, "twice", NULL, &value, 1, &result, 1);
    THAT(pirn_error_kind(error) == PIRN_ERROR_HOST && pirn_error_user(error) == 17);
    pirn_error_delete(error);
    error = pirn_instance_call_name(user, "fail", NULL, NULL, 0, NULL, 0);
    const char *report = pirn_error_report(error);
    THAT(pirn_error_kind(error) == PIRN_ERROR_TRAP && strstr(report, "unreachable") != NULL);
    /* The backtrace has the frames of both instances. */
    THAT(pirn_error_frame_count(error) == 2);
    pirn_error_delete(error);
    EXPECT(PIRN_ERROR_DEADLINE, "",
           pirn_instance_call_name(user, "spin", &limits, NULL, 0, NULL, 0));
    limits.deadline_ns = 0, limits.cpu_ns = 1000000;
    EXPECT(PIRN_ERROR_CPU_BUDGET, "",
           pirn_instance_call_name(user, "spin", &limits, NULL, 0, NULL, 0));
    limits.cpu_ns = 0, limits.slice_ns = 1000000;
    EXPECT(PIRN_ERROR_STATE, "",
           pirn_instance_call_name(user, "spin", &limits, NULL, 0, NULL, 0));
    THAT(called(user, "twice", 5) == 10);

    OK(pirn_group_kill_switch(group, &kill_switch));
    THAT(pthread_create(&thread, NULL, kill_it, kill_switch) == 0);
    EXPECT(PIRN_ERROR_KILLED, "",
           pirn_instance_call_name(user, "spin", NULL, NULL, 0, NULL, 0));
    pthread_join(thread, NULL);
    value = i32(5);
    EXPECT(PIRN_ERROR_KILLED, "",
           pirn_instance_call_name(user, "twice", NULL, &value, 1, &result, 1));
    pirn_kill_switch_delete(kill_switch);
}

/* Null pointers, and numbers and functions that are not of the group. */
static void misuse(const pirn_region_t *region, pirn_group_t *group, pirn_member_t id,
                   const pirn_module_t *module, const pirn_linker_t *linker) {
    pirn_group_t *other, *none = NULL;
    pirn_member_t of_other, found = 9;
    pirn_prepared_t *prepared;
    pirn_func_t *func, *of_prepared;
    pirn_instance_t *instance, *of_none = NULL, *maths = lent(group, id);
    pirn_module_t *snapshot = NULL;
    pirn_kill_switch_t *no_switch = NULL;
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
    EXPECT(PIRN_ERROR_ARGUMENT, "`name` is NULL", pirn_group_name(group, NULL, id));
    EXPECT(PIRN_ERROR_LINK, "no instance has the name \"none\"",
           pirn_group_named(group, "none", &found));
    EXPECT(PIRN_ERROR_ARGUMENT, "`func` is NULL",
           pirn_instance_call(maths, NULL, NULL, NULL, 0, NULL, 0));
    EXPECT(PIRN_ERROR_ARGUMENT, "`name` is NULL",
           pirn_instance_call_name(maths, NULL, NULL, NULL, 0, NULL, 0));
    EXPECT(PIRN_ERROR_ARGUMENT, "`value` is NULL", pirn_instance_global(maths, "total", NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "`to` is NULL",
           pirn_instance_memory_read(maths, NULL, 0, NULL, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_kill_switch(group, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_group_start_fuel(NULL, 1));
    THAT(pirn_group_data(NULL) == NULL && pirn_group_data(group) == &answered);
    pirn_group_delete(NULL);

    OK(pirn_group_new(region, &answered, NULL, &other));
    OK(pirn_group_add(other, module, linker, &of_other));
    const pirn_member_t wrong[] = {0, 1, id + 1000, of_other, UINT64_MAX};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        EXPECT(PIRN_ERROR_ARGUMENT, "no instance of this group",
               pirn_group_name(group, "wrong", wrong[at]));
        EXPECT(PIRN_ERROR_ARGUMENT, "no instance of this group",
               pirn_group_member(group, wrong[at], &of_none));
    }
    THAT(of_none == NULL);
    values[0] = i32(1);
    of_none = lent(other, of_other);
    OK(pirn_instance_func(of_none, "add", &func));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_instance_call_words(maths, func, NULL, words, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_instance_call(maths, func, NULL, values, 2, values, 1));
    OK(pirn_instance_call_words(of_none, func, NULL, words, &word));
    THAT(word == 3);
    OK(pirn_region_prepare(region, module, linker, &prepared));
    OK(pirn_prepared_func(prepared, "add", &of_prepared));
    OK(pirn_instance_new(prepared, &answered, NULL, 0, &instance));
    EXPECT(PIRN_ERROR_ARGUMENT, "another preparation",
           pirn_instance_call_words(maths, of_prepared, NULL, words, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, "",
           pirn_instance_call(maths, of_prepared, NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_instance_call_words(instance, func, NULL, words, &word));
    EXPECT(PIRN_ERROR_ARGUMENT, "",
           pirn_instance_call(instance, func, NULL, values, 2, values, 1));
    /* An instance that is alone finds its functions, too. */
    pirn_func_delete(of_prepared);
    OK(pirn_instance_func(instance, "add", &of_prepared));
    OK(pirn_instance_call_words(instance, of_prepared, NULL, words, &word));
    pirn_instance_delete(instance);
    pirn_prepared_delete(prepared);
    pirn_func_delete(of_prepared);
    /* No snapshot of a group. The handle is taken over. */
    EXPECT(PIRN_ERROR_ARGUMENT, "instance is of a group",
           pirn_instance_snapshot(lent(other, of_other), NULL, 0, &snapshot));
    /* A function and handles of instances outlive their group, and call nothing then. */
    pirn_instance_t *kept_too = lent(other, of_other);
    pirn_group_delete(other);
    EXPECT(PIRN_ERROR_ARGUMENT, "", pirn_instance_call(maths, func, NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_STATE, "group was deleted",
           pirn_instance_call(of_none, func, NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_STATE, "group was deleted",
           pirn_instance_call_words(of_none, func, NULL, words, &word));
    EXPECT(PIRN_ERROR_STATE, "group was deleted",
           pirn_instance_call_name(of_none, "add", NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_STATE, "group was deleted",
           pirn_instance_memory_size(of_none, NULL, &word));
    EXPECT(PIRN_ERROR_STATE, "group was deleted",
           pirn_instance_memory_read(of_none, NULL, 0, words, 4));
    EXPECT(PIRN_ERROR_STATE, "group was deleted", pirn_instance_global(of_none, "total", values));
    EXPECT(PIRN_ERROR_STATE, "group was deleted",
           pirn_instance_table_size(of_none, "table", &word));
    EXPECT(PIRN_ERROR_STATE, "group was deleted", pirn_instance_fuel(of_none, &word));
    EXPECT(PIRN_ERROR_STATE, "group was deleted", pirn_instance_cancel(of_none));
    EXPECT(PIRN_ERROR_STATE, "group was deleted",
           pirn_instance_kill_switch(of_none, &no_switch));
    THAT(pirn_instance_data(of_none) == NULL && pirn_instance_is_suspended(of_none) == 0);
    pirn_instance_delete(of_none);
    pirn_instance_delete(kept_too);
    pirn_func_delete(func);
    pirn_instance_delete(maths);
    THAT(none == NULL && found == 9 && word == 3 && snapshot == NULL && no_switch == NULL);
}

/* A start that fails keeps its slot and its writes. A guest that asks, and one that counts fuel. */
static void starts(const pirn_region_t *region, pirn_module_t **modules, pirn_linker_t *linker) {
    pirn_group_t *group;
    pirn_member_t maths, asks, fuel, full = 9;
    pirn_instance_t *instance;
    pirn_func_t *ask;
    pirn_step_t step;
    uint64_t word = 1;
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
    instance = lent(group, maths);
    OK(pirn_instance_memory_read(instance, NULL, 64, &byte, 1));
    pirn_instance_delete(instance);
    THAT(byte == 7);
    OK(pirn_group_add(group, modules[2], linker, &asks));
    instance = lent(group, asks);
    EXPECT(PIRN_ERROR_STATE, "",
           pirn_instance_call_name(instance, "ask", NULL, &value, 1, &result, 1));
    /* In steps, the guest asks the embedder. The suspended call is the group's. */
    OK(pirn_instance_typed(instance, "ask", I32, 1, I32, 1, &ask));
    OK(pirn_instance_start(instance, ask, NULL, &word, &step));
    THAT(step.kind == PIRN_STEP_ASKED && step.tag == 5 && step.args_count == 1);
    THAT(step.args[0] == 1 && pirn_instance_is_suspended(instance));
    pirn_instance_t *other = lent(group, maths);
    THAT(pirn_instance_is_suspended(other));
    EXPECT(PIRN_ERROR_STATE, "", pirn_instance_answer(other, ask, NULL, 3, &step));
    EXPECT(PIRN_ERROR_STATE, "",
           pirn_instance_call_name(other, "add", NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_STATE, "", pirn_group_add(group, modules[0], linker, &full));
    OK(pirn_instance_answer(instance, ask, NULL, 41, &step));
    THAT(step.kind == PIRN_STEP_RETURNED && step.result == 41);
    OK(pirn_instance_start(instance, ask, NULL, &word, &step));
    OK(pirn_instance_cancel(other));
    THAT(!pirn_instance_is_suspended(instance));
    pirn_instance_delete(other);
    pirn_func_delete(ask);
    pirn_instance_delete(instance);
    OK(pirn_group_start_fuel(group, 1000));
    OK(pirn_group_add(group, modules[3], linker, &fuel));
    instance = lent(group, fuel);
    OK(pirn_instance_fuel(instance, &left));
    THAT(left == 1000);
    OK(pirn_instance_call_name(instance, "add", NULL, values, 2, values, 1));
    OK(pirn_instance_fuel(instance, &left));
    THAT(left < 1000);
    OK(pirn_instance_set_fuel(instance, 0));
    values[0] = i32(1);
    EXPECT(PIRN_ERROR_TRAP, "fuel",
           pirn_instance_call_name(instance, "add", NULL, values, 2, values, 1));
    EXPECT(PIRN_ERROR_FULL, "", pirn_group_add(group, modules[0], linker, &full));
    THAT(full == 9);
    pirn_instance_delete(instance);
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
    running_maths = lent(group, maths);
    pirn_instance_t *running_user = lent(group, user);
    OK(pirn_instance_func(running_maths, "add", &add));
    shares(running_maths, running_user);
    misuse(region, group, maths, modules[0], linker);
    ends(group, running_user);
    pirn_func_delete(add);
    pirn_instance_delete(running_maths);
    pirn_instance_delete(running_user);
    pirn_group_delete(group);

    /* A group that is deleted in its own host function. */
    OK(pirn_group_new(region, &answered, NULL, &running));
    OK(pirn_group_add(running, modules[0], linker, &maths));
    running_maths = lent(running, maths);
    OK(pirn_instance_func(running_maths, "add", &add));
    THAT(called(running_maths, "twice", 3) == 6);
    EXPECT(PIRN_ERROR_STATE, "group was deleted",
           pirn_instance_memory_size(running_maths, NULL, &(uint64_t){0}));
    pirn_instance_delete(running_maths);
    pirn_func_delete(add);

    /* A handle that is deleted in its own host function. The group, whose slot it has, lives on. */
    OK(pirn_group_new(region, &answered, NULL, &running));
    OK(pirn_group_add(running, modules[0], linker, &maths));
    running_maths = lent(running, maths);
    THAT(called(running_maths, "twice", 6) == 12 && running_maths == NULL);
    running_maths = lent(running, maths);
    THAT(called(running_maths, "twice", 5) == 10);
    pirn_instance_delete(running_maths);
    pirn_group_delete(running);
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
