# What goes wrong around block devices: each has to be said with its name and the next step, and nothing may hang or panic.
# shellcheck shell=bash disable=SC2154

# _stack LINE...: $work/stack.toml of these, with a control socket.
_stack() {
    modprobe ublk_drv
    printf '%s\n' "$@" '[control]' 'socket = "control.sock"' > stack.toml
}
# _file NAME MIB LINE...: the lines of a disk that is a file in $work, and of its export of the same name.
_file() {
    truncate -s "${2}M" "$1.image"
    printf '%s\n' "[disk.$1]" 'type = "file"' "path = \"$1.image\"" "[export.$1]" "device = \"$1\"" 'ublk = true' "${@:3}"
}
_serve() {
    serve "$work/stack.toml"
    later _ends
}
# The daemon, well or not, but at once and without a panic.
_ends() {
    kill -TERM "$daemon"
    # If it does not end, its log is what the test shows.
    patiently sh -c "! kill -0 $daemon 2> /dev/null || { tail -n 20 '$work/log'; false; }"
    refused grep -i panicked "$work/log"
}
# _device EXPORT: in $device.
_device() {
    device=$(shingle status --json --control control.sock | jq -r ".exports[] | select(.name == \"$1\") | .path")
    test -b "$device"
}
# _refusal WORD...: `shingle up` fails soon and says all of these.
_refusal() {
    local word status=0
    timeout 60 shingle up "${stack:-stack.toml}" > refusal 2>&1 || status=$?
    cat refusal
    case $status in 0 | 124) fail "it ended with $status" ;; esac
    for word; do grep -qF -- "$word" refusal || fail "it does not say: $word"; done
    refused grep -i panicked refusal
}

without_the_driver_it_says_how_to_load_it() {
    _stack "$(_file disk 16)"
    modprobe -r ublk_drv
    _refusal 'modprobe ublk_drv'
    modprobe ublk_drv
    _serve
}

who_is_not_root_is_told_that_it_takes_root() {
    _stack "$(_file disk 16)"
    chmod 777 "$work"
    chmod 666 disk.image
    refused setpriv --reuid=65534 --regid=65534 --clear-groups timeout 60 shingle up stack.toml > refusal 2>&1
    cat refusal
    grep -q "/dev/ublk-control is not for this user.*root" refusal
    refused setpriv --reuid=65534 --regid=65534 --clear-groups shingle ublk list > refusal 2>&1
    grep -q "/dev/ublk-control is not for this user.*root" refusal
    refused grep -i panicked refusal
}

a_number_that_is_taken_is_named_and_who_has_it_goes_on() {
    _stack "$(_file disk 16 'ublk-number = 3')"
    _serve
    _device disk
    mkdir other
    (cd other && _stack "$(_file second 16 'ublk-number = 3')")
    stack=other/stack.toml _refusal second '/dev/ublkb3' 'ublk-number'
    dd if=/dev/zero of="$device" bs=1M count=1 oflag=direct status=none
    refused shingle ublk remove 3 --force 2> refusal
    grep -F "error: /dev/ublkb3 is served by process $daemon: stop that first" refusal
    same "block devices" /dev/ublkb3 "$(shingle ublk list --json | jq -r '.[].path')"
}

an_export_in_use_by_a_process_is_not_removed_and_the_process_is_named() {
    _stack "$(_file disk 16)"
    _serve
    _device disk
    tail -f "$device" > /dev/null &
    local holder=$!
    patiently sh -c "ls -l /proc/$holder/fd | grep -q $device"
    refused shingle export remove --control control.sock disk 2> refusal
    grep -F "in use by process $holder (tail)" refusal
    kill $holder
    wait $holder || true
    shingle export remove --control control.sock disk
    refused test -e "$device"
}

a_second_daemon_of_the_same_stack_file_is_refused_and_the_first_goes_on() {
    _stack "$(_file disk 16)"
    _serve
    _device disk
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    _refusal 'in use by process' "$daemon"
    random_file mnt/random 4
    sync -f mnt
    same "state" live "$(shingle ublk list --json | jq -r '.[].state')"
}

a_second_daemon_whose_disks_have_no_lock_does_not_take_the_device_either() {
    long
    _stack '[disk.memory]' 'type = "null"' 'size = "16MiB"' 'memory-backed = true' '[export.memory]' 'device = "memory"' 'ublk = true'
    _serve
    _device memory
    # The same file, so that it is the same device; the control socket alone would be refused first.
    sed -i '/control/,$d' stack.toml
    _refusal "$device" "process $daemon"
    dd if=/dev/zero of="$device" bs=1M count=1 oflag=direct status=none
}

more_requests_than_a_shard_takes_are_refused_and_say_what_to_lower() {
    _stack "$(_file first 16 'ublk-depth = 1024')" "$(_file second 16 'ublk-depth = 1024')" "$(_file third 16 'ublk-depth = 1')"
    _refusal 'third' 'ublk-depth' '2048'
    same "devices that are left" '[]' "$(shingle ublk list --json | tr -d ' \n')"
    sed -i '/^\[export.first\]/,/^\[disk/s/1024/64/' stack.toml
    _serve
    for device in first second third; do _device $device; done
    # While it runs.
    shingle export add --control control.sock fourth first --ublk --set ublk-depth=950
    refused shingle export add --control control.sock fifth first --ublk --set ublk-depth=64 2> refusal
    grep -F fifth refusal | grep -F ublk-depth
    _device fourth
    refused shingle export add --control control.sock fifth first --ublk --set ublk-depth=64 2> refusal
    shingle export add --control control.sock fifth first --ublk --set ublk-depth=9
}

