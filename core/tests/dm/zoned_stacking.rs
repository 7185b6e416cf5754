//! How zoned disks look through mapped devices: what is stacked of their limits, how reports and appends come back, what
//! does not go together. blktests' zbd group is the yardstick where it has a case.

use shingle_core::block::{Bio, BlockDevice, DeviceId, Op, Payload, StackError, Status};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::Table;
use shingle_core::plug::{Append, PlugOptions, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use crate::tables::{Mapped, data, pattern};

/// Sectors of a zone.
const ZONE: u64 = 16;
/// Of `crypt` lines: 32 bytes that differ in both halves.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn disk(count: u64, zones: NullZones) -> Box<dyn BlockDevice> {
    let config = NullConfig::zoned(count * zones.zone_sectors, zones);
    Box::new(NullDevice::new(&NullConfig { memory_backed: true, ..config }).unwrap())
}

/// The disks of zbd/011. `a`: 128 conventional and 1024 sequential zones, of which 64 may be open and active. `b`: 512
/// sequential zones, of which 48 may be open.
fn disks() -> Mapped {
    let a = NullZones { conventional: 128, max_open: Some(64), max_active: Some(64), ..NullZones::new(ZONE) };
    let b = NullZones { max_open: Some(48), ..NullZones::new(ZONE) };
    Mapped::over([disk(1152, a), disk(512, b)])
}

/// Target, device, first zone, zones.
type Line = (&'static str, &'static str, u64, u64);

/// A table of such lines.
fn table(lines: &[Line]) -> String {
    let mut at = 0;
    let mut text = String::new();
    for (target, device, first, zones) in lines {
        let (start, len) = (first * ZONE, zones * ZONE);
        text += &match *target {
            "crypt" => format!("{at} {len} crypt aes-xts-plain64 {KEY} 0 {device} {start}\n"),
            target => format!("{at} {len} {target} {device} {start}\n"),
        };
        at += len;
    }
    text
}

/// Zones, most open and most active ones of the top, 0 where there is no limit; `None` if it is a regular device.
type Stacked = Option<(u32, u32, u32)>;

fn stacked(lines: &[Line]) -> Stacked {
    let mut mapped = disks();
    let top = mapped.add("top", &table(lines)).unwrap_or_else(|error| panic!("{lines:?}: {error}"));
    let limits = mapped.rig.stack.limits(top);
    let zoned = limits.zoned.as_ref()?;
    Some((limits.zones(), zoned.max_open.unwrap_or(0), zoned.max_active.unwrap_or(0)))
}

/// All cases of blktests zbd/011, in its order.
#[test]
fn limits_stack_as_in_zbd_011() {
    let l = |device, first, zones| ("linear", device, first, zones);
    let cases: [(&[Line], Stacked); 16] = [
        (&[l("a", 0, 1152)], Some((1152, 64, 64))),
        (&[l("b", 0, 512)], Some((512, 48, 0))),
        (&[l("a", 0, 128)], None),
        (&[l("a", 128, 1024)], Some((1024, 64, 64))),
        (&[l("a", 128, 32)], Some((32, 0, 0))),
        (&[l("a", 128, 64)], Some((64, 0, 0))),
        (&[l("a", 128, 128)], Some((128, 64, 64))),
        (&[l("a", 0, 1152), l("b", 0, 512)], Some((1664, 48, 64))),
        (&[l("a", 0, 32), l("b", 0, 512)], Some((544, 48, 0))),
        (&[l("a", 128, 1024), l("b", 0, 512)], Some((1536, 48, 64))),
        (&[l("a", 128, 32), l("b", 0, 512)], Some((544, 48, 0))),
        (&[l("a", 128, 128), l("b", 0, 16)], Some((144, 64, 64))),
        (&[l("a", 128, 32), l("b", 0, 16)], Some((48, 0, 0))),
        (&[l("a", 128, 32), l("b", 0, 48)], Some((80, 0, 0))),
        (&[l("a", 128, 32), l("b", 0, 64)], Some((96, 48, 0))),
        (&[("error", "a", 0, 1152)], Some((1152, 64, 64))),
    ];
    for (lines, expected) in cases {
        assert_eq!(stacked(lines), expected, "{lines:?}");
    }
}

/// The rest of zbd/011: its cases with `crypt`.
#[test]
fn limits_stack_through_crypt_as_in_zbd_011() {
    for ((device, first, zones), expected) in [
        (("a", 0, 1152), Some((1152, 64, 64))),
        (("a", 0, 128), None),
        (("a", 0, 256), Some((256, 64, 64))),
        (("a", 128, 64), Some((64, 0, 0))),
        (("b", 0, 512), Some((512, 48, 0))),
    ] {
        assert_eq!(stacked(&[("crypt", device, first, zones)]), expected, "{zones} zones of {device} from {first} on");
    }
}

