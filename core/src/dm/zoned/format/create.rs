//! Makes a set of disks a dm-zoned set, as `dmzadm --format` does.

use super::media::{PIECE, pieces};
use super::{
    Label, Layout, LayoutError, Media, MediaError, Progress, Superblock, SuperblockError, is_tertiary, tertiaries,
};
use crate::dm::zoned::{BLOCK_BYTES, Block, MemberNo, Number, SetZone, ZoneClass, ZoneHealth, ZoneSpace};
use crate::prelude::*;

/// Says why dm-zoned cannot use a member that allows `max_active` active zones, if it has more sequential ones: dm-zoned leaves any number of these
/// written in part, as hard disks allow it, and each stays active.
#[must_use]
pub fn too_few_active(space: &ZoneSpace, member: MemberNo, max_active: Option<u32>) -> Option<String> {
    let max_active = max_active?;
    let zones = space.zones_of(member).iter().filter(|zone| zone.class == ZoneClass::Sequential).count();
    let why = "dm-zoned leaves any number of them written in part; `shingle stl` makes do with 7";
    (zones > max_active as usize)
        .then(|| format!("allows {max_active} active zones at a time and has {zones} sequential ones: {why}"))
}

/// Sequential zones that dmzadm keeps for reclaim if nothing else is asked for.
pub const DEFAULT_RESERVED: u32 = 16;

/// What can be chosen about a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// 2, or 1 for kernels before 5.8, which know neither label nor UUIDs nor regular devices.
    pub version: u32,
    /// Name of the set; version 1 has none.
    pub label: Label,
    /// UUID of the set; version 1 has none.
    pub set_uuid: [u8; 16],
    /// A UUID for each device; version 1 has none.
    pub device_uuids: Vec<[u8; 16]>,
    /// Sequential zones kept for reclaim; `None`: [`DEFAULT_RESERVED`], or what comes nearest to it in this set.
    pub reserved: Option<u32>,
}

/// Error of formatting a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// An option does not fit, or not to this set.
    Option(String),
    /// The set has no room.
    Layout(LayoutError),
    /// A disk failed.
    Media(MediaError),
}

impl_error!(FormatError, Layout(LayoutError), Media(MediaError), |self, f| match self {
    Self::Option(message) => f.write_str(message),
    Self::Layout(error) => error.fmt(f),
    Self::Media(error) => error.fmt(f),
});

impl Layout {
    /// The layout of a set with `reserved` zones for reclaim, or with as near to [`DEFAULT_RESERVED`] as can be. It can be
    /// filled, and `dmzadm --check` counts its zones as it should.
    ///
    /// # Errors
    /// If there is none; the message says how many zones would do.
    pub fn choose(space: &ZoneSpace, reserved: Option<u32>) -> Result<Self, FormatError> {
        let first = Self::compute(space, reserved.unwrap_or(DEFAULT_RESERVED))?;
        // More zones for reclaim can need a zone less of metadata, and then these bounds are a little tighter than needed.
        let (least, most) = (first.least_reserved(space), first.most_reserved(space));
        if least > most {
            let message = format!(
                "{least} zones would have to be kept for reclaim, but only {most} of those that take random writes are not \
                 metadata: this set is too small"
            );
            return Err(LayoutError(message).into());
        }
        let wanted = reserved.unwrap_or(DEFAULT_RESERVED.clamp(least, most));
        if wanted < least {
            let message = format!(
                "--seq={wanted} exposes more than can be written: a set of these disks would hang when full; the least is \
                 --seq={least}"
            );
            return Err(FormatError::Option(message));
        }
        if wanted > most {
            let message = format!(
                "--seq={wanted} is more than the zones that take random writes and hold no metadata, which dmzadm --check \
                 calls an error; the most is --seq={most}"
            );
            return Err(FormatError::Option(message));
        }
        Ok(Self::compute(space, wanted)?)
    }

    /// The superblock of set `set`, 0 or 1.
    #[must_use]
    pub fn superblock(&self, space: &ZoneSpace, set: usize, options: &FormatOptions) -> Superblock {
        Superblock {
            version: options.version,
            generation: 1,
            block: self.set_start(space, set),
            metadata_blocks: self.metadata_blocks,
            reserved: self.reserved,
            chunks: self.chunks,
            map_blocks: self.map_blocks,
            bitmap_blocks: self.bitmap_blocks,
            label: options.label,
            set_uuid: options.set_uuid,
            device_uuid: options.device_uuids.first().copied().unwrap_or_default(),
        }
    }
}

impl FormatOptions {
    fn check(&self, space: &ZoneSpace) -> Result<(), FormatError> {
        let error = |message: &str| Err(FormatError::Option(message.into()));
        match self.version {
            1 if space.has_cache() => error("version 1 knows no regular device: use version 2"),
            1 if !self.label.is_empty() => error("version 1 has no label: leave it out, or use version 2"),
            1 => Ok(()),
            2 if self.label.is_empty() => error("a set needs a label"),
            2 if self.set_uuid == [0; 16] || self.device_uuids.contains(&[0; 16]) => error("a UUID is all zeroes"),
            2 if self.device_uuids.len() != space.members().len() => error("each device needs a UUID"),
            2 => Ok(()),
            other => Err(FormatError::Option(format!("there is no version {other}: use 2, or 1 for an old kernel"))),
        }
    }
}

