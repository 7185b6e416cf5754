use super::super::*;
use Op::{Discard, Write, WriteZeroes};

/// A volume of four blocks that keeps its writes in order, and what is done to it.
#[derive(Clone)]
struct Life(Volume);

/// What a block is found to hold: 0 stands for zeroes.
type Found = (u32, u64);

impl Life {
    fn new() -> Self {
        Self(Volume::in_order(4))
    }

    fn start(&mut self, op: Op, (block, blocks): (u32, u32), flags: Flags) -> u64 {
        self.0.submit(VolumeRequest { flags, ..VolumeRequest::new(op, block, blocks) }, Instant::ZERO)
    }

    fn write_of(&mut self, block: u32, blocks: u32) -> u64 {
        self.start(Write, (block, blocks), Flags::NONE)
    }

    fn done(&mut self, number: u64) -> u64 {
        self.0.succeed(number, core::iter::empty()).unwrap();
        number
    }

    fn change(&mut self, op: Op, block: u32) -> u64 {
        let number = self.start(op, (block, 1), Flags::NONE);
        self.done(number)
    }

    fn write(&mut self, block: u32) -> u64 {
        self.change(Write, block)
    }

    fn flush(&mut self) {
        let number = self.0.submit(VolumeRequest::FLUSH, Instant::ZERO);
        self.done(number);
    }

    fn read(&mut self, (block, request): Found) -> Result<(), Rule> {
        let seen = if request == 0 { Seen::Zeroes } else { Seen::Data(request, block) };
        let number = self.start(Op::Read, (block, 1), Flags::NONE);
        self.0.succeed(number, [seen].into_iter()).map_err(|(rule, _)| rule)?;
        if self.0.recovering {
            self.0.pin(block, seen);
        }
        Ok(())
    }

    fn find(&mut self, found: &[Found]) -> Result<(), Rule> {
        found.iter().try_for_each(|found| self.read(*found))
    }

    fn cut(&self) -> Self {
        let mut later = self.clone();
        later.0.power_cut();
        later
    }

    /// Whether a loss of power may leave this, in whatever order it is looked at.
    fn leaves(&self, found: &[Found]) -> Result<(), Rule> {
        let forward = self.cut().find(found);
        let backward: Vec<Found> = found.iter().rev().copied().collect();
        assert_eq!(forward, self.cut().find(&backward), "the order of looking at it matters");
        forward
    }

    fn changes(&self) -> usize {
        self.0.order.iter().flat_map(|order| &order.blocks).map(Vec::len).sum()
    }
}

const MISSING: Result<(), Rule> = Err(Rule::Prefix);

#[test]
fn a_write_is_not_left_without_one_that_was_acknowledged_before_it_was_submitted() {
    let mut life = Life::new();
    let (a, b) = (life.write(0), life.write(1));
    assert_eq!(life.leaves(&[(0, 0), (1, b)]), MISSING);
    for left in [[(0, 0), (1, 0)], [(0, a), (1, 0)], [(0, a), (1, b)]] {
        assert_eq!(life.leaves(&left), Ok(()), "{left:?}");
    }
}

#[test]
fn a_disk_that_promises_no_order_may_leave_any_of_its_writes() {
    let mut life = Life(Volume::new(4));
    let (_, b) = (life.write(0), life.write(1));
    assert_eq!(life.leaves(&[(0, 0), (1, b)]), Ok(()));
}

#[test]
fn a_write_that_is_not_acknowledged_may_be_left_and_need_not() {
    let mut life = Life::new();
    let a = life.write_of(0, 1);
    let b = life.write(1);
    for left in [[(0, 0), (1, b)], [(0, a), (1, 0)]] {
        assert_eq!(life.leaves(&left), Ok(()), "{left:?}");
    }
}

#[test]
fn an_older_write_to_a_block_is_not_left_with_a_write_that_follows_its_successor() {
    let mut life = Life::new();
    let (a, b) = (life.write(0), life.write(0));
    let c = life.write(1);
    assert_eq!(life.leaves(&[(0, a), (1, c)]), MISSING);
    assert_eq!(life.leaves(&[(0, b), (1, c)]), Ok(()));
    assert_eq!(life.leaves(&[(0, a), (1, 0)]), Ok(()));
}

#[test]
fn a_write_is_torn_only_if_nothing_is_left_that_followed_its_acknowledgement() {
    let mut life = Life::new();
    let a = life.write_of(0, 3);
    let beside = life.write(3);
    assert_eq!(life.leaves(&[(0, a), (1, 0), (2, a), (3, beside)]), Ok(()), "in flight");
    life.done(a);
    assert_eq!(life.leaves(&[(0, a), (1, 0), (2, a)]), Ok(()), "nothing follows");
    let after = life.write(3);
    assert_eq!(life.leaves(&[(0, a), (1, 0), (2, a), (3, after)]), MISSING);
    assert_eq!(life.leaves(&[(0, a), (1, a), (2, a), (3, after)]), Ok(()));
}

