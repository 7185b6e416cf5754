//! How changes of the metadata become durable.
//!
//! ```text
//!   dirty blocks ──> the log set ──> every device flushed ──> its superblock, generation + 1     now it is durable
//!                └─> the active set, in place ──> flushed ──> its superblock, generation + 1     both are equal again
//! ```
//!
//! Of two valid sets the one with the higher generation counts, of equal ones the first, which is always the active one.
//! Whatever is cut off, a set is left that is whole: while the log set is written its generation is not the higher one, and
//! while the active set is written the log set's is.
//!
//! Those who asked for a flush are told as soon as the log's superblock is durable. Zones that this commit does not name any
//! more may be used again when it is over.

use super::BLOCK_BYTES;
use super::state::{Readiness, Shared, State, Then};
use super::transfer::{Disks, data_of, finish, memory};
use super::{MemberNo, MetaBlock, Number, SetZone, ZoneSpace, zones::MemberState};
use crate::block::{Bio, Data, Flags, Reason, Status};
use crate::prelude::*;
use crate::task::Io;

/// Most blocks in one write.
const LONGEST: usize = 256;
/// Writes under way at once.
const DEPTH: usize = 64;
/// How often a commit is tried before the volume becomes read only.
const TRIES: u32 = 3;

/// What one commit does.
struct Work {
    /// Dirty blocks.
    blocks: Vec<MetaBlock>,
    /// What they are to be, in runs.
    runs: Result<Vec<(MetaBlock, Data)>, Reason>,
    /// Zones that it is the first to name.
    recorded: Vec<SetZone>,
    /// Zones that it lets go.
    leaving: Vec<SetZone>,
    /// Devices with data that is to be durable before.
    unflushed: Vec<MemberNo>,
    /// Who waits.
    waiters: Vec<(Box<Bio>, Then)>,
}

/// Commits whenever somebody wants it.
pub(super) async fn run(shared: Shared, io: Io, space: ZoneSpace) {
    let signal = shared.borrow().signals.commit.clone();
    loop {
        let work = signal.until(|| shared.borrow_mut().begin_commit()).await;
        let members = shared.borrow().volume.zones.members.clone();
        let disks = Disks { io: io.clone(), space: space.clone(), members };
        commit(&shared, &disks, work).await;
        let mut state = shared.borrow_mut();
        state.is_committing = false;
        state.notify(|signals| &signals.progress);
        state.notify(|signals| &signals.commit);
        // Whoever waits for a zone may have waited only for this.
        state.want_space();
        state.let_crowd_in();
        if state.is_suspended {
            // What was found when the metadata was loaded is settled now that something has changed.
            state.notify(|signals| &signals.clean);
        }
    }
}

async fn commit(shared: &Shared, disks: &Disks, work: Work) {
    let Work { blocks, runs, recorded, leaving, unflushed, waiters } = work;
    if blocks.is_empty() && leaving.is_empty() {
        let flushed = disks.flush(&unflushed).await;
        let mut state = shared.borrow_mut();
        state.flushed(&unflushed, flushed.is_ok());
        match &flushed {
            Ok(()) => state.failed_commits = 0,
            Err(reason) => state.commit_failed(leaving, (false, reason)),
        }
        // What is in the caches is durable now, and still not what was promised.
        let result = if state.has_lost { Err(state.loss()) } else { flushed };
        return state.answer(waiters, &result);
    }
    let is_kernel = shared.borrow().knobs.style.is_kernel();
    let logged = match &runs {
        Ok(runs) => write_log(shared, disks, runs, &unflushed).await,
        Err(reason) => Err(reason.clone().into()),
    };
    let may_count = logged.as_ref().err().is_none_or(|error| error.may_count);
    let logged = logged.map_err(|error| error.reason);
    shared.borrow_mut().flushed(&unflushed, logged.is_ok());
    let mut waiters = Some(waiters);
    if logged.is_err() || !is_kernel {
        shared.borrow_mut().answer(waiters.take().unwrap_or_default(), &logged);
    }
    let done = match (logged, &runs) {
        (Ok(()), Ok(runs)) => write_in_place(shared, disks, runs).await,
        (result, _) => result,
    };
    let mut state = shared.borrow_mut();
    state.volume.dirty.settle(&blocks, done.is_ok());
    if let Some(waiters) = waiters {
        state.answer(waiters, &done);
    }
    match &done {
        Ok(()) => {
            state.volume.record(&recorded);
            state.commit_done(&leaving, blocks.len());
        }
        Err(reason) => state.commit_failed(leaving, (may_count, reason)),
    }
}

