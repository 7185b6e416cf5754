//! Sizes and times as dmstats writes and reads them.

use shingle_host::config::parse_size;

/// A number of sectors: plain, or with a unit: (b)ytes, (s)ectors, (k)ilobytes, (m), (g), (t), (p), (e); capitals are powers
/// of 1000. Sizes as the stack file has them, `4MiB`, too.
pub fn parse_sectors(text: &str) -> Result<u64, String> {
    let bad = || "write a number of sectors, or a size such as 512k, 4m or 1g".to_owned();
    let bytes = match text.find(|c: char| !c.is_ascii_digit()) {
        None => text.parse::<u64>().ok().and_then(|sectors| sectors.checked_mul(512)),
        Some(_) if text.ends_with("iB") => parse_size(text).ok(),
        Some(at) => text[..at].parse::<u64>().ok().zip(unit(&text[at..])).and_then(|(n, unit)| n.checked_mul(unit)),
    };
    let bytes = bytes.ok_or_else(bad)?;
    if bytes.is_multiple_of(512) { Ok(bytes / 512) } else { Err("write a multiple of 512 bytes".into()) }
}

fn unit(letter: &str) -> Option<u64> {
    let power = |base: u64| "kmgtpe".find(&letter.to_ascii_lowercase()).map(|place| base.pow(place as u32 + 1));
    match letter {
        "b" | "B" => Some(1),
        "s" | "S" => Some(512),
        _ if letter.len() != 1 => None,
        _ if letter.as_bytes()[0].is_ascii_lowercase() => power(1024),
        _ => power(1000),
    }
}

/// Bytes with two digits and the largest unit that fits: `0`, `512b`, `50.00k`, `8.00m`.
pub fn size(bytes: f64) -> String {
    let units = ["k", "m", "g", "t", "p", "e"];
    let whole = (1..=units.len()).rev().find(|power| bytes >= 1024_f64.powi(*power as i32));
    match whole {
        Some(power) => format!("{:.2}{}", bytes / 1024_f64.powi(power as i32), units[power - 1]),
        None if bytes < 0.5 => "0".into(),
        None => format!("{bytes:.0}b"),
    }
}

/// A list of ascending times in ns, each plain or with ns, us, ms or s.
pub fn parse_bounds(text: &str) -> Result<Bounds, String> {
    let bad = || "write ascending times greater than 0, as in 100us,1ms,10ms; without a unit they are in ns".to_owned();
    let mut bounds = Vec::new();
    for word in text.split(',') {
        let at = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let unit = match &word[at..] {
            "" | "ns" => 1,
            "us" => 1000,
            "ms" => NS_PER_MS,
            "s" => 1_000_000_000,
            _ => return Err(bad()),
        };
        let time = word[..at].parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(bad)?;
        if time <= bounds.last().copied().unwrap_or(0) {
            return Err(bad());
        }
        bounds.push(time);
    }
    Ok(Bounds(bounds))
}

/// The boundaries of a histogram in ns, ascending.
#[derive(Clone, Debug)]
pub struct Bounds(pub Vec<u64>);

/// Nanoseconds of the ticks in which regions count that are not precise.
pub const NS_PER_MS: u64 = 1_000_000;

/// A time in the largest unit in which it is a whole number: `0s`, `100us`, `10ms`.
pub fn time(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (NS_PER_MS, "ms"), (1000, "us")];
    let fits = units.into_iter().find(|(unit, _)| ns.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{ns}ns"), |(unit, name)| format!("{}{name}", ns / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_and_written_as_by_dmstats() {
        let sectors = ["100", "100s", "512b", "1m", "1M", "4MiB", "2g"].map(|text| parse_sectors(text).unwrap_or(0));
        assert_eq!(sectors, [100, 100, 1, 2048, 0, 8192, 4 << 20], "10^6 bytes are no whole sectors");
        for bad in ["", "m", "1x", "1km", "-1", "20000000e", "100b", "1µ"] {
            assert!(parse_sectors(bad).is_err(), "{bad}");
        }
        let shown = [0.0, 512.0, 51200.0, 349_696.0, (8 << 20) as f64, 1.5 * (1_u64 << 60) as f64].map(size);
        assert_eq!(shown, ["0", "512b", "50.00k", "341.50k", "8.00m", "1.50e"]);
        assert_eq!(parse_bounds("100,1us,20ms,1s").unwrap().0, [100, 1000, 20_000_000, 1_000_000_000]);
        for bad in ["", "30ms,20ms", "1ms,1ms", "0", "5m", "1ms,", "99999999999s"] {
            assert!(parse_bounds(bad).is_err(), "{bad}");
        }
        assert_eq!([0, 100_000, 10_000_000, 3_000_000_000, 1001].map(time), ["0s", "100us", "10ms", "3s", "1001ns"]);
    }
}
