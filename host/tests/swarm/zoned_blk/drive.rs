//! A zoned drive and the kernel above it, in memory: what each request and each ioctl would find. The rules of zones are the core's;
//! what the kernel adds is here, as it was seen on real ones.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time;

use shingle_core::block::{Limits, Payload, ZonedLimits};
use shingle_core::sector::Sector;
use shingle_core::zone::{ResourceLimits, Zone, ZoneGeometry, ZoneNo, ZonedDisk};
use shingle_host::disk::zoned_blk::{Calls, Parts};
use shingle_sys::zoned_block::ZoneCommand;
use shingle_sys::{Completion, Request, RequestQueue, Token};

use crate::simulated::zone_plugs::{Way, ZonePlugs};

pub const ZONE: u64 = 64;
pub const ZONES: u64 = 8;
/// Of which the first is conventional.
pub const CAPACITY: u64 = 48;

const EIO: i32 = 5;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EOVERFLOW: i32 = 75;
const EINTR: i32 = 4;

pub struct Drive {
    pub zones: ZonedDisk,
    pub bytes: Vec<u8>,
    /// What the kernel believes.
    pub plugs: ZonePlugs,
    pub is_gone: bool,
    /// Results of the next requests, in the place of what would come of them.
    pub results: VecDeque<i32>,
    /// Most bytes that a request moves.
    pub most: usize,
    /// What the drive was asked, in order.
    pub log: Vec<String>,
}

/// The drive, as those have it who ask it for something.
#[derive(Clone)]
pub struct Handle(pub Arc<Mutex<Drive>>);

impl Handle {
    pub fn new(max_active: Option<u32>) -> Self {
        let geometry = ZoneGeometry::new(ZONE * ZONES, ZONE, CAPACITY, 1).unwrap();
        let resources = ResourceLimits::new(max_active, max_active).unwrap();
        Self(Arc::new(Mutex::new(Drive {
            zones: ZonedDisk::new(geometry, resources),
            bytes: vec![0; (ZONE * ZONES * 512) as usize],
            plugs: ZonePlugs::new((0..ZONES).map(|zone| zone * ZONE)),
            is_gone: false,
            results: VecDeque::new(),
            most: usize::MAX,
            log: Vec::new(),
        })))
    }

    pub fn drive(&self) -> MutexGuard<'_, Drive> {
        self.0.lock().unwrap()
    }

    /// The open disk, with writes to sequential zones in units of 4096 bytes.
    pub fn parts(&self) -> Parts {
        let zoned = ZonedLimits { write_granularity_bytes: 4096, ..ZonedLimits::new(ZONE as u32).with_conventional(1) };
        let limits = Limits {
            max_sectors: Some(32),
            physical_block_bytes: 4096,
            write_cache: true,
            zoned: Some(zoned),
            ..Limits::new(ZONE * ZONES)
        };
        Parts {
            path: "/dev/sdz".into(),
            file: File::open("/dev/null").unwrap().into(),
            calls: Arc::new(self.clone()),
            limits,
            fua: false,
            alignment: (512, 512),
            timeout: time::Duration::from_secs(30),
        }
    }
}

impl Drive {
    fn answer(&mut self, request: &mut Request) -> i32 {
        let planned = self.results.pop_front();
        if planned == Some(-EINTR) {
            return -EINTR;
        }
        match request {
            Request::Read { at, payload, skip, .. } => {
                self.log.push(format!("read {}", *at / 512));
                let from = *at as usize + *skip;
                let done = self.most.min(payload.bytes() - *skip);
                // The disk has no sectors any more: that is its end.
                if self.is_gone {
                    return 0;
                }
                let bytes = &self.bytes[from..from + done];
                planned.unwrap_or_else(|| fill(payload, *skip, bytes))
            }
            Request::Write { at, payload, skip, durable, .. } => {
                let (from, bytes) = (*at as usize + *skip, found(payload, *skip));
                let fua = if *durable { " fua" } else { "" };
                self.log.push(format!("write {}+{}{fua}", from / 512, bytes.len() / 512));
                if self.is_gone {
                    return -ENOSPC;
                }
                let bytes = &bytes[..self.most.min(bytes.len())];
                self.write(from, bytes, (planned, Way::Ring))
            }
            Request::Sync { .. } => {
                self.log.push("flush".into());
                if self.is_gone { -EIO } else { planned.unwrap_or(0) }
            }
            other => panic!("the disk asked for {other:?}"),
        }
    }

    /// As the kernel does it: the first zone has no plug.
    fn write(&mut self, from: usize, bytes: &[u8], (planned, way): (Option<i32>, Way)) -> i32 {
        let (sector, sectors) = (from as u64 / 512, bytes.len() as u64 / 512);
        let zone = ZoneNo((sector / ZONE) as u32);
        let ends_in_zone = (sector + sectors - 1) / ZONE == u64::from(zone.0);
        assert!(ends_in_zone, "sectors {sector}+{sectors} cross a zone: the kernel would cut them");
        if planned.is_none() && zone.0 > 0 && !self.plugs.admits(zone, sector, way) {
            return -EIO;
        }
        let result = planned.unwrap_or_else(|| self.execute(sector, bytes));
        if result < 0 && zone.0 > 0 {
            self.plugs.fails(zone);
        }
        result
    }

