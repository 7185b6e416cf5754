"""The control protocol's types and operations. Made by generate.py out of docs/control-protocol.schema.json: do not edit."""

from abc import ABC, abstractmethod
from typing import Any, Literal, NotRequired, TypedDict, cast


class Counters(TypedDict):
    """Bios that went through a device, by operation."""

    # Number of bios.
    ios: dict[str, int]
    # Number of sectors.
    sectors: dict[str, int]
    # Number of those that failed.
    errors: int
    # Number of those that went as part of another.
    merges: int
    # Number of those that are under way.
    in_flight: int


class DriveStatus(TypedDict):
    """A simulated drive: a disk with `type = "profile"`."""

    # Its name.
    device: str
    # `on` or `off`.
    power: str
    # How often it has lost its power.
    cuts: int
    # I/O that it has now.
    in_flight: int
    # I/O that it has answered, but for what a loss of power failed.
    answered: int
    # How much later than its model would have, on average; `null` if it has answered nothing.
    mean_lateness_ns: NotRequired[int | None]
    # The same of the latest answer.
    max_lateness_ns: int
    # Memory that its data takes.
    memory_bytes: int
    # Most memory that it may take; `null` if there is none to be taken.
    memory_limit: NotRequired[int | None]
    # The directory that keeps its data; `null` if that is in memory, or none is kept.
    directory: NotRequired[str | None]
    # Room that its data takes there.
    directory_bytes: NotRequired[int | None]


class PathPolicyOptions(TypedDict):
    """Options of the policies `latency` and `adaptive`, as they are in use."""

    # Percentage of an old latency that `latency` keeps over a window with too few samples, and `adaptive` at the end
    # of each.
    decay_percent: float
    # Time over which samples are gathered.
    window_ns: int
    # Samples that a window must have to count.
    low_water: int


class PathWindowStatus(TypedDict):
    """Measurements of a path over the last window of its policy, for the submitters of one NUMA node."""

    # NUMA node of the shard that submits.
    node: int
    # Kind of I/O: `read`, `write`, `other`, or `all`, by which `latency` chooses.
    kind: str
    # Latency at the end of the window, with what the policy has kept of earlier ones.
    latency_ns: int
    # Samples of the window.
    samples: int
    # I/Os in a row that `adaptive` gives to the path; `null` of `latency`.
    weight: NotRequired[int | None]


class PathStatus(TypedDict):
    """A path."""

    # The disk or device that it is.
    path: str
    # What it is to the disk: `optimized`, `non-optimized`, `inaccessible`, `persistent-loss` or `change`.
    state: str
    # NUMA node that it is near to; `null`: it is equally near to all.
    node: NotRequired[int | None]
    # `live`, `failed`, `offline` or `leaving`.
    health: str
    # Whether it takes I/O.
    usable: bool
    # I/O that is under way on it.
    in_flight: int
    # What it has got of all I/O so far.
    share_percent: float
    # How long I/O that it did has taken, on average; `null` if it did none. Below `latency_resolution_ns` of the
    # device: less than that.
    mean_latency_ns: NotRequired[int | None]
    # I/O that was sent on it.
    sent: int
    # I/O that it has failed, and another one has got.
    failovers: int
    # I/O that it has got again.
    retries: int
    # Errors of the disk that came over it.
    errors: int
    # How often it has failed.
    failures: int
    # Probes that were sent on it.
    probes: int
    # Measurements of the policies `latency` and `adaptive` over their last window, by node and kind of I/O; empty of
    # other policies.
    windows: list[PathWindowStatus]


class HeadStatus(TypedDict):
    """A device with several paths."""

    # Its name.
    device: str
    # How one of the paths is chosen.
    policy: str
    # Options of the policy; `null` if it has none.
    options: NotRequired[PathPolicyOptions | None]
    # Mean time between two readings of the clock: I/O sent and done in between counts as 0 ns, and took less. `null`
    # before the first I/O.
    latency_resolution_ns: NotRequired[int | None]
    # NUMA node from which it submits: that of its shard, or of the stack file.
    node: int
    # I/O that is on no path now: it waits for one, or until it is safe to send it again.
    waiting: int
    # I/O that has had to wait for a path.
    waited: int
    # I/O that has failed because there was none.
    without_path: int
    # Appends that have failed since nobody knows whether they are done.
    uncertain_appends: int
    # Appends that were sent again although they may have been done.
    doubled_appends: int
    # Changes that have failed since their path never said that it could carry them out no more.
    unsettled: int
    # Its paths.
    paths: list[PathStatus]


