//! The checker beside a second one, which is written from the description of the format alone, and is as simple as can be:
//! on the kernel's sets, on our own, and on sets with every kind of damage, both find the same.

use std::collections::BTreeSet;

use shingle_core::dm::zoned::check::{Finding, Report, Whose, check};
use shingle_core::dm::zoned::format::{Media, MemoryMedia, Part, Volume as Loaded};
use shingle_core::dm::zoned::{BLOCK_BYTES, MemberNo, SetZone, ZoneClass, ZoneHealth};
use shingle_core::random::Rng;
use shingle_core::time::Duration;
use shingle_sim::StackMedia;

use crate::dmz::damage::{DAMAGES, damaged};
use crate::dmz::{filled_sets, fix1, fix2, fixture, read};
use crate::zoned::Volume;

/// What is wrong, one line each.
type Wrong = BTreeSet<String>;

/// The second checker. It keeps the whole image in its head.
mod simple {
    use super::*;

    const NONE: u32 = u32::MAX;

    /// The words of a superblock that are numbers, and the bytes that are names.
    #[derive(Clone)]
    struct Super {
        version: u32,
        generation: u64,
        at: u64,
        total: u64,
        reserved: u64,
        chunks: u64,
        map: u64,
        bitmaps: u64,
        label: Vec<u8>,
        set: Vec<u8>,
        device: Vec<u8>,
    }

    /// CRC-32 bit by bit, from the low word of the generation on, over the block without its checksum.
    fn crc(block: &[u8]) -> u32 {
        let mut crc = u32::from_le_bytes(block[8..12].try_into().unwrap());
        for (at, byte) in block.iter().enumerate() {
            crc ^= u32::from(if (44..48).contains(&at) { 0 } else { *byte });
            for _ in 0..8 {
                crc = if crc % 2 == 1 { (crc / 2) ^ 0xedb8_8320 } else { crc / 2 };
            }
        }
        crc
    }

    fn parse(block: &[u8]) -> Option<Super> {
        let word = |at: usize| u64::from(u32::from_le_bytes(block[at..at + 4].try_into().unwrap()));
        if block[..4] != *b"DBZD" || word(44) != u64::from(crc(block)) || word(4) > 2 {
            return None;
        }
        Some(Super {
            version: word(4) as u32,
            generation: word(8) + (word(12) << 32),
            at: word(16) + (word(20) << 32),
            total: word(24),
            reserved: word(28),
            chunks: word(32),
            map: word(36),
            bitmaps: word(40),
            label: block[48..80].to_vec(),
            set: block[80..96].to_vec(),
            device: block[96..112].to_vec(),
        })
    }

    /// Whether both can be of one set: a tool leaves superblocks without a UUID.
    fn are_one(one: &Super, two: &Super) -> bool {
        one.set == two.set || [&one.set, &two.set].contains(&&vec![0; 16])
    }

