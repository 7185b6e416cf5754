//! x
use shingle_core::sim::swarm::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let seed = a[1].parse().unwrap();
    let profile = *Profile::ALL.iter().find(|p| p.name() == a[2]).unwrap();
    let o = SwarmOptions { profile, trace: true, ..Default::default() };
    match run(seed, &o) {
        Ok(r) => println!("ok {:?}", r.ops),
        Err(f) => {
            let f = shorten(f, &o);
            println!("{f}");
            if let Some(t) = f.trace {
                std::fs::write("/tmp/t.trace", t).unwrap();
            }
        }
    }
}
