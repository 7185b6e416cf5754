use super::*;

/// A volume of four blocks and what is done to it.
struct Life(Volume);

impl Life {
    fn new() -> Self {
        Self(Volume::new(4))
    }

    fn start(&mut self, op: Op, block: u32, flags: Flags) -> u64 {
        self.0.submit(VolumeRequest { flags, ..VolumeRequest::new(op, block, 1) }, Instant::ZERO)
    }

    fn done(&mut self, number: u64) {
        self.0.succeed(number, core::iter::empty()).unwrap();
    }

    fn write_with(&mut self, block: u32, flags: Flags) -> u64 {
        let number = self.start(Op::Write, block, flags);
        self.done(number);
        number
    }

    fn write(&mut self, block: u32) -> u64 {
        self.write_with(block, Flags::NONE)
    }

    fn flush(&mut self) {
        let number = self.0.submit(VolumeRequest::FLUSH, Instant::ZERO);
        self.done(number);
    }

    fn read(&mut self, block: u32, seen: Seen) -> Result<(), Rule> {
        let number = self.start(Op::Read, block, Flags::NONE);
        self.0.succeed(number, [seen].into_iter()).map_err(|(rule, _)| rule)
    }

    /// Which of `candidates` may be read now; asking changes nothing.
    fn legal(&self, block: u32, candidates: &[u64]) -> Vec<u64> {
        let may = |request: &&u64| Self(self.0.clone()).read(block, look(block, **request)).is_ok();
        candidates.iter().filter(may).copied().collect()
    }

    /// The same after a loss of power.
    fn left(&self, block: u32, candidates: &[u64]) -> Vec<u64> {
        let mut later = Self(self.0.clone());
        later.0.power_cut();
        later.legal(block, candidates)
    }
}

/// What request `request` has written; 0 stands for zeroes.
fn look(block: u32, request: u64) -> Seen {
    if request == 0 { Seen::Zeroes } else { Seen::Data(request, block) }
}

#[test]
fn a_block_that_was_never_written_reads_as_zeroes_and_as_nothing_else() {
    let mut life = Life::new();
    assert_eq!(life.read(1, Seen::Zeroes), Ok(()));
    assert_eq!(life.read(1, Seen::Garbage), Err(Rule::Data));
    assert_eq!(life.read(1, look(1, 77)), Err(Rule::Data));
}

#[test]
fn what_was_written_to_another_block_is_foreign_whenever_it_was_written() {
    let mut life = Life::new();
    let other = life.write(2);
    assert_eq!(life.read(1, look(2, other)), Err(Rule::Foreign));
    life.0.power_cut();
    assert_eq!(life.read(1, look(2, other)), Err(Rule::Foreign));
}

