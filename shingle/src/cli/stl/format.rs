//! `shingle stl format`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::policy::amplification;
use shingle_core::dm::stl::tools::{FormatError, FormatOptions, Media, format, plan};
use shingle_core::dm::stl::{BLOCK_SECTORS, CreateError, Created};
use shingle_host::config::format_bytes;
use shingle_host::stl::{Disks, content};
use uuid::Uuid;

use super::set::{SetArgs, geometry, geometry_json, other_zones, percent, serving_these, socket_prefix, uuid};
use super::{CliError, output};
use crate::cli::output::with_percent;
use crate::cli::waiting::WaitingArgs;

/// Make a new, empty volume of disks
///
/// Everything on the disks is lost: their zones are emptied. Space that is kept back makes random writes cheap when the volume is
/// full: what it costs is printed.
#[derive(Args)]
pub struct FormatArgs {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// Format although there is something on the disks
    #[arg(short, long)]
    force: bool,
    /// Percent of the space for data that is kept back, from 3 to 90; tenths are allowed
    #[arg(long, value_name = "PERCENT", default_value = "7", value_parser = parse_percent)]
    reserve: u32,
    /// UUID of the volume; a random one if left out
    #[arg(long)]
    uuid: Option<Uuid>,
    /// A new file for the stack file that serves the volume
    #[arg(long, value_name = "FILE")]
    stack: Option<PathBuf>,
}

/// Reserves that are compared, in thousandths.
const RESERVES: [u32; 6] = [30, 70, 100, 150, 200, 280];

/// Thousandths.
fn parse_percent(text: &str) -> Result<u32, String> {
    let percent: Option<f64> = text.parse().ok().filter(|percent| (3.0..=90.0).contains(percent));
    let wrong = || format!("`{text}` is no percentage from 3 to 90");
    percent.map(|percent| (percent * 10.0).round() as u32).ok_or_else(wrong)
}

/// Runs the command.
pub fn run(args: &FormatArgs) -> Result<(), CliError> {
    let stack = args.stack.as_deref().map(StackFile::create).transpose()?;
    let mut disks = args.set.open_to_write(&args.waiting)?;
    if !args.force
        && let Some(found) = content(&mut disks, 0)?
    {
        return Err(CliError::Failed(format!("{found}: use --force to destroy it")));
    }
    let options = FormatOptions {
        set: SetId(args.uuid.unwrap_or_else(Uuid::new_v4).into_bytes()),
        disks: disks.disks().iter().map(|_| Uuid::new_v4().into_bytes()).collect(),
        reserve: args.reserve,
    };
    let created = with_percent("formatting", |progress| format(&mut disks, &options, progress));
    let created = created.map_err(|error| match error {
        FormatError::Create(CreateError::Reserve(_)) => CliError::usage(error),
        FormatError::Create(CreateError::OtherZones(..)) => CliError::Failed(other_zones(&disks)),
        FormatError::Create(error) => {
            CliError::Failed(format!("{}: {error}", disks.names().collect::<Vec<_>>().join(", ")))
        }
        other => CliError::failed(other),
    })?;
    let names: Vec<&str> = disks.names().collect();
    let serving = serving_these(&names, created.sectors, &socket_prefix(args.stack.as_deref()));
    if let Some(stack) = stack {
        stack.fill(&serving.1)?;
    }
    let made = Made { disks: &disks, options: &options, created: &created, serving };
    if args.set.json { output::print_json(&made.to_json()) } else { output::print(&made.text()) }
}

/// The stack file to write, made before the volume: one that cannot be written must not be found out when the disks hold a volume already. It goes
/// unless it is filled.
struct StackFile<'a> {
    path: &'a Path,
    file: File,
    is_filled: bool,
}

impl<'a> StackFile<'a> {
    fn create(path: &'a Path) -> Result<Self, CliError> {
        let file = File::create_new(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => CliError::Failed(format!("--stack: {} is there already", path.display())),
            _ => CliError::Failed(format!("--stack: cannot create {}: {error}", path.display())),
        })?;
        Ok(Self { path, file, is_filled: false })
    }

    fn fill(mut self, text: &str) -> Result<(), CliError> {
        let written = self.file.write_all(text.as_bytes());
        let path = self.path.display();
        written.map_err(|error| CliError::Failed(format!("the volume is made, but not {path}: {error}\n\n{text}")))?;
        self.is_filled = true;
        Ok(())
    }
}

impl Drop for StackFile<'_> {
    fn drop(&mut self) {
        if !self.is_filled {
            let _ = fs::remove_file(self.path);
        }
    }
}

/// A volume that was just made.
struct Made<'a> {
    disks: &'a Disks,
    options: &'a FormatOptions,
    created: &'a Created,
    /// As of [`serving_these`].
    serving: (String, String),
}

/// What a reserve means: bytes that are exposed, and blocks written for each that users write when 80 % and all of that is used.
struct Cost {
    reserve: u32,
    bytes: u64,
    amplification: [f64; 2],
}

impl Made<'_> {
    fn costs(&self) -> Vec<Cost> {
        let all: BTreeSet<u32> = RESERVES.into_iter().chain([self.options.reserve]).collect();
        let cost = |reserve: u32| {
            let created = plan(self.disks.disks(), &FormatOptions { reserve, ..self.options.clone() }).ok()?;
            let exposed = f64::from(1000 - reserve) / 1000.0;
            let amplification = [0.8, 1.0].map(|filled| amplification(filled * exposed));
            Some(Cost { reserve, bytes: created.sectors * 512, amplification })
        };
        all.into_iter().filter_map(cost).collect()
    }

    fn to_json(&self) -> Value {
        let (table, stack) = &self.serving;
        let cost = |cost: &Cost| {
            let [most, all] = cost.amplification;
            json!({"reserve_per_mille": cost.reserve, "bytes": cost.bytes, "amplification_80": most, "amplification_100": all})
        };
        let mut value = geometry_json(self.disks);
        value["uuid"] = json!(uuid(self.options.set.0));
        value["device_uuids"] = self.options.disks.iter().map(|id| json!(uuid(*id))).collect();
        value["sectors"] = json!(self.created.sectors);
        value["bytes"] = json!(self.created.sectors / u64::from(BLOCK_SECTORS) * 4096);
        value["reserve_per_mille"] = json!(self.options.reserve);
        value["reserves"] = self.costs().iter().map(cost).collect();
        value["table"] = json!(table);
        value["stack"] = json!(stack);
        value
    }

    fn text(&self) -> String {
        let row = |cost: &Cost| {
            let chosen = if cost.reserve == self.options.reserve { "chosen" } else { "" };
            let [most, all] = cost.amplification.map(|times| format!("{times:.2}"));
            vec![percent(cost.reserve), format_bytes(cost.bytes), most, all, chosen.to_owned()]
        };
        let header = ["reserve", "size", "80 % used", "all used", ""];
        let costs = output::table(&header, &[0, 1, 2, 3], self.costs().iter().map(row));
        format!(
            "{}volume {}: {}, {} kept back\n\nBlocks written for each block that is written at random, in the long run:\n\n{costs}\nDone.\n\nA \
             stack file for `shingle up`:\n\n{}",
            geometry(self.disks),
            uuid(self.options.set.0),
            format_bytes(self.created.sectors * 512),
            percent(self.options.reserve),
            self.serving.1,
        )
    }
}
