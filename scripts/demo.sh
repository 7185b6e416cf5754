#!/bin/bash
# The main job: a zoned disk in a directory, a real file system streamed into its sequential zones through NBD, a crash, and
# every byte and write pointer found again. `--small` does the same with a small tree, for the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

small=
case ${1:-} in
    '') ;;
    --small) small=yes ;;
    *) echo "usage: scripts/demo.sh [--small]" >&2; exit 2 ;;
esac

say() { printf '\n== %s\n' "$*"; }

# A real directory tree of at least 500 MB, or the sources of this project.
choose_tree() {
    if [ -n "$small" ]; then echo "$PWD/core"; return; fi
    local tree
    for tree in "$(rustc --print sysroot)" /usr/lib /usr; do
        if [ "$(du -sxm "$tree" 2>/dev/null | cut -f1)" -ge 500 ]; then echo "$tree"; return; fi
    done
    echo "no directory tree of 500 MB found" >&2
    return 1
}

if [ -n "$small" ]; then
    shingle=${CARGO_TARGET_DIR:-target}/debug/shingle
    cargo build --quiet --locked -p shingle
    size_mib=1024
else
    shingle=${CARGO_TARGET_DIR:-target}/release/shingle
    size_mib=8192
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/shingle-demo.XXXXXX")
daemon=
cleanup() {
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

start_daemon() {
    : > "$work/log"
    "$shingle" up "$work/stack.toml" > "$work/log" 2>&1 &
    daemon=$!
    # The notice comes last; a daemon that ends before has printed why.
    until grep -qx ready "$work/log"; do
        kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
        sleep 0.05
    done
    cat "$work/log"
}

say "make an ext4 image of a real directory tree"
tree=$(choose_tree)
tree_mib=$(du -sxm "$tree" | cut -f1)
mke2fs -q -t ext4 -d "$tree" "$work/image" "$((tree_mib * 5 / 4 + 64))M"
image_bytes=$(stat -c %s "$work/image")
echo "$tree: $tree_mib MiB in an image of $((image_bytes >> 20)) MiB"

say "create a zoned disk: $size_mib MiB in zones of 64 MiB, 4 of them conventional"
"$shingle" create "$work/disk" --size "${size_mib}MiB" --zone-size 64MiB --conventional 4

# The export is the row of sequential zones: a linear device that begins behind the conventional ones.
cat > "$work/stack.toml" <<STACK
[disk.smr]
type = "zoned-dir"
path = "disk"

[device.seq]
table = "0 $(((size_mib - 256) * 2048)) linear smr $((256 * 2048))"

[export.seq]
device = "seq"

[listen]
unix = "nbd.sock"

[control]
socket = "control.sock"
STACK
uri="nbd+unix:///seq?socket=$work/nbd.sock"

say "start the daemon"
start_daemon

say "stream the image into sequential zones: 64 requests in flight, then a flush"
# One connection and one thread: a sequential zone wants its writes in order, and only one sender can promise one.
nbdcopy --connections=1 --threads=1 --requests=64 --flush "$work/image" "$uri"
"$shingle" zones report "$work/disk" > "$work/before"

say "kill the daemon with SIGKILL, and start it again"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
start_daemon

say "read back and compare"
nbdcopy "$uri" "$work/back"
cmp -n "$image_bytes" "$work/image" "$work/back"
echo "all $image_bytes bytes are the same"
truncate -s "$image_bytes" "$work/back"
e2fsck -fn "$work/back"

say "zone report (zones with data)"
"$shingle" zones report "$work/disk" > "$work/after"
pointers() { grep -o 'start: [^,]*\|wptr [^ ]*' "$1"; }
[ "$(pointers "$work/before")" = "$(pointers "$work/after")" ] || { diff "$work/before" "$work/after"; exit 1; }
grep -v '(em)' "$work/after"
echo "every write pointer is where it was"

say "stop"
kill -TERM "$daemon"
wait "$daemon"
daemon=
say "done"
