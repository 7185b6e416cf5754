//! Random tables under random bios, against a model that knows for every sector where it lies: each sector is touched
//! exactly once and in order, no piece is longer than its device takes or crosses a zone, and a bio ends with the first
//! failure.

use shingle_core::block::{BlockDevice, Op, Status};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::find;
use shingle_core::random::Rng;
use shingle_core::sector::Sector;

use crate::tables::{Arrival, Mapped, data, range};

/// Sectors of each disk.
const DISK: u64 = 2048;
/// Longest piece that a disk takes.
const LONGEST: u32 = 24;
/// Sectors of a zone of the zoned disks.
const ZONE: u64 = 64;
/// Conventional zones of these; they have as many sequential ones.
const CONVENTIONAL: u32 = 16;
const DISKS: usize = 3;

/// What lies behind a sector of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// A disk, and its sector.
    Disk(usize, u64),
    /// Nothing: it reads as zeroes.
    Zeroes,
    /// A failure.
    Error,
}

/// Three disks, each with some bad sectors.
fn disks(zones: Option<NullZones>, bad: &[u64]) -> Mapped {
    let disk = |_| {
        let discard = zones.is_none();
        let bad_blocks = bad.iter().map(|sector| Sector(*sector)..Sector(sector + 1)).collect();
        let config = NullConfig { bad_blocks, max_sectors: Some(LONGEST), write_zeroes: true, ..NullConfig::new(DISK) };
        let config = NullConfig { discard, zoned: zones.clone(), memory_backed: true, ..config };
        Box::new(NullDevice::new(&config).unwrap()) as Box<dyn BlockDevice>
    };
    Mapped::over((0..DISKS).map(disk)).traced()
}

/// A table, and what lies behind each of its sectors.
#[derive(Default)]
struct Table {
    text: String,
    model: Vec<Behind>,
}

impl Table {
    fn line(&mut self, target: &str, behind: impl IntoIterator<Item = Behind>) {
        let start = self.model.len();
        self.model.extend(behind);
        self.text += &format!("{start} {} {target}\n", self.model.len() - start);
    }

    /// Lines over regular disks.
    fn regular(rng: &mut Rng) -> Self {
        let mut table = Self::default();
        let kinds = if find("zero").is_some() { 5 } else { 4 };
        for _ in 0..1 + rng.below(6) {
            let (len, start, disk) = (1 + rng.below(40), rng.below(1000), rng.below(DISKS as u64) as usize);
            match rng.below(kinds) {
                0 => table.line("error", (0..len).map(|_| Behind::Error)),
                4 => table.line("zero", (0..len).map(|_| Behind::Zeroes)),
                1 => table
                    .line(&format!("linear {} {start}", name(disk)), (0..len).map(|n| Behind::Disk(disk, start + n))),
                _ => table.striped(rng),
            }
        }
        table
    }

    fn striped(&mut self, rng: &mut Rng) {
        let (count, chunk, rows) = (1 + rng.below(4), 1 + rng.below(9), 1 + rng.below(4));
        let parts: Vec<(usize, u64)> =
            (0..count).map(|_| (rng.below(DISKS as u64) as usize, rng.below(1000))).collect();
        let text: String = parts.iter().map(|(disk, start)| format!(" {} {start}", name(*disk))).collect();
        let chunks = (0..rows).flat_map(|row| parts.iter().map(move |(disk, start)| (*disk, start + row * chunk)));
        let behind = chunks.flat_map(|(disk, first)| (first..first + chunk).map(move |at| Behind::Disk(disk, at)));
        self.line(&format!("striped {count} {chunk}{text}"), behind);
    }

    /// Lines over conventional zones: a regular device, but no bio may cross a zone of the disks.
    fn conventional(rng: &mut Rng) -> Self {
        let mut table = Self::default();
        for _ in 0..1 + rng.below(4) {
            let (zones, first) = (1 + rng.below(3), rng.below(u64::from(CONVENTIONAL) - 3));
            let (len, start, disk) = (zones * ZONE, first * ZONE, rng.below(DISKS as u64) as usize);
            let place = format!("{} {start}", name(disk));
            match rng.below(4) {
                0 => table.line(&format!("error {place}"), (0..len).map(|_| Behind::Error)),
                _ => table.line(&format!("linear {place}"), (0..len).map(|n| Behind::Disk(disk, start + n))),
            }
        }
        table
    }
}

fn name(disk: usize) -> char {
    char::from(b'a' + disk as u8)
}

/// The sectors that `arrivals` touched, in their order.
fn touched(arrivals: &[Arrival]) -> Vec<Behind> {
    let sectors = |a: &Arrival| (a.sector..a.sector + u64::from(a.sectors)).map(|s| (a.device, s)).collect::<Vec<_>>();
    arrivals.iter().flat_map(sectors).map(|(device, sector)| Behind::Disk(device, sector)).collect()
}

