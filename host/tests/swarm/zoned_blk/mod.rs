//! A zoned block device of the kernel as a disk, over a drive and a kernel made of memory: what is asked of them, and what becomes of
//! their answers. `guest/tests/zoned-blk.sh` does the same with real kernels.

mod drive;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use drive::{Handle, Queue, ZONE, ZONES};
use shingle_core::block::{
    Bio, Data, DeviceId, Event, Flags, Op, Payload, PortId, Region, Remote, RemoteMemory, Stack, Status,
};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, ZoneNo};
use shingle_host::disk::zoned_blk::ZonedBlk;
use shingle_host::helper::{Calls, Helper};
use shingle_sys::{Request, RingHandle, Token};

const EIO: i32 = -5;

/// The disk under a plug.
struct Desk {
    stack: Stack,
    port: PortId,
    disk: DeviceId,
    plug: DeviceId,
    ring: RingHandle,
    requests: Rc<RefCell<VecDeque<(Token, Request)>>>,
    calls: Calls,
    drive: Handle,
    tag: u64,
}

impl Desk {
    fn new() -> Self {
        Self::over(Handle::new(None))
    }

    fn over(drive: Handle) -> Self {
        let requests = Rc::default();
        let ring = RingHandle::over(Queue { drive: drive.clone(), requests: Rc::clone(&requests) });
        let (helper, calls) = Helper::by_hand();
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(ZonedBlk::new(drive.parts(), ring.clone(), helper))).unwrap();
        let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
        let plug = stack.add(Box::new(plug)).unwrap();
        let port = stack.open_port();
        let mut desk = Self { stack, port, disk, plug, ring, requests, calls, drive, tag: 0 };
        desk.settle();
        desk.drive.drive().log.clear();
        desk
    }

    /// Goes on until nothing moves.
    fn settle(&mut self) {
        loop {
            self.stack.turn(Instant::ZERO);
            if let Some(done) = self.ring.pop() {
                let payload = done.request.into_payload();
                self.stack.deliver(self.disk, Event::Done { word: done.token.word, result: done.result, payload });
            } else if let Some((device, done)) = self.calls.next() {
                self.stack.deliver(device, done);
            } else if !self.stack.has_arrivals() {
                return;
            }
        }
    }

    fn submit(&mut self, bio: Bio) {
        self.tag += 1;
        self.stack.submit(self.port, self.tag, self.plug, Box::new(bio));
    }

    /// How it ends, and why if it fails.
    fn run(&mut self, bio: Bio) -> (Status, String) {
        self.submit(bio);
        self.settle();
        let done = self.stack.poll_completion(self.port).expect("an answer");
        (done.status, done.bio.why().map_or(String::new(), |why| why.to_string()))
    }

    fn write(&mut self, sector: u64) -> (Status, String) {
        self.run(write(sector, 8))
    }

    /// As programs do that want to know where a zone is written next.
    fn report(&mut self) -> Vec<Condition> {
        self.submit(Bio::new(Op::ReportZones, Sector::ZERO, 0, Payload::Zones(Vec::with_capacity(ZONES as usize))));
        self.settle();
        let done = self.stack.poll_completion(self.port).unwrap();
        let Payload::Zones(zones) = &done.bio.payload else { panic!("a report") };
        zones.iter().map(|zone| zone.cond).collect()
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.drive.drive().log)
    }

    fn notices(&mut self, at: Instant) -> Vec<String> {
        self.stack.with_device(self.disk, |disk: &mut ZonedBlk, _| disk.check(at)).unwrap()
    }
}

fn write(sector: u64, sectors: u32) -> Bio {
    let data = Data::zeroed(sectors as usize * 512);
    data.fill(sector as u8 | 1);
    Bio::new(Op::Write, Sector(sector), sectors, Payload::Data(data))
}

fn plain(op: Op, sector: u64) -> Bio {
    Bio::new(op, Sector(sector), 0, Payload::None)
}

#[test]
fn data_is_where_it_was_written_however_short_the_results_are() {
    let mut desk = Desk::new();
    desk.drive.drive().most = 1024;
    desk.drive.drive().results = [-4].into();
    assert_eq!(desk.write(ZONE).0, Status::Ok);
    assert_eq!(desk.log(), ["write 64+8", "write 66+6", "write 68+4", "write 70+2"], "interrupted, then bit by bit");
    let read = Bio::new(Op::Read, Sector(ZONE), 8, Payload::Data(Data::zeroed(4096)));
    desk.submit(read);
    desk.settle();
    let done = desk.stack.poll_completion(desk.port).unwrap();
    assert_eq!((done.status, done.bio.payload.segments()[0].to_vec()), (Status::Ok, vec![ZONE as u8 | 1; 4096]));
}

