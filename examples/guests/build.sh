#!/usr/bin/env bash
# Builds every guest program whose toolchain is installed, and reports the others.
#
#     build.sh [--strict] [--check] [--out DIR] [c] [rust] [go] [js] [java] [ruby]
#
#     c, rust, ...  only these languages (all, if none is named)
#     --strict      a missing toolchain is an error: exit code 1
#     --check       builds into a scratch folder and compares with the files here;
#                   a difference is an error
#     --out DIR     builds into DIR instead of here
#
# The small guests are committed next to this script. Those of Go, JavaScript, Java and Ruby are
# built into built/, which is not committed. The bytes depend on the toolchain's version (README.md
# names the versions), but not on the place or time of the build.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$here strict=0 check=0 languages=()
while [ $# -gt 0 ]; do
    case $1 in
        --strict) strict=1 ;;
        --check) check=1 ;;
        --out) out=${2:?--out needs a folder}; shift ;;
        c | rust | go | js | java | ruby) languages+=("$1") ;;
        *)
            echo "build.sh: unknown argument \"$1\";\
 known: --strict --check --out DIR c rust go js java ruby" >&2
            exit 2
            ;;
    esac
    shift
done
[ ${#languages[@]} -gt 0 ] || languages=(c rust go js java ruby)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ $check = 1 ]; then out=$scratch/out; fi
mkdir -p "$out/built"
out=$(cd "$out" && pwd)
built=() missing=()

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
    c_guest crypto -mexec-model=reactor -O3 -msimd128 -I../../../include
    c_guest x86 "" -msimd128 -I../../../include
}

build_rust() {
    local rustc=${RUSTC:-rustc} target=wasm32-wasip1 libs sysroot
    if ! command -v cargo >"$scratch/log" || ! command -v "$rustc" >"$scratch/log"; then
        missing+=("rust: no cargo or rustc; https://rustup.rs, then: rustup target add $target")
        return
    fi
    # Run in the package's folder, where a pinned toolchain applies.
    cd "$here/rust"
    libs=$("$rustc" --print target-libdir --target $target)
    if ! compgen -G "$libs/libstd-*.rlib" >"$scratch/log"; then
        missing+=("rust: $("$rustc" --version) has no std for $target; rustup target add $target;\
 for the rustc of Debian 13 or newer: apt-get install libstd-rust-dev-wasm32")
        return
    fi
    sysroot=$("$rustc" --print sysroot)
    # Replaces flags from the environment or from configuration files. The separator is 0x1f,
    # because a path may contain spaces.
    local remap=--remap-path-prefix library=$sysroot/lib/rustlib/src/rust
    CARGO_ENCODED_RUSTFLAGS="$remap=$here/rust=."$'\x1f'"$remap=$library=/rustc" \
        cargo build --quiet --release --locked --offline --target $target \
        --target-dir "$scratch/rust"
    local name guest
    for guest in tour-rust:tour web-rust:web web-hello:hello-web warm-rust:warm; do
        name=${guest%%:*}.wasm
        cp "$scratch/rust/$target/release/${guest##*:}.wasm" "$out/$name"
        chmod 644 "$out/$name"
        built+=("$name")
    done
}

build_go() {
    if ! command -v go >"$scratch/log"; then
        missing+=("go: no go;\
 https://go.dev/dl or Debian: apt-get install golang-go (1.21 or newer)")
        return
    fi
    # The caller's settings would change the bytes.
    unset GOWASM GOEXPERIMENT
    export GOTOOLCHAIN=local GOFLAGS= GOWORK=off CGO_ENABLED=0
    cd "$here/go"
    go tool dist list >"$scratch/targets"
    if ! grep -qx wasip1/wasm "$scratch/targets"; then
        missing+=("go: $(go env GOVERSION) has no wasip1/wasm;\
 1.21 or newer has: https://go.dev/dl")
        return
    fi
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
    local minor
    minor=$(go env GOVERSION)
    minor=${minor#go1.}
    if [ "${minor%%[!0-9]*}" -lt 24 ]; then
        missing+=("warm: $(go env GOVERSION) has no reactors; 1.24 or newer has: https://go.dev/dl")
        return
    fi
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
    cp "$scratch/java/target/javascript/warm-java.wasm" "$out/built/"
    built+=("built/warm-java.wasm")
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

for language in "${languages[@]}"; do "build_$language"; done

for what in ${missing[@]+"${missing[@]}"}; do echo "build.sh: $what" >&2; done
names=${missing[*]+"${missing[*]%%:*}"}
echo "built: ${built[*]:-nothing}; not built: ${names:-nothing}"

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
