#!/usr/bin/env bash
# Makes a toolchain for guests with threads (wasm32-wasip1-threads) out of Debian's packages.
#
#     toolchain.sh c        a C library with pthreads, and the compiler bin/cc for it
#     toolchain.sh rust     the C library, and bin/rustc with std for wasm32-wasip1-threads
#
# Prints the folder on success. The folder is ../built/threads; nothing outside of it
# changes. Delete it to build again. Prints one line on stderr if something is missing.
#
# C: the source package of wasi-libc in Debian 12 has musl's thread functions, but no port of them
# to WebAssembly. The port is in libc/ beside this script. Debian's clang compiles both.
#
# Rust: rustc-web and rust-web-src of Debian 12, unpacked here. Cargo builds std.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${here%/*}/built/threads
log=$cache/log
libc_version=0.0~git20220510.9886d3d-2

fail() {
    echo "toolchain.sh: $1" >&2
    exit 1
}

# A private state of apt: the mirrors of the build machine, the suites of Debian 12, and their
# sources.
apt_state() {
    command -v apt-get >"$log" || fail "no apt-get; the sources are Debian's packages"
    mkdir -p "$cache"/apt/{lists/partial,cache/archives/partial}
    local mirrors
    mirrors=$(find /etc/apt/sources.list* -type f -exec cat {} + |
        sed -nE 's,^(URIs: *|deb +(\[[^]]*\] +)?)(https?://[^ ]*/debian/?)( .*)?$,\3,p' | sort -u)
    [ -n "$mirrors" ] || fail "apt knows no mirror of Debian; add one to /etc/apt/sources.list.d"
    local key="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" mirror
    mirror=$(head -1 <<<"$mirrors")
    printf 'deb %s\ndeb-src %s\n' "$key $mirror bookworm main" "$key $mirror bookworm main" \
        >"$cache/apt/sources.list"
    apt=(-qq -o Dir::State::Lists="$cache/apt/lists" -o Dir::Cache="$cache/apt/cache"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o Dir::Etc::SourceList="$cache/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o APT::Sandbox::User= -o Debug::NoLocking=1 -o Acquire::Languages=none)
    apt-get "${apt[@]}" update >"$log" 2>&1 || fail "apt-get update failed: $(tail -1 "$log")"
}

# Makes $cache/bin/wasm-ld. The linker of clang 14 cannot both import and export a memory.
linker() {
    local deb
    mkdir -p "$cache"/{bin,debs,host}
    (cd "$cache/debs" && apt-get "${apt[@]}" download lld-19 libllvm19 >"$log" 2>&1) ||
        fail "cannot download lld-19: $(tail -1 "$log")"
    for deb in "$cache"/debs/*.deb; do dpkg-deb -x "$deb" "$cache/host"; done
    rm -rf "$cache/debs"
    wrap wasm-ld "$cache/host/usr/lib/llvm-19/bin/wasm-ld"
}

# Makes $cache/bin/$1, which runs the rest of the arguments with the libraries unpacked here.
wrap() {
    local name=$1 libs=$cache/host/usr/lib
    shift
    printf '#!/bin/sh\nexport LD_LIBRARY_PATH="%s"\nexec %s "$@"\n' \
        "$libs/x86_64-linux-gnu:$libs/llvm-19/lib" "$*" >"$cache/bin/$name"
    chmod +x "$cache/bin/$name"
}

# The thread functions of musl that need no kernel but futexes. `pthread_exit`, `pthread_cancel` and
# `pthread_kill` are absent: WebAssembly can neither unwind another thread nor signal it.
thread_sources() {
    local name
    for name in "$1"/libc-top-half/musl/src/thread/*.c; do
        case ${name##*/} in
            __set_thread_area.c | __syscall_cp.c | __tls_get_addr.c | __unmapself.c | clone.c) ;;
            pthread_atfork.c | pthread_attr_setschedparam.c | pthread_cancel.c) ;;
            pthread_condattr_setclock.c) ;;
            pthread_create.c | pthread_getattr_np.c | pthread_getcpuclockid.c) ;;
            pthread_getschedparam.c | pthread_kill.c | pthread_set[ns]*ched*.c) ;;
            pthread_setname_np.c | pthread_setschedp*.c | pthread_sigmask.c) ;;
            sem_open.c | sem_unlink.c | synccall.c | syscall_cp.c | tls.c) ;;
            thrd_exit.c | thrd_sleep.c | thrd_yield.c) ;;
            *) echo "$name" ;;
        esac
    done
    echo "$1"/libc-top-half/musl/src/stdio/{flockfile,ftrylockfile,funlockfile,__lockfile}.c
    echo "$here"/libc/{calls,create}.c
}

