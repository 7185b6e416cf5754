//! `shingle zones`: what blkzone(8) does, on a directory, a block device or a device of a running daemon.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use shingle_core::zone::{Condition, Zone, ZoneKind, ZoneNo};

use super::remote::{RemoteArgs, name_of};
use super::waiting::refuse_waiting;
use super::watch::{self, WatchArgs};
use super::{CliError, output};
use shingle_host::config::parse_size;
use shingle_host::control::protocol::{
    CloseZones, FinishZones, GetStatus, ManageZones, OpenZones, ResetZones, ZoneInfo,
};
use shingle_host::control::{ControlClient, ZoneAction, ZoneRange};
use shingle_host::disk::zoned_blk::{self, ZonedBlkError};
use shingle_host::disk::zoned_dir::{ErrorKind, Inspection, Offline, ZonedDirError, inspect};
use shingle_sys::zoned_block::ZoneCommand;

/// Report and manage zones, with blkzone's names and options
#[derive(Args)]
pub struct ZonesArgs {
    #[command(subcommand)]
    command: ZonesCommand,
}

#[derive(Subcommand)]
enum ZonesCommand {
    /// Report zones
    Report(ReportArgs),
    /// Report the sum of zone capacities
    Capacity(TargetArgs),
    /// Make zones empty
    Reset(ActionArgs),
    /// Open zones explicitly
    Open(ActionArgs),
    /// Close zones
    Close(ActionArgs),
    /// Make zones full
    Finish(ActionArgs),
    /// Show zones as a map in a browser, until Ctrl-C
    Watch(WatchArgs),
}

#[derive(Args)]
pub(super) struct TargetArgs {
    /// A directory made by `shingle create`, a zoned block device, or a device of a running daemon
    target: String,
    #[command(flatten)]
    remote: RemoteArgs,
    /// First sector (512 bytes); decimal, 0x... or with a suffix: 4K are 4096 sectors
    #[arg(short, long, default_value = "0", value_parser = parse_sector)]
    offset: u64,
    /// Length in sectors
    #[arg(short, long, value_parser = parse_sector, conflicts_with = "count")]
    length: Option<u64>,
    /// Number of zones
    #[arg(short, long, value_parser = parse_sector)]
    count: Option<u64>,
    /// Say what was done
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ReportArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Only zones in these conditions
    #[arg(long, value_parser = condition_words(), value_delimiter = ',')]
    cond: Vec<String>,
    /// Only zones of this type
    #[arg(long = "type", value_enum)]
    kind: Option<KindArg>,
}

#[derive(Args)]
struct ActionArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Even if an export or the table of a mapped device lies on the device, or the block device of a killed daemon waits for it: their data in
    /// these zones is lost
    #[arg(short, long)]
    force: bool,
}

/// Conditions, blkzone's words for them, and what those mean.
const CONDITIONS: [(Condition, &str, &str); 8] = [
    (Condition::NotWp, "nw", "Not write pointer: conventional"),
    (Condition::Empty, "em", "Empty"),
    (Condition::ImplicitOpen, "oi", "Implicitly open"),
    (Condition::ExplicitOpen, "oe", "Explicitly open"),
    (Condition::Closed, "cl", "Closed"),
    (Condition::ReadOnly, "ro", "Read-only"),
    (Condition::Full, "fu", "Full"),
    (Condition::Offline, "of", "Offline"),
];

fn condition_words() -> PossibleValuesParser {
    CONDITIONS.map(|(_, word, meaning)| PossibleValue::new(word).help(meaning)).into()
}

/// blkzone's word for a condition.
fn condition_word(wanted: Condition) -> &'static str {
    CONDITIONS.iter().find(|(cond, ..)| *cond == wanted).map_or("xx", |(_, word, _)| word)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// Conventional
    Conv,
    /// Sequential write required
    Seq,
}

fn parse_sector(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map_err(|_| ()),
        // blkzone's suffixes multiply sectors, too.
        None => parse_size(text).map_err(|_| ()),
    };
    parsed.map_err(|()| "write a number, decimal, as 0x... or with a suffix as in 4KiB (4096 sectors)".into())
}

