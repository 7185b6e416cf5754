# What tests may do to the harness. `guest/selftest/run` knows how each has to be reported.
# shellcheck shell=bash disable=SC2154

it_does_what_it_says() { same "a number" 1 1; }
it_has_a_command_that_fails_in_its_middle() {
    false
    true
}
whatever_fails_in_a_test_fails_the_test() {
    local way
    for way in 'false | cat' 'refused true' 'same "a number" 1 2' 'deeper() { false; true; }; deeper' 'fail "a reason"'; do
        if bash -c ". /guest/lib.sh; test() { $way; true; }; test" 2> /dev/null; then fail "it did not fail: $way"; fi
    done
}
it_leaves_something_and_fails() {
    touch /tmp/left-by-another
    false
}
it_is_in_a_guest_that_nobody_used() { [ ! -e /tmp/left-by-another ]; }
it_has_the_tools_that_tests_call() {
    local tool
    for tool in fio\ --version mkfs.ext4\ -V mkfs.xfs\ -V mkfs.btrfs\ --version mkfs.f2fs\ -V dmsetup\ version cryptsetup\ --version \
        nvme\ version blkzone\ --version strace\ --version jq\ --version sg_inq\ --version python3\ --version nbdinfo\ --version shingle\ --version; do
        $tool > /dev/null
    done
    for tool in dmzadm mkzonefs bc mkfs.vfat ss; do [ -n "$(type -P $tool)" ]; done
}
it_has_zoned_disks() {
    zoned_null_disk zoned zone_nr_conv=4
    same "zones of null_blk" 64 "$(blkzone report "$device" | wc -l)"
    same "its device" host-managed "$(cat /sys/block/zoned/queue/zoned)"
    scsi_disk dev_size_mb=64 zbc=managed zone_size_mb=4
    same "zones of scsi_debug" 16 "$(blkzone report "$device" | wc -l)"
    truncate -s 4M file
    loop_disk file
    same "size of the loop device" 4194304 "$(blockdev --getsize64 "$device")"
}
it_cannot_tell_anything() { skip "there is a reason"; }
its_undoing_fails() { later false; }
its_undoing_goes_backwards() {
    later rm folder/file
    later mv file folder/
    later mkdir folder
    touch file
}
it_takes_too_long() { sleep 1000; }
its_kernel_warns() { echo "WARNING: CPU: 0 PID: 1 at sample.c" > /dev/kmsg; }
its_kernel_dies() { echo c > /proc/sysrq-trigger; }
it_cuts_the_power_and_goes_on() {
    [ "$boot" = 1 ] || { same "what was kept" 1 "$(cat /guest/kept/boot)"; return; }
    echo "$boot" > /guest/kept/boot
    power_cut
}
