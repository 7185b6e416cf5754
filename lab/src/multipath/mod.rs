//! Policies of multipath over simulated paths, beside an oracle.
//!
//! ```text
//!   load ──> submitter ──┬─> head with a policy ──┬─> path ──> ... ──> disk
//!            (one each   └─> oracle ──────────────┴─> path ──> ... ──> disk
//!             of 1 to 4)
//! ```
//!
//! A [`Trial`] is one world: the paths of a set, a load, and who chooses. Equal seeds give the paths the same weather, whoever chooses.

mod drawn;
mod load;
mod oracle;
mod outcome;
mod submitter;
#[cfg(test)]
mod tests;
mod trial;

pub use drawn::{Drawn, draw};
pub use load::{Arrival, Load};
pub use outcome::{Outcome, PathOutcome, Sample};
pub use submitter::AFTERWARDS;
pub use trial::{Contender, Trial};
