//! Disks whose host refuses writes: its file system is full or read-only. Writes fail with the error of the host, no
//! zone is lost, and writes succeed again as soon as the host takes them.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Reason, Status};
use shingle_core::dm::stl::tools::{Depth, check};
use shingle_core::dm::stl::{Options, Sabotage, Stl};
use shingle_core::random::Rng;
use shingle_core::time::Duration;

use crate::shingled::shelf::taken_out;
use crate::shingled::{Volume, discard, disk, read, small, write};

/// A host, which may refuse writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Host {
    Free,
    /// The host takes `left` blocks, and refuses other writes with `status`. Of a write that is longer it takes what fits.
    Refuses {
        left: u32,
        status: Status,
    },
    /// The host takes the next write, and says that it failed; it has no space for others.
    Misleads,
}

/// The word of a write that is said to have failed.
const MISLED: u64 = 1;

/// A disk on a host.
struct Hosted {
    below: DeviceId,
    limits: Limits,
    host: Rc<RefCell<Host>>,
}

impl BlockDevice for Hosted {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let blocks = bio.sectors / 8;
        let mut host = self.host.borrow_mut();
        if *host == Host::Misleads && bio.op.writes_data() {
            *host = Host::Refuses { left: 0, status: Status::NoSpace };
            return cx.submit(self.below, bio, MISLED);
        }
        let Host::Refuses { left, status } = &mut *host else { return cx.submit(self.below, bio, 0) };
        if !bio.op.writes_data() || *left >= blocks {
            *left -= if bio.op.writes_data() { blocks } else { 0 };
            return cx.submit(self.below, bio, 0);
        }
        let reason = Reason::Host(*status, "write f: refused".into());
        match core::mem::take(left) {
            0 => cx.fail(bio, reason),
            part => {
                let (front, rest) = cx.split(bio, part * 8);
                cx.submit(self.below, front, 0);
                cx.fail(rest, reason);
            }
        }
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        cx.complete(bio, if word == MISLED { Status::Io } else { status });
    }

    fn below(&self) -> &[DeviceId] {
        core::slice::from_ref(&self.below)
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("a disk on a host")
    }
}

/// A volume on such disks, and their hosts.
fn hosted(disks: &[(u32, Option<u32>)]) -> (Volume, Vec<Rc<RefCell<Host>>>) {
    hosted_with(disks, small())
}

fn hosted_with(disks: &[(u32, Option<u32>)], options: Options) -> (Volume, Vec<Rc<RefCell<Host>>>) {
    let configs: Vec<_> = disks.iter().map(|(zones, conventional)| disk(*zones, *conventional)).collect();
    let mut hosts = Vec::new();
    let volume = Volume::over(&configs, 200, options, |stack, below| {
        let host = Rc::new(RefCell::new(Host::Free));
        hosts.push(host.clone());
        let limits = stack.limits(below).clone();
        stack.add(Box::new(Hosted { below, limits, host })).unwrap()
    });
    (volume, hosts)
}

fn set(hosts: &[Rc<RefCell<Host>>], to: Host) {
    hosts.iter().for_each(|host| *host.borrow_mut() = to);
}

/// The status of a write of a block.
fn tried(volume: &mut Volume, block: u64, byte: u8) -> Status {
    volume.run(write(block, 1, byte)).1
}

/// Checks what the volume has when it was stopped and started again, and its disks.
fn is_whole(mut volume: Volume, model: &[u8], what: &str) {
    volume.reload();
    assert!(volume.read(0, volume.blocks as u32) == model, "{what}");
    volume.stop();
    let report = check(&mut taken_out(&mut volume), Depth { pace: Some(&mut |_| ()) }, &mut |_, _| ());
    assert!(report.findings.is_clean(), "{what}: {:?}", report.findings.all());
}

const STATUSES: [Status; 3] = [Status::NoSpace, Status::ReadOnly, Status::Transport];
const DISKS: [&[(u32, Option<u32>)]; 2] = [&[(40, Some(0))], &[(40, Some(30))]];

