//! What a copy of words costs beside `copy_from_slice`, and beside the loop of relaxed accesses that it replaces.
//!
//! `cargo bench -p shingle-mem` prints nanoseconds a copy and ratios. Hot: the same memory again and again. Cold: in
//! memory of [`SPAN`] bytes, always elsewhere. `+8`: the target lies 8 bytes behind a line. All take turns within each
//! round, so their ratios hold on a noisy machine; every figure is the median of the rounds.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const SIZES: [usize; 7] = [64, 512, 1024, 2048, 4096, 64 << 10, 1 << 20];
const SPAN: usize = 256 << 20;
const ROUNDS: usize = 301;

/// One way to copy, in places of memory of its own.
struct Way<'a> {
    name: &'static str,
    copy: Box<dyn FnMut(usize, usize, usize) + 'a>,
    times: Vec<f64>,
}

fn main() {
    let words = shingle_mem::zeroed(SPAN / 8).expect("memory");
    let mut bytes = vec![1u8; SPAN];
    shingle_mem::fill(&words, 1);
    for (is_hot, label) in [(true, "hot"), (false, "cold")] {
        for (bytes_each, skew) in SIZES.into_iter().flat_map(|size| [(size, 0), (size, 8)]) {
            let mut ways = ways(&words, &mut bytes);
            measure(&mut ways, bytes_each, skew, is_hot);
            print!("{label:<4} {bytes_each:>8} +{skew}");
            let beside = ways[0].median();
            for way in &mut ways {
                let median = way.median();
                print!("  {} {median:>9.1} ns ({:.2})", way.name, median / beside);
            }
            println!();
        }
    }
}

/// The first is what the others are compared with.
fn ways<'a>(words: &'a [AtomicU64], bytes: &'a mut [u8]) -> Vec<Way<'a>> {
    let memcpy = move |to: usize, from: usize, len: usize| {
        // Targets lie behind sources.
        let (front, back) = bytes.split_at_mut(to);
        black_box(&mut back[..len]).copy_from_slice(black_box(&front[from..from + len]));
    };
    let places = move |to: usize, from: usize, len: usize| {
        (black_box(&words[to / 8..(to + len) / 8]), black_box(&words[from / 8..(from + len) / 8]))
    };
    let ours = move |to, from, len| {
        let (to, from) = places(to, from, len);
        shingle_mem::copy(to, from);
    };
    let plain = move |to, from, len| {
        let (to, from) = places(to, from, len);
        to.iter().zip(from).for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
    };
    let way = |name, copy| Way { name, copy, times: Vec::new() };
    vec![way("memcpy", Box::new(memcpy)), way("ours", Box::new(ours)), way("loop", Box::new(plain))]
}

fn measure(ways: &mut [Way<'_>], len: usize, skew: usize, is_hot: bool) {
    let count = if is_hot { (256 << 10) / len } else { (1 << 20) / len }.clamp(1, 4096);
    let stride = 2 * len + 4096 + 192;
    let mut at = 0;
    for _ in 0..ROUNDS {
        for way in ways.iter_mut() {
            let mut took = 0.0;
            for repeat in 0..2 {
                let start = Instant::now();
                for n in 0..count {
                    let from = if is_hot { 0 } else { (at + n * stride) % (SPAN - stride) / 64 * 64 };
                    (way.copy)(from + len.next_multiple_of(64) + 1024 + skew, from, len);
                }
                if !is_hot || repeat == 1 {
                    took = start.elapsed().as_nanos() as f64 / count as f64;
                }
                at += count * stride;
            }
            way.times.push(took);
        }
    }
}

impl Way<'_> {
    fn median(&mut self) -> f64 {
        self.times.sort_by(f64::total_cmp);
        self.times[self.times.len() / 2]
    }
}
