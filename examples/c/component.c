/* Calls a component by values, offers it a host function, and runs a command of WASI 0.2.
 *
 *     cargo run --release --bin aotc -- examples/c/component.wat -o shop.so
 *     cargo run --release --bin aotc -- examples/guests/hello-p2.wasm -o hello-p2.so
 *     cc examples/c/component.c -I capi/include -L target/release -lpirn -o shop
 *     LD_LIBRARY_PATH=target/release ./shop shop.so hello-p2.so
 */

#include <inttypes.h>
#include <pirn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(pirn_error_t *error) {
    if (error != NULL) {
        fprintf(stderr, "component: %s\n", pirn_error_report(error));
        pirn_error_delete(error);
        exit(1);
    }
}

/* A linked component. All handles but the result end here. */
static pirn_component_prepared_t *prepare(const char *path, pirn_component_linker_t *linker) {
    /* A component can have a memory for each of its core modules. */
    const pirn_region_option_t options[] = {{PIRN_REGION_SLOTS, 1}, {PIRN_REGION_MEMORIES, 4}};
    pirn_region_t *region;
    pirn_module_t *module;
    pirn_component_t *component;
    pirn_component_prepared_t *prepared;
    check(pirn_region_new(options, 2, &region));
    check(pirn_module_open(path, &module));
    check(pirn_component_new(module, &component));
    check(pirn_region_prepare_component(region, component, linker, &prepared));
    pirn_component_linker_delete(linker);
    pirn_component_delete(component);
    pirn_module_delete(module);
    pirn_region_delete(region);
    return prepared;
}

/* example:shop/prices#price(name: string) -> option<u32> */
static pirn_error_t *price(void *env, pirn_component_caller_t *caller,
                           const pirn_component_value_t *args, size_t args_count) {
    (void)env;
    (void)args_count;
    const char *name = args[0].of.string.data;
    pirn_component_value_t some = {PIRN_COMPONENT_U32, {.u32 = 25}};
    pirn_component_value_t found = {PIRN_COMPONENT_OPTION, {.option = NULL}};
    if (strcmp(name, "pear") == 0) {
        found.of.option = &some;
    } else if (strcmp(name, "plum") == 0) {
        some.of.u32 = 4;
        found.of.option = &some;
    }
    return pirn_component_caller_return(caller, &found); /* The value is copied. */
}

static pirn_component_value_t text(const char *text) {
    return (pirn_component_value_t){PIRN_COMPONENT_STRING, {.string = {text, strlen(text)}}};
}

static void total(pirn_component_instance_t *instance, const pirn_component_func_t *func,
                  const char *first, const char *second) {
    pirn_component_value_t three = {PIRN_COMPONENT_U32, {.u32 = 3}};
    pirn_component_field_t fields[2][2] = {
        {{"name", text(first)}, {"count", three}},
        {{"name", text(second)}, {"count", three}},
    };
    pirn_component_value_t items[] = {
        {PIRN_COMPONENT_RECORD, {.record = {fields[0], 2}}},
        {PIRN_COMPONENT_RECORD, {.record = {fields[1], 2}}},
    };
    pirn_component_value_t list = {PIRN_COMPONENT_LIST, {.list = {items, 2}}};
    pirn_component_owned_t *owned;
    check(pirn_component_instance_call(instance, func, 0, &list, 1, &owned));
    const pirn_component_value_t *result = pirn_component_owned_value(owned);
    if (result->of.result.is_error) {
        printf("no price: %s\n", result->of.result.payload->of.string.data);
    } else {
        printf("total: %" PRIu32 "\n", result->of.result.payload->of.u32);
    }
    pirn_component_owned_delete(owned);
}

static void shop(const char *path) {
    pirn_component_linker_t *linker = pirn_component_linker_new();
    check(pirn_component_linker_func(linker, "example:shop/prices", "price", price, NULL, NULL));
    pirn_component_prepared_t *prepared = prepare(path, linker);
    pirn_component_func_t *func;
    check(pirn_component_prepared_func(prepared, "total", &func));
    printf("%s\n", pirn_component_func_type(func));
    pirn_component_instance_t *instance;
    check(pirn_component_instance_new(prepared, NULL, NULL, 0, &instance));
    total(instance, func, "pear", "plum");
    total(instance, func, "pear", "stone");

    /* A value of another type is an error, and the instance stays as it was. */
    pirn_component_value_t wrong = text("pear");
    pirn_error_t *error = pirn_component_instance_call(instance, func, 0, &wrong, 1, NULL);
    printf("%s\n", pirn_error_message(error));
    pirn_error_delete(error);
    pirn_component_instance_delete(instance);
    pirn_component_func_delete(func);
    pirn_component_prepared_delete(prepared);
}

static void command(const char *path) {
    pirn_component_linker_t *linker = pirn_component_linker_new();
    check(pirn_component_linker_wasi(linker));
    pirn_component_prepared_t *prepared = prepare(path, linker);
    pirn_wasi2_t *wasi = pirn_wasi2_new();
    check(pirn_wasi2_arg(wasi, "hello"));
    check(pirn_wasi2_inherit_stdio(wasi));
    pirn_component_instance_t *instance;
    check(pirn_component_instance_new(prepared, NULL, wasi, 0, &instance));
    fflush(stdout); /* The guest writes without a buffer. */
    uint32_t code;
    check(pirn_component_instance_run(instance, 0, &code));
    printf("exit code: %" PRIu32 "\n", code);
    pirn_component_instance_delete(instance);
    pirn_component_prepared_delete(prepared);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: component SHOP.so COMMAND.so\n");
        return 2;
    }
    shop(argv[1]);
    command(argv[2]);
    return 0;
}
