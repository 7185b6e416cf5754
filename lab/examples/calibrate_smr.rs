//! Prints published and simulated figures of SMR disks side by side, to fit a profile with.
//!
//! `cargo run --release --example calibrate_smr [FILTER [PROFILE]]`: only cells whose name contains the filter, and with the
//! profile in that file, which has the name of one that ships, instead of the latter.

use std::sync::atomic::AtomicBool;

use shingle_host::profile::Profile;
use shingle_lab::reproduce::{Device, Lab, Publication, plan};

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let (filter, profile) = (arguments.next().unwrap_or_default(), arguments.next());
    let mut lab = Lab::new([Device::Smr26, Device::Smr30 { one_mib: false }].into_iter(), 1, false)?;
    if let Some(path) = profile {
        lab.replace(Profile::find(&path).map_err(|error| error.to_string())?);
    }
    for table in [plan(Publication::Zwp)?, plan(Publication::Qd1)?].into_iter().flatten() {
        for cell in &table.cells {
            let name = cell.name(&table.name);
            let smr = matches!(cell.ours.device, Device::Smr26 | Device::Smr30 { .. });
            if !smr || !name.contains(&filter) {
                continue;
            }
            let ours = lab.run(&cell.ours, cell.unit, &AtomicBool::new(false))?.map_or(0.0, |ours| ours.value);
            let published = cell.published.unwrap_or(f64::NAN);
            println!("{name:60} {published:6.0} {ours:8.1} {:6.3} {}", ours / published, cell.class);
        }
    }
    Ok(())
}
