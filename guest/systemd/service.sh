# The service of the package under systemd, in two boots: started before the mounts that need it, killed, hung and upgraded below them, stopped behind them.
# shellcheck shell=bash disable=SC2154
set -e
. /guest/lib.sh
work=$(mktemp -d)

trap '[ $? = 0 ] || { systemctl list-jobs --no-pager; systemctl status --no-pager --full "$unit" || true; ps ax | grep -v "\[" ; journalctl --no-pager -b -u "$unit" | tail -40; }' EXIT

# What a boot finds is what this script left in /guest/kept/root.
root=/guest/kept/root
unit=shingle@archive
main_pid() { systemctl show -P MainPID "$unit"; }
# has_another PID: the daemon runs, and is not that one. Asked at once: between two questions the old one may end.
has_another() {
    local state
    state=$(systemctl show -p MainPID -p SubState "$unit")
    grep -qx "SubState=running" <<< "$state" && ! grep -qx "MainPID=$1" <<< "$state"
}
_is_given_up() { test failed = "$(systemctl show -P ActiveState "$1")"; }
# began UNIT: when it did, since the boot.
has_in_journal() { journalctl -b --no-pager -o cat "${@:2}" | grep -qF "$1"; }
began() { systemctl show -P ActiveEnterTimestampMonotonic "$1"; }

first_boot() {
    cp /guest/shingle@.service /usr/lib/systemd/system/
    cp /guest/60-shingle.rules /usr/lib/udev/rules.d/
    udevadm control --reload
    # QEMU's zoned disks forget their zones with each boot, so this one is a directory.
    disk 0
    mkfs.ext4 -qL data "$device"
    mkdir -p /data
    echo 'LABEL=data /data ext4 defaults 0 2' >> /etc/fstab
    systemctl daemon-reload
    mount /data
    shingle create /data/smr --size 192MiB --zone-size 4MiB --conventional 4

    # The recipe of the README for a service.
    mkdir -p /etc/shingle /srv/archive
    shingle stl format /data/smr --stack /etc/shingle/archive.toml
    sed -i 's/^device = .*/&\nublk = true/' /etc/shingle/archive.toml
    mkdir -p /run/systemd/system/$unit.service.d
    # A minute is long for a test.
    printf '[Service]\nWatchdogSec=8\n' > /run/systemd/system/$unit.service.d/test.conf
    systemctl daemon-reload
    systemctl enable --now $unit
    patiently test -b /dev/shingle/stl-smr
    mkfs.ext4 -q /dev/shingle/stl-smr
    echo "/dev/shingle/stl-smr /srv/archive ext4 defaults,x-systemd.after=$unit.service 0 2" >> /etc/fstab
    systemctl daemon-reload
    mount /srv/archive
    same "the socket of the service" /run/shingle/archive/control.sock "$(ls /run/shingle/archive/control.sock)"
    shingle status | grep -q stl-smr
    systemctl show -P StatusText $unit
    echo "what an operator does is in the journal, with fields"
    shingle policy smr qd1
    patiently has_in_journal 'policy of device `smr`, policy `qd1` by user 0: done' SHINGLE_OP=policy SHINGLE_UID=0 PRIORITY=6

    dd if=/dev/urandom of=/srv/archive/before bs=1M count=8 conv=fsync status=none
    mkdir -p /guest/kept
    sha256sum /srv/archive/before > /guest/kept/sum
    # 8 MiB and more went through the block device.
    shingle metrics | awk '/^shingle_export_bytes_total.export="stl-smr",op="write"/ && $2 > 8e6 { ok = 1 } END { exit !ok }'

    echo "killed: users wait, and go on"
    local pid
    pid=$(main_pid)
    kill -KILL "$pid"
    patiently has_another "$pid"
    cp /srv/archive/before /srv/archive/after-kill
    sync -f /srv/archive

    echo "upgraded: the new program takes over below the mount"
    cp /usr/bin/shingle /usr/bin/shingle.new
    mv /usr/bin/shingle.new /usr/bin/shingle
    pid=$(main_pid)
    systemctl kill --kill-whom=main --signal=KILL $unit
    patiently has_another "$pid"
    same "the program that runs" /usr/bin/shingle "$(readlink "/proc/$(main_pid)/exe")"
    cmp /srv/archive/before /srv/archive/after-kill

    echo "hung: the watchdog ends it"
    pid=$(main_pid)
    kill -STOP "$pid"
    patiently has_another "$pid"
    cp /srv/archive/before /srv/archive/after-hang
    sync -f /srv/archive
    echo 3 > /proc/sys/vm/drop_caches
    cmp /srv/archive/before /srv/archive/after-hang

    sockets

    echo "what cannot start is given up"
    echo nonsense > /etc/shingle/wrong.toml
    refused systemctl start shingle@wrong
    patiently _is_given_up shingle@wrong
    systemctl reset-failed

    echo "the machine goes down, and the mount before the service"
    mkdir -p $root/{data,srv/archive,usr/bin,usr/lib/systemd/system,usr/lib/udev/rules.d} $root/etc/systemd/system/{multi-user.target.wants,$unit.service.d}
    cp -r /etc/shingle $root/etc/
    cp /etc/fstab $root/etc/
    cp /usr/bin/shingle $root/usr/bin/
    cp /guest/shingle@.service $root/usr/lib/systemd/system/
    cp /guest/60-shingle.rules $root/usr/lib/udev/rules.d/
    ln -s /usr/lib/systemd/system/shingle@.service $root/etc/systemd/system/multi-user.target.wants/$unit.service
    printf '[Unit]\nRequiresMountsFor=/data\n' > $root/etc/systemd/system/$unit.service.d/disk.conf
    # A boot that fails says why, and ends.
    mkdir -p $root/etc/systemd/system/emergency.service.d
    cat > $root/etc/systemd/system/emergency.service.d/end.conf <<'END'
[Service]
ExecStartPre=-/bin/sh -c 'journalctl -b --no-pager | tail -200 > /guest/kept/journal; echo 1 > /guest/exit-code; echo b > /proc/sysrq-trigger'
END
    # Said at the end, when nobody is there to look.
    cat > /run/systemd/system/$unit.service.d/end.conf <<'END'
[Unit]
RequiresMountsFor=/guest /data
[Service]
ExecStopPost=/bin/sh -c 'echo "$SERVICE_RESULT $EXIT_CODE $EXIT_STATUS" > /guest/kept/ended; cat /proc/mounts > /guest/kept/mounts'
END
    systemctl daemon-reload
    touch /guest/again
    systemctl poweroff
    sleep 120
    fail "the machine does not go down"
}

