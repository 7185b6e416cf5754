//! A device is taken out of a volume of `stl`: nothing is lost, wherever that is cut off, and it goes on when it is called again.

use std::cell::Cell;
use std::rc::Rc;

use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Op, Reason, Status};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::dm::stl::format::{MemberState, ZoneRow, ZoneUse};
use shingle_core::dm::stl::tools::{
    self, AddError, Depth, Finding, Findings, Media, MemoryMedia, Removal, RemoveError, Report, Spot, Survey, add,
    check, finish_removal, plan_removal,
};
use shingle_core::dm::stl::{Stage, Step, Stl};
use shingle_core::random::Rng;
use shingle_core::zone::ZoneNo;

use crate::shingled::cut::Cut;
use crate::shingled::shelf::{assembled, put_back, taken_out};
use crate::shingled::{Volume, disk, read, small};

/// Changes that disks still take before the power is lost; each of all disks counts.
type Left = Rc<Cell<u64>>;

/// A disk of which the power is lost.
struct Power {
    below: [DeviceId; 1],
    limits: Limits,
    left: Left,
}

impl BlockDevice for Power {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let left = self.left.get();
        if left == 0 {
            return cx.fail(bio, Reason::Medium);
        }
        self.left.set(left - u64::from(!matches!(bio.op, Op::Read | Op::ReportZones)));
        cx.submit(self.below[0], bio, 0);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, _: u64, cx: &mut Cx<'_>) {
        cx.complete(bio, status);
    }

    fn held(&self, _: &mut dyn FnMut(&Bio)) {}

    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("power")
    }
}

/// A case: the disks that stay, and that which leaves.
struct Case {
    stay: Vec<NullConfig>,
    leaves: NullConfig,
    /// Its place among them when the volume was made.
    place: usize,
}

impl Case {
    fn new(stay: &[NullConfig], leaves: NullConfig, place: usize) -> Self {
        Self { stay: stay.to_vec(), leaves, place }
    }

    /// All disks, that which leaves last.
    fn disks(&self) -> Vec<NullConfig> {
        [self.stay.clone(), vec![self.leaves.clone()]].concat()
    }

    /// The disks of a volume that was used and put away, and what it has: as much as the disks that stay have room for, at most.
    fn used(&self, seed: u64, share: u64) -> (MemoryMedia, Vec<u8>) {
        let fit = Volume::new(&self.stay, 100, small()).blocks;
        let mut disks = self.stay.clone();
        disks.insert(self.place, self.leaves.clone());
        let (mut volume, mut rng) = (Volume::new(&disks, 100, small()), Rng::new(seed));
        let mut model = vec![0; volume.blocks as usize];
        let used = fit.min(volume.blocks) * share / 100;
        for step in 0..used * 4 {
            let at = if step < used { step } else { rng.below(used) };
            let byte = 1 + rng.below(255) as u8;
            volume.write(at, 1, byte);
            model[at as usize] = byte;
        }
        volume.stop();
        let order: Vec<usize> = (0..disks.len()).filter(|disk| *disk != self.place).chain([self.place]).collect();
        (picked(&taken_out(&mut volume), &order), model)
    }
}

/// These of the disks, in this order.
fn picked(from: &MemoryMedia, order: &[usize]) -> MemoryMedia {
    assembled(&order.iter().map(|disk| (from, *disk)).collect::<Vec<_>>())
}

fn without_last(media: &MemoryMedia) -> MemoryMedia {
    picked(media, &(0..media.disks().len() - 1).collect::<Vec<_>>())
}

fn plan(media: &MemoryMedia) -> Result<Removal, RemoveError> {
    plan_removal(&mut media.clone(), None, &mut |_, _| ())
}

fn checked(media: &MemoryMedia) -> Report {
    let mut pace = |_| ();
    check(&mut media.clone(), Depth { pace: Some(&mut pace) }, &mut |_, _| ())
}

fn live(model: &[u8]) -> u64 {
    model.iter().filter(|byte| **byte > 0).count() as u64
}

