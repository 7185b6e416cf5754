//! How much of the time a sweep takes: little while there is time for it, all of it when others wait for what comes of it.

use crate::time::Duration;

/// Of the time of a sweep that nobody waits for: 2,000 s of files at full rate are merged in some 100 s.
const LEAST: f64 = 0.12;

/// Of the time of a sweep that is ahead of what is added.
const LEAST_IN_STEP: f64 = 0.02;
/// By how much ahead that is, and the way from there to all of the time.
const AHEAD: f64 = 0.05;
const SPAN: f64 = 0.15;

/// How urgent it is that something is given back of which `used` is in use: not at all up to `from`, and 1 at `to`.
#[must_use]
pub fn urgency(used: usize, from: usize, to: usize) -> f64 {
    let span = to.saturating_sub(from).max(1) as f64;
    (used.saturating_sub(from) as f64 / span).min(1.0)
}

/// The share of time of a sweep. It grows slowly at first: most sweeps are over before it matters.
#[must_use]
pub fn duty(urgency: f64) -> f64 {
    let urgency = urgency.clamp(0.0, 1.0);
    LEAST + (1.0 - LEAST) * urgency * urgency
}

/// The share of time of a sweep that is to be over when the index is full: it keeps step with what users and cleaning add. `lag`: by how much more of
/// the index is full than the sweep is through with.
#[must_use]
pub fn in_step(lag: f64) -> f64 {
    let urgency = ((lag + AHEAD) / SPAN).clamp(0.0, 1.0);
    LEAST_IN_STEP + (1.0 - LEAST_IN_STEP) * urgency * urgency
}

/// How long a sweep rests behind a turn that took so long.
#[must_use]
pub fn rest(turn: Duration, duty: f64) -> Duration {
    Duration((turn.0 as f64 * (1.0 - duty) / duty) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_that_nobody_waits_for_takes_an_eighth_of_the_time_and_an_urgent_one_all_of_it() {
        let turn = Duration::from_millis(300);
        let share = |urgency| turn.0 as f64 / (turn.0 + rest(turn, duty(urgency)).0) as f64;
        assert!((0.1..0.2).contains(&share(0.0)));
        assert_eq!((rest(turn, duty(1.0)), rest(turn, duty(7.0))), (Duration::ZERO, Duration::ZERO));
        assert_eq!(rest(Duration::ZERO, duty(0.0)), Duration::ZERO);
    }

    #[test]
    fn the_share_grows_with_urgency_and_never_in_a_step() {
        let shares: std::vec::Vec<f64> = (0..=100).map(|percent| duty(f64::from(percent) / 100.0)).collect();
        assert!(shares.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] < 0.02), "{shares:?}");
    }

    #[test]
    fn a_sweep_keeps_step_with_what_is_added_whatever_share_of_time_that_takes() {
        for needed in [0.05, 0.2, 0.5, 0.9] {
            // Units of time in which the index would be full; the sweep alone would take this share of it.
            let (mut done, mut added) = (0.0, 0.0);
            while done < 1.0 {
                added += 0.001;
                done += 0.001 * in_step(added - done) / needed;
                assert!(added - done < AHEAD + SPAN, "{needed}: {added} were added, and {done} is done");
            }
            assert!((0.9..1.1).contains(&added), "{needed}: it was over at {added}");
        }
        assert_eq!(in_step(1.0), 1.0);
    }

    #[test]
    fn urgency_begins_where_a_sweep_does_and_is_whole_where_nothing_is_left() {
        let found = [0, 200, 228, 256, 300].map(|used| urgency(used, 200, 256));
        assert_eq!(found, [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!([4, 5, 6].map(|used| urgency(used, 5, 5)), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_sweep_that_lasts_as_long_as_a_stock_at_its_least_share_is_over_before_that_runs_out() {
        // A unit of the stock is used in each unit of time, of 56 that there are; the sweep needs this much time of its own.
        for work in [1.0, 6.0, 20.0, 40.0] {
            let (mut done, mut time) = (0.0, 0.0);
            while done < work {
                (done, time) = (done + 0.1 * duty(time / 56.0), time + 0.1);
            }
            assert!(time < 56.0 + work, "{work} took {time}");
            assert!(work > 20.0 || time < 56.0, "{work} took {time}");
        }
    }
}
