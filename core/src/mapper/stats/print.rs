//! What `@stats_list` and `@stats_print` answer, byte for byte as `drivers/md/dm-stats.c:dm_stats_list` and
//! `dm_stats_print` have it.

use core::fmt;
use core::ops::Range;

use super::area::Clock;
use super::region::Region;

/// Numbers with something between them.
fn separated(f: &mut fmt::Formatter<'_>, numbers: &[u64], separator: char) -> fmt::Result {
    for (place, number) in numbers.iter().enumerate() {
        if place > 0 {
            write!(f, "{separator}")?;
        }
        write!(f, "{number}")?;
    }
    Ok(())
}

/// One line per region: `0: 0+2048 1024 program aux precise_timestamps histogram:10,20`.
pub(super) struct Listing<'a> {
    pub regions: &'a [Region],
    /// Only this program's regions.
    pub program: Option<&'a str>,
}

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |region: &&Region| self.program.is_none_or(|program| program == region.program);
        for region in self.regions.iter().filter(listed) {
            let Range { start, end } = region.sectors();
            let Region { id, program, aux, .. } = region;
            write!(f, "{id}: {start}+{} {} {program} {aux}", end - start, region.step())?;
            if region.clock == Clock::Nanos {
                f.write_str(" precise_timestamps")?;
            }
            if let Some(histogram) = &region.histogram {
                f.write_str(" histogram:")?;
                separated(f, &histogram.boundaries, ',')?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// One line per area: `0+1024`, 13 counters, and the histogram.
pub(super) struct Printout<'a> {
    pub region: &'a Region,
    pub areas: Range<usize>,
}

impl Printout<'_> {
    /// Numbers of a line without a histogram.
    pub const NUMBERS: u64 = 15;

    fn line(&self, f: &mut fmt::Formatter<'_>, index: usize) -> fmt::Result {
        let step = self.region.step();
        // The step even where the last area is shorter.
        write!(f, "{}+{step}", self.region.sectors().start + index as u64 * step)?;
        let area = self.region.area(index);
        for done in area.done {
            // Bios are not merged here: the second number of each direction is 0.
            write!(f, " {} 0 {} {}", done.ios, done.sectors, done.ticks)?;
        }
        let [reads, writes] = area.done.map(|done| done.busy);
        write!(f, " {} {} {} {reads} {writes}", area.all_in_flight(), area.busy, area.weighted)?;
        if let Some(histogram) = &self.region.histogram {
            f.write_str(" ")?;
            separated(f, histogram.buckets(index), ':')?;
        }
        f.write_str("\n")
    }
}

impl fmt::Display for Printout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.areas.clone().try_for_each(|index| self.line(f, index))
    }
}
