"""A client of NBD exports (nbd/doc/proto.md), as far as `shingle up` speaks it, with unix sockets."""

import errno
import os
import socket
import struct
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS = 0, 1, 2, 3, 4, 6, 7
FUA, NO_HOLE, ONE_EXTENT, FAST = 1, 2, 8, 16
OPTION_ABORT, OPTION_GO, OPTION_STRUCTURED, OPTION_META_CONTEXT = 2, 7, 8, 10
REPLY_ACK, REPLY_INFO, REPLY_META_CONTEXT = 1, 3, 4
INFO_EXPORT, INFO_BLOCK_SIZE = 0, 3
CHUNK_DATA, CHUNK_HOLE, CHUNK_STATUS, CHUNK_ERROR = 1, 2, 5, 1 << 15
CONTEXT = b"base:allocation"
NAMES = {READ: "read", WRITE: "write", FLUSH: "flush", TRIM: "trim", WRITE_ZEROES: "write of zeroes", BLOCK_STATUS: "question about holes"}


class NbdError(OSError):
    """A request that the server failed: `errno` is what it said."""


class Extent(NamedTuple):
    """A part of an export that is of one kind."""

    offset: int
    length: int
    hole: bool
    """Nothing was written there: on a zoned disk it is behind the write pointer."""


