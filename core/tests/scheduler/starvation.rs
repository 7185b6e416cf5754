//! Nothing starves: generated loads that arrive faster than the disk serves them, and the bounds that `DeadlineOptions` promises.

use std::collections::BTreeMap;

use shingle_core::block::{Bio, Limits, Op, Payload, Priority, Scheduler};
use shingle_core::random::Rng;
use shingle_core::scheduler::{DeadlineOptions, MqDeadline, Sabotage};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

/// A waiting bio as the test knows it.
struct Waiting {
    class: Priority,
    is_write: bool,
    arrival: Instant,
    /// Dispatches when the bio became overdue, and those that it may wait from then on.
    overdue: Option<(u64, u64)>,
}

/// Submits random bios, three for two dispatches until 60 wait, then one for one; a dispatch takes 1 ms. Returns a bio that broke its bound.
fn broken_bound(seed: u64, gone: Sabotage, classes: &[Priority]) -> Option<String> {
    let options = DeadlineOptions { aging: Duration::from_millis(2_000), ..DeadlineOptions::default() };
    let options = DeadlineOptions { write_expire: Duration::from_millis(1_000), ..options };
    let mut scheduler = MqDeadline::new(&Limits::new(1 << 20), options).without(gone);
    let rng = &mut Rng::new(seed);
    // Most loads have a hot spot, which a batch by sector follows for ever.
    let (reads, hot) = (1 + rng.below(98), rng.below(100));
    let class_weights: Vec<u64> = classes.iter().map(|_| 1 + rng.below(20)).collect();
    let mut waiting: BTreeMap<u64, Waiting> = BTreeMap::new();
    let (mut number, mut dispatches, mut now, mut position) = (0, 0, Instant::ZERO, 0_u64);
    for _ in 0..6_000 {
        let arrivals = if waiting.len() > 60 { 1 } else { 1 + rng.below(2) };
        for _ in 0..arrivals {
            let is_write = !rng.chance(reads, 100);
            let draw = rng.below(class_weights.iter().sum());
            let mut sum = 0;
            let place = class_weights
                .iter()
                .position(|weight| {
                    sum += weight;
                    draw < sum
                })
                .unwrap();
            position += 1;
            let sector = if rng.chance(hot, 100) { (1 << 19) + position % (1 << 18) } else { rng.below(1 << 10) };
            let op = if is_write { Op::Write } else { Op::Read };
            let mut bio = Bio::new(op, Sector(sector), 1, Payload::None).with_priority(classes[place]);
            // Its name, where nothing else looks.
            bio.since = Instant(number);
            scheduler.insert(Box::new(bio), now);
            let class = classes[place];
            waiting.insert(number, Waiting { class, is_write, arrival: now, overdue: None });
            number += 1;
        }
        now = now + Duration::from_millis(1);
        judge(&mut waiting, (now, dispatches), &options);
        let bio = scheduler.next(now)?;
        dispatches += 1;
        let Waiting { overdue, class, is_write, .. } = waiting.remove(&bio.since.0).unwrap();
        if let Some((since, bound)) = overdue.filter(|(since, bound)| dispatches - since > *bound) {
            let after = dispatches - since;
            return Some(format!("seed {seed}: {class:?} write {is_write}: {after} dispatches, bound {bound}"));
        }
    }
    let late = waiting.values().find(|bio| bio.overdue.is_some_and(|(since, bound)| dispatches - since > bound));
    late.map(|bio| format!("seed {seed}: {:?} write {} still waits", bio.class, bio.is_write))
}

