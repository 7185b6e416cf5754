//! Whether a zoned disk keeps the rules of zones: each is tried on it, one after the other.
//!
//! Those of [`LOOKS`] change nothing. Those of [`TRIES`] write to its first sequential zones, and leave them empty. They go to the disk
//! itself, without a plug: that would refuse what a disk is to refuse.

use shingle_core::block::{Bio, Data, DeviceId, Flags, Limits, Op, Payload, Status};
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::zone::{Condition, Zone, ZoneKind};
use shingle_host::dmz::Reach;
use shingle_host::shard::Shard;

/// What came of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The disk keeps it.
    Kept,
    /// It does not, and how that showed.
    Broken(String),
    /// It could not be tried, and why.
    NotTried(String),
}

/// A rule, as a sentence, and how to try it.
pub struct Rule {
    /// What is claimed.
    pub claim: &'static str,
    tried: fn(&mut Trial<'_>) -> Verdict,
}

/// What is tried without changing anything.
pub const LOOKS: [Rule; 3] = [
    Rule { claim: "its zones follow each other and are all of one size but the last", tried: zones_are_in_line },
    Rule { claim: "every write pointer lies in its zone", tried: pointers_are_in_their_zones },
    Rule { claim: "what is written can be read", tried: written_is_read },
];

/// What is tried by writing.
pub const TRIES: [Rule; 9] = [
    Rule { claim: "a reset empties a zone", tried: reset_empties },
    Rule { claim: "a write at the pointer moves it by its length, and is read again", tried: write_moves_pointer },
    Rule { claim: "a write elsewhere is refused and moves nothing", tried: write_elsewhere_is_refused },
    Rule { claim: "the right write after a refused one succeeds", tried: right_write_after_refused },
    Rule { claim: "FUA and flushes are carried out", tried: flushes_are_done },
    Rule { claim: "a zone is opened and closed", tried: open_and_close },
    Rule { claim: "a zone is written up to its capacity and no further", tried: filled_to_capacity },
    Rule { claim: "finish fills a zone, which then takes no write", tried: finish_fills },
    Rule { claim: "no more zones are open than may be", tried: open_limit_is_kept },
];

/// A disk on which rules are tried.
pub struct Trial<'a> {
    shard: &'a mut Shard,
    disk: DeviceId,
    limits: Limits,
    unit: u32,
}

/// Most zones that are opened to see whether a limit is kept.
const MOST_OPENED: u32 = 1024;

impl<'a> Trial<'a> {
    /// A trial of `disk`, which has zones.
    ///
    /// # Errors
    /// If it has none.
    pub fn new(shard: &'a mut Shard, disk: DeviceId) -> Result<Self, String> {
        let limits = shard.stack.limits(disk).clone();
        let zoned = limits.zoned.as_ref().ok_or("it has no zones")?;
        let unit = zoned.write_granularity_bytes.max(limits.logical_block_bytes) / SECTOR_BYTES;
        Ok(Self { shard, disk, unit, limits })
    }

    /// Tries `rules` in their order, and tells how many are done.
    pub fn run(&mut self, rules: &[Rule], progress: &mut dyn FnMut(u64, u64)) -> Vec<(&'static str, Verdict)> {
        let mut found = Vec::new();
        for rule in rules {
            progress(found.len() as u64, rules.len() as u64);
            found.push((rule.claim, (rule.tried)(self)));
        }
        found
    }

    /// Makes the zones empty again that rules of [`TRIES`] have used.
    pub fn clean_up(&mut self) {
        for zone in self.sequential(2) {
            let _ = self.run_bio(plain(Op::ZoneReset, zone.start));
        }
    }

    fn run_bio(&mut self, bio: Bio) -> Result<Bio, Failed> {
        let done = Reach::run(&mut *self.shard, self.disk, bio);
        let (status, bio) = done.map_err(|why| Failed { status: Status::Io, why })?;
        let why = || bio.why().map_or(status.to_string(), |why| why.to_string());
        if status.is_ok() { Ok(*bio) } else { Err(Failed { status, why: why() }) }
    }

    fn report(&mut self, from: Sector, room: usize) -> Vec<Zone> {
        let done = self.run_bio(Bio::new(Op::ReportZones, from, 0, Payload::Zones(Vec::with_capacity(room))));
        match done.map(|mut bio| std::mem::take(&mut bio.payload)) {
            Ok(Payload::Zones(zones)) => zones,
            _ => Vec::new(),
        }
    }

