//! Opening and closing zone files, through the ring: on a network file system both can take as long as its server does.

use std::collections::hash_map::Entry;
use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use shingle_core::block::{Cx, Op, Reason, Status};
use shingle_core::sector::SECTOR_BYTES;
use shingle_core::zone::{Condition, ZoneKind, ZoneNo};
use shingle_sys::{Answer, Fd, Request};

use super::super::directory::{OPEN_FLAGS, zone_name};
use super::super::flush::Round;
use super::{CLOSE, OPEN, Step, Work, ZonedDir};
use crate::disk::transfer::{ENOBUFS, is_out_of_descriptors, was_interrupted};

/// What waits for the file of a zone.
pub(super) enum Waiter {
    Job(usize),
    /// The zone's sync for a flush.
    Sync(Round),
}

/// A zone file that is being opened, and what waits for it.
#[derive(Default)]
pub(super) struct Opening {
    opened: Answer<OwnedFd>,
    waiters: Vec<Waiter>,
}

/// A zone file that has left the cache and is closed after its sync.
pub(super) struct Closing {
    pub zone: ZoneNo,
    pub round: Round,
    pub file: Fd,
}

impl ZonedDir {
    /// Goes on with `waiter` when the file of `zone` is open, which is at once if it is in the cache.
    pub(super) fn with_file(&mut self, zone: ZoneNo, waiter: Waiter, cx: &mut Cx<'_>) {
        if let Some(file) = self.files.find(zone) {
            return self.has_file(zone, waiter, file, cx);
        }
        match self.opening.entry(zone) {
            Entry::Occupied(mut opening) => opening.get_mut().waiters.push(waiter),
            Entry::Vacant(opening) => {
                opening.insert(Opening::default()).waiters.push(waiter);
                self.open_file(zone, cx);
            }
        }
    }

    fn open_file(&mut self, zone: ZoneNo, cx: &mut Cx<'_>) {
        let Some(opened) = self.opening.get(&zone).map(|opening| opening.opened.clone()) else { return };
        self.make_room(cx);
        let geometry = self.zones.geometry();
        let name = CString::new(zone_name(geometry, zone)).expect("the name of a zone file contains no NUL");
        let access = if self.limits.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        // What is written goes to the end of the file, wherever that is. A file that somebody has cut stays too short so, and
        // the next look at its size tells; a write to its place would hide the hole.
        let appends = geometry.kind(zone) == ZoneKind::Sequential && !self.limits.read_only;
        let append = if appends { OFlags::APPEND } else { OFlags::empty() };
        let direct = if self.direct.is_some() { OFlags::DIRECT } else { OFlags::empty() };
        let flags = access | append | direct | OPEN_FLAGS;
        let (directory, flags) = (self.directory.fd.clone(), flags.bits().cast_signed());
        let request = Request::Open { directory, name, flags, opened };
        if self.ask_for_disk(OPEN | u64::from(zone.0), request, cx).is_err() {
            self.opened(zone, -ENOBUFS, cx);
        }
    }

    /// The kernel has opened the file of `zone`, or could not.
    pub(super) fn opened(&mut self, zone: ZoneNo, result: i32, cx: &mut Cx<'_>) {
        // Others use up the descriptors of the process, or all files of the machine.
        if was_interrupted(result) || is_out_of_descriptors(result) && self.close_oldest(cx) {
            return self.open_file(zone, cx);
        }
        let Some(Opening { opened, waiters }) = self.opening.remove(&zone) else { return };
        let outcome = match opened.take().map(Fd::from) {
            Some(file) => self.check_file(zone, &file).map(|()| file),
            None => {
                let why = std::io::Error::from_raw_os_error(-result);
                self.notice(zone, format_args!("cannot be opened: {why}; restore the file or mend its mode"));
                Err(self.reason_of(zone, "opening", result))
            }
        };
        if let Ok(file) = &outcome {
            self.files.insert(zone, file.clone());
        }
        for waiter in waiters {
            match &outcome {
                Ok(file) => self.has_file(zone, waiter, file.clone(), cx),
                Err(reason) => self.has_no_file(zone, waiter, reason.clone(), cx),
            }
        }
    }

