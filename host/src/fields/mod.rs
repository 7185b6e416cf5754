//! A TOML table, read key by key: wrong types and unknown keys are noted and reading goes on.

mod error;
mod size;
mod text;

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use error::{ConfigError, Diagnostic, MAX_MISTAKES, Source, has_room};
pub use size::{format_bytes, parse_duration, parse_size};
#[cfg(test)]
pub use text::work;
pub use text::{nearest, word_in_string};

/// Letters of the name of a table that are shown in the names of tables in it: a right name is shorter.
const MAX_SHOWN_NAME: usize = 160;

/// A value and its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub span: Range<usize>,
}

impl<T> At<T> {
    /// The same place with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { value: f(self.value), span: self.span }
    }
}

impl At<u64> {
    /// The mistake, if this number of `unit` is not in `range`.
    #[must_use]
    pub fn outside(&self, key: &str, range: RangeInclusive<u64>, unit: &str) -> Option<Diagnostic> {
        let label = format!("allowed: {} to {} {unit}", range.start(), range.end());
        let mistake = || Diagnostic::at(self.span.clone(), format!("`{key}` is out of range")).label(label);
        (!range.contains(&self.value)).then(mistake)
    }
}

/// One of a list.
pub enum Item<'a> {
    /// A name.
    Name(At<String>),
    /// What says more.
    Table(Fields<'a>),
}

/// The keys of one table.
pub struct Fields<'a> {
    name: String,
    place: Range<usize>,
    directory: &'a Path,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
    all_known: bool,
    errors: &'a mut Vec<Diagnostic>,
}

impl<'a> Fields<'a> {
    /// The keys of `table`, which the user knows as `name`, at `place`.
    pub fn new(name: String, place: Range<usize>, table: &'a DeTable<'a>, errors: &'a mut Vec<Diagnostic>) -> Self {
        Self { name, place, directory: Path::new(""), table, known: Vec::new(), all_known: false, errors }
    }

    /// With paths that are relative to `directory`.
    #[must_use]
    pub fn within(self, directory: &'a Path) -> Self {
        Self { directory, ..self }
    }

    /// Notes a mistake, if there is room for it.
    pub fn error(&mut self, diagnostic: Diagnostic) {
        self.note(|_| diagnostic);
    }

    /// Notes a mistake, if there is room for it. It is given the name of the table, which can be as long as the file.
    fn note(&mut self, mistake: impl FnOnce(&str) -> Diagnostic) {
        if has_room(self.errors) {
            self.errors.push(mistake(&self.name));
        }
    }

