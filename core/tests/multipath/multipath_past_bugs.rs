//! What went wrong in other implementations of multipath, and does not here. Numbers of cases are those of docs/multipath.md.

use shingle_core::block::{BlockDevice, Flags, Limits, Op, Reason, Silence, Stack, Status};
use shingle_core::dm::Table;
use shingle_core::multipath::{AnaState, Head, HeadOptions, PathConfig, PolicyKind};

use Op::{Read, Write, ZoneAppend};

use crate::head_desk::{self, ByHand, Desk, ZONE, by_hand, ms, options, zoned};

fn disk() -> Limits {
    Limits::new(1 << 16)
}

fn three() -> Desk {
    Desk::new(&disk(), &[Silence::AtOnce; 3], options())
}

/// Numbers in any order, the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }
}

/// 2, 3: a bio was appended to the waiting ones after these had been sent on, and waited for ever.
#[test]
fn a_bio_that_comes_in_the_turn_in_which_a_path_comes_back_does_not_stay_behind() {
    for comes_first in [true, false] {
        let mut desk = three();
        (0..3).for_each(|path| desk.tell(&format!("state {path} inaccessible")));
        desk.submit(Read, 0, 8);
        let (head, words) = (desk.head, ["state", "2", "optimized"]);
        let tell = |desk: &mut Desk| desk.stack.message(head, &words).map(drop).unwrap();
        if !comes_first {
            tell(&mut desk);
        }
        desk.stack.submit(desk.port, 7, head, Box::new(head_desk::read(8, 8)));
        if comes_first {
            tell(&mut desk);
        }
        desk.turn();
        assert_eq!((desk.on(2), desk.head().waiting()), (vec![(Read, 0, 8), (Read, 8, 8)], 0));
    }
}

/// 7: with the last controllers going away I/O was blocked for ever.
#[test]
fn nothing_waits_for_ever_when_all_paths_are_removed_under_io() {
    let mut desk = Desk::new(&disk(), &[Silence::Told; 3], HeadOptions { no_path_timeout: None, ..options() });
    (0..9).for_each(|number| desk.submit(if number % 2 == 0 { Read } else { Write }, number * 8, 8));
    (0..3).for_each(|path| desk.tell(&format!("remove_path {path}")));
    desk.submit(Read, 80, 8);
    for path in 0..3 {
        (0..3).for_each(|_| desk.end(path, Status::Transport));
        desk.silent(path);
    }
    let done = desk.done();
    assert_eq!(done.len(), 10);
    assert!(done.iter().all(|(_, status)| *status == Status::Io), "{done:?}");
    assert_eq!((desk.head().paths().count(), desk.stack.below(desk.head).len(), desk.head().waiting()), (0, 0, 0));
}

/// 9: a bio that must not wait failed over, and its user was told that a path which he knows nothing of was busy.
#[test]
fn a_bio_that_must_not_wait_may_after_it_has_failed_over() {
    let mut desk = three();
    desk.submit_with(Read, 0, 8, Flags::NOWAIT);
    desk.stack.suspend(desk.paths[1]);
    desk.end(0, Status::Transport);
    assert_eq!(desk.done(), []);
    desk.stack.resume(desk.paths[1]);
    desk.turn();
    assert_eq!(desk.on(1), [(Read, 0, 8)]);
}

/// A path whose table can be swapped, over a disk of `sectors`.
fn swap(desk: &mut Desk, path: usize, sectors: u64) -> Result<(), String> {
    let below = by_hand(&mut desk.stack, &Limits::new(sectors), Silence::AtOnce);
    let table = Table::linear(below, desk.stack.limits(below), 0, sectors).unwrap();
    let path = desk.paths[path];
    desk.stack.suspend(path);
    let swapped = desk.stack.replace(path, Box::new(table)).map_err(|error| error.to_string());
    desk.stack.resume(path);
    swapped
}

