//! The zone state machine against its specification: every condition with every action, every limit, every victim.
//!
//! The tables are the specification; the code below them only reads them. `I3` is a zone that is implicitly open with its
//! write pointer 3 sectors from the start; a zone of the tables has a capacity of 8 sectors.

use shingle_core::block::{Reason, Status};
use shingle_core::sector::Sector;
use shingle_core::zone::{
    Action, Admission, Condition, ReportFilter, ResourceLimits, ResourceLimitsError, Resources, RestoreError, Zone,
    ZoneError, ZoneGeometry, ZoneKind, ZoneNo, ZoneState, ZonedDisk,
};

const CAPACITY: u32 = 8;

/// One column per condition a zone can be in, one row per action.
/// E empty, I implicitly open, X explicitly open, C closed, F full, R read-only, O offline, N conventional.
const EVERY_CONDITION_AND_ACTION: &str = "
    action         | E0       | I0       | I3       | X0       | X3       | C3       | F8       | R3       | O3      | N0
    write 2 at wp  | I2       | I2       | I5       | X2       | X5       | I5       | full     | readonly | offline | N0
    write the rest | F8       | F8       | F8       | F8       | F8       | F8       | full     | readonly | offline | N0
    write too much | beyond   | beyond   | beyond   | beyond   | beyond   | beyond   | full     | readonly | offline | beyond
    write above wp | notatwp  | notatwp  | notatwp  | notatwp  | notatwp  | notatwp  | full     | readonly | offline | N0
    write at 1     | notatwp  | notatwp  | notatwp  | notatwp  | notatwp  | notatwp  | full     | readonly | offline | N0
    append 2       | I2       | I2       | I5       | X2       | X5       | I5       | full     | readonly | offline | conv
    append rest    | F8       | F8       | F8       | F8       | F8       | F8       | full     | readonly | offline | conv
    append + 1     | beyond   | beyond   | beyond   | beyond   | beyond   | beyond   | full     | readonly | offline | conv
    open           | X0       | X0       | X3       | X0       | X3       | X3       | invalid  | readonly | offline | conv
    close          | invalid  | E0       | C3       | E0       | C3       | C3       | invalid  | readonly | offline | conv
    finish         | F8       | F8       | F8       | F8       | F8       | F8       | F8       | readonly | offline | conv
    reset          | E0       | E0       | E0       | E0       | E0       | E0       | E0       | readonly | offline | conv
    reset all      | E0       | E0       | E0       | E0       | E0       | E0       | E0       | R3       | O3      | N0
";

/// Limits as open/active, the zones before, what zone 0 is asked, and what became of it and all zones.
/// Zones further right were used more recently.
const EVERY_LIMIT: &str = "
    limits | before       | action | result | after
    -/-    | E0 I1 X1 C1  | write  | ok     | I1 I1 X1 C1
    2/-    | E0 I1 I2     | write  | ok     | I1 C1 I2
    2/-    | E0 I1 I2     | open   | ok     | X0 C1 I2
    2/-    | E0 X1 I2     | write  | ok     | I1 X1 C2
    2/-    | E0 X1 I2     | open   | ok     | X0 X1 C2
    2/-    | E0 I0 X1     | write  | ok     | I1 E0 X1
    2/-    | E0 X1 X2     | write  | open   | E0 X1 X2
    2/-    | E0 X1 X2     | append | open   | E0 X1 X2
    2/-    | E0 X1 X2     | open   | open   | E0 X1 X2
    2/-    | E0 X1 X2     | fill   | open   | E0 X1 X2
    2/-    | E0 X1 X2     | finish | ok     | F8 X1 X2
    2/-    | E0 X1 X2     | reset  | ok     | E0 X1 X2
    2/-    | C3 I1 I2     | write  | ok     | I4 C1 I2
    2/-    | C3 X1 X2     | write  | open   | C3 X1 X2
    2/-    | C3 X1 X2     | open   | open   | C3 X1 X2
    2/-    | C3 X1 X2     | finish | ok     | F8 X1 X2
    2/-    | C3 X1 X2     | close  | ok     | C3 X1 X2
    2/-    | I3 X1        | write  | ok     | I4 X1
    2/-    | I3 X1        | open   | ok     | X3 X1
    2/-    | X3 X1        | open   | ok     | X3 X1
    2/-    | X3 X1        | fill   | ok     | F8 X1
    2/-    | E0 C1 C2 C3  | write  | ok     | I1 C1 C2 C3
    -/2    | E0 I1 I2     | write  | active | E0 I1 I2
    -/2    | E0 C1 C2     | write  | active | E0 C1 C2
    -/2    | E0 C1 C2     | append | active | E0 C1 C2
    -/2    | E0 C1 C2     | open   | active | E0 C1 C2
    -/2    | E0 C1 C2     | fill   | active | E0 C1 C2
    -/2    | E0 C1 C2     | finish | ok     | F8 C1 C2
    -/2    | E0 I0 C2     | write  | active | E0 I0 C2
    -/2    | C3 C1        | write  | ok     | I4 C1
    -/2    | C3 C1        | open   | ok     | X3 C1
    2/2    | E0 X1 X2     | write  | active | E0 X1 X2
    2/3    | E0 X1 X2     | write  | open   | E0 X1 X2
    2/3    | E0 X1 X2 C3  | open   | active | E0 X1 X2 C3
    2/3    | C3 I1 X2     | write  | ok     | I4 C1 X2
    1/1    | E0 I1        | write  | active | E0 I1
    1/2    | E0 I1        | write  | ok     | I1 C1
