//! The null device, as a disk that others are compared with: what it does to a bio, alone at the bottom of a stack.

use shingle_core::block::{Bio, BlockDevice, Completion, Data, Flags, Op, Payload, Status};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone, ZoneError, ZoneKind, ZoneNo};

use crate::rig::Rig;

/// A null device in a stack of its own.
fn null(config: &NullConfig) -> Rig {
    Rig::over(NullDevice::new(config).unwrap())
}

impl Rig {
    /// Lets a bio run to its end, whatever time that takes.
    fn run(&mut self, bio: Bio) -> Completion {
        self.finish(self.top, bio)
    }

    fn write(&mut self, sector: u64, bytes: &[u8]) -> Status {
        self.run(Bio::new(Op::Write, Sector(sector), bytes.len() as u32, sectors_of(bytes))).status
    }

    fn append(&mut self, zone: u64, bytes: &[u8]) -> Result<u64, Status> {
        let done = self.run(Bio::new(Op::ZoneAppend, Sector(zone), bytes.len() as u32, sectors_of(bytes)));
        if done.status.is_ok() { Ok(done.bio.sector.0) } else { Err(done.status) }
    }

    /// The byte that each of `count` sectors is filled with.
    fn read(&mut self, sector: u64, count: usize) -> Result<Vec<u8>, Status> {
        let data = Data::zeroed(count * 512);
        data.fill(0x77);
        let status = self.run(Bio::new(Op::Read, Sector(sector), count as u32, Payload::Data(data.clone()))).status;
        let first_of = |sector: &[u8]| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector of several bytes");
            sector[0]
        };
        if status.is_ok() { Ok(data.to_vec().chunks(512).map(first_of).collect()) } else { Err(status) }
    }

    fn act(&mut self, op: Op, sector: u64) -> Status {
        self.run(Bio::new(op, Sector(sector), 0, Payload::None)).status
    }

    fn null(&mut self, change: impl FnOnce(&mut NullDevice)) {
        self.stack.with_device(self.top, |device: &mut NullDevice, _| change(device)).unwrap();
    }

    fn zone(&self, zone: u32) -> Zone {
        self.stack.device::<NullDevice>(self.top).unwrap().zone(ZoneNo(zone))
    }

    fn state(&self, zone: u32) -> (Condition, u64) {
        let zone = self.zone(zone);
        (zone.cond, zone.wp - zone.start)
    }

    fn memory_bytes(&self) -> u64 {
        self.stack.device::<NullDevice>(self.top).unwrap().memory_bytes()
    }

    fn writes_in_flight(&self, zone: u32) -> usize {
        self.stack.device::<NullDevice>(self.top).unwrap().writes_in_flight(ZoneNo(zone))
    }
}

/// Sectors that are each filled with one byte.
fn sectors_of(bytes: &[u8]) -> Payload {
    let data = Data::zeroed(bytes.len() * 512);
    bytes.iter().enumerate().for_each(|(n, byte)| data.slice(n * 512, 512).fill(*byte));
    Payload::Data(data)
}

/// Four zones of 64 sectors with room for 48, the first one conventional; unwritten sectors read as 0xff.
fn reference() -> NullConfig {
    let zones = NullZones { zone_capacity: Some(48), conventional: 1, max_append: Some(32), ..NullZones::new(64) };
    NullConfig { memory_backed: true, unwritten: 0xff, ..NullConfig::zoned(256, zones) }
}

