//! The tools refuse disks that are not the members of one set in its order, change nothing, and say what each disk is.

use shingle_core::block::Limits;
use shingle_core::dm::zoned::check::{Next, OnLoss, RepairError, Salvage, SalvageError, check, relabel, repair};
use shingle_core::dm::zoned::format::{Label, LoadError, Media, MemoryMedia, Sets, Superblock, Volume, format};
use shingle_core::dm::zoned::{Block, MemberNo, Number, ZoneClass};

use crate::dmz::{blank, filled, options, read, regular, zoned};

const ZONE_BLOCKS: u32 = 64;

/// A disk of a set in memory: its set, its limits and its number there.
#[derive(Clone, Copy)]
struct Disk<'a>(&'a MemoryMedia, &'a Limits, usize);

/// Puts disks together in this order, with their content.
fn assembled(disks: &[Disk<'_>]) -> MemoryMedia {
    let limits: Vec<Limits> = disks.iter().map(|disk| disk.1.clone()).collect();
    let mut media = blank(&limits);
    for (number, Disk(from, _, place)) in disks.iter().enumerate() {
        let member = from.space().members()[MemberNo::of(*place)].clone();
        let first = media.space().members()[MemberNo::of(number)].first_zone;
        for zone in 0..member.zones {
            let (from_zone, to_zone) = (member.first_zone + zone, first + zone);
            let (from_block, to_block) = (from.space().start(from_zone), media.space().start(to_zone));
            for block in 0..u64::from(from.space().zone_len(from_zone)) {
                let bytes = from.block(from_block + block);
                if bytes.iter().any(|byte| *byte != 0) {
                    media.put(to_block + block, &bytes);
                }
            }
            if from.space().zones()[from_zone].class == ZoneClass::Sequential {
                media.set_wp(to_zone, from.space().zones()[from_zone].wp);
            }
        }
    }
    media
}

/// Two sets of a regular disk and three zoned ones, of which the last is longer.
struct TwoSets {
    limits: Vec<Limits>,
    own: MemoryMedia,
    foreign: MemoryMedia,
}

impl TwoSets {
    fn new() -> Self {
        let zoned = |zones| zoned(zones, ZONE_BLOCKS, 0);
        let limits = vec![regular(40 * u64::from(ZONE_BLOCKS)), zoned(30), zoned(30), zoned(50)];
        let own = filled(&limits, 2);
        let mut foreign = blank(&limits);
        let other = shingle_core::dm::zoned::format::FormatOptions { set_uuid: [0x77; 16], ..options(limits.len()) };
        format(&mut foreign, &other, &mut |_, _| ()).unwrap();
        Self { limits, own, foreign }
    }

    fn own(&self, number: usize) -> Disk<'_> {
        Disk(&self.own, &self.limits[number], number)
    }

    fn foreign(&self, number: usize) -> Disk<'_> {
        Disk(&self.foreign, &self.limits[number], number)
    }
}

fn all_blocks(media: &mut MemoryMedia) -> Vec<(Vec<u8>, Block)> {
    let space = media.space().clone();
    let zones = space.zones().numbers();
    zones.map(|zone| (read(media, space.start(zone), space.zone_len(zone) as usize), space.zones()[zone].wp)).collect()
}

/// Asserts that every tool refuses the disks and changes nothing; returns the message.
fn refused(mut media: MemoryMedia, what: &str) -> String {
    let before = all_blocks(&mut media);
    let report = check(&mut media, &mut |_, _| ());
    assert_eq!(report.next(), Next::GiveMembers, "{what}: {report}");
    let message = report.wrong_members.expect(what).to_string();
    for on_loss in [OnLoss::Refuse, OnLoss::GiveUp] {
        let repaired = repair(&mut media, on_loss, &mut |_, _| ());
        assert!(matches!(repaired, Err(RepairError::Members(_))), "{what}: {repaired:?}");
    }
    let relabelled = relabel(&mut media, Label::new("other").unwrap());
    assert!(matches!(relabelled, Err(RepairError::Members(_))), "{what}: {relabelled:?}");
    let salvaged = Salvage::survey(&mut media, &mut |_, _| ());
    assert!(matches!(salvaged, Err(SalvageError::Members(_))), "{what}: {salvaged:?}");
    let loaded = Volume::load(&mut media);
    assert!(matches!(loaded, Err(LoadError::Members(_))), "{what}: {loaded:?}");
    assert!(all_blocks(&mut media) == before, "{what}: something was written");
    message
}

fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    let Some((first, rest)) = of.split_first() else { return vec![Vec::new()] };
    let insert = |rest: &Vec<usize>| {
        (0..=rest.len()).map(|at| [&rest[..at], &[*first], &rest[at..]].concat()).collect::<Vec<_>>()
    };
    permutations(rest).iter().flat_map(insert).collect()
}

#[test]
fn tools_refuse_members_in_every_wrong_order_and_print_the_right_one() {
    let sets = TwoSets::new();
    let orders = permutations(&[1, 2, 3]);
    assert_eq!(orders.len(), 6);
    for order in orders {
        let disks: Vec<_> = [0].iter().chain(&order).map(|number| sets.own(*number)).collect();
        let mut media = assembled(&disks);
        if order == [1, 2, 3] {
            assert!(check(&mut media, &mut |_, _| ()).is_clean());
            continue;
        }
        let message = refused(media, &format!("{order:?}"));
        let place = |number: usize| 1 + order.iter().position(|own| *own == number).unwrap();
        let right = format!("in this order: device 0 device {} device {} device {}", place(1), place(2), place(3));
        assert!(message.contains(&right), "{message}");
    }
}

#[test]
fn tools_refuse_a_set_of_which_a_member_is_missing() {
    let sets = TwoSets::new();
    for missing in 1..4 {
        let disks: Vec<_> = (0..4).filter(|number| *number != missing).map(|number| sets.own(number)).collect();
        let message = refused(assembled(&disks), &format!("without {missing}"));
        let zones = ["40 to 69", "70 to 99", "100 to 149"][missing - 1];
        assert!(message.contains(&format!("the disk with zones {zones} of the set is missing")), "{message}");
    }
    let message = refused(assembled(&[sets.own(2)]), "one zoned disk alone");
    assert!(message.contains("label \"a set\"") && message.contains("first zone 70 of 150"), "{message}");
    assert!(message.contains("disk 03030303-0303"), "{message}");
}

#[test]
fn tools_refuse_a_member_of_another_set_in_every_position() {
    let sets = TwoSets::new();
    for place in 0..4 {
        let disk = |number| if number == place { sets.foreign(number) } else { sets.own(number) };
        let disks: Vec<_> = (0..4).map(disk).collect();
        let message = refused(assembled(&disks), &format!("a foreign disk at {place}"));
        let own: Vec<_> = (0..4).filter(|number| *number != place).map(|number| format!("device {number}")).collect();
        assert!(
            message.contains(&format!("set 5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a has {}", own.join(" "))),
            "{message}"
        );
        assert!(message.contains(&format!("set 77777777-7777-7777-7777-777777777777 has device {place}")), "{message}");
    }
}

#[test]
fn tools_refuse_wrong_members_also_where_both_superblocks_of_the_set_are_lost() {
    let sets = TwoSets::new();
    let starts = [0, 1].map(|set| Sets::find(&mut sets.own.clone()).unwrap().layout.set_start(sets.own.space(), set));
    for (what, numbers) in
        [("swapped", vec![0, 2, 1, 3]), ("missing", vec![0, 1, 3]), ("longer first", vec![0, 3, 1, 2])]
    {
        let mut media = assembled(&numbers.iter().map(|number| sets.own(*number)).collect::<Vec<_>>());
        starts.iter().for_each(|start| media.put(*start, &[0; 4096]));
        refused(media, what);
    }
    // In its order the set can be salvaged.
    let mut media = sets.own.clone();
    starts.iter().for_each(|start| media.put(*start, &[0; 4096]));
    Salvage::survey(&mut media, &mut |_, _| ()).unwrap();
}

#[test]
fn a_repair_writes_the_tertiary_superblock_of_a_member_that_lost_it() {
    let sets = TwoSets::new();
    let mut media = sets.own.clone();
    let block = media.space().start(media.space().members()[MemberNo(2)].first_zone);
    media.put(block, &[0; 4096]);
    assert!(repair(&mut media, OnLoss::Refuse, &mut |_, _| ()).unwrap().after.is_clean());
    assert_eq!(Superblock::decode(&read(&mut media, block, 1)).unwrap().set_uuid, [0x5a; 16]);
}
