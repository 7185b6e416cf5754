//! `shingle dm deps`.

use clap::{Args, ValueEnum};

use super::CliError;
use super::view::ViewArgs;
use shingle_host::control::MAPPED_MAJOR;
use shingle_host::control::protocol::{Dep, Deps, GetDeps};

/// Show what the live tables of devices lie on
#[derive(Args)]
pub struct DepsArgs {
    #[command(flatten)]
    view: ViewArgs,
    /// How devices are called
    #[arg(short = 'o', long = "options", value_enum, default_value = "devno")]
    style: Style,
}

/// How a device is called.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// By its numbers
    Devno,
    /// By its name
    Devname,
    /// By its name; a mapped one as dm-N
    Blkdevname,
}

/// Runs the command.
pub fn run(args: &DepsArgs) -> Result<(), CliError> {
    let devices = args.view.ask(|device| GetDeps { device })?;
    args.view.print(&devices, |Deps { name, deps }, several| {
        let name = if several { format!("{name}: ") } else { String::new() };
        let shown: String = deps.iter().map(|dep| format!(" ({})", args.style.show(dep, ", "))).collect();
        format!("{name}{} dependencies\t:{shown}\n", deps.len())
    })
}

impl Style {
    /// The device in this style; `between` stands between its numbers.
    pub fn show(self, Dep { name, major, minor }: &Dep, between: &str) -> String {
        let (Some(major), Some(minor)) = (major, minor) else { return name.clone() };
        match self {
            Style::Devno => format!("{major}{between}{minor}"),
            Style::Blkdevname if *major == MAPPED_MAJOR => format!("dm-{minor}"),
            Style::Devname | Style::Blkdevname => name.clone(),
        }
    }
}
