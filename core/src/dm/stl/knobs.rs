//! What can be set about a volume, by name: in its table line, in a stack file, and while it runs.

use core::ops::RangeInclusive;

use super::BLOCK_BYTES;
use super::options::Options;
use crate::prelude::*;
use crate::time::Duration;

/// A knob: its name, what it may be, and where it goes.
struct Number {
    name: &'static str,
    bounds: RangeInclusive<u32>,
    read: fn(&Knobs) -> u32,
    write: fn(&mut Knobs) -> &mut u32,
    apply: fn(u32, &mut Options),
}

macro_rules! knobs {
    ($($(#[$doc:meta])* $name:ident = $default:literal, $bounds:expr, $apply:expr;)*) => {
        /// What can be set about an `stl` target. A block is 4 KiB. The ends of the bounds are allowed values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Knobs {
            $($(#[$doc])* pub $name: u32,)*
        }

        impl Default for Knobs {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        const NUMBERS: &[Number] = &[$(Number {
            name: stringify!($name),
            bounds: $bounds,
            read: |knobs| knobs.$name,
            write: |knobs| &mut knobs.$name,
            apply: $apply,
        },)*];
    };
}

const MIB: usize = 1 << 20;
/// Extents of the map in memory, for each MiB: a quarter of the memory.
const CACHED_OF_MIB: usize = 4096;

knobs! {
    /// Memory for the map, in MiB; 4 to 65536. An eighth is for what no checkpoint has yet, half for the index of runs, a quarter for
    /// parts of the map that were read, and the rest is for what a checkpoint is writing meanwhile.
    memory = 256, 4..=65_536, |mib, options| {
        let bytes = mib as usize * MIB;
        (options.pending_bytes, options.index_bytes) = (bytes / 8, bytes / 2);
        options.sweep_blocks = (bytes / 8 / BLOCK_BYTES) as u32;
        options.cached_extents = mib as usize * CACHED_OF_MIB;
    };
    /// Most blocks of data of a batch; 1 to 4096.
    batch = 256, 1..=4_096, |blocks, options| options.batch_blocks = blocks;
    /// Zones' worth of 256 MiB that a start may have to read again; 1 to 65536. A checkpoint is due after that many.
    replay = 3, 1..=65_536, |zones, options| options.replay_blocks = u64::from(zones) * 65_536;
    /// Blocks that cleaning and sweeps read at a time, before users have the disk again; 16 to 65536. More is faster, less has users wait for less.
    turn = 4096, 16..=65_536, |blocks, options| options.turn_blocks = blocks;
    /// Runs after which they are merged; 1 to 250.
    runs = 200, 1..=250, |runs, options| options.most_runs = runs as usize;
    /// Seconds without a user after which the volume cleans what is cheap and puts in order what is read so; 1 to 86400.
    idle = 10, 1..=86_400, |seconds, options| options.idle_after = Duration::from_millis(u64::from(seconds) * 1000);
}

/// Invalid value of a knob: which knob, the value, and its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobError {
    /// The knob, as it was named.
    pub knob: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl_error!(KnobError, |self, f| f.write_str(&self.message));

impl Knobs {
    /// Sets the knob `name`.
    ///
    /// # Errors
    /// If there is no such knob, or `value` is none for it. Nothing has changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), KnobError> {
        let error = |message| KnobError { knob: name.into(), message };
        let Some(knob) = NUMBERS.iter().find(|knob| knob.name == name) else { return Err(error(unknown(name))) };
        let number = value.parse().ok().filter(|number| knob.bounds.contains(number));
        let (least, most) = (knob.bounds.start(), knob.bounds.end());
        let wrong = || error(format!("{name} is `{value}`: write a number from {least} to {most}"));
        *(knob.write)(self) = number.ok_or_else(wrong)?;
        Ok(())
    }

    /// Sets several knobs.
    ///
    /// # Errors
    /// As [`Knobs::set`]. Nothing has changed then.
    pub fn set_all<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), KnobError> {
        let mut new = *self;
        pairs.into_iter().try_for_each(|(name, value)| new.set(name, value))?;
        *self = new;
        Ok(())
    }

    /// All knobs and what they are set to.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, u32)> {
        NUMBERS.iter().map(|knob| (knob.name, (knob.read)(self)))
    }

    /// What they come to.
    #[must_use]
    pub fn options(&self) -> Options {
        let mut options = Options::default();
        NUMBERS.iter().for_each(|knob| (knob.apply)((knob.read)(self), &mut options));
        options
    }

    /// Changes in `options` what is another knob than in `before`.
    pub(super) fn apply_changes(&self, before: &Self, options: &mut Options) {
        let changed = NUMBERS.iter().filter(|knob| (knob.read)(self) != (knob.read)(before));
        changed.for_each(|knob| (knob.apply)((knob.read)(self), options));
    }
}

fn unknown(name: &str) -> String {
    let known: Vec<&str> = NUMBERS.iter().map(|knob| knob.name).collect();
    format!("there is no knob `{name}`; knobs are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_that_nobody_turns_are_what_a_volume_has_without_them() {
        assert_eq!(Knobs::default().options(), Options::default());
    }

    #[test]
    fn every_knob_can_be_set_to_its_bounds_but_not_beyond_and_does_something() {
        for knob in NUMBERS {
            let (least, most) = (*knob.bounds.start(), *knob.bounds.end());
            for fine in [least, most] {
                let mut knobs = Knobs::default();
                knobs.set(knob.name, &fine.to_string()).unwrap();
                assert!(knobs.list().any(|it| it == (knob.name, fine)));
                assert_ne!(knobs.options(), Options::default(), "{} {fine}", knob.name);
            }
            for wrong in [i64::from(least) - 1, i64::from(most) + 1] {
                let error = Knobs::default().set(knob.name, &wrong.to_string()).unwrap_err();
                let named = [knob.name.to_string(), wrong.to_string(), least.to_string(), most.to_string()];
                assert!(named.iter().all(|word| error.message.contains(word)), "{error}");
            }
        }
    }

    #[test]
    fn a_wrong_knob_or_value_changes_nothing_and_says_what_there_is() {
        let mut knobs = Knobs::default();
        let error = knobs.set_all([("memory", "64"), ("speed", "9")]).unwrap_err();
        assert_eq!(error.message, "there is no knob `speed`; knobs are memory, batch, replay, turn, runs, idle");
        assert_eq!(knobs.set("batch", "many").unwrap_err().message, "batch is `many`: write a number from 1 to 4096");
        assert_eq!(knobs, Knobs::default());
    }
}
