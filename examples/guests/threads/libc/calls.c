/* The functions of a kernel that musl's threads need: futexes by the atomic instructions, clocks,
 * and memory for stacks. */
#include "pthread_impl.h"
#include <errno.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#undef __syscall_cp

static long futex(volatile int *word, int operation, int value, const long long *timeout) {
    switch (operation & ~FUTEX_PRIVATE) {
    case FUTEX_WAIT: {
        long long ns = -1; /* for ever */
        if (timeout && __builtin_mul_overflow(timeout[0], 1000000000LL, &ns)) ns = -1;
        else if (timeout && __builtin_add_overflow(ns, timeout[1], &ns)) ns = -1;
        switch (__builtin_wasm_memory_atomic_wait32((int *)word, value, ns)) {
        case 0: return 0;
        case 1: return -EAGAIN;
        default: return -ETIMEDOUT;
        }
    }
    case FUTEX_WAKE: return __builtin_wasm_memory_atomic_notify((int *)word, value);
    /* WebAssembly cannot move a waiter to another word. A woken waiter waits there by itself. */
    case FUTEX_REQUEUE: return __builtin_wasm_memory_atomic_notify((int *)word, 1);
    default: return -ENOSYS;
    }
}

long __thread_call(long number, long a, long b, long c, long d) {
    if (number != SYS_futex) return -ENOSYS;
    return futex((volatile int *)a, (int)b, (int)c, (const long long *)d);
}

long __syscall_cp(syscall_arg_t n, syscall_arg_t a, syscall_arg_t b, syscall_arg_t c,
                  syscall_arg_t d, syscall_arg_t e, syscall_arg_t f) {
    return __thread_call(n, a, b, c, d);
}

/* musl numbers clocks; WASI's headers have a pointer for each. Both forms come here. */
int __thread_clock_gettime(clockid_t clock, struct timespec *now) {
    if ((long)clock == 0) clock = CLOCK_REALTIME;
    if ((long)clock == 1) clock = CLOCK_MONOTONIC;
    return clock_gettime(clock, now);
}

int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return EINVAL;
    attributes->__attr = (attributes->__attr & 0x80000000) | (clock == CLOCK_MONOTONIC);
    return 0;
}

int thrd_sleep(const struct timespec *time, struct timespec *left) {
    return -clock_nanosleep(CLOCK_REALTIME, 0, time, left);
}

/* Stacks come from `malloc`: `pthread_join` returns them by this function. */
int __munmap(void *start, size_t length) {
    free(start);
    return 0;
}

/* There are no signals. */
int __block_app_sigs(void *set) { return 0; }
int __restore_sigs(void *set) { return 0; }
