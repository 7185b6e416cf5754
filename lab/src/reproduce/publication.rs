//! The publications, and the forms in which what came out of any of them is shown.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dmzoned;
use super::outcome::from_json;
use super::page::Sheet;
use super::text::Part;

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

/// What came out of a publication.
pub struct Findings {
    /// What was found, and beside it what follows from that, so that a reader need not compute it.
    pub json: Value,
    /// The same for people.
    pub text: Vec<Part>,
    /// The same for a page.
    pub sheet: Sheet,
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

    /// What the JSON of findings says was found. What follows from it is computed anew.
    ///
    /// # Errors
    /// If it is something else, or of another publication.
    pub fn read(self, text: &str) -> Result<Findings, String> {
        if self == Publication::Dmzoned {
            return dmzoned::from_json(text).map(|report| report.findings());
        }
        let report = from_json(text)?;
        let is_it = report.publication == self;
        if is_it { Ok(report.findings()) } else { Err("it is the report of another publication".into()) }
    }
}
