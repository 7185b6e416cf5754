# Simulated drives with a directory behind them, as block devices of the guest.
# shellcheck shell=bash disable=SC2034,SC2154

# _drive PROFILE LINE...: the drive `d` in the folder `drive`; the lines are of the disk.
_drive() {
    printf '%s\n' '[disk.d]' 'type = "profile"' "profile = \"$1\"" 'directory = "drive"' "${@:2}" \
        '[export.d]' 'device = "d"' 'ublk = true' '[control]' 'socket = "control.sock"' > stack.toml
    serve_block
}
_power() { shingle power "$@" --control "$work/control.sock"; }

ext4_on_a_simulated_drive_has_what_was_synced_over_a_cut_and_a_kill() {
    _drive ssd-500gb 'size = "256MiB"'
    only_syncs_write
    random_file bytes 8
    mkfs.ext4 -q "$device"
    mkdir mnt
    mount -o commit=300 "$device" mnt
    cp bytes mnt/synced
    sync -f mnt
    cp bytes mnt/lost
    _power cut d
    refused sync -f mnt
    umount mnt
    _power on d
    e2fsck -p "$device" || [ $? = 1 ]
    mount -o commit=300 "$device" mnt
    cmp bytes mnt/synced
    [ ! -s mnt/lost ] || fail "nothing was lost: that was no power cut"
    # Who has it mounted waits for the next daemon, and loses nothing.
    load_begins --directory=mnt --rw=randwrite --bs=16k --size=6m --iodepth=8 --fsync=16
    killed 2 1.5
    load_ends_well
    cp bytes mnt/second
    umount mnt
    # What a cut has left is there, and the power back, when the daemon does not live to give it back.
    _power cut d
    kill_daemon
    serve stack.toml
    _power status d | grep -q "^d  *on "
    e2fsck -fn "$device"
    mounted "$device" mnt -o ro
    cmp bytes mnt/synced
    cmp bytes mnt/second
}

# _pointer ZONE: in MiB from its start.
_pointer() { echo $(($(blkzone report -o $(($1 * 524288)) -c 1 "$device" | sed 's/.*wptr \(0x[0-9a-f]*\).*/\1/') / 2048)); }
zones_of_a_simulated_drive_keep_what_was_flushed_over_a_power_cut_and_a_killed_daemon() {
    _drive smr-14tb 'zones = 8'
    random_file bytes 4
    local pointer
    dd if=bytes of="$device" bs=256k count=8 seek=1024 oflag=direct conv=fsync status=none
    dd if=bytes of="$device" bs=256k count=8 skip=8 seek=1032 oflag=direct status=none
    same "written" 4 "$(_pointer 1)"
    _power cut d
    refused dd if="$device" of=/dev/null bs=4k count=1 skip=65536 iflag=direct 2> /dev/null
    _power on d
    pointer=$(_pointer 1)
    echo "$pointer MiB are left"
    [ "$pointer" -ge 2 ] && [ "$pointer" -le 4 ]
    cmp -n $((pointer << 20)) bytes <(dd if="$device" bs=1M skip=256 count=4 iflag=direct status=none)
    kill_daemon
    serve stack.toml
    same "written before and after a kill" "$pointer" "$(_pointer 1)"
    cmp -n $((pointer << 20)) bytes <(dd if="$device" bs=1M skip=256 count=4 iflag=direct status=none)
    same "closed zones" 1 "$(blkzone report "$device" | grep -c '(cl)')"
    blkzone reset -o 524288 -c 1 "$device"
    dd if=bytes of="$device" bs=1M seek=256 oflag=direct,dsync status=none
    kill_daemon
    serve stack.toml
    cmp bytes <(dd if="$device" bs=1M skip=256 count=4 iflag=direct status=none)
}
