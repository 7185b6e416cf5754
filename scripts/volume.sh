# A dm-zoned volume as a block device, for the scripts beside this one: they source it. $shingle is the program and $work an
# empty directory; in it are the disk `smr`, the stack file and the sockets, and `mnt` to mount it at.

mnt=$work/mnt
uri="nbd+unix:///archive?socket=$work/nbd.sock"
export SHINGLE_CONTROL=$work/control.sock
daemon= nbdfuse= loop= is_mounted=

say() { printf '\n== %s\n' "$*"; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# Why the volume cannot be mounted here; nothing if it can.
why_no_mount() {
    if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then echo "neither root nor sudo without a password"; return; fi
    command -v nbdfuse >/dev/null || { echo "no nbdfuse"; return; }
    [ -c /dev/fuse ] || { echo "no /dev/fuse"; return; }
    as_root losetup -f >/dev/null 2>&1 || echo "no loop device"
}

# make_volume SIZE ZONE-SIZE CONVENTIONAL
make_volume() {
    "$shingle" create "$work/smr" --size "$1" --zone-size "$2" --conventional "$3"
    "$shingle" dmz format "$work/smr" --label=archive | sed -n '1,/^Done/p'
    cat > "$work/stack.toml" <<STACK
[disk.smr]
type = "zoned-dir"
path = "smr"

[device.archive]
table = "0 1 zoned smr"

[export.archive]
device = "archive"

[listen]
unix = "nbd.sock"

[control]
socket = "control.sock"
STACK
}

start_daemon() {
    : > "$work/log"
    "$shingle" up "$work/stack.toml" > "$work/log" 2>&1 &
    daemon=$!
    # The notice comes last; a daemon that ends before has printed why.
    until grep -qx ready "$work/log"; do
        kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
        sleep 0.05
    done
    cat "$work/log"
}

# Told to, with SIGTERM.
stop_daemon() {
    kill -TERM "$daemon"
    wait "$daemon"
    daemon=
}

kill_daemon() {
    kill -9 "$daemon"
    wait "$daemon" 2>/dev/null || true
    daemon=
}

# NBD as a file, the file as a loop device with the volume's blocks of 4 KiB.
attach() {
    : > "$work/vol"
    # It has a lot to say when its server is killed.
    as_root nbdfuse "$work/vol" "$uri" 2> "$work/nbdfuse.log" &
    nbdfuse=$!
    until as_root test -s "$work/vol"; do
        kill -0 "$nbdfuse" 2>/dev/null || { cat "$work/nbdfuse.log" >&2; exit 1; }
        sleep 0.05
    done
    loop=$(as_root losetup --sector-size 4096 --direct-io=on -f --show "$work/vol")
}

mount_volume() {
    mkdir -p "$mnt"
    as_root mount "$loop" "$mnt"
    is_mounted=yes
    as_root chown "$(id -u)" "$mnt"
}

# Whoever has just lost its disk, or ends, may be in the way for a moment.
patiently() {
    local try
    for try in $(seq 50); do
        as_root "$@" 2>/dev/null && return
        sleep 0.1
    done
    as_root "$@"
}

# Takes mount_volume and attach back, also when the daemon is gone.
detach() {
    if [ -n "$is_mounted" ]; then patiently umount "$mnt"; is_mounted=; fi
    if [ -n "$loop" ]; then patiently losetup -d "$loop"; loop=; fi
    if [ -n "$nbdfuse" ]; then patiently umount "$work/vol"; wait "$nbdfuse" 2>/dev/null || true; nbdfuse=; fi
}

# Whatever happened: nothing stays.
clean_up() {
    detach 2>/dev/null || { as_root umount -l "$mnt"; as_root umount -l "$work/vol"; } 2>/dev/null || true
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
