//! What errors say: each reason's text and status, and how it comes to the submitter through splits, merges and layers.

use std::collections::BTreeSet;
use std::sync::Arc;

use shingle_core::block::{Bio, Data, DeviceId, Flags, Op, Payload, Reason, Status, Why};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::harness::MockDevice;
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, ZoneError, ZoneFault, ZoneNo};

use crate::rig::Rig;

fn why(reason: Reason) -> Arc<Why> {
    Arc::new(Why { device: Some(DeviceId(3)), op: Op::Write, sector: Sector(64), sectors: 8, reason })
}

fn fault(error: ZoneError) -> Reason {
    let cond = Some(Condition::Full);
    ZoneFault { error, zone: ZoneNo(12), cond, pointer: Sector(1_638_400), left: 3, held: (14, 14) }.into()
}

/// The number of a reason's variant: one more variant does not compile here, and then lacks a line in the table.
fn variant(reason: &Reason) -> u32 {
    match reason {
        Reason::ReadOnly => 0,
        Reason::PastEnd { .. } => 1,
        Reason::Empty => 2,
        Reason::Misaligned { .. } => 3,
        Reason::WrongMemory { .. } => 4,
        Reason::CannotCut { .. } => 5,
        Reason::WouldWait(_) => 6,
        Reason::NotSupported => 7,
        Reason::NotZoned => 8,
        Reason::AppendStart => 9,
        Reason::AppendLimit { .. } => 10,
        Reason::AppendUnordered => 11,
        Reason::ZoneStart { .. } => 12,
        Reason::NoRoom => 13,
        Reason::Zone(_) => 14,
        Reason::PointerUnknown { .. } => 15,
        Reason::ZonesUnknown(_) => 16,
        Reason::TooManyWaiting => 17,
        Reason::Removed => 18,
        Reason::BadSector(_) => 19,
        Reason::Medium => 20,
        Reason::NoAnswer(_) => 21,
        Reason::Interrupted => 22,
        Reason::NoPower => 23,
        Reason::Failing(_) => 24,
        Reason::Injected(_) => 25,
        Reason::NoKey => 26,
        Reason::VolumeFailed(_) => 27,
        Reason::VolumeReadOnly(_) => 28,
        Reason::VolumeLost(_) => 29,
        Reason::VolumeFull => 30,
        Reason::BadChunk(_) => 31,
        Reason::ChunkReadOnly { .. } => 32,
        Reason::Below(_) => 33,
        Reason::Host(..) => 34,
        Reason::Unexplained(_) => 35,
        Reason::NoMemory => 36,
        Reason::ZoneWriteUnit { .. } => 37,
        Reason::NoPath => 38,
        Reason::Uncertain => 39,
        Reason::CacheLost => 40,
        Reason::WrongChecksum { .. } => 41,
        Reason::FuaFlush(_) => 42,
    }
}

