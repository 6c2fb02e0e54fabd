// What threads do, natively and in a guest. `work WHAT THREADS AMOUNT` prints one number:
//
//   compute   seconds for AMOUNT million steps of integer arithmetic, divided among the threads
//   allocate  seconds for AMOUNT thousand allocations and frees, divided among the threads
//   spawn     median nanoseconds from `pthread_create` to the first instruction of the thread
//   wake      median nanoseconds from waking a thread that sleeps to its next instruction
//
// The allocator is chosen when this is compiled: -DALLOCATOR=mi or dl, or none for `malloc`.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef ALLOCATOR
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define allocate JOIN(ALLOCATOR, malloc)
#define release JOIN(ALLOCATOR, free)
void *allocate(size_t size);
void release(void *block);
#else
#define allocate malloc
#define release free
#endif

enum { THREADS_MAX = 64, BLOCKS = 512, SAMPLES = 2001 };
static long threads, amount;
static atomic_int ready;
static _Atomic uint64_t checksum;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#ifdef __wasm__
static void sleep_while(atomic_int *word, int value) {
    __builtin_wasm_memory_atomic_wait32((int *)word, value, -1);
}
static void wake(atomic_int *word) { __builtin_wasm_memory_atomic_notify((int *)word, 1); }
#else
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
static void sleep_while(atomic_int *word, int value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, 0);
}
static void wake(atomic_int *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1); }
#endif

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void *computes(void *index) {
    uint64_t state = 88172645463325252ULL + (uint64_t)(uintptr_t)index, sum = 0;
    for (long i = amount * 1000000 / threads; i > 0; i--) sum += next(&state) % 1000003;
    checksum += sum;
    return 0;
}

static void *allocates(void *index) {
    char *blocks[BLOCKS] = {0};
    uint64_t state = 88172645463325252ULL + (uint64_t)(uintptr_t)index, sum = 0;
    for (long i = amount * 1000 / threads; i > 0; i--) {
        uint64_t random = next(&state);
        char **block = &blocks[random % BLOCKS];
        if (*block) {
            sum += (unsigned char)**block;
            release(*block);
        }
        // Mostly small, as objects are; one of 64 has up to 16 KiB.
        size_t size = (random >> 16) % (random >> 58 ? 256 : 16384) + 8;
        *block = allocate(size);
        if (!*block) abort();
        (*block)[0] = (char)i;
        (*block)[size - 1] = (char)i;
    }
    for (int i = 0; i < BLOCKS; i++) release(blocks[i]);
    checksum += sum;
    return 0;
}

// Seconds that the threads take together.
static double together(void *(*run)(void *)) {
    pthread_t all[THREADS_MAX];
    int64_t start = now_ns();
    // The first part runs on this thread.
    for (long i = 1; i < threads; i++)
        if (pthread_create(&all[i], 0, run, (void *)(uintptr_t)(i * 77))) abort();
    run(0);
    for (long i = 1; i < threads; i++) pthread_join(all[i], 0);
    return (now_ns() - start) / 1e9;
}

static int64_t samples[SAMPLES];
static int by_size(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static long long median(void) {
    qsort(samples, SAMPLES, sizeof *samples, by_size);
    return samples[SAMPLES / 2];
}

static void *begins(void *at) {
    *(int64_t *)at = now_ns();
    return 0;
}

static void spawns(void) {
    for (int i = 0; i < SAMPLES; i++) {
        pthread_t thread;
        int64_t begun, start = now_ns();
        if (pthread_create(&thread, 0, begins, &begun)) abort();
        pthread_join(thread, 0);
        samples[i] = begun - start;
        // The ended thread goes to sleep before the next one is asked for.
        for (int64_t end = now_ns() + amount * 1000; now_ns() < end;) {}
    }
}

static int64_t woken;
static void *sleeps(void *none) {
    for (int i = 0; i < SAMPLES; i++) {
        ready = 1;
        while (ready == 1) sleep_while(&ready, 1);
        woken = now_ns();
        ready = 3;
        while (ready == 3) sleep_while(&ready, 3);
    }
    return none;
}

static void wakes(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, sleeps, 0)) abort();
    for (int i = 0; i < SAMPLES; i++) {
        while (ready != 1) {}
        // Until the other thread sleeps.
        for (int64_t end = now_ns() + amount * 1000; now_ns() < end;) {}
        int64_t start = now_ns();
        ready = 2;
        wake(&ready);
        while (ready != 3) {}
        samples[i] = woken - start;
        ready = 0;
        wake(&ready);
    }
    pthread_join(thread, 0);
}

int main(int count, char **words) {
    if (count != 4) return 2;
    threads = strtol(words[2], 0, 10);
    amount = strtol(words[3], 0, 10);
    if (threads < 1 || threads > THREADS_MAX) return 2;
    if (!strcmp(words[1], "compute")) printf("%.6f\n", together(computes));
    else if (!strcmp(words[1], "allocate")) printf("%.6f\n", together(allocates));
    else if (!strcmp(words[1], "spawn")) spawns(), printf("%lld\n", median());
    else if (!strcmp(words[1], "wake")) wakes(), printf("%lld\n", median());
    else return 2;
    return checksum == 1;
}
