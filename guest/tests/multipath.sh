# Tables of dm-multipath: the kernel's and ours are told the same, and have to say and do the same. Over the kernel's the paths are two linear
# devices on one disk, and udev sleeps, as it reads devices whenever something changes.
# shellcheck shell=bash disable=SC2154

_sectors=16384

# _dm VERB...: dmsetup of whoever is asked at the moment, the kernel or ours.
_dm() {
    if [ "$who" = kernel ]; then dmsetup "$@" 2>> dmsetup.said; else shingle dm "$1" --control "$work/control.sock" "${@:2}"; fi
}
# _path NAME: as a table has to name a device.
_path() { if [ "$who" = kernel ]; then echo "/dev/mapper/$1"; else echo "$1"; fi; }
_load() {
    _dm load "$1" --table "$2"
    _dm resume "$1"
}
_breaks() { _load "$1" "0 $_sectors error"; }
_works() { _load "$1" "0 $_sectors linear $disk 0"; }

_kernel_begins() {
    who=kernel
    modprobe -a dm-multipath dm-round-robin dm-service-time dm-queue-length
    null_disk one size=8
    disk=$device
    udevadm settle
    udevadm control --stop-exec-queue
    # And dmsetup does what udev would, of which it tells each time.
    export DM_DISABLE_UDEV=1
    later udevadm control --start-exec-queue
    _paths_begin
    later _gone m
    m=/dev/mapper/m
}
_ours_begins() {
    who=ours
    cat > stack.toml <<STACK
[disk.one]
type = "null"
size = "8MiB"
memory-backed = true
[listen]
unix = "nbd.sock"
[control]
socket = "control.sock"
STACK
    serve "$work/stack.toml"
    later stop_daemon
    disk=one
    _paths_begin
    # A device that stays, whatever lies below it.
    _dm create m --table "0 $_sectors multipath 0 0 1 1 round-robin 0 1 1 $(_path left) 1"
    shingle export add m m --control "$work/control.sock"
    nbd_attach 0 m
    m=$device
}
_paths_begin() {
    local name
    for name in left right; do
        _dm create "$name" --table "0 $_sectors linear $disk 0"
        [ "$who" = ours ] || later _gone "$name"
    done
}
_gone() {
    ! dmsetup info "$1" > /dev/null 2>&1 || dmsetup remove --force "$1" 2>> dmsetup.said
}

# _multipath WORDS: the device has this table, in which LEFT and RIGHT are the paths. In the kernel it is made anew; ours is exported, and
# a new table knows nothing of the old one.
_multipath() {
    local table
    table="0 $_sectors multipath $(sed "s|LEFT|$(_path left)|g; s|RIGHT|$(_path right)|g" <<< "$1")"
    if [ "$who" = ours ]; then
        _dm load m --table "$table" 2> /dev/null && _dm resume m
    else
        _gone m
        _dm create m --table "$table" 2> /dev/null
    fi
}
_reads() { if dd if="$m" of=/dev/null bs=4096 count=1 iflag=direct 2> /dev/null; then echo read; else echo failed; fi; }
_events() { _dm info m -c --noheadings -o events; }
_number_of() { dmsetup info -c --noheadings --separator : -o major,minor "$1"; }
# Without device numbers, which are names here, and without a feature that kernels before 7 print of all bio-based lines.
_named() {
    local line count word=" retain_attached_hw_handler "
    IFS= read -r line
    if [ "$who" = kernel ]; then
        line=$(sed "s/ $(_number_of left) / left /g; s/ $(_number_of right) / right /g" <<< "$line")
    fi
    if [ "$who" = kernel ] && [[ $line == *"$word"* ]]; then
        read -r _ _ _ count _ <<< "$line"
        line=${line/"$word"/ }
        line=${line/ multipath $count / multipath $((count - 1)) }
    fi
    echo "$line"
}
_show() {
    _dm table m | _named
    _dm status m | _named
    # The work that raises them takes a moment.
    [ "$who" = ours ] || sleep 0.2
    echo "events: $(($(_events) - first_event))"
}
_tells() {
    local word words=()
    for word; do
        [[ $word != left && $word != right ]] || word=$(_path "$word")
        words+=("$word")
    done
    if _dm message m 0 "${words[@]}" 2> /dev/null; then echo "$*"; else echo "$* is refused"; fi
}

# _compared SCRIPT: what it prints of the kernel's, and of ours.
_compared() {
    _kernel_begins
    first_event=0
    $1 > kernel.said
    undo_all
    _ours_begins
    $1 > ours.said
    diff -u kernel.said ours.said
    [ "$(wc -l < ours.said)" -ge 20 ] || fail "the script says too little"
}

