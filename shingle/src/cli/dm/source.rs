//! Where the text of a table comes from, and how a mistake in it is shown.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;

use super::CliError;
use shingle_host::config::{ConfigError, Diagnostic, Source, word_in_string};
use shingle_host::control::ControlError;

/// The longest text: with what goes around it, it has to fit into one request.
const LONGEST_BYTES: u64 = 512 << 10;

/// A table: an option, a file or standard input.
#[derive(Args)]
pub struct TableText {
    /// File with the table; standard input if neither it nor --table is given
    table_file: Option<PathBuf>,
    /// The table itself
    #[arg(long, value_name = "TABLE", conflicts_with = "table_file")]
    table: Option<String>,
}

impl TableText {
    /// The text, and what to call the place that it is from.
    pub fn read(&self) -> Result<Source, CliError> {
        if let Some(text) = &self.table {
            return Ok(Source { path: "--table".into(), text: text.clone() });
        }
        match &self.table_file {
            Some(path) => {
                let file = File::open(path);
                let file =
                    file.map_err(|error| CliError::Failed(format!("cannot open {}: {error}", path.display())))?;
                read_all(file, path.clone())
            }
            None => read_standard_input(),
        }
    }
}

/// What is on standard input.
pub fn read_standard_input() -> Result<Source, CliError> {
    read_all(io::stdin().lock(), "standard input".into())
}

fn read_all(from: impl Read, path: PathBuf) -> Result<Source, CliError> {
    let mut text = String::new();
    let fail = |what: String| CliError::Failed(format!("cannot read {}: {what}", path.display()));
    from.take(LONGEST_BYTES + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > LONGEST_BYTES {
        return Err(fail(format!("a table has at most {LONGEST_BYTES} bytes")));
    }
    Ok(Source { path, text })
}

/// A daemon's error about a table, with the line of the text that is to blame.
pub fn blame(source: Source, error: ControlError) -> CliError {
    let Some(table) = &error.table else { return error.into() };
    let place = word_in_string(&source.text, 0..source.text.len(), &source.text, table.line, table.word);
    let title = format!("the table is wrong in line {}", table.line);
    let diagnostic = match place {
        Some(place) => Diagnostic::at(place, title).label(table.message.clone()),
        None => Diagnostic::general(format!("{title}: {}", table.message)),
    };
    CliError::Config(Box::new(ConfigError { source, diagnostics: vec![diagnostic] }))
}
