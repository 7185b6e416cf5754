//! What a check found, as `dmzadm --check` would say it.

use core::fmt;

use super::bitmaps::Counts;
use super::{Finding, Loss, Whose};
use crate::dm::zoned::format::{Other, Sets, Superblock, WrongMembers, random_zones, usable_zones};
use crate::dm::zoned::{MemberNo, SetZone, ZoneSpace};
use crate::prelude::*;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The superblocks, if there is a set at all.
    pub sets: Option<Sets>,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// Chunks that have a zone.
    pub mapped: usize,
    /// Chunks that have a buffer.
    pub buffered: usize,
    /// Zones whose bitmaps were looked at.
    pub zones: Counts,
    /// Blocks of both sets that were compared, if they should be equal.
    pub compared: Option<u64>,
    /// The superblocks of the zoned devices behind a regular one.
    pub thirds: Vec<Third>,
    /// What neither set has, if there are errors: a repair has to be told to give it up.
    pub lost: Vec<Loss>,
    /// Superblocks of disks that are not the members of one set in its order; then nothing else was checked.
    pub wrong_members: Option<WrongMembers>,
    /// What to do if there is no set.
    pub(super) without_set: Option<Next>,
    space: Numbers,
}

/// What to do after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: there is no error.
    Nothing,
    /// A repair mends it.
    Repair,
    /// A repair would have to give up something.
    GiveUp,
    /// The right disk has to be found, in the place of an older copy.
    FindDisk,
    /// A repair does not help, but there is something to be read.
    Salvage,
    /// There is nothing.
    Format,
    /// The disks of one set have to be given, in its order.
    GiveMembers,
}

impl_display!(Next, |self, f| {
    f.write_str(match self {
    Self::Nothing => "nothing is to be done",
    Self::Repair => "running repair is recommended",
    Self::GiveUp => "neither set has all of it: run `shingle dmz salvage` before `shingle dmz repair --lossy`",
    Self::FindDisk => {
        "find the right disk before anything is written; without it, run `shingle dmz salvage`, then `shingle dmz repair --lossy`"
    }
    Self::Salvage => "a repair does not help: run `shingle dmz salvage` before anything is written",
    Self::Format => "no set was found on these disks, nor anything of one: look whether they are the right disks; `shingle dmz format` makes a set and destroys what they hold",
    Self::GiveMembers => "give the disks of one set in its order",
})
});

/// A third superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Third {
    /// The device.
    pub member: MemberNo,
    /// Its first zone.
    pub zone: SetZone,
    /// Where it is.
    pub block: u64,
    /// What is there, if it is one.
    pub superblock: Option<Superblock>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    zone_blocks: u32,
    usable: u64,
    random: u32,
}

/// The parts of a report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Superblock(Whose),
    Mapping,
    Bitmaps,
    Comparison,
    Rest,
}

fn section(finding: &Finding) -> Section {
    match finding {
        Finding::Superblock { whose, .. } | Finding::Name { whose, .. } | Finding::Number { whose, .. } => {
            Section::Superblock(*whose)
        }
        Finding::ThirdGeneration { member, .. } => Section::Superblock(Whose::Third(*member)),
        Finding::Mapping(_) => Section::Mapping,
        Finding::FreeBits { .. }
        | Finding::NotReset { .. }
        | Finding::PastWp { .. }
        | Finding::PastEnd { .. }
        | Finding::Both { .. } => Section::Bitmaps,
        Finding::Generations(_) | Finding::Difference { .. } => Section::Comparison,
        Finding::NoSet(_) | Finding::Unreadable { .. } | Finding::Overcommitted { .. } => Section::Rest,
    }
}

const NAMES: [&str; 2] = ["primary", "secondary"];