#[test]
fn an_acknowledged_write_is_seen_and_until_a_flush_any_value_since_the_last_one_may_be_left() {
    let mut life = Life::new();
    let first = life.write(0);
    life.flush();
    let (second, third) = (life.write(0), life.write(0));
    assert_eq!(life.legal(0, &[0, first, second, third]), [third]);
    assert_eq!(life.left(0, &[0, first, second, third]), [first, second, third]);
    life.flush();
    assert_eq!(life.left(0, &[0, first, second, third]), [third]);
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_was_submitted_and_nothing_later() {
    let mut life = Life::new();
    let early = life.write(0);
    let flush = life.0.submit(VolumeRequest::FLUSH, Instant::ZERO);
    let late = life.write(1);
    life.done(flush);
    assert_eq!(life.left(0, &[0, early]), [early]);
    assert_eq!(life.left(1, &[0, late]), [0, late]);
}

#[test]
fn a_flush_that_failed_promises_nothing() {
    let mut life = Life::new();
    let write = life.write(0);
    let flush = life.0.submit(VolumeRequest::FLUSH, Instant::ZERO);
    life.0.fail(flush).unwrap();
    assert_eq!(life.left(0, &[0, write]), [0, write]);
}

#[test]
fn a_write_with_fua_is_durable_by_itself_and_alone() {
    let mut life = Life::new();
    let (plain, fua) = (life.write(0), life.write_with(1, Flags::FUA));
    assert_eq!(life.left(1, &[0, fua]), [fua]);
    assert_eq!(life.left(0, &[0, plain]), [0, plain]);
}

#[test]
fn a_preflush_makes_durable_what_came_before_and_not_its_own_data() {
    let mut life = Life::new();
    let plain = life.write(0);
    let after = life.write_with(1, Flags::PREFLUSH);
    assert_eq!(life.left(0, &[0, plain]), [plain]);
    assert_eq!(life.left(1, &[0, after]), [0, after]);
    let both = life.write_with(1, Flags::PREFLUSH.with(Flags::FUA));
    assert_eq!(life.left(1, &[0, after, both]), [both]);
}

#[test]
fn of_two_writes_at_the_same_time_either_may_win_and_what_was_read_once_stays() {
    let mut life = Life::new();
    let (a, b) = (life.start(Op::Write, 0, Flags::NONE), life.start(Op::Write, 0, Flags::NONE));
    life.done(b);
    life.done(a);
    assert_eq!(life.legal(0, &[0, a, b]), [a, b]);
    assert_eq!(life.read(0, look(0, a)), Ok(()));
    assert_eq!(life.legal(0, &[0, a, b]), [a]);
    assert_eq!(life.left(0, &[0, a, b]), [0, a, b], "without a flush");
    life.flush();
    assert_eq!(life.left(0, &[0, a, b]), [a]);
}

#[test]
fn a_read_beside_a_write_may_see_old_and_new_and_settles_nothing() {
    let mut life = Life::new();
    let old = life.write(0);
    let new = life.start(Op::Write, 0, Flags::NONE);
    assert_eq!(life.read(0, look(0, new)), Ok(()));
    assert_eq!(life.legal(0, &[old, new]), [old, new]);
    let read = life.start(Op::Read, 0, Flags::NONE);
    life.done(new);
    assert!(life.0.succeed(read, [look(0, old)].into_iter()).is_ok(), "it was asked before the write was done");
    assert_eq!(life.legal(0, &[old, new]), [new]);
}

#[test]
fn a_failed_write_may_have_happened_and_replaces_nothing_not_even_with_fua() {
    let mut life = Life::new();
    let old = life.write_with(0, Flags::FUA);
    let new = life.start(Op::Write, 0, Flags::FUA);
    life.0.fail(new).unwrap();
    assert_eq!(life.legal(0, &[0, old, new]), [old, new]);
    assert_eq!(life.left(0, &[0, old, new]), [old, new]);
}

#[test]
fn discards_and_zeroes_read_as_zeroes_and_the_data_may_come_back_until_a_flush() {
    for op in [Op::Discard, Op::WriteZeroes] {
        let mut life = Life::new();
        let data = life.write_with(0, Flags::FUA);
        let zeroed = life.start(op, 0, Flags::NONE);
        life.done(zeroed);
        assert_eq!(life.legal(0, &[0, data]), [0]);
        assert_eq!(life.left(0, &[0, data]), [0, data]);
        life.flush();
        assert_eq!(life.left(0, &[0, data]), [0]);
    }
}

#[test]
fn what_is_in_flight_when_the_power_goes_is_there_or_not_and_what_is_read_then_stays_through_the_next_loss() {
    let mut life = Life::new();
    let old = life.write_with(0, Flags::FUA);
    let new = life.start(Op::Write, 0, Flags::NONE);
    life.0.power_cut();
    assert_eq!(life.legal(0, &[0, old, new]), [old, new]);
    life.0.pin(0, look(0, new));
    life.0.recovered();
    assert_eq!(life.left(0, &[0, old, new]), [new]);
}

#[test]
fn lost_data_is_called_a_matter_of_durability_only_until_it_was_looked_at() {
    let mut life = Life::new();
    life.write_with(0, Flags::FUA);
    life.0.power_cut();
    assert_eq!(life.read(0, Seen::Zeroes), Err(Rule::Durability));
    life.0.recovered();
    assert_eq!(life.read(0, Seen::Zeroes), Err(Rule::Data));
}

#[test]
fn a_request_ends_once() {
    let mut life = Life::new();
    let write = life.write(0);
    assert_eq!(life.0.fail(write).unwrap_err().0, Rule::Completion);
}

#[test]
fn what_is_found_after_a_kill_may_be_lost_with_the_power_until_it_is_flushed() {
    let mut life = Life::new();
    let a = life.write(0);
    life.0.kill();
    life.0.pin(0, Seen::Data(a, 0));
    assert_eq!(life.read(0, Seen::Data(a, 0)), Ok(()));
    assert_eq!(life.read(0, Seen::Zeroes), Err(Rule::Durability), "it was seen");
    let mut later = Life(life.0.clone());
    later.0.power_cut();
    assert_eq!(later.read(0, Seen::Zeroes), Ok(()));
    life.flush();
    life.0.power_cut();
    assert_eq!(life.read(0, Seen::Zeroes), Err(Rule::Durability));
}

#[test]
fn a_forgiven_block_may_hold_every_older_version_and_no_other_data() {
    let mut life = Life::new();
    let (older, newer) = (life.write(1), life.write(1));
    life.flush();
    assert_eq!(life.left(1, &[0, older, newer]), [newer]);
    life.0.forgive();
    assert_eq!(life.left(1, &[0, older, newer]), [0, older, newer]);
    assert_eq!([life.read(1, look(2, newer)), life.read(1, Seen::Garbage)], [Err(Rule::Foreign), Err(Rule::Data)]);
}
