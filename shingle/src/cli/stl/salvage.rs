//! `shingle stl salvage`.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use shingle_core::dm::stl::format::SetId;
use shingle_core::dm::stl::tools::{
    Absent, Findings, FormatOptions, Loss, Media, RebuildOptions, Rebuilt, Stream, Survey, Volume, Window,
    WrongMembers, ZoneSeen, absent, finish_rebuild, is_rebuilt, plan, read_extents, rebuild,
};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS, Lba};
use shingle_host::config::{format_bytes, parse_size};
use shingle_host::dmz::Access;
use shingle_host::stl::Disks;
use uuid::Uuid;

use super::set::{SetArgs, geometry, geometry_json, no_volume, uuid};
use super::{CliError, output};
use crate::cli::dmz::image::{Image, Layout, cannot, create};
use crate::cli::output::with_percent;
use crate::cli::waiting::WaitingArgs;

/// Blocks of an image that are written at a time: 32 MiB.
const PIECE_BLOCKS: u64 = 8192;

/// Find every block again when all roots of a volume are lost
///
/// The headers of all zones say which blocks are in them and when each was written: the newest counts. With --output what is found is
/// copied into an image, and nothing is written to the disks; with --in-place the disks get a new map, in zones that are empty, and new
/// roots. Blocks that were discarded or zeroed may come back with what they had before. What is known to be missing is listed.
#[derive(Args)]
#[command(group = ArgGroup::new("to").required(true))]
pub struct SalvageArgs {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// The image: a new file, as large as the volume, with holes where nothing was written; or a block device, with --force
    #[arg(short, long, value_name = "FILE", group = "to")]
    output: Option<PathBuf>,
    /// Make the disks a volume again
    #[arg(long, group = "to")]
    in_place: bool,
    /// Length of the volume in sectors of 512 bytes, as in its table line; needed for --in-place if no root tells it
    #[arg(long, value_name = "COUNT")]
    sectors: Option<u64>,
    /// Make files of this size of the image, FILE.000, FILE.001 and so on
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "output")]
    split: Option<u64>,
    /// Overwrite the block device; with --in-place, the roots of a volume that can still be used
    #[arg(short, long)]
    force: bool,
    /// Write the list of what is lost to a new file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Memory for the search: the headers are read once for each 130 GiB of the volume with the default
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    memory: u64,
}

/// Losses that are printed.
const MOST_PRINTED: usize = 20;
/// Losses that are kept.
const MOST_LOSSES: usize = 100_000;

/// What came of it.
struct Outcome {
    survey: Survey,
    sectors: u64,
    /// Where the length comes from.
    source: &'static str,
    losses: Vec<Loss>,
    /// Losses beyond those that are kept.
    more: u64,
    /// Members that are missing, and disks that cannot be used as members.
    wrong: WrongMembers,
    /// Blocks whose newest data is on a missing member.
    absent: Vec<Absent>,
    /// What was made, in a line, and live blocks or bytes.
    made: String,
}

/// Runs the command.
pub fn run(args: &SalvageArgs) -> Result<(), CliError> {
    args.waiting.check(args.output.iter().map(PathBuf::as_path))?;
    let mut disks = if args.in_place { args.set.open_to_write(&args.waiting)? } else { args.set.open(Access::Read)? };
    let part = Volume::find_part(&mut disks, &mut Findings::default()).ok();
    let whole = part.as_ref().filter(|(_, wrong)| wrong.is_none()).map(|(volume, _)| volume);
    let interrupted = whole.filter(|volume| !args.force && is_rebuilt(volume)).cloned();
    if args.in_place && !args.force && whole.is_some() && interrupted.is_none() {
        let message = "a root of this volume can be read: `shingle stl check` tells what is wrong with it; --force makes a new one by \
                       the headers alone";
        return Err(CliError::Failed(message.into()));
    }
    let survey = with_percent("reading headers", |progress| Survey::take(&mut disks, progress));
    let survey = survey.map_err(|why| no_volume(&mut disks, format_args!("{why}: there is nothing to salvage")))?;
    let (wrong, absent) = members(&mut disks, part, &survey);
    if args.in_place && !wrong.is_none() {
        return Err(CliError::Failed(format!("{wrong}; --output copies what these disks have, and changes nothing")));
    }
    let report = args.report.as_ref().map(|path| create(path)).transpose()?;
    let (sectors, source) = args.length(&disks, &survey)?;
    let mut outcome =
        Outcome { survey, sectors, source, losses: Vec::new(), more: 0, wrong, absent, made: String::new() };
    match &args.output {
        Some(_) => args.copy(&mut disks, &mut outcome)?,
        None => args.rebuild(&mut disks, &mut outcome, interrupted)?,
    }
    if let (Some(file), Some(path)) = (report, &args.report) {
        let text = format!("{:#}\n", outcome.losses_json());
        let written = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.sync_all());
        written.map_err(|error| cannot("write", path, &error))?;
    }
    args.tell(&disks, &outcome)
}