";

fn state(text: &str) -> ZoneState {
    let cond = match text.as_bytes()[0] {
        b'E' => Condition::Empty,
        b'I' => Condition::ImplicitOpen,
        b'X' => Condition::ExplicitOpen,
        b'C' => Condition::Closed,
        b'F' => Condition::Full,
        b'R' => Condition::ReadOnly,
        b'O' => Condition::Offline,
        b'N' => Condition::NotWp,
        other => panic!("no condition: {other}"),
    };
    ZoneState { cond, wp: text[1..].parse().unwrap() }
}

fn outcome(text: &str) -> Result<ZoneState, ZoneError> {
    Err(match text {
        "notatwp" => ZoneError::NotAtWritePointer,
        "beyond" => ZoneError::BeyondCapacity,
        "full" => ZoneError::Full,
        "invalid" => ZoneError::InvalidTransition,
        "readonly" => ZoneError::ReadOnly,
        "offline" => ZoneError::Offline,
        "conv" => ZoneError::Conventional,
        "active" => ZoneError::TooManyActive,
        "open" => ZoneError::TooManyOpen,
        text => return Ok(state(text)),
    })
}

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().filter(|line| line.contains('|')).map(|line| line.split('|').map(str::trim).collect())
}

/// The sectors that a write or an append covers, offset and length. In a full zone the offset is one inside of it.
fn extent(action: &str, wp: u32) -> (u32, u32) {
    let at = wp % CAPACITY;
    match action {
        "write 2 at wp" | "append 2" => (at, 2),
        "write the rest" | "append rest" | "fill" => (at, CAPACITY - wp),
        "write too much" | "append + 1" => (at, CAPACITY - wp + 1),
        "write above wp" => ((wp + 1) % CAPACITY, 1),
        "write at 1" => (1, 1),
        "write" | "append" => (at, 1),
        other => panic!("no write: {other}"),
    }
}

/// Does one action to a zone of a disk, data and all.
fn perform(disk: &mut ZonedDisk, zone: ZoneNo, action: &str) -> Result<(), ZoneError> {
    let (start, wp) = (disk.geometry().start(zone), disk.state(zone).wp);
    match action {
        "open" => disk.open(zone),
        "close" => disk.close(zone),
        "finish" => disk.finish(zone),
        "reset" => disk.reset(zone),
        "reset all" => {
            disk.reset_all(|_| ());
            Ok(())
        }
        append if append.starts_with("append") => {
            let sectors = extent(append, wp).1;
            assert_eq!(disk.begin_append(zone, sectors)?, start + u64::from(wp), "an append goes to the write pointer");
            disk.advance(zone, sectors);
            Ok(())
        }
        write => {
            let (offset, sectors) = extent(write, wp);
            assert_eq!(disk.begin_write(start + u64::from(offset), sectors)?, zone);
            disk.advance(zone, sectors);
            Ok(())
        }
    }
}

