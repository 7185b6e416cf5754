//! What ours has to show, and whether it does.

use serde::Serialize;
use shingle_core::plug::ElevatorOptions;
use shingle_core::time::Duration;

use super::figures::{grouped, span, times};
use super::outcome::{CellOutcome, Report};
use super::plan::Policy;
use super::{Publication, noclone_goals};

/// Something that was set as a goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Goal {
    /// The goal, as a sentence.
    pub text: String,
    /// Whether it is reached.
    pub is_reached: bool,
    /// What was found.
    pub found: String,
}

/// Writing one zone after the other reaches this share of what passes under the head.
const OF_MEDIA_RATE: f64 = 0.99;
/// 128 random zones reach this many times the published figure of one write at a time.
const TIMES_PATCHED: f64 = 1.5;
/// Small sequential writes to the ZNS SSD reach this, in MB/s.
const SMALL_WRITES: f64 = 1000.0;
/// Two runs that differ by less are equally fast: a run ends somewhere between two commands.
const EQUAL: f64 = 0.995;

/// The goals that the cells of `report` can tell about.
pub fn goals(report: &Report) -> Vec<Goal> {
    match report.publication {
        Publication::Noclone => noclone_goals::goals(report),
        _ => goals_of_policy(report),
    }
}

fn goals_of_policy(report: &Report) -> Vec<Goal> {
    let found = [sequential(report), random_zones(report), small_writes(report), never_slower(report), waits(report)];
    found.into_iter().flatten().collect()
}

fn ours_in<'a>(report: &'a Report, table: &str) -> Vec<&'a CellOutcome> {
    let ours = report.cells().filter(|(in_table, cell)| in_table.name == table && cell.is_ours() && cell.simulated);
    ours.map(|(_, cell)| cell).collect()
}

fn sequential(report: &Report) -> Option<Goal> {
    let rate = report.profiles.iter().find(|profile| profile.name == "smr-30tb")?.media_mb_per_s?;
    let cells = ours_in(report, "qd1-sequential");
    let least = cells.iter().map(|cell| cell.ours.value).min_by(f64::total_cmp)?;
    Some(Goal {
        text: format!("Sequential writes reach 99 % of the media rate, {} MB/s, at every depth", grouped(rate)),
        is_reached: least >= rate * OF_MEDIA_RATE,
        found: format!("{} MB/s at worst", grouped(least)),
    })
}

fn random_zones(report: &Report) -> Option<Goal> {
    let cell = ours_in(report, "qd1-random-zones").into_iter().find(|cell| cell.load == "128")?;
    let published = report.cells().find_map(|(table, other)| {
        let is_it = table.name == "qd1-random-zones" && other.load == "128" && other.policy == Policy::Qd1.name();
        other.published.filter(|_| is_it)
    })?;
    let ratio = cell.ours.value / published;
    Some(Goal {
        text: format!("128 random zones reach 1.5 times the published {} MB/s", grouped(published)),
        is_reached: ratio >= TIMES_PATCHED,
        found: format!("{} times, {} MB/s", times(ratio), grouped(cell.ours.value)),
    })
}

fn small_writes(report: &Report) -> Option<Goal> {
    let cells = ours_in(report, "zwp-devices");
    let cell = cells.into_iter().find(|cell| cell.group == "zns" && cell.load == "seqw4K16")?;
    Some(Goal {
        text: format!("4 KiB sequential writes to the ZNS SSD reach {} MB/s", grouped(SMALL_WRITES)),
        is_reached: cell.ours.value >= SMALL_WRITES,
        found: format!("{} MB/s", grouped(cell.ours.value)),
    })
}

fn never_slower(report: &Report) -> Option<Goal> {
    let ours = report.cells().filter(|(_, cell)| cell.is_ours() && cell.simulated);
    let compared: Vec<(String, f64)> =
        ours.filter_map(|(table, cell)| Some((cell.name(&table.name), cell.ours.value / cell.rival?))).collect();
    let slower = compared.iter().filter(|(_, ratio)| *ratio < EQUAL).count();
    let (name, least) = compared.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Goal {
        text: "No row is slower than the same drive and host under plug or qd1".into(),
        is_reached: slower == 0,
        found: format!("{slower} of {} are; {} times at worst, {name}", compared.len(), times(*least)),
    })
}

/// The longest wait is shown, beside the longest under the kernel's policies.
fn waits(report: &Report) -> Option<Goal> {
    let longest = |ours: bool| {
        let cells = report.cells().filter(|(_, cell)| cell.simulated && cell.is_ours() == ours);
        cells.map(|(table, cell)| (cell.ours.longest_wait_ns, cell.name(&table.name))).max()
    };
    let ((ns, name), (theirs, _)) = (longest(true)?, longest(false)?);
    Some(Goal {
        text: format!("No write waits longer than the elevator's bound here, {}", span(longest_wait().0)),
        is_reached: ns <= longest_wait().0,
        found: format!("{} at most, {name}; under the other policies {}", span(ns), span(theirs)),
    })
}

/// What a write may wait in these loads by the elevator's guarantee: its `max_wait`, and then a batch and a command for each
/// of the older writes in front, of which there is one for each of 128 open zones at most.
fn longest_wait() -> Duration {
    let ElevatorOptions { max_wait, batch_time, .. } = ElevatorOptions::default();
    let command = Duration::from_millis(100);
    Duration(max_wait.0 + 129 * (batch_time.0 + command.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::outcome::{Ours, ProfileFacts};
    use crate::reproduce::plan::{Cell, Table, plan};

    /// Every drive writes `value(cell)`.
    fn report(value: impl Fn(&Cell) -> f64) -> Report {
        let outcome = |cell: &Cell| {
            let (longest_wait_ns, virtual_ns) = (1_000_000, Some(1));
            let ours = Ours { value: value(cell), longest_wait_ns, virtual_ns, ..Ours::default() };
            let beside = |rival| value(&Cell { ours: rival, ..cell.clone() });
            let rival = cell.ours.rivals().next().map(beside);
            cell.with(ours, rival)
        };
        let tables = plan(Publication::Qd1).unwrap().into_iter();
        let tables = tables.map(|Table { name, title, axis, source, cells }| Table {
            name,
            title,
            axis,
            source,
            cells: cells.iter().map(outcome).collect(),
        });
        let facts = ProfileFacts { name: "smr-30tb".into(), hash: String::new(), media_mb_per_s: Some(245.0) };
        let (seed, quick, cores) = (1, false, 1);
        Report { publication: Publication::Qd1, seed, quick, cores, profiles: vec![facts], tables: tables.collect() }
    }

    fn reached(report: &Report) -> Vec<bool> {
        goals(report).iter().map(|goal| goal.is_reached).collect()
    }

    #[test]
    fn goals_are_reached_only_where_every_cell_reaches_them() {
        assert_eq!(reached(&report(|_| 243.0)), [true, true, true, true]);
        assert_eq!(reached(&report(|_| 242.0)), [false, true, true, true], "99 % of 245 are 242.55");
        assert_eq!(reached(&report(|_| 148.0)), [false, false, true, true], "1.5 times 99 are 148.5");
        let is_slow = |cell: &Cell| cell.ours.policy == Policy::Elevator && cell.load == "64";
        let one = report(|cell| if is_slow(cell) { 243.0 } else { 245.0 });
        assert_eq!(reached(&one), [true, true, false, true]);
        assert!(goals(&one)[2].found.starts_with("2 of "), "{:?}", goals(&one)[2]);
    }
}