/// The zones that `lines` are to show, with the disks' own reports as the source.
fn expected_report(mapped: &mut Mapped, lines: &[Line]) -> Vec<Zone> {
    let mut zones = vec![];
    for (_, device, first, count) in lines {
        let id = DeviceId(u16::from(*device == "b"));
        for zone in mapped.report(id, first * ZONE, *count as usize) {
            let start = Sector(zones.len() as u64 * ZONE);
            zones.push(Zone { start, wp: start + (zone.wp - zone.start), ..zone });
        }
    }
    zones
}

/// As in zbd/002 and zbd/007, for tables in pieces.
#[test]
fn a_report_shows_the_zones_of_the_disks_at_their_new_place() {
    let mut rng = Rng::new(11);
    for _ in 0..20 {
        let mut mapped = disks();
        for _ in 0..40 {
            let (device, zone) = if rng.chance(1, 2) { (0, 128 + rng.below(40)) } else { (1, rng.below(40)) };
            mapped.send(DeviceId(device), data(Op::Write, zone * ZONE, 1 + rng.below(ZONE) as u32, 1));
        }
        let line = |rng: &mut Rng| {
            let device = if rng.chance(1, 2) { "a" } else { "b" };
            ("linear", device, rng.below(140), 1 + rng.below(30))
        };
        let lines: Vec<_> = (0..1 + rng.below(6)).map(|_| line(&mut rng)).chain([("linear", "b", 0, 9)]).collect();
        let top = mapped.add("top", &table(&lines)).unwrap();
        let expected = expected_report(&mut mapped, &lines);
        let all = mapped.report(top, 0, 4096);
        assert_eq!(all, expected, "{lines:?}");
        assert_eq!(all.len() as u64 * ZONE, mapped.rig.stack.limits(top).capacity);
        for zone in all.iter().filter(|zone| zone.cond.has_write_pointer()) {
            assert!(zone.capacity <= zone.len && zone.wp.0 >= zone.start.0 && zone.wp.0 <= zone.start.0 + zone.len);
        }
        for _ in 0..10 {
            let (first, room) = (rng.below(all.len() as u64) as usize, 1 + rng.below(20) as usize);
            let part = mapped.report(top, first as u64 * ZONE + rng.below(ZONE), room);
            assert_eq!(part, all[first..all.len().min(first + room)]);
        }
    }
}

/// As in zbd/003 and zbd/004, through a table that exchanges the disks' zones.
#[test]
fn resets_and_writes_across_a_zone_edge_work_as_on_the_disk() {
    let mut mapped = disks();
    let top = mapped.add("top", &table(&[("linear", "b", 4, 2), ("linear", "a", 200, 2)])).unwrap();
    let state = |mapped: &mut Mapped, n: usize| {
        let zone = mapped.report(top, 0, 8)[n];
        (zone.wp - zone.start, zone.cond)
    };
    assert_eq!(mapped.run(data(Op::Write, ZONE, 14, 1)), Status::Ok);
    assert_eq!(mapped.run(data(Op::Write, 2 * ZONE - 2, 4, 2)), Status::Ok);
    assert_eq!(state(&mut mapped, 1), (ZONE, Condition::Full));
    assert_eq!(state(&mut mapped, 2), (2, Condition::ImplicitOpen));
    assert!(mapped.read(top, 2 * ZONE - 2, 4).unwrap() == pattern(2, 4));
    for zone in [1, 2] {
        assert_eq!(mapped.run(Bio::new(Op::ZoneReset, Sector(zone * ZONE), 0, Payload::None)), Status::Ok);
        assert_eq!(state(&mut mapped, zone as usize), (0, Condition::Empty));
    }
}

