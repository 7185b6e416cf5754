//! A device of a test over one regular disk, in the place of a volume.

use alloc::string::String;
use alloc::vec::Vec;

use super::super::base::{add, between};
use super::super::options::Wrap;
use super::Media;
use super::kind::{Built, Kind};
use super::scenario::{Layout, Scenario, regular};
use crate::choices::Choices;
use crate::disk::CrashConfig;
use crate::volume::{BLOCK_SECTORS, Volume};
use shingle_core::block::{DeviceId, Stack};
use shingle_core::random::Rng;

/// A stand-in.
pub(super) struct StandIn {
    pub wrap: Wrap,
    /// Whether it is to keep writes in order.
    pub in_order: bool,
}

impl Kind for StandIn {
    fn draw(&self, zone_blocks: u32, rng: &mut Rng) -> Layout {
        let blocks = between(rng, 3, 20) * u64::from(zone_blocks);
        let disk = CrashConfig { fua_alone: self.in_order, ..regular(blocks) };
        // It does not know what of its disk was written.
        Layout { disks: Vec::from([disk]), dead: Vec::new(), is_wiped: true }
    }

    fn format(&self, scenario: &Scenario, _: &mut Choices) -> Result<(u32, Option<Media>), String> {
        let sectors = scenario.disks[0].regular.unwrap_or(0);
        Ok(((sectors / u64::from(BLOCK_SECTORS)) as u32, None))
    }

    fn build(&self, stack: &mut Stack, tops: &[DeviceId], _: u32) -> Result<Built, String> {
        let device = (self.wrap)(tops[0], stack.limits(tops[0]));
        Ok(Built { parts: Vec::new(), device: add(stack, device)?, target: None })
    }

    fn promises(&self, blocks: u32) -> Volume {
        if self.in_order { Volume::in_order(blocks) } else { Volume::new(blocks) }
    }
}
