# The kernel's zoned block devices as disks: `type = "zoned-blk"` and `shingle zones` on them. The drives are emulated.
# shellcheck shell=bash disable=SC2034,SC2154

# _served DEVICE OPTION...: a daemon with the disk `d` on it and an export of that; OPTIONs are lines of the disk.
_served() {
    printf '%s\n' "[disk.d]" 'type = "zoned-blk"' "path = \"$1\"" "${@:2}" "[export.d]" 'device = "d"' \
        "[listen]" "unix = \"$work/nbd.sock\"" "[control]" "socket = \"$work/ctl\"" > "$work/stack.toml"
    serve "$work/stack.toml"
}
# _attached BLOCK: the export at /dev/nbd0.
_attached() { nbd_attach 0 d -b "$1"; }
# _zones OPERATION ARGUMENT...: through the daemon.
_zones() { shingle zones "$1" d --control "$work/ctl" --force "${@:2}"; }
_report() { shingle zones report d --control "$work/ctl" "$@"; }
# _put MIB COUNT [FLAG]: random bytes to the export, a MiB at a time; they are kept in $work/bytes.
_put() {
    random_file "$work/bytes" "$2"
    dd if="$work/bytes" of=/dev/nbd0 bs=1M seek="$1" count="$2" oflag="direct${3:+,$3}" iflag=fullblock status=none
}
# _is MIB COUNT DEVICE: what was put last is there.
_is() { cmp "$work/bytes" <(dd if="$3" bs=1M skip="$1" count="$2" iflag=direct status=none); }

# Zones of 4 MiB, the first four conventional.
_all_operations() { # DEVICE BLOCK
    local disk=$1 s=8192
    _served "$disk"
    later stop_daemon
    _attached "$2"
    _put 0 2
    _is 0 2 "$disk"
    _put 16 2
    _is 16 2 "$disk"
    _zones open -o $((5 * s)) -c 1
    _zones finish -o $((6 * s)) -c 1
    same "what the disk itself says" "$(blkzone report "$disk" | sed 's/ *//g')" "$(_report | sed 's/ *//g')"
    same "zones" "oi 1 oe 1 fu 1" "$(for cond in oi oe fu; do echo "$cond $(_report --cond $cond | wc -l)"; done | xargs)"
    _zones close -o $((4 * s)) -c 1
    same "closed" 1 "$(_report --cond cl | wc -l)"
    _zones reset -o $((4 * s)) -c 1
    _put 16 3
    _is 16 3 "$disk"
    _zones reset
    same "empty zones" "$(($(_report | wc -l) - 4))" "$(_report --cond em | wc -l)"
    refused _is 16 3 "$disk"
    refused grep WARN "$work/log"
}
all_operations_do_on_null_blk_what_they_say() {
    long
    zoned_null_disk z0 zone_nr_conv=4 zone_max_open=8 zone_max_active=10
    _all_operations "$device" 512
}
all_operations_do_on_null_blk_with_blocks_of_4096_what_they_say() {
    zoned_null_disk z0 zone_nr_conv=4 blocksize=4096 zone_capacity=3
    _all_operations "$device" 4096
}
all_operations_do_on_a_scsi_disk_what_they_say() {
    scsi_disk dev_size_mb=128 zbc=managed zone_size_mb=4 zone_nr_conv=4 zone_max_open=8
    _all_operations "$device" 512
}
all_operations_do_on_a_scsi_disk_with_blocks_of_4096_what_they_say() {
    scsi_disk dev_size_mb=128 sector_size=4096 zbc=managed zone_size_mb=4 zone_nr_conv=4
    _all_operations "$device" 4096
}

capacity_below_size_and_a_short_last_zone_are_the_disks() {
    zoned_null_disk z0 zone_capacity=3
    _served "$device"
    _attached 512
    _put 0 3
    refused dd if=/dev/zero of=/dev/nbd0 bs=1M seek=3 count=1 oflag=direct
    same "a full zone" 1 "$(_report --cond fu | wc -l)"
    nbd_detach 0
    stop_daemon
    undo_all
    undo=()
    zoned_null_disk z1 size=255
    _served "$device"
    later stop_daemon
    same "the last zone" "0x001800" "$(_report | tail -1 | sed 's/.*len \(0x[0-9a-f]*\),.*/\1/')"
    _attached 512
    _put 252 3
    _is 252 3 "$device"
    same "a full zone" 1 "$(_report --cond fu | wc -l)"
    _zones reset -o $((63 * 8192)) -c 1
    _zones finish -o $((63 * 8192)) -c 1
    _zones reset
    same "no full zone" 0 "$(_report --cond fu | wc -l)"
}

dead_zones_are_called_so_and_the_others_go_on() {
    zoned_null_disk z0
    local disk=$device attributes=/sys/kernel/config/nullb/z0
    _served "$disk"
    later stop_daemon
    _attached 512
    _put 0 1
    echo 0 > $attributes/zone_readonly
    echo 8192 > $attributes/zone_offline
    refused dd if=/dev/zero of=/dev/nbd0 bs=1M seek=1 count=1 oflag=direct
    _is 0 1 /dev/nbd0
    refused dd if=/dev/nbd0 of=/dev/null bs=1M skip=4 count=1 iflag=direct
    refused _zones reset -o 8192 -c 1 2> "$work/why"
    cat "$work/why"
    grep -q "zone 1: the zone is offline" "$work/why"
    grep -q "zone 0: the zone is read-only for good" "$work/log"
    _put 8 1
    _is 8 1 "$disk"
}

