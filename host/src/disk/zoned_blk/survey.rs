//! The zones of a disk by condition, for those who watch it. Only the disk knows which of its zones it has closed, so it is asked: beside the
//! shard, in small parts, and seldom.
//!
//! ```text
//!  a scrape ── begin ── counted lately? ── no ──> a thread ── report, some zones at a time ──> the disk
//!      <────── counted: what is known ────────────────┘
//! ```

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use shingle_core::sector::Sector;
use shingle_core::zone::Condition;

use super::calls::Calls;

/// A disk is not asked again before that.
const PERIOD: Duration = Duration::from_secs(10);
/// Asking it takes no more of the time than one part in so many.
const SHARE: u32 = 20;
/// What was counted so many periods ago is told no more.
const MOST_PERIODS: u32 = 6;
/// How long a disk is waited for by those who know nothing of it.
const PATIENCE: Duration = Duration::from_secs(3);
/// Zones that it is asked for at a time. In between it can go.
const AT_ONCE: usize = 1024;

/// What is known of the zones of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// How many are in each condition, in the order of [`Condition::ALL`].
    pub zones: [u32; Condition::ALL.len()],
    /// When the disk began to say so.
    pub asked: Instant,
}

/// Counts the zones of a disk now and then, for as long as somebody wants to know, and no longer than the disk is there.
pub struct Survey {
    calls: Weak<dyn Calls>,
    capacity: u64,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    under_way: Option<Instant>,
    /// When it was asked last and has answered, or failed to, and how long that took.
    last: Option<(Instant, Duration)>,
    known: Option<Surveyed>,
}

impl State {
    fn period(&self) -> Duration {
        self.last.map_or(PERIOD, |(_, took)| PERIOD.max(took * SHARE))
    }
}

impl Survey {
    /// That of a disk of `capacity` sectors.
    #[must_use]
    pub fn new(calls: &Arc<dyn Calls>, capacity: u64) -> Self {
        Self { calls: Arc::downgrade(calls), capacity, state: Mutex::default(), ended: Condvar::new() }
    }

    /// Has the disk asked, if that was not done lately. Waits for nothing.
    pub fn begin(self: &Arc<Self>, now: Instant) {
        if !self.take_turn(now) {
            return;
        }
        let survey = Arc::clone(self);
        let begun = thread::Builder::new().name("zone-survey".into()).spawn(move || survey.ask(now));
        if begun.is_err() {
            // Without a thread nothing is known; who asks later tries again.
            self.lock().under_way = None;
        }
    }

    /// What is known. Who comes while the disk is asked for the first time, or after long, waits a moment for it.
    #[must_use]
    pub fn counted(&self) -> Option<Surveyed> {
        self.counted_at(Instant::now())
    }

