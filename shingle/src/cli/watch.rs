//! `shingle zones watch`: the zone map of a disk in a browser.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use clap::Args;

use super::remote::RemoteArgs;
use super::zones::TargetArgs;
use super::{CliError, interrupt, output};
use shingle_host::serve::listen::{Address, Listener};
use shingle_host::web::{LoneDisk, Token, serve_page};

#[derive(Args)]
pub struct WatchArgs {
    /// A directory made by `shingle create`, a zoned block device, or a device of a running daemon
    disk: String,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Where browsers of this machine find the page; with port 0 the system chooses one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = parse_loopback)]
    listen: SocketAddr,
}

fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "write it as 127.0.0.1:9470".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => {
            Err("others reach that address, and the page is for this machine alone: write 127.0.0.1 or [::1]".into())
        }
    }
}

/// How often it is looked whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the command. Nothing is locked but for the moments in which the zones are read; if a daemon has the disk they come from it.
pub fn run(WatchArgs { disk, remote, listen }: &WatchArgs) -> Result<(), CliError> {
    let target = TargetArgs::whole(disk.clone(), remote.clone());
    // What is wrong with it is said now, not to a browser.
    let zones = target.zones()?;
    let stop = interrupt::catch()?;
    let listener = Listener::bind(&Address::Tcp(*listen)).map_err(CliError::failed)?;
    let token = Token::new().map_err(|error| CliError::Failed(format!("cannot make a token: {error}")))?;
    output::print(&format!("{disk}: {}\nCtrl-C ends it\n", token.url(listener.address())))?;
    let read_zones = Box::new(move || target.zones().map_err(|error| error.to_string()));
    let page = LoneDisk::new(disk.clone(), &zones, read_zones);
    let failed = |error| CliError::Failed(format!("cannot serve the page: {error}"));
    let _server = serve_page(&[listener], token, Arc::new(page)).map_err(failed)?;
    while !stop.load(Relaxed) {
        thread::sleep(LOOK);
    }
    Ok(())
}
