# Exports as block devices of the guest, by ublk.
# shellcheck shell=bash disable=SC2034,SC2154

# _stack: $work/stack.toml of these lines, and a control socket.
_stack() {
    cat > "$work/stack.toml"
    printf '\n[control]\nsocket = "control.sock"\n' >> "$work/stack.toml"
}

# _zoned_dir MIB OPTION...: a zoned disk in a directory, $work/smr, as `disk`.
_zoned_dir() { [ -e "$work/smr" ] || shingle create "$work/smr" --size "${1}MiB" --zone-size 8MiB "${@:2}"; }

# _volume_of TABLE DISK LINE...: the volume of that table as the export `volume`, with these lines besides. DISK is a directory or a zoned block device,
# which the table calls `smr`.
_volume_of() {
    _stack <<STACK
[disk.smr]
type = "$([ -b "$2" ] && echo zoned-blk || echo zoned-dir)"
path = "$2"

[device.volume]
table = "$1"

[export.volume]
device = "volume"
ublk = true
$(printf '%s\n' "${@:3}")
STACK
}

# _volume_in DIRECTORY LINE...: the same of a dm-zoned volume.
_volume_in() { _volume_of "0 1 zoned smr" "$@"; }

# _volume MIB: a dm-zoned volume on one as the export `volume`.
_volume() {
    _zoned_dir "$1" --conventional 8
    shingle dmz format "$work/smr" > "$work/formatted"
    _volume_in smr
}

# _file MIB LINE...: a file in memory as the export `file`, with these lines besides.
_file() {
    truncate -s "${1}M" "$work/image"
    _stack <<STACK
[disk.file]
type = "file"
path = "image"

[export.file]
device = "file"
ublk = true
$(printf '%s\n' "${@:2}")
STACK
}

# _zones MIB OPTION...: a zoned disk in a directory as the export `zones`.
_zones() {
    _zoned_dir "$@"
    _stack <<STACK
[disk.smr]
type = "zoned-dir"
path = "smr"

[export.zones]
device = "smr"
ublk = true
STACK
}

a_file_system_on_a_file_is_whole_after_the_daemon_has_ended() {
    long
    _file 256
    serve_block
    mkfs.ext4 -q "$device"
    mkdir mnt
    mount "$device" mnt
    verified --directory=mnt --rw=randwrite --bs=4k --size=16m --iodepth=16
    random_file mnt/random 16
    sum=$(sha256sum < mnt/random)
    umount mnt
    undo_all
    refused test -e "$device"
    serve_block
    e2fsck -fn "$device"
    mounted "$device" mnt
    same "the file" "$sum" "$(sha256sum < mnt/random)"
}

a_device_shows_what_its_export_is() {
    _file 64 'read-only = true' 'ublk-number = 5' 'ublk-queues = 2' 'ublk-depth = 32'
    serve_block
    same device /dev/ublkb5 "$device"
    same size $((64 << 20)) "$(blockdev --getsize64 "$device")"
    same "read-only" 1 "$(blockdev --getro "$device")"
    same queues 2 "$(find /sys/block/ublkb5/mq -mindepth 1 -maxdepth 1 -type d | wc -l)"
    same depth 32 "$(cat /sys/block/ublkb5/mq/0/nr_tags)"
    same "write cache" "write back" "$(cat /sys/block/ublkb5/queue/write_cache)"
    same fua 1 "$(cat /sys/block/ublkb5/queue/fua)"
    refused dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct
    shingle ublk list --json | jq -e '.[0] | .number == 5 and .state == "live" and .bytes == 67108864'
    shingle status --json --control control.sock | jq -e '.exports[0].path == "/dev/ublkb5"'
}

udev_names_the_device_and_its_partitions() {
    cp /guest/60-shingle.rules /etc/udev/rules.d/
    udevadm control --reload
    _file 64
    serve_block
    patiently test /dev/shingle/file -ef "$device"
    same model Shingle "$(udevadm info --query=property --property=ID_MODEL --value "$device")"
    printf 'label: gpt\nsize=16MiB\n' | sfdisk -q "$device"
    # The link goes and comes again while the table is read.
    patiently test /dev/shingle/file-part1 -ef "${device}p1"
}

