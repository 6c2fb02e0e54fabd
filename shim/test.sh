#!/usr/bin/env bash
# Starts a containerd, runs containers of the shim as root, and checks their behaviour.
#
#     shim/test.sh                      the tests, with a few timed starts
#     shim/test.sh --starts 200         times 200 starts, and compares with runc
#     shim/test.sh --release            with optimised builds of the shim
#
# If the user is not root, or a program is missing, the script prints one line and ends. Variables:
#
#     CONTAINERD_BIN    a folder with another containerd and ctr
#     OTHER_RUNTIME     one more runtime to time, such as io.containerd.wasmtime.v1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
starts=20 profile=debug build=()
while [ $# -gt 0 ]; do
    case $1 in
    --starts) starts=$2 && shift ;;
    --release) profile=release build=(--release) ;;
    *) echo "unknown option $1; see the head of $0" >&2 && exit 1 ;;
    esac
    shift
done

missing() {
    echo "NOT RUN: containers of the shim: $1" >&2
    exit 0
}
[ "$(uname -s)" = Linux ] || missing "no Linux"
[ "$(id -u)" = 0 ] || missing "not root; run $0 as root"
PATH=${CONTAINERD_BIN:+$CONTAINERD_BIN:}$PATH
needed=(containerd ctr runc busybox clang wasm-ld curl minisign)
has_all() {
    for program in "${needed[@]}"; do command -v "$program" >/dev/null || return 1; done
    [ -e /usr/include/seccomp.h ] && command -v protoc >/dev/null
}
if ! has_all && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update >/dev/null 2>&1 || true
    # Recommended packages would start a daemon.
    apt-get -qq --yes --no-install-recommends install containerd runc busybox-static clang lld \
        wasi-libc libclang-rt-14-dev-wasm32 curl libseccomp-dev minisign protobuf-compiler \
        >/dev/null 2>&1 || true
fi
for program in "${needed[@]}" protoc; do
    command -v "$program" >/dev/null || missing "no $program; install Debian's package of it"
done
[ -e /usr/include/seccomp.h ] || missing "no libseccomp; install libseccomp-dev"

echo "building the shim, and testing what needs no containerd"
cargo test --quiet --locked --manifest-path shim/Cargo.toml
cargo build --quiet --locked --manifest-path shim/Cargo.toml --example oci-image
cargo build --quiet --locked "${build[@]}" --manifest-path shim/Cargo.toml
of_shim=${CARGO_TARGET_DIR:-shim/target}
of_workspace=${CARGO_TARGET_DIR:-target}/debug
for program in aotc pirn-load; do
    [ -x "$of_workspace/$program" ] || cargo build --quiet --locked --bin "$program" \
        --package "$([ $program = aotc ] && echo pirn-aotc || echo pirn-server)"
done

# One folder contains the daemon's data, the images, the policy and the cache.
dir=$(mktemp -d)
chmod 755 "$dir"
mkdir -m 755 "$dir"/{bin,etc,images,volume}
export CONTAINERD_ADDRESS=$dir/containerd.sock CONTAINERD_NAMESPACE=pirn-test-$$
# The control group folders of all containers so far.
groups() { ls -d /sys/fs/cgroup/{*/,}"$CONTAINERD_NAMESPACE" 2>/dev/null || true; }
daemon=
clean_up() {
    local code=$?
    set +e
    if [ $code != 0 ]; then
        echo "--- end of the log of containerd" >&2
        tail -n 40 "$dir/containerd.log" | cut -c1-400 >&2
    fi
    if [ -n "$daemon" ]; then
        for task in $(timeout 60 ctr task ls -q); do
            timeout 60 ctr task kill -s KILL "$task" >/dev/null 2>&1
        done
        for container in $(timeout 60 ctr container ls -q); do
            timeout 60 ctr task rm -f "$container" >/dev/null 2>&1
            timeout 60 ctr container rm "$container" >/dev/null 2>&1
        done
        kill "$daemon"
        wait "$daemon" 2>/dev/null
    fi
    # A failed test may leave shims. Their command lines contain the socket of this daemon.
    for pid in $(grep -lsF "$CONTAINERD_ADDRESS" /proc/[0-9]*/cmdline | cut -d/ -f3); do
        [ "$pid" = $$ ] || kill -9 "$pid" 2>/dev/null
    done
    awk -v dir="$dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
        xargs -r umount -l 2>/dev/null
    for folder in $(groups); do
        find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    rm -rf "$dir" "/run/containerd/pirn/$CONTAINERD_NAMESPACE"
    exit $code
}
trap clean_up EXIT

