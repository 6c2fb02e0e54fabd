/* Values of every kind: to and from a guest, in host functions, in globals; references that are
 * forged, foreign or of another kind; growth that the embedder refuses. Prints nothing and returns
 * 0 if all is as it must be.
 *
 * values VALUES.so
 */

#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(kind, error) expect_at(__LINE__, kind, "", error)

static const pirn_kind_t EVERY[] = {PIRN_I32,  PIRN_I64,  PIRN_F32,
                                    PIRN_F64,  PIRN_V128, PIRN_EXTERNREF};
static const pirn_kind_t ANSWERS[] = {PIRN_EXTERNREF, PIRN_V128, PIRN_F64,
                                      PIRN_F32,       PIRN_I64,  PIRN_I32};

/* Returns its arguments in the opposite order. */
static pirn_error_t *every(void *env, pirn_caller_t *caller, const pirn_val_t *args,
                           pirn_val_t *results) {
    (void)env;
    (void)caller;
    for (int at = 0; at < 6; at++) {
        THAT(args[at].kind == EVERY[at] && results[at].kind == ANSWERS[at]);
        results[5 - at] = args[at];
    }
    return NULL;
}

/* Calls the function that the guest has passed. */
static pirn_error_t *back(void *env, pirn_caller_t *caller, const pirn_val_t *args,
                          pirn_val_t *results) {
    (void)env;
    pirn_val_t forged = args[0];
    forged.of.reference++;
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_caller_call_ref(caller, forged, args + 1, 1, results, 1));
    return pirn_caller_call_ref(caller, args[0], args + 1, 1, results, 1);
}

/* Allows up to the number of bytes in `env`. */
static int32_t allows(void *env, void *data, uint64_t current, uint64_t desired,
                      uint64_t maximum) {
    /* The heap of structs has no maximum. */
    THAT(data == &failures && current < desired);
    THAT(maximum == 4 * 65536 || maximum == UINT64_MAX);
    return desired <= *(const uint64_t *)env;
}

static pirn_val_t call1(pirn_instance_t *instance, const char *name, pirn_val_t arg) {
    pirn_val_t result = {PIRN_I32, {.i32 = -1}};
    OK(pirn_instance_call_name(instance, name, NULL, &arg, 1, &result, 1));
    return result;
}

static void kinds(pirn_instance_t *instance) {
    uint32_t nan = 0x7fa00001;
    pirn_val_t values[6], results[6];
    memset(values, 0, sizeof values);
    for (int at = 0; at < 6; at++) {
        values[at].kind = EVERY[at];
    }
    values[0].of.i32 = INT32_MIN;
    values[1].of.i64 = INT64_MIN;
    memcpy(&values[2].of.f32, &nan, 4); /* A signalling NaN with a payload. */
    values[3].of.f64 = -0.0;
    memcpy(values[4].of.v128, "0123456789abcdef", 16);
    values[5].of.reference = 42;
    OK(pirn_instance_call_name(instance, "every", NULL, values, 6, results, 6));
    THAT(memcmp(results[1].of.v128, "0123456789abcdef", 16) == 0);
    THAT(memcmp(&results[3].of.f32, &nan, 4) == 0 && results[2].of.f64 == 0);
    THAT(results[4].of.i64 == INT64_MIN && results[5].of.i32 == INT32_MIN);
    THAT(results[0].kind == PIRN_EXTERNREF && results[0].of.reference == 42);
    /* A number that the runtime reserves, and null. */
    values[5].of.reference = UINT64_MAX << 48;
    values[5].of.reference -= 1;
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_instance_call_name(instance, "every", NULL, values, 6, results, 6));
    values[5].of.reference = 0;
    OK(pirn_instance_call_name(instance, "every", NULL, values, 6, results, 6));
    THAT(results[0].of.reference == 0);
    pirn_val_t kept = {PIRN_EXTERNREF, {.reference = 7}}, constant;
    OK(pirn_instance_set_global(instance, "kept", kept));
    kept.of.reference = 0;
    OK(pirn_instance_global(instance, "kept", &kept));
    OK(pirn_instance_global(instance, "constant", &constant));
    THAT(kept.of.reference == 7 && constant.kind == PIRN_I64 && constant.of.i64 == 99);
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_set_global(instance, "constant", constant));
}

static void references(pirn_instance_t *instance, pirn_instance_t *other) {
    pirn_val_t func, again, number = {PIRN_I32, {.i32 = 21}}, result;
    OK(pirn_instance_call_name(instance, "funcref", NULL, NULL, 0, &func, 1));
    OK(pirn_instance_call_name(instance, "funcref", NULL, NULL, 0, &again, 1));
    THAT(func.kind == PIRN_FUNCREF && func.of.reference == again.of.reference);
    OK(pirn_instance_call_ref(instance, func, NULL, &number, 1, &result, 1));
    THAT(result.of.i32 == 42);
    THAT(call1(instance, "is_null", func).of.i32 == 0);
    THAT(call1(instance, "back", number).of.i32 == 42);
    /* Null, of another instance, of another kind, and with numbers that nothing has. */
    pirn_val_t null = {PIRN_FUNCREF, {.reference = 0}}, wrong = func;
    THAT(call1(instance, "is_null", null).of.i32 == 1);
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_instance_call_ref(instance, null, NULL, &number, 1, &result, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_call_ref(other, func, NULL, &number, 1, &result, 1));
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_instance_call_name(other, "is_null", NULL, &func, 1, &result, 1));
    wrong.kind = PIRN_ANYREF;
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_instance_call_name(instance, "field", NULL, &wrong, 1, &result, 1));
    for (uint64_t bit = 0; bit < 64; bit++) {
        wrong = func;
        wrong.of.reference ^= UINT64_C(1) << bit;
        EXPECT(PIRN_ERROR_ARGUMENT,
               pirn_instance_call_name(instance, "is_null", NULL, &wrong, 1, &result, 1));
    }
    /* Objects of the guest, which its host can only give back. */
    pirn_val_t point = call1(instance, "point", number), small = call1(instance, "number", number);
    THAT(point.kind == PIRN_ANYREF && call1(instance, "field", point).of.i32 == 21);
    pirn_error_t *error = pirn_instance_call_name(instance, "field", NULL, &small, 1, &result, 1);
    THAT(pirn_error_trap_code(error) == PIRN_TRAP_CAST_FAILURE);
    EXPECT(PIRN_ERROR_TRAP, error);
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_instance_call_name(other, "field", NULL, &point, 1, &result, 1));
}

