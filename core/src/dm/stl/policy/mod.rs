//! What `stl` decides, as pure functions.

mod analysis;
mod victim;

pub use analysis::{amplification, live_of_victims};
pub use victim::{Candidate, Choice};
