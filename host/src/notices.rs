//! What disks have to say while they run: a zone that was given up, a file that cannot be opened, a command that is
//! not answered. They go to the log.

use shingle_core::block::{DeviceId, Stack};
use shingle_core::time::{Duration, Instant};
use shingle_sys::Completion;

use crate::backend::Ask;
use crate::config::Plan;
use crate::devices::Devices;
use crate::shard::{Pump, Source, SourceCx};

/// How often disks are asked.
const EVERY: Duration = Duration::from_millis(1000);

/// Asks the disks of a shard and logs what they answer.
pub struct Notices {
    disks: Vec<(String, DeviceId, Ask)>,
    due: Instant,
    stopping: bool,
}

impl Notices {
    /// For those disks of `plan` that are among the `devices` of a shard; `None` if none of them ever has anything to say.
    #[must_use]
    pub fn of(plan: &Plan, devices: &Devices) -> Option<Self> {
        let talkative = plan.disks.iter().filter_map(|disk| Some((devices.find(&disk.name)?, disk.kind.ask?)));
        let disks: Vec<_> = talkative.map(|(named, ask)| (named.name, named.leaf, ask)).collect();
        (!disks.is_empty()).then_some(Self { disks, due: Instant::ZERO, stopping: false })
    }

    fn log(&self, stack: &mut Stack) {
        for (name, disk, ask) in &self.disks {
            ask(stack, *disk).iter().for_each(|notice| tracing::warn!(disk = name, "{notice}"));
        }
    }
}

impl Source for Notices {
    fn on_completion(&mut self, done: Completion, _: &mut SourceCx<'_>) {
        unreachable!("notices ask the ring for nothing: {:?}", done.token)
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        if self.stopping {
            self.log(cx.stack);
            return Pump::Done;
        }
        if cx.now() >= self.due {
            self.log(cx.stack);
            self.due = cx.now() + EVERY;
        }
        cx.wake_at(self.due);
        Pump::Idle
    }

    fn stop(&mut self, _: &mut SourceCx<'_>) {
        self.stopping = true;
    }
}
