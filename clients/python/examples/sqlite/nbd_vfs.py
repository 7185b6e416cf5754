"""Files of SQLite on an NBD export, without a file system: an apsw VFS.

The export has a slot for each file: a block with its length and a checksum, then its bytes. A write goes to the export at once, and
is durable after xSync, as on any disk with a write cache. Of what is read a copy stays in memory, as in a page cache.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import apsw

BLOCK = 4096
HEAD = struct.Struct("<4sQ")
MAGIC = b"file"
SUFFIXES = ["", "-journal"]


class Export(Protocol):
    """What the files lie on."""

    size: int

    def read(self, offset: int, length: int) -> bytes: ...
    def write(self, offset: int, data: bytes) -> None: ...
    def flush(self) -> None: ...


@contextmanager
def errors_as_apsw_has_them() -> Iterator[None]:
    """What SQLite is to see as an I/O error."""
    try:
        yield
    except OSError as error:
        raise apsw.IOError(str(error)) from error


class Slot:
    """A place for a file. A file of no length is one that is not there, unless it is open."""

    def __init__(self, export: Export, start: int, room: int) -> None:
        self.export, self.start, self.room = export, start, room
        head = export.read(start, BLOCK)
        magic, length = HEAD.unpack_from(head)
        known = magic == MAGIC and head[HEAD.size : HEAD.size + 4] == checksum(head[: HEAD.size])
        self.length: int = length if known else 0
        self.data = bytearray(export.read(start + BLOCK, rounded(self.length))) if self.length else bytearray()

    def write(self, offset: int, data: bytes) -> None:
        """Writes the blocks that this touches, then the length if it is another."""
        end = offset + len(data)
        if end > self.room - BLOCK:
            raise apsw.FullError(f"a file has {self.room - BLOCK} bytes at most")
        self.data.extend(bytes(max(rounded(end) - len(self.data), 0)))
        self.data[offset:end] = data
        first, last = offset // BLOCK * BLOCK, rounded(end)
        self._write(BLOCK + first, bytes(self.data[first:last]))
        if end > self.length:
            self.resize(end)

    def resize(self, length: int) -> None:
        """Tells the export how long it is."""
        self.length = length
        head = HEAD.pack(MAGIC, length)
        self._write(0, (head + checksum(head)).ljust(BLOCK, b"\0"))
        del self.data[rounded(length) :]
        self.data[length:] = bytes(len(self.data) - length)

    def sync(self) -> None:
        """Makes it durable."""
        with errors_as_apsw_has_them():
            self.export.flush()

    def _write(self, offset: int, data: bytes) -> None:
        with errors_as_apsw_has_them():
            self.export.write(self.start + offset, data)


class NbdVfs(apsw.VFS):
    """The files of one database, by the name of the VFS."""

    def __init__(self, name: str, export: Export) -> None:
        room = export.size // len(SUFFIXES) // BLOCK * BLOCK
        self.slots = {suffix: Slot(export, room * number, room) for number, suffix in enumerate(SUFFIXES)}
        super().__init__(name, "")

    def slot(self, path: str | None) -> Slot:
        """That of a file, by what its name ends with."""
        suffix = path[path.rindex("/db") + 3 :] if path and "/db" in path else "?"
        if suffix not in self.slots:
            raise apsw.CantOpenError(f"there is no place for a file {path}")
        return self.slots[suffix]

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "NbdFile":  # type: ignore[override]  # apsw takes all that has the methods
        flags[1] = flags[0]
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return NbdFile(self.slot(path))

    def xAccess(self, pathname: str, flags: int) -> bool:
        try:
            return self.slot(pathname).length > 0
        except apsw.CantOpenError:
            return False

    def xDelete(self, filename: str, syncdir: bool) -> None:
        slot = self.slot(filename)
        slot.resize(0)
        if syncdir:
            slot.sync()

    def xFullPathname(self, name: str) -> str:
        return f"/{name}"


class NbdFile:
    """An open file."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.level = 0

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self.slot.data[offset : min(offset + amount, self.slot.length)])

    def xWrite(self, data: bytes, offset: int) -> None:
        self.slot.write(offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        self.slot.resize(newsize)

    def xSync(self, flags: int) -> None:
        self.slot.sync()

    def xFileSize(self) -> int:
        return self.slot.length

    # One connection at a time uses a database here.
    def xLock(self, level: int) -> None:
        self.level = level

    def xUnlock(self, level: int) -> None:
        self.level = level

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return BLOCK

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xClose(self) -> None:
        pass


def rounded(length: int) -> int:
    """Up to whole blocks."""
    return -(-length // BLOCK) * BLOCK


def checksum(data: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(data))
