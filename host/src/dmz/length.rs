//! How long a volume is: its disks say so, whatever the table line does (`drivers/md/dm-zoned-target.c:dmz_ctr`).

use shingle_core::block::DeviceId;
use shingle_core::dm::zoned::BLOCK_SECTORS;
use shingle_core::dm::zoned::format::{LoadError, Media, Sets};
use shingle_core::dm::{TableError, TableLine};
use uuid::Uuid;

use super::{DeviceMedia, Reach};

/// The name of the target.
const ZONED: &str = "zoned";

/// Whether a table is a volume.
#[must_use]
pub fn has_own_length(lines: &[TableLine]) -> bool {
    lines.iter().any(|line| line.kind.name == ZONED)
}

/// Gives the line of a volume its true length, which its superblock has. Returns the UUID of the set, if the table is one and it
/// has one.
///
/// # Errors
/// If the line is not alone, or its devices hold no set. A device that is not there is left for those who build the table to
/// complain of.
pub fn find_length(lines: &mut [TableLine], mut reach: impl Reach) -> Result<Option<String>, TableError> {
    let Some(place) = lines.iter().position(|line| line.kind.name == ZONED) else { return Ok(None) };
    let (is_alone, line) = (lines.len() == 1, &mut lines[place]);
    let wrong = |word, message: String| TableError { line: line.number, word, message };
    if !is_alone {
        let message = format!("{ZONED}: partial mapping is not supported: the volume has to be alone in its table");
        return Err(wrong(None, message));
    }
    let mut devices: Vec<(String, DeviceId)> = Vec::new();
    for arg in line.target.devices() {
        match reach.find(&arg.name).map_err(|error| wrong(Some(arg.word), error))? {
            Some(device) => devices.push((arg.name.clone(), device)),
            None => return Ok(None),
        }
    }
    // What is no set is told better when the table is built, argument by argument.
    let Ok(mut media) = DeviceMedia::new(reach, devices) else { return Ok(None) };
    let sets = Sets::find(&mut media).map_err(|error| wrong(None, refusal(&error)))?;
    line.len = u64::from(sets.layout.chunks) * u64::from(media.space().zone_blocks()) * u64::from(BLOCK_SECTORS);
    let uuid = Some(Uuid::from_bytes(sets.superblock.set_uuid)).filter(|uuid| !uuid.is_nil());
    Ok(uuid.map(|uuid| format!("dmz-{uuid}")))
}

fn refusal(error: &LoadError) -> String {
    match error {
        LoadError::NoSet(_) => format!(
            "the disks hold no dm-zoned set ({error}): `shingle dmz check` tells whether anything of one is left, and what \
             to do; no daemon must have them open meanwhile"
        ),
        other => other.to_string(),
    }
}
