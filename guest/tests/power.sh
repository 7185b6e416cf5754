# The harness itself: a guest can lose its power.
# shellcheck shell=bash disable=SC2154

a_file_that_was_synced_survives_a_power_cut_and_one_that_was_not_does_not() {
    disk 0
    if [ "$boot" = 1 ]; then
        mkfs.ext4 -q -F "$device"
        only_syncs_write
        mounted "$device" mnt -o commit=300
        echo synced > mnt/synced
        sync mnt/synced mnt
        echo lost > mnt/lost
        power_cut
    fi
    same "this is boot" 2 "$boot"
    mounted "$device" mnt
    same "the file that was synced" synced "$(cat mnt/synced)"
    [ ! -s mnt/lost ] || fail "nothing was lost: that was no power cut"
}
