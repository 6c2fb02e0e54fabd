// A plugin for QEMU's user mode: finds the cache lines that two threads share.
//
// The program marks what a thread records by getpgid(MARK | phase << 8 | state). State 1 or 2
// starts to record the calling thread as thread 0 or 1 below, and state 0 stops it. The call does
// nothing else, because no process has such an id.
// At exit the plugin writes one row for each line that one thread wrote and the other accessed:
//
//     phase line accesses0 writes0 accesses1 writes1 function
//
// Accesses of the kernel are not recorded. Declarations are those of QEMU 7.2's qemu-plugin.h,
// which Debian does not package.

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MARK 0x70000000
#define GETPGID 121
#define VCPUS 256
#define LINE_SHIFT 6
// A power of two. Ten times what all phases use.
#define ENTRIES (1 << 18)

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_syscall_cb(
    qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t,
                               uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
void qemu_plugin_register_vcpu_mem_cb(
    struct qemu_plugin_insn *, void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
unsigned qemu_plugin_mem_size_shift(uint32_t);
bool qemu_plugin_mem_is_store(uint32_t);
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

struct entry {
    uint64_t line;
    uint32_t phase;
    uint32_t accesses[2], writes[2];
    const char *writer;
};

static struct entry entries[ENTRIES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *path;
static bool is_full;
// What the thread of each virtual processor records: phase << 8 | number of the thread + 1.
static _Atomic uint32_t recorded[VCPUS];

static struct entry *entry(uint32_t phase, uint64_t line) {
    uint64_t at = (line * 0x9e3779b97f4a7c15 + phase * 0x2545f4914f6cdd1d) >> 40;
    for (unsigned n = 0; n < ENTRIES; n++, at++) {
        struct entry *found = &entries[at % ENTRIES];
        if (found->phase == 0) {
            found->phase = phase;
            found->line = line;
        }
        if (found->phase == phase && found->line == line) return found;
    }
    return NULL;
}

static void access_memory(unsigned vcpu, uint32_t info, uint64_t address, void *symbol) {
    uint32_t state = vcpu < VCPUS ? recorded[vcpu] : 0;
    if (state == 0) return;
    unsigned thread = (state & 0xff) - 1;
    uint64_t last = address + ((uint64_t)1 << qemu_plugin_mem_size_shift(info)) - 1;
    bool writes = qemu_plugin_mem_is_store(info);
    pthread_mutex_lock(&lock);
    for (uint64_t line = address >> LINE_SHIFT; line <= last >> LINE_SHIFT; line++) {
        struct entry *found = entry(state >> 8, line);
        if (found == NULL) {
            is_full = true;
            break;
        }
        found->accesses[thread]++;
        if (writes) {
            found->writes[thread]++;
            found->writer = symbol;
        }
    }
    pthread_mutex_unlock(&lock);
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    size_t count = qemu_plugin_tb_n_insns(block);
    for (size_t n = 0; n < count; n++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, n);
        qemu_plugin_register_vcpu_mem_cb(insn, access_memory, NO_REGISTERS, READS_AND_WRITES,
                                         (void *)qemu_plugin_insn_symbol(insn));
    }
}

static void system_call(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t argument,
                        uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                        uint64_t a7, uint64_t a8) {
    if (number == GETPGID && (argument & 0xff000000) == MARK && vcpu < VCPUS)
        recorded[vcpu] = (argument & 0xff) == 0 ? 0 : argument & 0xffffff;
}

static void report(qemu_plugin_id_t id, void *data) {
    FILE *file = fopen(path, "w");
    if (file == NULL) return;
    for (unsigned n = 0; n < ENTRIES; n++) {
        struct entry *e = &entries[n];
        bool is_shared = (e->writes[0] && e->accesses[1]) || (e->writes[1] && e->accesses[0]);
        if (!is_shared) continue;
        fprintf(file, "%" PRIu32 " %" PRIx64, e->phase, e->line << LINE_SHIFT);
        for (int t = 0; t < 2; t++)
            fprintf(file, " %" PRIu32 " %" PRIu32, e->accesses[t], e->writes[t]);
        fprintf(file, " %s\n", e->writer && *e->writer ? e->writer : "?");
    }
    // The program accepts only a report that ends with `end`.
    fputs(is_full ? "full\n" : "end\n", file);
    fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(
    qemu_plugin_id_t id, const void *info, int count, char **arguments) {
    if (count != 1 || strncmp(arguments[0], "out=", 4) != 0) return -1;
    path = strdup(arguments[0] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_vcpu_syscall_cb(id, system_call);
    qemu_plugin_register_atexit_cb(id, report, NULL);
    return 0;
}
