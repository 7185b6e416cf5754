//! A simulated drive under load: a clock that jumps to whatever happens next.

use shingle_core::block::{DeviceId, Stack};
use shingle_core::device::NullConfig;
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::time::{Duration, Instant};

use super::clock::Clock;
use super::run::Host;
use shingle_host::config::add_plug;
use shingle_host::profile::{Model, Profile, ProfileError};

/// Time that a null device takes for an I/O unless told otherwise (`completion_nsec` of `null_blk`).
pub const NULL_COMPLETION: Duration = Duration::from_micros(10);
/// Most bytes that a simulated drive is asked to keep for verification.
pub const MOST_KEPT: u64 = 16 << 30;
/// Turns without any time passing after which it is clear that none ever will.
const MOST_TURNS: u32 = 1 << 20;

/// A stack over a simulated drive, with a plug if it is zoned.
pub struct Drive {
    /// The stack.
    pub stack: Stack,
    /// The device on top.
    pub top: DeviceId,
    /// How writes to its zones are ordered; `None` for a regular drive.
    pub policy: Option<WritePolicy>,
}

/// What a drive is made from.
#[derive(Clone, Debug)]
pub enum DriveSpec {
    /// A null device with a completion time.
    Null(NullConfig),
    /// A profile.
    Profile(Box<Profile>),
}

impl DriveSpec {
    /// `null`, the name of a profile or the path of one. `null` is the device if it is given.
    pub fn find(name: &str, null: Option<NullConfig>) -> Result<Self, ProfileError> {
        match (name, null) {
            ("null", Some(null)) => Ok(Self::Null(null)),
            ("null", None) => Ok(Self::Null(NullConfig::new((64 << 30) / 512))),
            (name, _) => Ok(Self::Profile(Box::new(Profile::find(name)?))),
        }
    }

    /// Builds it. `keep_data`: what is written is there when it is read; that costs memory.
    pub fn build(&self, policy: Option<WritePolicy>, keep_data: bool) -> Result<Drive, String> {
        let mut stack = Stack::new();
        let leaf = match self {
            Self::Null(config) => {
                let completion = if config.completion == Duration::ZERO { NULL_COMPLETION } else { config.completion };
                Model::Null(NullConfig { completion, ..config.clone() }).add_to(&mut stack, keep_data)
            }
            Self::Profile(profile) => profile.model.add_to(&mut stack, keep_data),
        };
        let leaf = leaf.map_err(|error| error.to_string())?;
        let mut options = PlugOptions::for_device(stack.limits(leaf));
        options.policy = policy.unwrap_or(options.policy);
        let plug = add_plug(&mut stack, leaf, options)?;
        if plug.is_none() && policy.is_some() {
            return Err("the drive is not zoned: only zoned drives have a write policy".into());
        }
        let policy = plug.and_then(|plug| stack.device::<ZonePlug>(plug)).map(ZonePlug::policy);
        Ok(Drive { stack, top: plug.unwrap_or(leaf), policy })
    }
}

/// Runs a stack of simulated devices: time is what they take.
pub struct Simulated {
    stack: Stack,
    now: Instant,
    /// When the stack next has something to do.
    next: Option<Instant>,
    /// When who drives it has.
    alarm: Option<Instant>,
    /// Turns since the time last moved.
    still: u32,
}

impl Simulated {
    /// Runs `stack` from time zero.
    pub fn new(stack: Stack) -> Self {
        Self { stack, now: Instant::ZERO, next: None, alarm: None, still: 0 }
    }

    fn advance(&mut self, in_flight: bool) -> Result<(), String> {
        let next = [self.next, self.alarm.take()].into_iter().flatten().min();
        if self.stack.has_arrivals() || next.is_some_and(|next| next <= self.now) {
            self.still += 1;
            let stands = || {
                "virtual time stands still: the simulated drive answers at once; give it a time, in its profile or as \
                 in --null completion=10us"
            };
            return if self.still < MOST_TURNS { Ok(()) } else { Err(stands().into()) };
        }
        match next {
            Some(next) => (self.now, self.still) = (next, 0),
            None if in_flight => {
                return Err("I/O is in flight, and nothing in the simulated drive will ever end it".into());
            }
            None => {}
        }
        Ok(())
    }
}

impl Host for Simulated {
    fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    fn turn(&mut self, in_flight: bool) -> Result<Instant, String> {
        self.advance(in_flight)?;
        self.next = self.stack.turn(self.now);
        Ok(self.now)
    }

    fn alarm(&mut self, at: Instant) {
        self.alarm = Some(self.alarm.map_or(at, |other| other.min(at)));
    }

    fn clock(&self) -> Clock {
        Clock::Virtual(self.now)
    }
}