kept() { systemctl show -P NFileDescriptorStore "$1"; }
inode() { stat -c %i "$1"; }
# ask NAME: who is connected sees its exports.
ask() { shingle status --control "/run/shingle/$1/control.sock"; }

# A service without block devices, so that it can be stopped: reloaded, restarted, started by its first client.
sockets() {
    printf '[disk.zero]\ntype = "null"\nsize = "1MiB"\n[export.one]\ndevice = "zero"\n[listen]\nunix = "nbd.sock"\n[control]\nsocket = "control.sock"\n' > /etc/shingle/small.toml
    systemctl start shingle@small
    echo "reloaded: a new export is there"
    printf '[export.two]\ndevice = "zero"\n' >> /etc/shingle/small.toml
    systemctl reload shingle@small
    ask small | grep -q two

    echo "restarted: its sockets stay"
    same "sockets that are kept" 2 "$(kept shingle@small)"
    local before
    before="$(inode /run/shingle/small/nbd.sock) $(inode /run/shingle/small/control.sock)"
    systemctl restart shingle@small
    same "the socket files" "$before" "$(inode /run/shingle/small/nbd.sock) $(inode /run/shingle/small/control.sock)"
    same "sockets that are kept" 2 "$(kept shingle@small)"
    ask small | grep -q two
    systemctl stop shingle@small
    same "sockets that are kept of a service that ended" 0 "$(kept shingle@small)"
    refused ask small

    echo "started by its first client"
    printf '[Socket]\nListenStream=/run/shingle/small/nbd.sock\nListenStream=/run/shingle/small/control.sock\nSocketMode=0600\n' > /run/systemd/system/shingle@small.socket
    systemctl daemon-reload
    systemctl start shingle@small.socket
    same "the service" inactive "$(systemctl show -P ActiveState shingle@small)"
    ask small | grep -q two
    same "the service" active "$(systemctl show -P ActiveState shingle@small)"
    refused has_in_journal "may connect" -u shingle@small
    systemctl stop shingle@small.socket shingle@small
}

second_boot() {
    same "how the daemon ended" "success exited 0" "$(cat /guest/kept/ended)"
    grep -q ' /guest ' /guest/kept/mounts
    refused grep /srv/archive /guest/kept/mounts
    same "the mount" ext4 "$(findmnt -no FSTYPE /srv/archive)"
    test "$(began $unit.service)" -lt "$(began srv-archive.mount)" || fail "the mount was there before the service"
    (cd / && sha256sum -c /guest/kept/sum)
    cmp /srv/archive/before /srv/archive/after-hang
    same "units that failed" "" "$(systemctl --failed --plain --no-legend)"

    umount /srv/archive
    systemctl stop $unit
    shingle stl check /data/smr | tail -1 | grep -qx "No error detected"
    echo "the security of the unit: $(systemd-analyze security --no-pager $unit.service 2> /dev/null | tail -1)"
}

if [ "$boot" = 1 ]; then first_boot; else second_boot; fi
