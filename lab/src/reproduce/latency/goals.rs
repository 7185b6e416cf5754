//! What the models and our own policy have to show.

use super::drawn::DrawnOutcome;
use super::outcome::{Compared, Report, Row, SceneOutcome};
use super::published::What;
use super::{ALONE, Class, DECAY_10, ORACLE, OURS};
use crate::reproduce::Goal;
use crate::reproduce::figures::{grouped, off, times};

/// The mean over the drawn sets may be so many times the oracle's.
const ON_AVERAGE: f64 = 1.05;
/// Two means, or two percentiles of a histogram of cells of 1.6 %, that differ by less are equal.
const EQUAL: f64 = 1.02;

/// The goals that `report` can tell about.
pub fn goals(report: &Report) -> Vec<Goal> {
    if report.quick || report.own {
        // What was cut short tells nothing, and of a user's paths nobody knows what to ask.
        return Vec::new();
    }
    let mut goals = published(report);
    let ours: Vec<(&SceneOutcome, &Row)> =
        report.scenes.iter().filter_map(|scene| Some((scene, scene.row(OURS)?))).collect();
    let of_drawn = report.drawn.as_ref().and_then(|drawn| Some((drawn, drawn.place(OURS)?)));
    let of_ours = [
        of_drawn.map(|(drawn, place)| on_average(drawn, place)),
        of_drawn.map(|(drawn, place)| never_behind(drawn, place)),
        better_than_latency(&ours, of_drawn),
        symmetric(&ours),
        late_path(&ours),
    ];
    goals.extend(of_ours.into_iter().flatten());
    goals
}

/// Each set's published rows of a class are near enough.
fn published(report: &Report) -> Vec<Goal> {
    let mut goals = Vec::new();
    for scenes in report.scenes.chunk_by(|a, b| a.group == b.group) {
        for class in [Class::Calibrated, Class::Predicted] {
            let rows = scenes.iter().flat_map(|scene| scene.rows.iter().map(move |row| (scene, row)));
            let of_class = rows.filter(|(_, row)| row.class == class);
            let all = of_class.flat_map(|(scene, row)| row.compared.iter().map(move |figure| (scene, row, figure)));
            goals.extend(near(&scenes[0].group, class, &all.collect::<Vec<_>>()));
        }
    }
    goals
}

fn near(group: &str, class: Class, all: &[(&SceneOutcome, &Row, &Compared)]) -> Option<Goal> {
    let tolerance = class.tolerance()?;
    let is_within = |figure: &Compared| figure.is_within(class) == Some(true);
    let count = |what: What| {
        let all: Vec<bool> = all.iter().filter(|of| of.2.what == what).map(|of| is_within(of.2)).collect();
        let within = all.iter().filter(|within| **within).count();
        (!all.is_empty()).then(|| format!("{}: {within} of {}", what.name(), all.len()))
    };
    let distance = |figure: &Compared| (figure.ratio() - 1.0).abs();
    let (scene, row, worst) = all.iter().max_by(|a, b| distance(a.2).total_cmp(&distance(b.2)))?;
    let counts: Vec<String> = What::ALL.into_iter().filter_map(count).collect();
    let (off, load, policy) = (off(worst.ratio()), &scene.load_name, &row.policy);
    Some(Goal {
        text: format!("{group}: {} figures are within {:.0} % of the published", class.name(), tolerance * 100.0),
        is_reached: all.iter().all(|of| is_within(of.2)),
        found: format!("{}; furthest off is {} of {load} / {policy}, {off}", counts.join("; "), worst.what.name()),
    })
}

fn on_average(drawn: &DrawnOutcome, place: usize) -> Goal {
    let standing = &drawn.standings()[place];
    Goal {
        text: format!(
            "Ours has {} times the oracle's mean at most, on average over {} drawn sets",
            times(ON_AVERAGE),
            drawn.sets.len()
        ),
        is_reached: standing.average <= ON_AVERAGE,
        found: format!(
            "{:.3} times; {} in the middle, {} at worst, in set {}",
            standing.average,
            times(standing.median),
            times(standing.worst),
            standing.worst_set
        ),
    }
}

fn never_behind(drawn: &DrawnOutcome, place: usize) -> Goal {
    let standing = &drawn.standings()[place];
    Goal {
        text: "Ours has 1.02 times the mean of the best other policy at most, in every drawn set".into(),
        is_reached: standing.behind == 0,
        found: format!(
            "more in {} of {}; at worst {} times that of {}, in set {}",
            standing.behind,
            drawn.sets.len(),
            times(standing.behind_at_worst),
            standing.behind_whom,
            standing.behind_set
        ),
    }
}

/// In how many cases there was room, and in how many of these ours was better.
#[derive(Clone, Copy, Default)]
struct Tally {
    room: usize,
    better: usize,
}

impl Tally {
    /// Counts ours beside `theirs` and what would be possible.
    fn count(&mut self, ours: f64, theirs: f64, oracle: f64) {
        let has_room = theirs > oracle * EQUAL;
        self.room += usize::from(has_room);
        self.better += usize::from(has_room && ours < theirs);
    }
}

