//! What came out: each policy under each load, beside the oracle and what was published.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shingle_host::profile::PathSet;

use super::drawn::DrawnOutcome;
use super::lanes::{Lane, lanes};
use super::published::{Known, What};
use super::scene::{Scene, words};
use super::{Class, ORACLE, goals, page, text};
use crate::multipath::{Arrival, Outcome};
use crate::reproduce::outcome::short;
use crate::reproduce::{Findings, ProfileFacts};

/// Everything that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seed of what is drawn.
    pub seed: u64,
    /// Whether runs were cut short.
    pub quick: bool,
    /// Whether the sets are a user's, and not those of the publication.
    pub own: bool,
    /// What the sets are made from.
    pub profiles: Vec<ProfileFacts>,
    /// Sets under loads.
    pub scenes: Vec<SceneOutcome>,
    /// The drawn sets, if they were tried.
    pub drawn: Option<DrawnOutcome>,
}

/// A set under a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SceneOutcome {
    /// The set, as it is called in names.
    pub group: String,
    /// The load, as it is called in names.
    pub load_name: String,
    /// What the set is.
    pub title: String,
    /// The load in words.
    pub load: String,
    /// Whether as much is sent whoever chooses: only then do latencies compare exactly.
    pub open: bool,
    /// Virtual time that counts.
    pub seconds: f64,
    /// The contenders: the oracle first.
    pub rows: Vec<Row>,
}

/// A contender in a scene. Times are in us.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub policy: String,
    /// What its figures are worth.
    pub class: Class,
    /// Mean latency.
    pub mean_us: f64,
    /// Standard deviation of it.
    pub deviation_us: f64,
    /// What 99 % do not exceed.
    pub p99_us: f64,
    /// What 99.9 % do not exceed.
    pub p99_9_us: f64,
    /// The slowest.
    pub slowest_us: f64,
    /// I/Os a second.
    pub ios_per_s: f64,
    /// 2^20 bytes a second.
    pub mib_per_s: f64,
    /// I/Os that failed or were not done long after the end.
    pub lost: u64,
    /// Reads of heads that looked whether a path works again; they are in no other figure.
    pub probes: u64,
    /// The paths, those of several hosts together.
    pub paths: Vec<Lane>,
    /// Latencies that fewer and fewer I/Os exceed: all, then each time fewer by 10^(1/6), and the slowest at the end.
    pub slower_us: Vec<f64>,
    /// Published figures, and ours.
    pub compared: Vec<Compared>,
}

/// A published figure and ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// What they say.
    pub what: What,
    /// The published one.
    pub published: f64,
    /// Ours.
    pub ours: f64,
}

/// Steps in which the share of slower I/Os falls to a tenth.
const STEPS: i32 = 6;
/// Most of these steps: to one I/O of a million.
const MOST_STEPS: i32 = 36;

/// The share of I/Os that exceed the latency in this place of [`Row::slower_us`].
pub fn share_slower(place: usize) -> f64 {
    10f64.powf(-(place as f64) / f64::from(STEPS))
}

impl Row {
    /// What `outcome` says of the contender `policy` in `scene`, over the paths of `set`.
    pub fn new(policy: &str, scene: &Scene, set: &PathSet, outcome: &Outcome) -> Self {
        let count = outcome.latency.count();
        let seconds = scene.load.length.0 as f64 / 1e9;
        let ios_per_s = count as f64 / seconds;
        let bytes = scene.load.bytes.iter().sum::<u32>() as f64 / scene.load.bytes.len().max(1) as f64;
        let known = scene.published.iter().find(|known| known.policy == policy);
        let mut row = Self {
            policy: policy.to_owned(),
            class: known.map_or(Class::Own, |known| known.class),
            mean_us: us(outcome.mean()),
            deviation_us: us(outcome.deviation()),
            p99_us: us(outcome.percentile(99.0)),
            p99_9_us: us(outcome.percentile(99.9)),
            slowest_us: us(outcome.percentile(100.0)),
            ios_per_s: us(ios_per_s),
            mib_per_s: us(ios_per_s * bytes / f64::from(1 << 20)),
            lost: outcome.failed + outcome.lost,
            probes: outcome.probes,
            paths: lanes(set, outcome),
            slower_us: slower(outcome),
            compared: Vec::new(),
        };
        row.compared = known.map_or_else(Vec::new, |known| row.beside(known, seconds));
        row
    }

