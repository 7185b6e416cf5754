//! `shingle dmz check`.

use serde_json::{Value, json};
use shingle_core::dm::zoned::check::{Finding, Next, Report, check};

use super::set::{SetArgs, geometry, geometry_json, in_force, superblock_json};
use super::{CliError, output};
use crate::cli::output::with_percent;
use shingle_host::dmz::{Access, other_content};

/// Runs the command.
pub fn run(args: &SetArgs) -> Result<(), CliError> {
    let mut disks = args.open(Access::Read)?;
    let report = with_percent("checking", |progress| check(&mut disks, progress));
    if let Some(wrong) = &report.wrong_members {
        return Err(CliError::failed(wrong));
    }
    if report.next() == Next::Format
        && let Some(other) = other_content(&mut disks)
    {
        return Err(CliError::Failed(other));
    }
    if args.json {
        let mut value = geometry_json(&disks);
        value["check"] = report_json(&report);
        output::print_json(&value)?;
    } else {
        output::print(&format!("{}{report}", geometry(&disks, args.detail())))?;
    }
    verdict(&report)
}

/// The exit code that says what a check found.
pub fn verdict(report: &Report) -> Result<(), CliError> {
    if report.is_clean() { Ok(()) } else { Err(CliError::Disorder) }
}

/// A check as JSON.
pub fn report_json(report: &Report) -> Value {
    let finding = |finding: &Finding| json!({"error": finding.is_error(), "message": finding.to_string()});
    let sets = report.sets.as_ref().map(|sets| {
        let one = |set: usize| sets.found[set].as_ref().ok().map(superblock_json);
        json!({"primary": one(0), "secondary": one(1), "in_force": in_force(sets)})
    });
    json!({
        "clean": report.is_clean(),
        "superblocks": sets,
        "mapped_chunks": report.mapped,
        "buffered_chunks": report.buffered,
        "free_zones": report.zones.free,
        "used_zones": report.zones.used,
        "compared_blocks": report.compared,
        "lost": report.lost.iter().map(|loss| json!(loss.to_string())).collect::<Vec<Value>>(),
        "next": report.next().to_string(),
        "findings": report.findings.iter().map(finding).collect::<Vec<Value>>(),
    })
}