#[test]
fn a_regular_device_keeps_what_is_written_anywhere_and_takes_memory_only_for_that() {
    let config = NullConfig { memory_backed: true, write_zeroes: true, discard: true, ..NullConfig::new(1 << 40) };
    let mut rig = null(&config);
    assert_eq!(rig.write((1 << 40) - 2, &[1, 2]), Status::Ok);
    assert_eq!(rig.write(31, &[3, 4, 5]), Status::Ok);
    assert_eq!(rig.read((1 << 40) - 3, 3), Ok(vec![0, 1, 2]));
    assert_eq!(rig.read(30, 5), Ok(vec![0, 3, 4, 5, 0]));
    assert_eq!(rig.memory_bytes(), 3 * 16384);
    assert_eq!(rig.run(Bio::new(Op::WriteZeroes, Sector(32), 1, Payload::None)).status, Status::Ok);
    assert_eq!(rig.run(Bio::new(Op::Discard, Sector(31), 1, Payload::None)).status, Status::Ok);
    assert_eq!(rig.read(30, 5), Ok(vec![0, 0, 0, 5, 0]));
    assert_eq!(rig.write(1 << 40, &[1]), Status::Io, "past the end");
}

#[test]
fn a_device_without_memory_leaves_the_memory_of_a_read_as_it_is() {
    let mut rig = null(&NullConfig::new(64));
    assert_eq!(rig.write(0, &[1]), Status::Ok);
    assert_eq!(rig.read(0, 1), Ok(vec![0x77]));
    assert_eq!(rig.memory_bytes(), 0);
}

#[test]
fn a_sequential_zone_takes_writes_at_its_pointer_until_it_is_full() {
    let mut rig = null(&reference());
    assert_eq!(rig.write(65, &[1]), Status::Io);
    assert_eq!(rig.state(1), (Condition::Empty, 0));
    assert_eq!(rig.write(64, &[1, 2]), Status::Ok);
    assert_eq!(rig.state(1), (Condition::ImplicitOpen, 2));
    assert_eq!(rig.write(64, &[9]), Status::Io, "behind the pointer");
    assert_eq!(rig.write(66, &[9; 47]), Status::Io, "across the capacity");
    assert_eq!(rig.read(64, 3), Ok(vec![1, 2, 0xff]), "refused writes leave nothing behind");
    assert_eq!(rig.write(66, &[3; 46]), Status::Ok);
    assert_eq!(rig.state(1), (Condition::Full, 64));
    assert_eq!(rig.write(112, &[9]), Status::Io, "into the gap");
    assert_eq!(rig.read(111, 3), Ok(vec![3, 0xff, 0xff]), "the gap reads as unwritten");
}

#[test]
fn a_conventional_zone_takes_writes_anywhere_and_nothing_that_needs_a_pointer() {
    let mut rig = null(&reference());
    assert_eq!(rig.write(63, &[1]), Status::Ok);
    assert_eq!(rig.write(5, &[2]), Status::Ok);
    assert_eq!(rig.read(62, 2), Ok(vec![0xff, 1]));
    // B46: null_blk accepted an append to a conventional zone.
    assert_eq!(rig.append(0, &[1]), Err(Status::Io));
    for op in [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset] {
        assert_eq!(rig.act(op, 0), Status::Io, "{op:?}");
    }
    assert_eq!(rig.read(5, 1), Ok(vec![2]));
}

#[test]
fn an_append_tells_where_its_data_went() {
    let mut rig = null(&reference());
    assert_eq!(rig.append(64, &[1, 2]), Ok(64));
    assert_eq!(rig.write(66, &[3]), Status::Ok);
    assert_eq!(rig.append(64, &[4]), Ok(67));
    assert_eq!(rig.append(128, &[5]), Ok(128));
    assert_eq!(rig.read(64, 5), Ok(vec![1, 2, 3, 4, 0xff]));
    assert_eq!(rig.append(64, &[0; 33]), Err(Status::Io), "longer than an append may be");
    assert_eq!(rig.append(64, &[6; 32]), Ok(68));
    assert_eq!(rig.append(64, &[7; 13]), Err(Status::Io), "longer than the rest of the zone");
    assert_eq!(rig.append(64, &[7; 12]), Ok(100));
    assert_eq!(rig.append(64, &[7]), Err(Status::Io), "the zone is full");
}

