use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use shingle_core::block::{Data, Limits, Payload};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, ResourceLimits, ZoneState};
use shingle_drives::medium::Store;

use super::*;

/// A directory that is gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shingle-drive-dir-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> Result<DriveDir, DriveDirError> {
        let zones = ZonedDisk::new(geometry(), ResourceLimits::default());
        DriveDir::open(&self.0.join("d"), &description(), Some(&zones))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Four zones of 64 KiB, the first conventional.
fn geometry() -> ZoneGeometry {
    ZoneGeometry::new(512, 128, 96, 1).unwrap()
}

fn description() -> Description {
    Description::new("a profile", "zns", &Limits::new(512), Some(&geometry()))
}

fn filled(bytes: &[(usize, u8)]) -> Payload {
    let segment = |(len, byte): &(usize, u8)| {
        let data = Data::zeroed(*len);
        data.fill(*byte);
        data
    };
    Payload::Segments(bytes.iter().map(segment).collect())
}

fn read(drive: &DriveDir, at: u64, sectors: usize) -> Vec<u8> {
    let data = Data::zeroed(sectors * 512);
    data.fill(9);
    drive.read(Sector(at), &Payload::Data(data.clone())).unwrap();
    data.to_vec()
}

#[test]
fn data_in_many_segments_and_zones_are_there_for_the_next_one_and_what_is_discarded_is_zero() {
    let scratch = Scratch::new();
    let drive = scratch.open().unwrap();
    // More segments than one system call takes.
    let runs: Vec<(usize, u8)> = (0..2048).map(|n| (8, n as u8)).collect();
    drive.write(Sector(3), &filled(&runs)).unwrap();
    drive.keep_zone(ZoneNo(1), ZoneState::at_rest(8, 96)).unwrap();
    drive.keep_zone(ZoneNo(2), ZoneState { cond: Condition::ReadOnly, wp: 5 }).unwrap();
    drive.keep_zone(ZoneNo(3), ZoneState::full(96)).unwrap();
    drop(drive);
    let drive = scratch.open().unwrap();
    let bytes: Vec<u8> = runs.iter().flat_map(|(len, byte)| vec![*byte; *len]).collect();
    assert!(read(&drive, 3, 32) == bytes && read(&drive, 0, 3) == [0; 1536] && read(&drive, 480, 32) == [0; 16384]);
    let states: Vec<ZoneState> = (1..4).map(|zone| drive.zone(ZoneNo(zone)).unwrap()).collect();
    let dead = ZoneState { cond: Condition::ReadOnly, wp: 5 };
    assert_eq!(states, [ZoneState::at_rest(8, 96), dead, ZoneState::full(96)]);
    drive.discard(Sector(4), 30).unwrap();
    assert!(read(&drive, 4, 30) == [0; 30 * 512] && read(&drive, 3, 1) == bytes[..512], "no more than that");
    assert_eq!(drive.data.file.metadata().unwrap().len(), 512 * 512);
}

#[test]
fn each_bit_of_a_zone_that_flips_is_noticed_and_so_are_zones_that_change_places() {
    let scratch = Scratch::new();
    let drive = scratch.open().unwrap();
    drive.keep_zone(ZoneNo(1), ZoneState::at_rest(8, 96)).unwrap();
    let path = scratch.0.join("d/zones");
    let good = fs::read(&path).unwrap();
    for bit in 0..64 {
        let mut bad = good.clone();
        bad[8 + bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bad).unwrap();
        assert!(drive.zone(ZoneNo(1)).unwrap_err().to_string().contains("zone 1 is damaged"));
    }
    let mut swapped = good.clone();
    swapped[16..24].copy_from_slice(&good[8..16]);
    fs::write(&path, &swapped).unwrap();
    assert!(drive.zone(ZoneNo(2)).is_err() && drive.zone(ZoneNo(1)).is_ok());
    // A pointer beyond the zone, however whole the word is.
    drive.keep_zone(ZoneNo(1), ZoneState { cond: Condition::Closed, wp: 97 }).unwrap();
    assert!(drive.zone(ZoneNo(1)).is_err());
}

#[test]
fn a_file_that_ends_early_while_it_is_used_is_an_error_of_what_is_read() {
    let scratch = Scratch::new();
    let drive = scratch.open().unwrap();
    File::options().write(true).open(scratch.0.join("d/data")).unwrap().set_len(4096).unwrap();
    let error = drive.read(Sector(4), &filled(&[(4096, 0)])).unwrap_err();
    assert!(error.to_string().contains("d/data: the file ends early"), "{error}");
    let zones = File::options().write(true).open(scratch.0.join("d/zones")).unwrap();
    zones.set_len(0).unwrap();
    assert!(drive.zone(ZoneNo(1)).unwrap_err().to_string().contains("reading"));
}

#[test]
fn the_file_that_says_which_drive_it_is_is_that_of_the_docs() {
    let page = include_str!("../../../../docs/drive-directory-format.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let limits = Limits { logical_block_bytes: 512, ..Limits::new(16 << 22) };
    let zones = ZoneGeometry::new(16 << 22, 1 << 22, 1_129_316_352 / 512, 0).unwrap();
    let is = Description::new("zns-1tb", "zns", &limits, Some(&zones));
    assert_eq!(Description::parse(example).unwrap(), is);
    assert_eq!(Description::parse(&is.to_text()).unwrap(), is);
    let text: String = example.lines().map(|line| format!("{}\n", line.split("  ").next().unwrap())).collect();
    assert_eq!(is.to_text(), text);
}

#[test]
fn a_link_in_the_place_of_a_file_is_refused() {
    let scratch = Scratch::new();
    drop(scratch.open().unwrap());
    let (data, aside) = (scratch.0.join("d/data"), scratch.0.join("data"));
    fs::rename(&data, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &data).unwrap();
    assert!(scratch.open().unwrap_err().to_string().contains("d/data: opening the file failed"));
}
