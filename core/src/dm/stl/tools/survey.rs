//! What the headers of all zones say of a set of which no root is left: which set, where each disk belongs in it, and which batches
//! there are.

use alloc::collections::BTreeMap;

use super::chain::{Chain, Expected, chain};
use super::media::{Disk, Media, Progress};
use super::members::{Foreign, firsts, set_of_most};
use super::space::Space;
use super::volume::{RootFound, roots_of};
use crate::dm::stl::format::{Batch, BatchKind, Checksum, Header, Life, Member, MemberKind, MemberState, SetId};
use crate::dm::stl::roots::ROOT_ZONES;
use crate::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS, BatchNo, CopyNo, Epoch, Generation, Lba, Pba, ZoneIndex};
use crate::prelude::*;

/// What a zone has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneSeen {
    /// Its generation; `None`: there is no batch of the set at its start.
    pub generation: Option<Generation>,
    /// What its batches are of.
    pub stream: Stream,
    /// The block behind the last batch that was found.
    pub end: u32,
    /// The block up to which it is written.
    pub pointer: u32,
    /// Why its headers cannot be followed to there, if they cannot.
    pub why: Option<String>,
}

/// What the batches of a zone are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// Roots.
    Roots,
    /// Nothing that is known.
    #[default]
    Unknown,
    /// Users' changes.
    Users,
    /// Copies.
    Copies,
    /// The map.
    Map,
}

/// What all zones of a set say.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The set.
    pub set: SetId,
    /// Its devices.
    pub members: Vec<Member>,
    /// Where they are.
    pub space: Space,
    /// Zones, by their index.
    pub zones: Vec<ZoneSeen>,
    /// The newest life, and the last numbers in any.
    pub epoch: Epoch,
    /// The last batch of users.
    pub user: BatchNo,
    /// The last batch of copies.
    pub copy: CopyNo,
    /// Batches of users and of copies that were found.
    pub batches: u64,
    /// Behind the last block that any of them tells of.
    pub end: Lba,
    /// The newest root that is left, if one is.
    pub root: Option<RootFound>,
    /// Disks of other volumes, which are left out: their names, and their volumes.
    pub foreign: Vec<(String, Foreign)>,
    /// Batches of users later than this one that are of a life before the key count for nothing.
    void: BTreeMap<Epoch, BatchNo>,
    /// The attempt that has nothing, of batches of users that a host refused: earlier attempts count for nothing.
    refused: BTreeMap<(Epoch, u64), u32>,
}

impl Survey {
    /// Looks at all zones.
    ///
    /// # Errors
    /// If no header of a set was found.
    pub fn take(media: &mut dyn Media, progress: Progress<'_>) -> Result<Self, String> {
        let zone_blocks = media.disks().iter().find_map(Disk::zone_blocks).ok_or("a volume needs a zoned disk")?;
        let roots = (0..media.disks().len()).map(|disk| roots_of(media, disk, zone_blocks));
        let roots = roots.collect::<Result<Vec<_>, _>>()?;
        let (set, found) = locate(media, zone_blocks, set_of_most(&roots))?;
        let roots: Vec<RootFound> = roots.into_iter().flatten().filter(|found| found.header.batch.set == set).collect();
        let root = roots.iter().max_by_key(|found| found.header.batch.number).cloned();
        let (members, of) = members(media.disks(), zone_blocks, &found, root.as_ref());
        let foreign = found.iter().enumerate().filter_map(|(disk, found)| match found {
            Found::Foreign(its) => Some((media.name(disk), Foreign::Of(*its))),
            Found::Nothing | Found::At(_) => None,
        });
        let foreign = foreign.collect();
        let space = Space::new(zone_blocks, &members, of, media.disks());
        let mut survey = Self {
            set,
            members,
            zones: vec![ZoneSeen::default(); space.zones().count()],
            space,
            epoch: Epoch(0),
            user: BatchNo(0),
            copy: CopyNo(0),
            batches: 0,
            end: Lba(0),
            root,
            foreign,
            void: BTreeMap::new(),
            refused: BTreeMap::new(),
        };
        survey.look(media, &roots, progress);
        Ok(survey)
    }

    fn look(&mut self, media: &mut dyn Media, roots: &[RootFound], progress: Progress<'_>) {
        for found in roots {
            let RootFound { header, root, .. } = found;
            self.remember(header);
            (self.user, self.copy) = (self.user.max(root.cut), self.copy.max(root.copies));
        }
        let all = self.zones.len() as u64;
        for zone in self.space.zones() {
            if self.is_of_roots(zone) {
                self.zones[zone.0 as usize] = ZoneSeen { stream: Stream::Roots, ..ZoneSeen::default() };
            } else {
                let chain = self.chain(media, zone);
                let ends = self.ends(media, zone, &chain);
                self.note(zone, &chain, ends);
            }
            progress(u64::from(zone.0) + 1, all);
        }
    }