cp "$of_shim/$profile/containerd-shim-pirn-v1" "$of_workspace/aotc" "$dir/bin/"
policy() { cat >"$dir/etc/shim.toml"; }
policy <<<"cache = \"$dir/cache\""
cat >"$dir/containerd.toml" <<END
version = 2
root = "$dir/root"
state = "$dir/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "$CONTAINERD_ADDRESS"
END
PATH=$dir/bin:$PATH PIRN_SHIM_POLICY=$dir/etc/shim.toml \
    containerd --config "$dir/containerd.toml" >"$dir/containerd.log" 2>&1 &
daemon=$!
# Longest time that a command may take, and that a condition may take to hold. Only a test that
# fails needs it: a busy machine may need a hundred times as long as an idle one.
seconds_max=600
# Calls a command until it succeeds.
until_ok() {
    local end=$((SECONDS + seconds_max))
    until "$@" >"$dir/until" 2>&1; do
        [ $SECONDS -lt $end ] || { cat "$dir/until" >&2 && echo "never: $*" >&2 && return 1; }
        sleep 0.1
    done
}
until_ok ctr version
containerd --version

# Makes and imports an image: NAME [OPTION...] /PATH=FILE... Arguments of the import are in
# `import`.
import=()
image() {
    "$of_shim/debug/examples/oci-image" "$dir/images/$1.tar" "localhost/$1:1" "${@:2}"
    ctr image import "${import[@]}" "$dir/images/$1.tar" >/dev/null
}
clang --target=wasm32-wasi -O1 -o "$dir/probe.wasm" shim/guests/probe.c
guests=examples/guests
image hello /hello.wasm=$guests/hello.wasm
image hello-p2 /hello.wasm=$guests/hello-p2.wasm
image tour /tour.wasm=$guests/tour-c.wasm
image tour-p2 /tour.wasm=$guests/tour-c-p2.wasm
image http-files /http.wasm=$guests/http-files.wasm
image http /http.wasm=$guests/http-rust.wasm
image probe /probe.wasm="$dir/probe.wasm"
image probe-1000 --user=1000:1000 /probe.wasm="$dir/probe.wasm"
image native /busybox="$(command -v busybox)"
printf 'no program' >"$dir/text"
image text /text="$dir/text"

# Runs a container and removes it: ID IMAGE [ARG...], with the options of `options`. Sets out, err
# and code.
#
# containerd-shimkit 0.1.2 may report that a task runs after it has reported the end of the task:
# `task_state` does not wait for the lock that `wait` takes (sandbox/shim/local.rs). ctr then cannot
# remove the container. This function removes it, and runs the container again.
options=()
c() {
    local attempt
    for attempt in 1 2 3; do
        code=0
        timeout $seconds_max ctr run --rm --runtime io.containerd.pirn.v1 "${options[@]}" \
            "localhost/$2:1" "$1" "${@:3}" <"${input:-/dev/null}" >"$dir/out" 2>"$dir/err" ||
            code=$?
        out=$(cat "$dir/out") err=$(cat "$dir/err")
        [[ $err == *'task must be stopped before deletion: running'* ]] || break
        echo "run $attempt of $1: $err"
        ctr task rm -f "$1" >/dev/null 2>&1 || true
        until_ok ctr container rm "$1"
    done
}
tests=0
name=
begin() { name=$1 && tests=$((tests + 1)) && echo "test $name"; }
fail() {
    printf 'FAILED: %s: %s\n--- code %s\n--- out\n%s\n--- err\n%s\n' \
        "$name" "$1" "$code" "$out" "$err" >&2
    exit 1
}
ends() { [ "$code" = "$1" ] || fail "exit code $code, not $1"; }
says() { [[ $out == *"$1"* ]] || fail "it does not print: $1"; }
complains() { [[ $err == *"$1"* ]] || fail "its error is not: $1"; }

begin "hello"
c hello hello
ends 0 && says 'hello from a slot'
c hello hello-p2
ends 0 && says 'hello from a slot'

