//! What a stack knows of holes without reading: through tables, and of dm-zoned volumes in every state.

use std::ops::Range;

use shingle_core::block::{DeviceId, Extent, Limits, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::{Table, build_table, parse_table};
use shingle_core::time::Duration;

use crate::zoned::{Volume, ZONE, disk, write};

fn extents(stack: &Stack, device: DeviceId, sectors: Range<u64>, most: usize) -> Vec<Extent> {
    let mut out = Vec::with_capacity(most);
    stack.extents(device, sectors, &mut out);
    out
}

fn small() -> Volume {
    let mut volume = Volume::new(&[disk(40, Some(8))], 4);
    volume.read(0, 1);
    volume
}

fn null(stack: &mut Stack, sectors: u64) -> DeviceId {
    stack.add(Box::new(NullDevice::new(&NullConfig::new(sectors)).unwrap())).unwrap()
}

/// A table of `text` over devices that are called `d0`, `d1` and so on.
fn table(stack: &mut Stack, text: &str, devices: &[DeviceId]) -> DeviceId {
    let find = |name: &str| Ok::<_, Vec<String>>(devices[name[1..].parse::<usize>().unwrap()]);
    let built = build_table(stack, &parse_table(text).unwrap(), &find).unwrap();
    stack.add(Box::new(built.table)).unwrap()
}

#[test]
fn blocks_that_were_never_written_or_were_discarded_are_holes_wherever_the_others_lie() {
    let (mut volume, zone) = (small(), u64::from(ZONE));
    let all = volume.blocks;
    assert_eq!(volume.map(0..all), [(all, true)]);
    volume.write(0, ZONE, 1);
    volume.write(zone + 5, 3, 2);
    // A rewrite lies in a buffer.
    volume.write(10, 4, 3);
    volume.discard(20, 10);
    let expected = [(20, false), (10, true), (zone - 30, false), (5, true), (3, false), (all - zone - 8, true)];
    assert_eq!(volume.map(0..all), expected);
    assert_eq!(volume.map(12..25), [(8, false), (5, true)]);
    volume.message("reclaim");
    volume.rig.pass(Duration::from_millis(60_000));
    assert_eq!(volume.status(), "40 zones 0/0 cache 6/6 random 26/28 sequential", "reclaim has merged the buffer");
    assert_eq!(volume.map(0..all), expected);
    volume.flush();
    volume.reload();
    volume.read(0, 1);
    assert_eq!(volume.map(0..all), expected);
}

#[test]
fn a_write_under_way_is_a_hole_until_it_is_done() {
    let mut volume = small();
    volume.submit(write(3, 2, 9));
    volume.rig.stack.turn(volume.rig.now);
    assert_eq!(volume.map(0..8), [(8, true)]);
    assert_eq!(volume.next().2, Status::Ok);
    assert_eq!(volume.map(0..8), [(3, true), (2, false), (3, true)]);
}

#[test]
fn nothing_is_called_a_hole_before_the_metadata_is_loaded() {
    let mut volume = small();
    volume.write(0, 8, 1);
    volume.flush();
    volume.stop();
    volume.load();
    let all = volume.blocks;
    assert_eq!(volume.map(0..all), [(all, false)], "nobody has asked for it yet");
    volume.submit(write(64, 1, 1));
    while !volume.rig.stack.device::<shingle_core::dm::zoned::Zoned>(volume.target).unwrap().is_loaded() {
        assert_eq!(volume.map(0..all), [(all, false)], "it is being loaded");
        let next = volume.rig.stack.turn(volume.rig.now).unwrap();
        volume.rig.now = volume.rig.now.max(next);
    }
    volume.next();
    assert_eq!(volume.map(0..all), [(8, false), (56, true), (1, false), (all - 65, true)]);
}

#[test]
fn half_a_block_is_what_its_block_is() {
    let mut volume = small();
    volume.write(1, 1, 1);
    let of = |sectors| {
        let found = extents(&volume.rig.stack, volume.rig.top, sectors, 9);
        found.iter().map(|extent| (extent.sectors, extent.is_hole)).collect::<Vec<_>>()
    };
    assert_eq!(of(3..9), [(5, true), (1, false)]);
    assert_eq!(of(13..17), [(3, false), (1, true)]);
    assert_eq!(of(9..10), [(1, false)]);
}

#[test]
fn linear_lines_show_the_holes_below_and_all_others_are_data() {
    let mut volume = small();
    volume.write(4, 4, 1);
    let (top, all) = (volume.rig.top, volume.blocks * 8);
    let stack = &mut volume.rig.stack;
    let plain = null(stack, 4096);
    let half = table(stack, &format!("0 {} linear d0 16", all - 16), &[top]);
    let text =
        "0 64 linear d0 16\n64 128 zero\n192 64 linear d1 0\n256 64 delay d0 0 5\n320 256 striped 2 16 d0 0 d1 0";
    let mixed = table(stack, text, &[half, plain]);
    let found: Vec<_> = extents(stack, mixed, 0..576, 100).iter().map(|e| (e.sectors, e.is_hole)).collect();
    // The volume has data in its sectors 32 to 64; its sector 32 is sector 0 of the table.
    assert_eq!(found, [(32, false), (32 + 128, true), (64 + 64 + 256, false)]);
}

#[test]
fn an_answer_is_bounded_in_its_length_and_in_the_work_for_it_and_goes_on_where_it_ended() {
    let mut volume = small();
    (0..20).for_each(|n| volume.write(n * 2, 1, 1));
    assert_eq!(volume.map(0..40).len(), 40);
    let found = extents(&volume.rig.stack, volume.rig.top, 0..320, 7);
    assert_eq!((found.len(), found.capacity()), (7, 7));
    assert!(found.iter().all(|extent| extent.sectors == 8));
    // Lines without end, of which a question looks at some.
    let mut stack = Stack::new();
    let plain = null(&mut stack, 4096);
    let text: String = (0..1024).map(|n| format!("{n} 1 linear d0 {n}\n")).collect();
    let top = table(&mut stack, &text, &[plain]);
    let found = extents(&stack, top, 0..1024, 10);
    let [Extent { sectors, is_hole: false }] = found[..] else { panic!("{found:?}") };
    assert!(0 < sectors && sectors < 1024, "all of {sectors} lines were looked at");
    assert!(!extents(&stack, top, sectors..1024, 10).is_empty());
}

#[test]
fn a_client_that_does_not_know_that_the_device_has_shrunk_is_told_of_no_holes_behind_its_end() {
    let mut stack = Stack::new();
    let zero = table(&mut stack, "0 64 zero", &[]);
    let line = Table::linear(zero, &Limits::new(64), 0, 32).unwrap();
    let top = stack.add(Box::new(line)).unwrap();
    let expected = [Extent { sectors: 16, is_hole: true }, Extent { sectors: 68, is_hole: false }];
    assert_eq!(extents(&stack, top, 16..100, 9), expected);
    assert_eq!(extents(&stack, top, 40..50, 9), [Extent { sectors: 10, is_hole: false }]);
    assert_eq!(extents(&stack, top, 5..5, 9), []);
}
