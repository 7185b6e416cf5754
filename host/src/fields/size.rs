//! Sizes and times as people write them.

use std::time::Duration;

/// Reads a number of bytes: `4096`, `4k`, `64MiB`, `8GiB`. Suffixes are powers of 1024; `KB` and the like, which are not,
/// are refused rather than guessed at.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.replace('_', "").parse().map_err(|_| not_a_size(text))?;
    let shift = match suffix.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        "p" | "pib" => 50,
        "kb" | "mb" | "gb" | "tb" | "pb" => {
            let letter = suffix.trim().chars().next().unwrap_or('K').to_ascii_uppercase();
            return Err(format!("`{text}` could mean powers of 1000 or of 1024: write {number}{letter}iB"));
        }
        _ => return Err(not_a_size(text)),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is more than 2^64 bytes"))
}

fn not_a_size(text: &str) -> String {
    format!("`{text}` is not a size: write bytes as in 4096, or 4KiB, 64MiB, 8GiB")
}

/// Reads a time: `30s`, `500ms`, `10us`, `2m`, `1h`. A number alone is refused: some would take it for seconds, fio takes some
/// for microseconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let bad = || format!("`{text}` is not a time: write 30s, 500ms, 10us, 100ns, 2m, 1h");
    let number: f64 = number.parse().map_err(|_| bad())?;
    let unit = match unit.trim() {
        "" if number == 0.0 => 1.0,
        "" => return Err(format!("`{text}` has no unit: write {text}s, {text}ms or {text}us")),
        "s" => 1.0,
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| bad())
}

/// A number of bytes for people: the largest unit that leaves it whole, else two decimals.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (0..UNITS.len()).rev().find(|n| bytes >> (10 * n) > 0).unwrap_or(0);
    let scale = 1u64 << (10 * unit);
    let name = UNITS[unit];
    if bytes.is_multiple_of(scale) {
        format!("{} {name}", bytes / scale)
    } else {
        format!("{:.2} {name}", bytes as f64 / scale as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024() {
        for (text, bytes) in [
            ("512", 512),
            ("4k", 4096),
            ("4KiB", 4096),
            ("64MiB", 64 << 20),
            ("8 GiB", 8 << 30),
            ("1_000", 1000),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn ambiguous_and_impossible_sizes_say_what_to_write() {
        assert!(parse_size("8GB").unwrap_err().contains("8GiB"));
        assert!(parse_size("big").unwrap_err().contains("64MiB"));
        assert!(parse_size("").is_err());
        assert!(parse_size("-1").is_err());
        assert!(parse_size("99999999999G").unwrap_err().contains("2^64"));
    }

    #[test]
    fn times_have_units() {
        for (text, ns) in [
            ("2s", 2_000_000_000),
            ("0", 0),
            ("1.5s", 1_500_000_000),
            ("500ms", 500_000_000),
            ("10us", 10_000),
            ("1m", 60_000_000_000),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_nanos(), ns, "{text}");
        }
        assert!(parse_duration("30").unwrap_err().contains("has no unit: write 30s, 30ms or 30us"));
        assert!(parse_duration("soon").unwrap_err().contains("500ms"));
        assert!(parse_duration("-3s").is_err());
    }

    #[test]
    fn bytes_are_shown_in_the_largest_fitting_unit() {
        assert_eq!(format_bytes(8 << 30), "8 GiB");
        assert_eq!(format_bytes(1536), "1.50 KiB");
        assert_eq!(format_bytes(0), "0 B");
    }
}
