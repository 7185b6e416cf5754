//! Tables of `stl` volumes whose targets have little of everything: what the knobs of a table line cannot say of worlds this small.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::mapped;
use super::rebuilt_line::{BuildLine, parse};
use crate::choices::Choices;
use crate::volume::BLOCK_SECTORS;
use shingle_core::block::{DeviceId, Limits};
use shingle_core::dm::stl::{Options, Step, Stl, policy};
use shingle_core::dm::{ArgError, BuildContext, Mapping, TableLine, Target};
use shingle_core::time::Duration;

/// Little of everything, so that all of it happens often.
pub(super) const OPTIONS: Options = Options {
    batch_blocks: 12,
    copy_blocks: 12,
    pending_bytes: 850,
    replay_blocks: 60,
    named_zones: 1,
    promised_zones: 2,
    in_order_blocks: 5,
    flushes_in_a_row: 2,
    index_bytes: 1 << 16,
    most_runs: 4,
    runs_of_tier: 2,
    sweep_blocks: 6,
    ahead_blocks: 4,
    range_blocks: 8,
    lull: Duration::from_micros(50),
    idle_after: Duration::from_micros(200),
    marked_zones: 4,
    turn_blocks: 24,
    choice: policy::Choice::Decline,
    one_stream: false,
    cached_extents: 100,
    // Scenarios recorded before there was such a look count the commands without its reads.
    finds_second_daemon: false,
};

/// Source of the tables of volumes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tables {
    /// Guards of the target that are taken away.
    #[cfg(feature = "sabotage")]
    pub sabotage: shingle_core::dm::stl::Sabotage,
}

/// What the target of a table does.
#[derive(Clone, Copy, Debug)]
struct Plan {
    pub options: Options,
    /// The identity of a device that leaves, and what is done for that.
    pub leaving: Option<([u8; 16], Step)>,
}

/// Options as another table may have them: a volume is the same with all of them.
fn choose_options(choices: &mut Choices) -> Options {
    Options {
        // In zones this small headers of shorter batches take space that is promised to data.
        batch_blocks: choices.one("batch-blocks", &[6, 8, 12]),
        pending_bytes: choices.one("pending-bytes", &[425, 850, 1700]),
        replay_blocks: choices.one("replay-blocks", &[30, 60, 120]),
        named_zones: choices.one("named-zones", &[1, 3]),
        promised_zones: choices.one("promised-zones", &[1, 2, 3]),
        most_runs: choices.one("most-runs", &[2, 4, 8]),
        runs_of_tier: choices.one("runs-of-tier", &[2, 3]),
        cached_extents: choices.one("cached-extents", &[20, 100, 1000]),
        marked_zones: choices.one("marked-zones", &[3, 4, 8]),
        finds_second_daemon: choices.one("finds-second-daemon", &[false, true]),
        ..OPTIONS
    }
}

impl mapped::Tables for Tables {
    fn table(
        &self,
        blocks: u32,
        names: &[String],
        leaving: Option<([u8; 16], Step)>,
        choices: Option<&mut Choices>,
    ) -> Result<Vec<TableLine>, String> {
        let plan = Plan { options: choices.map_or(OPTIONS, choose_options), leaving };
        let Options { batch_blocks, most_runs, .. } = plan.options;
        let (sectors, names) = (u64::from(blocks) * u64::from(BLOCK_SECTORS), names.join(" "));
        let text = format!("0 {sectors} stl {names} batch:{batch_blocks} runs:{most_runs}");
        parse(&text, &Small { plan, tables: *self })
    }
}

/// Builds the target with the options of a plan.
#[derive(Clone, Debug)]
struct Small {
    plan: Plan,
    #[cfg_attr(not(feature = "sabotage"), expect(dead_code, reason = "it has only guards that are taken away"))]
    tables: Tables,
}

impl BuildLine for Small {
    fn build(&self, line: &dyn Target, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let devices =
            line.devices().into_iter().map(|arg| context.device(arg)).collect::<Result<Vec<DeviceId>, _>>()?;
        let limits: Vec<Limits> = devices.iter().map(|device| context.stack.limits(*device).clone()).collect();
        let mut volume = Stl::new(devices, &limits, context.len, self.plan.options);
        if let Some((id, step)) = self.plan.leaving {
            volume.let_go(id, step);
        }
        #[cfg(feature = "sabotage")]
        volume.sabotage(self.tables.sabotage);
        context.map(Box::new(volume))
    }
}
