//! A recorded workload, done again on another device.
//!
//! ```text
//!  work ──> Player: when, and how many at a time ──> Fit: where on this device ──> submit
//!             └────────── outcomes, in the order of the work ──────────────────────── completions
//! ```
//!
//! [`Player`] and [`Fit`] decide and do no I/O: [`Replay`] is the actor around them, and a real stack has a loop around the
//! same two.

mod fit;
mod player;

use alloc::boxed::Box;

pub use fit::{Adjusted, Fit, FitError, Origin, OriginZone, Request};
pub use player::{Next, Outcome, Pace, Player, PlayerOptions, Work};

use crate::{Actor, Io};
use shingle_core::block::{Bio, Completion, DeviceId, Op, Payload};
use shingle_core::sector::Sector;

/// The tag of the report at the start; a player's tags are below 2^32.
const REPORT: u64 = u64::MAX;

enum Stage {
    /// Nothing was done yet.
    New(Origin, Box<[Work]>, PlayerOptions),
    /// The zones are asked for.
    Asked(Origin, Box<[Work]>, PlayerOptions),
    Playing(Box<Player>),
    /// The work cannot be done on this device.
    Refused(FitError),
}

/// An actor that does recorded work on a device.
pub struct Replay {
    device: DeviceId,
    stage: Option<Stage>,
}

impl Replay {
    /// Does `work`, recorded on a device like `origin`, on `device`.
    #[must_use]
    pub fn new(device: DeviceId, origin: Origin, work: Box<[Work]>, options: PlayerOptions) -> Self {
        Self { device, stage: Some(Stage::New(origin, work, options)) }
    }

    /// What came of it so far; the error says why the work cannot be done there. `None` before the first act.
    #[must_use]
    pub fn player(&self) -> Option<Result<&Player, &FitError>> {
        match self.stage.as_ref()? {
            Stage::New(..) | Stage::Asked(..) => None,
            Stage::Playing(player) => Some(Ok(player)),
            Stage::Refused(error) => Some(Err(error)),
        }
    }

    fn advance(&self, stage: Stage, io: &mut Io<'_>) -> Stage {
        match stage {
            Stage::New(origin, work, options) => {
                let zones = io.limits(self.device).zones() as usize;
                let report = Payload::Zones(alloc::vec::Vec::with_capacity(zones));
                if zones == 0 {
                    return self.begin(origin, work, options, (&[], io));
                }
                io.submit(REPORT, self.device, Box::new(Bio::new(Op::ReportZones, Sector::ZERO, 0, report)));
                Stage::Asked(origin, work, options)
            }
            Stage::Asked(origin, work, options) => match io.completion() {
                None => Stage::Asked(origin, work, options),
                Some(Completion { bio, status, .. }) => match &bio.payload {
                    Payload::Zones(zones) if status.is_ok() => self.begin(origin, work, options, (zones, io)),
                    _ => Stage::Refused(FitError::NoReport(status)),
                },
            },
            Stage::Playing(mut player) => {
                while let Some(Completion { tag, status, .. }) = io.completion() {
                    player.complete(tag, status, io.now());
                }
                self.play(&mut player, io);
                Stage::Playing(player)
            }
            refused @ Stage::Refused(_) => refused,
        }
    }

    fn begin(
        &self,
        origin: Origin,
        work: Box<[Work]>,
        options: PlayerOptions,
        (zones, io): (&[shingle_core::zone::Zone], &mut Io<'_>),
    ) -> Stage {
        match Fit::new(origin, &work, io.limits(self.device), zones) {
            Err(error) => Stage::Refused(error),
            Ok(fit) => {
                let mut player = Box::new(Player::new(work, fit, options));
                self.play(&mut player, io);
                Stage::Playing(player)
            }
        }
    }

    fn play(&self, player: &mut Player, io: &mut Io<'_>) {
        loop {
            match player.next(io.now()) {
                Next::Submit(tag, bio) => io.submit(tag, self.device, bio),
                Next::At(at) => return io.wake_at(at),
                Next::Wait | Next::Done => return,
            }
        }
    }
}

impl Actor for Replay {
    fn act(&mut self, io: &mut Io<'_>) {
        if let Some(stage) = self.stage.take() {
            self.stage = Some(self.advance(stage, io));
        }
    }

    fn is_done(&self) -> bool {
        match &self.stage {
            Some(Stage::Playing(player)) => player.is_done(),
            Some(Stage::Refused(_)) => true,
            _ => false,
        }
    }
}
