"""The store keeps its promise, and stores with bugs that look harmless are caught."""

from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
from log_crashes import crash_loop
from log_writer import LogStore
from moments import Broken

from shingle import Disk

PROFILE = str(Path(__file__).parent.parent / "small-zns.toml")
MakeDisk = Callable[..., Disk]
SEEDS = range(5)
SEEDS_FOR_BUGS = range(12)


class AcknowledgesEarly(LogStore):
    """Answers first, and flushes now and then."""

    def commit(self) -> None:
        if self.number % 8 == 0:
            self.drive.flush()


class ResetsEarly(LogStore):
    """Resets a zone before the copies of what was in it are durable."""

    def before_reset(self) -> None:
        pass


class TrustsItsPointers(LogStore):
    """Goes on writing where it was, and not where the drive says."""

    def reopened(self) -> Self:
        store = super().reopened()
        store.heads = self.heads
        return store


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_survives(zoned_disk: MakeDisk, seed: int) -> None:
    crash_loop(LogStore, zoned_disk(PROFILE, zones=8, seed=seed), seed)


def test_what_was_acknowledged_survives_with_a_new_seed(zoned_disk: MakeDisk, shingle_seed: int) -> None:
    crash_loop(LogStore, zoned_disk(PROFILE, zones=8), shingle_seed)


def test_what_was_acknowledged_survives_torn_records(zoned_disk: MakeDisk, shingle_seed: int) -> None:
    crash_loop(LogStore, zoned_disk("zns-1tb-volatile", zones=8), shingle_seed)


def test_the_default_drive_finds_an_early_acknowledgement(zoned_disk: MakeDisk) -> None:
    for seed in SEEDS_FOR_BUGS:
        with zoned_disk(zones=8, seed=seed) as disk:
            try:
                crash_loop(AcknowledgesEarly, disk, seed)
            except Broken:
                return
    pytest.fail(f"no flush was missed in {len(SEEDS_FOR_BUGS)} seeds")


@pytest.mark.parametrize("make", [AcknowledgesEarly, ResetsEarly, TrustsItsPointers])
def test_a_bug_is_found(zoned_disk: MakeDisk, make: type[LogStore]) -> None:
    for seed in SEEDS_FOR_BUGS:
        with zoned_disk(PROFILE, zones=8, seed=seed) as disk:
            try:
                crash_loop(make, disk, seed)
            except Broken as why:
                print(f"seed {seed}: {why}")
                return
    pytest.fail(f"{make.__name__} went through {len(SEEDS_FOR_BUGS)} seeds")
