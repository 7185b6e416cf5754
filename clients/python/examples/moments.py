"""A drive whose power goes at a command that was chosen: what both crash loops are made of."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from shingle import Disk, Zone


class Broken(AssertionError):
    """What was tested has not kept its promise."""


class CuttingDrive:
    """A disk over NBD. The power goes before or after the n-th command of a kind; `most` says how large n is at most.

    What is rare has to be aimed at: hence kinds, and not just any command.
    """

    def __init__(self, disk: Disk, most: dict[str, int]) -> None:
        self.disk, self.most = disk, most
        self.nbd = disk.connect()
        self.size = disk.size
        self.moment, self.left = "", 0

    @property
    def is_cut(self) -> bool:
        """Whether the power that was to go has gone."""
        return self.left == 0

    def choose(self, rng: random.Random) -> None:
        """When the power goes next."""
        kind = rng.choice(list(self.most))
        self.moment, self.left = f"{rng.choice(['before', 'after'])} {kind}", rng.randint(1, self.most[kind])

    def cut_now(self) -> None:
        """Takes the power, if it has not gone: the moment that was chosen may never come."""
        if not self.is_cut:
            self.moment, self.left = "in between", 0
            self.disk.cut_power()

    def read(self, offset: int, length: int) -> bytes:
        return self.nbd.read(offset, length)

    def zones(self) -> list[Zone]:
        return self.disk.zones()

    def write(self, offset: int, data: bytes) -> None:
        with self._command("write"):
            self.nbd.write(offset, data)

    def flush(self) -> None:
        with self._command("flush"):
            self.nbd.flush()

    def reset(self, zone: Zone) -> None:
        with self._command("reset"):
            self.disk.reset(zone)

    @contextmanager
    def _command(self, kind: str) -> Iterator[None]:
        self._reached(f"before {kind}")
        yield
        self._reached(f"after {kind}")

    def _reached(self, moment: str) -> None:
        if moment == self.moment and self.left > 0:
            self.left -= 1
            if self.is_cut:
                self.disk.cut_power()
