//! What the drive waits for, as the word of a timer.

/// A step of the drive that takes time and is done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The front end has read a command.
    Front,
    /// Data of a write has come over the host interface.
    Inbound,
    /// Data of a read has gone over the host interface.
    Outbound,
    /// A program unit has left its write buffer.
    Drain,
    /// The channel has carried the data of this die.
    Channel(u32),
    /// This die has programmed or read.
    Die(u32),
    /// The host sees the completion of this command.
    Reply(u32),
    /// This reset or finish is done.
    Manage(u32),
}

impl Timer {
    /// The word: kind, lifetime of the drive between two power cuts, argument.
    pub(super) fn word(self, lifetime: u16) -> u64 {
        let (kind, argument) = match self {
            Timer::Front => (0, 0),
            Timer::Inbound => (1, 0),
            Timer::Outbound => (2, 0),
            Timer::Drain => (3, 0),
            Timer::Channel(die) => (4, die),
            Timer::Die(die) => (5, die),
            Timer::Reply(command) => (6, command),
            Timer::Manage(command) => (7, command),
        };
        kind << 48 | u64::from(lifetime) << 32 | u64::from(argument)
    }

    /// The timer of a word and its lifetime; `None` for a word that is none.
    pub(super) fn from_word(word: u64) -> Option<(Timer, u16)> {
        let kind = KINDS.get((word >> 48) as usize)?;
        Some((kind(word as u32), (word >> 32) as u16))
    }
}

/// The timers by the kind in their words, of an argument.
const KINDS: [fn(u32) -> Timer; 8] = [
    |_| Timer::Front,
    |_| Timer::Inbound,
    |_| Timer::Outbound,
    |_| Timer::Drain,
    Timer::Channel,
    Timer::Die,
    Timer::Reply,
    Timer::Manage,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timer_survives_its_word() {
        let last = u32::MAX;
        let all = [Timer::Front, Timer::Inbound, Timer::Outbound, Timer::Drain, Timer::Channel(3), Timer::Die(last)];
        for timer in all.into_iter().chain([Timer::Reply(0), Timer::Manage(last)]) {
            assert_eq!(Timer::from_word(timer.word(7)), Some((timer, 7)));
        }
        assert_eq!(Timer::from_word(8 << 48), None);
    }
}
