/*
 * pirn: runs WebAssembly modules that `aotc` compiled, each instance in a sandbox of its own.
 *
 * cbindgen generates this file from the sources in capi/src. docs/guide/c-api.md is the guide.
 *
 * ERRORS. A function that can fail returns `pirn_error_t *`: NULL, or an error that the caller owns
 * and frees with pirn_error_delete. Results that are written through a pointer are written only on
 * success. Other functions say what they return for an invalid argument. A NULL handle, a NULL
 * result, an unknown number of a kind or an option, and a text that is not UTF-8 are errors of kind
 * PIRN_ERROR_ARGUMENT. A list whose count is 0 may be NULL. A defect of the library (a Rust panic)
 * is an error of kind PIRN_ERROR_PANIC: delete the handle after it. If the state of the handle
 * cannot be trusted, every other function returns PIRN_ERROR_POISONED.
 *
 * OWNERS. The caller of a function that makes a handle (`*_new`, `*_open`, `*_clone`, and functions
 * that write a handle through a pointer) owns the handle and ends it with the `*_delete` of its
 * type, once. Every `*_delete` accepts NULL. A handle that a function "takes over" is freed by that
 * call, even if the function fails. Handles keep what they need: they may be deleted in any order.
 * The handle of an instance of a group is an exception: it does not keep the group.
 *
 * WORDS. "By words" means numbers in an array of 64-bit words, "by values" a list of pirn_val_t.
 *
 * TEXTS. Parameters are C strings: UTF-8 with a zero byte at the end, and copied if they are kept.
 * Paths of the host may have any encoding. Names of a guest with a zero byte inside cannot be
 * passed. Texts that the library returns are UTF-8 C strings, owned by a handle and valid as long
 * as that handle.
 *
 * GROUPS. pirn_group_member makes a pirn_instance_t of an instance of a group. The instances of a
 * group share one state: while a function uses the group or one of its instances, others return
 * PIRN_ERROR_BUSY. The instances end with pirn_group_delete. A handle that is left then can only be
 * deleted: its functions return PIRN_ERROR_STATE.
 *
 * COMPONENTS. The functions whose names begin with pirn_component and pirn_wasi2 are for components
 * and WASI 0.2, the others for core modules. A value that the embedder passes is copied, with all
 * that it points to. A value of the library ends with its pirn_component_owned_t, or with the host
 * function that got it.
 *
 * THREADS. Modules, regions, components, preparations, functions, files, kill switches, captures,
 * bytes, shared memories, values of the library and errors are immutable or synchronised: any
 * threads may use one handle at the same time. Linkers and WASI contexts belong to one thread at a
 * time. An instance or a group, too; it may move to another thread between calls, also while a call
 * of it is suspended. If two functions use one at the same time, the second one returns
 * PIRN_ERROR_BUSY. No function may use a handle while another thread deletes it: to end a running
 * instance from another thread, use a kill switch, and delete the instance when its call has
 * returned.
 *
 * CALLBACKS. Functions of the embedder run on the stack of the thread that called the guest. They
 * may call any function of this library, but for the running instance or group only those that
 * take their `pirn_caller_t`. They may delete any handle but the preparation of an instance that is
 * being made. An instance or a group that is deleted while it runs ends when its call has returned.
 * They must return: no longjmp, no pthread_exit, no exception.
 *
 * SIGNALS. The first region installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGURG, and
 * each thread that calls a guest gets an alternate signal stack. Signals that belong to no guest go
 * to the handlers that were installed before. A handler that is installed later must forward what
 * it does not know, and run on the alternate stack.
 *
 * FORKS. In a child of fork(2), calls of the parent's instances may fail with PIRN_ERROR_ARGUMENT.
 * Make a new region and new instances there.
 *
 * NOT THERE YET: wasi:http and the network of components, threads that guests start (wasi-threads),
 * async host functions, measured use, WASI with a virtual clock, signatures and the verifier.
 */

#ifndef PIRN_H
#define PIRN_H

#include <stddef.h>
#include <stdint.h>

typedef struct pirn_component_field_t pirn_component_field_t;
typedef struct pirn_component_value_t pirn_component_value_t;

/**
 * The version of this interface. A version changes when a program that was compiled with the
 * earlier header would misbehave with the new library.
 */
#define PIRN_ABI_VERSION 2

/**
 * The guest used up the stack of its slot.
 */
#define PIRN_TRAP_STACK_OVERFLOW 1

/**
 * A load, store or bulk operation past the end of a memory.
 */
#define PIRN_TRAP_MEMORY_OUT_OF_BOUNDS 2

/**
 * A table access past the end of a table.
 */
#define PIRN_TRAP_TABLE_OUT_OF_BOUNDS 3

/**
 * `call_indirect` through an index past the end of its table.
 */
#define PIRN_TRAP_UNDEFINED_ELEMENT 4

/**
 * `call_indirect` of a null reference.
 */
#define PIRN_TRAP_UNINITIALIZED_ELEMENT 5

/**
 * `call_indirect` of a function of another type.
 */
#define PIRN_TRAP_INDIRECT_CALL_TYPE_MISMATCH 6

/**
 * Signed division overflow, or a conversion whose result does not fit.
 */
#define PIRN_TRAP_INTEGER_OVERFLOW 7

/**
 * Division or remainder by zero.
 */
#define PIRN_TRAP_INTEGER_DIVIDE_BY_ZERO 8

/**
 * Conversion of NaN to an integer.
 */
#define PIRN_TRAP_INVALID_CONVERSION_TO_INTEGER 9

/**
 * `unreachable` was executed.
 */
#define PIRN_TRAP_UNREACHABLE 10

/**
 * `ref.as_non_null` of a null reference.
 */
#define PIRN_TRAP_NULL_REFERENCE 11

/**
 * The system has no memory for a page on its first access.
 */
#define PIRN_TRAP_MEMORY_EXHAUSTED 12

/**
 * The guest used all its fuel. Only code compiled to count fuel raises this trap.
 */
#define PIRN_TRAP_OUT_OF_FUEL 13

/**
 * `call_ref` of a null reference.
 */
#define PIRN_TRAP_NULL_FUNCTION_REFERENCE 14

/**
 * `throw_ref` of a null reference.
 */
#define PIRN_TRAP_NULL_EXCEPTION_REFERENCE 15

/**
 * Exception references hold more exceptions than an instance has room for.
 */
#define PIRN_TRAP_EXCEPTIONS_EXHAUSTED 16

/**
 * A struct operation on a null reference.
 */
#define PIRN_TRAP_NULL_STRUCT_REFERENCE 17

/**
 * An array operation on a null reference.
 */
#define PIRN_TRAP_NULL_ARRAY_REFERENCE 18

/**
 * `i31.get_s` or `i31.get_u` of a null reference.
 */
#define PIRN_TRAP_NULL_I31_REFERENCE 19

/**
 * An access past the end of an array.
 */
#define PIRN_TRAP_ARRAY_OUT_OF_BOUNDS 20

/**
 * `ref.cast` of a reference of another type.
 */
#define PIRN_TRAP_CAST_FAILURE 21

/**
 * The guest makes more structs and arrays than the instance has room for.
 */
#define PIRN_TRAP_HEAP_EXHAUSTED 22

/**
 * An atomic access whose address is no multiple of its size.
 */
#define PIRN_TRAP_UNALIGNED_ATOMIC 23

/**
 * `memory.atomic.wait32` or `memory.atomic.wait64` on a memory that is not shared.
 */
#define PIRN_TRAP_EXPECTED_SHARED_MEMORY 24

/**
 * The host would need more memory for the guest than its limit allows. Only the runtime raises
 * this trap; no module's trap table contains it.
 */
#define PIRN_TRAP_HOST_MEMORY_EXHAUSTED 25

/**
 * A function.
 */
#define PIRN_EXTERN_FUNC 0

/**
 * A table.
 */
#define PIRN_EXTERN_TABLE 1

/**
 * A memory.
 */
#define PIRN_EXTERN_MEMORY 2

/**
 * A global.
 */
#define PIRN_EXTERN_GLOBAL 3

/**
 * A tag.
 */
#define PIRN_EXTERN_TAG 4

/**
 * Number of slots: the most instances that exist at one time. 16 by default.
 */
#define PIRN_REGION_SLOTS 1

/**
 * Most memories that a module defines. 1 by default.
 */
#define PIRN_REGION_MEMORIES 2

/**
 * Largest size of a memory in bytes. 64 MiB by default.
 */
#define PIRN_REGION_MEMORY_BYTES_MAX 3

/**
 * Most tables that a module defines. 4 by default.
 */
#define PIRN_REGION_TABLES 4

/**
 * Most elements of a table. 65,536 by default.
 */
#define PIRN_REGION_TABLE_ELEMENTS 5

/**
 * Size of an instance's stack in bytes. 1 MiB by default.
 */
#define PIRN_REGION_STACK_BYTES 6

/**
 * Size of an instance's globals, imports and function references in bytes. 512 KiB by default.
 */
#define PIRN_REGION_INSTANCE_BYTES 7

/**
 * Most bytes of the host's memory that are held for an instance. 1 MiB by default.
 */
#define PIRN_REGION_HOST_BYTES_MAX 8

/**
 * Most nested calls (pirn_caller_call) of an instance that run at one time. 32 by default.
 */
#define PIRN_REGION_NESTED_CALLS_MAX 9

/**
 * The strategy that resets slots: one of PIRN_RESET_AUTO to PIRN_RESET_SCANNED.
 */
#define PIRN_REGION_RESET 10

/**
 * The fastest strategy that works on this machine. The default.
 */
#define PIRN_RESET_AUTO 0

/**
 * At each reset, returns all pages to the system.
 */
#define PIRN_RESET_DECOMMITTED 1

/**
 * At each reset, writes all pages again.
 */
#define PIRN_RESET_REWRITTEN 2

/**
 * At each reset, writes the pages again that userfaultfd reported as written.
 */
#define PIRN_RESET_TRACKED 3

/**
 * At each reset, writes the pages again that the kernel lists as written.
 */
#define PIRN_RESET_SCANNED 4

/**
 * Standard input, of pirn_wasi_stdio_fd.
 */
#define PIRN_STDIN 0

/**
 * Standard output.
 */
#define PIRN_STDOUT 1

/**
 * Standard error.
 */
#define PIRN_STDERR 2

/**
 * The call has returned: pirn_step_t has its result.
 */
#define PIRN_STEP_RETURNED 0

/**
 * The guest called a function of pirn_linker_ask, and waits for pirn_instance_answer.
 */
#define PIRN_STEP_ASKED 1

/**
 * The time slice has ended. Continue by pirn_instance_resume.
 */
#define PIRN_STEP_PREEMPTED 2

/**
 * The instance was not running. Every later call fails.
 */
#define PIRN_KILL_IDLE 0

/**
 * A call was suspended. The call cannot be resumed.
 */
#define PIRN_KILL_SUSPENDED 1

/**
 * Guest code was running. The guest is interrupted at its current instruction.
 */
#define PIRN_KILL_GUEST 2

/**
 * A host function was running. The guest ends when the function returns.
 */
#define PIRN_KILL_HOST 3

/**
 * Bytes that the library made. Immutable; any threads may read them at the same time.
 */
typedef struct pirn_bytes_t pirn_bytes_t;

/**
 * A host function's access to the instance that calls the function. The library owns this handle.
 * It is valid until the host function returns, on the thread that runs the function.
 */
typedef struct pirn_caller_t pirn_caller_t;

/**
 * The output of a guest in memory. Any threads may read it at the same time, also while the guest
 * runs.
 */
typedef struct pirn_capture_t pirn_capture_t;

/**
 * A host function's access to the component instance that calls the function. The library owns
 * this handle. It is valid until the host function returns, on the thread that runs the function.
 */
typedef struct pirn_component_caller_t pirn_component_caller_t;

/**
 * A function that a component exports, looked up once for all instances of its preparation. It may
 * outlive the preparation. Immutable; any threads may use it at the same time.
 */
typedef struct pirn_component_func_t pirn_component_func_t;

/**
 * An instance of a component, in its own slot. One thread at a time may use the handle, and the
 * handle may move between threads. A function that finds the handle in use returns
 * PIRN_ERROR_BUSY.
 */
typedef struct pirn_component_instance_t pirn_component_instance_t;

/**
 * Functions and resource types that components can import, by interface and name. One thread at a
 * time may use a linker. Preparations copy what they need, so the linker may be changed or deleted
 * after pirn_region_prepare_component.
 */
typedef struct pirn_component_linker_t pirn_component_linker_t;

/**
 * A value that the library made. Immutable; any threads may read it at the same time.
 */
typedef struct pirn_component_owned_t pirn_component_owned_t;

/**
 * A component that is linked to the host and checked against a region. Immutable; any threads may
 * use it at the same time.
 */
