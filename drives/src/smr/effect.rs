//! What a bio does to the disk, at once, on arrival: the rules of zones, the data, and the queue that it joins.

use alloc::vec::Vec;
use core::ops::Range;

use super::disk::SmrDisk;
use super::jobs::{Command, Effect, LinkJob, LinkWork, MediaWork};
use shingle_core::block::{Bio, Data, Op, Payload, Reason, Refusal};
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, ZoneKind, ZoneNo};

/// What a bio does, at once.
impl SmrDisk {
    pub(super) fn take_effect(&mut self, bio: &mut Bio) -> Result<Effect, Refusal> {
        match bio.op {
            Op::Read => self.read(bio),
            Op::Write => self.write(bio),
            Op::Flush => Ok(Effect::default()),
            Op::ReportZones => {
                let Payload::Zones(report) = &mut bio.payload else { return Err(Reason::NoRoom.into()) };
                let room = report.capacity() - report.len();
                report.extend(self.zones.zones(bio.sector).take(room));
                Ok(Effect::default())
            }
            Op::ZoneOpen | Op::ZoneClose | Op::ZoneFinish | Op::ZoneReset | Op::ZoneResetAll => self.manage(bio),
            Op::ZoneAppend | Op::WriteZeroes | Op::Discard => Err(Reason::NotSupported.into()),
        }
    }

    fn read(&mut self, bio: &Bio) -> Result<Effect, Refusal> {
        let zone = self.zones.check_read(bio.sector)?;
        if let Some(medium) = &self.medium {
            medium.read(bio.sector, bio.sectors, &bio.payload)?;
        }
        let missing = self.on_medium_before(zone, bio.sector, bio.end()).0.saturating_sub(bio.sector.0);
        Ok(Effect { missing: missing.min(bio.sectors.into()) as u32, before: None })
    }

    /// Where, in `start..end` of `zone`, that part begins which is answered without the medium: it is in the cache or on its
    /// way there, or was never written.
    fn on_medium_before(&self, zone: ZoneNo, start: Sector, end: Sector) -> Sector {
        let pending = self.pending_writes(zone).filter(|(_, void)| !void).map(|(range, _)| range);
        if self.zones.geometry().kind(zone) == ZoneKind::Conventional {
            let covered = pending.into_iter().any(|write| write.start <= start && end <= write.end);
            return if covered { start } else { end };
        }
        let written = self.zones.geometry().start(zone) + u64::from(self.zones.state(zone).wp);
        pending.map(|write| write.start).fold(written, Sector::min)
    }

    /// Writes of `zone` that the medium does not have, and whether they are void.
    pub(super) fn pending_writes(&self, zone: ZoneNo) -> impl Iterator<Item = (Range<Sector>, bool)> {
        let geometry = self.zones.geometry();
        let cached = self.cache.of(zone).map(|entry| (entry.start..entry.end(), entry.void));
        let arriving = match &self.link {
            Some(LinkJob { work: LinkWork::Write(command, _), .. }) => Some(command),
            _ => None,
        };
        let commands = arriving.into_iter().chain(&self.writes).chain(&self.outside);
        let queued = commands.filter(move |command| command.bio.op == Op::Write);
        let queued = queued.filter(move |command| geometry.zone_of(command.bio.sector) == zone);
        cached.chain(queued.map(|command| (command.rest(), command.void)))
    }

    fn write(&mut self, bio: &Bio) -> Result<Effect, Refusal> {
        let zone = self.zones.begin_write(bio.sector, bio.sectors)?;
        let before = self.keep(bio, self.zones.geometry().kind(zone))?;
        self.zones.advance(zone, bio.sectors)?;
        Ok(Effect { missing: 0, before })
    }

    /// Keeps the data of a write, if data is kept; what it replaces in a conventional zone.
    fn keep(&mut self, bio: &Bio, kind: ZoneKind) -> Result<Option<Data>, Refusal> {
        let Some(medium) = &mut self.medium else { return Ok(None) };
        let before = (kind == ZoneKind::Conventional).then(|| Data::zeroed(bio.sectors as usize * 512));
        if let Some(before) = &before {
            medium.read(bio.sector, bio.sectors, &Payload::Data(before.clone()))?;
        }
        medium.write(bio.sector, bio.sectors, &bio.payload)?;
        Ok(before)
    }

    /// Zone management; `missing` tells whether the medium has to change.
    fn manage(&mut self, bio: &Bio) -> Result<Effect, Refusal> {
        let zone = self.zones.zone_at(bio.sector)?;
        let before = self.zones.state(zone).cond;
        let changes = match bio.op {
            Op::ZoneOpen => return Ok(self.zones.open(zone).map(|()| Effect::default())?),
            Op::ZoneClose => return Ok(self.zones.close(zone).map(|()| Effect::default())?),
            Op::ZoneFinish => {
                self.zones.finish(zone)?;
                before != Condition::Full
            }
            Op::ZoneReset => {
                self.zones.reset(zone)?;
                self.forget(zone)?;
                before != Condition::Empty
            }
            _ => self.reset_all()?,
        };
        Ok(Effect { missing: changes.into(), before: None })
    }

    fn reset_all(&mut self) -> Result<bool, Refusal> {
        let mut emptied = Vec::new();
        let done = self.zones.reset_all(|zone| emptied.push(zone));
        let forgotten: Vec<_> = emptied.iter().map(|zone| self.forget(*zone)).collect();
        done?;
        forgotten.into_iter().collect::<Result<(), Reason>>()?;
        Ok(!emptied.is_empty())
    }

    /// The zone was reset: its data is gone, and what is still on its way to it goes nowhere.
    fn forget(&mut self, zone: ZoneNo) -> Result<(), Reason> {
        let geometry = *self.zones.geometry();
        let at_head = self.media.as_ref().is_some_and(|job| matches!(job.work, MediaWork::Destage(at) if at == zone));
        self.cache.void(zone, at_head);
        let arriving = match &mut self.link {
            Some(LinkJob { work: LinkWork::Write(command, _), .. }) => Some(command),
            _ => None,
        };
        let commands = arriving.into_iter().chain(&mut self.writes).chain(&mut self.outside);
        commands.filter(|command| geometry.zone_of(command.bio.sector) == zone).for_each(|command| command.void = true);
        let Some(medium) = &mut self.medium else { return Ok(()) };
        medium.discard(geometry.start(zone), geometry.len(zone))
    }

    pub(super) fn enqueue(&mut self, command: Command) {
        match command.bio.op {
            Op::Read | Op::Write => {
                self.outside.push_back(command);
                self.admit();
            }
            Op::Flush => self.flushes.push_back(command),
            Op::ZoneFinish | Op::ZoneReset | Op::ZoneResetAll if command.missing > 0 => self.chores.push_back(command),
            _ => self.answers.push_back(command),
        }
    }

    /// Lets commands into the queue as long as it has room.
    pub(super) fn admit(&mut self) {
        while self.queued < self.config.link.depth
            && let Some(command) = self.outside.pop_front()
        {
            self.queued += 1;
            match command.bio.op {
                Op::Write => self.writes.push_back(command),
                _ if command.missing == 0 => self.answers.push_back(command),
                _ => self.reads.push(command),
            }
        }
    }
}