#[test]
fn every_reason_has_its_text_and_its_status() {
    use Status as S;
    let cases: Vec<(Reason, Status, &str)> = vec![
        (Reason::ReadOnly, S::ReadOnly, "the device is read-only"),
        (Reason::PastEnd { capacity: 9 }, S::Io, "beyond the end of the device, which has 9 sectors"),
        (Reason::Empty, S::Io, "it has no length"),
        (Reason::Misaligned { block: 8 }, S::Io, "start or length is no multiple of a block, which has 8 sectors"),
        (
            Reason::ZoneWriteUnit { unit: 8 },
            S::Io,
            "sequential zones are written in physical blocks of 8 sectors there: start or length is no multiple",
        ),
        (Reason::WrongMemory { bytes: 512 }, S::Invalid, "the memory that came with it has 512 bytes"),
        (
            Reason::CannotCut { most: 7, unit: 8 },
            S::Io,
            "no part of it fits: 7 sectors at once are the most there, in units of 8",
        ),
        (Reason::WouldWait("the log is full"), S::Again, "it must not wait, and the log is full"),
        (Reason::NotSupported, S::NotSupported, "the device does not do this operation"),
        (Reason::NotZoned, S::NotSupported, "the device has no zones"),
        (Reason::AppendStart, S::Io, "an append names the start of its zone"),
        (Reason::AppendLimit { most: 8 }, S::Io, "an append has at most 8 sectors and few segments there"),
        (
            Reason::AppendUnordered,
            S::NotSupported,
            "the policy `none` puts nothing in order: choose another one for zone appends",
        ),
        (Reason::ZoneStart { zone_sectors: 64 }, S::Invalid, "no zone starts there: zones have 64 sectors"),
        (Reason::NoRoom, S::Invalid, "there is no room for zones in it"),
        (fault(ZoneError::NoSuchZone), S::Io, "there is no zone 12"),
        (fault(ZoneError::Conventional), S::Io, "zone 12 is conventional: it has no write pointer and no conditions"),
        (fault(ZoneError::NotAtWritePointer), S::Io, "zone 12 is written at its pointer, which is at 1638400"),
        (fault(ZoneError::BeyondCapacity), S::Io, "zone 12 has 3 sectors left, pointer at 1638400"),
        (fault(ZoneError::Full), S::Io, "zone 12 is full, pointer at 1638400"),
        (fault(ZoneError::InvalidTransition), S::Io, "zone 12 is in condition FULL, which does not allow it"),
        (fault(ZoneError::ReadOnly), S::Io, "zone 12 has become read-only"),
        (fault(ZoneError::Offline), S::Io, "zone 12 is offline: its data is lost"),
        (
            fault(ZoneError::TooManyActive),
            S::ZoneActiveResource,
            "zone 12 cannot become active: 14 zones are, of at most 14; finish or reset one",
        ),
        (
            fault(ZoneError::TooManyOpen),
            S::ZoneOpenResource,
            "zone 12 cannot be opened: 14 zones are explicitly open, of at most 14; close one",
        ),
        (
            Reason::PointerUnknown { zone: ZoneNo(2), since: Some(why(Reason::Medium)) },
            S::Io,
            "zone 2 takes no writes until a report, reset or finish tells where its pointer is, \
             since device 3: WRITE 64+8: the medium failed",
        ),
        (Reason::ZonesUnknown("no report".into()), S::Io, "the zones are not known: no report"),
        (Reason::TooManyWaiting, S::Resource, "bios wait in too many zones at once"),
        (Reason::NoMemory, S::Resource, "there is no memory for it"),
        (Reason::Removed, S::Offline, "the device was removed"),
        (Reason::BadSector(Sector(9)), S::Io, "sector 9 is bad"),
        (Reason::Medium, S::Medium, "the medium failed"),
        (Reason::NoAnswer(Duration::from_millis(30_000)), S::Timeout, "no answer for 30000 ms"),
        (Reason::Interrupted, S::Transport, "the way to the device is interrupted"),
        (Reason::NoPath, S::Io, "no path to the disk works"),
        (Reason::Uncertain, S::Io, "a path gave it up, and it may be done or not"),
        (Reason::NoPower, S::Offline, "the device has lost its power"),
        (Reason::CacheLost, S::Io, "the disk has lost its power, and what was not flushed may be gone"),
        (Reason::WrongChecksum { block: 7 }, S::Medium, "block 7 is not what was written: its checksum is wrong"),
        (Reason::Failing("it is down"), S::Io, "it is down"),
        (Reason::Injected(S::Target), S::Target, "a rule injects: target error"),
        (Reason::NoKey, S::Io, "there is no key: send it the message `key set <hexadecimal digits>`"),
        (Reason::VolumeFailed("no set".into()), S::Io, "the volume cannot be used: no set"),
        (Reason::VolumeReadOnly("a disk".into()), S::ReadOnly, "the volume has become read-only: a disk"),
        (Reason::VolumeLost("a disk".into()), S::Io, "the volume could not make changes durable: a disk"),
        (Reason::VolumeFull, S::NoSpace, "the volume has no zone left that could be reclaimed"),
        (Reason::BadChunk(7), S::Io, "the metadata of chunk 7 is not readable: repair the set"),
        (
            Reason::ChunkReadOnly { chunk: 7, zone: 9 },
            S::ReadOnly,
            "zone 9, which holds chunk 7, takes no writes any more",
        ),
        (Reason::Below(why(Reason::Medium)), S::Medium, "device 3: WRITE 64+8: the medium failed"),
        (
            Reason::FuaFlush(why(Reason::NotSupported)),
            S::Io,
            "the data is written, and the flush that makes it durable failed: device 3: WRITE 64+8: the device does not do this operation",
        ),
        (Reason::Host(S::NoSpace, "full".into()), S::NoSpace, "full"),
        (Reason::Unexplained(S::Io), S::Io, "I/O error, without a reason"),
    ];
    for (reason, status, text) in &cases {
        assert_eq!((Status::from(reason), reason.to_string().as_str()), (*status, *text), "{reason:?}");
    }
    let told: BTreeSet<u32> = cases.iter().map(|(reason, ..)| variant(reason)).collect();
    assert!(told.into_iter().eq(0..43), "a reason has no line in the table");
}

#[test]
fn names_stand_for_numbers_also_in_what_caused_a_failure() {
    let outer = Why {
        device: Some(DeviceId(1)),
        op: Op::Flush,
        sector: Sector(0),
        sectors: 0,
        reason: Reason::Below(why(Reason::Medium)),
    };
    let name =
        |device: DeviceId, f: &mut std::fmt::Formatter<'_>| f.write_str(["", "dmz", "", "smr"][device.0 as usize]);
    assert_eq!(outer.with_names(&name).to_string(), "dmz: FLUSH 0+0: smr: WRITE 64+8: the medium failed");
    assert_eq!(outer.to_string(), "device 1: FLUSH 0+0: device 3: WRITE 64+8: the medium failed");
}

