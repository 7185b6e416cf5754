//! Parameters of a link.

use super::retransmission::Retransmission;
use super::steps::Steps;
use super::traffic::Traffic;
use super::windows::Windows;
use crate::error::{Fault, check};
use crate::service::ServiceTime;
use shingle_core::time::Duration;

/// Parameters of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Time from the end of the transfer until the device below gets a bio.
    pub there: ServiceTime,
    /// Time from the end of the transfer until the bio is back.
    pub back: ServiceTime,
    /// What is added to both from certain times on.
    pub steps: Steps,
    /// Rate of each direction, in bytes per second; `None`: transfers take no time.
    pub rate: Option<u64>,
    /// What others send over the same wires.
    pub traffic: Option<Traffic>,
    /// Most bios on the way or below; `None`: any number. The others wait in order of arrival.
    pub depth: Option<u32>,
    /// Whether each direction delivers in order, so that one late bio delays those behind it: one connection, and not one per queue.
    pub ordered: bool,
    /// Of a million bios, how many get lost: half of them on the way there, half on the way back.
    pub lost_ppm: u32,
    /// Of a million bios, how many fail as a transport error: half of them before the device saw them, half after.
    pub failed_ppm: u32,
    /// How what gets lost is sent again; `None`: it is not.
    pub retransmission: Option<Retransmission>,
    /// When nothing moves: what is on a wire waits, and goes on afterwards.
    pub stalls: Windows,
    /// When the other end has no room for data: writes wait for it and hold up nothing else (transfer ready of Fibre Channel and of
    /// NVMe/TCP).
    pub write_stalls: Windows,
    /// When the cable is pulled: what is on a wire, or is put on it, gets lost. With `retransmission` it is sent again.
    pub downs: Windows,
    /// What fails at once.
    pub refusals: Refusals,
    /// When a bio has had no answer for so long, all that is under way is given up; `None`: only if somebody says so.
    pub give_up_after: Option<Duration>,
    /// Time after which nothing that was given up is still delivered to the device below; `None`: nobody knows one.
    pub silent_after: Option<Duration>,
    /// Shortest time from giving up until bios are taken again; before, and while nothing moves or the cable is pulled, they are refused.
    pub reconnect: Duration,
    /// Whether data travels, so that a command that was given up has its own; if not, devices below may not look at it.
    pub keep_data: bool,
    /// Seed of latencies and faults.
    pub seed: u64,
}

/// Bios that fail without being sent, as they do on a path of which the host knows that it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// Of a million bios, how many.
    pub ppm: u32,
    /// When; without windows always.
    pub windows: Windows,
    /// Time until such a bio is back, also on a path that was given up.
    pub after: Duration,
}

impl Default for Refusals {
    /// None; the time is a guess at what a host needs for it.
    fn default() -> Self {
        Self { ppm: 0, windows: Windows::default(), after: Duration::from_micros(5) }
    }
}

impl Default for LinkConfig {
    /// A link that is not noticed.
    fn default() -> Self {
        Self {
            there: ServiceTime::NONE,
            back: ServiceTime::NONE,
            steps: Steps::default(),
            rate: None,
            traffic: None,
            depth: None,
            ordered: true,
            lost_ppm: 0,
            failed_ppm: 0,
            retransmission: None,
            stalls: Windows::default(),
            write_stalls: Windows::default(),
            downs: Windows::default(),
            refusals: Refusals::default(),
            give_up_after: None,
            silent_after: None,
            reconnect: Duration::ZERO,
            keep_data: true,
            seed: 1,
        }
    }
}

impl LinkConfig {
    /// Checks that the parameters go together.
    pub(super) fn validate(&self) -> Result<(), Fault> {
        self.there.check("there")?;
        self.back.check("back")?;
        self.steps.check()?;
        self.traffic.as_ref().map_or(Ok(()), Traffic::check)?;
        self.retransmission.as_ref().map_or(Ok(()), Retransmission::check)?;
        self.stalls.check("stalls")?;
        self.write_stalls.check("write_stalls")?;
        self.downs.check("downs")?;
        self.refusals.windows.check("refusals.windows")?;
        let faults = u64::from(self.lost_ppm) + u64::from(self.failed_ppm);
        let some = |time: Option<Duration>| time != Some(Duration::ZERO);
        check([
            (self.rate != Some(0), "rate", "is 0 bytes per second: leave it out for no bound"),
            (self.depth != Some(0), "depth", "is 0 bios: leave it out for no bound"),
            (faults <= 1_000_000, "lost_ppm and failed_ppm", "are more than a million in a million"),
            (self.refusals.ppm <= 1_000_000, "refusals.ppm", "is more than a million in a million"),
            // Who sends again at once would never get on in time.
            (self.refusals.after > Duration::ZERO, "refusals.after", "is 0: a refusal takes some time"),
            (some(self.give_up_after), "give_up_after", "is 0: leave it out for never"),
            (some(self.silent_after), "silent_after", "is 0: leave it out for no bound"),
        ])
    }
}
