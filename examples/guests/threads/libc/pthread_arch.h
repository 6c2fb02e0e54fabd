/* The pointer to a thread's own record. Takes the place of musl's `arch/wasm32/pthread_arch.h`,
 * which refuses threads. */
#include <stdint.h>

extern _Thread_local struct __pthread *__thread_self;

static inline uintptr_t __get_tp(void) { return (uintptr_t)__thread_self; }

#define tls_mod_off_t unsigned long long