#[test]
fn writes_fail_as_the_host_says_and_succeed_as_soon_as_it_takes_them() {
    for (status, disks) in STATUSES.into_iter().flat_map(|status| DISKS.map(|disks| (status, disks))) {
        for left in [0, 1, 2, 5, 11, 30] {
            let what = format!("{status:?} after {left} blocks, {disks:?}");
            let (mut volume, hosts) = hosted(disks);
            let mut model = vec![0; volume.blocks as usize];
            (0..40).for_each(|block| volume.write(block, 1, 1));
            model[..40].fill(1);
            volume.flush();
            set(&hosts, Host::Refuses { left, status });
            let mut refused = 0;
            for block in 0..60 {
                match tried(&mut volume, block, 2) {
                    Status::Ok => model[block as usize] = 2,
                    failed => {
                        assert_eq!(failed, status, "{what}: {}", volume.status());
                        refused += 1;
                    }
                }
            }
            assert!(refused > 10, "{what}: {refused} writes were refused");
            assert_eq!(volume.run(discard(0, 4)).1, Status::Ok, "{what}: a discard is always taken");
            assert!(volume.read(0, 60) == model[..60], "{what}: a refused write is not read");
            volume.flush();
            set(&hosts, Host::Free);
            for block in 50..60 {
                assert_eq!(tried(&mut volume, block, 3), Status::Ok, "{what}: {}", volume.status());
                model[block as usize] = 3;
            }
            volume.flush();
            is_whole(volume, &model, &what);
        }
    }
}

#[test]
fn a_host_that_refuses_again_and_again_costs_no_zone() {
    for disks in DISKS {
        let (mut volume, hosts) = hosted(disks);
        let (mut model, mut rng) = (vec![0; volume.blocks as usize], Rng::new(1));
        volume.read(0, 1);
        for round in 0..200_u32 {
            let byte = 1 + (round % 250) as u8;
            // Now and then a part of a batch is written: that costs the rest of its zone until it is cleaned.
            let left = if round % 8 == 0 { 1 + rng.below(3) as u32 } else { 0 };
            set(&hosts, Host::Refuses { left, status: Status::NoSpace });
            for _ in 0..8 {
                let block = rng.below(volume.blocks);
                match tried(&mut volume, block, byte) {
                    Status::Ok => model[block as usize] = byte,
                    failed => assert_eq!(failed, Status::NoSpace, "round {round}: {}", volume.status()),
                }
            }
            set(&hosts, Host::Free);
            let block = rng.below(volume.blocks);
            volume.write(block, 1, byte);
            model[block as usize] = byte;
        }
        is_whole(volume, &model, &format!("{disks:?}"));
    }
}

#[test]
fn another_disk_takes_what_the_host_of_one_refuses() {
    for (status, first) in STATUSES.into_iter().flat_map(|status| [0, 1].map(|first| (status, first))) {
        let (mut volume, hosts) = hosted(&[(40, Some(0)), (40, Some(3))]);
        let (mut model, mut rng) = (vec![0; volume.blocks as usize], Rng::new(2));
        let mut write_some = |volume: &mut Volume, writes: u32| {
            for _ in 0..writes {
                let (block, byte) = (rng.below(volume.blocks / 3), 1 + rng.below(255) as u8);
                assert_eq!(tried(volume, block, byte), Status::Ok, "{status:?} on disk {first}: {}", volume.status());
                model[block as usize] = byte;
            }
        };
        write_some(&mut volume, 200);
        for left in [0, 3, 20] {
            set(&hosts[first..=first], Host::Refuses { left, status });
            write_some(&mut volume, 300);
            volume.flush();
            volume.rig.pass(Duration::from_millis(5_000));
            write_some(&mut volume, 100);
            set(&hosts, Host::Free);
            write_some(&mut volume, 100);
        }
        is_whole(volume, &model, &format!("{status:?} on disk {first}"));
    }
}

/// Options with which a volume writes no root that is not asked for: a start finds what was written since by itself.
fn without_checkpoints() -> Options {
    Options { replay_blocks: 65_536, pending_bytes: 1 << 20, idle_after: Duration::from_millis(1 << 40), ..small() }
}

/// Removes a volume without I/O in flight as a kill of the process does: no root is written.
fn kill(volume: &mut Volume) {
    volume.rig.pass(Duration::from_millis(10));
    volume.before = volume.work();
    let top = volume.rig.top;
    volume.rig.stack.remove(top).unwrap();
}