#[test]
fn zones_are_managed_by_calls_and_reported_by_the_disk_itself() {
    let mut desk = Desk::new();
    for (op, sector, expected) in [
        (Op::ZoneOpen, 64, "open 64+64"),
        (Op::ZoneClose, 64, "close 64+64"),
        (Op::ZoneFinish, 128, "finish 128+64"),
        (Op::ZoneReset, 128, "reset 128+64"),
        (Op::ZoneResetAll, 0, "reset 0+512"),
    ] {
        assert_eq!(desk.run(plain(op, sector)).0, Status::Ok);
        assert_eq!(desk.log(), [expected]);
    }
    desk.drive.drive().zones.finish(ZoneNo(3)).unwrap();
    assert_eq!(desk.report()[3], Condition::Full, "what somebody else has done is in it");
    assert_eq!(desk.log(), ["report 0"]);
}

#[test]
fn fua_and_flushes_arrive_and_a_preflush_comes_first() {
    let mut desk = Desk::new();
    assert_eq!(desk.run(write(64, 8).with_flags(Flags::FUA)).0, Status::Ok);
    assert_eq!(desk.run(write(72, 8).with_flags(Flags::PREFLUSH)).0, Status::Ok);
    assert_eq!(desk.run(plain(Op::Flush, 0)).0, Status::Ok);
    assert_eq!(desk.log(), ["write 64+8 fua", "flush", "write 72+8", "flush"]);
}

#[test]
fn the_right_write_after_a_failed_one_succeeds_once_a_report_has_told_where_that_is() {
    let mut desk = Desk::new();
    desk.drive.drive().results = [EIO, EIO, EIO].into();
    let (status, why) = desk.write(64);
    assert!(status == Status::Io && why.contains("/dev/sdz, zone 1") && why.contains("0 of 8 sectors"), "{why}");
    let tried = ["write 64+8", "report 64", "again 64+8", "report 64", "again 64+8", "report 64"];
    assert_eq!(desk.log(), tried, "the kernel was asked before anybody heard of it");
    assert!(desk.drive.drive().plugs.failed.is_empty(), "so that the kernel takes writes again");
    desk.report();
    assert_eq!(desk.write(64).0, Status::Ok);
}

#[test]
fn a_write_in_its_place_that_the_kernel_took_for_another_is_tried_again() {
    let mut desk = Desk::new();
    assert_eq!(desk.write(64).0, Status::Ok);
    desk.drive.drive().reset_by_another(1);
    // Who asks hears where the zone is written next; the kernel itself does not listen.
    desk.report();
    desk.log();
    assert_eq!(desk.write(64).0, Status::Ok);
    let tried = ["write 64+8", "report 64", "again 64+8", "report 64", "again 64+8"];
    assert_eq!(desk.log(), tried, "it learns from a report only if a call that waits was refused before");
    assert_eq!(desk.write(72).0, Status::Ok);
    assert_eq!(desk.log(), ["write 72+8"]);
}

/// A write of 8 sectors from memory that only the kernel finds.
struct Elsewhere;

impl RemoteMemory for Elsewhere {
    fn region(&self) -> Region {
        Region(3)
    }

    fn fetch(&self, at: usize, data: &Data) -> Result<(), Status> {
        data.fill(at as u8 ^ 7);
        Ok(())
    }

    fn store(&self, _: usize, _: &Data) -> Result<(), Status> {
        panic!("a write changes nothing")
    }
}

#[test]
fn data_that_is_not_to_be_looked_at_goes_to_the_kernel_by_its_number_and_is_fetched_for_a_call() {
    let mut desk = Desk::new();
    assert!(desk.stack.takes_remote(desk.plug));
    let elsewhere = || Bio::new(Op::Write, Sector(64), 8, Payload::Remote(Remote::new(Arc::new(Elsewhere), 4096)));
    assert_eq!(desk.run(elsewhere()).0, Status::Ok);
    assert_eq!(desk.log(), ["write 64+8"]);
    desk.drive.drive().reset_by_another(1);
    desk.report();
    desk.log();
    assert_eq!(desk.run(elsewhere()).0, Status::Ok);
    assert_eq!(desk.log(), ["write 64+8", "report 64", "again 64+8", "report 64", "again 64+8"]);
    assert_eq!(desk.drive.drive().bytes[64 * 512..72 * 512], [7; 4096]);
}

#[test]
fn a_zone_that_another_has_reset_is_said_to_be_so_and_goes_on_after_a_report() {
    let mut desk = Desk::new();
    assert_eq!(desk.write(64).0, Status::Ok);
    desk.drive.drive().reset_by_another(1);
    let (status, why) = desk.write(72);
    assert_eq!(status, Status::Io);
    assert!(why.contains("written at sector 64 next, not at 72: somebody else has reset it"), "{why}");
    let notices = desk.notices(Instant::ZERO);
    assert!(notices.len() == 1 && notices[0].contains("somebody else"), "{notices:?}");
    desk.report();
    assert_eq!((desk.write(72).0, desk.write(64).0), (Status::Io, Status::Ok));
}

