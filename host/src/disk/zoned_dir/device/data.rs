//! Reads, writes and appends, and what a failed write leaves behind.

use shingle_core::block::{Cx, Flags, Op, Reason, Status};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{ZoneKind, ZoneNo};
use shingle_sys::Request;

use super::super::directory::bytes;
use super::{Step, Work, ZoneJob, ZonedDir};
use crate::disk::files::fd;
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
        let file = self.file(zone, cx)?;
        (self.jobs[job].file, self.jobs[job].at) = (Some(file), bytes(offset));
        self.transfer(job, cx);
        Ok(())
    }

    /// A write, an append or zeroes, at the moment when it is its turn.
    pub(super) fn write(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) -> Result<(), Reason> {
        self.given_up(zone).map_or(Ok(()), Err)?;
        let file = self.file(zone, cx)?;
        let (op, sector, sectors) = (self.bio(job).op, self.bio(job).sector, self.bio(job).sectors);
        // What makes zeroes sets the file's size, and so would hide that it was cut.
        if op == Op::WriteZeroes {
            self.check_file(zone, &file)?;
        }
        let begun = match op {
            Op::ZoneAppend => self.zones.begin_append(zone, sectors),
            _ => self.zones.begin_write(sector, sectors).map(|_| sector),
        };
        let sector = begun.map_err(|error| self.zones.fault(sector, error))?;
        // At once, as a drive that takes commands one after the other: a write that fills its zone gives the zone's resources
        // back before the next command is judged. After a failure the file tells where the pointer is.
        self.zones.advance(zone, sectors);
        let at = bytes(self.zones.geometry().offset_in_zone(sector));
        let this = &mut self.jobs[job];
        (this.file, this.at) = (Some(file), at);
        if let (Op::ZoneAppend, Work::Bio(bio)) = (op, &mut this.work) {
            bio.sector = sector;
        }
        if op == Op::WriteZeroes {
            self.make_zeroes(job, cx)
        } else {
            self.transfer(job, cx)
        }
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
            // The end of the file; what is not there reads as zeroes, and what was read before stays.
            0 if reads => match self.check_end(job) {
                Err(reason) => self.fail(job, reason, cx),
                Ok(()) => {
                    zero_from(&self.bio(job).payload, self.jobs[job].skip);
                    self.was_read(job, cx);
                }
            },
            ..0 if reads => self.fail(job, self.reason_of(self.jobs[job].zone, "reading", result), cx),
            ..=0 => self.write_failed(job, result, cx),
            done => {
                self.jobs[job].skip += done as usize;
                match (self.jobs[job].skip == length, reads) {
                    (false, _) => self.transfer(job, cx),
                    (true, true) => self.was_read(job, cx),
                    // The kernel made a FUA write durable already.
                    (true, false) => self.written(job, self.bio(job).flags.has(Flags::FUA), cx),
                }
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
        if let (true, Some(file)) = (durable, self.jobs[job].file.clone()) {
            // The promise of a flush, so what a flush looks at. The verdict stays in `flush`.
            let _ = self.check_file(zone, &file);
            self.check_all_names();
        } else {
            self.flush.mark(zone);
        }
        // A sync of the zone that failed meanwhile made it read-only, and its pointer tells nothing.
        match self.given_up(zone) {
            Some(reason) => self.fail(job, reason, cx),
            None => self.finish(job, Status::Ok, cx),
        }
    }

    pub(super) fn write_failed(&mut self, job: usize, result: i32, cx: &mut Cx<'_>) {
        let zone = self.jobs[job].zone;
        let reason = self.reason_of(zone, "changing", result);
        let status = Status::from(&reason);
        let next_step = match status {
            Status::NoSpace => "free space on its file system, or raise the limit",
            _ => "check the kernel log",
        };
        self.notice(zone, format_args!("a change failed: {status} (errno {}); {next_step}", -result));
        self.learn_write_pointer(job, zone);
        let durable = matches!(&self.jobs[job].work, Work::Bio(bio) if bio.flags.has(Flags::FUA));
        if durable && !matches!(status, Status::NoSpace | Status::Resource) {
            // A FUA write syncs the file, and this may have been where an older write of the zone was lost.
            self.sync_failed(zone, result);
        }
        self.fail(job, reason, cx);
    }

    /// After a failure the file alone knows how far the zone is written. A partial block is no part of it.
    pub(super) fn learn_write_pointer(&mut self, job: usize, zone: ZoneNo) {
        self.flush.mark(zone);
        if self.zones.geometry().kind(zone) == ZoneKind::Conventional {
            return;
        }
        let Some(file) = self.jobs[job].file.clone() else { return };
        if self.check_file(zone, &file).is_err() {
            return;
        }
        let files = &self.directory.files;
        let learned = files.fstat(fd(&file)).and_then(|stat| {
            let (size, block) = (stat.st_size as u64, u64::from(self.block_bytes));
            let whole = size - size % block;
            if whole == size { Ok(size) } else { files.ftruncate(fd(&file), whole).map(|()| whole) }
        });
        let sectors = learned.map(|size| u32::try_from(size / u64::from(SECTOR_BYTES)).unwrap_or(u32::MAX));
        let taken = sectors.is_ok_and(|wp| self.zones.set_write_pointer(zone, wp).is_ok());
        if !taken {
            self.give_up(zone, "its write pointer cannot be learned");
        }
    }

    /// Why nothing more is written to `zone`, if that is so.
    pub(super) fn given_up(&self, zone: ZoneNo) -> Option<Reason> {
        self.flush.why_failed(zone).map(|why| Reason::Host(Status::Io, why.clone()))
    }

    /// Nothing more is written to `zone` until the disk is opened again.
    pub(super) fn give_up(&mut self, zone: ZoneNo, why: &str) {
        self.notice(zone, format_args!("{why}: the zone is read-only until the disk is opened again"));
        self.close_off(zone);
    }

    /// Makes a zone read-only, with its pointer before a write that is under way or has failed. A conventional zone has no such
    /// condition: its writes fail as those of every zone that has failed.
    pub(super) fn close_off(&mut self, zone: ZoneNo) {
        if self.zones.geometry().kind(zone) == ZoneKind::Sequential {
            let end = self.end_of_data(zone) / u64::from(SECTOR_BYTES);
            let closed = self.zones.set_write_pointer(zone, end as u32);
            // It is read-only already, or offline.
            let _ = closed.and_then(|()| self.zones.set_read_only(zone));
        }
    }
}