    /// Whether a zone is one of those that each disk keeps for roots.
    pub(super) fn is_of_roots(&self, zone: ZoneIndex) -> bool {
        let start = self.space.set.start(zone);
        let blocks = ROOT_ZONES * u64::from(self.space.set.zone_blocks());
        self.members.iter().any(|member| (member.first.0..member.first.0 + blocks).contains(&start.0))
    }

    /// The batches of a zone.
    pub(super) fn chain(&self, media: &mut dyn Media, zone: ZoneIndex) -> Chain {
        let expected = Expected { set: Some(self.set), ..Expected::default() };
        chain(media, &self.space, (zone, self.space.pointer(zone)), expected)
    }

    /// Whether nothing was written behind the last batch of a zone. A zone that was finished early has its pointer at its end.
    fn ends(&self, media: &mut dyn Media, zone: ZoneIndex, chain: &Chain) -> bool {
        if !self.space.is_sequential(zone) || chain.end >= self.space.pointer(zone) {
            return true;
        }
        let next = self.space.read(media, self.space.set.start(zone) + u64::from(chain.end), 1);
        chain.end > 0 && next.is_ok_and(|block| block.iter().all(|byte| *byte == 0))
    }

    fn note(&mut self, zone: ZoneIndex, chain: &Chain, ends: bool) {
        let pointer = self.space.pointer(zone);
        let mut seen = ZoneSeen { end: chain.end, pointer, why: chain.why.clone(), ..ZoneSeen::default() };
        if ends {
            (seen.pointer, seen.why) = (chain.end, None);
        }
        for header in chain.found.iter().map(|found| &found.header) {
            let Header { batch, kind, .. } = header;
            seen.generation = Some(batch.generation);
            if matches!(kind, BatchKind::User(records) if records.is_empty()) {
                let attempt = self.refused.entry((batch.epoch, batch.number)).or_default();
                *attempt = batch.attempt.max(*attempt);
            }
            self.remember(header);
            match kind {
                BatchKind::User(records) => {
                    seen.stream = Stream::Users;
                    self.user = self.user.max(BatchNo(batch.number));
                    self.batches += 1;
                    let ends = records.iter().map(|record| record.lba + u64::from(record.blocks));
                    self.end = ends.fold(self.end, Ord::max);
                }
                BatchKind::Copies(records) => {
                    seen.stream = Stream::Copies;
                    self.copy = self.copy.max(CopyNo(batch.number));
                    self.batches += 1;
                    self.end = records.iter().map(|record| record.lba + 1).fold(self.end, Ord::max);
                }
                BatchKind::Map(_) => seen.stream = Stream::Map,
                BatchKind::Root(_) | BatchKind::Footer | BatchKind::Filler => {}
            }
        }
        self.zones[zone.0 as usize] = seen;
    }

    /// What a header says of lives: when one began batches up to some counted, and no later one of a life before it.
    fn remember(&mut self, header: &Header) {
        self.epoch = self.epoch.max(header.batch.epoch);
        self.void.insert(header.batch.epoch, header.batch.since);
        self.void.extend(header.lives().iter().map(|life| (life.epoch, life.since)));
    }

    /// What is to be remembered of lives, as far as it can be.
    pub(super) fn lives(&self) -> Vec<Life> {
        let mut lives = Vec::new();
        self.void.iter().for_each(|(epoch, since)| Life { epoch: *epoch, since: *since }.note(&mut lives));
        lives
    }

    /// Whether a batch of users counts for nothing: a later life began before it.
    pub(super) fn is_void(&self, epoch: Epoch, number: BatchNo) -> bool {
        self.void.range(epoch + 1..).any(|(_, since)| *since < number)
    }

    /// True if a later attempt at a batch of users has nothing, as the host refused what this one has.
    pub(super) fn is_refused(&self, batch: &Batch) -> bool {
        self.refused.get(&(batch.epoch, batch.number)).is_some_and(|attempt| *attempt > batch.attempt)
    }

    /// True if a block lies in a batch of which only a part is on the disk: its write failed. The batch was written again elsewhere, or users were told
    /// that it failed.
    pub fn is_of_partial_batch(&self, media: &mut dyn Media, place: Pba) -> bool {
        let (zone, offset) = self.space.set.zone_of(place);
        let chain = self.chain(media, zone);
        let batch = chain.found.iter().find(|found| found.end > offset);
        batch.is_some_and(|batch| !batch.is_whole(media, &self.space))
    }

