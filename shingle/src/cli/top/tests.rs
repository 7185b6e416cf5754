//! The state machine without a terminal, and whole screens as text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use super::counts::{Counts, Histogram, Totals};
use super::draw::draw;
use super::model::{Input, Key, Top, View};
use super::sample::Sample;
use super::text::{Glyphs, Line, Tone, bytes, clean, count, cut, time};
use super::text_of;

fn device(name: &str, kind: &str, more: Value) -> Value {
    let mut device = json!({
        "name": name, "kind": kind, "description": format!("what {name} is"), "bytes": 1_u64 << 30, "block_bytes": 4096,
        "read_only": false, "write_cache": false, "zoned": null, "suspended": false, "shard": 0, "path": null,
        "counters": {"ios": {}, "sectors": {}, "errors": 0, "merges": 0, "in_flight": 0},
    });
    for (key, value) in more.as_object().unwrap() {
        device[key] = value.clone();
    }
    device
}

fn zoned(zones: u32) -> Value {
    json!({"zones": zones, "zone_sectors": 2048, "max_open": 8, "max_active": null, "max_append_sectors": null})
}

/// What a device did: reads and writes of 8 sectors, errors, and what it has now.
fn done(reads: u64, writes: u64, errors: u64, in_flight: u64) -> Value {
    json!({
        "ios": {"read": reads, "write": writes, "flush": 3}, "sectors": {"read": reads * 8, "write": writes * 8},
        "errors": errors, "merges": 0, "in_flight": in_flight,
    })
}

/// A path that was sent so much.
fn path(name: &str, sent: u64, is_up: bool) -> Value {
    let (state, health) = if is_up { ("optimized", "live") } else { ("inaccessible", "failed") };
    json!({
        "path": name, "state": state, "health": health, "usable": is_up, "in_flight": 1, "share_percent": 50.0, "mean_latency_ns": 5,
        "sent": sent, "failovers": 3, "retries": 2, "errors": 1, "failures": 4, "probes": 0, "windows": [],
    })
}

/// A stack with something of each kind, after it has run for so many seconds.
fn world(second: u64) -> Sample {
    let n = second * 1000;
    let stl = json!({
        "volume": "ready", "cleaning": "urgent", "free_zones": 1, "zones": 96, "wanted_free_zones": 4, "data_zones": 70,
        "copies_zones": 20, "map_zones": 2, "user_blocks": n, "copied_blocks": n / 2, "map_blocks": n / 10, "root_blocks": 0,
        "header_blocks": n / 100, "filler_blocks": 0, "amplification": 1.52, "cleaned_zones": second * 3, "marked_zones": 5,
        "given_back_zones": 2, "victims_live_share": 0.56, "pace": 1.75, "owed_blocks": 4000, "waiting_writes": 7,
        "slowest_write_us": 812_000,
    });
    let dmz = json!({
        "reclaim": "normal", "policy": "shingle", "free_cache_zones": 0, "cache_zones": 0, "free_random_zones": 3,
        "random_zones": 10, "free_sequential_zones": 7, "sequential_zones": 84, "direct_blocks": n, "random_blocks": n,
        "filled_blocks": 0, "copied_blocks": n, "metadata_blocks": n / 50, "amplification": 1.51,
        "reclaimed_zones": second, "commits": second * 2, "waiting_writes": 0,
    });
    let head = json!({
        "device": "both", "policy": "expected-delay", "node": 0, "waiting": 2, "waited": 9, "without_path": 0, "uncertain_appends": 0,
        "doubled_appends": 0, "unsettled": 0, "paths": [path("left", n * 3, true), path("right", 500, false)],
    });
    let drive = json!({
        "device": "drive", "power": "off", "cuts": 1, "in_flight": 0, "answered": 5, "mean_lateness_ns": 1000,
        "max_lateness_ns": 5000, "memory_bytes": 0,
    });
    let status = json!({
        "version": "1.2.3", "pid": 4711, "uptime_s": 100 + second, "shards": 1, "listen": [], "connections": [3],
        "exports": [
            {"name": "vol", "device": "vol", "bytes": 1 << 30, "read_only": false},
            {"name": "shared", "device": "both", "bytes": 1 << 30, "read_only": true},
            {"name": "orphan", "device": null, "bytes": 0, "read_only": false},
        ],
        "devices": [
            device("smr", "zoned-dir", json!({"zoned": zoned(96), "policy": "plug", "active_plugs": 3,
                "counters": done(n, n * 2, 0, 5)})),
            device("left", "table", json!({"counters": done(n, n, 0, 1)})),
            device("right", "table", json!({"suspended": true})),
            device("flash", "null", json!({"counters": done(n, n, second, 1)})),
            device("drive", "profile", json!({"zoned": zoned(16), "drive": drive})),
            device("vol", "table", json!({"figures": [stl], "counters": done(n, n, 0, 9)})),
            device("old", "table", json!({"figures": [dmz], "counters": done(n, n, 0, 9)})),
            device("both", "multipath", json!({"multipath": head, "counters": done(n, n, 0, 3)})),
        ],
        "stuck": [{"device": "smr", "age_ms": 12_345, "bio": "WRITE 8192+8", "shard": 0}], "stuck_bios": 1,
    });
    let below = [("vol", vec!["smr"]), ("left", vec!["flash"]), ("right", vec!["flash"]), ("old", vec!["drive"])];
    let below = below.map(|(name, below)| (name.to_owned(), below.into_iter().map(str::to_owned).collect()));
    let at = (Duration::from_secs(second), Duration::from_millis(3));
    let mut sample = Sample::new(at, serde_json::from_value(status).unwrap(), counts(n), Arc::new(below.into()));
    let plug = json!({"zone": 17, "flags": 1, "refs": 1, "condition": "ACTIVE", "wp_offset": 8, "pending": 6});
    let plugs = json!({"policy": "plug", "active": 3, "longest_wait_ns": 250_000_000, "plugs": [plug]});
    sample.plugs = BTreeMap::from([("smr".to_owned(), serde_json::from_value(plugs).unwrap())]);
    sample
}

