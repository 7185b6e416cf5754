//! Tables over named devices: what the tests of targets share.
#![allow(dead_code, reason = "each program uses its part")]

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Limits, Op, Payload, Stack, Status};
use shingle_core::dm::{Resolver, add_table, parse_table};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::zone::Zone;

use crate::rig::Rig;

/// The devices that tables name, and plugs for those that need one.
#[derive(Clone, Default)]
pub struct Shelf(pub Vec<(String, DeviceId)>);

impl Resolver for Shelf {
    fn device(&self, name: &str) -> Result<DeviceId, Vec<String>> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, id)| *id);
        found.ok_or_else(|| self.0.iter().map(|(known, _)| known.clone()).collect())
    }

    fn plug(&self, below: DeviceId, limits: &Limits) -> Option<Result<Box<dyn BlockDevice>, String>> {
        let plug = ZonePlug::new(below, limits, PlugOptions::for_device(limits));
        Some(plug.map(|plug| Box::new(plug) as Box<dyn BlockDevice>).map_err(|error| error.to_string()))
    }
}

/// A stack of named devices, and the topmost of the tables over them.
pub struct Mapped {
    pub rig: Rig,
    pub shelf: Shelf,
}

/// A bio that reached a named device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The device's place on the shelf.
    pub device: usize,
    pub op: Op,
    pub sector: u64,
    pub sectors: u32,
}

impl Mapped {
    /// Devices called `a`, `b`, `c` and so on, and nothing above them.
    pub fn over(devices: impl IntoIterator<Item = Box<dyn BlockDevice>>) -> Self {
        let mut stack = Stack::new();
        let names = ('a'..='z').map(String::from);
        let shelf = names.zip(devices).map(|(name, device)| (name, stack.add(device).unwrap())).collect();
        Self { rig: Rig::new(stack, DeviceId(0)), shelf: Shelf(shelf) }
    }

    /// The same, with a record of what reaches the devices.
    pub fn traced(mut self) -> Self {
        self.rig.stack.set_trace(Some(1 << 16));
        self
    }

    /// Puts a table on top of what is there; it is called `name` from now on.
    pub fn add(&mut self, name: &str, table: &str) -> Result<DeviceId, String> {
        let lines = parse_table(table).map_err(|error| error.to_string())?;
        let top = add_table(&mut self.rig.stack, &lines, &self.shelf).map_err(|error| error.to_string())?;
        self.rig.top = top;
        self.shelf.0.push((name.to_string(), top));
        self.rig.settle();
        Ok(top)
    }

    /// Sends `bio` to `device` and waits for it.
    pub fn send(&mut self, device: DeviceId, bio: Bio) -> (Status, Box<Bio>) {
        self.rig.queue(device, bio);
        self.rig.settle();
        let done = self.rig.done().pop().expect("a bio is still on its way");
        (done.status, done.bio)
    }

    /// Sends `bio` to the top and waits for it.
    pub fn run(&mut self, bio: Bio) -> Status {
        self.send(self.rig.top, bio).0
    }

    /// What `sectors` at `sector` of `device` read as.
    pub fn read(&mut self, device: DeviceId, sector: u64, sectors: u32) -> Result<Vec<u8>, Status> {
        let (status, bio) = self.send(device, data(Op::Read, sector, sectors, 0xee));
        let bytes = bio.payload.segments().iter().flat_map(|data| data.to_vec()).collect();
        if status.is_ok() { Ok(bytes) } else { Err(status) }
    }

    /// The zones of `device`, with room for `room` of them, from `sector` on.
    pub fn report(&mut self, device: DeviceId, sector: u64, room: usize) -> Vec<Zone> {
        let payload = Payload::Zones(Vec::with_capacity(room));
        let (status, bio) = self.send(device, Bio::new(Op::ReportZones, Sector(sector), 0, payload));
        assert_eq!(status, Status::Ok, "a report failed");
        match bio.payload {
            Payload::Zones(ref zones) => zones.clone(),
            ref other => panic!("{other:?}"),
        }
    }

    /// What has reached the devices that are no tables since this was last asked, in its order.
    pub fn arrivals(&mut self, devices: usize) -> Vec<Arrival> {
        let trace = self.rig.stack.trace().unwrap();
        assert_eq!(trace.lost(), 0, "the trace is too short");
        let events: Vec<_> = std::iter::from_fn(|| trace.pop()).collect();
        let arrived = events.into_iter().filter(|event| event.action.letter() == 'D');
        let place = |id| self.shelf.0[..devices].iter().position(|(_, own)| *own == id);
        arrived
            .filter_map(|event| {
                let (op, sector, sectors) = (event.op, event.sector.0, event.sectors);
                place(event.device).map(|device| Arrival { device, op, sector, sectors })
            })
            .collect()
    }
}

/// A data bio; every sector has the byte `first` and its own distance from the first sector, in turn.
pub fn data(op: Op, sector: u64, sectors: u32, first: u8) -> Bio {
    let memory = Data::zeroed(sectors as usize * 512);
    memory.write(0, &pattern(first, sectors));
    Bio::new(op, Sector(sector), sectors, Payload::Data(memory))
}

/// The bytes of such a bio.
pub fn pattern(first: u8, sectors: u32) -> Vec<u8> {
    let sector = |n: u32| (0..256).flat_map(move |_| [first, n as u8]);
    (0..sectors).flat_map(sector).collect()
}

/// A bio with a range and no data.
pub fn range(op: Op, sector: u64, sectors: u32) -> Bio {
    Bio::new(op, Sector(sector), sectors, Payload::None)
}
