"""Shingle from Python: the control protocol of its daemon, NBD, and disks for tests whose power can be cut."""

from .control import Control, ControlError
from .daemon import Daemon, StartError
from .disk import Disk, Zone, block_disk, zoned_disk
from .nbd import Extent, Nbd, NbdError
from .program import NoProgram
from .trace import Event, Recording
from .volume import FormatError

__all__ = [
    "Control", "ControlError", "Daemon", "Disk", "Event", "Extent", "FormatError", "Nbd", "NbdError", "NoProgram", "Recording",
    "StartError", "Zone", "block_disk", "zoned_disk",
]  # fmt: skip
