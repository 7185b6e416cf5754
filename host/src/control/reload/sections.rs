//! Sections of a stack file that are written otherwise: where clients come, and where others are told of the stack.

use super::Reloader;
use crate::control::{ControlError, bad};
use crate::daemon_state::Outlet;
use crate::serve::{ServeError, Sockets};

impl Reloader<'_> {
    pub(super) fn change_section(&self, name: &str) -> Result<(), ControlError> {
        let outlet = match name {
            "metrics" => Outlet::Metrics,
            "web" => Outlet::Page,
            "control" => Outlet::Control,
            _ => return self.listen().map_err(|error| bad(error.to_string())),
        };
        let outlets = self.daemon.outlets.get().ok_or_else(|| bad("the daemon is about to start".into()))?;
        outlets.change(outlet, &self.wanted).map_err(bad)
    }

    fn listen(&self) -> Result<(), ServeError> {
        let (exports, before) = (&self.daemon.exports, self.daemon.plan());
        exports.show_by(&self.wanted.front_ends)?;
        self.daemon.listen(&self.wanted.front_ends, &Sockets::default()).inspect_err(|_| {
            // What they show could be shown before.
            let _ = exports.show_by(&before.front_ends);
        })
    }
}