class Zoned(TypedDict):
    """The zones of a device; sectors have 512 bytes."""

    # Number of zones.
    zones: int
    # Size of a zone.
    zone_sectors: int
    # Most open zones; `null`: no limit.
    max_open: NotRequired[int | None]
    # Most active zones.
    max_active: NotRequired[int | None]
    # `native` if the hardware executes zone appends; `emulated` if a plug makes writes of them.
    zone_append: NotRequired[str]
    # Longest zone append that the device takes, native or emulated (the kernel's `zone_append_max_bytes`, in
    # sectors).
    max_append_sectors: NotRequired[int | None]
    # Longest zone append of the hardware; `null` if it has none (the kernel's `max_hw_zone_append_sectors` of 0).
    max_hw_append_sectors: NotRequired[int | None]


class DeviceStatus(TypedDict):
    """A disk or a mapped device."""

    # Its name.
    name: str
    # `null`, `file`, `profile`, `zoned-dir`, `zoned-blk`, `table` or `multipath`.
    kind: str
    # What it is; of a mapped device its table.
    description: str
    # Its size.
    bytes: int
    # Smallest unit of I/O.
    block_bytes: int
    # Whether it refuses writes.
    read_only: bool
    # Whether completed writes can be lost until a flush.
    write_cache: bool
    # Its zones, if it has any.
    zoned: NotRequired[Zoned | None]
    # Whether I/O waits at its door.
    suspended: bool
    # Health of the device without that of the devices below: `ok`, `loading`, `read-only` or `failed`.
    health: NotRequired[str]
    # Reason for which the device is read-only or cannot be used, and what to do.
    fault: NotRequired[str | None]
    # What went through it.
    counters: Counters
    # What its targets know of themselves: an object for each that does.
    figures: NotRequired[list[dict[str, Any]]]
    # How zone writes are ordered, on a device with plugs; `mixed` if lines of its table differ.
    policy: NotRequired[str | None]
    # I/O scheduler of a disk: `none` or `mq-deadline`.
    scheduler: NotRequired[str | None]
    # Commands in flight at the disk under `mq-deadline`.
    queue_depth: NotRequired[int | None]
    # Zones with a command in flight, or in line for the disk.
    active_plugs: NotRequired[int | None]
    # Why the plug refuses writes, if it does.
    plug_failure: NotRequired[str | None]
    # Its paths, if it has several.
    multipath: NotRequired[HeadStatus | None]
    # Its power and how late it is, if it is a simulated drive.
    drive: NotRequired[DriveStatus | None]
    # The thread that owns it.
    shard: int
    # Its file or directory, if it has one.
    path: NotRequired[str | None]


class ExportStatus(TypedDict):
    """An export."""

    # Its name.
    name: str
    # The disk or mapped device; `null` if that was just removed.
    device: NotRequired[str | None]
    # Its size.
    bytes: int
    # Whether writes are refused.
    read_only: bool
    # Connections that have chosen it; its block device counts as one.
    connections: NotRequired[int]
    # Most connections at a time (`max-connections`); `null` without a limit.
    max_connections: NotRequired[int | None]
    # Where users of this machine find it, if it is a block device.
    path: NotRequired[str | None]
    # Worst health of its device and of all devices below: `ok`, `loading`, `read-only` or `failed`.
    health: NotRequired[str]
    # Reason for which the export is read-only or cannot be used, and what to do.
    fault: NotRequired[str | None]


class Stuck(TypedDict):
    """A bio that has waited for long."""

    # Where it waits.
    device: str
    # For how long.
    age_ms: int
    # What it is.
    bio: str
    # The shard of the device.
    shard: int


class Status(TypedDict):
    """A daemon."""

    # Of the program.
    version: str
    # Its process.
    pid: int
    # For how long it has been running.
    uptime_s: int
    # Number of its shards.
    shards: int
    # Where it listens for NBD clients.
    listen: list[str]
    # What protects each of those, in a few words.
    protection: NotRequired[list[str]]
    # Where it tells its metrics over HTTP.
    metrics: NotRequired[list[str]]
    # Where it shows its page, with what who opens it has to know.
    web: NotRequired[list[str]]
    # Disks and mapped devices: those of the stack file first.
    devices: list[DeviceStatus]
    # Its exports.
    exports: list[ExportStatus]
    # Number of NBD connections of each shard.
    connections: list[int]
    # Bios that have waited for a second or longer, the oldest of each shard.
    stuck: list[Stuck]
    # Number of all that have.
    stuck_bios: int


