//! The published tables, as they were printed: read strictly, so that no figure is lost or taken for another.

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Unit {
    /// Millions of bytes a second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// I/Os a second.
    #[serde(rename = "IOPS")]
    Iops,
    /// 2^20 bytes a second.
    #[serde(rename = "MiB/s")]
    MebibytesPerSecond,
    /// Nanoseconds for one I/O.
    #[serde(rename = "ns")]
    Nanoseconds,
}

impl Unit {
    /// What so many I/Os a second of `block_bytes` each are in this unit.
    pub fn of(self, ios_per_s: f64, block_bytes: u32) -> f64 {
        let bytes_per_s = ios_per_s * f64::from(block_bytes);
        match self {
            Unit::MegabytesPerSecond => bytes_per_s / 1e6,
            Unit::Iops => ios_per_s,
            Unit::MebibytesPerSecond => bytes_per_s / f64::from(1 << 20),
            Unit::Nanoseconds => 1e9 / ios_per_s,
        }
    }
}

shingle_core::impl_display!(Unit, |self, f| f.write_str(match self {
    Unit::MegabytesPerSecond => "MB/s",
    Unit::Iops => "IOPS",
    Unit::MebibytesPerSecond => "MiB/s",
    Unit::Nanoseconds => "ns",
}));

/// What the header of a table has to be.
#[derive(Debug)]
pub struct Schema {
    /// The name of the file, without `.csv`.
    pub name: &'static str,
    /// Columns that name a row.
    pub keys: &'static [&'static str],
    /// Columns with figures.
    pub figures: &'static [(&'static str, Unit)],
    /// The file.
    pub text: &'static str,
}

use Unit::{Iops, MebibytesPerSecond as MiB, MegabytesPerSecond as MB};

/// All tables, in the order in which they are reproduced.
pub const SCHEMAS: [Schema; 6] = [
    Schema {
        name: "zwp-devices",
        keys: &["device", "kernel", "scheduler"],
        figures: &[("seqw4K1", MB), ("seqw4K16", MB), ("seqw1M16", MB), ("rndw4K16", Iops), ("rndw128K16", Iops)],
        text: include_str!("../../data/published/zwp-devices.csv"),
    },
    Schema {
        name: "zwp-append-btrfs",
        keys: &["kernel", "scheduler"],
        figures: &[
            ("nullblk_native_za", MB),
            ("nullblk_emulated_za", MB),
            ("zns_native_za", MB),
            ("smr_emulated_za", MB),
        ],
        text: include_str!("../../data/published/zwp-append-btrfs.csv"),
    },
    Schema {
        name: "qd1-sequential",
        keys: &["queue_depth"],
        figures: &[("baseline", MB), ("patched", MB)],
        text: include_str!("../../data/published/qd1-sequential.csv"),
    },
    Schema {
        name: "qd1-random-zones",
        keys: &["zones"],
        figures: &[("baseline", MB), ("patched", MB)],
        text: include_str!("../../data/published/qd1-random-zones.csv"),
    },
    Schema {
        name: "qd1-xfs",
        keys: &["workload"],
        figures: &[("ahci_baseline", MB), ("ahci_patched", MB), ("hba1m_baseline", MB), ("hba1m_patched", MB)],
        text: include_str!("../../data/published/qd1-xfs.csv"),
    },
    Schema {
        name: "dm-noclone",
        keys: &["machine"],
        figures: &[
            ("ram_disk", MiB),
            ("linear_clone", MiB),
            ("linear_noclone", MiB),
            ("linear_noclone_with_per_bio_data", MiB),
        ],
        text: include_str!("../../data/published/dm-noclone.csv"),
    },
];

/// A published table.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedTable {
    /// Where it was published and what was measured: the comments of the file.
    pub source: String,
    /// Its figures, row by row.
    pub figures: Vec<Figure>,
}

/// A published figure with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What the row is about, a value for each key of the schema.
    pub keys: Vec<String>,
    /// The column.
    pub column: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// The figure.
    pub value: f64,
}

impl Schema {
    /// Reads the embedded file.
    pub fn read(&self) -> Result<PublishedTable, String> {
        self.parse(self.text)
    }

    /// Reads `text`: lines that begin with `#` are the source note, then a header with exactly the columns of the schema, then
    /// rows without quoting.
    pub fn parse(&self, text: &str) -> Result<PublishedTable, String> {
        let (source, lines) = split(text);
        let mut rows = Vec::new();
        let mut table = PublishedTable { source, figures: Vec::new() };
        for (place, (number, line)) in lines.into_iter().enumerate() {
            let fail = |what: String| format!("{}.csv, line {number}: {what}", self.name);
            match place {
                0 => self.check_header(line).map_err(fail)?,
                _ => table.figures.extend(self.row(line, &mut rows).map_err(fail)?),
            }
        }
        if rows.is_empty() {
            return Err(format!("{}.csv: there are no rows below the header `{}`", self.name, self.header().join(",")));
        }
        Ok(table)
    }

