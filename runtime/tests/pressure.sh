#!/usr/bin/env bash
# Runs the tests of leftovers in slots under memory pressure: with swap, and in a control group with
# few MiB, so that the kernel reclaims pages all the time. Needs root; without it, the script says
# so and does nothing.
#
#     runtime/tests/pressure.sh [LIMIT]        memory limit in MiB, 24 by default
#
# If the kernel finds no page to reclaim for a moment, it kills the process that asks for memory.
# Such a test runs again with half as much memory more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
first=${1:-24} limit=$first most=100

refused() {
    echo "NOT RUN: memory pressure: $*" >&2
    exit 0
}

test=$(cargo test --locked --no-run --test runtime 2>&1 |
    sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
if [ -z "$test" ]; then
    echo "found no test program; build it with cargo test --no-run" >&2
    exit 1
fi

swap=$PWD/target/swap.$$ group=
cleanup() {
    swapoff "$swap" 2>&- || true
    rm -f "$swap"
    [ -z "$group" ] || rmdir "$group"
}
trap cleanup EXIT
{ fallocate -l 768M "$swap" && chmod 600 "$swap" && mkswap "$swap" && swapon "$swap"; } >&- 2>&- ||
    refused "swap cannot be added"

# Control groups version 1, or version 2.
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    mkdir "$root/pirn-pressure" 2>&- || continue
    group=$root/pirn-pressure
    for file in memory.limit_in_bytes memory.max; do
        # The shell reports a file that cannot be opened before it redirects stderr, so the group
        # redirects it.
        if { echo "${limit}M" >"$group/$file"; } 2>&-; then break 2; fi
    done
    rmdir "$group"
    group=
done
[ -n "$group" ] || refused "no control group can be limited"

# Number of processes in the group that the kernel has killed.
kills() {
    case $file in
        memory.max) awk '/^oom_kill / {print $2}' "$group/memory.events" ;;
        *) awk '/^oom_kill / {print $2}' "$group/memory.oom_control" ;;
    esac
}

test=$(realpath "$test")
before=$(awk '/^pswpout/ {print $2}' /proc/vmstat)
cd runtime
# Of the snapshots, those with large mapped images.
for suite in tenants:: freshness:: snapshots::mapped; do
    limit=$first
    echo "${limit}M" >"$group/$file"
    killed=$(kills)
    # `$$` is the id of the inner shell, which then becomes the test.
    until GROUP=$group TEST=$test bash -c \
        'echo $$ >"$GROUP/cgroup.procs"; exec "$TEST" "$0"' "$suite"; do
        [ "$(kills)" != "$killed" ] && [ "$limit" -lt "$most" ] || exit 1
        killed=$(kills) limit=$((limit + limit / 2))
        echo "memory pressure: killed by the kernel; once more with $limit MiB"
        echo "${limit}M" >"$group/$file"
    done
done
after=$(awk '/^pswpout/ {print $2}' /proc/vmstat)
echo "memory pressure: $((after - before)) pages were moved out"
[ "$after" -gt "$before" ] || {
    echo "no page was moved out: lower the limit of $limit MiB" >&2
    exit 1
}
