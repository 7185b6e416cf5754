//! Asking the daemon, on a thread of its own: how long that takes nobody at the keyboard notices.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use shingle_core::zone::Zone;
use shingle_host::control::protocol::{
    GetDeps, GetMetrics, GetPlugs, GetStatus, Operation, Plugs, ReportZones, Status, ZoneInfo,
};
use shingle_host::control::{ControlClient, ErrorKind, MOST_ZONES};
use shingle_host::metrics::Format;

use super::counts::Counts;
use super::model::{Input, Want};
use super::sample::{Below, Sample};
use super::zone_map::ZonesWanted;
use crate::cli::CliError;
use crate::cli::remote::RemoteArgs;

/// Requests for zones at a time. Each is for [`MOST_ZONES`].
const REQUESTS: u32 = 16;

/// A connection to the daemon, made again whenever it is gone.
pub struct Poller {
    remote: RemoteArgs,
    start: Instant,
    client: Option<ControlClient>,
    /// What lay below the devices when tables were last changed, and what told them apart then.
    below: (u64, Below),
    /// How far the zones of a device have been read.
    reading: Reading,
}

#[derive(Default)]
struct Reading {
    device: String,
    /// The zone to go on from.
    next: u32,
    /// Whether each was read once.
    is_whole: bool,
}

impl Poller {
    /// One that counts time from `start`.
    pub fn new(remote: RemoteArgs, start: Instant) -> Self {
        Self { remote, start, client: None, below: (0, Below::default()), reading: Reading::default() }
    }

    /// Asks. A connection that was closed in the meantime, as one that was silent for long is, is made again.
    fn call<O: Operation>(&mut self, request: &O) -> Result<O::Answer, CliError> {
        if let Some(client) = &mut self.client {
            match client.call(request) {
                Err(error) if error.kind == ErrorKind::Stopped => self.client = None,
                answer => return Ok(answer?),
            }
        }
        let client = self.client.insert(self.remote.connect()?);
        let answer = client.call(request);
        if answer.as_ref().is_err_and(|error| error.kind == ErrorKind::Stopped) {
            self.client = None;
        }
        Ok(answer?)
    }

    /// What the daemon says now.
    pub fn sample(&mut self, plugs: &[String]) -> Result<Sample, CliError> {
        let begin = Instant::now();
        let status = self.call(&GetStatus {})?;
        let counts = Counts::read(&self.call(&GetMetrics { format: Format::OpenMetrics })?.text);
        let below = self.below(&status)?;
        let at = (begin.duration_since(self.start), begin.elapsed());
        let mut sample = Sample::new(at, status, counts, below);
        sample.plugs = self.plugs(plugs)?;
        Ok(sample)
    }

    /// What lies below the devices: asked for when there are others, or other tables.
    fn below(&mut self, status: &Status) -> Result<Below, CliError> {
        let mut hasher = DefaultHasher::new();
        status.pid.hash(&mut hasher);
        status.devices.iter().for_each(|device| (&device.name, &device.description).hash(&mut hasher));
        let now = hasher.finish();
        if self.below.0 != now {
            let devices = self.call(&GetDeps { device: None })?.devices;
            let names = devices.into_iter().map(|of| (of.name, of.deps.into_iter().map(|dep| dep.name).collect()));
            self.below = (now, Arc::new(names.collect()));
        }
        Ok(self.below.1.clone())
    }

    /// The plugs of disks; one that has just gone has none.
    fn plugs(&mut self, devices: &[String]) -> Result<BTreeMap<String, Plugs>, CliError> {
        let mut all = BTreeMap::new();
        for device in devices {
            match self.ask(&GetPlugs { device: device.clone() })? {
                Some(plugs) => all.insert(device.clone(), plugs),
                None => continue,
            };
        }
        Ok(all)
    }

    /// The answer, if the daemon gives one to this.
    fn ask<O: Operation>(&mut self, request: &O) -> Result<Option<O::Answer>, CliError> {
        let answer = self.call(request);
        if self.client.is_some() { Ok(answer.ok()) } else { answer.map(Some) }
    }

