//! `type = "profile"`: a simulated drive that is really there. It takes as long as the drive of a profile, keeps its data in
//! memory, and its power can be cut.

use std::ops::Range;
use std::sync::Arc;

use shingle_core::block::BlockDevice;
use shingle_drives::live::{LiveDrive, Model as LiveModel};

use super::{BackEnd, BackEndError, BackEndType, Placed};
use crate::fields::{At, Diagnostic, Fields};
use crate::profile::{Model, Part, Profile, Refusal};
use crate::shard::Shard;

pub(super) const TYPE: BackEndType = BackEndType { name: "profile", read, at: |_, _| None, ask: None };

/// What data may take if nothing is said.
const DEFAULT_MEMORY: u64 = 1 << 30;

/// A drive as written.
#[derive(Debug)]
struct Simulated {
    model: Model,
    keep_data: bool,
    memory: u64,
    seed: u64,
    /// Of the name of the profile.
    place: Range<usize>,
}

/// A profile is read here, although other kinds of disk touch no file before they are opened: whether the disk has zones, and
/// what tables on it have to keep to, is in there.
fn read(fields: &mut Fields<'_>) -> Option<Placed> {
    let profile = read_profile(fields);
    let part = read_part(fields);
    let (open, active) = (fields.count("max-open"), fields.count("max-active"));
    let keep_data = fields.flag("keep-data").is_none_or(|at| at.value);
    let memory = fields.size("memory");
    let seed = fields.count("seed").map_or(1, |at| at.value.into());
    if let Some(at) = memory.as_ref().filter(|_| !keep_data) {
        fields.error(
            Diagnostic::at(at.span.clone(), "`memory` is for data, which this disk does not keep")
                .label("leave it out, or `keep-data = false`"),
        );
    }
    let At { value: mut model, span } = profile?;
    refuse(fields, "size", part.map(|part| part.map(|part| model.shrink(part))));
    refuse(fields, "limit of open zones", open.map(|most| most.map(|most| model.limit_open(most))));
    refuse(fields, "limit of active zones", active.map(|most| most.map(|most| model.limit_active(most))));
    let memory = memory.map_or(DEFAULT_MEMORY, |at| at.value);
    let drive = Simulated { model, keep_data, memory, seed, place: span.clone() };
    Some(At { span, value: Arc::new(drive) })
}

/// The model of the profile that is named, or in the file, whose path is relative to the stack file.
fn read_profile(fields: &mut Fields<'_>) -> Option<At<Model>> {
    let name = fields.required("profile", "\"zns-1tb\"")?;
    let found = if Profile::names().any(|known| known == name.value) {
        Profile::find(&name.value)
    } else {
        let path = fields.path("profile")?.value;
        let is_path = path.exists() || path.extension().is_some();
        Profile::find(if is_path { path.to_str().unwrap_or(&name.value) } else { &name.value })
    };
    let model = match found {
        Ok(profile) => profile.model,
        Err(error) => {
            let title = format!("profile `{}` cannot be used", name.value);
            fields.error(Diagnostic::at(name.span, title).label(error.to_string().trim_end()));
            return None;
        }
    };
    if model.is_drive() {
        return Some(At { value: model, span: name.span });
    }
    let title = format!("profile `{}` is not of a drive", name.value);
    let known = "use one of a model `smr`, `zns`, `ssd` or `ram`; for a null device, `type = \"null\"`";
    fields.error(Diagnostic::at(name.span, title).label(known));
    None
}

fn read_part(fields: &mut Fields<'_>) -> Option<At<Part>> {
    let size = fields.size("size").map(|size| size.map(Part::Bytes));
    let zones = fields.count("zones").map(|zones| zones.map(Part::Zones));
    if let (Some(size), Some(zones)) = (&size, &zones) {
        let title = "a disk has `size` or `zones`, not both";
        fields.error(Diagnostic::at(zones.span.clone(), title).other(size.span.clone(), "the other one"));
    }
    size.or(zones)
}

/// Notes that a model cannot be changed so.
fn refuse(fields: &mut Fields<'_>, what: &str, changed: Option<At<Result<(), Refusal>>>) {
    if let Some(At { value: Err(why), span }) = changed {
        fields.error(Diagnostic::at(span, format!("the {what} does not fit the profile")).label(format!("it {why}")));
    }
}

impl Simulated {
    fn model(&self, keep_data: bool) -> Result<Box<dyn LiveModel>, String> {
        let made = self.model.to_live(keep_data).ok_or("its profile is not of a drive")?;
        made.map_err(|error| error.to_string())
    }

    fn drive(&self) -> Result<LiveDrive, String> {
        let memory = self.keep_data.then_some(self.memory);
        LiveDrive::new(self.model(self.keep_data)?, memory, self.seed).map_err(|error| error.to_string())
    }
}

impl BackEnd for Simulated {
    fn is_zoned(&self) -> bool {
        self.model.zone_sectors().is_some()
    }

    fn mistake(&self, name: &str) -> Option<Diagnostic> {
        let why = self.drive().err()?;
        let title = format!("disk `{name}` cannot be made of its profile");
        Some(Diagnostic::at(self.place.clone(), title).label(why))
    }

    fn open(&self, _: &mut Shard) -> Result<Box<dyn BlockDevice>, BackEndError> {
        let drive = self.drive().map_err(|message| BackEndError { message, help: None })?;
        Ok(Box::new(drive))
    }

    fn model(&self) -> Option<Box<dyn BlockDevice>> {
        Some(Box::new(self.drive().ok()?))
    }
}