/// Whether these disks are a volume in order with all of that. That a device has an older root than others a start mends.
fn is_whole(media: &MemoryMedia, model: &[u8]) -> bool {
    let report = checked(media);
    if report.volume.is_none() {
        return false;
    }
    let is_wrong = |finding: &&Finding| !matches!(finding, Finding::OlderRoot { .. } | Finding::BehindGap(_));
    let wrong: Vec<&Finding> = report.findings.all().iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(report.live_blocks(), live(model));
    true
}

/// A volume on disks that have what `media` has, which nobody serves, with power for so many changes.
fn laid_out(disks: &[NullConfig], media: &MemoryMedia) -> (Volume, Vec<DeviceId>, Left) {
    let (left, mut leaves) = (Rc::new(Cell::new(u64::MAX)), Vec::new());
    let mut volume = Volume::over(disks, 100, small(), |stack, leaf| {
        leaves.push(leaf);
        let limits = stack.limits(leaf).clone();
        stack.add(Box::new(Power { below: [leaf], limits, left: left.clone() })).unwrap()
    });
    volume.stop();
    put_back(&mut volume, media);
    (volume, leaves, left)
}

/// Takes a step of the removal of the last disk, to its end, or says why it does not come there.
fn take_step(volume: &mut Volume, removal: &Removal, step: Step) -> Result<(), String> {
    let limits: Vec<_> = volume.disks.iter().map(|disk| volume.rig.stack.limits(*disk).clone()).collect();
    let sectors = if step == Step::Leave { removal.sectors } else { removal.before };
    let mut target = Stl::new(volume.disks.clone(), &limits, sectors, small());
    target.let_go(removal.id, step);
    volume.rig.top = volume.rig.stack.add(Box::new(target)).unwrap();
    volume.rig.submit(read(0, 1));
    loop {
        let next = volume.rig.turn();
        let target = volume.rig.stack.device::<Stl>(volume.rig.top).unwrap();
        let leaving = target.leaving();
        match target.evacuation()? {
            Stage::Over => {
                assert_eq!((leaving.zones, leaving.blocks), (0, 0));
                return Ok(());
            }
            Stage::Stuck => return Err(format!("{leaving:?}")),
            Stage::Working => {}
        }
        let next = next.unwrap_or_else(|| panic!("it rests: {leaving:?} {}", volume.status()));
        volume.rig.now = volume.rig.now.max(next);
    }
}

/// Makes room for what is on the last disk and lets it go, until nothing is on it.
fn let_go(volume: &mut Volume, removal: &Removal) -> Result<(), String> {
    if removal.state == MemberState::Used {
        take_step(volume, removal, Step::MakeRoom)?;
        volume.stop();
    }
    take_step(volume, removal, Step::Leave)
}

/// The disks when the last one is empty.
fn evacuated(disks: &[NullConfig], media: &MemoryMedia) -> MemoryMedia {
    let removal = plan(media).unwrap();
    let (mut volume, ..) = laid_out(disks, media);
    let_go(&mut volume, &removal).unwrap();
    volume.stop();
    taken_out(&mut volume)
}

/// Loads these disks, reads all of them, and goes on.
fn goes_on(disks: &[NullConfig], media: &MemoryMedia, model: &[u8]) -> MemoryMedia {
    let blocks = checked(media).volume.expect("a volume").newest.root.capacity;
    let (mut volume, ..) = laid_out(disks, media);
    volume.blocks = blocks;
    volume.load();
    let mut model = model.to_vec();
    model.resize(blocks as usize, 0);
    assert!(volume.read(0, blocks as u32) == model);
    let mut rng = Rng::new(4);
    for _ in 0..3000 {
        let (at, byte) = (rng.below(blocks), 1 + rng.below(255) as u8);
        volume.write(at, 1, byte);
        model[at as usize] = byte;
    }
    volume.reload();
    assert!(volume.read(0, blocks as u32) == model);
    volume.stop();
    let media = taken_out(&mut volume);
    let report = checked(&media);
    assert!(report.findings.is_clean(), "{:?}", report.findings.all());
    media
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(&[disk(40, Some(4))], disk(30, Some(0)), 1),
        Case::new(&[disk(40, Some(0))], disk(30, Some(6)), 0),
        Case::new(&[disk(30, Some(2)), disk(24, Some(0))], disk(20, Some(1)), 1),
        Case::new(&[disk(40, Some(3))], disk(20, None), 1),
        Case::new(&[disk(24, None), disk(30, Some(3))], disk(60, Some(3)), 2),
    ]
}