# The kernel's own trace of what reaches the drive.
_traced() {
    mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing
    echo "dev == $(($(stat -c '0x%t' "$1") << 20 | $(stat -c '0x%T' "$1")))" > /sys/kernel/tracing/events/block/block_rq_issue/filter
    echo > /sys/kernel/tracing/trace
    echo 1 > /sys/kernel/tracing/events/block/block_rq_issue/enable
    later sh -c 'echo 0 > /sys/kernel/tracing/events/block/block_rq_issue/enable'
}
# The commands as letters (W, WF, R, F and so on), sector and length.
_commands() { sed -n 's/.*block_rq_issue: [0-9,]* \([A-Z]*\) .*() \([0-9]*\) + \([0-9]*\) .*/\1 \2 \3/p' /sys/kernel/tracing/trace; }

fua_and_flush_reach_the_drive() {
    scsi_disk dev_size_mb=64 zbc=managed zone_size_mb=4
    local disk=$device
    _served "$disk"
    later stop_daemon
    _attached 512
    _traced "$disk"
    _put 0 1 dsync
    _commands
    same "FUA" yes "$(_commands | grep -q '^WF\|^W[A-Z]*F' && echo yes)"
    echo > /sys/kernel/tracing/trace
    blockdev --flushbufs /dev/nbd0
    sync /dev/nbd0
    dd if=/dev/zero of=/dev/nbd0 bs=1M seek=1 count=1 oflag=direct conv=fsync status=none
    _commands
    same "a flush" yes "$(_commands | grep -q '^F' && echo yes)"
}

no_command_crosses_a_zone_or_is_longer_than_the_kernel_takes() {
    long
    scsi_disk dev_size_mb=64 zbc=managed zone_size_mb=4
    local disk=$device most
    most=$(($(cat /sys/block/"${disk##*/}"/queue/max_sectors_kb) * 2))
    _served "$disk"
    later stop_daemon
    _attached 512
    _traced "$disk"
    random_file bytes 12
    dd if=bytes of=/dev/nbd0 bs=3M oflag=direct status=none
    cmp bytes <(dd if="$disk" bs=1M count=12 iflag=direct status=none)
    _commands | awk -v most="$most" '/^W/ { n++; if ($3 > most || int($2 / 8192) != int(($2 + $3 - 1) / 8192)) { print; bad = 1 } } END { exit bad || !n }'
}

