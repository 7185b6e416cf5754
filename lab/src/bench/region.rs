//! The part of a device that a job works in, as numbered blocks.

use shingle_core::block::Limits;
use shingle_core::sector::Sector;

use super::options::{JobOptions, ZoneMode};

/// Blocks `0..blocks` of a region. Without zones the region is one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins.
    pub first: Sector,
    /// Number of the first zone on the device.
    pub first_zone: u32,
    /// Number of zones.
    pub zones: u32,
    /// Blocks of one zone.
    pub blocks_per_zone: u64,
    zone_sectors: u64,
    block_sectors: u32,
}

impl Region {
    /// The region that `options` name on a device with `limits`.
    pub fn new(options: &JobOptions, limits: &Limits) -> Result<Self, String> {
        let device = limits.capacity * 512;
        let past_end = || {
            let (offset, size) = (options.offset, options.size.unwrap_or(0));
            format!("--offset={offset} --size={size} lies past the end of the device, which has {device} bytes")
        };
        let rest = device.checked_sub(options.offset).filter(|rest| *rest > 0).ok_or_else(past_end)?;
        let size = options.size.unwrap_or(rest);
        if size > rest {
            return Err(past_end());
        }
        check_block(options, limits)?;
        let zone_bytes = match mode(options, limits)? {
            ZoneMode::Zbd => zone_bytes(options.offset, size, limits, options.size.is_some())?,
            ZoneMode::None => size,
        };
        let block = u64::from(options.block_bytes);
        if zone_bytes < block {
            return Err(format!("--bs={block} is larger than the {zone_bytes} bytes to work in: use a smaller one"));
        }
        Ok(Self {
            first: Sector::from_bytes(options.offset),
            first_zone: (options.offset / zone_bytes) as u32,
            zone_sectors: zone_bytes / 512,
            blocks_per_zone: zone_bytes / block,
            block_sectors: options.block_sectors(),
            zones: size.div_ceil(zone_bytes) as u32,
        })
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks_per_zone * u64::from(self.zones)
    }

    /// The first sector of a block in a region that is one piece: no division on the data path.
    #[inline]
    pub fn sector_in_one_piece(&self, block: u64) -> Sector {
        self.first + block * u64::from(self.block_sectors)
    }

    /// The first sector of a block.
    pub fn sector(&self, block: u64) -> Sector {
        let (zone, rest) = (block / self.blocks_per_zone, block % self.blocks_per_zone);
        self.first + (zone * self.zone_sectors + rest * u64::from(self.block_sectors))
    }

    /// The first sector of the zone that holds a block.
    pub fn zone_start(&self, block: u64) -> Sector {
        self.first + block / self.blocks_per_zone * self.zone_sectors
    }

    /// The block that begins at `sector`.
    pub fn block(&self, sector: Sector) -> u64 {
        let from_start = sector - self.first;
        let (zone, rest) = (from_start / self.zone_sectors, from_start % self.zone_sectors);
        zone * self.blocks_per_zone + rest / u64::from(self.block_sectors)
    }
}

fn check_block(options: &JobOptions, limits: &Limits) -> Result<(), String> {
    let unit = match &limits.zoned {
        Some(zoned) if options.rw.writes() => zoned.write_granularity_bytes,
        _ => limits.logical_block_bytes,
    };
    let block = options.block_bytes;
    if block == 0 || !block.is_multiple_of(unit) || !options.offset.is_multiple_of(unit.into()) {
        return Err(format!("--bs={block} and --offset have to be multiples of the device's {unit}-byte blocks"));
    }
    Ok(())
}

/// The zone mode asked for, or the one that suits the device.
pub fn mode(options: &JobOptions, limits: &Limits) -> Result<ZoneMode, String> {
    match (options.zonemode, limits.zoned.is_some()) {
        (None, false) | (Some(ZoneMode::None), false) => Ok(ZoneMode::None),
        (None, true) | (Some(ZoneMode::Zbd), true) => Ok(ZoneMode::Zbd),
        (Some(ZoneMode::None), true) if options.rw.writes() || options.rw.trims() => {
            Err("the device is zoned: writes need --zonemode=zbd".into())
        }
        (Some(ZoneMode::None), true) => Ok(ZoneMode::None),
        (Some(ZoneMode::Zbd), false) => {
            Err("--zonemode=zbd needs a zoned device: choose another device, or leave the option out".into())
        }
    }
}

fn zone_bytes(offset: u64, size: u64, limits: &Limits, sized: bool) -> Result<u64, String> {
    let zone = limits.zoned.as_ref().map_or(1, |z| u64::from(z.zone_sectors) * 512);
    if !offset.is_multiple_of(zone) || (sized && !size.is_multiple_of(zone)) {
        return Err(format!(
            "--offset={offset} and --size={size} have to be multiples of the zone size, {zone} bytes, in zone mode zbd"
        ));
    }
    Ok(zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_core::block::ZonedLimits;

    fn zoned() -> Limits {
        Limits { zoned: Some(ZonedLimits::new(2048)), ..Limits::new(16 * 2048) }
    }

    fn error(options: JobOptions, limits: &Limits) -> String {
        Region::new(&options, limits).unwrap_err().to_string()
    }

    #[test]
    fn blocks_of_a_zone_that_does_not_divide_stay_inside_of_it() {
        let options = JobOptions { block_bytes: 12 * 1024, offset: 1 << 20, ..JobOptions::default() };
        let region = Region::new(&options, &zoned()).unwrap();
        assert_eq!((region.zones, region.first_zone, region.blocks()), (15, 1, 15 * 85));
        for block in [0, 84, 85, 15 * 85 - 1] {
            let sector = region.sector(block);
            assert_eq!(region.block(sector), block);
            assert!(sector.0 % 2048 + 24 <= 2048, "block {block} crosses its zone's end");
            assert_eq!(region.zone_start(block).0, sector.0 / 2048 * 2048);
        }
    }

    #[test]
    fn without_zones_the_region_is_one_piece() {
        let options = JobOptions { offset: 8192, size: Some(40960), ..JobOptions::default() };
        let region = Region::new(&options, &Limits::new(1000)).unwrap();
        assert_eq!((region.blocks(), region.sector(0), region.sector(9)), (10, Sector(16), Sector(88)));
    }

    #[test]
    fn a_region_that_does_not_fit_says_why_and_what_would() {
        let options = JobOptions::default;
        let small = Limits::new(1000);
        assert!(error(JobOptions { offset: 1 << 30, ..options() }, &small).contains("past the end"));
        assert!(error(JobOptions { size: Some(1 << 30), ..options() }, &small).contains("512000 bytes"));
        assert!(error(JobOptions { block_bytes: 1000, ..options() }, &small).contains("512-byte"));
        assert!(error(JobOptions { offset: 4096, ..options() }, &zoned()).contains("1048576"));
        let zbd = JobOptions { zonemode: Some(ZoneMode::Zbd), ..options() };
        assert!(error(zbd, &small).contains("zoned device"));
        let plain = JobOptions { zonemode: Some(ZoneMode::None), rw: super::super::Rw::Write, ..options() };
        assert!(error(plain, &zoned()).contains("--zonemode=zbd"));
    }
}
