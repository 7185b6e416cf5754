//! What cleaning costs where every block is written as often as any other: the worst case, and the one that has a formula.

/// How much of a zone is still live when it is its turn to be cleaned, as a share of it, if `used` of all the space that zones have for
/// data is live. Zones take turns; in the time of one turn a block lives on if none of the writes of users hits it:
/// `v = exp(-(1 - v) / used)` (Xiang and Kurkoski, arXiv 1110.4245; with large zones greedy cleaning does the same).
#[must_use]
pub fn live_of_victims(used: f64) -> f64 {
    if used >= 1.0 {
        return 1.0;
    }
    // The other root is 1. From 0 the steps go up to the first one and not beyond.
    let mut live = 0.0;
    for _ in 0..100_000 {
        let next = libm::exp(-(1.0 - live) / used);
        if next - live < 1e-12 {
            break;
        }
        live = next;
    }
    live
}

/// Blocks written for each block that a user writes.
#[must_use]
pub fn amplification(used: f64) -> f64 {
    1.0 / (1.0 - live_of_victims(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplification_is_what_was_published_and_simulated() {
        // Over-provision of 0.3: 2.36, simulated 2.35 (Xiang and Kurkoski).
        assert!((amplification(1.0 / 1.3) - 2.36).abs() < 0.01);
        // A FIFO of 1,024 zones of 256 blocks, simulated.
        for (used, simulated) in [(0.50, 1.25), (0.70, 1.87), (0.80, 2.69), (0.85, 3.50), (0.90, 5.14), (0.95, 10.0)] {
            let ratio = amplification(used) / simulated;
            assert!((0.98..1.02).contains(&ratio), "{used}: {} against {simulated}", amplification(used));
        }
    }

    #[test]
    fn an_empty_volume_costs_nothing_and_a_full_one_everything() {
        assert!((amplification(0.01) - 1.0).abs() < 1e-9);
        assert_eq!(live_of_victims(1.0), 1.0);
        assert!(amplification(0.999) > 400.0);
        let costs: std::vec::Vec<f64> = (1..100).map(|percent| amplification(f64::from(percent) / 100.0)).collect();
        assert!(costs.is_sorted());
    }
}