# Whoever resets a zone past the kernel: through the generic SCSI device.
_reset_by_another() { # DISK SECTOR
    sg_reset_wp --zone=$(($2 * 512 / $(cat /sys/block/"${1##*/}"/queue/logical_block_size))) /dev/"$(basename /sys/block/"${1##*/}"/device/scsi_generic/*)"
}

a_zone_that_another_has_reset_is_said_to_be_so_and_goes_on_after_a_report() {
    scsi_disk dev_size_mb=64 zbc=managed zone_size_mb=4
    local disk=$device
    _served "$disk"
    later stop_daemon
    _attached 512
    _put 4 1
    _reset_by_another "$disk" 8192
    # The kernel's cache has it where it was; ours is the disk's own word.
    same "the zone" 1 "$(_report -o 8192 -c 1 --cond em | wc -l)"
    _put 4 2
    _reset_by_another "$disk" 8192
    refused dd if=/dev/zero of=/dev/nbd0 bs=1M seek=6 count=1 oflag=direct
    grep "somebody else has reset it or written to it" "$work/log"
    refused dd if=/dev/zero of=/dev/nbd0 bs=1M seek=4 count=1 oflag=direct
    _report -o 8192 -c 1
    _put 4 3
    _is 4 3 "$disk"
}

a_zone_in_which_a_write_has_failed_can_be_written_again_after_one_report() {
    zoned_null_disk z0
    local disk=$device
    _served "$disk" 'policy = "none"'
    later stop_daemon
    _attached 512
    _put 0 1
    # Behind the pointer, and nobody above the kernel says no.
    refused dd if=/dev/zero of=/dev/nbd0 bs=1M seek=2 count=1 oflag=direct
    # The kernel would refuse this one, too, if nobody had asked for a report.
    dd if=/dev/zero of=/dev/nbd0 bs=1M seek=1 count=1 oflag=direct
    same "sectors" 0x001000 "$(_report -c 1 | sed 's/.*wptr \(0x[0-9a-f]*\) .*/\1/')"
}

others_are_kept_out_and_named() {
    zoned_null_disk z0 zone_nr_conv=4
    local disk=$device
    _served "$disk"
    refused blkzone reset "$disk"
    refused mkfs.ext4 -q "$disk"
    refused shingle up "$work/stack.toml" 2> why
    cat why
    grep "in use by process $daemon (shingle up" why
    # The daemon is found by the device, and asked.
    shingle zones finish "$disk" -o 32768 -c 1 --force --control "$work/ctl"
    same "a full zone" 1 "$(shingle zones report "$disk" --cond fu | wc -l)"
    stop_daemon
    shingle zones reset "$disk"
    same "no full zone" 0 "$(shingle zones report "$disk" --cond fu | wc -l)"
    dmsetup create linear --table "0 $(blockdev --getsz "$disk") linear $disk 0"
    refused shingle up "$work/stack.toml" 2> why
    dmsetup remove linear
    cat why
    grep "in use by the kernel's mapped device linear" why
    mkzonefs -f "$disk"
    mounted "$disk" mnt -t zonefs
    refused shingle up "$work/stack.toml" 2> why
    cat why
    grep "in use by the file system at $work/mnt" why
}

a_file_disk_says_which_type_a_zoned_device_has() {
    zoned_null_disk z0
    printf '%s\n' "[disk.d]" 'type = "file"' "path = \"$device\"" > stack.toml
    refused shingle up --check stack.toml 2> why
    grep 'type = "zoned-blk"' why
    printf '%s\n' "[disk.d]" 'type = "zoned-blk"' 'path = "/dev/vda"' > stack.toml
    refused shingle up --check stack.toml 2> why
    grep -F "use it with type \`file\`" why
}

a_disk_that_is_pulled_out_under_load_is_said_to_be_gone_and_nobody_hangs() {
    scsi_disk dev_size_mb=64 zbc=managed zone_size_mb=4 zone_nr_conv=4
    local disk=$device fio
    _served "$disk"
    _attached 512
    fio --name=load --filename=/dev/nbd0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randrw --bs=16k --size=16m \
        --time_based --runtime=60 --output=fio.out &
    fio=$!
    sleep 3
    echo 1 > /sys/block/"${disk##*/}"/device/delete
    refused wait $fio
    patiently grep "$disk: the disk is gone" "$work/log"
    shingle status --control "$work/ctl"
    refused _report
    refused dd if=/dev/nbd0 of=/dev/null bs=1M count=1 iflag=direct
    refused shingle up "$work/stack.toml"
    nbd_detach 0
    kill -TERM "$daemon"
    wait "$daemon" || true
    cat "$work/log"
    undo=()
    modprobe -r scsi_debug
}

the_disks_of_the_machine_are_listed_with_what_they_can_do() {
    same "without any" 0 "$(shingle disks --json | jq '.disks | length')"
    zoned_null_disk z0 zone_nr_conv=4 zone_max_open=8 zone_max_active=10
    scsi_disk dev_size_mb=64 sector_size=4096 zbc=managed zone_size_mb=4
    local disk=$device order=plug
    _served "$disk"
    later stop_daemon
    shingle disks
    shingle disks --json > listed
    same "null_blk" "/dev/z0 268435456 64 4 4194304 8 10 $order" \
        "$(jq -r '.disks[] | select(.name == "z0") | "\(.path) \(.bytes) \(.zones) \(.conventional_zones) \(.zone_bytes) \(.max_open) \(.max_active) \(.kernel_order)"' listed)"
    same "scsi_debug" "scsi_debug 4096 4096 true true process $daemon" \
        "$(jq -r ".disks[] | select(.path == \"$disk\") | \"\\(.model) \\(.logical_block_bytes) \\(.write_granularity_bytes) \\(.write_cache) \\(.fua) \\(.user)\"" listed | cut -d' ' -f1-7)"
}

a_disk_is_tested_and_keeps_the_rules_of_zones() {
    long
    shingle disks test --help > /dev/null 2>&1 || skip "this shingle has no laboratory"
    local disk
    scsi_disk dev_size_mb=128 sector_size=4096 zbc=managed zone_size_mb=4 zone_nr_conv=4 zone_max_open=8
    disk=$device
    zoned_null_disk z0 zone_capacity=3 zone_max_open=4 zone_max_active=6
    for disk in "$disk" "$device"; do
        blkzone report "$disk" > before
        shingle disks test "$disk" --runtime 1
        blkzone report "$disk" | cmp - before
        shingle disks test "$disk" --runtime 1 --destructive --report report
        same "what a report has not" null "$(jq -r '.disk.serial // .disk.user' report)"
        same "measurements" 6 "$(jq '[.jobs[] | select(.error == 0)] | length' report)"
        same "rules that are broken" 0 "$(jq '[.rules[] | select(.result == "broken")] | length' report)"
        rm report
    done
}

a_kernel_that_holds_writes_back_is_told_of_to_the_policy_that_wants_several() {
    needs_kernel 7.1
    zoned_null_disk z0
    echo 1 > /sys/block/z0/queue/zoned_qd1_writes
    _served "$device" 'policy = "elevator"'
    grep "echo 0 > /sys/block/z0/queue/zoned_qd1_writes" "$work/log"
    stop_daemon
    same "the order of the kernel" qd1 "$(shingle disks --json | jq -r '.disks[0].kernel_order')"
    _served "$device" 'policy = "qd1"'
    later stop_daemon
    refused grep zoned_qd1_writes "$work/log"
}
