"""What a simulated drive does for those who test on it."""

import subprocess
from array import array
from collections.abc import Callable
from ctypes import c_uint32
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

from shingle import ControlError, Disk, FormatError, Nbd, NbdError, StartError, Zone
from shingle import block_disk as new_block_disk
from shingle import zoned_disk as new_zoned_disk

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MakeDisk = Callable[..., Disk]
BLOCK = 4096


def eventually(what: Callable[[], bool]) -> bool:
    """True as soon as it is true; false if it is not within 30 s."""
    end = monotonic() + 30
    while not what() and monotonic() < end:
        sleep(0.01)
    return what()


def pattern(number: int) -> bytes:
    return bytes([number % 255 + 1]) * BLOCK


def first(disk: Disk) -> Zone:
    return next(zone for zone in disk.zones() if zone.sequential)


def test_a_profile_that_ships_with_the_limits_that_were_asked_for(zoned_disk: MakeDisk) -> None:
    disk = zoned_disk(profile="zns-1tb", max_open=3, max_active=5)
    (drive, *_) = disk.control.status()["devices"]
    zoned = drive.get("zoned")
    assert zoned and (zoned["zones"], zoned.get("max_open"), zoned.get("max_active")) == (904, 3, 5)
    zones = disk.zones()
    assert len(zones) == 904 and zones[-1].number == 903
    assert zones[1].start == 2 << 30 and zones[1].capacity == 1077 << 20 and zones[1].condition == "empty"
    assert disk.size == 904 * (2 << 30)


def test_zones_are_opened_filled_and_emptied(zoned_disk: MakeDisk, small_zns: str) -> None:
    disk = zoned_disk(small_zns, zones=8)

    def zone(number: int) -> Zone:
        return disk.zones()[number]

    disk.open(zone(1))
    assert zone(1).condition == "exp-open"
    disk.close_zone(zone(1))
    assert zone(1).condition == "empty"
    with disk.connect() as nbd:
        nbd.write(zone(2).start, pattern(1))
        assert zone(2).write_pointer == zone(2).start + BLOCK
        with pytest.raises(NbdError, match="pointer"):
            nbd.write(zone(2).start, pattern(1))
    disk.finish(zone(2))
    assert (zone(2).condition, zone(2).write_pointer) == ("full", None)
    disk.reset(zone(2))
    assert zone(2).condition == "empty"
    disk.finish(zone(3))
    disk.reset()
    assert {zone.condition for zone in disk.zones()} == {"empty"}


def test_nbd_reads_what_it_wrote_and_tells_holes(zoned_disk: MakeDisk, small_zns: str) -> None:
    disk = zoned_disk(small_zns, zones=8)
    with disk.connect() as nbd:
        assert (nbd.size, nbd.block_size) == (disk.size, BLOCK)
        nbd.write(0, pattern(1), fua=True)
        assert nbd.write_all([(BLOCK, pattern(2)), (2 * BLOCK, pattern(3))]) == [None, None]
        nbd.flush()
        assert nbd.read(0, 4 * BLOCK) == pattern(1) + pattern(2) + pattern(3) + bytes(BLOCK)
        assert [(each.offset, each.length, each.hole) for each in nbd.block_status()] == [
            (0, 3 * BLOCK, False),
            (3 * BLOCK, disk.size - 3 * BLOCK, True),
        ]
        failed, done = nbd.write_all([(0, pattern(9)), (3 * BLOCK, pattern(4))])
        assert failed and failed.errno == 5 and done is None
        with pytest.raises(NbdError) as small:
            nbd.read(1, 5)
        assert small.value.errno == 22
        assert nbd.read(3 * BLOCK, BLOCK) == pattern(4), "and the connection is as good as before"


