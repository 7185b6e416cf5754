//! Values of the block layer as words of a recording.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::choices::Choice;
use crate::fault::Fault;
use crate::volume::VolumeRequest;
use shingle_core::block::{Flags, Op, Priority, Status};
use shingle_core::plug::WritePolicy;
use shingle_core::scheduler::SchedulerKind;
use shingle_core::time::Duration;

/// Nanoseconds.
impl Choice for Duration {
    fn word(&self) -> String {
        self.0.to_string()
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        word.parse().ok().map(Duration)
    }
}

impl<T: Choice> Choice for Option<T> {
    fn word(&self) -> String {
        self.as_ref().map_or_else(|| String::from("none"), Choice::word)
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        if word == "none" { Some(None) } else { T::read(word, &[]).map(Some) }
    }
}

/// Words of a message: spaces are `_`.
impl Choice for &'static str {
    fn word(&self) -> String {
        self.replace(' ', "_")
    }
}

/// Text without `~`, which stands for a space.
impl Choice for String {
    fn word(&self) -> String {
        self.replace(' ', "~")
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        Some(word.replace('~', " "))
    }
}

/// Values between commas; `[]` if there are none.
impl<T: Choice> Choice for Vec<T> {
    fn word(&self) -> String {
        let words: Vec<String> = self.iter().map(Choice::word).collect();
        if words.is_empty() { String::from("[]") } else { words.join(",") }
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        if word == "[]" { Some(Vec::new()) } else { word.split(',').map(|word| T::read(word, &[])).collect() }
    }
}

impl Choice for WritePolicy {
    fn word(&self) -> String {
        self.name().to_string()
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == word)
    }
}

impl Choice for SchedulerKind {
    fn word(&self) -> String {
        self.name().to_string()
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        word.parse().ok()
    }
}

impl Choice for Priority {
    fn word(&self) -> String {
        self.name().to_string()
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == word)
    }
}

/// `Fail(Io)`, `Slow(12)`, `Lose`.
impl Choice for Fault {
    fn read(word: &str, _: &[Self]) -> Option<Self> {
        let (name, value) = word.strip_suffix(')').and_then(|word| word.split_once('(')).unwrap_or((word, ""));
        let mut statuses = (0..Status::COUNT as u8).filter_map(Status::from_byte);
        let mut status = || statuses.find(|status| format!("{status:?}") == value);
        Some(match name {
            "Fail" => Fault::Fail(status()?),
            "Partial" => Fault::Partial(status()?),
            "Landed" => Fault::Landed(status()?),
            "Refuse" => Fault::Refuse(status()?),
            "Lose" => Fault::Lose,
            "Slow" => Fault::Slow(value.parse().ok()?),
            "ZoneReadOnly" => Fault::ZoneReadOnly,
            "ZoneOffline" => Fault::ZoneOffline,
            "Rot" => Fault::Rot,
            "Vanish" => Fault::Vanish,
            "Stray" => Fault::Stray,
            _ => return None,
        })
    }
}

/// Flags with a name in recordings.
const FLAGS: [(Flags, &str); 3] = [(Flags::FUA, "fua"), (Flags::PREFLUSH, "preflush"), (Flags::NOWAIT, "nowait")];

/// `fua+preflush`; `none` without one.
impl Choice for Flags {
    fn word(&self) -> String {
        let names: Vec<&str> = FLAGS.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect();
        if names.is_empty() { String::from("none") } else { names.join("+") }
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        if word == "none" {
            return Some(Flags::NONE);
        }
        let flag = |name: &str| FLAGS.iter().find(|(_, known)| *known == name).map(|(flag, _)| *flag);
        word.split('+').try_fold(Flags::NONE, |flags, name| flag(name).map(|flag| flags.with(flag)))
    }
}

/// `WRITE:12:4:fua`: operation, first block, blocks, flags.
impl Choice for VolumeRequest {
    fn word(&self) -> String {
        format!("{}:{}:{}:{}", self.op.name(), self.block, self.blocks, self.flags.word())
    }

    fn read(word: &str, _: &[Self]) -> Option<Self> {
        let mut parts = word.split(':');
        let name = parts.next()?;
        let op = Op::ALL.into_iter().find(|op| op.name() == name)?;
        let (block, blocks) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { op, block, blocks, flags: Flags::read(parts.next()?, &[])? })
    }
}
