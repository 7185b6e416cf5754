# Drives of the Python package as block devices (clients/python), as root of the guest has them.
# shellcheck shell=bash disable=SC2154

_python() { SHINGLE=/usr/bin/shingle PYTHONPATH=/guest/python PYTHONDONTWRITEBYTECODE=1 python3 -; }

a_zoned_drive_of_the_python_package_is_a_block_device_that_loses_its_power() {
    modprobe ublk_drv
    _python <<'END'
import errno, mmap, os, re, stat, subprocess
from pathlib import Path
from shingle import zoned_disk

KIB = 1 << 10
data = os.urandom(80 * KIB)

def aligned(size, of=b""):
    memory = mmap.mmap(-1, size)
    memory[: len(of)] = of
    return memory

def read(fd, start, size):
    memory = aligned(size)
    assert os.preadv(fd, [memory], start) == size
    return memory[:]

def kernel_says(path):
    report = subprocess.run(["blkzone", "report", path], check=True, capture_output=True, text=True).stdout
    return [int(pointer, 16) * 512 for pointer in re.findall(r"wptr (0x\w+)", report)]

def fails(number, call):
    try:
        call()
    except OSError as error:
        assert error.errno == number, error
    else:
        raise AssertionError("it was to fail")

with zoned_disk("/guest/python/small-zns.toml", zones=8, seed=5) as disk:
    path = disk.path
    assert path and stat.S_ISBLK(os.stat(path).st_mode), disk
    assert Path(f"/sys/class/block/{Path(path).name}/queue/zoned").read_text().strip() == "host-managed"
    assert len(disk.zones()) == 8 and {zone.condition for zone in disk.zones()} == {"empty"}
    start = disk.zones()[1].start
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    os.pwritev(fd, [aligned(64 * KIB, data[: 64 * KIB])], start)
    os.fsync(fd)
    # Short of a unit of flash: it waits in the buffer of the drive.
    os.pwritev(fd, [aligned(16 * KIB, data[64 * KIB :])], start + 64 * KIB)
    assert disk.zones()[1].write_pointer == start + 80 * KIB and kernel_says(path)[1] == 80 * KIB
    disk.cut_power()
    fails(errno.ENODEV, lambda: read(fd, start, 4 * KIB))
    disk.power_on()
    left = disk.zones()[1].write_pointer - start
    print(f"{left // KIB} KiB are left of 80, of which 64 were flushed")
    assert 64 * KIB <= left < 80 * KIB and kernel_says(path)[1] == left
    assert read(fd, start, left) == data[:left]
    with disk.fail("error", op="write", status="medium"):
        fails(errno.ENODATA, lambda: os.pwritev(fd, [aligned(4 * KIB)], disk.zones()[2].start))
    with disk.trace("drive") as trace:
        os.pwritev(fd, [aligned(8 * KIB)], disk.zones()[3].start)
    assert any(event.op == "write" for event in trace.events), trace.events
    disk.reset(disk.zones()[1])
    assert disk.zones()[1].condition == "empty"
    os.close(fd)
assert not os.path.exists(path), f"{path} is left"
END
}

a_volume_of_the_python_package_is_mounted_and_loses_its_power() {
    long
    modprobe ublk_drv
    only_syncs_write
    mkdir mnt
    _python <<'END'
import os, subprocess
from shingle import block_disk

def run(*words):
    subprocess.run(words, check=True)

data = os.urandom(1 << 20)
with block_disk("/guest/python/small-smr.toml", target="stl", zones=48, seed=5) as disk:
    assert disk.path, disk
    run("mkfs.ext4", "-q", disk.path)
    run("mount", "-o", "commit=300", disk.path, "mnt")
    for name in ("synced", "lost"):
        with open(f"mnt/{name}", "wb") as file:
            file.write(data)
            if name == "synced":
                run("sync", "-f", "mnt")
    disk.cut_power()
    run("umount", "mnt")
    disk.power_on()
    assert subprocess.run(["e2fsck", "-p", disk.path]).returncode in (0, 1)
    run("mount", disk.path, "mnt")
    with open("mnt/synced", "rb") as file:
        assert file.read() == data
    assert not os.path.exists("mnt/lost") or os.path.getsize("mnt/lost") == 0
    run("umount", "mnt")
END
}
