//! A bio on its way: the host's, which waits here, and the one that travels in its place.
//!
//! They are two, because the host may give up its bio while the other one is in somebody else's hands; and the other one has data of its
//! own, because what is on a wire does not change when the host writes something else to its memory.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::retransmission::Gap;
use super::wire::Way;
use shingle_core::block::{Bio, Data, Op, Payload, Reason, Status};
use shingle_core::time::Instant;

/// What will happen to a bio on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    LostThere,
    LostBack,
    FailsThere,
    FailsBack,
}

/// Where a command is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On a wire.
    On(Way),
    /// On a wire's other end, behind one that has not arrived.
    Arrived(Way),
    /// In the device below.
    Below,
    /// Nowhere: it got lost.
    Lost,
}

/// A bio on its way.
pub(super) struct Command {
    /// The host's bio, or when it was given up.
    pub host: Result<Box<Bio>, Instant>,
    /// The one that travels; absent while it is below.
    pub own: Option<Box<Bio>>,
    pub status: Status,
    pub fate: Fate,
    pub place: Place,
    pub gap: Option<Gap>,
    /// Its number among all.
    pub number: u64,
    pub sent: Instant,
    /// The timer that counts: older ones are void.
    pub timer: u32,
}

impl Command {
    pub fn fail(&mut self) {
        if let Ok(bio) = &mut self.host {
            self.status = bio.blame(Reason::Interrupted);
        }
    }

    pub fn is_given_up(&self) -> bool {
        self.host.is_err()
    }

    /// Whether it reaches the device below though nobody at this end does anything for it any more.
    pub fn goes_on(&self) -> bool {
        let arrives = !matches!(self.fate, Fate::LostThere | Fate::FailsThere) && self.gap.is_none();
        match self.place {
            Place::On(Way::There) | Place::Arrived(Way::There) => arrives,
            Place::Below => true,
            Place::On(Way::Back) | Place::Arrived(Way::Back) | Place::Lost => false,
        }
    }
}

/// The bio that travels for the one of a host.
pub(super) fn traveller(of: &Bio, keep_data: bool) -> Bio {
    let payload = match &of.payload {
        Payload::Zones(zones) => Payload::Zones(Vec::with_capacity(zones.capacity() - zones.len())),
        payload if keep_data && of.op.has_data() => copy(payload, of.op.is_write()),
        payload => payload.slice(0, of.sectors),
    };
    Bio::new(of.op, of.sector, of.sectors, payload).with_flags(of.flags)
}

fn copy(payload: &Payload, has_content: bool) -> Payload {
    // Simulated drives cannot go on without memory.
    let data = Data::zeroed(payload.bytes());
    if has_content {
        payload.copy_to(&data);
    }
    Payload::Data(data)
}

/// What the device below said, for the host.
pub(super) fn answer(host: &mut Bio, own: &mut Bio, status: Status, keep_data: bool) {
    if !status.is_ok() {
        if own.why().is_some() {
            host.inherit(own);
        }
        return;
    }
    host.sector = own.sector;
    match (&mut host.payload, &own.payload) {
        // It may have zones of others before it already.
        (Payload::Zones(theirs), Payload::Zones(own)) => theirs.extend(own),
        (theirs, Payload::Data(data)) if keep_data && host.op == Op::Read => {
            theirs.copy_from(data);
        }
        _ => {}
    }
}
