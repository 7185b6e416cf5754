//! Taking a recording: from the control socket of a daemon into a file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use shingle_core::block::Op;
use shingle_core::impl_error;
use shingle_core::zone::{Condition, Zone};

use super::protocol::{GetStatus, ReadRecording, StartRecording, Started, StopRecording};
use super::{ControlClient, ControlError, ErrorKind};
use crate::trace::{ENTRY_BYTES, End, EndReason, RecordedDevice, RecordedEntry, Writer, ZoneStart, hex_from};

/// What to record.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The device; all of them if left out.
    pub device: Option<String>,
    /// How long; until somebody stops it if left out.
    pub duration: Option<Duration>,
    /// At most so many events.
    pub count: Option<u64>,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Events in the file.
    pub events: u64,
    /// Events that fell out of the daemon's rings.
    pub lost: u64,
    /// Time since its start, in ns.
    pub at: u64,
}

/// Error of a recording, or what it misses.
#[derive(Debug)]
pub enum RecordError {
    /// The daemon refused.
    Control(ControlError),
    /// The file cannot be written.
    Io(io::Error),
    /// The daemon answered in a way that this program does not understand.
    Answer(&'static str),
}

impl_error!(RecordError, Control(ControlError), Io(io::Error), |self, f| match self {
    Self::Control(error) => error.fmt(f),
    Self::Io(error) => error.fmt(f),
    Self::Answer(what) => write!(f, "the daemon's answer has no {what}: is it of another version?"),
});

/// Time between two looks at rings that were empty. At a million bios per second they hold ten times that.
const PAUSE: Duration = Duration::from_millis(10);

/// Records into `to` until it is complete, `stop` is set or the daemon goes away; `watch` sees how far it is.
pub fn record(
    client: &mut ControlClient,
    wanted: &Wanted,
    to: impl Write,
    (stop, watch): (&AtomicBool, &mut dyn FnMut(Taken)),
) -> Result<(Taken, EndReason), RecordError> {
    // Before the first event, so that the reports are not events themselves.
    let reports = report_all(client, wanted.device.as_deref())?;
    let Started { started_unix_ns, devices } = client.call(&StartRecording { device: wanted.device.clone() })?;
    let mut tape = Tape {
        writer: Writer::new(to, started_unix_ns, &devices)?,
        touched: BTreeSet::new(),
        taken: Taken::default(),
        ends_at: wanted.duration.map_or(u64::MAX, |length| shingle_core::time::Duration::from(length).as_nanos()),
        most: wanted.count.unwrap_or(u64::MAX),
        devices,
    };
    let reason = loop {
        let stopping = stop.load(Relaxed);
        let (more, late) = match tape.take(client) {
            Ok(state) => state,
            Err(RecordError::Control(error)) if error.kind == ErrorKind::Stopped => break EndReason::Disconnected,
            Err(error) => return Err(error),
        };
        watch(tape.taken);
        if tape.taken.events >= tape.most || (tape.taken.at >= tape.ends_at && (late || !more)) {
            break EndReason::Complete;
        }
        if stopping {
            break EndReason::Stopped;
        }
        if !more {
            thread::sleep(PAUSE.min(Duration::from_nanos(tape.ends_at.saturating_sub(tape.taken.at)) + PAUSE / 10));
        }
    };
    if reason != EndReason::Disconnected {
        // If it is not heard: the daemon stops with the end of the connection.
        let _ = client.call(&StopRecording {});
    }
    tape.taken.at = tape.taken.at.min(tape.ends_at);
    tape.finish(&reports, reason)
}

struct Tape<W> {
    writer: Writer<W>,
    devices: Vec<RecordedDevice>,
    touched: BTreeSet<(u16, u32)>,
    taken: Taken,
    /// Events after this time are not wanted, in ns from the start.
    ends_at: u64,
    /// Nor more events than this.
    most: u64,
}

impl<W: Write> Tape<W> {
    /// Takes what the daemon has; whether it has more, and whether all of it came too late.
    fn take(&mut self, client: &mut ControlClient) -> Result<(bool, bool), RecordError> {
        let batch = client.call(&ReadRecording {})?;
        let bytes = hex_from(&batch.data).ok_or(RecordError::Answer("data"))?;
        let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(RecordError::Answer("whole entries"));
        }
        let mut late = !entries.is_empty();
        for bytes in entries {
            let entry = RecordedEntry::from_bytes(bytes).map_err(RecordError::Answer)?;
            if entry.at().0 <= self.ends_at && self.taken.events < self.most {
                self.push(&entry)?;
                late = false;
            }
        }
        self.taken.at = batch.at_ns;
        Ok((batch.more, late))
    }

    fn push(&mut self, entry: &RecordedEntry) -> Result<(), RecordError> {
        match entry {
            RecordedEntry::Lost { count, .. } => self.taken.lost += count,
            RecordedEntry::Hop(event) => {
                self.taken.events += 1;
                let device = self.devices.get(usize::from(event.device.0)).ok_or(RecordError::Answer("such device"))?;
                let addressed = !matches!(event.op, Op::Flush | Op::ZoneResetAll);
                if let Some(zone) = device.zone_of(event.sector.0).filter(|_| addressed && device.recorded) {
                    self.touched.insert((event.device.0, zone));
                }
            }
        }
        Ok(self.writer.push(entry)?)
    }

    fn finish(self, reports: &Reports, reason: EndReason) -> Result<(Taken, EndReason), RecordError> {
        let zones: Vec<ZoneStart> = self
            .touched
            .iter()
            .filter_map(|(device, zone)| {
                // The disk below a plug has the plug's zones.
                let name = self.devices[usize::from(*device)].name.trim_end_matches("/disk");
                Some(zone_start(*device, *zone, reports.get(name)?.get(*zone as usize)?))
            })
            .collect();
        let end = End { lost: self.taken.lost, at: self.taken.at, reason };
        self.writer.finish(&zones, end)?;
        Ok((self.taken, reason))
    }
}

fn zone_start(device: u16, number: u32, zone: &Zone) -> ZoneStart {
    let wp = match zone.cond {
        Condition::Full => zone.capacity,
        cond if cond.has_write_pointer() => (zone.wp - zone.start).min(zone.capacity),
        _ => 0,
    };
    let (kind, cond) = (zone.kind, zone.cond);
    ZoneStart { device, zone: number, kind, cond, wp: wp as u32, capacity: zone.capacity as u32 }
}

type Reports = BTreeMap<String, Vec<Zone>>;

/// The zones of the named devices that are, or lie above, the wanted one.
fn report_all(client: &mut ControlClient, wanted: Option<&str>) -> Result<Reports, RecordError> {
    let wanted = wanted.map(|name| name.trim_end_matches("/disk"));
    let zoned = client.call(&GetStatus {})?.devices.into_iter().filter(|device| device.zoned.is_some());
    let names = zoned.map(|device| device.name).filter(|name| wanted.is_none_or(|wanted| wanted == name));
    names.map(|name| client.zones(&name).map(|zones| (name, zones)).map_err(RecordError::from)).collect()
}
