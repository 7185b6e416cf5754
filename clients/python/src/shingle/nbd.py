"""A client of NBD exports (nbd/doc/proto.md), as far as `shingle up` speaks it, with unix sockets."""

import errno
import operator
import os
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from . import sockets

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS = 0, 1, 2, 3, 4, 6, 7
FUA, NO_HOLE, ONE_EXTENT, FAST = 1, 2, 8, 16
OPTION_ABORT, OPTION_GO, OPTION_STRUCTURED, OPTION_META_CONTEXT = 2, 7, 8, 10
REPLY_ACK, REPLY_INFO, REPLY_META_CONTEXT = 1, 3, 4
INFO_EXPORT, INFO_BLOCK_SIZE = 0, 3
CHUNK_DATA, CHUNK_HOLE, CHUNK_STATUS, CHUNK_ERROR = 1, 2, 5, 1 << 15
CONTEXT = b"base:allocation"
NAMES = {READ: "read", WRITE: "write", FLUSH: "flush", TRIM: "trim", WRITE_ZEROES: "write of zeroes", BLOCK_STATUS: "question about holes"}
# Widths of the fields of a request (nbd/doc/proto.md, request message).
MAX_OFFSET, MAX_LENGTH = (1 << 64) - 1, (1 << 32) - 1
# Replies to these fit in the buffer of a socket. A server whose replies are not read stops reading requests.
MAX_IN_FLIGHT = 64


