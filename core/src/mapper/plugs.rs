//! Zone write plugs that the mapper puts over lines of tables whose targets take no appends, and their policies.
//!
//! A policy that was chosen for a line outlives the table: the plug of the same line of the next table begins with it. Without a
//! choice the limits of the line's target decide, as they do for a disk ([`crate::plug::WritePolicy::default_for`]).

use alloc::collections::BTreeMap;

use super::mapped::Loaded;
use super::{Mapper, MapperError};
use crate::block::{DeviceId, Stack};
use crate::plug::{WritePolicy, ZonePlug};
use crate::prelude::*;

/// The zone write plug of a table line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePlug {
    /// Number of the line in its table, from 1.
    pub line: u32,
    /// Name of the line's target.
    pub target: &'static str,
    /// The plug.
    pub plug: DeviceId,
}

/// Policies that were chosen for the plugs of a mapped device.
#[derive(Default)]
pub(super) struct ChosenPolicies {
    all: Option<WritePolicy>,
    lines: BTreeMap<u32, WritePolicy>,
}

impl ChosenPolicies {
    /// Has the plugs of a new table begin with the policies that were chosen.
    pub fn apply(&self, table: &Loaded, stack: &mut Stack) {
        for LinePlug { line, plug, .. } in table.plugs(stack) {
            if let Some(policy) = self.lines.get(&line).copied().or(self.all) {
                stack.with_device(plug, |plug: &mut ZonePlug, _| plug.begin_with(policy));
            }
        }
    }
}

impl Loaded {
    /// The plugs of its lines.
    pub fn plugs(&self, stack: &Stack) -> Vec<LinePlug> {
        let plug_over = |target: DeviceId| {
            let is_it =
                |part: &&DeviceId| stack.device::<ZonePlug>(**part).is_some() && stack.below(**part) == [target];
            self.parts.iter().find(is_it).copied()
        };
        let lines = (1..).zip(self.lines.iter().zip(&self.targets));
        let plug = |(line, (text, target)): (u32, (&crate::dm::TableLine, &Option<DeviceId>))| {
            Some(LinePlug { line, target: text.kind.name, plug: plug_over((*target)?)? })
        };
        lines.filter_map(plug).collect()
    }
}

impl Mapper {
    /// Plugs of the lines of the live table of a mapped device; none if there is no such device or table.
    #[must_use]
    pub fn plugs(&self, name: &str, stack: &Stack) -> Vec<LinePlug> {
        let live = self.index.place(name).and_then(|place| self.devices[place].live.as_ref());
        live.map_or(Vec::new(), |live| live.plugs(stack))
    }

    /// Notes the policy that was set for the plugs of a mapped device, or of one line, and has the plugs of its inactive table begin
    /// with it. The plugs of the live table are switched by the caller, who waits until they are idle.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn choose_policy(
        &mut self,
        name: &str,
        line: Option<u32>,
        policy: WritePolicy,
        stack: &mut Stack,
    ) -> Result<(), MapperError> {
        let place = self.find(name)?;
        let device = &mut self.devices[place];
        match line {
            Some(line) => _ = device.policies.lines.insert(line, policy),
            None => device.policies = ChosenPolicies { all: Some(policy), lines: BTreeMap::new() },
        }
        if let Some(inactive) = &device.inactive {
            device.policies.apply(inactive, stack);
        }
        Ok(())
    }
}
