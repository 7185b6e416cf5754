//! What disks hold already: what a format would destroy.

use shingle_core::dm::zoned::format::{Label, Media, MediaError, Superblock, SuperblockError};
use shingle_core::dm::zoned::{BLOCK_BYTES, Block, Member, MemberNo, Number, SetZone, ZoneClass, ZoneHealth};

use super::Disks;

/// Bytes at the start of a disk that are looked at. Every signature lies in them.
pub(crate) const HEAD: usize = 128 << 10;

/// What marks the start of a disk that is in use: where, which bytes, and whose.
const SIGNATURES: [(usize, &[u8], &str); 15] = [
    (0, b"stlBatch", "an stl volume"),
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

/// What one of the disks holds, with its path; `None` if all of them are as new.
///
/// # Errors
/// If they cannot be read.
pub fn content(disks: &mut Disks) -> Result<Option<String>, MediaError> {
    for place in disks.space().members().numbers() {
        let found = match head(disks, place)? {
            Some(found) => Some(found),
            None => written_zone(disks, place),
        };
        if let Some(found) = found {
            return Ok(disks.names().nth(place.index()).map(|name| format!("{name} holds {found}")));
        }
    }
    Ok(None)
}

/// What the start of a disk says, of its first zone that can be read.
fn head(disks: &mut Disks, place: MemberNo) -> Result<Option<String>, MediaError> {
    let space = disks.space();
    let Member { first_zone, zones, blocks, .. } = space.members()[place];
    let is_readable = |zone: &SetZone| space.zones()[*zone].health != ZoneHealth::Offline;
    let Some(zone) = first_zone.onwards().take(zones as usize).find(is_readable) else { return Ok(None) };
    let blocks = blocks.min(space.zone_blocks().into()).min((HEAD / BLOCK_BYTES) as u64);
    let mut head = vec![0; blocks as usize * BLOCK_BYTES];
    let start = space.start(zone);
    disks.read(start, &mut head)?;
    Ok(name_of(&head))
}

/// What `head`, the start of a disk, is the start of; `None` if it is all zeroes.
pub(crate) fn name_of(head: &[u8]) -> Option<String> {
    match Superblock::decode(head) {
        Ok(Superblock { label, .. }) if label == Label::default() => return Some("a dm-zoned set".into()),
        Ok(Superblock { label, .. }) => return Some(format!("the dm-zoned set `{}`", label.text())),
        Err(SuperblockError::Magic(_)) => {}
        Err(_) => return Some("a damaged dm-zoned set, of which `shingle dmz check` tells more".into()),
    }
    let is_here = |(at, bytes, _): &&(usize, &[u8], &str)| head.get(*at..at + bytes.len()) == Some(*bytes);
    match SIGNATURES.iter().find(is_here) {
        Some((_, _, whose)) => Some((*whose).into()),
        None => head.iter().any(|byte| *byte != 0).then(|| "data".into()),
    }
}

fn written_zone(disks: &Disks, place: MemberNo) -> Option<String> {
    let member = &disks.space().members()[place];
    let own = disks.space().zones().iter().skip(member.first_zone.index()).take(member.zones as usize);
    let (zone, info) =
        own.enumerate().find(|(_, zone)| zone.class == ZoneClass::Sequential && zone.wp > Block::FIRST)?;
    Some(format!("data in zone {zone}, of which {} blocks of 4096 bytes are written", info.wp))
}

#[cfg(test)]
mod tests {
    use super::*;

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
