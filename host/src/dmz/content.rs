//! Content of disks: a format would destroy it, and tools for another format name it.

use shingle_core::dm::zoned::check::Salvage;
use shingle_core::dm::zoned::format::{Label, Media, MediaError, Sets, Superblock, SuperblockError};
use shingle_core::dm::zoned::{BLOCK_BYTES, Block, Member, MemberNo, Number, SetZone, ZoneClass, ZoneHealth};

use shingle_core::impl_display;

use super::Disks;

/// Bytes at the start of a disk that are looked at. Every signature lies in them.
pub(crate) const HEAD: usize = 128 << 10;

/// First bytes of each batch of `stl`.
const STL_MAGIC: &[u8] = b"stlBatch";

/// What marks the start of a disk that is in use: where, which bytes, and whose.
const SIGNATURES: [(usize, &[u8], &str); 15] = [
    (0, STL_MAGIC, "an stl volume"),
    (0, b"LUKS\xba\xbe", "a LUKS volume"),
    (0, b"XFSB", "an XFS file system"),
    (0, b"hsqs", "a squashfs file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (24, b"LABELONE", "an LVM physical volume"),
    (512, b"LABELONE", "an LVM physical volume"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT)"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4096, b"\xfc\x4e\x2b\xa9", "a RAID member"),
    (65536 + 64, b"_BHRfS_M", "a Btrfs file system"),
    (510, b"\x55\xaa", "a partition table or boot sector"),
];

/// Content of a disk, recognized by its first bytes. A disk of zeroes has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// An stl volume, or a member of one.
    Stl,
    /// A dm-zoned set, or its first member, with this label, which may be empty.
    DmZoned(String),
    /// The first superblock of a dm-zoned set, damaged.
    DamagedDmZoned,
    /// Something that is in use by others: a file system, a partition table.
    Other(&'static str),
    /// Bytes of an unknown format.
    Data,
}

impl_display!(Content, |self, f| match self {
    Self::Stl => f.write_str("an stl volume"),
    Self::DmZoned(label) if label.is_empty() => f.write_str("a dm-zoned set"),
    Self::DmZoned(label) => write!(f, "the dm-zoned set `{label}`"),
    Self::DamagedDmZoned => f.write_str("a damaged dm-zoned set, of which `shingle dmz check` tells more"),
    Self::Other(whose) => f.write_str(whose),
    Self::Data => f.write_str("data"),
});

impl Content {
    /// Recognizes a disk by `head`, its first [`HEAD`] bytes; `None` if these are zeroes.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match Superblock::decode(head) {
            Ok(Superblock { label, .. }) if label == Label::default() => return Some(Self::DmZoned(String::new())),
            Ok(Superblock { label, .. }) => return Some(Self::DmZoned(label.text().to_string())),
            Err(SuperblockError::Magic(_)) => {}
            Err(_) => return Some(Self::DamagedDmZoned),
        }
        let is_here = |(at, bytes, _): &&(usize, &[u8], &str)| head.get(*at..at + bytes.len()) == Some(*bytes);
        match SIGNATURES.iter().find(is_here) {
            Some((_, STL_MAGIC, _)) => Some(Self::Stl),
            Some((_, _, whose)) => Some(Self::Other(whose)),
            None => head.iter().any(|byte| *byte != 0).then_some(Self::Data),
        }
    }

    /// Error of a tool that found this on disk `name` instead of a volume of its `wanted` format, with the next step; `None` for an unknown format.
    pub(crate) fn instead_of(&self, wanted: &str, name: &str) -> Option<String> {
        let next = match self {
            Self::Stl => "use `shingle stl`",
            Self::DmZoned(_) | Self::DamagedDmZoned => "use `shingle dmz`",
            Self::Other(_) => "name another disk",
            Self::Data => return None,
        };
        Some(format!("{name} holds no {wanted} but {self}: {next}"))
    }
}

/// Says what disks hold that have no dm-zoned set, and which command fits, if they hold something known; `None` otherwise.
pub fn other_content(disks: &mut Disks) -> Option<String> {
    if Sets::find(disks).is_ok() || Salvage::survey(disks, &mut |_, _| ()).is_ok() {
        return None;
    }
    disks.space().members().numbers().find_map(|place| match head(disks, place).ok()?? {
        Content::DmZoned(_) | Content::DamagedDmZoned => None,
        found => found.instead_of("dm-zoned set", disks.names().nth(place.index())?),
    })
}

/// What one of the disks holds, with its path; `None` if all of them are as new.
///
/// # Errors
/// If they cannot be read.
pub fn content(disks: &mut Disks) -> Result<Option<String>, MediaError> {
    for place in disks.space().members().numbers() {
        let found = match head(disks, place)? {
            Some(found) => Some(found.to_string()),
            None => written_zone(disks, place),
        };
        if let Some(found) = found {
            return Ok(disks.names().nth(place.index()).map(|name| format!("{name} holds {found}")));
        }
    }
    Ok(None)
}

/// What the start of a disk says, of its first zone that can be read.
fn head(disks: &mut Disks, place: MemberNo) -> Result<Option<Content>, MediaError> {
    let space = disks.space();
    let Member { first_zone, zones, blocks, .. } = space.members()[place];
    let is_readable = |zone: &SetZone| space.zones()[*zone].health != ZoneHealth::Offline;
    let Some(zone) = first_zone.onwards().take(zones as usize).find(is_readable) else { return Ok(None) };
    let blocks = blocks.min(space.zone_blocks().into()).min((HEAD / BLOCK_BYTES) as u64);
    let mut head = vec![0; blocks as usize * BLOCK_BYTES];
    let start = space.start(zone);
    disks.read(start, &mut head)?;
    Ok(Content::of(&head))
}

fn written_zone(disks: &Disks, place: MemberNo) -> Option<String> {
    let mut zones = disks.space().zones_of(place).iter().enumerate();
    let (zone, info) = zones.find(|(_, zone)| zone.class == ZoneClass::Sequential && zone.wp > Block::FIRST)?;
    Some(format!("data in zone {zone}, of which {} blocks of 4096 bytes are written", info.wp))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(head: &[u8]) -> Option<String> {
        Content::of(head).map(|content| content.to_string())
    }

    #[test]
    fn the_start_of_a_disk_tells_whose_it_is() {
        let mut head = vec![0; HEAD];
        assert_eq!(name_of(&head), None);
        head[70_000] = 1;
        assert_eq!(name_of(&head).as_deref(), Some("data"));
        for (at, bytes, whose) in SIGNATURES {
            let mut head = vec![0; HEAD];
            head[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(name_of(&head).as_deref(), Some(whose));
        }
        assert_eq!(name_of(&[0; BLOCK_BYTES]), None, "a disk of one block");
    }

    #[test]
    fn a_superblock_is_known_even_if_it_is_damaged() {
        let superblock = Superblock {
            version: 2,
            generation: 1,
            block: 0,
            metadata_blocks: 3,
            reserved: 1,
            chunks: 1,
            map_blocks: 1,
            bitmap_blocks: 1,
            label: Label::new("archive").unwrap(),
            set_uuid: [1; 16],
            device_uuid: [2; 16],
        };
        let mut head = superblock.encode();
        assert_eq!(name_of(&head).as_deref(), Some("the dm-zoned set `archive`"));
        head[50] ^= 1;
        assert!(name_of(&head).unwrap().contains("damaged"));
    }
}
