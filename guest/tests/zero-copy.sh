# Block devices whose data goes from their users to the disk without a copy of the daemon's.
# shellcheck shell=bash disable=SC2154

# _exported TYPE PATH LINE...: the disk of this type at PATH as the block device of the export `disk`.
_exported() {
    {
        printf '[disk.file]\ntype = "%s"\npath = "%s"\n' "$1" "$2"
        printf '%s\n' "${@:3}" "" "[export.disk]" 'device = "file"' 'ublk = true' "" "[control]" 'socket = "control.sock"'
    } > "$work/stack.toml"
    serve_block
}

# _copies COMMAND...: how many copies the daemon makes of data of requests meanwhile.
_copies() {
    local tracer
    strace -f -qq -o "$work/calls" -e trace=pread64,pwrite64 -p "$(pgrep -x shingle)" 2> "$work/attached" &
    tracer=$!
    patiently grep -q "TracerPid:.[1-9]" "/proc/$(pgrep -x shingle)/status"
    sleep 1
    "$@" >&2
    kill $tracer
    wait $tracer || true
    wc -l < "$work/calls"
}

data_of_a_file_is_not_copied_by_the_daemon() {
    needs_kernel 6.16
    truncate -s 64M "$work/image"
    _exported file image
    same "copies of writes" 0 "$(_copies dd if=/dev/urandom of="$device" conv=nocreat bs=64k count=64 oflag=direct status=none)"
    same "copies of reads" 0 "$(_copies dd if="$device" of="$work/read" bs=64k count=64 iflag=direct status=none)"
    cmp "$work/read" <(head -c 4M "$work/image")
    verified --filename="$device" --rw=randrw --bsrange=512-64k --size=16m --iodepth=16
}

# What `_copies` counts when there is something to be counted: tables keep what they have not flushed. udev may read meanwhile.
data_of_a_table_is_copied_by_the_daemon() {
    truncate -s 64M "$work/image"
    _exported file image "" "[device.table]" 'table = "0 131072 linear file 0"'
    shingle export add table table --ublk --control "$work/control.sock"
    block_device_of table
    [ "$(_copies dd if=/dev/zero of="$device" conv=nocreat bs=64k count=64 oflag=direct status=none)" -ge 64 ]
}

data_that_is_not_copied_is_whole_after_kills_of_the_daemon() {
    needs_kernel 6.16
    truncate -s 256M "$work/image"
    _exported file image
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    load_begins --directory=mnt --rw=randwrite --bsrange=4k-64k --size=24m --iodepth=16 --loops=2
    killed 3 1
    load_ends_well
    umount mnt
    e2fsck -fn "$device"
    mount "$device" mnt
}

zones_whose_data_is_not_copied_have_no_write_twice_after_kills_of_the_daemon() {
    needs_kernel 6.16
    long
    scsi_disk dev_size_mb=256 zbc=managed zone_size_mb=4 zone_nr_conv=4
    _exported zoned-blk "$device"
    load_begins --filename="$device" --zonemode=zbd --max_open_zones=8 --offset=16m --rw=write --bs=16k --size=96m --numjobs=2 \
        --offset_increment=112m --iodepth=8
    killed 4 1.5
    load_ends_well
}

data_of_a_zoned_disk_is_not_copied_by_the_daemon() {
    needs_kernel 6.16
    scsi_disk dev_size_mb=128 zbc=managed zone_size_mb=4 zone_nr_conv=4
    _exported zoned-blk "$device"
    same "copies of writes" 0 "$(_copies dd if=/dev/urandom of="$device" conv=nocreat bs=64k count=48 seek=256 oflag=direct status=none)"
    same "copies of reads" 0 "$(_copies dd if="$device" of="$work/read" bs=64k count=48 skip=256 iflag=direct status=none)"
    blkzone reset "$device"
    verified --filename="$device" --zonemode=zbd --offset=16m --size=64m --rw=write --bs=64k --iodepth=8
    blkzone reset "$device"
    modprobe btrfs
    mkfs.btrfs -f -q -m single -d single "$device"
    mounted "$device" mnt
    random_file mnt/file 8
    sum=$(sha256sum < mnt/file)
    umount mnt
    mount "$device" mnt
    same "contents" "$sum" "$(sha256sum < mnt/file)"
}
