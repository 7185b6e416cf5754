//! A plug on a desk: what the plug's tests share.
#![allow(dead_code, reason = "each program uses its part")]

use shingle_core::block::{Bio, DeviceId, Flags, Op, Payload, Stack, Status};
use shingle_core::harness::{Harness, Held, MockDevice};
use shingle_core::plug::{Append, PlugOptions, WritePolicy, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;

/// Length of a zone on the desk, in sectors.
pub const ZONE: u32 = 64;

/// What must hold after every hop.
pub fn check(stack: &Stack, top: DeviceId) {
    if let Some(plug) = stack.device::<ZonePlug>(top) {
        plug.verify().unwrap();
    }
}

pub fn plug_over(desk: MockDevice, options: PlugOptions) -> Harness {
    Harness::new(desk, |below, limits| Box::new(ZonePlug::new(below, limits, options).unwrap()), check)
}

/// Eight zones of 64 sectors, the first conventional.
pub fn plug() -> Harness {
    plug_over(MockDevice::zoned(8, ZONE, ZONE, 1), PlugOptions::default())
}

pub fn with_policy(policy: WritePolicy) -> Harness {
    plug_over(MockDevice::zoned(8, ZONE, ZONE, 1), PlugOptions { policy, ..PlugOptions::default() })
}

/// A rotational disk, under a policy that is held to one zone write at a time.
pub fn one_at_a_time(policy: WritePolicy) -> Harness {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    desk.limits_mut().rotational = true;
    desk.one_write = true;
    plug_over(desk, PlugOptions { policy, ..PlugOptions::default() })
}

pub fn with_native_append() -> Harness {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    desk.limits_mut().zoned.as_mut().unwrap().max_append = Some(ZONE);
    plug_over(desk, PlugOptions { append: Append::Native, ..PlugOptions::default() })
}

/// Ends all that reaches the desk, and lets time pass until nothing more comes: under `elevator` a zone may be held.
pub fn end_all_in_time(h: &mut Harness) {
    loop {
        h.end_all(Status::Ok);
        h.now = h.now + Duration::from_millis(1);
        h.run();
        if h.held().is_empty() {
            return;
        }
    }
}

pub fn the_plug(harness: &Harness) -> &ZonePlug {
    harness.stack.device(harness.top).unwrap()
}

/// A data bio whose every byte is the low byte of its sector's number, counted from `sector`.
pub fn data(op: Op, sector: u64, sectors: u32) -> Bio {
    let memory = shingle_core::block::Data::zeroed(sectors as usize * 512);
    for n in 0..sectors as usize {
        memory.slice(n * 512, 512).fill((sector + n as u64) as u8);
    }
    Bio::new(op, Sector(sector), sectors, Payload::Data(memory))
}

pub fn write(sector: u64, sectors: u32) -> Bio {
    data(Op::Write, sector, sectors)
}

pub fn append(zone: u64, sectors: u32) -> Bio {
    data(Op::ZoneAppend, zone * u64::from(ZONE), sectors)
}

pub fn read(sector: u64, sectors: u32) -> Bio {
    data(Op::Read, sector, sectors)
}

pub fn manage(op: Op, zone: u64) -> Bio {
    Bio::new(op, Sector(zone * u64::from(ZONE)), 0, Payload::None)
}

pub fn reset(zone: u64) -> Bio {
    manage(Op::ZoneReset, zone)
}

pub fn finish(zone: u64) -> Bio {
    manage(Op::ZoneFinish, zone)
}

pub fn reset_all() -> Bio {
    manage(Op::ZoneResetAll, 0)
}

pub fn report() -> Bio {
    Bio::new(Op::ReportZones, Sector(0), 0, Payload::Zones(Vec::with_capacity(64)))
}

pub fn flush() -> Bio {
    Bio::new(Op::Flush, Sector(0), 0, Payload::None)
}

pub fn fua(bio: Bio) -> Bio {
    bio.with_flags(Flags::FUA)
}

pub fn preflush(bio: Bio) -> Bio {
    bio.with_flags(Flags::PREFLUSH)
}

/// Ends what lies on the desks among `devices`, and tells what it was, as `name op first+length`.
pub fn at_desk_of(stack: &mut Stack, devices: &[(String, DeviceId)], status: Status) -> Vec<String> {
    let mut seen = vec![];
    for (name, id) in devices {
        for Held { number, op, sector, sectors, flags, .. } in
            stack.device::<MockDevice>(*id).map_or(vec![], |desk| desk.held())
        {
            let flag = if flags.has(Flags::PREFLUSH) { " preflush" } else { "" };
            seen.push(format!("{name} {} {sector}+{sectors}{flag}", op.name()));
            stack.with_device(*id, |desk: &mut MockDevice, cx| desk.end(number, status, 0, cx));
        }
    }
    seen
}

/// What lies on the desk, as `op first+length` in order of arrival.
pub fn at_desk(harness: &Harness) -> Vec<String> {
    harness.held().iter().map(|Held { op, sector, sectors, .. }| format!("{} {sector}+{sectors}", op.name())).collect()
}

/// Start of zone `n`.
pub fn zone(n: u64) -> u64 {
    n * u64::from(ZONE)
}
