//! `crypt`: what lies on the disk, what comes back, what waits, and who sees the key.

use shingle_core::block::{
    Bio, BlockDevice, Data, DeviceId, Event, Flags, Limits, Op, Payload, PortId, Stack, Status, ZonedLimits,
};
use shingle_core::dm::crypt::{
    CipherSpec, Crypt, CryptConfig, Key, KeyReference, KeySource, SoftwareCiphers, Units, VolumeCipher,
};
use shingle_core::dm::{BuiltTable, Resolver, TableLine, View, build_table, parse_table};
use shingle_core::harness::{Harness, MockDevice};
use shingle_core::mapper::Mapper;
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_drives::{RamConfig, RamDisk};

use crate::desk::*;
use crate::vectors::{KERNEL, Vector, bytes, counting_key, fixture, random_bytes, words};

const PLAIN_UNITS: Units = Units { bytes: 512, iv_offset: 0, large: false };

/// The digits of the key 00, 01, 02 and so on.
fn digits(bytes: u8) -> String {
    counting_key(bytes).to_hex().to_string()
}

/// One disk called `disk`, plugs, and a key `K` of counting bytes.
struct Desktop(DeviceId);

impl Resolver for Desktop {
    fn device(&self, name: &str) -> Result<DeviceId, Vec<String>> {
        if name == "disk" { Ok(self.0) } else { Err(vec!["disk".into()]) }
    }

    fn plug(&self, below: DeviceId, limits: &Limits) -> Option<Result<Box<dyn BlockDevice>, String>> {
        let plug = ZonePlug::new(below, limits, PlugOptions::default());
        Some(plug.map(|plug| Box::new(plug) as Box<dyn BlockDevice>).map_err(|error| format!("{error:?}")))
    }

    fn keys(&self) -> &dyn KeySource {
        &Keys
    }
}

struct Keys;

impl KeySource for Keys {
    fn fetch(&self, reference: &KeyReference) -> Result<Key, String> {
        match reference.name.as_str() {
            "K" => Ok(counting_key(reference.bytes as u8)),
            name => Err(format!("there is no key `{name}`")),
        }
    }
}

/// A table over a disk.
struct Volume {
    stack: Stack,
    disk: DeviceId,
    top: DeviceId,
    crypt: DeviceId,
    lines: Vec<TableLine>,
    port: PortId,
}

impl Volume {
    fn new(disk: Box<dyn BlockDevice>, table: &str) -> Result<Volume, String> {
        let mut stack = Stack::new();
        let disk = stack.add(disk).unwrap();
        let lines = parse_table(table).map_err(|error| error.to_string())?;
        let BuiltTable { table, targets, .. } =
            build_table(&mut stack, &lines, &Desktop(disk)).map_err(|error| error.to_string())?;
        let top = stack.add(Box::new(table)).map_err(|error| error.to_string())?;
        let crypt = targets.into_iter().flatten().next().unwrap();
        let port = stack.open_port();
        stack.deliver(crypt, Event::Resume);
        stack.turn(Instant::ZERO);
        Ok(Volume { stack, disk, top, crypt, lines, port })
    }

    /// Over a RAM disk of 8 MiB.
    fn ram(table: &str) -> Volume {
        Volume::new(Box::new(RamDisk::new(&RamConfig::new(16384)).unwrap()), table).unwrap()
    }

    fn run(&mut self, to: DeviceId, bio: Bio) -> (Payload, Status) {
        self.stack.submit(self.port, 0, to, Box::new(bio));
        for _ in 0..1000 {
            self.stack.turn(Instant::ZERO);
            if let Some(mut done) = self.stack.poll_completion(self.port) {
                return (core::mem::take(&mut done.bio.payload), done.status);
            }
        }
        panic!("it never ends");
    }

    fn write(&mut self, sector: u64, payload: Payload) -> Payload {
        let sectors = (payload.bytes() / 512) as u32;
        let top = self.top;
        let (payload, status) = self.run(top, Bio::new(Op::Write, Sector(sector), sectors, payload));
        assert_eq!(status, Status::Ok);
        payload
    }

    fn read_into(&mut self, from: DeviceId, sector: u64, payload: Payload) -> Vec<u8> {
        let sectors = (payload.bytes() / 512) as u32;
        let (payload, status) = self.run(from, Bio::new(Op::Read, Sector(sector), sectors, payload));
        assert_eq!(status, Status::Ok);
        payload.segments().iter().flat_map(Data::to_vec).collect()
    }

