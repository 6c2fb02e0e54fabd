#!/usr/bin/env bash
# Runs the tests of what is left in slots under memory pressure: with swap, and in a control group of few
# MiB, so that the kernel takes pages away all the time. It needs root; where it may not, it says so.
#
#     runtime/tests/pressure.sh [LIMIT]        of memory, in MiB, 24 if none is given
#
# A kernel that finds nothing to take away for a moment kills who asks for more. Such a test is run again with
# half as much memory more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
limit=${1:-24} most=100

refused() {
    echo "NOT RUN: memory pressure: $*" >&2
    exit 0
}

mapfile -t tests < <(cargo test --workspace --locked --no-run --test tenants --test freshness 2>&1 |
    sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
[ ${#tests[@]} = 2 ] || { echo "found ${#tests[@]} of 2 tests; build them first" >&2; exit 1; }

swap=$PWD/target/swap.$$ group=
cleanup() {
    swapoff "$swap" 2>&- || true
    rm -f "$swap"
    [ -z "$group" ] || rmdir "$group"
}
trap cleanup EXIT
{ fallocate -l 768M "$swap" && chmod 600 "$swap" && mkswap "$swap" && swapon "$swap"; } >&- 2>&- || refused "swap cannot be added"

# Version 1, or version 2.
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    mkdir "$root/pirn-pressure" 2>&- || continue
    group=$root/pirn-pressure
    for file in memory.limit_in_bytes memory.max; do
        # A shell tells of a file that cannot be opened before the redirection of its errors.
        if { echo "${limit}M" >"$group/$file"; } 2>&-; then break 2; fi
    done
    rmdir "$group"
    group=
done
[ -n "$group" ] || refused "no control group can be limited"

# How many processes of the group the kernel has killed.
kills() {
    case $file in
        memory.max) awk '/^oom_kill / {print $2}' "$group/memory.events" ;;
        *) awk '/^oom_kill / {print $2}' "$group/memory.oom_control" ;;
    esac
}

before=$(awk '/^pswpout/ {print $2}' /proc/vmstat)
cd runtime
for test in "${tests[@]}"; do
    killed=$(kills)
    # Of this shell, which becomes the test.
    until GROUP=$group TEST=../$test bash -c 'echo $$ >"$GROUP/cgroup.procs"; exec "$TEST"'; do
        [ "$(kills)" != "$killed" ] && [ "$limit" -lt "$most" ] || exit 1
        killed=$(kills) limit=$((limit + limit / 2))
        echo "memory pressure: killed by the kernel; once more with $limit MiB"
        echo "${limit}M" >"$group/$file"
    done
done
after=$(awk '/^pswpout/ {print $2}' /proc/vmstat)
echo "memory pressure: $((after - before)) pages were moved out"
[ "$after" -gt "$before" ] || { echo "no page was moved out: lower the limit of $limit MiB" >&2; exit 1; }
