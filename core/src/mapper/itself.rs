//! Messages to a device itself: they begin with `@` and reach no target (`drivers/md/dm-ioctl.c:message_for_md`).

use super::stats::DmStats;
use super::{Mapper, MapperError, MapperErrorKind};
use crate::block::{DeviceId, Stack};
use crate::prelude::*;
use crate::time::Instant;

impl Mapper {
    pub(super) fn message_itself(
        &mut self,
        place: usize,
        words: &[&str],
        (stack, now): (&mut Stack, Instant),
    ) -> Result<String, MapperError> {
        let device = &mut self.devices[place];
        if let [word] = words
            && word.eq_ignore_ascii_case("@cancel_deferred_remove")
        {
            device.is_deferred = false;
            return Ok(String::new());
        }
        let id = device.device.ok_or_else(|| device.no_table())?;
        let sectors = device.sectors();
        tell_statistics(id, stack, |stats| {
            let fail = |error| MapperError::new(MapperErrorKind::Invalid, format!("`{}`: {error}", device.name));
            stats.message(words, sectors, now).map_err(fail)
        })
    }
}

/// Statistics see the bios of a device while they have a region, and cost nothing while they have none.
fn tell_statistics<R>(id: DeviceId, stack: &mut Stack, tell: impl FnOnce(&mut DmStats) -> R) -> R {
    if let Some(stats) = stack.observer::<DmStats>(id) {
        let answer = tell(stats);
        if stats.is_empty() {
            stack.observe(id, None);
        }
        return answer;
    }
    let mut stats = DmStats::new();
    let answer = tell(&mut stats);
    if !stats.is_empty() {
        stack.observe(id, Some(Box::new(stats)));
    }
    answer
}