#[test]
fn reasons_of_one_kind_are_alike_whatever_their_numbers() {
    assert!(Reason::BadSector(Sector(1)).is_like(&Reason::BadSector(Sector(2))));
    assert!(fault(ZoneError::Full).is_like(&fault(ZoneError::Full)));
    assert!(!fault(ZoneError::Full).is_like(&fault(ZoneError::Offline)));
    assert!(!Reason::Medium.is_like(&Reason::Removed));
    assert!(!Reason::Below(why(Reason::Medium)).is_like(&Reason::Below(why(Reason::NoPower))));
}

const ZONE: u64 = 64;

/// A zoned null device with these open and active limits.
fn zoned(max_open: Option<u32>, max_active: Option<u32>) -> (Rig, DeviceId) {
    let zones = NullZones { conventional: 1, zone_capacity: Some(48), max_open, max_active, ..NullZones::new(ZONE) };
    let rig = Rig::over(NullDevice::new(&NullConfig::zoned(8 * ZONE, zones)).unwrap());
    let disk = rig.top;
    (rig, disk)
}

/// A plug over a desk, which has answered its first report.
fn desk(policy: WritePolicy) -> (Rig, DeviceId, DeviceId) {
    let mut rig = Rig::over(MockDevice::zoned(4, 64, 64, 0));
    let desk = rig.top;
    let plug = rig.plug(desk, policy);
    rig.end(desk, 0, Status::Ok);
    (rig, desk, plug)
}

impl Rig {
    /// Ends the bio with this number on a desk.
    fn end(&mut self, desk: DeviceId, number: u64, status: Status) {
        self.stack.with_device(desk, |desk: &mut MockDevice, cx| desk.end(number, status, 0, cx));
        self.turn();
    }

    fn plug(&mut self, below: DeviceId, policy: WritePolicy) -> DeviceId {
        let options = PlugOptions { policy, ..PlugOptions::default() };
        let plug = ZonePlug::new(below, self.stack.limits(below), options).unwrap();
        let plug = self.stack.add(Box::new(plug)).unwrap();
        self.turn();
        plug
    }

    /// Sends `bio`, which fails, and returns what it says.
    fn says(&mut self, to: DeviceId, bio: Bio) -> String {
        let done = self.finish(to, bio);
        assert!(!done.status.is_ok() && done.is_explained(), "{:?}: {:?}", done.status, done.why());
        done.why().unwrap().to_string()
    }

    fn does(&mut self, to: DeviceId, bio: Bio) {
        assert_eq!(self.finish(to, bio).status, Status::Ok);
    }
}

fn data(op: Op, sector: u64, sectors: u32) -> Bio {
    Bio::new(op, Sector(sector), sectors, Payload::Data(Data::zeroed(sectors as usize * 512)))
}

fn bare(op: Op, sector: u64, sectors: u32) -> Bio {
    Bio::new(op, Sector(sector), sectors, Payload::None)
}

#[test]
fn the_rules_of_zones_are_told_with_zone_and_pointer() {
    let (mut rig, disk) = zoned(None, None);
    rig.does(disk, data(Op::Write, 64, 8));
    assert_eq!(
        rig.says(disk, data(Op::Write, 80, 8)),
        "device 0: WRITE 80+8: zone 1 is written at its pointer, which is at 72"
    );
    assert_eq!(
        rig.says(disk, data(Op::Write, 72, 48)),
        "device 0: WRITE 72+48: zone 1 has 40 sectors left, pointer at 72"
    );
    rig.does(disk, bare(Op::ZoneFinish, 64, 0));
    assert_eq!(rig.says(disk, data(Op::Write, 112, 8)), "device 0: WRITE 112+8: zone 1 is full, pointer at 112");
    assert_eq!(
        rig.says(disk, bare(Op::ZoneOpen, 64, 0)),
        "device 0: ZONE_OPEN 64+0: zone 1 is in condition FULL, which does not allow it"
    );
    assert_eq!(
        rig.says(disk, bare(Op::ZoneReset, 0, 0)),
        "device 0: ZONE_RESET 0+0: zone 0 is conventional: it has no write pointer and no conditions"
    );
    assert_eq!(
        rig.says(disk, data(Op::Read, 510, 8)),
        "device 0: READ 510+8: beyond the end of the device, which has 512 sectors"
    );
}

