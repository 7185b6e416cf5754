//! The paths of devices that have several.

use shingle_host::control::protocol::{HeadStatus, PathStatus};

use super::counts::rate;
use super::sample::Pair;
use super::text::{Column, Line, Table, Tone, count, left, or_dash, right, time};
use super::{Entry, Listing};

const COLUMNS: [Column; 11] = [
    left("PATH", 0),
    left("HEALTH", 8),
    left("STATE", 15),
    right("SHARE", 5),
    right("IO/s", 4),
    right("MEAN", 6),
    right("FLY", 4),
    right("OVER", 4),
    right("AGN", 4),
    right("ERR", 4),
    right("DOWN", 4),
];

/// All of them, in so many columns.
pub fn listing(pair: Pair<'_>, width: usize) -> Listing {
    let heads = pair.now.status.devices.iter().filter_map(|device| Some((device, device.multipath.as_ref()?)));
    let longest = heads.clone().flat_map(|(_, head)| &head.paths).map(|path| super::text::width(&path.path) + 2).max();
    let table = Table::new(&COLUMNS, longest.unwrap_or(6), width);
    let mut entries = Vec::new();
    for (device, head) in heads {
        entries.push(Entry { line: head_line(head), device: Some(device.name.clone()) });
        let of_path = |path| Entry { line: path_line(pair, head, path, &table), device: Some(path.path.clone()) };
        entries.extend(head.paths.iter().map(of_path));
    }
    Listing { header: Some(table.header()), entries, empty: "no device has several paths" }
}

fn head_line(head: &HeadStatus) -> Line {
    let HeadStatus { device, policy, waiting, waited, without_path, .. } = head;
    let tone = if *waiting > 0 { Tone::Warning } else { Tone::Plain };
    let usable = head.paths.iter().filter(|path| path.usable).count();
    let line = Line::of(Tone::Plain, &format!("{device}: {usable}/{} paths, policy {policy}", head.paths.len()));
    line.with(tone, &format!("; {waiting} wait for one, {waited} did, {without_path} failed"))
}

fn path_line(pair: Pair<'_>, head: &HeadStatus, path: &PathStatus, table: &Table) -> Line {
    let sent = |path: &PathStatus| {
        let then = pair.device_before(&head.device).and_then(|device| sent_on(device.multipath.as_ref()?, &path.path));
        rate(then?, path.sent, pair.seconds()?)
    };
    let (all, rate): (f64, _) = (head.paths.iter().filter_map(sent).sum(), sent(path));
    let share = rate.filter(|_| all > 0.0).map(|rate| format!("{:.0}%", 100.0 * rate / all));
    let cells = [
        format!("  {}", path.path),
        path.health.clone(),
        path.state.clone(),
        or_dash(share),
        or_dash(rate.map(count)),
        or_dash(mean(pair, &head.device, &path.path).map(|ns| bounded(ns, head.latency_resolution_ns))),
        count(path.in_flight.into()),
        count(path.failovers as f64),
        count(path.retries as f64),
        count(path.errors as f64),
        count(path.failures as f64),
    ];
    Line::of(if path.usable { Tone::Plain } else { Tone::Bad }, &table.row(&cells))
}

/// A latency in nanoseconds; of one that the clock of the daemon does not resolve, the bound.
fn bounded(ns: u64, resolution_ns: Option<u64>) -> String {
    resolution_ns.filter(|bound| ns < *bound).map_or_else(|| time(ns), |bound| format!("<{}", time(bound)))
}

fn sent_on(head: &HeadStatus, path: &str) -> Option<u64> {
    head.paths.iter().find(|one| one.path == path).map(|one| one.sent)
}

/// How long what it did in the interval took, on average, in nanoseconds.
fn mean(pair: Pair<'_>, device: &str, path: &str) -> Option<u64> {
    let key = (device.to_owned(), path.to_owned());
    let (now, then) = (pair.now.counts.paths.get(&key)?, pair.before?.counts.paths.get(&key)?);
    let done = now.done.checked_sub(then.done).filter(|done| *done > 0)?;
    let busy = now.busy_seconds - then.busy_seconds;
    (busy >= 0.0).then(|| (busy * 1e9 / done as f64) as u64)
}
