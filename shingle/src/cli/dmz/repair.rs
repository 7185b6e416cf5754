//! `shingle dmz repair` and `shingle dmz relabel`.

use clap::Args;
use serde_json::json;
use shingle_core::target::zoned::check::{Repair, relabel, repair};
use shingle_core::target::zoned::format::Label;

use super::check::{report_json, verdict};
use super::set::{SetArgs, bar, geometry, geometry_json, show};
use super::{CliError, output};
use crate::dmz::Access;

/// Mend the metadata of a set
///
/// At every moment one of the two copies of the metadata is whole, so a repair that is interrupted is begun again. A set without
/// errors is left as it is.
#[derive(Args)]
pub struct RepairArgs {
    #[command(flatten)]
    set: SetArgs,
}

/// Give a set another label
#[derive(Args)]
pub struct RelabelArgs {
    #[command(flatten)]
    set: SetArgs,
    /// The new label, at most 31 bytes
    #[arg(long)]
    label: String,
}

/// Runs `shingle dmz repair`.
pub fn run(args: &RepairArgs) -> Result<(), CliError> {
    let mut disks = args.set.open(Access::Write)?;
    let bar = bar("repairing");
    let repaired = repair(&mut disks, &mut show(&bar));
    bar.finish_and_clear();
    let Repair { before, after } = repaired.map_err(|error| CliError::Failed(error.to_string()))?;
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
    let mut disks = args.set.open(Access::Write)?;
    relabel(&mut disks, label).map_err(|error| CliError::Failed(error.to_string()))?;
    if args.set.json {
        let mut value = geometry_json(&disks);
        value["label"] = json!(label.text());
        return output::print_json(&value);
    }
    output::print(&format!("{}Label: {}\nDone.\n", geometry(&disks, args.set.detail()), label.text()))
}
