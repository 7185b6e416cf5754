//! What the target has to show.

use super::outcome::{Report, Run};
use super::plan::{Row, System};
use crate::reproduce::Goal;
use crate::reproduce::figures::{grouped, span};

/// The goals that the runs of `report` can tell about.
pub fn goals(report: &Report) -> Vec<Goal> {
    let mut goals: Vec<Goal> = report.runs.iter().filter_map(failed).collect();
    if report.is_cut {
        // The others are about hours: at the beginning everything is fast.
        return goals;
    }
    let all = [
        files(report),
        files_ssd(report),
        random(report),
        in_turns(report),
        aged(report),
        reading(report),
        others(report),
    ];
    goals.extend(all.into_iter().flatten());
    goals
}

fn failed(run: &Run) -> Option<Goal> {
    let found = run.failure.clone()?;
    Some(Goal {
        text: format!("{} / {} comes to its end", run.row.name(), run.system.name()),
        is_reached: false,
        found,
    })
}

/// A figure that has to be at least so much.
fn at_least(text: String, found: f64, least: f64, unit: &str) -> Goal {
    Goal { text, is_reached: found >= least, found: format!("{} {unit}", grouped(found)) }
}

/// What the drive does itself over what the drives do that the goals were set for: 1 for those.
fn scale(report: &Report, row: Row, of: impl Fn(&Run) -> f64, usual: f64) -> Option<f64> {
    if !report.has_own {
        return Some(1.0);
    }
    report.run(row, System::Drive).map(|drive| of(drive) / usual)
}

/// MB/s that the 15 TB disk writes in two hours of long writes in order.
const USUAL_MB_PER_S: f64 = 240.0;

fn slowest(run: &Run, (seconds, name): (u32, &str), least: f64, of: &str) -> Option<Goal> {
    let (rate, from) = run.slowest(seconds)?;
    Some(Goal {
        text: format!("No {name} below {least:.0} MB/s, {of}"),
        is_reached: rate >= least,
        found: format!("{rate:.0} MB/s at worst, from second {from} on"),
    })
}

fn files(report: &Report) -> Vec<Goal> {
    let Some(run) = report.run(Row::Files, System::Stl) else { return Vec::new() };
    let Some(scale) = scale(report, Row::Files, Run::mb_per_s, USUAL_MB_PER_S) else { return Vec::new() };
    let of = "two hours of files on one disk";
    let mean = at_least(format!("{:.0} MB/s on average, {of}", 200.0 * scale), run.mb_per_s(), 200.0 * scale, "MB/s");
    let long = slowest(run, (600, "ten minutes"), 190.0 * scale, of);
    let short = slowest(run, (10, "ten seconds"), 120.0 * scale, of);
    [Some(mean), long, short].into_iter().flatten().collect()
}

fn files_ssd(report: &Report) -> Vec<Goal> {
    let mut goals = Vec::new();
    if let (Some(run), false) = (report.run(Row::FilesSsd, System::Stl), report.has_own) {
        let mean = "270 MB/s on average, two hours of files with an SSD".to_owned();
        goals.push(at_least(mean, run.mb_per_s(), 270.0, "MB/s"));
    }
    if let (Some(long), Some(alone)) = (report.run(Row::FilesSsdLong, System::Stl), report.run(Row::Files, System::Stl))
    {
        let text = "With an SSD eight hours are no slower than two on the disk alone".to_owned();
        goals.push(at_least(text, long.mb_per_s(), alone.mb_per_s(), "MB/s"));
    }
    for run in [Row::FilesSsd, Row::FilesSsdLong].into_iter().filter_map(|row| report.run(row, System::Stl)) {
        let of = if run.row == Row::FilesSsd { "two hours with an SSD" } else { "eight hours with an SSD" };
        goals.extend(slowest(run, (10, "ten seconds"), run.mb_per_s() / 2.0, of));
    }
    goals
}

