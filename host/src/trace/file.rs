//! The file of a recording: a header and chunks, each with a checksum. The bytes are described in `docs/trace-format.md`.

use std::io::{self, Read, Write};

use shingle_core::zone::{Condition, ZoneKind};

use super::device::RecordedDevice;
use super::entry::{ENTRY_BYTES, RecordedEntry};
use super::error::{Damage, ReadError};

const MAGIC: [u8; 8] = *b"shgltrc\n";
/// The version that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;
const HEADER: usize = 32;
/// Most bytes of a chunk without its frame: a damaged length must not cost memory.
const LONGEST: usize = 1 << 20;
const DEVICE_BYTES: usize = 192;
const NAME_AT: usize = 32;
const ZONE_BYTES: usize = 16;
const END_BYTES: usize = 32;
/// Entries of one chunk, as it is written.
const ENTRIES: usize = 4096;

const DEVICES: &[u8; 4] = b"DEVS";
const EVENTS: &[u8; 4] = b"EVTS";
const ZONES: &[u8; 4] = b"ZONE";
const END: &[u8; 4] = b"DONE";

/// A whole recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// When it began, in ns since 1970.
    pub started_unix_ns: u64,
    /// The devices; entries name them by their place here.
    pub devices: Vec<RecordedDevice>,
    /// What was recorded, in order of time.
    pub entries: Vec<RecordedEntry>,
    /// The zones that were touched, as they were at the start.
    pub zones: Vec<ZoneStart>,
    /// Its end.
    pub end: End,
}

/// A zone before the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStart {
    /// Place of its device in the list.
    pub device: u16,
    /// Its number.
    pub zone: u32,
    /// Conventional or sequential.
    pub kind: ZoneKind,
    /// Its condition.
    pub cond: Condition,
    /// Its write pointer, in sectors from its start; 0 if the condition has none, the capacity if it is full.
    pub wp: u32,
    /// Its writable sectors.
    pub capacity: u32,
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Events that are missing, of all shards.
    pub lost: u64,
    /// Length of the recording in ns.
    pub at: u64,
    /// Why it ended.
    pub reason: EndReason,
}

/// Cause of the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// It reached the length that was asked for.
    Complete = 0,
    /// Somebody stopped it.
    Stopped = 1,
    /// The daemon went away.
    Disconnected = 2,
}

impl EndReason {
    const ALL: [EndReason; 3] = [EndReason::Complete, EndReason::Stopped, EndReason::Disconnected];

    /// What a summary says.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EndReason::Complete => "complete",
            EndReason::Stopped => "stopped",
            EndReason::Disconnected => "disconnected",
        }
    }
}

/// Writes a recording while it is taken.
pub struct Writer<W> {
    to: W,
    pending: Vec<u8>,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording of `devices`.
    pub fn new(mut to: W, started_unix_ns: u64, devices: &[RecordedDevice]) -> io::Result<Self> {
        let started = started_unix_ns.to_le_bytes();
        let mut header = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4], &started, &[0; 4]].concat();
        header.extend(crc32c::crc32c(&header).to_le_bytes());
        to.write_all(&header)?;
        let mut writer = Self { to, pending: Vec::with_capacity(ENTRIES * ENTRY_BYTES), written: 0 };
        let devices: Vec<u8> = devices.iter().flat_map(device_bytes).collect();
        writer.chunk(DEVICES, &devices)?;
        // A disk that is full says so before anything is lost, and whoever waits for the file sees that it has begun.
        writer.to.flush()?;
        Ok(writer)
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: &RecordedEntry) -> io::Result<()> {
        self.pending.extend(entry.to_bytes());
        self.written += 1;
        if self.pending.len() < ENTRIES * ENTRY_BYTES { Ok(()) } else { self.flush() }
    }

    /// Entries so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.written
    }

    /// Writes the end and gives the file back.
    pub fn finish(mut self, zones: &[ZoneStart], end: End) -> io::Result<W> {
        self.flush()?;
        for zones in zones.chunks(LONGEST / ZONE_BYTES) {
            let bytes: Vec<u8> = zones.iter().flat_map(zone_bytes).collect();
            self.chunk(ZONES, &bytes)?;
        }
        let bytes = [self.written, end.lost, end.at, end.reason as u64].map(u64::to_le_bytes).concat();
        self.chunk(END, &bytes)?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let written = self.chunk(EVENTS, &pending);
        self.pending = pending;
        self.pending.clear();
        written
    }

    fn chunk(&mut self, kind: &[u8; 4], payload: &[u8]) -> io::Result<()> {
        let frame = [*kind, (payload.len() as u32).to_le_bytes()].concat();
        let check = crc32c::crc32c_append(crc32c::crc32c(&frame), payload);
        self.to.write_all(&frame)?;
        self.to.write_all(payload)?;
        self.to.write_all(&check.to_le_bytes())
    }
}

