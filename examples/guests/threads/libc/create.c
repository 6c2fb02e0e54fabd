/* Makes and ends threads by `wasi.thread-spawn` (wasi-threads). The rest of pthreads is musl's.
 *
 * A thread has one block from `malloc`: its stack, its record, its values of keys, and its
 * thread-local variables. No code can run without a stack, so a detached thread cannot free its
 * block. It puts the block into a list, which the next `pthread_create` frees. */
#include "libc.h"
#include "pthread_impl.h"
#include "stdio_impl.h"
#include <stdlib.h>
#include <string.h>

/* start.s reads the first two members. */
struct start {
    void *stack;
    void *tls;
    struct pthread *self;
    void *(*entry)(void *);
    void *argument;
};

/* A number that no thread gets from the host: those end at 0x1fffffff. */
#define FIRST_TID 0x20000000

static struct pthread first = {
    .self = &first,
    .prev = &first,
    .next = &first,
    .tid = FIRST_TID,
    .detach_state = DT_JOINABLE,
    .tsd = __pthread_tsd_main,
    .robust_list = {.head = &first.robust_list.head},
    .locale = &libc.global_locale,
};

_Thread_local struct pthread *__thread_self = &first;

volatile int __thread_list_lock;
/* start.s reads it: how many threads wait for the lock. */
volatile int __thread_list_waiters;
static int relocked;
/* Detached threads that have ended, linked by `next`. Guarded by the list's lock. */
static struct pthread *ended;

__attribute__((import_module("wasi"), import_name("thread-spawn"))) int __thread_spawn(void *);

/* Makes the linker take start.s, which only the host calls. */
void wasi_thread_start(int tid, struct start *start);
void (*const __thread_start)(int, struct start *) = wasi_thread_start;

static void nothing(void) {}
weak_alias(nothing, __pthread_tsd_run_dtors);
weak_alias(nothing, __do_orphaned_stdio_locks);
weak_alias(nothing, __acquire_ptc);
weak_alias(nothing, __release_ptc);

void __tl_lock(void) {
    int tid = __pthread_self()->tid, owner = __thread_list_lock;
    if (owner == tid) {
        relocked++;
        return;
    }
    while ((owner = a_cas(&__thread_list_lock, 0, tid)))
        __wait(&__thread_list_lock, &__thread_list_waiters, owner, 0);
}

void __tl_unlock(void) {
    if (relocked) {
        relocked--;
        return;
    }
    a_store(&__thread_list_lock, 0);
    if (__thread_list_waiters) __wake(&__thread_list_lock, 1, 0);
}

/* Waits until an ended thread has left its stack: it holds the lock until then. */
void __tl_sync(pthread_t thread) {
    a_barrier();
    int owner = __thread_list_lock;
    if (!owner) return;
    __wait(&__thread_list_lock, &__thread_list_waiters, owner, 0);
    if (__thread_list_waiters) __wake(&__thread_list_lock, 1, 0);
}

/* Runs on the new thread's stack, with the thread's variables in place. Returns to start.s with
 * the list locked. */
__attribute__((visibility("hidden"))) void __thread_run(int tid, struct start *start) {
    struct pthread *self = start->self;
    __thread_self = self;
    self->tid = tid;
    self->result = start->entry(start->argument);
    __pthread_tsd_run_dtors();
    int state = a_cas(&self->detach_state, DT_JOINABLE, DT_EXITING);
    __tl_lock();
    __do_orphaned_stdio_locks();
    libc.threads_minus_1--;
    self->next->prev = self->prev;
    self->prev->next = self->next;
    self->prev = self->next = self;
    if (state == DT_DETACHED) {
        self->next = ended;
        ended = self;
    } else {
        a_store(&self->detach_state, DT_EXITED);
        __wake(&self->detach_state, 1, 1);
    }
}

static void lock_file(FILE *file) {
    if (file && file->lock < 0) file->lock = 0;
}