    fn read(&mut self, sector: u64, count: usize) -> Vec<u8> {
        self.read_into(self.top, sector, Payload::Data(Data::zeroed(count)))
    }

    fn on_disk(&mut self, sector: u64, count: usize) -> Vec<u8> {
        self.read_into(self.disk, sector, Payload::Data(Data::zeroed(count)))
    }

    /// The table as text.
    fn table(&self, shows_keys: bool) -> String {
        let device = self.stack.device::<Crypt>(self.crypt).map(|crypt| crypt as &dyn BlockDevice);
        let mut text = String::new();
        self.lines[0].write(&View { shows_keys, device }, &mut text).unwrap();
        text
    }

    fn suspend(&mut self) {
        self.stack.suspend(self.top);
        self.stack.deliver(self.crypt, Event::Suspend { push_back: false });
        self.stack.turn(Instant::ZERO);
    }

    fn resume(&mut self) -> Result<(), String> {
        self.stack.is_ready(self.crypt)?;
        self.stack.deliver(self.crypt, Event::Resume);
        self.stack.resume(self.top);
        self.stack.turn(Instant::ZERO);
        Ok(())
    }

    fn message(&mut self, text: &str) -> Result<String, String> {
        let words: Vec<&str> = text.split(' ').collect();
        self.stack.message(self.crypt, &words).map_err(|error| error.to_string())
    }
}

fn table_of(vector: &Vector) -> String {
    let Units { bytes, iv_offset, large } = vector.units;
    let options = match (bytes, large) {
        (512, _) => String::new(),
        (_, false) => format!(" 1 sector_size:{bytes}"),
        (_, true) => format!(" 2 sector_size:{bytes} iv_large_sectors"),
    };
    format!("0 16 crypt {} {} {iv_offset} disk {}{options}", vector.cipher, digits(vector.key_bytes), vector.start)
}

fn one_segment(bytes: &[u8]) -> Payload {
    let data = Data::zeroed(bytes.len());
    data.write(0, bytes);
    Payload::Data(data)
}

/// The same in segments of random lengths, whole words.
fn many_segments(bytes: &[u8], rng: &mut Rng) -> Payload {
    let (mut segments, mut left) = (vec![], bytes);
    while !left.is_empty() {
        let most = if rng.chance(1, 3) { 1000 } else { 9 };
        let (front, rest) = left.split_at((8 + 8 * rng.below(most) as usize).min(left.len()));
        let Payload::Data(data) = one_segment(front) else { unreachable!() };
        segments.push(data);
        left = rest;
    }
    Payload::Segments(segments)
}

#[test]
fn the_disk_holds_what_the_kernel_would_have_written_there() {
    let plain = fixture("crypt_plain.bin");
    for vector in &KERNEL {
        let mut volume = Volume::ram(&table_of(vector));
        volume.write(0, one_segment(&plain));
        let disk = fixture(vector.file);
        assert!(volume.on_disk(0, disk.len()) == disk, "{}", vector.file);
        assert!(volume.read(0, plain.len()) == plain, "{} read back", vector.file);
    }
}

#[test]
fn segments_of_any_length_give_the_same_bytes_as_one() {
    let plain = random_bytes(&mut Rng::new(8), 64 * 512);
    let mut rng = Rng::new(9);
    for unit in [512, 4096] {
        let table = format!("0 64 crypt aes-xts-plain64 {} 8 disk 0 1 sector_size:{unit}", digits(64));
        let mut whole = Volume::ram(&table);
        whole.write(0, one_segment(&plain));
        let expected = whole.on_disk(0, plain.len());
        for round in 0..20 {
            let mut volume = Volume::ram(&table);
            volume.write(0, many_segments(&plain, &mut rng));
            assert!(volume.on_disk(0, plain.len()) == expected, "round {round}, units of {unit} bytes");
            let room = many_segments(&vec![0; plain.len()], &mut rng);
            assert!(volume.read_into(volume.top, 0, room) == plain, "round {round}, units of {unit} bytes");
        }
    }
}