impl Report {
    pub(super) fn new(space: &ZoneSpace) -> Self {
        let (usable, random) = (usable_zones(space), random_zones(space));
        let space = Numbers { zone_blocks: space.zone_blocks(), usable, random: random as u32 };
        Self { space, ..Self::default() }
    }

    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.findings.iter().any(Finding::is_error)
    }

    /// What to do now.
    #[must_use]
    pub fn next(&self) -> Next {
        let mut errors = self.findings.iter().filter(|finding| finding.is_error());
        match self.without_set {
            _ if self.is_clean() => Next::Nothing,
            Some(next) => next,
            None if self.older_copy().is_some() => Next::FindDisk,
            None if !self.lost.is_empty() => Next::GiveUp,
            None if errors.any(Finding::can_be_mended) => Next::Repair,
            None => Next::Salvage,
        }
    }

    /// The loss that names a disk as an older copy of itself, if there is one.
    #[must_use]
    pub fn older_copy(&self) -> Option<&Loss> {
        Loss::older_copy(&self.lost)
    }

    fn of(&self, wanted: Section) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| section(finding) == wanted)
    }

    fn write_section(&self, f: &mut fmt::Formatter<'_>, wanted: Section) -> fmt::Result {
        self.of(wanted).try_for_each(|finding| writeln!(f, "    {finding}"))
    }

    fn write_superblock(
        &self,
        f: &mut fmt::Formatter<'_>,
        whose: Whose,
        superblock: Option<&Superblock>,
    ) -> fmt::Result {
        match superblock {
            Some(superblock) if !self.of(Section::Superblock(whose)).any(Finding::is_error) => {
                let Superblock { version, generation, .. } = superblock;
                writeln!(f, "    Checking super block... OK (version {version}, generation {generation})")?;
            }
            _ => writeln!(f, "    Checking super block... ERROR")?,
        }
        self.write_section(f, Section::Superblock(whose))
    }

    fn write_set(&self, f: &mut fmt::Formatter<'_>, set: usize, sets: &Sets) -> fmt::Result {
        let zone = sets.layout.first_zone + set as u32 * sets.layout.metadata_zones;
        let block = u64::from(zone) * u64::from(self.space.zone_blocks);
        let name = ["Primary", "Secondary"][set];
        writeln!(f, "  {name} metadata set at block {block} (zone {zone})")?;
        self.write_superblock(f, Whose::Set(set), sets.found[set].as_ref().ok())
    }

    fn write_numbers(&self, f: &mut fmt::Formatter<'_>, sets: &Sets) -> fmt::Result {
        let (layout, zone_blocks) = (&sets.layout, u64::from(self.space.zone_blocks));
        let first = u64::from(layout.first_zone) * zone_blocks;
        let second = first + u64::from(layout.metadata_zones) * zone_blocks;
        let cache = self.space.random.saturating_sub(2 * layout.metadata_zones);
        writeln!(f, "    {} usable zones", self.space.usable)?;
        writeln!(f, "    {} metadata blocks per set", layout.metadata_blocks)?;
        writeln!(f, "      Super block at block {first} and {second}")?;
        writeln!(f, "      {} chunk mapping table blocks", layout.map_blocks)?;
        writeln!(f, "      {} bitmap blocks", layout.bitmap_blocks)?;
        let zones = layout.metadata_zones;
        writeln!(f, "      Using {zones} zones per meta-data set ({} total)", 2 * zones)?;
        writeln!(f, "    {} data chunks capacity", layout.chunks)?;
        writeln!(f, "      {cache} cache zones")?;
        writeln!(f, "      {} data zones", layout.chunks.saturating_sub(cache))?;
        writeln!(f, "    {} sequential zones reserved for reclaim", layout.reserved)
    }

    fn write_sets(&self, f: &mut fmt::Formatter<'_>, sets: &Sets) -> fmt::Result {
        self.write_set(f, 0, sets)?;
        self.write_numbers(f, sets)?;
        self.write_set(f, 1, sets)?;
        let (own, other) = (NAMES[sets.choice.set], NAMES[1 - sets.choice.set]);
        writeln!(f, "Checking {own} metadata set")?;
        writeln!(f, "  Checking data chunk mapping...")?;
        self.write_section(f, Section::Mapping)?;
        let checked = if self.of(Section::Mapping).any(Finding::is_error) { "Errors" } else { "No error" };
        writeln!(f, "    {checked}: {} mapped chunks ({} buffered) checked", self.mapped, self.buffered)?;
        writeln!(f, "  Checking zone bitmaps...")?;
        self.write_section(f, Section::Bitmaps)?;
        let checked = if self.of(Section::Bitmaps).any(Finding::is_error) { "Errors" } else { "No error" };
        let Counts { free, used } = self.zones;
        writeln!(f, "    {checked}: {free} unmapped zones + {used} mapped zones checked")?;
        writeln!(f, "  Validating {other} metadata set against {own} metadata set...")?;
        self.write_section(f, Section::Comparison)?;
        match (sets.choice.other, self.compared) {
            (Other::InStep, Some(blocks)) if self.of(Section::Comparison).next().is_none() => {
                writeln!(f, "    No error: {blocks} blocks checked")?;
            }
            (Other::InStep | Other::Behind, _) => {}
            (Other::Foreign | Other::Invalid, _) => writeln!(f, "    Not compared: it is no set of these devices")?,
        }
        for third in &self.thirds {
            writeln!(f, "  Tertiary superblock at block {} (zone {})", third.block, third.zone)?;
            self.write_superblock(f, Whose::Third(third.member), third.superblock.as_ref())?;
        }
        Ok(())
    }
}

impl_display!(Report, |self, f| {
    writeln!(f, "Locating metadata...")?;
    match &self.sets {
        Some(sets) => self.write_sets(f, sets)?,
        None => [0, 1].iter().try_for_each(|set| self.write_section(f, Section::Superblock(Whose::Set(*set))))?,
    }
    self.write_section(f, Section::Rest)?;
    if let Some(copy) = self.older_copy() {
        writeln!(f, "  Older copy of a disk:\n    {copy}")?;
    }
    let lost: Vec<&Loss> = self.lost.iter().filter(|loss| !matches!(loss, Loss::OlderCopy(_))).collect();
    if !lost.is_empty() {
        writeln!(f, "  In neither set:")?;
        lost.iter().try_for_each(|loss| writeln!(f, "    {loss}"))?;
    }
    match self.next() {
        Next::Nothing => writeln!(f, "No error detected"),
        next => writeln!(f, "Errors detected: {next}"),
    }
});