    pub struct Set<'a> {
        pub media: &'a mut MemoryMedia,
        pub wrong: Wrong,
    }

    impl Set<'_> {
        fn zones(&self) -> u64 {
            self.media.space().zones().len() as u64
        }

        fn zone_blocks(&self) -> u64 {
            u64::from(self.media.space().zone_blocks())
        }

        /// Bitmap blocks of a zone.
        fn per_zone(&self) -> u64 {
            (self.zone_blocks() / 32_768).max(1)
        }

        fn has_regular(&self) -> bool {
            !self.media.space().members()[MemberNo(0)].is_zoned
        }

        fn is_cache(&self, zone: u64) -> bool {
            let class = self.media.space().zones()[SetZone(zone as u32)].class;
            class == if self.has_regular() { ZoneClass::Cache } else { ZoneClass::Random }
        }

        fn is_third(&self, zone: u64) -> bool {
            let space = self.media.space();
            self.has_regular() && space.members().iter().skip(1).any(|member| u64::from(member.first_zone) == zone)
        }

        /// The exact numbers: total blocks, chunks, map blocks, bitmap blocks.
        fn numbers(&self, reserved: u64) -> Option<[u64; 4]> {
            let zones = self.media.space().zones();
            let usable = zones
                .iter()
                .filter(|zone| zone.health == ZoneHealth::Good || (zone.class == ZoneClass::Cache && zone.is_runt));
            let usable = usable.count() as u64;
            let cache = (0..self.zones()).filter(|zone| self.is_cache(*zone)).count() as u64;
            let bitmaps = self.zones() * self.per_zone();
            let up = |count: u64, by: u64| count.div_ceil(by);
            let guess = usable.checked_sub(up(bitmaps, self.zone_blocks()) + reserved)?;
            let sets = 2 * up(1 + up(guess, 512) + bitmaps, self.zone_blocks());
            let chunks = usable.checked_sub(sets + reserved)?;
            let fits = cache >= 3 && reserved <= cache && reserved < usable && sets <= cache;
            fits.then_some([1 + up(chunks, 512) + bitmaps, chunks, up(chunks, 512), bitmaps])
        }

        /// Whether the rest of the set can be found with this superblock.
        fn leads_on(&self, found: &Super, at: u64) -> bool {
            found.at == at
                && (found.version == 2 || !self.has_regular())
                && found.bitmaps == self.zones() * self.per_zone()
                && found.map == found.chunks.div_ceil(512)
                && found.total == 1 + found.map + found.bitmaps
                && (1..self.zones()).contains(&found.chunks)
                && (1..self.zones()).contains(&found.reserved)
        }

        fn superblock(&mut self, block: u64) -> Option<Super> {
            parse(&read(self.media, block, 1)).filter(|found| self.leads_on(found, block))
        }

        fn judge_super(&mut self, name: &str, found: &Super, reference: &Super) {
            let own = [found.total, found.chunks, found.map, found.bitmaps];
            let mut bad = self.numbers(found.reserved) != Some(own);
            if found.version == 2 {
                bad |= found.set.iter().all(|byte| *byte == 0) || found.set != reference.set;
                bad |= found.label[0] == 0 || found.label != reference.label;
                bad |= found.device.iter().all(|byte| *byte == 0);
            }
            if bad {
                self.wrong.insert(format!("superblock {name}"));
            }
        }

        pub fn judge(&mut self) {
            let zones = self.media.space().zones();
            let fit =
                zones.iter().position(|zone| zone.class != ZoneClass::Sequential && zone.health == ZoneHealth::Good);
            let first = fit.unwrap() as u64 * self.zone_blocks();
            let primary = self.superblock(first);
            let tries = match &primary {
                Some(found) => vec![first + found.total.div_ceil(self.zone_blocks()) * self.zone_blocks()],
                None => (1..self.zones() / 2).map(|n| first + n * self.zone_blocks()).collect(),
            };
            let mut secondary = None;
            for block in tries {
                let found = self.superblock(block);
                let fits =
                    |found: &Super| first + found.total.div_ceil(self.zone_blocks()) * self.zone_blocks() == block;
                secondary = secondary.or(found.filter(fits));
            }
            let names = ["first", "second"];
            for (name, found) in names.iter().zip([&primary, &secondary]) {
                if found.is_none() {
                    self.wrong.insert(format!("superblock {name}"));
                }
            }
            if primary.is_none() && secondary.is_none() && self.are_other_members(None) {
                self.wrong = Wrong::from(["other members".into()]);
                return;
            }
            let is_newer = match (&primary, &secondary) {
                (None, None) => return,
                (Some(one), Some(two)) => two.generation > one.generation && are_one(one, two),
                (one, _) => one.is_none(),
            };
            let chosen = if is_newer { secondary.clone() } else { primary.clone() }.unwrap();
            if self.are_other_members(Some(&chosen)) {
                self.wrong = Wrong::from(["other members".into()]);
                return;
            }
            for (name, found) in names.iter().zip([&primary, &secondary]) {
                if let Some(found) = found {
                    self.judge_super(name, found, &chosen);
                }
            }
            self.judge_data(&chosen, first);
            if let (Some(one), Some(two)) = (&primary, &secondary)
                && are_one(one, two)
            {
                if one.generation != two.generation {
                    self.wrong.insert("generation".into());
                } else {
                    let count = one.total as usize - 1;
                    let second = first + one.total.div_ceil(self.zone_blocks()) * self.zone_blocks();
                    let (one, two) = (self.blocks(first + 1, count), self.blocks(second + 1, count));
                    let differ = (0..count).filter(|n| one[n * 4096..][..4096] != two[n * 4096..][..4096]).count();
                    if differ > 0 {
                        self.wrong.insert(format!("{differ} blocks differ"));
                    }
                }
            }
            self.judge_thirds(&chosen);
        }

        /// True if a superblock at the start of a disk says that the disk is another one. `main`: the superblock of the set, if there is one.
        fn are_other_members(&mut self, main: Option<&Super>) -> bool {
            let starts: Vec<u64> = self.media.space().members().iter().map(|it| u64::from(it.first_zone)).collect();
            let starts: Vec<u64> = starts.into_iter().map(|zone| zone * self.zone_blocks()).collect();
            let found: Vec<(u64, Super)> = starts
                .into_iter()
                .filter_map(|at| Some((at, parse(&read(self.media, at, 1)).filter(|found| found.version == 2)?)))
                .collect();
            if !self.has_regular() {
                let zone = self.zone_blocks();
                return main.is_none() && found.iter().any(|(_, found)| found.at > 0 && found.at % zone == 0);
            }
            let bitmaps = self.zones() * self.per_zone();
            let mut fits = found.iter().filter(|(at, found)| found.at == *at && found.bitmaps == bitmaps);
            match main.or(fits.next().map(|(_, found)| found)) {
                None => !found.is_empty(),
                Some(main) => found.iter().any(|(at, found)| !are_one(found, main) || (*at > 0 && found.at != *at)),
            }
        }

        fn blocks(&mut self, first: u64, count: usize) -> Vec<u8> {
            (first..first + count as u64).flat_map(|block| read(self.media, block, 1)).collect()
        }

        fn judge_thirds(&mut self, main: &Super) {
            for zone in 0..self.zones() {
                if !self.is_third(zone) {
                    continue;
                }
                let at = zone * self.zone_blocks();
                let member = self.media.space().member_of(SetZone(zone as u32));
                let name = format!("third {member}");
                match parse(&read(self.media, at, 1)) {
                    Some(found) if found.at == at && found.version == 2 => {
                        let same = [found.total, found.reserved, found.chunks, found.map, found.bitmaps]
                            == [main.total, main.reserved, main.chunks, main.map, main.bitmaps];
                        if !same {
                            self.wrong.insert(format!("superblock {name}"));
                        }
                        let reserved = Super { reserved: main.reserved, ..found };
                        let exact = self.numbers(main.reserved).is_some();
                        if exact && same {
                            self.judge_super(&name, &reserved, main);
                        } else {
                            let bad = reserved.set != main.set || reserved.label != main.label;
                            let nameless =
                                reserved.label[0] == 0 || [reserved.set, reserved.device].contains(&vec![0; 16]);
                            if bad || nameless {
                                self.wrong.insert(format!("superblock {name}"));
                            }
                        }
                    }
                    _ => drop(self.wrong.insert(format!("superblock {name}"))),
                }
            }
        }

        /// Mapping and bitmaps of the set of `chosen`; the first set starts at block `first`.
        fn judge_data(&mut self, chosen: &Super, first: u64) {
            let metadata_zones = 2 * chosen.total.div_ceil(self.zone_blocks());
            let first_zone = first / self.zone_blocks();
            let is_meta =
                |set: &Self, zone: u64| (first_zone..first_zone + metadata_zones).contains(&zone) || set.is_third(zone);
            let map = self.blocks(chosen.at + 1, chosen.map as usize);
            let word = |at: usize| u32::from_le_bytes(map[at..at + 4].try_into().unwrap());
            let mut owner = vec![false; self.zones() as usize];
            let mut used = vec![false; self.zones() as usize];
            let mut buffered = vec![];
            for chunk in 0..chosen.chunks as usize {
                let (dzone, bzone) = (word(chunk * 8), word(chunk * 8 + 4));
                let mut data_is_bad = false;
                if dzone != NONE {
                    data_is_bad = u64::from(dzone) >= self.zones() || is_meta(self, dzone.into());
                    data_is_bad |= !data_is_bad && owner[dzone as usize];
                    if !data_is_bad {
                        owner[dzone as usize] = true;
                        let info = self.media.space().zones()[SetZone(dzone)];
                        data_is_bad = info.health == ZoneHealth::Offline && !info.is_runt;
                    }
                }
                if data_is_bad {
                    self.wrong.insert(format!("data zone of chunk {chunk}"));
                }
                if bzone != NONE {
                    let mut bad = u64::from(bzone) >= self.zones() || !self.is_cache(bzone.into());
                    if !bad {
                        let unneeded = dzone != NONE && !data_is_bad && self.is_cache(dzone.into());
                        bad = unneeded || is_meta(self, bzone.into()) || owner[bzone as usize] || dzone == NONE;
                        if !unneeded && !is_meta(self, bzone.into()) {
                            owner[bzone as usize] = true;
                        }
                    }
                    if bad {
                        self.wrong.insert(format!("buffer of chunk {chunk}"));
                    }
                }
                for zone in [dzone, bzone] {
                    if u64::from(zone) < self.zones() {
                        used[zone as usize] = true;
                    }
                }
                if u64::from(dzone) < self.zones() && u64::from(bzone) < self.zones() && dzone != bzone {
                    buffered.push((chunk, u64::from(dzone), u64::from(bzone)));
                }
            }
            let mut bits = vec![];
            for zone in 0..self.zones() {
                let at = chosen.at + 1 + chosen.map + zone * self.per_zone();
                let bytes = self.blocks(at, self.per_zone() as usize);
                let valid: Vec<usize> =
                    (0..bytes.len() * 8).filter(|bit| bytes[bit / 8] & (1 << (bit % 8)) != 0).collect();
                let info = self.media.space().zones()[SetZone(zone as u32)];
                let is_sequential = info.class == ZoneClass::Sequential;
                let wp = info.wp.0 as usize;
                if used[zone as usize] && !is_meta(self, zone) {
                    let len = self.media.space().zone_len(SetZone(zone as u32)) as usize;
                    let past_end = valid.iter().filter(|bit| **bit >= len).count();
                    let past_wp = valid.iter().filter(|bit| **bit >= wp && **bit < len).count();
                    if past_end > 0 {
                        self.wrong.insert(format!("{past_end} bits past the end of zone {zone}"));
                    }
                    if is_sequential && past_wp > 0 && (info.health != ZoneHealth::Offline || info.is_runt) {
                        self.wrong.insert(format!("{past_wp} bits past the write pointer of zone {zone}"));
                    }
                } else {
                    if !valid.is_empty() {
                        self.wrong.insert(format!("{} bits of free zone {zone}", valid.len()));
                    }
                    if is_sequential && wp > 0 && info.health != ZoneHealth::ReadOnly && !is_meta(self, zone) {
                        self.wrong.insert(format!("free zone {zone} is not empty"));
                    }
                }
                bits.push(valid);
            }
            for (chunk, dzone, bzone) in buffered {
                let in_buffer: BTreeSet<_> = bits[bzone as usize].iter().collect();
                let both = bits[dzone as usize].iter().filter(|bit| in_buffer.contains(bit)).count();
                if both > 0 {
                    self.wrong.insert(format!("{both} blocks of chunk {chunk} twice"));
                }
            }
        }
    }
}

