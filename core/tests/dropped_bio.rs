//! Alone in its process: while any stack is being dropped, bios may be dropped with it, so other tests would hide this.
#![cfg(debug_assertions)]

use shingle_core::block::{Bio, BlockDevice, Cx, Limits, Op, Payload, Stack};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

#[test]
#[should_panic(expected = "dropped uncompleted")]
fn a_bio_that_is_dropped_uncompleted_is_noticed() {
    struct Forgetful(Limits);
    impl BlockDevice for Forgetful {
        fn limits(&self) -> &Limits {
            &self.0
        }
        fn submit(&mut self, bio: Box<Bio>, _: &mut Cx<'_>) {
            drop(bio);
        }
        fn describe(&self, _: &mut dyn std::fmt::Write) -> std::fmt::Result {
            Ok(())
        }
    }
    let mut stack = Stack::new();
    let top = stack.add(Box::new(Forgetful(Limits { write_cache: true, ..Limits::new(8) }))).unwrap();
    let port = stack.open_port();
    stack.submit(port, 0, top, Box::new(Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None)));
    stack.turn(Instant::ZERO);
}
