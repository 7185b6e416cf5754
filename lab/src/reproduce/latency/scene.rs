//! What is tried: sets of paths under loads, and what was published of them.

use shingle_core::time::Duration;
use shingle_host::profile::PathSet;

use super::Class;
use super::published::{Known, of_adaptive, of_array, of_tiobench};
use crate::multipath::{Arrival, Load};

/// A set of paths under a load.
pub struct Scene {
    /// The set, as it is called in names.
    pub group: String,
    /// The load, as it is called in names.
    pub load_name: String,
    /// The paths.
    pub set: PathSet,
    /// What is sent over them.
    pub load: Load,
    /// Added to the seed, so that two phases of one load are not the same run.
    pub phase: u64,
    /// What was published.
    pub published: Vec<Known>,
    /// A path that is also tried alone.
    pub alone: Option<&'static str>,
}

impl Scene {
    /// As `fc32-two / random read`.
    pub fn name(&self) -> String {
        format!("{} / {}", self.group, self.load_name)
    }

    /// The set without all paths but the one that is tried alone.
    pub fn set_of_one(&self) -> Option<PathSet> {
        let alone = self.alone?;
        let paths = self.set.paths.iter().filter(|path| path.name == alone).cloned().collect();
        Some(PathSet { paths, ..self.set.clone() })
    }
}

/// The name of a set in those of scenes.
pub fn group_of(set: &str) -> &str {
    set.strip_prefix("paths-").unwrap_or(set)
}

/// The load in words.
pub fn words(load: &Load) -> String {
    let size = |bytes: &u32| {
        if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} bytes") }
    };
    let sizes: Vec<String> = load.bytes.iter().map(size).collect();
    let ops = match load.reads {
        0 => "writes".to_owned(),
        100 => "reads".to_owned(),
        reads => format!("{reads} % reads"),
    };
    let arrival = match load.arrival {
        Arrival::Closed(jobs) => format!("{jobs} jobs"),
        Arrival::Open(rate) => format!("{rate} a second"),
    };
    let submitters = if load.submitters == 1 { String::new() } else { format!(", {} submitters", load.submitters) };
    format!("{arrival}, {} {ops}{submitters}", sizes.join(", "))
}

/// A set that is tried under a closed and under an open load. Rates are of each host.
struct Usual {
    set: &'static str,
    jobs: u32,
    rate: u32,
    seconds: Span,
}

/// Seconds before anything counts, and those that count.
#[derive(Clone, Copy)]
struct Span(u64, u64);

/// `adaptive` says what its shares are after fifteen seconds.
const RAMP_S: u64 = 16;

/// Those that nothing is published of. Where something happens seldom a run is as long as it needs to happen several times.
const USUAL: [Usual; 7] = [
    Usual { set: "paths-jitter", jobs: 8, rate: 20_000, seconds: Span(RAMP_S, 10) },
    Usual { set: "paths-stall", jobs: 4, rate: 10_000, seconds: Span(RAMP_S, 60) },
    Usual { set: "paths-burst", jobs: 4, rate: 10_000, seconds: Span(RAMP_S, 30) },
    Usual { set: "paths-fast-fail", jobs: 4, rate: 10_000, seconds: Span(0, 40) },
    Usual { set: "paths-changing", jobs: 4, rate: 5_000, seconds: Span(0, 180) },
    Usual { set: "paths-cable", jobs: 4, rate: 10_000, seconds: Span(0, 40) },
    Usual { set: "paths-hosts", jobs: 8, rate: 40_000, seconds: Span(RAMP_S, 4) },
];

/// Everything there is to try.
///
/// # Errors
/// If a file that ships is wrong.
pub fn all(is_quick: bool) -> Result<Vec<Scene>, String> {
    let mut scenes = Vec::new();
    for set in ["paths-fc32-two", "paths-fc32-four"] {
        scenes.extend(tiobench(set)?);
    }
    scenes.extend(one_is_late()?);
    scenes.extend(array()?);
    for usual in &USUAL {
        let closed = load(Arrival::Closed(usual.jobs), 70, 4096, usual.seconds);
        let open = load(Arrival::Open(usual.rate), 70, 4096, usual.seconds);
        scenes.extend([scene(usual.set, "closed", closed)?, scene(usual.set, "open", open)?]);
    }
    if is_quick {
        scenes.iter_mut().for_each(|scene| shorten(&mut scene.load));
    }
    Ok(scenes)
}

/// Makes a run so short that it shows no more than that everything runs.
pub fn shorten(load: &mut Load) {
    (load.ramp, load.length) = (Duration::from_millis(20), Duration::from_millis(60));
}

