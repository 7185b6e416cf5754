//! The test: takes the power from a log at a drawn moment, opens it again, and compares.

use std::fmt;

use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};

use crate::log::{Acknowledge, Log};
use crate::machine::Machine;

/// The power goes within this time.
const LONGEST: Duration = Duration::from_millis(20);

/// How a run ended that lost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Records that were acknowledged.
    pub acknowledged: usize,
    /// Records that are there: at most one more.
    pub found: usize,
    /// When the power went.
    pub at: Instant,
}

/// A promise that was broken.
#[derive(Debug)]
pub struct Broken {
    seed: u64,
    at: Instant,
    why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, power lost after {} ns: {}", self.seed, self.at.0, self.why)
    }
}

impl std::error::Error for Broken {}

/// One life of a log, and the beginning of the next. The same seed does the same.
///
/// # Errors
/// If a record that was acknowledged is gone, or one is there that nobody appended.
pub fn crash(seed: u64, acknowledge: Acknowledge) -> Result<End, Broken> {
    let mut rng = Rng::new(seed);
    let mut machine = Machine::new(rng.draw());
    let at = Instant(1 + rng.below(LONGEST.0));
    machine.cut_power_at(at);
    let broken = |why: String| Broken { seed, at, why };
    let mut log = Log::open(machine, acknowledge).map_err(broken)?;
    // It ends with the power.
    let acknowledged = (0..).take_while(|record| log.append(*record).is_ok()).count();
    let mut machine = log.into_drive();
    machine.power_on();
    let mut log = Log::open(machine, acknowledge).map_err(broken)?;
    let found = log.records().len();
    if !(acknowledged..=acknowledged + 1).contains(&found) {
        return Err(broken(format!("{acknowledged} records were acknowledged, {found} are there")));
    }
    if !log.records().iter().copied().eq(0..found as u64) {
        return Err(broken(format!("the records are {:?}", log.records())));
    }
    // The plug has asked where the pointers are, and the log goes on from there.
    log.append(found as u64).map_err(broken)?;
    Ok(End { acknowledged, found, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_life() {
        for seed in 0..50 {
            assert_eq!(
                crash(seed, Acknowledge::AfterTheFlush).unwrap(),
                crash(seed, Acknowledge::AfterTheFlush).unwrap()
            );
        }
    }

    #[test]
    fn the_power_goes_between_commands_and_in_them() {
        let ends: Vec<End> = (0..300).map(|seed| crash(seed, Acknowledge::AfterTheFlush).unwrap()).collect();
        assert!(ends.iter().any(|end| end.found == end.acknowledged));
        assert!(ends.iter().any(|end| end.found > end.acknowledged), "a record is there before it is acknowledged");
    }

    #[test]
    fn a_log_that_answers_early_is_caught_by_many_seeds() {
        let caught = (0..300).filter(|seed| crash(*seed, Acknowledge::BeforeTheFlush).is_err()).count();
        assert!(caught > 100, "{caught}");
    }
}