/// Why the log was not written.
struct LogError {
    reason: Reason,
    /// Its superblock may be on the disk, whatever the disk says. Then it counts at the next start, and must not be touched.
    may_count: bool,
}

impl From<Reason> for LogError {
    fn from(reason: Reason) -> Self {
        Self { reason, may_count: false }
    }
}

/// The first half: after it, the changes are durable.
async fn write_log(
    shared: &Shared,
    disks: &Disks,
    runs: &[(MetaBlock, Data)],
    unflushed: &[MemberNo],
) -> Result<(), LogError> {
    let Some(sets) = shared.borrow().sets.clone() else { return Err(unloaded().into()) };
    write_runs(disks, sets.log, runs).await?;
    // Data first: a block that the metadata calls valid has to be there. The metadata's own device is one of these.
    let (metadata, _) = disks.space.place(sets.log);
    let mut members = unflushed.to_vec();
    if !members.contains(&metadata) {
        members.push(metadata);
    }
    disks.flush(&members).await?;
    let superblock = sets.superblock_for(sets.log, sets.superblock.generation + 1);
    let superblock = data_of(&superblock.encode())?;
    let mut result = Err(unloaded());
    for _ in 0..TRIES {
        result = disks.write_durable(sets.log, &superblock).await;
        if result.is_ok() {
            break;
        }
    }
    result.map_err(|reason| LogError { reason, may_count: true })
}

/// The second half: both sets are equal again. It is tried more than once, as the log must not be written before it is done.
async fn write_in_place(shared: &Shared, disks: &Disks, runs: &[(MetaBlock, Data)]) -> Result<(), Reason> {
    let Some(sets) = shared.borrow().sets.clone() else { return Err(unloaded()) };
    let generation = sets.superblock.generation + 1;
    let mut result = Err(unloaded());
    for _ in 0..TRIES {
        result = async {
            write_runs(disks, sets.active, runs).await?;
            disks.flush_metadata(sets.active).await?;
            let superblock = sets.superblock_for(sets.active, generation);
            disks.write_durable(sets.active, &data_of(&superblock.encode())?).await
        }
        .await;
        if result.is_ok() {
            break;
        }
    }
    if result.is_ok()
        && let Some(sets) = &mut shared.borrow_mut().sets
    {
        sets.superblock.generation = generation;
    }
    result
}

/// There is nothing to commit to.
fn unloaded() -> Reason {
    Reason::VolumeFailed("its metadata is not loaded".into())
}

async fn write_runs(disks: &Disks, set: u64, runs: &[(MetaBlock, Data)]) -> Result<(), Reason> {
    for batch in runs.chunks(DEPTH) {
        let answers = batch.iter().flat_map(|(first, data)| disks.send(set + u64::from(*first), data));
        finish(answers.collect()).await?;
    }
    Ok(())
}