/// Metrics of that stack.
fn counts(n: u64) -> Counts {
    let bucket = |name: &str, labels: &str, counts: [u64; 3]| {
        let bounds = ["0.001", "0.002", "+Inf"].into_iter().zip(counts);
        let line = |(le, count)| format!("shingle_{name}_bucket{{{labels},le=\"{le}\"}} {count}\n");
        bounds.map(line).collect::<String>()
    };
    let text = [
        "# HELP shingle_export_operations_total Requests\n".to_owned(),
        format!("shingle_export_operations_total{{export=\"vol\",op=\"read\"}} {n}\n"),
        format!("shingle_export_operations_total{{export=\"vol\",op=\"write\"}} {}\n", n * 2),
        format!("shingle_export_operations_total{{export=\"vol\",op=\"flush\"}} {n}\n"),
        format!("shingle_export_bytes_total{{export=\"vol\",op=\"read\"}} {}\n", n * 4096),
        format!("shingle_export_bytes_total{{export=\"vol\",op=\"write\"}} {}\n", n * 8192),
        bucket("export_latency_seconds", "export=\"vol\",work=\"write\"", [n, n * 2, n * 2]),
        bucket("export_latency_seconds", "export=\"vol\",work=\"flush\"", [0, 0, n]),
        bucket("disk_latency_seconds", "device=\"smr\",work=\"read\"", [n, n, n]),
        bucket("drive_lateness_seconds", "device=\"drive\"", [0, n, n]),
        "shingle_plug_longest_wait_seconds{device=\"smr\"} 0.25\n".into(),
        "shingle_zones{device=\"smr\",condition=\"offline\"} 1\n".into(),
        "shingle_zones{device=\"smr\",condition=\"readonly\"} 2\n".into(),
        format!("shingle_path_busy_seconds_total{{device=\"both\",path=\"left\"}} {}\n", n as f64 * 0.001),
        format!("shingle_path_done_total{{device=\"both\",path=\"left\"}} {n}\n# EOF\n"),
    ];
    Counts::read(&text.concat())
}

/// Zones of all conditions.
fn zones(count: u64) -> Vec<Zone> {
    let conditions = [
        Condition::NotWp,
        Condition::Full,
        Condition::Full,
        Condition::ImplicitOpen,
        Condition::Closed,
        Condition::Empty,
        Condition::ExplicitOpen,
        Condition::ReadOnly,
        Condition::Offline,
        Condition::Empty,
    ];
    let zone = |number: u64| {
        let cond = conditions[number as usize % conditions.len()];
        let kind = if cond == Condition::NotWp { ZoneKind::Conventional } else { ZoneKind::Sequential };
        let written = if cond == Condition::Empty { 0 } else { number * 131 % 2048 };
        let start = Sector(number * 2048);
        Zone { start, len: 2048, capacity: 2048, wp: Sector(start.0 + written), kind, cond }
    };
    (0..count).map(zone).collect()
}

