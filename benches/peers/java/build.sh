#!/usr/bin/env bash
# Builds what the bench needs into built/: the Java programs as WebAssembly (by TeaVM, which Maven
# fetches) and as classes, and the C program that runs the classes in a Java virtual machine.
# A missing toolchain is named in one line, and is an error.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "benches/peers/java/build.sh: $*" >&2
    exit 1
}

for tool in mvn javac cc; do
    command -v "$tool" >"$scratch/log" ||
        fail "no $tool; Debian: apt-get install maven default-jdk gcc"
done
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
[ -e "$home/include/jni.h" ] ||
    fail "no include/jni.h in $home; set JAVA_HOME to a JDK; Debian: apt-get install default-jdk"

cp -r "$here/guests" "$scratch/guests"
cd "$scratch/guests"
mvn --quiet --batch-mode package >"$scratch/log" 2>&1 ||
    fail "$(grep -m1 -o 'ERROR.*' "$scratch/log" || echo "mvn failed"); see whether Maven reaches\
 its repository"
cc -std=gnu11 -O2 -Wall -Wextra -Werror -I"$home/include" -I"$home/include/linux" jvm.c \
    -L"$home/lib/server" -Wl,-rpath,"$home/lib/server" -ljvm -o target/jvm

rm -rf "$here/built"
mkdir -p "$here/built"
cp -r target/classes target/jvm target/javascript/*.wasm "$here/built/"
echo "built: $(cd "$here/built" && echo *)"