    /// Blocks of a batch that are not what its header says, where that can be because it was torn: the last of a zone with a pointer, any of
    /// another.
    pub(super) fn torn(&self, media: &mut dyn Media, zone: ZoneIndex, chain: &Chain) -> Vec<Pba> {
        let is_sequential = self.space.is_sequential(zone);
        let first = if is_sequential { chain.found.len().saturating_sub(1) } else { 0 };
        let suspects = chain.found[first..].iter().filter(|found| !found.header.lbas().is_empty());
        let mut torn = Vec::new();
        for found in suspects.collect::<Vec<_>>() {
            if found.is_whole(media, &self.space) {
                continue;
            }
            for entry in found.entries() {
                let data = self.space.read(media, entry.place, 1);
                if data.is_ok_and(|data| Checksum::of_block(entry.lba, &data[..BLOCK_BYTES]) == entry.checksum) {
                    continue;
                }
                torn.push(entry.place);
            }
        }
        torn
    }
}

/// Position of a disk in a set, by the headers of its zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// No header says.
    Nothing,
    /// The address of its first block.
    At(Pba),
    /// The disk is of another set.
    Foreign(SetId),
}

/// The set that is `known`, or else that most zones are of, and where each disk begins in it as far as headers tell.
fn locate(media: &mut dyn Media, zone_blocks: u32, known: Option<SetId>) -> Result<(SetId, Vec<Found>), String> {
    let mut votes: BTreeMap<[u8; 16], usize> = BTreeMap::new();
    let mut seen: Vec<Vec<(SetId, Pba)>> = Vec::new();
    for disk in 0..media.disks().len() {
        let found = firsts(media, disk, zone_blocks);
        found.iter().for_each(|(set, _)| *votes.entry(set.0).or_default() += 1);
        seen.push(found);
    }
    let set = votes.iter().max_by_key(|(_, count)| **count).map(|(set, _)| SetId(*set));
    let set =
        known.or(set).ok_or("no zone begins with a batch: these disks hold no volume, or nothing of one is left")?;
    let first = |found: &Vec<(SetId, Pba)>| {
        let mut votes: BTreeMap<Pba, usize> = BTreeMap::new();
        let own = found.iter().filter(|(its, first)| *its == set && first.0.is_multiple_of(u64::from(zone_blocks)));
        own.for_each(|(_, first)| *votes.entry(*first).or_default() += 1);
        match votes.into_iter().max_by_key(|(_, count)| *count) {
            Some((first, _)) => Found::At(first),
            None => found.iter().find(|(its, _)| *its != set).map_or(Found::Nothing, |(its, _)| Found::Foreign(*its)),
        }
    };
    Ok((set, seen.iter().map(first).collect()))
}

/// The devices of the set in their order; a disk of which no header tells comes where there is room.
fn members(
    disks: &[Disk],
    zone_blocks: u32,
    found: &[Found],
    root: Option<&RootFound>,
) -> (Vec<Member>, Vec<Option<usize>>) {
    let zones = |disk: &Disk| match disk.zones.len() as u32 {
        0 => (disk.sectors / u64::from(BLOCK_SECTORS) / u64::from(zone_blocks)) as u32,
        count => count,
    };
    let is_placed = |(disk, found): (usize, &Found)| match found {
        Found::At(first) => Some((*first, disk)),
        Found::Nothing | Found::Foreign(_) => None,
    };
    let mut placed: Vec<(Pba, usize)> = found.iter().enumerate().filter_map(is_placed).collect();
    for disk in (0..disks.len()).filter(|disk| found[*disk] == Found::Nothing) {
        let end = |(first, disk): &(Pba, usize)| *first + u64::from(zones(&disks[*disk])) * u64::from(zone_blocks);
        let own = u64::from(zones(&disks[disk])) * u64::from(zone_blocks);
        let is_free = |at: &Pba| placed.iter().all(|it| end(it) <= *at || *at + own <= it.0);
        let candidates = core::iter::once(Pba(0)).chain(placed.iter().map(end));
        let first = candidates.filter(is_free).min().unwrap_or(Pba(0));
        placed.push((first, disk));
    }
    placed.sort_unstable();
    let member = |(first, disk): &(Pba, usize)| {
        let known = root
            .and_then(|found| found.root.members.iter().find(|it| it.first == *first && it.state != MemberState::Gone));
        let kind = if disks[*disk].zones.is_empty() { MemberKind::Regular } else { MemberKind::Zoned };
        let id = known.map_or([0; 16], |member| member.id);
        Member { id, first: *first, zones: zones(&disks[*disk]), kind, state: MemberState::Used }
    };
    (placed.iter().map(member).collect(), placed.iter().map(|(_, disk)| Some(*disk)).collect())
}
