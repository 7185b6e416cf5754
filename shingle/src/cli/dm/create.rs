//! `shingle dm create` and `shingle dm load`.

use clap::Args;

use super::CliError;
use super::concise::{self, NewDevice};
use super::source::{TableText, blame, read_standard_input};
use crate::cli::remote::RemoteArgs;
use shingle_host::config::Source;
use shingle_host::control::ControlClient;
use shingle_host::control::protocol::{Create, Load};

/// Create a device, load a table into it and let I/O in
#[derive(Args)]
pub struct CreateArgs {
    /// Name of the new device
    #[arg(required_unless_present = "concise")]
    name: Option<String>,
    #[command(flatten)]
    table: TableText,
    /// UUID of the new device
    #[arg(short, long)]
    uuid: Option<String>,
    /// Refuse writes
    #[arg(short, long, visible_alias = "read-only")]
    readonly: bool,
    /// Only make the name: a table is loaded later
    #[arg(short, long, conflicts_with_all = ["table", "table_file"])]
    notable: bool,
    /// Create devices as `table --concise` prints them: name,uuid,minor,flags,table[,table...][;...]; on standard input if
    /// left out
    #[arg(long, value_name = "DEVICES", conflicts_with_all = ["name", "table", "table_file", "uuid", "notable"])]
    concise: Option<Option<String>>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Load a table into the inactive slot of a device; `resume` makes it the live one
#[derive(Args)]
pub struct LoadArgs {
    /// The device
    device: String,
    #[command(flatten)]
    table: TableText,
    /// Refuse writes once it is live
    #[arg(short, long, visible_alias = "read-only")]
    readonly: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `shingle dm create`.
pub fn create(args: &CreateArgs) -> Result<(), CliError> {
    let Some(name) = &args.name else { return create_concise(args) };
    let source = if args.notable { None } else { Some(args.table.read()?) };
    let device = NewDevice {
        name: name.clone(),
        uuid: args.uuid.clone().unwrap_or_default(),
        read_only: args.readonly,
        table: source.as_ref().map(|source| source.text.clone()),
    };
    create_one(&mut args.remote.connect()?, device, source.unwrap_or_default())
}

fn create_concise(args: &CreateArgs) -> Result<(), CliError> {
    let text = match args.concise.clone().flatten() {
        Some(text) => text,
        None => read_standard_input()?.text,
    };
    let devices = concise::parse(&text).map_err(CliError::Usage)?;
    let mut client = args.remote.connect()?;
    for mut device in devices {
        device.read_only |= args.readonly;
        let table = device.table.clone().unwrap_or_default();
        let source = Source { path: format!("--concise, {}", device.name).into(), text: table };
        create_one(&mut client, device, source)?;
    }
    Ok(())
}

fn create_one(client: &mut ControlClient, device: NewDevice, source: Source) -> Result<(), CliError> {
    let NewDevice { name, uuid, read_only, table } = device;
    client.call(&Create { name, uuid: Some(uuid), table, read_only }).map_err(|error| blame(source, error))?;
    Ok(())
}

/// Runs `shingle dm load`.
pub fn load(args: &LoadArgs) -> Result<(), CliError> {
    let source = args.table.read()?;
    let request = Load { device: args.device.clone(), table: source.text.clone(), read_only: args.readonly };
    args.remote.connect()?.call(&request).map_err(|error| blame(source, error))?;
    Ok(())
}