    /// Some zones of a device: first each once, then those that are looked at, or in turn if these are many.
    pub fn zones(&mut self, wanted: &ZonesWanted) -> Result<Vec<Zone>, CliError> {
        if self.reading.device != wanted.device {
            self.reading = Reading { device: wanted.device.clone(), ..Reading::default() };
        }
        let at_once = REQUESTS * MOST_ZONES as u32;
        let is_turn = !self.reading.is_whole || wanted.count > at_once;
        let mut zone = if is_turn { self.reading.next } else { wanted.first };
        let end = if is_turn { wanted.zones } else { (wanted.first + wanted.count).min(wanted.zones) };
        let mut all = Vec::new();
        for _ in 0..REQUESTS {
            if zone >= end {
                break;
            }
            let count = u64::from(end - zone).min(MOST_ZONES as u64);
            let start = u64::from(zone) * wanted.zone_sectors;
            let Some(answer) = self.ask(&ReportZones { device: wanted.device.clone(), start, count })? else { break };
            if answer.zones.is_empty() {
                break;
            }
            zone = zone.saturating_add(answer.zones.len() as u32);
            all.extend(answer.zones.iter().filter_map(ZoneInfo::zone));
        }
        if is_turn {
            let is_end = zone >= end || all.is_empty();
            self.reading.is_whole |= is_end;
            self.reading.next = if is_end { 0 } else { zone };
        }
        Ok(all)
    }

    /// Reads all zones that are wanted.
    pub fn read_all(&mut self, wanted: &ZonesWanted) -> Result<Vec<Zone>, CliError> {
        let mut all = Vec::new();
        while self.is_reading(Some(wanted)) {
            all.extend(self.zones(wanted)?);
        }
        Ok(all)
    }

    fn is_reading(&self, wanted: Option<&ZonesWanted>) -> bool {
        wanted.is_some_and(|wanted| wanted.device != self.reading.device || !self.reading.is_whole)
    }
}

/// What is to be asked: the last wish counts.
pub struct Wish {
    want: Mutex<Want>,
    changed: Condvar,
}

impl Wish {
    /// Until another is told.
    pub fn new(want: Want) -> Self {
        Self { want: Mutex::new(want), changed: Condvar::new() }
    }

    /// Another one.
    pub fn tell(&self, want: Want) {
        let mut now = self.want.lock().unwrap_or_else(PoisonError::into_inner);
        if *now != want {
            *now = want;
            self.changed.notify_all();
        }
    }

    fn now(&self) -> Want {
        self.want.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it is another one, but not for longer than this.
    fn wait(&self, known: &Want, time: Option<Duration>) {
        let now = self.want.lock().unwrap_or_else(PoisonError::into_inner);
        match time {
            Some(time) => drop(self.changed.wait_timeout_while(now, time, |now| now == known)),
            None => drop(self.changed.wait_while(now, |now| now == known)),
        }
    }
}

/// Asks as is wished until nobody listens.
pub fn run(mut poller: Poller, wish: &Wish, send: &dyn Fn(Input) -> bool) {
    let mut next = Instant::now();
    let mut last_zones = None;
    loop {
        let want = wish.now();
        if want.is_paused {
            wish.wait(&want, None);
            continue;
        }
        let is_due = Instant::now() >= next;
        let mut news = Vec::new();
        if is_due {
            let begin = Instant::now();
            news.push(match poller.sample(&want.plugs) {
                Ok(sample) => Input::Sample(Box::new(sample)),
                Err(error) => Input::Lost(error.to_string()),
            });
            // Half of the time at most is spent with asking, however long an answer takes.
            next = (next + want.interval).max(Instant::now() + begin.elapsed());
        }
        let is_new = want.zones.as_ref().map(|zones| &zones.device) != last_zones.as_ref();
        if let Some(wanted) = want.zones.as_ref().filter(|zones| is_due || is_new || poller.is_reading(Some(zones))) {
            news.push(match poller.zones(wanted) {
                Ok(zones) => Input::Zones { device: wanted.device.clone(), zones },
                Err(error) => Input::Lost(error.to_string()),
            });
        }
        last_zones = want.zones.as_ref().map(|zones| zones.device.clone());
        if !news.into_iter().all(send) {
            return;
        }
        let is_lost = poller.client.is_none();
        if is_lost || !poller.is_reading(want.zones.as_ref()) {
            wish.wait(&want, Some(next.saturating_duration_since(Instant::now())));
        }
    }
}
