//! Recordings: what the file keeps, what damage does to it, and the program as users run it on a daemon.

use std::collections::VecDeque;

use shingle_core::block::{Action, DeviceId, Flags, Limits, Op, Status, TraceEvent, ZonedLimits};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::{Condition, Zone, ZoneKind};
use shingle_host::trace::{
    Asked, Columns, Damage, End, EndReason, ReadError, RecordedDevice, RecordedEntry, Recording, Summary, Writer,
    ZoneStart, read, rwbs, work_of,
};
use shingle_lab::replay::Script;
use shingle_sim::workload::replay::{Fit, Next, Pace, Player, PlayerOptions};

fn device(name: &str) -> RecordedDevice {
    let limits = Limits {
        rotational: true,
        zoned: Some(ZonedLimits { max_open: Some(8), ..ZonedLimits::new(2048) }),
        ..Limits::new(1 << 20)
    };
    RecordedDevice::new(name.into(), 0, true, &limits)
}

fn event(at: u64, action: Action, number: u32, sector: u64) -> TraceEvent {
    TraceEvent {
        at: Instant(at),
        action,
        device: DeviceId(0),
        number,
        depth: u8::from(action != Action::Queue),
        returned: action == Action::Complete,
        op: Op::Write,
        flags: Flags::NONE,
        sector: Sector(sector),
        sectors: 8,
        status: Status::Ok,
    }
}

/// `bios` writes, one after the other, each with its three events.
fn recording(bios: u32) -> Recording {
    let hops = |n: u32| {
        let (at, sector) = (u64::from(n) * 1000, u64::from(n) * 8);
        let event = move |after, action| RecordedEntry::Hop(event(at + after, action, n + 1, sector));
        [event(0, Action::Queue), event(100, Action::Dispatch), event(700, Action::Complete)]
    };
    let mut entries: Vec<RecordedEntry> = (0..bios).flat_map(hops).collect();
    entries.push(RecordedEntry::Lost { at: Instant(u64::from(bios) * 1000), shard: 0, count: 3 });
    let zone =
        ZoneStart { device: 0, zone: 7, kind: ZoneKind::Sequential, cond: Condition::Closed, wp: 24, capacity: 2000 };
    Recording {
        started_unix_ns: 1_700_000_000_123_456_789,
        devices: vec![device("smr"), device("smr/disk")],
        entries,
        zones: vec![zone],
        end: End { lost: 3, at: u64::from(bios) * 1000, reason: EndReason::Stopped },
    }
}

fn bytes_of(recording: &Recording) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), recording.started_unix_ns, &recording.devices).unwrap();
    recording.entries.iter().for_each(|entry| writer.push(entry).unwrap());
    writer.finish(&recording.zones, recording.end).unwrap()
}

#[test]
fn what_was_written_is_what_is_read() {
    for bios in [0, 1, 5000] {
        let recording = recording(bios);
        assert_eq!(read(bytes_of(&recording).as_slice()).unwrap(), recording, "{bios} bios");
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused_at_the_byte_where_the_missing_part_begins() {
    let bytes = bytes_of(&recording(300));
    let starts = chunk_starts(&bytes);
    for end in (0..bytes.len()).step_by(7).chain(starts.iter().copied()) {
        let ReadError { offset, damage } = read(&bytes[..end]).unwrap_err();
        let begins = if end < 32 { 0 } else { *starts.iter().rfind(|start| **start <= end).unwrap() as u64 };
        assert_eq!(offset, begins, "cut off at {end}: {damage:?}");
        let expected = match end {
            0..8 => matches!(damage, Damage::NoRecording),
            end if starts.contains(&end) => matches!(damage, Damage::NoEnd),
            _ => matches!(damage, Damage::Truncated(_)),
        };
        assert!(expected, "cut off at {end}: {damage:?}");
    }
}

/// Where the chunks of a good file begin.
fn chunk_starts(bytes: &[u8]) -> Vec<usize> {
    let length = |at: usize| u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    let next = |at: &usize| Some(at + 12 + length(*at)).filter(|next| *next < bytes.len());
    std::iter::successors(Some(32), next).collect()
}

#[test]
fn every_single_bit_that_flips_is_found() {
    let bytes = bytes_of(&recording(3));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read(damaged.as_slice()).is_err(), "bit {} of byte {} went unnoticed", bit % 8, bit / 8);
    }
}

