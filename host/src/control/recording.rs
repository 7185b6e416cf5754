//! Recordings of bios: one at a time, and only as long as the connection that asked for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release};
use std::time::{Instant, SystemTime};

use shingle_core::block::{DeviceId, Trace, TraceEvent};
use shingle_core::time::Instant as At;

use super::protocol::{Batch, Started};
use super::{ControlError, ErrorKind};
use crate::daemon_state::DaemonState;
use crate::shard::{Mailbox, Shard};
use crate::trace::{ENTRY_BYTES, RecordedDevice, RecordedEntry, to_hex};

/// Events that a shard keeps until they are read: 16 MiB of them.
const RING: usize = 1 << 18;
/// Most events in one response, of all shards together.
const BATCH: usize = 1 << 14;

/// Keeps recordings apart: a stack has one ring.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<AtomicBool>);

/// A recording under way. It ends when this is dropped, with the connection at the latest.
pub(super) struct Recording {
    recorder: Recorder,
    shards: Vec<Source>,
    started: Instant,
}

/// A shard that is recorded.
struct Source {
    number: u16,
    mailbox: Mailbox,
    /// How long before the recording the shard's time began, in ns.
    age: u64,
    /// The place of its first device in the recording's list, and how many are in it.
    first: u16,
    devices: u16,
    /// Events that fell out of its ring, as far as they were reported.
    lost: u64,
}

impl Recorder {
    /// Starts to record `device`, or all of them; the second value is the response.
    pub fn start(&self, daemon: &DaemonState, device: Option<&str>) -> Result<(Recording, Started), ControlError> {
        if self.0.swap(true, AcqRel) {
            let message = "another recording is under way: wait for its end, or stop it";
            return Err(ControlError::new(ErrorKind::Busy, message));
        }
        let started = Instant::now();
        // From here on its end makes way for the next one.
        let mut recording = Recording { recorder: self.clone(), shards: Vec::new(), started };
        let mut devices = list_devices(daemon)?;
        let wanted = device.map(|name| find(&devices, name)).transpose()?;
        for (place, device) in devices.iter_mut().enumerate() {
            device.recorded = wanted.is_none_or(|wanted| wanted == place);
        }
        for number in 0..daemon.shards.len() {
            recording.add(daemon, number, &devices)?;
        }
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let response = Started { started_unix_ns: unix.as_nanos() as u64, devices };
        Ok((recording, response))
    }
}

fn find(devices: &[RecordedDevice], name: &str) -> Result<usize, ControlError> {
    devices.iter().position(|device| device.name == name).ok_or_else(|| {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        let message = format!("there is no device `{name}`; there are: {}", names.join(", "));
        ControlError::new(ErrorKind::UnknownDevice, message)
    })
}

/// The devices of all shards, shard by shard, in the order of their places.
fn list_devices(daemon: &DaemonState) -> Result<Vec<RecordedDevice>, ControlError> {
    let mut devices = Vec::new();
    for (number, shard) in daemon.shards.iter().enumerate() {
        let list = move |shard: &mut Shard| -> Vec<RecordedDevice> {
            let ids = (0..shard.stack.devices()).map(|id| DeviceId(id as u16));
            ids.map(|id| RecordedDevice::new(shard.devices.label(id), number as u16, false, shard.stack.limits(id)))
                .collect()
        };
        devices.extend(shard.mailbox.ask(list)?);
    }
    Ok(devices)
}

impl Recording {
    /// Starts the ring of a shard that has a device to record. The last one is there for as long as it is not stopped.
    fn add(&mut self, daemon: &DaemonState, number: usize, devices: &[RecordedDevice]) -> Result<(), ControlError> {
        let mine = |device: &&RecordedDevice| usize::from(device.shard) == number;
        let recorded: Vec<usize> =
            devices.iter().filter(mine).enumerate().filter(|(_, device)| device.recorded).map(|(id, _)| id).collect();
        let count = devices.iter().filter(mine).count();
        let all = recorded.len() == count;
        let Some(one) = recorded.first().map(|id| DeviceId(*id as u16)) else { return Ok(()) };
        let first = devices.iter().position(|device| mine(&device)).unwrap_or(0) as u16;
        let mailbox = daemon.shards[number].mailbox.clone();
        let start = move |shard: &mut Shard| {
            shard.stack.record(Some(Trace::new(RING).only((!all).then_some(one))));
            shard.origin()
        };
        let mut source = Source { number: number as u16, mailbox, age: 0, first, devices: count as u16, lost: 0 };
        let origin = source.mailbox.ask(start);
        // It counts as started even without an answer: the request may still be in the mailbox.
        let started = self.started;
        source.age = origin.as_ref().map_or(0, |origin| started.saturating_duration_since(*origin).as_nanos() as u64);
        self.shards.push(source);
        origin.map(|_| ()).map_err(ControlError::from)
    }

    /// What happened since the last time, at most a batch: the response.
    pub fn read(&mut self) -> Result<Batch, ControlError> {
        let share = (BATCH / self.shards.len().max(1)).max(1);
        let (mut bytes, mut lost, mut more) = (Vec::new(), 0, false);
        for shard in &mut self.shards {
            let (events, all_lost, rest) = shard.mailbox.ask(move |shard| drain(shard, share))?;
            more |= rest;
            let missing = all_lost - shard.lost;
            let begin = events.first().map(|event| shard.time(event.at));
            if missing > 0 {
                let at = begin.unwrap_or_else(|| At(self.started.elapsed().as_nanos() as u64));
                bytes.extend(RecordedEntry::Lost { at, shard: shard.number, count: missing }.to_bytes());
            }
            (shard.lost, lost) = (all_lost, lost + missing);
            let place = |device: DeviceId| DeviceId(device.0 + shard.first);
            let relative =
                |event: TraceEvent| TraceEvent { at: shard.time(event.at), device: place(event.device), ..event };
            // What was made since the start has no place in the list.
            let listed = events.into_iter().filter(|event| event.device.0 < shard.devices);
            listed.for_each(|event| bytes.extend(RecordedEntry::Hop(relative(event)).to_bytes()));
        }
        Ok(Batch {
            entries: bytes.len() / ENTRY_BYTES,
            data: to_hex(&bytes),
            lost,
            more,
            at_ns: self.started.elapsed().as_nanos() as u64,
        })
    }
}

impl Source {
    /// A time of the shard as one of the recording.
    fn time(&self, at: At) -> At {
        At(at.0.saturating_sub(self.age))
    }
}

/// Up to `most` events, how many were ever lost, and whether there are more.
fn drain(shard: &mut Shard, most: usize) -> (Vec<TraceEvent>, u64, bool) {
    let Some(trace) = shard.stack.trace() else { return (Vec::new(), 0, false) };
    let lost = trace.lost();
    let events: Vec<TraceEvent> = std::iter::from_fn(|| trace.pop()).take(most).collect();
    let more = events.len() == most;
    (events, lost, more)
}

impl Drop for Recording {
    fn drop(&mut self) {
        for shard in &self.shards {
            // A shard that does not answer has stopped, or has the request in its mailbox and will get to it.
            let _ = shard.mailbox.ask(|shard| shard.stack.record(None));
        }
        self.recorder.0.store(false, Release);
    }
}
