//! Profiles of drives out of measurements of real ones.
//!
//! ```text
//!   fio's JSON ──> measurements ──┬── fitted ───> search ──> parameters ──> the profile
//!                                 └── held out ──────────────> residuals <──┘
//! ```
//!
//! A measurement is a load with what the real drive did under it. The same load runs on the simulated drive alone, in virtual
//! time, and the parameters that matter to it are changed until both do the same.

mod document;
mod fio;
mod load;
mod search;

pub use document::Document;
pub use fio::{LeftOut, Reading, read, read_text};
pub use load::{Drive, Figure, Load, Rw};
pub use search::{Fit, FitError, Fitted, Measurement, Parameter, Residual, fit};