#[test]
fn the_memory_of_a_write_is_the_submitters_and_stays_as_it_was() {
    let mut h = crypt_over(MockDevice::regular(), "aes-xts-plain64", PLAIN_UNITS);
    let data = Data::zeroed(4096);
    data.fill(0x5a);
    let tag = h.submit(Bio::new(Op::Write, Sector(8), 8, Payload::Data(data.clone())));
    let below = h.desk_ref().bytes(0);
    assert!(below != data.to_vec(), "plain text reached the disk");
    assert!(data.to_vec().iter().all(|byte| *byte == 0x5a));
    // The device below may do to its memory what it likes.
    h.end_all(Status::Io);
    assert_eq!(h.statuses(), [(tag, Status::Io)]);
    assert!(data.to_vec().iter().all(|byte| *byte == 0x5a));

    let mut volume = Volume::ram(&format!("0 64 crypt aes-xts-plain64 {} 0 disk 0", digits(64)));
    let Payload::Data(back) = volume.write(0, Payload::Data(data.clone())) else { panic!("another payload") };
    data.fill(0x77);
    assert!(back.to_vec() == data.to_vec(), "it came back with other memory than it went with");
}

#[test]
fn bios_that_are_too_long_are_split_and_their_parts_have_the_ivs_of_their_sectors() {
    let plain = random_bytes(&mut Rng::new(12), 5000 * 512);
    let mut volume = Volume::ram(&format!("0 16000 crypt aes-xts-plain64 {} 0 disk 8", digits(64)));
    assert_eq!(volume.stack.limits(volume.top).max_sectors, Some(2048));
    volume.write(100, one_segment(&plain));
    let spec = CipherSpec::parse("aes-xts-plain64").unwrap();
    let mut cipher = VolumeCipher::new(&spec, PLAIN_UNITS, &counting_key(64), &SoftwareCiphers).unwrap();
    let expected = words(&plain);
    cipher.encrypt(100, &expected, &expected);
    assert!(volume.on_disk(108, plain.len()) == bytes(&expected));
    assert!(volume.read(100, plain.len()) == plain);
}

#[test]
fn each_line_counts_its_own_sectors() {
    let line = |start: u64, iv_offset: u64| {
        format!("{start} 8 crypt aes-cbc-plain64 {} {iv_offset} disk {start}\n", digits(32))
    };
    let mut volume = Volume::ram(&[line(0, 0), line(8, 0), line(16, 16)].concat());
    volume.write(0, one_segment(&[7; 24 * 512]));
    let disk = volume.on_disk(0, 24 * 512);
    assert!(disk[..4096] == disk[4096..8192], "the second line begins at IV 0 again");
    assert!(disk[..4096] != disk[8192..], "the third begins at 16");
    assert!(volume.read(0, 24 * 512).iter().all(|byte| *byte == 7));
}

#[test]
fn what_was_never_written_reads_as_decrypted_zeroes() {
    let mut volume = Volume::ram(&format!("0 64 crypt aes-xts-plain64 {} 0 disk 0", digits(64)));
    let spec = CipherSpec::parse("aes-xts-plain64").unwrap();
    let mut cipher = VolumeCipher::new(&spec, PLAIN_UNITS, &counting_key(64), &SoftwareCiphers).unwrap();
    let expected = words(&[0; 4096]);
    cipher.decrypt(8, &expected);
    assert!(volume.read(8, 4096) == bytes(&expected));
}

/// A crypt device over a desk, with the counting key of 64 bytes.
fn crypt_over(desk: MockDevice, cipher: &str, units: Units) -> Harness {
    let config = CryptConfig { cipher: CipherSpec::parse(cipher).unwrap(), units, allows_discards: true };
    let build = |below, limits: &Limits| {
        let mut crypt = Crypt::new(below, limits, &config, &SoftwareCiphers).unwrap();
        crypt.set_key(counting_key(64)).unwrap();
        Box::new(crypt) as Box<dyn BlockDevice>
    };
    Harness::new(desk, build, |_, _| ())
}

#[test]
fn a_read_that_failed_brings_nothing_and_leaves_its_memory_as_the_disk_did() {
    let mut h = crypt_over(MockDevice::regular(), "aes-xts-plain64", PLAIN_UNITS);
    let data = Data::zeroed(4096);
    let tag = h.submit(Bio::new(Op::Read, Sector(8), 8, Payload::Data(data.clone())));
    h.end(Status::Medium);
    assert_eq!(h.statuses(), [(tag, Status::Medium)]);
    assert!(data.to_vec().iter().all(|byte| *byte == 0));
}

