//! Figures as people read them.

/// Digits in groups of three; one decimal below 10, none from there on, and no more than four that mean something.
pub fn grouped(value: f64) -> String {
    if value < 9.95 {
        return format!("{value:.1}");
    }
    let whole = value.round() as u64;
    let scale = 10u64.pow(whole.checked_ilog10().unwrap_or(0).saturating_sub(3));
    let digits = ((whole + scale / 2) / scale * scale).to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Times something: two decimals, or three digits.
pub fn times(ratio: f64) -> String {
    if ratio < 99.5 { format!("{ratio:.2}") } else { grouped(ratio) }
}

/// A time span in the unit that suits it.
pub fn span(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        _ if ns < 999.5 => (ns, "ns"),
        _ if ns < 999.5e3 => (ns / 1e3, "us"),
        _ if ns < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    if value < 9.95 && unit != "ns" { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// How far off a ratio is: `+3.1 %`.
pub fn off(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 0.05 { "0.0 %".to_owned() } else { format!("{percent:+.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_and_keep_four_digits() {
        let all = [0.04, 9.94, 9.96, 99.6, 1005.4, 15_600.0, 2_286_123.0, 16_777_216.0].map(grouped);
        assert_eq!(all, ["0.0", "9.9", "10", "100", "1,005", "15,600", "2,286,000", "16,780,000"]);
    }

    #[test]
    fn ratios_and_spans_are_short() {
        assert_eq!([0.976, 1.0, 23.456, 12_345.6].map(times), ["0.98", "1.00", "23.46", "12,350"]);
        assert_eq!(
            [0, 999, 1_000, 43_210, 8_330_000, 2_500_000_000].map(span),
            ["0 ns", "999 ns", "1.0 us", "43 us", "8.3 ms", "2.5 s"]
        );
        assert_eq!([1.031, 0.9, 1.0001].map(off), ["+3.1 %", "-10.0 %", "0.0 %"]);
    }
}
