//! `shingle stl status`.

use clap::Args;
use serde_json::{Value, json};
use shingle_core::dm::stl::BLOCK_BYTES;
use shingle_host::config::format_bytes;
use shingle_host::control::protocol::{DeviceStatus, Figures, GetStatus};

use super::set::size_of;
use super::{CliError, output};
use crate::cli::remote::AskArgs;

/// Show what volumes that a daemon serves have and do
///
/// What was written, cleaned and made durable is counted since the daemon found the volume. docs/targets/stl.md tells what each figure is.
#[derive(Args)]
pub struct StatusArgs {
    /// The volume, by the name of its device; all of them if left out
    name: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<(), CliError> {
    let devices = args.ask.remote.connect()?.call(&GetStatus {})?.devices;
    let wanted = |device: &&DeviceStatus| args.name.as_ref().is_none_or(|name| *name == device.name);
    let volumes: Vec<Volume<'_>> = devices.iter().filter(wanted).flat_map(volumes_of).collect();
    if let (Some(name), []) = (&args.name, &volumes[..]) {
        let known: Vec<&str> = devices.iter().flat_map(volumes_of).map(|(device, _)| device.name.as_str()).collect();
        let known =
            if known.is_empty() { "it serves none".to_owned() } else { format!("there are: {}", known.join(", ")) };
        return Err(CliError::Failed(format!("the daemon serves no stl volume `{name}`; {known}")));
    }
    if args.ask.json {
        let one = |(device, figures): &Volume<'_>| json!({"name": device.name, "health": device.health, "fault": device.fault, "figures": figures});
        return output::print_json(&json!({"volumes": volumes.iter().map(one).collect::<Vec<Value>>()}));
    }
    let text: Vec<String> = volumes.iter().map(|(device, figures)| text(device, figures)).collect();
    output::print(&text.join("\n"))
}

/// A device, and the figures of one of its `stl` targets.
type Volume<'a> = (&'a DeviceStatus, &'a Figures);

/// The `stl` targets of a device.
fn volumes_of(device: &DeviceStatus) -> impl Iterator<Item = Volume<'_>> {
    let is_volume = |figures: &&Figures| figures.contains_key("cleaning") && figures.contains_key("exposed_blocks");
    device.figures.iter().filter(is_volume).map(move |figures| (device, figures))
}

fn text(device: &DeviceStatus, figures: &Figures) -> String {
    let name = &device.name;
    let fault = device.fault.as_ref().map_or(String::new(), |fault| format!("{name} {fault}\n"));
    // The figures of a volume that did not load are all zero.
    if device.health == "failed" {
        return fault;
    }
    let count = |name: &str| figures.get(name).and_then(Value::as_u64).unwrap_or_default();
    let times = |name: &str| figures.get(name).and_then(Value::as_f64).unwrap_or_default();
    let word = |name: &str| figures.get(name).and_then(Value::as_str).unwrap_or("-");
    let size = |name: &str| size_of(count(name));
    let (slow, room) = (count("slowest_write_us"), count("exposed_blocks") * BLOCK_BYTES as u64);
    let leaving = match count("leaving_zones") {
        0 => String::new(),
        zones => format!("; a disk leaves, with {} in {zones} zones", size("leaving_blocks")),
    };
    let rows = [
        ("space", format!("{} exposed, {} of it used at most{leaving}", format_bytes(room), size("live_blocks"))),
        (
            "zones",
            format!(
                "{}, {} free (cleaning wants {}), {} given back, {} open; full: {} of users, {} of copies, {} of the map",
                count("zones"),
                count("free_zones"),
                count("wanted_free_zones"),
                count("given_back_zones"),
                count("open_zones"),
                count("data_zones"),
                count("copies_zones"),
                count("map_zones"),
            ),
        ),
        (
            "cleaning",
            format!(
                "{}: {} zones cleaned, {} marked; of the last ones {:.0} % were live; users owe {:.2} of what space costs, {} now",
                word("cleaning"),
                count("cleaned_zones"),
                count("marked_zones"),
                times("victims_live_share") * 100.0,
                times("pace"),
                size("owed_blocks"),
            ),
        ),
        (
            "written",
            format!(
                "{} by users; {:.2} times that with copies, {:.2} times in all: headers {}, copies {}, map {}, roots {}, left empty {}",
                size("user_blocks"),
                times("data_amplification"),
                times("amplification"),
                size("header_blocks"),
                size("copied_blocks"),
                size("map_blocks"),
                size("root_blocks"),
                size("filler_blocks"),
            ),
        ),
        (
            "map",
            format!(
                "{} pending extents, {} runs with an index of {}, {} leaves; {} of memory; {} checkpoints, {} sweeps",
                count("pending_extents"),
                count("runs"),
                format_bytes(count("index_bytes")),
                count("leaves"),
                format_bytes(count("memory_bytes")),
                count("checkpoints"),
                count("sweeps"),
            ),
        ),
        (
            "writes",
            format!(
                "{} batches, {} written again; {} writes wait; the slowest took {}.{:03} ms",
                count("batches"),
                count("retries"),
                count("waiting_writes"),
                slow / 1_000,
                slow % 1_000,
            ),
        ),
        (
            "reads",
            format!(
                "{} were read ahead, {} put in order as they had been read so",
                size("ahead_blocks"),
                size("rewritten_blocks")
            ),
        ),
        ("checksums", format!("{} blocks were not what was written", count("wrong_checksums"))),
    ];
    let lines: String = rows.iter().map(|(title, line)| format!("  {title:<9}  {line}\n")).collect();
    format!("{fault}{name}: {}\n{lines}", word("volume"))
}
