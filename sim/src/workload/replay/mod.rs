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

pub use fit::{Adjusted, Fit, FitError, Origin, OriginZone, PlacedIo};
pub use player::{Next, Outcome, Pace, Player, PlayerOptions, Work};

use crate::{Actor, Io};
use shingle_core::block::{Completion, DeviceId, Limits, Payload, Status};
use shingle_core::zone::Zone;

/// An actor that does recorded work on a device.
pub struct Replay {
    device: DeviceId,
    /// What is to be done, as long as nothing is known of the device's zones.
    work: Option<(Origin, Box<[Work]>, PlayerOptions)>,
    /// Who does it, or why it cannot be done there.
    player: Option<Result<Player, FitError>>,
}

impl Replay {
    /// Does `work`, recorded on a device like `origin`, on `device`.
    #[must_use]
    pub fn new(device: DeviceId, origin: Origin, work: Box<[Work]>, options: PlayerOptions) -> Self {
        Self { device, work: Some((origin, work, options)), player: None }
    }

    /// What came of it so far; the error says why the work cannot be done there. `None` before the first act.
    #[must_use]
    pub fn player(&self) -> Option<Result<&Player, &FitError>> {
        self.player.as_ref().map(Result::as_ref)
    }

    fn begin(&mut self, report: Result<&[Zone], Status>, limits: &Limits) {
        let Some((origin, work, options)) = self.work.take() else { return };
        let fit = report.map_err(FitError::NoReport).and_then(|zones| Fit::new(origin, &work, limits, zones));
        self.player = Some(fit.map(|fit| Player::new(work, fit, options)));
    }
}

impl Actor for Replay {
    fn act(&mut self, io: &mut Io<'_>) {
        if self.work.is_some() && io.outstanding() == 0 {
            match io.limits(self.device).zones() {
                0 => self.begin(Ok(&[]), io.limits(self.device)),
                _ => io.report_zones(0, self.device),
            }
        }
        while let Some(Completion { tag, bio, status }) = io.completion() {
            match (&mut self.player, &bio.payload) {
                (Some(Ok(player)), _) => player.complete(tag, status, io.now()),
                (_, Payload::Zones(zones)) if status.is_ok() => self.begin(Ok(zones), io.limits(self.device)),
                _ => self.begin(Err(status), io.limits(self.device)),
            }
        }
        let Some(Ok(player)) = &mut self.player else { return };
        loop {
            match player.next(io.now()) {
                Next::Submit(tag, bio) => io.submit(tag, self.device, bio),
                Next::At(at) => return io.wake_at(at),
                Next::Wait | Next::Done => return,
            }
        }
    }

    fn is_done(&self) -> bool {
        self.player().is_some_and(|player| player.map_or(true, Player::is_done))
    }
}
