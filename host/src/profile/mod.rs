//! Drives that can be simulated: files of parameters, each with its unit and where it comes from.
//!
//! A profile is a TOML file with a `model` and one table for each part of the drive. Those that ship are compiled in and go
//! by their names; any other is read from its path, so a user copies one and edits it. A model has a file here, which turns
//! the tables into the configuration that its device in the core takes, and an arm of [`Model`].

mod build;
mod links;
mod live;
mod paths;
mod ram;
mod smr;
mod ssd;
mod values;
mod zns;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use shingle_core::device::NullConfig;
use shingle_core::impl_error;
use shingle_drives::{LinkConfig, RamConfig, SmrConfig, SsdConfig, ZnsConfig};
use toml::de::DeTable;

use crate::fields::{ConfigError, Diagnostic, Fields, Source, nearest};
use values::Values;

pub use build::BuildError;
pub use live::{Part, Refusal};
pub use paths::{BuiltPath, PathProfile, PathSet, Segment};

/// No file of a profile is longer, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The profiles that ship, by name.
const SHIPPED: [(&str, &str); 12] = [
    ("smr-14tb", include_str!("../../profiles/smr-14tb.toml")),
    ("smr-15tb", include_str!("../../profiles/smr-15tb.toml")),
    ("smr-26tb", include_str!("../../profiles/smr-26tb.toml")),
    ("smr-30tb", include_str!("../../profiles/smr-30tb.toml")),
    ("zns-1tb", include_str!("../../profiles/zns-1tb.toml")),
    ("zns-1tb-volatile", include_str!("../../profiles/zns-1tb-volatile.toml")),
    ("zns-1tb-512", include_str!("../../profiles/zns-1tb-512.toml")),
    ("zns-1tb-4k", include_str!("../../profiles/zns-1tb-4k.toml")),
    ("ssd-500gb", include_str!("../../profiles/ssd-500gb.toml")),
    ("ram", include_str!("../../profiles/ram.toml")),
    ("link-fc32", include_str!("../../profiles/link-fc32.toml")),
    ("null", include_str!("../../profiles/null.toml")),
];

/// A drive to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// What it is, in a line.
    pub description: String,
    /// Its parameters.
    pub model: Model,
}

/// What kind of drive it is, with the parameters of that kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A rotating disk with shingled zones.
    Smr(SmrConfig),
    /// A zoned SSD.
    Zns(ZnsConfig),
    /// An ordinary SSD.
    Ssd(SsdConfig),
    /// Memory behind a number of servers.
    Ram(RamConfig),
    /// A RAM disk at the end of a link.
    Link(Box<LinkConfig>, RamConfig),
    /// A null device.
    Null(NullConfig),
}

/// Reads the tables of a model.
type Read<M> = fn(&mut Values<'_>) -> Option<M>;

/// What can stand after `model =`.
const MODELS: [(&str, Read<Model>); 6] = [
    ("smr", |values| smr::read(values).map(Model::Smr)),
    ("zns", |values| zns::read(values).map(Model::Zns)),
    ("ssd", |values| ssd::read(values).map(Model::Ssd)),
    ("ram", |values| ram::read(values).map(Model::Ram)),
    ("link", |values| ram::read_link(values).map(|(link, disk)| Model::Link(Box::new(link), disk))),
    ("null", |values| ram::read_null(values).map(Model::Null)),
];

impl Profile {
    /// The names of the profiles that ship.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The profile of that name, or in the file at that path.
    pub fn find(name_or_path: &str) -> Result<Self, ProfileError> {
        let source = Self::source(name_or_path)?;
        Self::parse(&name_of(&source, name_or_path), source)
    }

    /// The text of that profile.
    pub fn source(name_or_path: &str) -> Result<Source, ProfileError> {
        find_source(&SHIPPED, name_or_path)
    }

    /// Reads a profile; all mistakes come at once, each with its line.
    pub fn parse(name: &str, source: Source) -> Result<Self, ProfileError> {
        parse_with(source, |text, errors| {
            let (description, model) = read(text, errors, &MODELS)?;
            Some(Profile { name: name.to_owned(), description, model })
        })
    }
}

/// What a profile is called that was found so.
fn name_of(source: &Source, name_or_path: &str) -> String {
    source.path.file_stem().map_or(name_or_path.into(), |stem| stem.to_string_lossy().into_owned())
}

/// The text of one of those that ship, or of the file at that path.
fn find_source(shipped: &[(&'static str, &str)], name_or_path: &str) -> Result<Source, ProfileError> {
    if let Some((name, text)) = shipped.iter().find(|(name, _)| *name == name_or_path) {
        return Ok(Source { path: format!("profiles/{name}.toml").into(), text: (*text).to_owned() });
    }
    let path = Path::new(name_or_path);
    if path.extension().is_none() && !path.exists() {
        let known = shipped.iter().map(|(name, _)| *name).collect();
        return Err(ProfileError::Unknown { name: name_or_path.to_owned(), known });
    }
    let text = read_text(path).map_err(|error| ProfileError::Unreadable(path.into(), error))?;
    Ok(Source { path: path.into(), text })
}

/// The text of a file, which is bounded: what is named may be a device without an end, or a pipe into which nobody writes.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {MOST_BYTES} bytes")));
    }
    Ok(text)
}

fn parse_with<T>(
    source: Source,
    read: impl FnOnce(&str, &mut Vec<Diagnostic>) -> Option<T>,
) -> Result<T, ProfileError> {
    let mut errors = Vec::new();
    match read(&source.text, &mut errors) {
        Some(read) if errors.is_empty() => Ok(read),
        _ => Err(ProfileError::Wrong(ConfigError { source, diagnostics: errors })),
    }
}

/// Reads a description, and what one of `models` reads.
fn read<M>(text: &str, errors: &mut Vec<Diagnostic>, models: &[(&str, Read<M>)]) -> Option<(String, M)> {
    let (document, mistakes) = DeTable::parse_recoverable(text);
    if let Some(mistake) = mistakes.first() {
        let place = mistake.span().unwrap_or(0..0);
        errors.push(Diagnostic::at(place, "this is not TOML").label(mistake.message().to_owned()));
        return None;
    }
    let mut top = Fields::new("the profile".into(), 0..0, document.get_ref(), errors);
    let description = top.required("description", "\"a drive\"").map_or(String::new(), |at| at.value);
    if !top.has("model") {
        top.missing("model", &models.first().map_or(String::new(), |(name, _)| format!("\"{name}\"")));
    }
    let read_model = top.word("model", models)?.value;
    // The tables belong to the model, which knows their names.
    top.forgive();
    top.finish();
    let mut values = Values::new(document.get_ref(), errors);
    let model = read_model(&mut values);
    values.finish();
    Some((description, model?))
}

/// Error of reading a profile.
#[derive(Debug)]
pub enum ProfileError {
    /// None that ships is called so.
    Unknown {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// The file cannot be read.
    Unreadable(PathBuf, std::io::Error),
    /// The file has mistakes.
    Wrong(ConfigError),
}

impl_error!(ProfileError, |self, f| match self {
    Self::Unknown { name, known } => {
        write!(f, "there is no profile `{name}`")?;
        if let Some(near) = nearest(name, known.iter().copied()) {
            write!(f, ", but `{near}`")?;
        }
        write!(f, ": use one of {}, or the path of a file", known.join(", "))
    }
    Self::Unreadable(path, error) => {
        write!(f, "cannot read profile {}: {error}; use a name of `shingle`'s own or a path", path.display())
    }
    Self::Wrong(error) => error.fmt(f),
});
