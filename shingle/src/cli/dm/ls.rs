//! `shingle dm ls` and `shingle dm targets`.

use clap::Args;
use serde_json::json;

use super::deps::Style;
use super::tree::{Tree, TreeOptions};
use super::{CliError, NO_DEVICES, ask, list, text};
use crate::cli::output;
use crate::cli::remote::RemoteArgs;

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
    remote: RemoteArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// List the kinds of targets that tables can have, with their versions
#[derive(Args)]
pub struct TargetsArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print the versions of this program and of the daemon
#[derive(Args)]
pub struct VersionArgs {
    #[command(flatten)]
    remote: RemoteArgs,
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
    let devices = ask(&mut args.remote.connect()?, "dm.ls", &[], &json!({"target": args.target}))?;
    if args.json {
        return output::print_json(&json!({"devices": devices}));
    }
    let lines: String =
        devices.iter().map(|device| format!("{}\t({})\n", text(device, "name"), style.show(device, ":"))).collect();
    output::print(if lines.is_empty() { NO_DEVICES } else { &lines })
}

fn tree(args: &LsArgs) -> Result<(), CliError> {
    let options = TreeOptions::parse(&args.options).map_err(CliError::Usage)?;
    let mut client = args.remote.connect()?;
    let infos = ask(&mut client, "dm.info", &[], &json!({}))?;
    let deps = ask(&mut client, "dm.deps", &[], &json!({}))?;
    if infos.is_empty() {
        return output::print(NO_DEVICES);
    }
    output::print(&Tree::new(&infos, &deps).show(&options))
}

/// Runs `shingle dm targets`.
pub fn targets(args: &TargetsArgs) -> Result<(), CliError> {
    let answer = args.remote.connect()?.call("dm.targets", json!({}))?;
    if args.json {
        return output::print_json(&answer);
    }
    let line = |target: &serde_json::Value| {
        let version: Vec<String> = list(target, "version").iter().map(ToString::to_string).collect();
        format!("{:<16} v{}\n", text(target, "name"), version.join("."))
    };
    output::print(&list(&answer, "targets").iter().map(line).collect::<String>())
}

/// Runs `shingle dm version`, with dmsetup's words: its library is this program, its driver the daemon.
pub fn version(args: &VersionArgs) -> Result<(), CliError> {
    let status = args.remote.connect()?.call("status", json!({}))?;
    let (ours, daemon) = (env!("CARGO_PKG_VERSION"), text(&status, "version"));
    output::print(&format!("Library version:   {ours}\nDriver version:    {daemon}\n"))
}
