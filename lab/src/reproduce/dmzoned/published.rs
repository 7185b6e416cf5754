//! The published phases: how fast it was, from when to when.

use super::Setup;
use crate::reproduce::published::split;

/// The file, as it is in `lab/data/published`.
const TEXT: &str = include_str!("../../../data/published/dm-zoned-phases.csv");
const HEADER: &str = "setup,phase,from_s,to_s,mb_per_s_low,mb_per_s_high,basis,what";

/// A stretch of time with one speed.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedPhase {
    /// The drives.
    pub setup: Setup,
    /// Its number, from 1.
    pub number: u32,
    /// When it began, in seconds, if that was published.
    pub from_s: Option<u32>,
    /// When it ended, in seconds.
    pub to_s: Option<u32>,
    /// The lower end of its speed, in MB/s.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether its speed was computed from what was published.
    pub computed: bool,
    /// What was said about it.
    pub what: String,
}

/// The published phases, and where they come from.
pub struct Published {
    /// The comments of the file.
    pub source: String,
    /// All phases.
    pub phases: Vec<PublishedPhase>,
}

shingle_core::impl_display!(PublishedPhase, |self, f| {
    if self.low == self.high {
        write!(f, "{:.0}", self.low)?;
    } else {
        write!(f, "{:.0} to {:.0}", self.low, self.high)?;
    }
    f.write_str(if self.computed { " (computed)" } else { "" })
});

impl PublishedPhase {
    /// Whether it was published when it was. If not, our speed in it is a mean of minutes that were chosen for their speed.
    pub fn is_timed(&self) -> bool {
        self.from_s.is_some() && self.to_s.is_some()
    }

    /// How far `mb_per_s` lies outside of the published range, as a share of its nearer end; 0 inside.
    pub fn off(&self, mb_per_s: f64) -> f64 {
        if mb_per_s < self.low {
            mb_per_s / self.low - 1.0
        } else if mb_per_s > self.high {
            mb_per_s / self.high - 1.0
        } else {
            0.0
        }
    }
}

/// What the embedded file has.
pub fn read() -> Published {
    parse(TEXT).expect("a test reads the file")
}

fn parse(text: &str) -> Result<Published, String> {
    let (source, lines) = split(text);
    let is_header = lines.first().is_none_or(|(_, line)| *line == HEADER);
    let row = |(number, line): &(usize, &str)| {
        let row = if is_header { phase(line) } else { Err(format!("the header has to be `{HEADER}`")) };
        row.map_err(|what| format!("dm-zoned-phases.csv, line {number}: {what}"))
    };
    let phases: Vec<PublishedPhase> = lines.iter().skip(usize::from(is_header)).map(row).collect::<Result<_, _>>()?;
    if phases.is_empty() { Err("dm-zoned-phases.csv: it has no rows".into()) } else { Ok(Published { source, phases }) }
}

fn phase(line: &str) -> Result<PublishedPhase, String> {
    let fields: Vec<&str> = line.splitn(8, ',').collect();
    let [setup, number, from, to, low, high, basis, what] = fields[..] else {
        return Err(format!("{} fields where the header has 8", fields.len()));
    };
    let figure = |text: &str| text.parse::<u32>().map_err(|_| format!("`{text}` is no whole number"));
    let time = |text: &str| if text.is_empty() { Ok(None) } else { figure(text).map(Some) };
    let setup = Setup::ALL.into_iter().find(|known| known.name() == setup);
    let (low, high) = (f64::from(figure(low)?), f64::from(figure(high)?));
    if !(0.0 < low && low <= high) {
        return Err(format!("{low} to {high} MB/s is no range"));
    }
    Ok(PublishedPhase {
        setup: setup.ok_or("the setup has to be `single` or `dual`")?,
        number: figure(number)?,
        from_s: time(from)?,
        to_s: time(to)?,
        low,
        high,
        computed: match basis {
            "published" => false,
            "computed" => true,
            _ => return Err("the basis has to be `published` or `computed`".into()),
        },
        what: what.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_phases_can_be_read_and_say_where_they_come_from() {
        let published = read();
        assert!(published.source.contains("2020-05-11"), "{}", published.source);
        let single = published.phases.iter().filter(|phase| phase.setup == Setup::Single);
        let single: Vec<_> = single.map(|phase| (phase.from_s, phase.to_s, phase.low, phase.high)).collect();
        let expected = [(0, 400, 110.0, 110.0), (400, 800, 60.0, 70.0), (800, 7200, 20.0, 30.0)];
        assert_eq!(single, expected.map(|(from, to, low, high)| (Some(from), Some(to), low, high)));
        assert_eq!(published.phases.len(), 8);
        let computed: Vec<String> =
            published.phases.iter().filter(|phase| phase.computed).map(ToString::to_string).collect();
        assert_eq!(computed, ["212 (computed)"; 2]);
    }

    #[test]
    fn a_speed_is_off_by_its_distance_to_the_nearer_end() {
        let phase = phase("single,2,400,800,60,70,published,reclaim").unwrap();
        assert_eq!([60.0, 65.0, 70.0].map(|speed| phase.off(speed)), [0.0; 3]);
        assert!((phase.off(54.0) + 0.1).abs() < 1e-9 && (phase.off(77.0) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_row_that_is_none_is_refused() {
        let error = |row: &str| parse(&format!("{HEADER}\n{row}\n")).err().unwrap();
        assert!(error("single,1,0,400,110").contains("line 2: 5 fields"));
        assert!(error("triple,1,0,400,110,110,published,x").contains("`single` or `dual`"));
        assert!(error("single,1,0,400,120,110,published,x").contains("no range"));
        assert!(error("single,1,0,400,110,110,guessed,x").contains("`published` or `computed`"));
        assert!(error("single,1,soon,400,110,110,published,x").contains("`soon`"));
        assert!(parse("a,b\n").err().unwrap().contains("header"));
        assert!(parse(&format!("{HEADER}\n")).err().unwrap().contains("no rows"));
    }
}
