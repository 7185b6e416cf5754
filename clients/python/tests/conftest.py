"""Profiles, and the plugin under test."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
HERE = Path(__file__).parent


@pytest.fixture
def small_zns() -> str:
    return str(HERE.parent / "examples" / "small-zns.toml")


@pytest.fixture
def small_smr() -> str:
    return str(HERE / "small-smr.toml")
