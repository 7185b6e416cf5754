# What our zones answer, beside the zones of the kernel's own drivers and of QEMU's ZNS disk (zone-differ.py).
# shellcheck shell=bash disable=SC2154

# _ours LINE...: a disk of these lines over ublk, in $ours.
_ours() {
    modprobe ublk_drv
    printf '%s\n' "[disk.ours]" "$@" "[export.ours]" 'device = "ours"' 'ublk = true' > stack.toml
    serve "$work/stack.toml"
    later stop_daemon
    ours=$(sed -n 's|^export .*, \(/dev/ublkb[0-9]*\)$|\1|p' "$work/log")
    udevadm settle
}
_ours_null() { _ours 'type = "null"' 'memory-backed = true' "$@"; }
# _ours_in_a_directory OPTION...
_ours_in_a_directory() {
    shingle create "$work/smr" "$@"
    _ours 'type = "zoned-dir"' 'path = "smr"'
}
# _differ THEIRS SEEDS DIFFERENCE...: runs of 300 operations.
_differ() {
    local seed
    for ((seed = 1; seed <= $2; seed++)); do python3 /guest/zone-differ.py "$1" "$ours" "$seed" 300 "${@:3}"; done
    refused grep -i panicked "$work/log"
}
# _zns_disk: of QEMU's, as guest/test makes it: 12 zones of 4 MiB with 3 MiB of room, 4 open and 6 active.
_zns_disk() {
    modprobe nvme
    later modprobe -r nvme
    udevadm settle
    device=/dev/nvme0n1
    [ -b "$device" ] || skip "guest/test gives a ZNS disk, and this guest has none"
}

zones_in_memory_answer_as_those_of_null_blk() {
    zoned_null_disk theirs size=48 zone_nr_conv=2
    theirs=$device
    _ours_null 'size = "48MiB"' 'zone-size = "4MiB"' 'conventional = 2'
    _differ "$theirs" 3
}

zones_with_limits_answer_as_those_of_null_blk() {
    long
    zoned_null_disk theirs size=48 zone_capacity=3 zone_nr_conv=1 zone_max_open=3 zone_max_active=5 blocksize=4096
    theirs=$device
    _ours_null 'size = "48MiB"' 'zone-size = "4MiB"' 'zone-capacity = "3MiB"' 'conventional = 1' 'max-open = 3' 'max-active = 5' \
        'block-size = 4096'
    _differ "$theirs" 4 finish-needs-resources finish-closes evict-needs-active
}

dead_zones_answer_as_those_of_null_blk() {
    zoned_null_disk theirs size=48
    theirs=$device
    echo 0 > /sys/kernel/config/nullb/theirs/zone_readonly
    echo 8192 > /sys/kernel/config/nullb/theirs/zone_offline
    _ours_null 'size = "48MiB"' 'zone-size = "4MiB"' 'zones-read-only = [0]' 'zones-offline = [1]'
    _differ "$theirs" 2
}

zones_in_a_directory_answer_as_those_of_null_blk() {
    long
    zoned_null_disk theirs size=48 zone_capacity=3 zone_nr_conv=2 zone_max_open=3 zone_max_active=5
    theirs=$device
    _ours_in_a_directory --size 48MiB --zone-size 4MiB --zone-capacity 3MiB --conventional 2 --max-open 3 --max-active 5 --block-size 512
    _differ "$theirs" 3 finish-needs-resources finish-closes evict-needs-active
}

zones_in_a_directory_answer_as_those_of_a_scsi_disk() {
    scsi_disk dev_size_mb=48 sector_size=4096 zbc=managed zone_size_mb=4 zone_nr_conv=2 zone_max_open=3 delay=0
    theirs=$device
    _ours_in_a_directory --size 48MiB --zone-size 4MiB --conventional 2 --max-open 3
    _differ "$theirs" 3 zbc-open-full zbc-close-empty
}

zones_in_memory_answer_as_those_of_a_scsi_disk() {
    long
    scsi_disk dev_size_mb=48 zbc=managed zone_size_mb=4 zone_nr_conv=2 zone_max_open=0 delay=0
    theirs=$device
    _ours_null 'size = "48MiB"' 'zone-size = "4MiB"' 'conventional = 2'
    _differ "$theirs" 3 zbc-open-full zbc-close-empty
}

zones_in_memory_answer_as_those_of_a_zns_disk() {
    long
    _zns_disk
    theirs=$device
    _ours_null 'size = "48MiB"' 'zone-size = "4MiB"' 'zone-capacity = "3MiB"' 'max-open = 4' 'max-active = 6' 'block-size = 4096'
    _differ "$theirs" 3 closes-and-refuses zns-closed-without-data
}

# --- file systems on ours over a disk of the kernel's, beside those on such a disk itself