/* Files have locks from the first thread on. */
static void become_threaded(void) {
    for (FILE *file = *__ofl_lock(); file; file = file->next) lock_file(file);
    __ofl_unlock();
    lock_file(__stdin_used);
    lock_file(__stdout_used);
    lock_file(__stderr_used);
    libc.threaded = 1;
}

static struct pthread *take_ended(void) {
    __tl_lock();
    struct pthread *all = ended;
    ended = 0;
    __tl_unlock();
    return all;
}

static size_t aligned(size_t size, size_t to) { return (size + to - 1) & -to; }

int __pthread_create(pthread_t *restrict result, const pthread_attr_t *restrict given,
                     void *(*entry)(void *), void *restrict argument) {
    pthread_attr_t attributes = {0};
    int is_c11 = given == __ATTRP_C11_THREAD;
    struct pthread *self = __pthread_self();

    if (!libc.threaded) become_threaded();
    for (struct pthread *thread = take_ended(), *next; thread; thread = next) {
        next = thread->next;
        free(thread->map_base);
    }
    __acquire_ptc();
    if (given && !is_c11) attributes = *given;
    else attributes._a_stacksize = __default_stacksize;

    size_t stack = attributes._a_stackaddr ? 0 : aligned(attributes._a_stacksize, 16);
    size_t record = aligned(sizeof(struct pthread), 16);
    size_t start = aligned(sizeof(struct start), 16);
    size_t keys = aligned(__pthread_tsd_size, 16);
    size_t tls_align = __builtin_wasm_tls_align();
    if (tls_align < 16) tls_align = 16;
    size_t tls = __builtin_wasm_tls_size();
    size_t size = stack + record + start + keys + tls_align + tls;
    unsigned char *block = size < stack ? 0 : malloc(size);
    if (!block) {
        __release_ptc();
        return EAGAIN;
    }
    /* The stack grows down, to the block's start. start.s fills the variables. */
    memset(block + stack, 0, record + start + keys);
    struct pthread *new = (void *)(block + stack);
    struct start *begin = (void *)(block + stack + record);
    new->self = new->prev = new->next = new;
    new->map_base = block;
    new->map_size = size;
    new->stack = attributes._a_stackaddr ? (void *)(attributes._a_stackaddr & -16) : new;
    new->stack_size = attributes._a_stackaddr ? attributes._a_stacksize : stack;
    new->detach_state = attributes._a_detach ? DT_DETACHED : DT_JOINABLE;
    new->tsd = (void *)(block + stack + record + start);
    new->robust_list.head = &new->robust_list.head;
    new->locale = &libc.global_locale;
    begin->stack = new->stack;
    begin->tls = (void *)aligned((size_t)(block + stack + record + start + keys), tls_align);
    begin->self = new;
    begin->entry = entry;
    begin->argument = argument;

    __tl_lock();
    if (!libc.threads_minus_1++) libc.need_locks = 1;
    /* `pthread_join` may run before this returns, so the caller's variable is set first. The
     * thread cannot leave the list before it is in: it would need the lock. */
    *result = new;
    int tid = __thread_spawn(begin);
    if (tid > 0) {
        new->next = self->next;
        new->prev = self;
        new->next->prev = new;
        new->prev->next = new;
    } else {
        libc.threads_minus_1--;
    }
    __tl_unlock();
    __release_ptc();
    if (tid > 0) return 0;
    free(block);
    return EAGAIN;
}
weak_alias(__pthread_create, pthread_create);

int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) {
    *attributes = (pthread_attr_t){0};
    attributes->_a_detach = thread->detach_state >= DT_DETACHED;
    if (!thread->stack) return ENOSYS; /* only the linker knows the first thread's stack */
    attributes->_a_stackaddr = (unsigned long)thread->stack;
    attributes->_a_stacksize = thread->stack_size;
    return 0;
}
