"""The plugin, in runs of pytest of its own."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from shingle.pytest_plugin import seed_of

PACKAGE = Path(__file__).parent.parent
SMALL = PACKAGE / "examples" / "small-zns.toml"


def module(pytester: pytest.Pytester, body: str) -> None:
    pytester.makepyfile(f"SMALL = {str(SMALL)!r}\n" + textwrap.dedent(body))


def eventually(what: Callable[[], bool]) -> bool:
    """Whether it comes true: as long as it takes, but not for ever."""
    end = time.monotonic() + 30
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return what()


FAILING = """
    def test_fails(zoned_disk):
        disk = zoned_disk(SMALL, zones=8)
        disk.cut_power()
        assert False, f"seed is {disk.seed}, folder {disk.socket.parent}"
"""


def test_a_failure_tells_the_seed_the_log_and_how_to_have_it_again(pytester: pytest.Pytester) -> None:
    module(pytester, FAILING)
    said = pytester.runpytest_subprocess("-p", "no:cacheprovider").stdout.str()
    again = re.search(r"again: pytest (\S+) --shingle-seed=(\d+)", said)
    seed = re.search(r"seed is (\d+)", said)
    assert again and seed and "power.cut of device `drive`" in said
    repeated = pytester.runpytest_subprocess(again[1], f"--shingle-seed={again[2]}").stdout.str()
    assert f"seed is {seed[1]}," in repeated
    assert seed_of(int(again[2]), again[1]) == int(seed[1]) != seed_of(77, again[1])


def test_a_test_that_passes_tells_nothing_and_leaves_nothing(pytester: pytest.Pytester) -> None:
    module(
        pytester,
        """
        from pathlib import Path
        from shingle import Disk

        def test_two(zoned_disk, block_disk):
            disks = [zoned_disk(SMALL, zones=8), zoned_disk(SMALL, zones=8), block_disk(SMALL, zones=64)]
            assert len({disk.seed for disk in disks}) == 3
            assert all(isinstance(disk, Disk) for disk in disks)
            Path("left").write_text("\\n".join(str(disk.socket.parent) for disk in disks))
        """,
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    assert "again:" not in result.stdout.str()
    assert not [folder for folder in (pytester.path / "left").read_text().split() if Path(folder).exists()]


@pytest.fixture(params=["w" * 100, "a&b = 50% "], ids=["long", "strange"])
def temporary(request: pytest.FixtureRequest) -> Iterator[str]:
    """A directory for temporary files that is too long for a socket, or has to be quoted in a URI."""
    with TemporaryDirectory(prefix=request.param) as folder:
        yield folder


def test_any_directory_for_temporary_files_will_do(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, temporary: str) -> None:
    monkeypatch.setenv("TMPDIR", temporary)
    module(
        pytester,
        """
        import socket
        from pathlib import Path
        from urllib.parse import parse_qs, urlsplit

        def test_disks(zoned_disk, block_disk):
            disks = [zoned_disk(SMALL, zones=8), block_disk(SMALL, zones=64)]
            for disk in disks:
                with disk.connect() as nbd:
                    nbd.write(0, bytes(4096))
                (path,) = parse_qs(urlsplit(disk.uri).query)["socket"]
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(path)
            Path("left").write_text("\\n".join(str(disk.socket.parent) for disk in disks))
        """,
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    folders = [Path(folder) for folder in (pytester.path / "left").read_text().split("\n")]
    assert not [folder for folder in folders if folder.exists()]
    assert os.listdir(temporary) == []


def test_the_seed_of_the_environment(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    module(pytester, "def test_seed(shingle_seed):\n        assert shingle_seed == 0\n")
    monkeypatch.setenv("SHINGLE_SEED", "5")
    assert "--shingle-seed=5" in pytester.runpytest_subprocess().stdout.str()
    monkeypatch.setenv("SHINGLE_SEED", "five")
    assert "SHINGLE_SEED=five is no number" in pytester.runpytest_subprocess().stderr.str()


def test_workers_of_xdist_have_the_seed_of_the_run(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    module(pytester, "def test_seed(shingle_seed):\n        assert False, f'seed is {shingle_seed}'\n")
    said = pytester.runpytest_subprocess("-n1").stdout.str()
    words = (r"FAILED (\S+)", r"--shingle-seed=(\d+)", r"seed is (\d+)")
    test, run, seed = (re.search(each, said) for each in words)
    assert test and run and seed, said
    assert seed_of(int(run[1]), test[1]) == int(seed[1])


def test_a_daemon_that_dies_in_a_test_is_seen_after_it(pytester: pytest.Pytester) -> None:
    module(
        pytester,
        """
        import os, signal, subprocess

        def test_dies(zoned_disk):
            disk = zoned_disk(SMALL, zones=8)
            os.kill(disk.daemon.pid, signal.SIGKILL)
            disk.daemon._child.wait(10)

        def test_kills(zoned_disk):
            zoned_disk(SMALL, zones=8).daemon.kill()
        """,
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ended by itself with -9*"])


@pytest.mark.parametrize("folder", [PACKAGE, PACKAGE.parent.parent], ids=["package", "repository"])
def test_the_first_example_finds_a_missing_flush(pytester: pytest.Pytester, folder: Path) -> None:
    readme = folder / "README.md"
    if not readme.exists():
        pytest.skip("the documents are not here")
    example = next(block for block in re.findall(r"^```python\n(.*?)^```$", readme.read_text(), re.DOTALL | re.MULTILINE) if "zoned_disk" in block)
    forgetful = re.sub(r"^ *nbd\.flush\(\).*\n", "", example, flags=re.MULTILINE)
    assert forgetful != example
    for source, outcome in ((example, {"passed": 1}), (forgetful, {"failed": 1})):
        pytester.makepyfile(source)
        pytester.runpytest_subprocess("--shingle-seed=1", "-p", "no:cacheprovider").assert_outcomes(**outcome)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_takes_its_daemons_along(pytester: pytest.Pytester, sign: int) -> None:
    module(
        pytester,
        """
        import time
        from pathlib import Path

        def test_waits(zoned_disk):
            disk = zoned_disk(SMALL, zones=8)
            Path("new").write_text(f"{disk.daemon.pid} {disk.socket.parent}")
            Path("new").rename("there")
            time.sleep(60)
        """,
    )
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=pytester.path,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        # A shell has what it runs in the background ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    there = pytester.path / "there"
    assert eventually(there.exists)
    pid, folder = there.read_text().split()
    os.killpg(run.pid, sign)
    run.wait(60)
    # Who kills a daemon is not who it belongs to: it may be there as a zombie.
    assert eventually(lambda: not Path(folder).exists())
    assert eventually(lambda: not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text())


def test_without_a_program_it_is_said_what_to_do(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    module(pytester, FAILING)
    monkeypatch.setenv("SHINGLE", "/nonexistent/shingle")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*NoProgram: SHINGLE=/nonexistent/shingle is no program that can be run: correct or unset it*"])