/// Error of looking at or changing what lies in a path.
enum LocalError {
    InUse(String),
    Other(String),
}

impl From<ZonedDirError> for LocalError {
    fn from(error: ZonedDirError) -> Self {
        let text = error.to_string();
        if let ErrorKind::InUse(_) = error.kind { Self::InUse(text) } else { Self::Other(text) }
    }
}

impl From<ZonedBlkError> for LocalError {
    fn from(error: ZonedBlkError) -> Self {
        let text = error.to_string();
        if let zoned_blk::ErrorKind::InUse(_) = error.kind { Self::InUse(text) } else { Self::Other(text) }
    }
}

/// Zones that can be seen and changed.
enum Disk {
    /// In a directory or a block device that no daemon has open. Locked only while it is looked at or changed.
    Local(PathBuf),
    /// Of a daemon.
    Remote { client: ControlClient, device: String },
}

impl TargetArgs {
    /// All of a target.
    pub(super) fn whole(target: String, remote: RemoteArgs) -> Self {
        Self { target, remote, offset: 0, length: None, count: None, verbose: false, json: false }
    }

    /// The disk that the target names: a device of the daemon if one was named, else a path, whoever has it open.
    fn disk(&self) -> Result<Disk, CliError> {
        let path = Path::new(&self.target);
        let is_disk = path.is_dir() || zoned_blk::is_zoned(path);
        if self.remote.named().is_some() {
            let mut client = self.remote.connect()?;
            let by_path = is_disk.then(|| client.call(&GetStatus {})).transpose()?;
            let device = by_path.and_then(|status| name_of(&status, path)).unwrap_or_else(|| self.target.clone());
            return Ok(Disk::Remote { client, device });
        }
        if is_disk {
            return Ok(Disk::Local(path.to_owned()));
        }
        match self.remote.connect() {
            Ok(client) => Ok(Disk::Remote { client, device: self.target.clone() }),
            Err(error) => Err(CliError::Failed(format!(
                "there is no directory `{}` and no zoned block device of that name, and {error}",
                self.target
            ))),
        }
    }

    /// Does something to what lies in a path; if a daemon has it open, the same through the daemon.
    fn on_disk<T>(
        &self,
        offline: impl FnOnce(&Path) -> Result<T, LocalError>,
        online: impl FnOnce(&mut ControlClient, &str) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let (mut client, device) = match self.disk()? {
            Disk::Remote { client, device } => (client, device),
            Disk::Local(path) => match offline(&path) {
                Ok(done) => return Ok(done),
                Err(LocalError::InUse(error)) => self
                    .remote
                    .server_of(&path)
                    .ok_or_else(|| CliError::Failed(format!("{error}; name its control socket with --control")))?,
                Err(LocalError::Other(error)) => return Err(CliError::Failed(error)),
            },
        };
        online(&mut client, &device)
    }

    /// The zones as they are now.
    pub(super) fn zones(&self) -> Result<Vec<Zone>, CliError> {
        self.on_disk(
            |path| match path.is_dir() {
                true => Ok(inspect(path, None).map(|Inspection { zones, .. }| zones)?),
                false => Ok(zoned_blk::report(path)?),
            },
            |client, device| Ok(client.zones(device)?),
        )
    }

    /// The zones from the one that holds the offset on, as many as length or count ask for.
    fn selected(&self) -> Result<Vec<Zone>, CliError> {
        let zones = self.zones()?;
        let end = self.length.map_or(u64::MAX, |length| self.offset.saturating_add(length));
        let count = self.count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        let wanted = zones.iter().filter(|zone| (zone.start + zone.len).0 > self.offset && zone.start.0 < end);
        let wanted: Vec<Zone> = wanted.take(count).copied().collect();
        if wanted.is_empty() && self.count != Some(0) {
            let capacity = zones.last().map_or(0, |zone| (zone.start + zone.len).0);
            let offset = self.offset;
            return Err(CliError::Failed(format!(
                "{}: offset {offset} lies past the end: the disk has {capacity} sectors",
                self.target
            )));
        }
        Ok(wanted)
    }
}