    /// The place of the table's name.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    fn take<T>(&mut self, key: &'static str, read: impl FnOnce(&DeValue<'_>) -> Result<T, String>) -> Option<At<T>> {
        self.known.push(key);
        let value = self.table.iter().find(|(name, _)| name.get_ref() == key)?.1;
        match read(value.get_ref()) {
            Ok(read) => Some(At { value: read, span: value.span() }),
            Err(problem) => {
                self.note(|name| Diagnostic::at(value.span(), format!("`{key}` of {name} is wrong")).label(problem));
                None
            }
        }
    }

    /// A string.
    pub fn string(&mut self, key: &'static str) -> Option<At<String>> {
        self.take(key, read_string)
    }

    /// A string that has to be there.
    pub fn required(&mut self, key: &'static str, example: &str) -> Option<At<String>> {
        let present = self.has(key);
        let value = self.string(key);
        if !present {
            self.missing(key, example);
        }
        value
    }

    /// A path.
    pub fn path(&mut self, key: &'static str) -> Option<At<PathBuf>> {
        Some(self.string(key)?.map(|path| self.directory.join(path)))
    }

    /// A path that has to be there.
    pub fn required_path(&mut self, key: &'static str, example: &str) -> Option<At<PathBuf>> {
        Some(self.required(key, example)?.map(|path| self.directory.join(path)))
    }

    /// Whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.table.iter().any(|(name, _)| name.get_ref() == key)
    }

    /// The place of a key's value.
    pub fn place_of(&self, key: &str) -> Option<Range<usize>> {
        Some(self.table.iter().find(|(name, _)| name.get_ref() == key)?.1.span())
    }

    /// How many things the list at a key has; 0 without one.
    pub fn length(&self, key: &str) -> usize {
        let value = self.table.iter().find(|(name, _)| name.get_ref() == key);
        value.and_then(|(_, value)| value.get_ref().as_array()).map_or(0, |list| list.len())
    }

    /// Notes that a key is missing.
    pub fn missing(&mut self, key: &'static str, example: &str) {
        let place = self.place();
        self.note(|name| {
            Diagnostic::at(place, format!("{name} has no `{key}`"))
                .help(format!("add a line such as: {key} = {example}"))
        });
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Option<At<bool>> {
        self.take(key, |value| value.as_bool().ok_or_else(|| format!("{}: write true or false", a(value))))
    }

    /// A number of bytes.
    pub fn size(&mut self, key: &'static str) -> Option<At<u64>> {
        self.take(key, |value| match value {
            DeValue::String(text) => parse_size(text),
            other => read_count(other).map_err(|_| format!("{}: write bytes as in 4096, or \"64MiB\"", a(other))),
        })
    }

    /// A time.
    pub fn duration(&mut self, key: &'static str) -> Option<At<std::time::Duration>> {
        self.take(key, |value| parse_duration(&read_string(value)?))
    }

    /// A number that is not negative.
    pub fn count(&mut self, key: &'static str) -> Option<At<u32>> {
        self.take(key, |value| {
            read_count(value)?.try_into().map_err(|_| format!("more than {}: write a smaller number", u32::MAX))
        })
    }

    /// A number, whole or not.
    pub fn real(&mut self, key: &'static str) -> Option<At<f64>> {
        self.take(key, |value| {
            let number = match value {
                DeValue::Integer(number) => number.as_str().parse().ok(),
                DeValue::Float(number) => number.as_str().parse().ok(),
                _ => None,
            };
            number.ok_or_else(|| format!("{}: write a number", a(value)))
        })
    }

    /// Names with a number or a word each.
    pub fn pairs(&mut self, key: &'static str) -> Option<At<Vec<(String, String)>>> {
        self.take(key, |value| {
            let DeValue::Table(table) = value else {
                return Err(format!("{}: write names and values as in {{ start_percent = 30 }}", a(value)));
            };
            let pair = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                let text = match value.get_ref() {
                    DeValue::String(text) => text.to_string(),
                    DeValue::Integer(number) => number.as_str().to_owned(),
                    other => return Err(format!("`{}` is {}: write a number or a word", name.get_ref(), a(other))),
                };
                Ok((name.get_ref().to_string(), text))
            };
            table.iter().map(pair).collect()
        })
    }

    /// A list of numbers.
    pub fn counts(&mut self, key: &'static str) -> Option<At<Vec<u32>>> {
        self.take(key, |value| {
            let list = value.as_array().ok_or_else(|| format!("{}: write a list such as [5, 6]", a(value)))?;
            let count = |item: &Spanned<DeValue<'_>>| {
                let number = read_count(item.get_ref())?;
                u32::try_from(number).map_err(|_| format!("{number} is more than {}", u32::MAX))
            };
            list.iter().map(count).collect()
        })
    }

    /// A list of strings.
    pub fn strings(&mut self, key: &'static str) -> Option<At<Vec<String>>> {
        self.take(key, |value| {
            let list = value.as_array().ok_or_else(|| format!("{}: write a list such as [\"a\", \"b\"]", a(value)))?;
            list.iter().map(|item| read_string(item.get_ref())).collect()
        })
    }

    /// A list of tables, each with its place: `[[key]]` blocks, or tables in braces.
    pub fn tables<T>(&mut self, key: &'static str, mut read: impl FnMut(Fields<'_>) -> T) -> Vec<T> {
        self.known.push(key);
        let Some((_, value)) = self.table.iter().find(|(name, _)| name.get_ref() == key) else { return Vec::new() };
        let items = value.get_ref().as_array().into_iter().flatten();
        let found: Vec<_> = items.filter_map(|item| Some((item.span(), item.get_ref().as_table()?))).collect();
        if value.get_ref().as_array().is_none_or(|all| all.len() != found.len()) {
            self.note(|name| {
                let title = format!("`{key}` of {name} is no list of tables");
                Diagnostic::at(value.span(), title).help(format!("write a [[...{key}]] block for each"))
            });
            return Vec::new();
        }
        let of = shortened(&self.name);
        let tables = (1..).zip(found);
        let mut read_one = |(number, (place, table)): (usize, (Range<usize>, _))| {
            read(Fields::new(format!("`{key}` {number} of {of}"), place, table, &mut *self.errors))
        };
        tables.map(&mut read_one).collect()
    }

    /// A list of names, each of which may be a table instead, if it says more than the name.
    pub fn items<T>(&mut self, key: &'static str, mut read: impl FnMut(Item<'_>) -> Option<T>) -> Option<At<Vec<T>>> {
        self.known.push(key);
        let value = self.table.iter().find(|(name, _)| name.get_ref() == key)?.1;
        let Some(list) = value.get_ref().as_array() else {
            self.note(|name| {
                let label = format!("{}: write a list such as [\"a\", \"b\"]", a(value.get_ref()));
                Diagnostic::at(value.span(), format!("`{key}` of {name} is wrong")).label(label)
            });
            return None;
        };
        let (mut items, of) = (Vec::new(), shortened(&self.name).into_owned());
        for (number, item) in list.iter().enumerate() {
            let name = || format!("`{key}` {} of {of}", number + 1);
            items.extend(match item.get_ref() {
                DeValue::String(word) => read(Item::Name(At { value: word.to_string(), span: item.span() })),
                DeValue::Table(table) => read(Item::Table(Fields::new(name(), item.span(), table, self.errors))),
                other => {
                    self.note(|name| {
                        let label = format!("{}: write a name in quotes, or a table in braces", a(other));
                        Diagnostic::at(item.span(), format!("`{key}` of {name} is wrong")).label(label)
                    });
                    None
                }
            });
        }
        Some(At { value: items, span: value.span() })
    }

    /// A time, or `never`.
    pub fn duration_or_never(&mut self, key: &'static str) -> Option<At<Option<std::time::Duration>>> {
        self.take(key, |value| match read_string(value)?.as_str() {
            "never" => Ok(None),
            text => parse_duration(text).map(Some).map_err(|error| format!("{error}, or \"never\"")),
        })
    }

    /// One of a set of words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<At<T>> {
        self.take(key, |value| {
            let text = read_string(value)?;
            let found = words.iter().find(|(word, _)| *word == text);
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let hint =
                nearest(&text, all.iter().copied()).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
            found.map(|(_, meaning)| *meaning).ok_or_else(|| format!("{hint}known are: {}", all.join(", ")))
        })
    }

    /// Accepts all keys, because which are right is not known.
    pub fn forgive(&mut self) {
        self.all_known = true;
    }

    /// Notes every key that nobody asked for.
    pub fn finish(self) {
        let Self { name, table, known, all_known, errors, .. } = self;
        for (key, _) in table {
            if !has_room(errors) {
                return;
            }
            if !all_known && !known.contains(&key.get_ref().as_ref()) {
                errors.push(unknown_key(key, &name, &known));
            }
        }
    }
}

