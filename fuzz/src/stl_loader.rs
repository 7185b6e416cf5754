//! Damaged `stl` volumes for everything that reads them: nothing panics, looking changes nothing, and what is rebuilt is in order.

use arbitrary::Arbitrary;
use libfuzzer_sys::Corpus;
use shingle_core::dm::stl::format::{Batch, BatchKind, Checksum, Copied, Header, SetId, Written};
use shingle_core::dm::stl::tools::{
    Depth, Disk, FormatOptions, Media, MemoryMedia, RebuildOptions, Spot, Survey, Window, check, follow, format,
    read_extents, rebuild,
};
use shingle_core::dm::stl::{BatchNo, CopyNo, Epoch, Generation, Lba, Pba};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use crate::of_value;

/// Disks, batches that are written to them in order, then whatever was done to them.
#[derive(Arbitrary, Debug)]
struct Input {
    conventional: u8,
    batches: Vec<Drawn>,
    changes: Vec<Change>,
}

/// A batch at the pointer of a zone, with fields that are nearly right.
#[derive(Arbitrary, Debug)]
struct Drawn {
    zone: u8,
    kind: u8,
    number: u8,
    epoch: u8,
    since: u8,
    records: Vec<(u8, u8, bool)>,
    copied: Vec<(u8, u8, u8)>,
    /// Whether the payload is there.
    is_whole: bool,
}

#[derive(Arbitrary, Debug)]
enum Change {
    /// Bytes of a block.
    Bytes(u16, u16, Vec<u8>),
    /// Bytes of the payload of the root, whose checksums are right.
    Root(u16, Vec<u8>),
    Pointer(u8, u8),
    Condition(u8, u8),
    Bad(u16),
}

const ZONES: u64 = 40;
const BLOCKS: u64 = 32;

fn disk(conventional: u8) -> Disk {
    let zone = |number: u64| {
        let is_conventional = number < u64::from(conventional % 8);
        Zone {
            start: Sector(number * BLOCKS * 8),
            len: BLOCKS * 8,
            capacity: BLOCKS * 8,
            wp: Sector(number * BLOCKS * 8),
            kind: if is_conventional { ZoneKind::Conventional } else { ZoneKind::Sequential },
            cond: if is_conventional { Condition::NotWp } else { Condition::Empty },
        }
    };
    Disk { sectors: ZONES * BLOCKS * 8, zones: (0..ZONES).map(zone).collect(), max_active: None }
}

fn write(media: &mut MemoryMedia, written: &Drawn) {
    let number = 2 + u64::from(written.zone) % (ZONES - 2);
    let zone = media.disks()[0].zones[number as usize];
    let at = zone.written_up_to().0 / 8;
    let batch = Batch {
        set: SetId([1; 16]),
        place: Pba(at),
        generation: Generation(1),
        epoch: Epoch(1 + u64::from(written.epoch % 3)),
        number: written.number.into(),
        since: BatchNo(written.since.into()),
        ..Batch::default()
    };
    let kind = match written.kind % 4 {
        0 | 1 => BatchKind::User(
            written
                .records
                .iter()
                .take(4)
                .map(|(lba, blocks, has_data)| Written {
                    lba: Lba((*lba).into()),
                    blocks: 1 + u32::from(blocks % 4),
                    has_data: *has_data,
                })
                .collect(),
        ),
        2 => BatchKind::Copies(
            written
                .copied
                .iter()
                .take(8)
                .map(|(lba, from, written)| Copied {
                    lba: Lba((*lba).into()),
                    from: Pba((*from).into()),
                    generation: Generation(1),
                    written: BatchNo((*written).into()),
                })
                .collect(),
        ),
        _ => BatchKind::Map(Vec::new()),
    };
    let lbas = Header { batch, kind: kind.clone(), checksums: Vec::new() }.lbas();
    let block = [written.number; 4096];
    let checksums: Vec<Checksum> = lbas.iter().map(|lba| Checksum::of_block(*lba, &block)).collect();
    let payload = lbas.len();
    let mut bytes = Header { batch, kind, checksums }.encode();
    bytes.extend(vec![if written.is_whole { written.number } else { 0x77 }; payload * 4096]);
    // What does not fit is no batch of that zone.
    if at % BLOCKS + (bytes.len() / 4096) as u64 <= BLOCKS && at / BLOCKS == number {
        let _ = media.write(Spot { disk: 0, block: at }, &bytes);
    }
}