_lines() {
    local line
    while read -r line; do
        echo "$line:"
        if ! _multipath "$line"; then
            echo "is refused"
            continue
        fi
        _reads
        _dm table m | _named | cat -A
        _dm status m | _named | cat -A
    done <<LINES
2 queue_mode bio 0 1 1 round-robin 0 2 1 LEFT 1 RIGHT 0
2 queue_mode bio 0 1 1 round-robin 0 2 1 LEFT 1000 RIGHT 1
2 queue_mode bio 0 1 1 round-robin 0 1 0 LEFT
3 queue_if_no_path queue_mode bio 1 alua 2 2 round-robin 0 1 1 LEFT 1 queue-length 0 1 1 RIGHT 1
2 queue_mode bio 0 2 1 service-time 0 1 2 LEFT 2 5 service-time 0 1 2 RIGHT 1 0
2 queue_mode bio 0 1 1 service-time 0 2 0 LEFT RIGHT
2 queue_mode bio 0 1 1 service-time 0 2 1 LEFT 1 RIGHT 1
8 queue_if_no_path queue_mode bio pg_init_retries 3 pg_init_delay_msecs 500 retain_attached_hw_handler 0 1 1 queue-length 0 2 1 LEFT 7 RIGHT 1
4 pg_init_delay_msecs 0 queue_mode bio 0 1 1 queue-length 0 2 0 RIGHT LEFT
2 queue_mode bio 0 1 0 round-robin 0 1 1 LEFT 1
2 queue_mode bio 0 2 1 round-robin 0 1 1 LEFT 1
2 queue_mode bio 0 1 1 round-robin 0 1 2 LEFT 1 1
2 queue_mode bio 0 1 1 nosuch 0 1 1 LEFT 1
2 queue_mode bio 0 1 1 service-time 0 1 2 LEFT 1 101
2 queue_mode bio 0 1 1 service-time 0 1 1 LEFT x
2 queue_mode bio 0 1 1 queue-length 0 0 1
2 queue_mode fast 0 1 1 round-robin 0 1 1 LEFT 1
2 queue_mode bio 0 1 1 round-robin 0 1 1 LEFT 1 too much
3 queue_mode bio swift 0 1 1 round-robin 0 1 1 LEFT 1
4 queue_mode bio pg_init_retries 51 0 1 1 round-robin 0 1 1 LEFT 1
4 queue_mode bio pg_init_delay_msecs 60001 0 1 1 round-robin 0 1 1 LEFT 1
3 queue_mode bio pg_init_retries 0 1 1 round-robin 0 1 1 LEFT 1
2 queue_mode bio 0 1 1 round-robin 0 1 1 /dev/nosuch 1
2 queue_mode bio 0 1 1 round-robin 0 1 1
2 queue_mode bio 0
LINES
}

# What goes on while all paths work or one does not.
_failover() {
    _multipath "2 queue_mode bio 0 2 1 round-robin 0 1 1 LEFT 1 service-time 0 1 2 RIGHT 1 1"
    first_event=$(_events)
    _reads; _show
    _breaks left; _reads; _show
    _works left; _reads; _show
    _tells reinstate_path left; _reads; _show
    _tells reinstate_path left; _show
    local message
    while read -r message; do
        # shellcheck disable=SC2086
        _tells $message
        _show; _reads; _show
    done <<MESSAGES
switch_group 1
disable_group 1
disable_group 2
enable_group 1
switch_group 2
enable_group 1
fail_path left
fail_path left
switch_group 1
reinstate_path left
switch_group 1
FAIL_PATH right
reinstate_path right
disable_group 1
fail_path right
reinstate_path right
Switch_Group 1
MESSAGES
    while read -r message; do
        # shellcheck disable=SC2086
        _tells $message
    done <<MESSAGES
switch_group 3
switch_group 0
disable_group x
switch_group
nosuch
nosuch left
fail_path
fail_path left right
fail_path nosuch
queue_if_no_path now
MESSAGES
    _show
}

# What goes on when none works.
_without_path() {
    _multipath "2 queue_mode bio 0 2 1 round-robin 0 1 1 LEFT 1 round-robin 0 1 1 RIGHT 1"
    first_event=$(_events)
    _reads
    _breaks left; _breaks right
    # After the first one the kernel still shows the group in which the last path was.
    _reads; _reads; _show
    _works right; _reads
    _tells reinstate_path right; _reads; _show
    _tells QUEUE_IF_NO_PATH; _show
    _breaks right
    _reads > waiting & sleep 1
    _show; cat waiting
    _works right; _tells reinstate_path right
    wait $!; cat waiting; _show
    _breaks right
    _reads > waiting & sleep 1
    _tells fail_if_no_path
    wait $!; cat waiting; _show
    _tells queue_if_no_path
    _reads > waiting & sleep 1
    _dm suspend m
    _tells reinstate_path right
    wait $!; cat waiting
    _dm resume m
    _show
    _reads > waiting & sleep 1
    _dm suspend --noflush m
    _dm resume m
    sleep 1; cat waiting
    _works right; _tells reinstate_path right
    wait $!; cat waiting; _show
    _works left; _tells reinstate_path left; _tells switch_group 1; _reads; _show
    _tells fail_if_no_path; _show
}