typedef struct pirn_component_prepared_t pirn_component_prepared_t;

/**
 * A compiled component: the types of its functions. Immutable; any threads may use it at the same
 * time.
 */
typedef struct pirn_component_t pirn_component_t;

/**
 * The reason for which a function failed. Immutable; any threads may read an error at the same
 * time. The texts and frames of an error are valid until the error is deleted.
 */
typedef struct pirn_error_t pirn_error_t;

/**
 * A directory in memory that instances share. The changes of an instance are its own. Immutable;
 * any threads may use it at the same time.
 */
typedef struct pirn_files_t pirn_files_t;

/**
 * A function of a module, looked up and checked once, for all instances of its preparation, or for
 * one instance of a group. The handle may outlive the preparation and the group. Immutable; any
 * threads may use it at the same time.
 */
typedef struct pirn_func_t pirn_func_t;

/**
 * Instances that import from each other, each in its own slot. The instances share the `data` and
 * the context of WASI of pirn_group_new, and end with the group. One thread at a time may use a
 * group with its instances, and the group may move between threads. A function that finds the
 * group in use returns PIRN_ERROR_BUSY.
 */
typedef struct pirn_group_t pirn_group_t;

/**
 * An instance of a module, in its own slot: alone, or an instance of a group (pirn_group_member).
 * One thread at a time may use the handle, and the handle may move between threads. A function
 * that finds the instance or its group in use returns PIRN_ERROR_BUSY.
 */
typedef struct pirn_instance_t pirn_instance_t;

/**
 * Stops a guest from any thread, in any state of the guest. Any threads may use a switch at the
 * same time. A switch may outlive its instance or group.
 */
typedef struct pirn_kill_switch_t pirn_kill_switch_t;

/**
 * Functions and globals that guests can import, by module and name. One thread at a time may use a
 * linker. Preparations copy what they need, so the linker may be changed or deleted after
 * pirn_region_prepare.
 */
typedef struct pirn_linker_t pirn_linker_t;

/**
 * A compiled module, checked and mapped. Immutable; any threads may use it at the same time.
 */
typedef struct pirn_module_t pirn_module_t;

/**
 * A module that is linked to the host and checked against a region. Immutable; any threads may use
 * it at the same time.
 */
typedef struct pirn_prepared_t pirn_prepared_t;

/**
 * A set of preallocated slots. Any threads may use it at the same time.
 */
typedef struct pirn_region_t pirn_region_t;

/**
 * A memory that several instances use at once, each instance on its own thread. The memory lives
 * as long as a handle, a linker, a preparation or an instance has it. Any threads may use a handle
 * at the same time.
 */
typedef struct pirn_shared_memory_t pirn_shared_memory_t;

/**
 * A context of WASI 0.2 for one component instance. A new context has no arguments, variables,
 * directories or network; its input is empty, and its output is discarded. One thread at a time
 * may use the handle.
 *
 * A function that fails spends the handle. A spent handle can only be deleted.
 */
typedef struct pirn_wasi2_t pirn_wasi2_t;

/**
 * A context of WASI preview 1 for one guest. A new context has no arguments, variables or
 * directories; its input is empty, and its output is discarded. One thread at a time may use the
 * handle.
 *
 * A function that fails spends the handle. A spent handle can only be deleted.
 */
typedef struct pirn_wasi_t pirn_wasi_t;

/**
 * The kind of an error: one of PIRN_ERROR_ARGUMENT to PIRN_ERROR_ABI. PIRN_OK is no error.
 */
typedef uint32_t pirn_error_kind_t;

/**
 * A frame of a WebAssembly function in a backtrace. The guest chooses its names: they may contain
 * control characters, which pirn_error_message and pirn_error_report escape.
 */
typedef struct {
    /**
     * Index of the function in its module, counting imported functions.
     */
    uint32_t func_index;
    /**
     * Offset in the `.wasm` file, in bytes: of the faulting instruction in the innermost frame, of
     * the call in the other frames. -1 if the offset is unknown.
     */
    int64_t wasm_offset;
    /**
     * Name of the function, or NULL if the function has no name. Valid as long as the error.
     */
    const char *func_name;
    /**
     * Name of the module, or NULL if the module has no name. Valid as long as the error.
     */
    const char *module_name;
} pirn_frame_t;

/**
 * An import or an export. Its texts are valid as long as the handle of the module. A zero byte in
 * a name is shown as U+FFFD.
 */
typedef struct {
    /**
     * One of PIRN_EXTERN_FUNC to PIRN_EXTERN_TAG.
     */
    uint32_t kind;
    /**
     * The module of an import; NULL for an export.
     */
    const char *module;
    /**
     * The name.
     */
    const char *name;
    /**
     * The type in words, such as `func (i32) -> i64`.
     */
    const char *type_text;
} pirn_extern_t;

/**
 * A setting of a region.
 */
typedef struct {
    /**
     * One of PIRN_REGION_SLOTS to PIRN_REGION_RESET.
     */
    uint32_t option;
    /**
     * The value.
     */
    uint64_t value;
} pirn_region_option_t;

/**
 * The type of a value: one of PIRN_I32 to PIRN_ANYREF.
 */
typedef uint32_t pirn_kind_t;

/**
 * The content of a value. The `kind` of the value says which field is written.
 */
typedef union {
    /**
     * PIRN_I32.
     */
    int32_t i32;
    /**
     * PIRN_I64.
     */
    int64_t i64;
    /**
     * PIRN_F32. The bits of a NaN survive.
     */
    float f32;
    /**
     * PIRN_F64. The bits of a NaN survive.
     */
    double f64;
    /**
     * PIRN_V128: lane 0 first, each lane little-endian.
     */
    uint8_t v128[16];
    /**
     * PIRN_EXTERNREF: any number of the embedder's, 0 for null. The numbers from 2^64 - 2^49 up to
     * 2^64 - 2^48 are reserved. The other reference types: a number that an instance or a group
     * gave, valid for that instance or group only, or 0 for null.
     */
    uint64_t reference;
} pirn_val_of_t;

/**
 * A WebAssembly value. A value owns nothing, and may be copied.
 */
typedef struct {
    /**
     * The type of the value.
     */
    pirn_kind_t kind;
    /**
     * The content.
     */
    pirn_val_of_t of;
} pirn_val_t;

/**
 * A host function by values. `args` has as many values as the function has parameters. `results`
 * has room for the function's results; the values begin as zero or null, and the function writes
 * them. Both lists are valid until the function returns.
 *
 * The function returns NULL, or an error that it owns and gives to the library: the guest's call
 * then ends with that error. It runs on the thread that called the guest, and on several threads
 * at the same time if several threads call guests. It must not leave by longjmp(3). A C++
 * exception that leaves the function ends the process.
 */
typedef pirn_error_t *(*pirn_host_func_t)(void *env,
                                          pirn_caller_t *caller,
                                          const pirn_val_t *args,
                                          pirn_val_t *results);

/**
 * Frees the `env` of a function. It may be called on any thread that deletes a handle. It must not
 * use the handle that the running library function deletes or changes.
 */
typedef void (*pirn_env_delete_t)(void *env);

/**
 * A host function by words, for functions over numbers: up to 17 parameters and one result. A
 * 32-bit number is the lower half of its word; the upper half of an argument is zero. `result` is
 * one word, even if the function has no result. Return value, threads and exceptions are as for
 * pirn_host_func_t.
 */
typedef pirn_error_t *(*pirn_host_words_t)(void *env,
                                           pirn_caller_t *caller,
                                           const uint64_t *args,
                                           uint64_t *result);

/**
 * Decides whether a memory of an instance, or its heap of structs and arrays, may grow from
 * `current` to `desired` bytes. Not 0 allows the growth. `maximum` is the maximum of the memory's
 * type, or UINT64_MAX for a heap or a type without a maximum. `data` is the pointer of
 * pirn_instance_new.
 */
typedef int32_t (*pirn_limiter_t)(void *env,
                                  void *data,
                                  uint64_t current,
                                  uint64_t desired,
                                  uint64_t maximum);

/**
 * The limits of one call, or of one step of a call. A field of 0 is no limit. The guest is
 * interrupted at any instruction. A host function runs to its end first.
 */
typedef struct {
    /**
     * Nanoseconds of wall time. After that the call ends with PIRN_ERROR_DEADLINE.
     */
    uint64_t deadline_ns;
    /**
     * Nanoseconds of the thread's processor time. After that the call ends with
     * PIRN_ERROR_CPU_BUDGET.
     */
    uint64_t cpu_ns;
    /**
     * Nanoseconds after which the guest is suspended, to be resumed by pirn_instance_resume. Only
     * for pirn_instance_start and the functions that resume.
     */
    uint64_t slice_ns;
} pirn_limits_t;

/**
 * The progress of a call after one step.
 */
typedef struct {
    /**
     * One of PIRN_STEP_RETURNED to PIRN_STEP_PREEMPTED.
     */
    uint32_t kind;
    /**
     * Number of arguments of the function that the guest called, for PIRN_STEP_ASKED; otherwise 0.
     */
    uint32_t args_count;
    /**
     * The `tag` of pirn_linker_ask, for PIRN_STEP_ASKED; otherwise 0.
     */
    uint64_t tag;
    /**
     * The result of the call, for PIRN_STEP_RETURNED; 0 if the function has none.
     */
    uint64_t result;
    /**
     * The first `args_count` words are the arguments, as in pirn_host_words_t. The other words are
     * 0.
     */
    uint64_t args[17];
} pirn_step_t;

/**
 * Identifies an instance of a group. 0 identifies no instance. Numbers of one group are invalid in
 * other groups.
 */
typedef uint64_t pirn_member_t;

/**
 * The kind of a component's value: one of PIRN_COMPONENT_BOOL to PIRN_COMPONENT_BORROW.
 */
typedef uint32_t pirn_component_kind_t;

/**
 * A text of `len` bytes of UTF-8, which may contain zero bytes. A zero byte follows a text of the
 * library. `data` may be NULL if `len` is 0.
 */
typedef struct {
    /**
     * The first byte.
     */
    const char *data;
    /**
     * Number of bytes.
     */
    size_t len;
} pirn_component_string_t;

/**
 * The elements of a list or a tuple. `values` may be NULL if `count` is 0.
 */
typedef struct {
    /**
     * The first element.
     */
    const pirn_component_value_t *values;
    /**
     * Number of elements.
     */
    size_t count;
} pirn_component_list_t;

/**
 * The fields of a record, in the order of its type. `fields` may be NULL if `count` is 0.
 */
typedef struct {
    /**
     * The first field.
     */
    const pirn_component_field_t *fields;
    /**
     * Number of fields.
     */
    size_t count;
} pirn_component_record_t;

/**
 * The case of a variant.
 */
typedef struct {
    /**
     * The name of the case.
     */
    const char *name;
    /**
     * The payload, or NULL if the case has none.
     */
    const pirn_component_value_t *payload;
} pirn_component_case_t;

/**
 * Success or failure.
 */
typedef struct {
    /**
     * 0 for success, otherwise failure.
     */
    uint32_t is_error;
    /**
     * The payload, or NULL if there is none.
     */
    const pirn_component_value_t *payload;
} pirn_component_result_t;

/**
 * The flags that are set, in the order of the type. `names` may be NULL if `count` is 0.
 */
typedef struct {
    /**
     * The first name.
     */
    const char *const *names;
    /**
     * Number of names.
     */
    size_t count;
} pirn_component_flags_t;

/**
 * A resource. If the embedder defines its type, `rep` is the embedder's number, and the other
 * fields are 0. If the component defines its type, pass the three fields that the instance gave:
 * the resource is valid for that instance only.
 */
typedef struct {
    /**
     * The number that the definer of the resource gave it.
     */
    uint32_t rep;
    /**
     * The type, within the component that defines it.
     */
    uint32_t type_index;
    /**
     * The instance that defines the resource; 0 for a type of the embedder.
     */
    uint64_t owner;
} pirn_component_resource_t;

/**
 * The content of a component's value. The `kind` of the value says which field is written.
 */
