//! What a target is.
//!
//! A target has two forms. A [`Target`] is its arguments, read and checked as far as that goes without devices; it is what a
//! table keeps and prints. [`Target::build`] makes the [`Mapping`] that bios go through, with devices of its own if shifting
//! sectors is not all that it does.

use alloc::sync::Arc;
use core::fmt;

use super::args::{ArgError, Args, DeviceArg};
use super::build_context::BuildContext;
use super::mapping::Mapping;
use crate::block::BlockDevice;
use crate::prelude::*;

/// A kind of target.
pub struct TargetType {
    /// Its name in table lines.
    pub name: &'static str,
    /// Its version, as `dmsetup targets` shows it.
    pub version: [u32; 3],
    /// How it is written.
    pub usage: &'static str,
    /// Reads its arguments.
    pub parse: fn(&mut Args<'_>) -> Result<Arc<dyn Target>, ArgError>,
}

/// The arguments of a table line, read.
pub trait Target: fmt::Debug + Send + Sync {
    /// The devices that it names, in the order in which it does.
    fn devices(&self) -> Vec<&DeviceArg>;

    /// Whether it keeps on its devices where the data is, so that nobody else may write there.
    fn is_sole_writer(&self) -> bool {
        false
    }

    /// Whether knobs can be set to these values, each a name and a value, once it is built.
    ///
    /// # Errors
    /// What is wrong with them, or that it has none.
    fn check_knobs(&self, pairs: &[(&str, &str)]) -> Result<(), String> {
        let _ = pairs;
        Err("only a volume has knobs: its table is one line with the target `zoned` or `stl`".into())
    }

    /// Writes the arguments so that they can be read again (`dmsetup table`). `view` says what of them may be seen, and what
    /// has become of the target since.
    fn arguments(&self, view: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result;

    /// Makes what bios go through.
    ///
    /// # Errors
    /// If devices are missing or do not fit.
    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError>;
}

/// How arguments are shown.
pub struct View<'a> {
    /// Whether keys are shown.
    pub shows_keys: bool,
    /// The device that was built for it, if it is loaded.
    pub device: Option<&'a dyn BlockDevice>,
}