class Metrics(TypedDict):
    """What a stack has done."""

    # All of it: `docs/metrics.md`.
    text: str

# What an event is about.
EventKind = Literal[
    "daemon",
    "cut",
    "restore",
    "suspend",
    "swap",
    "policy",
    "path",
    "reload",
    "zones",
    "change",
    "fault",
    "client",
]


class Event(TypedDict):
    """Something that has happened."""

    # The daemon's first is 1.
    number: int
    # When, in milliseconds since 1970.
    unix_ms: int
    # What it is about.
    kind: EventKind
    # The device, if it is about one.
    device: NotRequired[str | None]
    # What happened, in words.
    text: str


class EventList(TypedDict):
    """The newest of what has happened."""

    # In order.
    events: list[Event]

# How that ended.
Outcome = Literal["done", "planned", "failed", "skipped", "after-restart"]

# A part of a stack file.
Part = Literal["disk", "device", "export", "section"]

# What is done to it.
Verb = Literal["add", "swap", "set", "remove", "change"]


class StackChange(TypedDict):
    """A change of a running stack."""

    # What kind of thing.
    part: Part
    # Its name.
    name: str
    # What is done to it.
    verb: Verb
    # How that ended.
    outcome: Outcome
    # Why it failed, or why only a restart does it.
    why: NotRequired[str | None]


class Reloaded(TypedDict):
    """What a stack file that was read again changes, in the order in which that is done."""

    # The stack file.
    stack: str
    # The changes.
    changes: list[StackChange]


class ZoneInfo(TypedDict):
    """A zone."""

    # Its first sector.
    start: int
    # Its size in sectors.
    len: int
    # How many of them can be written.
    capacity: int
    # The sector of the write pointer; `null` where the condition has none.
    wp: NotRequired[int | None]
    # `conventional` or `seq-write-required`.
    type: str
    # `not-wp`, `empty`, `imp-open`, `exp-open`, `closed`, `read-only`, `full` or `offline`.
    cond: str
    # The type as the kernel counts (`enum blk_zone_type`).
    type_code: int
    # The condition as the kernel counts (`enum blk_zone_cond`).
    cond_code: int


class Zones(TypedDict):
    """Zones in order."""

    # The zones.
    zones: list[ZoneInfo]
    # The sector to go on from; `null` at the end.
    next: NotRequired[int | None]
    # How old that is, in milliseconds; none if the device was asked for this answer.
    age_ms: NotRequired[int | None]


class Changed(TypedDict):
    """How much was changed."""

    # Number of zones.
    zones: int


class LinePlugs(TypedDict):
    """The plug of a table line."""

    # Number of the line, from 1.
    line: int
    # The line's target.
    target: str
    # How zone writes are ordered.
    policy: str
    # Zones with a command in flight, or in line for the disk.
    active: int
    # Of a write from submission to dispatch, since the policy was chosen.
    longest_wait_ns: int


class Plug(TypedDict):
    """A zone write plug, as debugfs shows it."""

    # Number of the table line, from 1; of a disk there is none.
    line: NotRequired[int | None]
    # Number of the zone, counted within its line.
    zone: int
    # 1: `PLUGGED`, 2: `NEED_WP_UPDATE`.
    flags: int
    # Who holds it.
    refs: int
    # `EMPTY`, `ACTIVE`, `FULL`, `READONLY` or `OFFLINE`.
    condition: str
    # Offset of the next write, in sectors.
    wp_offset: int
    # Bios that wait.
    pending: int


class Plugs(TypedDict):
    """The zone write plugs of a disk, or of the lines of a mapped device."""

    # How zone writes are ordered; `mixed` if lines differ.
    policy: str
    # Zones with a command in flight, or in line for the disk.
    active: int
    # Of a write from submission to dispatch, since the policy was chosen.
    longest_wait_ns: int
    # The plugs of zones.
    plugs: list[Plug]
    # The lines of the mapped device that have a plug; none for a disk.
    lines: NotRequired[list[LinePlugs]]


class LinePolicy(TypedDict):
    """How zone writes to a table line are ordered."""

    # Number of the line, from 1.
    line: int
    # The line's target.
    target: str
    # Now.
    policy: str


