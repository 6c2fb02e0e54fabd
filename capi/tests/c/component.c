/* Components: values of every kind, resources, host functions, and misuse that the header says is
 * an error. Prints nothing and returns 0 if all is as it must be.
 *
 * component COMPONENT.so MODULE.so COMMAND.so
 */

#include "expect.h"
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(kind, text, error) expect_at(__LINE__, kind, text, error)

typedef pirn_component_value_t value_t;

static pirn_component_prepared_t *prepared;
static pirn_component_instance_t *instance;
static pirn_component_caller_t *kept;
static uint32_t dropped;
static int freed;

static void count_free(void *env) {
    (void)env;
    freed++;
}

static value_t string_of(const char *text) {
    return (value_t){PIRN_COMPONENT_STRING, {.string = {text, strlen(text)}}};
}

static value_t u32_of(uint32_t number) {
    return (value_t){PIRN_COMPONENT_U32, {.u32 = number}};
}

/* A new instance, in place of one that a call has ended. */
static void renew(void) {
    pirn_component_instance_delete(instance);
    OK(pirn_component_instance_new(prepared, &dropped, NULL, 0, &instance));
}

static pirn_error_t *call(const char *name, const value_t *args, size_t count) {
    pirn_component_owned_t *result = NULL;
    pirn_error_t *error =
        pirn_component_instance_call_name(instance, name, 0, args, count, &result);
    pirn_component_owned_delete(result);
    return error;
}

/* The number that a call returns. */
static uint32_t number(const char *name, const value_t *args, size_t count) {
    pirn_component_owned_t *result = NULL;
    OK(pirn_component_instance_call_name(instance, name, 0, args, count, &result));
    const value_t *value = pirn_component_owned_value(result);
    THAT(value != NULL && value->kind == PIRN_COMPONENT_U32);
    uint32_t found = value == NULL ? 0 : value->of.u32;
    pirn_component_owned_delete(result);
    return found;
}

static int same_text(const char *one, const char *other) { return strcmp(one, other) == 0; }

static int same(const value_t *one, const value_t *other);

static int same_payload(const value_t *one, const value_t *other) {
    return (one == NULL) == (other == NULL) && (one == NULL || same(one, other));
}

/* Whether two values are the same. */
static int same(const value_t *one, const value_t *other) {
    if (one->kind != other->kind) {
        return 0;
    }
    switch (one->kind) {
    case PIRN_COMPONENT_BOOL:
    case PIRN_COMPONENT_S8:
    case PIRN_COMPONENT_U8:
        return one->of.u8 == other->of.u8;
    case PIRN_COMPONENT_S16:
    case PIRN_COMPONENT_U16:
        return one->of.u16 == other->of.u16;
    case PIRN_COMPONENT_S32:
    case PIRN_COMPONENT_U32:
    case PIRN_COMPONENT_F32:
    case PIRN_COMPONENT_CHAR:
        return one->of.u32 == other->of.u32;
    case PIRN_COMPONENT_S64:
    case PIRN_COMPONENT_U64:
    case PIRN_COMPONENT_F64:
        return one->of.u64 == other->of.u64;
    case PIRN_COMPONENT_STRING:
        return one->of.string.len == other->of.string.len &&
               (one->of.string.len == 0 ||
                memcmp(one->of.string.data, other->of.string.data, one->of.string.len) == 0);
    case PIRN_COMPONENT_LIST:
    case PIRN_COMPONENT_TUPLE:
        for (size_t at = 0; at < one->of.list.count; at++) {
            if (!same(&one->of.list.values[at], &other->of.list.values[at])) {
                return 0;
            }
        }
        return one->of.list.count == other->of.list.count;
    case PIRN_COMPONENT_RECORD:
        for (size_t at = 0; at < one->of.record.count; at++) {
            const pirn_component_field_t *left = &one->of.record.fields[at];
            const pirn_component_field_t *right = &other->of.record.fields[at];
            if (!same_text(left->name, right->name) || !same(&left->value, &right->value)) {
                return 0;
            }
        }
        return one->of.record.count == other->of.record.count;
    case PIRN_COMPONENT_VARIANT:
        return same_text(one->of.variant.name, other->of.variant.name) &&
               same_payload(one->of.variant.payload, other->of.variant.payload);
    case PIRN_COMPONENT_ENUM:
        return same_text(one->of.enumeration, other->of.enumeration);
    case PIRN_COMPONENT_OPTION:
        return same_payload(one->of.option, other->of.option);
    case PIRN_COMPONENT_RESULT:
        return !one->of.result.is_error == !other->of.result.is_error &&
               same_payload(one->of.result.payload, other->of.result.payload);
    case PIRN_COMPONENT_FLAGS:
        for (size_t at = 0; at < one->of.flags.count; at++) {
            if (!same_text(one->of.flags.names[at], other->of.flags.names[at])) {
                return 0;
            }
        }
        return one->of.flags.count == other->of.flags.count;
    default:
        return 0;
    }
}

