//! Where the sectors of a table line lie, and what of a zoned device a part of it has (C1 of the stacking rules:
//! `drivers/md/dm-table.c:validate_hardware_zoned`, `drivers/md/dm-zone.c:dm_set_zones_restrictions`).

use alloc::sync::Arc;

use super::striped::Stripes;
use crate::block::{DeviceId, Limits, ZonedLimits};
use crate::prelude::*;

/// Sectors of a device that stand behind a table line.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The device.
    pub device: DeviceId,
    /// The first of its sectors.
    pub start: u64,
    /// What these sectors accept: their capacity is the length of the line.
    pub limits: Limits,
    /// Whether all sequential zones of the device are among them: then a reset of all zones is one command.
    pub has_all_zones: bool,
    /// What lies below that device, if it is to be passed by: plain bios go straight there.
    pub(super) stripes: Option<Arc<Stripes>>,
}

impl Mapping {
    /// All of a device.
    #[must_use]
    pub fn whole(device: DeviceId, limits: &Limits) -> Self {
        Self { device, start: 0, limits: limits.clone(), has_all_zones: true, stripes: None }
    }

    /// `len` sectors of `device`, which has `limits`, from `start` on: of a zoned device whole zones.
    ///
    /// # Errors
    /// If they are not on the device, or cut a block or a zone.
    pub fn part(device: DeviceId, limits: &Limits, start: u64, len: u64) -> Result<Self, String> {
        let capacity = limits.capacity;
        let end = start.checked_add(len).filter(|end| *end <= capacity);
        let end = end.ok_or_else(|| {
            let room = capacity.saturating_sub(start);
            format!(
                "sectors {start}+{len} lie past the end of the device, which has {capacity} sectors, {room} of them from there on"
            )
        })?;
        let block = u64::from(limits.block_sectors());
        if !(start | len).is_multiple_of(block) || len == 0 {
            return Err(format!("sectors {start}+{len} are not whole blocks of {block} sectors: align both numbers"));
        }
        let mut part = Limits { capacity: len, zoned: None, ..limits.clone() };
        let mut has_all_zones = true;
        if let Some(zoned) = &limits.zoned {
            let zone = u64::from(zoned.zone_sectors);
            if !start.is_multiple_of(zone) || (end % zone != 0 && end != capacity) {
                return Err(format!("sectors {start}+{len} are not whole zones of {zone} sectors: align both numbers"));
            }
            let zones = (start / zone) as u32..end.div_ceil(zone) as u32;
            let sequential = zoned.sequential_in(zones.clone());
            has_all_zones = sequential == zoned.sequential_in(0..limits.zones());
            part.zoned = Some(zones_of(zoned, zones, start == 0 && len == capacity));
        }
        part.validate().map_err(|error| format!("{error}"))?;
        Ok(Self { device, start, limits: part, has_all_zones, stripes: None })
    }

    /// The devices that a flush has to reach.
    pub(super) fn flushed(&self) -> Vec<DeviceId> {
        match &self.stripes {
            _ if !self.limits.write_cache => Vec::new(),
            Some(stripes) => stripes.flushed().collect(),
            None => Vec::from([self.device]),
        }
    }

    /// The same, with plain bios going straight to `stripes`, over which the device lies.
    pub(super) fn over(self, stripes: Arc<Stripes>) -> Self {
        Self { stripes: Some(stripes), ..self }
    }
}

/// What `zones` of a device accept. A part that has no more sequential zones than may be open can have all of them open.
fn zones_of(device: &ZonedLimits, zones: core::ops::Range<u32>, is_whole: bool) -> ZonedLimits {
    if is_whole {
        return device.clone();
    }
    let sequential = device.sequential_in(zones.clone());
    let limit = |of_device: Option<u32>| of_device.filter(|most| sequential > *most);
    let cut = |run: &core::ops::Range<u32>| {
        let (start, end) = (run.start.max(zones.start), run.end.min(zones.end));
        (start < end).then(|| start - zones.start..end - zones.start)
    };
    ZonedLimits {
        conventional: device.conventional.iter().filter_map(cut).collect(),
        max_open: limit(device.max_open),
        max_active: limit(device.max_active),
        ..device.clone()
    }
}

/// The limits of mappings in a row.
///
/// # Errors
/// If they do not go together; the number is the place of the first that does not go with those before it.
pub(super) fn join(mappings: &[Mapping]) -> Result<Limits, (usize, String)> {
    let (mut end, mut all): (u64, Option<Limits>) = (0, None);
    for (place, Mapping { limits: own, .. }) in mappings.iter().enumerate() {
        let zone = own.zoned.as_ref().map_or(1, |zoned| u64::from(zoned.zone_sectors));
        if !end.is_multiple_of(zone) {
            let message = format!("it begins at sector {end}, inside of a zone: only the last zone may be short");
            return Err((place, message));
        }
        let block = u64::from(own.block_sectors());
        if !end.is_multiple_of(block) {
            let message = format!("it begins at sector {end}, inside of a block of {block} sectors: align the start");
            return Err((place, message));
        }
        all = Some(match all {
            None => own.clone(),
            Some(before) => append(before, own, end / zone).map_err(|message| (place, message))?,
        });
        end += own.capacity;
    }
    let mut limits = all.ok_or((0, String::from("a table needs at least one line")))?;
    limits.capacity = end;
    // Where no zone is sequential nothing is left of being zoned.
    if !limits.has_sequential_zones() {
        limits.zoned = None;
    }
    Ok(limits)
}

/// `before` and, from zone number `at` on, `own`.
fn append(before: Limits, own: &Limits, at: u64) -> Result<Limits, String> {
    if before.zoned.is_some() != own.zoned.is_some() {
        let (has, lines) = if own.zoned.is_some() { ("zoned", "regular") } else { ("regular", "zoned") };
        return Err(format!("its device is {has} and that of the lines before {lines}: one table is one or the other"));
    }
    let mut all = before.stack(own).map_err(|error| format!("{error}"))?;
    if let (Some(all), Some(own)) = (&mut all.zoned, &own.zoned) {
        for run in &own.conventional {
            let run = run.start + at as u32..run.end + at as u32;
            match all.conventional.last_mut().filter(|last| last.end == run.start) {
                Some(last) => last.end = run.end,
                None => all.conventional.push(run),
            }
        }
        // The strictest of each can be of different devices.
        all.max_open = all.max_open.map(|open| open.min(all.max_active.unwrap_or(open)));
    }
    Ok(all)
}