class Policy(TypedDict):
    """How zone writes are ordered."""

    # Now; `mixed` if lines of a mapped device differ.
    policy: str
    # Before the request; `mixed` if lines of a mapped device differed.
    before: str
    # The lines of the mapped device that are meant, with the policy of each; none for a disk.
    lines: NotRequired[list[LinePolicy]]


class Scheduler(TypedDict):
    """I/O scheduler of a disk."""

    # The scheduler in force.
    scheduler: str
    # The scheduler before the request.
    before: str
    # Commands in flight at the disk under `mq-deadline`; `null` under `none`.
    queue_depth: NotRequired[int | None]


class RecordedDevice(TypedDict):
    """A layer of the stack that was recorded."""

    # Its name; for a layer that the stack file does not name, that of the one above it with a suffix, as in
    # `smr/disk`.
    name: str
    # The shard that it lives on.
    shard: int
    # Whether its events are in the recording. Of the others only completions are.
    recorded: bool
    # Size in sectors.
    sectors: int
    # Smallest unit of I/O in bytes.
    block_bytes: int
    # Whether the medium turns.
    rotational: bool
    # Whether completed writes can be lost until a flush.
    write_cache: bool
    # Zone size in sectors; `None` for a regular device.
    zone_sectors: NotRequired[int | None]
    # Most open zones.
    max_open: NotRequired[int | None]
    # Most active zones.
    max_active: NotRequired[int | None]
    # Longest native append in sectors.
    max_append_sectors: NotRequired[int | None]


class Started(TypedDict):
    """A recording that has begun."""

    # When, in ns since 1970.
    started_unix_ns: int
    # The layers of the stack, in the order of their numbers in the entries.
    devices: list[RecordedDevice]


class Batch(TypedDict):
    """What happened since the last time, or the first part of it."""

    # Number of entries.
    entries: int
    # The entries, as in the chunk `EVTS` of a file of a recording, in hexadecimal digits.
    data: str
    # Number of events that fell out of the rings since the last time.
    lost: int
    # Whether there are more already.
    more: bool
    # Time since the start, in ns.
    at_ns: int


class Done(TypedDict):
    """An answer that says that it is done."""


class Added(TypedDict):
    """An export that was added."""

    # Its name.
    name: str
    # The disk or mapped device.
    device: str
    # Its size.
    bytes: int
    # Where users of this machine find it, if it is a block device.
    path: NotRequired[str | None]


class Heads(TypedDict):
    """Devices with several paths."""

    # In the order of the stack file.
    devices: list[HeadStatus]


class Drives(TypedDict):
    """Simulated drives."""

    # In the order of the stack file, shard by shard.
    drives: list[DriveStatus]

# Whether I/O may go in.
State = Literal["active", "suspending", "suspended"]


class TargetLine(TypedDict):
    """A target in a table."""

    # Its first sector.
    start: int
    # Its size in sectors.
    length: int
    # Its kind.
    target: str
    # Its arguments, or what it has to say.
    arguments: str
    # What it knows of itself, if the status was asked for.
    figures: NotRequired[dict[str, Any] | None]


class MappedDevice(TypedDict):
    """A mapped device."""

    # Its name.
    name: str
    # Its UUID, or nothing.
    uuid: str
    # Its numbers, which are made up: it has no node.
    major: int
    # The second one.
    minor: int
    # Whether I/O may go in.
    state: State
    # Whether it refuses writes.
    read_only: bool
    # Whether it has a live table.
    live: bool
    # Whether it has one in the inactive slot.
    inactive: bool
    # Whether it goes when nobody uses it any more.
    deferred_remove: bool
    # Who uses it.
    open: int
    # Number of targets of the live table.
    targets: int
    # Number of events so far.
    events: int
    # Size of the live table.
    sectors: int
    # The thread that owns it.
    shard: int
    # The longest time that a swap of tables kept I/O waiting.
    longest_swap_ns: int
    # A line for each target, if it was asked for.
    lines: NotRequired[list[TargetLine] | None]


class Answered(TypedDict):
    """What a target says to a message."""

    # Lines, or nothing.
    answer: str


class Events(TypedDict):
    """The events of a device."""

    # Their number.
    events: int
    # Whether they are more than those that were seen.
    passed: bool


class Devices(TypedDict):
    """Devices by name."""

    # The devices.
    devices: list[MappedDevice]


