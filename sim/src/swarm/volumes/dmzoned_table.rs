//! Tables of dm-zoned volumes: knobs are set when a table is built.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::mapped;
use super::rebuilt_line::{BuildLine, parse};
use crate::choices::Choices;
use crate::volume::BLOCK_SECTORS;
use shingle_core::dm::stl::Step;
#[cfg(feature = "sabotage")]
use shingle_core::dm::zoned::{Sabotage, Zoned};
use shingle_core::dm::{ArgError, BuildContext, Mapping, TableLine, Target};

/// Messages of an operator while hosts use the volume: the ones that change the way of data.
pub(super) const MESSAGES: &str = "reclaim, reclaim, reclaim, set policy kernel, set policy shingle, set commit_ms 100, \
    set reorder_ms 0, set direct_blocks 8, set stream_blocks 4, set fill_blocks 8, set hot_ms 0, set idle_ms 50, \
    set dense_percent 100, set dense_percent 0, set pace_percent 0, set pace_blocks 200, set window_blocks 64, \
    set piece_blocks 3, set gap_blocks 0, set duty_percent 50, \
    set stream_percent 60, set unrecorded_zones 2, set unrecorded_zones 4, \
    set policy kernel-2020";

/// Source of the tables of volumes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tables {
    /// Guards of the target that are taken away.
    #[cfg(feature = "sabotage")]
    pub sabotage: Sabotage,
}

impl mapped::Tables for Tables {
    fn table(
        &self,
        blocks: u32,
        names: &[String],
        _: Option<([u8; 16], Step)>,
        choices: Option<&mut Choices>,
    ) -> Result<Vec<TableLine>, String> {
        let messages: Vec<&'static str> = MESSAGES.split(", ").filter(|message| message.starts_with("set")).collect();
        let message =
            choices.and_then(|choices| choices.chance("other-knobs", 1, 2).then(|| choices.one("knob", &messages)));
        let text = format!("0 {} zoned {}", u64::from(blocks) * u64::from(BLOCK_SECTORS), names.join(" "));
        parse(&text, &Tuned { message, tables: *self })
    }
}

/// Sends the target a message as soon as it is built.
#[derive(Clone, Debug)]
struct Tuned {
    message: Option<&'static str>,
    #[cfg_attr(not(feature = "sabotage"), expect(dead_code, reason = "it has only guards that are taken away"))]
    tables: Tables,
}

impl BuildLine for Tuned {
    fn build(&self, line: &dyn Target, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let mapping = line.build(context)?;
        #[cfg(feature = "sabotage")]
        context.stack.with_device(mapping.device, |volume: &mut Zoned, cx| volume.sabotage(self.tables.sabotage, cx));
        if let Some(message) = self.message {
            let words: Vec<&str> = message.split(' ').collect();
            context.stack.message(mapping.device, &words).map_err(|error| ArgError::at(1, error.to_string()))?;
        }
        Ok(mapping)
    }
}
