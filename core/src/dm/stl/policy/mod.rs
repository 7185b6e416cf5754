//! What `stl` decides, as pure functions.

mod analysis;
mod pace;
mod victim;

pub use analysis::{amplification, live_of_victims};
pub use pace::{Level, Pace};
pub use victim::{Candidate, Choice};
