# The whole way of `stl`: a zoned disk of the kernel, a volume of `stl` over it, and that as a block device of the same kernel.
# shellcheck shell=bash disable=SC2154

# _stack TYPE PATH TABLE LINE...: $work/stack.toml with the volume of that disk as a block device. A `replay` of few zones is for small ones:
# a start has something to read again, and checkpoints come often.
_stack() {
    cat > stack.toml <<STACK
[disk.smr]
type = "$1"
path = "$2"

[device.volume]
table = "$3"

[export.volume]
device = "volume"
ublk = true

[control]
socket = "control.sock"
STACK
}
# _formatted DISK OPTION...: makes it a volume; its table line is in $table, with the disk's name as in _stack.
_formatted() {
    shingle stl format "$@" --json > formatted
    table="0 $(jq .sectors formatted) stl smr memory:16"
}
# _volume MIB KEY=VALUE...: a volume over a host-managed SMR disk of scsi_debug, $disk, as the block device $device. $reserve percent are
# kept back.
_volume() {
    scsi_disk "dev_size_mb=$1" zbc=managed zone_size_mb=4 sector_size=4096 delay=0 "${@:2}"
    disk=$device
    _formatted "$disk" --reserve="${reserve:-7}"
    _stack zoned-blk "$disk" "$table"
    serve_block
}
_drop_caches() { sysctl -qw vm.drop_caches=3; }
# _in_order: of the disk of a volume that nobody serves, with all data compared.
_in_order() {
    shingle stl check "$disk" --data > checked || { cat checked; return 1; }
    tail -1 checked | grep -qx "No error detected"
}
_figure() { shingle status --json --control control.sock | jq ".devices[] | select(.name == \"volume\").figures[0].$1"; }

# _files FOLDER NAME COUNT: small files, each as long as 1 to 64 KiB, each synced; their sums are in NAME.sums when they are durable.
_files() {
    local n
    for ((n = 0; n < $3; n++)); do
        head -c $(((n * 7919) % 65536 + 1)) /dev/urandom > "$1/$2$n"
        sync "$1/$2$n"
    done
    (cd "$1" && sha256sum "$2"*) > "$2.sums"
}
_are_whole() { (cd "$1" && sha256sum --quiet -c) < "$2.sums"; }

# _used MKFS CHECK: a file system under load while the daemon is killed. What was written or synced is there, before and after a start anew.
_used() {
    $1 "$device"
    mkdir mnt
    mount "$device" mnt
    random_file mnt/random 24
    sum=$(sha256sum < mnt/random)
    _files mnt synced 60
    load_begins --directory=mnt --rw=randwrite --bs=4k --size=12m --iodepth=16 --loops=2
    killed 4 1.5
    load_ends_well
    # With nothing under way but what was synced.
    _files mnt later 20
    kill_daemon
    serve "$PWD/stack.toml"
    _drop_caches
    same "the file after kills" "$sum" "$(sha256sum < mnt/random)"
    _are_whole mnt synced
    _are_whole mnt later
    umount mnt
    $2 "$device"
    # What is behind the root is replayed, and a stop puts it under a new one.
    kill_daemon
    _in_order
    refused grep -q "behind it: 0 batches" checked
    serve "$PWD/stack.toml"
    mount "$device" mnt
    _are_whole mnt synced
    umount mnt
    stop_daemon
    _in_order
    grep -q "behind it: 0 batches" checked
    serve "$PWD/stack.toml"
    mount "$device" mnt
    same "the file after a start anew" "$sum" "$(sha256sum < mnt/random)"
    _are_whole mnt later
    umount mnt
}

ext4_on_stl_is_whole_after_kills_of_the_daemon() {
    _volume 400 zone_nr_conv=12 zone_max_open=0
    _used "mkfs.ext4 -q" "e2fsck -fn"
}

xfs_on_stl_is_whole_after_kills_of_the_daemon() {
    long
    _volume 480 zone_nr_conv=0 zone_max_open=0
    modprobe xfs
    _used "mkfs.xfs -q -f" "xfs_repair -n"
}

