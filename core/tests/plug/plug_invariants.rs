//! The fifteen invariants of zone write plugging, after every hop of random runs, under every policy that orders writes.
//!
//! A run feeds a plug with writes, appends, reads, resets, finishes, reports and mistakes, and ends what reaches the desk
//! in any order, with failures and partial writes. Where each invariant is checked:
//!
//! | invariant | where |
//! | --- | --- |
//! | I1 one write in flight a zone, or the disk; I2 in order and at the write pointer | `MockDevice::judge`, on every arrival |
//! | I3 busy bit, I4 no lost wake-up, I6 holders, I7 one plug a zone | `ZonePlug::verify`, after every hop |
//! | I5 host and device agree on the pointer, I8 plugs only for partly written zones | `Run::compare` |
//! | I9 a suspended device drains, I15 nothing is left | `Run::drain` |
//! | I10 every bio completes once | `Run::collect` |
//! | I11 appends are contiguous and disjoint | `Run::collect` |
//! | I12 nothing is written to a zone whose pointer is lost | `Run::look_at_desk` |
//! | I13 reads never wait | `Run::submit_random` |
//! | I14 after a reset the zone takes a write at its start | `Run::drain` |

use std::collections::{BTreeMap, BTreeSet};

use shingle_core::block::{Bio, Op, Status};
use shingle_core::harness::{Harness, MockDevice};
use shingle_core::plug::{Append, PlugOptions, WritePolicy, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;

use crate::desk::*;

const ZONES: u64 = 6;
const CAPACITY: u32 = 48;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What the invariants are about: a policy, and whether the disk below it turns.
#[derive(Clone, Copy, Debug)]
struct Kind {
    policy: WritePolicy,
    rotational: bool,
}

impl Kind {
    fn all() -> impl Iterator<Item = Kind> {
        let policies = WritePolicy::ALL.into_iter().filter(|policy| policy.orders());
        policies.flat_map(|policy| [false, true].map(|rotational| Kind { policy, rotational }))
    }

    fn takes_turns(self) -> bool {
        self.policy == WritePolicy::Qd1 || self.policy == WritePolicy::Elevator && self.rotational
    }
}

struct Run {
    h: Harness,
    random: Random,
    /// Where a well-behaved writer would write next, as far as the test knows.
    next: BTreeMap<u64, u64>,
    /// Bios under way.
    pending: BTreeMap<u64, (Op, u64, u32)>,
    /// Sectors that successful appends landed in, since the zone's last reset.
    appended: BTreeMap<u64, BTreeSet<u64>>,
    /// Zones in which a write failed, until something told where the pointer is.
    lost: BTreeSet<u64>,
    seen: u64,
    rotational: bool,
}

impl Run {
    fn new(seed: u64, append: Append, kind: Kind) -> Self {
        let mut desk = MockDevice::zoned(ZONES as u32, ZONE, CAPACITY, 1);
        let Kind { policy, rotational } = kind;
        desk.limits_mut().rotational = rotational;
        desk.one_write = kind.takes_turns();
        if append == Append::Native {
            desk.limits_mut().zoned.as_mut().unwrap().max_append = Some(ZONE);
        }
        let h = plug_over(desk, PlugOptions { append, policy, ..PlugOptions::default() });
        let seen = h.held().last().map_or(1, |held| held.number);
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (next, pending, appended, lost) = Default::default();
        Run { h, random, next, pending, appended, lost, seen, rotational }
    }

    fn submit(&mut self, bio: Bio) {
        let what = (bio.op, bio.sector.0, bio.sectors);
        let tag = self.h.submit(bio);
        self.pending.insert(tag, what);
    }

    fn submit_random(&mut self) {
        let n = 1 + self.random.below(ZONES - 1);
        let sectors = 1 + self.random.below(12) as u32;
        match self.random.below(20) {
            0..=9 => {
                let next = self.next.entry(n).or_insert(0);
                let at = *next;
                *next += u64::from(sectors);
                self.submit(write(zone(n) + at.min(63), sectors.min(64 - at.min(63) as u32)));
            }
            10..=12 => self.submit(append(n, sectors)),
            13 => {
                let anywhere = self.random.below(60);
                self.submit(write(zone(n) + anywhere, sectors.min(4)));
            }
            14 => {
                self.next.insert(n, 0);
                self.submit(reset(n));
            }
            15 => self.submit(manage([Op::ZoneFinish, Op::ZoneOpen, Op::ZoneClose][sectors as usize % 3], n)),
            16 => self.submit(report()),
            17 => self.submit(write(sectors.into(), 4)),
            18 if sectors == 1 => {
                self.next.clear();
                self.submit(reset_all());
            }
            _ => {
                let before = self.h.held().len();
                self.submit(read(zone(n), sectors));
                assert_eq!(self.h.held().len(), before + 1, "I13: a read waited");
            }
        }
    }

    /// Ends something on the desk, mostly well.
    fn end_random(&mut self) {
        let held = self.h.held();
        if held.is_empty() {
            return;
        }
        let one = held[self.random.below(held.len() as u64) as usize];
        let status = match self.random.below(24) {
            0 => Status::Medium,
            1 => Status::Timeout,
            2 => Status::ZoneActiveResource,
            _ => Status::Ok,
        };
        let untouched = status == Status::ZoneActiveResource;
        let written = if untouched { 0 } else { self.random.below(u64::from(one.sectors) + 1) as u32 };
        let n = one.sector.0 / u64::from(ZONE);
        let sequential_write = one.op.writes_data() && n > 0;
        if sequential_write && !status.is_ok() && !untouched {
            self.lost.insert(n);
        }
        if status.is_ok() {
            self.learn(one.op, n);
        }
        self.h.end_number(one.number, status, written);
        if one.op.is_write() && n > 0 {
            // The writer looks where the device is before it goes on.
            let device = self.h.with_desk(|desk, _| desk.zone_mut(n as u32).wp - Sector(zone(n)));
            self.next.insert(n, device);
        }
    }

    fn learn(&mut self, op: Op, n: u64) {
        match op {
            Op::ZoneReset => {
                self.appended.remove(&n);
                self.lost.remove(&n);
            }
            Op::ZoneFinish => drop(self.lost.remove(&n)),
            Op::ZoneResetAll => {
                self.appended.clear();
                self.lost.clear();
            }
            // Whether a report cures depends on when it was taken: the plug decides, the pointers are compared at the end.
            Op::ReportZones => self.lost.clear(),
            _ => (),
        }
    }

    /// I12, and the desk's own judgement (I1, I2).
    fn look_at_desk(&mut self) {
        for held in self.h.held().iter().filter(|held| held.number > self.seen) {
            let n = held.sector.0 / u64::from(ZONE);
            let write = matches!(held.op, Op::Write | Op::WriteZeroes);
            assert!(!write || !self.lost.contains(&n), "I12: {held:?} although the pointer of zone {n} is lost");
        }
        self.seen = self.h.held().last().map_or(self.seen, |held| held.number.max(self.seen));
        self.h.assert_clean();
    }

    /// I10 and I11.
    fn collect(&mut self) {
        for outcome in self.h.outcomes() {
            let (op, _, sectors) = self.pending.remove(&outcome.tag).expect("I10: completed twice, or never submitted");
            if op == Op::ZoneAppend && outcome.status.is_ok() {
                let landed = self.appended.entry(outcome.sector.0 / u64::from(ZONE)).or_default();
                for sector in outcome.sector.0..outcome.sector.0 + u64::from(sectors) {
                    assert!(landed.insert(sector), "I11: two appends in sector {sector}");
                }
            }
        }
    }

    /// I5 and I8, for zones in which nothing is in flight.
    fn compare(&mut self) {
        let dumps: BTreeMap<_, _> = the_plug(&self.h).dump().map(|dump| (u64::from(dump.zone.0), dump)).collect();
        for n in 1..ZONES {
            let device = self.h.with_desk(|desk, _| *desk.zone_mut(n as u32));
            let offset = device.wp - device.start;
            match dumps.get(&n) {
                Some(dump) if dump.plugged || dump.needs_wp_update => (),
                Some(dump) => assert_eq!(u64::from(dump.wp_offset), offset, "I5: zone {n}"),
                None => assert!(offset == 0 || offset >= u64::from(CAPACITY), "I8: zone {n} at {offset} has no plug"),
            }
        }
    }

    /// Ends all that reaches the desk, oldest first.
    fn end_well(&mut self) {
        self.pass_time();
        while let Some(one) = self.h.held().first().copied() {
            self.learn(one.op, one.sector.0 / u64::from(ZONE));
            self.h.end_number(one.number, Status::Ok, 0);
            self.collect();
            if self.h.held().is_empty() {
                self.pass_time();
            }
        }
        self.collect();
    }

    /// Longer than any zone is held.
    fn pass_time(&mut self) {
        self.h.now = self.h.now + Duration::from_millis(1);
        self.h.run();
    }

    /// I9: a suspended plug drains.
    fn suspend(&mut self) {
        self.h.stack.suspend(self.h.top);
        self.end_well();
        assert!(self.h.stack.is_drained(self.h.top), "I9: still {:?}", self.h.stack.counters(self.h.top).in_flight);
    }

    fn switch(&mut self, policy: WritePolicy) {
        self.suspend();
        let one_write = Kind { policy, rotational: self.rotational }.takes_turns();
        self.h.with_desk(|desk, _| desk.one_write = one_write);
        let top = self.h.top;
        let switched = self.h.stack.with_device(top, |plug: &mut ZonePlug, cx| plug.set_policy(policy, cx));
        assert_eq!(switched, Some(Ok(())));
        self.h.run();
        self.end_well();
        self.h.stack.resume(self.h.top);
        self.h.run();
    }

    /// I14 and I15: a suspended plug drains, and afterwards works as new.
    fn drain(&mut self) {
        self.suspend();
        self.h.stack.resume(self.h.top);
        self.h.run();
        self.end_well();
        assert!(self.pending.is_empty(), "I10: never completed: {:?}", self.pending);
        assert!(the_plug(&self.h).is_idle(), "I15");
        self.h.submit(reset_all());
        self.h.end_all(Status::Ok);
        assert_eq!(the_plug(&self.h).dump().count(), 0, "I8, I15: plugs of empty zones");
        for n in 1..ZONES {
            let tag = self.h.submit(write(zone(n), 8));
            self.h.end_all(Status::Ok);
            assert!(self.h.statuses().contains(&(tag, Status::Ok)), "I14: zone {n} refuses a write after its reset");
        }
        self.h.assert_clean();
    }
}

impl Run {
    fn steps(&mut self, count: u32) {
        for _ in 0..count {
            match self.random.below(100) {
                0..55 => self.submit_random(),
                55..97 => self.end_random(),
                _ => self.pass_time(),
            }
            self.look_at_desk();
            self.collect();
            self.compare();
        }
    }
}

fn run(seed: u64, append: Append, kind: Kind) {
    let mut run = Run::new(seed, append, kind);
    run.steps(300);
    run.drain();
}

#[test]
fn all_fifteen_invariants_hold_with_emulated_appends() {
    Kind::all().for_each(|kind| (0..400).for_each(|seed| run(seed, Append::Emulated, kind)));
}

#[test]
fn all_fifteen_invariants_hold_with_native_appends() {
    Kind::all().for_each(|kind| (0..400).for_each(|seed| run(seed, Append::Native, kind)));
}

#[test]
fn all_fifteen_invariants_hold_while_the_policy_is_switched_under_load() {
    for (seed, append) in (0..200).flat_map(|seed| [(seed, Append::Emulated), (seed, Append::Native)]) {
        let kinds: Vec<Kind> = Kind::all().collect();
        let mut run = Run::new(seed, append, kinds[seed as usize % kinds.len()]);
        for _ in 0..6 {
            run.steps(60);
            let next = run.random.below(kinds.len() as u64) as usize;
            run.switch(kinds[next].policy);
        }
        run.drain();
    }
}

#[test]
fn every_policy_can_follow_every_other() {
    for seed in 0..50 {
        let mut run = Run::new(seed, Append::Emulated, Kind { policy: WritePolicy::Plug, rotational: seed % 2 == 0 });
        let pairs = WritePolicy::ALL.into_iter().flat_map(|one| WritePolicy::ALL.map(|other| [one, other]));
        for policy in pairs.flatten() {
            (0..20).for_each(|_| run.submit_random_safely());
            run.switch(policy);
        }
        run.h.end_all(Status::Ok);
        run.collect();
        assert!(run.pending.is_empty(), "seed {seed}: {:?}", run.pending);
    }
}

impl Run {
    /// Bios that every policy takes in any order: reads, conventional writes, reports.
    fn submit_random_safely(&mut self) {
        let at = self.random.below(60);
        match self.random.below(3) {
            0 => self.submit(read(at, 4)),
            1 => self.submit(write(at, 4)),
            _ => self.submit(report()),
        }
    }
}
