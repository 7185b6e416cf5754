# Of dm-zoned on disks of the kernel's: one volume used in turns by the kernel's and ours, and what either leaves is whole for the other.
# shellcheck shell=bash disable=SC2034,SC2154

# _checked DEVICE...: dmzadm's exit code lies, its last line does not.
_checked() {
    dmzadm --check "$@" --verbose > checked 2>&1 || true
    [ "$(tail -1 checked)" = "No error detected" ] || { cat checked >&2; return 1; }
    shingle dmz check "$@" > checked || { cat checked >&2; return 1; }
}
# _checked_after_a_kill DEVICE...: there are errors of one kind at most, zones that were written and that no mapping knows yet. Ours resets
# them at its start, the kernel's does not.
_checked_after_a_kill() {
    dmzadm --check "$@" --verbose > checked 2>&1 || true
    cat checked
    # "  1 error found: 35 unmapped zones + 29 mapped zones checked", and the like for chunks.
    same "errors that dmzadm counts" "$(grep -c "unmapped sequential zone not empty" checked)" "$(awk '
        /Validating secondary/ { exit }
        / checked$/ { lines++; if (/errors? found/) n += $1 }
        END { print lines ? n + 0 : "none, and no check" }' checked)"
}
# _volume DEVICE...: the daemon with the volume of these at $volume. A device without zones is a file.
_volume() {
    _volume_stack "$@"
    serve "$work/stack.toml"
    volume=/dev/ublkb0
    udevadm settle
}
# _volume_stack DISK...: writes the stack file of _volume.
_volume_stack() {
    local device n=0 names=
    : > stack.toml
    for device; do
        case $(cat "/sys/block/${device##*/}/queue/zoned") in
            none) printf '%s\n' "[disk.d$n]" 'type = "file"' "path = \"$device\"" ;;
            *) printf '%s\n' "[disk.d$n]" 'type = "zoned-blk"' "path = \"$device\"" ;;
        esac >> stack.toml
        names+=" d$n"
        n=$((n + 1))
    done
    printf '%s\n' "[device.vol]" "table = \"0 1 zoned$names\"" "[export.vol]" 'device = "vol"' 'ublk = true' 'ublk-number = 0' \
        "[control]" 'socket = "ctl"' >> stack.toml
    modprobe ublk_drv
}
# _work ROUND: writes, rewrites, deletes and discards in the file system at mnt; what has to be there is in `sums`.
_work() {
    local round=$1 file
    rm -f mnt/gone*
    random_file "mnt/new$round" 8
    mkdir -p "mnt/small$round"
    for file in {1..60}; do head -c 7000 /dev/urandom > "mnt/small$round/$file"; done
    fio --name=rewrite --filename=mnt/rewritten --size=16m --rw=randwrite --bs=16k --direct=1 --ioengine=libaio --iodepth=8 \
        --io_size=8m --randseed="$round" --output=fio.out
    if [ "$round" -gt 2 ]; then rm -rf mnt/new$((round - 2)) mnt/small$((round - 2)); fi
    fstrim mnt
    (cd mnt && find . -type f -exec sha256sum {} +) > sums
    cp mnt/rewritten expected
    sync -f mnt
}
# _lost: more of all that is under way when the volume dies. Nobody is promised any of it.
_lost() {
    (
        dd if=/dev/zero of=mnt/gone1 bs=1M count=64 status=none &
        random_file mnt/gone2 4
        sync -f mnt
        rm mnt/gone2
        fstrim mnt
        wait
    ) 2> /dev/null &
    lost=$!
    sleep 0.7
}
_same_contents() { [ ! -s sums ] || (cd mnt && sha256sum --quiet -c ../sums) || _explained; }
# _explained: who reads something else in which blocks of the file that is rewritten, where these are, and what the disks have.
_explained() {
    local source
    source=$(findmnt -no SOURCE mnt)
    echo "read through $source; blocks of \`rewritten\` with bytes that differ, and how many of these read as 0:"
    { cmp -l expected mnt/rewritten || true; } | awk '{ n[int(($1 - 1) / 4096)]++; if (!$3) zeroes[int(($1 - 1) / 4096)]++ }
        END { for (block in n) print block, n[block], zeroes[block] + 0 }' | sort -n
    filefrag -v -b4096 mnt/rewritten || true
    umount mnt
    if [ "$source" = /dev/ublkb0 ]; then stop_daemon; else dmsetup remove "$source"; fi
    shingle dmz dump "${disks[@]}"
    return 1
}