#[test]
fn a_volume_without_a_device_is_in_order_and_has_what_it_had() {
    for (seed, case) in (0..).zip(cases()) {
        for share in [0, 30, 100] {
            let (media, model) = case.used(seed, share);
            let removal = plan(&media).unwrap();
            assert_eq!((removal.before, removal.state), (model.len() as u64 * 8, MemberState::Used));
            assert!(removal.sectors < removal.before);
            let mut empty = evacuated(&case.disks(), &media);
            assert_eq!(
                plan(&empty).unwrap(),
                Removal { before: removal.sectors, state: MemberState::Leaving, ..removal }
            );
            finish_removal(&mut empty, &mut |_, _| ()).unwrap();
            let left = without_last(&empty);
            let report = checked(&left);
            assert!(report.findings.is_clean(), "{seed}: {:?}", report.findings.all());
            assert_eq!((report.live_blocks(), report.read_blocks), (live(&model), live(&model)));
            let volume = report.volume.unwrap();
            assert_eq!(volume.newest.root.capacity * 8, removal.sectors);
            let gone = volume.newest.root.members.iter().filter(|member| member.state == MemberState::Gone);
            assert!(gone.map(|member| member.id).eq([removal.id]));
            assert!(
                plan_removal(&mut empty, None, &mut |_, _| ())
                    .unwrap_err()
                    .to_string()
                    .contains("does not belong to volume")
            );
            goes_on(&case.stay, &left, &model[..volume.newest.root.capacity as usize]);
        }
    }
}

#[test]
fn a_volume_of_which_a_device_leaves_is_used_and_removed_from_when_it_is_put_away() {
    let case = &cases()[2];
    let (media, model) = case.used(7, 90);
    let removal = plan(&media).unwrap();
    let (mut volume, leaves, left) = laid_out(&case.disks(), &media);
    take_step(&mut volume, &removal, Step::MakeRoom).unwrap();
    volume.stop();
    left.set(60);
    take_step(&mut volume, &removal, Step::Leave).unwrap_err();
    volume.disks = leaves;
    let begun = taken_out(&mut volume);
    assert_eq!(plan(&begun).unwrap().state, MemberState::Leaving);
    // A daemon that serves it now empties the device.
    let media = goes_on(&case.disks(), &begun, &model[..(removal.sectors / 8) as usize]);
    let volume = checked(&media).volume.unwrap();
    let zones = volume.space.set.zones_that_are(MemberState::Leaving);
    let full = zones.filter(|zone| volume.zones[zone.0 as usize].unwrap().used_for == ZoneUse::Full).count();
    assert_eq!(full, 0);
    let mut media = evacuated(&case.disks(), &media);
    finish_removal(&mut media, &mut |_, _| ()).unwrap();
    assert!(checked(&without_last(&media)).findings.is_clean());
}

#[test]
fn moving_away_that_is_cut_off_anywhere_leaves_the_old_volume_or_one_that_goes_on() {
    let case = Case::new(&[disk(22, Some(2))], disk(16, Some(1)), 0);
    let (media, model) = case.used(9, 80);
    let removal = plan(&media).unwrap();
    let (mut seen, mut last) = ([0; 2], 0);
    for changes in 0.. {
        let (mut volume, leaves, left) = laid_out(&case.disks(), &media);
        left.set(changes);
        let result = let_go(&mut volume, &removal);
        volume.disks = leaves;
        let mut cut = taken_out(&mut volume);
        assert!(is_whole(&cut, &model), "{changes}");
        let again = match plan(&cut) {
            Err(RemoveError::NotAtRest) => None,
            other => Some(other.unwrap()),
        };
        let state = again.map_or(MemberState::Used, |removal| removal.state);
        seen[state as usize] += 1;
        assert!(state as usize >= last, "{changes}: never back");
        last = state as usize;
        if again.is_some() && (changes % 11 == 0 || result.is_ok()) {
            cut = evacuated(&case.disks(), &cut);
            finish_removal(&mut cut, &mut |_, _| ()).unwrap();
            assert!(is_whole(&without_last(&cut), &model));
        }
        if result.is_ok() {
            break;
        }
    }
    assert!(seen[0] > 3 && seen[1] > 50, "{seen:?}");
}