    fn has_file(&mut self, zone: ZoneNo, waiter: Waiter, file: Fd, cx: &mut Cx<'_>) {
        let job = match waiter {
            Waiter::Sync(round) => return self.start_sync(zone, round, file, cx),
            Waiter::Job(job) => job,
        };
        self.jobs[job].file = Some(file);
        if let Err(reason) = self.use_file(job, zone, cx) {
            self.has_no_file(zone, waiter, reason, cx);
        }
    }

    /// Has a job that the rules of zones have allowed do its work in its open file.
    fn use_file(&mut self, job: usize, zone: ZoneNo, cx: &mut Cx<'_>) -> Result<(), Reason> {
        let op = self.op(job);
        if op != Op::Read {
            // The zone may have failed while the file was opened.
            self.given_up(zone).map_or(Ok(()), Err)?;
        }
        match op {
            Op::Read | Op::Write | Op::ZoneAppend => self.transfer(job, cx),
            // What makes zeroes sets the file's size, and so would hide that it was cut.
            Op::WriteZeroes => {
                self.check_job_file(job, zone)?;
                self.make_zeroes(job, cx);
            }
            _ => {
                self.check_job_file(job, zone)?;
                self.set_size(job, cx);
            }
        }
        Ok(())
    }

    fn has_no_file(&mut self, zone: ZoneNo, waiter: Waiter, reason: Reason, cx: &mut Cx<'_>) {
        let job = match waiter {
            Waiter::Sync(round) => return self.flush.not_started(zone, round, Status::from(&reason)),
            Waiter::Job(job) => job,
        };
        let writes = matches!(self.op(job), Op::Write | Op::ZoneAppend | Op::WriteZeroes);
        if writes && self.zones.geometry().kind(zone) == ZoneKind::Sequential {
            // Nothing was written. A zone that has become read-only keeps its pointer, and one that was opened for this is closed.
            let _ = self.zones.set_write_pointer(zone, (self.jobs[job].at / u64::from(SECTOR_BYTES)) as u32);
            if self.zones.state(zone).cond == Condition::ImplicitOpen {
                let _ = self.zones.close(zone);
            }
        }
        self.fail(job, reason, cx);
    }

    /// Closes files until there is room for one more. One that changed is synced first, through the open file.
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        while let Some((zone, file)) = self.files.evict() {
            self.close_after_sync(zone, file, cx);
        }
    }

    /// Closes the file that was not used for the longest time. Returns false if all files have I/O in flight.
    fn close_oldest(&mut self, cx: &mut Cx<'_>) -> bool {
        let oldest = self.files.evict_oldest();
        oldest.map(|(zone, file)| self.close_after_sync(zone, file, cx)).is_some()
    }

    fn close_after_sync(&mut self, zone: ZoneNo, file: Fd, cx: &mut Cx<'_>) {
        match self.flush.closing(zone) {
            Some(round) => {
                self.closing.push(Closing { zone, round, file: file.clone() });
                self.start_sync(zone, round, file, cx);
            }
            None => self.close(file, cx),
        }
    }

    /// Place of a file in the list of those that have left the cache and are synced for `round`.
    pub(super) fn place_of_closing(&self, zone: ZoneNo, round: Round) -> Option<usize> {
        self.closing.iter().position(|closing| (closing.zone, closing.round) == (zone, round))
    }

    pub(super) fn close(&mut self, file: Fd, cx: &mut Cx<'_>) {
        if let Ok(file) = file.into_owned() {
            // A request that the ring refuses is dropped, and the file closed with it.
            let _ = self.ask_for_disk(CLOSE, Request::Close { file: Some(file) }, cx);
        }
    }

    /// What a job does to its zone. A part of a reset of all zones is a reset.
    pub(super) fn op(&self, job: usize) -> Op {
        match &self.jobs[job].work {
            Work::Bio(bio) => bio.op,
            Work::PartOf(_) => Op::ZoneReset,
        }
    }

    /// The job waits for its file.
    pub(super) fn job_with_file(&mut self, job: usize, zone: ZoneNo, at: u64, cx: &mut Cx<'_>) {
        (self.jobs[job].step, self.jobs[job].at) = (Step::Open, at);
        self.with_file(zone, Waiter::Job(job), cx);
    }

    fn check_job_file(&mut self, job: usize, zone: ZoneNo) -> Result<(), Reason> {
        let file = self.jobs[job].file.clone();
        file.map_or(Ok(()), |file| self.check_file(zone, &file))
    }
}