discards_and_zeroes_reach_the_disk() {
    _file 64
    serve_block
    random_file "$work/data" 8
    dd if="$work/data" of="$device" bs=1M oflag=direct status=none
    full=$(stat -c %b "$work/image")
    blkdiscard -o 0 -l $((4 << 20)) "$device"
    [ "$(stat -c %b "$work/image")" -lt "$full" ] || fail "nothing was given back"
    fallocate --zero-range --offset $((4 << 20)) --length 65536 "$device"
    cmp -n 65536 -i $((4 << 20)):0 "$device" /dev/zero
    cmp -n $((1 << 20)) -i $((5 << 20)) "$device" "$work/data"
}

an_export_becomes_a_device_and_ends_while_the_daemon_runs() {
    _file 64
    serve_block
    first=$device
    shingle export add --control control.sock other file --ublk --set ublk-depth=16 > "$work/added"
    second=$(sed 's/.*, //' "$work/added")
    same depth 16 "$(cat "/sys/block/$(basename "$second")/mq/0/nr_tags")"
    mkfs.ext4 -q "$first"
    mount "$first" /mnt
    refused shingle export remove --control control.sock file 2> "$work/refusal"
    grep -q "in use by the mount at /mnt" "$work/refusal"
    umount /mnt
    shingle export remove --control control.sock file
    refused test -e "$first"
    test -b "$second"
}

a_device_grows_with_its_table() {
    needs_kernel 7.2
    _file 64
    cat >> "$work/stack.toml" <<STACK

[device.part]
table = "0 65536 linear file 0"

[export.part]
device = "part"
ublk = true
ublk-number = 9
STACK
    serve_block
    same size $((32 << 20)) "$(blockdev --getsize64 /dev/ublkb9)"
    shingle dm load --control control.sock part --table "0 98304 linear file 0"
    shingle dm resume --control control.sock part
    same "grown size" $((48 << 20)) "$(blockdev --getsize64 /dev/ublkb9)"
}

a_stop_waits_for_users_and_says_who_they_are() {
    _file 64
    serve_block
    mkfs.ext4 -q "$device"
    mount "$device" /mnt
    kill -TERM "$daemon"
    patiently grep -q "in use by the mount at /mnt" "$work/log"
    random_file /mnt/still-served 1
    umount /mnt
    wait "$daemon"
    undo=()
    refused test -e "$device"
}

a_daemon_that_is_killed_under_ext4_is_succeeded_and_nothing_is_lost() {
    _volume 768
    serve_block
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    load_begins --directory=mnt --rw=randwrite --bs=4k --size=12m --iodepth=16 --loops=2
    killed 3 1
    load_ends_well
    umount mnt
    e2fsck -fn "$device"
    mount "$device" mnt
}

a_daemon_that_is_killed_twenty_times_loses_nothing() {
    long
    _volume 768
    serve_block
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    load_begins --directory=mnt --rw=randwrite --bsrange=4k-64k --size=24m --numjobs=2 --iodepth=16 --time_based --runtime=60 --loops=1000
    killed 20 2
    load_ends_well
    umount mnt
    e2fsck -fn "$device"
    mount "$device" mnt
}

zones_that_are_written_while_the_daemon_is_killed_have_no_write_twice() {
    long
    _zones 512 --conventional 4 --max-open 14
    serve_block
    load_begins --filename="$device" --zonemode=zbd --max_open_zones=8 --offset=32m --rw=write --bs=16k --size=48m --numjobs=2 \
        --offset_increment=200m --iodepth=8
    killed 4 1
    load_ends_well
}

appends_of_btrfs_while_the_daemon_is_killed_are_done_once() {
    _zones 512 --conventional 4
    serve_block
    modprobe btrfs
    mkfs.btrfs -f -q -m single -d single "$device"
    mounted "$device" mnt
    (
        for n in {1..40}; do
            random_file "mnt/$n" 1
            sha256sum "mnt/$n" >> sums
            [ $((n % 5)) != 0 ] || sync
        done
    ) &
    writer=$!
    killed 4 1.5
    wait "$writer"
    sync
    sysctl -qw vm.drop_caches=3
    sha256sum --check --quiet sums
    btrfs scrub start -B mnt | grep -q "no errors found"
    same "errors that btrfs counted" 0 "$(btrfs device stats mnt | awk '{ n += $2 } END { print n }')"
}