typedef union {
    /**
     * PIRN_COMPONENT_BOOL: 0 is false, everything else is true.
     */
    uint8_t boolean;
    /**
     * PIRN_COMPONENT_S8.
     */
    int8_t s8;
    /**
     * PIRN_COMPONENT_U8.
     */
    uint8_t u8;
    /**
     * PIRN_COMPONENT_S16.
     */
    int16_t s16;
    /**
     * PIRN_COMPONENT_U16.
     */
    uint16_t u16;
    /**
     * PIRN_COMPONENT_S32.
     */
    int32_t s32;
    /**
     * PIRN_COMPONENT_U32.
     */
    uint32_t u32;
    /**
     * PIRN_COMPONENT_S64.
     */
    int64_t s64;
    /**
     * PIRN_COMPONENT_U64.
     */
    uint64_t u64;
    /**
     * PIRN_COMPONENT_F32.
     */
    float f32;
    /**
     * PIRN_COMPONENT_F64.
     */
    double f64;
    /**
     * PIRN_COMPONENT_CHAR: a Unicode scalar value.
     */
    uint32_t character;
    /**
     * PIRN_COMPONENT_STRING.
     */
    pirn_component_string_t string;
    /**
     * PIRN_COMPONENT_LIST and PIRN_COMPONENT_TUPLE.
     */
    pirn_component_list_t list;
    /**
     * PIRN_COMPONENT_RECORD.
     */
    pirn_component_record_t record;
    /**
     * PIRN_COMPONENT_VARIANT.
     */
    pirn_component_case_t variant;
    /**
     * PIRN_COMPONENT_ENUM: the name of the case.
     */
    const char *enumeration;
    /**
     * PIRN_COMPONENT_OPTION: the payload, or NULL if there is none.
     */
    const pirn_component_value_t *option;
    /**
     * PIRN_COMPONENT_RESULT.
     */
    pirn_component_result_t result;
    /**
     * PIRN_COMPONENT_FLAGS.
     */
    pirn_component_flags_t flags;
    /**
     * PIRN_COMPONENT_OWN and PIRN_COMPONENT_BORROW.
     */
    pirn_component_resource_t resource;
} pirn_component_value_of_t;

/**
 * A value of the component model. The maker of a value owns the lists and texts that the value
 * points to. A function that gets a value copies all of them, and keeps no pointer. Values that
 * the library makes are immutable, and belong to a pirn_component_owned_t or to the caller of a
 * host function.
 */
struct pirn_component_value_t {
    /**
     * The kind of the value.
     */
    pirn_component_kind_t kind;
    /**
     * The content.
     */
    pirn_component_value_of_t of;
};

/**
 * A field of a record.
 */
struct pirn_component_field_t {
    /**
     * The name.
     */
    const char *name;
    /**
     * The value.
     */
    pirn_component_value_t value;
};

/**
 * A function that a component imports or exports. Its texts are valid as long as the handle of the
 * component.
 */
typedef struct {
    /**
     * The name: `add`, or `wasi:cli/run@0.2.0#run` for a function of an interface.
     */
    const char *name;
    /**
     * The type in words, such as `func(a: u32) -> string`.
     */
    const char *type_text;
} pirn_component_extern_t;

/**
 * A host function of a component. `args` has `args_count` values, as many as the function has
 * parameters. They are valid until the function returns. If the function has a result, it calls
 * pirn_component_caller_return.
 *
 * The function returns NULL, or an error that it owns and gives to the library: the guest's call
 * then ends with that error. It runs on the thread that called the component, and on several
 * threads at the same time if several threads call components. It must not leave by longjmp(3). A
 * C++ exception that leaves the function ends the process.
 */
typedef pirn_error_t *(*pirn_component_host_t)(void *env,
                                               pirn_component_caller_t *caller,
                                               const pirn_component_value_t *args,
                                               size_t args_count);

/**
 * Ends a resource of a type that the embedder defines: a component has dropped the owned handle.
 * `rep` is the embedder's number for the resource. Return value, threads and exceptions are as for
 * pirn_component_host_t.
 */
typedef pirn_error_t *(*pirn_component_drop_t)(void *env,
                                               pirn_component_caller_t *caller,
                                               uint32_t rep);

/**
 * No error: the kind of NULL.
 */
#define PIRN_OK 0

/**
 * An argument is invalid: a null pointer, a text that is not UTF-8, a wrong kind or number of
 * values, a function of another module.
 */
#define PIRN_ERROR_ARGUMENT 1

/**
 * A file is no module that this library can open.
 */
#define PIRN_ERROR_OPEN 2

/**
 * A name is missing or defined twice, or a type or a limit does not match.
 */
#define PIRN_ERROR_LINK 3

/**
 * A setting of a region is out of range, or the system refuses the region.
 */
#define PIRN_ERROR_REGION 4

/**
 * All slots of the region are taken.
 */
#define PIRN_ERROR_FULL 5

/**
 * The guest trapped: see pirn_error_trap_code.
 */
#define PIRN_ERROR_TRAP 6

/**
 * The guest threw an exception, and no code of the guest caught it.
 */
#define PIRN_ERROR_EXCEPTION 7

/**
 * The guest called `proc_exit` or `exit` of WASI: see pirn_error_exit_code. An exit is no fault.
 */
#define PIRN_ERROR_EXIT 8

/**
 * A host function returned an error of pirn_error_new, or WASI failed.
 */
#define PIRN_ERROR_HOST 9

/**
 * A part of the library failed by a panic, which is a defect of the library. The handle that the
 * function changes can only be deleted.
 */
#define PIRN_ERROR_PANIC 10

/**
 * A kill switch ended the guest.
 */
#define PIRN_ERROR_KILLED 11

/**
 * The deadline of the call passed.
 */
#define PIRN_ERROR_DEADLINE 12

/**
 * The call used up its processor time.
 */
#define PIRN_ERROR_CPU_BUDGET 13

/**
 * The state of the instance does not allow the operation: a call is suspended, no call is
 * suspended, or the group of the instance was deleted.
 */
#define PIRN_ERROR_STATE 14

/**
 * Another function uses the handle at this moment: a function on another thread, or the call in
 * which this host function runs.
 */
#define PIRN_ERROR_BUSY 15

/**
 * The state of an instance cannot be stored in a snapshot.
 */
#define PIRN_ERROR_SNAPSHOT 16

/**
 * The system refused memory, a mapping, a file or another resource.
 */
#define PIRN_ERROR_SYSTEM 17

/**
 * A function that panicked changed the handle, or an earlier error spent the handle. The handle
 * can only be deleted.
 */
#define PIRN_ERROR_POISONED 18

/**
 * A component broke a rule of the canonical ABI, such as a string outside of its memory.
 */
#define PIRN_ERROR_ABI 19

/**
 * A 32-bit integer.
 */
#define PIRN_I32 0

/**
 * A 64-bit integer.
 */
#define PIRN_I64 1

/**
 * A 32-bit float.
 */
#define PIRN_F32 2

/**
 * A 64-bit float.
 */
#define PIRN_F64 3

/**
 * A vector of 128 bits.
 */
#define PIRN_V128 4

/**
 * A reference to a function, of any function type.
 */
#define PIRN_FUNCREF 5

/**
 * A reference of the host: a number, where 0 is null.
 */
#define PIRN_EXTERNREF 6

/**
 * A reference to an exception.
 */
#define PIRN_EXNREF 7

/**
 * A reference to a struct, an array, a 31-bit number, or a converted reference of the host.
 */
#define PIRN_ANYREF 8

/**
 * `bool`, in `boolean`.
 */
#define PIRN_COMPONENT_BOOL 0

/**
 * `s8`, in `s8`.
 */
#define PIRN_COMPONENT_S8 1

/**
 * `u8`, in `u8`.
 */
#define PIRN_COMPONENT_U8 2

/**
 * `s16`, in `s16`.
 */
#define PIRN_COMPONENT_S16 3

/**
 * `u16`, in `u16`.
 */
#define PIRN_COMPONENT_U16 4

/**
 * `s32`, in `s32`.
 */
#define PIRN_COMPONENT_S32 5

/**
 * `u32`, in `u32`.
 */
#define PIRN_COMPONENT_U32 6

/**
 * `s64`, in `s64`.
 */
#define PIRN_COMPONENT_S64 7

/**
 * `u64`, in `u64`.
 */
#define PIRN_COMPONENT_U64 8

/**
 * `f32`, in `f32`.
 */
#define PIRN_COMPONENT_F32 9

/**
 * `f64`, in `f64`.
 */
#define PIRN_COMPONENT_F64 10

/**
 * `char`, in `character`.
 */
#define PIRN_COMPONENT_CHAR 11

/**
 * `string`, in `string`.
 */
#define PIRN_COMPONENT_STRING 12

/**
 * `list`, in `list`.
 */
#define PIRN_COMPONENT_LIST 13

/**
 * `record`, in `record`.
 */
#define PIRN_COMPONENT_RECORD 14

/**
 * `tuple`, in `list`.
 */
#define PIRN_COMPONENT_TUPLE 15

/**
 * `variant`, in `variant`.
 */
#define PIRN_COMPONENT_VARIANT 16

/**
 * `enum`, in `enumeration`.
 */
#define PIRN_COMPONENT_ENUM 17

/**
 * `option`, in `option`.
 */
#define PIRN_COMPONENT_OPTION 18

/**
 * `result`, in `result`.
 */
#define PIRN_COMPONENT_RESULT 19

/**
 * `flags`, in `flags`.
 */
#define PIRN_COMPONENT_FLAGS 20

/**
 * `own`, in `resource`: the receiver has the resource.
 */
#define PIRN_COMPONENT_OWN 21

/**
 * `borrow`, in `resource`: the receiver may use the resource during the call.
 */
#define PIRN_COMPONENT_BORROW 22

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * A symbol that only a library of this version has. The header refers to it from each object file
 * that includes the header. So a program fails to link, or to start, with a library of another
 * version.
 */
extern const uint32_t pirn_abi_2;

/**
 * The version of the library, for programs that load it by dlopen(3) and see no missing symbol.
 * Compare it with PIRN_ABI_VERSION.
 */
uint32_t pirn_abi_version(void);

/**
 * Makes an error for a host function to return: the guest's call ends with this error. `message`
 * is copied. `user` is any number of the embedder's, which pirn_error_user returns.
 *
 * The caller owns the error. A host function that returns it gives it to the library. This
 * function never returns NULL. If `message` is no valid text, the error says so.
 *
 * # Safety
 *
 * `message` is a C string or NULL.
 */
pirn_error_t *pirn_error_new(const char *message, uint64_t user);

/**
 * Makes the error of a trap for a host function to return: the guest's call of the host function
 * traps with this code, one of PIRN_TRAP_STACK_OVERFLOW to PIRN_TRAP_HOST_MEMORY_EXHAUSTED. The
 * call's error then has a backtrace.
 *
 * The caller owns the error. An unknown code gives an error of kind PIRN_ERROR_ARGUMENT.
 */
pirn_error_t *pirn_error_trap(uint32_t code);

/**
 * The kind of an error; PIRN_OK for NULL.
 *
 * # Safety
 *
 * `error` is a live error or NULL.
 */
pirn_error_kind_t pirn_error_kind(const pirn_error_t *error);

/**
 * The message of an error: one line, UTF-8, valid as long as the error. An empty text for NULL.
 *
 * # Safety
 *
 * `error` is a live error or NULL.
 */
const char *pirn_error_message(const pirn_error_t *error);

/**
 * The message, and one line for each frame of the backtrace. The text is UTF-8, has no line break
 * at the end, and is valid as long as the error. An empty text for NULL.
 *
 * # Safety
 *
 * `error` is a live error or NULL.
 */
const char *pirn_error_report(const pirn_error_t *error);

/**
 * The code of the trap, one of PIRN_TRAP_STACK_OVERFLOW to PIRN_TRAP_HOST_MEMORY_EXHAUSTED; 0 if
 * the error is no trap, or NULL.
 *
 * # Safety
 *
 * `error` is a live error or NULL.
 */
uint32_t pirn_error_trap_code(const pirn_error_t *error);

/**
 * The exit code of a guest that called `proc_exit` or `exit`; 0 if the kind is not
 * PIRN_ERROR_EXIT.
 *
 * # Safety
 *
 * `error` is a live error or NULL.
 */
uint32_t pirn_error_exit_code(const pirn_error_t *error);

/**
 * The number that the embedder gave to pirn_error_new; 0 for other errors and for NULL.
 *
 * # Safety
 *
 * `error` is a live error or NULL.
 */
uint64_t pirn_error_user(const pirn_error_t *error);

/**
 * The number of frames in the backtrace, at most 64. 0 for NULL. Only traps, exceptions, panics of
 * host functions, kills, deadlines and processor budgets have frames.
 *
 * # Safety
 *
 * `error` is a live error or NULL.
 */
size_t pirn_error_frame_count(const pirn_error_t *error);

/**
 * Writes frame `index` of the backtrace to `frame`; 0 is the innermost frame. Returns 1, or 0
 * without a write if there is no such frame or if a pointer is NULL.
 *
 * # Safety
 *
 * `error` is a live error or NULL, and `frame` is writable or NULL. The texts of the frame are
 * valid as long as the error.
 */
int32_t pirn_error_frame(const pirn_error_t *error, size_t index, pirn_frame_t *frame);

/**
 * Frees an error, with its texts and frames.
 *
 * # Safety
 *
 * `error` is a live error, which ends, or NULL.
 */
void pirn_error_delete(pirn_error_t *error);