/// 10, 20: after a resize of the disk I/O went past the end of a path, or the head kept the old size.
#[test]
fn a_head_grows_when_all_its_paths_have_and_none_may_shrink() {
    let mut stack = Stack::new();
    let below = by_hand(&mut stack, &disk(), Silence::AtOnce);
    let table = |stack: &mut Stack| {
        let table = Table::linear(below, stack.limits(below), 0, 1 << 16).unwrap();
        stack.add(Box::new(table)).unwrap()
    };
    let paths = [table(&mut stack), table(&mut stack)];
    let mut desk = Desk::over(stack, &paths, PolicyKind::RoundRobin, options());
    let size = |desk: &Desk| desk.stack.limits(desk.head).capacity;

    swap(&mut desk, 0, 1 << 17).unwrap();
    assert!(!Head::follow_size(&mut desk.stack, desk.head), "one path is as small as it was");
    desk.submit(Read, 1 << 16, 8);
    let sent: u64 = desk.head().paths().map(|path| path.counters.sent).sum();
    assert_eq!((size(&desk), desk.done().len(), sent), (1 << 16, 1, 0), "nothing goes past the end of a path");
    let shrunk = swap(&mut desk, 1, 1 << 15).unwrap_err();
    assert!(shrunk.contains("relies on what would change: capacity"), "{shrunk}");

    swap(&mut desk, 1, 1 << 18).unwrap();
    assert!(Head::follow_size(&mut desk.stack, desk.head));
    assert_eq!(size(&desk), 1 << 17, "as the smallest");
    (0..2).for_each(|number| desk.submit(Read, (1 << 16) + number * 8, 8));
    assert_eq!((desk.done(), desk.in_flight()), (vec![], vec![1, 1]));
    assert!(!Head::follow_size(&mut desk.stack, desk.head));
}

/// 10: a path of another size was used.
#[test]
fn a_path_of_the_old_size_does_not_come_to_a_head_that_has_grown() {
    let mut desk = three();
    for capacity in [1 << 15, 1 << 17] {
        let error = desk.add(&Limits::new(capacity), Silence::AtOnce).unwrap_err().to_string();
        assert_eq!(error, format!("path 3 leads to a disk of {capacity} sectors, and the others to one of 65536"));
    }
}

/// 11: a bio that had waited was refused since the path had no size at the moment.
#[test]
fn what_was_let_in_is_not_checked_again_when_it_goes_to_another_path() {
    let mut desk = three();
    desk.submit(Read, (1 << 16) - 8, 8);
    desk.end(0, Status::Transport);
    assert_eq!((desk.on(1), desk.done()), (vec![(Read, (1 << 16) - 8, 8)], vec![]));
}

/// 12: what is under way was counted twice for a bio that was tried again, or not at all after a switch of the policy.
#[test]
fn what_is_under_way_is_counted_right_through_everything() {
    for seed in 0..40 {
        let (mut draw, mut desk) =
            (Draw(seed), Desk::by(PolicyKind::QueueDepth, &disk(), &[Silence::Told; 3], options()));
        let statuses =
            [Status::Ok, Status::Ok, Status::Transport, Status::Timeout, Status::DeviceResource, Status::Medium];
        for step in 0..400 {
            let path = draw.below(desk.paths.len());
            let numbers: Vec<usize> = desk.head().paths().map(|path| path.number).collect();
            let number = numbers.get(draw.below(8)).copied();
            match draw.below(12) {
                0..=4 => desk.submit(if draw.below(2) == 0 { Read } else { Write }, 8 * step, 8),
                5..=7 if !desk.on(path).is_empty() => desk.end(path, statuses[draw.below(6)]),
                8 => desk.tell(&format!("policy {}", PolicyKind::ALL[draw.below(PolicyKind::ALL.len())].name())),
                9 => _ = desk.silent(path),
                10 => desk.pass(ms(40)),
                _ => {
                    let word = ["remove_path", "fail_path", "reinstate_path"][draw.below(3)];
                    if let Some(number) = number {
                        // A path that is leaving is none any more.
                        _ = desk.stack.message(desk.head, &[word, &number.to_string()]);
                        desk.turn();
                    } else if desk.paths.len() < 12 {
                        let _ = desk.add(&disk(), Silence::Told);
                    }
                }
            }
            let devices: Vec<_> = desk.head().paths().map(|path| (path.device, path.in_flight as usize)).collect();
            for (path, device) in desk.paths.iter().enumerate() {
                let counted = devices.iter().find(|(of, _)| of == device).map_or(0, |(_, count)| *count);
                assert_eq!(counted, desk.on(path).len(), "path {path} at step {step} of seed {seed}");
            }
        }
    }
}