    fn zones(&mut self) -> Vec<Zone> {
        self.report(Sector::ZERO, self.limits.zones() as usize)
    }

    /// The zone at `start` as it is now.
    fn zone(&mut self, start: Sector) -> Result<Zone, Verdict> {
        self.report(start, 1).first().copied().ok_or_else(|| broken(format!("the zone at {start} is not reported")))
    }

    /// The first `count` sequential zones that can be written.
    fn sequential(&mut self, count: usize) -> Vec<Zone> {
        let dead = |zone: &Zone| matches!(zone.cond, Condition::ReadOnly | Condition::Offline);
        let usable = |zone: &Zone| zone.kind == ZoneKind::Sequential && !dead(zone);
        self.zones().into_iter().filter(usable).take(count).collect()
    }

    /// An empty zone: the first or the second that can be written.
    fn empty(&mut self, number: usize) -> Result<Zone, Verdict> {
        let zones = self.sequential(2);
        let zone = zones.get(number).ok_or_else(|| Verdict::NotTried("it has too few sequential zones".into()))?;
        self.must(plain(Op::ZoneReset, zone.start))?;
        self.zone(zone.start)
    }

    /// Does what has to succeed.
    fn must(&mut self, bio: Bio) -> Result<Bio, Verdict> {
        let what = format!("{bio:?}");
        self.run_bio(bio).map_err(|failed| broken(format!("{what} failed: {}", failed.why)))
    }

    /// Does what has to fail; how it did.
    fn must_not(&mut self, bio: Bio) -> Result<Status, Verdict> {
        let what = format!("{bio:?}");
        match self.run_bio(bio) {
            Ok(_) => Err(broken(format!("{what} succeeded"))),
            Err(failed) => Ok(failed.status),
        }
    }

    fn must_be_at(&mut self, start: Sector, pointer: Sector) -> Result<(), Verdict> {
        let wp = self.zone(start)?.wp;
        if wp == pointer { Ok(()) } else { Err(broken(format!("the pointer is at {wp}, not at {pointer}"))) }
    }

    fn must_be_in(&mut self, start: Sector, wanted: Condition) -> Result<(), Verdict> {
        let cond = self.zone(start)?.cond;
        let is = || broken(format!("the zone is {}, not {}", cond.name(), wanted.name()));
        if cond == wanted { Ok(()) } else { Err(is()) }
    }

    fn write(&self, sector: Sector, sectors: u32) -> Bio {
        let data = Data::zeroed((sectors * SECTOR_BYTES) as usize);
        data.fill(sector.0 as u8 | 1);
        Bio::new(Op::Write, sector, sectors, Payload::Data(data))
    }
}

/// How something failed.
struct Failed {
    status: Status,
    why: String,
}

fn plain(op: Op, sector: Sector) -> Bio {
    Bio::new(op, sector, 0, Payload::None)
}

fn broken(how: String) -> Verdict {
    Verdict::Broken(how)
}

/// A rule is kept unless something says otherwise.
fn kept(tried: Result<(), Verdict>) -> Verdict {
    tried.err().unwrap_or(Verdict::Kept)
}

fn zones_are_in_line(trial: &mut Trial<'_>) -> Verdict {
    let (zones, capacity) = (trial.zones(), trial.limits.capacity);
    let size = trial.limits.zoned.as_ref().map_or(0, |zoned| u64::from(zoned.zone_sectors));
    let mut next = 0;
    for zone in &zones {
        let len = size.min(capacity - next);
        if zone.start.0 != next || zone.len != len {
            return broken(format!("a zone has {} sectors at {}; expected are {len} at {next}", zone.len, zone.start));
        }
        next += len;
    }
    if next == capacity { Verdict::Kept } else { broken(format!("they end at sector {next} of {capacity}")) }
}

fn pointers_are_in_their_zones(trial: &mut Trial<'_>) -> Verdict {
    let strays = |zone: &Zone| {
        let offset = zone.wp.0.wrapping_sub(zone.start.0);
        zone.cond.has_write_pointer() && (offset > zone.capacity || zone.cond == Condition::Empty && offset != 0)
    };
    match trial.zones().into_iter().find(strays) {
        None => Verdict::Kept,
        Some(zone) => {
            broken(format!("the zone at {} is {}, with its pointer at {}", zone.start, zone.cond.name(), zone.wp))
        }
    }
}