/**
 * A pointer to the first byte. A zero byte follows the last byte, so text is a C string. NULL for
 * NULL.
 *
 * # Safety
 *
 * `bytes` is a live handle or NULL. The returned pointer is valid until `bytes` is deleted.
 */
const uint8_t *pirn_bytes_data(const pirn_bytes_t *bytes);

/**
 * The number of bytes, without the zero byte after them. 0 for NULL.
 *
 * # Safety
 *
 * `bytes` is a live handle or NULL.
 */
size_t pirn_bytes_len(const pirn_bytes_t *bytes);

/**
 * Frees the bytes.
 *
 * # Safety
 *
 * `bytes` is a live handle, which ends, or NULL.
 */
void pirn_bytes_delete(pirn_bytes_t *bytes);

/**
 * Opens a file that `aotc` wrote: checks it, and maps it.
 *
 * The file is trusted like a program: the checks find damage and mistakes, but no malicious code.
 *
 * # Safety
 *
 * `path` is a C string, `module` is writable.
 */
pirn_error_t *pirn_module_open(const char *path, pirn_module_t **module);

/**
 * Opens a module whose file is in memory. The bytes are copied, and trusted like a program.
 *
 * # Safety
 *
 * `bytes` points to `len` readable bytes, `module` is writable.
 */
pirn_error_t *pirn_module_from_bytes(const uint8_t *bytes, size_t len, pirn_module_t **module);

/**
 * The file of the module, for pirn_module_from_bytes or for a file that pirn_module_open opens.
 * Save a snapshot with this function. The caller owns the bytes.
 *
 * # Safety
 *
 * `module` is a live handle, `bytes` is writable.
 */
pirn_error_t *pirn_module_to_bytes(const pirn_module_t *module, pirn_bytes_t **bytes);

/**
 * Another handle to the module, which the caller deletes separately. NULL for NULL.
 *
 * # Safety
 *
 * `module` is a live handle or NULL.
 */
pirn_module_t *pirn_module_clone(const pirn_module_t *module);

/**
 * 1 if pirn_instance_snapshot made the module, in this process or in the process that saved the
 * module. Otherwise 0; 0 for NULL.
 *
 * # Safety
 *
 * `module` is a live handle or NULL.
 */
int32_t pirn_module_is_snapshot(const pirn_module_t *module);

/**
 * Writes import `index` of the module to `import`, in the module's order. Returns 1, or 0 without
 * a write if there is no such import or if a pointer is NULL.
 *
 * # Safety
 *
 * `module` is a live handle or NULL, `import` is writable or NULL.
 */
int32_t pirn_module_import(const pirn_module_t *module, size_t index, pirn_extern_t *import);

/**
 * Writes export `index` of the module to `exported`, in the module's order. Returns 1, or 0
 * without a write if there is no such export or if a pointer is NULL.
 *
 * # Safety
 *
 * `module` is a live handle or NULL, `exported` is writable or NULL.
 */
int32_t pirn_module_export(const pirn_module_t *module, size_t index, pirn_extern_t *exported);

/**
 * Frees a handle. The module stays as long as another handle, a preparation or an instance uses
 * it.
 *
 * # Safety
 *
 * `module` is a live handle, which ends, or NULL.
 */
void pirn_module_delete(pirn_module_t *module);

/**
 * Reserves the slots of a region.
 *
 * The first region of a process installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGURG.
 * A signal that belongs to no guest goes to the handler that was installed before. A later option
 * replaces an earlier option of the same number.
 *
 * # Safety
 *
 * `options` points to `count` options, `region` is writable.
 */
pirn_error_t *pirn_region_new(const pirn_region_option_t *options,
                              size_t count,
                              pirn_region_t **region);

/**
 * Another handle to the region, which the caller deletes separately. NULL for NULL.
 *
 * # Safety
 *
 * `region` is a live handle or NULL.
 */
pirn_region_t *pirn_region_clone(const pirn_region_t *region);

/**
 * The number of slots that are free at this moment; 0 for NULL.
 *
 * # Safety
 *
 * `region` is a live handle or NULL.
 */
size_t pirn_region_slots_free(const pirn_region_t *region);

/**
 * The settings, the state and the reset strategy of the region in one line of text. The caller
 * owns the bytes.
 *
 * # Safety
 *
 * `region` is a live handle, `text` is writable.
 */
pirn_error_t *pirn_region_describe(const pirn_region_t *region, pirn_bytes_t **text);

/**
 * Frees a handle. The slots stay as long as another handle, a preparation or an instance uses the
 * region.
 *
 * # Safety
 *
 * `region` is a live handle, which ends, or NULL.
 */
void pirn_region_delete(pirn_region_t *region);

/**
 * Makes an empty linker. NULL only if the library panics.
 */
pirn_linker_t *pirn_linker_new(void);

/**
 * Adds a host function by values.
 *
 * `params` and `results` list the kinds of the function's type. `func` gets `env` at each call.
 * The library takes `env` over in every case. It calls `env_delete` (unless NULL) with `env` once,
 * when nothing can call `func` any more. After an error it does so before this function returns.
 * If `env_delete` is NULL, keep `env` valid until the linker, its clones, and all preparations,
 * instances and groups made with them have ended. A handle of an instance of a group ends nothing.
 *
 * # Safety
 *
 * `linker` is a live handle. `module` and `name` are C strings. `params` has `params_count` kinds,
 * and `results` has `results_count` kinds. `func` and `env_delete` can be called with `env` as
 * their types say.
 */
pirn_error_t *pirn_linker_func(pirn_linker_t *linker,
                               const char *module,
                               const char *name,
                               const pirn_kind_t *params,
                               size_t params_count,
                               const pirn_kind_t *results,
                               size_t results_count,
                               pirn_host_func_t func,
                               void *env,
                               pirn_env_delete_t env_delete);

/**
 * Adds a host function by words: the faster form, for functions over numbers with up to 17
 * parameters and one result. The parameters of pirn_linker_words are the parameters of
 * pirn_linker_func.
 *
 * # Safety
 *
 * As pirn_linker_func.
 */
pirn_error_t *pirn_linker_words(pirn_linker_t *linker,
                                const char *module,
                                const char *name,
                                const pirn_kind_t *params,
                                size_t params_count,
                                const pirn_kind_t *results,
                                size_t results_count,
                                pirn_host_words_t func,
                                void *env,
                                pirn_env_delete_t env_delete);

/**
 * Adds a host function that asks the embedder: the guest that calls it is suspended, and
 * pirn_instance_start or pirn_instance_resume returns PIRN_STEP_ASKED with `tag` and the
 * arguments. pirn_instance_answer resumes the guest. The function must fit into words, as for
 * pirn_linker_words.
 *
 * A guest that calls the function in a plain call, or in a nested call, ends with
 * PIRN_ERROR_STATE.
 *
 * # Safety
 *
 * `linker` is a live handle. `module` and `name` are C strings. `params` has `params_count` kinds,
 * and `results` has `results_count` kinds.
 */
pirn_error_t *pirn_linker_ask(pirn_linker_t *linker,
                              const char *module,
                              const char *name,
                              const pirn_kind_t *params,
                              size_t params_count,
                              const pirn_kind_t *results,
                              size_t results_count,
                              uint64_t tag);

/**
 * Adds an immutable global. A reference must be a PIRN_EXTERNREF, or null.
 *
 * # Safety
 *
 * `linker` is a live handle. `module` and `name` are C strings. The field of `value` that its kind
 * names was written.
 */
pirn_error_t *pirn_linker_global(pirn_linker_t *linker,
                                 const char *module,
                                 const char *name,
                                 pirn_val_t value);

/**
 * Adds the functions of WASI preview 1. Each instance has the context that pirn_instance_new got,
 * or an empty one.
 *
 * # Safety
 *
 * `linker` is a live handle.
 */
pirn_error_t *pirn_linker_wasi(pirn_linker_t *linker);

/**
 * Sets the function that decides whether a memory may grow, within the limits of its type and of
 * the region. The function replaces an earlier limiter. The library takes `env` over as
 * pirn_linker_func does.
 *
 * # Safety
 *
 * `linker` is a live handle. `allows` and `env_delete` can be called with `env` as their types
 * say.
 */
pirn_error_t *pirn_linker_memory_limiter(pirn_linker_t *linker,
                                         pirn_limiter_t allows,
                                         void *env,
                                         pirn_env_delete_t env_delete);

/**
 * A copy of a linker with its items. Later changes of one linker do not affect the other. NULL for
 * NULL, and for a linker that can only be deleted.
 *
 * # Safety
 *
 * `linker` is a live handle or NULL.
 */
pirn_linker_t *pirn_linker_clone(const pirn_linker_t *linker);

/**
 * Frees a linker. Preparations keep the functions that they need.
 *
 * # Safety
 *
 * `linker` is a live handle, which ends, or NULL.
 */
void pirn_linker_delete(pirn_linker_t *linker);

/**
 * Links a module to the host, and checks that it fits into a slot. The preparation copies what it
 * needs, so the other handles may be deleted.
 *
 * # Safety
 *
 * `region`, `module` and `linker` are live handles, `prepared` is writable.
 */
pirn_error_t *pirn_region_prepare(const pirn_region_t *region,
                                  const pirn_module_t *module,
                                  const pirn_linker_t *linker,
                                  pirn_prepared_t **prepared);

/**
 * A preparation whose instances may take at most `limit_ns` nanoseconds of wall time for their
 * start: the limit applies to the start function, and again to the function of
 * pirn_prepared_call_first.
 *
 * # Safety
 *
 * `prepared` is a live handle, `changed` is writable.
 */
pirn_error_t *pirn_prepared_start_deadline(const pirn_prepared_t *prepared,
                                           uint64_t limit_ns,
                                           pirn_prepared_t **changed);

/**
 * A preparation whose instances begin with `fuel` units of fuel. PIRN_ERROR_ARGUMENT if the module
 * was compiled without `aotc --fuel`.
 *
 * # Safety
 *
 * `prepared` is a live handle, `changed` is writable.
 */
pirn_error_t *pirn_prepared_start_fuel(const pirn_prepared_t *prepared,
                                       uint64_t fuel,
                                       pirn_prepared_t **changed);

/**
 * A preparation whose instances call the exported function `name`, which has no parameters and
 * results, at the end of their start. Use it for work that each instance of a snapshot must
 * repeat, such as to draw a new seed of random numbers.
 *
 * # Safety
 *
 * `prepared` is a live handle, `name` is a C string, `changed` is writable.
 */
pirn_error_t *pirn_prepared_call_first(const pirn_prepared_t *prepared,
                                       const char *name,
                                       pirn_prepared_t **changed);

/**
 * Looks up the exported function `name`, of any type.
 *
 * # Safety
 *
 * `prepared` is a live handle, `name` is a C string, `func` is writable.
 */
pirn_error_t *pirn_prepared_func(const pirn_prepared_t *prepared,
                                 const char *name,
                                 pirn_func_t **func);

/**
 * Looks up the exported function `name`, and checks that its type has the kinds `params` and
 * `results`. A reference type that a module defines has the kind of its abstract type.
 *
 * # Safety
 *
 * `prepared` is a live handle, `name` is a C string, `func` is writable. `params` has
 * `params_count` kinds, and `results` has `results_count` kinds.
 */
pirn_error_t *pirn_prepared_typed(const pirn_prepared_t *prepared,
                                  const char *name,
                                  const pirn_kind_t *params,
                                  size_t params_count,
                                  const pirn_kind_t *results,
                                  size_t results_count,
                                  pirn_func_t **func);

/**
 * Writes the number of parameters to `params_count` and the number of results to `results_count`,
 * unless the pointer is NULL. Writes the kinds of the parameters, then the kinds of the results to
 * `kinds`, at most `capacity` kinds.
 *
 * # Safety
 *
 * `func` is a live handle. `kinds` has room for `capacity` kinds. `params_count` and
 * `results_count` are writable or NULL.
 */
pirn_error_t *pirn_func_type(const pirn_func_t *func,
                             pirn_kind_t *kinds,
                             size_t capacity,
                             size_t *params_count,
                             size_t *results_count);

/**
 * Frees a function.
 *
 * # Safety
 *
 * `func` is a live handle, which ends, or NULL.
 */
void pirn_func_delete(pirn_func_t *func);

/**
 * Another handle to the preparation, which the caller deletes separately. NULL for NULL.
 *
 * # Safety
 *
 * `prepared` is a live handle or NULL.
 */
pirn_prepared_t *pirn_prepared_clone(const pirn_prepared_t *prepared);

/**
 * Frees a handle. Instances keep what they need.
 *
 * # Safety
 *
 * `prepared` is a live handle, which ends, or NULL.
 */
void pirn_prepared_delete(pirn_prepared_t *prepared);

/**
 * Makes an empty context. NULL only if the library panics.
 */
pirn_wasi_t *pirn_wasi_new(void);

