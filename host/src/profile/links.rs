//! The keys of links: of the one link of a drive, of paths, and of wires that paths share.

use std::ops::RangeInclusive;

use shingle_core::block::{DeviceId, Limits};
use shingle_core::time::{Duration, Instant};
use shingle_drives::{Link, LinkConfig, Refusals, Retransmission, ServiceTime, Step, Steps, Traffic, Window, Windows};

use super::values::{SECOND, Table};

const NS: Duration = Duration(1);
const HOUR: Duration = Duration(3600 * SECOND.0);
const DAY: Duration = Duration(24 * HOUR.0);

/// Reads what a table says of a link that is no path: it is never given up.
pub fn read_link(table: &mut Table<'_>) -> LinkConfig {
    let config = read_wire(table);
    check(table, &config);
    config
}

/// Reads what a table says of a path.
pub fn read_path(table: &mut Table<'_>) -> LinkConfig {
    let some = |table: &mut Table<'_>, key| table.has(key).then(|| table.time(key, NS..=HOUR));
    let reconnect =
        if table.has("reconnect") { table.time("reconnect", Duration::ZERO..=HOUR) } else { Duration::ZERO };
    let give_up_after = some(table, "give-up-after");
    let silent_after = some(table, "silent-after");
    let refusals = read_refusals(table);
    let config = LinkConfig { reconnect, give_up_after, silent_after, refusals, ..read_wire(table) };
    check(table, &config);
    config
}

fn check(table: &mut Table<'_>, config: &LinkConfig) {
    table.check(Link::new(DeviceId(0), &Limits::new(8), config.clone()));
}

fn read_wire(table: &mut Table<'_>) -> LinkConfig {
    let count = |table: &mut Table<'_>, key| if table.has(key) { table.count(key, 0..=500_000) } else { 0 };
    LinkConfig {
        there: read_time(table, ["there", "there-sd", "there-shape"], Duration::ZERO..=SECOND),
        back: read_time(table, ["back", "back-sd", "back-shape"], Duration::ZERO..=SECOND),
        steps: read_steps(table),
        rate: table.has("rate").then(|| table.rate("rate")),
        traffic: read_traffic(table),
        depth: table.has("depth").then(|| table.count("depth", 1..=65_536)),
        ordered: table.flag("ordered"),
        lost_ppm: count(table, "lost-ppm"),
        failed_ppm: count(table, "failed-ppm"),
        retransmission: read_retransmission(table),
        stalls: read_windows(table, &STALL),
        write_stalls: read_windows(table, &WRITE_STALL),
        downs: read_windows(table, &DOWN),
        ..LinkConfig::default()
    }
}

fn read_steps(table: &mut Table<'_>) -> Steps {
    let steps = table.each("step", |step| {
        let at = step.time("at", Duration::ZERO..=DAY);
        let mut added = |key| step.time(key, Duration::ZERO..=HOUR);
        Step { at, there: added("there"), back: added("back") }
    });
    let period = table.has("step-period").then(|| table.time("step-period", NS..=DAY));
    Steps { steps: steps.into(), period }
}

fn read_traffic(table: &mut Table<'_>) -> Option<Traffic> {
    if !["traffic-every", "traffic-busy"].iter().any(|key| table.has(key)) {
        return None;
    }
    let every = ["traffic-every", "traffic-every-sd", "traffic-every-shape"];
    let busy = ["traffic-busy", "traffic-busy-sd", "traffic-busy-shape"];
    let allowed = NS..=SECOND;
    Some(Traffic { every: read_time(table, every, allowed.clone()), busy: read_time(table, busy, allowed) })
}

fn read_retransmission(table: &mut Table<'_>) -> Option<Retransmission> {
    let keys = ["segment-lost-ppm", "segment-bytes", "min-timeout"];
    keys.iter().any(|key| table.has(key)).then(|| Retransmission {
        lost_ppm: table.count("segment-lost-ppm", 0..=500_000),
        segment_bytes: table.size("segment-bytes", 64..=65_536) as u32,
        min_timeout: table.time("min-timeout", Duration(1_000_000)..=Duration(120 * SECOND.0)),
    })
}

fn read_refusals(table: &mut Table<'_>) -> Refusals {
    const MILLION: u32 = 1_000_000;
    let windows = read_windows(table, &REFUSE);
    // In windows that were asked for everything is refused, unless less was.
    let all = if windows.is_none() { 0 } else { MILLION };
    let ppm = if table.has("refuse-ppm") { table.count("refuse-ppm", 0..=MILLION) } else { all };
    let usual = Refusals::default();
    let after = if table.has("refuse-after") { table.time("refuse-after", NS..=SECOND) } else { usual.after };
    Refusals { ppm, windows, after }
}

/// The names of the keys that say when something happens.
struct WindowKeys {
    block: &'static str,
    every: [&'static str; 3],
    length: [&'static str; 3],
}

const STALL: WindowKeys = WindowKeys {
    block: "stall",
    every: ["stall-every", "stall-every-sd", "stall-every-shape"],
    length: ["stall-for", "stall-for-sd", "stall-for-shape"],
};
const WRITE_STALL: WindowKeys = WindowKeys {
    block: "write-stall",
    every: ["write-stall-every", "write-stall-every-sd", "write-stall-every-shape"],
    length: ["write-stall-for", "write-stall-for-sd", "write-stall-for-shape"],
};
const DOWN: WindowKeys = WindowKeys {
    block: "down",
    every: ["down-every", "down-every-sd", "down-every-shape"],
    length: ["down-for", "down-for-sd", "down-for-shape"],
};
const REFUSE: WindowKeys = WindowKeys {
    block: "refuse",
    every: ["refuse-every", "refuse-every-sd", "refuse-every-shape"],
    length: ["refuse-for", "refuse-for-sd", "refuse-for-shape"],
};

/// Blocks with fixed times, or times to be drawn.
fn read_windows(table: &mut Table<'_>, keys: &WindowKeys) -> Windows {
    let fixed = table.each(keys.block, |window| {
        let from = Instant(window.time("at", Duration::ZERO..=DAY).0);
        Window { from, length: window.has("for").then(|| window.time("for", NS..=DAY)) }
    });
    if !table.has(keys.every[0]) && !table.has(keys.length[0]) {
        return Windows::At(fixed.into());
    }
    if !fixed.is_empty() {
        let (block, every) = (keys.block, keys.every[0]);
        table.check(Err::<(), _>(format!("it has both [[...{block}]] and `{every}`: use one of them")));
    }
    let allowed = NS..=HOUR;
    Windows::Drawn {
        every: read_time(table, keys.every, allowed.clone()),
        length: read_time(table, keys.length, allowed),
    }
}

/// A time that is always the same, or has a shape and perhaps a deviation.
pub fn read_time(
    table: &mut Table<'_>,
    [mean, sd, shape]: [&'static str; 3],
    allowed: RangeInclusive<Duration>,
) -> ServiceTime {
    type Shape = fn(Duration, &mut dyn FnMut() -> Duration) -> ServiceTime;
    const SHAPES: [(&str, Shape); 3] = [
        ("exponential", |time, _| ServiceTime::Exponential(time)),
        ("log-normal", |time, deviation| ServiceTime::LogNormal(time, deviation())),
        ("gamma", |time, deviation| ServiceTime::Gamma(time, deviation())),
    ];
    let time = table.time(mean, allowed);
    let shape = if table.has(shape) { table.word(shape, &SHAPES) } else { None };
    let mut deviation = || table.time(sd, NS..=HOUR);
    shape.map_or(ServiceTime::Constant(time), |shape| shape(time, &mut deviation))
}
