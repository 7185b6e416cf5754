//! The mapped device that hosts use a volume through where its tables are swapped.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::stl_table::{OPTIONS, Tables};
use shingle_core::block::{DeviceId, Stack};
use shingle_core::dm::stl::Options;
use shingle_core::mapper::{Mapper, MapperError, StateName, Ticket};
use shingle_core::time::Instant;

/// What it is called.
const NAME: &str = "volume";

/// The device.
pub(super) struct Mapped {
    mapper: Mapper,
    tables: Tables,
    /// What tables lie on.
    tops: Vec<DeviceId>,
    blocks: u32,
}

impl Mapped {
    /// Makes it, with a first table of so many blocks. Returns its place as well.
    pub fn build(
        stack: &mut Stack,
        tables: Tables,
        (tops, blocks): (&[DeviceId], u32),
    ) -> Result<(Self, DeviceId), String> {
        let mut mapped = Self { mapper: Mapper::new(), tables, tops: tops.to_vec(), blocks };
        mapped.mapper.create(NAME, "").map_err(|error| error.to_string())?;
        mapped.load(OPTIONS, stack)?;
        mapped.mapper.resume(NAME, false, stack).map_err(|error| error.to_string())?;
        mapped.poll(Instant::ZERO, stack);
        let id = mapped.mapper.device(NAME).map_err(|error| error.to_string())?;
        Ok((mapped, id))
    }

    /// Loads another table, with another instance of the target over the same disks.
    pub fn load(&mut self, options: Options, stack: &mut Stack) -> Result<(), String> {
        let names: Vec<String> = (0..self.tops.len()).map(name).collect();
        let lines = self.tables.line(self.blocks, &names, options)?;
        let tops = &self.tops;
        let resolver = |name: &str| find(tops, name);
        self.mapper.load(NAME, lines, false, (stack, &resolver)).map_err(|error| error.to_string())
    }

    /// Drops a table that was loaded and is not in use.
    pub fn clear(&mut self, stack: &mut Stack) -> Result<(), String> {
        self.mapper.clear(NAME, stack).map_err(|error| error.to_string())
    }

    pub fn suspend(&mut self, noflush: bool, stack: &mut Stack) -> Result<Ticket, String> {
        self.mapper.suspend(NAME, noflush, stack).map_err(|error| error.to_string())
    }

    /// Has the table that was loaded go in, or the device go on.
    pub fn resume(&mut self, noflush: bool, stack: &mut Stack) -> Result<Ticket, String> {
        self.mapper.resume(NAME, noflush, stack).map_err(|error| error.to_string())
    }

    pub fn cancel(&mut self, ticket: Ticket, stack: &mut Stack) {
        self.mapper.cancel(ticket, stack);
    }

    pub fn poll(&mut self, now: Instant, stack: &mut Stack) {
        let tops = &self.tops;
        self.mapper.poll(now, (stack, &|name: &str| find(tops, name)));
    }

    pub fn outcome(&mut self, ticket: Ticket) -> Option<Result<(), MapperError>> {
        self.mapper.outcome(ticket)
    }

    pub fn state(&self, stack: &Stack) -> Option<StateName> {
        self.mapper.info(NAME, stack).ok().map(|info| info.state)
    }

    /// Whether a table waits to go in.
    pub fn has_inactive(&self, stack: &Stack) -> bool {
        self.mapper.info(NAME, stack).is_ok_and(|info| info.has_inactive)
    }

    pub fn status(&self, stack: &Stack, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str(&self.mapper.status(NAME, false, stack).unwrap_or_default())
    }
}

/// What tables call a disk.
fn name(disk: usize) -> String {
    format!("d{disk}")
}

fn find(tops: &[DeviceId], wanted: &str) -> Result<DeviceId, Vec<String>> {
    let place = (0..tops.len()).find(|disk| name(*disk) == wanted);
    place.map(|place| tops[place]).ok_or_else(|| (0..tops.len()).map(name).collect())
}
