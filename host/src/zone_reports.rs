//! Zones of devices for those who watch them: one cache, with one budget for `shingle top`, the page and the metrics.
//!
//! ```text
//!  top, page, metrics ── begin ── old, and within the budget? ── yes ──> a thread ── reports, some zones at a time ──> the device
//!         <──────────── get: what is known, and how old it is <──────────────┘
//! ```
//!
//! A report can take a disk seconds, in which it does nothing else. So reports take at most one part in [`SHARE`] of its time, whoever
//! asks and however often: after a report that took T the next one begins 20 T after its begin at the earliest. Nobody has to wait for
//! one: a slow report is finished by its thread, and told from then on with its age.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use shingle_core::block::{Bio, Op, Payload, Status};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone};

use crate::mailbox::Reply;
use crate::shard::{Mailbox, Shard};

/// Reports take no more of a device's time than one part in so many.
pub const SHARE: u32 = 20;
/// The zones of a device are dropped when nobody has asked for them for so long. How many are in each condition stays known.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// Most devices of which something is kept. The one that was asked for longest ago makes room.
const MAX_DEVICES: usize = 1024;
/// How long those who know nothing of a device wait for its first report.
pub const FIRST_WAIT: Duration = Duration::from_secs(3);
/// How long others wait for a report that is likely to be there by then.
const SHORT_WAIT: Duration = Duration::from_millis(300);
/// Zones in one request to a device. Other commands can go in between.
const AT_ONCE: usize = 1024;
/// How long one such request may take.
const REQUEST_TIME: Duration = Duration::from_secs(600);

/// What somebody wants to know of the zones of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// How many are in each condition.
    Counts,
    /// All zones.
    Zones,
}

/// The zones of a device, as it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Number of zones in each condition, in the order of [`Condition::ALL`].
    pub counts: [u32; Condition::ALL.len()],
    /// The zones, if somebody needs more than their number.
    pub zones: Option<Arc<[Zone]>>,
    /// When the device began to report.
    pub began: Instant,
    /// How long that took.
    pub took: Duration,
}

impl ZoneReport {
    fn has(&self, need: Need) -> bool {
        need == Need::Counts || self.zones.is_some()
    }
}

/// Reads all zones of a device, on a thread that may wait.
pub type ReadZones = Box<dyn FnOnce() -> Result<Vec<Zone>, String> + Send>;

/// The zones of all devices that somebody watches.
#[derive(Default)]
pub struct ZoneReports(Mutex<BTreeMap<String, Arc<Cached>>>);

/// What is known of one device.
struct Cached {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    /// Since when it is being read.
    reading: Option<Instant>,
    /// No report begins before that.
    not_before: Instant,
    known: Option<ZoneReport>,
    /// Why the last report failed.
    failure: Option<String>,
    /// When somebody asked last: for anything, and for all zones.
    asked: Instant,
    zones_asked: Option<Instant>,
}

impl State {
    fn new(now: Instant) -> Self {
        Self { reading: None, not_before: now, known: None, failure: None, asked: now, zones_asked: None }
    }

    /// True if a report is to begin now, and by the caller.
    fn take_turn(&mut self, (need, max_age): (Need, Duration), now: Instant) -> bool {
        self.asked = now;
        if need == Need::Zones {
            self.zones_asked = Some(now);
        }
        let usable = self.known.as_ref().filter(|known| known.has(need));
        let is_wanted = usable.is_none_or(|known| now.saturating_duration_since(known.began) >= max_age);
        // Zones that nobody asked for were not kept. Who comes for them first does not wait for the budget: that report counts as well.
        let is_first = usable.is_none() && self.known.is_some() && self.failure.is_none();
        let is_due = now >= self.not_before || is_first && need == Need::Zones;
        if self.reading.is_some() || !is_wanted || !is_due {
            return false;
        }
        self.reading = Some(now);
        true
    }

