//! The publications.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Which of the publications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Publication {
    /// Zone write plugging: five systems on null_blk, a ZNS SSD and an SMR disk
    Zwp,
    /// QD1 writing: an SMR disk of 30 TB
    Qd1,
    /// Device mapper without clones: layers over a RAM disk
    Noclone,
    /// dm-zoned: two hours of files on an SMR disk, alone and with an SSD
    Dmzoned,
    /// Policies of multipath over paths that are alike, that differ, and to which something happens
    Latency,
    /// What the log-structured target has to show, on models of drives
    Stl,
}

impl Publication {
    /// The one that the table `name` belongs to.
    pub fn of_table(name: &str) -> Self {
        match name.split('-').next() {
            Some("qd1") => Publication::Qd1,
            Some("dm") => Publication::Noclone,
            _ => Publication::Zwp,
        }
    }
}
