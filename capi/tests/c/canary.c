/* Faults that AddressSanitizer and valgrind must find: without them, a clean run says nothing. */

#include <pirn.h>
#include <stdio.h>
#include <string.h>

static pirn_error_t *never(void *env, pirn_component_caller_t *caller,
                           const pirn_component_value_t *args, size_t args_count) {
    (void)env;
    (void)caller;
    (void)args;
    (void)args_count;
    return NULL;
}

/* Reads a value of a component after its owner was deleted. */
static int read_freed_value(const char *path) {
    pirn_region_t *region;
    pirn_module_t *module;
    pirn_component_t *component;
    pirn_component_prepared_t *prepared;
    pirn_component_linker_t *linker = pirn_component_linker_new();
    const pirn_region_option_t options[] = {{PIRN_REGION_SLOTS, 1}, {PIRN_REGION_MEMORIES, 4}};
    if (pirn_region_new(options, 2, &region) != NULL || pirn_module_open(path, &module) != NULL ||
        pirn_component_new(module, &component) != NULL) {
        return 2;
    }
    /* The functions of the host are never called. */
    static const char *const names[] = {"shout", "open", "size"};
    for (size_t at = 0; at < 3; at++) {
        pirn_component_linker_func(linker, "test:host/api@1.2.0", names[at], never, NULL, NULL);
    }
    pirn_component_linker_resource(linker, "test:host/api@1.2.0", "file", NULL, NULL, NULL);
    pirn_component_instance_t *instance;
    pirn_component_owned_t *owned;
    pirn_component_value_t text = {PIRN_COMPONENT_STRING, {.string = {"text", 4}}};
    if (pirn_region_prepare_component(region, component, linker, &prepared) != NULL ||
        pirn_component_instance_new(prepared, NULL, NULL, 0, &instance) != NULL ||
        pirn_component_instance_call_name(instance, "string", 0, &text, 1, &owned) != NULL) {
        return 2;
    }
    const char *data = pirn_component_owned_value(owned)->of.string.data;
    pirn_component_owned_delete(owned);
    printf("%c\n", data[0]);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3) {
        return read_freed_value(argv[2]);
    }
    if (argc != 2) {
        return 2;
    }
    const int both = strcmp(argv[1], "both") == 0;
    if (both || strcmp(argv[1], "leak") == 0) {
        /* Nothing frees these errors. An old pointer on the stack may lead to the last of them. */
        for (int n = 0; n < 100; n++) {
            if (pirn_error_kind(pirn_error_new("a leak", 0)) != PIRN_ERROR_HOST) {
                return 2;
            }
        }
        if (!both) {
            return 0;
        }
    }
    pirn_error_t *error = pirn_error_new("freed too early", 0);
    const char *message = pirn_error_message(error);
    pirn_error_delete(error);
    printf("%c\n", message[0]);
    return 0;
}