begin "compiled once a node"
for number in 1 2 3; do c "again-$number" hello && ends 0; done
[ "$(find "$dir/cache" -name '*.so' | wc -l)" = 2 ] || fail "the cache has not two modules"
[ "$(stat -c %a "$dir/cache")" = 700 ] || fail "others see the cache"
for so in "$dir"/cache/*.so; do truncate -s -100 "$so"; done
c hello hello
ends 0 && says 'hello from a slot'

begin "exit codes"
for exit_code in 0 1 7 125; do
    c "exit" probe /probe.wasm exit $exit_code
    ends $exit_code
done
c trap probe /probe.wasm trap
ends 134 && complains 'pirn: trap: unreachable'

begin "arguments, environment, directories, streams"
fixtures=$guests/fixtures
# wasi:cli reports only success or failure of a command.
for guest in tour:7 tour-p2:1; do
    rm -rf "$dir/volume" && cp -r $fixtures/data "$dir/volume"
    options=(--mount "type=bind,src=$dir/volume,dst=/data,options=rbind:rw")
    while read -r variable; do options+=(--env "$variable"); done <$fixtures/tour.env.txt
    mapfile -t args <$fixtures/tour.args.txt
    input=$fixtures/tour.stdin.txt c tour "${guest%:*}" /tour.wasm "${args[@]}"
    ends "${guest#*:}"
    # containerd adds PATH.
    grep -v '^  PATH=' "$dir/out" | sed 's/^environment: 7$/environment: 6/' |
        diff - <(sed 's/{language}/C/' $fixtures/tour.expected.txt) || fail "another tour"
    diff "$dir/err" $fixtures/tour.stderr.expected.txt || fail "other errors"
    diff "$dir/volume/out-c.txt" $fixtures/tour.written.expected.txt || fail "another report"
done
options=(--mount "type=bind,src=$dir/volume,dst=/data,options=rbind:ro")
c ro probe /probe.wasm open /data/input.txt
ends 1 && says 'Read-only file system'
options=(--read-only)
c ro probe /probe.wasm open /probe.wasm
ends 1 && says 'Read-only file system'
options=(--mount "type=bind,src=$dir/volume,dst=/data,options=rbind:rw")
chmod 600 "$dir/volume/input.txt"
c user probe-1000 /probe.wasm open /data/input.txt
ends 1 && says 'Permission denied'
options=()

begin "the guest's files are those of its container, without the kernel's"
c list probe /probe.wasm list /
ends 0 && says 'probe.wasm'
c list probe /probe.wasm list /proc
ends 0 && [ -z "$out" ] || fail "/proc has something"
for path in /proc/self/mem /proc/1/mem /dev/null /sys/kernel /../../etc/shadow; do
    c escape probe /probe.wasm open $path
    ends 1 && [[ $out != *opened* ]] || fail "it opens $path"
done
# The image has links at the mount points of volumes.
for target in /proc /proc/self /proc/1/task; do
    ln -sfn $target "$dir/link"
    image probe-link /probe.wasm="$dir/probe.wasm" /link="$dir/link"
    options=(--mount "type=bind,src=$dir/volume,dst=/link,options=rbind:rw")
    for path in /link/self/mem /link/mem /link/1/mem; do
        c link probe-link /probe.wasm open $path
        [ "$code" != 0 ] && [[ $out != *opened* ]] || fail "it opens $path by a link to $target"
    done
done
options=(--mount "type=bind,src=/,dst=/host,options=rbind:ro")
c host probe /probe.wasm open /host/proc/self/mem
ends 125 && complains 'would let the guest leave its sandbox'
options=()

begin "control groups"
options=(--memory-limit $((64 << 20)))
c memory probe /probe.wasm use 32
ends 0 && says 'used 32 MiB'
c memory probe /probe.wasm use 256
ends 137
options=()

begin "seccomp"
options=(--seccomp)
c seccomp hello
ends 0 && says 'hello from a slot'
options=()

begin "logs in a file"
for count in 1 2; do
    options=(--log-uri "file://$dir/logs/hello.txt")
    c log hello
    ends 0
    [ "$(grep -c 'hello from a slot' "$dir/logs/hello.txt")" = $count ] || fail "another log"
done
options=(--log-uri binary:///bin/cat)
c log hello
ends 1 && complains 'has the scheme binary, the shim supports file; use'
options=()

begin "what does not fit or link"
options=(--annotation io.pirn.memory-max=64KiB)
for name in hello http; do
    c small $name
    ends 125 && complains 'the limit of the policy or of io.pirn.memory-max is 64 KiB; raise it'
done
options=()

begin "what is no program"
c text text
ends 1 && complains '/text: it is neither a WebAssembly file'
c missing hello /absent.wasm
ends 1 && complains 'the image has no file "/absent.wasm"'
c native native /busybox echo hi
ends 1 && complains 'native = "pause"'
options=(--annotation io.kubernetes.cri.container-type=sandbox)
c pause native /busybox echo hi
ends 0 && says hi
options=()

begin "the policy"
policy <<<'cash = "/tmp"'
c policy hello
ends 1 && complains 'shim.toml: line 1: unknown field `cash`'
policy <<<"cache = \"$dir/cache\""
chmod 666 "$dir/etc/shim.toml"
c policy hello
ends 1 && complains 'its mode is 666'
chmod 644 "$dir/etc/shim.toml"
policy <<END
cache = "$dir/cache"
[command]
deadline = "300ms"
END
c late probe /probe.wasm spin
ends 124
policy <<END
cache = "$dir/cache"
[command]
memory_max = "8MiB"
END
c use probe /probe.wasm use 32
ends 1 && says 'no memory after'
options=(--annotation io.pirn.memory-max=1GiB)
c wide probe
ends 1 && complains 'the policy of the node allows 8388608'
options=(--annotation io.pirn.trust=me)
c unknown probe
ends 1 && complains 'annotation io.pirn.trust: it is unknown'
options=()

begin "signatures"
(cd "$dir" && bin/aotc keygen --no-password -o trusted >/dev/null &&
    bin/aotc keygen --no-password -o other >/dev/null)
for key in trusted other; do
    "$dir/bin/aotc" $guests/hello.wasm -o "$dir/$key.so" --sign "$dir/$key.key"
done
image so /hello.so="$dir/trusted.so" /hello.so.minisig="$dir/trusted.so.minisig"
image so-other /hello.so="$dir/other.so" /hello.so.minisig="$dir/other.so.minisig"
image so-unsigned /hello.so="$dir/trusted.so"
image so-exchanged /hello.so="$dir/bin/aotc" /hello.so.minisig="$dir/trusted.so.minisig"
policy <<<"cache = \"$dir/cache\""
c so so
ends 1 && complains 'the policy trusts no key'
policy <<END
cache = "$dir/cache"
trust = ["$dir/trusted.pub"]
END
c so so
ends 0 && says 'hello from a slot'
c so so-other
ends 1 && complains 'trusted are'
c so so-unsigned
ends 1 && complains 'takes only signed machine code: it is not signed'
c so so-exchanged
ends 1 && complains 'its signature is of'
c so hello
ends 1 && complains '/hello.wasm: it is not signed'
policy <<END
cache = "$dir/cache"
trust = ["$dir/trusted.pub"]
wasm = "any"
so = "verified"
END
c so so-unsigned
ends 0 && says 'hello from a slot'
c so hello
ends 0 && says 'hello from a slot'
policy <<<"cache = \"$dir/cache\""

# Starts a container in the background: ID IMAGE [ARG...].
start() {
    ctr run --detach --null-io --runtime io.containerd.pirn.v1 "${options[@]}" \
        "localhost/$2:1" "$1" "${@:3}" >/dev/null
}
stopped() { [ "$(ctr task ls | awk -v id="$1" '$1 == id { print $3 }')" = STOPPED ]; }
# Waits for the end of a container, and removes it. Sets code.
ended() {
    until_ok stopped "$1"
    # ctr prints the container's exit code, and itself exits with 0.
    err=$(ctr task rm "$1" 2>&1)
    code=$(sed -n 's/.*non-zero exit code \([0-9]*\).*/\1/p' <<<"$err")
    code=${code:-0}
    ctr container rm "$1"
}

