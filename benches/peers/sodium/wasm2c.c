/* Runs a WASI command that wasm2c translated to C. It has as much of WASI as the guests use, with
   the answers that node.mjs gives. While a guest is timed, it calls only the clock. */
#include GUEST_HEADER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, BADF = 8, FAULT = 21, NOSYS = 52, SPIPE = 70 };

/* What the host functions of an instance get as their first argument. */
struct Z_wasi_snapshot_preview1_instance_t {
    wasm_rt_memory_t *memory;
    int count;
    char **arguments;
};

typedef struct Z_wasi_snapshot_preview1_instance_t host_t;

#define WASI(name) Z_wasi_snapshot_preview1Z_##name

/* An address of the guest as one of the host, or NULL if the bytes are not all in its memory. */
static void *at(host_t *host, u32 address, u64 bytes)
{
    return address + bytes <= host->memory->size ? host->memory->data + address : NULL;
}

static u32 put(host_t *host, u32 address, const void *from, u64 bytes)
{
    void *to = at(host, address, bytes);
    if (!to) {
        return FAULT;
    }
    memcpy(to, from, bytes);
    return SUCCESS;
}

u32 WASI(args_sizes_get)(host_t *host, u32 count, u32 bytes)
{
    u32 sum = 0;
    for (int i = 0; i < host->count; i++) {
        sum += strlen(host->arguments[i]) + 1;
    }
    u32 arguments = host->count;
    return put(host, count, &arguments, 4) | put(host, bytes, &sum, 4);
}

u32 WASI(args_get)(host_t *host, u32 to, u32 texts)
{
    u32 failed = SUCCESS;
    for (int i = 0; i < host->count; i++) {
        u32 bytes = strlen(host->arguments[i]) + 1;
        failed |= put(host, to + 4 * i, &texts, 4) | put(host, texts, host->arguments[i], bytes);
        texts += bytes;
    }
    return failed;
}

u32 WASI(environ_sizes_get)(host_t *host, u32 count, u32 bytes)
{
    u32 none = 0;
    return put(host, count, &none, 4) | put(host, bytes, &none, 4);
}

u32 WASI(environ_get)(host_t *host, u32 to, u32 texts)
{
    return SUCCESS;
}

u32 WASI(clock_time_get)(host_t *host, u32 clock, u64 precision, u32 to)
{
    struct timespec now;
    clock_gettime(clock == 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
    u64 ns = now.tv_sec * 1000000000ull + now.tv_nsec;
    return put(host, to, &ns, 8);
}

u32 WASI(clock_res_get)(host_t *host, u32 clock, u32 to)
{
    u64 ns = 1;
    return put(host, to, &ns, 8);
}

u32 WASI(fd_write)(host_t *host, u32 fd, u32 vectors, u32 count, u32 written)
{
    u32 all = 0;
    for (u32 i = 0; i < count; i++) {
        u32 pair[2];
        void *vector = at(host, vectors + 8 * i, 8);
        if (!vector) {
            return FAULT;
        }
        memcpy(pair, vector, 8);
        const char *from = at(host, pair[0], pair[1]);
        if (!from) {
            return FAULT;
        }
        for (u32 done = 0; done < pair[1];) {
            ssize_t bytes = write(fd, from + done, pair[1] - done);
            if (bytes < 0) {
                return BADF;
            }
            done += bytes;
        }
        all += pair[1];
    }
    return put(host, written, &all, 4);
}

u32 WASI(fd_fdstat_get)(host_t *host, u32 fd, u32 to)
{
    unsigned char stat[24];
    memset(stat, 0xff, sizeof stat);
    memset(stat, 0, 8);
    stat[0] = 2; /* a character device */
    return fd > 2 ? BADF : put(host, to, stat, sizeof stat);
}

u32 WASI(random_get)(host_t *host, u32 to, u32 bytes)
{
    void *buffer = at(host, to, bytes);
    return buffer && getentropy(buffer, bytes) == 0 ? SUCCESS : FAULT;
}

void WASI(proc_exit)(host_t *host, u32 code)
{
    exit(code);
}

u32 WASI(sched_yield)(host_t *host)
{
    return SUCCESS;
}

u32 WASI(fd_close)(host_t *host, u32 fd)
{
    return SUCCESS;
}

u32 WASI(fd_seek)(host_t *host, u32 fd, u64 offset, u32 from, u32 to)
{
    return SPIPE;
}

u32 WASI(poll_oneoff)(host_t *host, u32 in, u32 out, u32 count, u32 events)
{
    return NOSYS;
}

/* The guest has no files. */
u32 WASI(fd_fdstat_set_flags)(host_t *host, u32 fd, u32 flags)
{
    return BADF;
}

u32 WASI(fd_prestat_get)(host_t *host, u32 fd, u32 to)
{
    return BADF;
}

u32 WASI(fd_prestat_dir_name)(host_t *host, u32 fd, u32 to, u32 bytes)
{
    return BADF;
}

u32 WASI(fd_read)(host_t *host, u32 fd, u32 vectors, u32 count, u32 read)
{
    return BADF;
}

u32 WASI(fd_renumber)(host_t *host, u32 from, u32 to)
{
    return BADF;
}

u32 WASI(path_open)(host_t *host, u32 fd, u32 flags, u32 path, u32 bytes, u32 open, u64 rights, u64 inherited,
    u32 fd_flags, u32 to)
{
    return BADF;
}

int main(int count, char **arguments)
{
    static Z_guest_instance_t guest;
    static host_t host;
    wasm_rt_init();
    Z_guest_init_module();
    host.count = count;
    host.arguments = arguments;
    Z_guest_instantiate(&guest, &host);
    host.memory = Z_guestZ_memory(&guest);
    Z_guestZ__start(&guest);
    return 0;
}
