//! Flushes of several devices: each is flushed once, whatever lies on it; and what a write with PREFLUSH promises to come
//! after may lie on other devices than its data.

use alloc::collections::VecDeque;

use super::fan::Fan;
use crate::block::{Bio, Cx, DeviceId, Flags, Op, Payload, Status};
use crate::prelude::*;
use crate::sector::Sector;

/// The fan of flushes, among those of a device.
const FAN: u16 = 1;

/// The devices below that can lose completed writes, and the bios that wait until they are flushed.
pub(super) struct Flusher {
    devices: Vec<DeviceId>,
    /// Whether writes keep their order, whatever some of them wait for: on zoned devices.
    keeps_order: bool,
    fan: Fan,
    /// Writes that wait until other devices are flushed.
    pending: u32,
    /// What waits behind them to keep its order.
    behind: VecDeque<Box<Bio>>,
}

impl Flusher {
    /// A flusher of `devices`, which may repeat.
    pub fn new(devices: impl Iterator<Item = DeviceId>, keeps_order: bool) -> Self {
        let (fan, behind) = (Fan::numbered(FAN), VecDeque::new());
        Self { devices: distinct(devices), keeps_order, fan, pending: 0, behind }
    }

    /// Whether no write waits for a flush.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// Keeps `bio` if it must not overtake a write that waits for a flush.
    pub fn hold_back(&mut self, bio: Box<Bio>) -> Option<Box<Bio>> {
        if self.is_idle() || !self.keeps_order || !bio.op.is_write() {
            return Some(bio);
        }
        self.behind.push_back(bio);
        None
    }

    /// What was held back and may go on now.
    pub fn release(&mut self) -> Option<Box<Bio>> {
        if self.is_idle() { self.behind.pop_front() } else { None }
    }

    /// Flushes each device once, for a flush.
    pub fn flush(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if let [only] = self.devices[..] {
            return cx.pass(only, bio, Sector::ZERO);
        }
        if let Some((bio, status)) = self.fan.spread(bio, flushes(&self.devices, None), cx) {
            cx.complete(bio, status);
        }
    }

    /// Whether a device has to be flushed before `bio` goes on: one other than `own`, the only one that its data goes to.
    pub fn comes_before(&self, bio: &Bio, own: Option<DeviceId>) -> bool {
        bio.flags.has(Flags::PREFLUSH) && self.devices.iter().any(|device| Some(*device) != own)
    }

    /// Flushes what has to be flushed before `bio`. Its own device, if it has just one, is left to the bio.
    pub fn flush_before(&mut self, mut bio: Box<Bio>, own: Option<DeviceId>, cx: &mut Cx<'_>) {
        if own.is_none_or(|own| !self.devices.contains(&own)) {
            bio.flags = bio.flags.without(Flags::PREFLUSH);
        }
        self.pending += 1;
        let sent = self.fan.spread(bio, flushes(&self.devices, own), cx);
        debug_assert!(sent.is_none(), "a bio waits for no flush");
    }

    /// Whether a bio that comes back with `word` was sent here.
    pub fn is_own(&self, word: u64) -> bool {
        self.fan.is_own(word)
    }

    /// The device that a bio which comes back with `word` was to flush.
    pub fn device(&self, word: u64) -> DeviceId {
        DeviceId(Fan::part(word))
    }

    /// Takes back one of its bios. Returns a write if all that it waited for is flushed, or a flush has failed.
    pub fn end_io(&mut self, own: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) -> Option<(Box<Bio>, Status)> {
        let (bio, status) = self.fan.end_io(own, status, word, cx)?;
        if bio.op == Op::Flush {
            cx.complete(bio, status);
            return None;
        }
        self.pending -= 1;
        Some((bio, status))
    }

    /// Shows what waits.
    pub fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.fan.held(visit);
        self.behind.iter().for_each(|bio| visit(bio));
    }
}

/// A flush for each of `devices` but `own`.
fn flushes(devices: &[DeviceId], own: Option<DeviceId>) -> impl Iterator<Item = (u16, DeviceId, Bio)> {
    let others = devices.iter().filter(move |device| Some(**device) != own);
    others.map(|device| (device.0, *device, Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)))
}

/// `devices` without repetition.
pub(super) fn distinct(devices: impl Iterator<Item = DeviceId>) -> Vec<DeviceId> {
    let mut distinct: Vec<DeviceId> = devices.collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}
