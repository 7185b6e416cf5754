"""Uses a store, takes the power in the middle of things, and looks at what is left, again and again."""

import random

from log_writer import Full, LogStore
from moments import Broken, CuttingDrive

from shingle import ControlError, Disk, NbdError

KEYS = 100
CUTS = 6
# At most, between two cuts.
PUTS = 400
MOMENTS = {"write": 200, "flush": 200, "reset": 8}
FAILURES = (NbdError, ControlError, LookupError, Full)


def crash_loop(make: type[LogStore], disk: Disk, seed: int) -> None:
    """Raises `Broken` if the store breaks its promise. The same seed does the same."""
    drive, rng = CuttingDrive(disk, MOMENTS), random.Random(seed)
    store = make(drive)
    acknowledged: dict[bytes, bytes] = {}
    for cut in range(CUTS):
        drive.choose(rng)
        key, value = b"", b""
        try:
            for _ in range(PUTS):
                key, value = b"key %d" % rng.randrange(KEYS), rng.randbytes(rng.randrange(16))
                store.put(key, value)
                acknowledged[key] = value
                if drive.is_cut:
                    break
        except FAILURES as error:
            if not drive.is_cut:
                raise Broken(f"before cut {cut}, with power: {error}") from error
        drive.cut_now()
        disk.power_on()
        try:
            store = store.reopened()
            found = {each: store.get(each) for each in acknowledged.keys() | {key}}
        except FAILURES as error:
            raise Broken(f"after cut {cut}, {drive.moment}, it does not open: {error}") from error
        # The one that was under way may be done or not.
        for each, was in found.items():
            allowed = [acknowledged.get(each)] + [value] * (each == key)
            if was not in allowed:
                raise Broken(f"after cut {cut}, {drive.moment}, {each!r} is {was!r}, not {allowed!r}")
        if (now := found[key]) is not None:
            acknowledged[key] = now
