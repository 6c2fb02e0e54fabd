#!/usr/bin/env bash
# Builds every guest program whose toolchain is installed, and reports the others.
#
#     build.sh [--strict] [--check] [--out DIR] [c] [rust] [go] [js] [java] [ruby]
#              [threads-c] [threads-rust] [components] [p2] [http-c] [http-rust] [http-go]
#              [http-js] [http-python]
#
#     c, rust, ...  only these languages (all, if none is named)
#     p2            commands as components; http-...: components that answer HTTP requests
#     components    all components: p2 and http-...
#     --strict      a missing toolchain is an error: exit code 1
#     --check       builds into a scratch folder and compares with the files here;
#                   a difference is an error
#     --out DIR     builds into DIR instead of here
#
# The small guests are committed next to this script. Those of Go, JavaScript, Java, Python and Ruby
# are built into built/, which is not committed. The bytes depend on the toolchain's version
# (README.md names the versions), but not on the place or time of the build. The components of
# JavaScript and Python are the exception: each build makes other bytes.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
components=(p2 http-c http-rust http-go http-js http-python)
out=$here strict=0 check=0 languages=()
while [ $# -gt 0 ]; do
    case $1 in
        --strict) strict=1 ;;
        --check) check=1 ;;
        --out) out=${2:?--out needs a folder}; shift ;;
        c | rust | go | js | java | ruby | threads-c | threads-rust | p2) languages+=("$1") ;;
        http-c | http-rust | http-go | http-js | http-python) languages+=("$1") ;;
        components) languages+=("${components[@]}") ;;
        *)
            echo "build.sh: unknown argument \"$1\"; known: --strict --check --out DIR\
 c rust go js java ruby threads-c threads-rust components ${components[*]}" >&2
            exit 2
            ;;
    esac
    shift