/// What a plug that has to emulate appends must never send.
#[test]
fn a_device_without_native_append_does_not_append() {
    let mut rig = null(&NullConfig::zoned(256, NullZones::new(64)));
    assert_eq!(rig.append(64, &[1]), Err(Status::NotSupported));
    assert_eq!(rig.state(1), (Condition::Empty, 0));
}

/// B52: a reset did not clear the data.
#[test]
fn a_reset_zone_is_empty_and_its_data_is_gone() {
    let mut rig = null(&reference());
    [64, 128].into_iter().for_each(|zone| assert_eq!(rig.append(zone, &[1; 32]), Ok(zone)));
    assert_eq!(rig.act(Op::ZoneReset, 64), Status::Ok);
    assert_eq!(rig.state(1), (Condition::Empty, 0));
    assert_eq!(rig.read(64, 64), Ok(vec![0xff; 64]));
    assert_eq!(rig.read(128, 32), Ok(vec![1; 32]), "the neighbour is untouched");
    assert_eq!(rig.write(64, &[2]), Status::Ok);
    assert_eq!(rig.read(64, 2), Ok(vec![2, 0xff]));
}

#[test]
fn reset_all_empties_what_can_be_and_leaves_the_rest() {
    let mut rig = null(&reference());
    assert_eq!(rig.write(0, &[8]), Status::Ok);
    [64, 128, 192].into_iter().for_each(|zone| assert_eq!(rig.append(zone, &[1, 1]), Ok(zone)));
    rig.null(|device| device.set_read_only(ZoneNo(2)).unwrap());
    rig.null(|device| device.set_offline(ZoneNo(3)).unwrap());
    assert_eq!(rig.act(Op::ZoneResetAll, 0), Status::Ok);
    let conditions = [0, 1, 2, 3].map(|zone| rig.zone(zone).cond);
    assert_eq!(conditions, [Condition::NotWp, Condition::Empty, Condition::ReadOnly, Condition::Offline]);
    assert_eq!(rig.read(0, 1), Ok(vec![8]));
    assert_eq!(rig.read(64, 2), Ok(vec![0xff; 2]));
    assert_eq!(rig.read(128, 3), Ok(vec![1, 1, 0xff]));
}

#[test]
fn open_close_and_finish_change_the_condition_and_no_data() {
    let mut rig = null(&reference());
    assert_eq!(rig.act(Op::ZoneOpen, 64), Status::Ok);
    assert_eq!(rig.state(1), (Condition::ExplicitOpen, 0));
    assert_eq!(rig.write(64, &[1]), Status::Ok);
    assert_eq!(rig.act(Op::ZoneClose, 64), Status::Ok);
    assert_eq!(rig.state(1), (Condition::Closed, 1));
    assert_eq!(rig.act(Op::ZoneFinish, 64), Status::Ok);
    assert_eq!(rig.state(1), (Condition::Full, 64));
    assert_eq!(rig.read(64, 48), Ok([vec![1], vec![0xff; 47]].concat()), "what a finish skipped reads as unwritten");
    assert_eq!(rig.act(Op::ZoneOpen, 64), Status::Io);
    assert_eq!(rig.act(Op::ZoneClose, 128), Status::Io);
    assert_eq!(rig.act(Op::ZoneOpen, 65), Status::Invalid, "inside of a zone");
}

