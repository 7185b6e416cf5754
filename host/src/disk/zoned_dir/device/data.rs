//! Reads, writes and appends.

use shingle_core::block::{Cx, Flags, Op, Reason, Status};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{ZoneKind, ZoneNo};
use shingle_sys::Request;

use super::super::directory::bytes;
use super::presence::Pending;
use super::{Step, Work, ZoneJob, ZonedDir};
use crate::disk::transfer::{ENOMEM, Way, lend, way_of, zero_from};

impl ZonedDir {
    pub(super) fn read(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) -> Result<(), Reason> {
        let sector = self.bio(job).sector;
        self.zones.check_read(sector).map_err(|error| self.zones.fault(sector, error))?;
        let offset = self.zones.geometry().offset_in_zone(sector);
        let nothing_there = self.zones.geometry().kind(zone) == ZoneKind::Sequential
            && !self.lanes.contains_key(&zone)
            && offset >= self.zones.state(zone).wp;
        if nothing_there {
            zero_from(&self.bio(job).payload, 0);
            self.finish(job, Status::Ok, cx);
            return Ok(());
        }
        self.job_with_file(job, zone, bytes(offset), cx);
        Ok(())
    }

    /// A write, an append or zeroes, at the moment when it is its turn.
    pub(super) fn write(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) -> Result<(), Reason> {
        self.given_up(zone).map_or(Ok(()), Err)?;
        let (op, sector, sectors) = (self.bio(job).op, self.bio(job).sector, self.bio(job).sectors);
        let begun = match op {
            Op::ZoneAppend => self.zones.begin_append(zone, sectors),
            _ => self.zones.begin_write(sector, sectors).map(|_| sector),
        };
        let sector = begun.map_err(|error| self.zones.fault(sector, error))?;
        // At once, as a drive that takes commands one after the other: a write that fills its zone gives the zone's resources
        // back before the next command is judged, also one to another zone whose file is open already. After a failure the
        // file tells where the pointer is.
        self.zones.advance(zone, sectors);
        if let (Op::ZoneAppend, Work::Bio(bio)) = (op, &mut self.jobs[job].work) {
            bio.sector = sector;
        }
        self.job_with_file(job, zone, bytes(self.zones.geometry().offset_in_zone(sector)), cx);
        Ok(())
    }

    /// Moves what is left of the job's data.
    pub(super) fn transfer(&mut self, job: usize, cx: &mut Cx<'_>) {
        let ZoneJob { work: Work::Bio(bio), file: Some(file), at, skip, step, .. } = &mut self.jobs[job] else {
            unreachable!("data belongs to a bio, and its file is open")
        };
        *step = Step::Transfer;
        let (file, at, skip, way) = (file.clone(), *at, *skip, way_of(bio.op));
        let Some(payload) = lend(&mut bio.payload, self.direct) else { return self.transferred(job, -ENOMEM, cx) };
        let durable = bio.flags.has(Flags::FUA);
        let request = match way {
            Way::FromDisk => Request::Read { file, at, payload, skip },
            Way::ToDisk => Request::Write { file, at, payload, skip, durable },
        };
        self.ask(job, request, cx);
    }

    pub(super) fn transferred(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        let reads = self.bio(job).op == Op::Read;
        let length = self.bio(job).payload.bytes();
        match result {
            0 if reads => self.read_to_end(job, cx),
            ..0 if reads => self.fail(job, self.reason_of(self.jobs[job].zone, "reading", result), cx),
            ..=0 => self.write_failed(job, result, cx),
            done => {
                let before = self.jobs[job].skip;
                let skip = before + done as usize;
                // Part of a sector is what a write left that failed or is under way. The rest of it may be another write's by now, so the
                // sector is read again as a whole.
                let skip = if reads { skip - skip % SECTOR_BYTES as usize } else { skip };
                self.jobs[job].skip = skip;
                match (skip == length, reads) {
                    (false, true) if skip == before => self.read_to_end(job, cx),
                    (false, _) => self.transfer(job, cx),
                    (true, true) => self.was_read(job, cx),
                    // The kernel made a FUA write durable already.
                    (true, false) => self.written(job, self.bio(job).flags.has(Flags::FUA), cx),
                }
            }
        }
    }

    /// A read met the end of the file. What is not there reads as zeroes, and what was read before stays.
    fn read_to_end(&mut self, job: usize, cx: &mut Cx<'_>) {
        match self.check_end(job) {
            Err(reason) => self.fail(job, reason, cx),
            Ok(()) => {
                zero_from(&self.bio(job).payload, self.jobs[job].skip);
                self.was_read(job, cx);
            }
        }
    }

    /// All data of a read is there. What lies beyond the last write that is done is no part of the zone: part of a write that
    /// is under way or has failed.
    fn was_read(&mut self, job: usize, cx: &mut Cx<'_>) {
        let (at, zone) = (self.jobs[job].at, self.jobs[job].zone);
        let (payload, end) = (&self.bio(job).payload, self.end_of_data(zone));
        if self.zones.geometry().kind(zone) == ZoneKind::Sequential && at + payload.bytes() as u64 > end {
            zero_from(payload, end.saturating_sub(at) as usize);
        }
        self.finish(job, Status::Ok, cx);
    }

    /// All data of a write is in the file.
    pub(super) fn written(&mut self, job: usize, durable: bool, cx: &mut Cx<'_>) {
        let zone = self.jobs[job].zone;
        match self.jobs[job].file.clone().filter(|_| durable) {
            // The promise of a flush, so what a flush looks at. The verdict stays in `flush`.
            Some(file) => {
                let _ = self.check_file(zone, &file);
                self.jobs[job].step = Step::Names;
                self.check_names_for(Pending::Job(job), cx);
            }
            None => {
                self.flush.mark(zone);
                self.end_write(job, cx);
            }
        }
    }

    /// Ends a write all of whose data is in the file.
    pub(super) fn end_write(&mut self, job: usize, cx: &mut Cx<'_>) {
        // A sync of the zone that failed meanwhile made it read-only, and its pointer tells nothing.
        match self.given_up(self.jobs[job].zone) {
            Some(reason) => self.fail(job, reason, cx),
            None => self.finish(job, Status::Ok, cx),
        }
    }

    /// Why nothing more is written to `zone`, if that is so.
    pub(super) fn given_up(&self, zone: ZoneNo) -> Option<Reason> {
        self.flush.why_failed(zone).map(|why| Reason::Host(Status::Io, why.clone()))
    }
}
