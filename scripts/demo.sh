#!/bin/bash
# The main job: an SMR disk used as an ordinary one. A host-managed zoned disk in a directory becomes a dm-zoned volume, the volume
# an ext4 file system through NBD; under random writes the daemon is killed, started again, and everything that was synced
# is there. `--small` does the same with a small tree, for the tests; on the program $PROGRAM, or on one that it builds.
#
# Mounting takes root (or sudo without a password), FUSE and a loop device. Where one of them is missing the file system is made as an
# image and copied, and the random writes go beside it; the reason is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

small=
case ${1:-} in
    '') ;;
    --small) small=yes ;;
    *) echo "usage: scripts/demo.sh [--small]" >&2; exit 2 ;;
esac

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
    shingle=${PROGRAM:-${CARGO_TARGET_DIR:-target}/debug/shingle}
    [ -n "${PROGRAM:-}" ] || cargo build --quiet --locked -p shingle
    size=1GiB zone=4MiB conventional=24 seconds=5 writers=2
else
    shingle=${CARGO_TARGET_DIR:-target}/release/shingle
    size=8GiB zone=16MiB conventional=32 seconds=30 writers=4
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/shingle-demo.XXXXXX")
. scripts/volume.sh
: > "$work/synced"
writer_pids=
trap 'kill $writer_pids 2>/dev/null || true; clean_up' EXIT

# Files of 1 to 4 MiB one after the other, and 4 KiB here and there in a file of 32 MiB, each synced. What is on the list is synced.
write_randomly() {
    local n=0 block
    dd if=/dev/zero of="$mnt/random-$1" bs=1M count=32 conv=fsync status=none
    while :; do
        n=$((n + 1))
        mkdir -p "$mnt/new-$1-$((n / 8))"
        dd if=/dev/urandom of="$mnt/new-$1-$((n / 8))/$n" bs=1M count=$((1 + RANDOM % 4)) conv=fsync status=none
        (cd "$mnt" && sha256sum "new-$1-$((n / 8))/$n") >> "$work/synced"
        for block in 1 2 3 4; do
            dd if=/dev/urandom of="$mnt/random-$1" bs=4k count=1 seek=$((RANDOM % 8192)) conv=notrunc,fsync status=none
        done
    done
}

# The real thing: the kernel's ext4 on the volume.
with_mount() {
    say "attach it as a block device, make ext4, and copy a directory tree"
    attach
    as_root mke2fs -q -t ext4 "$loop"
    mount_volume
    cp -a "$tree" "$mnt/tree"
    sync -f "$mnt"
    "$shingle" dm status

    say "$writers writers, each with new files and random writes of 4 KiB, for $seconds s; then SIGKILL to the daemon"
    local writer
    for writer in $(seq "$writers"); do
        write_randomly "$writer" 2>/dev/null &
        writer_pids+=" $!"
    done
    sleep "$seconds"
    "$shingle" dm status
    kill_daemon
    # Their file system has lost its disk.
    kill $writer_pids 2>/dev/null || true
    wait $writer_pids 2>/dev/null || true
    writer_pids=
    detach
    echo "killed; $(wc -l < "$work/synced") files were synced by then"

    say "start it again, and check the file system"
    start_daemon
    attach
    # As at boot: the journal is replayed, and what is safe is put in order. More than that would be 4.
    as_root e2fsck -fp "$loop" || [ $? -eq 1 ]
    as_root e2fsck -fn "$loop"

    say "compare"
    mount_volume
    diff -r --no-dereference "$tree" "$mnt/tree"
    (cd "$mnt" && sha256sum --check --quiet "$work/synced")
    echo "the tree is the same, and so is every file that was synced before the kill"
    detach
}

# Without a mount: the tree in an image, the image in the volume, random writes behind it.
without_mount() {
    say "no mount here: $1. Make an ext4 image of a directory tree and copy it"
    mke2fs -q -t ext4 -d "$tree" "$work/image" "$((tree_mib * 5 / 4 + 64))M"
    local bytes first
    bytes=$(stat -c %s "$work/image")
    nbdcopy --flush "$work/image" "$uri"
    "$shingle" dm status

    say "random writes of 4 KiB behind it for $seconds s; then SIGKILL to the daemon"
    first=$((bytes / 4096))
    while :; do echo "write -q -P $((1 + RANDOM % 255)) $(((first + RANDOM % 16384) * 4096)) 4k"; done |
        qemu-io -f raw "$uri" >/dev/null 2>&1 &
    writer_pids=$!
    sleep "$seconds"
    "$shingle" dm status
    kill_daemon
    kill $writer_pids 2>/dev/null || true
    wait $writer_pids 2>/dev/null || true
    writer_pids=

    say "start it again, and compare"
    start_daemon
    nbdcopy "$uri" "$work/back"
    cmp -n "$bytes" "$work/image" "$work/back"
    truncate -s "$bytes" "$work/back"
    e2fsck -fn "$work/back"
    mkdir "$work/tree"
    debugfs -R "rdump / $work/tree" "$work/back" >/dev/null 2>&1
    rmdir "$work/tree/lost+found"
    diff -r --no-dereference "$tree" "$work/tree"
    echo "the tree is the same"
}

tree=$(choose_tree)
tree_mib=$(du -sxm "$tree" | cut -f1)

say "create a zoned disk of $size in zones of $zone, $conventional of them conventional, and make it a dm-zoned volume"
make_volume "$size" "$zone" "$conventional"

say "serve it; the tree is $tree, $tree_mib MiB"
start_daemon
reason=$(why_no_mount)
if [ -z "$reason" ]; then with_mount; else without_mount "$reason"; fi

say "stop, and check the volume"
"$shingle" dm status
stop_daemon
"$shingle" dmz check "$work/smr"
say "done"