#[test]
fn writes_that_find_no_memory_wait_in_order_and_reads_and_flushes_pass_them() {
    let mut desk = MockDevice::regular();
    (desk.limits_mut().write_cache, desk.limits_mut().max_discard) = (true, Some(1 << 20));
    let mut h = crypt_over(desk, "aes-xts-plain64", PLAIN_UNITS);
    let tags = h.submit_all((0..6).map(|n| write(n * 2048, 2048)));
    let discard = h.submit(Bio::new(Op::Discard, Sector(0), 8, Payload::None));
    let small = h.submit(write(100_000, 8));
    let nowait = h.submit(write(200_000, 8).with_flags(Flags::NOWAIT));
    assert_eq!(h.statuses(), [(nowait, Status::Again)]);
    assert_eq!(at_desk(&h), ["WRITE 0+2048", "WRITE 2048+2048", "WRITE 4096+2048", "WRITE 6144+2048"]);
    let mut waiting = 0;
    h.stack.held(&mut |device, _| waiting += usize::from(device == h.top));
    assert_eq!(waiting, 4, "two long writes, the discard and the short write");

    let (read, flush) = (h.submit(read(50_000, 8)), h.submit(flush()));
    assert_eq!(at_desk(&h)[4..], ["READ 50000+8", "FLUSH 0+0"]);
    h.end_number(2, Status::Ok, 0);
    assert_eq!(at_desk(&h)[5..], ["WRITE 8192+2048"], "the memory of one goes to the first that waits");
    h.end_all(Status::Ok);
    let done: Vec<u64> = h.statuses().iter().map(|(tag, status)| *tag + u64::from(!status.is_ok()) * 100).collect();
    let expected = [tags[2], tags[0], tags[1], tags[3], read, flush, tags[4], tags[5], discard, small];
    assert_eq!(done, expected, "everything ends, and what waited in the order in which it came");
}

#[test]
fn a_native_append_is_refused_and_a_plug_above_makes_a_write_of_it() {
    let zoned = || {
        let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
        desk.limits_mut().zoned.as_mut().unwrap().max_append = Some(ZONE);
        desk
    };
    let mut h = crypt_over(zoned(), "aes-xts-plain64", PLAIN_UNITS);
    let tag = h.submit(append(1, 8));
    assert_eq!((h.statuses(), h.held().len()), (vec![(tag, Status::NotSupported)], 0));

    let table = format!("0 512 crypt aes-xts-plain64 {} 0 disk 0", digits(64));
    let mut volume = Volume::new(Box::new(zoned()), &table).unwrap();
    assert!(volume.stack.limits(volume.crypt).zoned.as_ref().unwrap().max_append.is_none());
    let end = |volume: &mut Volume| {
        while volume.stack.step() {}
        let held = volume.stack.device::<MockDevice>(volume.disk).unwrap().held();
        for held in &held {
            volume.stack.with_device(volume.disk, |desk: &mut MockDevice, cx| desk.end(held.number, Status::Ok, 0, cx));
        }
        held
    };
    while !end(&mut volume).is_empty() {}
    for (tag, expected) in [(1, zone(2)), (2, zone(2) + 8)] {
        volume.stack.submit(volume.port, tag, volume.top, Box::new(append(2, 8)));
        let held = end(&mut volume);
        assert_eq!((held[0].op, held[0].sector.0), (Op::Write, expected));
        while volume.stack.step() {}
        let done = volume.stack.poll_completion(volume.port).unwrap();
        assert_eq!((done.tag, done.status, done.bio.sector.0), (tag, Status::Ok, expected));
    }
}

#[test]
fn writes_reach_a_zoned_disk_in_order_and_zone_commands_pass_unchanged() {
    let mut h = crypt_over(MockDevice::zoned(8, ZONE, ZONE, 1), "aes-xts-plain64", PLAIN_UNITS);
    h.submit_all([write(64, 8), write(128, 8), reset(3), finish(4), report()]);
    let expected = ["WRITE 64+8", "WRITE 128+8", "ZONE_RESET 192+0", "ZONE_FINISH 256+0", "REPORT_ZONES 0+0"];
    assert_eq!(at_desk(&h), expected);
    h.end_all(Status::Ok);
    assert!(h.statuses().iter().all(|(_, status)| status.is_ok()));
    h.assert_clean();
}

