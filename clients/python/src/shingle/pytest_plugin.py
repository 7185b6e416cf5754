"""A plugin for pytest: simulated drives as fixtures, whose seeds and logs are in the report of a test that fails."""

import hashlib
import os
import random
import shlex
from collections.abc import Callable, Generator, Iterator

import pytest

from .disk import Disk, block_disk, zoned_disk

LOG_LINES = 60
DISKS = pytest.StashKey[list[Disk]]()
SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The seed."""
    group = parser.getgroup("shingle")
    group.addoption(
        "--shingle-seed", type=int, metavar="N", help="seed of simulated drives; SHINGLE_SEED or a new one if left out"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draws the seed, where pytest-xdist has not brought it from whom it works for."""
    given = getattr(config, "workerinput", {}).get("shingle_seed", config.getoption("--shingle-seed"))
    if given is None:
        named = os.environ.get("SHINGLE_SEED", "")
        try:
            given = int(named) if named else random.SystemRandom().randrange(1 << 32)
        except ValueError:
            raise pytest.UsageError(f"SHINGLE_SEED={named} is no number") from None
    config.stash[SEED] = given


class WithWorkers:
    """What pytest-xdist asks for."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Hands the seed to a worker."""
        node.workerinput["shingle_seed"] = node.config.stash[SEED]  # type: ignore[attr-defined]


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    """With pytest-xdist, workers get the seed."""
    if manager.hasplugin("dsession") and not manager.hasplugin("shingle-workers"):
        manager.register(WithWorkers(), "shingle-workers")


def pytest_report_header(config: pytest.Config) -> str:
    """The seed, so that the whole run can be repeated."""
    return f"shingle: --shingle-seed={config.stash[SEED]}"


def seed_of(session_seed: int, test: str) -> int:
    """The seed of a test: the same for the same test, whichever others run."""
    return int.from_bytes(hashlib.sha256(f"{session_seed} {test}".encode()).digest()[:4], "big")


@pytest.fixture
def shingle_seed(request: pytest.FixtureRequest) -> int:
    """A seed for what a test draws itself, which comes again with `--shingle-seed`."""
    return seed_of(request.config.stash[SEED], request.node.nodeid)


def factory(make: Callable[..., Disk], request: pytest.FixtureRequest, seed: int) -> Iterator[Callable[..., Disk]]:
    disks = request.node.stash.setdefault(DISKS, [])
    own: list[Disk] = []

    def made(profile: "str | None" = None, **options: object) -> Disk:
        words = () if profile is None else (profile,)
        disk = make(*words, **{"seed": (seed + len(disks)) % (1 << 32), **options})
        disks.append(disk)
        own.append(disk)
        return disk

    yield made
    errors = []
    for disk in reversed(own):
        try:
            disk.close()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.fixture(name="zoned_disk")
def zoned_disk_fixture(request: pytest.FixtureRequest, shingle_seed: int) -> Iterator[Callable[..., Disk]]:
    """Makes drives with zones, as `shingle.zoned_disk` does; they go with the test."""
    yield from factory(zoned_disk, request, shingle_seed)


@pytest.fixture(name="block_disk")
def block_disk_fixture(request: pytest.FixtureRequest, shingle_seed: int) -> Iterator[Callable[..., Disk]]:
    """Makes ordinary disks, as `shingle.block_disk` does; they go with the test."""
    yield from factory(block_disk, request, shingle_seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tells of the drives of a test that failed, and how to have them again."""
    report = yield
    disks = item.stash.get(DISKS, [])
    if report.failed and disks:
        again = f"pytest {shlex.quote(item.nodeid)} --shingle-seed={item.config.stash[SEED]}"
        report.sections.append(("shingle", f"again: {again}\n" + "\n".join(map(told, disks))))
    return report


def told(disk: Disk) -> str:
    """A drive, and the end of what its daemon said."""
    code, log = disk.daemon.ended, disk.log().splitlines()
    state = "" if code is None else f", whose daemon ended with {code}"
    cut = ["..."] if len(log) > LOG_LINES else []
    return "\n".join([f"{disk!r}{state}", *cut, *log[-LOG_LINES:]])
