//! `shingle dm ls` and `shingle dm targets`.

use clap::Args;
use serde_json::json;

use super::CliError;
use super::deps::Style;
use super::tree::{Tree, TreeOptions};
use super::view::NO_DEVICES;
use crate::cli::output;
use crate::cli::remote::{AskArgs, RemoteArgs};
use shingle_host::control::protocol::{GetDeps, GetInfo, GetStatus, List, ListTargets, Listed, Target};

/// List devices
#[derive(Args)]
pub struct LsArgs {
    /// Only devices with a target of this kind
    #[arg(long, value_name = "TYPE", conflicts_with = "tree")]
    target: Option<String>,
    /// What lies on what, as a tree
    #[arg(long, conflicts_with = "json")]
    tree: bool,
    /// How devices are called: devno, devname or blkdevname; with --tree a list of device, nodevice, blkdevname, active,
    /// open, rw, uuid, ascii, utf, inverted
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", default_value = "")]
    options: String,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs `shingle dm ls`.
pub fn run(args: &LsArgs) -> Result<(), CliError> {
    if args.tree {
        return tree(args);
    }
    let style = match args.options.as_str() {
        "" | "devno" => Style::Devno,
        "devname" => Style::Devname,
        "blkdevname" => Style::Blkdevname,
        other => return Err(CliError::Usage(format!("`-o {other}`: write devno, devname or blkdevname"))),
    };
    let listed = args.ask.remote.connect()?.call(&List { target: args.target.clone() })?;
    if args.ask.json {
        return output::print_json(&json!(listed));
    }
    let line = |device: &Listed| format!("{}\t({})\n", device.name, style.show(&device.into(), ":"));
    let lines: String = listed.devices.iter().map(line).collect();
    output::print(if lines.is_empty() { NO_DEVICES } else { &lines })
}

fn tree(args: &LsArgs) -> Result<(), CliError> {
    let options = TreeOptions::parse(&args.options).map_err(CliError::Usage)?;
    let mut client = args.ask.remote.connect()?;
    let infos = client.call(&GetInfo::default())?.devices;
    let deps = client.call(&GetDeps::default())?.devices;
    if infos.is_empty() {
        return output::print(NO_DEVICES);
    }
    output::print(&Tree::new(infos, &deps).show(&options))
}

/// Runs `shingle dm targets`.
pub fn targets(args: &AskArgs) -> Result<(), CliError> {
    let answer = args.remote.connect()?.call(&ListTargets {})?;
    if args.json {
        return output::print_json(&json!(answer));
    }
    let line =
        |Target { name, version, .. }: &Target| format!("{name:<16} v{}\n", version.map(|n| n.to_string()).join("."));
    output::print(&answer.targets.iter().map(line).collect::<String>())
}

/// Runs `shingle dm version`, with dmsetup's words: its library is this program, its driver the daemon.
pub fn version(remote: &RemoteArgs) -> Result<(), CliError> {
    let (ours, daemon) = (env!("CARGO_PKG_VERSION"), remote.connect()?.call(&GetStatus {})?.version);
    output::print(&format!("Library version:   {ours}\nDriver version:    {daemon}\n"))
}
