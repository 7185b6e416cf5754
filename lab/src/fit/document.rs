//! A profile as text whose parameters can be changed, with its comments.

use std::time::Duration;

use toml_edit::{DocumentMut, Item, Value};

use super::search::Parameter;
use shingle_host::config::{Source, parse_duration};
use shingle_host::profile::{Model, Profile, ProfileError};

/// A profile's text.
#[derive(Clone, Debug)]
pub struct Document {
    source: Source,
    document: DocumentMut,
}

/// What a number of a profile counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A time, in us.
    Time,
    /// A rate or ratio.
    Number,
}

impl Document {
    /// Reads a profile.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(source: Source) -> Result<Self, ProfileError> {
        let profile = Profile::parse("", source.clone());
        let document = source.text.parse::<DocumentMut>();
        // Whatever is wrong with the text, the reader of profiles tells best.
        profile.map(|_| Self { source, document: document.unwrap_or_default() })
    }

    /// Its times and rates, but for those that are 0: they mean that something is not there.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        for (table, item) in self.document.iter() {
            for (key, item) in item.as_table().into_iter().flatten() {
                let Some((value, kind)) = item.as_value().and_then(number).filter(|(value, _)| *value > 0.0) else {
                    continue;
                };
                parameters.push(Parameter { table: table.into(), key: key.into(), value, kind });
            }
        }
        parameters
    }

    /// The drive with these values in place of its own; `None` if there is no such drive.
    pub fn with(&self, parameters: &[Parameter]) -> Option<Model> {
        let mut changed = self.clone();
        parameters.iter().for_each(|parameter| changed.set(parameter, None));
        let source = Source { path: self.source.path.clone(), text: changed.document.to_string() };
        Profile::parse("", source).ok().map(|profile| profile.model)
    }

    /// Sets a parameter; a `remark` becomes its comment.
    pub fn set(&mut self, parameter: &Parameter, remark: Option<&str>) {
        let Some(item) = self.document.get_mut(&parameter.table).and_then(|table| table.get_mut(&parameter.key)) else {
            return;
        };
        let mut value = match parameter.kind {
            Kind::Time => Value::from(format!("{}us", rounded(parameter.value))),
            Kind::Number => Value::from(rounded(parameter.value)),
        };
        if let Some(old) = item.as_value() {
            *value.decor_mut() = old.decor().clone();
        }
        if let Some(remark) = remark {
            value.decor_mut().set_suffix(format!(" # {remark}"));
        }
        *item = Item::Value(value);
    }

    /// Says at its head what it is.
    pub fn describe(&mut self, head: &str, description: &str) {
        if let Some(item) = self.document.get_mut("description") {
            *item = toml_edit::value(description);
        }
        let lines: String = head.lines().map(|line| format!("# {line}\n")).collect();
        if let Some(mut key) = self.document.key_mut("description") {
            key.leaf_decor_mut().set_prefix(format!("{lines}\n"));
        }
    }

    /// The text.
    pub fn text(&self) -> String {
        self.document.to_string()
    }
}

/// Four digits are more than any measurement has.
fn rounded(value: f64) -> f64 {
    let scale = 10_f64.powf(3.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

fn number(value: &Value) -> Option<(f64, Kind)> {
    match value {
        Value::String(text) => {
            let is_time = text.value().ends_with('s');
            let time: Duration = parse_duration(text.value()).ok().filter(|_| is_time)?;
            Some((time.as_nanos() as f64 / 1e3, Kind::Time))
        }
        Value::Float(number) => Some((*number.value(), Kind::Number)),
        _ => None,
    }
}