# Elements of four bytes, also in a format that `memoryview.cast` does not know.
WORDS = array("I", range(BLOCK // 4))
BIG_ENDIAN = (c_uint32.__ctype_be__ * (BLOCK // 4))(*range(BLOCK // 4))


@pytest.mark.parametrize("data", [WORDS, memoryview(WORDS), bytearray(WORDS.tobytes()), BIG_ENDIAN, memoryview(pattern(1) * 2)[::2]])
def test_write_sends_all_bytes_of_any_buffer(zoned_disk: MakeDisk, small_zns: str, data: "ReadableBuffer") -> None:
    with zoned_disk(small_zns, zones=8).connect() as nbd:
        nbd.write(0, data)
        nbd.write(BLOCK, pattern(2))
        assert nbd.read(0, 2 * BLOCK) == memoryview(data).tobytes() + pattern(2)


def test_wrong_arguments_leave_the_connection_usable(block_disk: MakeDisk) -> None:
    wrong: list[tuple[Callable[[Nbd], object], type[Exception], str]] = [
        (lambda nbd: nbd.write(0, "x" * BLOCK), TypeError, "data must be a bytes-like object, not str: pass data.encode"),  # type: ignore[arg-type]
        (lambda nbd: nbd.write(0, [1, 2]), TypeError, "data must be a bytes-like object, not list"),  # type: ignore[arg-type]
        (lambda nbd: nbd.write_all([(0, pattern(7)), (BLOCK, "x")]), TypeError, "not str"),  # type: ignore[list-item]
        (lambda nbd: nbd.write_all([(0, pattern(7)), (-BLOCK, pattern(7))]), ValueError, "write: offset must be 0 to [0-9]+ bytes, not -4096"),
        (lambda nbd: nbd.write(0, bytes(nbd.max_bytes * 2 + BLOCK)), NbdError, "at most [0-9]+ bytes; split it"),
        (lambda nbd: nbd.write(1 << 64, pattern(7)), ValueError, "offset"),
        (lambda nbd: nbd.read(0.5, BLOCK), TypeError, "offset must be a whole number of bytes, not float"),  # type: ignore[arg-type]
        (lambda nbd: nbd.read(0, -1), ValueError, "read: length must be 0 to 4294967295 bytes, not -1"),
        (lambda nbd: nbd.trim(0, 1 << 32), ValueError, "trim: length"),
        (lambda nbd: nbd.trim(-1, BLOCK), ValueError, "trim: offset"),
        (lambda nbd: nbd.write_zeroes(0, -1), ValueError, "write of zeroes: length"),
        (lambda nbd: nbd.block_status(0, -1), ValueError, "length"),
    ]
    with block_disk("ssd-500gb", target=None).connect() as nbd:
        for call, kind, words in wrong:
            with pytest.raises(kind, match=words):
                call(nbd)
            nbd.write(0, pattern(3))
            assert nbd.read(0, 2 * BLOCK) == pattern(3) + bytes(BLOCK)


def test_many_writes_at_once_do_not_fill_the_socket_with_replies(block_disk: MakeDisk) -> None:
    writes = [(number * BLOCK, pattern(number)) for number in range(5000)]
    with block_disk("ssd-500gb", target=None).connect() as nbd:
        assert nbd.write_all(writes + [(1, b"x")])[:-1] == [None] * 5000
        assert nbd.read(0, 5000 * BLOCK) == b"".join(data for _, data in writes)


def test_a_violation_names_the_log_that_has_the_reason(zoned_disk: MakeDisk, small_zns: str) -> None:
    disk = zoned_disk(small_zns, zones=8)
    with disk.connect() as nbd:
        nbd._socket.sendall(bytes(28))
        with pytest.raises(ConnectionResetError, match="closed the connection; the log of the daemon has the reason"):
            nbd.read(0, BLOCK)
        with pytest.raises(ConnectionError, match="closed: .*the log of the daemon.*; connect again"):
            nbd.read(0, BLOCK)
    # The server hangs up before it writes to its log.
    assert eventually(lambda: "where a request should begin" in disk.log())
    with disk.connect() as nbd:
        nbd.write(0, pattern(1))


def test_a_reply_that_was_not_awaited_is_not_read_as_another(block_disk: MakeDisk) -> None:
    disk = block_disk("ssd-500gb", target=None)
    with disk.connect() as nbd, disk.fail("delay", op="read", time="1s"):
        nbd._socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            nbd.read(0, BLOCK)
        with pytest.raises(ConnectionError, match="closed: timed out; connect again"):
            nbd.flush()


def test_a_volume_is_zeroed_and_trimmed(block_disk: MakeDisk, small_zns: str) -> None:
    with block_disk(small_zns, zones=64).connect() as nbd:
        nbd.write(0, pattern(1) * 4)
        nbd.trim(0, BLOCK)
        nbd.write_zeroes(BLOCK, BLOCK, fua=True)
        assert nbd.read(0, 4 * BLOCK) == bytes(2 * BLOCK) + pattern(1) * 2
        assert [each.hole for each in nbd.block_status(0, 4 * BLOCK)] == [True, False]


def test_a_cut_keeps_what_was_flushed_and_a_prefix_of_the_rest(zoned_disk: MakeDisk, small_zns: str) -> None:
    disk = zoned_disk(small_zns, zones=8)
    kept = []
    with disk.connect() as nbd:
        for zone in disk.zones()[:4]:
            for block in range(12):
                nbd.write(zone.start + block * BLOCK, pattern(block))
                if block == 3:
                    nbd.flush()
            disk.cut_power()
            with pytest.raises(NbdError, match="lost its power"):
                nbd.read(0, BLOCK)
            with pytest.raises(ControlError, match="no power"):
                disk.cut_power()
            disk.power_on()
            pointer = disk.zones()[zone.number].write_pointer
            assert pointer is not None
            blocks = (pointer - zone.start) // BLOCK
            assert nbd.read(zone.start, blocks * BLOCK) == b"".join(map(pattern, range(blocks)))
            kept.append(blocks)
    assert all(4 <= blocks <= 12 for blocks in kept) and min(kept) < 12, kept


def test_the_same_seed_loses_the_same(small_zns: str) -> None:
    def kept(seed: int) -> list[int | None]:
        with new_zoned_disk(small_zns, zones=4, seed=seed) as disk:
            with disk.connect() as nbd:
                for zone in disk.zones():
                    for block in range(12):
                        nbd.write(zone.start + block * BLOCK, pattern(block))
            disk.cut_power()
            disk.power_on()
            return [zone.write_pointer for zone in disk.zones()]

    again = {seed: kept(seed) for seed in range(1, 4)}
    assert again == {seed: kept(seed) for seed in range(1, 4)}
    assert len({tuple(each) for each in again.values()}) > 1, "and others lose something else"


def test_faults_come_as_rules_say_and_end(zoned_disk: MakeDisk, small_zns: str) -> None:
    disk = zoned_disk(small_zns, zones=8)
    with disk.connect() as nbd:
        nbd.write(0, pattern(1) * 4)
        with disk.fail("error", op="read", at=(BLOCK, 2 * BLOCK), status="medium"):
            assert nbd.read(0, BLOCK) == pattern(1)
            with pytest.raises(NbdError):
                nbd.read(BLOCK, BLOCK)
            disk.fail("error", op="write", count=1)
            with pytest.raises(NbdError):
                nbd.write(4 * BLOCK, pattern(2))
            nbd.write(4 * BLOCK, pattern(2))
        assert nbd.read(BLOCK, BLOCK) == pattern(1)
        with pytest.raises(ControlError, match="nonsense"):
            disk.fail("nonsense")
        with disk.fail("error", op="flush"), pytest.raises(NbdError):
            nbd.flush()
        disk.swap("0 {sectors} error drive 0")
        with pytest.raises(NbdError):
            nbd.read(0, BLOCK)
        disk.heal()
        assert nbd.read(0, BLOCK) == pattern(1)


def test_a_recording_has_what_reached_the_drive(block_disk: MakeDisk, small_zns: str) -> None:
    disk = block_disk(small_zns, zones=64)
    with disk.connect() as nbd:
        nbd.write(0, pattern(1))
        with disk.trace() as trace:
            nbd.write(BLOCK, pattern(2), fua=True)
            assert [event.op for event in trace.read() if event.device == "volume" and event.action == "Q"] == ["write"]
            nbd.flush()
        with disk.trace("drive") as other:
            nbd.read(0, BLOCK)
    assert trace.lost == 0 and [(e.op, e.sector, e.fua) for e in trace.on("volume", "Q")] == [("write", 8, True), ("flush", 0, False)]
    assert any(event.op == "write" and event.sectors >= 8 for event in trace.on("drive/disk"))
    assert [event.time_ns for event in trace.events] == sorted(event.time_ns for event in trace.events)
    assert {event.op for event in other.on("drive")} == {"read"}


@pytest.mark.parametrize("target", ["stl", "zoned"])
def test_a_volume_survives_cuts(block_disk: MakeDisk, small_smr: str, target: str) -> None:
    disk = block_disk(small_smr, target=target, zones=48)
    with disk.connect() as nbd:
        for cut in range(3):
            nbd.write(cut * 8 * BLOCK, pattern(cut) * 8)
            nbd.flush()
            nbd.write(100 * BLOCK, pattern(cut) * 8)
            disk.cut_power()
            with pytest.raises(NbdError):
                nbd.read(0, BLOCK)
            disk.power_on()
            assert nbd.read(0, (cut + 1) * 8 * BLOCK) == b"".join(pattern(each) * 8 for each in range(cut + 1))


def test_a_drive_without_zones(block_disk: MakeDisk) -> None:
    disk = block_disk("ssd-500gb", target=None)
    assert disk.zones() == []
    with disk.connect() as nbd:
        nbd.write(5 * BLOCK, pattern(5))
        nbd.flush()
        disk.cut_power()
        disk.power_on()
        assert nbd.read(5 * BLOCK, BLOCK) == pattern(5)
    with pytest.raises(ValueError, match="no zones"):
        block_disk("ssd-500gb", target="stl", size=1 << 30)


def test_what_cannot_be_is_told_in_the_words_of_the_program(zoned_disk: MakeDisk, block_disk: MakeDisk, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="zns-2tbb"):
        zoned_disk("zns-2tbb")
    with pytest.raises(StartError, match="not both"):
        zoned_disk(zones=4, size=4 << 30)
    with pytest.raises(StartError, match="profile.*cannot be used|cannot be used"):
        zoned_disk('a "strange"\nname')
    with pytest.raises(FormatError, match="give the drive more zones"):
        block_disk(zones=4)
    if not Path("/dev/ublk-control").exists():
        with pytest.raises(ControlError, match="ublk"):
            zoned_disk(zones=4, block_device=True)


def test_nothing_is_left_of_a_disk(small_zns: str) -> None:
    with new_block_disk(small_zns, zones=64) as disk, disk.connect() as nbd:
        folder, pid = disk.socket.parent, disk.daemon.pid
        nbd.write(0, pattern(1))
    assert not folder.exists() and not Path(f"/proc/{pid}").exists()
    disk.close()
    assert "export.add" in disk.log(), "what it said is kept"


def test_a_daemon_that_ends_by_itself_is_an_error(small_zns: str) -> None:
    disk = new_zoned_disk(small_zns, zones=8)
    subprocess.run(["kill", "-KILL", str(disk.daemon.pid)], check=True)
    disk.daemon._child.wait(10)
    with pytest.raises(StartError, match="by itself with -9"):
        disk.close()
