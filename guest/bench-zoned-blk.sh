#!/usr/bin/env bash
# `type = "zoned-blk"` beside fio on the same disk.
#   guest/run [-i] guest/bench-zoned-blk.sh [SECONDS [NANOSECONDS [DISK [TURNS]]]]
# SECONDS are those of each measurement, NANOSECONDS what the disk takes for each command. The DISK:
#   scsi   one of scsi_debug with zones of 4 MiB, which are reset all the time; it copies the data, and a reset fills the zone
#   null   one of null_blk with zones of 64 MiB, which moves no data
#   small  the same with zones of 4 MiB: what a reset costs without what the disk does for it
# Turns about, so that what the machine does meanwhile meets both; only the ratio means something here. On a busy machine use -i, 1 second
# and 1 turn. Needs a `shingle` with its laboratory; published figures: cargo build --profile dist, SHINGLE=target/dist/shingle. Others, in $SHINGLES as shingle.NAME, are measured as well.
# shellcheck disable=SC2154
work=$(mktemp -d)
. /guest/lib.sh
cd "$work"
seconds=${1:-5} nanoseconds=${2:-200000} turns=${4:-3}
null() { zoned_null_disk z0 memory_backed=0 "size=$1" "zone_size=$2" zone_nr_conv=4 irqmode=2 "completion_nsec=$nanoseconds"; }
case ${3:-scsi} in
    scsi) scsi_disk dev_size_mb=256 zbc=managed zone_size_mb=4 zone_max_open=0 zone_nr_conv=4 submit_queues=2 "ndelay=$nanoseconds" ;;
    null) null 16384 64 ;;
    small) null 256 4 ;;
esac
limit=/sys/block/${device##*/}/queue/max_sectors_kb
printf '%s\n' "[disk.d]" 'type = "zoned-blk"' "path = \"$device\"" 'policy = "plug"' > stack.toml

program() {
    if [ "$1" = fio ]; then fio --name=j --filename="$device" --direct=1 --ioengine=io_uring "${@:2}"
    else "$1" bench --name=j --stack stack.toml --device=d "${@:2}"; fi
}
# measured PROGRAM LOAD: IOPS. Reads of empty zones are not reads, and writes need empty ones.
measured() {
    local size=${2#*--bs=}
    rm -f out
    echo 64 > "$limit"
    shingle zones reset "$device"
    case $2 in *read*) fio --name=fill --filename="$device" --direct=1 --rw=write --bs=1m --size=256m --zonemode=zbd > /dev/null ;; esac
    # scsi_debug copies in a time that grows with the square of a command's length. Both programs' writes merge while they wait, but
    # not equally many, so that hardly anything else would be compared: here no command gets longer than what was asked.
    echo "${size%%k*}" > "$limit"
    # shellcheck disable=SC2086
    program "$1" $2 --iodepth=32 --time_based --runtime="$seconds" --zonemode=zbd --output-format=json --output=out > /dev/null 2>&1 \
        || { cat out >&2; exit 1; }
    sed -n '/^{/,$p' out | jq '.jobs[0] | .read.iops + .write.iops | floor'
}

programs=(fio shingle /guest/shingle.*)
[ -e "${programs[2]}" ] || unset 'programs[2]'
# Once for nothing: then they are in memory.
for one in "${programs[@]}"; do seconds=1 measured "$one" "--rw=randwrite --bs=64k" > /dev/null; done
for load in "--rw=randread --bs=4k" "--rw=randread --bs=64k" "--rw=read --bs=64k" "--rw=read --bs=128k" \
    "--rw=randwrite --bs=64k --max_open_zones=8" "--rw=randwrite --bs=16k --max_open_zones=40" "--rw=write --bs=64k" "--rw=write --bs=128k"; do
    declare -A sum=()
    for ((turn = 0; turn < turns; turn++)); do
        for one in "${programs[@]}"; do sum[$one]=$((${sum[$one]:-0} + $(measured "$one" "$load"))); done
    done
    echo "$load: fio $((sum[fio] / turns)) IOPS$(for one in "${programs[@]:1}"; do
        echo -n ", ${one##*/} $((sum[$one] / turns)) IOPS, $((sum[$one] * 100 / sum[fio])) %"; done)"
done