#[test]
fn an_end_that_is_cut_off_anywhere_leaves_a_device_that_leaves_or_none() {
    let case = Case::new(&[disk(22, Some(2)), disk(20, Some(0))], disk(14, Some(2)), 1);
    let (media, model) = case.used(3, 60);
    let empty = evacuated(&case.disks(), &media);
    let mut seen = [0; 2];
    for left in 0.. {
        let mut cut = Cut::after(left, &empty);
        let result = finish_removal(&mut cut, &mut |_, _| ());
        for media in [&cut.media, &cut.flushed] {
            let is_without = is_whole(&without_last(media), &model);
            seen[usize::from(is_without)] += 1;
            if !is_without {
                assert!(is_whole(media, &model), "{left}");
            }
            let mut again = media.clone();
            match finish_removal(&mut again, &mut |_, _| ()) {
                // Its roots are away as far as they matter.
                Err(RemoveError::Find(error)) => {
                    assert!(is_without && error.to_string().contains("does not belong to volume"), "{error}");
                }
                other => other.unwrap(),
            }
            assert!(is_whole(&without_last(&again), &model), "{left}: again");
            goes_on(&case.stay, &without_last(&again), &model[..(plan(&empty).unwrap().sectors / 8) as usize]);
        }
        if result.is_ok() {
            break;
        }
    }
    assert!(seen[0] > 1 && seen[1] > 4, "{seen:?}");
}

#[test]
fn another_device_may_come_when_one_has_gone_and_not_while_it_leaves() {
    let case = &cases()[2];
    let (media, model) = case.used(5, 50);
    let empty = evacuated(&case.disks(), &media);
    let new = disk(30, Some(2));
    let with_new = |media: &MemoryMedia| {
        let mut other = Volume::new(&[disk(20, Some(3)), new.clone()], 100, small());
        other.stop();
        let other = taken_out(&mut other);
        let mut all = MemoryMedia::new(media.disks().iter().chain([&other.disks()[1]]).cloned().collect());
        for disk in 0..media.disks().len() {
            (0..media.disks()[disk].sectors / 8).for_each(|block| {
                all.put(Spot { disk, block }, &media.block(Spot { disk, block }));
            });
        }
        all
    };
    assert_eq!(add(&mut with_new(&empty), [9; 16], &mut |_, _| ()), Err(AddError::Leaving));
    let mut empty = empty;
    finish_removal(&mut empty, &mut |_, _| ()).unwrap();
    let mut all = with_new(&without_last(&empty));
    let before = plan(&evacuated(&case.disks(), &media)).unwrap().sectors;
    let added = add(&mut all, [9; 16], &mut |_, _| ()).unwrap();
    assert!(added.before == before && added.sectors > before);
    let members = checked(&all).volume.unwrap().newest.root.members;
    assert!(members.is_sorted_by_key(|member| member.first) && members.len() == 4);
    let disks = [case.stay.clone(), vec![new.clone()]].concat();
    let all = goes_on(&disks, &all, &model[..(before / 8) as usize]);
    // What there is by headers alone is of three devices.
    let survey = Survey::take(&mut all.clone(), &mut |_, _| ()).unwrap();
    assert_eq!((survey.members.len(), survey.space.zones().count()), (3, 30 + 20 + 24 + 30));
}

fn refused(media: &MemoryMedia, size: Option<u64>) -> String {
    let (mut media, before) = (media.clone(), media.changes);
    let error = plan_removal(&mut media, size, &mut |_, _| ()).unwrap_err();
    assert_eq!(media.changes, before);
    error.to_string()
}

