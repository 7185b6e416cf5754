//! The report as lines of tables, which a page shows too.

use super::drawn::{DrawnOutcome, Standing};
use super::outcome::{Compared, Report, Row, SceneOutcome};
use super::published::Published;
use super::{Class, OURS};
use crate::reproduce::Goal;
use crate::reproduce::figures::{grouped, off, times};
use crate::reproduce::text::{Part, of_goals};

/// A table whose first column is a policy's name.
pub struct Numbers {
    /// The names of its columns.
    pub header: Vec<String>,
    /// The columns with numbers.
    pub right: Vec<usize>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// The scenes, set by set, then the drawn sets and the goals.
pub fn parts(report: &Report, goals: &[Goal]) -> Vec<Part> {
    let mut parts = Vec::new();
    for scenes in report.scenes.chunk_by(|a, b| a.group == b.group) {
        parts.push(Part::Lines(format!("{}: {}\n", scenes[0].group, scenes[0].title)));
        note(&scenes[0].group).lines().for_each(|line| parts.push(Part::Lines(format!("  {line}\n"))));
        for scene in scenes {
            parts.push(Part::Lines(format!("\n{}: {}, {} s\n", scene.name(), scene.load, scene.seconds)));
            parts.push(scene_numbers(scene).part());
        }
        parts.push(Part::Lines("\n".into()));
    }
    if let Some(drawn) = &report.drawn {
        let heading = "drawn sets under drawn loads, which nothing was fitted to. Means are times the oracle's:\n\n";
        parts.push(Part::Lines(format!("{} {heading}", drawn.sets.len())));
        parts.push(drawn_numbers(drawn).part());
    }
    parts.extend(of_goals(goals));
    if report.quick {
        let note = "\nRuns were cut short by --quick: the figures show that everything runs, no more.\n";
        parts.push(Part::Lines(note.into()));
    }
    parts
}

/// What a reader of this set's figures has to know.
pub fn note(group: &str) -> String {
    match group {
        "fc32-two" | "fc32-four" => {
            let source = Published::latency().source;
            format!(
                "{source}\nRandom writes are not judged: a RAM disk has no reason for 4.6 ms, and what had one is not known. In the \
                 model they are the sequential ones again, drawn anew."
            )
        }
        "tcp-30ms" => {
            let source = Published::adaptive().source;
            format!(
                "{source}\nAssumed: 32 KiB, and as many under way as give numa's figure on the slow path.\nThe published fast path \
                 did 446 MiB/s at most, ours does 1,100: what bound it is not known. So figures of policies that find it are off."
            )
        }
        "asymmetric" => {
            let source = Published::array().source;
            format!(
                "{source}\nAs many are under way as the published policy had; then fewer, and then 45,000 come in a second of \
                 50,000 that it does."
            )
        }
        _ => String::new(),
    }
}

impl Numbers {
    fn part(self) -> Part {
        Part::Table { header: self.header, right: self.right, rows: self.rows }
    }
}

/// The numbers of a scene. Columns in which nobody has anything are left out.
pub fn scene_numbers(scene: &SceneOutcome) -> Numbers {
    let has_published = scene.rows.iter().any(|row| !row.compared.is_empty());
    let has_lost = scene.rows.iter().any(|row| row.lost > 0);
    let has_probes = scene.rows.iter().any(|row| row.probes > 0);
    let whats = scene.rows.iter().find(|row| !row.compared.is_empty()).map_or_else(String::new, whats);
    let lanes: Vec<&str> = scene.rows[0].paths.iter().map(|lane| &*lane.name).collect();
    let (published, shares) = (format!("published {whats}"), format!("% of {}", lanes.join(" ")));
    let mut header = vec!["", "mean us", "deviation", "99 %", "99.9 %", "slowest", "x oracle", "I/O/s"];
    if has_published {
        header.extend([&*published, "ours", "off", "", "class"]);
    }
    header.extend([("lost", has_lost), ("probes", has_probes)].iter().filter(|of| of.1).map(|of| of.0));
    header.push(&shares);
    let right = (1..header.len()).filter(|place| !["", "class"].contains(&header[*place])).collect();
    let row = |row: &Row| {
        let mut cells = vec![row.policy.clone()];
        let figures = [row.mean_us, row.deviation_us, row.p99_us, row.p99_9_us, row.slowest_us];
        cells.extend(figures.map(grouped));
        cells.extend([scene.to_oracle(row).map_or_else(String::new, times), grouped(row.ios_per_s)]);
        if has_published {
            cells.extend(compared(row));
        }
        cells.extend(
            [(row.lost, has_lost), (row.probes, has_probes)].iter().filter(|of| of.1).map(|of| of.0.to_string()),
        );
        cells.push(shares_of(row));
        cells
    };
    Numbers {
        right,
        rows: scene.rows.iter().map(row).collect(),
        header: header.iter().map(ToString::to_string).collect(),
    }
}

fn joined<T>(all: &[T], show: impl Fn(&T) -> String) -> String {
    all.iter().map(show).collect::<Vec<_>>().join(" / ")
}

fn whats(row: &Row) -> String {
    joined(&row.compared, |figure| figure.what.name().split(',').next().unwrap_or_default().to_owned())
}

/// Published, ours, how far off, whether that is near enough, and what it is worth.
fn compared(row: &Row) -> [String; 5] {
    let verdict = |within: &Compared| within.is_within(row.class);
    let verdict = match row.compared.iter().filter_map(verdict).reduce(|one, other| one && other) {
        None => "",
        Some(true) => "ok",
        Some(false) => "OFF",
    };
    let class = if row.compared.is_empty() { Class::Own } else { row.class };
    [
        joined(&row.compared, |figure| grouped(figure.published)),
        joined(&row.compared, |figure| grouped(figure.ours)),
        joined(&row.compared, |figure| off(figure.ratio())),
        verdict.to_owned(),
        class.name().to_owned(),
    ]
}

fn shares_of(row: &Row) -> String {
    let percent = |share: &f64| {
        let percent = share * 100.0;
        // A path that gets a little gets more than nothing.
        if percent > 0.0 && percent < 0.05 {
            "<0.1".to_owned()
        } else if percent > 0.0 && percent < 0.95 {
            format!("{percent:.1}")
        } else {
            format!("{percent:.0}")
        }
    };
    row.shares().iter().map(percent).collect::<Vec<_>>().join(" ")
}

/// How all policies stand over the drawn sets.
pub fn drawn_numbers(drawn: &DrawnOutcome) -> Numbers {
    let header = [
        "",
        "average",
        "median",
        "90 %",
        "worst",
        "in set",
        "deviation",
        "lost",
        "behind by > 2 %",
        "at worst",
        "in set",
        "behind",
    ];
    let row = |standing: &Standing| {
        let three = |value: f64| format!("{value:.3}");
        let mut cells = vec![standing.policy.clone()];
        cells.extend([standing.average, standing.median, standing.p90, standing.worst].map(three));
        cells.extend([standing.worst_set.to_string(), three(standing.deviation), standing.lost.to_string()]);
        if standing.policy == super::ORACLE {
            cells.extend(std::iter::repeat_n(String::new(), 4));
        } else {
            cells.extend([standing.behind.to_string(), three(standing.behind_at_worst)]);
            cells.extend([standing.behind_set.to_string(), standing.behind_whom.clone()]);
        }
        cells
    };
    let rows = drawn.standings().iter().map(row).collect();
    Numbers { header: header.map(str::to_owned).to_vec(), right: (1..11).collect(), rows }
}

/// Whether a policy is our own.
pub fn is_ours(policy: &str) -> bool {
    policy == OURS
}