#[test]
fn nothing_that_is_asked_crosses_a_zone_or_is_longer_than_the_kernel_takes() {
    let mut desk = Desk::new();
    assert_eq!(desk.run(write(0, 64)).0, Status::Ok);
    assert_eq!(desk.log(), ["write 0+32", "write 32+32"]);
    // Its first part does not fit into the zone, and is not cut to what does.
    assert_eq!(desk.run(write(64, 32)).0, Status::Ok);
    desk.log();
    assert_eq!(desk.run(write(96, 64)).0, Status::Io);
    assert!(desk.log().iter().all(|call| !call.starts_with("write 96")));
}

#[test]
fn a_write_between_the_units_of_a_sequential_zone_never_reaches_the_kernel() {
    let mut desk = Desk::new();
    let (status, why) = desk.run(write(64, 1));
    assert!(status == Status::Io && why.contains("8 sectors"), "{why}");
    assert!(desk.log().is_empty() && desk.drive.drive().plugs.failed.is_empty());
    assert_eq!(desk.run(write(64, 8)).0, Status::Ok, "a mistake of the host does not stop the zone");
    assert_eq!(desk.run(write(1, 1)).0, Status::Ok, "conventional zones take single blocks");
}

#[test]
fn dead_zones_and_missing_resources_are_called_so() {
    let mut desk = Desk::over(Handle::new(Some(1)));
    assert_eq!(desk.write(64).0, Status::Ok);
    let (status, why) = desk.write(128);
    assert!(status == Status::ZoneActiveResource && why.contains("too many zones are active"), "{status:?} {why}");
    assert_eq!(desk.run(plain(Op::ZoneFinish, 64)).0, Status::Ok);
    assert_eq!(desk.write(128).0, Status::Ok, "the plug knows that nothing was written");
    desk.drive.drive().zones.set_read_only(ZoneNo(2)).unwrap();
    let (_, why) = desk.write(136);
    assert!(why.contains("read-only for good"), "{why}");
    desk.drive.drive().zones.set_offline(ZoneNo(3)).unwrap();
    let (_, why) = desk.run(plain(Op::ZoneReset, 192));
    assert!(why.contains("offline"), "{why}");
}

#[test]
fn a_disk_that_is_gone_is_offline_and_not_full_and_says_so_once() {
    let mut desk = Desk::new();
    desk.write(64);
    desk.drive.drive().is_gone = true;
    for sector in [72, 128, 192] {
        desk.submit(write(sector, 8));
    }
    desk.submit(Bio::new(Op::Read, Sector(64), 8, Payload::Data(Data::zeroed(4096))));
    desk.submit(plain(Op::Flush, 0));
    desk.settle();
    for _ in 0..5 {
        let done = desk.stack.poll_completion(desk.port).expect("everything is answered");
        let why = done.bio.why().unwrap().to_string();
        assert!(done.status == Status::Offline && why.contains("/dev/sdz: the disk is gone"), "{why}");
    }
    assert_eq!(desk.notices(Instant::ZERO).len(), 1);
    desk.log();
    assert_eq!(desk.write(256).0, Status::Offline);
    assert!(desk.log().is_empty(), "nobody asks it any more");
}

#[test]
fn after_a_flush_that_failed_no_later_one_succeeds() {
    let mut desk = Desk::new();
    desk.write(64);
    desk.drive.drive().results = [EIO].into();
    for _ in 0..2 {
        let (status, why) = desk.run(plain(Op::Flush, 0));
        assert!(status == Status::Io && why.contains("may have lost data"), "{why}");
    }
    assert_eq!(desk.write(72).0, Status::Io, "nobody may believe that this will be durable");
    let read = Bio::new(Op::Read, Sector(64), 8, Payload::Data(Data::zeroed(4096)));
    assert_eq!(desk.run(read).0, Status::Ok);
}

#[test]
fn a_durable_write_whose_data_is_there_has_failed_at_the_flush() {
    let mut desk = Desk::new();
    desk.write(64);
    let bio = write(72, 8).with_flags(Flags::FUA);
    desk.submit(bio);
    desk.stack.turn(Instant::ZERO);
    // The kernel writes, then flushes for want of FUA, and that fails.
    desk.drive.drive().zones.set_write_pointer(ZoneNo(1), 16).unwrap();
    desk.drive.drive().results = [EIO].into();
    desk.settle();
    assert_eq!(desk.log().iter().filter(|call| call.contains(" 72+8")).count(), 1, "what is written stays");
    assert_eq!(desk.stack.poll_completion(desk.port).unwrap().status, Status::Io);
    assert_eq!(desk.run(plain(Op::Flush, 0)).0, Status::Io);
}