static void echoes_at(int line, const char *name, value_t value) {
    pirn_component_owned_t *result = NULL;
    pirn_error_t *error =
        pirn_component_instance_call_name(instance, name, 0, &value, 1, &result);
    const value_t *found = pirn_component_owned_value(result);
    if (error != NULL || found == NULL || !same(&value, found)) {
        fprintf(stderr, "line %d: %s: %s\n", line, name, pirn_error_message(error));
        failures++;
    }
    pirn_component_owned_delete(result);
    pirn_error_delete(error);
}

#define ECHOES(name, kind, ...) \
    echoes_at(__LINE__, name, (value_t){PIRN_COMPONENT_##kind, {__VA_ARGS__}})

static void values_of_every_kind(void) {
    ECHOES("bool", BOOL, .boolean = 1);
    ECHOES("bool", BOOL, .boolean = 0);
    ECHOES("s8", S8, .s8 = INT8_MIN);
    ECHOES("u8", U8, .u8 = UINT8_MAX);
    ECHOES("s16", S16, .s16 = INT16_MIN);
    ECHOES("u16", U16, .u16 = UINT16_MAX);
    ECHOES("s32", S32, .s32 = INT32_MIN);
    ECHOES("u32", U32, .u32 = UINT32_MAX);
    ECHOES("s64", S64, .s64 = INT64_MIN);
    ECHOES("u64", U64, .u64 = UINT64_MAX);
    ECHOES("f32", F32, .f32 = -0.5F);
    ECHOES("f64", F64, .f64 = 1e300);
    ECHOES("char", CHAR, .character = 0x10ffff);
    ECHOES("string", STRING, .string = {"gr\xc3\xbcn \0 end", 11});
    ECHOES("string", STRING, .string = {NULL, 0});
    value_t texts[] = {string_of("one"), string_of(""), string_of("three")};
    ECHOES("list", LIST, .list = {texts, 3});
    ECHOES("list", LIST, .list = {NULL, 0});
    ECHOES("option", OPTION, .option = texts);
    ECHOES("option", OPTION, .option = NULL);
    value_t ok = u32_of(9), bad = {PIRN_COMPONENT_S32, {.s32 = -9}};
    ECHOES("result", RESULT, .result = {0, &ok});
    ECHOES("result", RESULT, .result = {1, &bad});
    value_t pair[] = {u32_of(1), u32_of(2)};
    ECHOES("tuple", TUPLE, .list = {pair, 2});
    pirn_component_field_t fields[] = {{"x", u32_of(3)}, {"y", u32_of(4)}};
    ECHOES("record", RECORD, .record = {fields, 2});
    ECHOES("variant", VARIANT, .variant = {"empty", NULL});
    ECHOES("variant", VARIANT, .variant = {"side", &ok});
    ECHOES("enum", ENUM, .enumeration = "green");
    const char *names[] = {"read", "execute"};
    ECHOES("flags", FLAGS, .flags = {names, 2});
    ECHOES("flags", FLAGS, .flags = {NULL, 0});
}

static void refused_at(int line, const char *name, const char *text, value_t value) {
    expect_at(line, PIRN_ERROR_ARGUMENT, text, call(name, &value, 1));
}

#define REFUSED(name, text, kind, ...) \
    refused_at(__LINE__, name, text, (value_t){PIRN_COMPONENT_##kind, {__VA_ARGS__}})

/* Values that are refused. The instance stays as it was. */
static void wrong_values(void) {
    value_t one = u32_of(1), text = string_of("text");
    REFUSED("u32", "v is s32, its type is u32", S32, .s32 = 1);
    REFUSED("u32", "v is string", STRING, .string = text.of.string);
    value_t unknown = {PIRN_COMPONENT_BORROW + 1, {.u64 = 0}};
    EXPECT(PIRN_ERROR_ARGUMENT, "value kind is 23", call("u32", &unknown, 1));
    unknown.kind = UINT32_MAX;
    EXPECT(PIRN_ERROR_ARGUMENT, "value kind is 4294967295", call("u32", &unknown, 1));
    value_t two[] = {one, one};
    EXPECT(PIRN_ERROR_ARGUMENT, "takes 1 parameters, not 2", call("u32", two, 2));
    EXPECT(PIRN_ERROR_ARGUMENT, "takes 1 parameters, not 0", call("u32", NULL, 0));
    EXPECT(PIRN_ERROR_ARGUMENT, "`args` is NULL", call("u32", NULL, 1));
    EXPECT(PIRN_ERROR_ARGUMENT, "which no address space holds", call("u32", two, SIZE_MAX));

    REFUSED("char", "0xd800", CHAR, .character = 0xd800);
    REFUSED("char", "0x110000", CHAR, .character = 0x110000);
    REFUSED("string", "`string.data` is NULL", STRING, .string = {NULL, 1});
    REFUSED("string", "which no address space holds", STRING, .string = {"x", SIZE_MAX});
    REFUSED("string", "UTF-8 only for its first 1 bytes of 2", STRING, .string = {"a\xff", 2});
    REFUSED("list", "`list.values` is NULL", LIST, .list = {NULL, 1});
    REFUSED("list", "more than 4194304 values", LIST, .list = {&text, SIZE_MAX / 64});
    REFUSED("list", "is u32, its type is string", LIST, .list = {&one, 1});
    value_t circle = {PIRN_COMPONENT_LIST, {.list = {NULL, 1}}};
    circle.of.list.values = &circle;
    EXPECT(PIRN_ERROR_ARGUMENT, "more than 100 levels", call("list", &circle, 1));
    value_t self = {PIRN_COMPONENT_OPTION, {.option = NULL}};
    self.of.option = &self;
    EXPECT(PIRN_ERROR_ARGUMENT, "more than 100 levels", call("option", &self, 1));
    /* All lists count together: the second one here would fit alone. */
    value_t lists[] = {{PIRN_COMPONENT_LIST, {.list = {&text, 1}}},
                       {PIRN_COMPONENT_LIST, {.list = {&text, 4194304 - 3}}}};
    value_t both = {PIRN_COMPONENT_LIST, {.list = {lists, 2}}};
    EXPECT(PIRN_ERROR_ARGUMENT, "more than 4194304 values", call("list", &both, 1));
    value_t odd = {PIRN_COMPONENT_OPTION, {.option = (const value_t *)((uintptr_t)&one + 1)}};
    EXPECT(PIRN_ERROR_ARGUMENT, "which is no multiple of 8", call("option", &odd, 1));

    REFUSED("option", "v is u32, its type is string", OPTION, .option = &one);
    REFUSED("result", "v is result", RESULT, .result = {0, NULL});
    REFUSED("result", "v is u32", RESULT, .result = {1, &one});
    REFUSED("tuple", "v is tuple", TUPLE, .list = {two, 1});
    REFUSED("record", "`record.fields` is NULL", RECORD, .record = {NULL, 2});
    pirn_component_field_t fields[] = {{"x", one}, {"z", one}};
    REFUSED("record", "v is record", RECORD, .record = {fields, 1});
    REFUSED("record", "v is a field \"z\"", RECORD, .record = {fields, 2});
    fields[1].name = NULL;
    REFUSED("record", "`field.name` is NULL", RECORD, .record = {fields, 2});
    REFUSED("variant", "`variant.name` is NULL", VARIANT, .variant = {NULL, NULL});
    REFUSED("variant", "v is variant", VARIANT, .variant = {"round", NULL});
    REFUSED("variant", "v is variant", VARIANT, .variant = {"empty", &one});
    REFUSED("variant", "v is variant", VARIANT, .variant = {"side", NULL});
    REFUSED("enum", "`enumeration` is NULL", ENUM, .enumeration = NULL);
    REFUSED("enum", "v is enum", ENUM, .enumeration = "blue");
    const char *names[] = {"read", "fly", NULL};
    REFUSED("flags", "v is a flag \"fly\"", FLAGS, .flags = {names, 2});
    REFUSED("flags", "`flags.names` is NULL", FLAGS, .flags = {names, 3});
    REFUSED("flags", "`flags.names` is NULL", FLAGS, .flags = {NULL, 1});
    REFUSED("weigh", "a resource of another type", BORROW, .resource = {1, 0, 0});
    REFUSED("weigh", "a resource of another type", BORROW, .resource = {1, 7, UINT64_MAX});
    REFUSED("take", "a resource of another type", OWN, .resource = {1, 1, 1});
    REFUSED("take", "v is borrow", BORROW, .resource = {1, 0, 0});
    THAT(number("u32", &one, 1) == 1);
}

static pirn_error_t *shout(void *env, pirn_component_caller_t *caller, const value_t *args,
                           size_t args_count) {
    THAT(args_count == 1 && args[0].kind == PIRN_COMPONENT_STRING && env == &freed);
    THAT(pirn_component_caller_data(caller) == &dropped);
    const char *said = args[0].of.string.data;
    kept = caller;
    value_t answer = u32_of(1);
    if (same_text(said, "nothing")) {
        return NULL;
    }
    if (same_text(said, "error")) {
        return pirn_error_new("the host refuses", 42);
    }
    if (same_text(said, "trap")) {
        return pirn_error_trap(PIRN_TRAP_UNREACHABLE);
    }
    if (same_text(said, "busy")) {
        EXPECT(PIRN_ERROR_BUSY, "in use", call("nothing", NULL, 0));
        EXPECT(PIRN_ERROR_ARGUMENT, "`value` is NULL", pirn_component_caller_return(caller, NULL));
        EXPECT(PIRN_ERROR_ARGUMENT, "`caller` is NULL",
               pirn_component_caller_return(NULL, &answer));
        answer.kind = 99;
        EXPECT(PIRN_ERROR_ARGUMENT, "value kind is 99",
               pirn_component_caller_return(caller, &answer));
    }
    if (same_text(said, "delete")) {
        /* It ends when the call has returned. */
        pirn_component_instance_delete(instance);
    }
    if (!same_text(said, "type")) {
        answer = string_of("LOUD");
    }
    return pirn_component_caller_return(caller, &answer);
}

static pirn_error_t *open_file(void *env, pirn_component_caller_t *caller, const value_t *args,
                               size_t args_count) {
    (void)env;
    (void)args;
    THAT(args_count == 0);
    value_t file = {PIRN_COMPONENT_OWN, {.resource = {41, 0, 0}}};
    return pirn_component_caller_return(caller, &file);
}

static pirn_error_t *size_of(void *env, pirn_component_caller_t *caller, const value_t *args,
                             size_t args_count) {
    (void)env;
    THAT(args_count == 1 && args[0].kind == PIRN_COMPONENT_BORROW);
    value_t size = u32_of(args[0].of.resource.rep + 1);
    return pirn_component_caller_return(caller, &size);
}

static pirn_error_t *drop_file(void *env, pirn_component_caller_t *caller, uint32_t rep) {
    (void)env;
    uint32_t *last = pirn_component_caller_data(caller);
    *last = rep;
    return rep == 13 ? pirn_error_new("no end", 13) : NULL;
}

static void *return_late(void *caller) {
    value_t value = u32_of(1);
    THAT(pirn_component_caller_data(caller) == NULL);
    EXPECT(PIRN_ERROR_BUSY, "outside its host function",
           pirn_component_caller_return(caller, &value));
    return NULL;
}

static void host_functions(void) {
    value_t said = string_of("quiet");
    pirn_component_owned_t *result = NULL;
    OK(pirn_component_instance_call_name(instance, "shout", 0, &said, 1, &result));
    const value_t *answer = pirn_component_owned_value(result);
    THAT(answer != NULL && same_text(answer->of.string.data, "LOUD"));
    pirn_component_owned_delete(result);
    return_late(kept);
    pthread_t thread;
    THAT(pthread_create(&thread, NULL, return_late, kept) == 0);
    pthread_join(thread, NULL);
    said = string_of("busy");
    OK(call("shout", &said, 1));
    static const struct {
        const char *said;
        pirn_error_kind_t kind;
        const char *text;
    } ends[] = {
        {"nothing", PIRN_ERROR_HOST, "no result"},
        {"type", PIRN_ERROR_HOST, "is u32, its type is string"},
        {"error", PIRN_ERROR_HOST, "the host refuses"},
        {"trap", PIRN_ERROR_TRAP, "unreachable"},
    };
    for (size_t at = 0; at < sizeof ends / sizeof *ends; at++) {
        said = string_of(ends[at].said);
        EXPECT(ends[at].kind, ends[at].text, call("shout", &said, 1));
        EXPECT(PIRN_ERROR_STATE, "earlier call", call("shout", &said, 1));
        renew();
    }
    said = string_of("delete");
    OK(call("shout", &said, 1));
    instance = NULL;
    renew();
}

static void resources(void) {
    THAT(number("open-size-drop", NULL, 0) == 42 && dropped == 41);
    value_t file = {PIRN_COMPONENT_OWN, {.resource = {6, 0, 0}}};
    THAT(number("take", &file, 1) == 7 && dropped == 6);
    file.kind = PIRN_COMPONENT_BORROW;
    THAT(number("lend", &file, 1) == 7 && dropped == 6);
    file = (value_t){PIRN_COMPONENT_OWN, {.resource = {13, 0, 0}}};
    EXPECT(PIRN_ERROR_HOST, "no end", call("take", &file, 1));
    renew();

    /* One of the component's. */
    value_t weight = u32_of(70);
    pirn_component_owned_t *result = NULL;
    OK(pirn_component_instance_call_name(instance, "make", 0, &weight, 1, &result));
    value_t thing = *pirn_component_owned_value(result);
    pirn_component_owned_delete(result);
    THAT(thing.kind == PIRN_COMPONENT_OWN);
    thing.kind = PIRN_COMPONENT_BORROW;
    THAT(number("weigh", &thing, 1) == 70);
    pirn_component_instance_t *other;
    OK(pirn_component_instance_new(prepared, NULL, NULL, 0, &other));
    EXPECT(PIRN_ERROR_ARGUMENT, "another type or instance",
           pirn_component_instance_call_name(other, "weigh", 0, &thing, 1, NULL));
    OK(pirn_component_instance_drop_resource(other, 0, thing.of.resource));
    pirn_component_instance_delete(other);
    THAT(number("ended", NULL, 0) == 0);
    OK(pirn_component_instance_drop_resource(instance, 0, thing.of.resource));
    OK(pirn_component_instance_drop_resource(instance, 0, thing.of.resource));
    THAT(number("ended", NULL, 0) == 70);
    EXPECT(PIRN_ERROR_ARGUMENT, "the host does not own", call("weigh", &thing, 1));
}

static void *kill_it(void *kill_switch) {
    while (!pirn_kill_switch_is_running(kill_switch)) {
        sched_yield();
    }
    OK(pirn_kill_switch_kill(kill_switch, NULL));
    return NULL;
}

/* Calls that end the instance, and handles that are NULL. */
static void ends(void) {
    pirn_error_t *error = call("trap", NULL, 0);
    THAT(pirn_error_trap_code(error) == PIRN_TRAP_UNREACHABLE && pirn_error_frame_count(error) > 0);
    EXPECT(PIRN_ERROR_TRAP, "unreachable", error);
    EXPECT(PIRN_ERROR_STATE, "make a new instance", call("nothing", NULL, 0));
    renew();
    EXPECT(PIRN_ERROR_ABI, "0xd800 is no Unicode scalar value", call("surrogate", NULL, 0));
    renew();
    /* Longer than the memory of the guest. */
    static char text[1 << 20];
    memset(text, 'x', sizeof text);
    value_t longer = {PIRN_COMPONENT_STRING, {.string = {text, sizeof text}}};
    EXPECT(PIRN_ERROR_ABI, "exceeds the memory of 131072 bytes", call("string", &longer, 1));
    renew();
    EXPECT(PIRN_ERROR_DEADLINE, "",
           pirn_component_instance_call_name(instance, "spin", 2000000, NULL, 0, NULL));
    renew();
    pirn_kill_switch_t *kill_switch;
    OK(pirn_component_instance_kill_switch(instance, &kill_switch));
    pthread_t thread;
    THAT(pthread_create(&thread, NULL, kill_it, kill_switch) == 0);
    EXPECT(PIRN_ERROR_KILLED, "", call("spin", NULL, 0));
    pthread_join(thread, NULL);
    pirn_kill_switch_delete(kill_switch);
    renew();

    EXPECT(PIRN_ERROR_LINK, "exports no function \"none\"", call("none", NULL, 0));
    EXPECT(PIRN_ERROR_ARGUMENT, "`name` is NULL", call(NULL, NULL, 0));
    EXPECT(PIRN_ERROR_ARGUMENT, "UTF-8", call("\xff", NULL, 0));
    uint32_t code = 77;
    uint64_t fuel;
    EXPECT(PIRN_ERROR_LINK, "run", pirn_component_instance_run(instance, 0, &code));
    EXPECT(PIRN_ERROR_ARGUMENT, "`code` is NULL", pirn_component_instance_run(instance, 0, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "`instance` is NULL", pirn_component_instance_run(NULL, 0, &code));
    THAT(code == 77);
    EXPECT(PIRN_ERROR_ARGUMENT, "--fuel", pirn_component_instance_fuel(instance, &fuel));
    THAT(pirn_component_instance_data(instance) == &dropped);
    THAT(pirn_component_instance_data(NULL) == NULL && pirn_component_owned_value(NULL) == NULL);
    pirn_component_owned_t *result = (pirn_component_owned_t *)&code;
    OK(pirn_component_instance_call_name(instance, "nothing", 0, NULL, 0, &result));
    THAT(result == NULL);
}

/* Functions that were looked up, and those of another preparation. */
static void functions(const pirn_region_t *region, const pirn_component_t *component,
                      const pirn_component_linker_t *linker) {
    pirn_component_func_t *func, *foreign;
    OK(pirn_component_prepared_func(prepared, "tuple", &func));
    THAT(strstr(pirn_component_func_type(func), "tuple<u32, u32>") != NULL);
    THAT(same_text(pirn_component_func_type(NULL), ""));
    pirn_component_prepared_t *other, *changed;
    OK(pirn_region_prepare_component(region, component, linker, &other));
    OK(pirn_component_prepared_func(other, "nothing", &foreign));
    OK(pirn_component_prepared_start_deadline(other, UINT64_MAX, &changed));
    pirn_component_prepared_delete(changed);
    EXPECT(PIRN_ERROR_ARGUMENT, "--fuel", pirn_component_prepared_start_fuel(other, 1, &changed));
    pirn_component_prepared_delete(other);
    EXPECT(PIRN_ERROR_ARGUMENT, "another preparation",
           pirn_component_instance_call(instance, foreign, 0, NULL, 0, NULL));
    EXPECT(PIRN_ERROR_ARGUMENT, "`func` is NULL",
           pirn_component_instance_call(instance, NULL, 0, NULL, 0, NULL));
    EXPECT(PIRN_ERROR_LINK, "exports no function",
           pirn_component_prepared_func(prepared, "none", &func));
    pirn_component_func_delete(foreign);
    pirn_component_func_delete(func);
    THAT(pirn_component_prepared_clone(NULL) == NULL);
    other = pirn_component_prepared_clone(prepared);
    THAT(other != NULL);
    pirn_component_prepared_delete(other);
    pirn_component_extern_t item;
    THAT(pirn_component_import(component, 0, &item) == 1);
    THAT(strstr(item.name, "test:host/api@1.2.0#") == item.name);
    THAT(pirn_component_export(component, 0, &item) == 1 && same_text(item.name, "bool"));
    THAT(same_text(item.type_text, "func(v: bool) -> bool"));
    THAT(pirn_component_export(component, 1000, &item) == 0);
    THAT(pirn_component_export(NULL, 0, &item) == 0);
    THAT(pirn_component_import(component, 0, NULL) == 0);
}

static pirn_component_linker_t *linker_of(void) {
    const char *api = "test:host/api@1.2.7";
    pirn_component_linker_t *linker = pirn_component_linker_new();
    OK(pirn_component_linker_func(linker, api, "shout", shout, &freed, count_free));
    OK(pirn_component_linker_func(linker, api, "open", open_file, NULL, NULL));
    OK(pirn_component_linker_func(linker, api, "size", size_of, NULL, NULL));
    EXPECT(PIRN_ERROR_LINK, "already defined",
           pirn_component_linker_func(linker, api, "shout", shout, &freed, count_free));
    THAT(freed == 1);
    EXPECT(PIRN_ERROR_ARGUMENT, "`func` is NULL",
           pirn_component_linker_func(linker, api, "none", NULL, &freed, count_free));
    EXPECT(PIRN_ERROR_ARGUMENT, "`interface` is NULL",
           pirn_component_linker_func(linker, NULL, "none", shout, &freed, count_free));
    THAT(freed == 3);
    return linker;
}

static void command(const char *path) {
    pirn_region_option_t options[] = {{PIRN_REGION_SLOTS, 2}, {PIRN_REGION_MEMORIES, 4}};
    pirn_region_t *region;
    pirn_module_t *module;
    pirn_component_t *component;
    pirn_component_linker_t *linker = pirn_component_linker_new();
    OK(pirn_region_new(options, 2, &region));
    OK(pirn_module_open(path, &module));
    OK(pirn_component_new(module, &component));
    pirn_component_prepared_t *made = NULL;
    EXPECT(PIRN_ERROR_LINK, "wasi:",
           pirn_region_prepare_component(region, component, linker, &made));
    THAT(made == NULL);
    OK(pirn_component_linker_wasi(linker));
    EXPECT(PIRN_ERROR_LINK, "already defined", pirn_component_linker_wasi(linker));
    OK(pirn_region_prepare_component(region, component, linker, &made));
    pirn_component_linker_delete(linker);
    pirn_component_delete(component);
    pirn_module_delete(module);
    pirn_region_delete(region);

    pirn_wasi2_t *wasi = pirn_wasi2_new();
    pirn_capture_t *capture, *none = NULL;
    OK(pirn_wasi2_arg(wasi, "hello"));
    OK(pirn_wasi2_env(wasi, "NAME", "value"));
    OK(pirn_wasi2_stdin_bytes(wasi, (const uint8_t *)"input", 5));
    OK(pirn_wasi2_descriptors_max(wasi, 8));
    OK(pirn_wasi2_disk_bytes_max(wasi, 1 << 20));
    OK(pirn_wasi2_capture(wasi, PIRN_STDOUT, 1 << 16, &capture));
    pirn_component_instance_t *first;
    OK(pirn_component_instance_new(made, NULL, wasi, 0, &first));
    uint32_t code = 77;
    OK(pirn_component_instance_run(first, 0, &code));
    THAT(code == 0);
    pirn_bytes_t *bytes;
    OK(pirn_capture_bytes(capture, &bytes));
    THAT(strstr((const char *)pirn_bytes_data(bytes), "hello") != NULL);
    pirn_bytes_delete(bytes);
    pirn_capture_delete(capture);
    pirn_component_instance_delete(first);

    /* Contexts that were spent by an error, and without any. */
    wasi = pirn_wasi2_new();
    EXPECT(PIRN_ERROR_ARGUMENT, "stream is 0", pirn_wasi2_capture(wasi, PIRN_STDIN, 1, &none));
    EXPECT(PIRN_ERROR_POISONED, "WASI context", pirn_wasi2_arg(wasi, "late"));
    EXPECT(PIRN_ERROR_POISONED, "WASI context",
           pirn_component_instance_new(made, NULL, wasi, 0, &first));
    wasi = pirn_wasi2_new();
    EXPECT(PIRN_ERROR_SYSTEM, "/missing", pirn_wasi2_preopen_dir(wasi, "/missing", "/", 0));
    pirn_wasi2_delete(wasi);
    wasi = pirn_wasi2_new();
    EXPECT(PIRN_ERROR_ARGUMENT, "`files` is NULL", pirn_wasi2_memory_dir(wasi, NULL, "/", 1));
    pirn_wasi2_delete(wasi);
    EXPECT(PIRN_ERROR_ARGUMENT, "`wasi` is NULL", pirn_wasi2_inherit_stdio(NULL));
    THAT(none == NULL);
    pirn_component_instance_t *second;
    OK(pirn_component_instance_new(made, NULL, NULL, 0, &first));
    OK(pirn_component_instance_new(made, NULL, NULL, 0, &second));
    EXPECT(PIRN_ERROR_FULL, "slots", pirn_component_instance_new(made, NULL, NULL, 0, &second));
    EXPECT(PIRN_ERROR_FULL, "slots", pirn_component_instance_new(made, NULL, NULL, 1, &second));
    OK(pirn_component_instance_run(first, 0, &code));
    pirn_component_instance_delete(first);
    pirn_component_prepared_delete(made);
    OK(pirn_component_instance_run(second, 0, &code));
    pirn_component_instance_delete(second);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        return 2;
    }
    pirn_region_option_t options[] = {{PIRN_REGION_SLOTS, 2}, {PIRN_REGION_MEMORIES, 4}};
    pirn_region_t *region;
    pirn_module_t *module, *core;
    pirn_component_t *component = NULL;
    OK(pirn_region_new(options, 2, &region));
    OK(pirn_module_open(argv[1], &module));
    OK(pirn_module_open(argv[2], &core));
    EXPECT(PIRN_ERROR_LINK, "is no component", pirn_component_new(core, &component));
    EXPECT(PIRN_ERROR_ARGUMENT, "`module` is NULL", pirn_component_new(NULL, &component));
    EXPECT(PIRN_ERROR_ARGUMENT, "`component` is NULL", pirn_component_new(module, NULL));
    THAT(component == NULL);
    OK(pirn_component_new(module, &component));
    pirn_component_linker_t *linker = linker_of();
    EXPECT(PIRN_ERROR_LINK, "resource type test:host/api@1.2.0#file",
           pirn_region_prepare_component(region, component, linker, &prepared));
    OK(pirn_component_linker_resource(linker, "test:host/api@1.2.0", "file", drop_file, &freed,
                                      count_free));
    OK(pirn_component_linker_host_bytes_max(linker, 1 << 20));
    OK(pirn_region_prepare_component(region, component, linker, &prepared));
    OK(pirn_component_instance_new(prepared, &dropped, NULL, 0, &instance));

    values_of_every_kind();
    wrong_values();
    host_functions();
    resources();
    ends();
    functions(region, component, linker);
    command(argv[3]);

    pirn_component_linker_delete(linker);
    pirn_component_delete(component);
    pirn_module_delete(module);
    pirn_module_delete(core);
    THAT(freed == 3);
    pirn_component_prepared_delete(prepared);
    THAT(freed == 3);
    pirn_component_instance_delete(instance);
    THAT(freed == 5);
    pirn_region_delete(region);
    pirn_component_delete(NULL);
    pirn_component_linker_delete(NULL);
    pirn_component_prepared_delete(NULL);
    pirn_component_instance_delete(NULL);
    pirn_component_func_delete(NULL);
    pirn_component_owned_delete(NULL);
    pirn_wasi2_delete(NULL);
    return failures != 0;
}
