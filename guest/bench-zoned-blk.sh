#!/usr/bin/env bash
# `type = "zoned-blk"` beside fio on the same disk.
#   guest/run guest/bench-zoned-blk.sh [SECONDS [NANOSECONDS [null]]]
# SECONDS are those of each measurement, NANOSECONDS what the disk takes for each command; null: of null_blk, which moves no data
# Turns about, so that what the machine does meanwhile meets both; only the ratio means something here. Needs a `shingle` with its
# laboratory (cargo build --release).
# shellcheck disable=SC2154
work=$(mktemp -d)
. /guest/lib.sh
cd "$work"
seconds=${1:-5}
case ${3:-scsi} in
    scsi) scsi_disk dev_size_mb=256 zbc=managed zone_size_mb=4 zone_max_open=0 zone_nr_conv=4 submit_queues=2 "ndelay=${2:-200000}" ;;
    null) zoned_null_disk z0 memory_backed=0 size=16384 zone_size=64 zone_nr_conv=4 irqmode=2 "completion_nsec=${2:-200000}" ;;
esac
printf '%s\n' "[disk.d]" 'type = "zoned-blk"' "path = \"$device\"" 'policy = "plug"' > stack.toml

kernel() { fio --name=j --filename="$device" --direct=1 --ioengine=io_uring "$@"; }
ours() { shingle bench --name=j --stack stack.toml --device=d "$@"; }
# measured COMMAND LOAD: IOPS. Reads of empty zones are not reads, and writes need empty ones.
measured() {
    rm -f out
    shingle zones reset "$device"
    # shellcheck disable=SC2086
    case $2 in *read*) kernel --rw=write --bs=1m --size=256m --zonemode=zbd > /dev/null ;; esac
    # shellcheck disable=SC2086
    $1 $2 --iodepth=32 --time_based --runtime="$seconds" --zonemode=zbd --output-format=json --output=out > /dev/null 2>&1
    sed -n '/^{/,$p' out | jq '.jobs[0] | .read.iops + .write.iops | floor'
}

for load in "--rw=randread --bs=4k" "--rw=randread --bs=64k" "--rw=randwrite --bs=64k --max_open_zones=8" \
    "--rw=randwrite --bs=16k --max_open_zones=40"; do
    all_kernel=0 all_ours=0
    for _ in 1 2 3; do
        all_kernel=$((all_kernel + $(measured kernel "$load")))
        all_ours=$((all_ours + $(measured ours "$load")))
    done
    echo "$load: fio $((all_kernel / 3)) IOPS, zoned-blk $((all_ours / 3)) IOPS, $((all_ours * 100 / all_kernel)) %"
done
