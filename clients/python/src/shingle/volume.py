"""An empty volume for a simulated drive.

The tools that format work on disks that no daemon has, and a simulated drive is nowhere but in its daemon. So they format a
sparse directory with the same zones, and what they have written there is what the drive gets.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

Target = Literal["stl", "zoned"]
COMMANDS = {"stl": "stl", "zoned": "dmz"}
STEP = 1 << 20
ZEROES = bytes(STEP)


class Geometry(NamedTuple):
    """The zones of a drive, in bytes."""

    size: int
    zone_size: int
    capacity: int
    conventional: int
    block_size: int


class Template(NamedTuple):
    """What an empty volume has on its drive, and the table line that shows it."""

    sectors: int
    parts: tuple[tuple[int, bytes], ...]


class FormatError(Exception):
    """A drive that holds no such volume, in the words of the program that was to make one."""


@lru_cache(maxsize=8)
def template(program: Path, target: Target, geometry: Geometry) -> Template:
    """Formats such a drive."""
    with tempfile.TemporaryDirectory(prefix="shingle-format-") as folder:
        sizes = ["--size", geometry.size, "--zone-size", geometry.zone_size, "--zone-capacity", geometry.capacity]
        more = ["--conventional", geometry.conventional, "--block-size", geometry.block_size]
        _run(program, folder, "create", "drive", *map(str, sizes + more))
        made = json.loads(_run(program, folder, COMMANDS[target], "format", "drive", "--json"))
        parts = tuple(_written(Path(folder) / "drive", geometry))
    return Template(int(made["table"].split()[1]), parts)


def _run(program: Path, folder: str, *words: str) -> str:
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        said = done.stderr.strip().replace(f"{folder}/", "")
        raise FormatError(f"`shingle {' '.join(words)}` said: {said}; give the drive more zones, or another profile")
    return done.stdout


def _written(folder: Path, geometry: Geometry) -> Iterator[tuple[int, bytes]]:
    """All that is not zero, in order; of a sequential zone all up to its write pointer."""
    for file in sorted(folder.glob("cnv-*")) + sorted(folder.glob("seq-*")):
        start = int(file.name[4:]) * geometry.zone_size
        with file.open("rb") as data:
            offset = 0
            while part := data.read(STEP):
                if file.name.startswith("seq-") or part != ZEROES[: len(part)]:
                    yield start + offset, part
                offset += len(part)
