"""Which program is taken, and which wheel it makes."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from shingle import NoProgram, program

WHEEL = Path(__file__).parent.parent / "wheel.py"


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHINGLE", "/bin/true")
    assert program.find() == Path("/bin/true")


def test_a_script_of_that_name_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scripts, programs = tmp_path / "scripts", tmp_path / "programs"
    scripts.mkdir()
    programs.mkdir()
    (scripts / "shingle").write_text("#!/bin/sh\n")
    (scripts / "shingle").chmod(0o755)
    monkeypatch.delenv("SHINGLE", raising=False)
    monkeypatch.setattr(program, "__file__", str(tmp_path / "program.py"))
    monkeypatch.setenv("PATH", f"{scripts}:{programs}")
    with pytest.raises(NoProgram, match="put it on PATH, or set SHINGLE"):
        program.find()
    shutil.copy("/bin/true", programs / "shingle")
    assert program.find() == programs / "shingle"


def test_the_console_script_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-c", "from shingle.program import main; main()", "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("shingle ") and done.returncode == 0, done.stderr


def test_a_wheel_says_which_machines_its_program_is_for() -> None:
    pytest.importorskip("hatchling", reason="hatchling, which builds wheels, is not installed")
    spec = importlib.util.spec_from_file_location("wheel_hook", WHEEL)
    assert spec and spec.loader
    hook: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    linked = Path(shutil.which("true") or "").read_bytes()
    assert hook.tag_of(linked) == "py3-none-linux_x86_64"
    # The same without an interpreter among its program headers is static.
    start, size, count = (int.from_bytes(linked[at : at + n], "little") for at, n in ((32, 8), (54, 2), (56, 2)))
    static = bytearray(linked)
    for number in range(count):
        if int.from_bytes(static[start + number * size : start + number * size + 4], "little") == 3:
            static[start + number * size] = 0
    assert "musllinux" in hook.tag_of(bytes(static))
    with pytest.raises(ValueError, match="no program"):
        hook.tag_of(b"#!/bin/sh\n" * 10)
