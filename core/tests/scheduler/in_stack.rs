//! The scheduler at its place in the stack: below the plug, above the disk.

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Priority, Stack, StackError, Status};
use shingle_core::harness::MockDevice;
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::scheduler::{MqDeadline, SchedulerKind, SchedulerOptions, scheduler_of};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

struct Desk {
    stack: Stack,
    disk: DeviceId,
    top: DeviceId,
    port: PortId,
    tag: u64,
    now: Instant,
}

fn options(queue_depth: u32) -> SchedulerOptions {
    SchedulerOptions { kind: SchedulerKind::MqDeadline, queue_depth, ..SchedulerOptions::default() }
}

impl Desk {
    /// A disk whose bios the test ends, with a scheduler that keeps `depth` in flight.
    fn new(disk: MockDevice, depth: u32, policy: Option<WritePolicy>) -> Desk {
        let mut stack = Stack::new();
        let disk = stack.add(Box::new(disk)).unwrap();
        options(depth).apply(&mut stack, disk);
        let mut top = disk;
        if let Some(policy) = policy {
            let options = PlugOptions { policy, ..PlugOptions::default() };
            let plug = ZonePlug::new(disk, stack.limits(disk), options).unwrap();
            top = stack.add(Box::new(plug)).unwrap();
        }
        let port = stack.open_port();
        let mut desk = Desk { stack, disk, top, port, tag: 0, now: Instant::ZERO };
        desk.turn();
        // The plug's report.
        desk.end_all();
        desk
    }

    fn regular(depth: u32) -> Desk {
        Desk::new(MockDevice::regular(), depth, None)
    }

    fn turn(&mut self) {
        self.stack.turn(self.now);
    }

    fn submit(&mut self, op: Op, sector: u64) -> u64 {
        let payload = if op.has_data() { Payload::Data(Data::zeroed(512)) } else { Payload::None };
        let sectors = u32::from(op.has_range());
        self.submit_bio(Bio::new(op, Sector(sector), sectors, payload))
    }

    fn submit_bio(&mut self, bio: Bio) -> u64 {
        self.tag += 1;
        self.stack.submit(self.port, self.tag, self.top, Box::new(bio));
        self.turn();
        self.tag
    }

    /// Sectors of the bios at the disk.
    fn at_disk(&self) -> Vec<u64> {
        let desk: &MockDevice = self.stack.device(self.disk).unwrap();
        desk.held().iter().map(|held| held.sector.0).collect()
    }

    fn end_with(&mut self, status: Status) {
        let desk: &MockDevice = self.stack.device(self.disk).unwrap();
        let number = desk.held()[0].number;
        self.stack.with_device(self.disk, |desk: &mut MockDevice, cx| desk.end(number, status, 0, cx));
        self.turn();
    }

    fn end(&mut self) {
        self.end_with(Status::Ok);
    }

    fn end_all(&mut self) {
        while !self.at_disk().is_empty() {
            self.end();
        }
    }

    fn completions(&mut self) -> Vec<(u64, Status)> {
        std::iter::from_fn(|| self.stack.poll_completion(self.port)).map(|done| (done.tag, done.status)).collect()
    }

    fn waiting(&self) -> usize {
        self.stack.scheduler(self.disk).map_or(0, |scheduler| scheduler.waiting())
    }
}

#[test]
fn only_as_many_bios_as_the_depth_are_at_the_disk() {
    let mut desk = Desk::regular(2);
    for sector in [50, 40, 30, 20, 10] {
        desk.submit(Op::Read, sector);
    }
    assert_eq!((desk.at_disk(), desk.waiting()), (vec![50, 40], 3));
    desk.end();
    assert_eq!(desk.at_disk(), [40, 30], "none lies above 40, so the oldest starts a batch");
    desk.end_all();
    assert_eq!(desk.completions().len(), 5);
    assert!(desk.stack.is_drained(desk.disk));
}