#[test]
fn an_error_names_the_byte_the_part_and_what_to_do() {
    let bytes = bytes_of(&recording(3));
    let says = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(says(b"#!/bin/sh\n").contains("at byte 0: it does not begin as a recording"));
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert!(says(&newer).contains("at byte 8: it is of format version 2, and this program knows version 1 only"));
    let mut damaged = bytes.clone();
    damaged[32 + 100] ^= 1;
    assert!(says(&damaged).starts_with("at byte 32: the checksum of the list of devices"), "{}", says(&damaged));
    assert!(says(&bytes[..bytes.len() - 1]).contains("it was cut off; record again"));
    assert!(says(&[bytes.as_slice(), b"x"].concat()).contains("after the last chunk"));
    let events = chunk_starts(&bytes)[1];
    let without = [&bytes[..events], &bytes[chunk_starts(&bytes)[2]..]].concat();
    assert!(says(&without).contains("counts 10 entries, but the file has 0"), "{}", says(&without));
}

#[test]
fn whatever_the_bytes_are_the_reader_returns() {
    let mut rng = Rng::new(3);
    let good = bytes_of(&recording(40));
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.draw() as u8;
        }
        if rng.chance(1, 8) {
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        }
        let starts = if rng.chance(1, 2) { chunk_starts(&good) } else { Vec::new() };
        // With checksums that are right the values behind them are what is tested.
        starts.iter().for_each(|start| mend(&mut bytes, *start));
        if let Ok(recording) = read(bytes.as_slice()) {
            accepted += 1;
            // What is accepted can be worked with.
            (0..3).for_each(|device| play(Script::of(&recording, device), &mut rng));
            let work = work_of(&recording, 0);
            let _ = Summary::new(&recording.devices[0], &work).to_json();
        }
    }
    assert!(
        (2_000..15_000).contains(&accepted),
        "{accepted} of 20000 were accepted: the test does not try what it should"
    );
    for length in (0..200).chain([4096, 70_000]) {
        let noise: Vec<u8> = (0..length).map(|_| rng.draw() as u8).collect();
        assert!(read(noise.as_slice()).is_err());
    }
}

/// Replays on a small device that fails now and then: nothing lies past its end, and everything comes to an end.
fn play(script: Script, rng: &mut Rng) {
    let limits = Limits { zoned: Some(ZonedLimits::new(256)), ..Limits::new(8 * 256) };
    let zone = |n: u64| Zone {
        start: Sector(n * 256),
        len: 256,
        capacity: 250,
        wp: Sector(n * 256 + n),
        kind: ZoneKind::Sequential,
        cond: Condition::Closed,
    };
    let zones: Vec<Zone> = (0..8).map(zone).collect();
    if script.work.iter().any(|work| work.op.has_data() && work.sectors > 1 << 12) {
        return;
    }
    let Ok(fit) = Fit::new(script.origin, &script.work, &limits, &zones) else { return };
    let mut player = Player::new(script.work, fit, PlayerOptions { pace: Pace::Max, depth: 4 });
    let mut out = VecDeque::new();
    loop {
        match player.next(Instant(1)) {
            Next::Submit(tag, bio) => {
                assert!(bio.end().0 <= limits.capacity, "{bio:?} lies past the end");
                out.push_back(tag);
            }
            Next::Done => return assert!(player.is_done()),
            Next::At(_) | Next::Wait => {
                let status = if rng.chance(1, 4) { Status::Io } else { Status::Ok };
                player.complete(out.pop_front().unwrap(), status, Instant(2));
            }
        }
    }
}

