//! What stands at the foot of every page: what made it, when, from which command line, and what it stands beside.

use std::fmt::Write;

use super::markup::Escaped;
use crate::BUILD_PROFILE;

/// Who made a page, and when. The clock and the command line are the caller's: the same imprint makes the same page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imprint {
    date: String,
    command: String,
}

/// A publication that can be read.
pub struct Link {
    /// What it is.
    pub title: &'static str,
    /// Where it is.
    pub address: &'static str,
}

/// The cover letter of the zone write plugging series, as it was merged.
pub const ZWP: Link = Link {
    title: "cover letter of the series, version 7, 2024-04-08",
    address: "https://lore.kernel.org/linux-block/20240408014128.205141-1-dlemoal@kernel.org/",
};
/// The cover letter of the series about the throughput of SMR disks.
pub const QD1: Link = Link {
    title: "cover letter of the series, 2026-02-21",
    address: "https://lore.kernel.org/linux-block/20260221004411.548482-1-dlemoal@kernel.org/",
};
/// The mail that tells of two hours on dm-zoned.
pub const DMZONED: Link = Link {
    title: "mail of 2020-05-11 in the thread of the series",
    address: "https://lore.kernel.org/dm-devel/BY5PR04MB6900138C0F78196D0F81BF07E7A10@BY5PR04MB6900.namprd04.prod.outlook.com/",
};

impl Imprint {
    /// A page made at this time, in seconds since 1970 (UTC), by a command line of these words.
    pub fn new(unix_seconds: u64, words: impl IntoIterator<Item = String>) -> Self {
        let words: Vec<String> = words.into_iter().map(quoted).collect();
        Self { date: date_of(unix_seconds / 86_400), command: words.join(" ") }
    }

    /// Ends the foot of a page.
    pub(in crate::reproduce) fn write(&self, page: &mut String, link: Option<&Link>) {
        if let Some(Link { title, address }) = link {
            let _ = writeln!(page, "<p>Published in: <a href=\"{address}\" rel=\"noreferrer\">{title}</a>.</p>");
        }
        let (version, date, command) = (env!("CARGO_PKG_VERSION"), &self.date, Escaped(&self.command));
        let _ = writeln!(page, "<p>Made by shingle {version} on {date} with <code>{command}</code>.</p>");
        // Also for dist: a page that says nothing may be from a version that did not know its profile.
        let _ = writeln!(page, "<p>The program was built with profile {BUILD_PROFILE}.</p>\n</footer>");
    }
}

/// A word as a shell takes it.
fn quoted(word: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The date so many days after 1970-01-01, in the Gregorian calendar.
fn date_of(days: u64) -> String {
    // Years that begin in March have the leap day at their end. 400 of them have 146,097 days, and begin anew.
    let since_march_of_0 = days + 719_468;
    let (era, day) = (since_march_of_0 / 146_097, since_march_of_0 % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months in a row have 153 days.
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + u64::from(month < 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        let dates = [0, 58, 59, 364, 365, 789, 790, 11_016, 20_779, 146_096, 146_097, u64::MAX / 86_400].map(date_of);
        let expected =
            ["1970-01-01", "1970-02-28", "1970-03-01", "1970-12-31", "1971-01-01", "1972-02-29", "1972-03-01"];
        assert_eq!(dates[..7], expected);
        assert_eq!(dates[7..11], ["2000-02-29", "2026-11-22", "2369-12-31", "2370-01-01"]);
    }

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let words = ["shingle", "reproduce", "qd1", "--only", "smr / rndw", "it's", "a=b,c:1", ""];
        let imprint = Imprint::new(0, words.map(str::to_owned));
        assert_eq!(imprint.command, r"shingle reproduce qd1 --only 'smr / rndw' 'it'\''s' a=b,c:1 ''");
    }
}
