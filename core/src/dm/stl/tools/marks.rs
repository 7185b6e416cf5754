//! Which blocks of a set are live, by a bit for each and a sum that says which block of the exposed disk is there: 32 MB for each TB.

use super::chain::Entry;
use super::space::Space;
use crate::dm::stl::map::Span;
use crate::dm::stl::{Lba, Pba, ZoneIndex};
use crate::prelude::*;

/// Live blocks of all zones.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    zones: Vec<Option<OfZone>>,
}

#[derive(Clone, Debug)]
struct OfZone {
    bits: Box<[u64]>,
    live: u32,
    sum: u64,
}

/// What is wrong with an entry of the map by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Odd {
    Nowhere,
    Twice,
}

impl Marks {
    pub fn new(space: &Space) -> Self {
        Self { zones: vec![None; space.zones().count()] }
    }

    /// The map has this extent.
    pub fn add(&mut self, space: &Space, extent: Span<'_>, tell: &mut dyn FnMut(Odd, Lba, Pba)) {
        for (lba, place, checksum) in extent.data() {
            let (zone, at) = space.set.zone_of(place);
            if space.spot(place).is_none() || at >= space.room(zone) {
                tell(Odd::Nowhere, lba, place);
            } else if !self.mark(space, (zone, at), Entry { lba, place, checksum }) {
                tell(Odd::Twice, lba, place);
            }
        }
    }

    fn mark(&mut self, space: &Space, (zone, at): (ZoneIndex, u32), entry: Entry) -> bool {
        let words = space.room(zone).div_ceil(64) as usize;
        let of_zone =
            self.zones[zone.0 as usize].get_or_insert_with(|| OfZone { bits: vec![0; words].into(), live: 0, sum: 0 });
        let (word, bit) = (&mut of_zone.bits[at as usize / 64], 1 << (at % 64));
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        of_zone.live += 1;
        of_zone.sum = of_zone.sum.wrapping_add(mixed(&entry));
        true
    }

    /// Live blocks of a zone.
    pub fn live(&self, zone: ZoneIndex) -> u32 {
        self.zones[zone.0 as usize].as_ref().map_or(0, |of_zone| of_zone.live)
    }

    /// Live blocks of a zone from `at` on.
    pub fn live_from(&self, zone: ZoneIndex, at: u32) -> u32 {
        let of_zone = self.zones[zone.0 as usize].as_ref();
        let blocks = |of_zone: &OfZone| (at..of_zone.bits.len() as u32 * 64).filter(|at| is_set(of_zone, *at)).count();
        of_zone.map_or(0, blocks) as u32
    }

    /// Whether a block is live.
    pub fn is_live(&self, zone: ZoneIndex, at: u32) -> bool {
        self.zones[zone.0 as usize].as_ref().is_some_and(|of_zone| is_set(of_zone, at))
    }

    /// Whether the live blocks of a zone are just these.
    pub fn are(&self, zone: ZoneIndex, live: &[Entry]) -> bool {
        let sum = live.iter().fold(0_u64, |sum, entry| sum.wrapping_add(mixed(entry)));
        self.zones[zone.0 as usize].as_ref().map_or((0, 0), |of_zone| (of_zone.live as usize, of_zone.sum))
            == (live.len(), sum)
    }
}

fn is_set(of_zone: &OfZone, at: u32) -> bool {
    of_zone.bits.get(at as usize / 64).is_some_and(|word| word & 1 << (at % 64) != 0)
}

/// A number that is another for another block, place or checksum.
fn mixed(entry: &Entry) -> u64 {
    let Entry { lba, place, checksum } = entry;
    [lba.0, place.0, checksum.0.into()].into_iter().fold(0, |hash, word| {
        // The finalizer of splitmix64.
        let hash = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ hash >> 31
    })
}