a_file_system_that_is_full_says_so_and_goes_on() {
    long
    shingle create smr --size 256MiB --zone-size 8MiB --conventional 8 > /dev/null
    shingle dmz format smr > /dev/null
    _stack '[disk.smr]' 'type = "zoned-dir"' 'path = "smr"' '[device.volume]' 'table = "0 1 zoned smr"' \
        '[export.volume]' 'device = "volume"' 'ublk = true'
    _serve
    _device volume
    mkfs.ext4 -q -E nodiscard "$device"
    mounted "$device" mnt
    for round in 1 2; do
        refused dd if=/dev/urandom of="mnt/all$round" bs=1M conv=fsync 2> full
        grep -q "No space left" full
        rm "mnt/all$round"
        sync -f mnt
    done
    random_file mnt/random 8
    sync -f mnt
}

a_disk_without_room_below_is_no_space_above() {
    mkdir small
    mount -t tmpfs -o size=24m none small
    later umount small
    _stack "$(_file disk 64)"
    mv disk.image small/
    sed -i 's|"disk.image"|"small/disk.image"|' stack.toml
    _serve
    _device disk
    refused dd if=/dev/urandom of="$device" bs=1M count=48 oflag=direct 2> full
    cat full
    grep -q "No space left" full
    blkdiscard -o 0 -l $((16 << 20)) "$device"
    dd if=/dev/urandom of="$device" bs=1M count=8 oflag=direct status=none
}

# _pulled_out DEVICE: a disk of scsi_debug, as a cable that is cut does it.
_pulled_out() { echo 1 > "/sys/block/${1##*/}/device/delete"; }

a_disk_that_is_pulled_out_below_a_mount_is_errors_there_and_nothing_elsewhere() {
    scsi_disk dev_size_mb=64
    local disk=$device gone
    _stack '[disk.pulled]' 'type = "file"' "path = \"$disk\"" '[export.pulled]' 'device = "pulled"' 'ublk = true' "$(_file other 32)"
    _serve
    _device pulled
    gone=$device
    mkfs.ext4 -q "$gone"
    mounted "$gone" mnt -o errors=remount-ro
    random_file mnt/random 4
    sync -f mnt
    _device other
    verified --filename="$device" --rw=randwrite --bs=4k --size=16m --iodepth=8 --time_based --runtime=8 > load.out 2>&1 &
    local load=$!
    sleep 2
    _pulled_out "$disk"
    refused timeout 60 dd if=/dev/urandom of=mnt/more bs=1M count=4 conv=fsync 2> why
    grep -qE "Input/output error|Read-only file system|No space left" why
    refused timeout 60 dd if="$gone" of=/dev/null bs=64k count=1 iflag=direct
    wait $load
    dd if=/dev/zero of="$device" bs=1M count=1 oflag=direct status=none
    cat "$work/log"
}

zones_that_are_pulled_out_below_a_mount_are_errors_there_and_nothing_elsewhere() {
    long
    scsi_disk dev_size_mb=256 zbc=managed zone_size_mb=4 zone_nr_conv=8
    local disk=$device gone
    _stack '[disk.pulled]' 'type = "zoned-blk"' "path = \"$disk\"" '[export.pulled]' 'device = "pulled"' 'ublk = true' "$(_file other 32)"
    _serve
    _device pulled
    gone=$device
    mkzonefs -f "$gone" > /dev/null
    mounted "$gone" mnt -t zonefs -o errors=remount-ro
    dd if=/dev/urandom of=mnt/seq/0 bs=64k count=4 oflag=direct status=none
    _pulled_out "$disk"
    refused timeout 60 dd if=/dev/urandom of=mnt/seq/0 bs=64k count=4 seek=4 oflag=direct conv=notrunc
    refused timeout 60 blkzone report "$gone"
    grep -q "$disk: the disk is gone" "$work/log"
    _device other
    verified --filename="$device" --rw=randwrite --bs=4k --size=8m --iodepth=8
}

a_killed_daemon_whose_disk_is_gone_says_so_and_its_device_waits_until_it_is_given_up() {
    _stack "$(_file disk 32 'ublk-number = 4')"
    serve "$work/stack.toml"
    _device disk
    mkfs.ext4 -q "$device"
    mount "$device" /mnt
    fio --name=load --directory=/mnt --ioengine=libaio --direct=1 --rw=randwrite --bs=4k --size=8m --time_based --runtime=600 \
        --output=fio.out &
    local load=$!
    sleep 2
    kill_daemon
    rm disk.image
    _refusal 'disk.image: there is no such file'
    same "the device" waiting "$(shingle ublk list --json | jq -r '.[0].state')"
    kill -0 $load
    refused shingle ublk remove 4 2> refusal
    grep -F "error: /dev/ublkb4 is in use by the mount at /mnt: end that first, or remove it with --force" refusal
    timeout 60 shingle ublk remove 4 --force > removed
    grep "/dev/ublkb4 .*the mount at /mnt" removed
    refused wait $load
    timeout 60 umount /mnt
    patiently test ! -e /dev/ublkb4
    same "what is left" '[]' "$(shingle ublk list --json | tr -d ' \n')"
    # The number and the stack file are free again.
    truncate -s 32M disk.image
    _serve
    _device disk
    same "number" /dev/ublkb4 "$device"
}
