//! The published tables, run again: `shingle reproduce`.
//!
//! ```text
//!  lab/data/published/*.csv ─> published ─> plan: a cell for each figure, an experiment for each cell
//!                                          │
//!            real, noclone: this machine <─┴─> model: a drive in virtual time
//!                                          │
//!                          outcome: published, ours, ratio ─> Findings ─> text, JSON, page
//! ```
//!
//! Every publication ends in [`Findings`], its JSON, the parts of its text and the sheet of its page, and these are shown in one
//! way. [`dmzoned`], speeds over time, and [`latency`], policies of multipath, have plans and outcomes of their own, and the rest in
//! common with the others.
//!
//! Promised: every published figure has its cell, and every cell says what it is: `calibrated`, `predicted`, `measured`, or
//! `own` for policies that nobody published figures of. `docs/reproduce.md` tells how to read them.

pub mod dmzoned;
pub mod figures;
mod findings;
mod goals;
mod host;
pub mod latency;
mod model;
mod noclone;
mod noclone_goals;
mod outcome;
mod own_sets;
mod page;
mod plan;
mod publication;
mod published;
mod real;
mod rounds;
mod run;
pub mod stl;
mod text;
mod work;

pub use findings::Findings;
pub use goals::{Goal, goals};
pub use model::Lab;
pub use outcome::{
    CellOutcome, ClassSummary, Ours, ProfileFacts, Report, TableOutcome, TimesBaseline, from_json, to_json,
};
pub use own_sets::OwnSets;
pub use page::Sheet;
pub use page::imprint::Imprint;
pub use plan::{Cell, Class, Device, Experiment, Host, Load, Policy, Table, plan};
pub use publication::Publication;
pub use published::{Figure, PublishedTable, SCHEMAS, Schema, Unit};
pub use run::run;
pub use text::Part;
pub use work::{Options, RunError, Watch};