# The rounds: each finds what has to be there, adds to it, and ends as its name says.
_ours() { # ROUND
    _volume "${disks[@]}"
    mount "$volume" mnt
    _same_contents
    _work "$1"
    shingle dm message --control ctl vol 0 reclaim
    umount mnt
    stop_daemon
    check=_checked
    "$check" "${disks[@]}"
}
_ours_killed() {
    _volume "${disks[@]}"
    mount "$volume" mnt
    _same_contents
    _work "$1"
    _lost
    kill_daemon
    shingle ublk remove "${volume#/dev/ublkb}" --force > removed
    wait "$lost" || true
    umount mnt
    check=_checked_after_a_kill
    "$check" "${disks[@]}"
    # The kernel never brings a set that is behind up to date, and believes it after its own next commit.
    shingle dmz check "${disks[@]}" > checked || true
    if grep -E 'generation differs|differ between the sets' checked; then shingle dmz repair "${disks[@]}" > repaired; fi
}
_kernels() {
    dmzadm --start "${disks[@]}" > start.out
    volume=/dev/mapper/$(dmsetup ls | awk '{ print $1; exit }')
    mount "$volume" mnt
    _same_contents
    _work "$1"
    umount mnt
    # As it fills up it reclaims.
    dmsetup message "$volume" 0 reclaim
    sleep 2
    fsck.ext4 -fn "$volume" > fsck.out || { cat fsck.out; return 1; }
    dmzadm --stop "${disks[@]}" > stop.out
    patiently sh -c '! dmsetup ls | grep -q dmz'
    "$check" "${disks[@]}"
}
# The power is lost under the kernel's: the volume goes on from what its disks had at one moment of its work, on others of the same kind.
# It stands still meanwhile, with what it has not committed in its memory, and with no reclaim under way: the kernel's resets and reuses zones
# before the commit that frees them, so what was synced long ago can be gone between the two, for whoever starts then.
_kernels_cut() {
    local n device
    dmsetup create volume --table "0 1 zoned ${disks[*]}"
    mount /dev/mapper/volume mnt
    _same_contents
    _work "$1"
    dmsetup message volume 0 reclaim
    sleep 1
    _lost
    dmsetup suspend --noflush --nolockfs volume
    for ((n = 0; n < ${#disks[@]}; n++)); do _copied "${disks[n]}" "${others[n]}"; done
    dmsetup resume --noflush --nolockfs volume
    wait "$lost"
    umount mnt
    dmsetup remove volume
    for ((n = 0; n < ${#disks[@]}; n++)); do
        device=${disks[n]} disks[n]=${others[n]} others[n]=$device
    done
}
# _copied FROM TO: the zones of a disk up to their pointers; all of one without zones.
_copied() {
    local start length pointer condition what
    if [ "$(cat "/sys/block/${1##*/}/queue/zoned")" = none ]; then
        dd if="$1" of="$2" bs=1M iflag=direct oflag=direct status=none
        return
    fi
    blkzone reset "$2"
    # start: 0x000000000, len 0x002000, cap 0x002000, wptr 0x000010 reset:0 non-seq:0, zcond: 2(oi) [type: 2(SEQ_WRITE_REQUIRED)]
    blkzone report "$1" | sed 's/.*start: \(0x[0-9a-f]*\), len \(0x[0-9a-f]*\),.*wptr \(0x[0-9a-f]*\) .*zcond: *[0-9]*(\(..\)).*/\1 \2 \3 \4/' |
        while read -r start length pointer condition; do
            case $condition in
                nw | fu) what=$length ;;
                *) what=$pointer ;;
            esac
            # In one piece: a shorter last one dd would write past O_DIRECT, and no zone takes that in any order.
            [ $((what)) = 0 ] || dd if="$1" of="$2" bs=$((what * 512)) count=1 iflag=direct,fullblock,skip_bytes oflag=direct,seek_bytes \
                conv=notrunc skip=$((start * 512)) seek=$((start * 512)) status=none
        done
}

# _in_turns ROUND...: the volume of $disks, with a file system on it.
_in_turns() {
    local round n=0 check=_checked
    _volume "${disks[@]}"
    mkfs.ext4 -q -b 4096 -E nodiscard "$volume"
    mkdir mnt
    : > sums
    stop_daemon
    for round; do
        n=$((n + 1))
        echo "--- round $n: $round"
        "_$round" "$n"
    done
    echo "--- at the end: ours"
    _volume "${disks[@]}"
    mount "$volume" mnt
    _same_contents
    # Zones without an owner that a power cut left are reset when a volume is put away whose metadata has changed.
    random_file mnt/last 8
    umount mnt
    fsck.ext4 -fn "$volume" > fsck.out || { cat fsck.out; return 1; }
    stop_daemon
    _checked "${disks[@]}"
}
clean=(ours kernels ours_killed kernels ours kernels)
unclean=(ours_killed kernels_cut ours_killed kernels_cut)

# The volumes: in $disks, and in $others as many disks of the same kind.
_on_one_disk() {
    zoned_null_disk z1 zone_nr_conv=16 zone_max_open=16
    others=("$device")
    zoned_null_disk z0 zone_nr_conv=16 zone_max_open=16
    disks=("$device")
    shingle dmz format "$device" --label=turns --seq=4
    _checked "$device"
}
_of_version_1() {
    zoned_null_disk z1 zone_nr_conv=16
    others=("$device")
    zoned_null_disk z0 zone_nr_conv=16
    disks=("$device")
    shingle dmz format "$device" --version=1 --seq=4
    _checked "$device"
}
_with_a_cache() {
    local n cache
    for n in 1 0; do
        null_disk r$n size=96
        cache=$device
        zoned_null_disk z$n size=192
        disks=("$cache" "$device")
        [ $n = 0 ] || others=("${disks[@]}")
    done
    dmzadm --format "${disks[@]}" --label=turns --seq=4 --force
    _checked "${disks[@]}"
}

dm_zoned_on_one_disk_is_used_in_turns_with_the_kernels() {
    long
    _on_one_disk
    _in_turns "${clean[@]}"
}
dm_zoned_of_version_1_is_used_in_turns_with_the_kernels() {
    long
    _of_version_1
    _in_turns "${clean[@]}"
}
dm_zoned_with_a_cache_is_used_in_turns_with_the_kernels() {
    long
    _with_a_cache
    _in_turns "${clean[@]}"
}
what_was_synced_is_there_after_power_cuts_under_the_kernels() {
    long
    _on_one_disk
    _in_turns "${unclean[@]}"
}
what_was_synced_in_version_1_is_there_after_power_cuts_under_the_kernels() {
    long
    _of_version_1
    _in_turns "${unclean[@]}"
}
what_was_synced_with_a_cache_is_there_after_power_cuts_under_the_kernels() {
    long
    _with_a_cache
    _in_turns "${unclean[@]}"
}
# _contents: a hash of what the first 120 MiB of $volume hold.
_contents() { dd if="$volume" bs=1M count=120 iflag=direct status=none | sha256sum; }
an_older_copy_of_a_disk_is_refused_where_the_kernel_says_nothing() {
    local copy right written code=0
    _with_a_cache
    copy=${others[0]} right=${disks[0]}
    _volume "${disks[@]}"
    dd if=/dev/urandom of="$volume" bs=1M count=120 oflag=direct conv=fsync status=none
    stop_daemon
    _copied "$right" "$copy"
    _volume "${disks[@]}"
    fio --name=again --filename="$volume" --size=120m --rw=randwrite --bs=4m --direct=1 --ioengine=libaio --iodepth=2 --end_fsync=1 \
        --randseed=7 --output=fio.out
    written=$(_contents)
    stop_daemon

    shingle dmz check "$copy" "${disks[1]}" > checked || code=$?
    same "exit code of the check" "$code" 3
    grep "is an older copy of itself" checked
    _volume_stack "$copy" "${disks[1]}"
    refused timeout 60 shingle up "$work/stack.toml" 2> refusal
    grep 'cannot be used: .* is an older copy of itself' refusal
    refused test -e /dev/ublkb0

    # The kernel reads what is not there any more, without an error.
    dmesg --clear
    dmsetup create volume --table "0 1 zoned $copy ${disks[1]}"
    volume=/dev/mapper/volume
    [ "$(_contents)" != "$written" ] || { echo "the kernel reads what was written"; return 1; }
    ! dmesg | grep -iE 'error|invalid|failed' || { echo "the kernel says something"; return 1; }
    dmsetup remove volume

    _volume "$right" "${disks[1]}"
    same "what was written, with the right disk back" "$(_contents)" "$written"
    stop_daemon
}
dm_zoned_on_a_scsi_disk_keeps_what_was_written() {
    long
    scsi_disk dev_size_mb=128 sector_size=4096 zbc=managed zone_size_mb=4 zone_nr_conv=10
    local disk=$device
    shingle dmz format "$disk" --seq=4
    _volume "$disk"
    mkfs.ext4 -q -b 4096 -E nodiscard "$volume"
    mkdir mnt
    mount "$volume" mnt
    verified --directory=mnt --size=24m --rw=randwrite --bs=4k-64k --iodepth=16 --fsync=64
    umount mnt
    fsck.ext4 -fn "$volume"
    stop_daemon
    _checked "$disk"
}