/**
 * Adds an argument, UTF-8. The first argument is the name of the program.
 *
 * # Safety
 *
 * `wasi` is a live handle, `argument` is a C string.
 */
pirn_error_t *pirn_wasi_arg(pirn_wasi_t *wasi, const char *argument);

/**
 * Adds an environment variable, UTF-8.
 *
 * # Safety
 *
 * `wasi` is a live handle, `name` and `value` are C strings.
 */
pirn_error_t *pirn_wasi_env(pirn_wasi_t *wasi, const char *name, const char *value);

/**
 * Limits the descriptors that the guest has open at the same time. 64 by default.
 *
 * # Safety
 *
 * `wasi` is a live handle.
 */
pirn_error_t *pirn_wasi_descriptors_max(pirn_wasi_t *wasi, uint32_t descriptors);

/**
 * Limits the bytes that the guest may write to host files that it opens itself. There is no limit
 * by default.
 *
 * # Safety
 *
 * `wasi` is a live handle.
 */
pirn_error_t *pirn_wasi_disk_bytes_max(pirn_wasi_t *wasi, uint64_t bytes);

/**
 * Frees a context that was passed to neither pirn_instance_new nor pirn_group_new, which take
 * their contexts over.
 *
 * # Safety
 *
 * `wasi` is a live handle, which ends, or NULL.
 */
void pirn_wasi_delete(pirn_wasi_t *wasi);

/**
 * Gives the guest the three standard streams of this process.
 *
 * # Safety
 *
 * `wasi` is a live handle.
 */
pirn_error_t *pirn_wasi_inherit_stdio(pirn_wasi_t *wasi);

/**
 * Gives the guest a copy of these bytes as its standard input.
 *
 * # Safety
 *
 * `wasi` is a live handle, `bytes` points to `len` readable bytes.
 */
pirn_error_t *pirn_wasi_stdin_bytes(pirn_wasi_t *wasi, const uint8_t *bytes, size_t len);

/**
 * Gives the guest a descriptor of this process as a standard stream: a file, a pipe or a socket.
 * The descriptor is duplicated, so the caller still owns `fd`. The duplicate and `fd` share one
 * open file: a guest can truncate a writable file and write anywhere in the file. Give each guest
 * an open file of its own, or a pipe.
 *
 * # Safety
 *
 * `wasi` is a live handle.
 */
pirn_error_t *pirn_wasi_stdio_fd(pirn_wasi_t *wasi, uint32_t stream, int32_t fd);

/**
 * Keeps the guest's output to stream PIRN_STDOUT or PIRN_STDERR in memory, at most `bytes_max`
 * bytes. Writes past the limit fail in the guest as on a full disk. The caller owns the capture,
 * which may outlive the instance.
 *
 * # Safety
 *
 * `wasi` is a live handle, `capture` is writable.
 */
pirn_error_t *pirn_wasi_capture(pirn_wasi_t *wasi,
                                uint32_t stream,
                                size_t bytes_max,
                                pirn_capture_t **capture);

/**
 * A copy of the bytes that the guest has written so far. The caller owns the bytes.
 *
 * # Safety
 *
 * `capture` is a live handle, `bytes` is writable.
 */
pirn_error_t *pirn_capture_bytes(const pirn_capture_t *capture, pirn_bytes_t **bytes);

/**
 * Frees a capture. The guest may still write: its output lives until the instance ends.
 *
 * # Safety
 *
 * `capture` is a live handle, which ends, or NULL.
 */
void pirn_capture_delete(pirn_capture_t *capture);

/**
 * Copies a directory or a tar archive of the host into memory. A NULL `path` makes an empty
 * directory.
 *
 * # Safety
 *
 * `path` is a C string or NULL, `files` is writable.
 */
pirn_error_t *pirn_files_open(const char *path, pirn_files_t **files);

/**
 * Another handle to the files, which the caller deletes separately. NULL for NULL.
 *
 * # Safety
 *
 * `files` is a live handle or NULL.
 */
pirn_files_t *pirn_files_clone(const pirn_files_t *files);

/**
 * Frees a handle. The files stay as long as another handle or an instance uses them.
 *
 * # Safety
 *
 * `files` is a live handle, which ends, or NULL.
 */
void pirn_files_delete(pirn_files_t *files);

/**
 * Gives the guest a copy of files in memory, under the path `guest_path`. The guest may change the
 * copy. The changes may take up to `bytes_max` bytes of memory. The changes end with the instance.
 * If `read_only` is not 0, the guest cannot change anything.
 *
 * # Safety
 *
 * `wasi` and `files` are live handles, `guest_path` is a C string.
 */
pirn_error_t *pirn_wasi_memory_dir(pirn_wasi_t *wasi,
                                   const pirn_files_t *files,
                                   const char *guest_path,
                                   uint64_t bytes_max,
                                   int32_t read_only);

/**
 * Gives the guest a directory of the host, under the path `guest_path`. The guest reaches nothing
 * outside the directory. If `read_only` is not 0, the guest cannot change the directory.
 *
 * # Safety
 *
 * `wasi` is a live handle, `host_path` and `guest_path` are C strings.
 */
pirn_error_t *pirn_wasi_preopen_dir(pirn_wasi_t *wasi,
                                    const char *host_path,
                                    const char *guest_path,
                                    int32_t read_only);

/**
 * Makes an instance: takes a slot, and runs the module's start.
 *
 * `data` is any pointer of the embedder's, which host functions get by pirn_caller_data. The
 * library never reads `data`. Keep `data` valid until the instance has ended. An instance that is
 * deleted in its own host function ends when the running call returns.
 *
 * `wasi` is the guest's context of WASI, or NULL for an empty one. The library takes `wasi` over
 * in every case. If all slots are taken, the thread waits for `wait_ns` nanoseconds: not at all
 * for 0, without limit for UINT64_MAX.
 *
 * # Safety
 *
 * `prepared` is a live handle, `wasi` is a live handle, which ends, or NULL. `instance` is
 * writable.
 */
pirn_error_t *pirn_instance_new(const pirn_prepared_t *prepared,
                                void *data,
                                pirn_wasi_t *wasi,
                                uint64_t wait_ns,
                                pirn_instance_t **instance);

/**
 * The `data` of pirn_instance_new or pirn_group_new; NULL for NULL, while another function uses
 * the instance or its group, and after the end of the group.
 *
 * # Safety
 *
 * `instance` is a live handle or NULL.
 */
void *pirn_instance_data(pirn_instance_t *instance);

/**
 * Looks up the exported function `name` of an instance, of any type. The function is for all
 * instances of the same preparation, or for this instance of a group.
 *
 * # Safety
 *
 * `instance` is a live handle, `name` is a C string, `func` is writable.
 */
pirn_error_t *pirn_instance_func(pirn_instance_t *instance, const char *name, pirn_func_t **func);

/**
 * As pirn_instance_func, and checks the function's type, as pirn_prepared_typed does.
 *
 * # Safety
 *
 * `instance` is a live handle, `name` is a C string, `func` is writable. `params` has
 * `params_count` kinds, and `results` has `results_count` kinds.
 */
pirn_error_t *pirn_instance_typed(pirn_instance_t *instance,
                                  const char *name,
                                  const pirn_kind_t *params,
                                  size_t params_count,
                                  const pirn_kind_t *results,
                                  size_t results_count,
                                  pirn_func_t **func);

/**
 * The remaining fuel. Only the functions of the instance's own module use it up.
 * PIRN_ERROR_ARGUMENT if the module was compiled without `aotc --fuel`.
 *
 * # Safety
 *
 * `instance` is a live handle, `fuel` is writable.
 */
pirn_error_t *pirn_instance_fuel(pirn_instance_t *instance, uint64_t *fuel);

/**
 * Sets the remaining fuel. Without fuel the guest traps with PIRN_TRAP_OUT_OF_FUEL.
 *
 * # Safety
 *
 * `instance` is a live handle.
 */
pirn_error_t *pirn_instance_set_fuel(pirn_instance_t *instance, uint64_t fuel);

/**
 * Ends the instance, and makes a module whose instances begin with the state of this instance.
 *
 * The library takes the instance over in every case. The `exports_count` functions named by
 * `exports` made the state and must not run again, so the snapshot does not export them. A
 * snapshot contains all that the guest has read from the host, such as random seeds: see
 * pirn_prepared_call_first. An instance of a group gives no snapshot: PIRN_ERROR_ARGUMENT.
 *
 * # Safety
 *
 * `instance` is a live handle, which ends. `exports` points to `exports_count` C strings. `module`
 * is writable.
 */
pirn_error_t *pirn_instance_snapshot(pirn_instance_t *instance,
                                     const char *const *exports,
                                     size_t exports_count,
                                     pirn_module_t **module);

/**
 * Ends the instance. The slot is reset for the next instance. While a function uses the instance,
 * such as the call in which a host function runs, the instance ends when that function returns. A
 * handle of an instance of a group is freed, and the instance lives as long as its group.
 *
 * # Safety
 *
 * `instance` is a live handle, which ends, or NULL.
 */
void pirn_instance_delete(pirn_instance_t *instance);

/**
 * Calls a function by values.
 *
 * The function must be of the preparation that made the instance, or of an instance of the same
 * group: then it is called in the instance in which it was looked up, and the limits apply to the
 * whole call, in all instances that the call enters. `args` has `args_count` values
 * of its parameter types. The results are written to `results`. `results_count` must be the number
 * of the function's results, and `results` must have room for this number of values. `results` may
 * be the list of the arguments. `limits` may be NULL for no limits.
 *
 * After an error the instance can be called again, unless it was killed. The changes that the
 * guest has made until then stay.
 *
 * # Safety
 *
 * `instance` and `func` are live handles. `args` has `args_count` values, `results` has room for
 * `results_count` values, and `limits` is readable or NULL. The field of each argument that its
 * kind names was written.
 */
pirn_error_t *pirn_instance_call(pirn_instance_t *instance,
                                 const pirn_func_t *func,
                                 const pirn_limits_t *limits,
                                 const pirn_val_t *args,
                                 size_t args_count,
                                 pirn_val_t *results,
                                 size_t results_count);

/**
 * As pirn_instance_call, for the exported function `name`.
 *
 * # Safety
 *
 * As pirn_instance_call, and `name` is a C string.
 */
pirn_error_t *pirn_instance_call_name(pirn_instance_t *instance,
                                      const char *name,
                                      const pirn_limits_t *limits,
                                      const pirn_val_t *args,
                                      size_t args_count,
                                      pirn_val_t *results,
                                      size_t results_count);

/**
 * As pirn_instance_call, for the function that the PIRN_FUNCREF `reference` refers to, in any
 * instance of the group.
 *
 * # Safety
 *
 * As pirn_instance_call.
 */
pirn_error_t *pirn_instance_call_ref(pirn_instance_t *instance,
                                     pirn_val_t reference,
                                     const pirn_limits_t *limits,
                                     const pirn_val_t *args,
                                     size_t args_count,
                                     pirn_val_t *results,
                                     size_t results_count);

/**
 * Calls a function by words: the fast form, for functions over numbers with up to 17 parameters
 * and one result. A call checks only the handles.
 *
 * `args` has a word for each parameter. A 32-bit number is the lower half of its word; the upper
 * half is ignored. A float is passed by its bits. `result` is written if the function has a
 * result; the upper half of a 32-bit number is zero. `result` may be a word of `args`. `limits`
 * may be NULL for no limits. PIRN_ERROR_ARGUMENT if the function has values that are no numbers:
 * use pirn_instance_call. The function must be of this instance of a group.
 *
 * # Safety
 *
 * `instance` and `func` are live handles. `args` has a word for each parameter of the function,
 * and `result` is writable if the function has a result. Look the function up by
 * pirn_prepared_typed or pirn_instance_typed. `limits` is readable or NULL.
 */
pirn_error_t *pirn_instance_call_words(pirn_instance_t *instance,
                                       const pirn_func_t *func,
                                       const pirn_limits_t *limits,
                                       const uint64_t *args,
                                       uint64_t *result);

/**
 * The `data` of pirn_instance_new. NULL if the handle is invalid.
 *
 * # Safety
 *
 * `caller` is the handle that a running host function got, or NULL.
 */
void *pirn_caller_data(const pirn_caller_t *caller);

/**
 * 1 if a kill or a limit has stopped the guest since its call of the host function, otherwise 0. A
 * stopped guest does not continue. A host function that waits should call this regularly. 1 if the
 * handle is invalid.
 *
 * # Safety
 *
 * `caller` is the handle that a running host function got, or NULL.
 */
int32_t pirn_caller_is_stopped(const pirn_caller_t *caller);

/**
 * Calls a function of the guest that waits for this host function, by values. The call is nested:
 * it uses the guest's stack, limits and fuel. The guest cannot be suspended in a nested call.
 *
 * A host function that returns the error of a nested call ends the guest's call with that error.
 *
 * # Safety
 *
 * As pirn_instance_call, and `caller` is the handle that this host function got.
 */
