//! Commands that the disk below does not answer in time.
//!
//! They are told, and nothing else happens: the kernel may still carry them out and write to their memory, so they are
//! neither failed nor sent again. What waits for them goes on waiting (`docs/decisions/0008-commands-without-an-answer.md`).

use std::time;

use shingle_core::block::Bio;
use shingle_core::impl_display;
use shingle_core::time::{Duration, Instant};

/// After this time a command is overdue, if nothing else is said.
pub const TIMEOUT: time::Duration = time::Duration::from_secs(30);

/// The commands of a disk that are older than its timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// How many.
    pub commands: usize,
    /// For how long the disk has had the oldest.
    pub age: Duration,
    /// What that is.
    pub oldest: String,
}

impl_display!(Overdue, |self, f| {
    let Self { commands, age, oldest } = self;
    let (commands, s) =
        (if *commands == 1 { "1 command".into() } else { format!("{commands} commands") }, seconds(*age));
    write!(
        f,
        "{commands} without an answer, the oldest {oldest} for {s} s: FLUSH waits for it; check the disk below and the \
         kernel log"
    )
});

fn seconds(time: Duration) -> u64 {
    time.as_nanos() / 1_000_000_000
}

/// Tells of overdue commands: when there is the first, and whenever the oldest is twice as old.
pub(super) struct Watch {
    timeout: Duration,
    /// Age of the oldest command at which to speak.
    next: Duration,
    /// Age of the oldest command at the last look, if it was overdue.
    worst: Duration,
}

impl Watch {
    pub fn new(timeout: time::Duration) -> Self {
        let timeout = Duration::from(timeout);
        Self { timeout, next: timeout, worst: Duration::ZERO }
    }

    /// What is overdue of the commands that are `waiting`, each since it came to the disk.
    pub fn overdue<'a>(&self, waiting: impl Iterator<Item = (Instant, &'a Bio)>, now: Instant) -> Option<Overdue> {
        let mut commands = 0;
        let late = waiting.filter(|(since, _)| now.since(*since) >= self.timeout).inspect(|_| commands += 1);
        let (since, bio) = late.min_by_key(|(since, _)| *since)?;
        Some(Overdue { commands, age: now.since(since), oldest: format!("{bio:?}") })
    }

    /// What to say at this moment, if anything.
    pub fn tell(&mut self, overdue: Option<Overdue>) -> Option<String> {
        match overdue {
            None if self.worst > Duration::ZERO => {
                let lasted = seconds(std::mem::replace(&mut self.worst, Duration::ZERO));
                self.next = self.timeout;
                Some(format!("no command is overdue any more; the oldest was without an answer for {lasted} s or more"))
            }
            None => None,
            Some(overdue) => {
                self.worst = overdue.age;
                let speak = overdue.age >= self.next;
                // Twice as old the next time; when another command is the oldest, not before that age either.
                while self.next <= overdue.age {
                    self.next = Duration(self.next.0.saturating_mul(2).max(1));
                }
                speak.then(|| overdue.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use shingle_core::block::{Op, Payload};
    use shingle_core::sector::Sector;

    use super::*;

    fn second(n: u64) -> Instant {
        Instant(n * 1_000_000_000)
    }

    #[test]
    fn an_overdue_command_is_told_at_its_timeout_at_growing_intervals_and_when_it_is_over() {
        let mut watch = Watch::new(time::Duration::from_secs(30));
        let bio = Bio::new(Op::Flush, Sector(0), 0, Payload::None);
        let mut told = Vec::new();
        for now in 0..1000 {
            let waiting = [(second(1), &bio), (second(2), &bio)];
            let overdue = watch.overdue(waiting.into_iter(), second(now));
            if let Some(text) = watch.tell(overdue) {
                told.push((now, text));
            }
        }
        let at: Vec<u64> = told.iter().map(|(now, _)| *now).collect();
        assert_eq!(at, [31, 61, 121, 241, 481, 961]);
        assert!(told[0].1.starts_with("1 command without an answer, the oldest FLUSH 0+0 for 30 s"), "{told:?}");
        assert!(told[1].1.starts_with("2 commands without"), "{told:?}");
        assert!(watch.tell(None).is_some_and(|text| text.contains("for 998 s or more")));
        assert_eq!(watch.tell(None), None);
        let overdue = watch.overdue([(second(1000), &bio)].into_iter(), second(1030));
        assert!(watch.tell(overdue).is_some(), "the next one is told at its timeout again");
    }
}
