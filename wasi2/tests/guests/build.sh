#!/usr/bin/env bash
# Builds the guests of the tests, for the target wasm32-wasip2 (rustup target add wasm32-wasip2).
# The files here were built by rustc 1.95.0.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
target=wasm32-wasip2
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src

for name in sockets; do
    # No path of this machine gets into the file.
    CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$here=."$'\x1f'"--remap-path-prefix=$sources=" \
        cargo build --quiet --release --locked --target $target --target-dir "$scratch" \
        --manifest-path "$here/$name/Cargo.toml"
    cp "$scratch/$target/release/$name.wasm" "$here/$name.wasm"
    chmod 644 "$here/$name.wasm"
done