begin "artifacts, whose layer is WebAssembly"
if image artifact --artifact /hello.wasm=$guests/hello.wasm 2>"$dir/err"; then
    before=$(find "$dir/cache" -name '*.so' | wc -l)
    c artifact artifact
    ends 0 && says 'hello from a slot'
    # The ordinary image contains the same module, so the cache already has it.
    [ "$(find "$dir/cache" -name '*.so' | wc -l)" = "$before" ] || fail "it is compiled again"
    policy <<<"trust = [\"$dir/trusted.pub\"]"
    c artifact artifact
    ends 1 && complains 'the layer of the artifact: it is not signed'
    policy <<<"cache = \"$dir/cache\""
else
    grep -q 'mismatched image rootfs' "$dir/err" || { cat "$dir/err" >&2 && exit 1; }
    echo "NOT RUN: artifacts: this containerd unpacks only file systems; use 1.6.25 or later" >&2
fi

# Runs a container whose image is an artifact, and removes it: ARTIFACT. Sets out, err and code.
# containerd before 1.6.25 makes no container of an artifact. So the container is made of another
# image, whose name the artifact gets before the start.
of_artifact() {
    code=0
    ctr image tag --force localhost/text:1 localhost/swapped:1 >/dev/null
    ctr container create --runtime io.containerd.pirn.v1 localhost/swapped:1 swapped
    ctr image tag --force "localhost/$1:1" localhost/swapped:1 >/dev/null
    timeout $seconds_max ctr task start swapped </dev/null >"$dir/out" 2>"$dir/err" || code=$?
    out=$(cat "$dir/out") err=$(cat "$dir/err")
    ctr container rm swapped
}