#[test]
fn a_device_that_cannot_be_removed_is_refused_and_nothing_is_changed() {
    let case = Case::new(&[disk(40, Some(4))], disk(30, Some(0)), 1);
    let (media, _) = case.used(1, 50);
    let most = plan(&media).unwrap().sectors;
    assert_eq!(
        refused(&media, Some(most + 8)),
        format!("the other disks have room for {most} sectors, and {} are wanted", most + 8)
    );
    assert_eq!(plan_removal(&mut media.clone(), Some(most - 80), &mut |_, _| ()).unwrap().sectors, most - 80);
    let end = most / 2 / 8 * 8;
    assert!(
        refused(&media, Some(1600)).starts_with("the volume would have 1600 sectors, and there is data up to sector ")
    );
    assert!(!refused(&media, Some(1600)).contains(&format!("sector {} ", end * 2)));
    let (only, _) = Case::new(&[disk(40, Some(0))], disk(40, None), 0).used(2, 20);
    assert_eq!(refused(&picked(&only, &[1, 0]), None), RemoveError::LastZoned.to_string());
    let tiny = Volume::new(&[disk(5, Some(0)), disk(40, Some(0))], 100, small());
    let mut tiny = tiny;
    tiny.stop();
    assert!(
        refused(&taken_out(&mut tiny), None)
            .starts_with("the other disks have too little room: 5 zones can be written")
    );
    assert!(refused(&without_last(&media), None).contains("is missing"));
    let mut damaged = media.clone();
    (0..2 * 64).for_each(|block| damaged.put(Spot { disk: 0, block }, &[0; 4096]));
    assert!(refused(&damaged, None).contains("no root is whole"), "{}", refused(&damaged, None));
    let mut used = media.clone();
    assert_eq!(
        finish_removal(&mut used, &mut |_, _| ()).unwrap_err().to_string().split(':').next(),
        Some("something on it is needed")
    );
    assert_eq!(used.changes, media.changes);
}

#[test]
fn a_volume_that_was_not_put_away_is_refused() {
    let mut volume = Volume::new(&[disk(30, Some(3)), disk(30, Some(0))], 100, small());
    volume.write(1, 1, 1);
    volume.flush();
    let media = taken_out(&mut volume);
    assert_eq!(refused(&media, None), RemoveError::NotAtRest.to_string());
}

/// The two zones of the last disk with the most data that is live.
fn fullest_of_last(media: &MemoryMedia) -> [ZoneNo; 2] {
    let volume = tools::Volume::find(&mut media.clone(), &mut Findings::default()).unwrap();
    let of_data = |row: &ZoneRow| matches!(row.used_for, ZoneUse::Full) && row.stream > 1;
    let live = |row: &Option<ZoneRow>| row.as_ref().filter(|row| of_data(row)).map_or(0, |row| row.live);
    let first = volume.zones.len() - media.disks().last().unwrap().zones.len();
    let mut zones: Vec<(u32, u32)> = (0..).zip(&volume.zones[first..]).map(|(zone, row)| (live(row), zone)).collect();
    zones.sort_unstable();
    [zones[zones.len() - 1], zones[zones.len() - 2]].map(|(live, zone)| {
        assert!(live > 0, "nothing is live");
        ZoneNo(zone)
    })
}

/// A disk that is taken away because it fails: what of it can be read is moved.
#[test]
fn what_is_in_zones_that_cannot_be_written_is_moved_and_what_cannot_be_read_is_told() {
    for is_gone in [false, true] {
        let case = Case::new(&[disk(40, Some(4))], disk(30, Some(0)), 1);
        let (media, model) = case.used(6, 90);
        let removal = plan(&media).unwrap();
        let (mut volume, leaves, _) = laid_out(&case.disks(), &media);
        for zone in fullest_of_last(&media) {
            volume.rig.stack.with_device(leaves[1], |disk: &mut NullDevice, _| {
                if is_gone { disk.set_offline(zone) } else { disk.set_read_only(zone) }.unwrap();
            });
        }
        let result = let_go(&mut volume, &removal);
        if is_gone {
            let told = result.unwrap_err();
            assert!(told.contains("spoilt: 2"), "{told}");
            continue;
        }
        result.unwrap();
        volume.stop();
        let mut media = taken_out(&mut volume);
        finish_removal(&mut media, &mut |_, _| ()).unwrap();
        assert!(is_whole(&without_last(&media), &model));
    }
}
