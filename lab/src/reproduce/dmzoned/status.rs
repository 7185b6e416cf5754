//! What the target says of its zones.

use serde::{Deserialize, Serialize};

/// Free zones of a class, and all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Free {
    /// Free ones.
    pub free: u32,
    /// All.
    pub total: u32,
}

/// The zones of a set, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// Of the regular device.
    pub cache: Free,
    /// Conventional ones, of all zoned devices.
    pub random: Free,
    /// Sequential ones.
    pub sequential: Free,
}

impl Free {
    /// The share that is free, in percent.
    pub fn percent(self) -> f64 {
        100.0 * f64::from(self.free) / f64::from(self.total.max(1))
    }
}

impl Zones {
    /// Those that take random writes before anything has to be reclaimed: the cache, or the conventional zones of a set
    /// without one.
    pub fn buffers(&self) -> Free {
        if self.cache.total > 0 { self.cache } else { self.random }
    }
}

/// Reads `<n> zones <free>/<n> cache <free>/<n> random <free>/<n> sequential ...`, as
/// `drivers/md/dm-zoned-target.c:dmz_status` writes it.
///
/// # Errors
/// If it is something else.
pub fn parse(status: &str) -> Result<Zones, String> {
    let words: Vec<&str> = status.split_whitespace().collect();
    let fail = || format!("the target's status is `{status}`: zones and their classes were expected");
    let pairs = words.strip_prefix(&[words.first().copied().unwrap_or_default(), "zones"]).ok_or_else(fail)?;
    let mut zones = Zones::default();
    for pair in pairs.chunks(2) {
        let [counts, class] = pair else { return Err(fail()) };
        let of = match *class {
            "cache" => &mut zones.cache,
            "random" => &mut zones.random,
            "sequential" => &mut zones.sequential,
            _ => return Err(fail()),
        };
        let (free, total) = counts.split_once('/').ok_or_else(fail)?;
        of.free += free.parse::<u32>().map_err(|_| fail())?;
        of.total += total.parse::<u32>().map_err(|_| fail())?;
    }
    Ok(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_all_devices_are_added_by_class() {
        let zones = parse("146 zones 15/15 cache 0/0 random 47/47 sequential 3/4 random 60/61 sequential").unwrap();
        let free = |free, total| Free { free, total };
        assert_eq!(zones, Zones { cache: free(15, 15), random: free(3, 4), sequential: free(107, 108) });
        assert_eq!(zones.buffers(), free(15, 15));
        assert_eq!(parse("128 zones 0/0 cache 14/14 random 1/108 sequential").unwrap().buffers(), free(14, 14));
    }

    #[test]
    fn what_is_no_status_is_shown_as_it_is() {
        for wrong in ["", "128 zones 0/0", "128 zones 0 cache", "128 zones 0/0 cache 14/14 random failed: no", "x y z"]
        {
            assert!(parse(wrong).unwrap_err().contains(&format!("`{wrong}`")), "{wrong}");
        }
    }
}