/// Found by the swarm (zoned_blk_swarm.rs zones 8): only what was asked after the reason of the failure was known was refused.
#[test]
fn nothing_that_relies_on_a_flush_beside_one_that_failed_succeeds() {
    for flags in [Flags::FUA, Flags::PREFLUSH] {
        let mut desk = Desk::new();
        desk.write(64);
        desk.submit(plain(Op::Flush, 0));
        desk.submit(write(72, 8).with_flags(flags));
        desk.stack.turn(Instant::ZERO);
        desk.drive.drive().results = [EIO].into();
        desk.settle();
        for _ in 0..2 {
            let done = desk.stack.poll_completion(desk.port).expect("an answer");
            assert_eq!(done.status, Status::Io, "{:?}", done.bio);
        }
        assert_eq!(desk.notices(Instant::ZERO).len(), 1);
    }
}

/// Found by the swarm (zoned_blk_swarm.rs all 1259): what went well while the disk was asked why another durable write had failed was
/// believed, though that was the flush.
#[test]
fn a_durable_write_beside_one_that_failed_waits_until_it_is_known_whether_that_was_at_the_flush() {
    for (done, expected) in [(0, Status::Ok), (4, Status::Io)] {
        let mut desk = Desk::new();
        desk.submit(write(64, 8).with_flags(Flags::FUA));
        desk.submit(write(128, 8).with_flags(Flags::FUA));
        desk.stack.turn(Instant::ZERO);
        desk.drive.drive().zones.set_write_pointer(ZoneNo(1), done).unwrap();
        desk.drive.drive().results = [-61].into();
        desk.settle();
        let mut ended: Vec<_> = std::iter::from_fn(|| desk.stack.poll_completion(desk.port)).collect();
        ended.sort_by_key(|done| done.tag);
        assert_eq!((ended.len(), ended[1].status), (2, expected), "{done} of 8 sectors are there");
    }
}

/// Found by the swarm (zoned_blk_swarm.rs plug 22): the kernel flushes behind each part of a write, and one of which only the first part is there
/// may have failed at that flush. A later one, which was well, was believed.
#[test]
fn a_durable_write_of_which_a_part_is_there_may_have_failed_at_the_flush_behind_it() {
    for (done, is_lost) in [(8, false), (12, true)] {
        let mut desk = Desk::new();
        desk.write(64);
        desk.submit(write(72, 8).with_flags(Flags::FUA));
        desk.stack.turn(Instant::ZERO);
        desk.drive.drive().zones.set_write_pointer(ZoneNo(1), done).unwrap();
        desk.drive.drive().results = [EIO; 3].into();
        desk.settle();
        assert_eq!(desk.stack.poll_completion(desk.port).unwrap().status, Status::Io);
        desk.drive.drive().results.clear();
        let (status, why) = desk.run(plain(Op::Flush, 0));
        assert_eq!(!status.is_ok(), is_lost, "{done} of 16 sectors are there: {why}");
    }
}

#[test]
fn more_calls_than_the_helper_takes_are_all_done() {
    let mut desk = Desk::new();
    let reports = 200;
    for _ in 0..reports {
        desk.submit(Bio::new(Op::ReportZones, Sector::ZERO, 0, Payload::Zones(Vec::with_capacity(1))));
    }
    desk.settle();
    for _ in 0..reports {
        let done = desk.stack.poll_completion(desk.port).expect("an answer");
        assert!(done.status.is_ok() && matches!(&done.bio.payload, Payload::Zones(zones) if zones.len() == 1));
    }
}

#[test]
fn a_command_without_an_answer_is_told_of_and_flushes_wait_for_it() {
    let mut desk = Desk::new();
    desk.submit(write(64, 8));
    desk.submit(plain(Op::Flush, 0));
    desk.stack.turn(Instant::ZERO);
    let stuck = desk.requests.borrow_mut().pop_front().unwrap();
    desk.settle();
    assert!(desk.stack.poll_completion(desk.port).is_none() && desk.log().is_empty());
    let told = desk.notices(Instant::ZERO + Duration::from_millis(31_000));
    assert!(told.len() == 1 && told[0].contains("WRITE 64+8 for 31 s"), "{told:?}");
    desk.requests.borrow_mut().push_back(stuck);
    desk.settle();
    assert_eq!(desk.log(), ["write 64+8", "flush"]);
}

#[test]
fn a_flush_waits_for_a_reset_of_all_zones_that_came_before_it() {
    let mut desk = Desk::new();
    desk.submit(plain(Op::ZoneResetAll, 0));
    desk.submit(plain(Op::Flush, 0));
    desk.settle();
    assert_eq!(desk.log(), ["reset 0+512", "flush"], "it is one command here, and may have been swallowed");
}
