//! `shingle dmz format`.

use clap::Args;
use serde_json::{Value, json};
use shingle_core::dm::zoned::BLOCK_BYTES;
use shingle_core::dm::zoned::format::{FormatError, FormatOptions, Label, Layout, Media, format};
use uuid::Uuid;

use super::next::{Next, name_of};
use super::set::{SetArgs, geometry, geometry_json};
use super::{CliError, output};
use crate::cli::output::with_percent;
use crate::cli::waiting::WaitingArgs;
use shingle_host::config::format_bytes;
use shingle_host::dmz::{Disks, content};

/// Make a new, empty set of disks
///
/// Everything on the disks is lost. Sequential zones are emptied; the mapping and the bitmaps are written twice.
#[derive(Args)]
pub struct FormatArgs {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// Format although there is something on the disks
    #[arg(short, long)]
    force: bool,
    /// Name of the set, at most 31 bytes; dmz- and the name of the first disk if left out
    #[arg(long)]
    label: Option<String>,
    /// Sequential zones to keep for reclaim; 16, or what comes nearest to it, if left out
    #[arg(long, value_name = "ZONES", value_parser = clap::value_parser!(u32).range(1..))]
    seq: Option<u32>,
    /// UUID of the set; a random one if left out
    #[arg(long, value_parser = parse_uuid)]
    uuid: Option<Uuid>,
    /// Version of the format; 1 is for kernels before 5.8, and has neither label nor UUIDs
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    version: u32,
}

/// Runs the command.
pub fn run(args: &FormatArgs) -> Result<(), CliError> {
    let mut disks = args.set.open_to_write(&args.waiting)?;
    if !args.force
        && let Some(found) = content(&mut disks)?
    {
        return Err(CliError::Failed(format!("{found}: use --force to destroy it")));
    }
    if let Some(why) = disks.too_few_active_zones() {
        return Err(CliError::Failed(why));
    }
    let options = args.options(&disks)?;
    let formatted = with_percent("formatting", |progress| format(&mut disks, &options, progress));
    let layout = formatted.map_err(|error| match error {
        FormatError::Option(message) => CliError::Usage(message),
        other => CliError::Failed(other.to_string()),
    })?;
    let made = Made { disks: &disks, options: &options, layout: &layout };
    if args.set.json { output::print_json(&made.to_json()) } else { output::print(&made.text(args.set.detail())) }
}

fn parse_uuid(text: &str) -> Result<Uuid, String> {
    let example = "write it as in c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90";
    text.parse().map_err(|error| format!("`{text}` is not a UUID: {error}; {example}"))
}

impl FormatArgs {
    fn options(&self, disks: &Disks) -> Result<FormatOptions, CliError> {
        let device_uuids = disks.space().members().iter().map(|_| Uuid::new_v4().into_bytes()).collect();
        let (label, uuid) = match self.version {
            1 if self.uuid.is_some() => return Err(CliError::Usage("version 1 has no UUID: leave --uuid out".into())),
            1 => (self.label.clone().unwrap_or_default(), Uuid::nil()),
            _ => (self.label.clone().unwrap_or_else(|| default_label(disks)), self.uuid.unwrap_or_else(Uuid::new_v4)),
        };
        let label = Label::new(&label).map_err(|error| CliError::Usage(format!("--label: {error}")))?;
        Ok(FormatOptions {
            version: self.version,
            label,
            set_uuid: uuid.into_bytes(),
            device_uuids,
            reserved: self.seq,
        })
    }
}

/// A set that was just made.
struct Made<'a> {
    disks: &'a Disks,
    options: &'a FormatOptions,
    layout: &'a Layout,
}

impl Made<'_> {
    fn next(&self) -> Next {
        let label = &self.options.label;
        let label = if label.is_empty() { default_label(self.disks) } else { label.text().to_owned() };
        Next::new(self.disks, &label, self.layout.chunks)
    }

    fn bytes(&self) -> u64 {
        u64::from(self.layout.chunks) * u64::from(self.disks.space().zone_blocks()) * BLOCK_BYTES as u64
    }

    /// Label and UUID, if the version has them.
    fn identity(&self) -> Option<(&str, Uuid)> {
        (self.options.version > 1).then(|| (self.options.label.text(), Uuid::from_bytes(self.options.set_uuid)))
    }

    fn to_json(&self) -> Value {
        let (layout, identity, next) = (self.layout, self.identity(), self.next());
        let mut value = geometry_json(self.disks);
        value["version"] = json!(self.options.version);
        value["label"] = json!(identity.map(|(label, _)| label));
        value["uuid"] = json!(identity.map(|(_, uuid)| uuid.to_string()));
        value["chunks"] = json!(layout.chunks);
        value["bytes"] = json!(self.bytes());
        value["reserved"] = json!(layout.reserved);
        value["metadata_blocks"] = json!(layout.metadata_blocks);
        value["metadata_zones"] = json!(layout.metadata_zones);
        value["table"] = json!(next.table);
        value["stack"] = json!(next.stack);
        value
    }

    fn text(&self, detail: u8) -> String {
        let Layout { metadata_blocks, metadata_zones, chunks, reserved, .. } = self.layout;
        let identity = self.identity().map(|(label, uuid)| format!("  label {label}, UUID {uuid}\n"));
        format!(
            "{}  {metadata_blocks} metadata blocks per set in {metadata_zones} zones, 2 sets\n  {chunks} data chunks capacity \
             ({})\n  {reserved} sequential zones reserved for reclaim\n{}Done.\n\nA stack file for `shingle up`:\n\n{}",
            geometry(self.disks, detail),
            format_bytes(self.bytes()),
            identity.unwrap_or_default(),
            self.next().stack
        )
    }
}

/// The label of a set that was given none, as dmzadm makes it.
fn default_label(disks: &Disks) -> String {
    let name = disks.names().next().map(|path| name_of(path.as_ref())).unwrap_or_default();
    format!("dmz-{name}").chars().take(Label::MOST).collect()
}
