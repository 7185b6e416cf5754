//! `shingle dm deps`.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{CliError, ViewArgs, list, text};

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
    let devices = args.view.ask("dm.deps", &json!({}))?;
    args.view.print(devices, |device, several| {
        let name = if several { format!("{}: ", text(device, "name")) } else { String::new() };
        let deps = list(device, "deps");
        let shown: String = deps.iter().map(|dep| format!(" ({})", args.style.show(dep, ", "))).collect();
        format!("{name}{} dependencies\t:{shown}\n", deps.len())
    })
}

impl Style {
    /// The device in this style; `between` stands between its numbers.
    pub fn show(self, device: &Value, between: &str) -> String {
        let is_mapped = device["major"] == crate::control::MAPPED_MAJOR;
        match self {
            Style::Devno => format!("{}{between}{}", device["major"], device["minor"]),
            Style::Blkdevname if is_mapped => format!("dm-{}", device["minor"]),
            Style::Devname | Style::Blkdevname => text(device, "name").to_owned(),
        }
    }
}
