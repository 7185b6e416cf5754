//! Lines of a table whose targets are built differently: what no words of a line can say of them.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use shingle_core::dm::{ArgError, BuildContext, DeviceArg, Mapping, TableLine, Target, View, parse_table};

/// Builds the target of a line.
pub(super) trait BuildLine: Clone + fmt::Debug + Send + Sync + 'static {
    /// Builds the target of `line`.
    ///
    /// # Errors
    /// The argument of the line that is wrong.
    fn build(&self, line: &dyn Target, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError>;
}

/// Parses a table, each target of which is built by `builder`.
///
/// # Errors
/// The line that cannot be parsed.
pub(super) fn parse(text: &str, builder: &impl BuildLine) -> Result<Vec<TableLine>, String> {
    let mut lines = parse_table(text).map_err(|error| error.to_string())?;
    for line in &mut lines {
        line.target = Arc::new(RebuiltLine { line: line.target.clone(), builder: builder.clone() });
    }
    Ok(lines)
}

/// A line that says what `line` says.
#[derive(Debug)]
struct RebuiltLine<B> {
    line: Arc<dyn Target>,
    builder: B,
}

impl<B: BuildLine> Target for RebuiltLine<B> {
    fn devices(&self) -> Vec<&DeviceArg> {
        self.line.devices()
    }

    fn is_sole_writer(&self) -> bool {
        self.line.is_sole_writer()
    }

    fn arguments(&self, view: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        self.line.arguments(view, out)
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        self.builder.build(&*self.line, context)
    }
}
