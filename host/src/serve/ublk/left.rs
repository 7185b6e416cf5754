//! The block devices that ublk has on this machine, and those of them that nobody serves.

use std::fs;
use std::io;
use std::path::PathBuf;

use shingle_sys::ublk::{Control, State};

use super::device::{LEAVE, REGISTERS, numbers, refused};
use super::error::UblkError;
use super::keeps;
use super::udev;
use super::users::users;

/// A block device of ublk, whoever has made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkDevice {
    /// Its number.
    pub number: u32,
    /// Where users find it.
    pub path: PathBuf,
    /// Its size, in bytes.
    pub bytes: u64,
    /// `live`, `waiting` for a server, or `dead`.
    pub state: &'static str,
    /// The process that serves it, and how that is called.
    pub server: Option<(u32, String)>,
    /// Whether the driver registers the memory of requests, so that data need not be copied.
    pub is_registered: bool,
    /// Who uses it, as far as this process may see.
    pub users: Vec<String>,
}

/// All of them.
///
/// # Errors
/// If the driver cannot be reached.
pub fn devices() -> Result<Vec<UblkDevice>, UblkError> {
    let mut control = Control::open().map_err(UblkError::Driver)?;
    let look = |number| {
        let info = control.info(number).ok()?;
        let sectors = control.parameters(number).map_or(0, |parameters| parameters.sectors());
        let state = match info.state() {
            State::Live => "live",
            State::Quiesced | State::FailIo => "waiting",
            State::Dead => "dead",
        };
        let pid = u32::try_from(info.server).ok().filter(|_| info.state() == State::Live);
        let name = format!("ublkb{number}");
        Some(UblkDevice {
            number,
            path: format!("/dev/{name}").into(),
            bytes: sectors * 512,
            state,
            server: pid.map(|pid| (pid, command(pid))),
            is_registered: info.features().has(REGISTERS),
            users: users(&name),
        })
    };
    Ok(numbers().into_iter().filter_map(look).collect())
}

fn command(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Removes a device that nobody serves: what its users have not got answered fails. Returns those who still have it open: its number
/// is free when they let go of it.
///
/// # Errors
/// If it is served, or used and `force` is false.
pub fn remove(number: u32, force: bool) -> Result<Vec<String>, UblkError> {
    let mut control = Control::open().map_err(UblkError::Driver)?;
    let export = format!("/dev/ublkb{number}");
    let info = control.info(number).map_err(refused(&export, "find it"))?;
    let users = users(&format!("ublkb{number}"));
    match info.state() {
        State::Live => return Err(UblkError::Alive { number, pid: info.server }),
        _ if !users.is_empty() && !force => return Err(UblkError::Held { number, users }),
        _ => {}
    }
    let holders = match control.delete(number, LEAVE) {
        // The device is gone; only the answer waits for them.
        Err(error) if error.kind() == io::ErrorKind::TimedOut && !users.is_empty() => users,
        deleted => deleted.map(|()| Vec::new()).map_err(refused(&export, "remove it"))?,
    };
    keeps::remove(info.mark);
    udev::forget(number);
    Ok(holders)
}
