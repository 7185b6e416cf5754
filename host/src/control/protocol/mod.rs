//! The control protocol as types: what a request of each operation holds, and what its answer does. The daemon and the commands
//! both use these, and the schema in `docs` is made of them.

mod daemon;
mod failure;
mod mapped;
mod paths;
mod power;
mod recording;
mod reload;
mod requests;
mod schema;
mod zones;

pub use daemon::{Added, Counters, DeviceStatus, EventList, ExportStatus, Figures, Metrics, Status, Stuck, Zoned};
pub use failure::{ErrorKind, Failure, TableMistake};
pub use mapped::{Answered, Dep, Deps, Devices, Events, Listed, MappedDevice, State, Target, TargetLine, Targets};
pub use paths::{HeadStatus, Heads, PathPolicyOptions, PathStatus, PathWindowStatus};
pub use power::{DriveStatus, Drives};
pub use recording::{Batch, Started};
pub use reload::{Outcome, Part, Reloaded, StackChange, Verb};
pub use requests::{
    AddExport, AddPath, Clear, CloseZones, Create, CutPower, Drain, FailPath, FinishZones, GetDeps, GetEvents, GetInfo,
    GetMetrics, GetPlugs, GetPower, GetStatus, GetTable, GetTargetStatus, List, ListPaths, ListTargets, Load,
    ManageZones, Message, OPERATIONS, OnePath, OpenZones, ReadRecording, Reload, Remove, RemoveExport, RemovePath,
    Rename, ReportZones, ResetZones, RestorePath, RestorePower, Resume, SetPathPolicy, SetPathState, SetPolicy,
    SetScheduler, StartRecording, StopRecording, Suspend, Wait, WipeTable,
};
pub use schema::schema;
pub use zones::{Changed, LinePlugs, LinePolicy, Plug, Plugs, Policy, Scheduler, ZoneInfo, Zones};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a request asks for: the fields of the type, beside `v`, `id` and `op`.
pub trait Operation: Serialize + DeserializeOwned + JsonSchema {
    /// The `op` of the request.
    const NAME: &'static str;
    /// What is in `ok` of the response.
    type Answer: Serialize + DeserializeOwned + JsonSchema;
}

/// An answer that says that it is done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Done {}