# _written_over SIZE BYTES SEED: random writes to the file with all the space, which fio reads again and compares.
_written_over() { verified --filename=mnt/big --rw=randwrite --bs=4k --filesize="$1" --io_size="$2" --iodepth=16 --randseed="$3" --overwrite=1; }

# _filled MKFS CHECK MIB: until there is no space, over and over, and so much of it overwritten each time. The volume is smaller than its
# disk, so the file system is full first.
_filled() {
    $1 "$device"
    mkdir mnt
    mount "$device" mnt
    local round size
    for round in 1 2; do
        random_file mnt/kept$round 8
        sum=$(sha256sum < mnt/kept$round)
        refused dd if=/dev/urandom of=mnt/big bs=1M oflag=direct 2> full
        grep -q "No space left" full
        size=$(stat -c %s mnt/big)
        _written_over "$size" "$3m" $round
        cleaned=$(_figure cleaned_zones)
        _drop_caches
        same "a file beside" "$sum" "$(sha256sum < mnt/kept$round)"
        # A kill in the middle of cleaning.
        load_begins --filename=mnt/big --rw=randwrite --bs=4k --filesize="$size" --io_size="$(($3 * 3 / 8))m" --iodepth=16 --overwrite=1
        killed 2 2
        load_ends_well
        rm mnt/big
        fstrim mnt
        same "a file beside" "$sum" "$(sha256sum < mnt/kept$round)"
    done
    [ "$cleaned" -gt 10 ] || fail "$cleaned zones were cleaned: the volume was not full"
    same "blocks with wrong checksums" 0 "$(_figure wrong_checksums)"
    umount mnt
    $2 "$device"
    stop_daemon
    _in_order
    serve "$PWD/stack.toml"
    dmesg > said
    refused grep -E "I/O error|EXT4-fs (error|warning)|XFS.*(error|corrupt)" said
}

ext4_on_stl_is_full_written_over_emptied_and_full_again() {
    reserve=3 _volume 144 zone_nr_conv=4 zone_max_open=0
    _filled "mkfs.ext4 -q" "e2fsck -fn" 36
}

xfs_on_stl_is_full_written_over_emptied_and_full_again() {
    long
    reserve=3 _volume 448 zone_nr_conv=0 zone_max_open=8
    modprobe xfs
    _filled "mkfs.xfs -q -f" "xfs_repair -n" 64
}

# The disk is a directory on the guest's own, which loses what was not synced; what was is there in the next guests.
what_was_synced_on_stl_is_there_after_losses_of_power() {
    disk 0
    only_syncs_write
    [ "$boot" != 1 ] || mkfs.ext4 -q -F "$device"
    mounted "$device" below -o commit=300
    disk=below/smr
    if [ "$boot" = 1 ]; then
        shingle create $disk --size 256MiB --zone-size 4MiB --conventional 4
        _formatted $disk
        echo "$table" > /guest/kept/table
        sync -f below /guest/kept
    else
        # What is behind the root may be torn, which is no error.
        _in_order
    fi
    _stack zoned-dir $disk "$(cat /guest/kept/table)"
    serve_block
    [ "$boot" != 1 ] || mkfs.ext4 -q "$device"
    # `e2fsck -p` plays the journal; what is wrong behind that is wrong.
    e2fsck -p "$device" || [ $? = 1 ]
    e2fsck -fn "$device"
    mounted "$device" mnt -o commit=300
    local life
    for ((life = 1; life < boot; life++)); do
        cp /guest/kept/life$life.*.sums .
        _are_whole mnt life$life.a
        _are_whole mnt life$life.b
    done
    [ "$boot" -lt 4 ] || return 0
    _files mnt "life$boot.a" 12
    # A kill before does not change that.
    if [ "$boot" = 2 ]; then
        kill_daemon
        serve "$PWD/stack.toml"
    fi
    _files mnt "life$boot.b" 12
    cp life$boot.*.sums /guest/kept/
    sync -f /guest/kept
    (while random_file mnt/more 8; do sync mnt/more; done) &
    sleep 3
    power_cut
}

