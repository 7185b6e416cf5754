//! Checks an I/O scheduler from outside: order within zones and bounds, by comparing the waiting bios of one look with those of the next.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;

use super::words::{Broken, Rule};
use shingle_core::block::Priority;
use shingle_core::scheduler::{DeadlineOptions, MqDeadline, WaitingBio};
use shingle_core::time::{Duration, Instant};

/// Dispatches when a bio became overdue, and further ones that it may wait.
#[derive(Clone, Copy)]
struct Overdue {
    since: u64,
    bound: u64,
}

/// A look at the scheduler of a disk.
#[derive(Default)]
pub struct SchedulerWatch {
    /// Bios that waited at the last look, by their number.
    waiting: BTreeMap<u64, (WaitingBio, Option<Overdue>)>,
    inserted: u64,
    dispatched: u64,
}

impl SchedulerWatch {
    /// Compares what waits in `scheduler` with the last look.
    ///
    /// # Errors
    /// If writes of a zone have changed places, or a bio has waited longer than its bound.
    pub fn look(&mut self, scheduler: &MqDeadline) -> Result<(), Broken> {
        if (self.inserted, self.dispatched) == (scheduler.inserted(), scheduler.dispatched()) {
            return Ok(());
        }
        (self.inserted, self.dispatched) = (scheduler.inserted(), scheduler.dispatched());
        let now: BTreeMap<u64, WaitingBio> = scheduler.waiting_bios().map(|bio| (bio.number, bio)).collect();
        let verdict = self.check_zones(&now).and_then(|()| self.check_bounds(&now));
        self.waiting.retain(|number, _| now.contains_key(number));
        now.into_iter().for_each(|(number, bio)| _ = self.waiting.entry(number).or_insert((bio, None)));
        self.start_bounds(scheduler.last_dispatch(), scheduler.options());
        verdict
    }

    /// Finds a waiting bio of a zone of which a younger one has left.
    fn check_zones(&self, now: &BTreeMap<u64, WaitingBio>) -> Result<(), Broken> {
        let left = self.waiting.values().filter(|(bio, _)| !now.contains_key(&bio.number));
        let mut last_left = BTreeMap::new();
        left.filter_map(|(bio, _)| Some((bio.zone?, bio.number))).for_each(|(zone, number)| {
            last_left.insert(zone, number);
        });
        let waits =
            |bio: &&WaitingBio| bio.zone.and_then(|zone| last_left.get(&zone)).is_some_and(|last| *last > bio.number);
        now.values().find(waits).map_or(Ok(()), |bio| {
            let zone = bio.zone.unwrap_or_default();
            Err((Rule::Order, format!("a bio of the zone at {zone} left the scheduler before an older one")))
        })
    }

    fn check_bounds(&self, now: &BTreeMap<u64, WaitingBio>) -> Result<(), Broken> {
        let is_late = |(bio, overdue): &&(WaitingBio, Option<Overdue>)| {
            let is_over = |overdue: Overdue| self.dispatched - overdue.since > overdue.bound;
            now.contains_key(&bio.number) && overdue.is_some_and(is_over)
        };
        self.waiting.values().find(is_late).map_or(Ok(()), |(bio, overdue)| {
            let bound = overdue.map_or(0, |overdue| overdue.bound);
            let class = bio.class.name();
            Err((
                Rule::Stuck,
                format!("a bio of class {class} waits for more than {bound} dispatches after its deadline"),
            ))
        })
    }

    /// Finds bios that have become overdue.
    fn start_bounds(&mut self, now: Instant, options: &DeadlineOptions) {
        let expired: BTreeSet<u64> = self
            .waiting
            .values()
            .filter(|(bio, overdue)| overdue.is_none() && now.since(bio.arrival) >= patience(bio, options))
            .map(|(bio, _)| bio.number)
            .collect();
        for number in expired {
            let is_real_time = self.waiting[&number].0.class == Priority::RealTime;
            // What can go before it by its age: of the highest class only bios of the same, of others any but those of the highest.
            let counts = |bio: &WaitingBio| (bio.class == Priority::RealTime) == is_real_time;
            let older = self.waiting.range(..number).filter(|(_, (bio, _))| counts(bio)).count() as u64;
            let by_age = if is_real_time { 0 } else { options.aged_bound(older) };
            let bound = options.bound(older) + by_age;
            self.waiting
                .entry(number)
                .and_modify(|(_, overdue)| *overdue = Some(Overdue { since: self.dispatched, bound }));
        }
    }
}

/// Time from which the number of dispatches before `bio` is bounded, whatever comes.
fn patience(bio: &WaitingBio, options: &DeadlineOptions) -> Duration {
    let expire = if bio.is_write { options.write_expire } else { options.read_expire };
    if bio.class == Priority::RealTime { expire } else { expire.max(options.aging) }
}