/// Makes the checksum of the chunk that began at `start` right again.
fn mend(bytes: &mut [u8], start: usize) {
    let Some(length) = bytes.get(start + 4..start + 8) else { return };
    let end = start + 8 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
    if end + 4 <= bytes.len() {
        let check = crc32c::crc32c(&bytes[start..end]);
        bytes[end..end + 4].copy_from_slice(&check.to_le_bytes());
    }
}

#[test]
fn a_bio_counts_once_as_it_was_handed_over_and_ends_when_its_submitter_has_it_back() {
    let mut recording = recording(2);
    // The second one is split: the pieces have its number, and only the whole returns.
    let piece = |at, action, sector| {
        RecordedEntry::Hop(TraceEvent { returned: false, sectors: 4, ..event(at, action, 2, sector) })
    };
    let pieces = [
        piece(1150, Action::Dispatch, 8),
        piece(1150, Action::Dispatch, 12),
        piece(1300, Action::Complete, 8),
        piece(1400, Action::Complete, 12),
    ];
    recording.entries.splice(5..5, pieces);
    let work = work_of(&recording, 0);
    let brief = |asked: &Asked| (asked.at.0, asked.sector.0, asked.sectors, asked.done.map(|(at, _)| at.0));
    assert_eq!(work.iter().map(brief).collect::<Vec<_>>(), [(0, 0, 8, Some(700)), (1000, 8, 8, Some(1700))]);
    let summary = Summary::new(&recording.devices[0], &work);
    let writes = &summary.ops[&Op::Write];
    assert_eq!((writes.count, writes.bytes, writes.sequential, writes.unfinished), (2, 8192, 1, 0));
    assert_eq!((summary.most_in_flight, summary.span), (1, 1700));
}