#[test]
fn a_read_only_zone_can_be_read_an_offline_zone_cannot_and_a_revived_one_is_empty() {
    let mut rig = null(&reference());
    assert_eq!(rig.write(64, &[1]), Status::Ok);
    rig.null(|device| device.set_read_only(ZoneNo(1)).unwrap());
    assert_eq!(rig.write(65, &[2]), Status::Io);
    assert_eq!(rig.append(64, &[2]), Err(Status::Io));
    for op in [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset] {
        assert_eq!(rig.act(op, 64), Status::Io, "{op:?}");
    }
    assert_eq!(rig.read(64, 2), Ok(vec![1, 0xff]));
    rig.null(|device| device.set_offline(ZoneNo(1)).unwrap());
    assert_eq!(rig.read(64, 1), Err(Status::Io));
    rig.null(|device| device.revive(ZoneNo(1)).unwrap());
    assert_eq!(rig.state(1), (Condition::Empty, 0));
    assert_eq!(rig.read(64, 1), Ok(vec![0xff]));
    rig.null(|device| assert_eq!(device.set_offline(ZoneNo(0)), Err(ZoneError::Conventional)));
    rig.null(|device| assert_eq!(device.set_read_only(ZoneNo(4)), Err(ZoneError::NoSuchZone)));
}

#[test]
fn resource_limits_are_kept_and_reported_as_what_they_are() {
    let zones = NullZones { max_open: Some(1), max_active: Some(2), ..NullZones::new(64) };
    let mut rig = null(&NullConfig::zoned(256, zones));
    assert_eq!(rig.act(Op::ZoneOpen, 0), Status::Ok);
    assert_eq!(rig.write(64, &[1]), Status::ZoneOpenResource);
    assert_eq!(rig.write(0, &[1]), Status::Ok);
    assert_eq!(rig.act(Op::ZoneClose, 0), Status::Ok);
    assert_eq!(rig.write(64, &[1]), Status::Ok);
    assert_eq!(rig.write(128, &[1]), Status::ZoneActiveResource);
    assert_eq!(rig.write(1, &[1]), Status::Ok);
    assert_eq!(rig.state(1), (Condition::Closed, 1), "it made room");
}

#[test]
fn a_bad_block_fails_the_whole_write_and_leaves_the_zone_open_and_empty() {
    let mut rig = null(&NullConfig { bad_blocks: vec![Sector(66)..Sector(68)], ..reference() });
    assert_eq!(rig.write(64, &[1; 4]), Status::Io);
    assert_eq!(rig.state(1), (Condition::ImplicitOpen, 0));
    assert_eq!(rig.read(64, 2), Ok(vec![0xff; 2]));
    assert_eq!(rig.act(Op::ZoneClose, 64), Status::Ok);
    assert_eq!(rig.state(1), (Condition::Empty, 0));
    assert_eq!(rig.write(64, &[1; 2]), Status::Ok);
    assert_eq!(rig.read(66, 1), Err(Status::Io));
    assert_eq!(rig.write(66, &[1]), Status::Io, "it stays bad");
    rig.null(|device| device.remove_bad_blocks(Sector(66)..Sector(68)));
    assert_eq!(rig.write(66, &[1]), Status::Ok);
    rig.null(|device| device.add_bad_blocks(Sector(67)..Sector(68)));
    assert_eq!(rig.append(64, &[1]), Err(Status::Io));
}

/// B50: a write that failed half-way left the pointer in front of data that was written.
#[test]
fn with_partial_io_the_pointer_stands_behind_the_good_blocks_in_front_of_the_bad_one() {
    let bad = NullConfig { bad_blocks: vec![Sector(69)..Sector(70)], bad_blocks_partial_io: true, ..reference() };
    let mut rig = null(&bad);
    assert_eq!(rig.write(64, &[1, 2, 3, 4, 5, 6, 7, 8]), Status::Io);
    assert_eq!(rig.state(1), (Condition::ImplicitOpen, 5));
    assert_eq!(rig.read(64, 5), Ok(vec![1, 2, 3, 4, 5]));

    let blocks = NullConfig { block_bytes: 2048, ..bad };
    let mut rig = null(&NullConfig { unwritten: 0, ..blocks });
    assert_eq!(rig.append(64, &[1; 8]), Err(Status::Io));
    assert_eq!(rig.state(1), (Condition::ImplicitOpen, 4), "whole blocks only");
    assert_eq!(rig.read(64, 4), Ok(vec![1; 4]));
}

