# Who looks at the kernel's zoned disks: pages, metrics and `shingle top`, beside what the kernel tells of them.
# shellcheck shell=bash disable=SC2034,SC2154

# _used DISK: two of its zones are open, one is closed, one full. Zones of 4 MiB, the first two conventional.
_used() {
    dd if=/dev/zero of="$1" bs=1M seek=8 count=1 oflag=direct status=none
    dd if=/dev/zero of="$1" bs=1M seek=12 count=1 oflag=direct status=none
    blkzone close -o 24576 -c 1 "$1"
    blkzone finish -o 32768 -c 1 "$1"
    blkzone open -o 40960 -c 1 "$1"
}
_scsi() { scsi_disk dev_size_mb=128 zbc=managed zone_size_mb=4 zone_nr_conv=2 zone_max_open=4 delay=0; }

# _page_of COMMAND...: what prints the address of a page, which is put into $page.
_page_of() {
    page=$("$@" | grep -o 'http://[^ ]*')
    [ -n "$page" ]
}
# _as_the_kernel_has_them DEVICE DISK CONDITIONS: what the page tells, by conditions as the kernel counts them. It may be as old as a second.
_as_the_kernel_has_them() {
    patiently python3 /guest/page-zones.py "$page" "$1" "$2"
    same "zones by condition" "$3" "$(cat "$work/patiently")"
}

_watched() {
    _used "$1"
    shingle zones watch "$1" > watch &
    later kill $!
    patiently grep -q token watch
    _page_of cat watch
    _as_the_kernel_has_them "$1" "$1" "0:2 1:$(($2 - 6)) 2:1 3:1 4:1 14:1"
    blkzone reset -o 16384 -c 1 "$1"
    blkzone finish -o 57344 -c 1 "$1"
    _as_the_kernel_has_them "$1" "$1" "0:2 1:$(($2 - 6)) 3:1 4:1 14:2"
}
the_page_of_a_scsi_disk_without_a_stack_has_its_zones() {
    _scsi
    _watched "$device" 32
}
the_page_of_a_null_disk_without_a_stack_has_its_zones() {
    long
    zoned_null_disk z0 size=128 zone_nr_conv=2 zone_capacity=3
    _watched "$device" 32
}

# _metric NAME: its value.
_metric() { shingle metrics --control control.sock | sed -n "s/^shingle_$1 //p"; }
# _stack_over DISK LINE...: the lines are of the export.
_stack_over() {
    printf '%s\n' "[disk.d]" 'type = "zoned-blk"' "path = \"$1\"" '[export.d]' 'device = "d"' "${@:2}" '[listen]' 'unix = "nbd.sock"' \
        '[control]' 'socket = "control.sock"' '[web]' 'tcp = "127.0.0.1:0"' > stack.toml
}

zones_of_a_disk_of_the_kernel_are_in_metrics_on_the_page_and_in_top() {
    _scsi
    local disk=$device
    _used "$disk"
    _stack_over "$disk"
    serve stack.toml
    later stop_daemon
    _page_of shingle status --control control.sock
    _as_the_kernel_has_them d "$disk" "0:2 1:26 2:1 3:1 4:1 14:1"
    local condition
    for condition in not_wp:2 empty:26 imp_open:1 exp_open:1 closed:1 full:1 readonly:0 offline:0; do
        same "zones ${condition%:*}" "${condition#*:}" "$(_metric "zones{device=\"d\",condition=\"${condition%:*}\"}" | sed 's/\.0$//')"
    done
    same "open zones" 2 "$(_metric 'zones_open{device="d"}' | sed 's/\.0$//')"
    same "active zones" 3 "$(_metric 'zones_active{device="d"}' | sed 's/\.0$//')"
    same "limit of open zones" 4 "$(_metric 'zones_max_open{device="d"}' | sed 's/\.0$//')"
    shingle top --once --view zones --control control.sock d > top
    grep -q "^open 2 of 4, active 3 " top
    grep -q "empty 26 .*full 1 .*conventional 2" top
    # A change is told when the disk was asked again.
    nbd_attach 0 d -b 512
    dd if=/dev/zero of=/dev/nbd0 bs=1M seek=28 count=4 oflag=direct status=none
    # shellcheck disable=SC2016
    patiently sh -c 'shingle metrics --control control.sock | grep -q "^shingle_zones{.*full.* 2"'
    local age
    age=$(_metric 'zones_age_seconds{device="d"}')
    awk -v age="$age" 'BEGIN { exit !(age > 0 && age < 60) }' || fail "it is $age s old"
}

# Metrics are asked for all the time while `asked` is there.
_asked_all_the_time() {
    while [ -e asked ]; do shingle metrics --control control.sock > metrics || true; done
}
who_watches_a_disk_neither_disturbs_its_users_nor_keeps_it_open() {
    long
    _scsi
    local disk=$device watcher
    _stack_over "$disk" 'ublk = true'
    serve_block
    touch asked
    _asked_all_the_time &
    watcher=$!
    later wait $watcher
    later rm asked
    verified --filename="$device" --zonemode=zbd --max_open_zones=4 --offset=8m --size=32m --rw=write --bs=64k --iodepth=8
    # The disk goes while it is watched: others can have it alone.
    sed -i '/disk.d/,/^ublk/d' stack.toml
    printf '[disk.other]\ntype = "null"\nsize = "1MiB"\n' >> stack.toml
    shingle reload --control control.sock
    shingle zones reset "$disk"
    same "empty zones" 30 "$(blkzone report "$disk" | grep -c '(em)')"
    shingle metrics --control control.sock > metrics.after
    refused grep shingle_zones metrics.after
}