fn random(report: &Report) -> Vec<Goal> {
    let mut goals = Vec::new();
    let ios = |run: &Run| run.mean(|sample| sample.ios_per_s);
    let scale = scale(report, Row::Random, Run::mb_per_s, USUAL_MB_PER_S);
    if let (Some(run), Some(scale)) = (report.run(Row::Random, System::Stl), scale) {
        let least = 45_000.0 * scale;
        let text = format!("{} random writes of 4 KiB a second to an empty disk", grouped(least));
        goals.push(at_least(text, ios(run), least, "a second"));
    }
    if let (Some(run), Some(drive)) =
        (report.run(Row::ZnsRandom, System::Stl), report.run(Row::ZnsRandom, System::Drive))
    {
        let share = run.mb_per_s() / drive.mb_per_s() * 100.0;
        let text = "80 % of the ZNS SSD's rate of writes in order, at random".to_owned();
        goals.push(at_least(text, share, 80.0, "%"));
    }
    goals
}

fn in_turns(report: &Report) -> Vec<Goal> {
    if report.has_own {
        return Vec::new();
    }
    let pairs = |row| report.run(row, System::Stl).and_then(|run| run.figure("pairs_per_s"));
    let goal = |row, least: f64, of: &str| {
        pairs(row)
            .map(|found| at_least(format!("{least:.0} writes and flushes a second, {of}"), found, least, "a second"))
    };
    let all = [
        goal(Row::Sync, 110.0, "one disk: a turn each"),
        goal(Row::Sync, 300.0, "one disk: zones at several angles"),
        goal(Row::SyncSsd, 5_000.0, "with an SSD"),
    ];
    all.into_iter().flatten().collect()
}

fn aged(report: &Report) -> Vec<Goal> {
    let uniform = [Row::Uniform, Row::ZnsUniform].into_iter().flat_map(|row| aged_uniform(report, row));
    let skewed = [Row::Skewed, Row::ZnsSkewed].into_iter().flat_map(|row| aged_skewed(report, row));
    uniform.chain(skewed).collect()
}

fn of_aged(row: Row) -> &'static str {
    if matches!(row, Row::Uniform | Row::Skewed) { "aged disk" } else { "aged ZNS SSD" }
}

fn aged_uniform(report: &Report, row: Row) -> Vec<Goal> {
    let (Some(run), of) = (report.run(row, System::Stl), of_aged(row)) else { return Vec::new() };
    let figure = |name| run.figure(name).unwrap_or(0.0);
    let (found, analysis) = (figure("amplification"), figure("analysis"));
    let mut goals = vec![
        Goal {
            text: format!("Amplification within 10 % of the analysis ({analysis:.2}), {of}"),
            is_reached: (found / analysis - 1.0).abs() <= 0.1,
            found: format!("{found:.2}; without headers and map {:.2}", figure("amplification_of_data")),
        },
        Goal {
            text: format!("No second below a third of the mean, {of}"),
            is_reached: run.slowest_second_mb * 3.0 >= run.mb_per_s(),
            found: format!("{:.1} of {:.1} MB/s", run.slowest_second_mb, run.mb_per_s()),
        },
    ];
    if let Some(whole) = report.run(row, System::InMemory) {
        let share = run.mb_per_s() / whole.mb_per_s() * 100.0;
        goals.push(at_least(format!("70 % of the rate with the whole map in memory, {of}"), share, 70.0, "%"));
    }
    goals
}

fn aged_skewed(report: &Report, row: Row) -> Vec<Goal> {
    let (Some(run), Some(greedy)) = (report.run(row, System::Stl), report.run(row, System::Greedy)) else {
        return Vec::new();
    };
    let goal = |name: &str, when: &str| {
        let (ours, theirs) = (run.figure(name)?, greedy.figure(name)?);
        Some(Goal {
            text: format!("At most 0.57 of greedy's amplification{when}, {}", of_aged(row)),
            is_reached: ours <= 0.57 * theirs,
            found: format!("{ours:.2} and {theirs:.2}: {:.2}", ours / theirs),
        })
    };
    let all = [goal("amplification", ""), goal("amplification_moved", " after the hot set has moved")];
    all.into_iter().flatten().collect()
}

fn reading(report: &Report) -> Vec<Goal> {
    let figure = |system, name| report.run(Row::Read, system).and_then(|run| run.figure(name));
    let (Some(ours), Some(drive)) = (figure(System::Stl, "in_order"), figure(System::Drive, "in_order")) else {
        return Vec::new();
    };
    let text = "What was written in order is read at 90 % of the disk's rate".to_owned();
    vec![at_least(text, ours / drive * 100.0, 90.0, "%")]
}

