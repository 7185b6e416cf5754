//! What a flush has to do: which files changed, which syncs run, who waits.
//!
//! Flushes run in rounds. A round syncs every file that had changed when it began and answers everybody who asked before;
//! who asks meanwhile waits for the next round. A file that is closed while it is changed is synced at once, and the round
//! that would have synced it waits for that sync: the kernel reports a failed write-back through an open file only.
//!
//! A sync that failed is not repeated: the kernel has marked the pages clean, so the next one would succeed without having
//! written them. The zone is given up and every flush fails until the disk is opened again.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use shingle_core::block::Status;
use shingle_core::zone::ZoneNo;

/// Most files that one round syncs at the same time.
const MOST_SYNCS: usize = 16;

/// Which of two rounds: one that runs, and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round(pub bool);

/// The state of all flushes of a disk. `W` is who waits.
pub(super) struct Flush<W> {
    changed: Vec<u64>,
    /// Zones whose bit is set, and perhaps others, for the next round.
    list: Vec<ZoneNo>,
    /// Zones that the running round has not looked at.
    todo: Vec<ZoneNo>,
    /// Syncs in flight, by round.
    syncs: [usize; 2],
    running: Option<Round>,
    last: Round,
    /// Of the running round, but for failed syncs.
    outcome: Status,
    waiting: Vec<W>,
    served: Vec<W>,
    failed: BTreeMap<ZoneNo, Arc<str>>,
}

/// What a running round does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Sync the file of this zone and call [`Flush::synced`].
    Sync(ZoneNo, Round),
    /// Wait for a sync.
    Wait,
    /// The round is over: answer everybody in [`Flush::take_served`] with this.
    Answer(Status),
    /// No round runs, and nobody waits.
    Idle,
}

impl<W> Flush<W> {
    pub fn new(zones: u32) -> Self {
        Self {
            changed: vec![0; zones.div_ceil(64) as usize],
            list: Vec::with_capacity(64),
            todo: Vec::with_capacity(64),
            syncs: [0; 2],
            running: None,
            last: Round(false),
            outcome: Status::Ok,
            waiting: Vec::with_capacity(16),
            served: Vec::with_capacity(16),
            failed: BTreeMap::new(),
        }
    }

    /// A change of `zone` is done and not durable.
    pub fn mark(&mut self, zone: ZoneNo) {
        let (word, bit) = (zone.index() / 64, 1 << (zone.0 % 64));
        if self.changed[word] & bit == 0 {
            self.changed[word] |= bit;
            self.list.push(zone);
        }
    }

    /// Somebody wants to know when all changes so far are durable.
    pub fn wait(&mut self, who: W) {
        self.waiting.push(who);
    }

    /// The file of `zone` is about to be closed. If it changed, the caller has to sync it for this round.
    pub fn closing(&mut self, zone: ZoneNo) -> Option<Round> {
        if !self.take_changed(zone) {
            return None;
        }
        let round = match self.running {
            // It may be one that the running round still has on its list.
            Some(round) if !self.todo.is_empty() => round,
            _ => Round(!self.last.0),
        };
        self.syncs[usize::from(round.0)] += 1;
        Some(round)
    }

    /// A sync is done. If it failed, tell [`Flush::fail`] first.
    pub fn synced(&mut self, round: Round) {
        self.syncs[usize::from(round.0)] -= 1;
    }

    /// A sync could not be started: the change stays, and those who wait in this round learn why.
    pub fn not_started(&mut self, zone: ZoneNo, round: Round, status: Status) {
        self.syncs[usize::from(round.0)] -= 1;
        self.mark(zone);
        if self.running == Some(round) {
            self.outcome = self.outcome.and(status);
        }
    }

    /// Whether a sync of `zone` failed, or its file was lost, since the disk was opened.
    pub fn has_failed(&self, zone: ZoneNo) -> bool {
        !self.failed.is_empty() && self.failed.contains_key(&zone)
    }

