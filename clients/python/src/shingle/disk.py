"""A simulated drive that is really there, with a daemon of its own.

    users ── NBD socket or block device ──> `volume`, if there is a target ──> `media`, where faults are ──> `drive`
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic as time_now
from time import sleep
from types import TracebackType
from typing import NamedTuple
from urllib.parse import quote

from . import program as programs
from . import sockets
from .control import Control, ControlError
from .daemon import Daemon, StartError
from .nbd import Nbd
from .trace import Recording
from .volume import Geometry, Target, template

SECTOR = 512
# Drives of so many zones hold a small volume. dm-zoned wants three that take random writes, which are a hundredth of an SMR disk.
VOLUME_ZONES = {"stl": 24, "zoned": 320}
GOODBYE_S = 10.0
BLOCK_DEVICE_DRIVER = Path("/dev/ublk-control")
# A drive that loses unflushed writes at a power cut: one with capacitors hides a missing flush.
DEFAULT_ZONED = "zns-1tb-volatile"
# Sockets in the directory of a disk.
NBD, CONTROL = "nbd.sock", "control.sock"

STACK = f"""\
[disk.drive]
type = "profile"
profile = {{profile}}
seed = {{seed}}
{{keys}}
[listen]
unix = "{NBD}"

[control]
socket = "{CONTROL}"
"""


class Zone(NamedTuple):
    """A zone of the drive, in bytes."""

    number: int
    start: int
    size: int
    capacity: int
    write_pointer: int | None
    """Where the next write goes; `None` where the condition has none."""
    sequential: bool
    condition: str
    """`not-wp`, `empty`, `imp-open`, `exp-open`, `closed`, `read-only`, `full` or `offline`."""


def quoted(text: str) -> str:
    """As TOML has strings."""
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'


class Disk:
    """A simulated drive. `zoned_disk` and `block_disk` make one."""

    EXPORT = "disk"

    def __init__(
        self,
        profile: str = DEFAULT_ZONED,
        *,
        target: Target | None = None,
        zones: int | None = None,
        size: int | None = None,
        max_open: int | None = None,
        max_active: int | None = None,
        memory: int | str | None = None,
        seed: int = 1,
        policy: str | None = None,
        block_device: bool | None = None,
    ) -> None:
        """`size` is in bytes. `block_device`: `True` demands one, `False` does without, `None` takes one where root and ublk are."""
        if target is not None and zones is None and size is None:
            zones = VOLUME_ZONES[target]
        if Path(profile).exists():
            profile = str(Path(profile).absolute())
        keys = {"zones": zones, "size": size, "max-open": max_open, "max-active": max_active, "memory": memory, "policy": policy}
        lines = [f"{key} = {quoted(v) if isinstance(v, str) else int(v)}\n" for key, v in keys.items() if v is not None]
        self.program = programs.find()
        self.profile, self.target, self.seed = profile, target, seed
        self.path: str | None = None
        """The block device, if there is one."""
        self._faults: list[str] = []
        self._folder = sockets.make_directory("shingle-", CONTROL)
        try:
            stack = STACK.format(profile=quoted(profile), seed=seed % (1 << 32), keys="".join(lines))
            (self._folder / "stack.toml").write_text(stack)
            self.daemon = Daemon(self.program, self._folder)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        try:
            self.control = Control(self._folder / CONTROL)
            self._build(block_device)
        except BaseException:
            self.daemon.killed = True
            self.close()
            raise

    # What it is.

    @property
    def socket(self) -> Path:
        """The unix socket of its NBD server."""
        return self._folder / NBD

    @property
    def uri(self) -> str:
        """It as NBD clients name it."""
        return f"nbd+unix:///{self.EXPORT}?socket={quote(str(self.socket))}"

    @property
    def size(self) -> int:
        """What its users see, in bytes."""
        return self._sectors * SECTOR

    def connect(self) -> Nbd:
        """A new NBD connection to it."""
        return Nbd(self.socket, self.EXPORT)

    def log(self) -> str:
        """What the daemon has said, also when it is closed."""
        return self.daemon.log()

    def __repr__(self) -> str:
        over = f"{self.target} over " if self.target else ""
        return f"<{over}{self.profile}, seed {self.seed}, {self.path or self.uri}>"

    # Zones.

    def zones(self) -> list[Zone]:
        """All zones of the drive, also of one below a volume; none if it has no zones."""
        if not self._zoned:
            return []
        found: list[Zone] = []
        start: int | None = 0
        while start is not None:
            answer = self.control.zones_report("media", start=start)
            for zone in answer["zones"]:
                pointer = zone.get("wp")
                at, size, capacity = (sectors * SECTOR for sectors in (zone["start"], zone["len"], zone["capacity"]))
                wp = None if pointer is None else pointer * SECTOR
                found.append(Zone(len(found), at, size, capacity, wp, zone["type_code"] != 1, zone["cond"]))
            start = answer.get("next")
        return found

    def reset(self, zone: Zone | None = None) -> None:
        """Makes a zone empty, or all that are sequential."""
        self.control.zones_reset("media", force=True, **self._range(zone))

    def finish(self, zone: Zone | None = None) -> None:
        """Makes a zone full, or all."""
        self.control.zones_finish("media", force=True, **self._range(zone))

    def open(self, zone: Zone) -> None:
        """Opens a zone explicitly."""
        self.control.zones_open("media", force=True, **self._range(zone))

    def close_zone(self, zone: Zone) -> None:
        """Closes an open zone."""
        self.control.zones_close("media", force=True, **self._range(zone))

    # What goes wrong.

    def cut_power(self) -> None:
        """Cuts the power: requests in flight fail, unflushed writes may be lost, and all requests fail until `power_on`.

        A drive with capacitors, such as `zns-1tb`, keeps acknowledged writes. `shingle profile list` says which drives do.
        """
        self.control.power_cut("drive")

    def power_on(self) -> None:
        """Gives it back. A volume starts again from what is on the drive, as after any loss of power."""
        if self._volume:
            # While nothing works: what it has in memory must not get to the drive any more.
            self.control.dm_wipe_table("volume", noflush=True)
        self.control.power_on("drive")
        if self._volume:
            self.control.dm_load("volume", self._volume)
            self.control.dm_resume("volume")

    def fail(
        self,
        what: str = "error",
        *,
        op: str | None = None,
        at: tuple[int, int] | None = None,
        rate: str | None = None,
        skip: int | None = None,
        count: int | None = None,
        window: str | None = None,
        status: str | None = None,
        time: str | None = None,
        timeout: str | None = None,
    ) -> "Faults":
        """Has requests to the drive fail from now on, until `heal()` or the end of a `with` over what this returns.

        `what` is `error`, `error-after`, `delay` or `lose`; the rest are the keys of a rule (docs/stack-file.md), but `at`: the
        first byte and the one after the last. Rules are tried in the order in which they came.
        """
        sectors = None if at is None else f"{at[0] // SECTOR}-{(at[1] - 1) // SECTOR}"
        keys = {"op": op, "at": sectors, "rate": rate, "skip": skip, "count": count}
        keys |= {"window": window, "status": status, "time": time, "timeout": timeout}
        self._faults.append(",".join([what, *(f"{key}={value}" for key, value in keys.items() if value is not None)]))
        try:
            self._swap_faults()
        except ControlError:
            self._faults.pop()
            raise
        return Faults(self)

    def heal(self) -> None:
        """Ends all faults."""
        self._faults.clear()
        self._swap_faults()

    def swap(self, table: str) -> None:
        """Puts another table between the drive and its users: `0 {sectors} flakey drive 0 10 5`, with the drive's size as `{sectors}`."""
        self.control.dm_load("media", table.format(sectors=self._drive_sectors))
        self.control.dm_resume("media")

    # What happens.

    @contextmanager
    def trace(self, device: str | None = None) -> "Iterator[Recording]":
        """Records what reaches `drive`, `media`, `volume`, or all of them; `drive/disk` is the drive below the plug that orders writes."""
        with Control(self._folder / CONTROL) as control, Recording(control, device) as recording:
            yield recording

    # The end.

    def close(self) -> None:
        """Stops the daemon and forgets the data. An error if it had ended by itself."""
        code = self.daemon.ended
        expected, self.daemon.killed = self.daemon.killed, True
        if hasattr(self, "control"):
            self.control.close()
        # A block device is of the kernel, and has to be taken from it; all else is the daemon's memory.
        self.daemon.stop(cleanly=self.path is not None)
        shutil.rmtree(self._folder, ignore_errors=True)
        if code is not None and not expected:
            raise StartError(f"the daemon of {self!r} ended by itself with {code}. It said:\n{self.log()}")

    def __enter__(self) -> "Disk":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # How it is built.

    def _build(self, block_device: bool | None) -> None:
        (drive,) = self.control.status()["devices"]
        self._zoned = drive.get("zoned")
        self._sectors = self._drive_sectors = drive["bytes"] // SECTOR
        self.control.dm_create("media", table=self._media())
        self._volume = self._format(drive["block_bytes"], self.target) if self.target else None
        if self._volume:
            self.control.dm_create("volume", table=self._volume)
        wanted = os.geteuid() == 0 and BLOCK_DEVICE_DRIVER.exists() if block_device is None else block_device
        keys = {"ublk": True} if wanted else {}
        device = "volume" if self._volume else "media"
        self.path = self.control.export_add(self.EXPORT, device, keys=keys).get("path")

    def _format(self, block_size: int, target: Target) -> str:
        """Writes an empty volume to the drive; returns its table."""
        if not self._zoned:
            raise ValueError(f"profile {self.profile} has no zones: it is an ordinary disk without a target")
        zones = self.zones()
        conventional = sum(not zone.sequential for zone in zones)
        last = zones[-1]
        geometry = Geometry(self._drive_sectors * SECTOR, zones[0].size, last.capacity, conventional, block_size)
        made = template(self.program, target, geometry)
        self.control.export_add("format", "media")
        with Nbd(self.socket, "format") as drive:
            for offset, data in made.parts:
                drive.write(offset, data)
            drive.flush()
        self._end_export("format")
        self._sectors = made.sectors
        return f"0 {made.sectors} {target} media"

    def _end_export(self, name: str) -> None:
        """The server hears of a goodbye a moment after it was said."""
        end = time_now() + GOODBYE_S
        while True:
            try:
                self.control.export_remove(name)
                return
            except ControlError as error:
                if error.kind != "busy" or time_now() > end:
                    raise
                sleep(0.005)

    def _media(self) -> str:
        if not self._faults:
            return f"0 {self._drive_sectors} linear drive 0"
        return f"0 {self._drive_sectors} faulty drive 0 seed={self.seed % (1 << 32)} {' '.join(self._faults)}"

    def _swap_faults(self) -> None:
        self.swap(self._media())

    def _range(self, zone: Zone | None) -> dict[str, int]:
        return {} if zone is None else {"start": zone.start // SECTOR, "length": zone.size // SECTOR}


class Faults:
    """Faults that end with a `with`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __enter__(self) -> Disk:
        return self._disk

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._disk.daemon.ended is None:
            self._disk.heal()


def zoned_disk(
    profile: str = DEFAULT_ZONED,
    *,
    zones: int | None = None,
    size: int | None = None,
    max_open: int | None = None,
    max_active: int | None = None,
    memory: int | str | None = None,
    seed: int = 1,
    policy: str | None = None,
    block_device: bool | None = None,
) -> Disk:
    """Makes a zoned drive. That of the default profile loses unflushed writes at a power cut; `shingle profile list` shows which drives do."""
    return Disk(
        profile, zones=zones, size=size, max_open=max_open, max_active=max_active, memory=memory, seed=seed, policy=policy,
        block_device=block_device,
    )  # fmt: skip


def block_disk(
    profile: str = "smr-14tb",
    *,
    target: Target | None = "stl",
    zones: int | None = None,
    size: int | None = None,
    memory: int | str | None = None,
    seed: int = 1,
    policy: str | None = None,
    block_device: bool | None = None,
) -> Disk:
    """An ordinary disk: a volume of `stl` or dm-zoned (`target="zoned"`) over a zoned drive, or a drive that has no zones (`target=None`)."""
    return Disk(profile, target=target, zones=zones, size=size, memory=memory, seed=seed, policy=policy, block_device=block_device)