# Makes the sources in folder $1 accept threads, where they refuse them or have no lock.
adapt() {
    local bottom=$1/libc-bottom-half top=$1/libc-top-half/musl/src name
    # Each thread gets a buffer of its own in place of the static one. `chdir` beside other threads
    # that use paths remains a race.
    for name in chdir getcwd getentropy preopens; do
        sed -i -e '/^#error/d' -e 's/^    static \(char \*relative_buf\)/    static __thread \1/' \
            -e 's/^    static \(size_t relative_buf_len\)/    static __thread \1/' \
            "$bottom/sources/$name.c"
    done
    sed -i '/__strong_reference(nanosleep, thrd_sleep)/d' \
        "$bottom/cloudlibc/src/libc/time/nanosleep.c"
    sed -i 's/^#ifdef __wasilibc_unmodified_upstream/#ifdef _REENTRANT/' "$top/prng/random.c"
    sed -i '/SYS_sched_getaffinity/d' "$top/conf/sysconf.c"
    sed -i '/^int pthread_attr_getschedparam/,/^}/d' "$top/thread/pthread_attr_get.c"
}

# Makes $cache/sysroot. About half a minute on two processors.
build_c() {
    if [ -e "$cache/sysroot/.done" ]; then return; fi
    local tool package
    for tool in clang:clang make:make dpkg-source:dpkg-dev xz:xz-utils; do
        package=${tool#*:} tool=${tool%%:*}
        command -v "$tool" >"$log" || fail "no $tool; Debian: apt-get install $package"
    done
    local major ar
    major=$(clang -dumpversion)
    major=${major%%.*}
    ar=$(command -v "llvm-ar-$major" || command -v llvm-ar) ||
        fail "no llvm-ar; Debian: apt-get install llvm-$major"
    apt_state
    rm -rf "$cache/libc" "$cache/sysroot"
    mkdir -p "$cache/libc"
    (cd "$cache/libc" && apt-get "${apt[@]}" source --download-only "wasi-libc=$libc_version" \
        >"$log" 2>&1) || fail "no source of wasi-libc $libc_version: $(tail -1 "$log")"
    tar -xf "$cache"/libc/*.orig.tar.xz -C "$cache/libc" --strip-components=1
    local source=$cache/libc name
    adapt "$source"
    # The port's headers come before those of musl.
    local flags="-O2 -DNDEBUG -w -ftls-model=local-exec -I$here/libc"
    flags+=" -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_MMAN"
    flags+=" -ffile-prefix-map=$source=libc -ffile-prefix-map=$here=threads"
    make --silent -C "$source" -j"$(nproc)" THREAD_MODEL=posix CC=clang AR="$ar" \
        EXTRA_CFLAGS="$flags" SYSROOT="$cache/sysroot" startup_files libc >"$log" 2>&1 ||
        fail "wasi-libc did not compile: $(grep -m1 -E '(fatal )?error: ' "$log" || tail -1 "$log")"
    local musl=$source/libc-top-half/musl objects=$source/threads
    local libs=$cache/sysroot/lib/wasm32-wasi
    mkdir -p "$objects"
    cc=(clang --target=wasm32-wasi -pthread -fno-trapping-math $flags -DSEM_VALUE_MAX=0x7fffffff
        -D__clock_gettime=__thread_clock_gettime
        -isystem "$cache/sysroot/include" -I"$musl/src/include" -I"$musl/src/internal"
        -I"$musl/arch/wasm32" -I"$musl/arch/generic" -I"$source/libc-top-half/headers/private")
    thread_sources "$source" | tr ' ' '\n' >"$source/threads.list"
    (cd "$objects" && xargs -P"$(nproc)" -n8 "${cc[@]}" -c <"$source/threads.list" >"$log" 2>&1 &&
        "${cc[@]}" -matomics -c "$here/libc/start.s" "$here/libc/crt1.c" >"$log" 2>&1) ||
        fail "pthreads did not compile: $(grep -m1 -E '(fatal )?error: ' "$log" || tail -1 "$log")"
    mv "$objects/crt1.o" "$libs/crt1-command.o"
    cp "$libs/crt1-command.o" "$libs/crt1.o"
    "$ar" crs "$libs/libc.a" "$objects"/*.o
    for name in m rt pthread crypt util xnet resolv dl; do "$ar" crs "$libs/lib$name.a"; done
    linker
    # The compiler for users: `cc -O2 program.c -o program.wasm`.
    printf '#!/bin/sh\nexec %s "$@"\n' "clang --target=wasm32-wasi\
 --sysroot=$cache/sysroot -pthread\
 -ftls-model=local-exec -fuse-ld=$cache/bin/wasm-ld -Wno-unused-command-line-argument\
 -Wl,--import-memory,--export-memory,--max-memory=1073741824" >"$cache/bin/cc"
    chmod +x "$cache/bin/cc"
    # Benches compile the allocator natively.
    rm -rf "$cache/dlmalloc"
    cp -r "$source/dlmalloc/src" "$cache/dlmalloc"
    rm -rf "$source" "$cache/apt"
    touch "$cache/sysroot/.done"
}

# Adds std for wasm32-wasip1-threads to a rustc of Debian, by the installed cargo. Some two
# minutes on two processors.
build_rust() {
    local target=wasm32-wasip1-threads usr=$cache/host/usr rustlib deb
    local libs=$usr/lib/rustlib/$target/lib work=$cache/std
    if [ -e "$libs/.done" ]; then return; fi
    command -v cargo >"$log" || fail "no cargo; https://rustup.rs"
    apt_state
    rustlib=$(apt-cache "${apt[@]}" depends libstd-rust-web-dev |
        sed -nE 's/^ *Depends: (libstd-rust-web-[0-9.]+)$/\1/p' | head -1)
    rm -rf "$cache/debs" "$work"
    mkdir -p "$cache/debs" "$work/src" "$libs/self-contained"
    (cd "$cache/debs" && apt-get "${apt[@]}" download rustc-web "$rustlib" libstd-rust-web-dev \
        rust-web-src >"$log" 2>&1) || fail "cannot download rustc-web: $(tail -1 "$log")"
    for deb in "$cache"/debs/*.deb; do
        case ${deb##*/} in
            rust-web-src_*) dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$cache/host" --wildcards \
                './usr/lib/rustlib/src*' './usr/src/rustc-*/library/*' ;;
            *) dpkg-deb -x "$deb" "$cache/host" ;;
        esac
    done
    rm -rf "$cache/debs" "$cache/apt"
    wrap rustc "$usr/bin/rustc --sysroot $usr"
    # An empty crate: cargo builds std as its dependency.
    printf '#![no_std]\n' >"$work/src/lib.rs"
    printf '[package]\nname = "std-for-threads"\nedition = "2021"\n[workspace]\n' \
        >"$work/Cargo.toml"
    # Messages of std show paths of its source. The paths must not depend on this folder, so that
    # programs do not. The separator is 0x1f, because the path of cargo's folder may contain spaces.
    local flags=--remap-path-prefix=$usr/lib/rustlib/src/rust=/rustc crates
    # The last flag that fits applies: a folder for each registry, if cargo has made one yet.
    for crates in "${CARGO_HOME:-$HOME/.cargo}"/registry/src{,/*}; do
        flags+=$'\x1f'--remap-path-prefix=$crates=/crates
    done
    RUSTC=$cache/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$work/target \
        CARGO_ENCODED_RUSTFLAGS=$flags \
        cargo build --quiet --manifest-path "$work/Cargo.toml" --release --target "$target" \
        -Zbuild-std=std,panic_abort >"$log" 2>&1 ||
        fail "std did not compile: $(grep -m1 -E '^error' "$log" || tail -1 "$log")"
    cp "$work/target/$target"/release/deps/lib*.rlib "$libs"
    rm -rf "$libs"/libstd_for_threads-* "$work"
    cp "$cache"/sysroot/lib/wasm32-wasi/{crt1-command.o,libc.a} "$libs/self-contained"
    touch "$libs/.done"
}

# Neither make nor the flags of compilers can quote a space.
case $here in
    *[[:space:]]*) fail "a space in \"$here\"; clone into a folder without one" ;;
esac
mkdir -p "$cache"
case ${1-} in
    c) build_c ;;
    rust) build_c; build_rust ;;
    *)
        echo "toolchain.sh: unknown argument \"${1-}\"; known: c rust" >&2
        exit 2
        ;;
esac
echo "$cache"
