//! `type = "null"`: a disk made of memory, with null_blk's parameters under readable names.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use shingle_core::block::BlockDevice;
use shingle_core::device::null::{NullConfig, NullConfigError, NullDevice, NullZones};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::ZoneNo;
use toml::de::DeTable;

use super::{BackEnd, BackEndError, BackEndType, Placed};
use crate::fields::{At, Diagnostic, Fields};
use crate::shard::Shard;

pub(super) const TYPE: BackEndType = BackEndType { name: "null", read, at: |_, _| None, ask: None };

fn read(fields: &mut Fields<'_>) -> Option<Placed> {
    let spec = NullSpec::read(fields);
    Some(At { span: spec.place.clone(), value: Arc::new(spec) })
}

impl BackEnd for NullSpec {
    fn is_zoned(&self) -> bool {
        self.config.zoned.is_some()
    }

    fn mistake(&self, name: &str) -> Option<Diagnostic> {
        NullDevice::new(&self.config).err().map(|error| self.blame(name, &error))
    }

    fn open(&self, _: &mut Shard) -> Result<Box<dyn BlockDevice>, BackEndError> {
        Ok(Box::new(NullDevice::new(&self.config)?))
    }

    fn model(&self) -> Option<Box<dyn BlockDevice>> {
        Some(Box::new(NullDevice::new(&self.config).ok()?))
    }
}

/// A null disk as written.
#[derive(Debug)]
struct NullSpec {
    config: NullConfig,
    places: BTreeMap<&'static str, Range<usize>>,
    place: Range<usize>,
}

const DEFAULT_SIZE: u64 = 250 << 30;
const DEFAULT_ZONE: u64 = 256 << 20;

impl NullSpec {
    fn read(fields: &mut Fields<'_>) -> Self {
        let mut spec = Self { config: NullConfig::new(0), places: BTreeMap::new(), place: fields.place() };
        let size = spec.note("size", fields.size("size")).unwrap_or(DEFAULT_SIZE);
        let block = spec.note("block-size", fields.size("block-size")).unwrap_or(512);
        spec.config.capacity = spec.sectors(fields, "size", size);
        spec.config.block_bytes = u32::try_from(block).unwrap_or(u32::MAX);
        spec.config.max_sectors = fields.count("max-sectors").map(|at| at.value);
        spec.config.memory_backed = flag(fields, "memory-backed");
        spec.config.unwritten = spec.unwritten(fields);
        spec.config.completion =
            fields.duration("completion").map_or(Duration::ZERO, |t| Duration(t.value.as_nanos() as u64));
        spec.config.write_cache = flag(fields, "write-cache");
        spec.config.without_fua = fields.flag("fua").is_some_and(|at| !at.value);
        spec.config.rotational = flag(fields, "rotational");
        spec.config.read_only = flag(fields, "read-only");
        spec.config.write_zeroes = flag(fields, "write-zeroes");
        spec.config.discard = flag(fields, "discard");
        spec.config.bad_blocks = bad_blocks(fields);
        spec.config.bad_blocks_once = flag(fields, "bad-blocks-once");
        spec.config.bad_blocks_partial_io = flag(fields, "bad-blocks-partial-io");
        spec.config.zoned = spec.zones(fields);
        spec
    }

    fn note<T>(&mut self, key: &'static str, at: Option<At<T>>) -> Option<T> {
        at.map(|at| {
            self.places.insert(key, at.span);
            at.value
        })
    }

    fn place_of(&self, key: &str) -> Range<usize> {
        self.places.get(key).cloned().unwrap_or_else(|| self.place.clone())
    }

    fn sectors(&self, fields: &mut Fields<'_>, key: &str, bytes: u64) -> u64 {
        if !bytes.is_multiple_of(512) {
            let title = format!("`{key}` is {bytes} bytes, which is not a whole number of sectors");
            fields.error(Diagnostic::at(self.place_of(key), title).label("write a multiple of 512"));
        }
        bytes / 512
    }

    fn unwritten(&mut self, fields: &mut Fields<'_>) -> u8 {
        let Some(at) = fields.count("unwritten") else { return 0 };
        u8::try_from(at.value).unwrap_or_else(|_| {
            fields.error(Diagnostic::at(at.span, "`unwritten` is not a byte").label("write a number from 0 to 255"));
            0
        })
    }

