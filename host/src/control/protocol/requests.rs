//! What can be asked of a daemon. Mapped devices have dmsetup's verbs, and are named by their name or their UUID.

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    Added, Answered, Batch, Changed, Deps, Devices, Done, DriveStatus, Drives, EventList, Events, HeadStatus, Heads,
    Listed, MappedDevice, Metrics, Operation, Plugs, Policy, Reloaded, Scheduler, Started, Status, Targets, Zones,
};
use crate::metrics::Format;

/// The operations: what each is called, what is in `ok` of its response, and its request.
macro_rules! requests {
    ($($(#[$meta:meta])* $name:literal => $answer:ty: pub struct $request:ident $fields:tt)*) => {
        $(
            requests!(@type $(#[$meta])* $request $fields);

            impl Operation for $request {
                const NAME: &'static str = $name;
                type Answer = $answer;
            }
        )*

        /// The names of all operations.
        pub const OPERATIONS: &[&str] = &[$($name),*];

        /// The types of all operations.
        pub(super) fn describe_all(generator: &mut SchemaGenerator) -> Map<String, Value> {
            [$(($name.to_owned(), describe::<$request>(generator))),*].into_iter().collect()
        }
    };
    (@type $(#[$meta:meta])* $request:ident { $($fields:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $request { $($fields)* }
    };
    (@type $(#[$meta:meta])* $request:ident ($($fields:tt)*)) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $request($($fields)*);
    };
}

/// The types of an operation.
fn describe<O: Operation>(generator: &mut SchemaGenerator) -> Value {
    json!({"request": generator.subschema_for::<O>(), "ok": generator.subschema_for::<O::Answer>()})
}

requests! {
    /// Asks for all of it.
    "status" => Status: pub struct GetStatus {}

    /// Asks for what the stack has done, as text for those who watch many.
    "metrics" => Metrics: pub struct GetMetrics {
        /// How it is written.
        #[serde(default)]
        pub format: Format,
    }

    /// Asks for what has happened lately.
    "events" => EventList: pub struct GetEvents {
        /// Number of the last event that is known already.
        #[serde(default)]
        pub since: u64,
    }

    /// Reads the stack file again, and changes of the running stack what it says otherwise than before.
    "reload" => Reloaded: pub struct Reload {
        /// Only tell what would be done.
        #[serde(default)]
        pub dry_run: bool,
    }

    /// Reports zones, at most 1024 at a time. Sectors have 512 bytes.
    "zones.report" => Zones: pub struct ReportZones {
        /// The device.
        pub device: String,
        /// A sector of the first zone.
        #[serde(default)]
        pub start: u64,
        /// Number of zones; 0: as many as fit.
        #[serde(default)]
        pub count: u64,
        /// For those who watch: the zones may be as old as that, in milliseconds, or older if the device takes long to report them. Left out, the
        /// device is asked now.
        pub max_age_ms: Option<u64>,
    }

    /// Makes zones empty.
    "zones.reset" => Changed: pub struct ResetZones(pub ManageZones)

    /// Opens zones explicitly.
    "zones.open" => Changed: pub struct OpenZones(pub ManageZones)

    /// Closes zones.
    "zones.close" => Changed: pub struct CloseZones(pub ManageZones)

    /// Makes zones full.
    "zones.finish" => Changed: pub struct FinishZones(pub ManageZones)

    /// Shows the zone write plugs of a zoned disk, or of the lines of a mapped device.
    "plugs" => Plugs: pub struct GetPlugs {
        /// The disk, the mapped device, or `NAME/LINE` for one line of its table, counted from 1.
        pub device: String,
    }

    /// Shows how zone writes are ordered, or changes it while the device is in use.
    "policy" => Policy: pub struct SetPolicy {
        /// The disk, the mapped device, or `NAME/LINE` for one line of its table, counted from 1.
        pub device: String,
        /// The new policy: `plug`, `qd1`, `elevator`, `zone-lock` or `none`; nothing changes if it is left out.
        pub policy: Option<String>,
    }

    /// Shows the I/O scheduler of a disk, or changes it while the disk is in use.
    "scheduler" => Scheduler: pub struct SetScheduler {
        /// Name of the disk.
        pub device: String,
        /// The new scheduler: `none` or `mq-deadline`; left out: the present one.
        pub scheduler: Option<String>,
        /// Commands in flight at the disk under `mq-deadline`, 1 to 10,240; left out: the present one, else that of the stack file.
        pub queue_depth: Option<u32>,
    }

    /// Starts to record; one recording at a time.
    "trace.start" => Started: pub struct StartRecording {
        /// The device, or nothing for all of them. Every layer of the stack has a name here.
        pub device: Option<String>,
    }

    /// Reads what happened since the last time.
    "trace.read" => Batch: pub struct ReadRecording {}

    /// Ends the recording.
    "trace.stop" => Done: pub struct StopRecording {}

    /// Exports a disk or a mapped device.
    "export.add" => Added: pub struct AddExport {
        /// Its name, as clients ask for it.
        pub name: String,
        /// The disk or mapped device.
        pub device: String,
        /// Whether writes are refused.
        #[serde(default)]
        pub read_only: bool,
        /// What a list of exports says about it.
        pub description: Option<String>,
        /// Other keys, as in `[export.NAME]` of a stack file.
        #[serde(default)]
        pub keys: Map<String, Value>,
    }

    /// Ends an export that nobody uses.
    "export.remove" => Done: pub struct RemoveExport {
        /// Its name.
        pub name: String,
    }

    /// Shows the paths of a device, or of all that have several.
    "path.list" => Heads: pub struct ListPaths {
        /// The device; all if left out.
        pub device: Option<String>,
    }

    /// Takes a path out until it is restored. What is under way on it goes on.
    "path.fail" => HeadStatus: pub struct FailPath(pub OnePath)

    /// Puts a path in again, however it failed.
    "path.restore" => HeadStatus: pub struct RestorePath(pub OnePath)

    /// Notes what a path is to the disk from now on.
    "path.state" => HeadStatus: pub struct SetPathState {
        /// The device.
        pub device: String,
        /// The path: the disk or device that it is.
        pub path: String,
        /// `optimized`, `non-optimized`, `inaccessible`, `persistent-loss` or `change`.
        pub state: String,
    }

    /// Adds a path, if it leads to the same disk and takes all that this takes; it gets I/O at once.
    "path.add" => HeadStatus: pub struct AddPath {
        /// The device.
        pub device: String,
        /// The disk or device that is to be a path.
        pub path: String,
        /// `optimized`, `non-optimized`, `inaccessible`, `persistent-loss` or `change`; `optimized` if left out.
        pub state: Option<String>,
        /// NUMA node that the path is near to, 0 to 255; that of its disk if left out.
        pub node: Option<u32>,
    }

    /// Removes a path. It gets nothing new, and is free when what is under way on it has ended or gone elsewhere; until then it is `leaving`.
    "path.remove" => HeadStatus: pub struct RemovePath(pub OnePath)

    /// Has paths chosen by another policy, which begins without knowledge.
    "path.policy" => HeadStatus: pub struct SetPathPolicy {
        /// The device.
        pub device: String,
        /// The policy.
        pub policy: String,
        /// Percentage of an old latency that `latency` and `adaptive` keep; the default of the policy if left out.
        pub decay_percent: Option<u32>,
        /// Time over which `latency` and `adaptive` gather samples; the default of the policy if left out.
        pub window_ns: Option<u64>,
        /// Samples that a window of `latency` or `adaptive` must have to count; the default of the policy if left out.
        pub low_water: Option<u32>,
    }

    /// Shows whether simulated drives have power, and how late they are.
    "power.status" => Drives: pub struct GetPower {
        /// The disk; all of them if left out.
        pub device: Option<String>,
    }

    /// Takes the power from a simulated drive: what is in flight fails, and what was not flushed is lost, or a part of it.
    "power.cut" => DriveStatus: pub struct CutPower {
        /// The disk.
        pub device: String,
    }

    /// Gives it back, with what was durable. Whoever uses the disk has to find out what that is.
    "power.on" => DriveStatus: pub struct RestorePower {
        /// The disk.
        pub device: String,
    }

    /// Creates a device; with a table it takes I/O at once.
    "dm.create" => MappedDevice: pub struct Create {
        /// Its name.
        pub name: String,
        /// Its UUID; of a dm-zoned volume that of its set, if left out.
        pub uuid: Option<String>,
        /// The text of its table, if it gets one now.
        pub table: Option<String>,
        /// Whether it refuses writes.
        #[serde(default)]
        pub read_only: bool,
    }

    /// Loads a table into the inactive slot.
    "dm.load" => Done: pub struct Load {
        /// The device.
        pub device: String,
        /// The text of the table.
        pub table: String,
        /// Whether it refuses writes once it is live.
        #[serde(default)]
        pub read_only: bool,
    }

    /// Drops the table in the inactive slot.
    "dm.clear" => Done: pub struct Clear {
        /// The device.
        pub device: String,
    }

    /// Lets no more I/O in, and finishes what is inside.
    "dm.suspend" => Done: pub struct Suspend(pub Drain)

    /// Lets I/O in again; if a table is loaded, through that.
    "dm.resume" => Done: pub struct Resume(pub Drain)

    /// Replaces the table with one on which everything fails.
    "dm.wipe_table" => Done: pub struct WipeTable(pub Drain)

    /// Removes a device that nobody uses.
    "dm.remove" => Done: pub struct Remove {
        /// The device.
        pub device: String,
        /// If it is in use: when that ends.
        #[serde(default)]
        pub deferred: bool,
        /// Replace the table with one on which everything fails first.
        #[serde(default)]
        pub force: bool,
        /// How long that may take, as in `dm.suspend`.
        pub timeout_ms: Option<u64>,
    }

    /// Gives a device another name, or a UUID if it has none: one of both.
    "dm.rename" => Done: pub struct Rename {
        /// The device.
        pub device: String,
        /// The new name.
        pub name: Option<String>,
        /// The UUID.
        pub uuid: Option<String>,
    }

    /// Tells a target something.
    "dm.message" => Answered: pub struct Message {
        /// The device.
        pub device: String,
        /// A sector of the target; 0 if the message is for the device.
        #[serde(default)]
        pub sector: u64,
        /// The words.
        pub message: String,
    }

    /// Waits for an event.
    "dm.wait" => Events: pub struct Wait {
        /// The device.
        pub device: String,
        /// The number of events that were seen already.
        #[serde(default)]
        pub event_nr: u64,
        /// For so long, at most 5,000: ask again.
        pub timeout_ms: Option<u64>,
    }

    /// Shows the state of a device, or of all.
    "dm.info" => Devices<MappedDevice>: pub struct GetInfo {
        /// The device; all if left out.
        pub device: Option<String>,
    }

    /// Shows the table of a device, or those of all.
    "dm.table" => Devices<MappedDevice>: pub struct GetTable {
        /// The device; all if left out.
        pub device: Option<String>,
        /// That in the inactive slot.
        #[serde(default)]
        pub inactive: bool,
        /// Keys too, which are otherwise shown as zeroes.
        #[serde(default)]
        pub show_keys: bool,
    }

    /// Shows what the targets of a device have to say, or those of all.
    "dm.status" => Devices<MappedDevice>: pub struct GetTargetStatus {
        /// The device; all if left out.
        pub device: Option<String>,
        /// Of the table in the inactive slot.
        #[serde(default)]
        pub inactive: bool,
    }

    /// Shows what the live table of a device lies on, or those of all.
    "dm.deps" => Devices<Deps>: pub struct GetDeps {
        /// The device; all if left out.
        pub device: Option<String>,
    }

    /// Lists devices.
    "dm.ls" => Devices<Listed>: pub struct List {
        /// Only those with a target of this kind.
        pub target: Option<String>,
    }

    /// Lists the kinds of targets that tables can have.
    "dm.targets" => Targets: pub struct ListTargets {}
}

/// A range of whole zones to change. If an export or the table of a mapped device lies on the device, that is `busy`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManageZones {
    /// The device.
    pub device: String,
    /// The first sector.
    #[serde(default)]
    pub start: u64,
    /// Number of sectors; to the end if left out.
    pub length: Option<u64>,
    /// Whoever uses the device: what they had in these zones is gone.
    #[serde(default)]
    pub force: bool,
}

/// A path of a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnePath {
    /// The device.
    pub device: String,
    /// The path: the disk or device that it is.
    pub path: String,
}

/// A device, and how to wait for its I/O in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// The device.
    pub device: String,
    /// Have targets push back what they hold instead of finishing it first.
    #[serde(default)]
    pub noflush: bool,
    /// After so long the device goes on as before: 5,000 if left out, at most 20,000.
    pub timeout_ms: Option<u64>,
}