/// The first failure that waits behind these sectors.
fn outcome(behind: &[Behind], bad: &[u64]) -> Status {
    let failure = |behind: &Behind| match behind {
        Behind::Error => Some(Status::Io),
        Behind::Disk(_, sector) if bad.contains(sector) => Some(Status::Io),
        _ => None,
    };
    behind.iter().find_map(failure).unwrap_or_default()
}

fn check_bios(mapped: &mut Mapped, table: &Table, bad: &[u64], rng: &mut Rng) {
    let Table { text, model } = table;
    let limits = mapped.rig.stack.limits(mapped.rig.top).clone();
    assert_eq!((limits.capacity, limits.zoned), (model.len() as u64, None), "{text}");
    for _ in 0..20 {
        let first = rng.below(model.len() as u64);
        let sectors = 1 + rng.below(model.len() as u64 - first);
        let op = [Op::Read, Op::Write, Op::Read, Op::Write, Op::WriteZeroes, Op::Discard][rng.below(6) as usize];
        let bio = if op.has_data() { data } else { |op, sector, sectors, _| range(op, sector, sectors) };
        let status = mapped.run(bio(op, first, sectors as u32, 1));
        let arrivals = mapped.arrivals(DISKS);
        if status == Status::NotSupported {
            let supports = if op == Op::Discard { limits.max_discard } else { limits.max_write_zeroes };
            assert!(arrivals.is_empty() && supports.is_none() && !op.has_data(), "{text}");
            continue;
        }
        let behind = &model[first as usize..][..sectors as usize];
        let mut expected: Vec<_> = behind.iter().copied().filter(|b| matches!(b, Behind::Disk(..))).collect();
        let mut found = touched(&arrivals);
        if op.has_data() {
            assert_eq!(status, outcome(behind, bad), "{op:?} {first}+{sectors} of\n{text}");
            assert!(arrivals.iter().all(|arrival| arrival.sectors <= LONGEST), "{text}");
        } else {
            let failed = behind.contains(&Behind::Error);
            assert!(!bad.is_empty() || status.is_ok() != failed, "{op:?} {first}+{sectors} of\n{text}");
            // Each stripe gets what it has of the range in one bio.
            let key = |behind: &Behind| format!("{behind:?}");
            found.sort_by_key(key);
            expected.sort_by_key(key);
        }
        assert_eq!(found, expected, "{op:?} {first}+{sectors} of\n{text}");
    }
}

#[test]
fn random_tables_touch_each_sector_once_and_end_with_the_first_failure() {
    let mut rng = Rng::new(1);
    for _ in 0..150 {
        let table = Table::regular(&mut rng);
        let bad: Vec<u64> = (0..rng.below(3)).map(|_| rng.below(1000)).collect();
        let mut mapped = disks(None, &bad);
        mapped.add("table", &table.text).unwrap();
        check_bios(&mut mapped, &table, &bad, &mut rng);
    }
}

#[test]
fn bios_over_conventional_zones_are_cut_at_the_zones_of_the_disk() {
    let mut rng = Rng::new(2);
    for _ in 0..60 {
        let table = Table::conventional(&mut rng);
        let zones = NullZones { conventional: CONVENTIONAL, ..NullZones::new(ZONE) };
        let mut mapped = disks(Some(zones), &[]);
        mapped.add("table", &table.text).unwrap();
        check_bios(&mut mapped, &table, &[], &mut rng);
        mapped.run(data(Op::Write, 0, table.model.len() as u32, 3));
        let crosses = |a: &Arrival| a.sector / ZONE != (a.sector + u64::from(a.sectors) - 1) / ZONE;
        assert!(!mapped.arrivals(DISKS).iter().any(crosses), "{}", table.text);
    }
}

#[test]
fn tables_over_tables_touch_each_sector_once() {
    let mut rng = Rng::new(3);
    for _ in 0..60 {
        let below = Table::regular(&mut rng);
        let mut mapped = disks(None, &[]);
        mapped.add("below", &below.text).unwrap();
        let (len, mut above) = (below.model.len() as u64, Table::default());
        for _ in 0..1 + rng.below(5) {
            let start = rng.below(len);
            let behind = below.model[start as usize..][..1 + rng.below(len - start) as usize].to_vec();
            above.line(&format!("linear below {start}"), behind);
        }
        let half = len / 2;
        let (front, back) = below.model.split_at(half as usize);
        let in_turn = front.iter().zip(back).flat_map(|(front, back)| [*front, *back]);
        if half > 0 {
            above.line(&format!("striped 2 1 below 0 below {half}"), in_turn);
        }
        mapped.add("above", &above.text).unwrap();
        check_bios(&mut mapped, &above, &[], &mut rng);
    }
}