fn others(report: &Report) -> Vec<Goal> {
    let start = report.run(Row::Start, System::Stl).and_then(|run| run.figure("start_s"));
    let start = start.map(|seconds| Goal {
        text: "A start after a crash at full load takes 15 s of disk time".into(),
        is_reached: seconds <= 15.0,
        found: span((seconds * 1e9) as u64),
    });
    let ram = |name: &str, what: &str, least: f64| {
        let found = report.run(Row::Ram, System::Stl)?.figure(name)?;
        Some(at_least(
            format!("{least:.0} random {what} a second on a device in memory, one core"),
            found,
            least,
            "a second",
        ))
    };
    let all = [start, ram("reads_per_s", "reads", 2e6), ram("writes_per_s", "writes", 1e6)];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::stl::outcome::Sample;
    use crate::reproduce::stl::plan::Experiment;

    fn run(row: Row, system: System, rates: impl IntoIterator<Item = f64>) -> Run {
        let sample = |mb_per_s: f64| Sample { mb_per_s, ios_per_s: mb_per_s * 250.0, ..Sample::default() };
        Run { samples: rates.into_iter().map(sample).collect(), ..Run::empty(Experiment { row, system }) }
    }

    fn with(run: Run, figures: &[(&str, f64)]) -> Run {
        Run { figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(), ..run }
    }

    fn reached(is_cut: bool, has_own: bool, runs: Vec<Run>) -> Vec<bool> {
        let report = Report { seed: 1, is_cut, has_own, profiles: Vec::new(), runs };
        goals(&report).iter().map(|goal| goal.is_reached).collect()
    }

    #[test]
    fn files_are_held_to_their_mean_and_to_every_ten_minutes_and_ten_seconds() {
        let files = |dip: f64, len| {
            let rates = (0..720).map(move |n| if (100..100 + len).contains(&n) { dip } else { 205.0 });
            reached(false, false, vec![run(Row::Files, System::Stl, rates)])
        };
        assert_eq!(files(205.0, 0), [true, true, true]);
        assert_eq!(files(119.0, 1), [true, true, false]);
        assert_eq!(files(180.0, 60), [true, false, true]);
        assert_eq!(files(150.0, 100), [false, false, true]);
    }

    #[test]
    fn a_run_that_was_cut_says_nothing_about_goals_but_that_it_failed() {
        assert!(reached(true, false, vec![run(Row::Files, System::Stl, [10.0])]).is_empty());
        let failed = Run::failed(Experiment { row: Row::Random, system: System::Stl }, "read-only".into());
        assert_eq!(reached(true, false, vec![failed]), [false]);
    }

    #[test]
    fn amplification_is_held_to_the_analysis_and_to_greedy() {
        let uniform = |found| {
            let stl = run(Row::Uniform, System::Stl, [40.0; 6]);
            let stl = with(stl, &[("amplification", found), ("analysis", 2.0)]);
            let stl = Run { slowest_second_mb: 14.0, ..stl };
            reached(false, false, vec![stl, run(Row::Uniform, System::InMemory, [50.0; 6])])
        };
        assert_eq!(uniform(2.19), [true, true, true]);
        assert_eq!(uniform(2.21), [false, true, true]);
        let skewed = |ours, moved| {
            let stl =
                with(run(Row::Skewed, System::Stl, [1.0]), &[("amplification", ours), ("amplification_moved", moved)]);
            let greedy =
                with(run(Row::Skewed, System::Greedy, [1.0]), &[("amplification", 3.0), ("amplification_moved", 3.0)]);
            reached(false, false, vec![stl, greedy])
        };
        assert_eq!(skewed(1.70, 1.72), [true, false]);
    }

    #[test]
    fn a_drive_of_ones_own_is_held_to_what_it_does_itself() {
        let random = |drive: f64| {
            let runs = vec![run(Row::Random, System::Stl, [150.0; 3]), run(Row::Random, System::Drive, [drive; 3])];
            reached(false, true, runs)
        };
        assert_eq!((random(180.0), random(220.0)), (vec![true], vec![false]));
    }
}
