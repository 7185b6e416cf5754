//! What volumes of dm-zoned and `stl` do to have free zones, and what it costs.

use serde_json::Value;
use shingle_host::control::protocol::{DeviceStatus, Figures};

use super::counts::rate;
use super::sample::Pair;
use super::text::{Line, Tone, bytes, count, or_dash, time};
use super::{Entry, Listing};

/// Bytes of a block.
const BLOCK: f64 = 4096.0;

/// All of them.
pub fn listing(pair: Pair<'_>) -> Listing {
    let mut entries = Vec::new();
    for device in &pair.now.status.devices {
        for (number, figures) in device.figures.iter().enumerate() {
            let before = pair.device_before(&device.name).and_then(|device| device.figures.get(number));
            let volume = Volume { figures, before, seconds: pair.seconds() };
            let lines = if figures.contains_key("cleaning") {
                volume.stl(device)
            } else if figures.contains_key("reclaim") {
                volume.dm_zoned(device)
            } else {
                continue;
            };
            entries.extend(lines.into_iter().map(|line| Entry { line, device: Some(device.name.clone()) }));
        }
    }
    Listing { header: None, entries, empty: "there is no volume of stl or dm-zoned" }
}

struct Volume<'a> {
    figures: &'a Figures,
    before: Option<&'a Figures>,
    seconds: Option<f64>,
}

impl Volume<'_> {
    fn number(&self, name: &str) -> u64 {
        self.figures.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn word(&self, name: &str) -> &str {
        self.figures.get(name).and_then(Value::as_str).unwrap_or("-")
    }

    fn times(&self, name: &str) -> String {
        or_dash(self.figures.get(name).and_then(Value::as_f64).map(|times| format!("{times:.2}")))
    }

    /// How much figures have grown each second, added up.
    fn rate(&self, names: &[&str]) -> Option<f64> {
        let before = self.before?;
        let one = |name: &&str| rate(before.get(*name).and_then(Value::as_u64)?, self.number(name), self.seconds?);
        names.iter().map(one).sum()
    }

    fn bytes(&self, names: &[&str]) -> String {
        or_dash(self.rate(names).map(|blocks| bytes(blocks * BLOCK)))
    }

    /// Blocks written for each of users: in the interval, and in all.
    fn amplification(&self, users: &[&str], others: &[&str]) -> Line {
        let both = self.rate(users).zip(self.rate(others)).filter(|(users, _)| *users > 0.0);
        let now = or_dash(both.map(|(users, others)| format!("{:.2}", (users + others) / users)));
        let all = self.times("amplification");
        plain(format!("  amplification {now} now, {all} since the table was loaded"))
    }

    fn stl(&self, device: &DeviceStatus) -> Vec<Line> {
        let n = |name| count(self.number(name) as f64);
        let (free, wanted) = (self.number("free_zones"), self.number("wanted_free_zones"));
        let is_short = self.word("cleaning") == "urgent";
        let tone = if is_short { Tone::Warning } else { Tone::Plain };
        let others = ["header_blocks", "copied_blocks", "map_blocks", "root_blocks", "filler_blocks"];
        let zones = format!(
            "  zones    {} free of {}, cleaning wants {}; full: {} data, {} copies, {} map",
            n("free_zones"),
            n("zones"),
            n("wanted_free_zones"),
            n("data_zones"),
            n("copies_zones"),
            n("map_zones"),
        );
        vec![
            title(device, "stl", self.word("volume")).with(tone, &format!(", cleaning {}", self.word("cleaning"))),
            Line::of(if free < wanted { Tone::Warning } else { Tone::Plain }, &zones),
            plain(format!(
                "  written  users {}/s, copies {}/s, map {}/s",
                self.bytes(&["user_blocks"]),
                self.bytes(&["copied_blocks"]),
                self.bytes(&["map_blocks", "root_blocks"]),
            )),
            self.amplification(&["user_blocks"], &others),
            plain(format!(
                "  cleaned  {} zones, {}/s; {} marked; {} given back; last ones {}% live",
                n("cleaned_zones"),
                or_dash(self.rate(&["cleaned_zones"]).map(count)),
                n("marked_zones"),
                n("given_back_zones"),
                or_dash(
                    self.figures
                        .get("victims_live_share")
                        .and_then(Value::as_f64)
                        .map(|share| format!("{:.0}", share * 100.0))
                ),
            )),
            Line::of(
                tone,
                &format!(
                    "  pacing   {} of 2, {} owed; {} writes wait; slowest write {}",
                    self.times("pace"),
                    bytes(self.number("owed_blocks") as f64 * BLOCK),
                    n("waiting_writes"),
                    time(self.number("slowest_write_us").saturating_mul(1000)),
                ),
            ),
        ]
    }

    fn dm_zoned(&self, device: &DeviceStatus) -> Vec<Line> {
        let free = |kind: &str| {
            let of = |name: String| count(self.number(&name) as f64);
            format!("{} of {}", of(format!("free_{kind}_zones")), of(format!("{kind}_zones")))
        };
        let reclaim = self.word("reclaim");
        let tone = if ["urgent", "emergency"].contains(&reclaim) { Tone::Warning } else { Tone::Plain };
        let (users, others) =
            (["direct_blocks", "random_blocks"], ["filled_blocks", "copied_blocks", "metadata_blocks"]);
        vec![
            title(device, "dm-zoned", self.word("policy")).with(tone, &format!(", reclaim {reclaim}")),
            plain(format!(
                "  free     cache {}, random {}, sequential {}",
                free("cache"),
                free("random"),
                free("sequential"),
            )),
            plain(format!(
                "  written  users {}/s, copies {}/s, metadata {}/s",
                self.bytes(&users),
                self.bytes(&["copied_blocks", "filled_blocks"]),
                self.bytes(&["metadata_blocks"]),
            )),
            self.amplification(&users, &others),
            plain(format!(
                "  cleaned  {} zones, {}/s; {} commits; {} writes wait",
                count(self.number("reclaimed_zones") as f64),
                or_dash(self.rate(&["reclaimed_zones"]).map(count)),
                count(self.number("commits") as f64),
                count(self.number("waiting_writes") as f64),
            )),
        ]
    }
}

fn plain(text: String) -> Line {
    Line::of(Tone::Plain, &text)
}

fn title(device: &DeviceStatus, kind: &str, state: &str) -> Line {
    let tone = if device.suspended { Tone::Warning } else { Tone::Plain };
    let suspended = if device.suspended { " (suspended)" } else { "" };
    Line::of(tone, &format!("{}{suspended}: {kind}, {state}", device.name))
}
