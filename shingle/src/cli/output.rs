//! Printing: tables, JSON, and a reader that closes its end early.

use std::io::{ErrorKind, Write};

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::CliError;
use crate::plain_text::{escape_controls, escape_json_controls};

/// Prints text to stdout, with control characters escaped. A pipe that is closed, as by `head`, is not an error.
pub fn print(text: &str) -> Result<(), CliError> {
    print_bytes(escape_controls(text).as_bytes())
}

/// Prints bytes to stdout.
pub fn print_bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    printed(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// What a write to stdout came to. A reader that has enough, as `head`, is not an error.
pub fn printed(result: std::io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::Failed(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Says something beside the result, on stderr. If nobody can read it, it is lost, and that is all.
pub fn remark(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Says on stderr that figures would be better with another build, if they would.
#[cfg(feature = "lab")]
pub fn remark_build_profile() {
    if let Some(text) = shingle_lab::build_remark() {
        remark(&format!("note: {text}\n"));
    }
}

/// Prints JSON.
pub fn print_json(value: &Value) -> Result<(), CliError> {
    print_bytes(escape_json_controls(&format!("{value:#}\n")).as_bytes())
}

/// Prints what the parser of the command line has to say, a mistake or the help that was asked for; returns the exit code.
pub fn print_usage(said: &clap::Error) -> u8 {
    match said.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if !said.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            remark(&format!("error: cannot write to stdout: {error}\n"));
            1
        }
        _ => u8::try_from(said.exit_code()).unwrap_or(1),
    }
}

/// A table with aligned columns and no frame; columns named in `right` hold numbers.
pub fn table(header: &[impl ToString], right: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().map(ToString::to_string));
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> =
        table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// `count` things of this kind: `1 shard`, `2 shards`.
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A bar that looks like `template`; on anything but a terminal it draws nothing.
pub fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = length.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Does what takes long under a bar that is told how much is done of how much.
pub fn with_bar<T>(template: &str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let bar = bar(Some(0), template);
    let result = work(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    result
}

/// The same for work that is `doing` something.
pub fn with_percent<T>(doing: &str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    with_bar(&format!("{doing} {{bar:40}} {{percent}}% ({{eta}} left)"), work)
}
