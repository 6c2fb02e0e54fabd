/* Atomic operations, by the compiler's builtins. Takes the place of musl's
 * `arch/wasm32/atomic_arch.h`, which refuses threads. */
#define a_barrier() __sync_synchronize()
#define a_cas(p, t, s) __sync_val_compare_and_swap((p), (t), (s))
#define a_swap(p, v) __atomic_exchange_n((volatile int *)(p), (v), __ATOMIC_SEQ_CST)
#define a_fetch_add(p, v) __atomic_fetch_add((volatile int *)(p), (v), __ATOMIC_SEQ_CST)
#define a_store(p, v) __atomic_store_n((volatile int *)(p), (v), __ATOMIC_SEQ_CST)
#define a_crash() __builtin_trap()
#define a_clz_32 __builtin_clz
#define a_clz_64 __builtin_clzll
#define a_ctz_32 __builtin_ctz
#define a_ctz_64 __builtin_ctzll
