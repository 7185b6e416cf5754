//! What disks have to say while they run: a zone that was given up, a file that cannot be opened, a command that is
//! not answered; paths that fail or are restored by themselves, and volumes that fail or turn read-only. They go to the log, and are events.

use std::sync::Arc;

use shingle_core::block::{DeviceId, Stack};
use shingle_core::time::{Duration, Instant};
use shingle_sys::Completion;

use crate::devices::{Ask, Devices};
use crate::events::{EventKind, Events};
use crate::failovers::{Failovers, PathNotice};
use crate::shard::{Pump, Source, SourceCx};
use crate::volume_faults::{VolumeFaults, VolumeNotice};

/// How often disks are asked.
const EVERY: Duration = Duration::from_millis(1000);

/// Asks the disks of a shard and logs what they answer. Disks may come and go: a shard that gets one by mail has it pumped.
pub struct Notices {
    events: Arc<Events>,
    failovers: Failovers,
    volumes: VolumeFaults,
    due: Instant,
    stopping: bool,
}

impl Notices {
    /// What disks say is an event, too.
    #[must_use]
    pub fn new(events: Arc<Events>) -> Self {
        Self {
            events,
            failovers: Failovers::default(),
            volumes: VolumeFaults::default(),
            due: Instant::ZERO,
            stopping: false,
        }
    }

    fn log(&mut self, devices: &Devices, stack: &mut Stack) {
        let disks: Vec<(String, DeviceId, Ask)> =
            devices.talkative().map(|(name, disk, ask)| (name.to_owned(), disk, ask)).collect();
        for (name, disk, ask) in disks {
            for notice in ask(stack, disk) {
                self.events.note(EventKind::Fault, Some(&name), &notice);
                tracing::warn!(disk = name, "{notice}");
            }
        }
        for VolumeNotice { device, fault } in self.volumes.look(&devices.mapper, stack) {
            let text = fault.as_deref().unwrap_or("works again");
            self.events.note(EventKind::Fault, Some(&device), text);
            match fault {
                Some(_) => tracing::error!(device, "`{device}` {text}"),
                None => tracing::info!(device, "`{device}` {text}"),
            }
        }
        for PathNotice { device, works, text } in self.failovers.look(devices, stack) {
            self.events.note(EventKind::Path, Some(&device), &text);
            if works {
                tracing::info!(device, "{text}");
            } else {
                tracing::warn!(device, "{text}");
            }
        }
    }
}

impl Source for Notices {
    fn on_completion(&mut self, done: Completion, _: &mut SourceCx<'_>) {
        unreachable!("notices ask the ring for nothing: {:?}", done.token)
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        if self.stopping {
            self.log(cx.devices, cx.stack);
            return Pump::Done;
        }
        let has_volumes = cx.devices.mapper.names().next().is_some();
        if cx.devices.talkative().next().is_none() && cx.devices.heads().next().is_none() && !has_volumes {
            return Pump::Idle;
        }
        if cx.now() >= self.due {
            self.log(cx.devices, cx.stack);
            self.due = cx.now() + EVERY;
        }
        cx.wake_at(self.due);
        Pump::Idle
    }

    fn stop(&mut self, _: &mut SourceCx<'_>) {
        self.stopping = true;
    }
}