    fn beside(&self, known: &Known, seconds: f64) -> Vec<Compared> {
        let ours = |what| match what {
            What::Mean => self.mean_us,
            What::Deviation => self.deviation_us,
            What::MebibytesPerSecond => self.mib_per_s,
            What::IosPerSecond => self.ios_per_s,
            // By Little's law, as the published one.
            What::SlowestPath => {
                let time = |lane: &Lane| lane.in_flight * seconds * 1e6 / lane.sent.max(1) as f64;
                us(self.paths.iter().map(time).fold(0.0, f64::max))
            }
        };
        let figures = known.figures.iter();
        figures.map(|of| Compared { what: of.what, published: of.value, ours: ours(of.what) }).collect()
    }

    /// The share of the I/Os that each path has got.
    pub fn shares(&self) -> Vec<f64> {
        let all = self.paths.iter().map(|lane| lane.sent).sum::<u64>().max(1);
        self.paths.iter().map(|lane| lane.sent as f64 / all as f64).collect()
    }
}

impl Compared {
    /// Ours, times the published one.
    pub fn ratio(&self) -> f64 {
        self.ours / self.published
    }

    /// Whether ours is as near as `class` has to be; `None` if that is not asked.
    pub fn is_within(&self, class: Class) -> Option<bool> {
        class.tolerance().map(|tolerance| (self.ratio() - 1.0).abs() <= tolerance)
    }
}

/// With a digit behind the point, so that it reads the same after it was written as text.
pub fn us(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn slower(outcome: &Outcome) -> Vec<f64> {
    let count = outcome.latency.count();
    let steps =
        (0..=MOST_STEPS).map(|step| share_slower(step as usize)).take_while(|share| share * count as f64 >= 1.0);
    let percents: Vec<f64> = steps.map(|share| 100.0 * (1.0 - share)).collect();
    let found = outcome.latency.summary(&percents).percentiles;
    found.iter().map(|(_, ns)| us(*ns as f64 / 1e3)).collect()
}

impl SceneOutcome {
    /// What came out of `scene`.
    pub fn new(scene: &Scene, rows: Vec<Row>) -> Self {
        Self {
            group: scene.group.clone(),
            load_name: scene.load_name.clone(),
            title: scene.set.description.clone(),
            load: words(&scene.load),
            open: matches!(scene.load.arrival, Arrival::Open(_)),
            seconds: scene.load.length.0 as f64 / 1e9,
            rows,
        }
    }

    /// As `fc32-two / random read`.
    pub fn name(&self) -> String {
        format!("{} / {}", self.group, self.load_name)
    }

    /// The contender of that name.
    pub fn row(&self, policy: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.policy == policy)
    }

    /// The mean of `row`, times the oracle's; `None` if one of them did nothing.
    pub fn to_oracle(&self, row: &Row) -> Option<f64> {
        let oracle = self.row(ORACLE).filter(|oracle| oracle.mean_us > 0.0 && row.mean_us > 0.0)?;
        Some(short(row.mean_us / oracle.mean_us))
    }
}

impl Report {
    /// All rows that have something published beside them.
    pub fn compared(&self) -> impl Iterator<Item = (&SceneOutcome, &Row, &Compared)> {
        let rows = self.scenes.iter().flat_map(|scene| scene.rows.iter().map(move |row| (scene, row)));
        rows.flat_map(|(scene, row)| row.compared.iter().map(move |compared| (scene, row, compared)))
    }

    /// It in each form in which it is shown.
    pub fn findings(&self) -> Findings {
        let goals = goals::goals(self);
        // A report is numbers, strings and lists: there is nothing in it that JSON has no word for.
        let mut json = serde_json::to_value(self).unwrap_or_default();
        json["compared"] = self.compared().map(ratio_of).collect();
        json["times_oracle"] = self.scenes.iter().map(times_oracle).collect();
        json["drawn_ratios"] = self.drawn.as_ref().map_or(Value::Null, |drawn| json!(drawn.standings()));
        json["goals"] = json!(goals);
        Findings { json, text: text::parts(self, &goals), sheet: page::sheet(self, goals) }
    }
}

