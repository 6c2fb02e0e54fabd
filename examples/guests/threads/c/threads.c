// A test of each part of pthreads, under many threads. `threads NAME [THREADS]` runs the test NAME;
// it prints "NAME ok", or one line about the first thing that is wrong.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64, ROUNDS = 200 };
static long threads = THREADS_MAX;

static void check_at(int holds, const char *what, int line) {
    if (holds) return;
    printf("line %d: not so: %s\n", line, what);
    exit(1);
}
#define check(condition) check_at(!!(condition), #condition, __LINE__)

// Runs `run(0)` to `run(threads - 1)`, each on a thread, and joins them all.
static void together(void *(*run)(void *)) {
    pthread_t all[THREADS_MAX];
    for (long i = 0; i < threads; i++) check(pthread_create(&all[i], 0, run, (void *)i) == 0);
    for (long i = 0; i < threads; i++) {
        void *result;
        check(pthread_join(all[i], &result) == 0);
        check((long)result == i);
    }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long plain, turn;
static atomic_long counted;

static void *adds(void *index) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        plain++;
        pthread_mutex_unlock(&mutex);
    }
    return index;
}

static void test_mutex(void) {
    together(adds);
    check(plain == threads * ROUNDS);
    pthread_mutexattr_t kind;
    pthread_mutex_t checked, recursive;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &kind);
    check(pthread_mutex_lock(&checked) == 0);
    check(pthread_mutex_lock(&checked) == EDEADLK);
    check(pthread_mutex_trylock(&checked) == EBUSY);
    check(pthread_mutex_unlock(&checked) == 0);
    check(pthread_mutex_unlock(&checked) == EPERM);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    check(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
    check(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
}

// Threads take turns, in order, by one condition variable.
static void *waits_for_turn(void *index) {
    for (long i = 0; i < 4; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % threads != (long)index) pthread_cond_wait(&changed, &mutex);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return index;
}

static void test_cond(void) {
    together(waits_for_turn);
    check(turn == threads * 4);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 2000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&mutex);
    check(pthread_cond_timedwait(&changed, &mutex, &until) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    pthread_condattr_t attributes;
    pthread_cond_t steady;
    pthread_condattr_init(&attributes);
    check(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    pthread_cond_init(&steady, &attributes);
    clock_gettime(CLOCK_MONOTONIC, &until);
    pthread_mutex_lock(&mutex);
    check(pthread_cond_timedwait(&steady, &mutex, &until) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
}

// One signal wakes one waiter: as many signals as threads release all.
static long allowed;
static void *takes_one(void *index) {
    pthread_mutex_lock(&mutex);
    while (!allowed) pthread_cond_wait(&changed, &mutex);
    allowed--;
    pthread_mutex_unlock(&mutex);
    return index;
}

static void *gives_all(void *none) {
    for (long i = 0; i < threads; i++) {
        pthread_mutex_lock(&mutex);
        allowed++;
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&changed);
    }
    return none;
}

static void test_signal(void) {
    threads--;
    pthread_t giver;
    check(pthread_create(&giver, 0, gives_all, 0) == 0);
    together(takes_one);
    check(pthread_join(giver, 0) == 0);
    check(allowed == 0);
}

static pthread_barrier_t barrier;
static void *meets(void *index) {
    for (long i = 1; i <= 20; i++) {
        counted++;
        int met = pthread_barrier_wait(&barrier);
        check(met == 0 || met == PTHREAD_BARRIER_SERIAL_THREAD);
        check(counted == i * threads);
        if (met) plain++;
        pthread_barrier_wait(&barrier);
    }
    return index;
}

static void test_barrier(void) {
    check(pthread_barrier_init(&barrier, 0, threads) == 0);
    together(meets);
    check(plain == 20);
}

static pthread_key_t key;
static _Thread_local long own = 7;
static _Thread_local char large[5000] = "own";
static void forgets(void *value) { counted += (long)value; }

static void *keeps(void *index) {
    check(own == 7 && !strcmp(large, "own") && large[4999] == 0);
    check(pthread_getspecific(key) == 0);
    own += (long)index;
    memset(large, (int)(long)index, sizeof large);
    errno = (int)(long)index;
    pthread_setspecific(key, (void *)((long)index + 1));
    for (int i = 0; i < 20; i++) {
        sched_yield();
        check(own == 7 + (long)index && large[4999] == (char)(long)index);
        check(errno == (int)(long)index);
        check(pthread_getspecific(key) == (void *)((long)index + 1));
    }
    return index;
}

static void test_tls(void) {
    check(pthread_key_create(&key, forgets) == 0);
    together(keeps);
    check(own == 7 && !strcmp(large, "own"));
    check(counted == threads * (threads + 1) / 2);
    check(pthread_key_delete(key) == 0);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static once_flag c11_once = ONCE_FLAG_INIT;
static void first(void) {
    usleep(2000);
    counted++;
}

static void *does_once(void *index) {
    pthread_once(&once, first);
    check(counted >= 1);
    call_once(&c11_once, first);
    check(counted == 2);
    return index;
}

static void test_once(void) { together(does_once); }

// More detached threads than fit at the same time. Each returns its stack and its slot.
static void *ends(void *none) {
    counted++;
    return none;
}

static void test_detached(void) {
    pthread_attr_t attributes;
    check(pthread_attr_init(&attributes) == 0);
    check(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    check(pthread_attr_setstacksize(&attributes, 16384) == 0);
    for (long made = 0; made < 20 * threads;) {
        pthread_t thread;
        int error = pthread_create(&thread, made % 2 ? &attributes : 0, ends, 0);
        check(error == 0 || error == EAGAIN);
        if (error == 0 && made % 2 == 0) check(pthread_detach(thread) == 0);
        if (error == 0) made++;
        else sched_yield();
    }
    while (counted < 20 * threads) sched_yield();
    // All stacks together would need more than the memory that is left.
    check((long)__builtin_wasm_memory_size(0) * 65536 < 48 << 20);
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static void *reads_or_writes(void *index) {
    for (int i = 0; i < ROUNDS; i++) {
        if ((i + (long)index) % 8) {
            pthread_rwlock_rdlock(&rwlock);
            check(plain == turn);
        } else {
            pthread_rwlock_wrlock(&rwlock);
            plain++;
            turn++;
        }
        pthread_rwlock_unlock(&rwlock);
    }
    return index;
}

static void test_rwlock(void) {
    together(reads_or_writes);
    check(plain == threads * ROUNDS / 8);
    check(pthread_rwlock_rdlock(&rwlock) == 0);
    check(pthread_rwlock_tryrdlock(&rwlock) == 0);
    check(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
}

static sem_t room;
static void *enters(void *index) {
    for (int i = 0; i < 20; i++) {
        check(sem_wait(&room) == 0);
        long inside = ++counted;
        check(inside <= 3);
        sched_yield();
        counted--;
        check(sem_post(&room) == 0);
    }
    return index;
}

static void test_semaphore(void) {
    check(sem_init(&room, 0, 3) == 0);
    together(enters);
    int value;
    check(sem_getvalue(&room, &value) == 0 && value == 3);
    check(!sem_trywait(&room) && !sem_trywait(&room) && !sem_trywait(&room));
    check(sem_trywait(&room) == -1 && errno == EAGAIN);
}

static pthread_spinlock_t spin;
static void *spins(void *index) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_spin_lock(&spin);
        plain++;
        pthread_spin_unlock(&spin);
    }
    return index;
}

static void test_spin(void) {
    pthread_spin_init(&spin, 0);
    threads = threads > 8 ? 8 : threads;
    together(spins);
    check(plain == threads * ROUNDS);
}

static mtx_t c11_mutex;
static int c11_adds(void *index) {
    mtx_lock(&c11_mutex);
    plain += (long)index;
    mtx_unlock(&c11_mutex);
    return (int)(long)index;
}

static void test_c11(void) {
    thrd_t all[THREADS_MAX];
    check(mtx_init(&c11_mutex, mtx_plain) == thrd_success);
    for (long i = 0; i < threads; i++)
        check(thrd_create(&all[i], c11_adds, (void *)i) == thrd_success);
    for (int i = 0, result; i < threads; i++)
        check(thrd_join(all[i], &result) == thrd_success && result == i);
    check(plain == threads * (threads - 1) / 2);
    check(thrd_sleep(&(struct timespec){.tv_nsec = 1000}, 0) == 0);
}

// Blocks of random sizes, made by one thread and freed by another.
static _Atomic(char *) blocks[1024];
static void *allocates(void *index) {
    unsigned state = (unsigned)(long)index * 2654435761u + 1;
    for (int i = 0; i < 1000; i++) {
        state = state * 1664525 + 1013904223;
        size_t size = (state >> 8) % 2000 + 1;
        char *block = malloc(size);
        check(block);
        memset(block, (int)(long)index, size);
        char *old = atomic_exchange(&blocks[state >> 22], block);
        free(old);
    }
    return index;
}

static void test_malloc(void) { together(allocates); }

static void *prints(void *index) {
    for (int i = 0; i < 10; i++) printf("thread %02ld says %d of ten\n", (long)index, i);
    return index;
}

static void test_stdio(void) { together(prints); }

// At the limit, one more thread is refused, and works once another has ended.
static atomic_int released;
static void *stays(void *index) {
    while (!released) __builtin_wasm_memory_atomic_wait32((int *)&released, 0, -1);
    return index;
}

static void test_limit(void) {
    pthread_t all[THREADS_MAX + 1];
    long made = 0;
    int error;
    while (!(error = pthread_create(&all[made], 0, stays, (void *)made)) && made < THREADS_MAX)
        made++;
    check(error == EAGAIN && made == THREADS_MAX);
    check(pthread_create(&all[made], 0, stays, 0) == EAGAIN);
    released = 1;
    __builtin_wasm_memory_atomic_notify((int *)&released, -1);
    for (long i = 0; i < made; i++) check(pthread_join(all[i], 0) == 0);
    released = 1;
    together(stays);
}

// How the program ends while other threads wait, compute, sleep and read.
static const char *how;
static void *goes_on(void *index) {
    counted++;
    switch ((long)index % 4) {
    case 0: __builtin_wasm_memory_atomic_wait32((int *)&turn, 0, -1); break;
    case 1:
        for (;;) plain++;
    case 2: sleep(1000); break;
    default: {
        char byte;
        if (read(0, &byte, 1) < 1) sleep(1000);
    }
    }
    return index;
}

static void *ends_all(void *none) {
    while (counted < threads - 1) sched_yield();
    if (!strcmp(how, "exit")) exit(17);
    if (!strcmp(how, "_exit")) _Exit(18);
    if (!strcmp(how, "abort")) abort();
    *(volatile int *)0xfffffff0 = 1;
    return none;
}

static void test_end(const char *by) {
    how = by;
    printf("%s: ", how);
    pthread_t thread;
    for (long i = 0; i < threads - 1; i++) check(pthread_create(&thread, 0, goes_on, (void *)i) == 0);
    if (!strcmp(how, "return")) {
        while (counted < threads - 1) sched_yield();
        return;
    }
    check(pthread_create(&thread, 0, ends_all, 0) == 0);
    for (;;) pthread_join(thread, 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"mutex", test_mutex},         {"cond", test_cond},       {"signal", test_signal},
    {"barrier", test_barrier},     {"tls", test_tls},         {"once", test_once},
    {"detached", test_detached},   {"rwlock", test_rwlock},   {"semaphore", test_semaphore},
    {"spin", test_spin},           {"c11", test_c11},         {"malloc", test_malloc},
    {"stdio", test_stdio},         {"limit", test_limit},
};

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "";
    if (count > 2) threads = strtol(words[2], 0, 10);
    if (threads < 2 || threads > THREADS_MAX) {
        fprintf(stderr, "%ld threads; give 2 to %d\n", threads, THREADS_MAX);
        return 2;
    }
    if (!strncmp(name, "end-", 4)) {
        test_end(name + 4);
        return 0;
    }
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (strcmp(tests[i].name, name)) continue;
        tests[i].run();
        printf("%s ok\n", name);
        return 0;
    }
    fprintf(stderr, "no test \"%s\"\n", name);
    return 2;
}
