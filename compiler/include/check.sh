#!/usr/bin/env bash
# Checks the headers with clang. They must compile as C and as C++ without a warning. If a compiler
# flag is missing, the only error must name it. This machine must compute the results in
# examples/guests/fixtures/x86.expected.txt. Other tests run guests that use the headers, and need
# no clang.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cc=${CC_wasm32_wasi:-${WASI_SDK_PATH:+$WASI_SDK_PATH/bin/}clang}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
fail() { echo "check.sh: $*" >&2; exit 1; }

strict=(-Wall -Wextra -Wconversion -Wshadow -Wundef -Werror -flax-vector-conversions=none)
printf '#include "%s"\n' $(cd "$here" && ls ./*.h) >all.c
variants=("" -DHW_PORTABLE)
if "$cc" --target=wasm32 -mwide-arithmetic -x c -fsyntax-only - </dev/null 2>log; then
    variants+=(-mwide-arithmetic)
else
    echo "NOT RUN: headers with wide arithmetic; $cc $("$cc" -dumpversion) has no" \
        "-mwide-arithmetic, clang 20 has" >&2
fi
for language in c c++; do
    for more in "${variants[@]}"; do
        "$cc" --target=wasm32 -msimd128 -ffreestanding "${strict[@]}" $more -I "$here" \
            -x $language -fsyntax-only all.c
    done
done

# C++ must find the functions that portable.c defines.
printf '#include <hw.h>\nuint32_t f(uint32_t a) { return hw_x86_pext_u32(a, a); }\n' >use.c
"$cc" --target=wasm32 -msimd128 -ffreestanding -DHW_PORTABLE -I "$here" -x c++ -S use.c -o - |
    grep -q 'functype[[:space:]]*hw_x86_pext_u32 ' || fail "names of functions are changed in C++"

# one_error FLAGS...: checks that the header's message is the only error.
one_error() {
    if "$cc" -ffreestanding "$@" -I "$here" -fsyntax-only use.c 2>log; then
        fail "compiles with: $*"
    fi
    [ "$(grep -c 'error: ' log)" = 1 ] && grep -q 'error: "this header .*compile with ' log ||
        fail "with $*: $(cat log)"
}
for header in "$here"/*.h; do
    printf '#include "%s"\nv128_t f(__m128i a) { return _mm_setzero_si128(a); }\n' "$header" >use.c
    one_error --target=wasm32
    one_error --target=wasm32 -Werror
    one_error --target=x86_64-linux-gnu
    one_error --target=aarch64-linux-gnu
    if "$cc" --target=wasm32 -ffreestanding -w -I "$here" -fsyntax-only use.c 2>log; then
        fail "compiles with -w"
    fi
done

if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: x86.c; this machine is $(uname -m)" >&2
    exit
fi
guests=$here/../../examples/guests
features=(-msse4.2 -maes -mpclmul -msha -mgfni -mbmi -mbmi2 -mlzcnt -madx)
"$cc" -O2 -std=gnu11 -Wall -Wextra -Werror "${features[@]}" "$guests/c/x86.c" -o x86
./x86 | diff - "$guests/fixtures/x86.expected.txt" ||
    fail "x86.expected.txt is not what this machine computes"