impl State {
    /// What is to be committed, if it is time to.
    fn begin_commit(&mut self) -> Option<Work> {
        let is_wanted = match self.readiness {
            Readiness::Ready => {
                let has_changes = !self.volume.dirty.is_empty() || !self.volume.zones.leaving.is_empty();
                let is_due = self.is_commit_due || self.is_suspended || self.is_starved() && self.jobs == 0;
                let frees = self.is_starved() && !self.volume.zones.leaving.is_empty();
                let records = self.failed_commits == 0 && self.has_to_record();
                // Data alone stays in the caches of the devices until somebody asks, or nobody will be left to ask.
                let is_last = self.is_suspended && self.volume.zones.is_volatile();
                !self.flushes.is_empty() || is_last || has_changes && (is_due || frees || records)
            }
            Readiness::ReadOnly(_) => !self.flushes.is_empty(),
            _ => false,
        };
        if !is_wanted {
            return None;
        }
        (self.is_committing, self.is_commit_due) = (true, false);
        let is_unflushed = |(_, member): &(MemberNo, &mut MemberState)| member.is_unflushed;
        let members = MemberNo(0).onwards().zip(self.volume.zones.members.iter_mut()).filter(is_unflushed);
        let unflushed = members.map(|(place, member)| {
            member.is_unflushed = false;
            place
        });
        let mut unflushed: Vec<MemberNo> = unflushed.collect();
        if self.guards.gone().flush_metadata_only {
            unflushed.retain(|member| *member == MemberNo(0));
        }
        let is_read_only = self.readiness != Readiness::Ready;
        let blocks = if is_read_only { Vec::new() } else { self.volume.dirty.take() };
        Some(Work {
            runs: self.encode(&blocks),
            blocks,
            recorded: if is_read_only { Vec::new() } else { self.volume.zones.begin_record() },
            leaving: if is_read_only { Vec::new() } else { core::mem::take(&mut self.volume.zones.leaving) },
            unflushed,
            waiters: core::mem::take(&mut self.flushes),
        })
    }

    /// The blocks as they are to be on the disk, neighbours together.
    fn encode(&self, blocks: &[MetaBlock]) -> Result<Vec<(MetaBlock, Data)>, Reason> {
        let mut runs: Vec<(MetaBlock, Data)> = Vec::new();
        let neighbours = blocks.chunk_by(|a, b| *b == *a + 1).flat_map(|run| run.chunks(LONGEST));
        let mut bytes = [0; BLOCK_BYTES];
        for run in neighbours {
            let data = memory(run.len() * BLOCK_BYTES)?;
            for (place, block) in run.iter().enumerate() {
                self.volume.encode(*block, &mut bytes);
                data.write(place * BLOCK_BYTES, &bytes);
            }
            runs.push((run[0], data));
        }
        Ok(runs)
    }

    /// Devices were flushed, or not: then they still have to be.
    pub fn flushed(&mut self, members: &[MemberNo], is_done: bool) {
        if !is_done {
            members.iter().for_each(|member| self.volume.zones.members[*member].is_unflushed = true);
        }
    }

    /// Tells those who waited for a commit how it ended.
    fn answer(&mut self, waiters: Vec<(Box<Bio>, Then)>, result: &Result<(), Reason>) {
        self.is_notified = true;
        for (mut bio, then) in waiters {
            match (result, then) {
                (Ok(()), Then::Route) => {
                    bio.flags = bio.flags.without(Flags::PREFLUSH);
                    self.back.push_back(bio);
                }
                (Ok(()), Then::Complete) => self.done.push((bio, Status::Ok)),
                (Err(reason), _) => {
                    let status = bio.blame(reason.clone());
                    self.done.push((bio, status));
                }
            }
        }
    }

    fn commit_done(&mut self, leaving: &[SetZone], blocks: usize) {
        self.failed_commits = 0;
        self.counters.commits += 1;
        self.counters.metadata_blocks += 2 * (blocks as u64 + 1);
        for zone in leaving {
            self.volume.zones.leave(*zone);
        }
        if !leaving.is_empty() {
            self.notify(|signals| &signals.clean);
            self.space_freed();
        }
    }

    fn commit_failed(&mut self, mut leaving: Vec<SetZone>, (log_may_count, reason): (bool, &Reason)) {
        leaving.append(&mut self.volume.zones.leaving);
        self.volume.zones.leaving = leaving;
        self.failed_commits += 1;
        // A log that counts must not be written again before the other set is equal to it.
        if log_may_count || self.failed_commits >= TRIES {
            self.degrade(format!("its metadata cannot be written: {reason}"));
        }
    }
}
