# What our zones answer, beside the zones of the kernel's own drivers and of QEMU's ZNS disk (zone-differ.py).
# shellcheck shell=bash disable=SC2154

# _ours LINE...: a disk of these lines over ublk, in $ours.
_ours() {
    printf '%s\n' "[disk.ours]" "$@" "[export.ours]" 'device = "ours"' 'ublk = true' > stack.toml
    serve_block
    ours=$device
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
    nvme_nodes nvme0
    device=${nodes[0]:-}
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

# _over DISK: ours is that one.
_over() { _ours 'type = "zoned-blk"' "path = \"$1\""; }

zones_over_a_disk_of_the_kernel_answer_as_those_of_the_disk_itself() {
    long
    zoned_null_disk below size=48 zone_capacity=3 zone_nr_conv=2 zone_max_open=3 zone_max_active=5
    local below=$device
    zoned_null_disk theirs size=48 zone_capacity=3 zone_nr_conv=2 zone_max_open=3 zone_max_active=5
    theirs=$device
    _over "$below"
    _differ "$theirs" 3
}

# --- file systems on ours over a disk of the kernel's, beside those on such a disk itself

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

# _xfs_with_zones: from here on tools are those that know them.
_xfs_with_zones() {
    needs_kernel 6.15
    PATH=/opt/newer/bin:$PATH
    [[ $(mkfs.xfs 2>&1 || true) == *zoned=* ]] || skip "mkfs.xfs $(mkfs.xfs -V | sed 's/.* //') makes none with zones: that is in 6.15 or newer"
    modprobe xfs
}

# Its metadata want 300 MiB of conventional zones or more.
xfs_with_zones_holds_what_it_holds_on_the_disk_itself() {
    long
    _xfs_with_zones
    _two_null_disks size=768 zone_nr_conv=80
    local at
    random_file bytes 16
    for at in "$ours" "$theirs"; do mkfs.xfs -q -f -r zoned=1 "$at"; done
    _mount_both
    for at in ours theirs; do _filled $at; done
    _same_contents 40
    umount ours
    xfs_repair -n "$ours" > checked 2>&1 || { tail -n 40 checked; return 1; }
    mount "$ours" ours
}

# --- each user of zones on each kind of disk that has some, while the daemon is killed

# _on_each MIB CONVENTIONAL COMMAND...: the command with such a disk in $ours, for each $kind; `make test` has time for the last alone.
# Zones have 4 MiB.
_on_each() {
    local kinds="memory directory scsi"
    [ -z "${short:-}" ] || kinds=scsi
    random_file bytes 4
    for kind in $kinds; do
        case $kind in
            memory) _ours_null "size = \"${1}MiB\"" 'zone-size = "4MiB"' "conventional = $2" 'max-open = 8' ;;
            directory) _ours_in_a_directory --size "${1}MiB" --zone-size 4MiB --conventional "$2" --max-open 8 ;;
            scsi)
                scsi_disk dev_size_mb="$1" sector_size=4096 zbc=managed zone_size_mb=4 zone_nr_conv="$2" zone_max_open=8 delay=0
                _over "$device" ;;
        esac
        echo "--- $kind"
        "${@:3}"
        undo_all
    done
}
# _killed TIMES SECONDS: what is in memory ends with its daemon.
_killed() { [ "$kind" = memory ] || killed "$@"; }

_fio_is_verified() {
    load_begins --filename="$ours" --zonemode=zbd --max_open_zones=6 --offset=16m --size=64m --rw=write --bs=64k --iodepth=32
    _killed 2 1.5
    load_ends_well
    verified --filename="$ours" --zonemode=zbd --max_open_zones=6 --offset=80m --size=40m --rw=randwrite --bs=16k --iodepth=32 --io_size=24m
}
fio_with_zones_reads_what_it_has_written_on_each_kind_of_disk() {
    _on_each 128 4 _fio_is_verified
}

