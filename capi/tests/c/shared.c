/* Shared memories: instances on several threads, waits, growth, and misuse. Prints nothing and
 * returns 0 if all is as it must be.
 *
 * shared SHARED.so GUEST.so
 */

#include "expect.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(kind, text, error) expect_at(__LINE__, kind, text, error)

enum { THREADS = 2, ROUNDS = 10000 };

static int32_t call(const pirn_prepared_t *prepared, const char *name, int32_t number) {
    pirn_instance_t *instance;
    pirn_val_t value = {PIRN_I32, {.i32 = number}}, result = {PIRN_I32, {.i32 = -1}};
    OK(pirn_instance_new(prepared, NULL, NULL, 0, &instance));
    OK(pirn_instance_call_name(instance, name, NULL, &value, 1, &result, 1));
    pirn_instance_delete(instance);
    return result.of.i32;
}

static void *add(void *prepared) {
    THAT(call(prepared, "add", ROUNDS) == 5);
    return NULL;
}

static void *wait_there(void *prepared) {
    THAT(call(prepared, "wait", 0) == 0);
    return NULL;
}

static void threads(pirn_prepared_t *prepared, const pirn_shared_memory_t *memory) {
    pthread_t all[THREADS];
    uint32_t number = 0, woken = 0;
    for (int at = 0; at < THREADS; at++) {
        THAT(pthread_create(&all[at], NULL, add, prepared) == 0);
    }
    for (int at = 0; at < THREADS; at++) {
        pthread_join(all[at], NULL);
    }
    OK(pirn_shared_memory_read(memory, 8, &number, 4));
    THAT(number == THREADS * ROUNDS);

    /* The guest waits, however late it starts. */
    THAT(pthread_create(&all[0], NULL, wait_there, prepared) == 0);
    while (woken == 0) {
        OK(pirn_shared_memory_notify(memory, 16, 1, &woken));
        sched_yield();
    }
    pthread_join(all[0], NULL);
    number = 3;
    OK(pirn_shared_memory_write(memory, 16, &number, 4));
    THAT(call(prepared, "wait", 0) == 1);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    pirn_region_t *region;
    pirn_module_t *module, *other;
    pirn_shared_memory_t *memory = NULL, *second, *none = NULL;
    pirn_prepared_t *prepared, *changed;
    pirn_val_t five = {PIRN_I32, {.i32 = 5}};
    pirn_linker_t *linker = pirn_linker_new();
    OK(pirn_module_open(argv[1], &module));
    OK(pirn_module_open(argv[2], &other));
    const pirn_region_option_t slots = {PIRN_REGION_SLOTS, THREADS};
    OK(pirn_region_new(&slots, 1, &region));
    OK(pirn_shared_memory_new(module, "host", "memory", &memory));
    EXPECT(PIRN_ERROR_LINK, "has no import \"host\" \"none\"",
           pirn_shared_memory_new(module, "host", "none", &none));
    EXPECT(PIRN_ERROR_ARGUMENT, "a shared memory is needed",
           pirn_shared_memory_new(module, "host", "global", &none));
    EXPECT(PIRN_ERROR_LINK, "has no import",
           pirn_shared_memory_new(other, "host", "memory", &none));
    EXPECT(PIRN_ERROR_ARGUMENT, "`module` is NULL",
           pirn_shared_memory_new(NULL, "host", "memory", &none));
    EXPECT(PIRN_ERROR_ARGUMENT, "`import_name` is NULL",
           pirn_shared_memory_new(module, "host", NULL, &none));
    THAT(none == NULL);

    OK(pirn_linker_global(linker, "host", "global", five));
    EXPECT(PIRN_ERROR_LINK, "memory", pirn_region_prepare(region, module, linker, &prepared));
    EXPECT(PIRN_ERROR_ARGUMENT, "`memory` is NULL",
           pirn_linker_memory(linker, "host", "memory", NULL));
    OK(pirn_linker_memory(linker, "host", "memory", memory));
    EXPECT(PIRN_ERROR_LINK, "memory", pirn_linker_memory(linker, "host", "memory", memory));
    OK(pirn_region_prepare(region, module, linker, &prepared));
    threads(prepared, memory);

    /* Another memory for some instances. */
    OK(pirn_shared_memory_new(module, "host", "memory", &second));
    OK(pirn_prepared_with_memory(prepared, "host", "memory", second, &changed));
    EXPECT(PIRN_ERROR_LINK, "",
           pirn_prepared_with_memory(prepared, "host", "no", second, &changed));
    EXPECT(PIRN_ERROR_ARGUMENT, "`memory` is NULL",
           pirn_prepared_with_memory(prepared, "host", "memory", NULL, &changed));
    uint32_t number = 77, woken = 9;
    OK(pirn_shared_memory_write(second, 32, &number, 4));
    pirn_shared_memory_t *clone = pirn_shared_memory_clone(second);
    pirn_shared_memory_delete(second);
    THAT(call(changed, "load", 32) == 77 && call(prepared, "load", 32) == 0);
    THAT(call(changed, "load", 8) == 0 && call(prepared, "load", 8) == THREADS * ROUNDS);

    uint64_t before = 9, size = pirn_shared_memory_size(clone);
    THAT(size == 65536);
    EXPECT(PIRN_ERROR_TRAP, "", pirn_shared_memory_read(clone, size - 3, &number, 4));
    EXPECT(PIRN_ERROR_TRAP, "", pirn_shared_memory_read(clone, UINT64_MAX, &number, 4));
    EXPECT(PIRN_ERROR_TRAP, "", pirn_shared_memory_write(clone, size - 3, &number, 4));
    EXPECT(PIRN_ERROR_TRAP, "", pirn_shared_memory_notify(clone, size, 1, &woken));
    EXPECT(PIRN_ERROR_TRAP, "", pirn_shared_memory_notify(clone, 2, 1, &woken));
    EXPECT(PIRN_ERROR_ARGUMENT, "`bytes` is NULL", pirn_shared_memory_read(clone, 0, NULL, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, "`memory` is NULL", pirn_shared_memory_write(NULL, 0, NULL, 0));
    THAT(woken == 9 && number == 77);
    OK(pirn_shared_memory_grow(clone, 1, &before));
    THAT(before == 1 && pirn_shared_memory_size(clone) == 2 * 65536);
    EXPECT(PIRN_ERROR_ARGUMENT, "its maximum is 3", pirn_shared_memory_grow(clone, 2, &before));
    EXPECT(PIRN_ERROR_ARGUMENT, "its maximum is 3",
           pirn_shared_memory_grow(clone, UINT64_MAX, NULL));
    OK(pirn_shared_memory_grow(clone, 1, NULL));
    OK(pirn_shared_memory_notify(clone, 0, 1, NULL));
    THAT(pirn_shared_memory_size(NULL) == 0 && pirn_shared_memory_clone(NULL) == NULL);
    THAT(call(changed, "load", 3 * 65536 - 4) == 0);

    pirn_shared_memory_delete(clone);
    pirn_shared_memory_delete(memory);
    pirn_shared_memory_delete(NULL);
    THAT(call(changed, "load", 32) == 77);
    pirn_prepared_delete(changed);
    pirn_prepared_delete(prepared);
    pirn_linker_delete(linker);
    pirn_module_delete(module);
    pirn_module_delete(other);
    pirn_region_delete(region);
    return failures != 0;
}