class Dep(TypedDict):
    """A device that another lies on."""

    # Its name.
    name: str
    # Its numbers; `null` if it was removed meanwhile.
    major: NotRequired[int | None]
    # The second one.
    minor: NotRequired[int | None]


class Deps(TypedDict):
    """What a device lies on."""

    # The device.
    name: str
    # What it lies on.
    deps: list[Dep]


class DevicesOfDeps(TypedDict):
    """Devices by name."""

    # The devices.
    devices: list[Deps]


class Listed(TypedDict):
    """A device in a list."""

    # Its name.
    name: str
    # Its numbers.
    major: int
    # The second one.
    minor: int


class DevicesOfListed(TypedDict):
    """Devices by name."""

    # The devices.
    devices: list[Listed]


class Target(TypedDict):
    """A kind of target."""

    # Its name.
    name: str
    # Its version.
    version: list[int]
    # Its arguments.
    usage: str


class Targets(TypedDict):
    """The kinds of targets."""

    # The kinds.
    targets: list[Target]

# How metrics are written.
Format = Literal["openmetrics", "prometheus"]

# Kind of a request's error, for programs.
ErrorKind = Literal[
    "bad-request",
    "unsupported-version",
    "unknown-op",
    "unknown-device",
    "not-zoned",
    "invalid",
    "busy",
    "exists",
    "no-table",
    "table",
    "not-ready",
    "stopped",
    "io",
]


class TableMistake(TypedDict):
    """What is wrong with a table."""

    # Its line, from 1 on.
    line: int
    # The word of the line, from 0 on, if it is one.
    word: NotRequired[int | None]
    # What is wrong with it.
    message: str


class Failure(TypedDict):
    """What is in `error` of a response."""

    # For programs.
    kind: ErrorKind
    # For people.
    message: str
    # What the device said, if it was the device.
    errno: NotRequired[int | None]
    # Where.
    sector: NotRequired[int | None]
    # The mistake in a table, if it is one.
    table: NotRequired[TableMistake | None]