fn device_bytes(device: &RecordedDevice) -> [u8; DEVICE_BYTES] {
    let mut bytes = [0; DEVICE_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &device.capacity.to_le_bytes());
    let numbers = [device.zone_sectors, device.max_open, device.max_active, device.max_append];
    put(8, &device.block_bytes.to_le_bytes());
    for (place, number) in numbers.into_iter().enumerate() {
        put(12 + 4 * place, &number.unwrap_or(0).to_le_bytes());
    }
    put(28, &device.shard.to_le_bytes());
    let flags = [device.rotational, device.write_cache, device.recorded];
    put(30, &[flags.iter().enumerate().map(|(bit, set)| u8::from(*set) << bit).sum()]);
    let room = DEVICE_BYTES - NAME_AT;
    // A name has at most 127 bytes and a suffix; should that change, it is cut where a character ends.
    let end = (0..=device.name.len().min(room)).rev().find(|end| device.name.is_char_boundary(*end)).unwrap_or(0);
    put(31, &[end as u8]);
    put(NAME_AT, &device.name.as_bytes()[..end]);
    bytes
}

fn zone_bytes(zone: &ZoneStart) -> Vec<u8> {
    let numbers = [zone.zone, zone.wp, zone.capacity].map(u32::to_le_bytes);
    [&zone.device.to_le_bytes()[..], &[zone.kind as u8, zone.cond as u8], numbers.as_flattened()].concat()
}

/// Reads a whole recording. Whatever the bytes are, it returns; memory is bounded by the length of the file.
pub fn read(from: impl Read) -> Result<Recording, ReadError> {
    let mut reader = Reader { from, offset: 0 };
    let mut recording = reader.header()?;
    let mut found = 0;
    loop {
        let offset = reader.offset;
        let fail = |damage| ReadError { offset, damage };
        let (kind, payload) = reader.chunk()?;
        match (&kind, recording.devices.is_empty()) {
            (DEVICES, true) => recording.devices = devices(&payload).map_err(fail)?,
            (_, true) => return Err(fail(Damage::Value("the list of devices does not come first"))),
            (DEVICES, false) => return Err(fail(Damage::Value("a second list of devices"))),
            (EVENTS, _) => found += entries(&payload, offset, &mut recording)?,
            (ZONES, _) => zones(&payload, &mut recording).map_err(fail)?,
            _ => {
                let (counted, end) = end(&payload).map_err(fail)?;
                if counted != found {
                    return Err(fail(Damage::Count(counted, found)));
                }
                recording.end = end;
                reader.nothing_more()?;
                // Shards are read one after the other, so their events are not in one order in the file.
                recording.entries.sort_by_key(RecordedEntry::at);
                return Ok(recording);
            }
        }
    }
}

struct Reader<R> {
    from: R,
    offset: u64,
}

impl<R: Read> Reader<R> {
    fn fail(&self, damage: Damage) -> ReadError {
        ReadError { offset: self.offset, damage }
    }

    /// Reads up to the length of `to`; fewer bytes are there only at the end of the file.
    fn fill(&mut self, to: &mut [u8]) -> Result<usize, ReadError> {
        let mut filled = 0;
        while filled < to.len() {
            match self.from.read(&mut to[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(Damage::Io(error))),
            }
        }
        Ok(filled)
    }

    fn header(&mut self) -> Result<Recording, ReadError> {
        let mut header = [0; HEADER];
        let filled = self.fill(&mut header)?;
        if filled < MAGIC.len() || header[..8] != MAGIC {
            return Err(self.fail(Damage::NoRecording));
        }
        if filled < HEADER {
            return Err(self.fail(Damage::Truncated("the header")));
        }
        if number(&header, 8) != VERSION {
            return Err(ReadError { offset: 8, damage: Damage::Version(number(&header, 8)) });
        }
        let right = crc32c::crc32c(&header[..HEADER - 4]);
        if number(&header, HEADER - 4) != right {
            return Err(self.fail(Damage::Checksum("the header", number(&header, HEADER - 4), right)));
        }
        self.offset = HEADER as u64;
        Ok(Recording {
            started_unix_ns: wide(&header, 16),
            devices: Vec::new(),
            entries: Vec::new(),
            zones: Vec::new(),
            end: End { lost: 0, at: 0, reason: EndReason::Complete },
        })
    }

