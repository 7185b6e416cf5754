"""Where the program `shingle` is."""

import os
import sys
from pathlib import Path


class NoProgram(Exception):
    """There is no program `shingle` to run."""


def find() -> Path:
    """That of the environment variable SHINGLE, else the one that came with this package, else that on PATH."""
    named = os.environ.get("SHINGLE")
    if named:
        if not os.access(named, os.X_OK):
            raise NoProgram(f"SHINGLE={named} is no program that can be run: correct or unset it")
        return Path(named).absolute()
    carried = Path(__file__).parent / "bin" / "shingle"
    folders = [Path(folder) for folder in os.get_exec_path()]
    for each in [carried, *(folder / "shingle" for folder in folders)]:
        if is_program(each):
            return each
    raise NoProgram("there is no program `shingle`: install a wheel that carries it, put it on PATH, or set SHINGLE to its path")


def is_program(path: Path) -> bool:
    """Whether it can be run and is no script: this package's own script `shingle` is on PATH, too."""
    if not (path.is_file() and os.access(path, os.X_OK)):
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def main() -> None:
    """The console script: becomes the program."""
    try:
        program = find()
    except NoProgram as error:
        sys.exit(f"error: {error}")
    os.execv(program, [str(program), *sys.argv[1:]])