/// The same for the pure function.
fn apply(state: ZoneState, action: &str) -> Result<ZoneState, ZoneError> {
    let written = |(offset, sectors), append: bool| {
        let action = if append { Action::Append { sectors } } else { Action::Write { offset, sectors } };
        state.apply(CAPACITY, action).map(|opened| opened.advance(CAPACITY, sectors))
    };
    match action {
        "open" => state.apply(CAPACITY, Action::Open),
        "close" => state.apply(CAPACITY, Action::Close),
        "finish" => state.apply(CAPACITY, Action::Finish),
        "reset" => state.apply(CAPACITY, Action::Reset),
        other => written(extent(other, state.wp), other.starts_with("append")),
    }
}

fn geometry(size: u64, zone_sectors: u64, capacity: u64, conventional: u64) -> ZoneGeometry {
    ZoneGeometry::new(size, zone_sectors, capacity, conventional).unwrap()
}

fn limits(open: Option<u32>, active: Option<u32>) -> ResourceLimits {
    ResourceLimits::new(open, active).unwrap()
}

fn disk_of(states: &[ZoneState], limits: ResourceLimits) -> ZonedDisk {
    let shape = geometry(u64::from(CAPACITY) * states.len() as u64, CAPACITY.into(), CAPACITY.into(), 0);
    ZonedDisk::restore(shape, limits, |zone| states[zone.index()]).unwrap()
}

#[test]
fn every_action_in_every_condition_does_what_the_table_says() {
    let mut table = rows(EVERY_CONDITION_AND_ACTION);
    let conditions = table.next().unwrap();
    let mut checked = 0;
    for row in table.filter(|row| row[0] != "reset all") {
        for (before, after) in conditions.iter().zip(&row).skip(1) {
            assert_eq!(apply(state(before), row[0]), outcome(after), "{} of {before}", row[0]);
            checked += 1;
        }
    }
    assert_eq!(checked, 12 * 10);
}

/// A zone as long as its capacity, one with a gap behind it, and a last zone that is shorter than the others.
#[test]
fn a_disk_does_what_the_table_says_in_whole_gapped_and_short_zones() {
    let shapes = [geometry(16, 8, 8, 1), geometry(32, 16, 8, 0), geometry(24, 16, 16, 0)];
    for shape in shapes {
        let zone = ZoneNo(1);
        assert_eq!(shape.capacity_of(zone), CAPACITY);
        let mut table = rows(EVERY_CONDITION_AND_ACTION);
        let conditions = table.next().unwrap();
        for row in table {
            for (before, after) in conditions.iter().zip(&row).skip(1).filter(|(before, _)| **before != "N0") {
                let restored = |no| if no == zone { state(before) } else { ZoneState::EMPTY };
                let mut disk = ZonedDisk::restore(shape, ResourceLimits::NONE, restored).unwrap();
                let result = perform(&mut disk, zone, row[0]).map(|()| disk.state(zone));
                assert_eq!(result, outcome(after), "{} of {before} in {shape:?}", row[0]);
                if result.is_err() {
                    assert_eq!(disk.state(zone), state(before), "a refused {} changed {before}", row[0]);
                }
            }
        }
    }
}

#[test]
fn a_conventional_zone_of_a_disk_does_what_the_table_says() {
    let mut table = rows(EVERY_CONDITION_AND_ACTION);
    let column = table.next().unwrap().iter().position(|name| *name == "N0").unwrap();
    for row in table {
        let mut disk = ZonedDisk::new(geometry(16, 8, 8, 1), limits(Some(1), Some(1)));
        let result = perform(&mut disk, ZoneNo(0), row[0]).map(|()| disk.state(ZoneNo(0)));
        assert_eq!(result, outcome(row[column]), "{}", row[0]);
        assert_eq!((disk.open_zones(), disk.active_zones()), (0, 0), "conventional zones hold no resources");
    }
}

#[test]
fn limits_bind_and_victims_fall_as_the_table_says() {
    for row in rows(EVERY_LIMIT).skip(1) {
        let [bounds, before, action, result, after] = row[..] else { panic!("{row:?}") };
        let (open, active) = bounds.split_once('/').unwrap();
        let before: Vec<ZoneState> = before.split_whitespace().map(state).collect();
        let mut disk = disk_of(&before, limits(open.parse().ok(), active.parse().ok()));
        let expected = if result == "ok" { Ok(()) } else { outcome(result).map(drop) };
        assert_eq!(perform(&mut disk, ZoneNo(0), action), expected, "{row:?}");
        let now: Vec<ZoneState> = (0..before.len() as u32).map(|n| disk.state(ZoneNo(n))).collect();
        let after: Vec<ZoneState> = after.split_whitespace().map(state).collect();
        assert_eq!(now, after, "{row:?}");
    }
}

