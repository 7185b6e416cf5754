//! What a block device accepts, of what its export accepts.

use shingle_core::block::Limits;
use shingle_core::frontend::ublk::ZONE_BYTES;
use shingle_sys::ublk::{Attributes, Basic, Discard, MOST_IO_BYTES, Parameters, Zoned};

use crate::serve::Export;

/// The longest request that is asked for without need, in bytes.
const IO_BYTES: u32 = 1 << 20;
/// The longest discard or write of zeroes, in sectors: one request is not to make a device command per block of a whole disk.
const MOST_RANGE: u32 = 1 << 21;

/// What the driver is told of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub parameters: Parameters,
    /// Longest request, in bytes.
    pub io_bytes: u32,
    pub is_zoned: bool,
}

/// The shape of `export`.
///
/// # Errors
/// What cannot be shown.
pub(super) fn shape(export: &Export) -> Result<Shape, String> {
    let limits = &export.limits;
    let io_bytes = io_bytes(limits)?;
    let most_sectors = io_bytes / 512;
    let zone_sectors = limits.zoned.as_ref().map(|zoned| zoned.zone_sectors);
    let shift = |bytes: u32| bytes.trailing_zeros() as u8;
    if shift(limits.logical_block_bytes) > 12 {
        return Err(format!("its blocks have {} bytes, and Linux takes up to 4096", limits.logical_block_bytes));
    }
    let attributes = Attributes::default()
        .with(Attributes::READ_ONLY, export.is_read_only())
        .with(Attributes::ROTATIONAL, limits.rotational)
        .with(Attributes::WRITE_CACHE, limits.write_cache);
    let physical =
        limits.zoned.as_ref().map_or(0, |zoned| zoned.write_granularity_bytes).max(limits.physical_block_bytes);
    let basic = Basic {
        attributes,
        logical_shift: shift(limits.logical_block_bytes),
        physical_shift: shift(physical),
        optimal_shift: shift(physical),
        minimal_shift: shift(physical),
        most_sectors,
        chunk_sectors: zone_sectors.unwrap_or(0),
        // The driver does not count a zone that is shorter than the others.
        sectors: limits.capacity - zone_sectors.map_or(0, |zone| limits.capacity % u64::from(zone)),
        boundary_mask: 0,
    };
    if basic.sectors == 0 {
        return Err("it has no whole zone".into());
    }
    Ok(Shape {
        parameters: Parameters::new(basic, discard(limits), zoned(limits, most_sectors)),
        io_bytes,
        is_zoned: zone_sectors.is_some(),
    })
}

/// A report of all zones has to fit in one request: the driver muddles up those that do not.
fn io_bytes(limits: &Limits) -> Result<u32, String> {
    let report = u64::from(limits.zones()) * ZONE_BYTES as u64;
    let bytes = report.next_multiple_of(4096).max(IO_BYTES.into());
    u32::try_from(bytes).ok().filter(|bytes| *bytes <= MOST_IO_BYTES).ok_or_else(|| {
        let most = MOST_IO_BYTES as usize / ZONE_BYTES;
        format!("it has {} zones, and ublk can report {most}: export a part of it", limits.zones())
    })
}

fn discard(limits: &Limits) -> Option<Discard> {
    let bounded = |most: Option<u32>| {
        let blocks = limits.block_sectors();
        most.map_or(0, |most| most.saturating_mul(64).min(MOST_RANGE) / blocks * blocks)
    };
    // Zones are given back by a reset.
    let most_discard = if limits.zoned.is_some() { 0 } else { bounded(limits.max_discard) };
    let most_zeroes = if limits.zoned.is_some() { 0 } else { bounded(limits.max_write_zeroes) };
    let unit = limits.logical_block_bytes.max(limits.physical_block_bytes);
    (most_discard > 0 || most_zeroes > 0).then(|| Discard::new(unit, most_discard, most_zeroes))
}

fn zoned(limits: &Limits, most_sectors: u32) -> Option<Zoned> {
    let zoned = limits.zoned.as_ref()?;
    // More than there are is no limit.
    let bounded = |most: Option<u32>| most.filter(|most| *most <= limits.zones()).unwrap_or(0);
    let unit = zoned.write_granularity_bytes / 512;
    let append = zoned.max_append.unwrap_or(u32::MAX).min(most_sectors).min(zoned.zone_sectors);
    let (open, active) = (bounded(zoned.max_open), bounded(zoned.max_active));
    Some(Zoned::new(open, active, append / unit * unit))
}

#[cfg(test)]
mod tests {
    use shingle_core::block::{DeviceId, ZonedLimits};

    use super::*;

    fn of(limits: &Limits) -> Result<Shape, String> {
        shape(&Export::new("x", DeviceId(0), limits))
    }

    #[test]
    fn a_short_last_zone_is_left_out_and_limits_above_the_number_of_zones_are_none() {
        let zoned = ZonedLimits { max_open: Some(5000), max_active: Some(9), ..ZonedLimits::new(2048) };
        let limits = Limits { zoned: Some(zoned), ..Limits::new(10 * 2048 + 8) };
        let shape = of(&limits).unwrap();
        assert_eq!((shape.parameters.sectors(), shape.is_zoned), (10 * 2048, true));
        let basic =
            Basic { logical_shift: 9, physical_shift: 9, optimal_shift: 9, minimal_shift: 9, ..Basic::default() };
        let basic = Basic { most_sectors: 2048, chunk_sectors: 2048, sectors: 10 * 2048, ..basic };
        assert_eq!(shape.parameters, Parameters::new(basic, None, Some(Zoned::new(0, 9, 2048))));
    }

    #[test]
    fn a_report_of_all_zones_fits_in_one_request_or_the_export_is_refused() {
        let with = |zones: u64| of(&Limits { zoned: Some(ZonedLimits::new(8)), ..Limits::new(zones * 8) });
        assert_eq!(with(100).unwrap().io_bytes, IO_BYTES);
        assert_eq!(with(55_880).unwrap().io_bytes, 3_579_904);
        assert_eq!(with(524_288).unwrap().io_bytes, MOST_IO_BYTES);
        assert!(with(524_289).unwrap_err().contains("ublk can report 524288"));
    }
}