    /// The next chunk: its kind and what is in it.
    fn chunk(&mut self) -> Result<([u8; 4], Vec<u8>), ReadError> {
        let mut frame = [0; 8];
        match self.fill(&mut frame)? {
            8 => {}
            0 => return Err(self.fail(Damage::NoEnd)),
            _ => return Err(self.fail(Damage::Truncated("a chunk"))),
        }
        let kind = [frame[0], frame[1], frame[2], frame[3]];
        let length = number(&frame, 4);
        let (what, unit) = match &kind {
            DEVICES => ("the list of devices", DEVICE_BYTES),
            EVENTS => ("a chunk of events", ENTRY_BYTES),
            ZONES => ("a chunk of zones", ZONE_BYTES),
            END => ("the last chunk", END_BYTES),
            _ => return Err(self.fail(Damage::UnknownChunk(kind))),
        };
        let single = &kind != END || length as usize == END_BYTES;
        if length == 0 || length as usize > LONGEST || !(length as usize).is_multiple_of(unit) || !single {
            return Err(self.fail(Damage::Length(what, length)));
        }
        let mut payload = vec![0; length as usize + 4];
        if self.fill(&mut payload)? < payload.len() {
            return Err(self.fail(Damage::Truncated(what)));
        }
        let found = number(&payload, length as usize);
        payload.truncate(length as usize);
        let right = crc32c::crc32c_append(crc32c::crc32c(&frame), &payload);
        if found != right {
            return Err(self.fail(Damage::Checksum(what, found, right)));
        }
        self.offset += 12 + u64::from(length);
        Ok((kind, payload))
    }

    fn nothing_more(&mut self) -> Result<(), ReadError> {
        if self.fill(&mut [0])? == 0 { Ok(()) } else { Err(self.fail(Damage::Trailing)) }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn devices(payload: &[u8]) -> Result<Vec<RecordedDevice>, Damage> {
    payload.chunks_exact(DEVICE_BYTES).map(device).collect()
}

fn device(bytes: &[u8]) -> Result<RecordedDevice, Damage> {
    let limit = |at| Some(number(bytes, at)).filter(|n| *n > 0);
    let name = bytes.get(NAME_AT..NAME_AT + usize::from(bytes[31])).and_then(|name| str::from_utf8(name).ok());
    let name = name.filter(|name| !name.is_empty()).ok_or(Damage::Value("the name of a device is no text"))?;
    if bytes[30] > 7 {
        return Err(Damage::Value("a device has unknown flags"));
    }
    let zone_sectors = limit(12);
    if zone_sectors.is_some_and(|sectors| !sectors.is_power_of_two()) {
        return Err(Damage::Value("the zone size of a device is no power of two"));
    }
    Ok(RecordedDevice {
        name: name.to_owned(),
        shard: number(bytes, 28) as u16,
        rotational: bytes[30] & 1 != 0,
        write_cache: bytes[30] & 2 != 0,
        recorded: bytes[30] & 4 != 0,
        capacity: wide(bytes, 0),
        block_bytes: number(bytes, 8),
        zone_sectors,
        max_open: limit(16),
        max_active: limit(20),
        max_append: limit(24),
    })
}

/// Adds the entries of a chunk that begins at `offset`.
fn entries(payload: &[u8], offset: u64, recording: &mut Recording) -> Result<u64, ReadError> {
    let devices = recording.devices.len();
    for (place, bytes) in payload.as_chunks::<ENTRY_BYTES>().0.iter().enumerate() {
        let fail = |what| ReadError { offset: offset + 8 + (place * ENTRY_BYTES) as u64, damage: Damage::Value(what) };
        let entry = RecordedEntry::from_bytes(bytes).map_err(fail)?;
        if let RecordedEntry::Hop(event) = &entry
            && usize::from(event.device.0) >= devices
        {
            return Err(fail("an event is of a device that is not in the list"));
        }
        recording.entries.push(entry);
    }
    Ok((payload.len() / ENTRY_BYTES) as u64)
}

fn zones(payload: &[u8], recording: &mut Recording) -> Result<(), Damage> {
    for bytes in payload.chunks_exact(ZONE_BYTES) {
        let device = number(bytes, 0) as u16;
        let zoned = recording.devices.get(usize::from(device)).is_some_and(|device| device.zone_sectors.is_some());
        if !zoned {
            return Err(Damage::Value("a zone of a device that has no zones"));
        }
        let kind = match bytes[2] {
            1 => ZoneKind::Conventional,
            2 => ZoneKind::Sequential,
            _ => return Err(Damage::Value("the type of a zone is unknown")),
        };
        let cond = Condition::from_abi(bytes[3]).ok_or(Damage::Value("the condition of a zone is unknown"))?;
        let (zone, wp, capacity) = (number(bytes, 4), number(bytes, 8), number(bytes, 12));
        if wp > capacity {
            return Err(Damage::Value("the write pointer of a zone lies beyond its capacity"));
        }
        recording.zones.push(ZoneStart { device, zone, kind, cond, wp, capacity });
    }
    Ok(())
}

fn end(payload: &[u8]) -> Result<(u64, End), Damage> {
    let reason = EndReason::ALL.into_iter().find(|reason| *reason as u8 == payload[24]);
    let reason = reason.ok_or(Damage::Value("the reason of the end is unknown"))?;
    Ok((wide(payload, 0), End { lost: wide(payload, 8), at: wide(payload, 16), reason }))
}