#[test]
fn the_victim_is_the_implicitly_open_zone_that_was_not_written_for_the_longest_time() {
    let mut disk = disk_of(&[ZoneState::EMPTY; 6], limits(Some(3), None));
    for zone in [0, 1, 2, 0, 1] {
        perform(&mut disk, ZoneNo(zone), "write").unwrap();
    }
    let conditions = |disk: &ZonedDisk| -> Vec<Condition> { (0..6).map(|n| disk.state(ZoneNo(n)).cond).collect() };
    use Condition::{Closed as C, Empty as E, ExplicitOpen as X, ImplicitOpen as I};
    perform(&mut disk, ZoneNo(3), "write").unwrap();
    assert_eq!(conditions(&disk), [I, I, C, I, E, E], "zone 2 was not written again");
    perform(&mut disk, ZoneNo(0), "open").unwrap();
    perform(&mut disk, ZoneNo(4), "append").unwrap();
    assert_eq!(conditions(&disk), [X, C, C, I, I, E], "zone 0 is older, but explicitly open");
    perform(&mut disk, ZoneNo(0), "close").unwrap();
    perform(&mut disk, ZoneNo(0), "write").unwrap();
    perform(&mut disk, ZoneNo(5), "write").unwrap();
    assert_eq!(conditions(&disk), [I, C, C, C, I, I], "zone 0 was opened again last");
}

#[test]
fn a_partial_write_leaves_the_pointer_behind_what_was_written() {
    let mut disk = disk_of(&[ZoneState::EMPTY; 2], ResourceLimits::NONE);
    disk.begin_write(Sector(0), 6).unwrap();
    assert_eq!(disk.state(ZoneNo(0)), state("I0"), "a write that began is open, with nothing written");
    disk.advance(ZoneNo(0), 4);
    assert_eq!(disk.begin_write(Sector(6), 1), Err(ZoneError::NotAtWritePointer));
    assert_eq!(disk.begin_write(Sector(4), 1), Ok(ZoneNo(0)));
    disk.begin_append(ZoneNo(1), 1).unwrap();
    disk.close(ZoneNo(1)).unwrap();
    assert_eq!(disk.state(ZoneNo(1)), state("E0"), "nothing was written, so nothing is active");
}

/// B42, B43: an append to a full zone, or one longer than the room that is left, was accepted.
#[test]
fn an_append_finds_a_full_zone_or_too_little_room_before_it_moves_anything() {
    let mut disk = disk_of(&[state("C6"), state("F8")], ResourceLimits::NONE);
    assert_eq!(disk.begin_append(ZoneNo(0), 3), Err(ZoneError::BeyondCapacity));
    assert_eq!(disk.begin_append(ZoneNo(1), 1), Err(ZoneError::Full));
    assert_eq!(disk.begin_append(ZoneNo(0), 2), Ok(Sector(6)));
}

#[test]
fn the_pointer_can_be_set_to_what_the_medium_holds() {
    let cases = [
        ("F8", 3, Ok("C3")),
        ("F8", 0, Ok("E0")),
        ("C3", 8, Ok("F8")),
        ("C3", 0, Ok("E0")),
        ("E0", 5, Ok("C5")),
        ("I5", 3, Ok("I3")),
        ("X5", 0, Ok("X0")),
        ("X5", 8, Ok("F8")),
        ("C3", 9, Err(ZoneError::BeyondCapacity)),
        ("R3", 1, Err(ZoneError::ReadOnly)),
        ("O3", 1, Err(ZoneError::Offline)),
    ];
    for (before, wp, expected) in cases {
        let mut disk = disk_of(&[state(before)], ResourceLimits::NONE);
        let result = disk.set_write_pointer(ZoneNo(0), wp).map(|()| disk.state(ZoneNo(0)));
        assert_eq!(result, expected.map(state), "{before} with {wp} sectors on the medium");
    }
    let mut disk = ZonedDisk::new(geometry(16, 8, 8, 1), ResourceLimits::NONE);
    assert_eq!(disk.set_write_pointer(ZoneNo(0), 1), Err(ZoneError::Conventional));
    assert_eq!(disk.set_write_pointer(ZoneNo(2), 1), Err(ZoneError::NoSuchZone));
}