#[test]
fn a_unit_is_the_smallest_block() {
    let units = Units { bytes: 4096, ..PLAIN_UNITS };
    let mut h = crypt_over(MockDevice::regular(), "aes-xts-plain64", units);
    let limits = h.stack.limits(h.top);
    assert_eq!((limits.logical_block_bytes, limits.physical_block_bytes), (4096, 4096));
    let tags = h.submit_all([write(1, 8), read(8, 1), write(8, 8)]);
    assert_eq!(h.statuses(), [(tags[0], Status::Io), (tags[1], Status::Io)]);
    assert_eq!(at_desk(&h), ["WRITE 8+8"]);
    h.end_all(Status::Ok);
}

#[test]
fn zeroes_are_data_and_discards_need_leave() {
    let mut below = Limits::new(1 << 20);
    (below.max_write_zeroes, below.max_discard) = (Some(1000), Some(1001));
    below.zoned = Some(ZonedLimits { max_append: Some(8), max_open: Some(3), ..ZonedLimits::new(4096) });
    let mut config =
        CryptConfig { cipher: CipherSpec::parse("aes").unwrap(), units: PLAIN_UNITS, allows_discards: false };
    let limits =
        |config: &CryptConfig| Crypt::new(DeviceId(0), &below, config, &SoftwareCiphers).unwrap().limits().clone();
    assert_eq!((limits(&config).max_write_zeroes, limits(&config).max_discard), (None, None));
    (config.allows_discards, config.units.bytes) = (true, 4096);
    assert_eq!((limits(&config).max_write_zeroes, limits(&config).max_discard), (None, Some(1000)));
    let zoned = limits(&config).zoned.unwrap();
    assert_eq!((zoned.max_append, zoned.max_open, zoned.write_granularity_bytes), (None, Some(3), 4096));
}

#[test]
fn a_wrong_line_says_which_argument_is_wrong_and_what_to_write() {
    let key = digits(64);
    for (arguments, says) in [
        ("", "the cipher is missing"),
        ("blowfish-cbc-plain KEY 0 disk 0", "argument 1: crypt: the cipher `blowfish`"),
        ("aes-xts-plain64", "the key is missing"),
        (
            "aes-xts-plain64 00 0 disk 0",
            "argument 2: crypt: the key: aes-xts takes a key of 32, 48 or 64 bytes, not of 1",
        ),
        ("aes:2-cbc-plain KEY0 0 disk 0", "argument 2: crypt: the key: 129 hexadecimal digits"),
        ("aes:4-cbc-plain 000000 0 disk 0", "argument 2: crypt: the key: aes-cbc takes a key of 64, 96 or 128"),
        ("aes-xts-plain64 :64:logon:k 0 disk 0", "argument 2: crypt: the key: keys of the kernel's keyring"),
        ("aes-xts-plain64 :63:env:K 0 disk 0", "argument 2: crypt: the key: aes-xts takes"),
        ("aes-xts-plain64 :64:env:L 0 disk 0", "argument 2: crypt: the key: there is no key `L`"),
        ("aes-xts-plain64 KEY x disk 0", "argument 3: crypt: the IV offset is `x`"),
        ("aes-xts-plain64 KEY 4 disk 0 1 sector_size:4096", "argument 3: crypt: the IV offset is 4"),
        (
            "aes-xts-plain64 KEY 0 disk 7 1 sector_size:4096",
            "argument 5: crypt: the start on the device is 7: with sector_size:4096 write a multiple of 8",
        ),
        ("aes-xts-plain64 KEY 0 disk 2 1 sector_size:2048", "argument 5: crypt: the start on the device is 2"),
        ("aes-xts-plain64 KEY 0 disc 0", "argument 4: there is no device `disc`"),
        ("aes-xts-plain64 KEY 0 disk -1", "argument 5: crypt: the start on the device is `-1`"),
        ("aes-xts-plain64 KEY 0 disk 16384", "argument 5: `disk`: sectors 16384+20 lie past the end"),
        ("aes-xts-plain64 KEY 0 disk 0 1", "argument 6: crypt: the number of options is 1"),
        ("aes-xts-plain64 KEY 0 disk 0 1 fast", "argument 7: crypt: there is no option `fast`"),
        ("aes-xts-plain64 KEY 0 disk 0 1 sector_size:768", "argument 7: crypt: sector_size is `768`"),
        ("aes-xts-plain64 KEY 0 disk 0 2 allow_discards integrity:28:aead", "argument 8: crypt: `integrity:28:aead`"),
        ("aes-xts-plain64 KEY 0 disk 0 1 allow_discards more", "`more` is too much"),
        ("aes-xts-plain64 KEY 0 disk 0 1 sector_size:4096", "units of 4096 bytes: capacity is 20"),
    ] {
        let table = format!("0 20 crypt {}", arguments.replace("KEY", &key));
        let disk = Box::new(RamDisk::new(&RamConfig::new(16384)).unwrap());
        let error = Volume::new(disk, &table).err().unwrap_or_else(|| panic!("{arguments} was taken"));
        assert!(error.contains(says), "{arguments}: {error}");
        assert!(!error.contains("0001020304"), "{arguments}: the key is in {error}");
    }
}