fn simply(media: &mut MemoryMedia) -> Wrong {
    let mut set = simple::Set { media, wrong: Wrong::new() };
    set.judge();
    set.wrong
}

/// The errors of a report in the other's words.
fn said(report: &Report) -> Wrong {
    let errors = report.findings.iter().filter(|finding| finding.is_error());
    let whose = |whose: &Whose| match whose {
        Whose::Set(set) => format!("superblock {}", ["first", "second"][*set]),
        Whose::Third(member) => format!("superblock third {member}"),
    };
    let line = |finding: &Finding| match finding {
        Finding::Superblock { whose: it, .. } | Finding::Name { whose: it, .. } | Finding::Number { whose: it, .. } => {
            whose(it)
        }
        Finding::Generations(_) => "generation".into(),
        Finding::Mapping(problem) if problem.part == Part::Data => format!("data zone of chunk {}", problem.chunk),
        Finding::Mapping(problem) => format!("buffer of chunk {}", problem.chunk),
        Finding::FreeBits { zone, count } => format!("{count} bits of free zone {zone}"),
        Finding::NotReset { zone, .. } => format!("free zone {zone} is not empty"),
        Finding::PastWp { zone, count, .. } => format!("{count} bits past the write pointer of zone {zone}"),
        Finding::PastEnd { zone, count } => format!("{count} bits past the end of zone {zone}"),
        Finding::Both { chunk, count } => format!("{count} blocks of chunk {chunk} twice"),
        Finding::Difference { count, .. } => format!("{count} blocks differ"),
        Finding::NoSet(_) if report.wrong_members.is_some() => "other members".into(),
        other => panic!("{other}"),
    };
    errors.map(line).collect()
}

