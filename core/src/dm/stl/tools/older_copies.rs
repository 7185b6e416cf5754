//! Members that are older copies, as a start of the volume finds them, and by the whole map as well.

use super::finding::Findings;
use super::media::Media;
use super::volume::Volume;
use super::walk::Walk;
use crate::dm::stl::format::ZoneRow;
use crate::dm::stl::map::{LeafNo, Span};
use crate::dm::stl::{ZoneIndex, stale};
use crate::zone::Condition;

impl Volume {
    /// True if zones of a member lack what the newest root names there.
    pub(super) fn is_older_copy(&self, media: &mut dyn Media, place: usize) -> bool {
        let zones = self.space.set.zones(place);
        let rows = (zones.start.0..zones.end.0).filter_map(|zone| Some((ZoneIndex(zone), self.zones[zone as usize]?)));
        let mut evidence = |(zone, row): &(ZoneIndex, ZoneRow)| {
            let blocks = stale::HEADER_BLOCKS.min(self.space.pointer(*zone));
            if blocks == 0 || self.space.condition(*zone).is_some_and(Condition::is_dead) {
                return 0;
            }
            let start = self.space.read(media, self.space.set.start(*zone), blocks);
            start.map_or(0, |start| stale::evidence(row, self.id(), self.space.is_sequential(*zone), &start))
        };
        let witnesses = stale::witnesses((&self.space.set, &self.newest.root), rows);
        witnesses.iter().map(&mut evidence).sum::<u32>() >= stale::ENOUGH || self.is_short(media, place)
    }

    /// True if the map leads to a block behind the write pointer of a zone of a member.
    fn is_short(&self, media: &mut dyn Media, place: usize) -> bool {
        let (zones, mut walk) = (self.space.set.zones(place), Walk::new(self));
        let mut lacks = |extent: Span<'_>| {
            let Some(first) = extent.place else { return false };
            let (zone, offset) = self.space.set.zone_of(first);
            let is_alive = !self.space.condition(zone).is_some_and(Condition::is_dead);
            let has_pointer = zones.contains(&zone) && self.space.is_sequential(zone) && is_alive;
            has_pointer && offset + extent.blocks > self.space.pointer(zone)
        };
        let mut leaves = (0..self.leaves.len() as u32).map(LeafNo);
        leaves.any(|leaf| walk.leaf(media, leaf, &mut Findings::default()).0.iter().any(&mut lacks))
    }
}