/// The data of blocks that were written and flushed after their host had refused others, when the process is killed.
fn after_a_kill(gone: Sabotage) -> Vec<u8> {
    let (mut volume, hosts) = hosted_with(DISKS[0], without_checkpoints());
    let top = volume.rig.top;
    volume.rig.stack.with_device(top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    (0..20).for_each(|block| volume.write(block, 1, 1));
    set(&hosts, Host::Refuses { left: 0, status: Status::NoSpace });
    (0..20).for_each(|block| assert_eq!(tried(&mut volume, block, 2), Status::NoSpace));
    set(&hosts, Host::Free);
    (0..20).for_each(|block| volume.write(block, 1, 3));
    volume.flush();
    kill(&mut volume);
    volume.load();
    volume.read(0, 20)
}

#[test]
fn what_is_flushed_after_a_refusal_is_there_after_a_kill() {
    assert_eq!(after_a_kill(Sabotage::default()), [3; 20]);
    assert_ne!(after_a_kill(Sabotage { voids_unwritten: true, ..Sabotage::default() }), [3; 20]);
}

/// The newest root is written while the zones of the regular disk that the one before names are set aside, and that disk takes writes again before
/// the process is killed.
#[test]
fn what_is_flushed_to_a_regular_disk_after_it_refused_writes_is_there_after_a_kill() {
    let (mut volume, hosts) = hosted_with(&[(40, Some(0)), (40, None)], without_checkpoints());
    // Both disks get batches of a write that is as long as this.
    let write_and_checkpoint = |volume: &mut Volume, byte: u8| {
        volume.write(0, 60, byte);
        volume.message("checkpoint");
        volume.rig.pass(Duration::from_millis(100));
    };
    write_and_checkpoint(&mut volume, 1);
    set(&hosts[1..], Host::Refuses { left: 0, status: Status::Transport });
    write_and_checkpoint(&mut volume, 2);
    set(&hosts, Host::Free);
    volume.rig.pass(Duration::from_millis(2_000));
    volume.write(0, 60, 3);
    volume.flush();
    kill(&mut volume);
    volume.load();
    assert_eq!(volume.read(0, 60), [3; 60]);
}

#[test]
fn a_stop_while_the_host_refuses_loses_nothing_that_was_acknowledged() {
    for (left, disks) in [0, 1, 9, 40].into_iter().flat_map(|left| DISKS.map(|disks| (left, disks))) {
        let (mut volume, hosts) = hosted(disks);
        let mut model = vec![0; volume.blocks as usize];
        (0..40).for_each(|block| volume.write(block, 1, 1));
        model[..40].fill(1);
        set(&hosts, Host::Refuses { left, status: Status::NoSpace });
        for block in 0..60 {
            if tried(&mut volume, block, 2) == Status::Ok {
                model[block as usize] = 2;
            }
        }
        volume.flush();
        volume.stop();
        set(&hosts, Host::Free);
        volume.load();
        is_whole(volume, &model, &format!("{left} blocks, {disks:?}"));
    }
}

#[test]
fn a_batch_that_may_be_on_a_disk_is_in_doubt_after_a_suspend_and_not_read_as_it_was() {
    for disks in DISKS {
        let (mut volume, hosts) = hosted(disks);
        (0..40).for_each(|block| volume.write(block, 1, 1));
        volume.flush();
        set(&hosts, Host::Misleads);
        // Of the second block nothing is known before.
        [39, 40].into_iter().for_each(|block| _ = volume.rig.submit(write(block, 1, 2)));
        volume.rig.pass(Duration::from_millis(100));
        assert!(volume.rig.done().is_empty(), "{disks:?}: they wait for the host");
        let top = volume.rig.top;
        volume.rig.stack.deliver(top, Event::Suspend { push_back: false });
        volume.rig.pass(Duration::from_millis(100));
        let failed = volume.rig.done();
        assert!(failed.len() == 2 && failed.iter().all(|done| !done.status.is_ok()), "{disks:?}: {failed:?}");
        let mut extents = Vec::with_capacity(4);
        volume.rig.stack.extents(top, 40 * 8..41 * 8, &mut extents);
        assert!(extents.iter().all(|extent| !extent.is_hole), "{disks:?}: {extents:?}");
        volume.rig.stack.deliver(top, Event::Resume);
        let (bio, status) = volume.run(read(38, 2));
        let why = bio.why().map(ToString::to_string).unwrap_or_default();
        assert!(!status.is_ok() && why.contains("a write of block 39 failed"), "{disks:?}: {why}");
        assert_eq!(volume.read(0, 39), [1; 39]);
        set(&hosts, Host::Free);
        volume.reload();
        assert_eq!(volume.read(38, 3), [1, 2, 2], "{disks:?}: the start has found them");
    }
}