#[test]
fn data_that_arrives_after_its_zone_was_closed_finished_or_failed_is_accounted_for() {
    for (meanwhile, after) in [("C3", "C5"), ("E0", "C2"), ("F8", "F8"), ("R3", "R3"), ("O3", "O3"), ("C6", "F8")] {
        assert_eq!(state(meanwhile).advance(CAPACITY, 2), state(after), "{meanwhile}");
    }
}

#[test]
fn reset_all_skips_what_cannot_be_or_need_not_be_reset() {
    let before = ["E0", "I3", "X3", "C3", "F8", "R3", "O3"].map(state);
    let mut disk = disk_of(&before, limits(Some(2), Some(3)));
    let mut reset = Vec::new();
    disk.reset_all(|zone| reset.push(zone.0));
    assert_eq!(reset, [1, 2, 3, 4]);
    let after = ["E0", "E0", "E0", "E0", "E0", "R3", "O3"].map(state);
    assert_eq!((0..7).map(|n| disk.state(ZoneNo(n))).collect::<Vec<_>>(), after);
    assert_eq!((disk.open_zones(), disk.active_zones()), (0, 0));
}

#[test]
fn a_zone_that_fails_gives_its_resources_back_and_can_be_revived_empty() {
    for cond in [Condition::ReadOnly, Condition::Offline] {
        for before in ["E0", "I3", "X3", "C3", "F8", "R3", "O3"] {
            let mut disk = disk_of(&[state(before)], limits(Some(1), Some(1)));
            let fail = if cond == Condition::ReadOnly { ZonedDisk::set_read_only } else { ZonedDisk::set_offline };
            fail(&mut disk, ZoneNo(0)).unwrap();
            assert_eq!(disk.state(ZoneNo(0)).cond, cond);
            assert_eq!((disk.open_zones(), disk.active_zones()), (0, 0), "{before}");
            assert_eq!(disk.zone(ZoneNo(0)).wp, Sector(0), "a failed zone has no write pointer");
            disk.revive(ZoneNo(0)).unwrap();
            assert_eq!(disk.state(ZoneNo(0)), ZoneState::EMPTY);
            assert_eq!(disk.revive(ZoneNo(0)), Err(ZoneError::InvalidTransition));
        }
    }
    let mut disk = ZonedDisk::new(geometry(16, 8, 8, 1), ResourceLimits::NONE);
    assert_eq!(disk.set_offline(ZoneNo(0)), Err(ZoneError::Conventional));
    assert_eq!(disk.set_read_only(ZoneNo(7)), Err(ZoneError::NoSuchZone));
}

#[test]
fn only_offline_zones_cannot_be_read() {
    let states = ["E0", "I3", "X3", "C3", "F8", "R3", "O3"].map(state);
    let disk = disk_of(&states, ResourceLimits::NONE);
    for zone in 0..7 {
        let expected = if zone == 6 { Err(ZoneError::Offline) } else { Ok(ZoneNo(zone)) };
        assert_eq!(disk.check_read(Sector(u64::from(zone * CAPACITY) + 7)), expected);
    }
    assert_eq!(disk.check_read(Sector(7 * u64::from(CAPACITY))), Err(ZoneError::NoSuchZone));
}

#[test]
fn addresses_past_the_end_are_errors_for_every_action() {
    let mut disk = disk_of(&[ZoneState::EMPTY; 2], ResourceLimits::NONE);
    let missing = ZoneNo(2);
    assert_eq!(disk.begin_write(Sector(16), 1), Err(ZoneError::NoSuchZone));
    assert_eq!(disk.begin_write(Sector(u64::MAX), 1), Err(ZoneError::NoSuchZone));
    assert_eq!(disk.begin_append(missing, 1), Err(ZoneError::NoSuchZone));
    for action in [ZonedDisk::open, ZonedDisk::close, ZonedDisk::finish, ZonedDisk::reset, ZonedDisk::revive] {
        assert_eq!(action(&mut disk, missing), Err(ZoneError::NoSuchZone));
    }
    assert_eq!(disk.zones(Sector(16)).count(), 0);
    let wraps_around = Sector(u64::from(CAPACITY) << 32);
    assert_eq!(disk.geometry().zone_of(wraps_around), ZoneNo(u32::MAX));
    disk.begin_write(Sector(0), 1).unwrap();
    assert!(!disk.extend(wraps_around, 1), "zone 2^32 is not zone 0");
}

