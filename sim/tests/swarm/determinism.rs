//! One seed, one run: the trace of a world is the same to the byte.

use shingle_sim::swarm::{Profile, SwarmOptions, run};

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let options = SwarmOptions { profile: Profile::All, trace: true, ..SwarmOptions::default() };
    for seed in [0, 1, 47, 1_000_003] {
        let (first, second) = (run(seed, &options).unwrap(), run(seed, &options).unwrap());
        let text = first.trace.as_deref().expect("a trace was asked for");
        assert!(text.lines().count() as u64 > first.events, "{} events, {} lines", first.events, text.lines().count());
        assert!(first == second, "seed {seed} took two ways");
    }
}

#[test]
fn the_sum_of_a_trace_does_not_depend_on_whether_it_is_kept() {
    for seed in 0..5 {
        let sum = |trace| run(seed, &SwarmOptions { trace, ..SwarmOptions::default() }).unwrap().sum;
        assert_eq!(sum(true), sum(false));
    }
}

#[test]
fn another_seed_gives_another_trace() {
    let sum = |seed| run(seed, &SwarmOptions::default()).unwrap().sum;
    let sums: std::collections::BTreeSet<u64> = (0..20).map(sum).collect();
    assert_eq!(sums.len(), 20);
}
