//! The mapped device that hosts use a volume through where its tables are swapped.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::removal::Removal;
use crate::choices::Choices;
use shingle_core::block::{DeviceId, Stack};
use shingle_core::dm::TableLine;
use shingle_core::dm::stl::format::MemberState;
use shingle_core::dm::stl::{Stage, Step, Stl};
use shingle_core::mapper::{Mapper, MapperError, StateName, Ticket};
use shingle_core::time::Instant;

/// Source of the tables of a kind of volume.
pub(super) trait Tables {
    /// A table of so many blocks over these devices. `choices`: the options of the target; without them always the same.
    /// `leaving`: identity of a member that is removed, and the step of the removal.
    ///
    /// # Errors
    /// A line that cannot be parsed.
    fn table(
        &self,
        blocks: u32,
        names: &[String],
        leaving: Option<([u8; 16], Step)>,
        choices: Option<&mut Choices>,
    ) -> Result<Vec<TableLine>, String>;
}

/// What it is called.
const NAME: &str = "volume";

/// The device.
pub(super) struct Mapped {
    mapper: Mapper,
    tables: Box<dyn Tables>,
    /// What tables lie on.
    tops: Vec<DeviceId>,
    blocks: u32,
    /// The removal of a disk, and what the tables do for it: the live one, and the one that was loaded last.
    pub removal: Option<Removal>,
    pub live: Option<Step>,
    loaded: Option<Step>,
}

impl Mapped {
    /// Makes it, with a first table of so many blocks. Returns its place as well.
    pub fn build(
        stack: &mut Stack,
        tables: Box<dyn Tables>,
        (tops, blocks): (&[DeviceId], u32),
        removal: Option<Removal>,
    ) -> Result<(Self, DeviceId), String> {
        let mapper = Mapper::new();
        // A device that leaves already does so by itself.
        let live = removal.and_then(|it| (it.state == MemberState::Leaving).then_some(Step::Leave));
        let mut mapped = Self { mapper, tables, tops: tops.to_vec(), blocks, removal, live, loaded: live };
        mapped.mapper.create(NAME, "").map_err(|error| error.to_string())?;
        mapped.load(None, live, stack)?;
        mapped.mapper.resume(NAME, false, stack).map_err(|error| error.to_string())?;
        mapped.poll(Instant::ZERO, stack);
        let id = mapped.mapper.device(NAME).map_err(|error| error.to_string())?;
        Ok((mapped, id))
    }

    /// Loads another table, with another instance of the target over the same disks. `choices`: as of [`Tables::table`].
    /// `step`: what it does for the device that is to leave.
    pub fn load(&mut self, choices: Option<&mut Choices>, step: Option<Step>, stack: &mut Stack) -> Result<(), String> {
        let names: Vec<String> = Removal::stays(self.removal.as_ref(), self.tops.len()).into_iter().map(name).collect();
        let leaving = self.removal.and_then(|removal| step.map(|step| (removal.id, step)));
        let lines = self.tables.table(self.blocks_after(step), &names, leaving, choices)?;
        let tops = &self.tops;
        let resolver = |name: &str| find(tops, name);
        self.mapper.load(NAME, lines, false, (stack, &resolver)).map_err(|error| error.to_string())?;
        self.loaded = step;
        Ok(())
    }

    /// Blocks of a table that takes this step.
    fn blocks_after(&self, step: Option<Step>) -> u32 {
        let of = |it: Removal| it.blocks_of_table(step == Some(Step::Leave), self.blocks);
        self.removal.map_or(self.blocks, of)
    }

    /// The table that was loaded is live.
    pub fn was_swapped(&mut self) {
        self.live = self.loaded;
    }

    /// How far the live target is with a device that leaves.
    pub fn evacuation(&self, stack: &Stack) -> Option<Stage> {
        let door = self.mapper.device(NAME).ok()?;
        let target = stack.below(door).iter().find_map(|id| stack.device::<Stl>(*id))?;
        target.evacuation().ok()
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

    /// Sends a message to the target.
    pub fn message(&mut self, words: &[&str], (stack, now): (&mut Stack, Instant)) -> Result<(), String> {
        self.mapper.message(NAME, 0, words, (stack, now)).map(drop).map_err(|error| error.to_string())
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