#[test]
fn options_are_printed_in_the_kernels_order_and_read_back() {
    let key = digits(32);
    let head = format!("0 64 crypt aes-cbc-essiv:sha256 {key} 16 disk 8");
    for (options, printed) in [
        ("", ""),
        (" 0", ""),
        (" 1 sector_size:512", ""),
        (" 2 sector_size:2048 allow_discards", " 2 allow_discards sector_size:2048"),
        (
            " 8 iv_large_sectors no_write_workqueue no_read_workqueue submit_from_crypt_cpus high_priority \
             same_cpu_crypt sector_size:4096 allow_discards",
            " 8 allow_discards same_cpu_crypt high_priority submit_from_crypt_cpus no_read_workqueue \
             no_write_workqueue sector_size:4096 iv_large_sectors",
        ),
    ] {
        let volume = Volume::ram(&format!("{head}{options}"));
        assert_eq!(volume.table(true), format!("{head}{printed}"));
        assert_eq!(Volume::ram(&volume.table(true)).table(true), volume.table(true));
    }
    let zoned = Volume::new(
        Box::new(MockDevice::zoned(8, ZONE, ZONE, 1)),
        &format!("0 512 crypt aes-cbc-plain {key} 0 disk 0"),
    );
    assert!(zoned.unwrap().table(false).ends_with(" 0 disk 0 1 no_write_workqueue"), "as a kernel shows it");
}

#[test]
fn nobody_sees_the_key_who_did_not_ask_for_it() {
    let key = digits(64);
    let mut volume = Volume::ram(&format!("0 64 crypt aes-xts-plain64 {key} 0 disk 0"));
    assert_eq!(volume.table(false), format!("0 64 crypt aes-xts-plain64 {} 0 disk 0", "0".repeat(128)));
    assert!(volume.table(true).contains(&key));
    let mut said = format!("{:?} {}", volume.lines, volume.table(false));
    volume.stack.describe(volume.crypt, &mut said).unwrap();
    volume.stack.status(volume.crypt, &mut said).unwrap();
    said += &volume.message(&format!("key set {key}")).unwrap_err();
    volume.suspend();
    said += &volume.message(&format!("key set {key}00")).unwrap_err();
    said += &volume.message(&format!("key set {key}x")).unwrap_err();
    said += &volume.message(&format!("key put {key}")).unwrap_err();
    said += &volume.message(&format!("key set {key}")).unwrap();
    said += &volume.table(false);
    assert!(!said.contains("010203"), "{said}");

    let volume = Volume::ram("0 64 crypt aes-xts-plain64 :64:env:K 0 disk 0");
    assert_eq!(volume.table(true), "0 64 crypt aes-xts-plain64 :64:env:K 0 disk 0", "as it was written");
}