/// Runs the command.
pub fn run(args: &ZonesArgs) -> Result<(), CliError> {
    match &args.command {
        ZonesCommand::Report(args) => report(args),
        ZonesCommand::Capacity(args) => capacity(args),
        ZonesCommand::Reset(args) => act(args, ZoneAction::Reset),
        ZonesCommand::Open(args) => act(args, ZoneAction::Open),
        ZonesCommand::Close(args) => act(args, ZoneAction::Close),
        ZonesCommand::Finish(args) => act(args, ZoneAction::Finish),
        ZonesCommand::Watch(args) => watch::run(args),
    }
}

fn report(args: &ReportArgs) -> Result<(), CliError> {
    let wanted = |zone: &Zone| {
        let cond = args.cond.is_empty() || args.cond.iter().any(|word| word == condition_word(zone.cond));
        let kind = match args.kind {
            None => true,
            Some(KindArg::Conv) => zone.kind == ZoneKind::Conventional,
            Some(KindArg::Seq) => zone.kind == ZoneKind::Sequential,
        };
        cond && kind
    };
    let zones: Vec<Zone> = args.target.selected()?.into_iter().filter(wanted).collect();
    if args.target.verbose {
        output::remark(&format!("found {} zones from {:#x}\n", zones.len(), args.target.offset));
    }
    if args.target.json {
        return output::print_json(&json!({"zones": zones.iter().map(ZoneInfo::from).collect::<Vec<_>>()}));
    }
    let mut lines = String::new();
    zones.iter().for_each(|zone| write_zone(&mut lines, zone));
    output::print(&lines)
}

/// The line of `blkzone report`.
fn write_zone(lines: &mut String, zone: &Zone) {
    let Zone { start, len, capacity, wp, kind, cond } = zone;
    let wptr = if *kind == ZoneKind::Conventional { 0 } else { *wp - *start };
    let short = condition_word(*cond);
    let name = if *kind == ZoneKind::Conventional { "CONVENTIONAL" } else { "SEQ_WRITE_REQUIRED" };
    // Writing to a string does not fail.
    let _ = writeln!(
        lines,
        "  start: {:#011x}, len {len:#08x}, cap {capacity:#08x}, wptr {wptr:#08x} reset:0 non-seq:0, \
         zcond:{:2}({short}) [type: {}({name})]",
        start.0, *cond as u8, *kind as u8,
    );
}

fn capacity(target: &TargetArgs) -> Result<(), CliError> {
    let sum: u64 = target.selected()?.iter().map(|zone| zone.capacity).sum();
    if target.json {
        return output::print_json(&json!({"capacity": sum}));
    }
    output::print(&format!("{sum:#011x}\n"))
}

fn act(ActionArgs { target, force }: &ActionArgs, action: ZoneAction) -> Result<(), CliError> {
    let zones = target.zones()?;
    let (Some(first), Some(last)) = (zones.first(), zones.last()) else {
        return Err(CliError::Failed(format!("{} has no zones", target.target)));
    };
    let (zone_sectors, end) = (first.len, (last.start + last.len).0);
    let length = match target.count {
        Some(count) => Some(count.saturating_mul(zone_sectors).min(end.saturating_sub(target.offset))),
        None => target.length,
    };
    let refused = |message| CliError::Failed(format!("{}: {message}", target.target));
    let range = ZoneRange::new(target.offset, length, end, zone_sectors).map_err(refused)?;
    target.on_disk(
        |path| {
            if !force {
                refuse_waiting([path], "--force").map_err(|error| LocalError::Other(error.to_string()))?;
            }
            apply_offline(path, action, range, &zones)
        },
        |client, device| {
            let range = ManageZones { device: device.to_owned(), start: target.offset, length, force: *force };
            match action {
                ZoneAction::Reset => client.call(&ResetZones(range)),
                ZoneAction::Open => client.call(&OpenZones(range)),
                ZoneAction::Close => client.call(&CloseZones(range)),
                ZoneAction::Finish => client.call(&FinishZones(range)),
            }?;
            Ok(())
        },
    )?;
    if target.json {
        return output::print_json(&json!({"action": action.name(), "zones": range.count}));
    }
    if target.verbose {
        let stop = target.offset + length.unwrap_or(end - target.offset);
        return output::print(&format!(
            "{}: {} of {} zones from {:#x} to {stop:#x}\n",
            target.target,
            action.name(),
            range.count,
            target.offset
        ));
    }
    Ok(())
}

