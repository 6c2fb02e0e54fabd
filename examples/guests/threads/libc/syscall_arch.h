/* The system calls that musl's thread functions make. Only futexes exist here; `__thread_call`
 * answers ENOSYS to the others, as a Linux kernel without them would. */
#define SYS_futex 1
#define SYS_futex_time64 1 /* each timeout has 64 bits */
#define SYS_get_robust_list 2
#define SYS_set_robust_list 3
#define SYS_membarrier 4

long __thread_call(long number, long a, long b, long c, long d);

static inline long __syscall2(long n, long a, long b) { return __thread_call(n, a, b, 0, 0); }
static inline long __syscall3(long n, long a, long b, long c) {
    return __thread_call(n, a, b, c, 0);
}
static inline long __syscall4(long n, long a, long b, long c, long d) {
    return __thread_call(n, a, b, c, d);
}
static inline long __syscall5(long n, long a, long b, long c, long d, long e) {
    return __thread_call(n, a, b, c, d);
}
