//! Guards of the target `stl` that random worlds seldom need: with them nothing is lost, and without each something is.

mod rig;
mod shingled;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Op, Status};
use shingle_core::dm::stl::{Sabotage, Stl};
use shingle_core::random::Rng;
use shingled::{Volume, disk, first_bytes, read, small};

/// Keeps one read back for as long as somebody says.
struct Gate {
    below: [DeviceId; 1],
    limits: Limits,
    is_armed: bool,
    kept: Option<Box<Bio>>,
}

impl BlockDevice for Gate {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.is_armed && bio.op == Op::Read {
            self.is_armed = false;
            self.kept = Some(bio);
            return;
        }
        cx.submit(self.below[0], bio, 0);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, _: u64, cx: &mut Cx<'_>) {
        cx.complete(bio, status);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.kept.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("a gate")
    }
}

/// The disk is 0.
const GATE: DeviceId = DeviceId(1);

/// What a read finds that is under way while all that it could find is written over several times, if anything.
fn late_read(gone: Sabotage) -> Option<u8> {
    let mut volume = Volume::over(&[disk(40, Some(0))], 200, small(), |stack, leaf| {
        let limits = stack.limits(leaf).clone();
        stack.add(Box::new(Gate { below: [leaf], limits, is_armed: false, kept: None })).unwrap()
    });
    let top = volume.rig.top;
    volume.rig.stack.with_device(top, |stl: &mut Stl, _| stl.sabotage(gone)).unwrap();
    (0..volume.blocks).for_each(|block| volume.write(block, 1, 1));
    assert_eq!(volume.read(7, 1), [1]);
    volume.rig.stack.with_device(GATE, |gate: &mut Gate, _| gate.is_armed = true).unwrap();
    let late = volume.rig.submit(read(7, 1));
    let mut rng = Rng::new(1);
    for _ in 0..4 * volume.blocks {
        let block = rng.below(volume.blocks);
        volume.write(block, 1, 2);
    }
    assert!(volume.work().0 > 20, "hardly anything was cleaned");
    volume
        .rig
        .stack
        .with_device(GATE, |gate: &mut Gate, cx| {
            let bio = gate.kept.take().expect("the read came there");
            cx.submit(gate.below[0], bio, 0);
        })
        .unwrap();
    let done = volume.rig.next();
    assert_eq!(done.tag, late);
    done.status.is_ok().then(|| first_bytes(&done.bio)[0])
}

#[test]
fn a_read_finds_what_was_there_when_it_began_however_late_it_comes() {
    assert_eq!(late_read(Sabotage::default()), Some(1));
}

#[test]
fn a_read_that_does_not_keep_its_zone_finds_something_else() {
    assert_ne!(late_read(Sabotage { readers_unpinned: true, ..Sabotage::default() }), Some(1));
}
