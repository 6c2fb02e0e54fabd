#!/usr/bin/env bash
# Builds portable.wasm from portable.c, with the C toolchain that examples/guests/README.md names.
#
#     portable.sh [--check]     --check: builds elsewhere and compares
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$here"
flags=(--target=wasm32 -msimd128 -O2 -std=gnu11 -Wall -Wextra -Werror -ffreestanding -fno-builtin)
clang "${flags[@]}" -c portable.c -o "$scratch/portable.o"
wasm-ld-14 --no-entry --strip-all "$scratch/portable.o" -o "$scratch/portable.wasm"
case ${1-} in
    --check) cmp "$scratch/portable.wasm" portable.wasm ;;
    *) install -m 644 "$scratch/portable.wasm" portable.wasm ;;
esac
