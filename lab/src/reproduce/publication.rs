//! The publications.

use serde::{Deserialize, Serialize};

/// Which of the publications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Publication {
    /// Zone write plugging, 2024.
    Zwp,
    /// One write at a time per rotating disk, 2026.
    Qd1,
    /// Device mapper without clones, 2019.
    Noclone,
    /// dm-zoned under two hours of files, 2020.
    Dmzoned,
}

impl Publication {
    /// The one that the table `name` belongs to.
    #[must_use]
    pub fn of_table(name: &str) -> Self {
        match name.split('-').next() {
            Some("qd1") => Publication::Qd1,
            Some("dm") => Publication::Noclone,
            _ => Publication::Zwp,
        }
    }
}
