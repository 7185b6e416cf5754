//! The forms in which what came out of any publication is shown.

use serde_json::Value;

use super::goals::goals;
use super::outcome::{Report, to_json};
use super::page::Sheet;
use super::text::{self, Part};

/// What came out of a publication.
pub struct Findings {
    /// What was found, and beside it what follows from that, so that a reader need not compute it.
    pub json: Value,
    /// The same for people.
    pub text: Vec<Part>,
    /// The same for a page.
    pub sheet: Sheet,
}

impl Report {
    /// It in each form in which it is shown.
    pub fn findings(&self) -> Findings {
        let goals = goals(self);
        Findings { json: to_json(self), text: text::of_cells(self, &goals), sheet: Sheet::of_cells(self, goals) }
    }
}