    /// Why changes of `zone` fail since the disk was opened, if they do.
    pub fn why_failed(&self, zone: ZoneNo) -> Option<&Arc<str>> {
        self.failed.get(&zone)
    }

    /// The same for flushes: why the first of the zones has failed.
    pub fn why_any_failed(&self) -> Option<&Arc<str>> {
        self.failed.values().next()
    }

    /// A sync of `zone` failed, or its file was lost, as `why` says: nobody knows what of it is durable.
    pub fn fail(&mut self, zone: ZoneNo, why: Arc<str>) {
        self.failed.entry(zone).or_insert(why);
    }

    /// What to do now. Call it until it says `Wait` or `Idle`.
    pub fn next(&mut self) -> Next {
        let Some(round) = self.running else { return self.begin() };
        let syncs = usize::from(round.0);
        while self.syncs[syncs] < MOST_SYNCS {
            let Some(zone) = self.todo.pop() else { break };
            if self.take_changed(zone) {
                self.syncs[syncs] += 1;
                return Next::Sync(zone, round);
            }
        }
        if self.syncs[syncs] > 0 {
            return Next::Wait;
        }
        self.running = None;
        Next::Answer(self.verdict(self.outcome))
    }

    /// What a flush is answered that went as `outcome` says: nothing is well once a zone has failed.
    pub fn verdict(&self, outcome: Status) -> Status {
        if self.failed.is_empty() { outcome } else { Status::Io }
    }

    fn begin(&mut self) -> Next {
        if self.waiting.is_empty() {
            return Next::Idle;
        }
        mem::swap(&mut self.waiting, &mut self.served);
        mem::swap(&mut self.list, &mut self.todo);
        self.last = Round(!self.last.0);
        self.running = Some(self.last);
        self.outcome = Status::Ok;
        self.next()
    }

    /// Takes out one of those that the last round answered.
    pub fn take_served(&mut self) -> Option<W> {
        self.served.pop()
    }

