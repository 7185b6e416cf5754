//! The text that says which drive a directory is of.

use serde::{Deserialize, Serialize};
use shingle_core::block::Limits;
use shingle_core::zone::ZoneGeometry;

use super::error::ErrorKind;

/// The version of the format that is written, and the only one that is read.
const VERSION: u64 = 1;

/// Which drive it is. How fast it is does not count: a profile may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    version: u64,
    /// The profile that it was made with: its name, or the path of its file.
    pub profile: String,
    model: String,
    /// Its size.
    pub bytes: u64,
    block_bytes: u32,
    zones: Option<Zones>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Zones {
    bytes: u64,
    capacity_bytes: u64,
    conventional: u32,
}

/// What a reader of any version has to find.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Description {
    /// A drive of this model and shape.
    #[must_use]
    pub fn new(profile: &str, model: &str, limits: &Limits, geometry: Option<&ZoneGeometry>) -> Self {
        let zones = geometry.map(|geometry| Zones {
            bytes: u64::from(geometry.zone_sectors()) * 512,
            capacity_bytes: u64::from(geometry.zone_capacity()) * 512,
            conventional: geometry.conventional(),
        });
        let (bytes, block_bytes) = (limits.capacity * 512, limits.logical_block_bytes);
        Self { version: VERSION, profile: profile.into(), model: model.into(), bytes, block_bytes, zones }
    }

    pub(super) fn to_text(&self) -> String {
        let text = toml::to_string(self).expect("numbers and short texts are TOML");
        format!("# A simulated drive of Shingle; see docs/drive-directory-format.md.\n{text}")
    }

    pub(super) fn parse(text: &str) -> Result<Self, ErrorKind> {
        let unreadable = |error: toml::de::Error| ErrorKind::Unreadable(error.message().to_owned());
        match toml::from_str::<Versioned>(text).map_err(unreadable)?.version {
            VERSION => toml::from_str(text).map_err(unreadable),
            version => Err(ErrorKind::OtherVersion(version)),
        }
    }

    /// The first thing in which it is not the drive that is wanted.
    pub(super) fn difference(&self, wanted: &Self) -> Option<ErrorKind> {
        let facts = |of: &Self| {
            let zones =
                |part: fn(&Zones) -> u64| of.zones.as_ref().map_or("none".into(), |zones| part(zones).to_string());
            [
                ("model", of.model.clone()),
                ("size in bytes", of.bytes.to_string()),
                ("block size", of.block_bytes.to_string()),
                ("zone size", zones(|zones| zones.bytes)),
                ("zone capacity", zones(|zones| zones.capacity_bytes)),
                ("number of conventional zones", zones(|zones| zones.conventional.into())),
            ]
        };
        let (here, wanted) = (facts(self), facts(wanted));
        let differs = here.into_iter().zip(wanted).find(|(here, wanted)| here != wanted);
        differs.map(|((what, here), (_, wanted))| ErrorKind::OtherDrive { what, here, wanted })
    }
}