/// Like the daemon: a reset of everything passes by the zones that cannot be reset.
fn apply_offline(path: &Path, action: ZoneAction, range: ZoneRange, zones: &[Zone]) -> Result<(), LocalError> {
    let passed_by = |zone: &Zone| {
        let cannot =
            matches!(zone.cond, Condition::NotWp | Condition::Empty | Condition::ReadOnly | Condition::Offline);
        range.whole && action == ZoneAction::Reset && cannot
    };
    let numbers = (range.first..range.first + range.count).map(|number| ZoneNo(number as u32));
    let wanted = numbers.filter(|number| zones.get(number.index()).is_none_or(|zone| !passed_by(zone)));
    if path.is_dir() { apply_in_directory(path, action, wanted) } else { apply_to_device(path, action, wanted, zones) }
}

fn apply_in_directory(path: &Path, action: ZoneAction, wanted: impl Iterator<Item = ZoneNo>) -> Result<(), LocalError> {
    let mut disk = Offline::open(path, None)?;
    disk.notices().iter().for_each(|notice| output::remark(&format!("{}: {notice}\n", path.display())));
    for zone in wanted {
        match action {
            ZoneAction::Reset => disk.reset_zone(zone)?,
            ZoneAction::Open => return Err(ZonedDirError::new(path, ErrorKind::NotServed).into()),
            ZoneAction::Close => disk.close_zone(zone)?,
            ZoneAction::Finish => disk.finish_zone(zone)?,
        }
    }
    Ok(())
}

fn apply_to_device(
    path: &Path,
    action: ZoneAction,
    wanted: impl Iterator<Item = ZoneNo>,
    zones: &[Zone],
) -> Result<(), LocalError> {
    let disk = zoned_blk::Offline::open(path)?;
    let command = match action {
        ZoneAction::Reset => ZoneCommand::Reset,
        ZoneAction::Open => ZoneCommand::Open,
        ZoneAction::Close => ZoneCommand::Close,
        ZoneAction::Finish => ZoneCommand::Finish,
    };
    for zone in wanted.filter_map(|number| zones.get(number.index())) {
        disk.manage(command, zone)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use shingle_core::sector::Sector;

    use super::*;

    #[test]
    fn a_zone_is_printed_as_blkzone_prints_it() {
        let mut lines = String::new();
        let zone = Zone {
            start: Sector(0x80000),
            len: 0x80000,
            capacity: 0x7f000,
            wp: Sector(0x80010),
            kind: ZoneKind::Sequential,
            cond: Condition::ImplicitOpen,
        };
        write_zone(&mut lines, &zone);
        write_zone(
            &mut lines,
            &Zone { start: Sector(0), wp: Sector(0), kind: ZoneKind::Conventional, cond: Condition::NotWp, ..zone },
        );
        let expected = "  start: 0x000080000, len 0x080000, cap 0x07f000, wptr 0x000010 reset:0 non-seq:0, zcond: 2(oi) \
                        [type: 2(SEQ_WRITE_REQUIRED)]\n  start: 0x000000000, len 0x080000, cap 0x07f000, wptr 0x000000 \
                        reset:0 non-seq:0, zcond: 0(nw) [type: 1(CONVENTIONAL)]\n";
        assert_eq!(lines, expected);
    }

    #[test]
    fn sectors_are_decimal_or_hexadecimal_or_have_the_suffixes_of_blkzone() {
        for text in ["4096", "0x1000", "4K", "4KiB"] {
            assert_eq!(parse_sector(text), Ok(4096), "{text}");
        }
        assert!(parse_sector("four").is_err() && parse_sector("0xg").is_err() && parse_sector("").is_err());
    }
}