    fn take_changed(&mut self, zone: ZoneNo) -> bool {
        let (word, bit) = (zone.index() / 64, 1 << (zone.0 % 64));
        let was = self.changed[word] & bit != 0;
        self.changed[word] &= !bit;
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(flush: &mut Flush<u32>) -> Vec<u32> {
        let mut served: Vec<u32> = std::iter::from_fn(|| flush.take_served()).collect();
        served.sort_unstable();
        served
    }

    fn sync(next: Next) -> (ZoneNo, Round) {
        match next {
            Next::Sync(zone, round) => (zone, round),
            other => panic!("{other:?} instead of a sync"),
        }
    }

    #[test]
    fn a_flush_syncs_each_changed_file_once_and_the_next_one_nothing() {
        let mut flush = Flush::new(100);
        [3, 70, 3].into_iter().for_each(|zone| flush.mark(ZoneNo(zone)));
        assert_eq!(flush.next(), Next::Idle, "nobody asked");
        flush.wait(1);
        let (first, round) = sync(flush.next());
        let (second, _) = sync(flush.next());
        assert_eq!([first.0.min(second.0), first.0.max(second.0)], [3, 70]);
        assert_eq!(flush.next(), Next::Wait);
        flush.synced(round);
        assert_eq!(flush.next(), Next::Wait);
        flush.synced(round);
        assert_eq!((flush.next(), served(&mut flush)), (Next::Answer(Status::Ok), vec![1]));
        flush.wait(2);
        assert_eq!((flush.next(), served(&mut flush)), (Next::Answer(Status::Ok), vec![2]));
        assert_eq!(flush.next(), Next::Idle);
    }

    #[test]
    fn who_asks_during_a_round_waits_for_the_next_which_syncs_again() {
        let mut flush = Flush::new(8);
        flush.mark(ZoneNo(1));
        flush.wait(1);
        let (_, round) = sync(flush.next());
        flush.mark(ZoneNo(1));
        flush.wait(2);
        flush.wait(3);
        assert_eq!(flush.next(), Next::Wait);
        flush.synced(round);
        assert_eq!((flush.next(), served(&mut flush)), (Next::Answer(Status::Ok), vec![1]));
        let (_, round) = sync(flush.next());
        flush.synced(round);
        assert_eq!((flush.next(), served(&mut flush)), (Next::Answer(Status::Ok), vec![2, 3]));
    }

    #[test]
    fn a_round_waits_for_the_sync_of_a_file_that_was_closed_before() {
        let mut flush = Flush::new(8);
        assert_eq!(flush.closing(ZoneNo(1)), None, "it did not change");
        flush.mark(ZoneNo(1));
        let round = flush.closing(ZoneNo(1)).unwrap();
        flush.wait(1);
        assert_eq!(flush.next(), Next::Wait);
        flush.synced(round);
        assert_eq!((flush.next(), served(&mut flush)), (Next::Answer(Status::Ok), vec![1]));
    }

    #[test]
    fn a_round_waits_for_the_sync_of_a_file_that_is_closed_before_its_turn_comes() {
        let mut flush = Flush::new(100);
        (0..20).for_each(|zone| flush.mark(ZoneNo(zone)));
        flush.wait(1);
        let mut syncs: Vec<_> = (0..MOST_SYNCS).map(|_| sync(flush.next())).collect();
        assert_eq!(flush.next(), Next::Wait, "enough at once");
        syncs.extend((0..4).map(|zone| (ZoneNo(zone), flush.closing(ZoneNo(zone)).unwrap())));
        for (_, round) in syncs {
            assert_eq!(flush.next(), Next::Wait);
            flush.synced(round);
        }
        assert_eq!((flush.next(), served(&mut flush)), (Next::Answer(Status::Ok), vec![1]));
    }

    #[test]
    fn files_that_are_closed_during_a_round_do_not_hold_it_up_for_ever() {
        let mut flush = Flush::new(100);
        flush.mark(ZoneNo(0));
        flush.wait(1);
        let (_, round) = sync(flush.next());
        flush.mark(ZoneNo(7));
        let other = flush.closing(ZoneNo(7)).unwrap();
        assert_ne!(round, other);
        flush.synced(round);
        assert_eq!(flush.next(), Next::Answer(Status::Ok));
        flush.wait(2);
        assert_eq!(flush.next(), Next::Wait, "but the next round waits for them");
        flush.synced(other);
        assert_eq!(flush.next(), Next::Answer(Status::Ok));
    }

    #[test]
    fn a_sync_that_could_not_be_started_fails_its_round_and_is_done_by_the_next() {
        let mut flush = Flush::new(8);
        flush.mark(ZoneNo(5));
        flush.wait(1);
        let (zone, round) = sync(flush.next());
        flush.not_started(zone, round, Status::Resource);
        assert_eq!((flush.next(), served(&mut flush)), (Next::Answer(Status::Resource), vec![1]));
        flush.wait(2);
        let (_, round) = sync(flush.next());
        flush.synced(round);
        assert_eq!(flush.next(), Next::Answer(Status::Ok));
    }

    #[test]
    fn a_failed_sync_fails_this_flush_and_all_later_ones() {
        let mut flush = Flush::new(8);
        flush.mark(ZoneNo(5));
        flush.wait(1);
        let (zone, round) = sync(flush.next());
        flush.fail(zone, "a sync of it failed".into());
        flush.synced(round);
        assert_eq!((flush.next(), served(&mut flush)), (Next::Answer(Status::Io), vec![1]));
        flush.wait(2);
        assert_eq!(flush.next(), Next::Answer(Status::Io), "the pages are clean now, but they were never written");
        assert!(flush.has_failed(ZoneNo(5)) && !flush.has_failed(ZoneNo(4)));
    }
}