class Nbd:
    """A connection to an export. Any thread may use it; requests are done one after the other."""

    def __init__(self, path: "str | os.PathLike[str]", export: str, timeout: float = 60.0) -> None:
        self.export = export
        self.size = self.flags = 0
        self.block_size = 1
        self.max_bytes = 32 << 20
        self._handle = 0
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(os.fspath(path))
            self._shake_hands()
        except BaseException:
            self._socket.close()
            raise

    def read(self, offset: int, length: int) -> bytes:
        """Reads."""
        with self._lock:
            return self._read(self._send(READ, offset, length), offset, length)

    def write(self, offset: int, data: "bytes | bytearray | memoryview", *, fua: bool = False) -> None:
        """Writes; with `fua` it is durable when this returns."""
        (error,) = self.write_all([(offset, data)], fua=fua)
        if error:
            raise error

    def write_all(self, writes: "Sequence[tuple[int, bytes | bytearray | memoryview]]", *, fua: bool = False) -> list[NbdError | None]:
        """Sends several writes at once, and returns how each of them ended. The server may carry them out in any order."""
        with self._lock:
            handles = [self._send(WRITE, offset, len(data), FUA * fua, data) for offset, data in writes]
            ended = dict(self._reply(READ, 0, 0)[:2] for _ in handles)
            return [
                None if ended[handle] is None else self._error(WRITE, offset, len(data), *ended[handle])  # type: ignore[misc]
                for handle, (offset, data) in zip(handles, writes)
            ]

    def flush(self) -> None:
        """Makes all that was acknowledged durable."""
        self._simple(FLUSH, 0, 0)

    def trim(self, offset: int, length: int, *, fua: bool = False) -> None:
        """Says that a range is not needed any more."""
        self._simple(TRIM, offset, length, FUA * fua)

    def write_zeroes(self, offset: int, length: int, *, fua: bool = False, no_hole: bool = False, fast: bool = False) -> None:
        """Makes a range read as zeroes; with `no_hole` space stays taken, with `fast` it fails if it would take as long as a write."""
        self._simple(WRITE_ZEROES, offset, length, FUA * fua | NO_HOLE * no_hole | FAST * fast)

    def block_status(self, offset: int = 0, length: int | None = None) -> list[Extent]:
        """What is data and what a hole; all to the end if `length` is left out."""
        end = self.size if length is None else offset + length
        extents: list[Extent] = []
        while offset < end:
            # As long as a request may say, in whole blocks.
            asked = min(end - offset, (1 << 32) - (1 << 20))
            with self._lock:
                found = self._extents(self._send(BLOCK_STATUS, offset, asked), offset, asked)
            for length, hole in found:
                length = min(length, end - offset)
                if extents and extents[-1].hole == hole:
                    extents[-1] = extents[-1]._replace(length=extents[-1].length + length)
                else:
                    extents.append(Extent(offset, length, hole))
                offset += length
        return extents

    def close(self) -> None:
        """Says goodbye, as far as somebody listens."""
        try:
            self._send(DISCONNECT, 0, 0)
        except OSError:
            pass
        self._socket.close()

    def __enter__(self) -> "Nbd":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Requests and replies.

    def _simple(self, command: int, offset: int, length: int, flags: int = 0) -> None:
        with self._lock:
            self._done(command, self._send(command, offset, length, flags), offset, length)

    def _send(self, command: int, offset: int, length: int, flags: int = 0, data: "bytes | bytearray | memoryview" = b"") -> int:
        self._handle += 1
        self._socket.sendall(struct.pack(">IHHQQI", 0x25609513, flags, command, self._handle, offset, length))
        if data:
            self._socket.sendall(data)
        return self._handle

    def _read(self, handle: int, offset: int, length: int) -> bytes:
        out = bytearray(length)
        ended, failure, chunks = self._reply(READ, offset, length)
        assert ended == handle, "a reply to another request"
        if failure:
            raise self._error(READ, offset, length, *failure)
        for kind, payload in chunks:
            (at,) = struct.unpack_from(">Q", payload)
            # A hole reads as zeroes, which is there already.
            if kind == CHUNK_DATA:
                out[at - offset : at - offset + len(payload) - 8] = payload[8:]
        return bytes(out)

    def _extents(self, handle: int, offset: int, length: int) -> list[tuple[int, bool]]:
        _, failure, chunks = self._reply(BLOCK_STATUS, offset, length)
        if failure:
            raise self._error(BLOCK_STATUS, offset, length, *failure)
        found = [payload for kind, payload in chunks if kind == CHUNK_STATUS]
        words = struct.iter_unpack(">II", found[0][4:]) if found else iter([(length, 0)])
        return [(size, state & 1 != 0) for size, state in words]

    def _done(self, command: int, handle: int, offset: int, length: int) -> None:
        ended, failure, _ = self._reply(command, offset, length)
        assert ended == handle, "a reply to another request"
        if failure:
            raise self._error(command, offset, length, *failure)

    def _reply(self, command: int, offset: int, length: int) -> tuple[int, tuple[int, str] | None, list[tuple[int, bytes]]]:
        """The request that was answered, why it failed if it did, and what came with it."""
        chunks: list[tuple[int, bytes]] = []
        failure: tuple[int, str] | None = None
        while True:
            (magic,) = struct.unpack(">I", self._receive(4))
            if magic == 0x67446698:
                code, handle = struct.unpack(">IQ", self._receive(12))
                return handle, (code, "") if code else failure, chunks
            assert magic == 0x668E33EF, f"no reply begins with {magic:#x}"
            flags, kind, handle, size = struct.unpack(">HHQI", self._receive(16))
            payload = self._receive(size)
            if kind & CHUNK_ERROR:
                code, words = struct.unpack_from(">IH", payload)
                failure = (code, payload[6 : 6 + words].decode(errors="replace"))
            elif kind:
                chunks.append((kind, payload))
            if flags & 1:
                return handle, failure, chunks

    def _error(self, command: int, offset: int, length: int, code: int, words: str) -> NbdError:
        where = "" if command == FLUSH else f" of {length} bytes at {offset}"
        return NbdError(code, f"{NAMES[command]}{where} on export `{self.export}`: {words or os.strerror(code)}")

    def _receive(self, size: int) -> bytes:
        out = bytearray(size)
        view = memoryview(out)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionResetError(errno.ECONNRESET, f"the NBD server of export `{self.export}` has closed the connection")
            view = view[count:]
        return bytes(out)

    # The handshake.

    def _shake_hands(self) -> None:
        magic, options, flags = struct.unpack(">8s8sH", self._receive(18))
        if (magic, options) != (b"NBDMAGIC", b"IHAVEOPT"):
            raise ConnectionError("what listens there is no NBD server of the newstyle protocol")
        self._socket.sendall(struct.pack(">I", flags & 3))
        name = self.export.encode()
        self._option(OPTION_STRUCTURED, b"")
        query = struct.pack(">I", len(name)) + name + struct.pack(">II", 1, len(CONTEXT)) + CONTEXT
        self._option(OPTION_META_CONTEXT, query)
        wanted = struct.pack(">I", len(name)) + name + struct.pack(">HH", 1, INFO_BLOCK_SIZE)
        for payload in self._option(OPTION_GO, wanted):
            (info,) = struct.unpack_from(">H", payload)
            if info == INFO_EXPORT:
                self.size, self.flags = struct.unpack_from(">QH", payload, 2)
            elif info == INFO_BLOCK_SIZE:
                self.block_size, _, self.max_bytes = struct.unpack_from(">III", payload, 2)

    def _option(self, option: int, data: bytes) -> list[bytes]:
        """Sends an option, and returns what the server says until it agrees."""
        self._socket.sendall(struct.pack(">8sII", b"IHAVEOPT", option, len(data)) + data)
        said: list[bytes] = []
        while True:
            _, _, reply, size = struct.unpack(">QIII", self._receive(20))
            payload = self._receive(size)
            if reply == REPLY_ACK:
                return said
            if reply & 1 << 31:
                why = payload.decode(errors="replace") or f"error {reply & 0xFFFF}"
                raise ConnectionError(f"the NBD server refuses export `{self.export}`: {why}")
            said.append(payload)