/// 13: with no optimized path everything went over one of the others.
#[test]
fn paths_take_turns_also_if_none_is_optimized() {
    for kind in [PolicyKind::RoundRobin, PolicyKind::TurnByTurn, PolicyKind::QueueDepth, PolicyKind::QueueLength] {
        let mut desk = Desk::by(kind, &disk(), &[Silence::AtOnce; 3], options());
        (0..3).for_each(|path| desk.tell(&format!("state {path} non-optimized")));
        (0..9).for_each(|number| desk.submit(Read, number * 8, 8));
        assert_eq!(desk.in_flight(), [3; 3], "{}", kind.name());
    }
}

/// 13: the one path was used although it could not reach the disk.
#[test]
fn a_single_path_that_does_not_lead_to_the_disk_gets_nothing() {
    for kind in PolicyKind::ALL {
        let mut desk = Desk::by(kind, &disk(), &[Silence::AtOnce], options());
        desk.tell("state 0 inaccessible");
        desk.submit(Read, 0, 8);
        assert_eq!((desk.on(0), desk.head().waiting()), (vec![], 1), "{}", kind.name());
    }
}

/// 14: I/O waited although no path could come back, or failed although one could.
#[test]
fn bios_wait_exactly_as_long_as_a_path_may_come_back() {
    let mut desk = Desk::new(&disk(), &[Silence::AtOnce; 2], HeadOptions { no_path_timeout: None, ..options() });
    desk.tell("fail_path 0");
    desk.tell("state 1 inaccessible");
    desk.submit(Read, 0, 8);
    desk.pass(ms(3_600_000));
    assert_eq!(desk.done(), [], "path 1 may come back");
    desk.tell("state 1 persistent-loss");
    assert_eq!(desk.done(), [(0, Status::Io)]);
    desk.tell("state 1 change");
    desk.submit(Read, 0, 8);
    assert_eq!(desk.done(), [], "now it may again");
    desk.tell("remove_path 1");
    assert_eq!(desk.done(), [(1, Status::Io)]);
    assert_eq!(desk.head().counters().without_path, 2);
}

/// 15: a path that changed for ever held up I/O for ever.
#[test]
fn a_change_ends_however_it_began() {
    let options = HeadOptions { change_timeout: ms(500), ..options() };
    let changing = |mut desk: Desk, path: usize| {
        desk.pass(ms(499));
        assert_eq!(desk.head().paths().nth(path).unwrap().state, AnaState::Change);
        desk.pass(ms(1));
        assert_eq!(desk.head().paths().nth(path).unwrap().state, AnaState::Inaccessible);
    };
    let mut desk = Desk::new(&disk(), &[Silence::AtOnce; 2], options.clone());
    desk.tell("state 1 change");
    changing(desk, 1);
    let mut desk = Desk::new(&disk(), &[Silence::AtOnce; 2], options.clone());
    let path = desk.paths[1];
    desk.stack.with_device(path, |_: &mut ByHand, cx| cx.announce(AnaState::Change));
    desk.turn();
    changing(desk, 1);
    for is_first in [true, false] {
        let mut desk = Desk::with_state(&disk(), is_first.then_some(AnaState::Change), options.clone());
        if !is_first {
            let path = by_hand(&mut desk.stack, &disk(), Silence::AtOnce);
            let config = PathConfig { state: AnaState::Change, ..PathConfig::new(path) };
            Head::add_path(&mut desk.stack, desk.head, &config).unwrap();
            desk.turn();
        }
        changing(desk, usize::from(!is_first));
    }
}

/// 15: and a change that ended in time was taken for one that had not, by the timer of an earlier one.
#[test]
fn the_time_of_a_change_that_is_over_does_not_end_the_next_one() {
    let mut desk = Desk::new(&disk(), &[Silence::AtOnce], HeadOptions { change_timeout: ms(500), ..options() });
    desk.tell("state 0 change");
    desk.pass(ms(400));
    desk.tell("state 0 optimized");
    desk.tell("state 0 change");
    desk.pass(ms(499));
    assert_eq!(desk.head().paths().next().unwrap().state, AnaState::Change);
    desk.pass(ms(1));
    assert_eq!(desk.head().paths().next().unwrap().state, AnaState::Inaccessible);
}