fn checked(media: &mut MemoryMedia) -> Report {
    let mut last = (0, 0);
    let report = check(media, &mut |done, total| {
        assert!(last.0 <= done && done <= total);
        last = (done, total);
    });
    assert_eq!(report.is_clean(), report.to_string().ends_with("No error detected\n"));
    assert_eq!(report.is_clean(), said(&report).is_empty());
    report
}

#[test]
fn the_kernels_sets_are_clean_and_the_report_is_that_of_dmzadm() {
    for (mut media, name) in [(fix1(), "fix1_check.txt"), (fix2(), "fix2_check.txt")] {
        assert_eq!(simply(&mut media), Wrong::new());
        let expected = String::from_utf8(fixture(name)).unwrap();
        let expected = &expected[expected.rfind("Locating metadata...").unwrap()..];
        assert_eq!(checked(&mut media).to_string(), expected);
    }
}

#[test]
fn both_checkers_find_nothing_in_sound_sets() {
    for mut media in filled_sets() {
        assert_eq!(said(&checked(&mut media)), Wrong::new());
        assert_eq!(simply(&mut media), Wrong::new());
    }
}

#[test]
fn both_checkers_find_the_same_damage_of_every_kind() {
    let originals = [filled_sets(), vec![fix1(), fix2()]].concat();
    let mut rng = Rng::new(5);
    for (kind, (name, _)) in DAMAGES.iter().enumerate() {
        let mut found = 0;
        for round in 0..20 {
            let mut media = damaged(&originals[round % originals.len()], &mut rng, &[kind]);
            let (ours, other) = (said(&checked(&mut media)), simply(&mut media));
            assert_eq!(ours, other, "{name}, round {round}");
            found += usize::from(!ours.is_empty());
        }
        assert!(found > 4, "{name}: found {found} times");
    }
}