class Operations(ABC):
    """Every operation of the control protocol. Sectors have 512 bytes."""

    @abstractmethod
    def request(self, op: str, fields: dict[str, Any]) -> Any:
        """Sends one request, and returns what is in `ok` of the answer. Fields that are `None` are left out."""

    def status(self) -> Status:
        """`status`: Asks for all of it."""
        return cast(Status, self.request("status", {}))

    def metrics(self, *, format: Format | None = None) -> Metrics:
        """`metrics`: Asks for what the stack has done, as text for those who watch many."""
        return cast(Metrics, self.request("metrics", {"format": format}))

    def events(self, *, since: int | None = None) -> EventList:
        """`events`: Asks for what has happened lately."""
        return cast(EventList, self.request("events", {"since": since}))

    def reload(self, *, dry_run: bool | None = None) -> Reloaded:
        """`reload`: Reads the stack file again, and changes of the running stack what it says otherwise than before."""
        return cast(Reloaded, self.request("reload", {"dry_run": dry_run}))

    def zones_report(self, device: str, *, start: int | None = None, count: int | None = None, max_age_ms: int | None = None) -> Zones:
        """`zones.report`: Reports zones, at most 1024 at a time. Sectors have 512 bytes."""
        return cast(Zones, self.request("zones.report", {"device": device, "start": start, "count": count, "max_age_ms": max_age_ms}))

    def zones_reset(self, device: str, *, start: int | None = None, length: int | None = None, force: bool | None = None) -> Changed:
        """`zones.reset`: Makes zones empty."""
        return cast(Changed, self.request("zones.reset", {"device": device, "start": start, "length": length, "force": force}))

    def zones_open(self, device: str, *, start: int | None = None, length: int | None = None, force: bool | None = None) -> Changed:
        """`zones.open`: Opens zones explicitly."""
        return cast(Changed, self.request("zones.open", {"device": device, "start": start, "length": length, "force": force}))

    def zones_close(self, device: str, *, start: int | None = None, length: int | None = None, force: bool | None = None) -> Changed:
        """`zones.close`: Closes zones."""
        return cast(Changed, self.request("zones.close", {"device": device, "start": start, "length": length, "force": force}))

    def zones_finish(self, device: str, *, start: int | None = None, length: int | None = None, force: bool | None = None) -> Changed:
        """`zones.finish`: Makes zones full."""
        return cast(Changed, self.request("zones.finish", {"device": device, "start": start, "length": length, "force": force}))

    def plugs(self, device: str) -> Plugs:
        """`plugs`: Shows the zone write plugs of a zoned disk, or of the lines of a mapped device."""
        return cast(Plugs, self.request("plugs", {"device": device}))

    def policy(self, device: str, *, policy: str | None = None) -> Policy:
        """`policy`: Shows how zone writes are ordered, or changes it while the device is in use."""
        return cast(Policy, self.request("policy", {"device": device, "policy": policy}))

    def scheduler(self, device: str, *, scheduler: str | None = None, queue_depth: int | None = None) -> Scheduler:
        """`scheduler`: Shows the I/O scheduler of a disk, or changes it while the disk is in use."""
        return cast(Scheduler, self.request("scheduler", {"device": device, "scheduler": scheduler, "queue_depth": queue_depth}))

    def trace_start(self, *, device: str | None = None) -> Started:
        """`trace.start`: Starts to record; one recording at a time."""
        return cast(Started, self.request("trace.start", {"device": device}))

    def trace_read(self) -> Batch:
        """`trace.read`: Reads what happened since the last time."""
        return cast(Batch, self.request("trace.read", {}))

    def trace_stop(self) -> Done:
        """`trace.stop`: Ends the recording."""
        return cast(Done, self.request("trace.stop", {}))

    def export_add(self, name: str, device: str, *, read_only: bool | None = None, description: str | None = None, keys: dict[str, Any] | None = None) -> Added:
        """`export.add`: Exports a disk or a mapped device."""
        return cast(Added, self.request("export.add", {"name": name, "device": device, "read_only": read_only, "description": description, "keys": keys}))

    def export_remove(self, name: str) -> Done:
        """`export.remove`: Ends an export that nobody uses."""
        return cast(Done, self.request("export.remove", {"name": name}))

    def path_list(self, *, device: str | None = None) -> Heads:
        """`path.list`: Shows the paths of a device, or of all that have several."""
        return cast(Heads, self.request("path.list", {"device": device}))

    def path_fail(self, device: str, path: str) -> HeadStatus:
        """`path.fail`: Takes a path out until it is restored. What is under way on it goes on."""
        return cast(HeadStatus, self.request("path.fail", {"device": device, "path": path}))

    def path_restore(self, device: str, path: str) -> HeadStatus:
        """`path.restore`: Puts a path in again, however it failed."""
        return cast(HeadStatus, self.request("path.restore", {"device": device, "path": path}))

    def path_state(self, device: str, path: str, state: str) -> HeadStatus:
        """`path.state`: Notes what a path is to the disk from now on."""
        return cast(HeadStatus, self.request("path.state", {"device": device, "path": path, "state": state}))

    def path_add(self, device: str, path: str, *, state: str | None = None, node: int | None = None) -> HeadStatus:
        """`path.add`: Adds a path, if it leads to the same disk and takes all that this takes; it gets I/O at once."""
        return cast(HeadStatus, self.request("path.add", {"device": device, "path": path, "state": state, "node": node}))

    def path_remove(self, device: str, path: str) -> HeadStatus:
        """`path.remove`: Removes a path. It gets nothing new, and is free when what is under way on it has ended or gone elsewhere; until then it is `leaving`."""
        return cast(HeadStatus, self.request("path.remove", {"device": device, "path": path}))

    def path_policy(self, device: str, policy: str, *, decay_percent: int | None = None, window_ns: int | None = None, low_water: int | None = None) -> HeadStatus:
        """`path.policy`: Has paths chosen by another policy, which begins without knowledge."""
        return cast(HeadStatus, self.request("path.policy", {"device": device, "policy": policy, "decay_percent": decay_percent, "window_ns": window_ns, "low_water": low_water}))

    def power_status(self, *, device: str | None = None) -> Drives:
        """`power.status`: Shows whether simulated drives have power, and how late they are."""
        return cast(Drives, self.request("power.status", {"device": device}))

    def power_cut(self, device: str) -> DriveStatus:
        """`power.cut`: Takes the power from a simulated drive: what is in flight fails, and what was not flushed is lost, or a part of it."""
        return cast(DriveStatus, self.request("power.cut", {"device": device}))

    def power_on(self, device: str) -> DriveStatus:
        """`power.on`: Gives it back, with what was durable. Whoever uses the disk has to find out what that is."""
        return cast(DriveStatus, self.request("power.on", {"device": device}))

    def dm_create(self, name: str, *, uuid: str | None = None, table: str | None = None, read_only: bool | None = None) -> MappedDevice:
        """`dm.create`: Creates a device; with a table it takes I/O at once."""
        return cast(MappedDevice, self.request("dm.create", {"name": name, "uuid": uuid, "table": table, "read_only": read_only}))

    def dm_load(self, device: str, table: str, *, read_only: bool | None = None) -> Done:
        """`dm.load`: Loads a table into the inactive slot."""
        return cast(Done, self.request("dm.load", {"device": device, "table": table, "read_only": read_only}))

    def dm_clear(self, device: str) -> Done:
        """`dm.clear`: Drops the table in the inactive slot."""
        return cast(Done, self.request("dm.clear", {"device": device}))

    def dm_suspend(self, device: str, *, noflush: bool | None = None, timeout_ms: int | None = None) -> Done:
        """`dm.suspend`: Lets no more I/O in, and finishes what is inside."""
        return cast(Done, self.request("dm.suspend", {"device": device, "noflush": noflush, "timeout_ms": timeout_ms}))

    def dm_resume(self, device: str, *, noflush: bool | None = None, timeout_ms: int | None = None) -> Done:
        """`dm.resume`: Lets I/O in again; if a table is loaded, through that."""
        return cast(Done, self.request("dm.resume", {"device": device, "noflush": noflush, "timeout_ms": timeout_ms}))

    def dm_wipe_table(self, device: str, *, noflush: bool | None = None, timeout_ms: int | None = None) -> Done:
        """`dm.wipe_table`: Replaces the table with one on which everything fails."""
        return cast(Done, self.request("dm.wipe_table", {"device": device, "noflush": noflush, "timeout_ms": timeout_ms}))

    def dm_remove(self, device: str, *, deferred: bool | None = None, force: bool | None = None, timeout_ms: int | None = None) -> Done:
        """`dm.remove`: Removes a device that nobody uses."""
        return cast(Done, self.request("dm.remove", {"device": device, "deferred": deferred, "force": force, "timeout_ms": timeout_ms}))

    def dm_rename(self, device: str, *, name: str | None = None, uuid: str | None = None) -> Done:
        """`dm.rename`: Gives a device another name, or a UUID if it has none: one of both."""
        return cast(Done, self.request("dm.rename", {"device": device, "name": name, "uuid": uuid}))

    def dm_message(self, device: str, message: str, *, sector: int | None = None) -> Answered:
        """`dm.message`: Tells a target something."""
        return cast(Answered, self.request("dm.message", {"device": device, "sector": sector, "message": message}))

    def dm_wait(self, device: str, *, event_nr: int | None = None, timeout_ms: int | None = None) -> Events:
        """`dm.wait`: Waits for an event."""
        return cast(Events, self.request("dm.wait", {"device": device, "event_nr": event_nr, "timeout_ms": timeout_ms}))

    def dm_info(self, *, device: str | None = None) -> Devices:
        """`dm.info`: Shows the state of a device, or of all."""
        return cast(Devices, self.request("dm.info", {"device": device}))

    def dm_table(self, *, device: str | None = None, inactive: bool | None = None, show_keys: bool | None = None) -> Devices:
        """`dm.table`: Shows the table of a device, or those of all."""
        return cast(Devices, self.request("dm.table", {"device": device, "inactive": inactive, "show_keys": show_keys}))

    def dm_status(self, *, device: str | None = None, inactive: bool | None = None) -> Devices:
        """`dm.status`: Shows what the targets of a device have to say, or those of all."""
        return cast(Devices, self.request("dm.status", {"device": device, "inactive": inactive}))

    def dm_deps(self, *, device: str | None = None) -> DevicesOfDeps:
        """`dm.deps`: Shows what the live table of a device lies on, or those of all."""
        return cast(DevicesOfDeps, self.request("dm.deps", {"device": device}))

    def dm_ls(self, *, target: str | None = None) -> DevicesOfListed:
        """`dm.ls`: Lists devices."""
        return cast(DevicesOfListed, self.request("dm.ls", {"target": target}))

    def dm_targets(self) -> Targets:
        """`dm.targets`: Lists the kinds of targets that tables can have."""
        return cast(Targets, self.request("dm.targets", {}))