#[test]
fn waiting_bio_counts_as_in_flight_and_is_held() {
    let mut desk = Desk::regular(1);
    desk.submit(Op::Read, 1);
    desk.submit(Op::Read, 2);
    assert_eq!(desk.stack.counters(desk.disk).in_flight, 2);
    assert_eq!(
        desk.stack.counters(desk.disk).ios[Op::Read as usize],
        1,
        "it counts as done by the disk once it is there"
    );
    let mut held = Vec::new();
    desk.stack.held(&mut |device, bio| held.push((device, bio.sector.0)));
    held.sort_unstable_by_key(|(_, sector)| *sector);
    assert_eq!(held, [(desk.disk, 1), (desk.disk, 2)]);
    desk.end_all();
    assert_eq!(desk.stack.counters(desk.disk).in_flight, 0);
}

#[test]
fn flush_and_report_go_to_the_disk_at_once() {
    let mut disk = MockDevice::zoned(8, 64, 64, 1);
    disk.limits_mut().write_cache = true;
    let mut desk = Desk::new(disk, 1, None);
    desk.submit(Op::Read, 1);
    desk.submit(Op::Read, 2);
    desk.submit(Op::Flush, 0);
    desk.submit_bio(Bio::new(Op::ReportZones, Sector(0), 0, Payload::Zones(Vec::with_capacity(8))));
    let held = desk.stack.device::<MockDevice>(desk.disk).unwrap().held();
    assert_eq!(held.iter().map(|held| held.op).collect::<Vec<_>>(), [Op::Read, Op::Flush, Op::ReportZones]);
    desk.end_all();
    assert_eq!(desk.completions().len(), 4);
}

#[test]
fn failed_bio_makes_room_for_the_next() {
    let mut desk = Desk::regular(1);
    let tags = [desk.submit(Op::Read, 1), desk.submit(Op::Read, 2)];
    desk.end_with(Status::Io);
    assert_eq!(desk.at_disk(), [2]);
    desk.end();
    assert_eq!(desk.completions(), [(tags[0], Status::Io), (tags[1], Status::Ok)]);
}

#[test]
fn suspended_disk_is_drained_of_waiting_bios() {
    let mut desk = Desk::regular(1);
    desk.submit(Op::Read, 1);
    desk.submit(Op::Read, 2);
    desk.stack.suspend(desk.disk);
    desk.submit(Op::Read, 3);
    assert!(!desk.stack.is_drained(desk.disk));
    desk.end();
    assert_eq!(desk.at_disk(), [2], "what was let in runs on");
    assert!(!desk.stack.is_drained(desk.disk));
    desk.end();
    assert!(desk.stack.is_drained(desk.disk));
    assert_eq!(desk.at_disk(), [0; 0], "what came later waits at the door");
    desk.stack.resume(desk.disk);
    desk.turn();
    desk.end_all();
    assert_eq!(desk.completions().len(), 3);
}

#[test]
fn disk_with_waiting_bios_is_not_removed() {
    let mut desk = Desk::regular(1);
    desk.submit(Op::Read, 1);
    desk.submit(Op::Read, 2);
    let refused = desk.stack.remove(desk.disk).err();
    assert_eq!(refused, Some(StackError::Busy { device: desk.disk, in_flight: 2 }));
    desk.end_all();
    assert!(desk.stack.remove(desk.disk).is_ok());
    let again = desk.stack.add(Box::new(MockDevice::regular())).unwrap();
    assert_eq!((again, scheduler_of(&desk.stack, again)), (desk.disk, SchedulerKind::None));
}

#[test]
fn switch_to_none_sends_waiting_bios_in_order_of_arrival() {
    let mut desk = Desk::regular(1);
    for sector in [50, 40, 10, 30] {
        desk.submit(Op::Read, sector);
    }
    SchedulerOptions::default().apply(&mut desk.stack, desk.disk);
    assert_eq!(scheduler_of(&desk.stack, desk.disk), SchedulerKind::None);
    desk.turn();
    desk.submit(Op::Read, 20);
    assert_eq!(desk.at_disk(), [50, 40, 10, 30, 20]);
    desk.end_all();
    assert_eq!(desk.completions().len(), 5);
    assert!(desk.stack.is_drained(desk.disk));
}

