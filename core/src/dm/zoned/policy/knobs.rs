//! Every number of the policy, by name.

use core::ops::RangeInclusive;
use core::str::FromStr;

use crate::prelude::*;
use crate::time::Duration;

named_enum! {
    /// Whose decisions are taken.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Style {
        /// Ours: streams straight to sequential zones, reclaim by cost and benefit, pacing.
        #[default]
        Shingle => "shingle",
        /// Those of Linux' dm-zoned: everything to random zones first, the least recently used zone is reclaimed. The baseline.
        Kernel => "kernel",
        /// Those of dm-zoned as it was published in May 2020, before Linux 5.8: with a cache, conventional zones take first writes
        /// and buffers as well. The baseline of the published measurements.
        Kernel2020 => "kernel-2020",
    }

    /// The name in messages and tables.
    fn name(self) -> &'static str;
}

impl Style {
    /// True for the decisions of a Linux kernel, which take no notice of most knobs.
    #[must_use]
    pub fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Kernel2020)
    }
}

impl_display!(Style, |self, f| f.write_str(self.name()));

/// The kernel's (`drivers/md/dm-zoned-reclaim.c:DMZ_IDLE_PERIOD`).
const KERNEL_IDLE: Duration = Duration::from_millis(10_000);

/// The upper bound of `unrecorded_zones`. A set in which a power cut seems to have left more such zones is refused.
pub const MOST_UNRECORDED: u32 = 8;

/// The name of the knob that is a [`Style`].
const STYLE: &str = "policy";

/// A knob that is a number.
struct Number {
    name: &'static str,
    bounds: RangeInclusive<u32>,
    read: fn(&Knobs) -> u32,
    write: fn(&mut Knobs) -> &mut u32,
}