/// 18: `r` was taken for `round-robin`, and `numa2` for `numa`.
#[test]
fn names_of_policies_and_states_are_taken_as_a_whole() {
    let mut desk = three();
    let kinds = PolicyKind::ALL.map(|kind| ["policy".into(), kind.name().to_string()].to_vec());
    let states = AnaState::ALL.map(|state| ["state".into(), "0".into(), state.name().to_string()].to_vec());
    for words in kinds.into_iter().chain(states) {
        let (name, rest) = words.split_last().unwrap();
        let prefixes = (0..name.len()).map(|end| name[..end].to_string());
        for wrong in prefixes.chain([format!("{name}2"), format!("{name} "), name.to_uppercase()]) {
            let words: Vec<&str> = rest.iter().map(String::as_str).chain([wrong.as_str()]).collect();
            assert!(desk.stack.message(desk.head, &words).is_err(), "{words:?}");
        }
        desk.stack.message(desk.head, &words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    }
}

/// 19: distances were asked of nodes that are not there.
#[test]
fn a_submitter_of_any_node_gets_the_first_of_paths_without_one() {
    for node in [0, 1, 255] {
        let options = HeadOptions { node: shingle_core::multipath::Node(node), ..options() };
        let mut desk = Desk::by(PolicyKind::Numa, &disk(), &[Silence::AtOnce; 2], options);
        (0..4).for_each(|number| desk.submit(Read, number * 8, 8));
        assert_eq!(desk.in_flight(), [4, 0]);
    }
}

/// 20: the disk became read-only on one path, and the head was not.
#[test]
fn a_path_that_takes_no_writes_neither_comes_later_nor_takes_the_place_of_one_that_does() {
    let mut desk = three();
    let limits = Limits { read_only: true, ..disk() };
    assert!(desk.add(&limits, Silence::AtOnce).unwrap_err().to_string().contains("read-only"));
    let path = desk.paths[0];
    let table = Table::linear(desk.paths[3], &limits, 0, 1 << 16).unwrap();
    desk.stack.suspend(path);
    assert!(desk.stack.replace(path, Box::new(table)).unwrap_err().to_string().contains("read-only"));
    let desk = Desk::new(&limits, &[Silence::AtOnce; 2], options());
    assert!(desk.stack.limits(desk.head).read_only, "from the beginning it is");
}

/// 25: a path that failed fast looked fast.
#[test]
fn a_path_that_fails_fast_attracts_nothing() {
    for kind in PolicyKind::ALL {
        let mut desk = Desk::by(kind, &disk(), &[Silence::AtOnce; 2], options());
        for number in 0..40 {
            desk.submit(Read, number * 8, 8);
            if !desk.on(0).is_empty() {
                desk.end(0, Status::Transport);
            }
            desk.pass(ms(1));
            desk.end(1, Status::Ok);
        }
        let sent: Vec<u64> = desk.head().paths().map(|path| path.counters.sent).collect();
        assert!(sent[0] <= 2 && sent[1] == 40, "{}: {sent:?}", kind.name());
    }
}

/// An append that was given up was sent again, and its data was in the zone twice (A12: so Linux does it still).
#[test]
fn an_append_through_a_removed_path_is_in_its_zone_once() {
    let mut desk = Desk::new(&zoned(), &[Silence::Told; 2], options());
    desk.submit(ZoneAppend, ZONE, 8);
    desk.tell("remove_path 0");
    desk.end(0, Status::Timeout);
    desk.silent(0);
    let done = desk.completions();
    assert!(matches!(done[0].why().map(|why| &why.reason), Some(Reason::Uncertain)), "{:?}", done[0].why());
    assert_eq!(desk.on(1), []);
}

/// Two paths of one disk are one device to those above, whatever its paths are.
#[test]
fn a_head_without_paths_still_says_what_it_is() {
    let mut desk = three();
    (0..3).for_each(|path| desk.tell(&format!("remove_path {path}")));
    let mut said = String::new();
    desk.head().describe(&mut said).unwrap();
    assert_eq!((said.as_str(), desk.stack.limits(desk.head)), ("multipath: 0 paths, round-robin", &disk()));
}
