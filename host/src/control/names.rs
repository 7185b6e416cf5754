//! Names that nobody has.

use super::{ControlError, ErrorKind};
use crate::config::nearest;
use crate::daemon_state::DaemonState;
use crate::mailbox::MailboxError;

/// The error that says that there is no device of this name, and which there are.
pub(super) fn unknown_device(daemon: &DaemonState, name: &str) -> Result<ControlError, MailboxError> {
    let names = daemon.names()?;
    let hint =
        nearest(name, names.iter().map(String::as_str)).map_or(String::new(), |n| format!("did you mean `{n}`? "));
    let message = format!("there is no device `{name}`; {hint}there are: {}", names.join(", "));
    Ok(ControlError::new(ErrorKind::UnknownDevice, message))
}