fn written_is_read(trial: &mut Trial<'_>) -> Verdict {
    let unit = trial.limits.block_sectors();
    let has_data = |zone: &Zone| match zone.cond {
        Condition::NotWp | Condition::Full => true,
        cond => cond.has_write_pointer() && zone.wp.0 >= zone.start.0 + u64::from(unit),
    };
    let Some(zone) = trial.zones().into_iter().find(has_data) else {
        return Verdict::NotTried("nothing is written on it".into());
    };
    let memory = Payload::Data(Data::zeroed((unit * SECTOR_BYTES) as usize));
    kept(trial.must(Bio::new(Op::Read, zone.start, unit, memory)).map(drop))
}

fn reset_empties(trial: &mut Trial<'_>) -> Verdict {
    kept(trial.empty(0).and_then(|zone| {
        trial.must_be_in(zone.start, Condition::Empty)?;
        trial.must_be_at(zone.start, zone.start)
    }))
}

fn write_moves_pointer(trial: &mut Trial<'_>) -> Verdict {
    kept(trial.empty(0).and_then(|zone| {
        let unit = trial.unit;
        trial.must(trial.write(zone.start, unit))?;
        trial.must_be_at(zone.start, zone.start + u64::from(unit))?;
        let memory = Payload::Data(Data::zeroed((unit * SECTOR_BYTES) as usize));
        let read = trial.must(Bio::new(Op::Read, zone.start, unit, memory))?;
        let is_same = read.payload.segments()[0].to_vec().iter().all(|byte| *byte == zone.start.0 as u8 | 1);
        if is_same { Ok(()) } else { Err(broken(format!("other data is read at sector {}", zone.start))) }
    }))
}

fn write_elsewhere_is_refused(trial: &mut Trial<'_>) -> Verdict {
    kept(trial.empty(0).and_then(|zone| {
        trial.must_not(trial.write(zone.start + u64::from(trial.unit * 2), trial.unit))?;
        trial.must_be_at(zone.start, zone.start)
    }))
}

fn right_write_after_refused(trial: &mut Trial<'_>) -> Verdict {
    kept(trial.empty(0).and_then(|zone| {
        trial.must_not(trial.write(zone.start + u64::from(trial.unit * 2), trial.unit))?;
        trial.must(trial.write(zone.start, trial.unit)).map(drop)
    }))
}

fn flushes_are_done(trial: &mut Trial<'_>) -> Verdict {
    if !trial.limits.write_cache {
        return Verdict::NotTried("it has no write cache".into());
    }
    kept(trial.empty(0).and_then(|zone| {
        trial.must(trial.write(zone.start, trial.unit).with_flags(Flags::FUA))?;
        trial.must(plain(Op::Flush, Sector::ZERO)).map(drop)
    }))
}

fn open_and_close(trial: &mut Trial<'_>) -> Verdict {
    kept(trial.empty(0).and_then(|zone| {
        trial.must(plain(Op::ZoneOpen, zone.start))?;
        trial.must_be_in(zone.start, Condition::ExplicitOpen)?;
        trial.must(trial.write(zone.start, trial.unit))?;
        trial.must(plain(Op::ZoneClose, zone.start))?;
        trial.must_be_in(zone.start, Condition::Closed)
    }))
}

fn filled_to_capacity(trial: &mut Trial<'_>) -> Verdict {
    kept(trial.empty(0).and_then(|zone| {
        // In long commands, of whole units.
        let most = trial.limits.max_sectors.unwrap_or(2048).clamp(trial.unit, 2048);
        let step = u64::from(most - most % trial.unit);
        let end = zone.start.0 + zone.capacity;
        let mut at = zone.start.0;
        while at < end {
            let sectors = step.min(end - at);
            trial.must(trial.write(Sector(at), sectors as u32))?;
            at += sectors;
        }
        trial.must_be_in(zone.start, Condition::Full)?;
        // Behind the capacity, or where the zone began if all of it is.
        let beyond = if zone.capacity < zone.len { Sector(end) } else { zone.start };
        trial.must_not(trial.write(beyond, trial.unit)).map(drop)
    }))
}

