//! A volume as its newest root names it, and what counts of the batches behind that.

use alloc::collections::BTreeSet;

use super::chain::{Chain, Expected, chain};
use super::finding::{Finding, Findings};
use super::media::{Disk, Media, Spot, room_for};
use super::members::{Assigned, Foreign, WrongMembers, assign, set_of_most};
use super::space::Space;
use crate::dm::stl::checkpoint::{leaves_of_piece, zones_of_piece};
use crate::dm::stl::format::{
    BatchKind, Checksum, Header, LeafRow, MemberState, PageRow, Piece, PieceKind, ROOT_BLOCKS, Root, SetId, ZoneRow,
    ZoneUse,
};
use crate::dm::stl::log::UsersZones;
use crate::dm::stl::map::{LeafNo, LeafSize, Pending, Span};
use crate::dm::stl::replay::apply_copies;
use crate::dm::stl::roots::{FoundRoot, NO_ROOT, ROOT_ZONES, decode_root, of_unknown_version};
use crate::dm::stl::{BLOCK_SECTORS, Replay, Since, ZoneIndex};
use crate::prelude::*;
use crate::zone::Condition;

/// Most blocks of a piece of a table: it lies in one batch.
const MOST_PIECE: u32 = 1 << 12;

/// A root that was found.
#[derive(Clone, Debug)]
pub struct RootFound {
    /// Its header.
    pub header: Header,
    /// What it says.
    pub root: Root,
    /// Where it is.
    pub spot: Spot,
}

/// A volume that was found on its disks.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The newest root.
    pub newest: RootFound,
    /// The newest one of each disk.
    pub of_disks: Vec<Option<RootFound>>,
    /// Its devices.
    pub space: Space,
    /// What the root says of each zone; `None`: that piece of the table is damaged.
    pub zones: Vec<Option<ZoneRow>>,
    /// Where leaves are.
    pub leaves: Vec<Option<LeafRow>>,
    /// Runs, the oldest first: the first leaf of which each still tells something, and its pages.
    pub runs: Vec<(LeafNo, Vec<PageRow>)>,
    /// True if the list of pages of a run cannot be read: any leaf may have newer blocks than is known.
    pub is_run_lost: bool,
    /// What batches behind the root say.
    pub pending: Pending,
    /// Batches behind the root that count.
    pub replayed: usize,
    /// Batches behind one that is missing.
    pub behind_gap: usize,
    /// Zones that have batches behind the root, and the blocks at which these end.
    pub beyond: Vec<(ZoneIndex, u32)>,
}

/// Error of looking for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindError {
    /// No volume was found, or it cannot be read: the reason.
    None(String),
    /// The disks are not its members.
    Members(WrongMembers),
}

impl_error!(FindError, None(String), Members(WrongMembers), |self, f| match self {
    Self::None(why) => f.write_str(why),
    Self::Members(wrong) => wrong.fmt(f),
});

impl Volume {
    /// The identity of its set.
    #[must_use]
    pub fn id(&self) -> SetId {
        self.newest.header.batch.set
    }

    /// Finds a volume. What is wrong with its tables is told, and the rest is there.
    ///
    /// # Errors
    /// If no volume is found, or if the disks are not its members.
    pub fn find(media: &mut dyn Media, findings: &mut Findings) -> Result<Self, FindError> {
        let (volume, wrong) = Self::find_part(media, findings)?;
        if wrong.is_none() { Ok(volume) } else { Err(wrong.into()) }
    }