    fn execute(&mut self, sector: u64, bytes: &[u8]) -> i32 {
        let sectors = bytes.len() as u32 / 512;
        let zone = match self.zones.begin_write(Sector(sector), sectors) {
            Ok(zone) => zone,
            Err(shingle_core::zone::ZoneError::TooManyActive) => return -EOVERFLOW,
            Err(_) => return -EIO,
        };
        self.bytes[sector as usize * 512..][..bytes.len()].copy_from_slice(bytes);
        self.zones.advance(zone, sectors);
        self.plugs.moves(zone, sector + u64::from(sectors));
        bytes.len() as i32
    }

    /// Somebody else resets a zone, past the kernel.
    pub fn reset_by_another(&mut self, zone: u32) {
        self.zones.reset(ZoneNo(zone)).unwrap();
    }
}

fn taken(payload: &Payload, skip: usize) -> Vec<u8> {
    payload.segments().iter().flat_map(|data| data.to_vec()).skip(skip).collect()
}

/// As the kernel finds it.
fn found(payload: &Payload, skip: usize) -> Vec<u8> {
    taken(payload.fetched().unwrap().as_ref().unwrap_or(payload), skip)
}

fn fill(payload: &Payload, skip: usize, bytes: &[u8]) -> i32 {
    let [data] = payload.segments() else { panic!("one segment is enough here") };
    data.write(skip, bytes);
    bytes.len() as i32
}

impl Calls for Handle {
    fn report(&self, from: Sector, zones: &mut Vec<Zone>) -> io::Result<()> {
        let drive = &mut *self.drive();
        drive.log.push(format!("report {from}"));
        // Without sectors it has no zones either.
        if drive.is_gone {
            return Ok(());
        }
        let room = zones.capacity() - zones.len();
        for zone in drive.zones.zones(from).take(room) {
            drive.plugs.reported(ZoneNo((zone.start.0 / ZONE) as u32), zone.wp.0);
            zones.push(zone);
        }
        Ok(())
    }

    fn manage(&self, command: ZoneCommand, first: Sector, sectors: u64) -> io::Result<()> {
        let drive = &mut *self.drive();
        drive.log.push(format!("{} {first}+{sectors}", command.name()));
        let eio = |_| io::Error::from_raw_os_error(EIO);
        if drive.is_gone {
            return Err(io::Error::from_raw_os_error(ENODEV));
        }
        for zone in first.0 / ZONE..(first.0 + sectors) / ZONE {
            let number = ZoneNo(zone as u32);
            match command {
                ZoneCommand::Reset if number.0 == 0 => Ok(()),
                ZoneCommand::Reset => drive.zones.reset(number),
                ZoneCommand::Open => drive.zones.open(number),
                ZoneCommand::Close => drive.zones.close(number),
                ZoneCommand::Finish => drive.zones.finish(number),
            }
            .map_err(eio)?;
            drive.plugs.moves(number, drive.zones.zone(number).wp.0);
        }
        Ok(())
    }

    fn write(&self, at: u64, (memory, skip): (&Payload, usize), durable: bool) -> io::Result<usize> {
        let drive = &mut *self.drive();
        let (from, bytes, fua) = (at as usize + skip, taken(memory, skip), if durable { " fua" } else { "" });
        drive.log.push(format!("again {}+{}{fua}", from / 512, bytes.len() / 512));
        let planned = drive.results.pop_front();
        let result = drive.write(from, &bytes, (planned, Way::Call));
        usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
    }

    fn sectors(&self) -> io::Result<u64> {
        Ok(if self.drive().is_gone { 0 } else { ZONE * ZONES })
    }
}

/// The ring: requests are carried out when they are taken from it.
pub struct Queue {
    pub drive: Handle,
    pub requests: Rc<RefCell<VecDeque<(Token, Request)>>>,
}

impl RequestQueue for Queue {
    fn submit(&mut self, token: Token, request: Request) -> Result<(), Request> {
        self.requests.borrow_mut().push_back((token, request));
        Ok(())
    }

    fn cancel(&mut self, _: Token) {}

    fn wait(&mut self, _: Option<time::Duration>) -> io::Result<()> {
        Ok(())
    }

    fn pop(&mut self) -> Option<Completion> {
        let (token, mut request) = self.requests.borrow_mut().pop_front()?;
        let result = self.drive.drive().answer(&mut request);
        Some(Completion { token, result, request })
    }

    fn in_flight(&self) -> usize {
        self.requests.borrow().len()
    }
}
