//! A mapped device with one submitter: what the targets' tests share.
#![allow(dead_code, reason = "each program uses its part")]

use shingle_core::block::{Bio, BlockDevice, Completion, Data, DeviceId, Event, Limits, Op, Payload, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::{Resolver, TableLine, View, build_table, parse_table};
use shingle_core::harness::MockDevice;
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;

use crate::rig::Rig;

/// A table over devices.
pub struct Mapped {
    pub rig: Rig,
    /// The device of the first line's target.
    pub target: DeviceId,
    devices: Vec<(&'static str, DeviceId)>,
    line: TableLine,
}

struct Named<'a>(&'a [(&'static str, DeviceId)]);

impl Resolver for Named<'_> {
    fn device(&self, name: &str) -> Result<DeviceId, Vec<String>> {
        let found = self.0.iter().find(|(known, _)| *known == name).map(|(_, id)| *id);
        found.ok_or_else(|| self.0.iter().map(|(name, _)| name.to_string()).collect())
    }

    fn plug(&self, below: DeviceId, limits: &Limits) -> Option<Result<Box<dyn BlockDevice>, String>> {
        let plug = ZonePlug::new(below, limits, PlugOptions::default());
        Some(plug.map(|plug| Box::new(plug) as Box<dyn BlockDevice>).map_err(|error| error.to_string()))
    }
}

impl Mapped {
    pub fn new(table: &str, devices: Vec<(&'static str, Box<dyn BlockDevice>)>) -> Self {
        Self::try_new(table, devices).unwrap_or_else(|error| panic!("{table}: {error}"))
    }

    pub fn try_new(table: &str, devices: Vec<(&'static str, Box<dyn BlockDevice>)>) -> Result<Self, String> {
        let mut stack = Stack::new();
        let devices: Vec<_> = devices.into_iter().map(|(name, device)| (name, stack.add(device).unwrap())).collect();
        let lines = parse_table(table).map_err(|error| error.to_string())?;
        let built = build_table(&mut stack, &lines, &Named(&devices)).map_err(|error| error.to_string())?;
        let target = built.targets.iter().flatten().next().copied();
        let top = stack.add(Box::new(built.table)).map_err(|error| error.to_string())?;
        let (rig, line) = (Rig::new(stack, top), lines[0].clone());
        let mut mapped = Self { rig, target: target.unwrap_or(top), devices, line };
        mapped.rig.turn();
        Ok(mapped)
    }

    /// Two regular disks `a` and `b` of 2^20 sectors that keep every bio until they are told how it ended.
    pub fn over_desks(table: &str) -> Self {
        Self::try_over_desks(table).unwrap_or_else(|error| panic!("{table}: {error}"))
    }

    pub fn try_over_desks(table: &str) -> Result<Self, String> {
        Self::try_new(table, vec![("a", desk()), ("b", desk())])
    }

    /// A zoned disk `z` of eight zones of 64 sectors, the first conventional, without native appends, and `a`: both keep
    /// bios as desks do.
    pub fn over_zones(table: &str) -> Result<Self, String> {
        Self::try_new(table, vec![("z", Box::new(MockDevice::zoned(8, 64, 64, 1))), ("a", desk())])
    }

    pub fn device(&self, name: &str) -> DeviceId {
        self.devices.iter().find(|(known, _)| *known == name).expect("a device of the test").1
    }

    /// Lets a bio run to its end, whatever time that takes.
    pub fn finish(&mut self, bio: Bio) -> Completion {
        self.rig.finish(self.rig.top, bio)
    }

    pub fn ended(&mut self) -> Vec<(u64, Status)> {
        self.rig.done().iter().map(|done| (done.tag, done.status)).collect()
    }

    /// What lies on a desk, as `op first+length` in order of arrival.
    pub fn at(&self, desk: &str) -> Vec<String> {
        let held = self.rig.stack.device::<MockDevice>(self.device(desk)).unwrap().held();
        held.iter().map(|held| format!("{} {}+{}", held.op.name(), held.sector, held.sectors)).collect()
    }

    /// Ends the bio that has lain on a desk for longest.
    pub fn end(&mut self, desk: &str, status: Status) {
        let id = self.device(desk);
        let oldest = self.rig.stack.device::<MockDevice>(id).unwrap().held()[0].number;
        self.rig.stack.with_device(id, |desk: &mut MockDevice, cx| desk.end(oldest, status, 0, cx));
        self.rig.turn();
    }

    pub fn end_all(&mut self, desk: &str) {
        while !self.at(desk).is_empty() {
            self.end(desk, Status::Ok);
        }
    }

    /// The bytes of the bio that has lain on a desk for longest.
    pub fn bytes_at(&self, desk: &str) -> Vec<u8> {
        let desk = self.rig.stack.device::<MockDevice>(self.device(desk)).unwrap();
        desk.bytes(desk.held()[0].number)
    }

    pub fn event(&mut self, event: Event) {
        self.rig.stack.deliver(self.target, event);
        self.rig.turn();
    }

    pub fn status(&self) -> String {
        let mut out = String::new();
        self.rig.stack.status(self.target, &mut out).unwrap();
        out
    }

    pub fn message(&mut self, text: &str) -> Result<String, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let answer = self.rig.stack.message(self.target, &words).map_err(|error| error.to_string());
        self.rig.turn();
        answer
    }

    /// The same as what has become of it.
    pub fn table_now(&self) -> String {
        let device = Some(self.rig.stack.any_device(self.target));
        let mut out = String::new();
        self.line.write(&View { shows_keys: false, device }, &mut out).unwrap();
        out
    }

    /// The first line, as `dmsetup table` shows it.
    pub fn table(&self) -> String {
        let mut out = String::new();
        self.line.write(&View { shows_keys: false, device: None }, &mut out).unwrap();
        out
    }
}

fn desk() -> Box<dyn BlockDevice> {
    let mut desk = MockDevice::regular();
    let limits = desk.limits_mut();
    limits.write_cache = true;
    (limits.max_discard, limits.max_write_zeroes) = (Some(u32::MAX), Some(u32::MAX));
    Box::new(desk)
}

/// A disk of `sectors` that keeps its data and is done at once.
pub fn disk(sectors: u64) -> Box<dyn BlockDevice> {
    Box::new(NullDevice::new(&NullConfig { memory_backed: true, ..NullConfig::new(sectors) }).unwrap())
}

/// The same with zones of `zone` sectors.
pub fn zoned_disk(sectors: u64, zone: u64) -> Box<dyn BlockDevice> {
    let config = NullConfig { memory_backed: true, ..NullConfig::zoned(sectors, NullZones::new(zone)) };
    Box::new(NullDevice::new(&config).unwrap())
}

/// What a wrong table says: the line is to be blamed, and each of these words is in the message.
pub fn refused(table: &str, words: &[&str]) {
    let error = Mapped::try_over_desks(table).err().unwrap_or_else(|| panic!("accepted: {table}"));
    for word in words {
        assert!(error.starts_with("table line 1") && error.contains(word), "{table}: `{word}` is not in: {error}");
    }
}

/// A bio with memory that is filled with `byte`.
pub fn filled(op: Op, sector: u64, sectors: u32, byte: u8) -> Bio {
    let data = Data::zeroed(sectors as usize * 512);
    data.fill(byte);
    Bio::new(op, Sector(sector), sectors, Payload::Data(data))
}

pub fn bare(op: Op, sector: u64, sectors: u32) -> Bio {
    Bio::new(op, Sector(sector), sectors, Payload::None)
}

pub fn bytes(bio: &Bio) -> Vec<u8> {
    bio.payload.segments().iter().flat_map(|data| data.to_vec()).collect()
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
