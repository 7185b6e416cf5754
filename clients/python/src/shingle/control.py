"""The client of a daemon's control socket."""

import json
import os
from types import TracebackType
from typing import Any

from . import sockets
from .protocol import Operations, TableMistake

# A drain takes at most 20 s: nothing that the daemon still works on takes longer.
PATIENCE_S = 40.0


class ControlError(Exception):
    """A request that the daemon refused, or could not be asked: `kind` is a name of the protocol, `stopped` if nobody answers."""

    def __init__(self, op: str, failure: dict[str, Any]) -> None:
        super().__init__(f"{op}: {failure['message']}")
        self.op = op
        self.kind: str = failure["kind"]
        self.errno: int | None = failure.get("errno")
        self.sector: int | None = failure.get("sector")
        self.table: TableMistake | None = failure.get("table")


class Control(Operations):
    """A connection to the control socket of `shingle up`. One thread at a time uses it."""

    def __init__(self, path: "str | os.PathLike[str]", timeout: float = PATIENCE_S) -> None:
        self.path = os.fspath(path)
        try:
            self._socket = sockets.connect(path, timeout)
        except OSError as error:
            raise self._stopped("connect", f"{error.strerror or error}; is it that of a `shingle up` that runs?") from error
        self._lines = self._socket.makefile("rb")
        self._id = 0

    def _stopped(self, op: str, why: str) -> ControlError:
        return ControlError(op, {"kind": "stopped", "message": f"control socket {self.path}: {why}"})

    def request(self, op: str, fields: dict[str, Any]) -> Any:
        """What is in `ok` of the answer."""
        self._id += 1
        given = {name: value for name, value in fields.items() if value is not None}
        line = json.dumps({"v": 1, "id": self._id, "op": op, **given}) + "\n"
        try:
            self._socket.sendall(line.encode())
            answer = self._lines.readline()
        except BaseException as error:
            # An answer that comes after a timeout or Ctrl-C would be read as that of the next request.
            self.close()
            if not isinstance(error, OSError):
                raise
            raise self._stopped(op, f"no answer ({error}); connect again, or look into the daemon's log") from error
        if not answer.endswith(b"\n"):
            raise self._stopped(op, "the daemon has closed the connection; its log says why")
        response = json.loads(answer)
        if "error" in response:
            raise ControlError(op, response["error"])
        return response["ok"]

    def close(self) -> None:
        """Ends the connection, and with it a recording that it began."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> "Control":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
