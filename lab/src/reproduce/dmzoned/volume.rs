//! A dm-zoned volume of drives that were just formatted, in a stack.
//!
//! ```text
//!  load ──> table `zoned ssd smr` ──> keeper ──> SSD
//!                                 └─> keeper ──> SMR disk
//! ```

use shingle_core::block::{Data, DeviceId, Limits, Payload, Stack};
use shingle_core::device::memory::SparseMemory;
use shingle_core::dm::zoned::format::{FormatOptions, Label, Layout, Media, MediaError, format};
use shingle_core::dm::zoned::{BLOCK_BYTES, BLOCK_SECTORS, MemberNo, Rows, SetZone, ZoneSpace};
use shingle_core::dm::{add_table, parse_table};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_drives::{SmrConfig, SmrDisk, Ssd, SsdConfig};

use super::keeper::Keeper;

/// The drives.
#[derive(Clone)]
pub struct Drives {
    /// The zoned disk.
    pub smr: SmrConfig,
    /// The regular one in front of it, if there is one.
    pub ssd: Option<SsdConfig>,
}

/// A volume in its stack.
pub struct Volume {
    /// The stack.
    pub stack: Stack,
    /// Where bios go in.
    pub top: DeviceId,
    /// The target, for status and messages.
    pub target: DeviceId,
    /// The drives: the SSD first, if there is one.
    pub drives: Vec<DeviceId>,
}

impl Volume {
    /// A new volume on `drives`.
    ///
    /// # Errors
    /// If there can be no such volume, in words.
    pub fn new(drives: &Drives) -> Result<Self, String> {
        let mut stack = Stack::new();
        let mut ids = Vec::new();
        if let Some(ssd) = &drives.ssd {
            let ssd = Ssd::new(&SsdConfig { memory_backed: false, ..ssd.clone() }).map_err(text)?;
            ids.push(stack.add(Box::new(ssd)).map_err(text)?);
        }
        let smr = SmrDisk::new(&SmrConfig { keep_data: false, ..drives.smr.clone() }).map_err(text)?;
        ids.push(stack.add(Box::new(smr)).map_err(text)?);
        let limits: Vec<Limits> = ids.iter().map(|id| stack.limits(*id).clone()).collect();
        let blank = Blank::new(&limits)?;
        let (layout, kept) = blank.formatted()?;
        let zone_sectors = u64::from(kept.space.zone_blocks()) * u64::from(BLOCK_SECTORS);
        let until = Sector(u64::from(layout.metadata().end.0.max(1)) * zone_sectors);
        let mut names = Vec::new();
        for ((id, limits), memory) in ids.iter().zip(&limits).zip(kept.memories) {
            let keeper = stack.add(Box::new(Keeper::new(*id, limits, memory, until))).map_err(text)?;
            names.push((format!("disk{}", names.len()), keeper));
        }
        let line: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        let line = format!("0 {} zoned {}", u64::from(layout.chunks) * zone_sectors, line.join(" "));
        let find = |wanted: &str| names.iter().find(|(name, _)| name == wanted).map(|(_, id)| *id).ok_or(Vec::new());
        let lines = parse_table(&line).map_err(|error| format!("`{line}`: {error}"))?;
        let top = add_table(&mut stack, &lines, &find).map_err(|error| format!("`{line}`: {error}"))?;
        let target = stack.below(top).first().copied().ok_or("the table has no device")?;
        Ok(Self { stack, top, target, drives: ids })
    }

    /// Sets a knob of the target.
    ///
    /// # Errors
    /// If the target does not take it.
    pub fn set(&mut self, knob: &str, value: &str) -> Result<(), String> {
        self.stack.message(self.target, &["set", knob, value]).map(drop).map_err(text)
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// New drives, as the formatter sees them: only what is written and not zero takes memory, and no time passes.
struct Blank {
    space: ZoneSpace,
    memories: Rows<MemberNo, SparseMemory>,
}

impl Blank {
    fn new(limits: &[Limits]) -> Result<Self, String> {
        let space = ZoneSpace::new(&limits.iter().collect::<Vec<_>>()).map_err(text)?;
        Ok(Self { space, memories: limits.iter().map(|_| SparseMemory::new(0)).collect() })
    }

    fn formatted(mut self) -> Result<(Layout, Self), String> {
        let uuid = |number: u8| [number; 16];
        let options = FormatOptions {
            version: 2,
            label: Label::new("reproduce").map_err(text)?,
            set_uuid: uuid(1),
            device_uuids: (2..).map(uuid).take(self.memories.len()).collect(),
            reserved: None,
        };
        let layout = format(&mut self, &options, &mut |_, _| ()).map_err(text)?;
        Ok((layout, self))
    }
}

impl Media for Blank {
    fn space(&self) -> &ZoneSpace {
        &self.space
    }

    fn read(&mut self, block: u64, to: &mut [u8]) -> Result<(), MediaError> {
        let (member, sector) = self.space.place(block);
        let data = Data::zeroed(to.len());
        self.memories[member].read(sector, (to.len() / SECTOR_BYTES as usize) as u32, &Payload::Data(data.clone()));
        data.read(0, to);
        Ok(())
    }

    fn write(&mut self, block: u64, from: &[u8]) -> Result<(), MediaError> {
        for (block, bytes) in (block..).zip(from.chunks(BLOCK_BYTES)) {
            if bytes.iter().any(|byte| *byte != 0) {
                let (member, sector) = self.space.place(block);
                let data = Data::zeroed(bytes.len());
                data.write(0, bytes);
                self.memories[member].write(sector, BLOCK_SECTORS, &Payload::Data(data));
            }
        }
        Ok(())
    }

    fn reset(&mut self, _: SetZone) -> Result<(), MediaError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}