pirn_error_t *pirn_caller_call(pirn_caller_t *caller,
                               const pirn_func_t *func,
                               const pirn_val_t *args,
                               size_t args_count,
                               pirn_val_t *results,
                               size_t results_count);

/**
 * As pirn_caller_call, for the exported function `name`.
 *
 * # Safety
 *
 * As pirn_caller_call, and `name` is a C string.
 */
pirn_error_t *pirn_caller_call_name(pirn_caller_t *caller,
                                    const char *name,
                                    const pirn_val_t *args,
                                    size_t args_count,
                                    pirn_val_t *results,
                                    size_t results_count);

/**
 * As pirn_caller_call, for the function that the PIRN_FUNCREF `reference` refers to: a callback
 * that the guest has passed, for example.
 *
 * # Safety
 *
 * As pirn_caller_call.
 */
pirn_error_t *pirn_caller_call_ref(pirn_caller_t *caller,
                                   pirn_val_t reference,
                                   const pirn_val_t *args,
                                   size_t args_count,
                                   pirn_val_t *results,
                                   size_t results_count);

/**
 * As pirn_caller_call, by words as in pirn_instance_call_words.
 *
 * # Safety
 *
 * As pirn_instance_call_words, and `caller` is the handle that this host function got.
 */
pirn_error_t *pirn_caller_call_words(pirn_caller_t *caller,
                                     const pirn_func_t *func,
                                     const uint64_t *args,
                                     uint64_t *result);

/**
 * The remaining fuel of the calling instance. PIRN_ERROR_ARGUMENT if its module does not count
 * fuel.
 *
 * # Safety
 *
 * `caller` is the handle that this host function got, `fuel` is writable.
 */
pirn_error_t *pirn_caller_fuel(const pirn_caller_t *caller, uint64_t *fuel);

/**
 * Sets the remaining fuel of the calling instance.
 *
 * # Safety
 *
 * `caller` is the handle that this host function got.
 */
pirn_error_t *pirn_caller_set_fuel(pirn_caller_t *caller, uint64_t fuel);

/**
 * The size of a memory in bytes. `memory` is the name of an exported memory, or NULL for memory 0.
 * The size is 0 if there is no memory 0, or if memory 0 is shared. An instance of a group may
 * import memory 0 from another instance.
 *
 * # Safety
 *
 * `instance` is a live handle, `memory` is a C string or NULL, `bytes` is writable.
 */
pirn_error_t *pirn_instance_memory_size(pirn_instance_t *instance,
                                        const char *memory,
                                        uint64_t *bytes);

/**
 * Copies `len` bytes at `address` of a memory to `to`. `memory` is as for
 * pirn_instance_memory_size. PIRN_ERROR_TRAP with PIRN_TRAP_MEMORY_OUT_OF_BOUNDS if not all bytes
 * lie in the memory; then nothing is copied.
 *
 * # Safety
 *
 * `instance` is a live handle, `memory` is a C string or NULL, `to` has room for `len` bytes that
 * belong to no guest.
 */
pirn_error_t *pirn_instance_memory_read(pirn_instance_t *instance,
                                        const char *memory,
                                        uint64_t address,
                                        void *to,
                                        size_t len);

/**
 * Copies `len` bytes from `from` to `address` of a memory. `memory` and the errors are as for
 * pirn_instance_memory_read.
 *
 * # Safety
 *
 * `instance` is a live handle, `memory` is a C string or NULL, `from` has `len` bytes that belong
 * to no guest.
 */
pirn_error_t *pirn_instance_memory_write(pirn_instance_t *instance,
                                         const char *memory,
                                         uint64_t address,
                                         const void *from,
                                         size_t len);

/**
 * Writes a pointer to `len` bytes at `address` of a memory to `bytes`, to read and write them in
 * place. `memory` and the errors are as for pirn_instance_memory_read.
 *
 * # Safety
 *
 * `instance` is a live handle, `memory` is a C string or NULL, `bytes` is writable. The pointer to
 * the bytes is valid until the next call, step, snapshot or end of the instance, on threads that
 * have called a guest; for an instance of a group, until a call, step or end of the group, or the
 * next pirn_group_add. Do not pass the pointer to a function of this library.
 */
pirn_error_t *pirn_instance_memory_slice(pirn_instance_t *instance,
                                         const char *memory,
                                         uint64_t address,
                                         uint64_t len,
                                         uint8_t **bytes);

/**
 * As pirn_instance_memory_size, in a host function.
 *
 * # Safety
 *
 * As pirn_instance_memory_size, and `caller` is the handle that this host function got.
 */
pirn_error_t *pirn_caller_memory_size(pirn_caller_t *caller, const char *memory, uint64_t *bytes);

/**
 * As pirn_instance_memory_read, in a host function. A host function that returns the error makes
 * the guest trap.
 *
 * # Safety
 *
 * As pirn_instance_memory_read, and `caller` is the handle that this host function got.
 */
pirn_error_t *pirn_caller_memory_read(pirn_caller_t *caller,
                                      const char *memory,
                                      uint64_t address,
                                      void *to,
                                      size_t len);

/**
 * As pirn_instance_memory_write, in a host function. A host function that returns the error makes
 * the guest trap.
 *
 * # Safety
 *
 * As pirn_instance_memory_write, and `caller` is the handle that this host function got.
 */
pirn_error_t *pirn_caller_memory_write(pirn_caller_t *caller,
                                       const char *memory,
                                       uint64_t address,
                                       const void *from,
                                       size_t len);

/**
 * As pirn_instance_memory_slice, in a host function. A host function that returns the error makes
 * the guest trap.
 *
 * # Safety
 *
 * As pirn_instance_memory_slice, and `caller` is the handle that this host function got. The
 * pointer to the bytes is valid until the next nested call, or until the host function returns.
 */
pirn_error_t *pirn_caller_memory_slice(pirn_caller_t *caller,
                                       const char *memory,
                                       uint64_t address,
                                       uint64_t len,
                                       uint8_t **bytes);

/**
 * Reads the exported global `name`.
 *
 * # Safety
 *
 * `instance` is a live handle, `name` is a C string, `value` is writable.
 */
pirn_error_t *pirn_instance_global(pirn_instance_t *instance, const char *name, pirn_val_t *value);

/**
 * Sets the exported global `name`, which must be mutable. Other instances of the group that import
 * the global see the new value.
 *
 * # Safety
 *
 * `instance` is a live handle, `name` is a C string. The field of `value` that its kind names was
 * written.
 */
pirn_error_t *pirn_instance_set_global(pirn_instance_t *instance,
                                       const char *name,
                                       pirn_val_t value);

/**
 * Writes the number of elements of the exported table `name` to `elements`.
 *
 * # Safety
 *
 * `instance` is a live handle, `name` is a C string, `elements` is writable.
 */
pirn_error_t *pirn_instance_table_size(pirn_instance_t *instance,
                                       const char *name,
                                       uint64_t *elements);

/**
 * Reads an element of the exported table `name`. PIRN_ERROR_ARGUMENT past the end of the table.
 *
 * # Safety
 *
 * `instance` is a live handle, `name` is a C string, `value` is writable.
 */
pirn_error_t *pirn_instance_table_get(pirn_instance_t *instance,
                                      const char *name,
                                      uint64_t index,
                                      pirn_val_t *value);

/**
 * Sets `count` elements of the exported table `name`, from `index` on. PIRN_ERROR_ARGUMENT past
 * the end of the table, and for a value that the table cannot hold. After an error no element has
 * changed. Other instances of the group that import the table see the changes.
 *
 * # Safety
 *
 * `instance` is a live handle, `name` is a C string. The field of `value` that its kind names was
 * written.
 */
pirn_error_t *pirn_instance_table_fill(pirn_instance_t *instance,
                                       const char *name,
                                       uint64_t index,
                                       pirn_val_t value,
                                       uint64_t count);

/**
 * Adds `delta` elements with this value to the exported table `name`. Writes the previous number
 * of elements to `before` unless `before` is NULL. PIRN_ERROR_ARGUMENT past the maximum of the
 * table's type or of the region, or for a value that the table cannot hold. After an error the
 * table has not grown.
 *
 * # Safety
 *
 * `instance` is a live handle, `name` is a C string, `before` is writable or NULL. The field of
 * `value` that its kind names was written.
 */
pirn_error_t *pirn_instance_table_grow(pirn_instance_t *instance,
                                       const char *name,
                                       uint64_t delta,
                                       pirn_val_t value,
                                       uint64_t *before);

/**
 * Makes a memory of the type that `module` imports by the names `import_module` and `import_name`.
 * All bytes are zero. The memory reserves 4 GiB of address space. PIRN_ERROR_LINK if there is no
 * such import, PIRN_ERROR_ARGUMENT if the import is no shared memory.
 *
 * # Safety
 *
 * `module` is a live handle, `import_module` and `import_name` are C strings, `memory` is
 * writable.
 */
pirn_error_t *pirn_shared_memory_new(const pirn_module_t *module,
                                     const char *import_module,
                                     const char *import_name,
                                     pirn_shared_memory_t **memory);

/**
 * Adds a shared memory, for all instances of modules that are prepared with this linker.
 *
 * # Safety
 *
 * `linker` and `memory` are live handles, `module` and `name` are C strings.
 */
pirn_error_t *pirn_linker_memory(pirn_linker_t *linker,
                                 const char *module,
                                 const char *name,
                                 const pirn_shared_memory_t *memory);

/**
 * A preparation whose instances import `memory` in place of the shared memory that the linker has
 * for `module` and `name`. So the instances of one request can share a memory.
 *
 * # Safety
 *
 * `prepared` and `memory` are live handles, `module` and `name` are C strings, `changed` is
 * writable.
 */
pirn_error_t *pirn_prepared_with_memory(const pirn_prepared_t *prepared,
                                        const char *module,
                                        const char *name,
                                        const pirn_shared_memory_t *memory,
                                        pirn_prepared_t **changed);

/**
 * The size in bytes; 0 for NULL. A guest may grow the memory during this call. Memories never
 * shrink.
 *
 * # Safety
 *
 * `memory` is a live handle or NULL.
 */
uint64_t pirn_shared_memory_size(const pirn_shared_memory_t *memory);

/**
 * Grows the memory by `pages` pages of its type. Writes the previous number of pages to `before`
 * unless `before` is NULL. PIRN_ERROR_ARGUMENT past the maximum of the memory's type.
 *
 * # Safety
 *
 * `memory` is a live handle, `before` is writable or NULL.
 */
pirn_error_t *pirn_shared_memory_grow(const pirn_shared_memory_t *memory,
                                      uint64_t pages,
                                      uint64_t *before);

/**
 * Copies `len` bytes at `address` to `bytes`. Guests may write during the copy, so the bytes may
 * be from different times. PIRN_ERROR_TRAP past the end.
 *
 * # Safety
 *
 * `memory` is a live handle, `bytes` has room for `len` bytes.
 */
pirn_error_t *pirn_shared_memory_read(const pirn_shared_memory_t *memory,
                                      uint64_t address,
                                      void *bytes,
                                      size_t len);

/**
 * Copies `len` bytes to `address`, in any order. PIRN_ERROR_TRAP past the end; then no byte is
 * written.
 *
 * # Safety
 *
 * `memory` is a live handle, `bytes` points to `len` readable bytes.
 */
pirn_error_t *pirn_shared_memory_write(const pirn_shared_memory_t *memory,
                                       uint64_t address,
                                       const void *bytes,
                                       size_t len);

/**
 * Wakes at most `count` guests that wait at an address by `memory.atomic.wait`. Writes the number
 * of woken guests to `woken` unless `woken` is NULL. PIRN_ERROR_TRAP if the address is no multiple
 * of 4, or past the end.
 *
 * # Safety
 *
 * `memory` is a live handle, `woken` is writable or NULL.
 */
pirn_error_t *pirn_shared_memory_notify(const pirn_shared_memory_t *memory,
                                        uint64_t address,
                                        uint32_t count,
                                        uint32_t *woken);

/**
 * Another handle to the memory, which the caller deletes separately. NULL for NULL.
 *
 * # Safety
 *
 * `memory` is a live handle or NULL.
 */
pirn_shared_memory_t *pirn_shared_memory_clone(const pirn_shared_memory_t *memory);

/**
 * Frees a handle. The memory stays as long as another handle, a linker, a preparation or an
 * instance has it.
 *
 * # Safety
 *
 * `memory` is a live handle, which ends, or NULL.
 */
void pirn_shared_memory_delete(pirn_shared_memory_t *memory);