class NbdError(OSError):
    """A request that failed: `errno` is the error of the server. The connection stays usable."""


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
        self._closed: str | None = None
        self._lock = threading.Lock()
        self._socket = sockets.connect(path, timeout)
        try:
            self._shake_hands()
        except BaseException:
            self._socket.close()
            raise

    def read(self, offset: int, length: int) -> bytes:
        """Reads."""
        self._check(READ, offset, length)
        with self._exchange():
            return self._read(self._send(READ, offset, length), offset, length)

    def write(self, offset: int, data: "ReadableBuffer", *, fua: bool = False) -> None:
        """Writes the bytes of any buffer, such as `bytes` or an array; with `fua` they are durable when this returns."""
        (error,) = self.write_all([(offset, data)], fua=fua)
        if error:
            raise error

    def write_all(self, writes: "Sequence[tuple[int, ReadableBuffer]]", *, fua: bool = False) -> list[NbdError | None]:
        """Sends several writes, 64 of them at once, and returns how each of them ended. The server may carry them out in any order.

        All arguments are checked first: if this raises `TypeError`, `ValueError` or `NbdError`, nothing was sent.
        """
        parts = [(offset, self._bytes_of(data)) for offset, data in writes]
        for offset, data in parts:
            self._check(WRITE, offset, len(data))
            if len(data) > self.max_bytes:
                raise self._error(WRITE, offset, len(data), errno.EINVAL, f"a request carries at most {self.max_bytes} bytes; split it")
        with self._exchange():
            handles: list[int] = []
            ended: dict[int, tuple[int, str] | None] = {}
            for offset, data in parts:
                if len(handles) - len(ended) == MAX_IN_FLIGHT:
                    ended.update([self._reply()[:2]])
                handles.append(self._send(WRITE, offset, len(data), FUA * fua, data))
            ended.update(self._reply()[:2] for _ in range(len(handles) - len(ended)))
            return [
                None if ended[handle] is None else self._error(WRITE, offset, len(data), *ended[handle])  # type: ignore[misc]
                for handle, (offset, data) in zip(handles, parts)
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
        """Data and holes of a range, in order; up to the end of the export if `length` is left out."""
        self._check(BLOCK_STATUS, offset, length or 0, most=MAX_OFFSET)
        end = self.size if length is None else offset + length
        extents: list[Extent] = []
        while offset < end:
            # As long as a request may say, in whole blocks.
            asked = min(end - offset, (1 << 32) - (1 << 20))
            with self._exchange():
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
        """Disconnects. A connection that is closed already stays so."""
        if self._closed is None:
            self._closed = "`close()` was called"
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

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Holds the connection for requests and their replies, and closes it if it is left early, as by a timeout or Ctrl-C.

        A reply that comes later would be read as that of the next request.
        """
        with self._lock:
            if self._closed is not None:
                raise ConnectionError(errno.ENOTCONN, f"the connection to export `{self.export}` is closed: {self._closed}; connect again")
            try:
                yield
            except NbdError:
                raise
            except BaseException as error:
                self._closed = str(error) or type(error).__name__
                self._socket.close()
                raise

    def _check(self, command: int, offset: int, length: int, most: int = MAX_LENGTH) -> None:
        for name, value, largest in (("offset", offset, MAX_OFFSET), ("length", length, most)):
            try:
                fits = 0 <= operator.index(value) <= largest
            except TypeError:
                raise TypeError(f"{NAMES[command]}: {name} must be a whole number of bytes, not {type(value).__name__}") from None
            if not fits:
                raise ValueError(f"{NAMES[command]}: {name} must be 0 to {largest} bytes, not {value}")

    @staticmethod
    def _bytes_of(data: "ReadableBuffer") -> memoryview:
        """The bytes of a buffer, whatever its elements are; copied only if they are not contiguous or of a foreign format."""
        try:
            view = memoryview(data)
        except TypeError:
            advice = "pass data.encode()" if isinstance(data, str) else "pass bytes or another buffer"
            raise TypeError(f"write: data must be a bytes-like object, not {type(data).__name__}: {advice}") from None
        try:
            return view.cast("B")
        except TypeError:
            return memoryview(view.tobytes())

    def _simple(self, command: int, offset: int, length: int, flags: int = 0) -> None:
        self._check(command, offset, length)
        with self._exchange():
            self._done(command, self._send(command, offset, length, flags), offset, length)

    def _send(self, command: int, offset: int, length: int, flags: int = 0, data: "bytes | memoryview" = b"") -> int:
        self._handle += 1
        self._transmit(struct.pack(">IHHQQI", 0x25609513, flags, command, self._handle, offset, length))
        if data:
            self._transmit(data)
        return self._handle

    def _read(self, handle: int, offset: int, length: int) -> bytes:
        out = bytearray(length)
        ended, failure, chunks = self._reply()
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
        _, failure, chunks = self._reply()
        if failure:
            raise self._error(BLOCK_STATUS, offset, length, *failure)
        found = [payload for kind, payload in chunks if kind == CHUNK_STATUS]
        words = struct.iter_unpack(">II", found[0][4:]) if found else iter([(length, 0)])
        return [(size, state & 1 != 0) for size, state in words]

    def _done(self, command: int, handle: int, offset: int, length: int) -> None:
        ended, failure, _ = self._reply()
        assert ended == handle, "a reply to another request"
        if failure:
            raise self._error(command, offset, length, *failure)

    def _reply(self) -> tuple[int, tuple[int, str] | None, list[tuple[int, bytes]]]:
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

    def _hung_up(self) -> ConnectionResetError:
        advice = "the log of the daemon has the reason (`Disk.log()`, or standard error of `shingle up`)"
        return ConnectionResetError(errno.ECONNRESET, f"the NBD server of export `{self.export}` closed the connection; {advice}")

    def _transmit(self, data: "bytes | memoryview") -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._hung_up() from error

    def _receive(self, size: int) -> bytes:
        out = bytearray(size)
        view = memoryview(out)
        while view:
            try:
                count = self._socket.recv_into(view)
            except ConnectionResetError as error:
                raise self._hung_up() from error
            if not count:
                raise self._hung_up()
            view = view[count:]
        return bytes(out)

    # The handshake.

    def _shake_hands(self) -> None:
        magic, options, flags = struct.unpack(">8s8sH", self._receive(18))
        if (magic, options) != (b"NBDMAGIC", b"IHAVEOPT"):
            raise ConnectionError("what listens there is no NBD server of the newstyle protocol")
        self._transmit(struct.pack(">I", flags & 3))
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
        self._transmit(struct.pack(">8sII", b"IHAVEOPT", option, len(data)) + data)
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