# _over DISK: ours is that one.
_over() { _ours 'type = "zoned-blk"' "path = \"$1\""; }
# _two_null_disks KEY=VALUE...: one for ours to be over, and one as it is, in $theirs. Zones of 4 MiB.
_two_null_disks() {
    zoned_null_disk below "$@"
    local below=$device
    zoned_null_disk theirs "$@"
    theirs=$device
    _over "$below"
}
# _contents FOLDER: of all files their size and sum.
_contents() { (cd "$1" && find . -type f -printf '%s %p\n' | sort -k2 && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
_same_contents() {
    sync
    sysctl -qw vm.drop_caches=3
    _contents ours > ours.contents
    _contents theirs > theirs.contents
    [ "$(wc -l < ours.contents)" -ge "$1" ] || fail "there is not enough to compare"
    cmp ours.contents theirs.contents
}
# _mount_both OPTION...: at the folders `ours` and `theirs`.
_mount_both() {
    mounted "$ours" ours "$@"
    mounted "$theirs" theirs "$@"
}

fio_with_zones_reads_what_it_has_written_over_the_kernels_disks() {
    local disk
    zoned_null_disk below zone_nr_conv=4 zone_max_open=8
    disk=$device
    scsi_disk dev_size_mb=128 sector_size=4096 zbc=managed zone_size_mb=4 zone_nr_conv=4 zone_max_open=8 delay=0
    for disk in "$disk" "$device"; do
        _over "$disk"
        verified --filename="$ours" --zonemode=zbd --max_open_zones=6 --offset=16m --size=64m --rw=write --bs=64k --iodepth=32
        verified --filename="$ours" --zonemode=zbd --max_open_zones=6 --offset=80m --size=40m --rw=randwrite --bs=16k --iodepth=32 --io_size=24m
        stop_daemon
        undo=("${undo[@]:1}")
    done
}

zonefs_appends_end_where_they_end_on_the_disk_itself() {
    long
    _two_null_disks zone_nr_conv=2 zone_capacity=3 zone_max_open=8
    local at n
    random_file bytes 4
    for at in "$ours" "$theirs"; do mkzonefs -f "$at" > /dev/null; done
    _mount_both -t zonefs
    for at in ours theirs; do
        dd if=bytes of=$at/cnv/0 bs=64k count=20 seek=3 oflag=direct conv=notrunc status=none
        for n in {1..24}; do
            dd if=bytes of=$at/seq/$((n % 5)) bs=$((n * 4))k count=1 skip=$((n % 3)) oflag=direct,append,sync conv=notrunc status=none
        done
        # To the end and not further.
        dd if=bytes of=$at/seq/6 bs=256k oflag=direct,append conv=notrunc 2> /dev/null || true
        refused dd if=bytes of=$at/seq/6 bs=4k count=1 oflag=direct,append conv=notrunc 2> /dev/null
        refused dd if=bytes of=$at/seq/7 bs=4k count=1 seek=1 oflag=direct conv=notrunc 2> /dev/null
        truncate -s 0 $at/seq/1
        truncate -s $((3 << 20)) $at/seq/8
    done
    _same_contents 120
    # The pointer of a full zone has no meaning.
    blkzone report "$ours" | sed '/(fu)/s/wptr 0x[0-9a-f]*//' > ours.report
    blkzone report "$theirs" | sed '/(fu)/s/wptr 0x[0-9a-f]*//' > theirs.report
    diff theirs.report ours.report
}

# _filled FOLDER: files of several sizes, some written over, cut, appended to or removed; the same for all.
_filled() {
    local n
    for n in {1..30}; do
        head -c $((n * 30000)) bytes > "$1/$n"
        tail -c $((n * 5000)) bytes >> "$1/$((n / 2 + 1))"
        dd if=bytes of="$1/$((n / 3 + 1))" bs=4k seek="$n" count=7 conv=notrunc status=none
        [ $((n % 7)) != 0 ] || rm "$1/$n"
        [ $((n % 10)) != 0 ] || sync -f "$1"
    done
    cp bytes "$1/large"
    sync -f "$1"
}

btrfs_holds_what_it_holds_on_the_disk_itself() {
    long
    _two_null_disks size=384 zone_nr_conv=4
    modprobe btrfs
    random_file bytes 16
    local at
    for at in "$ours" "$theirs"; do mkfs.btrfs -f -q -m single -d single "$at"; done
    _mount_both
    for at in ours theirs; do _filled $at; done
    _same_contents 40
    btrfs scrub start -B ours | grep -q "no errors found"
    umount ours
    btrfs check "$ours" > checked 2>&1 || { cat checked; return 1; }
    mount "$ours" ours
}

btrfs_is_whole_over_a_scsi_disk() {
    long
    scsi_disk dev_size_mb=256 sector_size=4096 zbc=managed zone_size_mb=4 zone_nr_conv=4 delay=0
    _over "$device"
    modprobe btrfs
    random_file bytes 16
    mkfs.btrfs -f -q -m single -d single "$ours"
    mounted "$ours" ours
    _filled ours
    _contents ours > before
    umount ours
    btrfs check "$ours" > checked 2>&1 || { cat checked; return 1; }
    mount "$ours" ours
    _contents ours | cmp - before
}

f2fs_holds_what_it_holds_on_the_disk_itself() {
    _two_null_disks size=512 zone_nr_conv=32
    modprobe f2fs || skip "this kernel has no f2fs"
    random_file bytes 16
    local at
    for at in "$ours" "$theirs"; do mkfs.f2fs -q -f -m "$at"; done
    _mount_both
    for at in ours theirs; do _filled $at; done
    _same_contents 40
    umount ours
    fsck.f2fs --dry-run "$ours" > checked 2>&1 || { tail -40 checked; return 1; }
    refused grep -F "[Fail]" checked
    mount "$ours" ours
}

xfs_with_zones_is_whole_after_it_was_filled() {
    mkfs.xfs 2>&1 | grep -q zoned || skip "mkfs.xfs $(mkfs.xfs -V | sed 's/.* //') makes none with zones: that is in 6.15 or newer"
    _two_null_disks size=1024 zone_nr_conv=64
    local at
    random_file bytes 16
    for at in "$ours" "$theirs"; do mkfs.xfs -q -f -r zoned=1 "$at"; done
    _mount_both
    for at in ours theirs; do _filled $at; done
    _same_contents 40
}
