//! Dies behind channels: each die does one thing at a time, each channel carries the data of one die at a time.
//!
//! ```text
//!   program:  die free -> channel free -> data goes to the die -> the die programs
//!   read:     die free -> the die reads -> channel free -> data comes from the die
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::config::ZnsConfig;
use crate::service::time_of;
use shingle_core::time::Duration;
use shingle_core::zone::ZoneNo;

/// What a die is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DieOperation {
    /// Program a unit from the write buffer of `zone`; `unit` is the buffer's number for it.
    Program {
        /// The zone.
        zone: ZoneNo,
        /// The number.
        unit: u64,
    },
    /// Read `bytes`.
    Read {
        /// For whom.
        reader: Reader,
        /// How much.
        bytes: u32,
    },
}

/// Who waits for a die to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A command.
    Command(u32),
    /// A stream that reads ahead, for the page that begins at `start`.
    Ahead {
        /// The stream.
        stream: u32,
        /// The page, in sectors from the start of the zone.
        start: u32,
    },
}

/// What a die does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It waits for its channel, or its channel carries its data.
    OnChannel,
    /// It programs or reads.
    Working,
}

#[derive(Default)]
struct Die {
    queue: VecDeque<DieOperation>,
    /// The first of the queue, once it has begun.
    stage: Option<Stage>,
}

#[derive(Default)]
struct Channel {
    carries: Option<u32>,
    waiting: VecDeque<u32>,
}

/// Something that now takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// The channel carries this die's data for so long.
    Channel(u32, Duration),
    /// The die works for so long.
    Die(u32, Duration),
}

/// All dies and channels.
pub(super) struct Nand {
    dies: Vec<Die>,
    channels: Vec<Channel>,
    config: ZnsConfig,
    /// What has begun and is not yet told, in order.
    pub begun: VecDeque<Begun>,
}

impl Nand {
    pub(super) fn new(config: &ZnsConfig) -> Self {
        Self {
            dies: (0..config.dies()).map(|_| Die::default()).collect(),
            channels: (0..config.channels).map(|_| Channel::default()).collect(),
            config: config.clone(),
            begun: VecDeque::new(),
        }
    }

    /// Forgets everything it was asked to do.
    pub(super) fn stop(&mut self) {
        self.dies.iter_mut().for_each(|die| *die = Die::default());
        self.channels.iter_mut().for_each(|channel| *channel = Channel::default());
        self.begun.clear();
    }

    /// Asks `die` to do `job` when it is its turn.
    pub(super) fn ask(&mut self, die: u32, job: DieOperation) {
        self.dies[die as usize].queue.push_back(job);
        self.start(die);
    }

    /// The channel has carried the data of `die`; the job, if that was its end.
    pub(super) fn carried(&mut self, die: u32) -> Option<DieOperation> {
        self.leave_channel(die);
        match self.dies[die as usize].queue.front() {
            Some(DieOperation::Program { .. }) => {
                self.dies[die as usize].stage = Some(Stage::Working);
                self.begun.push_back(Begun::Die(die, self.config.program));
                None
            }
            _ => self.end(die),
        }
    }

    /// The die has programmed or read; the job, if that was its end.
    pub(super) fn worked(&mut self, die: u32) -> Option<DieOperation> {
        match self.dies[die as usize].queue.front() {
            Some(DieOperation::Read { .. }) => {
                self.want_channel(die);
                None
            }
            _ => self.end(die),
        }
    }

    fn end(&mut self, die: u32) -> Option<DieOperation> {
        let job = self.dies[die as usize].queue.pop_front();
        self.dies[die as usize].stage = None;
        self.start(die);
        job
    }

    fn start(&mut self, die: u32) {
        let Die { queue, stage: None } = &mut self.dies[die as usize] else { return };
        match queue.front() {
            Some(DieOperation::Program { .. }) => self.want_channel(die),
            Some(DieOperation::Read { bytes, .. }) => {
                let pages = bytes.div_ceil(self.config.page_bytes);
                self.dies[die as usize].stage = Some(Stage::Working);
                self.begun.push_back(Begun::Die(die, Duration(self.config.read.0 * u64::from(pages))));
            }
            None => {}
        }
    }

    fn want_channel(&mut self, die: u32) {
        self.dies[die as usize].stage = Some(Stage::OnChannel);
        let channel = self.channel_of(die);
        self.channels[channel].waiting.push_back(die);
        self.serve(channel);
    }

    fn leave_channel(&mut self, die: u32) {
        let channel = self.channel_of(die);
        self.channels[channel].carries = None;
        self.serve(channel);
    }

    fn serve(&mut self, channel: usize) {
        let Channel { carries: carries @ None, waiting } = &mut self.channels[channel] else { return };
        let Some(die) = waiting.pop_front() else { return };
        *carries = Some(die);
        let bytes = match self.dies[die as usize].queue.front() {
            Some(DieOperation::Read { bytes, .. }) => *bytes,
            _ => self.config.program_unit_bytes,
        };
        self.begun.push_back(Begun::Channel(die, time_of(bytes.into(), self.config.channel_rate)));
    }

    /// Neighbouring dies are on different channels.
    fn channel_of(&self, die: u32) -> usize {
        die as usize % self.channels.len()
    }
}
