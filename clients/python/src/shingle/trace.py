"""Recordings of what the layers of a stack are asked to do (docs/trace-format.md)."""

import struct
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from .control import Control
from .protocol import RecordedDevice

EVENT = struct.Struct("<QQIIHBBBBBB")
OPERATIONS = [
    "read", "write", "append", "write-zeroes", "discard", "flush", "report", "open", "close", "finish", "reset", "reset-all",
]  # fmt: skip
FUA, PREFLUSH = 1, 2


class Event(NamedTuple):
    """A hop of a request."""

    time_ns: int
    """Since the recording began."""
    device: str
    action: str
    """`Q` queued, `D` reached the device, `A` passed on for good, `M` merged, `X` split, `C` ended; `L`: `sector` events are lost."""
    op: str
    sector: int
    sectors: int
    bio: int
    fua: bool
    preflush: bool
    outcome: int
    """Of a `C`: 0 if it went well."""
    last: bool
    """The `C` with which its submitter has it back."""


class Recording:
    """A recording that runs while it is used in `with`. Afterwards `events` has all of it."""

    def __init__(self, control: Control, device: str | None = None) -> None:
        self.events: list[Event] = []
        self.lost = 0
        self._control = control
        self._devices: list[RecordedDevice] = control.trace_start(device=device)["devices"]

    def read(self) -> list[Event]:
        """What has happened since the last time; `events` has it as well."""
        found: list[Event] = []
        more = True
        while more:
            batch = self._control.trace_read()
            found += self._decoded(bytes.fromhex(batch["data"]))
            self.lost += batch["lost"]
            more = batch["more"]
        self.events += found
        return found

    def on(self, device: str, action: str = "D") -> list[Event]:
        """The events of one device with this letter: what reached it, if nothing else is said."""
        return [event for event in self.events if (event.device, event.action) == (device, action)]

    def close(self) -> None:
        """Reads the rest, and ends."""
        try:
            self.read()
            self._control.trace_stop()
        finally:
            self._control.close()

    def _decoded(self, data: bytes) -> Iterator[Event]:
        for time, sector, sectors, bio, device, letter, op, flags, outcome, _, last in EVENT.iter_unpack(data):
            action = chr(letter)
            # That events are missing is told of a shard, not of a device.
            name = "" if action == "L" else self._devices[device]["name"]
            kind = "" if action == "L" else OPERATIONS[op]
            yield Event(
                time, name, action, kind, sector, sectors, bio, flags & FUA != 0, flags & PREFLUSH != 0, outcome, last == 1
            )

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
