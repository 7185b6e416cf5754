//! The write buffer of a zone: what is acknowledged before it is programmed.

use alloc::collections::VecDeque;

/// Data of a zone on its way to the dies. Offsets are in sectors from the start of the zone.
#[derive(Default)]
pub(super) struct Buffer {
    /// Tells this buffer from an earlier one of the same zone.
    pub number: u64,
    /// End of the data that has come over the host interface.
    pub filled: u32,
    /// End of the data that would survive without the buffer: programs end in any order, but a zone has no holes.
    pub durable: u32,
    /// Commands whose data has not all come, in the order of the write pointer.
    pub waiting: VecDeque<u32>,
    /// Whether it stands in line for the host interface.
    pub in_line: bool,
    /// What is being programmed, in order.
    programs: VecDeque<Program>,
    /// Program units that hold their place in the buffer until they are programmed.
    places: u32,
    unit: u32,
}

struct Program {
    unit: u64,
    end: u32,
    holds_place: bool,
    done: bool,
}

impl Buffer {
    /// A buffer for data from `offset` on, in program units of `unit` sectors.
    pub fn new(number: u64, offset: u32, unit: u32) -> Self {
        Self { number, filled: offset, durable: offset, unit, ..Self::default() }
    }

    /// Sectors that may come now if the buffer has `places` program units.
    pub fn room(&self, places: u32) -> u32 {
        let begun = !self.filled.is_multiple_of(self.unit);
        if begun || self.places < places { self.unit - self.filled % self.unit } else { 0 }
    }

    /// Whether a program unit is complete.
    pub fn at_unit_end(&self) -> bool {
        self.filled.is_multiple_of(self.unit)
    }

    /// Whether all that has come is programmed or about to be.
    pub fn is_covered(&self) -> bool {
        self.programs.back().map_or(self.durable, |last| last.end) == self.filled
    }

    /// Whether it holds nothing and nobody waits for it.
    pub fn is_idle(&self) -> bool {
        self.programs.is_empty() && self.waiting.is_empty() && !self.in_line && self.durable == self.filled
    }

    /// Programs all that has come, as `unit`. A unit that is not complete stays in its place for what follows.
    pub fn program(&mut self, unit: u64, holds_place: bool) {
        self.places += u32::from(holds_place);
        self.programs.push_back(Program { unit, end: self.filled, holds_place, done: false });
    }

    /// The dies have programmed `unit`.
    pub fn programmed(&mut self, unit: u64) {
        let Some(program) = self.programs.iter_mut().find(|program| program.unit == unit) else { return };
        program.done = true;
        self.places -= u32::from(program.holds_place);
        while let Some(first) = self.programs.pop_front_if(|first| first.done) {
            self.durable = self.durable.max(first.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(offset: u32) -> Buffer {
        Buffer { filled: offset, ..Buffer::new(0, 0, 8) }
    }

    #[test]
    fn data_is_durable_as_a_prefix_whatever_the_order_of_the_dies() {
        let mut buffer = filled(8);
        buffer.program(1, true);
        buffer.filled = 16;
        buffer.program(2, true);
        buffer.programmed(2);
        assert_eq!(buffer.durable, 0);
        buffer.programmed(1);
        assert_eq!(buffer.durable, 16);
        assert!(buffer.is_idle());
    }

    #[test]
    fn a_full_buffer_takes_no_more_until_a_unit_is_programmed() {
        let mut buffer = filled(8);
        buffer.program(1, true);
        assert_eq!(buffer.room(2), 8);
        buffer.filled = 13;
        assert_eq!(buffer.room(2), 3);
        buffer.filled = 16;
        buffer.program(2, true);
        assert_eq!(buffer.room(2), 0);
        buffer.programmed(2);
        assert_eq!(buffer.room(2), 8);
    }

    #[test]
    fn a_flushed_part_of_a_unit_keeps_its_place() {
        let mut buffer = filled(3);
        assert!(!buffer.is_covered());
        buffer.program(1, false);
        assert!(buffer.is_covered());
        buffer.programmed(1);
        assert_eq!((buffer.durable, buffer.room(1)), (3, 5));
    }
}
