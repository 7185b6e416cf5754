# NBD through the kernel's client.
# shellcheck shell=bash disable=SC2154

# _stack: the disk of $1, TOML lines, and what is above it, as the export `disk`.
_stack() {
    cat > "$work/stack.toml"
    cat >> "$work/stack.toml" <<STACK
[listen]
unix = "nbd.sock"
tcp = "127.0.0.1:10809"

[control]
socket = "control.sock"
STACK
}

# _serve_file MIB: a file in memory as the export `disk`.
_serve_file() {
    truncate -s "${1}M" "$work/image"
    _stack <<STACK
[disk.disk]
type = "file"
path = "image"

[export.disk]
device = "disk"
STACK
    serve "$work/stack.toml"
    later stop_daemon
}

# _serve_volume FOLDER: a zoned disk of 512 MiB in it as a dm-zoned volume, the export `disk`.
_serve_volume() {
    [ -e "$1/smr" ] || shingle create "$1/smr" --size 512MiB --zone-size 8MiB --conventional 8
    [ "$boot" != 1 ] || shingle dmz format "$1/smr"
    _stack <<STACK
[disk.smr]
type = "zoned-dir"
path = "$1/smr"

[device.volume]
table = "0 1 zoned smr"

[export.disk]
device = "volume"
STACK
    serve "$work/stack.toml"
    later stop_daemon
}

# _fill FOLDER MIB: a tree and a file of random bytes, with what they should be in $work/sums.
_fill() {
    random_file "$1/random" "$2"
    cp -r "/usr/lib/modules/$(uname -r)/kernel/drivers/block" "$1/tree"
    (cd "$1" && find . -type f -exec sha256sum {} +) > "$work/sums"
}
# _is_whole FOLDER [SUMS]
_is_whole() { (cd "$1" && sha256sum --check --quiet "${2:-$work/sums}"); }

# A file system that is filled, and found again through a daemon that was started anew.
_keeps_what_was_written() { # MIB MKFS...
    _serve_file "$1"
    nbd_attach 0 disk
    "${@:2}" "$device"
    mkdir mnt
    mount "$device" mnt
    _fill mnt 24
    umount mnt
    nbd_detach 0
    stop_daemon
    serve "$work/stack.toml"
    nbd_attach 1 disk
    mount "$device" mnt
    _is_whole mnt
    umount mnt
}

ext4_on_the_kernels_client_keeps_what_was_written() {
    _keeps_what_was_written 128 mkfs.ext4 -q
    fsck.ext4 -fn "$device"
}

xfs_on_the_kernels_client_keeps_what_was_written() {
    _keeps_what_was_written 320 mkfs.xfs -q
    xfs_repair -n "$device"
}

btrfs_on_the_kernels_client_keeps_what_was_written() {
    long
    _keeps_what_was_written 128 mkfs.btrfs -q
    btrfs check "$device"
}

the_kernel_sees_a_write_cache_with_fua_and_discards() {
    _serve_file 16
    nbd_attach 0 disk
    local queue=/sys/block/nbd0/queue
    same "size" $((16 << 20)) "$(blockdev --getsize64 "$device")"
    same "write cache" "write back" "$(cat $queue/write_cache)"
    same "FUA" 1 "$(cat $queue/fua)"
    [ "$(cat $queue/discard_max_bytes)" -gt 0 ] || fail "no discards"
    [ "$(cat $queue/write_zeroes_max_bytes)" -gt 0 ] || fail "no writing of zeroes"
}

a_discard_of_the_kernels_client_gives_the_space_of_the_file_back() {
    _serve_file 64
    nbd_attach 0 disk
    random_file before 64
    dd if=before of="$device" bs=1M oflag=direct status=none
    [ "$(stat -c %b image)" -ge 131072 ] || fail "the image has holes, though all of it was written"
    blkdiscard --offset 8MiB --length 32MiB "$device"
    same "blocks of the image" 65536 "$(stat -c %b image)"
    # What was not discarded is as it was, what was reads as zeroes.
    dd if=/dev/zero of=before bs=1M seek=8 count=32 conv=notrunc status=none
    blockdev --flushbufs "$device"
    cmp before "$device"
    blkdiscard --zeroout --offset 0 --length 4MiB "$device"
    dd if=/dev/zero of=before bs=1M count=4 conv=notrunc status=none
    cmp before "$device"
}

