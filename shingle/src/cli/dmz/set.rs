//! What all operations share: the disks of a set, and how they are told of.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use shingle_core::target::zoned::Member;
use shingle_core::target::zoned::format::{Media, MediaError};

use super::CliError;
use crate::dmz::{Access, Disks};

/// The disks of a set.
#[derive(Args)]
pub struct SetArgs {
    /// The disks, a regular one first if there is one
    #[arg(required = true, value_name = "DISK")]
    pub devices: Vec<PathBuf>,
    /// Say more
    #[arg(long)]
    pub verbose: bool,
    /// Say even more
    #[arg(long)]
    pub vverbose: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Accepted for scripts: nothing is ever asked
    #[arg(short, long)]
    yes: bool,
}

impl From<MediaError> for CliError {
    fn from(error: MediaError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl SetArgs {
    /// Opens the disks.
    pub fn open(&self, access: Access) -> Result<Disks, CliError> {
        Ok(Disks::open(&self.devices, access)?)
    }
}

/// The disks as dmzadm shows them before it does something.
pub fn geometry(disks: &Disks) -> String {
    let (space, mut text) = (disks.space(), String::new());
    let zone_sectors = u64::from(space.zone_blocks()) * 8;
    for (place, (member, name)) in space.members().iter().zip(disks.names()).enumerate() {
        let sectors = disks.limits(place).capacity;
        let kind = if member.is_zoned { "Host-managed device" } else { "Regular block device" };
        let offset = space.start(member.first_zone);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{name}: {sectors} 512-byte sectors ({} GiB)\n  {kind}\n  {} zones, offset {offset}\n",
            sectors >> 21,
            member.zones,
        );
    }
    let _ = write!(
        text,
        "  {} zones of {zone_sectors} 512-byte sectors ({} MiB)\n  {} 4KB data blocks per zone\n",
        space.zones().len(),
        zone_sectors >> 11,
        space.zone_blocks()
    );
    text
}

/// The disks as JSON.
pub fn geometry_json(disks: &Disks) -> Value {
    let space = disks.space();
    let member = |(member, path): (&Member, &str)| {
        json!({
            "path": path,
            "zoned": member.is_zoned,
            "bytes": member.blocks * 4096,
            "first_zone": member.first_zone,
            "zones": member.zones,
        })
    };
    let devices: Vec<Value> = space.members().iter().zip(disks.names()).map(member).collect();
    json!({
        "devices": devices,
        "zones": space.zones().len(),
        "zone_bytes": u64::from(space.zone_blocks()) * 4096,
    })
}

/// A bar for long work; on anything but a terminal it draws nothing.
pub fn bar(doing: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(&format!("{doing} {{bar:40}} {{percent}}% ({{eta}} left)")) {
        bar.set_style(style);
    }
    bar
}

/// Shows on `bar` how much is done of how much.
pub fn show(bar: &ProgressBar) -> impl FnMut(u64, u64) + '_ {
    |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    }
}