    fn header(&self) -> Vec<&'static str> {
        self.keys.iter().copied().chain(self.figures.iter().map(|(name, _)| *name)).collect()
    }

    fn check_header(&self, line: &str) -> Result<(), String> {
        let expected = self.header();
        let found: Vec<&str> = line.split(',').collect();
        if let Some(unknown) = found.iter().find(|name| !expected.contains(name)) {
            return Err(format!("unknown column `{unknown}`; the columns are {}", expected.join(",")));
        }
        if found != expected {
            return Err(format!("the columns have to be {}, in this order and each once", expected.join(",")));
        }
        Ok(())
    }

    /// The figures of a line whose keys are not among those of the `rows` before it.
    fn row(&self, line: &str, rows: &mut Vec<Vec<String>>) -> Result<Vec<Figure>, String> {
        let fields: Vec<&str> = line.split(',').collect();
        let expected = self.keys.len() + self.figures.len();
        if fields.len() != expected {
            return Err(format!("{} fields where the header has {expected}", fields.len()));
        }
        let (keys, figures) = fields.split_at(self.keys.len());
        let named = self.keys.iter().zip(keys);
        if let Some((name, key)) = named.clone().find(|(_, key)| key.is_empty() || key.trim() != **key) {
            return Err(format!("`{key}` is no {name}: give it without spaces around"));
        }
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        if rows.contains(&keys) {
            return Err(format!("the row `{}` is there already", keys.join(",")));
        }
        rows.push(keys.clone());
        let figure = |((column, unit), field): (&(&'static str, Unit), &&str)| {
            let place = |value| Figure { keys: keys.clone(), column, unit: *unit, value };
            figure(field).map(|value| value.map(place)).transpose()
        };
        self.figures.iter().zip(figures).filter_map(figure).collect()
    }
}

/// The comments of a file, and its other lines, each with its number from 1.
pub(super) fn split(text: &str) -> (String, Vec<(usize, &str)>) {
    let (comments, lines): (Vec<_>, Vec<_>) = (1..).zip(text.lines()).partition(|(_, line)| line.starts_with('#'));
    let comments: Vec<&str> = comments.into_iter().map(|(_, line)| line[1..].trim()).collect();
    (comments.join("\n"), lines)
}

/// A figure is digits only; an empty field says that nothing was published.
fn figure(field: &str) -> Result<Option<f64>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    let digits = field.bytes().all(|byte| byte.is_ascii_digit());
    let value = field.parse::<u32>().ok().filter(|value| digits && *value > 0);
    value.map(|value| Some(value.into())).ok_or_else(|| format!("`{field}` is no figure: a whole number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTHS: &Schema = &SCHEMAS[2];

    fn error(text: &str) -> String {
        DEPTHS.parse(text).unwrap_err()
    }

    #[test]
    fn every_embedded_table_can_be_read_and_says_where_it_comes_from() {
        for schema in &SCHEMAS {
            let table = schema.read().unwrap_or_else(|error| panic!("{error}"));
            let is_named = ["cover letter", "patch"].iter().any(|word| table.source.contains(word));
            assert!(is_named, "{}: {}", schema.name, table.source);
        }
    }

    #[test]
    fn comments_are_kept_and_an_empty_field_is_no_figure() {
        let table = DEPTHS.parse("# From a mail.\n# And more.\nqueue_depth,baseline,patched\n1,244,\n").unwrap();
        assert_eq!(table.source, "From a mail.\nAnd more.");
        let figure = Figure { keys: vec!["1".into()], column: "baseline", unit: MB, value: 244.0 };
        assert_eq!(table.figures, [figure]);
    }

    #[test]
    fn a_header_that_is_not_the_schema_is_refused() {
        assert_eq!(
            error("queue_depth,baseline,patched,other\n1,2,3,4\n"),
            "qd1-sequential.csv, line 1: unknown column `other`; the columns are queue_depth,baseline,patched"
        );
        assert!(error("queue_depth,patched,baseline\n1,2,3\n").contains("in this order"));
        assert!(error("queue_depth,baseline\n1,2\n").contains("each once"));
    }

    #[test]
    fn a_row_that_is_not_exactly_one_of_the_schema_is_refused() {
        let row = |row: &str| error(&format!("queue_depth,baseline,patched\n1,244,245\n{row}\n"));
        assert!(row("2,244").contains("line 3: 2 fields where the header has 3"));
        assert!(row("2,244,245,246").contains("4 fields"));
        assert!(row("1,244,245").contains("there already"));
        for wrong in ["-1", "+1", "1e3", "0", "2.5", " 2", "x", "99999999999"] {
            assert!(row(&format!("2,{wrong},245")).contains("is no figure"), "{wrong}");
        }
        assert!(row(" ,1,1").contains("is no queue_depth"));
        assert!(row("").contains("1 fields"));
        assert!(error("queue_depth,baseline,patched\n").contains("no rows"));
        assert!(error("").contains("no rows"));
    }
}
