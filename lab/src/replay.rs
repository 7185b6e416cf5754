//! A recording, done again: in the simulated world, or on a real stack.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time;

use serde_json::{Map, Value, json};
use shingle_core::block::{DeviceId, Op, Status};
use shingle_core::time::{Duration, Instant};
use shingle_sim::workload::replay::{Fit, Next, Origin, OriginZone, Outcome, Player, PlayerOptions, Replay, Work};
use shingle_sim::{Stop, World};

use crate::bench::{Drive, Host, Sharded, report_zones};
use shingle_host::latency::{Histogram, Summary};
use shingle_host::trace::{Asked, PERCENTILES, Recording, work_of};

/// What to replay.
pub struct Script {
    /// The device that was recorded.
    pub origin: Origin,
    /// What was asked of it, in one piece per zone.
    pub work: Box<[Work]>,
}

impl Script {
    /// What was asked of the device in place `device` of the recording.
    pub fn new(recording: &Recording, device: u16, asked: &[Asked]) -> Self {
        let zones = recording.zones.iter().filter(|zone| zone.device == device);
        let zones = zones.map(|zone| (zone.zone, OriginZone { kind: zone.kind, wp: zone.wp })).collect();
        let zone_sectors = recording.devices.get(usize::from(device)).and_then(|device| device.zone_sectors);
        let first = asked.first().map_or(Instant::ZERO, |asked| asked.at);
        let work = asked.iter().flat_map(|asked| pieces(asked, first, zone_sectors)).collect();
        Self { origin: Origin { zone_sectors, zones }, work }
    }

    /// The script of a recorded device.
    pub fn of(recording: &Recording, device: u16) -> Self {
        Self::new(recording, device, &work_of(recording, device))
    }

    /// Whether it changes the device.
    pub fn writes(&self) -> bool {
        self.work.iter().any(|work| work.op.is_write())
    }
}

/// A bio as it is replayed: cut where zones end, as the device would have done it.
fn pieces(asked: &Asked, first: Instant, zone_sectors: Option<u32>) -> impl Iterator<Item = Work> {
    let Asked { at, op, flags, sector, sectors, .. } = *asked;
    let whole = Work { at: at.since(first), op, flags, sector, sectors };
    let mut rest = Some(whole);
    std::iter::from_fn(move || {
        let mut piece = rest.take()?;
        let Some(zone) = zone_sectors.filter(|_| op.has_range()) else { return Some(piece) };
        let to_end = zone - (piece.sector.0 % u64::from(zone)) as u32;
        if piece.sectors > to_end
            && let Some(next) = piece.sector.0.checked_add(to_end.into())
        {
            rest = Some(Work { sector: shingle_core::sector::Sector(next), sectors: piece.sectors - to_end, ..piece });
            piece.sectors = to_end;
        }
        Some(piece)
    })
}

/// What came of a replay.
pub struct Replayed {
    /// By operation.
    pub ops: BTreeMap<Op, Figures>,
    /// From the first bio to the end of the last, in ns.
    pub span: u64,
    /// How long after its time the latest bio went out, in ns.
    pub latest: u64,
    /// Bios that the device cannot do.
    pub skipped: u64,
    /// Bios that did not come back, because the replay was stopped.
    pub pending: u64,
    /// Zones that were replayed under another number.
    pub moved_zones: u32,
    /// Resets that the recording does not have.
    pub added_resets: u64,
    /// Bios that had to become longer.
    pub rounded: u64,
    /// The first failure, its place in the work, and what was asked.
    pub first_failure: Option<(Work, Status)>,
}

/// What came of one operation.
#[derive(Default)]
pub struct Figures {
    /// Bios that came back.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    latency: Histogram,
}

impl Figures {
    /// Times from submission to completion.
    pub fn latency(&self) -> Summary {
        self.latency.summary(&PERCENTILES)
    }
}

impl Replayed {
    fn new(player: &Player) -> Self {
        let mut replayed = Self {
            ops: BTreeMap::new(),
            span: player.span().as_nanos(),
            latest: player.latest().as_nanos(),
            skipped: 0,
            pending: 0,
            moved_zones: player.fit().moved_zones,
            added_resets: player.fit().added_resets,
            rounded: player.fit().rounded,
            first_failure: None,
        };
        for (work, outcome) in player.outcomes() {
            match *outcome {
                Outcome::Skipped => replayed.skipped += 1,
                Outcome::Pending => replayed.pending += 1,
                Outcome::Done { took, status, .. } => replayed.add(work, took, status),
            }
        }
        replayed
    }

    fn add(&mut self, work: &Work, took: Duration, status: Status) {
        let figures = self.ops.entry(work.op).or_default();
        figures.count += 1;
        figures.bytes += u64::from(work.sectors) * 512;
        figures.latency.record(took.as_nanos());
        if !status.is_ok() {
            figures.errors += 1;
            self.first_failure.get_or_insert((*work, status));
        }
    }

