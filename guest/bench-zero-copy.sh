#!/usr/bin/env bash
# Reads of a block device of ublk whose data is not copied by the daemon beside one whose data is: a `zoned-blk` disk over null_blk,
# which moves no data, and a table of one line over the same disk.
#   guest/run guest/bench-zero-copy.sh [SECONDS [ROUNDS]]
# SECONDS are those of each measurement. Turns about; only ratios mean something here. CPU is that of the whole guest, its idle loop aside.
# Published figures are made with cargo build --profile dist, SHINGLE=target/dist/shingle.
# shellcheck disable=SC2154
work=$(mktemp -d)
. /guest/lib.sh
cd "$work"
seconds=${1:-4} rounds=${2:-3}

modprobe ublk_drv
zoned_null_disk z0 memory_backed=0 size=4096 zone_size=64 zone_nr_conv=32
cat > stack.toml <<STACK
[disk.disk]
type = "zoned-blk"
path = "$device"

[device.table]
table = "0 $(blockdev --getsz "$device") linear disk 0"

[export.registered]
device = "disk"
ublk = true
ublk-number = 0

[export.copied]
device = "table"
ublk = true
ublk-number = 1
STACK
serve stack.toml
shingle ublk list
declare -A ios cpu
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
# measured NUMBER BYTES: adds to ios[] and cpu[].
measured() {
    local before key="$1 $2" n
    before=$(busy)
    n=$(fio --name=j --filename="/dev/ublkb$1" --direct=1 --ioengine=io_uring --rw=randread --bs="$2" --size=1g --iodepth=32 \
        --time_based --runtime="$seconds" --output-format=json | jq '.jobs[0].read.total_ios')
    ios[$key]=$((${ios[$key]:-0} + n))
    cpu[$key]=$((${cpu[$key]:-0} + $(busy) - before))
}

for bytes in 4k 64k 512k; do
    for ((round = 0; round < rounds; round++)); do
        for number in 0 1; do measured $number $bytes; done
    done
    for number in 0 1; do
        key="$number $bytes"
        echo "reads of $bytes, $([ $number = 0 ] && echo registered || echo copied): $((${ios[$key]} / seconds / rounds)) IOPS," \
            "$((${cpu[$key]} * 10000 / ${ios[$key]})) us of CPU for each, $((${ios[$key]} * 100 / ${ios["1 $bytes"]})) % of copied ones"
    done
done
