//! What is wrong with a mapping table, and what is left of it without that: in time that is linear in its length.

use super::{Layout, MapEntry, NO_ZONE};
use crate::dm::zoned::{Block, ChunkNo, Rows, SetZone, ZoneClass, ZoneHealth, ZoneSpace};
use crate::prelude::*;

/// Which of its two zones a problem of a chunk is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The zone that holds its blocks.
    Data,
    /// The zone that buffers rewrites.
    Buffer,
}

/// What is wrong with a zone of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingFault {
    /// There is no such zone.
    OutOfRange,
    /// The zone holds metadata.
    Metadata,
    /// The zone is offline: its blocks cannot be read. Nothing mends that, and an unmapped chunk would read as zeroes.
    Offline,
    /// The zone is the last, short one of its device, in which the kernel can put data by mistake. What lies before its end
    /// can be read.
    Runt,
    /// An earlier entry has the zone.
    Duplicate {
        /// The chunk that has it.
        chunk: ChunkNo,
    },
    /// A buffer without a data zone.
    NoData,
    /// A buffer of a data zone that takes random writes itself.
    Unneeded,
    /// The buffer is a zone that takes no random writes.
    NotRandom,
    /// Nothing was ever written to the zone, and there is no buffer.
    Empty,
}

impl MappingFault {
    /// Whether the set is damaged. An empty zone is only a waste, and what is in a runt zone is fine.
    #[must_use]
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Empty | Self::Runt)
    }

    /// Whether the zone holds what the entry says all the same.
    pub(crate) fn is_bearable(self) -> bool {
        matches!(self, Self::Runt | Self::Offline)
    }
}

/// A problem of a mapping table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingProblem {
    /// The chunk.
    pub chunk: ChunkNo,
    /// Its entry.
    pub entry: MapEntry,
    /// Which zone of it.
    pub part: Part,
    /// What is wrong.
    pub fault: MappingFault,
    /// What the entry has to be: the part that is right. The same as `entry` if nothing would be better.
    pub repaired: MapEntry,
}

impl_display!(MappingProblem, |self, f| {
    let (name, zone) = match self.part {
        Part::Data => ("data zone", self.entry.dzone),
        Part::Buffer => ("buffer zone", self.entry.bzone),
    };
    write!(f, "chunk {}: {name} ", self.chunk)?;
    match self.fault {
        MappingFault::OutOfRange => write!(f, "{zone} does not exist"),
        MappingFault::Metadata => write!(f, "{zone} holds metadata"),
        MappingFault::Offline => write!(f, "{zone} is offline"),
        MappingFault::Runt => write!(f, "{zone} is shorter than a zone"),
        MappingFault::Duplicate { chunk } => write!(f, "{zone} is that of chunk {chunk}, too"),
        MappingFault::NoData => write!(f, "{zone} without a data zone"),
        MappingFault::Unneeded => write!(f, "{zone} beside a data zone that takes random writes"),
        MappingFault::NotRandom => write!(f, "{zone} is a sequential zone"),
        MappingFault::Empty => write!(f, "{zone} is an empty sequential zone"),
    }
});

/// Everything that is wrong with the entries of a mapping table, chunk by chunk, two problems a chunk at most.
#[must_use]
pub fn validate_mapping(entries: &Rows<ChunkNo, MapEntry>, space: &ZoneSpace, layout: &Layout) -> Vec<MappingProblem> {
    let mut judge = Judge::new(space, layout);
    entries.numbered().flat_map(|(chunk, entry)| judge.problems(chunk, *entry)).collect()
}

/// The part of `entry` that is right. A buffer that lost its data zone becomes the data zone: its blocks are good.
fn repaired(entry: MapEntry, data: Option<MappingFault>, buffer: Option<MappingFault>) -> MapEntry {
    let bad = |fault: Option<MappingFault>| fault.is_some_and(|fault| !fault.is_bearable());
    let dzone = if bad(data) { NO_ZONE } else { entry.dzone };
    let is_sound = !bad(buffer) || buffer == Some(MappingFault::NoData);
    let bzone = if is_sound { entry.bzone } else { NO_ZONE };
    if dzone == NO_ZONE { MapEntry { dzone: bzone, bzone: NO_ZONE } } else { MapEntry { dzone, bzone } }
}

