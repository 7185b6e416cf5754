//! `shingle completions` and `shingle man`.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, CliError};

/// Print completions for a shell
///
/// For bash: shingle completions bash > ~/.local/share/bash-completion/completions/shingle
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write the manual pages
#[derive(Args)]
pub struct ManArgs {
    /// Directory for the pages; without it, the main page goes to stdout
    directory: Option<PathBuf>,
}

/// Prints completions.
pub fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shingle", &mut script);
    super::output::print_bytes(&script)
}

/// Writes manual pages.
pub fn man(args: &ManArgs) -> Result<(), CliError> {
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(Cli::command()).render(&mut page);
        rendered.map_err(|error| CliError::Failed(format!("cannot render the manual page: {error}")))?;
        return super::output::print_bytes(&page);
    };
    let written = fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.map_err(|error| {
        CliError::Failed(format!(
            "cannot write manual pages to {}: {error}; choose another directory",
            directory.display()
        ))
    })
}