macro_rules! knobs {
    ($($(#[$doc:meta])* $name:ident = $default:literal, $bounds:expr;)*) => {
        /// What can be set about the policy of a `zoned` target, also while it runs.
        ///
        /// A block is 4 KiB. The ends of the bounds are allowed values. [`Style::Kernel`] and [`Style::Kernel2020`] use none of the
        /// numbers but `commit_ms`.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Knobs {
            /// `policy`: whose decisions are taken.
            pub style: Style,
            $($(#[$doc])* pub $name: u32,)*
        }

        impl Default for Knobs {
            fn default() -> Self {
                Self { style: Style::default(), $($name: $default,)* }
            }
        }

        const NUMBERS: &[Number] = &[$(Number {
            name: stringify!($name),
            bounds: $bounds,
            read: |knobs| knobs.$name,
            write: |knobs| &mut knobs.$name,
        },)*];
    };
}

knobs! {
    /// Changes of the mapping that nobody flushes are committed after so long, in ms; 100 to 600000. The kernel's period.
    commit_ms = 10_000, 100..=600_000;
    /// Most sequential zones that are written while the metadata on the disk names no chunk for them; 2 to 8. Writes that
    /// need another one, and discards, wait for a commit and for resets. A set with more of them after a power cut has a disk
    /// that is an older copy of itself.
    unrecorded_zones = 8, 2..=MOST_UNRECORDED;
    /// Longest gap in front of a write to a sequential zone that is filled with zeroes, in blocks; 0 to 65536. The default,
    /// 1 MiB, takes a spindle about as long as a seek.
    fill_blocks = 256, 0..=65_536;
    /// A write has a gap filled that is up to so many times as long as itself, however long that is; 0 to 1024. Without a cache
    /// 128, half a zone of 256 MiB for a write of 1 MiB: to copy that half later would take as many zeroes and more.
    fill_share = 0, 0..=1_024;
    /// The same when fewer buffers are free than `urgent_percent`; 0 to 1048576. Reclaim would have to fill the gap anyway.
    fill_scarce_blocks = 4_096, 0..=1_048_576;
    /// Reorder window of a chunk: how far ahead of the write pointer a write may be and still be held for those before it,
    /// and how much is held, in blocks; 0 to 65536.
    reorder_blocks = 1_024, 0..=65_536;
    /// How long a write is held if nothing else is under way, in ms; 0 to 1000, 0 holds nothing. The default is half a random
    /// write of a spindle.
    reorder_ms = 5, 0..=1_000;
    /// How long it is held while the chunk gets no further but other writes are under way, in ms; 0 to 10000: those before it
    /// may come when these are done.
    reorder_busy_ms = 5, 0..=10_000;
    /// Without a cache: shortest first write of a chunk that goes straight to a sequential zone, in blocks; 1 to 65536.
    direct_blocks = 1, 1..=65_536;
    /// With a cache: the same, in blocks; 1 to 65536. Shorter ones are what a cache is for.
    stream_blocks = 64, 1..=65_536;
    /// Percent of the cache: while more is free, streams go to the cache, too; 0 to 100. 100 sends all streams straight to
    /// sequential zones. With the default the spindle is left to reclaim until the cache is full: users and reclaim that share
    /// it seek, and a chunk that came in two ways has to be copied in two.
    stream_percent = 0, 0..=100;
    /// Reclaim begins when less than so many percent of the buffers are free; 3 to 99.
    start_percent = 40, 3..=99;
    /// It ends when so many percent are; 4 to 100.
    stop_percent = 60, 4..=100;
    /// Below so many percent it copies without rest, also what was written a moment ago; 2 to 98.
    urgent_percent = 20, 2..=98;
    /// Below so many percent it does what frees a zone at all; 1 to 97.
    emergency_percent = 10, 1..=97;
    /// Without a bio for so long the set is idle and reclaim has it for itself, in ms; 0 to 3600000.
    idle_ms = 2_000, 0..=3_600_000;
    /// A chunk that was written within so long stays where it is unless reclaim is urgent, in ms; 0 to 3600000. The default is
    /// the age at which Linux writes dirty pages back (`vm.dirty_expire_centisecs`).
    hot_ms = 30_000, 0..=3_600_000;
    /// What a further piece of a copy costs, in blocks that could be moved meanwhile; 0 to 65536. The default is 2.5 ms of a
    /// spindle.
    seek_blocks = 128, 0..=65_536;
    /// A chunk with fewer percent of valid blocks before its last one is sparse; 0 to 100. Sparse chunks stay in random zones
    /// until the space is needed, or go to conventional zones if the set has a cache.
    dense_percent = 50, 0..=100;
    /// Writes to buffers are paced when less than so many percent of them are free; 0 to 99, 0 paces nothing. Half way from there
    /// to `urgent_percent` as much is let in as is freed.
    pace_percent = 30, 0..=99;
    /// What reclaim is taken to free before it was measured, in blocks per second; 1 to 16777216. The default is 50 MiB/s.
    pace_blocks = 12_800, 1..=16_777_216;
    /// Longest time for which pacing delays a write, in ms; 0 to 10000.
    pace_most_ms = 1_000, 0..=10_000;
    /// What a copy has in memory, in blocks; 64 to 65536: it reads so much before it writes or, from one device to another, reads
    /// one half while it writes the other. With the default, 16 MiB, two seeks are a tenth of a turn.
    window_blocks = 4_096, 64..=65_536;
    /// Longest command of a copy, in blocks; 1 to 4096.
    piece_blocks = 256, 1..=4_096;
    /// Commands of a copy that are under way at once; 1 to 64.
    pieces = 8, 1..=64;
    /// The same while there are users who are not to wait for them; 1 to 64.
    busy_pieces = 2, 1..=64;
    /// Holes up to so many blocks are read through rather than skipped; 0 to 4096.
    gap_blocks = 64, 0..=4_096;
    /// On devices that do not turn, windows and holes that are read through are smaller by this factor; 1 to 64.
    flash_share = 8, 1..=64;
    /// Percent of the time that reclaim copies while there are users and it is not urgent; 1 to 100. With a cache users write
    /// elsewhere; less than 100 also ends reading ahead.
    duty_percent = 100, 1..=100;
}

/// Percentages that have to rise in this order.
const RISING: [&str; 4] = ["emergency_percent", "urgent_percent", "start_percent", "stop_percent"];

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
    /// What knobs are set to for a set without a cache. Its random zones are no faster than the others, and reclaim takes the
    /// same spindle as the users, so it begins late, when most of what it would copy is no longer written, and does not rest.
    #[must_use]
    pub fn without_cache() -> Self {
        Self {
            fill_share: 128,
            start_percent: 10,
            stop_percent: 15,
            urgent_percent: 6,
            emergency_percent: 4,
            pace_percent: 0,
            window_blocks: 8_192,
            pieces: 16,
            busy_pieces: 8,
            duty_percent: 75,
            ..Self::default()
        }
    }

    /// Sets the knob `name`.
    ///
    /// # Errors
    /// If there is no such knob, or `value` is none for it. Nothing has changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), KnobError> {
        self.set_all([(name, value)])
    }

    /// Sets several knobs, of which only what they are in the end has to go together.
    ///
    /// # Errors
    /// As [`Knobs::set`].
    pub fn set_all<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<(), KnobError> {
        let mut new = self.clone();
        pairs.clone().into_iter().try_for_each(|(name, value)| new.put(name, value))?;
        pairs.into_iter().try_for_each(|(name, _)| {
            new.check_order(name).map_err(|message| KnobError { knob: name.into(), message })
        })?;
        *self = new;
        Ok(())
    }

    /// Sets the knob `name`, whatever the others are.
    fn put(&mut self, name: &str, value: &str) -> Result<(), KnobError> {
        let error = |message: String| KnobError { knob: name.into(), message };
        if name == STYLE {
            let style = Style::ALL.into_iter().find(|style| style.name() == value);
            let wrong =
                || error(format!("{STYLE} is `{value}`: write one of {}", Style::ALL.map(Style::name).join(", ")));
            self.style = style.ok_or_else(wrong)?;
            return Ok(());
        }
        let Some(knob) = NUMBERS.iter().find(|knob| knob.name == name) else { return Err(error(unknown(name))) };
        *(knob.write)(self) = knob.parse(value).map_err(error)?;
        Ok(())
    }

    /// All knobs and what they are set to.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, String)> {
        let numbers = NUMBERS.iter().map(|knob| (knob.name, (knob.read)(self).to_string()));
        core::iter::once((STYLE, self.style.to_string())).chain(numbers)
    }

    /// How long a write is held for those before it.
    #[must_use]
    pub fn reorder_time(&self) -> Duration {
        Duration::from_millis(self.reorder_ms.into())
    }

    /// The same while other writes are under way.
    #[must_use]
    pub fn reorder_busy_time(&self) -> Duration {
        Duration::from_millis(self.reorder_busy_ms.into())
    }

    /// How long a change of the mapping stays uncommitted at most.
    #[must_use]
    pub fn commit_time(&self) -> Duration {
        Duration::from_millis(self.commit_ms.into())
    }

    /// How long the set must be without bios to be idle.
    #[must_use]
    pub fn idle_time(&self) -> Duration {
        match self.style {
            Style::Shingle => Duration::from_millis(self.idle_ms.into()),
            Style::Kernel | Style::Kernel2020 => KERNEL_IDLE,
        }
    }

    /// How long ago a chunk must have been written to be reclaimed without need.
    #[must_use]
    pub fn hot_time(&self) -> Duration {
        Duration::from_millis(self.hot_ms.into())
    }

    /// Whether the percentage `name` lies between its [`RISING`] neighbours.
    fn check_order(&self, name: &str) -> Result<(), String> {
        let Some(place) = RISING.iter().position(|rising| *rising == name) else { return Ok(()) };
        let is = |name: &str| NUMBERS.iter().find(|knob| knob.name == name).map_or(0, |knob| (knob.read)(self));
        let percent = is(name);
        for (other, rising) in RISING.iter().enumerate() {
            let neighbour = is(rising);
            let (fits, side) =
                if other < place { (neighbour < percent, "above") } else { (percent < neighbour, "below") };
            if other != place && !fits {
                return Err(format!("{name} is {percent}: it has to be {side} {rising}, which is {neighbour}"));
            }
        }
        Ok(())
    }
}