    /// Finds what these disks have of a volume, and which members are missing.
    ///
    /// # Errors
    /// If no root is left.
    pub fn find_part(media: &mut dyn Media, findings: &mut Findings) -> Result<(Self, WrongMembers), String> {
        let zone_blocks = media.disks().iter().find_map(Disk::zone_blocks).ok_or("a volume needs a zoned disk")?;
        let disks = 0..media.disks().len();
        let found = disks.map(|disk| roots_of(media, disk, zone_blocks)).collect::<Result<Vec<_>, _>>()?;
        let set = set_of_most(&found).ok_or(NO_ROOT)?;
        let of_set = found.iter().flatten().filter(|found| found.header.batch.set == set);
        let newest = of_set.max_by_key(|found| found.header.batch.number).cloned().ok_or(NO_ROOT)?;
        if newest.root.zone_blocks != zone_blocks {
            let has = newest.root.zone_blocks;
            return Err(format!("the volume has zones of {has} blocks, and these disks of {zone_blocks}"));
        }
        let own: Vec<Option<RootFound>> = found.iter().map(|roots| newest_of(roots, &newest)).collect();
        let Assigned { disks, blank, mut wrong } = assign(media, &newest, (&found, &own));
        let space = Space::new(zone_blocks, &newest.root.members, disks, media.disks());
        tell_roots(&own, &newest, findings);
        let mut volume = Self {
            zones: vec![Some(ZoneRow::default()); space.zones().count()],
            leaves: vec![Some(LeafRow::default()); newest.root.leaf_size.leaves(newest.root.capacity)],
            runs: Vec::new(),
            is_run_lost: false,
            pending: Pending::default(),
            replayed: 0,
            behind_gap: 0,
            beyond: Vec::new(),
            of_disks: own,
            newest,
            space,
        };
        volume.read_tables(media, findings);
        volume.refuse_blank_and_older(media, blank, &mut wrong);
        volume.replay(media, findings);
        Ok((volume, wrong))
    }

    /// Takes older copies for missing members, and the disk of the member `blank` if that has data by the table of zones.
    fn refuse_blank_and_older(&mut self, media: &mut dyn Media, blank: Option<usize>, wrong: &mut WrongMembers) {
        let (newest, mut disks) = (self.newest.header.batch.number, self.space.disks.clone());
        for (place, member) in self.newest.root.members.iter().enumerate() {
            let Some(disk) = disks[place] else { continue };
            let own = self.of_disks[disk].as_ref().map(|own| own.header.batch.number);
            let why = match own {
                Some(own) if own < newest && self.is_older_copy(media, place) => Foreign::Older(own, newest),
                None if blank == Some(place) && self.may_have_data(place) => Foreign::Unknown,
                _ => continue,
            };
            wrong.missing.push(*member);
            wrong.foreign.push((media.name(disk), why));
            disks[place] = None;
        }
        if disks != self.space.disks {
            self.space = Space::new(self.space.set.zone_blocks(), &self.newest.root.members, disks, media.disks());
        }
    }

    /// True if a zone of a member is in use by the table of zones, or if its part of the table is damaged.
    fn may_have_data(&self, place: usize) -> bool {
        let zones = self.space.set.zones(place);
        let is_used =
            |row: &Option<ZoneRow>| row.is_none_or(|row| matches!(row.used_for, ZoneUse::Full | ZoneUse::Open));
        self.zones[zones.start.0 as usize..zones.end.0 as usize].iter().any(is_used)
    }

    fn read_tables(&mut self, media: &mut dyn Media, findings: &mut Findings) {
        for piece in self.newest.root.pieces.clone() {
            if let Err(why) = self.read_piece(media, &piece) {
                self.forget_piece(&piece);
                let Piece { kind, number, place, .. } = piece;
                findings.add(Finding::Piece { kind, number, place, why });
            }
        }
        for (number, member) in self.newest.root.members.iter().enumerate() {
            let zones = self.space.set.zones(number);
            if member.state == MemberState::Gone {
                let dead = Some(ZoneRow { used_for: ZoneUse::Dead, ..ZoneRow::default() });
                self.zones[zones.start.0 as usize..zones.end.0 as usize].fill(dead);
                continue;
            }
            for zone in (zones.start.0..zones.end.0).take(ROOT_ZONES as usize) {
                self.zones[zone as usize] = Some(ZoneRow { used_for: ZoneUse::Roots, ..ZoneRow::default() });
            }
        }
    }