# _recipe N: the block of commands N of README's "Your SMR disk as an ordinary one", for $disk and $device.
_recipe() {
    awk -v block="$1" '/^## / { here = /^## Your SMR disk/ }; /^```$/ { is_in = 0 }; here && is_in && n == block; here && /^```sh/ { n++; is_in = 1 }' \
        /guest/README.md |
        sed -e "s|/dev/sdX|$disk|g" -e "s|/dev/ublkb0|${device:-}|g"
}

the_recipe_of_the_readme_works() {
    scsi_disk dev_size_mb=256 zbc=managed zone_size_mb=4 zone_nr_conv=12
    disk=$device
    _recipe 1 > first
    grep -q '^shingle up stack.toml' first
    sed -i -e '/^shingle up/d' -e '/^export PATH/d' first
    bash -ex first
    serve_block
    _recipe 2 > second
    # What it is stopped for with Ctrl-C.
    sed -n '/^shingle stl check/,$p' second > third
    sed -i '/^shingle stl check/,$d' second
    bash -ex second
    stop_daemon
    bash -ex third | tail -1 | grep -qx "No error detected"
}

a_disk_is_added_and_the_file_system_grows_onto_it() {
    _volume 128 zone_nr_conv=4 zone_max_open=0
    mkfs.ext4 -q "$device"
    mkdir mnt
    mount "$device" mnt
    _files mnt before 20
    umount mnt
    stop_daemon
    local first=$disk
    zoned_null_disk more
    shingle stl add "$first" --new "$device" --json > added
    jq -r .stack added > stack.toml
    [ "$(jq '.sectors - .sectors_before' added)" -gt $((200 * 2048)) ] || fail "it is not larger"
    serve "$PWD/stack.toml"
    device=$(sed -n 's|^export .*, \(/dev/ublkb[0-9]*\)$|\1|p' log)
    udevadm settle
    e2fsck -fp "$device"
    resize2fs "$device"
    mount "$device" mnt
    _are_whole mnt before
    # More than the first disk has room for.
    random_file mnt/large 160
    sum=$(sha256sum < mnt/large)
    sync
    kill_daemon
    serve "$PWD/stack.toml"
    _drop_caches
    same "what is on both disks" "$sum" "$(sha256sum < mnt/large)"
    _are_whole mnt before
    umount mnt
    e2fsck -fn "$device"
    stop_daemon
    shingle stl check "$first" /dev/more --data | tail -1 | grep -qx "No error detected"
}

# _serve_anew FILE: the volume with the stack that `add` or `remove` wrote there.
_serve_anew() {
    jq -r .stack "$1" > stack.toml
    serve "$PWD/stack.toml"
    device=$(sed -n 's|^export .*, \(/dev/ublkb[0-9]*\)$|\1|p' log | tail -1)
    udevadm settle
}

a_disk_is_removed_when_the_file_system_is_shrunk() {
    _volume 128 zone_nr_conv=4 zone_max_open=0
    stop_daemon
    local first=$disk most
    zoned_null_disk more
    shingle stl add "$first" --new "$device" --json > added
    _serve_anew added
    mkfs.ext4 -q "$device"
    mkdir mnt
    mount "$device" mnt
    _files mnt before 20
    random_file mnt/large 60
    sum=$(sha256sum < mnt/large)
    # Everywhere is something.
    refused dd if=/dev/urandom of=mnt/fill bs=1M oflag=direct 2> full
    rm mnt/fill
    umount mnt
    stop_daemon
    refused shingle stl remove /dev/more --device "$first" 2> said
    most=$(sed -n 's/.*`resize2fs DEVICE \([0-9]*\)K`.*/\1/p' said)
    serve "$PWD/stack.toml"
    udevadm settle
    e2fsck -fp "$device"
    resize2fs "$device" "${most}K"
    blkdiscard --offset $((most * 1024)) "$device"
    stop_daemon
    shingle stl remove /dev/more --device "$first" --json > removed
    shingle stl check /dev/more --data | tail -1 | grep -qx "No error detected"
    _serve_anew removed
    e2fsck -fn "$device"
    mount "$device" mnt
    _are_whole mnt before
    same "what was on both disks" "$sum" "$(sha256sum < mnt/large)"
    umount mnt
    stop_daemon
}
