#!/usr/bin/env bash
# A block device of ublk beside the kernel's null_blk, loop, and its NBD client, which all move no data to a medium, but loop, which has
# its in memory. 4 KiB at random, one job.
#   guest/run guest/bench-ublk.sh [SECONDS [ROUNDS]]
# SECONDS are those of each measurement. Turns about; only ratios mean something here: the code of both sides is emulated. CPU is that of the
# whole guest, its idle loop aside, for each I/O.
# Published figures are made with cargo build --profile dist, SHINGLE=target/dist/shingle.
# shellcheck disable=SC2154
work=$(mktemp -d)
. /guest/lib.sh
cd "$work"
seconds=${1:-4} rounds=${2:-3}

modprobe ublk_drv
cat > stack.toml <<STACK
[disk.null]
type = "null"
size = "1GiB"

[export.null]
device = "null"
ublk = true

[listen]
unix = "nbd.sock"
STACK
serve stack.toml
nbd_attach 0 null
null_disk n0 memory_backed=0 size=1024
truncate -s 256M image
fallocate -l 256M image
loop_disk "$PWD/image"
loop=$device
losetup --direct-io=on "$loop" 2> /dev/null || true
declare -A devices=([ublk]=/dev/ublkb0 [nbd]=/dev/nbd0 [null_blk]=/dev/n0 [loop]="$loop")
for name in "${!devices[@]}"; do echo none > "/sys/block/$(basename "${devices[$name]}")/queue/scheduler"; done

# busy: jiffies that the guest's processors have not been idle.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
# measured NAME DEPTH WHAT: adds to ios[] and cpu[].
declare -A ios cpu
measured() {
    local before key="$1 $2 $3" n
    before=$(busy)
    n=$(fio --name=j --filename="${devices[$1]}" --direct=1 --ioengine=io_uring --rw="$3" --bs=4k --size=256m --iodepth="$2" \
        --time_based --runtime="$seconds" --output-format=json | jq '.jobs[0] | .read.total_ios + .write.total_ios')
    ios[$key]=$((${ios[$key]:-0} + n))
    cpu[$key]=$((${cpu[$key]:-0} + $(busy) - before))
}

for what in randread randwrite; do
    for depth in 1 32 128; do
        for ((round = 0; round < rounds; round++)); do
            for name in ublk nbd null_blk loop; do measured $name $depth $what; done
        done
        for name in ublk nbd null_blk loop; do
            key="$name $depth $what"
            echo "$what, depth $depth: $name $((${ios[$key]} / seconds / rounds)) IOPS, $((${cpu[$key]} * 10000 / ${ios[$key]})) us of CPU for each," \
                "$((${ios[$key]} * 100 / ${ios["nbd $depth $what"]})) % of NBD's IOPS"
        done
    done
done