/// Members that are missing and disks of other volumes; and which blocks are on the missing members, as far as the newest root tells.
fn members(disks: &mut Disks, part: Option<(Volume, WrongMembers)>, survey: &Survey) -> (WrongMembers, Vec<Absent>) {
    let mut blocks = Vec::new();
    match part {
        Some((volume, wrong)) if !wrong.missing.is_empty() => {
            absent(disks, &volume, &mut |next| blocks.push(next));
            (wrong, blocks)
        }
        Some((_, wrong)) => (wrong, blocks),
        None => (WrongMembers { set: survey.set, foreign: survey.foreign.clone(), ..WrongMembers::default() }, blocks),
    }
}

impl SalvageArgs {
    /// How long the volume is, in sectors, and who says so.
    fn length(&self, disks: &Disks, survey: &Survey) -> Result<(u64, &'static str), CliError> {
        let (least, block) = (survey.end.0 * u64::from(BLOCK_SECTORS), u64::from(BLOCK_SECTORS));
        let root = survey.root.as_ref().map(|found| found.root.capacity * block);
        let usual = FormatOptions { set: SetId::default(), disks: vec![[0; 16]; disks.disks().len()], reserve: 70 };
        let usual = plan(disks.disks(), &usual).map_or(0, |created| created.sectors);
        match (self.sectors, root) {
            (Some(sectors), _) if sectors < least || !sectors.is_multiple_of(block) => Err(CliError::Usage(format!(
                "--sectors={sectors}: batches tell of blocks up to sector {least}; write the length of the table line"
            ))),
            (Some(sectors), _) => Ok((sectors, "--sectors")),
            (None, Some(sectors)) if sectors >= least => Ok((sectors, "a root that is left")),
            _ if self.in_place => Err(CliError::Usage(format!(
                "no root tells how long the volume is: write --sectors, as in its table line; it has at least {least} sectors, and {usual} \
                 if 7 % were kept back"
            ))),
            _ => Ok((usual.max(least), "the disks")),
        }
    }

    /// Blocks of the volume that are gathered at a time: whole pieces of an image.
    fn at_once(&self) -> u64 {
        (self.memory / Window::BYTES_OF_BLOCK as u64 / PIECE_BLOCKS).max(1) * PIECE_BLOCKS
    }

    fn copy(&self, disks: &mut Disks, outcome: &mut Outcome) -> Result<(), CliError> {
        let Some(path) = &self.output else { return Ok(()) };
        let capacity = outcome.sectors / u64::from(BLOCK_SECTORS);
        let piece_bytes = PIECE_BLOCKS * BLOCK_BYTES as u64;
        let layout = Layout { bytes: capacity * BLOCK_BYTES as u64, chunk_bytes: piece_bytes, split: self.split };
        let mut image = Image::create(path, layout, self.force)?;
        let at_once = self.at_once();
        with_percent("copying", |progress| {
            let mut buffer = vec![0; piece_bytes as usize];
            for first in (0..capacity).step_by(at_once as usize) {
                let end = capacity.min(first.saturating_add(at_once));
                let window = Window::gather(disks, &outcome.survey, Lba(first)..Lba(end), &mut |_, _| ());
                outcome.losses.extend(window.torn());
                for first in (first..end).step_by(PIECE_BLOCKS as usize) {
                    let extents = window.extents(Lba(first)..Lba(first + PIECE_BLOCKS));
                    let (losses, more) = (&mut outcome.losses, &mut outcome.more);
                    read_extents(disks, &outcome.survey, (Lba(first), &extents), &mut buffer, &mut |loss| {
                        if losses.len() < MOST_LOSSES { losses.push(loss) } else { *more += 1 }
                    });
                    let at = first * BLOCK_BYTES as u64;
                    image.write(at, &buffer[..piece_bytes.min(layout.bytes - at) as usize])?;
                    progress(capacity.min(first + PIECE_BLOCKS), capacity);
                }
            }
            image.sync()
        })?;
        let (all, written) = (format_bytes(image.bytes), format_bytes(image.written));
        outcome.made = format!("{}: {all}, {written} of it written", path.display());
        Ok(())
    }

