//! A back end of one's own: a zoned disk that keeps its zones in memory, compressed, block by block. Blocks of zeroes take
//! nothing. It is a kind of disk like those that come with Shingle, and no line of theirs knows of it.
//!
//! ```text
//! [disk.d]
//! type = "compressed-zones"
//! size = "8GiB"
//! zone-size = "64MiB"
//! ```
//!
//! `cargo run --release --example compressed_zones -- STACK.toml` serves a stack file that may have such disks.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use lz4_flex::block::{compress, decompress_into};
use shingle_core::block::{Bio, BlockDevice, Cx, Data, Limits, Op, Payload, Reason, Refusal, Status, ZonedLimits};
use shingle_core::zone::{ResourceLimits, ZoneGeometry, ZoneNo, ZonedDisk};
use shingle_host::backend::{BACK_ENDS, BackEnd, BackEndError, BackEndType, Placed};
use shingle_host::config::{Diagnostic, Kinds, Plan, Source};
use shingle_host::daemon::Daemon;
use shingle_host::fields::{At, Fields};
use shingle_host::shard::Shard;

/// What there is besides the kinds that come with Shingle.
static COMPRESSED_ZONES: BackEndType = BackEndType { name: "compressed-zones", read, at: |_, _| None, ask: None };

const BLOCK: usize = 4096;
const BLOCK_SECTORS: u64 = BLOCK as u64 / 512;
/// The state of every zone is in memory from the start.
const MOST_ZONES: u32 = 1 << 20;

/// Every kind of disk that this program knows.
pub fn kinds() -> Vec<&'static BackEndType> {
    BACK_ENDS.into_iter().chain([&COMPRESSED_ZONES]).collect()
}

fn read(fields: &mut Fields<'_>) -> Option<Placed> {
    let bytes = [("size", 1 << 30), ("zone-size", 64 << 20)].map(|(key, default)| {
        let At { value, span } = fields.size(key).unwrap_or(At { value: default, span: fields.place() });
        if !value.is_multiple_of(BLOCK as u64) {
            fields.error(Diagnostic::at(span, format!("`{key}` is no multiple of {BLOCK} bytes")));
        }
        value
    });
    let geometry = match ZoneGeometry::new(bytes[0] / 512, bytes[1] / 512, bytes[1] / 512, 0) {
        Ok(geometry) if geometry.zones() <= MOST_ZONES => Ok(geometry),
        Ok(geometry) => Err(format!("{} zones are more than {MOST_ZONES}: use larger ones", geometry.zones())),
        Err(error) => Err(error.to_string()),
    };
    let mistake = |text| Diagnostic::at(fields.place(), "there is no disk with such zones").label(text);
    let geometry = geometry.map_err(mistake).map_err(|mistake| fields.error(mistake)).ok()?;
    Some(At { value: Arc::new(Shape(geometry)), span: fields.place() })
}

#[derive(Debug)]
struct Shape(ZoneGeometry);

impl BackEnd for Shape {
    fn is_zoned(&self) -> bool {
        true
    }

    fn open(&self, _: &mut Shard) -> Result<Box<dyn BlockDevice>, BackEndError> {
        Ok(Box::new(CompressedZones::new(self.0)))
    }

    /// It is made of memory, so the disk itself does.
    fn model(&self) -> Option<Box<dyn BlockDevice>> {
        Some(Box::new(CompressedZones::new(self.0)))
    }
}

struct CompressedZones {
    limits: Limits,
    zones: ZonedDisk,
    /// What was written, by number of the block, but for blocks of zeroes.
    blocks: BTreeMap<u64, Box<[u8]>>,
    /// What that takes.
    bytes: usize,
}

impl CompressedZones {
    fn new(geometry: ZoneGeometry) -> Self {
        let block_bytes = BLOCK as u32;
        // Without appends of its own: the plug makes writes of them.
        let zoned = ZonedLimits { write_granularity_bytes: block_bytes, ..ZonedLimits::new(geometry.zone_sectors()) };
        let limits = Limits {
            logical_block_bytes: block_bytes,
            physical_block_bytes: block_bytes,
            max_segments: Some(1),
            zoned: Some(zoned),
            ..Limits::new(geometry.capacity())
        };
        Self { limits, zones: ZonedDisk::new(geometry, ResourceLimits::NONE), blocks: BTreeMap::new(), bytes: 0 }
    }