/// The short way of the common write does the same as the long one, or nothing.
#[test]
fn extending_an_open_zone_is_a_whole_write_and_anything_else_is_left_alone() {
    let before = ["I3", "X3", "E0", "C3", "F8", "R3", "O3", "I3"].map(state);
    for (zone, offset, sectors, after) in [
        (0, 3, 4, Some("I7")),
        (1, 3, 1, Some("X4")),
        (0, 3, 5, None),
        (0, 2, 1, None),
        (0, 4, 1, None),
        (2, 0, 1, None),
        (3, 3, 1, None),
        (4, 7, 1, None),
        (5, 3, 1, None),
        (6, 3, 1, None),
        (8, 0, 1, None),
    ] {
        for bound in [None, Some(4)] {
            let mut disk = disk_of(&before, limits(bound, None));
            let done = disk.extend(Sector(u64::from(zone * CAPACITY + offset)), sectors);
            assert_eq!(done, after.is_some() && bound.is_none(), "{sectors} sectors at {offset} of zone {zone}");
            for (n, was) in before.iter().enumerate() {
                let expected = if done && n as u32 == zone { after.map_or(*was, state) } else { *was };
                assert_eq!(disk.state(ZoneNo(n as u32)), expected, "zone {n}");
            }
        }
    }
    let mut short = ZonedDisk::restore(geometry(12, 8, 8, 0), ResourceLimits::NONE, |_| state("I3")).unwrap();
    assert!(!short.extend(Sector(11), 3), "the last zone has 4 sectors");
}

#[test]
fn a_report_tells_gaps_short_zones_and_where_the_pointer_stands() {
    let restored = |zone: ZoneNo| [ZoneState::EMPTY, state("C3"), state("F6")][zone.index() - 1];
    let disk = ZonedDisk::restore(geometry(32, 8, 6, 1), ResourceLimits::NONE, restored).unwrap();
    let line =
        |start, capacity, wp, kind, cond| Zone { start: Sector(start), len: 8, capacity, wp: Sector(wp), kind, cond };
    let all = [
        line(0, 8, 0, ZoneKind::Conventional, Condition::NotWp),
        line(8, 6, 8, ZoneKind::Sequential, Condition::Empty),
        line(16, 6, 19, ZoneKind::Sequential, Condition::Closed),
        line(24, 6, 32, ZoneKind::Sequential, Condition::Full),
    ];
    assert_eq!(disk.zones(Sector(0)).collect::<Vec<_>>(), all);
    assert_eq!(disk.zones(Sector(23)).collect::<Vec<_>>(), all[2..], "it starts with the zone that holds the sector");
    let shown = |filter| disk.report(Sector(0), filter).collect::<Vec<_>>();
    assert_eq!(shown(ReportFilter::All), all);
    assert_eq!(shown(ReportFilter::Kind(ZoneKind::Conventional)), all[..1]);
    assert_eq!(shown(ReportFilter::Kind(ZoneKind::Sequential)), all[1..]);
    assert_eq!(shown(ReportFilter::Condition(Condition::Full)), all[3..]);
    assert_eq!(shown(ReportFilter::Active), all[2..3]);

    let disk = ZonedDisk::new(geometry(20, 8, 8, 0), ResourceLimits::NONE);
    let last = disk.zones(Sector(0)).last().unwrap();
    assert_eq!((last.start, last.len, last.capacity), (Sector(16), 4, 4), "the last zone is shorter");
}