begin "signatures of artifacts, which an annotation of the layer contains"
for key in trusted other; do
    minisign -S -s "$dir/$key.key" -m $guests/hello.wasm -x "$dir/$key.minisig" >/dev/null
done
minisign -S -s "$dir/trusted.key" -m $guests/hello-p2.wasm -x "$dir/p2.minisig" >/dev/null
import=(--no-unpack)
image unsigned --artifact /hello.wasm=$guests/hello.wasm
for signature in trusted other p2 text; do
    file=$dir/$signature.minisig
    [ $signature != text ] || file=$dir/text
    image "by-$signature" --artifact --signature="$file" /hello.wasm=$guests/hello.wasm
done
import=()
of_artifact unsigned
ends 0 && says 'hello from a slot'
policy <<END
cache = "$dir/cache"
trust = ["$dir/trusted.pub"]
END
of_artifact by-trusted
ends 0 && says 'hello from a slot'
of_artifact unsigned
ends 1 && complains 'the layer of the artifact: it is not signed'
of_artifact by-other
ends 1 && complains 'the layer of the artifact: it is signed with key' && complains 'trusted are'
of_artifact by-p2
ends 1 && complains 'the layer of the artifact: its' && complains 'are not what key'
of_artifact by-text
ends 1 && complains 'the layer of the artifact: its signature is damaged'
policy <<<"cache = \"$dir/cache\""

begin "stop signals"
for guest in spin sleep; do
    for signal in TERM:143 INT:130 KILL:137; do
        start stopping probe /probe.wasm $guest
        ctr task kill --signal "SIG${signal%:*}" stopping
        ended stopping
        ends "${signal#*:}"
    done
done

begin "exec, pause and processes are refused by name"
start refusing probe /probe.wasm sleep
for order in "exec --exec-id x refusing /bin/sh" "pause refusing" "ps refusing"; do
    code=0
    # shellcheck disable=SC2086
    err=$(ctr task $order 2>&1) || code=$?
    ends 1 && complains 'is not supported'
done

begin "metrics"
out=$(ctr task metrics refusing)
used=$(awk '$1 ~ /^memory.usage/ { print $2 }' <<<"$out")
[ "${used:-0}" -gt 100000 ] || fail "no memory is used"
[ "$(awk '$1 == "pids.current" { print $2 }' <<<"$out")" -ge 1 ] || fail "no process"
ctr task kill --signal SIGKILL refusing
ended refusing
ends 137