#[test]
fn discards_and_zeroes_take_their_place_in_the_order() {
    for op in [Discard, WriteZeroes] {
        let mut life = Life::new();
        let data = life.write(0);
        life.flush();
        let before = life.write(1);
        life.change(op, 0);
        let after = life.write(2);
        assert_eq!(life.leaves(&[(0, data), (2, after)]), MISSING, "data that was discarded came back");
        assert_eq!(life.leaves(&[(0, 0), (1, 0)]), MISSING, "what precedes a discard is lost, and it is not");
        assert_eq!(life.leaves(&[(0, 0), (1, before), (2, 0)]), Ok(()));
        assert_eq!(life.leaves(&[(0, data), (1, 0), (2, 0)]), Ok(()));
    }
}

#[test]
fn zeroes_that_may_have_been_there_before_tell_nothing() {
    let mut life = Life::new();
    life.write(0);
    life.write(1);
    life.change(Discard, 0);
    assert_eq!(life.leaves(&[(0, 0), (1, 0)]), Ok(()));
}

#[test]
fn zeroes_are_taken_for_the_first_that_what_else_is_left_allows() {
    let mut life = Life::new();
    let a = life.write(0);
    let first = life.write(1);
    life.change(Discard, 0);
    let second = life.write(2);
    life.write(0);
    life.write(3);
    life.change(Discard, 0);
    assert_eq!(life.leaves(&[(0, 0), (1, first), (2, second), (3, 0)]), Ok(()), "the first discard");
    assert_eq!(life.leaves(&[(0, a), (2, second)]), MISSING);
    assert_eq!(life.leaves(&[(0, 0), (1, first), (2, 0), (3, 0)]), Ok(()), "the first discard, or none at all");
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_on_all_blocks() {
    let mut life = Life::new();
    let a = life.write(0);
    let flush = life.0.submit(VolumeRequest::FLUSH, Instant::ZERO);
    life.write(1);
    assert_eq!(life.leaves(&[(0, 0)]), Ok(()), "the flush is not answered");
    life.done(flush);
    assert_eq!(life.leaves(&[(0, a), (1, 0)]), Ok(()));
    assert_eq!(life.leaves(&[(0, 0)]), Err(Rule::Durability), "every disk promises that");
}

#[test]
fn a_write_with_fua_makes_all_before_it_durable() {
    for flags in [Flags::FUA, Flags::PREFLUSH.with(Flags::FUA)] {
        let mut life = Life::new();
        let early = life.write(0);
        let open = life.write_of(1, 1);
        let fua = life.start(Write, (2, 1), flags);
        assert_eq!(life.leaves(&[(0, 0), (2, 0)]), Ok(()));
        life.done(fua);
        assert!(life.leaves(&[(0, 0), (2, fua)]).is_err());
        assert_eq!(life.leaves(&[(0, early), (2, 0)]), Err(Rule::Durability));
        assert_eq!(life.leaves(&[(0, early), (1, 0), (2, fua)]), Ok(()));
        assert_eq!(life.leaves(&[(0, early), (1, open), (2, fua)]), Ok(()));
    }
}

#[test]
fn a_write_with_fua_alone_does_what_a_disk_does_with_a_preflush() {
    let mut life = Life::new();
    let early = life.write(0);
    let fua = life.start(Write, (2, 1), Flags::FUA);
    life.done(fua);
    assert_eq!(life.leaves(&[(0, 0)]), MISSING, "also where nobody looks at the write itself");
    assert_eq!(life.leaves(&[(0, early)]), Ok(()));
}

#[test]
fn of_two_writes_at_the_same_time_either_is_left_block_by_block() {
    let mut life = Life::new();
    let (a, b) = (life.write_of(0, 2), life.write_of(0, 2));
    life.done(b);
    life.done(a);
    let after = life.write(3);
    for left in [[(0, a), (1, a), (3, after)], [(0, b), (1, a), (3, after)], [(0, a), (1, b), (3, after)]] {
        assert_eq!(life.leaves(&left), Ok(()), "{left:?}");
    }
    assert_eq!(life.leaves(&[(0, 0), (1, a), (3, after)]), MISSING);
}

#[test]
fn a_failed_write_need_not_be_left_and_does_not_come_after_what_replaced_it() {
    let mut life = Life::new();
    let failed = life.write_of(0, 1);
    life.0.fail(failed).unwrap();
    let other = life.write(1);
    assert_eq!(life.leaves(&[(0, 0), (1, other)]), Ok(()));
    assert_eq!(life.leaves(&[(0, failed), (1, 0)]), Ok(()));
    let newer = life.write(0);
    let last = life.write(2);
    assert_eq!(life.leaves(&[(0, failed), (2, last)]), MISSING);
    assert_eq!(life.leaves(&[(0, newer), (2, last)]), Ok(()));
}

#[test]
fn what_was_found_once_is_found_again() {
    let mut life = Life::new();
    let a = life.write(0);
    let mut second = life.cut();
    second.read((0, 0)).unwrap();
    second.0.recovered();
    let b = second.write(1);
    assert!(second.leaves(&[(0, a)]).is_err());
    assert_eq!(second.leaves(&[(0, 0), (1, b)]), Ok(()));
    assert_eq!(second.leaves(&[(0, 0), (1, 0)]), Ok(()));
}

#[test]
fn the_order_of_a_life_holds_where_nobody_looked_before_the_next_one_ended() {
    let mut life = Life::new();
    let (a, b) = (life.write(0), life.write(1));
    let mut second = life.cut();
    second.0.recovered();
    let c = second.write(2);
    assert_eq!(second.leaves(&[(0, 0), (1, b), (2, c)]), MISSING);
    for left in [[(0, a), (1, b), (2, 0)], [(0, 0), (1, 0), (2, c)], [(0, a), (1, 0), (2, c)]] {
        assert_eq!(second.leaves(&left), Ok(()), "{left:?}");
    }
}

#[test]
fn what_a_read_finds_binds_what_later_losses_leave_of_other_blocks() {
    let mut life = Life::new();
    let (a, b) = (life.write(0), life.write(1));
    let mut second = life.cut();
    second.0.recovered();
    let c = second.write(0);
    second.read((1, b)).unwrap();
    assert_eq!(second.leaves(&[(0, 0)]), MISSING, "with the one goes the other");
    for left in [a, c] {
        assert_eq!(second.leaves(&[(0, left), (1, b)]), Ok(()));
    }
}

#[test]
fn a_write_of_this_life_is_not_left_on_what_the_last_one_did_not_leave() {
    let mut life = Life::new();
    life.write(0);
    let mut second = life.cut();
    second.0.recovered();
    let b = second.write(0);
    let c = second.write(1);
    assert_eq!(second.leaves(&[(0, 0), (1, c)]), MISSING);
    assert_eq!(second.leaves(&[(0, b), (1, c)]), Ok(()));
}

#[test]
fn a_recovery_that_is_cut_itself_binds_nobody_until_something_was_read() {
    let mut life = Life::new();
    let (a, b) = (life.write(0), life.write(1));
    let again = life.cut();
    for left in [[(0, 0), (1, 0)], [(0, a), (1, 0)], [(0, a), (1, b)]] {
        assert_eq!(again.leaves(&left), Ok(()), "{left:?}");
    }
    assert_eq!(again.leaves(&[(0, 0), (1, b)]), MISSING);
}

#[test]
fn a_late_read_may_see_what_was_replaced_and_flushed_meanwhile() {
    let mut life = Life::new();
    life.write(0);
    let mut second = life.cut();
    second.0.recovered();
    let late = second.start(Op::Read, (0, 1), Flags::NONE);
    second.write(0);
    second.flush();
    assert!(second.0.succeed(late, [Seen::Zeroes].into_iter()).is_ok());
}

#[test]
fn what_nobody_can_find_any_more_is_forgotten() {
    let mut life = Life::new();
    for round in 0..1_000 {
        life.write(round % 4);
        if round % 10 == 9 {
            life.flush();
            assert!(life.changes() <= 4, "{}", life.changes());
        }
    }
    life.0.power_cut();
    assert!(life.changes() <= 4);
}

#[test]
fn a_kill_takes_nothing_that_was_acknowledged_and_what_is_found_then_stays() {
    let mut life = Life::new();
    let (a, open) = (life.write(0), life.write_of(1, 1));
    life.0.kill();
    assert_eq!(life.clone().read((0, 0)), Err(Rule::Durability));
    assert_eq!(life.clone().find(&[(0, a), (1, 0)]), Ok(()));
    assert_eq!(life.find(&[(0, a), (1, open)]), Ok(()));
    assert_eq!(life.leaves(&[(0, 0)]), Err(Rule::Durability), "it was found, and so it is durable");
    assert_eq!(life.leaves(&[(0, a), (1, open)]), Ok(()));
}

#[test]
fn a_loss_of_power_before_anything_is_found_after_a_kill_leaves_a_prefix() {
    let mut life = Life::new();
    let (a, b) = (life.write(0), life.write(1));
    life.0.kill();
    for left in [[(0, 0), (1, 0)], [(0, a), (1, 0)], [(0, a), (1, b)]] {
        assert_eq!(life.leaves(&left), Ok(()), "{left:?}");
    }
    assert_eq!(life.leaves(&[(0, 0), (1, b)]), MISSING);
}
