//! The small file that keeps a disk's shape, as text that is also TOML. The bytes are described in
//! `docs/zoned-disk-format.md`.

use std::collections::BTreeMap;

use shingle_core::impl_error;
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{GeometryError, ResourceLimits, ResourceLimitsError, ZoneGeometry};

use super::shape::{Shape, ShapeError};

/// The file's name.
pub const FILE_NAME: &str = "shingle-disk.toml";
/// The version of the format that is written, and the only one that is read.
const VERSION: u64 = 1;
/// No geometry file is larger, in bytes.
pub(super) const MOST_BYTES: usize = 4096;

const SECTOR: u64 = SECTOR_BYTES as u64;
const KEYS: [&str; 9] = [
    "version",
    "capacity_bytes",
    "zone_bytes",
    "zone_capacity_bytes",
    "conventional_zones",
    "block_bytes",
    "native_append",
    "max_open_zones",
    "max_active_zones",
];

/// Invalid geometry file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryFileError {
    /// It is larger than any geometry file, or not text.
    NotText,
    /// It does not end in its checksum.
    NoChecksum,
    /// Its checksum (first) is not that of its text (second).
    Checksum(String, String),
    /// It is of another version.
    Version(u64),
    /// A line is not `key = value` with a known key; line number and text.
    Line(usize, String),
    /// A key is there twice; line number and key.
    Twice(usize, String),
    /// A key has an impossible value; key and value.
    Value(&'static str, String),
    /// A key is missing.
    Missing(&'static str),
    /// The zones make no disk.
    Geometry(GeometryError),
    /// The limits make no sense.
    Limits(ResourceLimitsError),
    /// Block size and zones do not go together.
    Shape(ShapeError),
}

impl_error!(GeometryFileError, |self, f| match self {
    Self::NotText => write!(f, "it is not a text of at most {MOST_BYTES} bytes"),
    Self::NoChecksum => write!(f, "it does not end in a line `check = \"...\"`"),
    Self::Checksum(found, right) => {
        write!(f, "its checksum is {found}, but that of its text is {right}: it was damaged or edited")
    }
    Self::Version(version) => {
        write!(f, "it is of format version {version}, and this program knows version {VERSION} only")
    }
    Self::Line(number, text) => write!(f, "line {number}, {text:?}, is not `key = value` with a known key"),
    Self::Twice(number, key) => write!(f, "line {number} sets {key} a second time"),
    Self::Value(key, value) => write!(f, "{key} cannot be {value:?}"),
    Self::Missing(key) => write!(f, "{key} is missing"),
    Self::Geometry(error) => error.fmt(f),
    Self::Limits(error) => error.fmt(f),
    Self::Shape(error) => error.fmt(f),
});

/// The text that keeps `shape`.
pub(super) fn print(shape: &Shape) -> String {
    let zones = &shape.zones;
    let mut text = format!(
        "# The shape of a zoned disk. Its zones are the files beside this one; see docs/zoned-disk-format.md of Shingle.\n\
         version = {VERSION}\n\
         capacity_bytes = {}\n\
         zone_bytes = {}\n\
         zone_capacity_bytes = {}\n\
         conventional_zones = {}\n\
         block_bytes = {}\n\
         native_append = {}\n",
        zones.capacity() * SECTOR,
        u64::from(zones.zone_sectors()) * SECTOR,
        u64::from(zones.zone_capacity()) * SECTOR,
        zones.conventional(),
        shape.block_bytes,
        shape.append,
    );
    let limits = [("max_open_zones", shape.limits.max_open()), ("max_active_zones", shape.limits.max_active())];
    for (key, limit) in limits {
        if let Some(limit) = limit {
            text += &format!("{key} = {limit}\n");
        }
    }
    let check = crc32fast::hash(text.as_bytes());
    text + &format!("check = \"{check:08x}\"\n")
}

/// The shape that `bytes` keep.
pub(super) fn parse(bytes: &[u8]) -> Result<Shape, GeometryFileError> {
    if bytes.len() > MOST_BYTES {
        return Err(GeometryFileError::NotText);
    }
    let text = str::from_utf8(bytes).map_err(|_| GeometryFileError::NotText)?;
    let values = values(verified(text)?)?;
    if number(&values, "version")? != VERSION {
        return Err(GeometryFileError::Version(number(&values, "version")?));
    }
    let zones = ZoneGeometry::new(
        sectors(&values, "capacity_bytes")?,
        sectors(&values, "zone_bytes")?,
        sectors(&values, "zone_capacity_bytes")?,
        number(&values, "conventional_zones")?,
    )
    .map_err(GeometryFileError::Geometry)?;
    let limits = ResourceLimits::new(limit(&values, "max_open_zones")?, limit(&values, "max_active_zones")?);
    let shape = Shape {
        zones,
        block_bytes: small(&values, "block_bytes")?,
        limits: limits.map_err(GeometryFileError::Limits)?,
        append: match value(&values, "native_append")? {
            "true" => true,
            "false" => false,
            other => return Err(GeometryFileError::Value("native_append", other.into())),
        },
    };
    shape.check().map_err(GeometryFileError::Shape)?;
    Ok(shape)
}

/// The text before the checksum line, if the checksum is right.
fn verified(text: &str) -> Result<&str, GeometryFileError> {
    let start = text.rfind("check = \"").filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n');
    let (body, line) = text.split_at(start.ok_or(GeometryFileError::NoChecksum)?);
    let found = line.strip_prefix("check = \"").and_then(|rest| rest.strip_suffix("\"\n"));
    let found = found.filter(|found| found.len() == 8).ok_or(GeometryFileError::NoChecksum)?;
    let right = format!("{:08x}", crc32fast::hash(body.as_bytes()));
    if found == right { Ok(body) } else { Err(GeometryFileError::Checksum(found.into(), right)) }
}

type Values<'a> = BTreeMap<&'a str, &'a str>;

fn values(text: &str) -> Result<Values<'_>, GeometryFileError> {
    let mut values = Values::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once(" = ").filter(|(key, _)| KEYS.contains(key));
        let (key, value) = pair.ok_or_else(|| GeometryFileError::Line(index + 1, line.into()))?;
        if values.insert(key, value).is_some() {
            return Err(GeometryFileError::Twice(index + 1, key.into()));
        }
    }
    Ok(values)
}