#[test]
fn a_bio_whose_end_was_lost_is_not_taken_for_one_in_flight() {
    let mut recording = recording(3);
    recording.entries.remove(2);
    recording.entries.insert(2, RecordedEntry::Lost { at: Instant(800), shard: 0, count: 1 });
    let work = work_of(&recording, 0);
    assert_eq!(work.iter().map(|asked| asked.done.is_some()).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(Summary::new(&recording.devices[0], &work).most_in_flight, 1);
}

#[test]
fn an_event_is_a_line_in_the_columns_of_blkparse() {
    let mut recording = recording(1);
    let write = event(900, Action::Complete, 70_000, 4096);
    recording.entries.extend([
        RecordedEntry::Hop(TraceEvent { status: Status::Io, device: DeviceId(1), flags: Flags::FUA, ..write }),
        RecordedEntry::Hop(TraceEvent { op: Op::ZoneReset, action: Action::Dispatch, sectors: 0, ..write }),
        RecordedEntry::Hop(TraceEvent { op: Op::WriteZeroes, action: Action::Queue, flags: Flags::NO_UNMAP, ..write }),
        RecordedEntry::Hop(TraceEvent { op: Op::Flush, at: Instant(12_000_000_345), ..write }),
    ]);
    let columns = Columns::new(&recording);
    let lines = recording.entries.iter().enumerate().map(|(place, entry)| columns.line(place, entry));
    let expected = [
        "smr       0        1     0.000000000     1  Q   W 0 + 8 [WRITE]",
        "smr       0        2     0.000000100     1  D   W 0 + 8 [WRITE]",
        "smr       0        3     0.000000700     1  C   W 0 + 8 [0]",
        "          0        4     0.000001000 3 events lost",
        "smr/disk  0        5     0.000000900 70000  C  WF 4096 + 8 [-5] I/O error",
        "smr       0        6     0.000000900 70000  D  ZR 4096 [ZONE_RESET]",
        "smr       0        7     0.000000900 70000  Q   N 4096 + 8 [WRITE_ZEROES+NO_UNMAP]",
        "smr       0        8    12.000000345 70000  C   F [0]",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn operations_have_the_letters_of_the_kernels_tracepoints() {
    let letters = Op::ALL.map(|op| rwbs(op, Flags::NONE));
    assert_eq!(letters, ["R", "W", "ZA", "N", "D", "F", "N", "ZO", "ZC", "ZF", "ZR", "ZRA"]);
    assert_eq!(rwbs(Op::Write, Flags::PREFLUSH.with(Flags::FUA)), "FWF");
    assert_eq!(rwbs(Op::Read, Flags::NOWAIT), "R");
}

mod program {
    //! A daemon, a load, a recorder: as users run them.

    use std::fs;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::process::{Child, Command, Output, Stdio};
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::{Value, json};

    const STACK: &str = r#"
[disk.mem]
type = "null"
size = "64MiB"
memory-backed = true
zone-size = "1MiB"
conventional = 4

[device.seq]
table = "0 122880 linear mem 8192"

[export.seq]
device = "seq"

[listen]
unix = "nbd.sock"

[control]
socket = "control.sock"
"#;

    /// A directory with a stack file, gone afterwards, and perhaps a daemon in it.
    struct Lab {
        path: PathBuf,
        daemon: Option<Child>,
    }

    impl Lab {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let name = format!("shingle-trace-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("stack.toml"), STACK).unwrap();
            Self { path, daemon: None }
        }

        fn up() -> Self {
            let mut lab = Self::new();
            let mut child = lab.shingle("up stack.toml").stdout(Stdio::piped()).spawn().unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            // The pipe closes if the daemon does not start.
            let ready = lines.map_while(Result::ok).any(|line| line == "ready");
            lab.daemon = Some(child);
            assert!(ready, "the daemon did not start");
            lab
        }

        fn shingle(&self, words: &str) -> Command {
            let mut command = Command::new(env!("CARGO_BIN_EXE_shingle"));
            command.args(words.split_whitespace()).current_dir(&self.path).env_remove("SHINGLE_CONTROL");
            command
        }

        fn run(&self, words: &str) -> (i32, String, String) {
            outcome(self.shingle(words).output().unwrap())
        }

        #[track_caller]
        fn ok(&self, words: &str) -> String {
            let (code, stdout, stderr) = self.run(words);
            assert_eq!(code, 0, "shingle {words}:\n{stdout}{stderr}");
            stdout
        }

        #[track_caller]
        fn json(&self, words: &str) -> Value {
            serde_json::from_str(&self.ok(words)).unwrap()
        }

        #[track_caller]
        fn fails(&self, words: &str, code: i32, says: &str) {
            let (found, stdout, stderr) = self.run(words);
            assert_eq!(found, code, "shingle {words}:\n{stdout}{stderr}");
            assert!(stderr.contains(says), "{says:?} is missing in the answer to {words}:\n{stderr}");
        }

        fn control(&self) -> Control {
            Control(BufReader::new(UnixStream::connect(self.path.join("control.sock")).unwrap()))
        }

        /// Opens and closes zones, `count` times: bios with known effects, without a client.
        fn load(&self, count: u64) {
            let mut control = self.control();
            for n in 0..count {
                let op = if n % 2 == 0 { "zones.open" } else { "zones.close" };
                let request = json!({"v": 1, "op": op, "device": "seq", "start": 2048 * (n / 2 % 60), "length": 2048, "force": true});
                assert!(control.ask(&request).get("ok").is_some());
            }
        }

        /// A recorder into `file`, which has begun.
        fn recorder(&self, words: &str, file: &str) -> Child {
            let mut command = self.shingle(&format!("trace record {words} -o {file}"));
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            // The header is written when the daemon records.
            while fs::metadata(self.path.join(file)).map_or(0, |file| file.len()) == 0 {
                assert!(child.try_wait().unwrap().is_none(), "the recorder ended before it began");
                std::thread::yield_now();
            }
            child
        }
    }

    impl Drop for Lab {
        fn drop(&mut self) {
            if let Some(mut daemon) = self.daemon.take() {
                let _ = daemon.kill();
                let _ = daemon.wait();
            }
            let _ = fs::remove_dir_all(&self.path);
        }
    }

    fn outcome(output: Output) -> (i32, String, String) {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// Stops a recorder as Ctrl-C does, and waits for it.
    fn interrupt(child: Child) -> (i32, String, String) {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        outcome(child.wait_with_output().unwrap())
    }

    struct Control(BufReader<UnixStream>);

    impl Control {
        fn ask(&mut self, request: &Value) -> Value {
            writeln!(self.0.get_mut(), "{request}").unwrap();
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            serde_json::from_str(&line).unwrap()
        }
    }

    #[test]
    fn a_recording_has_every_bio_of_its_device_and_ends_at_an_interrupt() {
        let lab = Lab::up();
        let recorder = lab.recorder("--device seq", "seq.trace");
        lab.load(40);
        let (code, stdout, stderr) = interrupt(recorder);
        assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
        assert!(stdout.starts_with("recorded 200 events of seq in "), "{stdout}");
        let shown = lab.json("trace show seq.trace --json");
        assert_eq!((&shown["end"], &shown["lost"]), (&json!("stopped"), &json!(0)));
        let ops = &shown["summary"][0]["ops"];
        assert_eq!((&ops["zone_open"]["count"], &ops["zone_close"]["count"]), (&json!(20), &json!(20)), "{shown}");
        assert_eq!(ops["zone_open"]["unfinished"], 0);
        let start = &shown["zones_at_start"];
        assert_eq!((start.as_array().unwrap().len(), &start[0]["cond_code"]), (20, &json!(1)), "{start}");
        let text = lab.ok("trace show seq.trace");
        assert!(text.lines().next().unwrap().ends_with(" Q  ZO 0 [ZONE_OPEN]"), "{text}");
        assert!(text.contains("zones of 1 MiB: 0 read, 0 written, 20 managed"), "{text}");
        // The first zone below the table, at the disk and at its plug, and the table's fifth.
        assert_eq!(text.matches(" C  ZO 8192 [0]").count(), 3, "{text}");
    }

    #[test]
    fn all_devices_are_recorded_with_every_layer_by_name() {
        let lab = Lab::up();
        let recorder = lab.recorder("", "all.trace");
        lab.load(2);
        assert_eq!(interrupt(recorder).0, 0);
        let shown = lab.json("trace show all.trace --json");
        let steps: Vec<String> = shown["events"].as_array().unwrap().iter().take(6).map(step).collect();
        assert_eq!(steps, ["Q seq 0", "D seq 0", "A mem 8192", "D mem 8192", "D mem/disk 8192", "C mem/disk 8192"]);
        let devices: Vec<&Value> = shown["summary"].as_array().unwrap().iter().map(|s| &s["device"]).collect();
        assert_eq!(devices, ["mem/disk", "mem", "seq"]);
        let one = lab.ok("trace show all.trace --device mem/disk --summary");
        assert!(one.contains("mem/disk: 64 MiB") && !one.contains("\nseq"), "{one}");
        lab.fails("trace show all.trace --device nosuch", 2, "recorded are: mem/disk, mem, seq");
        lab.fails("trace replay all.trace --profile null", 2, "--from: mem/disk, mem, seq");
    }

    #[test]
    fn a_layer_below_a_table_ends_what_it_was_given_at_its_own_sector() {
        let lab = Lab::up();
        let recorder = lab.recorder("", "all.trace");
        lab.load(20);
        assert_eq!(interrupt(recorder).0, 0);
        let shown = lab.json("trace show all.trace --json");
        for layer in shown["summary"].as_array().unwrap() {
            let opened = &layer["ops"]["zone_open"];
            assert_eq!((&opened["count"], &opened["unfinished"]), (&json!(10), &json!(0)), "{layer}");
        }
        let events = shown["events"].as_array().unwrap();
        let sectors = |layer: &str, action: &str| -> Vec<u64> {
            let of_it = events.iter().filter(|event| event["device"] == layer && event["action"] == action);
            of_it.map(|event| event["sector"].as_u64().unwrap()).collect()
        };
        for layer in ["mem/disk", "mem", "seq"] {
            assert_eq!(sectors(layer, "C"), sectors(layer, "D"), "{layer}");
        }
    }

    #[test]
    fn a_recording_is_not_overwritten_by_accident() {
        let lab = Lab::up();
        let record = "trace record --count 1 --duration 1ms -o kept.trace";
        fs::write(lab.path.join("kept.trace"), "kept").unwrap();
        lab.fails(record, 1, "kept.trace exists: name another file, or overwrite it with --force");
        lab.fails(&format!("{record} --force --device nosuch"), 1, "nosuch");
        assert_eq!(fs::read(lab.path.join("kept.trace")).unwrap(), b"kept");
        lab.ok(&format!("{record} --force"));
        lab.ok("trace show kept.trace");
    }

    fn step(event: &Value) -> String {
        let text = |key: &str| event[key].as_str().unwrap_or("").to_owned();
        format!("{} {} {}", text("action"), text("device"), event["sector"])
    }

    #[test]
    fn a_recording_has_exactly_the_events_that_were_asked_for() {
        let lab = Lab::up();
        let recorder = lab.recorder("--device seq --count 10", "ten.trace");
        lab.load(40);
        let (code, stdout, _) = outcome(recorder.wait_with_output().unwrap());
        assert_eq!(code, 0);
        assert!(stdout.starts_with("recorded 10 events"), "{stdout}");
        let shown = lab.json("trace show ten.trace --json");
        assert_eq!((shown["events"].as_array().unwrap().len(), &shown["end"]), (10, &json!("complete")));
        lab.ok("trace record --device seq --duration 50ms -o none.trace");
        assert_eq!(lab.json("trace show none.trace --json")["events"], json!([]));
    }

    #[test]
    fn the_daemon_stops_tracing_when_the_recorder_is_gone_and_serves_the_next_one() {
        let lab = Lab::up();
        let mut recorder = lab.recorder("", "dead.trace");
        lab.fails("trace record -o second.trace", 1, "another recording is under way");
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        lab.fails("trace show dead.trace", 1, "the file ends");
        // The daemon notices that the connection is gone when it looks: soon.
        loop {
            let (code, _, stderr) = lab.run("trace record --duration 10ms -o next.trace");
            if code == 0 {
                break;
            }
            assert!(stderr.contains("another recording is under way"), "{stderr}");
        }
        lab.ok("trace show next.trace");
    }

    #[test]
    fn a_daemon_that_goes_away_leaves_what_was_recorded_until_then() {
        let mut lab = Lab::up();
        let recorder = lab.recorder("--device seq --duration 1h", "cut.trace");
        lab.load(4);
        let mut daemon = lab.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        let (code, stdout, stderr) = outcome(recorder.wait_with_output().unwrap());
        assert_eq!(code, 1);
        assert!(stdout.starts_with("recorded ") && stderr.contains("the daemon went away"), "{stdout}{stderr}");
        assert_eq!(lab.json("trace show cut.trace --json")["end"], "disconnected");
        lab.fails("trace record -o x.trace", 1, "cannot reach a daemon");
    }

    #[test]
    fn a_full_disk_and_a_wrong_device_end_a_recording_with_an_error_that_says_so() {
        let lab = Lab::up();
        lab.fails("trace record --duration 10ms -o /dev/full", 1, "No space left on device");
        lab.fails("trace record --duration 10ms -o no/such/dir/x.trace", 1, "cannot write no/such/dir/x.trace");
        lab.fails("trace record --device nosuch --duration 10ms -o x.trace", 1, "there are: mem/disk, mem, seq");
        lab.fails("trace show stack.toml", 1, "at byte 0: it does not begin as a recording");
        lab.fails("trace show nosuch.trace", 1, "cannot read the recording nosuch.trace");
        let mut control = lab.control();
        let answer = control.ask(&json!({"v": 1, "op": "trace.read"}));
        assert!(answer["error"]["message"].as_str().unwrap().contains("send trace.start first"), "{answer}");
    }

    #[test]
    fn events_that_come_faster_than_they_are_read_are_counted_and_marked_where_they_are_missing() {
        let lab = Lab::up();
        let mut control = lab.control();
        assert!(control.ask(&json!({"v": 1, "op": "trace.start"})).get("ok").is_some());
        // Nobody reads while more happens than a ring keeps: 60 zones with 7 events each at a time.
        let request = json!({"v": 1, "op": "zones.open", "device": "seq", "force": true});
        let (mut other, mut sent) = (lab.control(), 0_u64);
        let per_request = 60 * 7;
        while sent * per_request < (1 << 18) + 10_000 {
            assert!(other.ask(&request).get("ok").is_some());
            sent += 1;
        }
        let (mut events, mut lost, mut first) = (0, 0, None);
        loop {
            let answer = control.ask(&json!({"v": 1, "op": "trace.read"}));
            let answer = &answer["ok"];
            lost += answer["lost"].as_u64().unwrap();
            events += answer["entries"].as_u64().unwrap();
            first.get_or_insert_with(|| answer["data"].as_str().unwrap()[52..54].to_owned());
            if answer["more"] == false {
                break;
            }
        }
        assert!(lost > 0, "{sent} requests made {events} events");
        assert_eq!(first.as_deref(), Some("4c"), "the letter of the first entry is not an L");
        // The entry that says so is one of those that were counted.
        assert_eq!(events - 1, 1 << 18);
    }

    #[test]
    fn a_recording_is_replayed_in_virtual_time_the_same_way_each_time() {
        let lab = Lab::up();
        let recorder = lab.recorder("--device seq", "seq.trace");
        lab.load(40);
        interrupt(recorder);
        for policy in ["plug", "qd1", "elevator"] {
            let replay = || lab.ok(&format!("trace replay seq.trace --profile smr-30tb --policy {policy} --json"));
            let (first, second) = (replay(), replay());
            assert_eq!(first, second);
            let report: Value = serde_json::from_str(&first).unwrap();
            assert_eq!((&report["clock"], &report["policy"]), (&json!("virtual"), &json!(policy)));
            let ops = &report["replayed"]["ops"];
            assert_eq!((&ops["zone_open"]["count"], &ops["zone_open"]["errors"]), (&json!(20), &json!(0)), "{report}");
        }
        let text = lab.ok("trace replay seq.trace --profile null --speed max --depth 2");
        assert!(text.contains("seq replayed on simulated drive null") && text.contains("40 bios left out"), "{text}");
    }

    #[test]
    fn a_replay_on_a_real_stack_needs_leave_to_write() {
        let mut lab = Lab::up();
        let recorder = lab.recorder("--device seq", "seq.trace");
        lab.load(40);
        interrupt(recorder);
        lab.daemon.take().map(|mut daemon| (daemon.kill(), daemon.wait()));
        lab.fails("trace replay seq.trace --stack stack.toml --device seq", 2, "say --write");
        lab.fails("trace replay seq.trace --profile null --device seq", 2, "cannot be used with");
        let report = lab.json("trace replay seq.trace --stack stack.toml --device seq --write --speed max --json");
        assert_eq!((&report["clock"], &report["replayed"]["ops"]["zone_close"]["count"]), (&json!("real"), &json!(20)));
        lab.fails("trace replay seq.trace --stack stack.toml --device no --write", 2, "it has seq, mem");
        lab.fails("trace replay seq.trace", 2, "--profile");
        lab.fails("trace replay seq.trace --profile null --stack stack.toml --device seq", 2, "cannot be used with");
    }
}