/**
 * Starts a call of a function by words that can be suspended: by its time slice, or by a function
 * of pirn_linker_ask.
 *
 * The first step is written to `step`. Until the call has returned or failed, the instance makes
 * no other call. The embedder can read and write the instance's memory, move the instance to
 * another thread, and delete it. A call of an instance of a group suspends the group. `limits`
 * apply to this step; NULL for no limits. `args` are as for pirn_instance_call_words. After an
 * error the call has ended. An error about the arguments or the state changes nothing.
 *
 * # Safety
 *
 * As pirn_instance_call_words, and `step` is writable.
 */
pirn_error_t *pirn_instance_start(pirn_instance_t *instance,
                                  const pirn_func_t *func,
                                  const pirn_limits_t *limits,
                                  const uint64_t *args,
                                  pirn_step_t *step);

/**
 * Resumes a call that was preempted. `func` is the function that the call was started with.
 * PIRN_ERROR_STATE, without any change, if no call of this function was preempted.
 *
 * # Safety
 *
 * `instance` and `func` are live handles, `limits` is readable or NULL, `step` is writable.
 */
pirn_error_t *pirn_instance_resume(pirn_instance_t *instance,
                                   const pirn_func_t *func,
                                   const pirn_limits_t *limits,
                                   pirn_step_t *step);

/**
 * Resumes a call whose guest has asked: the function of pirn_linker_ask returns `answer`, which is
 * ignored if the function has no result. PIRN_ERROR_STATE, without any change, if no call of this
 * function has asked.
 *
 * # Safety
 *
 * As pirn_instance_resume.
 */
pirn_error_t *pirn_instance_answer(pirn_instance_t *instance,
                                   const pirn_func_t *func,
                                   const pirn_limits_t *limits,
                                   uint64_t answer,
                                   pirn_step_t *step);

/**
 * Ends a call whose guest has asked: the function of pirn_linker_ask fails with `failure`, as a
 * host function that returns `failure`. The library takes `failure` over in every case. Returns
 * the error of the call. If `failure` is of pirn_error_new, the error has the kind, message and
 * user of `failure`.
 *
 * # Safety
 *
 * `instance` and `func` are live handles, `failure` is a live error, which ends.
 */
pirn_error_t *pirn_instance_answer_error(pirn_instance_t *instance,
                                         const pirn_func_t *func,
                                         pirn_error_t *failure);

/**
 * Whether a call of the instance, or of its group, is suspended: 1 or 0. 0 for NULL, while another
 * function uses the instance or its group, and after the end of the group.
 *
 * # Safety
 *
 * `instance` is a live handle or NULL.
 */
int32_t pirn_instance_is_suspended(pirn_instance_t *instance);

/**
 * Ends the suspended call, if there is one. The guest's changes stay, as after a deadline.
 *
 * # Safety
 *
 * `instance` is a live handle.
 */
pirn_error_t *pirn_instance_cancel(pirn_instance_t *instance);

/**
 * Makes a switch that ends the guest's calls from any thread, until the instance is deleted. For
 * an instance of a group, the function makes the same switch as pirn_group_kill_switch. That
 * switch ends the calls of all instances of the group, until the group is deleted. Make the switch
 * before the call: while a function uses the instance, pirn_instance_kill_switch returns
 * PIRN_ERROR_BUSY. No switch reaches the module's start in pirn_instance_new;
 * pirn_prepared_start_deadline limits the start.
 *
 * # Safety
 *
 * `instance` is a live handle, `kill_switch` is writable.
 */
pirn_error_t *pirn_instance_kill_switch(pirn_instance_t *instance,
                                        pirn_kill_switch_t **kill_switch);

/**
 * Ends the guest and every later call of its instance with PIRN_ERROR_KILLED. Does not wait for
 * the guest to end. Unless `outcome` is NULL, writes the previous state of the instance to it: one
 * of PIRN_KILL_IDLE to PIRN_KILL_HOST. PIRN_ERROR_STATE if the instance was deleted or killed
 * before.
 *
 * # Safety
 *
 * `kill_switch` is a live handle, `outcome` is writable or NULL.
 */
pirn_error_t *pirn_kill_switch_kill(const pirn_kill_switch_t *kill_switch, uint32_t *outcome);

/**
 * Ends the time slice of the running call: the call is suspended at its current instruction.
 * Returns 1 if a call with a time slice was running, otherwise 0. Does not wait for the
 * suspension.
 *
 * # Safety
 *
 * `kill_switch` is a live handle or NULL.
 */
int32_t pirn_kill_switch_preempt(const pirn_kill_switch_t *kill_switch);

/**
 * Whether a call of the instance is running: 1 or 0. 0 for NULL.
 *
 * # Safety
 *
 * `kill_switch` is a live handle or NULL.
 */
int32_t pirn_kill_switch_is_running(const pirn_kill_switch_t *kill_switch);

/**
 * Another handle to the switch, which the caller deletes separately. NULL for NULL.
 *
 * # Safety
 *
 * `kill_switch` is a live handle or NULL.
 */
pirn_kill_switch_t *pirn_kill_switch_clone(const pirn_kill_switch_t *kill_switch);

/**
 * Frees a handle. The instance stays as it is.
 *
 * # Safety
 *
 * `kill_switch` is a live handle, which ends, or NULL.
 */
void pirn_kill_switch_delete(pirn_kill_switch_t *kill_switch);

/**
 * Makes a group without instances, which will take slots of `region`.
 *
 * `data` and `wasi` are as for pirn_instance_new, and all instances of the group share both. The
 * library takes `wasi` over in every case. Keep `data` valid until the group has ended.
 *
 * # Safety
 *
 * `region` is a live handle, `wasi` is a live handle, which ends, or NULL. `group` is writable.
 */
pirn_error_t *pirn_group_new(const pirn_region_t *region,
                             void *data,
                             pirn_wasi_t *wasi,
                             pirn_group_t **group);

/**
 * Adds an instance: takes a slot, and runs the module's start. Writes the instance's number to
 * `member`.
 *
 * Each import is looked up by its module name among the instances with a name (pirn_group_name),
 * and then in the linker. So a module can import functions, memories, tables, globals and tags of
 * earlier instances. PIRN_ERROR_FULL if all slots are taken.
 *
 * If the start of the instance fails, the instance keeps its slot until the group ends, because
 * other instances may already refer to it.
 *
 * # Safety
 *
 * `group`, `module` and `linker` are live handles, `member` is writable.
 */
pirn_error_t *pirn_group_add(pirn_group_t *group,
                             const pirn_module_t *module,
                             const pirn_linker_t *linker,
                             pirn_member_t *member);

/**
 * Makes the exports of an instance importable under the module name `name`, for instances that are
 * added later. It replaces an earlier instance of that name.
 *
 * # Safety
 *
 * `group` is a live handle, `name` is a C string.
 */
pirn_error_t *pirn_group_name(pirn_group_t *group, const char *name, pirn_member_t member);

/**
 * Writes the number of the instance with the module name `name` to `member`. PIRN_ERROR_LINK if
 * there is no such instance.
 *
 * # Safety
 *
 * `group` is a live handle, `name` is a C string, `member` is writable.
 */
pirn_error_t *pirn_group_named(pirn_group_t *group, const char *name, pirn_member_t *member);

/**
 * Makes a handle of an instance of the group, for the functions whose names begin with
 * pirn_instance. The caller deletes the handle by pirn_instance_delete, which ends no instance.
 *
 * The instances share the exclusive use of the group: while a function uses one of them, the
 * functions of all return PIRN_ERROR_BUSY. They also share data, limits, kill switches and the
 * suspended call. The handle may outlive the group: after pirn_group_delete its functions return
 * PIRN_ERROR_STATE.
 *
 * # Safety
 *
 * `group` is a live handle, `instance` is writable.
 */
pirn_error_t *pirn_group_member(pirn_group_t *group,
                                pirn_member_t member,
                                pirn_instance_t **instance);

/**
 * The `data` of pirn_group_new; NULL for NULL, and while another function uses the group.
 *
 * # Safety
 *
 * `group` is a live handle or NULL.
 */
void *pirn_group_data(pirn_group_t *group);

/**
 * Sets the fuel with which instances begin that are added from now on, if their modules count
 * fuel. Without this function, instances begin with UINT64_MAX.
 *
 * # Safety
 *
 * `group` is a live handle.
 */
pirn_error_t *pirn_group_start_fuel(pirn_group_t *group, uint64_t fuel);

/**
 * Makes a switch that ends the calls of all instances of the group from any thread, and the starts
 * of instances that are added later. PIRN_ERROR_BUSY is as for pirn_instance_kill_switch.
 *
 * # Safety
 *
 * `group` is a live handle, `kill_switch` is writable.
 */
pirn_error_t *pirn_group_kill_switch(pirn_group_t *group, pirn_kill_switch_t **kill_switch);

/**
 * Ends the group and all its instances. Their slots are reset for others. While a function uses
 * the group, such as the call in which a host function runs, the group ends when that function
 * returns. Handles of the instances stay, to be deleted.
 *
 * # Safety
 *
 * `group` is a live handle, which ends, or NULL.
 */
void pirn_group_delete(pirn_group_t *group);

/**
 * The value. NULL for NULL.
 *
 * # Safety
 *
 * `owned` is a live handle or NULL. The returned value, with its lists and texts, is valid until
 * `owned` is deleted.
 */
const pirn_component_value_t *pirn_component_owned_value(const pirn_component_owned_t *owned);

/**
 * Frees a value, with its lists and texts. The resources in the value stay: end a resource of the
 * component by pirn_component_instance_drop_resource.
 *
 * # Safety
 *
 * `owned` is a live handle, which ends, or NULL.
 */
void pirn_component_owned_delete(pirn_component_owned_t *owned);

/**
 * The component that a module was compiled from. PIRN_ERROR_LINK if it was compiled from a core
 * module. The component copies what it needs from the module, so the module may be deleted.
 *
 * # Safety
 *
 * `module` is a live handle, `component` is writable.
 */
pirn_error_t *pirn_component_new(const pirn_module_t *module, pirn_component_t **component);

/**
 * Writes imported function `index` of the component to `import`. Returns 1, or 0 without a write
 * if there is no such function or if a pointer is NULL.
 *
 * # Safety
 *
 * `component` is a live handle or NULL, `import` is writable or NULL.
 */
int32_t pirn_component_import(const pirn_component_t *component,
                              size_t index,
                              pirn_component_extern_t *import);

/**
 * Writes exported function `index` of the component to `exported`. Returns 1, or 0 without a write
 * if there is no such function or if a pointer is NULL.
 *
 * # Safety
 *
 * `component` is a live handle or NULL, `exported` is writable or NULL.
 */
int32_t pirn_component_export(const pirn_component_t *component,
                              size_t index,
                              pirn_component_extern_t *exported);

/**
 * Frees a handle. Preparations keep what they need.
 *
 * # Safety
 *
 * `component` is a live handle, which ends, or NULL.
 */
void pirn_component_delete(pirn_component_t *component);

/**
 * The `data` of pirn_component_instance_new. NULL for NULL, and outside the host function.
 *
 * # Safety
 *
 * `caller` is the handle that this host function got, or NULL.
 */
void *pirn_component_caller_data(const pirn_component_caller_t *caller);

/**
 * Sets the result of a host function. `value` is copied, so it may be on the stack of the
 * function. A later call replaces the result of an earlier one. A function without a result does
 * not call this. The type of the result is checked when the host function has returned.
 *
 * # Safety
 *
 * `caller` is the handle that this host function got. `value` points to a value that is as
 * pirn_component_value_t says.
 */
pirn_error_t *pirn_component_caller_return(const pirn_component_caller_t *caller,
                                           const pirn_component_value_t *value);

/**
 * Makes an empty linker for components. NULL only if the library panics.
 */
pirn_component_linker_t *pirn_component_linker_new(void);

/**
 * Adds a host function. Interface and function have their names in WIT: `wasi:io/streams@0.2.0`
 * and `[method]output-stream.write`. An empty `interface` is for functions that a component
 * imports outside an interface. A definition also matches an import of a compatible version. A
 * definition matches any function type; each call compares the result with the type of the import.
 *
 * `func` gets `env` at each call. The library takes `env` over as pirn_linker_func does.
 *
 * # Safety
 *
 * `linker` is a live handle. `interface` and `name` are C strings. `func` and `env_delete` can be
 * called with `env` as their types say.
 */
pirn_error_t *pirn_component_linker_func(pirn_component_linker_t *linker,
                                         const char *interface,
                                         const char *name,
                                         pirn_component_host_t func,
                                         void *env,
                                         pirn_env_delete_t env_delete);

/**
 * Adds a resource type. `dropped` runs when a component drops an owned handle of this type; it may
 * be NULL. The library takes `env` over as pirn_linker_func does.
 *
 * # Safety
 *
 * `linker` is a live handle. `interface` and `name` are C strings. `dropped` and `env_delete` can
 * be called with `env` as their types say.
 */