#[test]
fn both_checkers_find_the_same_in_sets_with_much_damage() {
    let originals = [filled_sets(), vec![fix1(), fix2()]].concat();
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let damages: Vec<_> = (0..2 + rng.below(5)).map(|_| rng.below(DAMAGES.len() as u64) as usize).collect();
        let mut media = damaged(&originals[seed as usize % originals.len()], &mut rng, &damages);
        let names: Vec<_> = damages.iter().map(|damage| DAMAGES[*damage].0).collect();
        assert_eq!(said(&checked(&mut media)), simply(&mut media), "seed {seed}: {names:?}");
    }
}

/// A volume with some use behind it, stopped, and the byte that each of its blocks is filled with.
fn used_volume(seed: u64) -> (Volume, Vec<u8>) {
    let mut rng = Rng::new(seed);
    let mut volume = Volume::of_seed(seed);
    let mut model = vec![0; volume.blocks as usize];
    for n in 0..1200 {
        let longest = if rng.chance(1, 8) { 90 } else { 8 };
        let at = rng.below(volume.blocks);
        let blocks = (1 + rng.below(longest)).min(volume.blocks - at) as u32;
        let fill = if rng.chance(1, 6) { 0 } else { n as u8 | 1 };
        model[at as usize..][..blocks as usize].fill(fill);
        if fill == 0 {
            volume.discard(at, blocks)
        } else {
            volume.write(at, blocks, fill)
        }
        match rng.below(100) {
            0 => volume.rig.pass(Duration::from_millis(30_000)),
            1..4 => volume.flush(),
            _ => {}
        }
    }
    volume.stop();
    (volume, model)
}

/// The disks of a volume, as they are.
fn disks_of(volume: &mut Volume) -> MemoryMedia {
    let limits: Vec<_> = volume.disks.iter().map(|id| volume.rig.stack.limits(*id).clone()).collect();
    let mut copy = MemoryMedia::new(&limits.iter().collect::<Vec<_>>()).unwrap();
    let mut media = StackMedia::new(&mut volume.rig.stack, &volume.disks, volume.rig.now).unwrap();
    for zone in media.space().zones().numbers() {
        let (first, info) = (media.space().start(zone), media.space().zones()[zone]);
        let blocks = if info.class == ZoneClass::Sequential { info.wp.0 } else { media.space().zone_len(zone) };
        let mut bytes = vec![0; blocks as usize * BLOCK_BYTES];
        if blocks > 0 {
            media.read(first, &mut bytes).unwrap();
        }
        copy.put(first, &bytes);
        copy.set_wp(zone, info.wp);
    }
    copy
}

#[test]
fn volumes_that_were_used_and_stopped_are_clean_and_hold_what_was_written() {
    for seed in 0..6 {
        let (mut volume, model) = used_volume(seed);
        let mut media = disks_of(&mut volume);
        let report = checked(&mut media);
        assert_eq!(said(&report), Wrong::new(), "seed {seed}: {report}");
        assert_eq!(simply(&mut media), Wrong::new(), "seed {seed}");
        assert!(report.mapped > 5, "seed {seed}: {report}");
        let loaded = Loaded::load(&mut media).unwrap();
        let mut bytes = vec![0; model.len() * BLOCK_BYTES];
        loaded.read(&mut media, 0, &mut bytes).unwrap();
        for (block, (bytes, expected)) in bytes.chunks(BLOCK_BYTES).zip(&model).enumerate() {
            assert!(bytes.iter().all(|byte| byte == expected), "seed {seed}: block {block}");
        }
    }
}