    fn execute(&mut self, bio: &mut Bio) -> Result<(), Refusal> {
        let zones = &mut self.zones;
        match (bio.op, &mut bio.payload) {
            (Op::Read, Payload::Data(data)) => {
                zones.check_read(bio.sector)?;
                self.fetch(bio.sector.0 / BLOCK_SECTORS, data);
            }
            (Op::Write, Payload::Data(data)) => {
                let zone = zones.begin_write(bio.sector, bio.sectors)?;
                self.store(bio.sector.0 / BLOCK_SECTORS, data);
                self.zones.advance(zone, bio.sectors);
            }
            (Op::ReportZones, Payload::Zones(report)) => {
                let room = report.capacity() - report.len();
                report.extend(zones.zones(bio.sector).take(room));
            }
            (Op::ZoneOpen, _) => zones.open(zones.zone_at(bio.sector)?)?,
            (Op::ZoneClose, _) => zones.close(zones.zone_at(bio.sector)?)?,
            (Op::ZoneFinish, _) => zones.finish(zones.zone_at(bio.sector)?)?,
            (Op::ZoneReset, _) => {
                let zone = zones.zone_at(bio.sector)?;
                zones.reset(zone)?;
                self.forget(zone);
            }
            (Op::ZoneResetAll, _) => {
                let mut empty = Vec::new();
                zones.reset_all(|zone| empty.push(zone));
                empty.into_iter().for_each(|zone| self.forget(zone));
            }
            (Op::Flush, _) => {}
            _ => return Err(Reason::NotSupported.into()),
        }
        Ok(())
    }

    fn fetch(&self, first: u64, data: &Data) {
        for (block, at) in (first..).zip((0..data.len()).step_by(BLOCK)) {
            let mut bytes = [0; BLOCK];
            if let Some(kept) = self.blocks.get(&block) {
                decompress_into(kept, &mut bytes).expect("these bytes were compressed here");
            }
            data.write(at, &bytes);
        }
    }

    fn store(&mut self, first: u64, data: &Data) {
        for (block, at) in (first..).zip((0..data.len()).step_by(BLOCK)) {
            let mut bytes = [0; BLOCK];
            data.read(at, &mut bytes);
            if bytes != [0; BLOCK] {
                let kept = compress(&bytes).into_boxed_slice();
                self.bytes += kept.len();
                self.blocks.insert(block, kept);
            }
        }
    }

    fn forget(&mut self, zone: ZoneNo) {
        let geometry = self.zones.geometry();
        let first = geometry.start(zone).0 / BLOCK_SECTORS;
        let of_zone = first..first + u64::from(geometry.len(zone)) / BLOCK_SECTORS;
        self.bytes -= self.blocks.extract_if(of_zone, |_, _| true).map(|(_, kept)| kept.len()).sum::<usize>();
    }
}

impl BlockDevice for CompressedZones {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        match self.execute(&mut bio) {
            Ok(()) => cx.complete(bio, Status::Ok),
            Err(refusal) => {
                let reason = refusal.explain(&self.zones, bio.sector);
                cx.fail(bio, reason);
            }
        }
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "compressed-zones: {} blocks in {} bytes", self.blocks.len(), self.bytes)
    }
}

/// Serves a stack file until there is a line on standard input.
pub fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("say which stack file to serve")?;
    let back_ends = kinds();
    let kinds = Kinds { back_ends: &back_ends, ..Kinds::default() };
    let daemon = Daemon::start(Plan::parse_with(Source::read(Path::new(&path))?, kinds)?)?;
    daemon.state().addresses().iter().for_each(|address| println!("listening on {address}"));
    io::stdin().read_line(&mut String::new())?;
    Ok(daemon.stop()?)
}