/// Gives zones to chunks, entry by entry, and says what is wrong with those that it cannot give.
pub(crate) struct Judge<'a> {
    space: &'a ZoneSpace,
    layout: &'a Layout,
    /// Chunk that has a zone.
    owners: Rows<SetZone, Option<ChunkNo>>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(space: &'a ZoneSpace, layout: &'a Layout) -> Self {
        Self { space, layout, owners: Rows::filled(None, space.zones().len()) }
    }

    /// What is wrong with `entry`, whose zones `chunk` has from now on as far as they are right.
    pub(crate) fn problems(&mut self, chunk: ChunkNo, entry: MapEntry) -> impl Iterator<Item = MappingProblem> + use<> {
        let (data, buffer) = self.faults(chunk, entry);
        let repaired = repaired(entry, data, buffer);
        let problem = move |(part, fault): (Part, Option<MappingFault>)| {
            fault.map(|fault| MappingProblem { chunk, entry, part, fault, repaired })
        };
        [(Part::Data, data), (Part::Buffer, buffer)].into_iter().filter_map(problem)
    }

    /// Takes the zones of `entry` from `chunk` again.
    pub(crate) fn release(&mut self, chunk: ChunkNo, entry: MapEntry) {
        for zone in [entry.dzone, entry.bzone] {
            let owner = self.owners.get_mut(zone).filter(|owner| **owner == Some(chunk));
            owner.into_iter().for_each(|owner| *owner = None);
        }
    }

    /// What is wrong with the data zone and the buffer of `chunk`.
    fn faults(&mut self, chunk: ChunkNo, entry: MapEntry) -> (Option<MappingFault>, Option<MappingFault>) {
        let MapEntry { dzone, bzone } = entry;
        let data = if dzone == NO_ZONE { None } else { self.claim(chunk, dzone) };
        if bzone == NO_ZONE {
            let is_empty = data.is_none() && dzone != NO_ZONE && self.is_empty(dzone);
            return (if is_empty { Some(MappingFault::Empty) } else { data }, None);
        }
        // Linux before 5.8 buffered in conventional zones beside a cache. That later kernels load such sets is from memory.
        let is_random = |zone| self.space.zones().get(zone).is_some_and(|info| info.class != ZoneClass::Sequential);
        let exists = self.space.zones().get(bzone).is_some();
        let buffer = match () {
            () if !exists => Some(MappingFault::OutOfRange),
            () if !is_random(bzone) => Some(MappingFault::NotRandom),
            () if dzone != NO_ZONE && data.is_none() && is_random(dzone) => Some(MappingFault::Unneeded),
            () => self.claim(chunk, bzone).or((dzone == NO_ZONE).then_some(MappingFault::NoData)),
        };
        (data, buffer)
    }

    /// Gives `zone` to `chunk`, if it can hold data and nobody has it.
    fn claim(&mut self, chunk: ChunkNo, zone: SetZone) -> Option<MappingFault> {
        let Some(info) = self.space.zones().get(zone) else { return Some(MappingFault::OutOfRange) };
        if self.layout.is_metadata(self.space, zone) {
            return Some(MappingFault::Metadata);
        }
        let owner = &mut self.owners[zone];
        if let Some(chunk) = *owner {
            return Some(MappingFault::Duplicate { chunk });
        }
        *owner = Some(chunk);
        match info.health {
            _ if info.is_runt => Some(MappingFault::Runt),
            ZoneHealth::Offline => Some(MappingFault::Offline),
            ZoneHealth::Good | ZoneHealth::ReadOnly => None,
        }
    }

    fn is_empty(&self, zone: SetZone) -> bool {
        let info = self.space.zones()[zone];
        info.class == ZoneClass::Sequential && info.wp == Block::FIRST
    }
}
