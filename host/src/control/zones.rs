//! What zone operations do, and the ranges that they take.

use shingle_core::block::Op;

/// What can be done to a range of zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Make them empty.
    Reset,
    /// Open them explicitly.
    Open,
    /// Close them.
    Close,
    /// Make them full.
    Finish,
}

impl ZoneAction {
    /// blkzone's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ZoneAction::Reset => "reset",
            ZoneAction::Open => "open",
            ZoneAction::Close => "close",
            ZoneAction::Finish => "finish",
        }
    }

    /// The operation on one zone.
    #[must_use]
    pub const fn op(self) -> Op {
        match self {
            ZoneAction::Reset => Op::ZoneReset,
            ZoneAction::Open => Op::ZoneOpen,
            ZoneAction::Close => Op::ZoneClose,
            ZoneAction::Finish => Op::ZoneFinish,
        }
    }
}

/// A range of whole zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRange {
    /// First zone.
    pub first: u64,
    /// Number of zones.
    pub count: u64,
    /// Whether it is the whole device.
    pub whole: bool,
}

impl ZoneRange {
    /// The zones of sectors `start..start + length` of a device, by the kernel's rules (`block/blk-zoned.c:blkdev_zone_mgmt`):
    /// the start is aligned to zones and so is the length, unless the range ends where the device does. `None`: to the end.
    pub fn new(start: u64, length: Option<u64>, capacity: u64, zone_sectors: u64) -> Result<Self, String> {
        let zones = |n: u64| format!("zones have {n} sectors");
        if start >= capacity {
            return Err(format!("sector {start} lies past the end of the device, which has {capacity} sectors"));
        }
        if !start.is_multiple_of(zone_sectors) {
            let below = start - start % zone_sectors;
            return Err(format!("offset {start} is not the start of a zone: {}; use {below}", zones(zone_sectors)));
        }
        let length = length.unwrap_or(capacity - start);
        let end = start.checked_add(length).filter(|end| *end <= capacity).ok_or_else(|| {
            format!("sectors {start}+{length} lie past the end of the device, which has {capacity} sectors")
        })?;
        if length == 0 {
            return Err("the length is 0: name at least one zone".into());
        }
        if !length.is_multiple_of(zone_sectors) && end != capacity {
            let up = length.next_multiple_of(zone_sectors);
            return Err(format!("length {length} is not a whole number of zones: {}; use {up}", zones(zone_sectors)));
        }
        let count = length.div_ceil(zone_sectors);
        Ok(Self { first: start / zone_sectors, count, whole: start == 0 && end == capacity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_consists_of_whole_zones() {
        let range = |start, length| ZoneRange::new(start, length, 1000, 256);
        assert_eq!(range(0, None), Ok(ZoneRange { first: 0, count: 4, whole: true }));
        assert_eq!(range(256, Some(256)), Ok(ZoneRange { first: 1, count: 1, whole: false }));
        assert_eq!(range(768, Some(232)), Ok(ZoneRange { first: 3, count: 1, whole: false }), "the last zone is short");
        for (start, length, words) in [
            (100, None, "use 0"),
            (0, Some(100), "use 256"),
            (0, Some(0), "at least one zone"),
            (1000, None, "past the end"),
            (256, Some(1000), "past the end"),
            (u64::MAX, Some(u64::MAX), "past the end"),
            (0, Some(u64::MAX), "past the end"),
        ] {
            let error = range(start, length).unwrap_err();
            assert!(error.contains(words), "{start}+{length:?}: {error}");
        }
    }
}