# Half of the data goes over one path and half over the other.
_data() {
    _multipath "2 queue_mode bio 0 1 1 queue-length 0 2 1 LEFT 1 RIGHT 1"
    local number
    for number in 0 1 2 3 4 5 6 7; do
        case $number in
            2) _breaks left ;;
            4) _works left; _tells reinstate_path left ;;
            6) _breaks right ;;
        esac
        if dd if=random of="$m" bs=1M count=1 skip="$number" seek="$number" oflag=direct conv=notrunc 2> /dev/null; then echo written; else echo lost; fi
        _dm table m | _named
        _dm status m | _named
    done
    dd if="$m" bs=1M iflag=direct 2> /dev/null | cmp - random && echo same
}

a_line_of_multipath_is_taken_printed_and_refused_as_the_kernel_does() { _compared _lines; }

groups_and_paths_change_as_the_kernels_do() {
    long
    _compared _failover
}

without_a_path_io_waits_and_fails_as_the_kernels_does() {
    long
    _compared _without_path
}

data_is_the_same_whichever_path_it_took() {
    random_file random 8
    _compared _data
}

# --- paths are nodes of one disk

# _scsi_nodes KEY=VALUE...: sets $nodes to the two nodes of scsi_debug with two hosts.
_scsi_nodes() {
    scsi_disk add_host=2 dev_size_mb=32 "$@"
    local node
    nodes=()
    for node in /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*; do nodes+=("/dev/${node##*/}"); done
    same "the number of nodes" 2 ${#nodes[@]}
}
# _disks TYPE [KEY=VALUE]: a stack with $nodes as disks, each with that line.
_disks() {
    cat > stack.toml <<STACK
[disk.left]
type = "$1"
path = "${nodes[0]}"
${2:-}
[disk.right]
type = "$1"
path = "${nodes[1]}"
${2:-}
[listen]
unix = "nbd.sock"
[control]
socket = "control.sock"
STACK
}
# _paths POLICY LINE...: both as the device and export `both`, and these lines of the export.
_paths() {
    cat >> stack.toml <<STACK
[device.both]
paths = ["left", "right"]
policy = "$1"
probe = "100ms"
[export.both]
device = "both"
$(printf '%s\n' "${@:2}")
STACK
}
_health() {
    shingle path list both --json --control control.sock | jq -r ".devices[0].paths[] | select(.path == \"$1\").health"
}
_end_daemon() {
    kill -TERM "$daemon"
    wait "$daemon" || grep -q "the last flush failed" log
}
_is() { [ "$(_health "$1")" = "$2" ]; }
# _has_failed PATH: true after a read if the path has failed. The load may have ended on a slow machine, and a path without I/O does not fail.
_has_failed() {
    dd if="$device" of=/dev/null bs=16k count=1 iflag=direct status=none
    _is "$1" failed
}
_sent() { shingle path list both --json --control control.sock | jq -e '[.devices[0].paths[].sent] | min > 100' > /dev/null; }
_refused_as_other_disk() { # WORD...: what the message has to say besides
    local word
    refused shingle up --check stack.toml 2> refusal
    for word in "\`right\` leads to disk \`right\` (" "and \`left\` to disk \`left\` (" "\`identity = " "$@"; do
        grep -qF -- "$word" refusal || fail "no \"$word\" in: $(cat refusal)"
    done
}

both_nodes_of_a_scsi_disk_are_its_paths_and_fail_over_under_io() {
    _scsi_nodes vpd_use_hostno=0
    _disks file
    _paths round-robin
    serve "$work/stack.toml"
    later stop_daemon
    nbd_attach 0 both
    load_begins --filename="$device" --rw=randwrite --bs=4k --size=16m --iodepth=4 --rate_iops=400
    mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
    local path node=0 errors
    for path in left right; do
        patiently _sent
        errors=/sys/kernel/debug/scsi_debug/$(basename "$(readlink -f "/sys/block/${nodes[node]#/dev/}/device")")/error
        # Any command fails with DID_TRANSPORT_FAILFAST.
        echo "2 1 0xff 0xf 0 0 0 0 0" > "$errors"
        patiently _has_failed $path
        sleep 1
        echo "- 2 0xff" > "$errors"
        patiently _is $path live
        node=$((node + 1))
    done
    load_ends_well
    jq -e '[.devices[0].paths[].failovers] | min > 0' <(shingle path list both --json --control control.sock)
    cmp <(dd if="${nodes[0]}" bs=1M iflag=direct status=none) <(dd if="${nodes[1]}" bs=1M iflag=direct status=none)
}

disks_of_different_wwids_are_no_paths_unless_the_stack_file_says_so() {
    _scsi_nodes
    _disks file
    _paths round-robin
    _refused_as_other_disk "(naa.3" ", serial number "
    _disks file
    printf '[device.both]\ntable = "0 65536 multipath 0 0 1 1 round-robin 0 2 1 left 1 right 1"\n' >> stack.toml
    _refused_as_other_disk
    _disks file 'identity = "store"'
    _paths round-robin
    serve "$work/stack.toml"
    stop_daemon
}

a_partition_over_the_other_path_is_that_of_the_disk() {
    _scsi_nodes vpd_use_hostno=0
    echo ',8M' | sfdisk -q "${nodes[0]}"
    blockdev --rereadpt "${nodes[1]}"
    udevadm settle
    local disk=("${nodes[@]}")
    nodes=("${disk[0]}1" "${disk[1]}1")
    _disks file
    _paths round-robin
    shingle up --check stack.toml
    nodes=("${disk[0]}" "${disk[1]}1")
    _disks file
    _paths round-robin
    _refused_as_other_disk "sectors 2048 to 18431 of naa.33333330000007d0"
}

a_disk_is_not_written_while_a_killed_device_waits_for_its_partition() {
    _scsi_nodes vpd_use_hostno=0
    printf ',8M\n,8M\n' | sfdisk -q "${nodes[0]}"
    blockdev --rereadpt "${nodes[1]}"
    cat > stack.toml <<STACK
[disk.part]
type = "file"
path = "${nodes[0]}1"
[export.part]
device = "part"
ublk = true
STACK
    serve_block
    kill_daemon
    local disk
    for disk in "${nodes[0]}1" "${nodes[1]}1" "${nodes[@]}"; do
        refused shingle dmz format --force "$disk" 2> refusal
        grep -q "waits for it" refusal || fail "$disk: $(cat refusal)"
    done
    # The other partition is refused as well, since it is no set of dm-zoned.
    refused shingle dmz format --force "${nodes[1]}2" 2> refusal
    refused grep "waits for it" refusal
    serve "$work/stack.toml"
}

# Each node has its own write pointers in the kernel, so all I/O goes to one until that fails. Writes fail over when the administrator disables a path,
# reads when its controller is removed: no write is in flight then, which QEMU's namespace could lose when a controller shuts down.
both_nodes_of_a_zoned_namespace_are_its_paths_and_fail_over_under_io() {
    patiently modprobe -r nvme nvme_core
    modprobe nvme_core multipath=N
    modprobe nvme
    later patiently modprobe -r nvme nvme_core
    nvme_nodes nvme1
    same "the number of nodes" 2 ${#nodes[@]}
    local controller zone
    controller=$(readlink -f "/sys/block/${nodes[0]#/dev/}/device/device")
    later sh -c "echo 1 > /sys/bus/pci/rescan"
    blkzone reset "${nodes[0]}"
    _disks zoned-blk
    _paths numa 'ublk = true'
    serve_block
    # The last flush of a disk that is gone fails.
    undo=("${undo[@]/stop_daemon/_end_daemon}")
    load_begins --filename="$device" --rw=write --zonemode=zbd --bs=16k --size=24m --iodepth=4 --rate_iops=150
    sleep 1
    shingle path fail both left --control control.sock
    patiently _is left offline
    sleep 1
    shingle path restore both left --control control.sock
    patiently _is left live
    load_ends_well
    for zone in 0 8192 16384; do
        same "the pointer of the zone at $zone" "$(_pointer "${nodes[0]}" $zone)" "$(_pointer "${nodes[1]}" $zone)"
    done
    load_begins --filename="$device" --rw=read --zonemode=zbd --bs=16k --size=24m --iodepth=4 --rate_iops=150
    sleep 1
    echo 1 > "$controller/remove"
    patiently _has_failed left
    load_ends_well
    verified --filename="$device" --rw=write --zonemode=zbd --bs=16k --offset=24m --size=12m --iodepth=4
}
_pointer() { blkzone report -o "$2" -c 1 "$1" | grep -o 'wptr [^ ]*'; }
