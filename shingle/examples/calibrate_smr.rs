//! Prints published and simulated figures of SMR disks side by side, to fit a profile with.
//!
//! `cargo run --release --example calibrate_smr [FILTER [PROFILE]]`: only rows whose table, row and column contain the
//! filter, and the drive of that profile instead of the one that ships.

#[path = "../tests/smr_tables/rows.rs"]
mod rows;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (filter, profile) = (arguments.next().unwrap_or_default(), arguments.next());
    for row in rows::rows() {
        let name = format!("{} {} {}", row.table, row.row, row.column);
        if !name.contains(&filter) {
            continue;
        }
        let ours = (row.run)(&rows::config(profile.as_deref().unwrap_or(row.drive)));
        let ratio = ours / row.published;
        let tolerance = if row.calibrated { 0.05 } else { 0.10 };
        let verdict = if (ratio - 1.0).abs() <= tolerance { "" } else { "  MISS" };
        let kind = if row.calibrated { "fit" } else { "predicted" };
        println!("{name:45} {:8.0} {ours:8.0} {ratio:6.3} {kind:9}{verdict}", row.published);
    }
}