#[test]
fn a_bad_block_that_is_bad_once_is_good_afterwards() {
    let once = NullConfig { bad_blocks: vec![Sector(64)..Sector(66)], bad_blocks_once: true, ..reference() };
    let mut rig = null(&once);
    assert_eq!(rig.write(64, &[1; 4]), Status::Io);
    assert_eq!(rig.write(64, &[1; 4]), Status::Ok);
}

#[test]
fn zeroing_moves_the_write_pointer_as_a_write_does() {
    let mut rig = null(&NullConfig { write_zeroes: true, ..reference() });
    assert_eq!(rig.run(Bio::new(Op::WriteZeroes, Sector(65), 3, Payload::None)).status, Status::Io);
    assert_eq!(rig.run(Bio::new(Op::WriteZeroes, Sector(64), 3, Payload::None)).status, Status::Ok);
    assert_eq!(rig.state(1), (Condition::ImplicitOpen, 3));
    assert_eq!(rig.read(64, 4), Ok(vec![0, 0, 0, 0xff]));
    let mut without = null(&reference());
    assert_eq!(without.run(Bio::new(Op::WriteZeroes, Sector(64), 3, Payload::None)).status, Status::NotSupported);
}

#[test]
fn a_report_fills_the_room_it_was_given_from_the_zone_that_holds_the_sector() {
    let mut rig = null(&reference());
    assert_eq!(rig.write(64, &[1]), Status::Ok);
    let mut report = |sector, room| {
        let done = rig.run(Bio::new(Op::ReportZones, Sector(sector), 0, Payload::Zones(Vec::with_capacity(room))));
        assert_eq!(done.status, Status::Ok);
        let Payload::Zones(zones) = &done.bio.payload else { panic!("the payload is gone") };
        assert!(zones.len() <= room);
        zones.clone()
    };
    let zone = Zone {
        start: Sector(64),
        len: 64,
        capacity: 48,
        wp: Sector(65),
        kind: ZoneKind::Sequential,
        cond: Condition::ImplicitOpen,
    };
    assert_eq!(report(127, 1), [zone]);
    assert_eq!(report(0, 4).len(), 4);
    assert_eq!(report(0, 100).len(), 4);
    assert_eq!(report(0, 0).len(), 0);
    assert_eq!(report(256, 4).len(), 0);
}

#[test]
fn a_bio_completes_after_the_configured_time_in_order_of_arrival() {
    let mut rig = null(&NullConfig { completion: Duration::from_micros(10), ..reference() });
    rig.submit(Bio::new(Op::Write, Sector(64), 1, sectors_of(&[1])));
    rig.now = Instant(4_000);
    rig.submit(Bio::new(Op::Read, Sector(0), 1, sectors_of(&[0])));
    let mut held = Vec::new();
    rig.stack.held(&mut |_, bio| held.push(bio.op));
    assert_eq!(held, [Op::Write, Op::Read]);
    assert_eq!(rig.stack.turn(Instant(9_999)), Some(Instant(10_000)));
    assert!(rig.stack.poll_completion(rig.port).is_none());
    assert_eq!(rig.stack.turn(Instant(10_000)), Some(Instant(14_000)));
    assert_eq!(rig.stack.poll_completion(rig.port).unwrap().tag, 1);
    assert!(rig.stack.poll_completion(rig.port).is_none());
    assert_eq!(rig.stack.turn(Instant(50_000)), None);
    assert_eq!(rig.stack.poll_completion(rig.port).unwrap().tag, 2);
}