/// Starts the count of each bio that has become overdue, with the bound that it has from then on.
fn judge(waiting: &mut BTreeMap<u64, Waiting>, (now, dispatches): (Instant, u64), options: &DeadlineOptions) {
    let Some(highest) = waiting.values().map(|bio| bio.class).min() else { return };
    let due: Vec<(u64, u64)> = waiting
        .iter()
        .filter(|(_, bio)| bio.overdue.is_none())
        .filter_map(|(number, bio)| {
            let waited = now.since(bio.arrival);
            let older = waiting.range(..number).map(|(_, bio)| bio);
            if waited >= options.aging && bio.class != Priority::RealTime {
                // Whatever class is the highest: it is served by age, or in a class that no other is above.
                let older = older.filter(|other| other.class != Priority::RealTime).count() as u64;
                return Some((*number, options.aged_bound(older).max(options.bound(older))));
            }
            let expire = if bio.is_write { options.write_expire } else { options.read_expire };
            let alike = |other: &&Waiting| other.class == bio.class && other.is_write == bio.is_write;
            let is_served = bio.class == highest && bio.class == Priority::RealTime;
            (is_served && waited >= expire).then(|| (*number, options.bound(older.filter(alike).count() as u64)))
        })
        .collect();
    for (number, bound) in due {
        waiting.get_mut(&number).unwrap().overdue = Some((dispatches, bound));
    }
}

fn first_broken(gone: Sabotage, classes: &[Priority]) -> Option<String> {
    (0..60).find_map(|seed| broken_bound(seed, gone, classes))
}

const ALL: [Priority; 3] = Priority::ALL;

#[test]
fn no_bio_waits_longer_than_its_bound() {
    assert_eq!(first_broken(Sabotage::default(), &ALL), None);
    assert_eq!(first_broken(Sabotage::default(), &[Priority::RealTime]), None);
    assert_eq!(first_broken(Sabotage::default(), &[Priority::RealTime, Priority::Idle]), None);
}

#[test]
fn reads_do_not_starve_without_batches_before_writes() {
    let options = DeadlineOptions { writes_starved: 0, batch: 0, ..DeadlineOptions::default() };
    let mut scheduler = MqDeadline::new(&Limits::new(1 << 20), options);
    let insert = |scheduler: &mut MqDeadline, op, sector| {
        scheduler.insert(Box::new(Bio::new(op, Sector(sector), 1, Payload::None)), Instant::ZERO);
    };
    insert(&mut scheduler, Op::Read, 0);
    let mut sent = (1..10).map(|sector| {
        insert(&mut scheduler, Op::Write, sector);
        scheduler.next(Instant::ZERO).unwrap().op
    });
    assert!(sent.any(|op| op == Op::Read));
    drop(sent);
    while scheduler.next(Instant::ZERO).is_some() {}
}

#[test]
fn scheduler_without_deadlines_is_found() {
    let gone = Sabotage { expiry_ignored: true, ..Sabotage::default() };
    assert!(first_broken(gone, &[Priority::RealTime]).is_some());
}

#[test]
fn scheduler_that_starves_writes_is_found() {
    let gone = Sabotage { writes_starved: true, ..Sabotage::default() };
    assert!(first_broken(gone, &[Priority::RealTime]).is_some());
}

#[test]
fn scheduler_without_aging_is_found() {
    let gone = Sabotage { aging_ignored: true, ..Sabotage::default() };
    assert!(first_broken(gone, &ALL).is_some());
}

/// Dispatches until a bio of the highest class leaves that comes when 500 of the lowest have waited for too long.
fn dispatches_before_real_time(gone: Sabotage) -> usize {
    let mut scheduler = MqDeadline::new(&Limits::new(1 << 20), DeadlineOptions::default()).without(gone);
    let bio = |sector, class| Box::new(Bio::new(Op::Read, Sector(sector), 1, Payload::None).with_priority(class));
    (0..500).for_each(|sector| scheduler.insert(bio(sector, Priority::Idle), Instant::ZERO));
    let now = Instant::ZERO + Duration::from_millis(20_000);
    scheduler.insert(bio(1000, Priority::RealTime), now);
    std::iter::from_fn(|| scheduler.next(now)).position(|bio| bio.priority == Priority::RealTime).unwrap()
}

#[test]
fn aged_bios_of_a_low_class_do_not_starve_the_highest() {
    assert_eq!(dispatches_before_real_time(Sabotage::default()), 1);
    let gone = Sabotage { aging_unbounded: true, ..Sabotage::default() };
    assert_eq!(dispatches_before_real_time(gone), 500, "the guard is gone");
}