#[test]
fn the_limits_of_zones_are_told_with_how_many_there_are() {
    let (mut rig, disk) = zoned(Some(2), Some(3));
    (1..3).for_each(|zone| rig.does(disk, bare(Op::ZoneOpen, zone * ZONE, 0)));
    let open =
        "device 0: ZONE_OPEN 192+0: zone 3 cannot be opened: 2 zones are explicitly open, of at most 2; close one";
    assert_eq!(rig.says(disk, bare(Op::ZoneOpen, 3 * ZONE, 0)), open);
    rig.does(disk, data(Op::Write, ZONE, 8));
    rig.does(disk, bare(Op::ZoneClose, ZONE, 0));
    rig.does(disk, data(Op::Write, 3 * ZONE, 8));
    let active = "device 0: WRITE 256+8: zone 4 cannot become active: 3 zones are, of at most 3; finish or reset one";
    assert_eq!(rig.says(disk, data(Op::Write, 4 * ZONE, 8)), active);
}

#[test]
fn a_plug_says_why_it_refuses_under_every_policy() {
    for policy in [WritePolicy::Plug, WritePolicy::Qd1, WritePolicy::Elevator] {
        let (mut rig, disk) = zoned(None, None);
        let plug = rig.plug(disk, policy);
        let off = rig.says(plug, data(Op::Write, 72, 8));
        assert_eq!(off, "device 1: WRITE 72+8: zone 1 is written at its pointer, which is at 64", "{policy}");
        rig.does(plug, data(Op::Write, 64, 48));
        assert_eq!(
            rig.says(plug, data(Op::ZoneAppend, 64, 8)),
            "device 1: ZONE_APPEND 64+8: zone 1 is full, pointer at 112"
        );
        let conventional = rig.says(plug, bare(Op::ZoneReset, 0, 0));
        assert_eq!(
            conventional,
            "device 1: ZONE_RESET 0+0: zone 0 is conventional: it has no write pointer and no conditions"
        );
    }
}

#[test]
fn a_zone_that_waits_for_its_pointer_says_since_which_failure() {
    for policy in [WritePolicy::Plug, WritePolicy::Qd1, WritePolicy::Elevator] {
        let (mut rig, desk, plug) = desk(policy);
        rig.send(plug, data(Op::Write, 64, 8));
        rig.stack.turn(Instant(1_000_000_000));
        rig.end(desk, 1, Status::Medium);
        assert_eq!(rig.next().status, Status::Medium);
        rig.send(plug, data(Op::Write, 72, 8));
        let done = rig.next();
        let text = "device 1: WRITE 72+8: zone 1 takes no writes until a report, reset or finish tells where its pointer is, \
                    since device 0: WRITE 64+8: a rule injects: medium error";
        assert_eq!((done.status, done.why().unwrap().to_string().as_str()), (Status::Io, text), "{policy}");
    }
}

#[test]
fn merged_writes_share_the_reason_of_the_write_that_carried_them() {
    let (mut rig, desk, plug) = desk(WritePolicy::Plug);
    (0..3).for_each(|n| rig.stack.submit(rig.port, n, plug, Box::new(data(Op::Write, 64 + 8 * n, 8))));
    rig.stack.turn(Instant::ZERO);
    rig.end(desk, 1, Status::Ok);
    assert_eq!(rig.next().status, Status::Ok);
    rig.end(desk, 2, Status::Medium);
    for _ in 0..2 {
        let done = rig.next();
        let text = "device 0: WRITE 72+16: a rule injects: medium error";
        assert_eq!((done.status, done.why().unwrap().to_string().as_str()), (Status::Medium, text));
    }
}

#[test]
fn a_split_bio_has_the_reason_of_the_piece_that_failed_first() {
    let config = NullConfig {
        max_sectors: Some(8),
        bad_blocks: vec![Sector(20)..Sector(21), Sector(40)..Sector(41)],
        ..NullConfig::new(64)
    };
    let mut rig = Rig::over(NullDevice::new(&config).unwrap());
    assert_eq!(rig.says(rig.top, data(Op::Read, 0, 64)), "device 0: READ 16+8: sector 20 is bad");
}

#[test]
fn a_bio_that_must_not_wait_says_what_for() {
    let (mut rig, disk) = zoned(None, None);
    rig.stack.suspend(disk);
    let read = data(Op::Read, 0, 8).with_flags(Flags::NOWAIT);
    assert_eq!(rig.says(disk, read), "device 0: READ 0+8: it must not wait, and the device is suspended");
}

#[test]
fn a_bio_that_is_sent_again_forgets_why_it_failed() {
    let (mut rig, disk) = zoned(None, None);
    rig.send(disk, data(Op::Write, 72, 8));
    let mut again = rig.next().bio;
    (again.op, again.sector) = (Op::Read, Sector(0));
    rig.stack.submit(rig.port, 0, disk, again);
    rig.stack.turn(Instant::ZERO);
    let done = rig.next();
    assert_eq!((done.status, done.bio.why()), (Status::Ok, None));
}
