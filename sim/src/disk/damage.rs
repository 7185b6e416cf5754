//! Other bytes than were written: bit rot, lost writes and misdirected writes.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::journal::{Content, SECTOR_WORDS};
use super::platter::Platter;
use crate::choices::Choices;
use crate::fault::Fault;
use crate::stamp::place_of;
use shingle_core::block::Bio;
use shingle_core::zone::{ZoneKind, ZoneNo};

impl Platter {
    /// Damages what a read is about to find, or what a write has just stored. Returns true if something is different now.
    pub fn damage(&mut self, bio: &Bio, fault: Fault, choices: &mut Choices) -> bool {
        let Ok(zone) = self.zones.zone_at(bio.sector) else { return false };
        let (first, block) = (self.geometry.offset_in_zone(bio.sector), self.limits.block_sectors());
        let is_sequential = self.geometry.kind(zone) == ZoneKind::Sequential;
        let is_damaged = match fault {
            Fault::Rot => {
                let block_at = choices.below("rotten", u64::from(bio.sectors / block)) as u32;
                self.rot(zone, first + block_at * block)
            }
            // Elsewhere an earlier version of a node of the map may be left, which nothing tells from the newest.
            Fault::Vanish | Fault::Stray if is_sequential => {
                let blocks = u64::from(first / block).saturating_sub(u64::from(bio.sectors / block));
                let astray = choices.below("astray", blocks + 1) as u32 * block;
                let strays = fault == Fault::Stray && astray + bio.sectors <= first;
                self.lose(zone, first..first + bio.sectors, strays.then_some(astray));
                true
            }
            _ => false,
        };
        self.damages += u64::from(is_damaged);
        is_damaged
    }

    /// Changes a bit of a sector, if that was written.
    fn rot(&mut self, zone: ZoneNo, offset: u32) -> bool {
        let store = &mut self.stores[zone.index()];
        let Some(content) = store.at(offset) else { return false };
        self.damaged.extend(place_of(content[0]));
        let mut content = **content;
        content[SECTOR_WORDS / 2] ^= 1 << 17;
        self.changes += 1;
        store.write(self.changes, offset, vec![Arc::new(content)]);
        true
    }

    /// Takes back what was written to these sectors, and has it overwrite others.
    fn lose(&mut self, zone: ZoneNo, sectors: core::ops::Range<u32>, astray: Option<u32>) {
        let store = &mut self.stores[zone.index()];
        let written: Vec<Content> = sectors.clone().filter_map(|offset| store.at(offset).cloned()).collect();
        let unwritten: Content = Arc::new([self.unwritten; SECTOR_WORDS]);
        let overwritten = astray.into_iter().flat_map(|astray| astray..astray + written.len() as u32);
        let changed = sectors.clone().chain(overwritten).filter_map(|offset| store.at(offset));
        self.damaged.extend(changed.filter_map(|content| place_of(content[0])));
        self.changes += 1;
        store.write(self.changes, sectors.start, vec![unwritten; written.len()]);
        if let Some(astray) = astray {
            self.changes += 1;
            store.write(self.changes, astray, written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{CrashConfig, CrashDisk};
    use crate::fault::FaultPlan;
    use shingle_core::block::{Data, Op, Payload};
    use shingle_core::random::Rng;
    use shingle_core::sector::Sector;
    use shingle_core::time::Instant;
    use shingle_core::zone::ZoneGeometry;

    /// First words of the first four sectors, after writes of 1 to the first two and of 2 to the others, of which the last has this fault.
    fn damaged(fault: Fault) -> [u64; 4] {
        let config = CrashConfig::new(ZoneGeometry::new(128, 64, 64, 0).unwrap());
        let mut disk = CrashDisk::new(config, FaultPlan::none(), 1).unwrap();
        let data = Data::zeroed(4 * 512);
        for (sector, word) in [(0, 1), (2, 2)] {
            let part = Data::zeroed(2 * 512);
            part.words().iter().for_each(|to| to.store(word, core::sync::atomic::Ordering::Relaxed));
            let mut bio = Bio::new(Op::Write, Sector(sector), 2, Payload::Data(part));
            assert!(disk.carry_out(&mut bio, 0, Instant::ZERO).is_ok());
            if sector == 2 {
                disk.platter.damage(&bio, fault, &mut Choices::new(Rng::new(1)));
            }
        }
        let mut read = Bio::new(Op::Read, Sector(0), 4, Payload::Data(data.clone()));
        assert!(disk.carry_out(&mut read, 0, Instant::ZERO).is_ok());
        assert_eq!(disk.damages(), 1);
        [0, 1, 2, 3].map(|sector| data.words()[sector * SECTOR_WORDS].load(core::sync::atomic::Ordering::Relaxed))
    }

    #[test]
    fn a_lost_write_reads_as_unwritten_and_a_misdirected_one_overwrites_others() {
        let unwritten = CrashConfig::new(ZoneGeometry::new(128, 64, 64, 0).unwrap()).unwritten;
        assert_eq!(damaged(Fault::Vanish), [1, 1, unwritten, unwritten]);
        assert_eq!(damaged(Fault::Stray), [2, 2, unwritten, unwritten]);
    }
}
