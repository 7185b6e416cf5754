"""A small log-structured store on a zoned drive: what is put goes to the end of the log, and is durable when `put` returns.

    a record is a block:  magic, crc32, number of the record, length of the key, length of the value, key, value

Zones are filled one after the other. One is always kept empty: when it has to be taken, the live records of the zone with fewest
of them are copied to it, and that zone is reset.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol, Self

from shingle import Zone

BLOCK = 4096
HEAD = struct.Struct("<QHH")
MAGIC = b"log1"


class Drive(Protocol):
    """What the store asks of a drive."""

    def read(self, offset: int, length: int) -> bytes: ...
    def write(self, offset: int, data: bytes) -> None: ...
    def flush(self) -> None: ...
    def zones(self) -> list[Zone]: ...
    def reset(self, zone: Zone) -> None: ...


class Full(Exception):
    """There is no room for another key."""


class Record(NamedTuple):
    """What is in a block."""

    number: int
    key: bytes
    value: bytes


class LogStore:
    """Keys and values on a drive. Opening it finds what is there."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.zones = [zone for zone in drive.zones() if zone.sequential]
        self.heads = [self._head(zone) for zone in self.zones]
        for index in range(len(self.zones)):
            self._fill_torn_block(index)
        # Of each key the zone and the place of its newest record.
        found = sorted(each for index in range(len(self.zones)) for each in self._scan(index))
        self.places: dict[bytes, tuple[int, int]] = {record.key: (index, at) for record, index, at in found}
        self.number, self.current = (found[-1][0].number, found[-1][1]) if found else (0, 0)
        if found and not self._empty():
            # The power went between the copies and the reset.
            self._clean()

    def get(self, key: bytes) -> bytes | None:
        """The value, if there is one."""
        if key not in self.places:
            return None
        record = parsed(self.drive.read(self.places[key][1], BLOCK))
        if record is None or record.key != key:
            raise LookupError(f"the record of {key!r} is not where it was")
        return record.value

    def put(self, key: bytes, value: bytes) -> None:
        """Durable when it returns."""
        if self._room() == 0:
            self._next_zone()
        self._append(key, value)
        self.commit()

    def reopened(self) -> Self:
        """The store after a loss of power."""
        return type(self)(self.drive)

    def commit(self) -> None:
        """Makes what was appended durable."""
        self.drive.flush()

    def before_reset(self) -> None:
        """Copies have to be durable before what they are copies of is gone."""
        self.drive.flush()

    def _head(self, zone: Zone) -> int:
        return zone.start + zone.capacity if zone.write_pointer is None else zone.write_pointer

    def _fill_torn_block(self, index: int) -> None:
        """A drive with smaller blocks may keep a part of a record. The next record begins at a whole block nevertheless."""
        torn = (self.heads[index] - self.zones[index].start) % BLOCK
        if torn:
            self.drive.write(self.heads[index], bytes(BLOCK - torn))
            self.heads[index] += BLOCK - torn

    def _scan(self, index: int) -> Iterator[tuple[Record, int, int]]:
        """The records of a zone, and where they are."""
        start, end = self.zones[index].start, self.heads[index]
        data = self.drive.read(start, end - start) if end > start else b""
        for offset in range(0, end - start, BLOCK):
            if record := parsed(data[offset : offset + BLOCK]):
                yield record, index, start + offset

    def _room(self) -> int:
        zone = self.zones[self.current]
        return (zone.start + zone.capacity - self.heads[self.current]) // BLOCK

    def _empty(self) -> list[int]:
        return [index for index, zone in enumerate(self.zones) if self.heads[index] == zone.start]

    def _next_zone(self) -> None:
        empty = self._empty()
        if not empty:
            raise Full
        self.current = empty[0]
        if len(empty) == 1:
            self._clean()

    def _clean(self) -> None:
        live: dict[int, list[bytes]] = {index: [] for index in range(len(self.zones)) if index != self.current}
        for key, (index, _) in self.places.items():
            if index != self.current:
                live[index].append(key)
        victim = min(live, key=lambda index: len(live[index]))
        # One record at least has to fit behind the copies.
        if len(live[victim]) >= self._room():
            raise Full
        for key in live[victim]:
            value = self.get(key)
            assert value is not None
            self._append(key, value)
        self.before_reset()
        self.drive.reset(self.zones[victim])
        self.heads[victim] = self.zones[victim].start

    def _append(self, key: bytes, value: bytes) -> None:
        self.number += 1
        body = HEAD.pack(self.number, len(key), len(value)) + key + value
        at = self.heads[self.current]
        self.drive.write(at, (MAGIC + struct.pack("<I", zlib.crc32(body)) + body).ljust(BLOCK, b"\0"))
        self.heads[self.current] = at + BLOCK
        self.places[key] = (self.current, at)


def parsed(block: bytes) -> Record | None:
    """The record in a block, if there is one."""
    number, key, value = HEAD.unpack_from(block, 8)
    end = 8 + HEAD.size + key + value
    if block[:4] != MAGIC or end > BLOCK or struct.unpack_from("<I", block, 4) != (zlib.crc32(block[8:end]),):
        return None
    middle = 8 + HEAD.size + key
    return Record(number, block[8 + HEAD.size : middle], block[middle:end])