fn ratio_of((scene, row, compared): (&SceneOutcome, &Row, &Compared)) -> Value {
    let (ratio, within) = (short(compared.ratio()), compared.is_within(row.class));
    let what = compared.what.name();
    json!({ "scene": scene.name(), "policy": row.policy, "what": what, "class": row.class, "ratio": ratio, "within": within })
}

fn times_oracle(scene: &SceneOutcome) -> Value {
    let one = |row: &Row| (row.policy.clone(), json!(scene.to_oracle(row)));
    json!({ "scene": scene.name(), "mean": scene.rows.iter().map(one).collect::<serde_json::Map<_, _>>() })
}

/// Reads the JSON of a report. What follows from its figures is computed anew.
///
/// # Errors
/// If it is no such report.
pub fn from_json(text: &str) -> Result<Report, String> {
    let report: Report = serde_json::from_str(text)
        .map_err(|error| format!("this is no report of `shingle reproduce latency --json`: {error}"))?;
    let is_whole = report.drawn.as_ref().is_none_or(DrawnOutcome::is_whole);
    if is_whole { Ok(report) } else { Err("a drawn set has not one figure for each policy".into()) }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A row of which everything takes this long.
    pub fn row(policy: &str, us: f64) -> Row {
        let lane = |name: &str, sent| Lane {
            name: name.to_owned(),
            sent,
            in_flight: 1.0,
            in_flight_deviation: 0.0,
            over_time: vec![sent, 0],
        };
        Row {
            policy: policy.to_owned(),
            class: Class::Own,
            mean_us: us,
            deviation_us: us,
            p99_us: us,
            p99_9_us: us,
            slowest_us: us,
            ios_per_s: 1000.0,
            mib_per_s: 1.0,
            lost: 0,
            probes: 0,
            paths: vec![lane("fast", 199), lane("<slow>", 1)],
            slower_us: vec![us; 13],
            compared: Vec::new(),
        }
    }

    /// A scene of this set.
    pub fn scene(group: &str, rows: Vec<Row>) -> SceneOutcome {
        let (load_name, title, load) = ("reads".to_owned(), format!("{group} & more"), "8 jobs".to_owned());
        SceneOutcome { group: group.to_owned(), load_name, title, load, open: false, seconds: 2.0, rows }
    }

    /// A whole report.
    pub fn report(scenes: Vec<SceneOutcome>) -> Report {
        Report { seed: 1, quick: false, own: false, profiles: Vec::new(), scenes, drawn: None }
    }

    #[test]
    fn a_report_reads_the_same_after_it_was_written_and_says_what_follows_from_it() {
        let known = Compared { what: What::Mean, published: 100.0, ours: 104.0 };
        let in_turn = Row { class: Class::Calibrated, compared: vec![known], ..row("round-robin", 104.0) };
        let report = report(vec![scene("mine", vec![row(ORACLE, 80.0), in_turn])]);
        let json = report.findings().json;
        assert_eq!(from_json(&json.to_string()).unwrap(), report);
        assert_eq!((json["compared"][0]["ratio"].as_f64(), &json["compared"][0]["within"]), (Some(1.04), &true.into()));
        assert_eq!(json["times_oracle"][0]["mean"]["round-robin"], 1.3);
        assert!(from_json("{}").unwrap_err().contains("latency"));
    }

    #[test]
    fn a_policy_that_did_nothing_is_no_faster_than_the_oracle() {
        let scene = scene("mine", vec![row(ORACLE, 80.0), Row { slower_us: Vec::new(), ..row("numa", 0.0) }]);
        assert_eq!(scene.to_oracle(&scene.rows[1]), None);
        let sheet = report(vec![scene]).findings().sheet;
        let html = sheet.to_html(&crate::reproduce::Imprint::new(0, ["shingle".to_owned()]));
        assert!(!html.contains("NaN") && !html.contains(">inf"), "{html}");
    }

    #[test]
    fn shares_tell_a_little_from_nothing() {
        assert_eq!(row("numa", 1.0).shares(), [0.995, 0.005]);
        let text = text::scene_numbers(&scene("mine", vec![row(ORACLE, 1.0)]));
        assert_eq!(text.rows[0].last().unwrap(), "100 0.5");
        assert_eq!(text.header.last().unwrap(), "% of fast <slow>");
    }
}