#[test]
fn writes_in_flight_have_moved_the_pointer_that_the_next_write_is_checked_against() {
    let mut rig = null(&NullConfig { completion: Duration::from_micros(10), ..reference() });
    rig.submit(Bio::new(Op::Write, Sector(64), 2, sectors_of(&[1, 2])));
    rig.submit(Bio::new(Op::Write, Sector(66), 1, sectors_of(&[3])));
    rig.submit(Bio::new(Op::Write, Sector(66), 1, sectors_of(&[9])));
    rig.submit(Bio::new(Op::ZoneAppend, Sector(128), 1, sectors_of(&[4])));
    assert_eq!((rig.writes_in_flight(0), rig.writes_in_flight(1), rig.writes_in_flight(2)), (0, 3, 1));
    rig.stack.turn(Instant(10_000));
    let outcomes: Vec<_> = rig.done().iter().map(|c| (c.tag, c.status)).collect();
    assert_eq!(outcomes, [(1, Status::Ok), (2, Status::Ok), (3, Status::Io), (4, Status::Ok)]);
    assert_eq!(rig.writes_in_flight(1), 0);
    assert_eq!(rig.read(64, 4), Ok(vec![1, 2, 3, 0xff]));
}

#[test]
fn a_reset_that_overtakes_a_write_in_flight_wins_and_the_write_still_completes() {
    let mut rig = null(&NullConfig { completion: Duration::from_micros(10), ..reference() });
    rig.submit(Bio::new(Op::Write, Sector(64), 2, sectors_of(&[1, 2])));
    rig.submit(Bio::new(Op::ZoneReset, Sector(64), 0, Payload::None));
    rig.submit(Bio::new(Op::Write, Sector(64), 1, sectors_of(&[3])));
    assert_eq!(rig.state(1), (Condition::ImplicitOpen, 1));
    rig.stack.turn(Instant(10_000));
    let outcomes: Vec<_> = rig.done().iter().map(|c| (c.tag, c.status)).collect();
    assert_eq!(outcomes, [(1, Status::Ok), (2, Status::Ok), (3, Status::Ok)]);
    assert_eq!(rig.read(64, 2), Ok(vec![3, 0xff]));
}

#[test]
fn flushes_and_their_flags_are_taken_with_a_write_cache_and_mean_nothing_without() {
    for write_cache in [false, true] {
        let mut rig = null(&NullConfig { write_cache, ..reference() });
        let flags = Flags::FUA.with(Flags::PREFLUSH);
        let write = Bio::new(Op::Write, Sector(64), 1, sectors_of(&[1])).with_flags(flags);
        assert_eq!(rig.run(write).status, Status::Ok);
        assert_eq!(rig.act(Op::Flush, 0), Status::Ok);
        let flushes = rig.stack.counters(rig.top).ios[Op::Flush as usize];
        assert_eq!(flushes, u64::from(write_cache), "a device without a cache is not asked");
        assert_eq!(rig.read(64, 1), Ok(vec![1]));
    }
}

#[test]
fn zones_start_as_they_were_configured() {
    let zones = NullZones {
        zone_full: true,
        read_only: vec![ZoneNo(2)],
        offline: vec![ZoneNo(3)],
        conventional: 1,
        ..NullZones::new(64)
    };
    let mut rig = null(&NullConfig::zoned(256, zones));
    let conditions = [0, 1, 2, 3].map(|zone| rig.zone(zone).cond);
    assert_eq!(conditions, [Condition::NotWp, Condition::Full, Condition::ReadOnly, Condition::Offline]);
    assert_eq!(rig.write(64, &[1]), Status::Io);
    assert_eq!(rig.act(Op::ZoneReset, 64), Status::Ok);
    assert_eq!(rig.write(64, &[1]), Status::Ok);
}