/// Makes the disks an empty set. What they held is lost: sequential zones are emptied.
///
/// All old superblocks go first and the new ones come last, each durable before the next step. So if it is cut off, the
/// old set is still there, with its first superblock, or nothing says that it is a set, or the new one is whole, with its
/// first superblock at least.
///
/// # Errors
/// If an option or the set does not fit, and then nothing was changed; or if a disk fails.
pub fn format(media: &mut dyn Media, options: &FormatOptions, progress: Progress<'_>) -> Result<Layout, FormatError> {
    let space = media.space();
    options.check(space)?;
    let layout = Layout::choose(space, options.reserved)?;
    let superblocks = superblocks(space, &layout, options)?;
    let is_left = |zone: &SetZone| needs_reset(space, *zone) && !is_tertiary(space, *zone);
    let resets: Vec<SetZone> = space.zones().numbers().filter(is_left).collect();
    let total = resets.len() as u64 + 2 * u64::from(layout.metadata_blocks) + superblocks.len() as u64 - 2;
    let mut done = 0;
    let mut step = |count: u64| {
        done += count;
        progress(done, total);
    };
    wipe(media, &layout)?;
    for zone in resets {
        media.reset(zone)?;
        step(1);
    }
    for superblock in &superblocks[..2] {
        let map = u64::from(layout.map_blocks);
        fill(media, superblock.block + 1, map, 0xff, &mut step)?;
        fill(media, superblock.block + 1 + map, u64::from(layout.bitmap_blocks), 0, &mut step)?;
    }
    // The third superblocks before the first two: with one of those it is a set. Their flush is that of the rest, too. The
    // first one before the second: see `wipe`.
    for part in [&superblocks[2..], &superblocks[..1], &superblocks[1..2]] {
        part.iter().try_for_each(|superblock| media.write(superblock.block, &superblock.encode()))?;
        media.flush()?;
        step(part.len() as u64);
    }
    Ok(layout)
}

/// Takes away all superblocks, also those of sets that began elsewhere or were made of some of the disks: any of them could
/// be taken for that of a set when the rest of it is gone.
///
/// The first one goes behind the others, but before the third ones: the kernel does not find every second one that is alone,
/// and wants the third ones as well (`drivers/md/dm-zoned-metadata.c:dmz_load_sb`).
fn wipe(media: &mut dyn Media, layout: &Layout) -> Result<(), MediaError> {
    let space = media.space().clone();
    let own = [0, 1].map(|set| layout.set_start(&space, set));
    let turn = |zone: SetZone| if is_tertiary(&space, zone) { 2 } else { u32::from(space.start(zone) == own[0]) };
    for now in 0..3 {
        for zone in space.zones().numbers().filter(|zone| turn(*zone) == now) {
            wipe_zone(media, zone, own.contains(&space.start(zone)))?;
        }
        media.flush()?;
    }
    Ok(())
}

/// Takes away the superblock with which `zone` begins, if there is one or one will be.
fn wipe_zone(media: &mut dyn Media, zone: SetZone, will_be_one: bool) -> Result<(), MediaError> {
    let (info, block) = (media.space().zones()[zone], media.space().start(zone));
    if info.class == ZoneClass::Sequential {
        let is_third = is_tertiary(media.space(), zone) && needs_reset(media.space(), zone);
        return if is_third { media.reset(zone) } else { Ok(()) };
    }
    let mut found = [0; BLOCK_BYTES];
    let is_read = info.health == ZoneHealth::Good && media.read(block, &mut found).is_ok();
    let is_one = is_read && !matches!(Superblock::decode(&found), Err(SuperblockError::Magic(_)));
    if is_one || will_be_one { media.write(block, &[0; BLOCK_BYTES]) } else { Ok(()) }
}

/// Whether a format empties `zone`: a sequential one that has something in it.
fn needs_reset(space: &ZoneSpace, zone: SetZone) -> bool {
    let info = space.zones()[zone];
    info.class == ZoneClass::Sequential && info.health == ZoneHealth::Good && info.wp > Block::FIRST
}

/// The superblocks of both sets, then the third ones.
fn superblocks(space: &ZoneSpace, layout: &Layout, options: &FormatOptions) -> Result<Vec<Superblock>, FormatError> {
    let mut all = vec![layout.superblock(space, 0, options), layout.superblock(space, 1, options)];
    for (member, zone) in tertiaries(space) {
        if space.zones()[zone].health != ZoneHealth::Good {
            let message = format!("zone {zone}, the first of device {member}, has to hold a superblock and cannot");
            return Err(LayoutError(message).into());
        }
        let device_uuid = options.device_uuids[member.index()];
        all.push(Superblock { generation: 0, block: space.start(zone), device_uuid, ..all[0] });
    }
    Ok(all)
}

/// Sets every byte of `count` blocks from `first` on to `byte`.
fn fill(media: &mut dyn Media, first: u64, count: u64, byte: u8, step: &mut impl FnMut(u64)) -> Result<(), MediaError> {
    let buffer = vec![byte; PIECE as usize * BLOCK_BYTES];
    for (block, len) in pieces(media.space().zone_blocks(), first, count) {
        media.write(block, &buffer[..len * BLOCK_BYTES])?;
        step(len as u64);
    }
    Ok(())
}