fn zones_of(count: u64) -> Input {
    Input::Zones { device: "smr".into(), zones: zones(count), age: None, failure: None }
}

fn top(view: View) -> Top {
    Top::new(Duration::from_secs(1), view, Glyphs::Unicode)
}

fn sampled(view: View, seconds: [u64; 2]) -> Top {
    let mut top = top(view);
    seconds.into_iter().for_each(|second| top.apply(Input::Sample(Box::new(world(second)))));
    top
}

fn press(top: &mut Top, keys: &str) {
    keys.chars().for_each(|key| top.apply(Input::Key(Key::Char(key))));
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| text_of(line) + "\n").collect()
}

fn screen(top: &Top) -> String {
    text(&top.frame())
}

/// What a terminal of this size shows.
fn drawn(top: &mut Top, columns: u16, rows: u16) -> String {
    top.apply(Input::Size(columns, rows));
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let frame = top.frame();
    terminal.draw(|canvas| draw(&frame, true, canvas.area(), canvas.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    let lines = buffer.content().chunks(columns.into()).map(|row| line(row).trim_end().to_owned() + "\n");
    lines.collect()
}

/// Compares a screen with the file that shows it; `SHINGLE_WRITE_FRAMES=1` writes the files anew.
#[track_caller]
fn is_frame(name: &str, shown: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/top/frames").join(name);
    if std::env::var_os("SHINGLE_WRITE_FRAMES").is_some() {
        return fs::write(file, shown).unwrap();
    }
    let wanted = fs::read_to_string(&file).unwrap_or_default();
    assert!(shown == wanted, "{name} shows\n{shown}\ninstead of\n{wanted}\nSHINGLE_WRITE_FRAMES=1 takes it over");
}

#[test]
fn each_view_shows_what_there_is_at_80_by_24() {
    for view in View::ALL {
        let mut top = sampled(view, [1, 3]);
        top.apply(zones_of(96));
        is_frame(&format!("{}.txt", view.name()), &drawn(&mut top, 80, 24));
    }
    let mut top = sampled(View::Devices, [1, 3]);
    press(&mut top, "?");
    is_frame("help.txt", &drawn(&mut top, 80, 24));
}

#[test]
fn without_unicode_the_screen_is_ascii_and_as_wide() {
    let mut top = Top::new(Duration::from_secs(1), View::Devices, Glyphs::Ascii);
    [1, 3].into_iter().for_each(|second| top.apply(Input::Sample(Box::new(world(second)))));
    let shown = drawn(&mut top, 80, 24);
    assert!(shown.is_ascii());
    is_frame("ascii.txt", &shown);
    press(&mut top, "2");
    top.apply(zones_of(96));
    assert!(drawn(&mut top, 80, 24).is_ascii());
}

#[test]
fn nothing_but_long_names_is_cut_at_80_columns() {
    for view in View::ALL {
        let mut top = sampled(view, [1, 3]);
        top.apply(zones_of(96));
        let shown = drawn(&mut top, 80, 24);
        assert!(!shown.contains('…'), "{view:?}:\n{shown}");
    }
}

#[test]
fn rates_are_of_the_interval_and_none_are_told_of_the_first_sample() {
    let mut top = top(View::Devices);
    top.apply(Input::Sample(Box::new(world(5))));
    let of = |top: &Top| screen(top).lines().find(|line| line.contains("└─vol")).unwrap().to_owned();
    assert!(of(&top).contains("   -    -    -    -"), "{}", of(&top));
    top.apply(Input::Sample(Box::new(world(7))));
    assert!(of(&top).contains("1000 3.9M 1000 3.9M"), "{}", of(&top));
    assert!(screen(&top).contains("\"vol\"                 "), "{}", screen(&top));
}

#[test]
fn a_daemon_that_started_again_has_no_rates_but_those_of_its_own() {
    let flows = |top: &Top| top.rows.iter().filter(|row| row.flow.is_some()).count();
    for change in [|sample: &mut Sample| sample.status.pid = 1, |sample: &mut Sample| sample.status.uptime_s = 0] {
        let mut top = sampled(View::Devices, [5, 6]);
        assert!(flows(&top) > 0);
        let mut other = world(7);
        change(&mut other);
        top.apply(Input::Sample(Box::new(other)));
        assert_eq!(flows(&top), 0);
    }
    // In a container with the same number, and up for longer than the old one was.
    let mut top = sampled(View::Devices, [1, 2]);
    let mut other = world(300);
    other.status.uptime_s = 250;
    top.apply(Input::Sample(Box::new(other)));
    assert_eq!(flows(&top), 0);
}

#[test]
fn a_counter_that_went_back_gives_no_rate_and_no_latency() {
    let (more, less) = (Totals { reads: 10, ..Totals::default() }, Totals { reads: 4, ..Totals::default() });
    assert_eq!(less.since(&more, 1.0), None);
    assert_eq!(more.since(&less, 2.0).unwrap().reads, 3.0);
    let histogram = |counts: [u64; 3]| Histogram([1000, 2000, u64::MAX].into_iter().zip(counts).collect());
    assert_eq!(histogram([1, 1, 1]).since(&histogram([2, 2, 2])).percentile(0.5), None);
}

#[test]
fn percentiles_lie_between_the_bounds_of_the_interval() {
    let histogram = |counts: [u64; 3]| Histogram([1000, 2000, u64::MAX].into_iter().zip(counts).collect());
    let since = histogram([110, 200, 200]).since(&histogram([10, 100, 100]));
    assert_eq!((since.percentile(0.5), since.percentile(1.0)), (Some(500), Some(1000)));
    let slow = histogram([0, 100, 200]);
    assert_eq!(
        (slow.percentile(0.5), slow.percentile(0.99)),
        (Some(2000), Some(2000)),
        "beyond all bounds is past the last"
    );
    assert_eq!(histogram([0, 0, 0]).percentile(0.5), None);
}

#[test]
fn metrics_with_odd_names_are_read_and_nonsense_is_passed_by() {
    let text = "shingle_export_operations_total{export=\"a\\\"},{\\n\\\\b=\\\"\",op=\"read\"} 7\nshingle_zones{\nshingle_zones{device} x\n\
                shingle_zones{device=\"d\",condition=\"offline\"} NaN\nfoo\nshingle_plug_longest_wait_seconds{device=\"d\"} -1\n";
    let counts = Counts::read(text);
    assert_eq!(counts.exports["a\"},{\n\\b=\""].reads, 7);
    assert_eq!(counts.disks["d"].longest_wait, Some(0));
}

#[test]
fn the_cursor_stays_at_its_device_when_others_come_go_and_are_sorted() {
    let mut top = sampled(View::Devices, [1, 2]);
    press(&mut top, "jjjj");
    let chosen = |top: &Top| top.rows[top.cursors[0]].name.clone();
    assert_eq!(chosen(&top), "both");
    press(&mut top, "sss");
    assert_eq!(chosen(&top), "both");
    let mut fewer = world(3);
    fewer.status.exports.remove(0);
    fewer.status.devices.retain(|device| device.name != "flash");
    let (at, status) = ((fewer.at, fewer.took), fewer.status);
    let fewer = Sample::new(at, status, fewer.counts, fewer.below);
    top.apply(Input::Sample(Box::new(fewer)));
    assert_eq!(chosen(&top), "both");
    assert!(!screen(&top).contains("flash"));
}

#[test]
fn a_device_below_several_is_taken_apart_once_and_circles_end() {
    let mut sample = world(1);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    sample.below = Arc::new(BTreeMap::from([
        ("vol".into(), names(&["left", "right"])),
        ("left".into(), names(&["flash", "vol"])),
        ("right".into(), names(&["flash", "left", "nobody"])),
        ("smr".into(), names(&["drive"])),
        ("drive".into(), names(&["smr"])),
    ]));
    let mut top = top(View::Devices);
    top.apply(Input::Sample(Box::new(sample)));
    let shown = screen(&top);
    assert_eq!(shown.matches("left (above)").count(), 2, "{shown}");
    for name in ["vol", "left", "right", "flash", "smr", "drive", "old", "both"] {
        assert!(top.rows.iter().any(|row| row.name == name), "{name} is missing in\n{shown}");
    }
}

#[test]
fn zones_are_asked_for_only_while_their_map_is_shown() {
    let mut top = sampled(View::Devices, [1, 2]);
    assert_eq!((top.want().zones, top.want().plugs), (None, vec![]));
    top.apply(Input::Key(Key::Enter));
    let wanted = top.want().zones.unwrap();
    assert_eq!((top.view, &*wanted.device, wanted.zones), (View::Zones, "smr", 96), "vol lies on it");
    press(&mut top, "3");
    assert_eq!((top.want().zones, top.want().plugs), (None, vec!["smr".to_owned()]));
}

#[test]
fn a_map_of_a_hundred_thousand_zones_fits_and_is_zoomed_around_its_cursor() {
    let mut top = top(View::Zones);
    let mut sample = world(1);
    sample.status.devices[0].zoned.as_mut().unwrap().zones = 100_000;
    top.apply(Input::Sample(Box::new(sample)));
    top.apply(zones_of(100_000));
    let shown = drawn(&mut top, 80, 24);
    assert!(shown.contains("a cell is 256 zones; 0 to 99999"), "{shown}");
    is_frame("zones-many.txt", &shown);
    top.apply(Input::Key(Key::End));
    press(&mut top, "zzzzzzzz");
    let shown = drawn(&mut top, 80, 24);
    assert!(shown.contains("a cell is 1 zone;") && shown.contains("zone 99999; 0% written: empty"), "{shown}");
    let wanted = top.want().zones.unwrap();
    assert!((wanted.first..wanted.first + wanted.count).contains(&99_840) && wanted.count <= 512, "{wanted:?}");
    press(&mut top, "zzz0");
    assert!(screen(&top).contains("a cell is 256 zones"));
}

#[test]
fn zones_that_cannot_be_read_say_why() {
    let mut top = sampled(View::Zones, [1, 2]);
    top.apply(Input::Zones {
        device: "smr".into(),
        zones: Vec::new(),
        age: None,
        failure: Some("it has no power".into()),
    });
    assert!(screen(&top).contains("zone 0: it has no power"), "{}", screen(&top));
}

#[test]
fn a_device_that_is_gone_takes_its_map_along() {
    let mut top = sampled(View::Zones, [1, 2]);
    assert_eq!(top.want().zones.unwrap().device, "smr");
    let mut sample = world(3);
    sample.status.devices.retain(|device| device.zoned.is_none());
    top.apply(Input::Sample(Box::new(Sample::new(
        (sample.at, sample.took),
        sample.status,
        sample.counts,
        sample.below,
    ))));
    assert_eq!(top.want().zones, None);
    assert!(screen(&top).contains("no device has zones"));
}

#[test]
fn what_is_stuck_is_sorted_by_age_and_counted_from_when_it_was_seen() {
    let mut top = sampled(View::Stuck, [1, 3]);
    let shown = screen(&top);
    let places =
        ["12s stuck I/O", "2.0s+ suspended", "2.0s+ no power", "2.0s+ path down", "2.0s+ plugged", "offline zones"];
    let places = places.map(|what| shown.find(what).unwrap_or_else(|| panic!("{what} is missing in\n{shown}")));
    assert!(places.is_sorted(), "{shown}");
    let mut sample = world(4);
    sample.status.devices[0].suspended = true;
    top.apply(Input::Sample(Box::new(sample)));
    let mut sample = world(9);
    sample.status.devices[0].suspended = true;
    top.apply(Input::Sample(Box::new(sample)));
    assert!(screen(&top).contains("5.0s suspended"), "{}", screen(&top));
    assert!(screen(&top).contains("late drive"), "{}", screen(&top));
}

#[test]
fn an_idle_stack_is_said_to_have_nothing_stuck() {
    let mut top = top(View::Stuck);
    let status = json!({
        "version": "1", "pid": 1, "uptime_s": 1, "shards": 1, "listen": [], "devices": [device("d", "null", json!({}))],
        "exports": [], "connections": [0], "stuck": [], "stuck_bios": 0,
    });
    let status = serde_json::from_value(status).unwrap();
    top.apply(Input::Sample(Box::new(Sample::new(Default::default(), status, Counts::default(), Arc::default()))));
    assert!(screen(&top).contains("nothing is stuck"), "{}", screen(&top));
    for (key, says) in [("4", "no device has several paths"), ("5", "no volume"), ("2", "no device has zones")] {
        press(&mut top, key);
        assert!(screen(&top).contains(says), "{}", screen(&top));
    }
}

#[test]
fn a_daemon_that_is_gone_is_told_with_the_reason_until_it_is_back() {
    let mut top = sampled(View::Devices, [1, 2]);
    top.apply(Input::Lost("cannot reach it:\n\x1b[31mrefused".into()));
    top.apply(Input::Clock(Duration::from_secs(9)));
    let shown = screen(&top);
    assert!(shown.starts_with("NO DAEMON for 7.0s; this is the last that it said\n"), "{shown}");
    assert!(shown.contains("\ncannot reach it:??[31mrefused\n"), "{shown}");
    assert!(shown.contains("└─vol"), "what was seen last stays");
    top.apply(Input::Sample(Box::new(world(10))));
    assert!(screen(&top).starts_with("shingle 1.2.3"));
    top.apply(Input::Clock(Duration::from_secs(30)));
    assert!(screen(&top).starts_with("NO ANSWER for 20s"), "{}", screen(&top));
}

#[test]
fn a_paused_screen_stays_as_it_is() {
    let mut top = sampled(View::Devices, [1, 2]);
    press(&mut top, " ");
    let before = screen(&top);
    assert!(before.starts_with("PAUSED") && top.want().is_paused);
    top.apply(Input::Sample(Box::new(world(9))));
    top.apply(Input::Clock(Duration::from_secs(60)));
    assert_eq!(screen(&top), before);
    press(&mut top, " ");
    assert!(!top.want().is_paused);
}

#[test]
fn the_interval_has_steps_and_ends() {
    let mut top = top(View::Devices);
    press(&mut top, "+");
    assert_eq!(top.want().interval, Duration::from_secs(2));
    press(&mut top, "++++++++++++++");
    assert_eq!(top.want().interval, Duration::from_secs(3600));
    press(&mut top, "--------------------");
    assert_eq!(top.want().interval, Duration::from_millis(100));
}

#[test]
fn escape_closes_the_help_first_and_then_the_program() {
    let mut top = top(View::Devices);
    press(&mut top, "?");
    top.apply(Input::Key(Key::Escape));
    assert!(!top.has_ended() && !top.has_help);
    top.apply(Input::Key(Key::Escape));
    assert!(top.has_ended());
    for key in [Key::Interrupt, Key::Char('q')] {
        let mut top = sampled(View::Devices, [1, 2]);
        top.apply(Input::Key(key));
        assert!(top.has_ended());
    }
}

#[test]
fn names_cannot_do_anything_to_a_terminal_nor_shift_a_column() {
    assert_eq!(clean("a\x1b[2J\r\n\u{202e}\u{200b}\u{ad}e\u{301}漢"), "a?[2J?????e?漢");
    assert_eq!((cut("漢字漢字", 5), cut("漢字", 4), cut("漢字", 0)), ("漢字…".into(), "漢字".into(), String::new()));
    let mut sample = world(1);
    sample.status.exports[0].name = "\x1b[31m漢字\u{202e}漢字漢字漢字漢字漢字漢字".into();
    sample.status.exports[1].name = "\t\u{301}".into();
    let mut top = top(View::Devices);
    top.apply(Input::Sample(Box::new(sample)));
    let frame = top.frame();
    assert!(!text(&frame).replace('\n', "").contains(char::is_control));
    let ends: Vec<usize> = frame[3..6].iter().map(|line| super::text::width(&text_of(line))).collect();
    assert_eq!(ends, [80, 80, 80], "{}", text(&frame));
    let ascii = Line::of(Tone::Plain, "漢é").fit(9, Glyphs::Ascii);
    assert_eq!(text_of(&ascii), "???");
}

#[test]
fn numbers_take_few_characters() {
    let counts = [
        (0.0, "0"),
        (9.94, "9.9"),
        (9.96, "10"),
        (9999.0, "9999"),
        (9999.6, "10k"),
        (999_600.0, "1.0M"),
        (4.2e9, "4.2G"),
    ];
    counts.into_iter().for_each(|(number, text)| assert_eq!(count(number), text));
    assert_eq!((bytes(1_048_576.0), bytes(1e30), count(f64::NAN)), ("1.0M".into(), "999E".into(), "-".into()));
    let times =
        [(0, "0"), (999, "999ns"), (1500, "1.5µs"), (99_600, "100µs"), (999_700, "1.0ms"), (59_900_000_000, "1.0m")];
    times.into_iter().for_each(|(ns, text)| assert_eq!(time(ns), text));
    for shift in 0..64 {
        let n = u64::MAX >> shift;
        assert!(time(n).chars().count() <= 7 && count(n as f64).len() <= 4 && bytes(n as f64).len() <= 4, "{n}");
        assert!(n > 1 << 53 || time(n).chars().count() <= 5, "{}", time(n));
    }
}

#[test]
fn a_locale_that_is_not_utf_8_has_ascii_alone() {
    let of = |all: &str, lang: &str| Glyphs::of([Some(all.into()), None, Some(lang.into())]);
    assert_eq!(of("", "de_DE.UTF-8"), Glyphs::Unicode);
    assert_eq!(of("C", "de_DE.UTF-8"), Glyphs::Ascii);
    assert_eq!(of("C.utf8", ""), Glyphs::Unicode);
    assert_eq!(Glyphs::of([None, None, None]), Glyphs::Ascii);
}

#[test]
fn every_size_is_drawn() {
    for view in View::ALL {
        let mut top = sampled(view, [1, 3]);
        top.apply(zones_of(96));
        for (columns, rows) in (1..=200).flat_map(|columns| (1..=60).map(move |rows| (columns, rows))) {
            top.apply(Input::Size(columns, rows));
            let frame = top.frame();
            assert_eq!(frame.len(), usize::from(rows), "{view:?} at {columns} by {rows}");
            let widest = frame.iter().map(|line| super::text::width(&text_of(line))).max();
            assert!(widest <= Some(columns.into()), "{view:?} at {columns} by {rows}:\n{}", text(&frame));
        }
        [(1, 1), (7, 3), (40, 10), (200, 60)]
            .into_iter()
            .for_each(|(columns, rows)| _ = drawn(&mut top, columns, rows));
    }
}

#[test]
fn whatever_comes_in_whatever_order_a_frame_fits_and_its_cursor_is_in_it() {
    let keys = [
        Key::Up,
        Key::Down,
        Key::Left,
        Key::Right,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::Enter,
        Key::Tab,
        Key::BackTab,
    ];
    for seed in 0..60 {
        let (mut random, mut top, mut second) = (Rng::new(seed), top(View::Devices), 0);
        for _ in 0..150 {
            let pick = random.below(12);
            match pick {
                0..2 => {
                    second += random.below(3);
                    let mut sample = world(second);
                    let some = random.below(256);
                    let mut number = 0;
                    sample.status.devices.retain(|_| {
                        (some >> {
                            number += 1;
                            number
                        }) & 1
                            == 0
                    });
                    sample.status.devices.iter_mut().for_each(|device| device.counters.in_flight = random.draw());
                    sample.status.uptime_s = random.below(200);
                    let at = (sample.at, sample.took);
                    top.apply(Input::Sample(Box::new(Sample::new(at, sample.status, sample.counts, sample.below))));
                }
                2 => top.apply(zones_of(random.below(200))),
                3 => top.apply(Input::Lost("gone".into())),
                4 => top.apply(Input::Clock(Duration::from_nanos(random.draw()))),
                5 => top.apply(Input::Size(random.below(120) as u16, random.below(50) as u16)),
                6..9 => press(&mut top, &"jkhlgGsSnpzx0 +-?12345"[random.below(22) as usize..][..1]),
                _ => top.apply(Input::Key(keys[random.below(keys.len() as u64) as usize])),
            }
            let (frame, (columns, rows)) = (top.frame(), top.size);
            assert_eq!(frame.len(), rows, "seed {seed}");
            assert!(
                frame.iter().all(|line| super::text::width(&text_of(line)) <= columns),
                "seed {seed}:\n{}",
                text(&frame)
            );
            let has_entries =
                top.entries() > 0 && !top.has_help && top.lost.is_none() && top.body_rows() > 0 && columns > 1;
            let is_shown = frame.iter().flat_map(|line| &line.0).any(|(tone, _)| *tone == Tone::Cursor);
            assert!(!has_entries || is_shown || top.view == View::Zones, "seed {seed}:\n{}", text(&frame));
            let _ = top.want();
        }
    }
}