    /// Bios that failed.
    pub fn errors(&self) -> u64 {
        self.ops.values().map(|figures| figures.errors).sum()
    }

    /// The figures as JSON.
    pub fn to_json(&self) -> Value {
        let op = |figures: &Figures| {
            let latency = figures.latency();
            let percentiles: Map<String, Value> =
                latency.percentiles.iter().map(|(p, ns)| (p.to_string(), json!(ns))).collect();
            json!({
                "count": figures.count,
                "bytes": figures.bytes,
                "errors": figures.errors,
                "latency_ns": {"min": latency.min, "mean": latency.mean, "max": latency.max, "percentile": percentiles},
            })
        };
        let ops: Map<String, Value> =
            self.ops.iter().map(|(name, figures)| (name.name().to_ascii_lowercase(), op(figures))).collect();
        json!({
            "ops": ops,
            "span_ns": self.span,
            "latest_ns": self.latest,
            "skipped": self.skipped,
            "pending": self.pending,
            "moved_zones": self.moved_zones,
            "added_resets": self.added_resets,
            "rounded": self.rounded,
        })
    }
}

/// Virtual time between two looks at how far a replay is.
const STEP: Duration = Duration::from_millis(100);

/// How somebody watches a replay.
pub struct Watch<'a> {
    /// Set to stop it.
    pub stop: &'a AtomicBool,
    /// Is told how many bios of how many are out.
    pub progress: &'a mut dyn FnMut(usize, usize),
}

/// Replays on a simulated drive, in virtual time.
pub fn simulate(script: Script, drive: Drive, options: PlayerOptions, watch: Watch<'_>) -> Result<Replayed, String> {
    let mut world = World::new(drive.stack);
    let actor = world.add(Box::new(Replay::new(drive.top, script.origin, script.work, options)));
    let mut until = Instant::ZERO;
    loop {
        until = until.max(world.now()) + STEP;
        let ended = world.run(until);
        if ended == Stop::Stuck {
            return Err("a bio of the replay is lost in the simulated drive".into());
        }
        // There is none before the drive has reported its zones.
        let Some(state) = world.actor::<Replay>(actor).and_then(Replay::player) else { continue };
        let player = state.map_err(|error| error.to_string())?;
        let (done, all) = player.progress();
        (watch.progress)(done, all);
        match ended {
            Stop::Done => return Ok(Replayed::new(player)),
            Stop::Deadline | Stop::Stuck if watch.stop.load(Relaxed) => return Ok(Replayed::new(player)),
            Stop::Deadline | Stop::Stuck => {}
        }
    }
}

/// How long a real device may take for what is in flight, after the replay was stopped.
const PATIENCE: Duration = Duration::from_millis(10_000);
/// The longest sleep while nothing is due.
const NAP: time::Duration = time::Duration::from_millis(10);

/// Replays on a device of a real stack, by the clock.
pub fn perform(
    script: Script,
    (host, device): (&mut Sharded, DeviceId),
    options: PlayerOptions,
    watch: Watch<'_>,
) -> Result<Replayed, String> {
    let zones = report_zones(host, device)?;
    let limits = host.stack().limits(device).clone();
    let fit = Fit::new(script.origin, &script.work, &limits, &zones).map_err(|error| error.to_string())?;
    let mut player = Player::new(script.work, fit, options);
    let port = host.stack().open_port();
    let (mut due, mut stopped) = (None, None);
    loop {
        // A shard sleeps until I/O ends: not while something is due before that.
        let now = host.turn(player.in_flight() > 0 && due.is_none())?;
        while let Some(done) = host.stack().poll_completion(port) {
            player.complete(done.tag, done.status, now);
        }
        if watch.stop.load(Relaxed) {
            let since = *stopped.get_or_insert(now);
            if player.in_flight() == 0 || now.since(since) > PATIENCE {
                return Ok(Replayed::new(&player));
            }
            continue;
        }
        due = loop {
            match player.next(now) {
                Next::Submit(tag, bio) => host.stack().submit(port, tag, device, bio),
                Next::At(at) => break Some(at),
                Next::Wait => break None,
                Next::Done => return Ok(Replayed::new(&player)),
            }
        };
        let (done, all) = player.progress();
        (watch.progress)(done, all);
        nap(due.filter(|_| player.in_flight() == 0), now);
    }
}

/// Sleeps until shortly before `due`: the rest is spent awake, as a sleep ends late.
fn nap(due: Option<Instant>, now: Instant) {
    let left = due.map_or(0, |due| due.since(now).as_nanos());
    let early = 500_000;
    if left > 2 * early {
        thread::sleep(NAP.min(time::Duration::from_nanos(left - early)));
    }
}