pirn_error_t *pirn_component_linker_resource(pirn_component_linker_t *linker,
                                             const char *interface,
                                             const char *name,
                                             pirn_component_drop_t dropped,
                                             void *env,
                                             pirn_env_delete_t env_delete);

/**
 * Adds the interfaces of WASI 0.2 for commands: `wasi:cli`, `wasi:io`, `wasi:clocks`,
 * `wasi:random`, `wasi:filesystem` and `wasi:sockets`. Each instance has the context that
 * pirn_component_instance_new got, or an empty one.
 *
 * A thread of the library waits for timers, pipes and sockets of these instances, as long as the
 * linker, its preparations or their instances exist. In a child of fork(2) that thread is missing:
 * make a new linker there.
 *
 * # Safety
 *
 * `linker` is a live handle.
 */
pirn_error_t *pirn_component_linker_wasi(pirn_component_linker_t *linker);

/**
 * Limits the memory that the host keeps for one instance of a component: 128 MiB by default. A
 * value counts while the library reads or writes it: 32 bytes, and the bytes of its text. Handles
 * and the resources of WASI count, too.
 *
 * # Safety
 *
 * `linker` is a live handle.
 */
pirn_error_t *pirn_component_linker_host_bytes_max(pirn_component_linker_t *linker, size_t bytes);

/**
 * Frees a linker. Preparations keep the functions that they need.
 *
 * # Safety
 *
 * `linker` is a live handle, which ends, or NULL.
 */
void pirn_component_linker_delete(pirn_component_linker_t *linker);

/**
 * Links a component to the host, and checks that it fits into a slot. The preparation copies what
 * it needs, so the other handles may be deleted. A component of several core modules needs a
 * region with several memories: see PIRN_REGION_MEMORIES.
 *
 * # Safety
 *
 * `region`, `component` and `linker` are live handles, `prepared` is writable.
 */
pirn_error_t *pirn_region_prepare_component(const pirn_region_t *region,
                                            const pirn_component_t *component,
                                            const pirn_component_linker_t *linker,
                                            pirn_component_prepared_t **prepared);

/**
 * A preparation whose instances may take at most `limit_ns` nanoseconds of wall time for their
 * start.
 *
 * # Safety
 *
 * `prepared` is a live handle, `changed` is writable.
 */
pirn_error_t *pirn_component_prepared_start_deadline(const pirn_component_prepared_t *prepared,
                                                     uint64_t limit_ns,
                                                     pirn_component_prepared_t **changed);

/**
 * A preparation whose instances begin with `fuel` units of fuel. PIRN_ERROR_ARGUMENT if the
 * component was compiled without `aotc --fuel`.
 *
 * # Safety
 *
 * `prepared` is a live handle, `changed` is writable.
 */
pirn_error_t *pirn_component_prepared_start_fuel(const pirn_component_prepared_t *prepared,
                                                 uint64_t fuel,
                                                 pirn_component_prepared_t **changed);

/**
 * Looks up the exported function `name`, such as `add`, or `wasi:cli/run@0.2.0#run` for a function
 * of an interface. If the component exports a compatible version of the interface instead, finds
 * the function of that version.
 *
 * # Safety
 *
 * `prepared` is a live handle, `name` is a C string, `func` is writable.
 */
pirn_error_t *pirn_component_prepared_func(const pirn_component_prepared_t *prepared,
                                           const char *name,
                                           pirn_component_func_t **func);

/**
 * The type of a function in words, such as `func(a: u32) -> string`. Valid as long as `func`. An
 * empty text for NULL.
 *
 * # Safety
 *
 * `func` is a live handle or NULL.
 */
const char *pirn_component_func_type(const pirn_component_func_t *func);

/**
 * Frees a function.
 *
 * # Safety
 *
 * `func` is a live handle, which ends, or NULL.
 */
void pirn_component_func_delete(pirn_component_func_t *func);

/**
 * Another handle to the preparation, which the caller deletes separately. NULL for NULL.
 *
 * # Safety
 *
 * `prepared` is a live handle or NULL.
 */
pirn_component_prepared_t *pirn_component_prepared_clone(const pirn_component_prepared_t *prepared);

/**
 * Frees a handle. Instances keep what they need.
 *
 * # Safety
 *
 * `prepared` is a live handle, which ends, or NULL.
 */
void pirn_component_prepared_delete(pirn_component_prepared_t *prepared);

/**
 * Makes an empty context. NULL only if the library panics.
 */
pirn_wasi2_t *pirn_wasi2_new(void);

/**
 * Adds an argument, UTF-8. The first argument is the name of the program.
 *
 * # Safety
 *
 * `wasi` is a live handle, `argument` is a C string.
 */
pirn_error_t *pirn_wasi2_arg(pirn_wasi2_t *wasi, const char *argument);

/**
 * Adds an environment variable, UTF-8.
 *
 * # Safety
 *
 * `wasi` is a live handle, `name` and `value` are C strings.
 */
pirn_error_t *pirn_wasi2_env(pirn_wasi2_t *wasi, const char *name, const char *value);

/**
 * Gives the guest the three standard streams of this process.
 *
 * # Safety
 *
 * `wasi` is a live handle.
 */
pirn_error_t *pirn_wasi2_inherit_stdio(pirn_wasi2_t *wasi);

/**
 * Gives the guest a copy of these bytes as its standard input.
 *
 * # Safety
 *
 * `wasi` is a live handle, `bytes` points to `len` readable bytes.
 */
pirn_error_t *pirn_wasi2_stdin_bytes(pirn_wasi2_t *wasi, const uint8_t *bytes, size_t len);

/**
 * Keeps the guest's output to stream PIRN_STDOUT or PIRN_STDERR in memory, at most `bytes_max`
 * bytes. Writes past the limit fail in the guest as on a full disk. The caller owns the capture,
 * which may outlive the instance.
 *
 * # Safety
 *
 * `wasi` is a live handle, `capture` is writable.
 */
pirn_error_t *pirn_wasi2_capture(pirn_wasi2_t *wasi,
                                 uint32_t stream,
                                 size_t bytes_max,
                                 pirn_capture_t **capture);

/**
 * Gives the guest a directory of the host, under the path `guest_path`. The guest reaches nothing
 * outside the directory. If `read_only` is not 0, the guest cannot change the directory.
 *
 * # Safety
 *
 * `wasi` is a live handle, `host_path` and `guest_path` are C strings.
 */
pirn_error_t *pirn_wasi2_preopen_dir(pirn_wasi2_t *wasi,
                                     const char *host_path,
                                     const char *guest_path,
                                     int32_t read_only);

/**
 * Gives the guest a copy of files in memory, under the path `guest_path`. The guest may change the
 * copy. The changes may take up to `bytes_max` bytes of memory. The changes end with the instance.
 *
 * # Safety
 *
 * `wasi` and `files` are live handles, `guest_path` is a C string.
 */
pirn_error_t *pirn_wasi2_memory_dir(pirn_wasi2_t *wasi,
                                    const pirn_files_t *files,
                                    const char *guest_path,
                                    uint64_t bytes_max);

/**
 * Limits the files and directories that the guest has open at the same time. 64 by default.
 *
 * # Safety
 *
 * `wasi` is a live handle.
 */
pirn_error_t *pirn_wasi2_descriptors_max(pirn_wasi2_t *wasi, uint32_t descriptors);

/**
 * Limits the bytes that the guest may write to host files that it opens itself. There is no limit
 * by default.
 *
 * # Safety
 *
 * `wasi` is a live handle.
 */
pirn_error_t *pirn_wasi2_disk_bytes_max(pirn_wasi2_t *wasi, uint64_t bytes);

/**
 * Frees a context that was not passed to pirn_component_instance_new, which takes its context
 * over.
 *
 * # Safety
 *
 * `wasi` is a live handle, which ends, or NULL.
 */
void pirn_wasi2_delete(pirn_wasi2_t *wasi);

/**
 * Makes an instance of a component: takes a slot, and runs the start of its core modules.
 *
 * `data` is any pointer of the embedder's, which host functions get by pirn_component_caller_data.
 * The library never reads `data`. Keep `data` valid until the instance has ended.
 *
 * `wasi` is the guest's context of WASI 0.2, or NULL for an empty one. The library takes `wasi`
 * over in every case. If all slots are taken, the thread waits for `wait_ns` nanoseconds: not at
 * all for 0, without limit for UINT64_MAX.
 *
 * # Safety
 *
 * `prepared` is a live handle, `wasi` is a live handle, which ends, or NULL. `instance` is
 * writable.
 */
pirn_error_t *pirn_component_instance_new(const pirn_component_prepared_t *prepared,
                                          void *data,
                                          pirn_wasi2_t *wasi,
                                          uint64_t wait_ns,
                                          pirn_component_instance_t **instance);

/**
 * Calls a function with `args_count` values. Writes the result to `result`, or NULL if the
 * function has no result. The caller owns the result. `result` may be NULL to drop the result.
 *
 * After `deadline_ns` nanoseconds of wall time the call ends with PIRN_ERROR_DEADLINE; 0 is no
 * limit. With WASI, the thread sleeps while the guest waits for time, a pipe or a socket.
 *
 * Values of other types, or another number of values, are PIRN_ERROR_ARGUMENT, and the instance
 * stays as it was. After any other error the instance cannot be called again: PIRN_ERROR_STATE.
 *
 * # Safety
 *
 * `instance` and `func` are live handles. `args` points to `args_count` values that are as
 * pirn_component_value_t says. `result` is writable or NULL.
 */
pirn_error_t *pirn_component_instance_call(pirn_component_instance_t *instance,
                                           const pirn_component_func_t *func,
                                           uint64_t deadline_ns,
                                           const pirn_component_value_t *args,
                                           size_t args_count,
                                           pirn_component_owned_t **result);

/**
 * As pirn_component_instance_call, for the exported function `name`, which is looked up at each
 * call.
 *
 * # Safety
 *
 * As pirn_component_instance_call, and `name` is a C string.
 */
pirn_error_t *pirn_component_instance_call_name(pirn_component_instance_t *instance,
                                                const char *name,
                                                uint64_t deadline_ns,
                                                const pirn_component_value_t *args,
                                                size_t args_count,
                                                pirn_component_owned_t **result);

/**
 * Runs a command: calls `wasi:cli/run`, and writes its exit code to `code`. The code is 0 if the
 * command succeeded, 1 if it failed, or the number that it gave to `exit`. pirn_wasi2_arg sets the
 * arguments of the command. The instance of a command that called `exit` cannot be called again.
 * PIRN_ERROR_LINK if the component is no command.
 *
 * # Safety
 *
 * `instance` is a live handle, `code` is writable.
 */
pirn_error_t *pirn_component_instance_run(pirn_component_instance_t *instance,
                                          uint64_t deadline_ns,
                                          uint32_t *code);

/**
 * Drops a resource that the component defines, and that the embedder got as PIRN_COMPONENT_OWN:
 * calls the resource's destructor in the guest, if there is one. Nothing happens for another
 * resource, or for a resource that the embedder no longer owns.
 *
 * # Safety
 *
 * `instance` is a live handle.
 */
pirn_error_t *pirn_component_instance_drop_resource(pirn_component_instance_t *instance,
                                                    uint64_t deadline_ns,
                                                    pirn_component_resource_t resource);

/**
 * Makes a switch that ends the component's calls from any thread, until the instance is deleted:
 * see pirn_instance_kill_switch.
 *
 * # Safety
 *
 * `instance` is a live handle, `kill_switch` is writable.
 */
pirn_error_t *pirn_component_instance_kill_switch(pirn_component_instance_t *instance,
                                                  pirn_kill_switch_t **kill_switch);

/**
 * The remaining fuel. PIRN_ERROR_ARGUMENT if the component was compiled without `aotc --fuel`.
 *
 * # Safety
 *
 * `instance` is a live handle, `fuel` is writable.
 */
pirn_error_t *pirn_component_instance_fuel(pirn_component_instance_t *instance, uint64_t *fuel);

/**
 * The `data` of pirn_component_instance_new; NULL for NULL, and while another function uses the
 * instance.
 *
 * # Safety
 *
 * `instance` is a live handle or NULL.
 */
void *pirn_component_instance_data(pirn_component_instance_t *instance);

/**
 * Ends the instance, with its resources. Its slot is reset for the next instance. While a function
 * uses the instance, the instance ends when that function returns.
 *
 * # Safety
 *
 * `instance` is a live handle, which ends, or NULL.
 */
void pirn_component_instance_delete(pirn_component_instance_t *instance);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PIRN_H */

/* Makes each object file refer to the symbol of this version: see pirn_abi_2. */
#if defined(__GNUC__) && !defined(PIRN_NO_ABI_REFERENCE)
#define PIRN_NO_ABI_REFERENCE
static const uint32_t *const pirn_abi_reference __attribute__((used)) = &pirn_abi_2;
#endif