/// A load of one submitter.
fn load(arrival: Arrival, reads: u8, bytes: u32, Span(ramp, length): Span) -> Load {
    let (ramp, length) = (Duration::from_millis(ramp * 1000), Duration::from_millis(length * 1000));
    Load { arrival, reads, bytes: vec![bytes], submitters: 1, ramp, length }
}

fn scene(set: &str, load_name: &str, load: Load) -> Result<Scene, String> {
    let (group, load_name) = (group_of(set).to_owned(), load_name.to_owned());
    let set = PathSet::find(set).map_err(|error| error.to_string())?;
    Ok(Scene { group, load_name, set, load, phase: 0, published: Vec::new(), alone: None })
}

/// The four phases of tiobench: a RAM disk knows no difference between sequential and random, so the model's differ by chance only.
fn tiobench(set: &str) -> Result<Vec<Scene>, String> {
    let phases = [("sequential write", 0), ("random write", 0), ("sequential read", 100), ("random read", 100)];
    let one = |(phase, (name, reads)): (u64, (&str, u8))| {
        // What writes wait for is seldom.
        let load = load(Arrival::Closed(48), reads, 512, Span(1, if reads == 0 { 5 } else { 2 }));
        Ok(Scene { phase, published: of_tiobench(name)?, ..scene(set, name, load)? })
    };
    (0..).zip(phases).map(one).collect()
}

/// One of two paths has 30 ms more. What is known of the published load is what `numa` did on the slow path: as much was under way
/// as goes over it in 30 ms. That is 48 times 32 KiB of reads, 64 of writes and 59 of both; the size is chosen.
fn one_is_late() -> Result<Vec<Scene>, String> {
    const SET: &str = "paths-tcp-30ms";
    let mut scenes = Vec::new();
    for (name, op, jobs, reads) in [("reads", "read", 48, 100), ("writes", "write", 64, 0), ("half", "half", 59, 50)] {
        let load = load(Arrival::Closed(jobs), reads, 32 << 10, Span(RAMP_S, 5));
        scenes.push(Scene { published: of_adaptive(op)?, alone: Some("fast"), ..scene(SET, name, load)? });
    }
    // Two paths like the slow one would take 8,500 a second.
    for (name, arrival) in [("closed", Arrival::Closed(8)), ("open", Arrival::Open(8_000))] {
        scenes.push(Scene { alone: Some("fast"), ..scene(SET, name, load(arrival, 70, 4096, Span(RAMP_S, 10)))? });
    }
    Ok(scenes)
}

/// The array, with as many reads under way as the published policy had, and at nine tenths of what it does.
fn array() -> Result<Vec<Scene>, String> {
    const SET: &str = "paths-asymmetric";
    let mut scenes = Vec::new();
    for (policy, class) in [("queue-depth", Class::Calibrated), ("round-robin", Class::Predicted)] {
        let (known, jobs) = of_array(policy, class)?;
        let load = load(Arrival::Closed(jobs), 100, 4096, Span(RAMP_S, 3));
        scenes.push(Scene { published: vec![known], ..scene(SET, &format!("as {policy}"), load)? });
    }
    scenes.push(scene(SET, "closed", load(Arrival::Closed(128), 100, 4096, Span(RAMP_S, 3)))?);
    scenes.push(scene(SET, "open", load(Arrival::Open(45_000), 100, 4096, Span(RAMP_S, 3)))?);
    Ok(scenes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_set_that_ships_is_tried_under_names_of_its_own() {
        let scenes = all(false).unwrap();
        let names: BTreeSet<String> = scenes.iter().map(Scene::name).collect();
        assert_eq!(names.len(), scenes.len());
        for set in PathSet::names() {
            assert!(scenes.iter().any(|scene| scene.group == group_of(set)), "{set} is not tried");
        }
        for Scene { published, set, alone, .. } in &scenes {
            assert!(alone.is_none_or(|alone| set.paths.iter().any(|path| path.name == alone)));
            assert!(published.iter().all(|known| !known.figures.is_empty()));
        }
    }

    #[test]
    fn a_load_is_told_in_words() {
        let mut mixed = load(Arrival::Open(500), 70, 512, Span(1, 1));
        (mixed.bytes, mixed.submitters) = (vec![512, 4096], 2);
        assert_eq!(words(&mixed), "500 a second, 512 bytes, 4 KiB 70 % reads, 2 submitters");
        assert_eq!(words(&load(Arrival::Closed(48), 0, 1 << 16, Span(1, 1))), "48 jobs, 64 KiB writes");
    }
}