fn change(media: &mut MemoryMedia, change: &Change) {
    let spot = |block: u16| Spot { disk: 0, block: u64::from(block) % (ZONES * BLOCKS) };
    match change {
        Change::Bytes(block, at, bytes) => {
            let mut content = media.block(spot(*block));
            let at = usize::from(*at) % 4096;
            content.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
            media.put(spot(*block), &content);
        }
        Change::Root(at, bytes) => {
            let mut payload: Vec<u8> = (1..8).flat_map(|block| media.block(Spot { disk: 0, block })).collect();
            let at = usize::from(*at) % payload.len();
            payload.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
            let Ok((mut header, _)) = Header::decode(&media.block(Spot { disk: 0, block: 0 })) else { return };
            header.checksums = payload.chunks(4096).map(Checksum::of).collect();
            if matches!(header.kind, BatchKind::Root(_)) {
                media.put(Spot { disk: 0, block: 0 }, &[header.encode(), payload].concat());
            }
        }
        Change::Pointer(zone, blocks) => {
            let zone = &mut media.disk_mut(0).zones[(u64::from(*zone) % ZONES) as usize];
            if zone.kind == ZoneKind::Sequential {
                let blocks = u64::from(*blocks) % (BLOCKS + 1);
                zone.wp = zone.start + blocks * 8;
                zone.cond = match blocks {
                    0 => Condition::Empty,
                    BLOCKS => Condition::Full,
                    _ => Condition::Closed,
                };
            }
        }
        Change::Condition(zone, condition) => {
            let zone = &mut media.disk_mut(0).zones[(u64::from(*zone) % ZONES) as usize];
            if zone.kind == ZoneKind::Sequential {
                zone.cond = [Condition::Full, Condition::ReadOnly, Condition::Offline][usize::from(*condition) % 3];
            }
        }
        Change::Bad(block) => drop(media.bad.replace(spot(*block))),
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) -> Corpus {
    of_value(bytes, fuzz)
}

fn fuzz(input: Input) {
    let mut media = MemoryMedia::new(vec![disk(input.conventional)]);
    let options = FormatOptions { set: SetId([1; 16]), disks: vec![[2; 16]], reserve: 70 };
    let Ok(created) = format(&mut media, &options, &mut |_, _| ()) else { return };
    input.batches.iter().for_each(|batch| write(&mut media, batch));
    input.changes.iter().for_each(|it| change(&mut media, it));

    let (before, mut pace) = (media.changes, |_| ());
    let report = check(&mut media, Depth { pace: Some(&mut pace) }, &mut |_, _| ());
    for finding in report.findings.all() {
        assert!(!finding.to_string().is_empty());
    }
    if let Some(volume) = &report.volume {
        assert!(volume.since().copies >= CopyNo(0));
        volume.space.zones().for_each(|zone| drop(follow(&mut media, volume, zone)));
    }
    let Ok(survey) = Survey::take(&mut media, &mut |_, _| ()) else { return assert_eq!(media.changes, before) };
    let capacity = created.sectors / 8;
    let window = Window::gather(&mut media, &survey, Lba(0)..Lba(capacity), &mut |_, _| ());
    let extents = window.extents(Lba(0)..Lba(capacity));
    let (mut salvaged, mut lost) = (vec![0; capacity as usize * 4096], Vec::new());
    read_extents(&mut media, &survey, (Lba(0), &extents), &mut salvaged, &mut |loss| lost.push(loss));
    assert_eq!(media.changes, before, "looking changes nothing");

    let options = RebuildOptions { capacity, reserve: 70, blocks_at_once: 1 };
    let Ok(rebuilt) = rebuild(&mut media, &survey, &options, &mut |_, _| ()) else { return };
    let report = check(&mut media, Depth { pace: None }, &mut |_, _| ());
    let volume = report.volume.as_ref().expect("it was just made");
    assert_eq!(report.live_blocks(), rebuilt.live);
    let errors = report.findings.all().iter().filter(|finding| finding.is_error());
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    // What was damaged before still is, but the map and the headers go together.
    assert!(errors.iter().all(|error| error.contains("headers end")), "{errors:?}");
    assert_eq!(volume.newest.root.capacity, capacity);
}
