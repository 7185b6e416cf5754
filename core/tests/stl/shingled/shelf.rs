//! Volumes taken out of their stack, for the tools, and put back.

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, Status};
use shingle_core::dm::stl::tools::{Disk, Media, MemoryMedia, Spot};
use shingle_core::sector::Sector;
use shingle_core::zone::{Zone, ZoneKind};

use super::Volume;

/// Disks of a volume in memory, in the order in which they were formatted.
pub fn taken_out(volume: &mut Volume) -> MemoryMedia {
    let mut devices = volume.disks.clone();
    devices.sort();
    let disks: Vec<Disk> = devices.iter().map(|device| disk(volume, *device)).collect();
    let mut media = MemoryMedia::new(disks);
    for (disk, device) in devices.into_iter().enumerate() {
        for block in 0..media.disks()[disk].sectors / 8 {
            let data = Data::zeroed(4096);
            let bio = Bio::new(Op::Read, Sector(block * 8), 8, Payload::Data(data.clone()));
            if volume.rig.finish(device, bio).status == Status::Ok {
                let bytes = data.to_vec();
                if bytes.iter().any(|byte| *byte != 0) {
                    media.put(Spot { disk, block }, &bytes);
                }
            }
        }
    }
    media
}

fn disk(volume: &mut Volume, device: DeviceId) -> Disk {
    let limits = volume.rig.stack.limits(device).clone();
    let room = Payload::Zones(Vec::with_capacity(limits.zones() as usize));
    let mut report = volume.rig.finish(device, Bio::new(Op::ReportZones, Sector::ZERO, 0, room));
    let zones: Vec<Zone> = match core::mem::take(&mut report.bio.payload) {
        Payload::Zones(zones) => zones,
        _ => vec![],
    };
    Disk { sectors: limits.capacity, zones, max_active: None }
}

/// Puts disks together in this order, with their content: each is taken out of a set in memory, where it has this number.
pub fn assembled(disks: &[(&MemoryMedia, usize)]) -> MemoryMedia {
    let mut media = MemoryMedia::new(disks.iter().map(|(from, number)| from.disks()[*number].clone()).collect());
    for (disk, (from, number)) in disks.iter().enumerate() {
        for block in 0..from.disks()[*number].sectors / 8 {
            let bytes = from.block(Spot { disk: *number, block });
            if bytes.iter().any(|byte| *byte != 0) {
                media.put(Spot { disk, block }, &bytes);
            }
        }
    }
    media
}

/// Writes what `media` has to the disks of a volume, whatever is there.
pub fn put_back(volume: &mut Volume, media: &MemoryMedia) {
    let mut devices = volume.disks.clone();
    devices.sort();
    for (number, device) in devices.into_iter().enumerate() {
        let zones = media.disks()[number].zones.clone();
        if zones.is_empty() {
            for block in 0..media.disks()[number].sectors / 8 {
                write(volume, device, block, &media.block(Spot { disk: number, block }));
            }
        }
        for zone in zones {
            if zone.kind == ZoneKind::Sequential {
                let reset = Bio::new(Op::ZoneReset, zone.start, 0, Payload::None);
                assert_eq!(volume.rig.finish(device, reset).status, Status::Ok);
            }
            let (first, mut end) = (zone.start.0 / 8, zone.written_up_to().0 / 8);
            if zone.kind == ZoneKind::Conventional {
                end = (zone.start.0 + zone.len) / 8;
            }
            for block in first..end {
                write(volume, device, block, &media.block(Spot { disk: number, block }));
            }
        }
    }
}

fn write(volume: &mut Volume, device: DeviceId, block: u64, bytes: &[u8]) {
    let data = Data::zeroed(4096);
    data.write(0, bytes);
    let bio = Bio::new(Op::Write, Sector(block * 8), 8, Payload::Data(data));
    assert_eq!(volume.rig.finish(device, bio).status, Status::Ok);
}
