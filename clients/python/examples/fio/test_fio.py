"""fio on simulated drives: what it wrote it reads again, also after a loss of power, and what breaks the rules of a drive is seen."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shingle import Disk, NbdError

MakeDisk = Callable[..., Disk]
SMALL = str(Path(__file__).parent.parent / "small-zns.toml")


def why_not() -> str:
    """Why this machine's fio cannot be used, if it cannot."""
    fio = shutil.which("fio")
    if fio is None:
        return "fio is not installed"
    known = subprocess.run([fio, "--enghelp"], capture_output=True, text=True, timeout=30).stdout.split()
    return "" if "nbd" in known else "this fio was built without its engine `nbd`"


pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"{why_not()}: on Debian, apt install fio")


def fio(disk: Disk, **options: object) -> "subprocess.CompletedProcess[str]":
    """Runs one job on a disk."""
    target = {"ioengine": "nbd", "uri": disk.uri} if disk.path is None else {"ioengine": "libaio", "filename": disk.path, "direct": 1}
    words = [f"--{key}={value}" for key, value in {"name": "job", **target, **options}.items()]
    return subprocess.run(
        ["fio", "--output-format=json", *words], cwd=disk.socket.parent, capture_output=True, text=True, timeout=100
    )


def job(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """What fio says of a job that went well."""
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return found


def test_random_writes_to_a_volume_are_read_again(block_disk: MakeDisk, shingle_seed: int) -> None:
    disk = block_disk(SMALL, zones=64)
    done = job(fio(disk, rw="randwrite", bs="4k", size="4m", iodepth=16, verify="crc32c", randseed=shingle_seed))
    assert done["write"]["total_ios"] == 1024 and done["read"]["total_ios"] == 1024
    assert any(zone.write_pointer != zone.start for zone in disk.zones()), "and it went to zones"


def test_what_fio_flushed_is_there_after_a_loss_of_power(block_disk: MakeDisk) -> None:
    disk = block_disk(SMALL, zones=64)
    load = {"bs": "4k", "size": "2m", "verify": "crc32c", "randseed": 7}
    job(fio(disk, rw="write", do_verify=0, end_fsync=1, **load))
    disk.cut_power()
    assert fio(disk, rw="read", **load).returncode != 0, "without power nothing is read"
    disk.power_on()
    assert job(fio(disk, rw="read", **load))["read"]["total_ios"] == 512


def test_fio_sees_data_that_was_lost(zoned_disk: MakeDisk) -> None:
    """What was not flushed is gone: a load without `end_fsync` is one whose verification has to fail."""
    disk = zoned_disk(SMALL, zones=4, seed=1)
    load = {"bs": "4k", "size": "188k", "verify": "crc32c"}
    job(fio(disk, rw="write", do_verify=0, **load))
    disk.cut_power()
    disk.power_on()
    (zone, *_) = disk.zones()
    assert zone.write_pointer != zone.start + (188 << 10)
    assert fio(disk, rw="read", **load).returncode != 0


def zbd(disk: Disk, most: int) -> "subprocess.CompletedProcess[str]":
    """Writes to so many zones at a time, and less than one has room for: over NBD fio cannot reset those that are full."""
    zones = {"zonemode": "zbd", "zonesize": "1m", "zonecapacity": "192k", "max_open_zones": most}
    return fio(disk, **zones, rw="randwrite", bs="4k", size="8m", io_size="160k")


def test_a_load_within_the_limit_of_active_zones_passes(zoned_disk: MakeDisk) -> None:
    done = job(zbd(zoned_disk(SMALL, zones=8, max_open=4, max_active=4), 4))
    assert done["write"]["io_bytes"] == 160 << 10


def test_a_load_beyond_the_limit_of_active_zones_is_caught(zoned_disk: MakeDisk) -> None:
    disk = zoned_disk(SMALL, zones=8, max_open=4, max_active=4)
    assert zbd(disk, 8).returncode != 0
    assert "cannot become active" in disk.log()


def test_a_load_sees_the_errors_that_it_is_given(zoned_disk: MakeDisk) -> None:
    disk = zoned_disk(SMALL, zones=4)
    with disk.fail("error", op="write", skip=5, count=1, status="medium"):
        done = fio(disk, rw="write", bs="4k", size="64k")
        assert done.returncode != 0, done.stdout
    # The drive is as it was before the write that failed.
    (zone, *_) = disk.zones()
    assert zone.write_pointer == 5 * 4096
    with disk.connect() as nbd:
        nbd.write(5 * 4096, bytes(4096))
        with pytest.raises(NbdError, match="pointer"):
            nbd.write(0, bytes(4096))
