"""The types are those of the daemon, and the daemon answers what they say."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import pytest

import shingle
from shingle import Control, ControlError, Daemon, Disk, Nbd, protocol
from shingle.program import find

PACKAGE = Path(__file__).parent.parent
MakeDisk = Callable[..., Disk]


def test_the_generated_file_is_that_of_the_schema() -> None:
    done = subprocess.run([sys.executable, PACKAGE / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_package_has_the_version_of_the_program() -> None:
    workspace = tomllib.loads((PACKAGE.parent.parent / "Cargo.toml").read_text())["workspace"]
    package = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    assert package["version"] == workspace["package"]["version"]


def fits(value: Any, hint: Any) -> bool:
    """Whether an answer is of a type, as far as the types of this protocol go."""
    origin, words = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is NotRequired:
        return fits(value, words[0])
    if origin is Literal:
        return value in words
    if origin is list:
        return isinstance(value, list) and all(fits(each, words[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(each, words[1]) for each in value.values())
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        # A newer daemon may say more.
        known = {name: each for name, each in value.items() if name in hints}
        return hint.__required_keys__ <= value.keys() and all(fits(each, hints[name]) for name, each in known.items())
    if words:
        return any(fits(value, word) for word in words)
    return isinstance(value, (int, float) if hint is float else hint)


def returned(name: str) -> Any:
    return get_type_hints(getattr(protocol.Operations, name), include_extras=True)["return"]


def test_answers_are_of_the_types_that_were_promised(zoned_disk: MakeDisk, small_zns: str) -> None:
    disk = zoned_disk(small_zns, zones=8)
    control = disk.control
    control.dm_create("above", table="0 2048 linear media 0")
    answers: dict[str, Any] = {
        "status": control.status(),
        "events": control.events(since=0),
        "metrics": control.metrics(format="prometheus"),
        "reload": control.reload(dry_run=True),
        "zones_report": control.zones_report("drive", count=3),
        "plugs": control.plugs("drive"),
        "policy": control.policy("drive"),
        "scheduler": control.scheduler("drive"),
        "trace_start": control.trace_start(device="drive"),
        "trace_read": control.trace_read(),
        "trace_stop": control.trace_stop(),
        "export_add": control.export_add("second", "above", description="one more"),
        "export_remove": control.export_remove("second"),
        "path_list": control.path_list(),
        "power_status": control.power_status(),
        "dm_load": control.dm_load("above", "0 2048 linear media 2048"),
        "dm_suspend": control.dm_suspend("above"),
        "dm_resume": control.dm_resume("above"),
        "dm_clear": control.dm_clear("above"),
        "dm_rename": control.dm_rename("above", name="upper"),
        "dm_message": control.dm_message("upper", "@stats_create - /1"),
        "dm_info": control.dm_info(device="upper"),
        "dm_table": control.dm_table(),
        "dm_status": control.dm_status(),
        "dm_deps": control.dm_deps(),
        "dm_ls": control.dm_ls(target="linear"),
        "dm_targets": control.dm_targets(),
        "dm_wait": control.dm_wait("upper", timeout_ms=1),
        "dm_wipe_table": control.dm_wipe_table("upper"),
        "dm_remove": control.dm_remove("upper"),
        "zones_open": control.zones_open("drive", length=2048, force=True),
        "zones_close": control.zones_close("drive", length=2048, force=True),
        "zones_finish": control.zones_finish("drive", length=2048, force=True),
        "zones_reset": control.zones_reset("drive", force=True),
        "power_cut": control.power_cut("drive"),
        "power_on": control.power_on("drive"),
    }
    for name, answer in answers.items():
        assert fits(answer, returned(name)), f"{name}: {answer}"
    operations = {name for name in vars(protocol.Operations) if not name.startswith("_")} - {"request"}
    # Those of devices with several paths need one; `path.list` above has the type of their answers.
    assert operations - answers.keys() == {"dm_create"} | {name for name in operations if name.startswith("path_")} - {"path_list"}
    assert not fits({**control.status(), "pid": "many"}, returned("status")), "and the comparison is one"


def test_an_error_names_its_kind_the_object_and_what_to_do(zoned_disk: MakeDisk, small_zns: str) -> None:
    control = zoned_disk(small_zns, zones=8).control
    with pytest.raises(ControlError, match="no device `nosuch`; there are") as unknown:
        control.zones_reset("nosuch")
    assert (unknown.value.kind, unknown.value.op) == ("unknown-device", "zones.reset")
    with pytest.raises(ControlError, match="unknown target `zerro`; known targets are") as table:
        control.dm_create("x", table="0 8 zerro")
    assert table.value.kind == "table" and table.value.table is not None
    assert (table.value.table["line"], table.value.table.get("word")) == (1, 2)
    with pytest.raises(ControlError) as refused:
        control.zones_reset("drive", start=1, force=True)
    assert refused.value.kind == "invalid"
    with pytest.raises(ControlError) as alien:
        control.request("status", {"nonsense": 1})
    assert alien.value.kind == "bad-request"


def test_a_daemon_that_is_not_there_is_told(tmp_path: Path, zoned_disk: MakeDisk, small_zns: str) -> None:
    with pytest.raises(ControlError, match="control.sock.*`shingle up`") as nobody:
        Control(tmp_path / "control.sock")
    assert nobody.value.kind == "stopped"
    disk = zoned_disk(small_zns, zones=8)
    disk.daemon.kill()
    with pytest.raises(ControlError) as gone:
        disk.control.status()
    assert gone.value.kind == "stopped"


def test_an_answer_that_was_not_awaited_is_not_read_as_another(zoned_disk: MakeDisk, small_zns: str) -> None:
    def interrupted() -> bytes:
        raise KeyboardInterrupt

    with Control(zoned_disk(small_zns, zones=8).control.path) as control:
        lines = control._lines
        control._lines = SimpleNamespace(readline=interrupted, close=lines.close)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            control.status()
        control._lines = lines
        with pytest.raises(ControlError) as closed:
            control.power_status()
    assert closed.value.kind == "stopped"


def test_a_socket_has_a_path_of_any_length(tmp_path: Path) -> None:
    folder = tmp_path / ("w" * 100)
    folder.mkdir()
    disk = '[disk.d]\ntype = "profile"\nprofile = "ram"\nsize = "1MiB"\n[export.d]\ndevice = "d"\n'
    (folder / "stack.toml").write_text(disk + '[listen]\nunix = "nbd.sock"\n[control]\nsocket = "control.sock"\n')
    daemon = Daemon(find(), folder)
    try:
        with Control(folder / "control.sock") as control, Nbd(folder / "nbd.sock", "d") as nbd:
            assert nbd.size == control.status()["devices"][0]["bytes"] == 1 << 20
        with pytest.raises(ControlError, match="No such file"):
            Control(folder / "other.sock")
        with pytest.raises(ControlError, match="the file name has 105 bytes, too many for a socket; use a shorter one"):
            Control(folder / ("x" * 100 + ".sock"))
    finally:
        daemon.stop()


def test_no_directory_for_sockets_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent/" + "w" * 90)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix, dir: open(f"/nonexistent/{dir}"))
    with pytest.raises(OSError, match="at most 107 bytes: .*; set TMPDIR to a directory that can be written and .* at most 77 bytes"):
        Disk("ram")


def test_all_that_is_public_is_there() -> None:
    assert all(hasattr(shingle, name) for name in shingle.__all__)
