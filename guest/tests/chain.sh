# The whole way: a zoned disk of the kernel, dm-zoned over it, and the volume as a block device of the same kernel.
# shellcheck shell=bash disable=SC2154

# _stack TYPE PATH: $work/stack.toml with the volume of that disk as a block device.
_stack() {
    cat > stack.toml <<STACK
[disk.smr]
type = "$1"
path = "$2"

[device.volume]
table = "0 1 zoned smr"

[export.volume]
device = "volume"
ublk = true

[control]
socket = "control.sock"
STACK
}
# _chain: a host-managed SMR disk of scsi_debug, with conventional zones, as the volume that $device is.
_chain() {
    scsi_disk dev_size_mb=400 zbc=managed zone_size_mb=4 zone_nr_conv=12 zone_max_open=0 sector_size=4096 delay=0
    disk=$device
    shingle dmz format "$disk" > formatted
    _stack zoned-blk "$disk"
    serve_block
}
# _used MKFS CHECK: a file system under load while the daemon is killed; what was written is there, before and after a start anew.
_used() {
    $1 "$device"
    mkdir mnt
    mount "$device" mnt
    random_file mnt/random 24
    sum=$(sha256sum < mnt/random)
    load_begins --directory=mnt --rw=randwrite --bs=4k --size=12m --iodepth=16 --loops=2
    killed 3 1.5
    load_ends_well
    echo 3 > /proc/sys/vm/drop_caches
    same "the file after kills" "$sum" "$(sha256sum < mnt/random)"
    umount mnt
    $2 "$device"
    stop_daemon
    shingle dmz check "$disk" | tail -1 | grep -q "No error detected"
    serve "$PWD/stack.toml"
    mount "$device" mnt
    same "the file after a start anew" "$sum" "$(sha256sum < mnt/random)"
    umount mnt
}

ext4_on_an_smr_disk_is_whole_after_kills_of_the_daemon() {
    _chain
    _used "mkfs.ext4 -q" "e2fsck -fn"
}

xfs_on_an_smr_disk_is_whole_after_kills_of_the_daemon() {
    long
    _chain
    modprobe xfs
    _used "mkfs.xfs -q -f" "xfs_repair -n"
}

a_full_volume_says_so_to_its_file_system_and_works_again_when_there_is_room() {
    _chain
    mkfs.ext4 -q "$device"
    mounted "$device" mnt
    refused dd if=/dev/zero of=mnt/all bs=1M status=none
    sync
    rm mnt/all
    random_file mnt/random 16
    sync
    sum=$(sha256sum < mnt/random)
    echo 3 > /proc/sys/vm/drop_caches
    same "the file" "$sum" "$(sha256sum < mnt/random)"
}

# The disk is a directory on the guest's own, which loses what was not synced; what was is there in the next guest.
what_was_synced_before_the_machine_died_is_there_when_it_is_started_again() {
    disk 0
    only_syncs_write
    if [ "$boot" = 1 ]; then
        mkfs.ext4 -q -F "$device"
    fi
    mounted "$device" below -o commit=300
    if [ "$boot" = 1 ]; then
        shingle create below/smr --size 512MiB --zone-size 8MiB --conventional 8
        shingle dmz format below/smr > formatted
    fi
    _stack zoned-dir below/smr
    serve_block
    if [ "$boot" = 1 ]; then
        mkfs.ext4 -q "$device"
        mount -o commit=300 "$device" /mnt
        random_file /mnt/random 16
        sha256sum < /mnt/random > /guest/kept/sum
        sync /mnt/random
        sync -f /guest/kept/sum
        # A daemon that was killed before does not change that.
        kill_daemon
        serve "$PWD/stack.toml"
        random_file /mnt/lost 16
        power_cut
    fi
    e2fsck -fp "$device" || [ $? -le 1 ]
    mounted "$device" mnt
    same "the file" "$(cat /guest/kept/sum)" "$(sha256sum < mnt/random)"
}