#[test]
fn a_key_changes_only_while_the_device_is_suspended() {
    let (old, new) = (digits(32), "11".repeat(32));
    let mut volume = Volume::ram(&format!("0 64 crypt aes-xts-plain64 {old} 0 disk 0"));
    volume.write(0, one_segment(&[7; 512]));
    assert!(volume.message(&format!("key set {new}")).unwrap_err().contains("suspend it first"));
    assert!(volume.message("key wipe").unwrap_err().contains("suspend it first"));
    volume.suspend();
    assert!(volume.message(&format!("key set {new}{new}")).unwrap_err().contains("32 bytes"));
    volume.message(&format!("key set {new}")).unwrap();
    volume.resume().unwrap();
    assert!(volume.read(0, 512) != [7; 512], "the old key still decrypts");
    assert!(volume.table(true).contains(&new));
    volume.suspend();
    volume.message(&format!("KEY SET {old}")).unwrap();
    volume.resume().unwrap();
    assert!(volume.read(0, 512) == [7; 512]);
    assert!(volume.message("hello").unwrap_err().contains("key wipe"));
}

#[test]
fn a_wiped_key_is_gone_and_without_a_key_nothing_is_resumed_read_or_written() {
    let key = digits(32);
    let mut volume = Volume::ram(&format!("0 64 crypt aes-xts-plain64 {key} 0 disk 0"));
    volume.write(0, one_segment(&[7; 512]));
    volume.suspend();
    volume.message("key wipe").unwrap();
    assert!(volume.table(true).contains(&"0".repeat(64)), "not even who may see keys sees it");
    assert!(volume.resume().unwrap_err().contains("key set"));
    for op in [Op::Read, Op::Write] {
        let crypt = volume.crypt;
        assert_eq!(volume.run(crypt, data(op, 0, 1)).1, Status::Io);
    }
    let on_disk = volume.on_disk(0, 512);
    assert!(on_disk != [7; 512] && on_disk != [0; 512], "the disk keeps its ciphertext");
    volume.message(&format!("key set {key}")).unwrap();
    volume.resume().unwrap();
    assert!(volume.read(0, 512) == [7; 512]);
}

#[test]
fn a_line_without_a_key_waits_for_one() {
    let mut volume = Volume::ram("0 64 crypt aes-xts-plain64 - 0 disk 0");
    assert!(volume.stack.is_ready(volume.crypt).unwrap_err().contains("no key"));
    assert_eq!(volume.table(true), "0 64 crypt aes-xts-plain64 - 0 disk 0");
    volume.suspend();
    assert!(volume.message("key set 00").unwrap_err().contains("32, 48 or 64"));
    assert!(volume.message("key set :32:env:K").unwrap_err().contains("digits"));
    volume.message(&format!("key set {}", digits(32))).unwrap();
    volume.resume().unwrap();
    assert!(volume.table(false).contains(&"0".repeat(64)));
}

#[test]
fn a_table_without_a_key_is_told_it_and_then_resumed() {
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(RamDisk::new(&RamConfig::new(64)).unwrap())).unwrap();
    let (mut mapper, desktop) = (Mapper::new(), Desktop(disk));
    mapper.create("secret", "").unwrap();
    let lines = parse_table("0 64 crypt aes-xts-plain64 - 0 disk 0").unwrap();
    mapper.load("secret", lines, false, (&mut stack, &desktop)).unwrap();
    let resume = |mapper: &mut Mapper, stack: &mut Stack| {
        let ticket = mapper.resume("secret", false, stack)?;
        mapper.poll(Instant::ZERO, (stack, &desktop));
        stack.turn(Instant::ZERO);
        mapper.outcome(ticket).unwrap()
    };
    assert!(resume(&mut mapper, &mut stack).unwrap_err().to_string().contains("no key"));
    mapper.message("secret", 0, &["key", "set", &digits(64)], (&mut stack, Instant::ZERO)).unwrap();
    resume(&mut mapper, &mut stack).unwrap();
    assert!(mapper.message("secret", 0, &["key", "wipe"], (&mut stack, Instant::ZERO)).is_err(), "it is in use");
    let table = mapper.table("secret", false, false, &stack).unwrap();
    assert_eq!(table, format!("0 64 crypt aes-xts-plain64 {} 0 disk 0\n", "0".repeat(128)));
}

#[test]
fn key_messages_wait_for_bios_that_are_below() {
    let mut h = crypt_over(MockDevice::regular(), "aes-xts-plain64", PLAIN_UNITS);
    h.submit(read(0, 8));
    h.stack.deliver(h.top, Event::Suspend { push_back: false });
    h.run();
    assert!(h.stack.message(h.top, &["key", "wipe"]).is_err(), "what comes back could not be decrypted");
    h.end_all(Status::Ok);
    h.stack.message(h.top, &["key", "wipe"]).unwrap();
}
