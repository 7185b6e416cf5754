//! `shingle dm stats create`.

use clap::Args;
use serde_json::{Value, json};

use super::region::{self, PROGRAM};
use super::units::{Bounds, NS_PER_MS, parse_bounds, parse_sectors};
use super::{CliError, devices, tell};
use crate::cli::output;
use crate::cli::remote::AskArgs;

/// Make a region on each device, and print its number
#[derive(Args)]
pub struct CreateArgs {
    /// The devices
    #[arg(required_unless_present = "alldevices")]
    devices: Vec<String>,
    /// All devices
    #[arg(long, conflicts_with = "devices")]
    alldevices: bool,
    /// Where the region begins: sectors, or a size such as 1g
    #[arg(long, value_parser = parse_sectors, default_value = "0")]
    start: u64,
    /// Its length; to the end of the device if left out
    #[arg(long, value_parser = parse_sectors)]
    length: Option<u64>,
    /// Number of areas of the region
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    areas: u64,
    /// Length of an area, instead of their number
    #[arg(long, value_parser = parse_sectors, conflicts_with = "areas")]
    areasize: Option<u64>,
    /// Count in nanoseconds instead of milliseconds
    #[arg(long)]
    precise: bool,
    /// Keep a histogram of durations with these boundaries: 100us,1ms,10ms. Finer than 1ms needs --precise, and means it
    #[arg(long, value_name = "TIMES", value_parser = parse_bounds)]
    bounds: Option<Bounds>,
    /// The program that the region belongs to
    #[arg(long, value_name = "ID", default_value = PROGRAM, value_parser = parse_word)]
    programid: String,
    /// A word to keep with the region
    #[arg(long, value_name = "WORD", default_value = "-", value_parser = parse_word)]
    userdata: String,
    #[command(flatten)]
    ask: AskArgs,
}

fn parse_word(text: &str) -> Result<String, String> {
    let word = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if word { Ok(text.to_owned()) } else { Err("write one word without spaces".into()) }
}

/// Runs the command.
pub fn run(args: &CreateArgs) -> Result<(), CliError> {
    let mut client = args.ask.remote.connect()?;
    let devices = devices(&mut client, &args.devices)?;
    if devices.is_empty() {
        return output::print(super::super::view::NO_DEVICES);
    }
    let mut made = Vec::new();
    for (device, sectors) in devices {
        let answer = tell(&mut client, &device, &message(args, &device, sectors)?)?;
        let regions = region::all_of(&mut client, &device)?;
        let region = regions.into_iter().find(|region| answer.trim() == region.id.to_string());
        made.push(region.ok_or_else(|| CliError::Failed(format!("the new region of `{device}` is gone already")))?);
    }
    if args.ask.json {
        let regions: Vec<Value> = made.iter().map(region::Region::to_json).collect();
        return output::print_json(&json!({"regions": regions}));
    }
    let line = |region: &region::Region| {
        let (device, areas, id) = (&region.device, region.areas(), region.id);
        format!("{device}: Created new region with {areas} area(s) as region ID {id}\n")
    };
    output::print(&made.iter().map(line).collect::<String>())
}

/// The message that makes the region on a device of `sectors` sectors.
fn message(args: &CreateArgs, device: &str, sectors: u64) -> Result<String, CliError> {
    let length = match (args.length, sectors.checked_sub(args.start)) {
        (Some(length), _) => length,
        (None, Some(rest)) if rest > 0 => rest,
        _ => {
            return Err(CliError::Usage(format!(
                "--start={}: `{device}` has {sectors} sectors; begin before its end, or say --length too",
                args.start
            )));
        }
    };
    let step = args.areasize.map_or_else(|| format!("/{}", args.areas), |sectors| sectors.to_string());
    let bounds = args.bounds.as_ref().map_or(&[][..], |Bounds(bounds)| bounds);
    let precise = args.precise || bounds.iter().any(|time| !time.is_multiple_of(NS_PER_MS));
    let tick = if precise { 1 } else { NS_PER_MS };
    let mut options = Vec::new();
    if precise {
        options.push("precise_timestamps".to_owned());
    }
    if !bounds.is_empty() {
        let bounds: Vec<String> = bounds.iter().map(|time| (time / tick).to_string()).collect();
        options.push(format!("histogram:{}", bounds.join(",")));
    }
    let mut words =
        vec!["@stats_create".to_owned(), format!("{}+{length}", args.start), step, options.len().to_string()];
    words.extend(options);
    words.extend([args.programid.clone(), args.userdata.clone()]);
    Ok(words.join(" "))
}
