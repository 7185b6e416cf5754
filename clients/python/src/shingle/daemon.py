"""`shingle up` as a child, which ends with whoever started it."""

import signal
import subprocess
import time
from pathlib import Path

START_S = 60.0
STOP_S = 15.0
# Reads a line from the one who started the daemon. If that died without a word the daemon goes, and its folder.
WATCHER = 'read -r word && exit; kill -KILL "$1"; rm -rf -- "$2"'


class StartError(Exception):
    """A daemon that did not come up, with what it said."""


class Daemon:
    """A daemon that serves `stack.toml` of a folder that is its own."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder
        self.killed = False
        self._last_words = ""
        self._out, self._log = folder / "up.out", folder / "up.log"
        with self._out.open("wb") as out, self._log.open("wb") as log:
            # In a session of its own: Ctrl-C is for those who test, who stop it when they are done.
            command = [str(program), "up", "--log", "text", "stack.toml"]
            self._child = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True
            )
        watch = ["/bin/sh", "-c", WATCHER, "shingle-watcher", str(self._child.pid), str(folder)]
        quiet = subprocess.DEVNULL
        self._watcher = subprocess.Popen(watch, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        return self._child.pid

    @property
    def ended(self) -> int | None:
        """Its exit code, negative for a signal; `None` while it runs."""
        return self._child.poll()

    def log(self) -> str:
        """All that it has said on standard error; once its folder is gone, what it had said when it was stopped."""
        try:
            return self._log.read_text(errors="replace")
        except FileNotFoundError:
            return self._last_words

    def kill(self) -> None:
        """Ends it at once, as a crash does. What its drives held in memory is gone."""
        self.killed = True
        self._child.kill()
        self._child.wait(STOP_S)

    def stop(self, *, cleanly: bool = True) -> None:
        """Ends it in bounded time: asked, asked once more to hurry, killed. What was only in memory needs no asking."""
        for sign in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL) if cleanly else (signal.SIGKILL,):
            if self._child.poll() is not None:
                break
            self._child.send_signal(sign)
            try:
                self._child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                continue
        self._last_words = self.log()
        if self._watcher.poll() is not None:
            return
        try:
            self._watcher.communicate(b"done\n", STOP_S)
        except subprocess.TimeoutExpired:
            self._watcher.kill()
            self._watcher.wait()

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + START_S
        while "ready\n" not in self._out.read_text(errors="replace"):
            code = self.ended
            if code is not None:
                raise StartError(f"`shingle up` ended with {code}. It said:\n{self._said()}")
            if time.monotonic() > end:
                raise StartError(f"`shingle up` was not ready after {START_S:.0f} s. It said:\n{self._said()}")
            time.sleep(0.005)

    def _said(self) -> str:
        return (self._out.read_text(errors="replace") + self.log()).strip() or "nothing"
