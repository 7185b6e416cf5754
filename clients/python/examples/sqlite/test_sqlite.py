"""SQLite keeps its transactions over losses of power, and one that does not pass its syncs on is caught."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shingle import Disk

apsw = pytest.importorskip("apsw", reason="apsw, which lets Python be SQLite's file system, is not installed: pip install apsw")

from moments import Broken  # noqa: E402
from nbd_vfs import NbdFile, NbdVfs  # noqa: E402
from sqlite_crashes import crash_loop  # noqa: E402

MakeDisk = Callable[..., Disk]
SEEDS = range(4)
SEEDS_FOR_BUGS = range(8)
# A log-structured volume over a zoned SSD whose buffer is volatile, which loses the end of what was written; and an SSD without zones,
# which loses any blocks.
DISKS: dict[str, dict[str, Any]] = {
    "stl": {"profile": str(Path(__file__).parent.parent / "small-zns.toml"), "zones": 64},
    "ssd": {"profile": "ssd-500gb", "target": None},
}


class FileWithoutSync(NbdFile):
    """Says that it has synced, and has not."""

    def xSync(self, flags: int) -> None:
        pass


class VfsWithoutSync(NbdVfs):
    """A layer that somebody forgot to finish."""

    def xOpen(self, name: Any, flags: list[int]) -> NbdFile:  # type: ignore[override]
        return FileWithoutSync(super().xOpen(name, flags).slot)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, False)


def first_broken(make: type[NbdVfs], block_disk: MakeDisk, options: dict[str, Any], synchronous: str = "extra") -> Broken | None:
    """What the first seed finds that finds anything."""
    for seed in SEEDS_FOR_BUGS:
        with block_disk(**options, seed=seed) as disk:
            try:
                crash_loop(make, disk, seed, synchronous)
            except Broken as why:
                print(f"seed {seed}: {why}")
                return why
    return None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", DISKS)
def test_committed_transactions_survive(block_disk: MakeDisk, kind: str, seed: int) -> None:
    crash_loop(NbdVfs, block_disk(**DISKS[kind], seed=seed), seed)


@pytest.mark.parametrize("kind", DISKS)
def test_a_vfs_that_does_not_sync_is_found(block_disk: MakeDisk, kind: str) -> None:
    assert first_broken(VfsWithoutSync, block_disk, DISKS[kind]), "transactions were lost, and nobody saw it"


def test_the_last_transaction_needs_synchronous_extra(block_disk: MakeDisk) -> None:
    """With `full` SQLite does not sync the directory when it deletes a journal: the journal is back, and its transaction is undone."""
    assert first_broken(NbdVfs, block_disk, DISKS["ssd"], synchronous="full"), "what SQLite's documentation says of `full` was not seen"