fn better_than_latency(ours: &[(&SceneOutcome, &Row)], of_drawn: Option<(&DrawnOutcome, usize)>) -> Option<Goal> {
    let (mut mean, mut deviation) = (Tally::default(), Tally::default());
    for (scene, row) in ours {
        let (Some(theirs), Some(oracle)) = (scene.row(DECAY_10), scene.row(ORACLE)) else { continue };
        mean.count(row.mean_us, theirs.mean_us, oracle.mean_us);
        deviation.count(row.deviation_us, theirs.deviation_us, oracle.deviation_us);
    }
    if let Some((drawn, place)) = of_drawn
        && let Some(theirs) = drawn.place(DECAY_10)
    {
        for set in &drawn.sets {
            let [ours, theirs, oracle] = [place, theirs, 0].map(|place| set.found[place]);
            mean.count(ours.mean_us, theirs.mean_us, oracle.mean_us);
            deviation.count(ours.deviation_us, theirs.deviation_us, oracle.deviation_us);
        }
    }
    (mean.room + deviation.room > 0).then(|| Goal {
        text: format!("Ours has a lower mean and deviation than `{DECAY_10}` wherever the oracle leaves room for it"),
        is_reached: mean.room == mean.better && deviation.room == deviation.better,
        found: format!(
            "lower mean in {} of {}, lower deviation in {} of {} scenes and drawn sets",
            mean.better, mean.room, deviation.better, deviation.room
        ),
    })
}

/// Paths that are alike need no policy but one that takes them in turn.
fn symmetric(ours: &[(&SceneOutcome, &Row)]) -> Option<Goal> {
    let alike = ours.iter().filter(|(scene, _)| scene.group.starts_with("fc32-"));
    let ratios = alike.filter_map(|(scene, row)| {
        let in_turn = scene.row("round-robin")?;
        Some((row.mean_us / in_turn.mean_us, scene.name()))
    });
    let (worst, name) = ratios.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Goal {
        text: "Ours is as good as round-robin on symmetric paths, within 2 %".into(),
        is_reached: worst <= EQUAL,
        found: format!("{} times its mean at worst, {name}", times(worst)),
    })
}

/// A path that is 30 ms late costs nobody anything. A look at it is an I/O of a user and counts.
fn late_path(ours: &[(&SceneOutcome, &Row)]) -> Option<Goal> {
    let late = ours.iter().filter_map(|(scene, row)| Some((scene, row, scene.row(ALONE)?)));
    let ratio = |(_, row, alone): &(&&SceneOutcome, &&Row, &Row)| row.p99_9_us / alone.p99_9_us;
    let all: Vec<_> = late.collect();
    let worst = all.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    Some(Goal {
        text: "With one path 30 ms late, 99.9 % of ours take no longer than over the good path alone".into(),
        is_reached: ratio(worst) <= EQUAL,
        found: format!(
            "99.9 % within {} us at worst, {}; over the good path alone {} us",
            grouped(worst.1.p99_9_us),
            worst.0.name(),
            grouped(worst.2.p99_9_us)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::latency::drawn::tests::drawn;
    use crate::reproduce::latency::outcome::tests::{report, row, scene};

    fn found(report: &Report) -> Vec<(String, bool)> {
        goals(report).into_iter().map(|goal| (goal.text, goal.is_reached)).collect()
    }

    #[test]
    fn a_published_row_is_met_within_the_tolerance_of_its_class_and_no_other() {
        let near = |class, ours| {
            let compared = vec![Compared { what: What::Mean, published: 100.0, ours }];
            let known = Row { class, compared, ..row("latency", 1.0) };
            found(&report(vec![scene("fc32-two", vec![row(ORACLE, 1.0), known])]))
        };
        assert_eq!(near(Class::NotModelled, 1.0), []);
        for (class, is_reached) in [(Class::Calibrated, [true, false, false]), (Class::Predicted, [true, true, false])]
        {
            let all = [104.9, 110.0, 120.0].map(|ours| near(class, ours)[0].1);
            assert_eq!(all, is_reached, "{}", class.name());
        }
    }

    #[test]
    fn without_a_policy_of_ours_nothing_is_asked_of_it() {
        let drawn = drawn(&[ORACLE, "numa"], &[&[1.0, 2.0]]);
        let scenes = vec![scene("tcp-30ms", vec![row(ORACLE, 1.0), row(DECAY_10, 2.0), row(ALONE, 1.0)])];
        assert_eq!(found(&Report { drawn: Some(drawn), ..report(scenes) }), []);
    }

    #[test]
    fn ours_reaches_what_it_reaches_and_misses_the_rest() {
        let goals = |ours: f64, set: f64| {
            let others = [(ORACLE, 1.0), (DECAY_10, 2.0), ("round-robin", 1.0), (ALONE, 1.0), (OURS, ours)];
            let scenes =
                ["fc32-two", "tcp-30ms"].map(|group| scene(group, others.map(|(of, us)| row(of, us)).to_vec()));
            let drawn = drawn(&[ORACLE, DECAY_10, OURS], &[&[100.0, 200.0, 100.0], &[100.0, 101.0, set]]);
            let report = Report { drawn: Some(drawn), ..report(scenes.to_vec()) };
            found(&report).iter().map(|goal| goal.1).collect::<Vec<_>>()
        };
        // On average; behind nobody; better than `latency`; in turn; the late path.
        assert_eq!(goals(1.0, 102.0), [true; 5]);
        assert_eq!(goals(1.0, 104.0), [true, false, true, true, true], "104 are 1.03 times 101");
        assert_eq!(goals(1.0, 120.0), [false, false, true, true, true]);
        assert_eq!(goals(1.5, 102.0), [true, true, true, false, false]);
        assert_eq!(goals(2.5, 102.0), [true, true, false, false, false]);
        let cut = Report { quick: true, ..report(vec![scene("fc32-two", vec![row(ORACLE, 1.0), row(OURS, 9.0)])]) };
        assert_eq!(found(&cut), [], "a run that was cut short tells nothing");
    }
}
