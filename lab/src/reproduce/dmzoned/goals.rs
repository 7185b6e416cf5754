//! What the model and our own policy have to show.

use super::outcome::{Report, Run, TOLERANCE};
use super::published::PublishedPhase;
use super::{MINUTES, Policy, Setup};
use crate::reproduce::Goal;
use crate::reproduce::figures::off;

/// A stretch of which none is slower than so much.
struct Floor {
    seconds: u32,
    name: &'static str,
    mb_per_s: f64,
}

/// Without an SSD.
const FLOOR: Floor = Floor { seconds: 600, name: "ten minutes", mb_per_s: 60.0 };
/// With an SSD, in the long run and in every sample.
const FLOOR_WITH_SSD: Floor = Floor { mb_per_s: 100.0, ..FLOOR };
const FLOOR_OF_SAMPLES: Floor = Floor { seconds: 10, name: "ten seconds", mb_per_s: 60.0 };
/// What the disk alone reaches on average, in MB/s.
const MEAN: f64 = 100.0;

/// The goals that the runs of `report` can tell about.
pub fn goals(report: &Report, phases: &[PublishedPhase]) -> Vec<Goal> {
    if report.minutes < MINUTES {
        // They are about two hours: at the beginning every policy is fast.
        return Vec::new();
    }
    let all = [
        kernel_phases(report, phases, Policy::Kernel2020),
        kernel_phases(report, phases, Policy::Kernel),
        kernel_phases_met(report, phases, Policy::Kernel2020),
        kernel_phases_met(report, phases, Policy::Kernel),
        floor(report.run(Setup::Single, Policy::Shingle), &FLOOR),
        mean(report.run(Setup::Single, Policy::Shingle)),
        floor(report.run(Setup::Dual, Policy::Shingle), &FLOOR_WITH_SSD),
        floor(report.run(Setup::Dual, Policy::Shingle), &FLOOR_OF_SAMPLES),
        no_slower_than_kernel(report),
    ];
    all.into_iter().flatten().collect()
}

/// The policy of a kernel on the model is as fast as the kernel was on the drive.
fn kernel_phases(report: &Report, phases: &[PublishedPhase], policy: Policy) -> Option<Goal> {
    let run = report.run(Setup::Single, policy)?;
    let timed = phases.iter().filter(|phase| phase.setup == Setup::Single);
    let found: Vec<_> = timed.filter_map(|phase| Some((phase, run.in_phase(phase)?.0))).collect();
    let one =
        |(phase, found): &(&PublishedPhase, f64)| format!("{found:.0} for {phase} ({})", off(1.0 + phase.off(*found)));
    (!found.is_empty()).then(|| Goal {
        text: format!("`{}` is within {:.0} % of the published phases, one disk", policy.name(), TOLERANCE * 100.0),
        is_reached: found.iter().all(|(phase, found)| phase.off(*found).abs() <= TOLERANCE),
        found: format!("{} MB/s", found.iter().map(one).collect::<Vec<_>>().join(", ")),
    })
}

/// The policy of a kernel with an SSD has the published phases at all, whenever that is.
fn kernel_phases_met(report: &Report, phases: &[PublishedPhase], policy: Policy) -> Option<Goal> {
    let run = report.run(Setup::Dual, policy)?;
    let all: Vec<&PublishedPhase> = phases.iter().filter(|phase| phase.setup == Setup::Dual).collect();
    let met = all.iter().filter(|phase| run.in_phase(phase).is_some()).count();
    Some(Goal {
        text: format!("`{}` meets the {} published phases with an SSD at some time", policy.name(), all.len()),
        is_reached: met == all.len(),
        found: format!("{met} of {}", all.len()),
    })
}

fn floor(run: Option<&Run>, floor: &Floor) -> Option<Goal> {
    let run = run?;
    let (slowest, from) = run.slowest(floor.seconds)?;
    Some(Goal {
        text: format!("Ours has no {} below {:.0} MB/s, {}", floor.name, floor.mb_per_s, run.setup.title()),
        is_reached: slowest >= floor.mb_per_s,
        found: format!("{slowest:.0} MB/s at worst, from {} min on", from / 60),
    })
}

fn mean_of(run: &Run) -> Option<f64> {
    run.mean(|sample| sample.mb_per_s, 0..run.seconds())
}

/// With an SSD, which takes everything first, the kernel's policy has little to lose.
fn no_slower_than_kernel(report: &Report) -> Option<Goal> {
    let mean = |policy| mean_of(report.run(Setup::Dual, policy)?);
    let (kernel, ours) = (mean(Policy::Kernel)?, mean(Policy::Shingle)?);
    Some(Goal {
        text: format!("Ours is no slower than the kernel's policy on average, {}", Setup::Dual.title()),
        is_reached: ours >= kernel,
        found: format!("{ours:.0} and {kernel:.0} MB/s"),
    })
}

fn mean(run: Option<&Run>) -> Option<Goal> {
    let run = run?;
    let mean = mean_of(run)?;
    Some(Goal {
        text: format!("Ours reaches {MEAN:.0} MB/s on average, {}", run.setup.title()),
        is_reached: mean >= MEAN,
        found: format!("{mean:.0} MB/s"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::dmzoned::outcome::tests::run;
    use crate::reproduce::dmzoned::published;

    #[test]
    fn a_short_run_says_nothing_about_goals() {
        let runs = vec![run(Policy::Kernel, [110.0; 60])];
        let report = Report { seed: 1, minutes: 10, profiles: Vec::new(), runs };
        assert_eq!(goals(&report, &published::read().phases), []);
    }

    fn reached(kernel: [f64; 3], ours: f64) -> Vec<bool> {
        let speeds = (0..720).map(|n| kernel[usize::from(n >= 40) + usize::from(n >= 80)]);
        let dip = (0..720).map(|n| if (100..160).contains(&n) { ours } else { 120.0 });
        let runs = vec![run(Policy::Kernel, speeds), run(Policy::Shingle, dip)];
        let report = Report { seed: 1, minutes: 120, profiles: Vec::new(), runs };
        goals(&report, &published::read().phases).iter().map(|goal| goal.is_reached).collect()
    }

    #[test]
    fn goals_are_reached_only_within_the_tolerance_and_above_the_floor() {
        assert_eq!(reached([110.0, 65.0, 25.0], 60.0), [true, true, true]);
        assert_eq!(reached([126.0, 52.0, 34.0], 59.9), [true, false, true]);
        assert_eq!(reached([127.0, 65.0, 25.0], 61.0), [false, true, true]);
        assert_eq!(reached([110.0, 65.0, 16.9], 61.0), [false, true, true]);
    }

    #[test]
    fn with_an_ssd_ours_is_held_to_the_kernels_mean_and_to_every_ten_seconds() {
        let reached = |ours: f64, dip: f64| {
            let speeds = (0..720).map(|n| if n == 300 { dip } else { ours });
            let runs = vec![run(Policy::Kernel, [185.0; 720]), run(Policy::Shingle, speeds)];
            let runs = runs.into_iter().map(|run| Run { setup: Setup::Dual, ..run }).collect();
            let report = Report { seed: 1, minutes: 120, profiles: Vec::new(), runs };
            let goals = goals(&report, &published::read().phases);
            goals.iter().skip(1).map(|goal| goal.is_reached).collect::<Vec<_>>()
        };
        assert_eq!(reached(186.0, 61.0), [true, true, true]);
        assert_eq!(reached(186.0, 59.0), [true, false, true]);
        assert_eq!(reached(184.0, 61.0), [true, true, false]);
    }
}
