//! `shingle dm stats`: dmstats' commands, options and output.
//!
//! ```text
//!  create, clear, delete, print ── @stats_... ──> the device       docs/targets/statistics.md
//!  list, report <── region: @stats_list as a value <── counters: @stats_print as values
//! ```

mod columns;
mod counters;
mod create;
mod region;
mod report;
mod units;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use self::columns::LayoutArgs;
use self::counters::print;
use self::region::Region;
use super::CliError;
use crate::cli::output;
use crate::cli::remote::RemoteArgs;
use shingle_host::control::ControlClient;
use shingle_host::control::protocol::{GetInfo, Message};

/// Count what goes through devices, by region and area, as dmstats does
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 done, 1 it failed, 2 the command line is wrong. More: `man shingle-target-statistics`, or docs/targets/statistics.md."
)]
pub struct StatsArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Create(create::CreateArgs),
    /// Forget regions
    Delete(RegionArgs),
    /// Set the counters of regions to 0, but for what is in flight
    Clear(RegionArgs),
    List(ListArgs),
    Print(PrintArgs),
    Report(report::ReportArgs),
}

/// List regions
#[derive(Args)]
struct ListArgs {
    /// The devices; all of them if left out
    devices: Vec<String>,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Print JSON; starts and lengths are in sectors of 512 bytes
    #[arg(long)]
    json: bool,
}

/// Print counters as the kernel does: a line per area
#[derive(Args)]
struct PrintArgs {
    #[command(flatten)]
    regions: RegionArgs,
    /// Set to 0 what was printed
    #[arg(long)]
    clear: bool,
    /// Print JSON; starts and lengths are in sectors of 512 bytes, times in nanoseconds
    #[arg(long)]
    json: bool,
}

/// Which regions, where one has to say it.
#[derive(Args)]
struct RegionArgs {
    /// The devices
    #[arg(required_unless_present = "alldevices")]
    devices: Vec<String>,
    /// All devices
    #[arg(long, conflicts_with = "devices")]
    alldevices: bool,
    /// The region with this number, of any program
    #[arg(long, value_name = "ID", required_unless_present = "allregions")]
    regionid: Option<u32>,
    /// All regions of the program
    #[arg(long, conflicts_with = "regionid")]
    allregions: bool,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Whose regions.
#[derive(Args)]
struct ProgramArgs {
    /// Regions of this program
    #[arg(long, value_name = "ID", default_value = region::PROGRAM)]
    programid: String,
    /// Regions of all programs, also those that messages made
    #[arg(long, conflicts_with = "programid")]
    allprograms: bool,
}

impl ProgramArgs {
    fn include(&self, region: &Region) -> bool {
        self.allprograms || region.program == self.programid
    }
}

impl RegionArgs {
    /// Connects, and finds the regions.
    fn find(&self) -> Result<(ControlClient, Vec<Region>), CliError> {
        let mut client = self.remote.connect()?;
        let devices = devices(&mut client, &self.devices)?;
        let mut found = Vec::new();
        for (device, _) in &devices {
            let mut regions = region::all_of(&mut client, device)?;
            match self.regionid {
                Some(id) => regions.retain(|region| region.id == id),
                None => regions.retain(|region| self.programs.include(region)),
            }
            if let (Some(id), []) = (self.regionid, &*regions) {
                return Err(CliError::Failed(format!(
                    "`{device}` has no region {id}: `shingle dm stats list --allprograms {device}` lists those that it has"
                )));
            }
            found.extend(regions);
        }
        Ok((client, found))
    }
}

/// Runs the command.
pub fn run(args: &StatsArgs) -> Result<(), CliError> {
    match &args.verb {
        Verb::Create(args) => create::run(args),
        Verb::Delete(args) => to_each(args, "@stats_delete"),
        Verb::Clear(args) => to_each(args, "@stats_clear"),
        Verb::List(args) => list(args),
        Verb::Print(args) => print(args),
        Verb::Report(args) => report::run(args),
    }
}

/// The names and the lengths in sectors of devices that have a table; all such devices if none is named.
fn devices(client: &mut ControlClient, names: &[String]) -> Result<Vec<(String, u64)>, CliError> {
    let infos = super::view::ask(client, names, |device| GetInfo { device })?;
    let with_table = infos.into_iter().filter(|info| !names.is_empty() || info.live);
    Ok(with_table.map(|info| (info.name, info.sectors)).collect())
}

/// Sends a message of statistics to a device; what it answered.
fn tell(client: &mut ControlClient, device: &str, message: &str) -> Result<String, CliError> {
    Ok(client.call(&Message { device: device.to_owned(), sector: 0, message: message.to_owned() })?.answer)
}

fn to_each(args: &RegionArgs, message: &str) -> Result<(), CliError> {
    let (mut client, regions) = args.find()?;
    regions
        .iter()
        .try_for_each(|region| tell(&mut client, &region.device, &format!("{message} {}", region.id)).map(drop))
}

/// The regions of these devices and programs; if there is none, a word about where there are some.
fn find(client: &mut ControlClient, names: &[String], programs: &ProgramArgs) -> Result<Vec<Region>, CliError> {
    let mut regions = Vec::new();
    for (device, _) in devices(client, names)? {
        regions.extend(region::all_of(client, &device)?);
    }
    let all = regions.len();
    regions.retain(|region| programs.include(region));
    match (regions.len(), all) {
        (0, 0) => output::remark("there are no regions: `shingle dm stats create DEVICE` makes one\n"),
        (0, all) => output::remark(&format!(
            "there are no regions of program {}, and {all} of others: --allprograms shows them\n",
            programs.programid
        )),
        _ => {}
    }
    Ok(regions)
}

fn list(args: &ListArgs) -> Result<(), CliError> {
    let layout = args.layout.of_regions()?;
    let regions = find(&mut args.remote.connect()?, &args.devices, &args.programs)?;
    let rows: Vec<Value> = regions.iter().map(Region::to_json).collect();
    match (args.json, rows.is_empty()) {
        (true, _) => output::print_json(&json!({"regions": rows})),
        (false, true) => Ok(()),
        (false, false) => output::print(&layout.show(&rows)),
    }
}
