//! Asking the daemon, on a thread of its own: how long that takes nobody at the keyboard notices.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
/// How old zones may be that the daemon knows already. It shares its reports among all who watch, and reads slow disks seldom.
const MAX_AGE: Duration = Duration::from_millis(800);
/// How long it rests at most after it has asked, if the interval is shorter.
const LONGEST_REST: Duration = Duration::from_secs(2);

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
    /// Why the last ones could not be read.
    failure: Option<String>,
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
        // A daemon that was slow to answer counted until it did.
        let at = self.start.elapsed();
        let counts = Counts::read(&self.call(&GetMetrics { format: Format::OpenMetrics })?.text);
        let below = self.below(&status)?;
        let mut sample = Sample::new((at, begin.elapsed()), status, counts, below);
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
            if let Ok(plugs) = self.ask(&GetPlugs { device: device.clone() })? {
                all.insert(device.clone(), plugs);
            }
        }
        Ok(all)
    }

    /// What the daemon says to this, or why it does not do it.
    fn ask<O: Operation>(&mut self, request: &O) -> Result<Result<O::Answer, String>, CliError> {
        match self.call(request) {
            Err(error) if self.client.is_some() => Ok(Err(error.to_string())),
            answer => answer.map(Ok),
        }
    }

    /// Some zones of a device: first each once, then those that are looked at, or in turn if these are many.
    pub fn zones(&mut self, wanted: &ZonesWanted) -> Result<Input, CliError> {
        if self.reading.device != wanted.device {
            self.reading = Reading { device: wanted.device.clone(), ..Reading::default() };
        }
        let at_once = REQUESTS * MOST_ZONES as u32;
        let is_turn = !self.reading.is_whole || wanted.count > at_once;
        let (mut zone, end) = match is_turn {
            true => (self.reading.next, wanted.zones),
            false => (wanted.first, wanted.first.saturating_add(wanted.count).min(wanted.zones)),
        };
        let (mut zones, mut age) = (Vec::new(), None);
        self.reading.failure = None;
        for _ in 0..REQUESTS {
            if zone >= end {
                break;
            }
            let (start, count) = (u64::from(zone) * wanted.zone_sectors, u64::from(end - zone).min(MOST_ZONES as u64));
            let request = ReportZones {
                device: wanted.device.clone(),
                start,
                count,
                max_age_ms: Some(MAX_AGE.as_millis() as u64),
            };
            match self.ask(&request)? {
                Ok(answer) if !answer.zones.is_empty() => {
                    zone = zone.saturating_add(answer.zones.len() as u32);
                    age = answer.age_ms.map(Duration::from_millis);
                    zones.extend(answer.zones.iter().filter_map(ZoneInfo::zone));
                }
                Ok(_) => zone = end,
                Err(why) => {
                    self.reading.failure = Some(why);
                    break;
                }
            }
        }
        if is_turn {
            self.reading.is_whole |= zone >= end;
            self.reading.next = if zone >= end { 0 } else { zone };
        }
        Ok(Input::Zones { device: wanted.device.clone(), zones, age, failure: self.reading.failure.clone() })
    }

    /// Whether there are zones that were not asked for yet.
    pub fn is_reading(&self, wanted: &ZonesWanted) -> bool {
        let Reading { device, is_whole, failure, .. } = &self.reading;
        wanted.device != *device || !is_whole && failure.is_none()
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
            // Half of the time at most is spent with asking; but one answer that took long does not put the next one off.
            next = (next + want.interval).max(Instant::now() + begin.elapsed().min(LONGEST_REST));
        }
        let is_new = want.zones.as_ref().map(|zones| &zones.device) != last_zones.as_ref();
        if let Some(wanted) = want.zones.as_ref().filter(|zones| is_due || is_new || poller.is_reading(zones)) {
            news.push(match poller.zones(wanted) {
                Ok(zones) => zones,
                Err(error) => Input::Lost(error.to_string()),
            });
        }
        last_zones = want.zones.as_ref().map(|zones| zones.device.clone());
        if !news.into_iter().all(send) {
            return;
        }
        let is_lost = poller.client.is_none();
        if is_lost || !want.zones.as_ref().is_some_and(|zones| poller.is_reading(zones)) {
            wish.wait(&want, Some(next.saturating_duration_since(Instant::now())));
        }
    }
}