    fn read_piece(&mut self, media: &mut dyn Media, piece: &Piece) -> Result<(), String> {
        if piece.blocks > MOST_PIECE {
            return Err(format!("it has {} blocks, more than a batch", piece.blocks));
        }
        let bytes = self.space.read(media, piece.place, piece.blocks).map_err(|error| error.to_string())?;
        if Checksum::of(&bytes) != piece.checksum {
            return Err("its checksum is wrong".into());
        }
        let cannot = || String::from("its rows cannot be");
        let number = piece.number as usize;
        match piece.kind {
            PieceKind::Zones => {
                let rows = zones_of_piece(self.zones.len());
                let to = self.zones.chunks_mut(rows).nth(number).ok_or_else(cannot)?;
                let from = bytes.get(..to.len() * ZoneRow::BYTES).and_then(ZoneRow::decode_all).ok_or_else(cannot)?;
                to.iter_mut().zip(from).for_each(|(to, from)| *to = Some(from));
            }
            PieceKind::Leaves => {
                let rows = leaves_of_piece(self.leaves.len());
                let to = self.leaves.chunks_mut(rows).nth(number).ok_or_else(cannot)?;
                let from = bytes.get(..to.len() * LeafRow::BYTES).and_then(LeafRow::decode_all).ok_or_else(cannot)?;
                to.iter_mut().zip(from).for_each(|(to, from)| *to = Some(from));
            }
            PieceKind::Run => self.runs.push((piece.first, PageRow::decode_all(&bytes).ok_or_else(cannot)?)),
        }
        Ok(())
    }

    /// Nothing is known of the rows of a piece.
    fn forget_piece(&mut self, piece: &Piece) {
        let number = piece.number as usize;
        let (zones, leaves) = (zones_of_piece(self.zones.len()), leaves_of_piece(self.leaves.len()));
        match piece.kind {
            PieceKind::Zones => self.zones.chunks_mut(zones).nth(number).unwrap_or_default().fill(None),
            PieceKind::Leaves => self.leaves.chunks_mut(leaves).nth(number).unwrap_or_default().fill(None),
            PieceKind::Run => self.is_run_lost = true,
        }
    }

    /// Whether something can be written to a zone some time, as far as the root knows.
    pub(super) fn can_be_written(&self, zone: ZoneIndex) -> bool {
        self.zones[zone.0 as usize].is_some_and(|row| row.used_for != ZoneUse::Dead)
    }

    /// Blocks of a leaf of the map.
    pub fn leaf_size(&self) -> LeafSize {
        self.newest.root.leaf_size
    }

    /// What the root says of when it was made.
    #[must_use]
    pub fn since(&self) -> Since {
        let RootFound { header, root, .. } = &self.newest;
        Since { epoch: header.batch.epoch, cut: root.cut, copies: root.copies }
    }

    /// Does again what a start would.
    fn replay(&mut self, media: &mut dyn Media, findings: &mut Findings) {
        let (since, named) = (self.since(), self.named());
        let mut headers = Vec::new();
        for zone in named {
            let chain = self.chain_beyond(media, zone);
            if chain.end > 0 {
                self.beyond.push((zone, chain.end));
            }
            headers.extend(chain.found.into_iter().map(|found| found.header));
        }
        let mut users = UsersZones::named(&self.space.set, &self.newest.root, |zone| self.is_free(zone));
        users.find(&self.space.set, &self.newest.root, &headers, |zone| self.space.is_sequential(zone));
        let replay = Replay::choose(&since, headers, false);
        if replay.behind_gap > 0 {
            findings.add(Finding::BehindGap(replay.behind_gap));
        }
        let condition = |zone| self.space.condition(zone);
        let is_missed = replay.behind_gap > 0 || users.may_go_on_elsewhere(condition);
        if let Some(gone) = self.gone(|zone| is_missed || users.is_next(zone)) {
            findings.add(Finding::Gone(gone));
        }
        let cut = replay.cut(&since);
        self.behind_gap = replay.behind_gap;
        self.replayed = replay.users.len() + replay.copies.len();
        replay.users.iter().for_each(|header| apply_users(&mut self.pending, header));
        for header in &replay.copies {
            apply_copies(&mut self.pending, header, cut, false);
        }
    }

