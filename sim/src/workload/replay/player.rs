//! When a recorded bio goes out again, and what came of it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use slab::Slab;

use super::fit::{Adjusted, Fit, PlacedIo, Ticket};
use shingle_core::block::{Bio, Data, Flags, Op, Payload, Status};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::{Duration, Instant};

/// One bio of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// When, since the first one.
    pub at: Duration,
    /// What for.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// First sector on the device that was recorded.
    pub sector: Sector,
    /// Length in sectors.
    pub sectors: u32,
}

/// When bios go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At their times, or as soon as the depth allows.
    AsRecorded,
    /// As soon as the depth allows.
    Max,
}

/// How work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayerOptions {
    /// When bios go out.
    pub pace: Pace,
    /// Most bios in flight, at least 1.
    pub depth: u32,
}

/// What came of one bio of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has not come back, or has not gone out.
    Pending,
    /// The device cannot do it: it was left out.
    Skipped,
    /// It came back.
    Done {
        /// When, since the start.
        at: Duration,
        /// How long after it went out.
        took: Duration,
        /// How.
        status: Status,
    },
}

/// What to do now.
#[derive(Debug)]
pub enum Next {
    /// Submit this bio under this tag, and ask again.
    Submit(u64, Box<Bio>),
    /// Nothing before this time, unless a bio comes back.
    At(Instant),
    /// Nothing before a bio comes back.
    Wait,
    /// Nothing any more.
    Done,
}

/// A bio that is out.
#[derive(Clone, Copy)]
struct Flight {
    /// Its place in the work; `None` for a reset that was put in.
    place: Option<u32>,
    since: Instant,
    ticket: Ticket,
}

/// Plays work.
pub struct Player {
    work: Box<[Work]>,
    outcomes: Vec<Outcome>,
    fit: Fit,
    options: PlayerOptions,
    next: usize,
    /// What the next reset was put in front of.
    behind_reset: Option<(u32, PlacedIo)>,
    flights: Slab<Flight>,
    started: Option<Instant>,
    latest: Duration,
    ended: Instant,
    pattern: Data,
    scratch: Data,
}

/// The byte that writes are filled with: recordings do not say what was written.
const PATTERN: u8 = 0xa5;

impl Player {
    /// Plays `work` where `fit` puts it.
    #[must_use]
    pub fn new(work: Box<[Work]>, fit: Fit, options: PlayerOptions) -> Self {
        let bytes = fit.longest as usize * SECTOR_BYTES as usize;
        let (pattern, scratch) = (Data::zeroed(bytes), Data::zeroed(bytes));
        pattern.fill(PATTERN);
        Self {
            outcomes: vec![Outcome::Pending; work.len()],
            work,
            fit,
            options,
            next: 0,
            behind_reset: None,
            flights: Slab::new(),
            started: None,
            latest: Duration::ZERO,
            ended: Instant::ZERO,
            pattern,
            scratch,
        }
    }

    /// What to do at `now`. The first call starts the replay.
    pub fn next(&mut self, now: Instant) -> Next {
        let started = *self.started.get_or_insert(now);
        loop {
            if self.in_flight() >= self.options.depth.max(1) {
                return Next::Wait;
            }
            if let Some((place, request)) = self.behind_reset.take() {
                return self.send(Some(place), request, now);
            }
            let Some(work) = self.work.get(self.next) else {
                return if self.in_flight() > 0 { Next::Wait } else { Next::Done };
            };
            let due = started + work.at;
            if self.options.pace == Pace::AsRecorded {
                if due > now {
                    return Next::At(due);
                }
                self.latest = self.latest.max(now.since(due));
            }
            let place = self.next as u32;
            self.next += 1;
            match self.fit.place(work) {
                Adjusted::Skip => self.outcomes[place as usize] = Outcome::Skipped,
                Adjusted::Io(request) => return self.send(Some(place), request, now),
                Adjusted::AfterReset(reset, request) => {
                    self.behind_reset = Some((place, request));
                    return self.send(None, reset, now);
                }
            }
        }
    }

    fn send(&mut self, place: Option<u32>, request: PlacedIo, now: Instant) -> Next {
        let PlacedIo { op, flags, sector, sectors, ticket } = request;
        let tag = self.flights.insert(Flight { place, since: now, ticket }) as u64;
        let memory = if op == Op::Read { &self.scratch } else { &self.pattern };
        let payload = match op.has_data() {
            true => Payload::Data(memory.slice(0, sectors as usize * SECTOR_BYTES as usize)),
            false => Payload::None,
        };
        Next::Submit(tag, Box::new(Bio::new(op, sector, sectors, payload).with_flags(flags)))
    }

    /// Takes back the bio that was submitted under `tag`.
    pub fn complete(&mut self, tag: u64, status: Status, now: Instant) {
        let Some(Flight { place, since, ticket }) = self.flights.try_remove(tag as usize) else { return };
        self.ended = now;
        if !status.is_ok() {
            self.fit.failed(ticket);
        }
        if let Some(place) = place {
            let (at, took) = (now.since(self.started.unwrap_or(now)), now.since(since));
            self.outcomes[place as usize] = Outcome::Done { at, took, status };
        }
    }

    /// Whether everything was done and is back.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.next == self.work.len() && self.flights.is_empty() && self.behind_reset.is_none()
    }

    /// Bios of the work that have gone out or were left out, and all of them.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.next, self.work.len())
    }

    /// Bios that have not come back.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.flights.len() as u32
    }

    /// The work, with what came of each bio.
    pub fn outcomes(&self) -> impl Iterator<Item = (&Work, &Outcome)> {
        self.work.iter().zip(&self.outcomes)
    }

    /// How the work was changed to be possible there.
    #[must_use]
    pub fn fit(&self) -> &Fit {
        &self.fit
    }

    /// How long after its time the latest bio went out, at [`Pace::AsRecorded`].
    #[must_use]
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// Time from the start until the last bio was back.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.ended.since(self.started.unwrap_or(self.ended))
    }
}