#[test]
fn reset_all_leaves_alone_what_is_not_mapped() {
    for lines in [
        &[("linear", "a", 130, 5), ("linear", "b", 2, 3)][..],
        &[("linear", "b", 0, 512), ("linear", "a", 120, 20)],
        &[("linear", "a", 128, 1024)],
        &[("linear", "a", 0, 1152)],
    ] {
        let mut mapped = disks();
        let written = [(0, 130), (0, 133), (0, 140), (1, 2), (1, 6)];
        for (device, zone) in written {
            assert_eq!(mapped.send(DeviceId(device), data(Op::Write, zone * ZONE, 3, 1)).0, Status::Ok);
        }
        mapped.add("top", &table(lines)).unwrap();
        assert_eq!(mapped.run(Bio::new(Op::ZoneResetAll, Sector(0), 0, Payload::None)), Status::Ok);
        for (device, zone) in written {
            let name = ["a", "b"][device as usize];
            let is_mapped =
                lines.iter().any(|(_, on, first, count)| *on == name && (*first..first + count).contains(&zone));
            let cond = mapped.report(DeviceId(device), zone * ZONE, 1)[0].cond;
            assert_eq!(cond == Condition::Empty, is_mapped, "zone {zone} of {name}, {lines:?}");
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused_with_the_line() {
    for (text, words) in [
        ("0 32 linear a 2048\n32 32 linear d 0", "table line 2: zone size in sectors differs: 16 above, 32 below"),
        (
            "0 16 linear a 2048\n16 16 linear c 0",
            "table line 2: its device is regular and that of the lines before zoned",
        ),
        (
            "0 16 linear c 0\n16 16 linear a 2048",
            "table line 2: its device is zoned and that of the lines before regular",
        ),
        ("0 16 linear a 0\n16 16 linear c 0", "table line 2: its device is regular"),
        ("0 16 linear a 0\n16 16 zero", "table line 2: its device is regular"),
        ("0 16 linear a 2048\n16 16 error", "table line 2: its device is regular"),
        ("0 16 linear a 2040", "not whole zones of 16 sectors: align both numbers"),
        ("0 24 linear a 2048", "not whole zones of 16 sectors: align both numbers"),
        ("0 64 striped 2 8 a 2048 d 0", "zone size in sectors differs"),
        ("0 64 striped 2 8 a 2048 c 0", "zoned model differs"),
    ] {
        let regular = Box::new(NullDevice::new(&NullConfig::new(4096)).unwrap()) as Box<dyn BlockDevice>;
        let a = NullZones { conventional: 128, ..NullZones::new(ZONE) };
        let mut mapped =
            Mapped::over([disk(1152, a), disk(8, NullZones::new(ZONE)), regular, disk(8, NullZones::new(32))]);
        let error = mapped.add("top", text).err().unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn a_device_cannot_come_to_lie_on_itself() {
    let mut mapped = disks();
    let below = mapped.add("below", &table(&[("linear", "b", 0, 512)])).unwrap();
    let above = mapped.add("above", &table(&[("linear", "below", 0, 512)])).unwrap();
    let limits = mapped.rig.stack.limits(above).clone();
    mapped.rig.stack.suspend(below);
    for lies_on in [above, below] {
        let table = Table::linear(lies_on, &limits, 0, limits.capacity).unwrap();
        assert_eq!(mapped.rig.stack.replace(below, Box::new(table)), Err(StackError::Loop(below)));
    }
    mapped.rig.stack.resume(below);
    assert_eq!(mapped.run(data(Op::Write, 0, 4, 1)), Status::Ok);
}

/// How much of a zone lets bios through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Works {
    Not,
    /// On some disks.
    Partly,
    Wholly,
}

/// A device of a random stack: its name, its zone size, and which of its zones work.
#[derive(Clone)]
struct Column {
    name: String,
    zone: u64,
    works: Vec<Works>,
}

impl Column {
    /// A table over this device: most of its zones in another order, behind targets that let bios through, or do not.
    fn table_above(&self, rng: &mut Rng) -> (String, Vec<Works>) {
        let mut cuts: Vec<usize> = (0..rng.below(4)).map(|_| rng.below(self.works.len() as u64) as usize).collect();
        cuts.extend([0, self.works.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut runs: Vec<_> = cuts.windows(2).map(|edges| edges[0]..edges[1]).collect();
        for n in (1..runs.len()).rev() {
            runs.swap(n, rng.below(n as u64 + 1) as usize);
        }
        runs.truncate(runs.len().saturating_sub(rng.below(2) as usize).max(1));
        let (mut text, mut works) = (String::new(), vec![]);
        for run in runs {
            let (at, start, len) = (works.len() as u64, run.start as u64, run.len() as u64);
            let place = format!("{} {}", self.name, start * self.zone);
            let (target, arguments) = match rng.below(8) {
                0 => ("faulty", format!("{place} error,at=0-0,op=flush")),
                1 => ("delay", format!("{place} 0")),
                2 => ("flakey", format!("{place} 1000 0")),
                3 => ("crypt", format!("aes-xts-plain64 {KEY} 0 {place}")),
                4 => ("error", place),
                _ => ("linear", place),
            };
            text += &format!("{} {} {target} {arguments}\n", at * self.zone, len * self.zone);
            works.extend(self.works[run].iter().map(|works| if target == "error" { Works::Not } else { *works }));
        }
        (text, works)
    }
}

/// A stack of tables over two disks with plugs, up to six deep or as deep as a stack can be.
fn random_stack(rng: &mut Rng) -> (Mapped, Column, Vec<String>) {
    const COUNT: u64 = 8;
    let zones = NullZones { max_append: rng.chance(1, 2).then_some(ZONE as u32), ..NullZones::new(ZONE) };
    let mut mapped = Mapped::over((0..2).map(|_| disk(COUNT, zones.clone())));
    let mut columns: Vec<Column> = (0..2)
        .map(|n| {
            let append = if rng.chance(1, 2) { Append::Native } else { Append::Emulated };
            let options = PlugOptions { append, ..PlugOptions::default() };
            let plug = ZonePlug::new(DeviceId(n), mapped.rig.stack.limits(DeviceId(n)), options).unwrap();
            mapped.rig.top = mapped.rig.stack.add(Box::new(plug)).unwrap();
            let name = format!("plug{n}");
            mapped.shelf.0.push((name.clone(), mapped.rig.top));
            Column { name, zone: ZONE, works: vec![Works::Wholly; COUNT as usize] }
        })
        .collect();
    mapped.rig.settle();
    let mut history = vec![];
    for level in 0..1 + rng.below(6) {
        let joins = columns.len() == 2 && rng.chance(1, 3);
        let above: Vec<(String, Column)> = if joins {
            let [left, right] = [&columns[0], &columns[1]];
            let count = left.works.len().min(right.works.len());
            let both = |n: usize| if left.works[n] == right.works[n] { left.works[n] } else { Works::Partly };
            let works = (0..count).map(both).collect();
            let chunk = [1, 2, 4, 16][rng.below(4) as usize].min(left.zone);
            let len = 2 * count as u64 * left.zone;
            let text = format!("0 {len} striped 2 {chunk} {} 0 {} 0\n", left.name, right.name);
            vec![(text, Column { name: format!("wide{level}"), zone: 2 * left.zone, works })]
        } else {
            let build = |(n, column): (usize, &Column)| {
                let (text, works) = column.table_above(rng);
                (text, Column { name: format!("table{level}.{n}"), works, ..column.clone() })
            };
            columns.iter().enumerate().map(build).collect()
        };
        let mut next = vec![];
        for (text, column) in above {
            history.push(format!("{}:\n{text}", column.name));
            match mapped.add(&column.name, &text) {
                Ok(_) => next.push(column),
                Err(error) if error.contains("layers on top of each other") => break,
                Err(error) => panic!("{error}\n{}", history.join("")),
            }
        }
        if next.is_empty() || next.len() < columns.len() && !joins {
            break;
        }
        columns = next;
    }
    let top = columns.remove(0);
    mapped.rig.top = mapped.shelf.0.iter().find(|(name, _)| *name == top.name).unwrap().1;
    (mapped, top, history)
}

/// The sector that an append reports is where its data is, whatever lies between.
#[test]
fn an_append_is_read_back_where_it_says_through_any_stack() {
    let mut rng = Rng::new(21);
    for _ in 0..150 {
        let (mut mapped, column, history) = random_stack(&mut rng);
        let (top, port) = (mapped.rig.top, mapped.rig.port);
        let mut written: Vec<(u64, u32, u8)> = vec![];
        for round in 0..10 {
            let mut sent = vec![];
            for tag in 0..1 + rng.below(5) {
                let zone = rng.below(column.works.len() as u64);
                let (sectors, byte) = (1 + rng.below(3) as u32, (round * 16 + tag) as u8);
                sent.push((zone, sectors, byte));
                let bio = data(Op::ZoneAppend, zone * column.zone, sectors, byte);
                mapped.rig.stack.submit(port, tag, top, Box::new(bio));
            }
            mapped.rig.settle();
            let mut failed = vec![];
            while let Some(done) = mapped.rig.stack.poll_completion(port) {
                let (zone, sectors, byte) = sent[done.tag as usize];
                if !done.status.is_ok() {
                    failed.push((zone, sectors));
                    continue;
                }
                assert_ne!(column.works[zone as usize], Works::Not, "an append to an error\n{}", history.join(""));
                assert_eq!(done.bio.sector.0 / column.zone, zone, "{}", history.join(""));
                written.push((done.bio.sector.0, sectors, byte));
            }
            for (zone, sectors) in failed {
                let inside = written.iter().filter(|(at, ..)| at / column.zone == zone);
                let is_full = inside.map(|(_, n, _)| u64::from(*n)).sum::<u64>() + u64::from(sectors) > column.zone;
                let works = column.works[zone as usize] == Works::Wholly;
                assert!(is_full || !works, "an append to zone {zone} failed\n{}", history.join(""));
            }
        }
        for (sector, sectors, byte) in &written {
            let found = mapped.read(top, *sector, *sectors).unwrap();
            assert!(found == pattern(*byte, *sectors), "sector {sector} of\n{}", history.join(""));
        }
        for zone in mapped.report(top, 0, 64) {
            let in_zone = written.iter().filter(|(at, ..)| at / column.zone == zone.start.0 / column.zone);
            let end = in_zone.map(|(at, sectors, _)| at + u64::from(*sectors)).max().unwrap_or(zone.start.0);
            assert!(zone.kind == ZoneKind::Sequential && (end <= zone.wp.0), "{zone:?}\n{}", history.join(""));
        }
    }
}