# _threads_that_serve: each with those of its flags that keep it from waiting for the writes that it serves, PF_MEMALLOC_NOIO and
# PF_LOCAL_THROTTLE of <linux/sched.h>.
_threads_that_serve() {
    local thread name
    for thread in /proc/"$daemon"/task/*; do
        name=$(< "$thread/comm")
        case $name in shard* | iou-* | zoned-blk)
            printf '%s %x\n' "${name%%-wrk*}" $(($(sed 's/.*) //' "$thread/stat" | cut -d' ' -f7) & 0x180000)) ;;
        esac
    done | sort -u
}

threads_that_serve_do_not_wait_for_their_own_writes_even_if_a_device_comes_later() {
    zoned_null_disk z0 zone_nr_conv=4
    _stack <<STACK
[disk.zones]
type = "zoned-blk"
path = "$device"

[disk.file]
type = "file"
path = "image"

[listen]
unix = "nbd.sock"
STACK
    truncate -s 64M image
    modprobe ublk_drv
    serve "$work/stack.toml"
    later stop_daemon
    shingle export add --control control.sock zones zones --ublk
    shingle export add --control control.sock file file --ublk
    # What the ring cannot do at once threads of the kernel's do for it.
    block_device_of file
    dd if=/dev/zero of="$device" conv=nocreat bs=1M count=8 oflag=direct status=none
    blkdiscard "$device"
    same threads "iou 180000 shard0 180000 zoned-blk 180000" "$(_threads_that_serve | xargs)"
}

# With 2 MiB of dirty pages, all of them of the volume, whoever makes another waits; the daemon, too, if it were not known as the one that
# writes them out: then for good.
a_daemon_is_not_held_up_by_the_dirty_pages_that_it_is_to_write() {
    disk 0
    mkfs.ext4 -q -F "$device"
    mounted "$device" below
    shingle create below/smr --size 768MiB --zone-size 16MiB --conventional 8
    shingle dmz format below/smr > formatted
    _volume_in below/smr
    serve_block
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    later sysctl -q vm.dirty_background_ratio=10 vm.dirty_ratio=20
    sysctl -q vm.dirty_background_bytes=$((1 << 20)) vm.dirty_bytes=$((2 << 20))
    timeout 100 sh -c 'head -c 32M /dev/zero > mnt/dirty && sync mnt/dirty' || fail "it stands still"
}

# The guest keeps half a GiB. The volume's data is on a disk, the pages to be written are more than all memory, and what the programs
# take besides is swapped out, to a device of the same daemon.
a_machine_short_of_memory_writes_through_the_daemon_and_never_stands_still() {
    long
    disk 0
    mkfs.ext4 -q -F "$device"
    mounted "$device" /mnt
    shingle create /mnt/smr --size 1536MiB --zone-size 16MiB --conventional 8
    shingle dmz format /mnt/smr > formatted
    truncate -s 512M /mnt/swap
    _volume_in /mnt/smr "" "[disk.swap]" 'type = "file"' 'path = "/mnt/swap"' \
        "" "[export.swap]" 'device = "swap"' 'ublk = true' 'ublk-number = 7'
    serve_block
    same "protection from being killed" -1000 "$(cat "/proc/$daemon/oom_score_adj")"
    same "the thread that serves" "shard0 180000" "$(_threads_that_serve | grep shard)"
    [ "$(awk '/VmLck/ { print $2 }' "/proc/$daemon/status")" -gt 1000 ] || fail "its memory is not locked"
    mkswap /dev/ublkb7 > /dev/null
    swapon /dev/ublkb7
    later swapoff /dev/ublkb7
    mkfs.ext4 -q "$device"
    mkdir mnt
    mount "$device" mnt
    later umount "$PWD/mnt"
    head -c "$(($(awk '/MemAvailable/ { print $2 }' /proc/meminfo) - 270 * 1024))K" /dev/zero > hog
    fio --name=mapped --ioengine=mmap --directory=mnt --rw=randwrite --bs=4k --size=48m --output=mapped --verify=crc32c &
    mapped=$!
    # `tail` keeps what it reads.
    head -c 250M /dev/zero | tail -c 250M | sha256sum > swapped &
    swapped=$!
    head -c 400M /dev/zero | tr '\0' 'x' > mnt/dirty
    wait "$mapped" "$swapped"
    [ "$(awk '/pswpout/ { print $2 }' /proc/vmstat)" -gt 0 ] || fail "nothing was swapped out: memory was not short"
    sync
    same "bytes" $((400 << 20)) "$(tr -d -c x < mnt/dirty | wc -c)"
    same "what was swapped" "$(head -c 250M /dev/zero | sha256sum)" "$(cat swapped)"
}

# _xs N: so many bytes. The kernel swaps pages of zeroes without writing them.
_xs() { head -c "$1" /dev/zero | tr '\0' x; }
# _swaps: the volume at $device takes the swap of a program that needs 200 MiB more than there is memory, and gives it back.
_swaps() {
    mkswap "$device" > /dev/null
    swapon "$device"
    later swapoff "$device"
    _xs "$(($(awk '/MemAvailable/ { print $2 }' /proc/meminfo) - 150 * 1024))K" > hog
    # `tail` keeps what it reads.
    _xs 350M | timeout 400 tail -c 350M | sha256sum > swapped || fail "the machine stands still"
    [ "$(awk '/pswpout/ { print $2 }' /proc/vmstat)" -gt 10000 ] || fail "hardly anything was swapped out: memory was not short"
    same "what was swapped" "$(_xs 350M | sha256sum)" "$(cat swapped)"
    rm hog
}
# _disk_for_swap: $zoned is a zoned NVMe disk outside of memory. A directory of a file system will not do: its writeback holds the journal while
# it waits for memory, and so for the swap, whose daemon waits for the journal.
_disk_for_swap() {
    modprobe nvme
    later patiently modprobe -r nvme
    nvme_nodes nvme2
    zoned=${nodes[0]}
    blkzone reset "$zoned"
}
swap_on_an_stl_volume_over_a_disk_never_stops_the_machine() {
    long
    _disk_for_swap
    shingle stl format "$zoned" --json > formatted
    _volume_of "0 $(jq .sectors formatted) stl smr" "$zoned"
    serve_block
    _swaps
}
swap_on_a_dm_zoned_volume_over_a_disk_never_stops_the_machine() {
    long
    _disk_for_swap
    disk 0
    shingle dmz format --force "$device" "$zoned" > formatted
    _volume_of "0 1 zoned cache smr" "$zoned" "[disk.cache]" 'type = "file"' "path = \"$device\""
    serve_block
    _swaps
}

zones_are_reported_and_managed() {
    _zones 128 --conventional 2
    serve_block
    same model host-managed "$(cat "/sys/block/$(basename "$device")/queue/zoned")"
    same zones 16 "$(blkzone report "$device" | wc -l)"
    dd if=/dev/urandom of="$device" bs=64k count=1 seek=$((2 * 128)) oflag=direct status=none
    blkzone report --offset $((2 * 16384)) --count 1 "$device" | grep -q "wptr 0x000080"
    blkzone finish --offset $((2 * 16384)) --count 1 "$device"
    blkzone report --offset $((2 * 16384)) --count 1 "$device" | grep -q "14(fu)"
    blkzone reset --offset $((2 * 16384)) --count 1 "$device"
    blkzone open --offset $((3 * 16384)) --count 1 "$device"
    blkzone report --offset $((2 * 16384)) --count 2 "$device" > zones
    grep -q " 1(em)" zones
    grep -q " 3(oe)" zones
    shingle zones report --control control.sock smr --json | jq -e '[.zones[] | select(.cond_code == 3)] | length == 1'
}

# A report that needs more than one request is muddled up by the driver.
a_report_of_ten_thousand_zones_is_in_order() {
    _stack <<STACK
[disk.wide]
type = "null"
size = "10000MiB"
zone-size = "1MiB"

[export.wide]
device = "wide"
ublk = true
STACK
    serve_block
    blkzone report "$device" > zones
    same zones 10000 "$(wc -l < zones)"
    awk '{ printf "0x%09x,\n", (NR - 1) * 2048 }' zones > expected
    awk '{ print $2 }' zones | cmp - expected
}

zonefs_and_fio_with_zones_run() {
    long
    _zones 256 --conventional 2 --max-open 14
    serve_block
    verified --filename="$device" --zonemode=zbd --offset=16m --rw=write --bs=64k --size=64m --iodepth=32 --max_open_zones=8
    blkzone reset "$device"
    mkzonefs "$device" > /dev/null
    mounted "$device" mnt
    same files 30 "$(find mnt/seq -type f | wc -l)"
    dd if=/dev/urandom of=mnt/seq/0 bs=64k count=4 oflag=direct status=none
    same size 262144 "$(stat -c %s mnt/seq/0)"
}

a_device_of_memory_alone_ends_with_its_daemon() {
    _stack <<STACK
[disk.memory]
type = "null"
size = "64MiB"
memory-backed = true

[export.memory]
device = "memory"
ublk = true
STACK
    serve_block
    kill_daemon
    patiently test ! -e "$device"
    undo=()
}

what_a_killed_daemon_left_is_removed_by_hand() {
    _file 64
    serve_block
    number=${device#/dev/ublkb}
    kill_daemon
    patiently sh -c "shingle ublk list | grep -q waiting"
    shingle ublk remove "$number"
    refused test -e "$device"
    undo=()
}

another_size_than_the_device_has_is_refused_and_says_what_to_do() {
    _file 64
    serve_block
    kill_daemon
    truncate -s 128M image
    refused shingle up stack.toml 2> refusal
    grep -q "is not what export \`file\` is now" refusal
    grep -q "shingle ublk remove" refusal
    truncate -s 64M image
    serve "$work/stack.toml"
}

# _slow_volume MS: the dm-zoned volume on $work/smr, whose disk takes MS longer for each write.
_slow_volume() {
    _zoned_dir 768 --conventional 8
    [ -e formatted ] || shingle dmz format smr > formatted
    _stack <<STACK
[disk.smr]
type = "zoned-dir"
path = "smr"

[device.slow]
table = "0 $((768 * 2048)) delay smr 0 0 smr 0 $1"

[device.volume]
table = "0 1 zoned slow"

[export.volume]
device = "volume"
ublk = true
STACK
}

# _killed_with_unflushed_writes: 24 MiB, which are in the file `data` as well.
_killed_with_unflushed_writes() {
    _slow_volume 0
    serve_block
    random_file data 24
    dd if=data of="$device" bs=256k oflag=direct status=none
    kill_daemon
}

a_replay_over_a_slow_disk_is_awaited_as_long_as_it_progresses() {
    long
    _killed_with_unflushed_writes
    _slow_volume 7000
    local since=$SECONDS
    serve "$work/stack.toml" 550
    echo "ready after $((SECONDS - since)) s"
    grep -q "of 24.0 MiB of unflushed writes of a killed daemon are replayed to .smr." log
    cmp -n $((24 << 20)) data "$device"
    # The stop would take as long again.
    kill_daemon
    _slow_volume 0
    serve "$work/stack.toml"
}

# _mebibytes N: the Nth number, 1 or 2, of the last report of a replay: what is done, of what there was.
_mebibytes() { sed -n 's/.*: \([0-9.]*\) of \([0-9.]*\) MiB of unflushed.*/\'"$1"'/p' log | tail -1; }
_is_replay_under_way() { _mebibytes 1 | grep -q '[1-9]'; }

a_daemon_that_is_killed_during_replay_does_not_begin_it_anew() {
    _killed_with_unflushed_writes
    _slow_volume 300
    begin_to_serve "$work/stack.toml"
    patiently _is_replay_under_way
    same "MiB of the first replay" 24.0 "$(_mebibytes 2)"
    local done
    done=$(_mebibytes 1)
    kill_daemon
    _slow_volume 0
    serve "$work/stack.toml"
    awk -v done="$done" -v rest="$(_mebibytes 2)" 'BEGIN { exit !(rest > 0 && rest <= 24 - done) }' ||
        fail "$(_mebibytes 2) MiB are replayed once more after $done MiB of 24"
    cmp -n $((24 << 20)) data "$device"
}

# _does_not_start STACK: the daemon ends with an error, which is in `refusal`.
_does_not_start() { refused timeout --signal=KILL 60 shingle up "$1" 2> refusal; }

# _stl_volume: an `stl` volume on $work/smr as the export `volume`.
_stl_volume() {
    shingle create smr --size 512MiB --zone-size 8MiB
    shingle stl format smr --json > formatted
    _volume_of "$(jq -r .table formatted)" smr
}

# _refused_for_mount COMMAND...: refused, as the device waits under the mount.
_refused_for_mount() {
    refused "$@" 2> refusal
    grep -q "$device, export .volume. of a daemon that was killed, waits for it, in use by the mount at $PWD/mnt" refusal || fail "$* said: $(cat refusal)"
}

tools_refuse_the_disk_of_a_killed_daemon_whose_device_is_mounted() {
    _stl_volume
    serve_block
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    random_file mnt/data 4
    sum=$(sha256sum < mnt/data)
    sync -f mnt
    kill_daemon
    _refused_for_mount shingle stl format --force smr
    _refused_for_mount shingle stl add smr --new smr --force
    _refused_for_mount shingle stl salvage --in-place --force smr
    _refused_for_mount shingle dmz format --force smr
    _refused_for_mount shingle dmz repair smr
    _refused_for_mount shingle zones reset smr
    _refused_for_mount shingle zones finish smr
    shingle stl check smr > /dev/null
    serve "$work/stack.toml"
    same "the file" "$sum" "$(sysctl -qw vm.drop_caches=3; sha256sum < mnt/data)"
}

another_volume_is_not_handed_to_the_mount_of_a_killed_daemon() {
    _stl_volume
    serve_block
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    random_file mnt/data 4
    sum=$(sha256sum < mnt/data)
    sync -f mnt
    local first second
    first=$(jq -r .uuid formatted)
    kill_daemon
    mv smr kept
    _stl_volume
    second=$(jq -r .uuid formatted)
    _does_not_start stack.toml
    grep -q "$device, in use by the mount at $PWD/mnt, was stl volume $first, and export .volume. is stl volume $second now" refusal ||
        fail "$(cat refusal)"
    shingle stl check smr > /dev/null
    rm -r smr
    mv kept smr
    serve "$work/stack.toml"
    same "the file" "$sum" "$(sysctl -qw vm.drop_caches=3; sha256sum < mnt/data)"
}

another_file_or_table_is_not_handed_to_the_users_of_a_killed_daemon() {
    _file 64
    serve_block
    random_file data 1
    dd if=data of="$device" bs=64k oflag=direct status=none
    kill_daemon
    mv image kept
    truncate -s 64M image
    _does_not_start stack.toml
    grep -q "it is not taken over, and nothing is replayed" refusal || fail "$(cat refusal)"
    mv kept image
    cp stack.toml kept
    sed -i 's|^device = "file"|device = "part"|' stack.toml
    printf '[device.part]\ntable = "0 131072 linear file 0"\n' >> stack.toml
    _does_not_start stack.toml
    grep -q "is table 0 131072 linear file 0 now" refusal || fail "$(cat refusal)"
    mv kept stack.toml
    serve "$work/stack.toml"
    cmp -n $((1 << 20)) data "$device"
}

a_table_that_was_swapped_is_the_one_that_a_killed_device_waits_for() {
    _file 64
    sed -i 's|^device = "file"|device = "part"|' stack.toml
    printf '[device.part]\ntable = "0 65536 linear file 0"\n' >> stack.toml
    serve_block
    shingle dm load --control control.sock part --table "0 65536 linear file 65536"
    shingle dm resume --control control.sock part
    kill_daemon
    _does_not_start stack.toml
    grep -q "was table 0 65536 linear file 65536, and export .file. is table 0 65536 linear file 0 now" refusal || fail "$(cat refusal)"
    sed -i 's|linear file 0|linear file 65536|' stack.toml
    serve "$work/stack.toml"
}

a_disk_that_a_device_waits_for_can_be_written_with_force_or_when_that_is_given_up() {
    _zones 128
    serve_block
    dd if=/dev/zero of="$device" bs=64k count=1 oflag=direct status=none
    kill_daemon
    refused shingle zones reset smr 2> refusal
    grep -q -- "--force writes to it all the same" refusal
    shingle zones reset --force smr
    refused shingle dmz format --force smr 2> refusal
    grep -q -- "--even-if-waiting writes to it all the same" refusal
    patiently sh -c "shingle ublk list | grep -q waiting"
    shingle ublk remove --force "${device#/dev/ublkb}"
    shingle zones finish --count 1 smr
    undo=()
}

a_device_of_a_daemon_without_records_is_taken_over_by_its_size() {
    _file 64
    serve_block
    kill_daemon
    rm /run/shingle/ublk/*.toml
    serve "$work/stack.toml"
    grep -q "$device is of an earlier version and has no record" log
    test -e /run/shingle/ublk/*.toml
}

another_stack_file_does_not_get_the_disk_that_a_killed_device_waits_for() {
    _stl_volume
    serve_block
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    kill_daemon
    cp stack.toml other.toml
    _refused_for_mount timeout --signal=KILL 60 shingle up other.toml
    serve "$work/stack.toml"
}