    fn zones(&mut self, fields: &mut Fields<'_>) -> Option<NullZones> {
        let zone = self.note("zone-size", fields.size("zone-size"));
        let wanted = fields.flag("zoned").map_or(zone.is_some(), |at| at.value);
        let size = zone.unwrap_or(DEFAULT_ZONE);
        let mut zones = NullZones::new(self.sectors(fields, "zone-size", size));
        let capacity = self.note("zone-capacity", fields.size("zone-capacity"));
        zones.zone_capacity = capacity.map(|bytes| self.sectors(fields, "zone-capacity", bytes));
        zones.conventional = self.note("conventional", fields.count("conventional")).unwrap_or(0);
        zones.max_open = self.note("max-open", fields.count("max-open")).filter(|n| *n > 0);
        zones.max_active = self.note("max-active", fields.count("max-active")).filter(|n| *n > 0);
        let longest = zones.zone_capacity.unwrap_or(zones.zone_sectors);
        let append = self.note("max-append", fields.size("max-append")).map_or(longest, |bytes| bytes / 512);
        zones.max_append = u32::try_from(append).ok().filter(|n| *n > 0);
        zones.zone_full = flag(fields, "zone-full");
        zones.read_only = self.zone_list(fields, "zones-read-only");
        zones.offline = self.zone_list(fields, "zones-offline");
        wanted.then_some(zones)
    }

    fn zone_list(&mut self, fields: &mut Fields<'_>, key: &'static str) -> Vec<ZoneNo> {
        let list = fields.counts(key);
        self.note(key, list).unwrap_or_default().into_iter().map(ZoneNo).collect()
    }

    /// The mistake at the key that is to blame.
    fn blame(&self, disk: &str, error: &NullConfigError) -> Diagnostic {
        let text = error.to_string();
        let mentioned = |key: &&&str| text.contains(&key.replace('-', "_")) || text.contains(&key.replace('-', " "));
        // The longest: "zone size" also contains "size".
        let key = self.places.keys().filter(mentioned).max_by_key(|key| key.len());
        let place = key.map_or_else(|| self.place.clone(), |key| self.place_of(key));
        Diagnostic::at(place, format!("null disk `{disk}` cannot be made")).label(text)
    }
}

fn flag(fields: &mut Fields<'_>, key: &'static str) -> bool {
    fields.flag(key).is_some_and(|at| at.value)
}

/// `["100-107", "4096-4103"]`: first and last sector, as null_blk's `badblocks` has them.
fn bad_blocks(fields: &mut Fields<'_>) -> Vec<Range<Sector>> {
    let Some(list) = fields.strings("bad-blocks") else { return Vec::new() };
    let mut ranges = Vec::new();
    for text in &list.value {
        let ends = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match ends {
            Some((first, last)) if first <= last && last < u64::MAX => ranges.push(Sector(first)..Sector(last + 1)),
            _ => {
                let title = format!("`{text}` is not a range of sectors");
                fields.error(
                    Diagnostic::at(list.span.clone(), title).label("write first and last sector, as in \"100-107\""),
                );
            }
        }
    }
    ranges
}

/// Reads `key=value` words, as `shingle bench --null` takes them, by the same rules as the stack file.
pub fn null_from_words(words: &[String]) -> Result<NullConfig, String> {
    let mut text = String::new();
    for word in words.iter().flat_map(|list| list.split(',')) {
        let (key, value) = word.split_once('=').unwrap_or((word, "true"));
        let bare = value.parse::<u64>().is_ok() || value == "true" || value == "false";
        text += &if bare { format!("{key} = {value}\n") } else { format!("{key} = {value:?}\n") };
    }
    let table = DeTable::parse(&text).map_err(|error| format!("{words:?}: {}", error.message()))?;
    let mut errors = Vec::new();
    let mut fields = Fields::new("the null disk".into(), 0..0, table.get_ref(), &mut errors);
    let spec = NullSpec::read(&mut fields);
    fields.finish();
    match errors.first() {
        None => Ok(spec.config),
        Some(Diagnostic { title, label, help, .. }) => Err([title.as_str(), label, help.as_deref().unwrap_or("")]
            .into_iter()
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join(": ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Result<NullConfig, String> {
        null_from_words(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn words_mean_what_the_stack_file_means() {
        let config = words(&["size=8GiB,zone-size=64MiB", "max-open=16", "memory-backed"]).unwrap();
        let zones = config.zoned.unwrap();
        assert_eq!((config.capacity, zones.zone_sectors, zones.max_open), (16 << 20, 128 << 10, Some(16)));
        assert!(config.memory_backed);
        assert_eq!(zones.max_append, Some(128 << 10), "null_blk appends natively by default");
    }

    #[test]
    fn wrong_words_say_what_is_right() {
        assert!(words(&["zonesize=1"]).unwrap_err().contains("did you mean `zone-size`"));
        assert!(words(&["size=1GB"]).unwrap_err().contains("1GiB"));
        assert!(words(&["size"]).unwrap_err().contains("64MiB"));
    }
}
