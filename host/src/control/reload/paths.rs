//! Paths of a device that a stack file has, or has no more.

use std::thread;
use std::time::{Duration, Instant};

use super::{PATIENCE, Reloader, find};
use crate::config::{DevicePlan, MadeOf, PathPlan};
use crate::control::protocol::{AddPath, OnePath, SetPathState};
use crate::control::{ControlError, ErrorKind, bad, paths};

/// How often it is looked whether a path is free.
const LOOK: Duration = Duration::from_millis(5);

impl Reloader<'_> {
    /// Adds and removes paths, and says what they are, as far as the file says otherwise than before. What operators did besides stays.
    pub(super) fn change_paths(&self, name: &str) -> Result<(), ControlError> {
        let plan = self.daemon.plan();
        let before = find(&plan.devices, name, |device: &DevicePlan| &device.name)?;
        let (MadeOf::Paths(before), MadeOf::Paths(wanted)) = (&before.made_of, self.made_of(name)?) else {
            return Err(bad(format!("`{name}` has a table, and no paths")));
        };
        let (device, there) = (|| name.to_owned(), paths::names_of(self.daemon, name)?);
        for PathPlan { device: path, state, node } in &wanted.paths {
            let (path, word) = (path.value.clone(), state.name().to_owned());
            let number = node.map(|node| node.0.into());
            let was = before.paths.iter().find(|it| it.device.value == path);
            if !there.contains(&path) {
                paths::add(self.daemon, AddPath { device: device(), path, state: Some(word), node: number })?;
                continue;
            }
            if was.map(|it| it.node) != Some(*node) {
                paths::set_node(self.daemon, (name, path.clone()), *node)?;
            }
            if was.map(|it| it.state) != Some(*state) {
                paths::set_state(self.daemon, SetPathState { device: device(), path, state: word })?;
            }
        }
        let goes = |path: &&str| !wanted.names().any(|it| it == *path) && there.iter().any(|it| it == *path);
        let gone: Vec<&str> = before.names().filter(goes).collect();
        for path in &gone {
            paths::remove(self.daemon, OnePath { device: device(), path: (*path).to_owned() })?;
        }
        self.wait_for_paths(name, &gone)
    }

    /// Waits until nothing is under way on paths that were removed: their disks may be to go as well.
    fn wait_for_paths(&self, name: &str, gone: &[&str]) -> Result<(), ControlError> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let leaving = paths::all_names_of(self.daemon, name)?;
            let Some(path) = gone.iter().find(|path| leaving.iter().any(|it| it == *path)) else { return Ok(()) };
            if Instant::now() >= patience {
                let why = "what is under way there has not ended; it goes then, and gets nothing new";
                return Err(ControlError::new(ErrorKind::Busy, format!("path `{path}` of `{name}`: {why}")));
            }
            thread::sleep(LOOK);
        }
    }
}
