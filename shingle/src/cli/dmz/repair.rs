//! `shingle dmz repair` and `shingle dmz relabel`.

use clap::Args;
use serde_json::json;
use shingle_core::dm::zoned::check::{OnLoss, Repair, relabel, repair};
use shingle_core::dm::zoned::format::Label;

use super::check::{report_json, verdict};
use super::set::{SetArgs, geometry, geometry_json, no_set};
use super::{CliError, output};
use crate::cli::output::with_percent;
use crate::cli::waiting::WaitingArgs;

/// Mend the metadata of a set
///
/// What one of the two copies of the metadata lacks comes from the other one, and at every moment one of them is whole, so a
/// repair that is interrupted is begun again. What neither copy has is listed, and then nothing is changed without --lossy. A
/// set without errors is left as it is.
#[derive(Args)]
pub struct RepairArgs {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// Give up what neither copy has: its chunks read as zeroes, and their zones are emptied; run salvage before
    #[arg(long)]
    lossy: bool,
}

/// Give a set another label
#[derive(Args)]
pub struct RelabelArgs {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// The new label, at most 31 bytes
    #[arg(long)]
    label: String,
}

/// Runs `shingle dmz repair`.
pub fn run(args: &RepairArgs) -> Result<(), CliError> {
    let mut disks = args.set.open_to_write(&args.waiting)?;
    let on_loss = if args.lossy { OnLoss::GiveUp } else { OnLoss::Refuse };
    let repaired = with_percent("repairing", |progress| repair(&mut disks, on_loss, progress));
    let Repair { before, after } = repaired.map_err(|why| no_set(&mut disks, why))?;
    if args.set.json {
        let mut value = geometry_json(&disks);
        (value["before"], value["after"]) = (report_json(&before), report_json(&after));
        output::print_json(&value)?;
    } else if before.is_clean() {
        output::print(&format!("{}{before}Nothing to repair.\n", geometry(&disks, args.set.detail())))?;
    } else {
        let found: String = before.findings.iter().map(|finding| format!("  {finding}\n")).collect();
        let geometry = geometry(&disks, args.set.detail());
        output::print(&format!("{geometry}Repaired:\n{found}Checking what was repaired\n{after}"))?;
    }
    verdict(&after)
}

/// Runs `shingle dmz relabel`.
pub fn run_relabel(args: &RelabelArgs) -> Result<(), CliError> {
    let label = Label::new(&args.label).map_err(|error| CliError::Usage(format!("--label: {error}")))?;
    let mut disks = args.set.open_to_write(&args.waiting)?;
    relabel(&mut disks, label).map_err(|why| no_set(&mut disks, why))?;
    if args.set.json {
        let mut value = geometry_json(&disks);
        value["label"] = json!(label.text());
        return output::print_json(&value);
    }
    output::print(&format!("{}Label: {}\nDone.\n", geometry(&disks, args.set.detail()), label.text()))
}
