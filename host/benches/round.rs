//! What a round of a shard costs beside sources that have nothing to do: ns, the median of several measurements.
//!
//! `cargo bench -p shingle-host --bench round`

use std::time::Instant;

use shingle_host::shard::{Pump, Shard, Source, SourceCx};
use shingle_sys::Completion;

const ROUNDS: u32 = 20_000;
const MEASUREMENTS: usize = 9;

/// A connection whose client says nothing, as its shard sees it.
struct Idle;

impl Source for Idle {
    fn on_completion(&mut self, _: Completion, _: &mut SourceCx<'_>) {}

    fn pump(&mut self, _: &mut SourceCx<'_>) -> Pump {
        Pump::Idle
    }

    fn stop(&mut self, _: &mut SourceCx<'_>) {}
}

fn ns_per_round(shard: &mut Shard) -> f64 {
    let began = Instant::now();
    for _ in 0..ROUNDS {
        shard.hurry();
        shard.round().expect("a round");
    }
    began.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

fn main() {
    println!("{:>12} {:>14}", "idle sources", "ns per round");
    for count in [0, 50, 500, 5_000] {
        let mut shard = Shard::new().expect("a shard: io_uring has to be allowed");
        for _ in 0..count {
            shard.spawn(Box::new(Idle));
        }
        shard.round().expect("a round");
        let mut measured: Vec<f64> = (0..MEASUREMENTS).map(|_| ns_per_round(&mut shard)).collect();
        measured.sort_by(f64::total_cmp);
        println!("{count:>12} {:>14.0}", measured[MEASUREMENTS / 2]);
    }
}
