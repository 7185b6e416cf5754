#!/bin/bash
# Records what the kernel's ext4 asks of a dm-zoned volume while several writers make files: buffered writes of 1 to 4 MiB each, a
# new directory per round, and a sync at the end. lab/data/traces/ext4-buffered-writers.trace was made by it.
#
# usage: scripts/record-ext4.sh [FILE [SECONDS [WRITERS]]]; needs root (or sudo without a password), nbdfuse and a loop device.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

output=${1:-lab/data/traces/ext4-buffered-writers.trace} seconds=${2:-60} writers=${3:-4}
shingle=${SHINGLE:-${CARGO_TARGET_DIR:-target}/release/shingle}
[ -x "$shingle" ] || { echo "there is no $shingle: make build, or name another program in \$SHINGLE" >&2; exit 1; }

work=$(mktemp -d "${TMPDIR:-/tmp}/shingle-record.XXXXXX")
. scripts/volume.sh
writer_pids=
trap 'kill $writer_pids 2>/dev/null || true; clean_up' EXIT
reason=$(why_no_mount)
[ -z "$reason" ] || { echo "cannot mount the volume: $reason" >&2; exit 1; }

# A round: eight files in a directory of their own, and the next one two seconds later.
write_files() {
    local round=0 file
    while :; do
        round=$((round + 1))
        mkdir "$mnt/$1-$round"
        for file in 1 2 3 4 5 6 7 8; do
            dd if=/dev/zero of="$mnt/$1-$round/$file" bs=64k count=$((16 + RANDOM % 49)) status=none
        done
        sleep 2
    done
}

say "make a volume with ext4 on it"
make_volume 8GiB 64MiB 16
start_daemon
attach
as_root mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
mount_volume

say "record $writers writers for $seconds s; in the last fifth of it they rest, and what is left is synced"
for writer in $(seq "$writers"); do
    write_files "$writer" 2>/dev/null &
    writer_pids+=" $!"
done
(sleep $((seconds * 4 / 5)) && kill $writer_pids && sync -f "$mnt") &
resting=$!
mkdir -p "$(dirname "$output")"
"$shingle" trace record --device archive --duration "${seconds}s" -o "$output"
wait "$resting"
writer_pids=
"$shingle" dm status
detach
stop_daemon
"$shingle" dmz check "$work/smr" | tail -1
"$shingle" trace show "$output" --summary || true
ls -l "$output"