done
if [ ${#languages[@]} -eq 0 ]; then
    languages=(c rust go js java ruby threads-c threads-rust "${components[@]}")
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ $check = 1 ]; then out=$scratch/out; fi
mkdir -p "$out/built"
out=$(cd "$out" && pwd)
built=() missing=() varying=()

# Compile and link in two steps: a clang that optimises at link time runs wasm-opt if it is
# installed. The bytes would then depend on other installed programs.
cc=${CC_wasm32_wasi:-${WASI_SDK_PATH:+$WASI_SDK_PATH/bin/}clang}
c_target=(--target=wasm32-wasi ${WASI_SDK_PATH:+--sysroot="$WASI_SDK_PATH/share/wasi-sysroot"})
c_flags=(-O2 -std=gnu11 -Wall -Wextra -Werror)

# c_guest NAME LINK_FLAG COMPILE_FLAG...; `strip=` keeps names and debug information
c_guest() {
    local name=$1 link=$2
    shift 2
    # Compile in the source's folder, so that no path of this machine gets into the object.
    (cd "$here/c" && "$cc" "${c_target[@]}" "${c_flags[@]}" "$@" -c "${source:-$name.c}" \
        -o "$scratch/$name.o")
    "$cc" "${c_target[@]}" ${link:+"$link"} ${strip--Wl,--strip-all} "$scratch/$name.o" \
        -o "$out/$name.wasm"
    chmod 644 "$out/$name.wasm"
    built+=("$name.wasm")
}

# Whether a WASI program can be made of C. If not, reports that the language $1 is missing.
has_c() {
    local version
    if ! command -v "$cc" >"$scratch/log"; then
        missing+=("$1: no $cc;\
 Debian: apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32")
        return 1
    fi
    version=$("$cc" -dumpversion)
    version=${version%%.*}
    cat >"$scratch/probe.c" <<'END'
#include <stdio.h>
int main(int c, char **v) { return printf("%Lf", (long double)c) + !v; }
END
    if ! "$cc" "${c_target[@]}" "$scratch/probe.c" -o "$scratch/probe.wasm" 2>"$scratch/log"; then
        local why
        why=$(grep -m1 -o 'error: .*' "$scratch/log" || head -1 "$scratch/log")
        missing+=("$1: $cc $version cannot make a WASI program ($why);\
 Debian: apt-get install lld wasi-libc libclang-rt-$version-dev-wasm32")
        return 1
    fi
}

build_c() {
    has_c c || return 0
    c_guest hello ""
    source=tour.c c_guest tour-c ""
    c_guest fib -mexec-model=reactor
    source=warm.c c_guest warm-c -mexec-model=reactor
    strip="" c_guest lines -mexec-model=reactor -g -fdebug-compilation-dir=.
    # Without the vectoriser: the intrinsics are compared with the plain C code of this guest.
    c_guest simd "" -msimd128 -fno-vectorize -fno-slp-vectorize -ffp-contract=off
    c_guest crypto -mexec-model=reactor -O3 -msimd128 -I../../../compiler/include
    c_guest x86 "" -msimd128 -I../../../compiler/include
}

# Whether the package in folder $2 can be built for WASI. If not, reports that $1 is missing. Goes
# to the folder, where a pinned toolchain applies.
has_rust() {
    local rustc=${RUSTC:-rustc} target=wasm32-wasip1 libs
    if ! command -v cargo >"$scratch/log" || ! command -v "$rustc" >"$scratch/log"; then
        missing+=("$1: no cargo or rustc; https://rustup.rs, then: rustup target add $target")
        return 1
    fi
    cd "$2"
    libs=$("$rustc" --print target-libdir --target $target)
    if ! compgen -G "$libs/libstd-*.rlib" >"$scratch/log"; then
        missing+=("$1: $("$rustc" --version) has no std for $target; rustup target add $target;\
 for the rustc of Debian 13 or newer: apt-get install libstd-rust-dev-wasm32")
        return 1
    fi
}

# Builds the package in this folder for WASI, into $scratch/rust. The arguments are cargo's.
rust_guest() {
    local sysroot flags crates
    sysroot=$("${RUSTC:-rustc}" --print sysroot)
    # Replaces flags from the environment or from configuration files. The separator is 0x1f,
    # because a path may contain spaces.
    local remap=$'\x1f'--remap-path-prefix=
    flags=$remap$PWD=.$remap$sysroot/lib/rustlib/src/rust=/rustc
    # One folder a registry; cargo gives their names.
    for crates in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
        flags+=$remap$crates=/crates
    done
    CARGO_ENCODED_RUSTFLAGS=${flags#?} cargo build --quiet --release --locked \
        --target wasm32-wasip1 --target-dir "$scratch/rust" "$@"
}

build_rust() {
    has_rust rust "$here/rust" || return 0
    rust_guest --offline
    local name guest
    for guest in tour-rust:tour web-rust:web web-hello:hello-web warm-rust:warm; do
        name=${guest%%:*}.wasm
        cp "$scratch/rust/wasm32-wasip1/release/${guest##*:}.wasm" "$out/$name"
        chmod 644 "$out/$name"
        built+=("$name")
    done
}

# Whether Go 1.$2 or newer for WASI is installed. If not, reports that $1 is missing.
has_go() {
    if ! command -v go >"$scratch/log"; then
        missing+=("$1: no go;\
 https://go.dev/dl or Debian: apt-get install golang-go (1.$2 or newer)")
        return 1
    fi
    # The caller's settings would change the bytes.
    unset GOWASM GOEXPERIMENT
    export GOTOOLCHAIN=local GOFLAGS= GOWORK=off CGO_ENABLED=0
    go tool dist list >"$scratch/targets"
    local minor
    minor=$(go env GOVERSION)
    minor=${minor#go1.}
    if ! grep -qx wasip1/wasm "$scratch/targets" || [ "${minor%%[!0-9]*}" -lt "$2" ]; then
        missing+=("$1: $(go env GOVERSION) cannot make it; 1.$2 or newer can: https://go.dev/dl")
        return 1
    fi
}

build_go() {
    has_go go 21 || return 0
    cd "$here/go"
    local name guest
    for guest in tour-go:tour json:json web-go:web; do
        name=${guest%%:*}.wasm
        GOOS=wasip1 GOARCH=wasm \
            go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" \
            -o "$out/built/$name" "./${guest##*:}"
        chmod 644 "$out/built/$name"
        built+=("built/$name")
    done
    # Reactors: their exports are called again and again. `go:wasmexport` came with Go 1.24.
    has_go warm 24 || return 0
    for guest in warm:warm web-go-reactor:web; do
        name=${guest%%:*}.wasm
        GOOS=wasip1 GOARCH=wasm \
            go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -buildmode=c-shared \
            -o "$out/built/$name" "./${guest##*:}"
        chmod 644 "$out/built/$name"
        built+=("built/$name")
    done
}

# QuickJS with a small host around it (js/main.c). Its sources come with a crate.
build_js() {
    local crate sources source objects=()
    has_c js || return 0
    if ! command -v cargo >"$scratch/log"; then
        missing+=("js: no cargo, which fetches the sources of QuickJS; https://rustup.rs")
        return
    fi
    cd "$here/js"
    cargo metadata --format-version 1 --locked >"$scratch/metadata"
    crate=$(grep -o '"manifest_path":"[^"]*/rquickjs-sys-[^"]*/Cargo.toml"' "$scratch/metadata")
    crate=${crate#*:\"}
    sources=${crate%/Cargo.toml\"}/quickjs
    for source in quickjs libregexp libunicode dtoa; do
        # Not our code: its warnings are not shown.
        (cd "$sources" && "$cc" "${c_target[@]}" -O2 -D_GNU_SOURCE -D_WASI_EMULATED_SIGNAL -w \
            -c "$source.c" -o "$scratch/$source.o")
        objects+=("$scratch/$source.o")
    done
    "$cc" "${c_target[@]}" "${c_flags[@]}" -isystem "$sources" -c main.c -o "$scratch/main.o"
    "$cc" "${c_target[@]}" -mexec-model=reactor "$scratch/main.o" "${objects[@]}" \
        -lwasi-emulated-signal -Wl,--strip-all -o "$out/built/quickjs.wasm"
    chmod 644 "$out/built/quickjs.wasm"
    built+=("built/quickjs.wasm")
}

# Makes the toolchain for guests with threads, part $2, and sets `toolchain` to its folder. If that
# fails, reports that $1 is missing.
has_threads() {
    if ! toolchain=$("$here/threads/toolchain.sh" "$2" 2>"$scratch/log"); then
        missing+=("$1: $(tail -1 "$scratch/log")")
        return 1
    fi
}

build_threads_c() {
    has_threads threads-c c || return 0
    (cd "$here/threads/c" && "$toolchain/bin/cc" "${c_flags[@]}" -c threads.c \
        -o "$scratch/threads.o")
    # The test of the limit needs no more than 64 MiB.
    "$toolchain/bin/cc" -Wl,--strip-all,--max-memory=67108864 "$scratch/threads.o" \
        -o "$out/threads-c.wasm"
    chmod 644 "$out/threads-c.wasm"
    built+=("threads-c.wasm")
}

build_threads_rust() {
    has_threads threads-rust rust || return 0
    cd "$here/threads/rust"
    local flags=--remap-path-prefix=$PWD=.
    flags+=$'\x1f'--remap-path-prefix=$toolchain/host/usr/lib/rustlib/src/rust=/rustc
    flags+=$'\x1f'-Clink-arg=--max-memory=67108864
    RUSTC=$toolchain/bin/rustc CARGO_TARGET_WASM32_WASIP1_THREADS_LINKER=$toolchain/bin/wasm-ld \
        CARGO_ENCODED_RUSTFLAGS="$flags" \
        cargo build --quiet --release --locked --offline --target wasm32-wasip1-threads \
        --target-dir "$scratch/threads-rust"
    cp "$scratch/threads-rust/wasm32-wasip1-threads/release/threads.wasm" "$out/threads-rust.wasm"
    chmod 644 "$out/threads-rust.wasm"
    built+=("threads-rust.wasm")
}

build_java() {
    if ! command -v mvn >"$scratch/log" || ! command -v javac >"$scratch/log"; then
        missing+=("java: no mvn or javac; Debian: apt-get install maven default-jdk")
        return
    fi
    cp -r "$here/java" "$scratch/java"
    (cd "$scratch/java" && mvn --quiet --batch-mode package >"$scratch/log" 2>&1) || {
        missing+=("java: $(grep -m1 -o 'ERROR.*' "$scratch/log" || echo "mvn failed");\
 see whether Maven reaches its repository")
        return
    }
    for program in warm maths; do
        cp "$scratch/java/target/javascript/$program-java.wasm" "$out/built/"
        built+=("built/$program-java.wasm")
    done
}

# CRuby as its maintainers build it.
ruby_package=@ruby/3.4-wasm-wasi@2.10.1

build_ruby() {
    if ! command -v npm >"$scratch/log"; then
        missing+=("ruby: no npm, which fetches $ruby_package; Debian: apt-get install npm")
        return
    fi
    cd "$scratch"
    if ! npm pack --silent "$ruby_package" >"$scratch/log" 2>&1; then
        missing+=("ruby: npm cannot fetch $ruby_package; see whether it reaches its registry")
        return
    fi
    tar -xzf ruby-3.4-wasm-wasi-*.tgz package/dist/ruby+stdlib.wasm
    cp package/dist/ruby+stdlib.wasm "$out/built/ruby.wasm"
    chmod 644 "$out/built/ruby.wasm"
    built+=("built/ruby.wasm")
}

# The folder of a crate: crate_folder PACKAGE CRATE, where PACKAGE depends on CRATE
crate_folder() {
    local path
    (cd "$1" && cargo metadata --format-version 1 --locked) >"$scratch/metadata" || return
    path=$(grep -o "\"manifest_path\":\"[^\"]*/$2-[0-9][^\"/]*/Cargo.toml\"" "$scratch/metadata")
    path=${path#*:\"}
    echo "${path%/Cargo.toml\"}"
}

# The tool that makes components, and the WIT files. If they cannot be had, reports that $1 is
# missing. The tool stays in built/, because building it takes minutes.
has_components() {
    if ! command -v cargo >"$scratch/log"; then
        missing+=("$1: no cargo, which builds componentize/; https://rustup.rs")
        return 1
    fi
    componentize=$here/built/componentize/release/componentize
    local from
    if ! (cd "$here/componentize" && cargo build --quiet --release --locked \
        --target-dir "$here/built/componentize") >"$scratch/log" 2>&1 ||
        ! from=$(crate_folder "$here/rust/http" wasip2 2>"$scratch/log"); then
        missing+=("$1: $(grep -m1 -o 'error.*' "$scratch/log" || echo "cargo failed");\
 see whether cargo reaches crates.io")
        return 1
    fi
    if [ ! -e "$scratch/wit" ]; then
        mkdir "$scratch/wit"
        cp -r "$from/wit/deps" "$scratch/wit/deps"
        echo 'package pirn:guest; world guest { include wasi:http/proxy@0.2.12; }' \
            >"$scratch/wit/guest.wit"
    fi
}

# component_guest ADAPTER MODULE NAME [WIT]
component_guest() {
    "$componentize" component "$1" "$2" "$out/$3" ${4+"$4"}
    chmod 644 "$out/$3"
    built+=("$3")
}

# The commands of C and Rust, as components.
build_p2() {
    has_components p2 || return 0
    local name from
    for name in hello tour-c tour-rust; do
        from=$here
        [ ! -e "$out/$name.wasm" ] || from=$out
        component_guest command "$from/$name.wasm" "$name-p2.wasm"
    done
}

build_http_c() {
    has_c http-c && has_components http-c || return 0
    local folder=$scratch/http-c name
    "$componentize" bindings c "$scratch/wit" "$folder"
    cp "$here/c/http.c" "$folder"
    cd "$folder"
    # Not our code: its warnings are not shown.
    "$cc" "${c_target[@]}" -O2 -std=gnu11 -w -c guest.c
    "$cc" "${c_target[@]}" "${c_flags[@]}" -c http.c
    "$cc" "${c_target[@]}" -mexec-model=reactor -Wl,--strip-all http.o guest.o \
        guest_component_type.o -o http.wasm
    component_guest proxy http.wasm http-c.wasm
}

build_http_rust() {
    has_rust http-rust "$here/rust/http" && has_components http-rust || return 0
    rust_guest --lib --example hello --example files
    local from=$scratch/rust/wasm32-wasip1/release
    component_guest proxy "$from/http_rust.wasm" http-rust.wasm
    component_guest proxy "$from/examples/hello.wasm" http-hello.wasm
    component_guest reactor "$from/examples/files.wasm" http-files.wasm
}

build_http_go() {
    has_go http-go 25 && has_components http-go || return 0
    local folder=$scratch/http-go from
    "$componentize" bindings go "$scratch/wit" "$folder"
    mkdir "$folder/export_wasi_http_incoming_handler"
    cp "$here/go/http/handler.go" "$folder/export_wasi_http_incoming_handler"
    # The generator brings the module that its bindings need. That asks for a newer Go than it
    # needs.
    from=$(crate_folder "$here/componentize" wit-bindgen-go)
    cp -r "$from/src/pkg" "$folder/pkg"
    chmod -R u+w "$folder/pkg"
    cd "$folder"
    go mod edit -go=1.25 pkg/go.mod
    go mod edit -replace=go.bytecodealliance.org/pkg=./pkg
    # The module refers to a function of Go's runtime that is not public.
    GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false -buildmode=c-shared \
        -ldflags="-s -w -buildid= -checklinkname=0" -o http.wasm .
    component_guest proxy http.wasm built/http-go.wasm "$scratch/wit"
}

build_http_js() {
    if ! command -v npm >"$scratch/log" || ! command -v node >"$scratch/log"; then
        missing+=("http-js: no npm or node; Debian: apt-get install npm")
        return
    fi
    has_components http-js || return 0
    local name guest
    mkdir "$scratch/http-js"
    cp "$here"/js/{package.json,package-lock.json,componentize.mjs,http.js,http-hello.js} \
        "$scratch/http-js"
    cd "$scratch/http-js"
    if ! npm ci --silent >"$scratch/log" 2>&1; then
        missing+=("http-js: npm cannot fetch componentize-js; see whether it reaches its registry")
        return
    fi
    # The engine exports the interfaces of version 0.2.3. An import of an unstable interface that
    # is not there by default is left out.
    cp -r "$scratch/wit" wit
    sed -i.old -E -e '/@unstable\(feature = clocks-timezone\)/,+1d' wit/deps/cli.wit
    sed -i.old -E -e 's/0\.2\.([4-9]|1[0-2])/0.2.3/g' wit/guest.wit wit/deps/*.wit
    rm wit/*.old wit/deps/*.old
    for guest in http-js:http http-js-hello:http-hello; do
        name=built/${guest%%:*}.wasm
        node componentize.mjs "${guest##*:}.js" wit guest "$out/$name"
        chmod 644 "$out/$name"
        varying+=("$name")
    done
}

build_http_python() {
    local python=$scratch/http-python/lib
    if ! command -v python3 >"$scratch/log" || ! python3 -m pip --version >"$scratch/log" 2>&1; then
        missing+=("http-python: no python3 with pip; Debian: apt-get install python3-pip")
        return
    fi
    has_components http-python || return 0
    if ! python3 -m pip install --quiet --require-hashes --only-binary=:all: --target "$python" \
        --requirement "$here/python/requirements.txt" >"$scratch/log" 2>&1; then
        missing+=("http-python: $(grep -m1 ERROR "$scratch/log" || echo "pip failed")")
        return
    fi
    cp "$here/python/http_handler.py" "$scratch/http-python"
    cd "$scratch/http-python"
    PYTHONPATH=$python "$python/bin/componentize-py" --quiet --wit-path "$scratch/wit" \
        --world guest componentize http_handler --output "$out/built/http-python.wasm"
    chmod 644 "$out/built/http-python.wasm"
    varying+=("built/http-python.wasm")
}

for language in "${languages[@]}"; do "build_${language//-/_}"; done

for what in ${missing[@]+"${missing[@]}"}; do echo "build.sh: $what" >&2; done
names=${missing[*]+"${missing[*]%%:*}"}
all=(${built[@]+"${built[@]}"} ${varying[@]+"${varying[@]}"})
echo "built: ${all[*]:-nothing}; not built: ${names:-nothing}"

status=0
if [ $check = 1 ]; then
    for name in ${built[@]+"${built[@]}"}; do
        if [ ! -e "$here/$name" ]; then
            echo "build.sh: $name is not here to compare with; run build.sh first" >&2
            status=1
        elif ! cmp -s "$out/$name" "$here/$name"; then
            here_bytes=$(wc -c <"$here/$name")
            built_bytes=$(wc -c <"$out/$name")
            echo "build.sh: $name is $here_bytes bytes here, $built_bytes built now, and differs;\
 another toolchain version (README.md names them) or a changed source" >&2
            status=1
        fi
    done
fi
if [ $strict = 1 ] && [ ${#missing[@]} -gt 0 ]; then status=1; fi
exit $status