    /// Makes the disks a volume again, or continues that where it was interrupted.
    fn rebuild(&self, disks: &mut Disks, outcome: &mut Outcome, interrupted: Option<Volume>) -> Result<(), CliError> {
        // Nobody but a root knew them.
        for member in outcome.survey.members.iter_mut().filter(|member| member.id == [0; 16]) {
            member.id = Uuid::new_v4().into_bytes();
        }
        let reserve = outcome.survey.root.as_ref().map_or(70, |found| found.root.reserve);
        let capacity = outcome.sectors / u64::from(BLOCK_SECTORS);
        let options = RebuildOptions { capacity, reserve, blocks_at_once: self.at_once() };
        let survey = &outcome.survey;
        let rebuilt = with_percent("rebuilding", |progress| match &interrupted {
            Some(volume) => finish_rebuild(disks, (volume, survey), self.at_once()),
            None => rebuild(disks, survey, &options, progress),
        });
        let Rebuilt { live, lost } = rebuilt.map_err(CliError::failed)?;
        outcome.losses = lost;
        outcome.made =
            format!("a new map of {live} blocks ({}), and new roots", format_bytes(live * BLOCK_BYTES as u64));
        Ok(())
    }

    fn tell(&self, disks: &Disks, outcome: &Outcome) -> Result<(), CliError> {
        let survey = &outcome.survey;
        if self.set.json {
            let mut value = geometry_json(disks);
            value["uuid"] = json!(uuid(survey.set.0));
            value["sectors"] = json!(outcome.sectors);
            value["source"] = json!(outcome.source);
            value["life"] = json!(survey.epoch.0);
            value["last_batch"] = json!(survey.user.0);
            value["batches"] = json!(survey.batches);
            value["made"] = json!(outcome.made);
            value["lost"] = outcome.losses_json();
            value["more_lost"] = json!(outcome.more);
            output::print_json(&value)?;
        } else {
            output::print(&format!(
                "{}volume {}: {}, by {}\n{} batches were found in {} lives, the last is {}\n{}\n{}",
                geometry(disks),
                uuid(survey.set.0),
                format_bytes(outcome.sectors * 512),
                outcome.source,
                survey.batches,
                survey.epoch,
                survey.user,
                outcome.made,
                outcome.losses_text(),
            ))?;
        }
        if outcome.has_losses() { Err(CliError::Disorder) } else { Ok(()) }
    }
}

impl Outcome {
    /// Zones of which something is not known.
    fn zones(&self) -> impl Iterator<Item = (usize, &ZoneSeen)> {
        let zones = self.survey.zones.iter().enumerate();
        zones.filter(|(_, zone)| zone.end < zone.pointer && zone.stream != Stream::Roots && zone.stream != Stream::Map)
    }

    fn has_losses(&self) -> bool {
        !self.losses.is_empty() || !self.wrong.is_none() || self.zones().next().is_some()
    }

    fn lines(&self) -> Vec<(Value, String)> {
        let zone = |(zone, seen): (usize, &ZoneSeen)| {
            let why = seen.why.clone().unwrap_or_default();
            let line = format!("zone {zone}: its headers end at block {} of {}: {why}", seen.end, seen.pointer);
            (json!({"what": "zone", "zone": zone, "block": seen.end, "written": seen.pointer, "message": line}), line)
        };
        let block = |loss: &Loss| {
            let line = loss.to_string();
            (json!({"what": "block", "block": loss.lba.0, "place": loss.place.0, "message": line}), line)
        };
        let member = |line: String| (json!({"what": "member", "message": line}), line);
        let later = (!self.wrong.missing.is_empty()).then(|| {
            let line = "changes on a missing disk that are newer than the newest root are not known".to_owned();
            (json!({"what": "unknown", "message": line}), line)
        });
        let absent = |absent: &Absent| {
            let line = absent.to_string();
            (json!({"what": "blocks", "block": absent.first.0, "blocks": absent.blocks, "message": line}), line)
        };
        let of_members = self.wrong.lines().map(member).chain(later).chain(self.absent.iter().map(absent));
        of_members.chain(self.zones().map(zone)).chain(self.losses.iter().map(block)).collect()
    }

    fn losses_json(&self) -> Value {
        self.lines().into_iter().map(|(value, _)| value).collect()
    }

    fn losses_text(&self) -> String {
        let lines = self.lines();
        if lines.is_empty() {
            return "Nothing is known to be lost.\n".into();
        }
        let listed: String = lines.iter().take(MOST_PRINTED).map(|(_, line)| format!("  {line}\n")).collect();
        let more = match lines.len().saturating_sub(MOST_PRINTED) as u64 + self.more {
            0 => String::new(),
            more => format!("  and {more} more: --report writes a list to a file\n"),
        };
        format!("Lost:\n{listed}{more}")
    }
}