#[test]
fn states_that_cannot_be_are_not_restored() {
    let restore = |text: &str| {
        let state = state(text);
        ZonedDisk::restore(geometry(8, 8, 8, 0), limits(Some(1), None), |_| state).map(drop)
    };
    for good in ["E0", "I0", "I7", "X0", "X7", "C1", "C7", "F8", "R0", "R8", "O5"] {
        assert_eq!(restore(good), Ok(()), "{good}");
    }
    for bad in ["E1", "I8", "X8", "C0", "C8", "F7", "N0"] {
        assert_eq!(restore(bad), Err(RestoreError::Contradiction(ZoneNo(0), state(bad))));
    }
    assert_eq!(restore("C9"), Err(RestoreError::BeyondCapacity(ZoneNo(0), 9, 8)));
    let message = restore("C9").unwrap_err().to_string();
    assert_eq!(message, "zone 0: write pointer 9 lies beyond the zone capacity of 8 sectors");
    let open = ZonedDisk::restore(geometry(16, 8, 8, 0), limits(Some(1), None), |_| state("X1")).map(drop);
    assert_eq!(open, Err(RestoreError::TooManyOpen(1)));
    assert_eq!(ZoneState::at_rest(0, 8), state("E0"));
    assert_eq!(ZoneState::at_rest(7, 8), state("C7"));
    assert_eq!(ZoneState::at_rest(8, 8), state("F8"));
}

/// A device whose limit was lowered, or whose directory was written by a more generous one.
#[test]
fn more_active_zones_than_the_limit_are_kept_and_no_further_one_is_let_in() {
    let mut disk = disk_of(&["C1", "C1", "C1", "E0"].map(state), limits(None, Some(2)));
    assert_eq!(perform(&mut disk, ZoneNo(0), "write"), Ok(()), "closed zones are active already");
    assert_eq!(perform(&mut disk, ZoneNo(3), "write"), Err(ZoneError::TooManyActive));
    disk.reset(ZoneNo(0)).unwrap();
    assert_eq!(perform(&mut disk, ZoneNo(3), "write"), Err(ZoneError::TooManyActive));
    disk.finish(ZoneNo(1)).unwrap();
    assert_eq!(perform(&mut disk, ZoneNo(3), "write"), Ok(()));
}

#[test]
fn limits_that_cannot_be_met_or_cannot_bind_are_told_apart() {
    assert_eq!(ResourceLimits::new(Some(0), None), Err(ResourceLimitsError::Zero("max_open")));
    assert_eq!(ResourceLimits::new(None, Some(0)), Err(ResourceLimitsError::Zero("max_active")));
    assert_eq!(ResourceLimits::new(Some(1 << 24), None), Err(ResourceLimitsError::TooManyOpen(1 << 24)));
    let message = ResourceLimits::new(Some(5), Some(4)).unwrap_err().to_string();
    assert_eq!(message, "max_open is 5; it has to be at most max_active, which is 4");
    assert_eq!(limits(Some(4), Some(9)).enforceable(10), limits(Some(4), Some(9)));
    assert_eq!(limits(Some(4), Some(9)).enforceable(9), limits(Some(4), None));
    assert_eq!(limits(Some(4), Some(9)).enforceable(4), ResourceLimits::NONE);
}

/// Both limits are reached; the host has to learn of the active one, which no closing of zones mends.
#[test]
fn the_active_limit_is_asked_before_the_open_limit() {
    let mut resources = Resources::new(limits(Some(1), Some(1)));
    assert_eq!(resources.admit(Condition::Empty, Condition::ExplicitOpen), Ok(Admission::Granted));
    resources.transfer(Condition::Empty, Condition::ExplicitOpen);
    assert_eq!(resources.admit(Condition::Empty, Condition::ImplicitOpen), Err(ZoneError::TooManyActive));
    assert_eq!(resources.admit(Condition::Closed, Condition::ImplicitOpen), Err(ZoneError::TooManyOpen));
    resources.transfer(Condition::ExplicitOpen, Condition::Full);
    assert_eq!((resources.open(), resources.active()), (0, 0));
}

#[test]
fn resource_errors_reach_the_host_as_such_and_every_other_misuse_as_an_io_error() {
    let misuse = [
        ZoneError::NoSuchZone,
        ZoneError::Conventional,
        ZoneError::NotAtWritePointer,
        ZoneError::BeyondCapacity,
        ZoneError::Full,
        ZoneError::InvalidTransition,
        ZoneError::ReadOnly,
        ZoneError::Offline,
    ];
    let disk = disk_of(&[ZoneState::EMPTY], ResourceLimits::NONE);
    let status = |error| Status::from(&Reason::from(disk.fault(Sector(0), error)));
    for error in misuse {
        assert_eq!(status(error), Status::Io, "{error}");
    }
    assert_eq!(status(ZoneError::TooManyActive), Status::ZoneActiveResource);
    assert_eq!(status(ZoneError::TooManyOpen), Status::ZoneOpenResource);
}

