//! Detection of a second daemon on the disks of a volume.
//!
//! Disks are locked, but some network file systems have no working locks, and two hosts may be attached to one disk. Each start of a volume writes a
//! root of a new epoch. So before this instance writes a root, it reads the places at which such a root lies if there is one:
//!
//! ```text
//!  root zone: | root | root | newest root of this instance | (here) ...      the other one: | (here) root | root | ...
//! ```
//!
//! The start of the zone with the newest root is read as well: there is the root of a volume that `format` has made meanwhile.

use super::disks::Reading;
use super::format::ROOT_BLOCKS;
use super::roots::{FoundRoot, decode_root, room_for_roots};
use super::state::{RootPlace, Shared, State};
use super::{Pba, ZoneIndex};
use crate::block::{Payload, Reason};
use crate::prelude::*;
use crate::task::Answer;
use crate::uuid::Uuid;

/// A root zone in which roots of others are looked for.
struct Searched {
    zone: ZoneIndex,
    /// The blocks of the zone at which there may be one.
    at: Vec<u32>,
    /// The report of a zone with a write pointer: nothing is read behind that.
    report: Option<Answer>,
}

/// Makes the volume read-only if a disk has a root that this instance has not written. Disks that cannot be read say nothing.
///
/// # Errors
/// The volume takes no changes any more.
pub(super) async fn refuse_second_daemon(shared: &Shared) -> Result<(), Reason> {
    if !shared.borrow().options.finds_second_daemon {
        return Ok(());
    }
    let mut found = Vec::new();
    for (place, reading) in read_places(shared).await {
        let bytes = reading.data().await.map(|data| data.to_vec());
        found.extend(bytes.ok().and_then(|bytes| decode_root(&bytes, place.0)));
    }
    let mut state = shared.borrow_mut();
    match found.iter().find_map(|root| state.why_of_other(root)) {
        Some(why) => {
            state.degrade(why);
            Err(state.refusal())
        }
        None => Ok(()),
    }
}

/// Looks for a second daemon after an operation has failed, since it may be the reason.
///
/// # Errors
/// The error of `result`, or that the volume takes no changes any more.
pub(super) async fn blame_second_daemon(shared: &Shared, result: Result<(), Reason>) -> Result<(), Reason> {
    if result.is_err() {
        refuse_second_daemon(shared).await?;
    }
    result
}

/// Reads all places at which there may be a root of another daemon, side by side.
async fn read_places(shared: &Shared) -> Vec<(Pba, Reading)> {
    let searched = shared.borrow().searched();
    let mut readings = Vec::new();
    for Searched { zone, at, report } in searched {
        let room = shared.borrow().disks.shape(zone).room;
        let end = match report {
            Some(report) => end_of_roots(report, room).await,
            None => room,
        };
        let state = shared.borrow();
        for at in at.into_iter().filter(|at| at + ROOT_BLOCKS as u32 <= end) {
            let place = state.disks.set.start(zone) + u64::from(at);
            readings
                .extend(state.disks.read(&state.io, place, ROOT_BLOCKS as u32).ok().map(|reading| (place, reading)));
        }
    }
    readings
}

/// The block of a zone of `room` blocks at which its roots end, by its report.
async fn end_of_roots(report: Answer, room: u32) -> u32 {
    match report.await {
        (Ok(()), Payload::Zones(zones)) if !zones.is_empty() => room_for_roots(zones.first(), room.into()) as u32,
        _ => 0,
    }
}

impl State {
    /// The root zones of all members, each with a report that was asked for.
    fn searched(&self) -> Vec<Searched> {
        let members = self.disks.present().into_iter();
        members.flat_map(|member| self.searched_of(&self.tables.roots[member])).collect()
    }

    fn searched_of(&self, RootPlace { zones, at, behind, .. }: &RootPlace) -> Vec<Searched> {
        let zones = zones.iter().enumerate().filter_map(|(number, zone)| Some((number, (*zone)?)));
        let searched = |(number, zone): (usize, ZoneIndex)| Searched {
            zone,
            at: if number == *at && *behind > 0 { vec![0, *behind] } else { vec![0] },
            report: self.ask_for_pointer(zone),
        };
        zones.map(searched).collect()
    }

    /// Asks the disk for the write pointer of a zone that has one. A report of one zone is never answered out of a cache.
    fn ask_for_pointer(&self, zone: ZoneIndex) -> Option<Answer> {
        let (disk, sector) = self.disks.spot(self.disks.set.start(zone)).ok()?;
        let is_sequential = self.disks.shape(zone).is_sequential;
        is_sequential.then(|| self.io.send_report(disk.device, sector, 1))
    }

    /// The reason to write nothing any more if a root is of another daemon or volume.
    fn why_of_other(&self, found: &FoundRoot) -> Option<String> {
        let (batch, place) = (&found.header.batch, Pba(found.block));
        let disk = Uuid(self.disks.set.members()[self.disks.member_of(self.disks.set.zone_of(place).0)].id);
        let (number, epoch) = (batch.number, batch.epoch);
        if batch.set != self.id {
            let other = Uuid(batch.set.0);
            return Some(format!(
                "disk {disk} was formatted while this daemon used it (root {number} of volume {other} was found): stop this daemon"
            ));
        }
        let is_ours = epoch <= self.epoch && number <= self.tables.root;
        (!is_ours).then(|| {
            format!(
                "another daemon has opened this volume (its root {number} of epoch {epoch} was found on disk {disk}, and the newest root here is \
                 {} of epoch {}): stop one of the two daemons and restart the other; `shingle stl check` tells whether data was lost",
                self.tables.root, self.epoch
            )
        })
    }
}
