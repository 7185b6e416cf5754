//! Reports of all stripes at once, for a report or for what depends on one.

use alloc::collections::BTreeMap;

use super::super::fan::Fan;
use crate::block::{Bio, Cx, DeviceId, Op, Payload, Status};
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::Zone;

/// The fan of reports, among those of a device.
const FAN: u16 = 2;

/// The reports that are under way.
pub(super) struct Gather {
    fan: Fan,
    stripes: usize,
    /// For each original the zones of each stripe that has answered.
    found: BTreeMap<usize, Vec<Vec<Zone>>>,
}

/// What a gathered report found.
pub(super) struct Gathered {
    pub bio: Box<Bio>,
    pub status: Status,
    /// The zones of each stripe, from the same number on.
    pub zones: Vec<Vec<Zone>>,
}

impl Gather {
    pub fn new(stripes: usize) -> Self {
        Self { fan: Fan::numbered(FAN), stripes, found: BTreeMap::new() }
    }

    /// Asks for up to `room` zones of each stripe; `from` is a device and a sector for each of them.
    pub fn ask(&mut self, bio: Box<Bio>, room: usize, from: impl Iterator<Item = (DeviceId, Sector)>, cx: &mut Cx<'_>) {
        let report = |sector| Bio::new(Op::ReportZones, sector, 0, Payload::Zones(Vec::with_capacity(room)));
        let parts = from.enumerate().map(|(number, (device, sector))| (number as u16, device, report(sector)));
        let sent = self.fan.spread(bio, parts, cx);
        debug_assert!(sent.is_none(), "there is a stripe to ask");
    }

    /// Whether a bio that comes back with `word` was sent here.
    pub fn is_own(&self, word: u64) -> bool {
        self.fan.is_own(word)
    }

    /// Takes back one of its bios; returns the original, and what was found, after the last.
    pub fn end_io(&mut self, mut own: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) -> Option<Gathered> {
        let found = self.found.entry(Fan::key(word)).or_insert_with(|| vec![Vec::new(); self.stripes]);
        if let Payload::Zones(zones) = core::mem::take(&mut own.payload) {
            found[usize::from(Fan::part(word))] = zones;
        }
        let (bio, status) = self.fan.end_io(own, status, word, cx)?;
        let zones = self.found.remove(&Fan::key(word)).unwrap_or_default();
        Some(Gathered { bio, status, zones })
    }

    /// Shows the originals.
    pub fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.fan.held(visit);
    }
}
