# dm-crypt: what the kernel wrote Shingle reads, and the other way round, on the same bytes: the file `disk`, which the kernel has as
# a loop device and Shingle as a disk, in turns.
# shellcheck shell=bash disable=SC2154

key64=$(printf '%02x' {0..63})
key32=${key64::64}
key16=${key64::32}

# _kernel TABLE: /dev/mapper/plain. The table calls its device DISK, here and below.
_kernel() {
    local loop
    loop=$(losetup -f --show disk)
    dmsetup create plain --table "${1/DISK/$loop}"
    udevadm settle
    device=/dev/mapper/plain
}
_kernel_leaves() {
    patiently dmsetup remove plain
    losetup -D
}

# _shingle TABLE: /dev/nbd0, in blocks of 4096 bytes.
_shingle() {
    cat > stack.toml <<STACK
[disk.disk]
type = "file"
path = "disk"

[device.plain]
table = "${1/DISK/disk}"

[export.plain]
device = "plain"

[listen]
unix = "nbd.sock"
STACK
    serve "$work/stack.toml"
    nbd-client -unix nbd.sock /dev/nbd0 -name plain -block-size 4096
    device=/dev/nbd0
}
_shingle_leaves() {
    nbd_detach 0
    stop_daemon
}

# Half of the device is written by the kernel, the other half by Shingle, in stretches of 20 KiB by turns; both read all of it.
_both_agree_on() { # TABLE
    local at writer size=$((512 << 10))
    modprobe nbd
    rm -f disk
    truncate -s 4M disk
    head -c $size /dev/urandom > plain
    for writer in 0 1; do
        if [ $writer = 0 ]; then _kernel "$1"; else _shingle "$1"; fi
        for ((at = writer * 5; at < size >> 12; at += 10)); do
            dd if=plain of="$device" bs=4096 skip=$at seek=$at count=5 conv=notrunc,fdatasync oflag=direct status=none
        done
        if [ $writer = 0 ]; then _kernel_leaves; else cmp plain "$device"; _shingle_leaves; fi
    done
    _kernel "$1"
    cmp plain "$device"
    _kernel_leaves
    refused cmp -s plain disk
}

_table() { echo "0 1024 crypt $1 $2 ${3:-0} DISK ${4:-0}${5:+ $5}"; }

aes_xts_of_the_kernel_and_ours_read_each_other() {
    _both_agree_on "$(_table aes-xts-plain64 "$key64")"
}

an_iv_offset_and_a_start_on_the_disk_mean_what_the_kernel_means() {
    _both_agree_on "$(_table aes-xts-plain64 "$key64" 123456789 2048)"
}

units_of_4096_bytes_are_the_kernels() {
    _both_agree_on "$(_table aes-xts-plain64 "$key64" 8 8 "1 sector_size:4096")"
    _both_agree_on "$(_table aes-xts-plain64 "$key64" 8 8 "2 sector_size:4096 iv_large_sectors")"
}

every_cipher_and_iv_of_the_documentation_is_the_kernels() {
    long
    _both_agree_on "$(_table aes-xts-plain64 "$key32")"
    _both_agree_on "$(_table aes-xts-plain "$key64" 4294967290)"
    _both_agree_on "$(_table aes-xts-plain64be "$key64" 77)"
    _both_agree_on "$(_table 'capi:xts(aes)-plain64' "$key64")"
    _both_agree_on "$(_table aes-cbc-essiv:sha256 "$key32" 5)"
    _both_agree_on "$(_table aes-cbc-plain64 "$key16" 5)"
    _both_agree_on "$(_table aes "$key32" 5)"
    _both_agree_on "$(_table aes-cbc-eboiv "$key32" 5)"
    _both_agree_on "$(_table aes-cbc-benbi "$key32" 5)"
    _both_agree_on "$(_table aes-cbc-null "$key32")"
    _both_agree_on "$(_table aes:2-cbc-plain64 "$key64" 5)"
}

# LUKS2 OPTION...: the kernel makes a volume with a file system; Shingle, which does not read the header, gets the line that the
# kernel has it by, with the key; each finds the files of the other.
_luks2() {
    local table
    modprobe nbd
    truncate -s 64M disk
    echo secret > passphrase
    cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" disk passphrase
    cryptsetup open --disable-keyring --key-file passphrase disk plain
    mkfs.ext4 -q -b 4096 /dev/mapper/plain
    mkdir mnt
    mount /dev/mapper/plain mnt
    random_file mnt/kernels 6
    cp mnt/kernels kernels
    umount mnt
    table=$(dmsetup table --showkeys plain | sed -E 's/ [0-9]+:[0-9]+ / DISK /')
    cryptsetup close plain

    _shingle "$table"
    mount "$device" mnt
    cmp kernels mnt/kernels
    random_file ours 6
    cp ours mnt/ours
    umount mnt
    _shingle_leaves

    cryptsetup open --key-file passphrase disk plain
    fsck.ext4 -fn /dev/mapper/plain
    mount /dev/mapper/plain mnt
    cmp kernels mnt/kernels
    cmp ours mnt/ours
    umount mnt
    cryptsetup close plain
}

a_luks2_volume_of_cryptsetup_is_shared_by_its_key() {
    _luks2 --sector-size 512
}

a_luks2_volume_with_units_of_4096_bytes_is_shared_by_its_key() {
    _luks2 --sector-size 4096
}
