# The first function of a thread, which the host calls: wasi_thread_start(tid, start).
    .globaltype __stack_pointer, i32
    .functype   __wasm_init_tls (i32) -> ()
    .functype   __thread_run (i32, i32) -> ()

    .export_name wasi_thread_start, wasi_thread_start
    .globl      wasi_thread_start
    .type       wasi_thread_start,@function
wasi_thread_start:
    .functype   wasi_thread_start (i32, i32) -> ()
    local.get   1
    i32.load    0                       # start->stack
    global.set  __stack_pointer
    # Before any C code, which may read `__tls_base` early.
    local.get   1
    i32.load    4                       # start->tls
    call        __wasm_init_tls
    local.get   0
    local.get   1
    call        __thread_run

    # The thread holds the list's lock. Nothing uses its stack from here on, so whoever gets the
    # lock may free it.
    i32.const   0
    i32.const   0
    i32.atomic.store __thread_list_lock
    i32.const   0
    i32.load    __thread_list_waiters
    i32.eqz
    br_if       0
    i32.const   __thread_list_lock
    i32.const   1
    memory.atomic.notify 0
    drop
    end_function