impl Number {
    fn parse(&self, value: &str) -> Result<u32, String> {
        let number = u32::from_str(value).ok().filter(|number| self.bounds.contains(number));
        let (name, least, most) = (self.name, self.bounds.start(), self.bounds.end());
        number.ok_or_else(|| format!("{name} is `{value}`: write a number from {least} to {most}"))
    }
}

fn unknown(name: &str) -> String {
    let mut message = format!("there is no knob `{name}`; knobs are {STYLE}");
    NUMBERS.iter().for_each(|knob| message += &format!(", {}", knob.name));
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_knob_can_be_set_to_what_it_is_and_to_its_bounds_but_not_beyond() {
        for (name, value) in Knobs::default().list() {
            let mut knobs = Knobs::default();
            knobs.set(name, &value).unwrap();
            assert_eq!(knobs, Knobs::default());
        }
        for knob in NUMBERS.iter().filter(|knob| !RISING.contains(&knob.name)) {
            let (least, most) = (*knob.bounds.start(), *knob.bounds.end());
            for fine in [least, most] {
                let mut knobs = Knobs::default();
                knobs.set(knob.name, &fine.to_string()).unwrap();
                assert!(knobs.list().any(|(name, value)| name == knob.name && value == fine.to_string()));
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
        let wrong = [("speed", "9"), ("policy", "fast"), ("pieces", "many"), ("pieces", ""), ("duty_percent", "0x10")];
        let errors: Vec<_> = wrong.iter().map(|(name, value)| knobs.set(name, value).unwrap_err().message).collect();
        assert_eq!(knobs, Knobs::default());
        assert!(errors[0].contains("`speed`") && errors[0].contains("knobs are policy, "), "{}", errors[0]);
        assert_eq!(errors[1], "policy is `fast`: write one of shingle, kernel, kernel-2020");
        assert_eq!(errors[2], "pieces is `many`: write a number from 1 to 64");
    }

    #[test]
    fn the_percentages_of_reclaim_stay_in_order() {
        let mut knobs = Knobs::default();
        let error = knobs.set("start_percent", "60").unwrap_err();
        assert_eq!(error.message, "start_percent is 60: it has to be below stop_percent, which is 60");
        let error = knobs.set("urgent_percent", "5").unwrap_err();
        assert_eq!(error.message, "urgent_percent is 5: it has to be above emergency_percent, which is 10");
        knobs.set("stop_percent", "90").and_then(|()| knobs.set("start_percent", "60")).unwrap();
        let before = knobs.clone();
        knobs.set_all([("start_percent", "95"), ("speed", "9")]).unwrap_err();
        knobs.set_all([("start_percent", "95"), ("stop_percent", "94")]).unwrap_err();
        assert_eq!(knobs, before, "all or none");
        knobs.set_all([("start_percent", "95"), ("stop_percent", "96")]).unwrap();
        let in_table: Vec<_> = NUMBERS.iter().filter(|knob| RISING.contains(&knob.name)).collect();
        assert_eq!(in_table.len(), RISING.len());
    }

    #[test]
    fn the_policy_of_the_kernel_can_be_asked_for_by_name() {
        let mut knobs = Knobs::default();
        for (name, style) in [("kernel", Style::Kernel), ("kernel-2020", Style::Kernel2020)] {
            knobs.set("policy", name).unwrap();
            assert_eq!(knobs, Knobs { style, ..Knobs::default() });
        }
    }

    #[test]
    fn the_page_of_the_target_has_every_knob_with_its_default_and_bounds() {
        let page = include_str!("../../../../../docs/targets/zoned.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let has = |row: &str| rows.iter().any(|line| line.starts_with(row));
        let others = format!("or {}, {}", Style::Kernel, Style::Kernel2020);
        assert!(has(&format!("| `{STYLE}` | {} | {others} |", Style::default())));
        for knob in NUMBERS {
            let (default, least, most) = ((knob.read)(&Knobs::default()), knob.bounds.start(), knob.bounds.end());
            let row = format!("| `{}` | {default} | {least}, {most} |", knob.name);
            assert!(has(&row), "the page lacks `{row}`");
        }
    }
}
