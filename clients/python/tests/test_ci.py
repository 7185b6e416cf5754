"""The recipes of docs/ci.md, step by step, in a folder of their own with the wheel under test."""

import os
import re
import shutil
import subprocess
import venv
from pathlib import Path
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
# What runners hand over: numbers of GitHub's runs are longer than 32 bits.
RUN = "19283746550"
# Stands for the package manager of the runner: what it was asked for is in a file.
STUB = '#!/bin/sh\n[ "$(basename "$0")" = sudo ] && exec "$@"\necho "$@" >> "$ASKED"\n'
FAILS = """
def test_fails(zoned_disk):
    with zoned_disk(profile="zns-1tb", zones=8) as disk:
        disk.cut_power()
        raise AssertionError
"""


def block(text: str, title: str, language: str, line: str = "") -> str:
    """The first block of a language below a heading, which has this line."""
    part = text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
    return next(found for found in blocks if line in found)


def steps(title: str) -> list[str]:
    """The commands of a recipe."""
    recipe = block((ROOT / "docs" / "ci.md").read_text(), title, "yaml")
    assert re.search(r"^ +SHINGLE_SEED: \$", recipe, re.MULTILINE)
    if title == "GitHub Actions":
        return re.findall(r"^ +- run: (.*)$", recipe, re.MULTILINE)
    return re.findall(r"^    - (.*)$", recipe, re.MULTILINE)


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """A folder with a repository in it, and a new Python; its environment."""
    wheel = os.environ.get("SHINGLE_WHEEL")
    if wheel is None or not (ROOT / "docs" / "ci.md").exists():
        pytest.skip("clients/python/test brings a wheel")
    (tmp_path / "vendor").mkdir()
    shutil.copy(wheel, tmp_path / "vendor")
    (tmp_path / "tests").mkdir()
    readme = (HERE.parent / "README.md").read_text()
    (tmp_path / "tests" / "test_store.py").write_text(block(readme, "With pytest", "python", "def test_"))
    venv.create(tmp_path / "python", with_pip=True)
    (tmp_path / "bin").mkdir()
    for name in ("sudo", "apt-get"):
        (tmp_path / "bin" / name).write_text(STUB)
        (tmp_path / "bin" / name).chmod(0o755)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "SHINGLE", "PYTHON", "VIRTUAL_ENV"))}
    path = f"{tmp_path}/python/bin:{tmp_path}/bin:{os.environ['PATH']}"
    return inherited | {"PATH": path, "HOME": str(tmp_path), "SHINGLE_SEED": RUN, "ASKED": str(tmp_path / "asked"), "XDG_CACHE_HOME": cache()}


def cache() -> str:
    """Where pip keeps what it has downloaded before."""
    return os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))


def run(step: str, folder: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """A step as a runner runs it: by bash, and it ends at the first error."""
    return subprocess.run(["bash", "-e", "-c", step], cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_the_steps_of_a_recipe_run_as_they_are_written(tmp_path: Path, runner: dict[str, str]) -> None:
    system, install, test = steps("GitHub Actions")
    done = run(system, tmp_path, runner)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text().split() == ["update", "install", "--yes", "fio"]
    done = run(install, tmp_path, runner)
    assert done.returncode == 0, done.stderr
    done = run(test, tmp_path, runner)
    assert done.returncode == 0 and f"--shingle-seed={RUN}" in done.stdout, done.stdout + done.stderr
    assert [suite.get("tests") for suite in ElementTree.parse(tmp_path / "report.xml").iter("testsuite")] == ["1"]
    # What the artifact is for.
    (tmp_path / "tests" / "test_fails.py").write_text(FAILS)
    done = run(test, tmp_path, runner)
    assert done.returncode == 1, done.stdout
    assert f"again: pytest tests/test_fails.py::test_fails --shingle-seed={RUN}" in done.stdout
    assert [suite.get("failures") for suite in ElementTree.parse(tmp_path / "report.xml").iter("testsuite")] == ["1"]


def test_all_recipes_have_these_steps_but_for_who_is_root() -> None:
    if not (ROOT / "docs" / "ci.md").exists():
        pytest.skip("the documents are not here")
    assert [step.replace("sudo ", "") for step in steps("GitHub Actions")] == steps("GitLab")
