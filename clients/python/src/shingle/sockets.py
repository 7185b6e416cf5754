"""Unix sockets, whose paths have a limit that temporary directories of CI runners go beyond."""

import errno
import os
import socket
import tempfile
from pathlib import Path

# unix(7): `sun_path` has 108 bytes, of which the last one is zero.
MAX_PATH = 107


def connect(path: "str | os.PathLike[str]", timeout: float) -> socket.socket:
    """Connects to the socket at a path of any length. `timeout` is in seconds."""
    name = os.fsencode(path)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(timeout)
    try:
        if len(name) <= MAX_PATH:
            client.connect(name)
            return client
        # The kernel takes a short name for the directory: that of a descriptor.
        folder, file = os.path.split(name)
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            short = b"/proc/self/fd/%d/%s" % (descriptor, file)
            if len(short) > MAX_PATH:
                raise OSError(errno.ENAMETOOLONG, f"the file name has {len(file)} bytes, too many for a socket; use a shorter one")
            client.connect(short)
        finally:
            os.close(descriptor)
    except BaseException:
        client.close()
        raise
    return client


def make_directory(prefix: str, longest_name: str) -> Path:
    """Makes a private directory in which a socket of that name has a path that any client takes.

    It is in the directory for temporary files (`TMPDIR`) if its path is short enough, else in `XDG_RUNTIME_DIR`, `/tmp` or `/var/tmp`.
    """
    # `mkdtemp` puts eight characters behind the prefix.
    most = MAX_PATH - len(os.fsencode(f"/{prefix}12345678/{longest_name}"))
    temporary = tempfile.gettempdir()
    refused = f"{temporary} has {len(os.fsencode(temporary))} bytes"
    for parent in (temporary, os.environ.get("XDG_RUNTIME_DIR"), "/tmp", "/var/tmp"):
        if not parent or len(os.fsencode(os.path.abspath(parent))) > most:
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        except OSError as error:
            refused = str(error)
    advice = f"set TMPDIR to a directory that can be written and whose path has at most {most} bytes"
    raise OSError(errno.ENAMETOOLONG, f"no directory for unix sockets, whose paths have at most {MAX_PATH} bytes: {refused}; {advice}")
