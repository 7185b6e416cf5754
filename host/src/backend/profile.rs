//! `type = "profile"`: a simulated drive that is really there. It takes as long as the drive of a profile, keeps its data in
//! memory or in a directory, and its power can be cut.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use shingle_core::block::BlockDevice;
use shingle_core::zone::ZonedDisk;
use shingle_drives::live::{LiveDrive, Model as LiveModel, adopt};
use shingle_drives::medium::Store;

use super::{BackEnd, BackEndError, BackEndType, Placed, absolute};
use crate::disk::drive_dir::{Description, DriveDir, DriveDirError};
use crate::fields::{At, Diagnostic, Fields};
use crate::profile::{Model, Part, Profile, Refusal};
use crate::shard::Shard;

pub(super) const TYPE: BackEndType = BackEndType { name: "profile", read, at, ask: None };

/// What data may take if nothing is said.
const DEFAULT_MEMORY: u64 = 1 << 30;

/// A drive as written.
#[derive(Debug)]
struct Simulated {
    /// The name of the profile, or the path of its file.
    profile: String,
    model: Model,
    keep_data: bool,
    /// Where its data is, if not in memory.
    directory: Option<PathBuf>,
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
    let directory = fields.path("directory");
    let seed = fields.count("seed").map_or(1, |at| at.value.into());
    let places = [("memory", memory.as_ref().map(|at| &at.span)), ("directory", directory.as_ref().map(|at| &at.span))];
    for (key, span) in places.into_iter().filter_map(|(key, span)| Some((key, span?))).filter(|_| !keep_data) {
        fields.error(
            Diagnostic::at(span.clone(), format!("`{key}` is for data, which this disk does not keep"))
                .label("leave it out, or `keep-data = false`"),
        );
    }
    if let (Some(memory), Some(directory)) = (&memory, &directory) {
        let title = "`memory` is for data in memory, and this disk has a `directory`";
        let label = "leave it out: the file system of the directory is the limit";
        fields.error(
            Diagnostic::at(memory.span.clone(), title).label(label).other(directory.span.clone(), "the directory"),
        );
    }
    let At { value: (name, mut model), span } = profile?;
    refuse(fields, "size", part.map(|part| part.map(|part| model.shrink(part))));
    refuse(fields, "limit of open zones", open.map(|most| most.map(|most| model.limit_open(most))));
    refuse(fields, "limit of active zones", active.map(|most| most.map(|most| model.limit_active(most))));
    let memory = memory.map_or(DEFAULT_MEMORY, |at| at.value);
    let place = directory.as_ref().map_or_else(|| span.clone(), |at| at.span.clone());
    let directory = directory.map(|at| at.value);
    let drive = Simulated { profile: name, model, keep_data, directory, memory, seed, place: span };
    Some(At { span: place, value: Arc::new(drive) })
}

/// The drive of a directory, for tools that know nothing else of it.
#[derive(Debug)]
struct Found {
    path: PathBuf,
    /// With its size in bytes.
    drive: Result<(Simulated, u64), String>,
}

fn at(path: &Path, _: bool) -> Option<Arc<dyn BackEnd>> {
    let described = DriveDir::describe(path)?.map_err(|error| error.to_string());
    let drive = described.and_then(|Description { profile, bytes, .. }| {
        let failed = |why: &dyn fmt::Display| format!("{}: its profile does not make it: {why}", path.display());
        let mut model = Profile::find(&profile).map_err(|error| failed(&error))?.model;
        model.shrink(Part::Bytes(bytes)).map_err(|why| failed(&format_args!("its size {why}")))?;
        let directory = Some(path.to_owned());
        let drive =
            Simulated { profile, model, keep_data: true, directory, memory: DEFAULT_MEMORY, seed: 1, place: 0..0 };
        Ok((drive, bytes))
    });
    Some(Arc::new(Found { path: path.into(), drive }))
}

impl BackEnd for Found {
    fn is_zoned(&self) -> bool {
        self.drive.as_ref().is_ok_and(|(drive, _)| drive.is_zoned())
    }

    fn open(&self, shard: &mut Shard) -> Result<Box<dyn BlockDevice>, BackEndError> {
        let failed = |message: &String| BackEndError { message: message.clone(), help: None };
        self.drive.as_ref().map_err(failed)?.0.open(shard)
    }

    fn lines(&self, kind: &BackEndType) -> String {
        let Ok((Simulated { profile, .. }, size)) = &self.drive else { return String::new() };
        let (kind, place) = (kind.name, absolute(&self.path));
        format!("type = \"{kind}\"\nprofile = {profile:?}\nsize = {size}\ndirectory = {place:?}\n")
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

/// The name or path, and model, of the profile that is named, or in the file, whose path is relative to the stack file.
fn read_profile(fields: &mut Fields<'_>) -> Option<At<(String, Model)>> {
    let name = fields.required("profile", "\"zns-1tb\"")?;
    let mut found = name.value.clone();
    if !Profile::names().any(|known| known == name.value) {
        let path = fields.path("profile")?.value;
        if path.exists() || path.extension().is_some() {
            let path = path.canonicalize().unwrap_or(path);
            found = path.to_str().map_or(found, str::to_owned);
        }
    }
    let model = match Profile::find(&found) {
        Ok(profile) => profile.model,
        Err(error) => {
            let title = format!("profile `{}` cannot be used", name.value);
            fields.error(Diagnostic::at(name.span, title).label(error.to_string().trim_end()));
            return None;
        }
    };
    if model.is_drive() {
        return Some(At { value: (found, model), span: name.span });
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

    /// The drive with its data in memory.
    fn drive(&self) -> Result<LiveDrive, String> {
        self.live(self.model(self.keep_data)?)
    }

    fn live(&self, model: Box<dyn LiveModel>) -> Result<LiveDrive, String> {
        LiveDrive::new(model, self.keep_data.then_some(self.memory), self.seed).map_err(|error| error.to_string())
    }

    /// What its directory has to say of it.
    fn description(&self, model: &dyn LiveModel) -> Description {
        let geometry = model.zones().map(ZonedDisk::geometry);
        Description::new(&self.profile, self.model.name(), model.limits(), geometry)
    }

    /// Has `model` keep its data in `path`.
    fn settle(&self, model: &mut dyn LiveModel, path: &Path) -> Result<(), String> {
        let opened = DriveDir::open(path, &self.description(model), model.zones());
        let store: Rc<dyn Store> = Rc::new(opened.map_err(|error: DriveDirError| error.to_string())?);
        adopt(model, &store).map_err(|reason| format!("{reason}, or choose another directory"))
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
        let failed = |message| BackEndError { message, help: None };
        let mut model = self.model(self.keep_data).map_err(failed)?;
        if let Some(path) = &self.directory {
            self.settle(&mut *model, path).map_err(failed)?;
        }
        Ok(Box::new(self.live(model).map_err(failed)?))
    }

    fn inspect(&self) -> Result<(), BackEndError> {
        let Some(path) = &self.directory else { return Ok(()) };
        let model = self.model(self.keep_data).map_err(|message| BackEndError { message, help: None })?;
        Ok(DriveDir::inspect(path, &self.description(&*model))?)
    }

    fn path(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    fn model(&self) -> Option<Box<dyn BlockDevice>> {
        Some(Box::new(self.drive().ok()?))
    }
}