#[test]
fn the_first_and_last_zone_of_a_hundred_thousand_work_alike() {
    let mut disk = ZonedDisk::new(geometry(100_000 << 19, 1 << 19, 1 << 19, 0), limits(Some(1), None));
    for zone in [ZoneNo(0), ZoneNo(99_999)] {
        let start = disk.geometry().start(zone);
        assert_eq!(disk.begin_write(start, 1 << 19), Ok(zone));
        assert_eq!(disk.state(zone).cond, Condition::ImplicitOpen);
        disk.advance(zone, 1 << 19);
        assert_eq!(disk.state(zone), ZoneState::full(1 << 19));
    }
}

/// What the zones of a disk should be, kept the slow and obvious way: recounted, searched, and never clever.
struct Model {
    zones: Vec<ZoneState>,
    used: Vec<u64>,
    clock: u64,
    open: Option<u32>,
    active: Option<u32>,
}

impl Model {
    fn holding(&self, holds: impl Fn(Condition) -> bool) -> u32 {
        self.zones.iter().filter(|zone| holds(zone.cond)).count() as u32
    }

    fn perform(&mut self, zone: usize, action: &str) -> Result<(), ZoneError> {
        let (before, after) = (self.zones[zone], apply(self.zones[zone], action)?);
        let writes = action.starts_with("write") || action.starts_with("append");
        let opens = !before.cond.is_open() && (writes || after.cond.is_open());
        let activates = opens && !before.cond.is_active();
        if activates && self.active.is_some_and(|most| self.holding(Condition::is_active) >= most) {
            return Err(ZoneError::TooManyActive);
        }
        if opens && self.open.is_some_and(|most| self.holding(Condition::is_open) >= most) {
            let implicit = |zone: &usize| self.zones[*zone].cond == Condition::ImplicitOpen;
            let victim = (0..self.zones.len()).filter(implicit).min_by_key(|zone| self.used[*zone]);
            let victim = victim.ok_or(ZoneError::TooManyOpen)?;
            self.zones[victim] = apply(self.zones[victim], "close").unwrap();
        }
        self.zones[zone] = after;
        self.clock += 1;
        self.used[zone] = self.clock;
        Ok(())
    }
}

fn xorshift(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn ten_thousand_random_actions_keep_the_accounts_and_choose_the_same_victims_as_a_slow_model() {
    const ACTIONS: [&str; 12] = [
        "write 2 at wp",
        "write",
        "write the rest",
        "write too much",
        "write above wp",
        "append 2",
        "append",
        "append rest",
        "open",
        "close",
        "finish",
        "reset",
    ];
    let bounds =
        [(None, None), (Some(1), None), (Some(3), None), (None, Some(4)), (Some(2), Some(5)), (Some(4), Some(4))];
    for (run, (open, active)) in bounds.into_iter().enumerate() {
        let mut seed = 0x9e37_79b9_7f4a_7c15 + run as u64;
        let mut disk = disk_of(&[ZoneState::EMPTY; 12], limits(open, active));
        let mut model = Model { zones: vec![ZoneState::EMPTY; 12], used: vec![0; 12], clock: 0, open, active };
        for step in 0..10_000 {
            let (zone, action) = ((xorshift(&mut seed) % 12) as usize, ACTIONS[(xorshift(&mut seed) % 12) as usize]);
            let result = perform(&mut disk, ZoneNo(zone as u32), action);
            assert_eq!(result, model.perform(zone, action), "run {run}, step {step}: {action} of zone {zone}");
            let now: Vec<ZoneState> = (0..12).map(|n| disk.state(ZoneNo(n))).collect();
            assert_eq!(now, model.zones, "run {run}, step {step}: {action} of zone {zone}");
            assert_eq!(disk.open_zones(), model.holding(Condition::is_open));
            assert_eq!(disk.active_zones(), model.holding(Condition::is_active));
            assert!(
                open.is_none_or(|most| disk.open_zones() <= most)
                    && active.is_none_or(|most| disk.active_zones() <= most)
            );
        }
    }
}
