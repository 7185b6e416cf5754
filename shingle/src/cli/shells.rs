//! `shingle completions` and `shingle man`.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::remote::RemoteArgs;
use super::{Cli, CliError};
use shingle_host::control::protocol::GetStatus;

/// Print completions for a shell
///
/// For bash: shingle completions bash > ~/.local/share/bash-completion/completions/shingle
///
/// In bash and fish they also know the devices of the daemon that the commands would find.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(required_unless_present = "devices")]
    shell: Option<Shell>,
    /// The names of the devices of the running daemon, for what these scripts ask
    #[arg(long, hide = true, conflicts_with = "shell")]
    devices: bool,
}

/// Write the manual pages
#[derive(Args)]
pub struct ManArgs {
    /// Directory for the pages; without it, the main page goes to stdout
    directory: Option<PathBuf>,
}

/// Prints completions.
pub fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let Some(shell) = args.shell else { return devices() };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "shingle", &mut script);
    script.extend_from_slice(match shell {
        Shell::Bash => DEVICES_IN_BASH.as_bytes(),
        Shell::Fish => DEVICES_IN_FISH.as_bytes(),
        _ => b"",
    });
    super::output::print_bytes(&script)
}

/// Names a line. Without a daemon there are none, and nobody wants to read why on a line that is being written.
fn devices() -> Result<(), CliError> {
    let status = RemoteArgs::default().connect().and_then(|mut client| Ok(client.call(&GetStatus {})?));
    let devices = status.map(|status| status.devices).unwrap_or_default();
    super::output::print(&devices.iter().map(|device| format!("{}\n", device.name)).collect::<String>())
}

const DEVICES_IN_BASH: &str = r#"
_shingle_and_devices() {
    _shingle "$@"
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" least
    case "${COMP_WORDS[1]}" in
        plugs|policy|scheduler) least=2 ;;
        dm|zones|export|path) least=3 ;;
        *) return 0 ;;
    esac
    if [[ ${COMP_CWORD} -ge ${least} && ${word} != -* && ${before} != --* ]]; then
        COMPREPLY+=( $(compgen -W "$(shingle completions --devices 2>/dev/null)" -- "${word}") )
    fi
}

complete -F _shingle_and_devices -o bashdefault -o default shingle
"#;

const DEVICES_IN_FISH: &str = "\
complete -c shingle -n '__fish_seen_subcommand_from dm zones plugs policy scheduler path export' -a '(shingle completions --devices 2>/dev/null)'
";

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
