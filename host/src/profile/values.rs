//! The tables of a profile, value by value: every one has to be there, in its range.

use std::ops::RangeInclusive;

use shingle_core::time::Duration;
use toml::de::{DeTable, DeValue};

use crate::fields::{At, Diagnostic, Fields, format_bytes};

/// For most times of a profile the longest.
pub const SECOND: Duration = Duration::from_millis(1000);

/// The tables of a profile.
pub struct Values<'a> {
    document: &'a DeTable<'a>,
    errors: &'a mut Vec<Diagnostic>,
    tables: Vec<&'static str>,
}

/// The values of one table.
pub struct Table<'a> {
    fields: Fields<'a>,
}

impl<'a> Values<'a> {
    /// The tables of `document`; mistakes go to `errors`.
    pub fn new(document: &'a DeTable<'a>, errors: &'a mut Vec<Diagnostic>) -> Self {
        Self { document, errors, tables: Vec::new() }
    }

    /// Reads table `[name]` with `read`; `None` if it is missing.
    pub fn table<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Table<'_>) -> T) -> Option<T> {
        self.tables.push(name);
        let found = self.document.iter().find(|(key, _)| key.get_ref() == name);
        let Some((key, value)) = found else {
            self.errors.push(Diagnostic::general(format!("the profile has no table `[{name}]`")));
            return None;
        };
        let DeValue::Table(table) = value.get_ref() else {
            self.errors.push(Diagnostic::at(key.span(), format!("`{name}` is not a table: write [{name}]")));
            return None;
        };
        let fields = Fields::new(format!("[{name}]"), key.span(), table, self.errors);
        Some(read_table(Table { fields }, read))
    }

    /// Reads every block `[[name]]` with `read`, `count` of them.
    pub fn tables<T>(
        &mut self,
        name: &'static str,
        count: RangeInclusive<usize>,
        mut read: impl FnMut(&mut Table<'_>) -> T,
    ) -> Vec<T> {
        self.tables.push(name);
        let mut top = Fields::new("the profile".into(), 0..0, self.document, self.errors);
        let all = top.tables(name, |fields| read_table(Table { fields }, &mut read));
        if !count.contains(&all.len()) && all.len() == top.length(name) {
            let title = format!("the profile has {} of [[{name}]]", all.len());
            let place = top.place_of(name).map_or_else(|| Diagnostic::general(&title), |at| Diagnostic::at(at, &title));
            top.error(place.help(format!("it has {} to {}", count.start(), count.end())));
        }
        all
    }

    /// Whether there is such a table.
    pub fn has(&self, name: &str) -> bool {
        self.document.iter().any(|(key, _)| key.get_ref() == name)
    }

    /// Notes a mistake.
    pub fn error(&mut self, mistake: Diagnostic) {
        self.errors.push(mistake);
    }

    /// Notes what belongs to no table that was read.
    pub fn finish(self) {
        for (key, _) in self.document {
            let name = key.get_ref().as_ref();
            if !["model", "description"].contains(&name) && !self.tables.contains(&name) {
                let title = format!("a profile of this model has no table `[{name}]`");
                self.errors.push(Diagnostic::at(key.span(), title).help(format!("it has: {}", self.tables.join(", "))));
            }
        }
    }

    /// Notes what is wrong with the values together.
    pub fn check<T>(&mut self, together: Result<T, impl ToString>) {
        self.errors.extend(together.err().map(|error| Diagnostic::general(error.to_string())));
    }
}

fn read_table<T>(mut table: Table<'_>, read: impl FnOnce(&mut Table<'_>) -> T) -> T {
    let read = read(&mut table);
    table.fields.finish();
    read
}

impl Table<'_> {
    /// A name of its own.
    pub fn name(&mut self, key: &'static str, example: &str) -> Option<At<String>> {
        let value = self.fields.string(key);
        self.present(key, example, value)
    }

    /// Reads every block `[[...key]]` of this table with `read`; none need be there.
    pub fn each<T>(&mut self, key: &'static str, mut read: impl FnMut(&mut Table<'_>) -> T) -> Vec<T> {
        self.fields.tables(key, |fields| read_table(Table { fields }, &mut read))
    }

    /// Notes a mistake.
    pub fn error(&mut self, mistake: Diagnostic) {
        self.fields.error(mistake);
    }

    /// Notes that a key is missing.
    pub fn missing(&mut self, key: &'static str, example: &str) {
        self.fields.missing(key, example);
    }

    /// Notes what is wrong with the values of this table together, at its place.
    pub fn check<T>(&mut self, together: Result<T, impl ToString>) {
        let place = self.fields.place();
        if let Err(error) = together {
            self.fields.error(Diagnostic::at(place, error.to_string()));
        }
    }

    /// A size in bytes, as in `"256MiB"`.
    pub fn size(&mut self, key: &'static str, allowed: RangeInclusive<u64>) -> u64 {
        let value = self.fields.size(key);
        self.checked(key, "\"1MiB\"", value, allowed, |bytes| format_bytes(*bytes))
    }

    /// A time, as in `"8.2ms"`.
    pub fn time(&mut self, key: &'static str, allowed: RangeInclusive<Duration>) -> Duration {
        let value = self.fields.duration(key).map(|at| at.map(Duration::from));
        self.checked(key, "\"1ms\"", value, allowed, |time| format!("{:?}", std::time::Duration::from_nanos(time.0)))
    }

    /// A whole number.
    pub fn count(&mut self, key: &'static str, allowed: RangeInclusive<u32>) -> u32 {
        let value = self.fields.count(key);
        self.checked(key, "1", value, allowed, ToString::to_string)
    }

    /// A number in `unit`, which may be empty.
    pub fn real(&mut self, key: &'static str, unit: &str, allowed: RangeInclusive<f64>) -> f64 {
        let value = self.fields.real(key);
        self.checked(key, "1.0", value, allowed, |number| format!("{number} {unit}").trim_end().to_owned())
    }

    /// A rate in bytes per second, given in MB/s.
    pub fn rate(&mut self, key: &'static str) -> u64 {
        (self.real(key, "MB/s", 1.0..=100_000.0) * 1e6) as u64
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> bool {
        let value = self.fields.flag(key);
        self.present(key, "true", value).is_some_and(|at| at.value)
    }

    /// One of a set of words; `None` if it is missing or none of them, which is noted.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let value = self.fields.word(key, words);
        self.present(key, words.first().map_or("", |(word, _)| word), value).map(|at| at.value)
    }

    /// Whether a key is there, for those that may be left out.
    pub fn has(&self, key: &str) -> bool {
        self.fields.has(key)
    }

    fn present<T>(&mut self, key: &'static str, example: &str, value: Option<At<T>>) -> Option<At<T>> {
        if !self.fields.has(key) {
            self.fields.missing(key, example);
        }
        value
    }

    /// The value, if it is allowed; else the mistake is noted and something allowed returned, so that reading goes on.
    fn checked<T: PartialOrd + Clone>(
        &mut self,
        key: &'static str,
        example: &str,
        value: Option<At<T>>,
        allowed: RangeInclusive<T>,
        show: impl Fn(&T) -> String,
    ) -> T {
        let Some(At { value, span }) = self.present(key, example, value) else { return allowed.start().clone() };
        if allowed.contains(&value) {
            return value;
        }
        let title = format!("`{key}` is out of range");
        let label = format!("allowed: {} to {}", show(allowed.start()), show(allowed.end()));
        self.fields.error(Diagnostic::at(span, title).label(label));
        allowed.start().clone()
    }
}