    fn counted_at(&self, now: Instant) -> Option<Surveyed> {
        let mut state = self.lock();
        let is_young = |state: &State, known: &Surveyed| {
            now.saturating_duration_since(known.asked) < state.period() * MOST_PERIODS
        };
        state.known = state.known.filter(|known| is_young(&state, known));
        if let (None, Some(begun)) = (state.known, state.under_way) {
            let patience = PATIENCE.saturating_sub(now.saturating_duration_since(begun));
            let wait = self.ended.wait_timeout_while(state, patience, |state| state.under_way.is_some());
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.known
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the disk is to be asked now, and by who has called this.
    fn take_turn(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let is_due = state.last.is_none_or(|(asked, _)| now.saturating_duration_since(asked) >= state.period());
        if is_due && state.under_way.is_none() {
            state.under_way = Some(now);
            return true;
        }
        false
    }

    fn ask(&self, asked: Instant) {
        let zones = self.count();
        let mut state = self.lock();
        (state.under_way, state.last) = (None, Some((asked, asked.elapsed())));
        // A disk that does not tell any more is in no condition that is known.
        state.known = zones.ok().map(|zones| Surveyed { zones, asked });
        self.ended.notify_all();
    }

    /// One that was closed meanwhile is not kept open: somebody else may want it.
    fn count(&self) -> io::Result<[u32; Condition::ALL.len()]> {
        let (mut counts, mut next) = ([0; Condition::ALL.len()], 0);
        let mut zones = Vec::with_capacity(AT_ONCE);
        while next < self.capacity {
            zones.clear();
            self.calls.upgrade().ok_or(Errno::NODEV)?.report(Sector(next), &mut zones)?;
            // A disk that does not move on would be asked for ever.
            let end = zones.last().map(|zone| (zone.start + zone.len).0).filter(|end| *end > next);
            next = end.ok_or(Errno::NODEV)?;
            let some = Condition::count(zones.iter().map(|zone| zone.cond));
            counts.iter_mut().zip(some).for_each(|(count, more)| *count += more);
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use shingle_core::block::Payload;
    use shingle_core::zone::{Zone, ZoneKind};
    use shingle_sys::zoned_block::ZoneCommand;

    use super::*;

    /// A disk of 3000 zones of one sector: as many are full as `full` says, the rest is empty.
    #[derive(Default)]
    struct Disk {
        full: AtomicU32,
        reports: AtomicU32,
        is_gone: Mutex<bool>,
    }

    const ZONES: u64 = 3000;

    impl Calls for Disk {
        fn report(&self, from: Sector, zones: &mut Vec<Zone>) -> io::Result<()> {
            self.reports.fetch_add(1, Ordering::Relaxed);
            if *self.is_gone.lock().unwrap() {
                return Err(Errno::NODEV.into());
            }
            let full = u64::from(self.full.load(Ordering::Relaxed));
            let zone = |n: u64| {
                let (wp, cond) = if n < full { (n + 1, Condition::Full) } else { (n, Condition::Empty) };
                Zone { start: Sector(n), len: 1, capacity: 1, wp: Sector(wp), kind: ZoneKind::Sequential, cond }
            };
            zones.extend((from.0..ZONES).take(zones.capacity()).map(zone));
            Ok(())
        }

        fn manage(&self, _: ZoneCommand, _: Sector, _: u64) -> io::Result<()> {
            unreachable!("who watches changes nothing")
        }

        fn write(&self, _: u64, _: (&Payload, usize), _: bool) -> io::Result<usize> {
            unreachable!("who watches changes nothing")
        }

        fn sectors(&self) -> io::Result<u64> {
            Ok(ZONES)
        }
    }

    struct Desk {
        disk: Arc<Disk>,
        survey: Survey,
        start: Instant,
    }

    impl Desk {
        fn new() -> Self {
            let disk = Arc::new(Disk::default());
            let calls: Arc<dyn Calls> = disk.clone();
            let survey = Survey::new(&calls, ZONES);
            Self { disk, survey, start: Instant::now() }
        }

        /// So long after the start.
        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        /// Full zones that a scrape is told at this time, whose thread is done at once.
        fn full(&self, seconds: u64) -> Option<u32> {
            let now = self.at(seconds);
            if self.survey.take_turn(now) {
                self.survey.ask(now);
            }
            self.known(seconds)
        }

        fn known(&self, seconds: u64) -> Option<u32> {
            let Surveyed { zones, .. } = self.survey.counted_at(self.at(seconds))?;
            assert_eq!(zones.iter().sum::<u32>(), ZONES as u32);
            Some(Condition::ALL.into_iter().zip(zones).find(|(cond, _)| *cond == Condition::Full).unwrap().1)
        }

        fn reports(&self) -> u32 {
            self.disk.reports.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_disk_is_asked_in_parts_and_not_again_for_ten_seconds() {
        let desk = Desk::new();
        desk.disk.full.store(7, Ordering::Relaxed);
        assert_eq!((desk.full(0), desk.reports()), (Some(7), 3));
        desk.disk.full.store(8, Ordering::Relaxed);
        assert_eq!((desk.full(9), desk.reports()), (Some(7), 3));
        assert_eq!((desk.full(10), desk.reports()), (Some(8), 6));
    }

    /// The kernel answers for a disk only when that does, which may take minutes.
    #[test]
    fn who_watches_a_disk_that_does_not_answer_gets_what_is_known_for_a_minute_and_then_nothing_without_waiting() {
        let desk = Desk::new();
        assert_eq!(desk.full(0), Some(0));
        assert!(desk.survey.take_turn(desk.at(15)), "asked, and it does not answer");
        assert!(!desk.survey.take_turn(desk.at(30)), "it is asked once");
        assert_eq!(desk.known(59), Some(0));
        assert_eq!(desk.known(60), None);
        desk.survey.ask(desk.at(15));
        assert_eq!(desk.known(60), Some(0), "at last");
    }

    #[test]
    fn a_disk_that_fails_to_answer_has_no_zones_to_tell_of_and_is_asked_again_later() {
        let desk = Desk::new();
        assert_eq!(desk.full(0), Some(0));
        *desk.disk.is_gone.lock().unwrap() = true;
        assert_eq!((desk.full(10), desk.reports()), (None, 4));
        assert_eq!((desk.full(11), desk.reports()), (None, 4));
        *desk.disk.is_gone.lock().unwrap() = false;
        assert_eq!(desk.full(20), Some(0));
    }

    #[test]
    fn a_disk_that_was_closed_is_not_kept_open_by_who_watches_it() {
        let Desk { disk, survey, start } = Desk::new();
        assert_eq!(Arc::strong_count(&disk), 1);
        drop(disk);
        assert!(survey.take_turn(start));
        survey.ask(start);
        assert_eq!(survey.counted_at(start), None);
    }

    #[test]
    fn a_thread_asks_the_disk() {
        let Desk { disk, survey, start } = Desk::new();
        let survey = Arc::new(survey);
        survey.begin(start);
        let told = std::iter::repeat_with(|| survey.counted()).flatten().next();
        assert_eq!(told.map(|told| told.zones.iter().sum()), Some(ZONES as u32));
        drop(disk);
    }
}