static void tables(pirn_instance_t *instance, pirn_instance_t *other) {
    pirn_val_t func, foreign, found, null = {PIRN_FUNCREF, {.reference = 0}};
    pirn_val_t number = {PIRN_I32, {.i32 = 21}}, result;
    uint64_t size = 0;
    OK(pirn_instance_call_name(instance, "funcref", NULL, NULL, 0, &func, 1));
    OK(pirn_instance_call_name(other, "funcref", NULL, NULL, 0, &foreign, 1));
    OK(pirn_instance_table_size(instance, "table", &size));
    THAT(size == 2);
    OK(pirn_instance_table_fill(instance, "table", 1, func, 1));
    OK(pirn_instance_table_get(instance, "table", 1, &found));
    OK(pirn_instance_call_ref(instance, found, NULL, &number, 1, &result, 1));
    THAT(found.of.reference == func.of.reference && result.of.i32 == 42);
    OK(pirn_instance_table_get(instance, "table", 0, &found));
    THAT(found.kind == PIRN_FUNCREF && found.of.reference == 0);
    OK(pirn_instance_table_grow(instance, "table", 2, func, &size));
    THAT(size == 2);
    OK(pirn_instance_table_get(instance, "table", 3, &found));
    THAT(found.of.reference == func.of.reference);
    OK(pirn_instance_table_fill(instance, "table", 0, null, 4));
    OK(pirn_instance_table_fill(instance, "table", 4, null, 0));
    OK(pirn_instance_table_grow(instance, "table", 0, null, NULL));

    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_get(instance, "table", 4, &found));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_get(instance, "table", UINT64_MAX, &found));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_fill(instance, "table", 3, null, 2));
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_instance_table_fill(instance, "table", UINT64_MAX, null, UINT64_MAX));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_fill(instance, "table", 0, number, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_fill(instance, "table", 0, foreign, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_grow(instance, "table", 1, null, &size));
    EXPECT(PIRN_ERROR_ARGUMENT,
           pirn_instance_table_grow(instance, "table", UINT64_MAX, null, &size));
    EXPECT(PIRN_ERROR_LINK, pirn_instance_table_size(instance, "none", &size));
    EXPECT(PIRN_ERROR_LINK, pirn_instance_table_get(instance, "memory", 0, &found));
    EXPECT(PIRN_ERROR_LINK, pirn_instance_table_fill(instance, "none", 0, null, 1));
    EXPECT(PIRN_ERROR_LINK, pirn_instance_table_grow(instance, "none", 1, null, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_size(instance, NULL, &size));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_get(instance, "table", 0, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, pirn_instance_table_size(NULL, "table", &size));
    OK(pirn_instance_table_size(other, "table", &size));
    THAT(size == 2);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        return 2;
    }
    uint64_t bytes_max = 2 * 65536;
    pirn_module_t *module;
    pirn_region_t *region;
    pirn_prepared_t *prepared;
    pirn_instance_t *instance, *other;
    const pirn_region_option_t options[] = {{PIRN_REGION_SLOTS, 2}, {PIRN_REGION_MEMORIES, 2}};
    const pirn_kind_t params[] = {PIRN_FUNCREF, PIRN_I32}, i32[] = {PIRN_I32};
    pirn_linker_t *linker = pirn_linker_new();
    pirn_val_t constant = {PIRN_I64, {.i64 = 99}}, pages = {PIRN_I32, {.i32 = 1}};
    OK(pirn_module_open(argv[1], &module));
    OK(pirn_region_new(options, 2, &region));
    OK(pirn_linker_func(linker, "h", "every", EVERY, 6, ANSWERS, 6, every, NULL, NULL));
    OK(pirn_linker_func(linker, "h", "back", params, 2, i32, 1, back, NULL, NULL));
    OK(pirn_linker_global(linker, "h", "constant", constant));
    OK(pirn_linker_memory_limiter(linker, allows, &bytes_max, NULL));
    OK(pirn_region_prepare(region, module, linker, &prepared));
    OK(pirn_instance_new(prepared, &failures, NULL, 0, &instance));
    OK(pirn_instance_new(prepared, &failures, NULL, 0, &other));

    kinds(instance);
    references(instance, other);
    tables(instance, other);
    THAT(call1(instance, "grow", pages).of.i32 == 1);
    THAT(call1(instance, "grow", pages).of.i32 == -1);
    bytes_max = 4 * 65536;
    THAT(call1(instance, "grow", pages).of.i32 == 2);

    pirn_instance_delete(instance);
    pirn_instance_delete(other);
    pirn_prepared_delete(prepared);
    pirn_linker_delete(linker);
    pirn_region_delete(region);
    pirn_module_delete(module);
    return failures == 0 ? 0 : 1;
}