# The processes of a container's shim, which all have the same command line. With `first`, only the
# first one.
processes_of() {
    local all=() pid
    for pid in $(grep -lsFz -- "$CONTAINERD_ADDRESS" /proc/[0-9]*/cmdline | cut -d/ -f3); do
        tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -- "pirn-v1 .*-id $1 " &&
            all+=("$pid")
    done
    [ "${2-}" = first ] || { echo "${all[@]}" && return; }
    for pid in "${all[@]}"; do
        [[ " ${all[*]} " == *" $(awk '$1 == "PPid:" { print $2 }' "/proc/$pid/status") "* ]] ||
            echo "$pid"
    done
}
has_no_processes() { [ -z "$(processes_of "$1")" ]; }
port=$((20000 + $$ % 10000))
serve() { options=(--net-host --env PORT=$port) && start "$1" http && options=(); }
answers() {
    [ "$(curl --silent --max-time 60 "http://127.0.0.1:$port/hello")" = 'hello from Rust' ]
}

begin "the directories and the environment of a server"
printf 'written outside' >"$dir/volume/note.txt"
options=(--net-host --env PORT=$port --env PIRN_EMPTY=)
options+=(--env 'PIRN_GREETING=hello = from a container')
options+=(--mount "type=bind,src=$dir/volume,dst=/data,options=rbind:rw")
start files http-files
options=()
code=0 err=
until_ok curl --silent --fail "http://127.0.0.1:$port/healthz"
out=$(curl --silent "http://127.0.0.1:$port/")
says 'note: written outside, lines: 1'
out=$(curl --silent "http://127.0.0.1:$port/")
says 'note: changed, lines: 2'
# The variables of the container and no others. ctr adds HOSTNAME and PATH.
out=$(curl --silent "http://127.0.0.1:$port/environment")
[ "$out" = "arguments: []
HOSTNAME=$(uname -n)
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
PIRN_EMPTY=
PIRN_GREETING=hello = from a container
PORT=$port" ] || fail "another environment"
ctr task kill --signal SIGTERM files
ended files
ends 0

begin "a server under load while containers start and stop"
serve server
until_ok answers
"$of_workspace/pirn-load" 127.0.0.1:$port --requests 20000 --warm-up 100 --connections 8 \
    --patience ${seconds_max}s \
    --shot '8:200:/hello=hello from Rust\n' --shot '1:404:/absent' >"$dir/load" 2>&1 &
load=$!
for number in 1 2 3; do
    c "beside-$number" hello
    ends 0 && says 'hello from a slot'
    start killed probe /probe.wasm sleep
    ctr task kill --signal SIGKILL killed
    ended killed
    ends 137
done
code=0
wait $load || code=$?
out=$(cat "$dir/load") err=
ends 0
head -n 2 "$dir/load"
ctr task kill --signal SIGTERM server
ended server
ends 0

begin "kill -9 of a shim ends its container, and the server starts again"
for round in 1 2; do
    serve dying
    until_ok answers
    shim=$(processes_of dying first)
    [ "$(wc -w <<<"$shim")" = 1 ] || fail "no single shim, but: $shim"
    kill -9 "$shim"
    until_ok has_no_processes dying
    ! answers || fail "the server of the killed shim answers"
    ctr task rm -f dying >/dev/null 2>&1 || true
    until_ok ctr container rm dying
done
serve again
until_ok answers
ctr task kill --signal SIGTERM again
ended again
ends 0

begin "nothing is left"
[ -z "$(ctr task ls -q)" ] || fail "there are tasks"
[ -z "$(ls "/run/containerd/pirn/$CONTAINERD_NAMESPACE" 2>/dev/null)" ] || fail "there is state"
until_ok has_no_processes '[^ ]*'
for folder in $(groups); do
    [ -z "$(find "$folder" -mindepth 1 -type d)" ] || fail "group $folder"
done

# Prints the time from `ctr run` to the first line of output, in microseconds: ID RUNTIME IMAGE...
# Prints none if the container prints another line or no line.
first_output() {
    local began=${EPOCHREALTIME/[.,]/} line= now
    { ctr run --rm --runtime "$2" "localhost/$3:1" "$1" "${@:4}" </dev/null 2>&1 || true; } | {
        read -r line || true
        now=${EPOCHREALTIME/[.,]/}
        case $line in
        'hello from a slot'*) echo $((now - began)) ;;
        *) echo "$1 is not counted, its first line is: $line" >&2 ;;
        esac
        cat >/dev/null
    }
}
begin "$starts starts of each runtime, one after the other"
rm -f "$dir"/times.*
for number in $(seq "$starts"); do
    first_output "pirn-$number" io.containerd.pirn.v1 hello >>"$dir/times.pirn"
    first_output "runc-$number" io.containerd.runc.v2 native /busybox echo 'hello from a slot' \
        >>"$dir/times.runc"
    [ -z "${OTHER_RUNTIME-}" ] ||
        first_output "other-$number" "$OTHER_RUNTIME" hello >>"$dir/times.$OTHER_RUNTIME"
done
[ "$(wc -l <"$dir/times.pirn")" = "$starts" ] || fail "not all starts print"
for times in "$dir"/times.*; do
    sort -n "$times" | awk -v name="${times##*/times.}" '{ all[NR] = $1 / 1000 } END {
        printf "%s: first output after %.0f ms (median; %.0f to %.0f)\n", name,
            all[int((NR + 1) / 2)], all[1], all[NR] }'
done
echo "$tests tests passed in $SECONDS s"
