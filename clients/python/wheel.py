"""Has a wheel carry the program, if SHINGLE_WHEEL_PROGRAM says which, and names the machines that it is for."""

import os
import struct
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# A static program asks nothing of the C library, so it is for machines with either.
STATIC = "py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64"
# One that is linked runs where it was built, and no registry takes it.
LINKED = "py3-none-linux_x86_64"
X86_64, INTERPRETER = 62, 3


def tag_of(program: bytes) -> str:
    """The tag of a wheel with this program."""
    if program[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", program, 18) != (X86_64,):
        raise ValueError("it is no program for Linux on x86-64")
    (headers,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    kinds = [struct.unpack_from("<I", program, headers + size * number)[0] for number in range(count)]
    return LINKED if INTERPRETER in kinds else STATIC


class ProgramHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the program, if there is one."""
        program = os.environ.get("SHINGLE_WHEEL_PROGRAM")
        if not program or version == "editable":
            return
        build_data["pure_python"] = False
        build_data["tag"] = tag_of(Path(program).read_bytes())
        build_data["force_include"][program] = "shingle/bin/shingle"
