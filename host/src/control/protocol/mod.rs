//! The control protocol as types: what a request of each operation holds, and what its answer does. The daemon and the commands
//! both use these, and the schema in `docs` is made of them.

mod daemon;
mod export;
mod failure;
mod mapped;
mod recording;
mod schema;
mod zones;

pub use daemon::{Counters, DeviceStatus, ExportStatus, Figures, GetStatus, Status, Stuck, Zoned};
pub use export::{AddExport, Added, RemoveExport};
pub use failure::{ErrorKind, Failure, TableMistake};
pub use mapped::{
    Answered, Clear, Create, Dep, Deps, Devices, Drain, Events, GetDeps, GetInfo, GetTable, GetTargetStatus, List,
    ListTargets, Listed, Load, MappedDevice, Message, Remove, Rename, Resume, State, Suspend, Target, TargetLine,
    Targets, Wait, WipeTable,
};
pub use recording::{Batch, ReadRecording, StartRecording, Started, StopRecording};
pub use schema::schema;
pub use zones::{
    Changed, CloseZones, FinishZones, GetPlugs, ManageZones, OpenZones, Plug, Plugs, Policy, ReportZones, ResetZones,
    SetPolicy, ZoneInfo, Zones,
};

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

macro_rules! operations {
    ($($name:literal: $request:ty => $answer:ty,)*) => {
        $(impl Operation for $request {
            const NAME: &'static str = $name;
            type Answer = $answer;
        })*

        /// The names of all operations.
        pub const OPERATIONS: &[&str] = &[$($name),*];

        /// Shows the type of each request and of its answer.
        fn visit_types(visit: &mut dyn FnMut(&'static str, schema::Types)) {
            $(visit($name, schema::Types::of::<$request>());)*
        }
    };
}

operations! {
    "status": GetStatus => Status,
    "zones.report": ReportZones => Zones,
    "zones.reset": ResetZones => Changed,
    "zones.open": OpenZones => Changed,
    "zones.close": CloseZones => Changed,
    "zones.finish": FinishZones => Changed,
    "plugs": GetPlugs => Plugs,
    "policy": SetPolicy => Policy,
    "trace.start": StartRecording => Started,
    "trace.read": ReadRecording => Batch,
    "trace.stop": StopRecording => Done,
    "export.add": AddExport => Added,
    "export.remove": RemoveExport => Done,
    "dm.create": Create => MappedDevice,
    "dm.load": Load => Done,
    "dm.clear": Clear => Done,
    "dm.suspend": Suspend => Done,
    "dm.resume": Resume => Done,
    "dm.wipe_table": WipeTable => Done,
    "dm.remove": Remove => Done,
    "dm.rename": Rename => Done,
    "dm.message": Message => Answered,
    "dm.wait": Wait => Events,
    "dm.info": GetInfo => Devices<MappedDevice>,
    "dm.table": GetTable => Devices<MappedDevice>,
    "dm.status": GetTargetStatus => Devices<MappedDevice>,
    "dm.deps": GetDeps => Devices<Deps>,
    "dm.ls": List => Devices<Listed>,
    "dm.targets": ListTargets => Targets,
}
