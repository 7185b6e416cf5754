# What guest tests call. The suite sources it before a test runs; a plain script can do so with `. /guest/lib.sh`.
# A test is a function: it fails when one of its commands does. It works in $work, an empty folder in memory, and says
# `later COMMAND...` for what has to be done when it ends. $boot counts the guests that it has lived in, from 1 on.
# shellcheck shell=bash disable=SC2154
set -eEuo pipefail

undo=()
# later COMMAND...: done when the test ends well; what was said last is done first. After a failure the guest itself ends.
later() { undo=("$(printf '%q ' "$@")" ${undo[@]+"${undo[@]}"}); }
undo_all() {
    local command
    for command in ${undo[@]+"${undo[@]}"}; do eval "$command"; done
    undo=()
}

# skip REASON: this test cannot tell anything here.
skip() {
    echo "$*" > "$work/skipped"
    undo_all
    exit 77
}
# For tests that take long, as a line of its own: `suite` leaves those out that have it, where only short ones are to run.
long() { :; }
# needs_kernel 7.2: not older than that.
needs_kernel() { printf '%s\n%s\n' "$1" "$(uname -r)" | sort -CV || skip "the kernel is older than $1"; }

fail() {
    echo "$*" >&2
    exit 1
}
# refused COMMAND...: fails if the command does not.
refused() { if "$@"; then fail "was to be refused: $*"; fi; }
# same WHAT EXPECTED FOUND
same() { [ "$2" = "$3" ] || fail "$1: expected $2, found $3"; }
# patiently COMMAND...: again and again until it works, for half a minute.
patiently() {
    local try
    for ((try = 0; try < 300; try++)); do
        if "$@" > "$work/patiently" 2>&1; then cat "$work/patiently"; return; fi
        sleep 0.1
    done
    cat "$work/patiently" >&2
    fail "in vain: $*"
}

# The guest dies here as a machine without power does: nothing is synced, nothing unmounted. The test is started again
# in the next guest, with the same disks and the next $boot. What it puts into /guest/kept it finds again.
power_cut() {
    touch /guest/cut /guest/again
    echo b > /proc/sysrq-trigger
    sleep 60
}

# From here on the kernel writes to disks only what it is told to sync, so that `power_cut` takes all the rest. File systems
# that write by themselves want `-o commit=300`.
only_syncs_write() { sysctl -qw vm.dirty_writeback_centisecs=0 vm.dirty_background_ratio=90 vm.dirty_ratio=95; }

# --- disks: each leaves its device in $device, and is gone when the test ends

# disk N: the disk N of guest/run --disk, which stays. Tests have disk 0, of 4 GiB, with what others left on it.
disk() {
    local serial
    for serial in /sys/block/vd*/serial; do
        device=/dev/$(basename "$(dirname "$serial")")
        if [ "$(cat "$serial")" = "disk$1" ]; then return; fi
    done
    fail "this guest has no disk $1"
}
# null_disk NAME KEY=VALUE...: a null_blk device with the driver's attributes, kept in memory; sizes in MiB.
null_disk() {
    local name=$1 at=/sys/kernel/config/nullb/$1 pair
    shift
    modprobe null_blk
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    mkdir "$at"
    for pair in memory_backed=1 "$@" power=1; do echo "${pair#*=}" > "$at/${pair%%=*}"; done
    udevadm settle
    # Drivers before 6.6 do not call it as its folder is called.
    device=/dev/$name
    [ -b "$device" ] || device=/dev/nullb$(< "$at/index")
    later rmdir "$at"
    later sh -c "echo 0 > $at/power"
}
# zoned_null_disk NAME KEY=VALUE...: 64 zones of 4 MiB, unless told otherwise.
zoned_null_disk() { null_disk "$1" zoned=1 size=256 zone_size=4 "${@:2}"; }
# scsi_disk KEY=VALUE...: a disk of scsi_debug with the module's parameters; zoned with `zbc=managed zone_size_mb=4`.
scsi_disk() {
    modprobe scsi_debug max_luns=1 "$@"
    udevadm settle
    device=/dev/$(basename /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/*)
    later patiently modprobe -r scsi_debug
}
# nvme_nodes SERIAL: sets $nodes to the block devices of the controllers with this serial number, of which there are two with nvme_core.multipath=N.
nvme_nodes() {
    local node
    nodes=()
    udevadm settle
    for node in /sys/block/nvme*n*; do
        if [ -e "$node/dev" ] && [ "$(xargs < "$node/device/serial")" = "$1" ]; then nodes+=("/dev/${node##*/}"); fi
    done
}
# loop_disk FILE
loop_disk() {
    device=$(losetup -f --show "$1")
    later losetup -d "$device"
}

