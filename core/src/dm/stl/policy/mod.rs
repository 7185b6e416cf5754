//! What `stl` decides, as pure functions.

mod analysis;
mod duty;
mod pace;
mod readers;
mod scattered;
mod spindle;
mod tier;
mod victim;
mod writers;

pub use analysis::{amplification, live_of_victims};
pub use duty::{duty, in_step, rest, urgency};
pub use pace::{Level, Pace};
#[cfg(test)]
pub(super) use readers::READERS;
pub use readers::{Readers, follows};
pub use scattered::Scattered;
pub use spindle::Spindle;
pub use tier::tier;
pub use victim::{Candidate, Choice};
pub use writers::Writers;