several_connections_of_the_kernels_client_write_what_they_read() {
    _serve_file 64
    nbd_attach 0 disk -connections 4
    same "connections" 4 "$(shingle status --json | jq '.connections | add')"
    verified --filename="$device" --rw=randwrite --bsrange=512-64k --bs_unaligned=0 --iodepth=8 --numjobs=4 --size=16m \
        --offset_increment=16m --io_size=8m
}

the_kernels_client_speaks_tcp() {
    long
    _serve_file 32
    modprobe nbd
    nbd-client 127.0.0.1 10809 /dev/nbd0 -name disk
    later nbd_detach 0
    verified --filename=/dev/nbd0 --rw=randwrite --bs=16k --iodepth=8 --size=32m --io_size=8m
}

what_was_synced_is_there_after_the_server_was_killed_under_a_file_system() {
    _serve_file 128
    nbd_attach 0 disk -timeout 30
    mkfs.ext4 -q "$device"
    mkdir mnt
    mount "$device" mnt
    _fill mnt 8
    sync
    (while cp mnt/random mnt/more; do rm mnt/more; done) 2> /dev/null &
    local writer=$!
    sleep 1
    kill_daemon
    wait $writer || true
    umount mnt || patiently umount mnt
    nbd_detach 0
    serve "$work/stack.toml"
    nbd_attach 1 disk
    mount "$device" mnt
    _is_whole mnt
    umount mnt
    fsck.ext4 -fn "$device"
}

_restart_under_load() {
    sleep 2
    kill -0 "$1" || fail "the load has ended before"
    kill_daemon
    serve "$work/stack.toml"
    python3 /guest/nbd-link.py 0 reconnect nbd.sock disk 2
}

requests_that_wait_for_a_server_are_answered_by_its_successor() {
    _serve_file 64
    nbd_attach 0 disk -connections 2 -timeout 5
    python3 /guest/nbd-link.py 0 patience 60
    verified --filename="$device" --rw=randwrite --bs=4k --iodepth=8 --size=64m --io_size=16m --rate_iops=500 &
    local fio=$!
    _restart_under_load "$fio"
    _restart_under_load "$fio"
    wait $fio
}

a_dm_zoned_volume_on_the_kernels_client_carries_ext4_over_a_kill() {
    _serve_volume "$work"
    nbd_attach 0 disk -block-size 4096 -timeout 30
    mkfs.ext4 -q "$device"
    mkdir mnt
    mount "$device" mnt
    _fill mnt 16
    sync
    kill_daemon
    umount mnt || patiently umount mnt
    nbd_detach 0
    serve "$work/stack.toml"
    nbd_attach 1 disk -block-size 4096
    mount "$device" mnt
    _is_whole mnt
    umount mnt
    fsck.ext4 -fn "$device"
    nbd_detach 1
    stop_daemon
    shingle dmz check smr
    serve "$work/stack.toml"
}

ext4_on_a_dm_zoned_volume_keeps_over_a_power_cut_what_was_synced() {
    disk 0
    [ "$boot" != 1 ] || mkfs.ext4 -q -F "$device"
    only_syncs_write
    mounted "$device" host -o commit=300
    _serve_volume "$work/host"
    nbd_attach 0 disk -block-size 4096
    [ "$boot" != 1 ] || mkfs.ext4 -q "$device"
    mounted "$device" mnt
    if [ "$boot" = 1 ]; then
        _fill mnt 16
        sync -f mnt
        cp sums /guest/kept/
        (while cp mnt/random mnt/more; do sync mnt/more; done) &
        sleep 3
        power_cut
    fi
    _is_whole mnt /guest/kept/sums
}