_zonefs_is_whole() {
    local n filled
    mkzonefs -f "$ours" > /dev/null
    mkdir -p mnt
    mount -t zonefs "$ours" mnt
    for n in 0 1 2; do dd if=bytes of=mnt/seq/$n bs=64k count=8 oflag=direct conv=notrunc status=none; done
    {
        for n in {3..9}; do dd if=bytes of=mnt/seq/"$n" bs=64k oflag=direct conv=notrunc status=none; done
        for n in 0 1 2; do dd if=bytes of=mnt/seq/$n bs=64k skip=8 oflag=direct,append conv=notrunc status=none; done
    } &
    filled=$!
    _killed 3 1
    wait $filled
    umount mnt
    mount -t zonefs "$ours" mnt
    for n in {0..9}; do cmp bytes mnt/seq/"$n"; done
    same "full zones" 10 "$(blkzone report "$ours" | grep -c "(fu)")"
    truncate -s 0 mnt/seq/1
    same "full zones after one was cut" 9 "$(blkzone report "$ours" | grep -c "(fu)")"
    umount mnt
}
zonefs_is_whole_on_each_kind_of_disk() {
    long
    _on_each 128 4 _zonefs_is_whole
}

# _file_system_is_whole CHECK OPTION...: the one on $ours, mounted with these, holds what was written; the check says so, too.
_file_system_is_whole() {
    local check=$1 filled
    shift
    mkdir -p mnt
    mount "$@" "$ours" mnt
    load_begins --directory=mnt --rw=randwrite --bs=16k --size=6m --iodepth=16
    _filled mnt &
    filled=$!
    _killed 3 1.5
    wait $filled
    load_ends_well
    _contents mnt > before
    umount mnt
    $check "$ours" > checked 2>&1 || { tail -n 40 checked; return 1; }
    refused grep -F "[Fail]" checked
    mount "$@" "$ours" mnt
    _contents mnt | cmp - before
    umount mnt
}

_btrfs_is_whole() {
    mkfs.btrfs -f -q -m single -d single "$ours"
    _file_system_is_whole "btrfs check"
}
btrfs_is_whole_on_each_kind_of_disk() {
    long
    modprobe btrfs
    _on_each 320 4 _btrfs_is_whole
}

_f2fs_is_whole() {
    mkfs.f2fs -q -f -m "$ours"
    _file_system_is_whole "fsck.f2fs --dry-run"
}
f2fs_is_whole_on_each_kind_of_disk() {
    long
    modprobe f2fs || skip "this kernel has no f2fs"
    _on_each 400 32 _f2fs_is_whole
}

# Its data in the zones; its metadata on a disk without any.
_xfs_is_whole() {
    truncate -s 320M metadata
    loop_disk metadata
    local zones=$ours
    ours=$device
    mkfs.xfs -q -f -r "zoned=1,rtdev=$zones" "$ours"
    _file_system_is_whole "xfs_repair -n -r $zones" -o "rtdev=$zones"
}
xfs_with_zones_is_whole_on_each_kind_of_disk() {
    long
    _xfs_with_zones
    _on_each 256 0 _xfs_is_whole
}

# What was done of an append in part must not take room that the file system counts on.
xfs_with_zones_finds_room_for_all_that_it_appends_while_the_daemon_is_killed() {
    _xfs_with_zones
    _ours_in_a_directory --size 256MiB --zone-size 4MiB --conventional 0 --max-open 8
    local zones=$ours n writer
    truncate -s 320M metadata
    loop_disk metadata
    random_file bytes 16
    mkfs.xfs -q -f -r "zoned=1,rtdev=$zones" "$device"
    mkdir mnt
    mount -o "rtdev=$zones" "$device" mnt
    for n in {1..9}; do cp bytes mnt/$n && sync -f mnt; done &
    writer=$!
    for ((n = 0; n < 20; n++)); do
        [ -e /proc/$writer ] || break
        killed 1 0.3
    done
    echo "killed $n times"
    wait $writer
    for n in {1..9}; do cmp bytes mnt/$n; done
    umount mnt
    xfs_repair -n -r "$zones" "$device" > checked 2>&1 || { tail -n 40 checked; return 1; }
}