fn value<'a>(values: &Values<'a>, key: &'static str) -> Result<&'a str, GeometryFileError> {
    values.get(key).copied().ok_or(GeometryFileError::Missing(key))
}

fn number(values: &Values<'_>, key: &'static str) -> Result<u64, GeometryFileError> {
    let text = value(values, key)?;
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|_| plain);
    number.ok_or_else(|| GeometryFileError::Value(key, text.into()))
}

fn small(values: &Values<'_>, key: &'static str) -> Result<u32, GeometryFileError> {
    let number = number(values, key)?;
    u32::try_from(number).map_err(|_| GeometryFileError::Value(key, number.to_string()))
}

fn limit(values: &Values<'_>, key: &'static str) -> Result<Option<u32>, GeometryFileError> {
    if values.contains_key(key) { small(values, key).map(Some) } else { Ok(None) }
}

fn sectors(values: &Values<'_>, key: &'static str) -> Result<u64, GeometryFileError> {
    let bytes = number(values, key)?;
    if bytes.is_multiple_of(SECTOR) {
        Ok(bytes / SECTOR)
    } else {
        Err(GeometryFileError::Value(key, bytes.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        let zones = ZoneGeometry::new(8 << 21, 64 << 11, 60 << 11, 4).unwrap();
        Shape { limits: ResourceLimits::new(Some(8), Some(12)).unwrap(), ..Shape::new(zones) }
    }

    /// `text` with a right checksum.
    fn signed(text: &str) -> Vec<u8> {
        format!("{text}check = \"{:08x}\"\n", crc32fast::hash(text.as_bytes())).into_bytes()
    }

    fn body() -> String {
        let text = print(&shape());
        text[..text.rfind("check").unwrap()].to_string()
    }

    #[test]
    fn a_shape_survives_the_file() {
        for append in [true, false] {
            for limits in [shape().limits, ResourceLimits::NONE] {
                let shape = Shape { append, limits, ..shape() };
                assert_eq!(parse(print(&shape).as_bytes()), Ok(shape));
            }
        }
    }

    #[test]
    fn the_example_in_the_document_is_what_is_written() {
        let document = include_str!("../../../../docs/zoned-disk-format.md");
        let example = document.split("```\n").find(|block| block.starts_with("# The shape")).unwrap();
        let shape = parse(example.as_bytes()).unwrap();
        assert_eq!(print(&shape), example);
    }

    #[test]
    fn the_checksum_is_the_common_one() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = print(&shape()).into_bytes();
        for index in 0..good.len() {
            assert!(parse(&good[..index]).is_err(), "cut at {index}");
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[index] ^= 1 << bit;
                assert!(parse(&bad).is_err(), "bit {bit} of byte {index}");
            }
        }
    }

    #[test]
    fn each_mistake_has_its_own_message() {
        let cases = [
            (vec![0xff; 10], "text"),
            (vec![b'#'; 5000], "4096"),
            (b"version = 1\n".to_vec(), "check"),
            (print(&shape()).replace("zone_bytes = 6", "zone_bytes = 7").into_bytes(), "damaged or edited"),
            (signed(&body().replace("version = 1", "version = 2")), "version 2"),
            (signed(&(body() + "colour = 3\n")), "colour"),
            (signed(&(body() + "block_bytes = 4096\n")), "second time"),
            (signed(&body().replace("block_bytes = 4096\n", "")), "block_bytes is missing"),
            (signed(&body().replace("block_bytes = 4096", "block_bytes = +4096")), "+4096"),
            (signed(&body().replace("block_bytes = 4096", "block_bytes = 3000")), "3000"),
            (signed(&body().replace("block_bytes = 4096", "block_bytes = 99999999999")), "99999999999"),
            (signed(&body().replace("zone_bytes = 67108864", "zone_bytes = 67108000")), "67108000"),
            (signed(&body().replace("zone_bytes = 67108864", "zone_bytes = 512000")), "power of two"),
            (signed(&body().replace("native_append = true", "native_append = yes")), "yes"),
            (signed(&body().replace("max_open_zones = 8", "max_open_zones = 13")), "max_open is 13"),
            (signed(&body().replace("conventional_zones = 4", "conventional_zones = 128")), "128"),
        ];
        for (bytes, expected) in cases {
            let message = parse(&bytes).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} does not name {expected:?}");
        }
    }
}