#[test]
fn the_limits_tell_what_was_configured_and_no_limit_that_cannot_bind() {
    let zones = NullZones {
        max_open: Some(2),
        max_active: Some(3),
        conventional: 1,
        max_append: Some(8),
        ..NullZones::new(64)
    };
    let config = NullConfig {
        block_bytes: 4096,
        max_sectors: Some(32),
        rotational: true,
        read_only: true,
        ..NullConfig::zoned(256, zones)
    };
    let device = NullDevice::new(&config).unwrap();
    let limits = device.limits();
    assert_eq!((limits.capacity, limits.logical_block_bytes, limits.max_sectors), (256, 4096, Some(32)));
    assert!(limits.rotational && limits.read_only && !limits.write_cache);
    let zoned = limits.zoned.as_ref().unwrap();
    assert_eq!((zoned.zone_sectors, zoned.max_open, zoned.max_active, zoned.max_append), (64, Some(2), None, Some(8)));
    assert_eq!(zoned.write_granularity_bytes, 4096);
    assert_eq!(null(&config).write(64, &[0; 8]), Status::ReadOnly);
    let mut line = String::new();
    device.describe(&mut line).unwrap();
    assert_eq!(line, "null: 256 sectors, 4096-byte blocks, 4 zones of 64 sectors (1 conventional)");
}

/// B47 (a short last zone together with a capacity below the size) and B48 (a zone size of 0) are among them.
#[test]
fn parameters_that_do_not_go_together_are_refused_by_name_and_value() {
    type Break = fn(&mut NullConfig, &mut NullZones);
    let cases: [(Break, &str); 18] = [
        (
            |c, _| c.capacity = 0,
            "null device: capacity is 0; it has to be a positive multiple of the logical block size",
        ),
        (|c, _| c.capacity = u64::MAX, "null device: capacity is 18446744073709551615; it has to be at most"),
        (|c, _| c.block_bytes = 1000, "null device: logical block size is 1000; it has to be a power of two"),
        (|c, _| c.max_sectors = Some(0), "null device: max_sectors is 0; it has to be at least one logical block"),
        (|c, _| c.discard = true, "null device: discard is 1; it has to be left out on a zoned device"),
        (|c, _| c.bad_blocks = vec![Sector(1)..Sector(257)], "null device: bad_blocks is 257; it has to be a range"),
        (
            |c, z| (c.capacity, z.zone_sectors, z.zone_capacity) = (1 << 31, 1, None),
            "null device: zone size is 1; it has to be so large (in sectors) that there are at most 16777216 zones",
        ),
        (|_, z| z.zone_sectors = 0, "null device: zone size of 0 sectors is no power of two"),
        (|_, z| z.zone_sectors = 48, "null device: zone size of 48 sectors is no power of two"),
        (
            |_, z| z.zone_capacity = Some(65),
            "null device: zone capacity of 65 sectors is not between 1 and the zone size",
        ),
        (|_, z| z.conventional = 4, "null device: 4 conventional zones of 4 leave no sequential zone"),
        (|_, z| z.max_open = Some(0), "null device: max_open is 0; leave it out"),
        (
            |_, z| (z.max_open, z.max_active) = (Some(2), Some(1)),
            "null device: max_open is 2; it has to be at most max_active",
        ),
        (
            |_, z| z.max_append = Some(49),
            "null device: max_append is 49; it has to be a multiple of the block size, at most",
        ),
        (
            |_, z| z.read_only = vec![ZoneNo(0)],
            "null device: read_only is 0; it has to be the number of a sequential zone",
        ),
        (|_, z| z.offline = vec![ZoneNo(4)], "null device: offline is 4; it has to be the number of a sequential zone"),
        (
            |c, _| c.capacity = 250,
            "null device: a last zone of 58 sectors cannot be combined with a zone capacity below",
        ),
        (
            |c, z| (c.block_bytes, z.zone_capacity) = (4096, Some(44)),
            "null device: zone_capacity is 44; it has to be a multiple of the block size",
        ),
    ];
    for (break_it, message) in cases {
        let mut config = reference();
        let mut zones = config.zoned.take().unwrap();
        break_it(&mut config, &mut zones);
        let error = NullDevice::new(&NullConfig { zoned: Some(zones), ..config }).err().expect(message).to_string();
        assert!(error.starts_with(message), "{error}");
    }
}