# --- Shingle

# begin_to_serve STACK: runs `shingle up`. $daemon is its process, $work/log what it said.
begin_to_serve() {
    : > "$work/log"
    shingle up "$1" >> "$work/log" 2>&1 &
    daemon=$!
}
# serve STACK [SECONDS]: the same, and returns when it is ready, for half a minute at most unless SECONDS says otherwise.
serve() {
    begin_to_serve "$1"
    local try
    for ((try = 0; try < ${2:-30} * 20; try++)); do
        if grep -qx ready "$work/log"; then return; fi
        kill -0 "$daemon" 2> /dev/null || break
        sleep 0.05
    done
    cat "$work/log" >&2
    fail "shingle up did not get ready"
}
# As SIGTERM asks it to; it has to end well. One that was stopped before stays so.
stop_daemon() {
    [ -n "$daemon" ] || return 0
    kill -TERM "$daemon"
    wait "$daemon" || { cat "$work/log" >&2; fail "shingle up did not end well"; }
    daemon=
}
kill_daemon() {
    kill -KILL "$daemon"
    wait "$daemon" || true
}
# serve_block: the daemon of $work/stack.toml until the test ends; $device is its first block device.
serve_block() {
    modprobe ublk_drv
    serve "$work/stack.toml"
    later stop_daemon
    device=$(sed -n 's|^export .*, \(/dev/ublkb[0-9]*\)$|\1|p' "$work/log" | head -1)
    udevadm settle
}
# block_device_of EXPORT: sets $device to that of the daemon with $work/control.sock.
block_device_of() {
    device=$(shingle status --json --control "$work/control.sock" | jq -er ".exports[] | select(.name == \"$1\").path")
}
# killed TIMES SECONDS: the daemon of $work/stack.toml, so often, so long after its start, and started again each time.
killed() {
    local time
    for ((time = 0; time < $1; time++)); do
        sleep "$2"
        kill_daemon
        serve "$work/stack.toml"
    done
}

# --- NBD

# nbd_attach N EXPORT OPTION...: /dev/nbdN shows an export of the daemon that listens at $work/nbd.sock.
nbd_attach() {
    device=/dev/nbd$1
    modprobe nbd
    nbd-client -unix "$work/nbd.sock" "$device" -name "$2" "${@:3}"
    later nbd_detach "$1"
    patiently test "$(blockdev --getsize64 "$device")" != 0
    udevadm settle
}

# nbd_detach N: and waits until the kernel has let it go.
nbd_detach() {
    nbd-client -d "/dev/nbd$1"
    patiently test ! -e "/sys/block/nbd$1/pid"
}

# --- file systems and data

# mounted DEVICE PLACE OPTION...: until the test ends.
mounted() {
    mkdir -p "$2"
    mount "${@:3}" "$1" "$2"
    later umount "$2"
}
# verified OPTION...: fio with checks of what was written; it reads it again and compares.
verified() {
    load_begins "$@"
    load_ends_well
}
# The same beside what comes next.
load_begins() {
    fio --name=verified --ioengine=libaio --direct=1 --verify=crc32c --do_verify=1 --verify_fatal=1 \
        --output="$work/fio" "$@" &
    load=$!
}
load_ends_well() { wait "$load" || { grep -iE 'verif|err' "$work/fio" >&2; return 1; }; }
# random_file FILE MIB
random_file() { head -c "${2}M" /dev/urandom > "$1"; }