#[test]
fn switch_to_mq_deadline_keeps_what_is_in_flight() {
    let mut desk = Desk::regular(1);
    SchedulerOptions::default().apply(&mut desk.stack, desk.disk);
    [3, 2].into_iter().for_each(|sector| _ = desk.submit(Op::Read, sector));
    options(1).apply(&mut desk.stack, desk.disk);
    [9, 8].into_iter().for_each(|sector| _ = desk.submit(Op::Read, sector));
    assert_eq!(desk.at_disk(), [3, 2, 9], "what a scheduler did not dispatch does not count");
    desk.end_all();
    assert_eq!(desk.completions().len(), 4);
}

#[test]
fn greater_depth_dispatches_waiting_bios_at_once() {
    let mut desk = Desk::regular(1);
    [5, 6, 7].into_iter().for_each(|sector| _ = desk.submit(Op::Read, sector));
    options(2).apply(&mut desk.stack, desk.disk);
    desk.turn();
    assert_eq!(desk.at_disk(), [5, 6]);
    options(1).apply(&mut desk.stack, desk.disk);
    desk.end();
    assert_eq!(desk.at_disk(), [6], "a smaller depth counts once the rest has ended");
    desk.end_all();
    assert_eq!(desk.completions().len(), 3);
}

#[test]
fn plug_and_scheduler_keep_the_rules_of_zones() {
    for policy in [WritePolicy::Plug, WritePolicy::Qd1, WritePolicy::Elevator] {
        let mut disk = MockDevice::zoned(8, 64, 64, 1);
        disk.limits_mut().rotational = true;
        disk.one_write = policy != WritePolicy::Plug;
        let mut desk = Desk::new(disk, 2, Some(policy));
        for offset in 0..8 {
            for zone in (1..8).rev() {
                desk.submit(Op::Write, zone * 64 + offset);
                desk.submit(Op::Read, offset);
            }
        }
        let mut switches = 0;
        while !desk.stack.is_drained(desk.disk) || !desk.stack.is_drained(desk.top) {
            assert!(desk.at_disk().len() <= 2 || switches > 0);
            if desk.at_disk().is_empty() {
                desk.now = desk.now + Duration::from_millis(1);
                desk.turn();
            } else {
                desk.end();
            }
            if switches < 6 && desk.waiting() % 5 == 1 {
                switches += 1;
                let kind = SchedulerKind::ALL[switches % 2];
                SchedulerOptions { kind, queue_depth: 2, ..SchedulerOptions::default() }
                    .apply(&mut desk.stack, desk.disk);
                desk.turn();
            }
        }
        assert_eq!(desk.stack.device::<MockDevice>(desk.disk).unwrap().violations, Vec::<String>::new());
        assert!(desk.completions().iter().all(|(_, status)| status.is_ok()));
    }
}

#[test]
fn pieces_of_a_split_bio_keep_its_class() {
    let mut disk = MockDevice::regular();
    disk.limits_mut().max_sectors = Some(1);
    let mut desk = Desk::new(disk, 1, None);
    desk.submit(Op::Read, 0);
    desk.submit(Op::Read, 100);
    let whole = Bio::new(Op::Read, Sector(200), 2, Payload::Data(Data::zeroed(1024)));
    desk.submit_bio(whole.with_priority(Priority::RealTime));
    let mut sent = Vec::new();
    while let Some(sector) = desk.at_disk().first() {
        sent.push(*sector);
        desk.end();
    }
    assert_eq!(sent, [0, 200, 201, 100]);
}

#[test]
fn longest_wait_is_measured() {
    let mut desk = Desk::regular(1);
    desk.submit(Op::Read, 1);
    desk.submit(Op::Read, 2);
    desk.now = desk.now + Duration::from_millis(7);
    desk.turn();
    desk.end();
    let scheduler: &MqDeadline = desk.stack.scheduler_as(desk.disk).unwrap();
    assert_eq!(scheduler.longest_wait(), Duration::from_millis(7));
    desk.end();
}
