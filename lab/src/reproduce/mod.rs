//! The published tables, run again: `shingle reproduce`.
//!
//! ```text
//!  data/published/*.csv ─> published ─> plan: a cell for each figure, an experiment for each cell
//!                                          │
//!            real, noclone: this machine <─┴─> model: a drive in virtual time
//!                                          │
//!                          outcome: published, ours, ratio ─> text, json, page
//! ```
//!
//! [`dmzoned`] is a publication of another kind, speeds over time, and a report of its own.
//!
//! Promised: every published figure has its cell, and every cell says what it is: `calibrated`, `predicted`, `measured`, or
//! `own` for policies that nobody published figures of. `docs/reproduce.md` tells how to read them.

pub mod dmzoned;
pub mod figures;
mod goals;
mod host;
mod json;
mod model;
mod noclone;
mod outcome;
mod page;
mod plan;
mod published;
mod real;
mod rounds;
mod run;

pub use goals::{Goal, goals};
pub use json::{from_json, to_json};
pub use model::Lab;
pub use outcome::{CellOutcome, ClassSummary, Ours, ProfileFacts, Report, TableOutcome, cell_name};
pub use page::imprint::Imprint;
pub use page::to_html;
pub use plan::{Cell, Class, Device, Experiment, Host, Load, PlannedTable, Policy, Publication, plan};
pub use published::{PublishedError, PublishedRow, PublishedTable, SCHEMAS, Schema, Unit};
pub use run::{Options, RunError, Watch, run};