    /// The report that began at `began` has ended.
    fn end(&mut self, began: Instant, result: Result<Vec<Zone>, String>, now: Instant) {
        self.reading = None;
        let took = now.saturating_duration_since(began);
        self.not_before = self.not_before.max(began) + took * SHARE;
        match result {
            Ok(zones) => {
                let counts = Condition::count(zones.iter().map(|zone| zone.cond));
                let is_wanted =
                    self.zones_asked.is_some_and(|at| now.saturating_duration_since(at) < MAX_IDLE.max(took));
                let zones = is_wanted.then(|| zones.into());
                (self.known, self.failure) = (Some(ZoneReport { counts, zones, began, took }), None);
            }
            // A device that does not tell any more is in no condition that is known.
            Err(why) => (self.known, self.failure) = (None, Some(why)),
        }
    }

    /// Drops zones that nobody has asked for lately.
    fn forget_zones(&mut self, now: Instant) {
        let is_idle = self.zones_asked.is_none_or(|at| now.saturating_duration_since(at) >= MAX_IDLE);
        if let Some(known) = self.known.as_mut().filter(|_| is_idle) {
            known.zones = None;
        }
    }

    /// What is told: a report, or why there is none.
    fn answer(&self, need: Need, now: Instant) -> Result<ZoneReport, String> {
        if let Some(known) = self.known.as_ref().filter(|known| known.has(need)) {
            return Ok(known.clone());
        }
        if let Some(began) = self.reading {
            let seconds = now.saturating_duration_since(began).as_secs();
            return Err(format!("the zones are being read, for {seconds} s so far: they are shown when all are known"));
        }
        Err(self.failure.clone().unwrap_or_else(|| "the zones have not been read yet".into()))
    }
}

impl ZoneReports {
    /// Has a device report its zones if what is known is older than `max_age`, and the budget allows it. Waits for nothing. `read` is called on
    /// a thread of its own.
    pub fn begin(&self, device: &str, want: (Need, Duration), read: ReadZones) {
        let (cached, now) = (self.cached(device), Instant::now());
        let is_turn = {
            let mut state = cached.lock();
            state.forget_zones(now);
            state.take_turn(want, now)
        };
        if !is_turn {
            return;
        }
        let reader = cached.clone();
        let body = move || reader.end(now, read());
        if thread::Builder::new().name("zone-report".into()).spawn(body).is_err() {
            // Without a thread nothing is known; who asks later tries again.
            cached.lock().reading = None;
        }
    }

    /// What is known of the zones of a device, however old that is. Waits for the first report for up to `first_wait`, and a moment for another
    /// one if the last one took no longer than that.
    ///
    /// # Errors
    /// Why nothing is known.
    pub fn get(&self, device: &str, need: Need, first_wait: Duration) -> Result<ZoneReport, String> {
        self.cached(device).get(need, first_wait)
    }

    fn cached(&self, device: &str) -> Arc<Cached> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = all.get(device) {
            return cached.clone();
        }
        if all.len() >= MAX_DEVICES {
            let idle = all.iter().min_by_key(|(_, cached)| cached.lock().asked).map(|(name, _)| name.clone());
            idle.into_iter().for_each(|name| _ = all.remove(&name));
        }
        let new = Arc::new(Cached { state: Mutex::new(State::new(Instant::now())), ended: Condvar::new() });
        all.insert(device.to_owned(), new.clone());
        new
    }
}

impl Cached {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, began: Instant, result: Result<Vec<Zone>, String>) {
        self.lock().end(began, result, Instant::now());
        self.ended.notify_all();
    }

    fn get(&self, need: Need, first_wait: Duration) -> Result<ZoneReport, String> {
        let state = self.lock();
        let patience = match state.known.as_ref().filter(|known| known.has(need)) {
            None => first_wait,
            Some(known) if known.took <= SHORT_WAIT => SHORT_WAIT,
            Some(_) => Duration::ZERO,
        };
        // The time counts from the begin of the report: several who come one after the other wait once.
        let waited = state.reading.map_or(Duration::ZERO, |began| began.elapsed());
        let left = patience.saturating_sub(waited);
        let waiting = self.ended.wait_timeout_while(state, left, |state| state.reading.is_some());
        let (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        state.answer(need, Instant::now())
    }
}

