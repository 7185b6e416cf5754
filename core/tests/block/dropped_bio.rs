//! Debug builds notice a bio that nobody completes: each by itself, whatever happens to other stacks of the process.
#![cfg(debug_assertions)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use shingle_core::block::{Bio, BlockDevice, Cx, Limits, Op, Payload, Stack};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

/// A device that keeps what comes, or drops it.
struct Forgetful {
    limits: Limits,
    #[expect(clippy::vec_box, reason = "bios stay where they are")]
    kept: Option<Vec<Box<Bio>>>,
    /// What happens when it is dropped.
    end: fn(),
}

impl Drop for Forgetful {
    fn drop(&mut self) {
        (self.end)();
    }
}

impl BlockDevice for Forgetful {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, bio: Box<Bio>, _: &mut Cx<'_>) {
        if let Some(kept) = &mut self.kept {
            kept.push(bio);
        }
    }
    fn describe(&self, _: &mut dyn std::fmt::Write) -> std::fmt::Result {
        Ok(())
    }
}

/// A stack with a flush at a device that keeps it, or drops it.
fn stack(keeps: bool, end: fn()) -> Stack {
    let mut stack = Stack::new();
    let limits = Limits { write_cache: true, ..Limits::new(8) };
    let top = stack.add(Box::new(Forgetful { limits, kept: keeps.then(Vec::new), end })).unwrap();
    let port = stack.open_port();
    stack.submit(port, 0, top, Box::new(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)));
    stack
}

fn drops_a_bio() -> bool {
    let mut forgetful = stack(false, || ());
    let caught = catch_unwind(AssertUnwindSafe(|| forgetful.turn(Instant::ZERO)));
    caught.is_err_and(|panic| panic.downcast_ref::<String>().is_some_and(|text| text.contains("dropped uncompleted")))
}

#[test]
fn a_bio_that_is_dropped_uncompleted_is_noticed() {
    assert!(drops_a_bio());
}

#[test]
fn what_is_in_flight_goes_with_its_stack() {
    let mut stack = stack(true, || ());
    stack.turn(Instant::ZERO);
    drop(stack);
    drop(self::stack(true, || ()));
}

#[test]
fn a_dropped_bio_is_noticed_while_another_stack_is_dropped() {
    drop(stack(true, || assert!(drops_a_bio(), "the check is off for all stacks while one is dropped")));
}

#[test]
fn a_dropped_bio_is_noticed_after_the_drop_of_another_stack_has_panicked() {
    let broken = stack(true, || panic!("a device cannot be put away"));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(broken))).is_err());
    assert!(drops_a_bio(), "the check is off for all stacks after one was dropped half");
}
