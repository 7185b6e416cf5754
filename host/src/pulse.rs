//! Whether shards still go round, for a watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::daemon_state::ShardInfo;
use crate::shard::Mailbox;

/// Shards that are asked again and again. One that is stuck in a round does not read its mailbox.
pub struct Pulse(Vec<Asked>);

struct Asked {
    mailbox: Mailbox,
    has_answered: Arc<AtomicBool>,
}

impl Pulse {
    /// That of these shards.
    #[must_use]
    pub fn of(shards: &[ShardInfo]) -> Self {
        let asked = |shard: &ShardInfo| Asked { mailbox: shard.mailbox.clone(), has_answered: Arc::new(true.into()) };
        Self(shards.iter().map(asked).collect())
    }

    /// Asks all that have answered. Whether every one had.
    #[must_use]
    pub fn beat(&self) -> bool {
        let answered = self.0.iter().filter(|asked| asked.ask());
        answered.count() == self.0.len()
    }
}

impl Asked {
    /// Asks once more, if the last answer has come. Whether it had, and there was room to ask.
    fn ask(&self) -> bool {
        if !self.has_answered.swap(false, Ordering::Relaxed) {
            return false;
        }
        let answer = self.has_answered.clone();
        let is_asked = self.mailbox.post(move |_| answer.store(true, Ordering::Relaxed)).is_ok();
        if !is_asked {
            // Its mailbox is full: it is asked the next time.
            self.has_answered.store(true, Ordering::Relaxed);
        }
        is_asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Shard;

    #[test]
    fn a_shard_that_does_not_go_round_has_no_pulse_until_it_does() {
        let mut shards = [Shard::new().unwrap(), Shard::new().unwrap()];
        let infos: Vec<ShardInfo> =
            shards.iter().zip(0..).map(|(shard, number)| ShardInfo { number, mailbox: shard.mailbox() }).collect();
        let pulse = Pulse::of(&infos);
        assert!(pulse.beat(), "none was asked before");
        assert!(!pulse.beat());
        shards[0].hurry();
        shards[0].round().unwrap();
        assert!(!pulse.beat(), "the other is stuck");
        shards.iter_mut().for_each(|shard| {
            shard.hurry();
            shard.round().unwrap();
        });
        assert!(pulse.beat());
    }

    #[test]
    fn a_shard_whose_mailbox_was_full_is_asked_again() {
        let mut shard = Shard::new().unwrap();
        let pulse = Pulse::of(&[ShardInfo { number: 0, mailbox: shard.mailbox() }]);
        while shard.mailbox().post(|_| ()).is_ok() {}
        assert!(!pulse.beat());
        // A round reads a part of it.
        while shard.mailbox().post(|_| ()).is_err() {
            shard.hurry();
            shard.round().unwrap();
        }
        assert!(pulse.beat());
    }
}
