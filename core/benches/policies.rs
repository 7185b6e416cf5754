//! What each policy of multipath costs for an I/O: its choice, and what it notes when the I/O has ended.
//!
//! `cargo bench -p shingle-core --bench policies` prints ns, medians of rounds in which all take turns, less what the same loop takes with a
//! policy that does nothing. With `-- --instructions` it counts instructions instead, which do not depend on the day: needs valgrind.

#[path = "counting/callgrind.rs"]
mod callgrind;

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use shingle_core::multipath::{Access, Done, Io, IoClass, Node, PathView, Policy, PolicyKind};
use shingle_core::time::{Duration, Instant as Now};

const PATHS: [usize; 3] = [2, 4, 8];
const UNDER_WAY: usize = 32;
const ROUNDS: usize = 15;
const IOS_A_ROUND: u64 = 1_000_000;
/// Time from one I/O to the next.
const PACE: Duration = Duration(3_000);

/// A policy that takes turns without any memory: the loop around all others.
struct Nothing(usize);

impl Policy for Nothing {
    fn choose(&mut self, paths: &[PathView], _: &Io) -> Option<usize> {
        self.0 = if self.0 + 1 == paths.len() { 0 } else { self.0 + 1 };
        Some(self.0)
    }
}

/// A policy under load: one I/O ends, the next one is sent.
struct Load {
    name: String,
    policy: Box<dyn Policy>,
    views: Vec<PathView>,
    under_way: VecDeque<(usize, Io)>,
    now: Now,
    ns: Vec<f64>,
}

impl Load {
    fn new(kind: Option<PolicyKind>, paths: usize) -> Self {
        let policy = kind.map_or_else(|| Box::new(Nothing(0)) as Box<dyn Policy>, PolicyKind::build);
        let name = format!("{}, {paths} paths", kind.map_or("nothing", PolicyKind::name));
        let views = vec![PathView::new(Access::Optimized); paths];
        let mut load = Self { name, policy, views, under_way: VecDeque::new(), now: Now::ZERO, ns: Vec::new() };
        (0..UNDER_WAY).for_each(|_| load.send());
        load
    }

    #[inline]
    fn send(&mut self) {
        self.now = self.now + PACE;
        let mut io = Io { at: self.now, node: Node(0), class: IoClass::Read, bytes: 4096, ahead: 0, bytes_ahead: 0 };
        let path = black_box(&mut self.policy).choose(&self.views, &io).expect("all are usable");
        let view = &mut self.views[path];
        let pending = view.pending[io.class as usize];
        (io.ahead, io.bytes_ahead) = (pending.count, pending.bytes);
        view.add(&io);
        self.under_way.push_back((path, io));
    }

    fn carry(&mut self, ios: u64) {
        for _ in 0..ios {
            let (path, io) = self.under_way.pop_front().expect("some are always under way");
            self.views[path].remove(&io);
            black_box(&mut self.policy).ended(path, &io, Done { at: self.now, is_ok: true });
            self.send();
        }
    }

    fn round(&mut self) {
        let start = Instant::now();
        self.carry(IOS_A_ROUND);
        self.ns.push(start.elapsed().as_nanos() as f64 / IOS_A_ROUND as f64);
    }

    fn median(&mut self) -> f64 {
        self.ns.sort_by(f64::total_cmp);
        self.ns[self.ns.len() / 2]
    }
}

/// Nothing and all policies, each over all numbers of paths.
fn loads() -> Vec<Load> {
    let kinds = [None].into_iter().chain(PolicyKind::ALL.map(Some));
    kinds.flat_map(|kind| PATHS.map(|paths| Load::new(kind, paths))).collect()
}

/// A row for each policy with a figure for each number of paths, less that of nothing.
fn print(unit: &str, figures: &[f64]) {
    let (nothing, policies) = figures.split_at(PATHS.len());
    println!(
        "{:<26}{}  {unit} per I/O",
        "policy",
        PATHS.map(|paths| format!("{:>9}", format!("{paths} paths"))).concat()
    );
    for (kind, row) in PolicyKind::ALL.iter().zip(policies.chunks(PATHS.len())) {
        let less = row.iter().zip(nothing).map(|(figure, nothing)| format!("{:>9.1}", figure - nothing));
        println!("{:<26}{}", kind.name(), less.collect::<String>());
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some((name, ios)) = callgrind::asked(&arguments) {
        let load = loads().into_iter().find(|load| load.name == name);
        return load.expect("there is such a load").carry(ios);
    }
    let mut loads = loads();
    if arguments.iter().any(|argument| argument == "--instructions") {
        let figures: Vec<f64> = loads.iter().map(|load| callgrind::per_bio(&load.name)).collect();
        return print("instructions", &figures);
    }
    for _ in 0..ROUNDS {
        loads.iter_mut().for_each(Load::round);
    }
    let figures: Vec<f64> = loads.iter_mut().map(Load::median).collect();
    print("ns", &figures);
}