    /// Whether the newest root has all there is. What is behind it is for a start to judge, and what of it was lost to be remembered.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.replayed + self.behind_gap == 0
    }

    /// A free zone of these that cannot be read any more.
    fn gone(&self, is_one: impl Fn(ZoneIndex) -> bool) -> Option<ZoneIndex> {
        let is_gone = |zone: &ZoneIndex| self.is_free(*zone) && self.space.condition(*zone) == Some(Condition::Offline);
        self.space.zones().filter(is_gone).find(|zone| is_one(*zone))
    }

    fn is_free(&self, zone: ZoneIndex) -> bool {
        self.zones[zone.0 as usize].is_some_and(|row| row.used_for == ZoneUse::Free)
    }

    /// Zones that may have batches behind the root.
    fn named(&self) -> BTreeSet<ZoneIndex> {
        let open = self.newest.root.open.iter().map(|open| self.space.set.zone_of(open.start).0);
        open.chain(self.space.zones().filter(|zone| self.is_free(*zone)))
            .filter(|zone| self.space.pointer(*zone) > 0)
            .collect()
    }

    fn chain_beyond(&self, media: &mut dyn Media, zone: ZoneIndex) -> Chain {
        let row = self.zones[zone.0 as usize];
        let known = row.filter(|row| row.used_for != ZoneUse::Free).map(|row| row.generation);
        let expected = Expected {
            set: Some(self.id()),
            generation: known,
            above: row.filter(|row| row.used_for == ZoneUse::Free).map(|row| row.generation),
            epoch: Some(self.since().epoch),
        };
        let mut chain = chain(media, &self.space, (zone, self.space.pointer(zone)), expected);
        chain.drop_torn(media, &self.space, (zone, &self.since()));
        chain
    }
}

/// All roots of a disk; or that one of them is of a version that is not known.
pub(super) fn roots_of(media: &mut dyn Media, disk: usize, zone_blocks: u32) -> Result<Vec<RootFound>, String> {
    let mut found: Vec<RootFound> = Vec::new();
    for number in 0..ROOT_ZONES {
        let zone = media.disks()[disk].zones.get(number as usize);
        let room = zone.map_or(zone_blocks, |zone| (zone.capacity / u64::from(BLOCK_SECTORS)) as u32);
        // What lies behind a pointer was not written, even if zeroes are what it should be.
        let room = room.min(media.disks()[disk].written(number as usize, room));
        let first = number * u64::from(zone_blocks);
        for at in (0..room).step_by(ROOT_BLOCKS).take_while(|at| at + ROOT_BLOCKS as u32 <= room) {
            let (block, mut bytes) = (first + u64::from(at), room_for(ROOT_BLOCKS as u32));
            if media.read(Spot { disk, block }, &mut bytes).is_err() {
                continue;
            }
            if let Some(version) = Header::unknown_version(&bytes) {
                return Err(of_unknown_version(version));
            }
            let Some(FoundRoot { header, root, block }) = decode_root(&bytes, block) else { break };
            found.push(RootFound { header, root, spot: Spot { disk, block } });
        }
    }
    Ok(found)
}

/// The newest root of a disk that is of the same set, and was written to it.
fn newest_of(roots: &[RootFound], newest: &RootFound) -> Option<RootFound> {
    let is_of_set = |found: &&RootFound| found.header.batch.set == newest.header.batch.set;
    roots.iter().filter(is_of_set).max_by_key(|found| found.header.batch.number).cloned()
}

fn tell_roots(own: &[Option<RootFound>], newest: &RootFound, findings: &mut Findings) {
    let newest = newest.header.batch.number;
    for (disk, found) in own.iter().enumerate() {
        match found.as_ref().map(|found| found.header.batch.number) {
            None => findings.add(Finding::NoRoot(disk)),
            Some(number) if number < newest => findings.add(Finding::OlderRoot { disk, number, newest }),
            Some(_) => {}
        }
    }
}

fn apply_users(pending: &mut Pending, header: &Header) {
    let BatchKind::User(records) = &header.kind else { return };
    let blocks = Header::blocks_of(header.kind.record_bytes(), header.checksums.len()) as u64;
    let (mut at, place) = (0, header.batch.place + blocks);
    for record in records {
        if record.has_data {
            let checksums = &header.checksums[at..at + record.blocks as usize];
            pending.put(Span::at(record.lba, place + at as u64, checksums));
            at += record.blocks as usize;
        } else {
            pending.put(Span::zeroes(record.lba, record.blocks));
        }
    }
}