/// Reads the zones of the device called `name` on a shard. The device can go in between: then the report fails.
#[must_use]
pub fn reader(mailbox: Mailbox, name: String) -> ReadZones {
    Box::new(move || {
        let (mut zones, mut next, mut capacity) = (Vec::new(), 0, u64::MAX);
        while next < capacity {
            let name = name.clone();
            let ask = move |shard: &mut Shard, reply| report(shard, (&name, next), reply);
            let some: Part = mailbox.ask_slowly(REQUEST_TIME, ask).map_err(|error| error.to_string())?;
            let (some, sectors) = some?;
            // A device that does not move on would be asked for ever.
            let end = some.last().map(|zone| (zone.start + zone.len).0).filter(|end| *end > next);
            (next, capacity) = (end.ok_or("the device reports no zones")?, sectors);
            zones.extend(some);
        }
        Ok(zones)
    })
}

/// Some zones and the size of the device in sectors, or why there are none.
type Part = Result<(Vec<Zone>, u64), String>;

fn report(shard: &mut Shard, (name, start): (&str, u64), reply: Reply<Part>) {
    let Some(named) = shard.devices.find(name) else { return reply.send(Err(format!("there is no device `{name}`"))) };
    let limits = shard.stack.limits(named.device);
    let capacity = limits.capacity;
    if limits.zoned.is_none() {
        return reply.send(Err(format!("`{name}` is not zoned")));
    }
    let bio = Bio::new(Op::ReportZones, Sector(start), 0, Payload::Zones(Vec::with_capacity(AT_ONCE)));
    shard.submit(named.device, bio, move |shard, mut bio, status: Status| {
        let zones = match std::mem::take(&mut bio.payload) {
            Payload::Zones(zones) if status.is_ok() => Ok((zones, capacity)),
            _ => Err(format!("the report failed: {status} ({})", shard.devices.tell(&bio, status))),
        };
        reply.send(zones);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    use shingle_core::zone::ZoneKind;

    use super::*;

    const COUNTS: (Need, Duration) = (Need::Counts, Duration::from_secs(10));
    const ZONES: (Need, Duration) = (Need::Zones, Duration::from_millis(800));

    fn zones(count: u64) -> Vec<Zone> {
        let zone = |n| Zone {
            start: Sector(n),
            len: 1,
            capacity: 1,
            wp: Sector(n),
            kind: ZoneKind::Sequential,
            cond: Condition::Empty,
        };
        (0..count).map(zone).collect()
    }

    /// A device whose reports take so many seconds, asked at times that count from the first.
    struct Desk {
        state: State,
        start: Instant,
        seconds: u64,
    }

    impl Desk {
        fn new(seconds: u64) -> Self {
            let start = Instant::now();
            Self { state: State::new(start), start, seconds }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        /// Asks, and if a report begins has it end.
        fn asked(&mut self, want: (Need, Duration), seconds: u64) -> bool {
            let (began, ended) = (self.at(seconds), self.at(seconds + self.seconds));
            let begins = self.state.take_turn(want, began);
            if begins {
                self.state.end(began, Ok(zones(3)), ended);
            }
            begins
        }
    }

    #[test]
    fn reports_take_at_most_a_twentieth_of_a_disks_time() {
        let mut desk = Desk::new(4);
        let reports = (0..4000).filter(|second| desk.asked(ZONES, *second)).count() as u64;
        assert_eq!(reports, 4000 / (4 * 20), "4 s every 80 s, although somebody asks every second");
    }

    #[test]
    fn all_who_watch_share_one_budget() {
        let mut desk = Desk::new(1);
        let mut reports = 0;
        for second in 0..2000 {
            reports += u64::from(desk.asked(ZONES, second)) + u64::from(desk.asked(COUNTS, second));
        }
        assert!(reports * 20 <= 2000 + 20, "{reports} reports of 1 s in 2000 s");
    }

    #[test]
    fn what_is_young_enough_is_not_read_again() {
        let mut desk = Desk::new(0);
        assert!(desk.asked(COUNTS, 0) && !desk.asked(COUNTS, 9) && desk.asked(COUNTS, 10));
        assert!(desk.asked(ZONES, 11), "zones were not kept, and the report took no time");
        assert!(!desk.asked(COUNTS, 12), "the same report serves others");
    }

    #[test]
    fn who_first_needs_zones_does_not_wait_for_the_budget_but_uses_it_up() {
        let mut desk = Desk::new(4);
        assert!(desk.asked(COUNTS, 0));
        assert!(desk.asked(ZONES, 10));
        assert!(!desk.asked(ZONES, 159) && desk.asked(ZONES, 160), "two reports, so 160 s");
    }

    #[test]
    fn a_slow_report_is_shown_when_it_comes_with_its_age() {
        let reports = ZoneReports::default();
        let (finish, wait) = mpsc::channel::<()>();
        let read = move || {
            let _ = wait.recv();
            Ok(zones(5))
        };
        reports.begin("slow", ZONES, Box::new(read));
        let why = reports.get("slow", Need::Zones, Duration::ZERO).unwrap_err();
        assert!(why.contains("being read"), "{why}");
        reports.begin("slow", ZONES, Box::new(|| panic!("one report at a time")));
        finish.send(()).unwrap();
        let report = reports.get("slow", Need::Zones, Duration::from_secs(60)).unwrap();
        assert_eq!((report.zones.unwrap().len(), report.counts.iter().sum::<u32>()), (5, 5));
        assert!(report.began.elapsed() >= report.took);
    }

    #[test]
    fn what_is_known_is_told_while_a_slow_disk_is_read_again() {
        let (mut desk, later) = (Desk::new(5), ZONES);
        assert!(desk.asked(later, 0));
        assert!(desk.state.take_turn(later, desk.at(100)), "it is being read from now on");
        let known = desk.state.answer(Need::Zones, desk.at(104)).unwrap();
        assert_eq!(known.began, desk.at(0), "104 s old");
    }

    #[test]
    fn a_disk_that_fails_is_in_no_known_condition_and_is_not_asked_all_the_time() {
        let mut desk = Desk::new(0);
        assert!(desk.asked(ZONES, 0));
        assert!(desk.state.take_turn(ZONES, desk.at(1)));
        let (began, ended) = (desk.at(1), desk.at(3));
        desk.state.end(began, Err("it is gone".into()), ended);
        assert_eq!(desk.state.answer(Need::Counts, ended).unwrap_err(), "it is gone");
        assert!(!desk.asked(ZONES, 40) && desk.asked(ZONES, 41), "it took 2 s to fail");
    }

    #[test]
    fn zones_that_nobody_asks_for_are_dropped_and_their_counts_are_kept() {
        let mut desk = Desk::new(0);
        assert!(desk.asked(ZONES, 0));
        let (soon, late) = (desk.at(59), desk.at(60));
        desk.state.forget_zones(soon);
        assert!(desk.state.answer(Need::Zones, soon).is_ok());
        desk.state.forget_zones(late);
        assert!(desk.state.answer(Need::Zones, late).is_err() && desk.state.answer(Need::Counts, late).is_ok());
    }

    #[test]
    fn the_number_of_devices_is_bounded() {
        let (reports, read) = (ZoneReports::default(), Arc::new(AtomicU32::new(0)));
        for device in 0..MAX_DEVICES + 10 {
            let read = read.clone();
            let count = move || {
                read.fetch_add(1, Ordering::Relaxed);
                Ok(zones(1))
            };
            reports.begin(&device.to_string(), COUNTS, Box::new(count));
            assert!(reports.get(&device.to_string(), Need::Counts, FIRST_WAIT).is_ok());
        }
        assert_eq!(reports.0.lock().unwrap().len(), MAX_DEVICES);
    }
}
