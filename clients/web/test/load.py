"""A small NBD client that keeps an export busy."""

import random
import socket
import struct
import threading


def _read(line, count):
    data = b""
    while len(data) < count:
        more = line.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


class Load(threading.Thread):
    """Writes and reads blocks of an export, one after the other in each zone if it has zones, until it is stopped or fails."""

    def __init__(self, path, export, block=65536, zone=0, zones=0, room=0, pause=0.002):
        super().__init__(daemon=True)
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(path)
        _read(self._line, 18)
        name = export.encode()
        self._line.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name)
        self._size = struct.unpack(">Q2s", _read(self._line, 10))[0]
        self._block, self._zone, self._zones, self._room, self._pause = block, zone, zones, room, pause
        self._ends = threading.Event()
        self._random = random.Random(7)
        self.errors = 0
        self.start()

    def _ask(self, command, offset, data=b""):
        length = self._block
        self._line.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, 1, offset, length) + data)
        error = struct.unpack(">II8s", _read(self._line, 16))[1]
        if command == 0 and not error:
            _read(self._line, length)
        self.errors += error != 0
        return error

    def run(self):
        data, pointers = b"\xa5" * self._block, {}
        try:
            while not self._ends.wait(self._pause):
                if self._zone:
                    # A few zones in turn, so that the map has all kinds.
                    zone = self._random.choice([z for z in range(self._zones) if z % 7 != 3 and z not in (700, 701)])
                    at = pointers.get(zone, 0)
                    if at + self._block > self._room:
                        continue
                    if not self._ask(1, zone * self._zone + at, data):
                        pointers[zone] = at + self._block
                    self._ask(0, zone * self._zone)
                else:
                    offset = self._random.randrange(self._size // self._block // 2) * self._block
                    self._ask(1, offset, data)
                    self._ask(0, self._random.randrange(self._size // self._block) * self._block)
        except (OSError, EOFError):
            pass

    def stop(self):
        self._ends.set()
        self.join(10)
        self._line.close()