fn finish_fills(trial: &mut Trial<'_>) -> Verdict {
    kept(trial.empty(1).and_then(|zone| {
        trial.must(trial.write(zone.start, trial.unit))?;
        trial.must(plain(Op::ZoneFinish, zone.start))?;
        trial.must_be_in(zone.start, Condition::Full)?;
        trial.must_not(trial.write(zone.start + u64::from(trial.unit), trial.unit)).map(drop)
    }))
}

fn open_limit_is_kept(trial: &mut Trial<'_>) -> Verdict {
    let zoned = trial.limits.zoned.as_ref();
    let Some(most) = zoned.and_then(|zoned| zoned.max_open.or(zoned.max_active)) else {
        return Verdict::NotTried("it has no limit".into());
    };
    if most > MOST_OPENED {
        return Verdict::NotTried(format!("it has a limit of {most}"));
    }
    let zones = trial.sequential(most as usize + 1);
    if zones.len() <= most as usize {
        return Verdict::NotTried("it has fewer zones than may be open".into());
    }
    let tried = open_all(trial, &zones);
    for zone in &zones {
        let _ = trial.run_bio(plain(Op::ZoneReset, zone.start));
    }
    kept(tried)
}

/// Opens all of these zones, of which the last has to be refused.
fn open_all(trial: &mut Trial<'_>, zones: &[Zone]) -> Result<(), Verdict> {
    for zone in trial.zones().iter().filter(|zone| zone.cond.is_active()) {
        trial.must(plain(Op::ZoneReset, zone.start))?;
    }
    let (last, others) = zones.split_last().expect("there is one more than may be open");
    for zone in others {
        trial.must(plain(Op::ZoneReset, zone.start))?;
        trial.must(plain(Op::ZoneOpen, zone.start))?;
    }
    trial.must(plain(Op::ZoneReset, last.start))?;
    match trial.must_not(plain(Op::ZoneOpen, last.start))? {
        Status::ZoneOpenResource | Status::ZoneActiveResource => Ok(()),
        status => Err(broken(format!("one zone too many is refused as \"{status}\""))),
    }
}

#[cfg(test)]
mod tests {
    use shingle_core::device::null::{NullConfig, NullDevice, NullZones};

    use super::*;

    fn found(config: &NullConfig, rules: &[Rule]) -> Vec<(&'static str, Verdict)> {
        let mut shard = Shard::new().unwrap();
        let disk = shard.stack.add(Box::new(NullDevice::new(config).unwrap())).unwrap();
        Trial::new(&mut shard, disk).unwrap().run(rules, &mut |_, _| ())
    }

    fn disk() -> NullConfig {
        let zones = NullZones { zone_capacity: Some(1536), conventional: 1, max_open: Some(4), ..NullZones::new(2048) };
        NullConfig { memory_backed: true, write_cache: true, zoned: Some(zones), ..NullConfig::new(16 * 2048) }
    }

    #[test]
    fn a_disk_that_keeps_all_rules_is_found_to_do_so() {
        for (claim, verdict) in found(&disk(), &LOOKS).into_iter().chain(found(&disk(), &TRIES)) {
            assert_eq!(verdict, Verdict::Kept, "{claim}");
        }
    }

    #[test]
    fn a_disk_that_forgets_what_was_written_breaks_that_rule_and_no_other() {
        let config = NullConfig { memory_backed: false, ..disk() };
        let broken: Vec<_> =
            found(&config, &TRIES).into_iter().filter(|(_, verdict)| *verdict != Verdict::Kept).collect();
        assert!(broken.len() == 1 && broken[0].0.contains("is read again"), "{broken:?}");
        assert!(matches!(&broken[0].1, Verdict::Broken(how) if how.contains("other data")), "{broken:?}");
    }

    #[test]
    fn what_a_disk_does_not_have_is_not_tried() {
        let zones = NullZones { max_open: None, ..disk().zoned.unwrap() };
        let config = NullConfig { write_cache: false, zoned: Some(zones), ..disk() };
        let not_tried =
            found(&config, &TRIES).into_iter().filter(|(_, verdict)| matches!(verdict, Verdict::NotTried(_)));
        let claims: Vec<_> = not_tried.map(|(claim, _)| claim).collect();
        assert_eq!(claims, ["FUA and flushes are carried out", "no more zones are open than may be"]);
    }
}