/// The name of a table, as a part of the names of all tables in it: one that is too long for a name ends in dots.
fn shortened(name: &str) -> std::borrow::Cow<'_, str> {
    match name.char_indices().nth(MAX_SHOWN_NAME) {
        Some((end, _)) => format!("{}...", &name[..end]).into(),
        None => name.into(),
    }
}

/// A key that does not exist.
pub fn unknown_key(key: &Spanned<std::borrow::Cow<'_, str>>, name: &str, known: &[&str]) -> Diagnostic {
    let title = format!("{name} has no key `{}`", key.get_ref());
    let label = nearest(key.get_ref(), known.iter().copied());
    let diagnostic = Diagnostic::at(key.span(), title).help(format!("known keys are: {}", known.join(", ")));
    match label {
        Some(near) => diagnostic.label(format!("did you mean `{near}`?")),
        None => diagnostic.label("unknown key"),
    }
}

fn read_string(value: &DeValue<'_>) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{}: write a string in quotes", a(value)))
}

fn read_count(value: &DeValue<'_>) -> Result<u64, String> {
    let number = match value {
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| format!("{}: write a whole number", a(value)))?;
    u64::try_from(number).map_err(|_| format!("{number} is out of range: write a number from 0 up"))
}

fn a(value: &DeValue<'_>) -> String {
    let kind = value.type_str();
    let article = if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("this is {article} {kind}")
}
