#!/usr/bin/env python3
"""Compares the zones that a page of Shingle tells with those that the kernel does: page-zones.py ADDRESS DEVICE DISK

ADDRESS is what the program prints, with the token, DEVICE the name that the disk has there, DISK the block device. Prints how many zones are in which
condition. Ends with 1 and the zones that differ. The answer's form: docs/web.md.
"""

import re
import struct
import subprocess
import sys
import urllib.parse
import urllib.request

FULL = 14
WITHOUT_POINTER = (0, 13, 15)


def asked(address: str, device: str, since: int) -> bytes:
    place, token = address.split("/#token=")
    query = urllib.parse.urlencode({"device": device, "since": since})
    request = urllib.request.Request(f"{place}/api/zones?{query}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def of_page(answer: bytes) -> list[tuple[int, ...]]:
    """For each zone how much is written, how much can be, its type and its condition."""
    magic, _, zones, told, is_whole, *_ = struct.unpack_from("<8I", answer)
    assert magic == int.from_bytes(b"SHZ1", "little") and zones == told and is_whole == 1, answer[:32]
    numbers, written, capacity = (struct.unpack_from(f"<{zones}I", answer, 32 + 4 * zones * column) for column in range(3))
    states = answer[32 + 12 * zones :][:zones]
    assert list(numbers) == list(range(zones))
    return [(w, c, s >> 4, s & 15) for w, c, s in zip(written, capacity, states)]


def of_kernel(disk: str) -> list[tuple[int, ...]]:
    line = re.compile(r"cap 0x(\w+), wptr 0x(\w+) .*zcond: ?(\d+)\(\w+\) \[type: (\d)")
    report = subprocess.run(["blkzone", "report", disk], check=True, capture_output=True, text=True).stdout
    found = []
    for capacity, pointer, condition, kind in line.findall(report):
        room, cond = int(capacity, 16), int(condition)
        # A pointer that has no meaning is told as whatever it is.
        written = room if cond == FULL else 0 if cond in WITHOUT_POINTER else int(pointer, 16)
        found.append((written, room, int(kind), cond))
    return found


def main() -> None:
    address, device, disk = sys.argv[1:]
    page, kernel = of_page(asked(address, device, 0)), of_kernel(disk)
    if page != kernel:
        sys.exit("\n".join(f"zone {n}: {a}, the kernel has {b}" for n, (a, b) in enumerate(zip(page, kernel)) if a != b) or "other zones")
    conditions = [zone[3] for zone in page]
    print(" ".join(f"{cond}:{conditions.count(cond)}" for cond in sorted(set(conditions))))


main()
