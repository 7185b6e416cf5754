//! Paths that come and go while a head is used, and what they say of themselves.

use shingle_core::block::{DeviceId, Limits, Op, Silence, Stack, StackError, Status};
use shingle_core::dm::Table;
use shingle_core::multipath::{AnaState, Head, HeadOptions, Node, PathConfig, PathHealth, PolicyKind, PolicyOptions};
use shingle_core::time::Duration;

use Op::{Read, ReportZones, Write, ZoneAppend};

use crate::head_desk::{ByHand, Desk, ZONE, by_hand, ms, options, zoned};

fn disk() -> Limits {
    Limits::new(1 << 16)
}

fn one(silence: Silence) -> Desk {
    Desk::new(&disk(), &[silence], options())
}

#[test]
fn a_path_that_is_added_gets_io_at_once() {
    let mut desk = one(Silence::AtOnce);
    desk.submit(Read, 0, 8);
    assert_eq!(desk.add(&disk(), Silence::AtOnce).unwrap(), 1);
    (1..4).for_each(|number| desk.submit(Read, number * 8, 8));
    assert_eq!((desk.on(0).len(), desk.on(1).len()), (2, 2));
    assert_eq!(desk.stack.below(desk.head), desk.paths);
}

#[test]
fn what_waits_goes_over_a_path_that_is_added() {
    let mut desk = one(Silence::AtOnce);
    desk.tell("state 0 inaccessible");
    desk.submit(Read, 8, 8);
    desk.add(&disk(), Silence::AtOnce).unwrap();
    assert_eq!(desk.on(1), [(Read, 8, 8)]);
}

#[test]
fn a_path_that_does_not_go_with_the_others_is_refused_and_nothing_changes() {
    let full = Limits { max_sectors: Some(64), max_discard: Some(64), ..disk() };
    let mut desk = Desk::new(&full, &[Silence::AtOnce], options());
    let cases = [
        (
            Limits { capacity: 1 << 15, ..full.clone() },
            "path 1 leads to a disk of 32768 sectors, and the others to one of 65536",
        ),
        (Limits { zoned: zoned().zoned, ..full.clone() }, "path 1 does not go with the others: "),
        (
            Limits { max_sectors: Some(32), ..full.clone() },
            "path 1 takes less than the disk does over the others: max_sectors",
        ),
        (
            Limits { max_discard: None, ..full.clone() },
            "path 1 takes less than the disk does over the others: max_discard",
        ),
        (Limits { read_only: true, ..full.clone() }, "path 1 takes less than the disk does over the others: read-only"),
        (
            Limits { write_cache: true, ..full.clone() },
            "path 1 takes less than the disk does over the others: write cache",
        ),
        (Limits { logical_block_bytes: 4096, physical_block_bytes: 4096, ..full.clone() }, "path 1 takes less"),
    ];
    for (limits, why) in cases {
        let error = desk.add(&limits, Silence::AtOnce).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
        let path = desk.paths.pop().unwrap();
        assert!(desk.stack.remove(path).is_ok(), "the head does not hold it");
    }
    assert_eq!((desk.head().paths().count(), desk.stack.limits(desk.head)), (1, &full));
    // Who can do more is sent what the others can do.
    desk.add(&Limits { max_sectors: None, ..full.clone() }, Silence::AtOnce).unwrap();
    assert_eq!(desk.stack.limits(desk.head), &full);
}

#[test]
fn a_path_to_another_disk_or_one_that_is_there_already_or_leads_back_is_refused() {
    let mut desk = Desk::two();
    let refused =
        |desk: &mut Desk, path: PathConfig| Head::add_path(&mut desk.stack, desk.head, &path).unwrap_err().to_string();
    let other = PathConfig {
        identity: Some("b".into()),
        ..PathConfig::new(by_hand(&mut desk.stack, &disk(), Silence::AtOnce))
    };
    assert_eq!(refused(&mut desk, other), "path 2 leads to another disk: it says `b`, and the others say `nothing`");
    let there = PathConfig::new(desk.paths[1]);
    assert_eq!(refused(&mut desk, there.clone()), "it is path 1 already");
    desk.submit(Read, 0, 8);
    desk.submit(Read, 8, 8);
    desk.tell("remove_path 1");
    assert_eq!(refused(&mut desk, there), "it is being removed as path 1: what it was given has to end first");
    let above = Table::linear(desk.head, desk.stack.limits(desk.head), 0, 1 << 16).unwrap();
    let above = desk.stack.add(Box::new(above)).unwrap();
    let error = Head::add_path(&mut desk.stack, desk.head, &PathConfig::new(above)).unwrap_err();
    assert_eq!(error.to_string(), StackError::Loop(desk.head).to_string());
    let error = Head::add_path(&mut desk.stack, desk.head, &PathConfig::new(DeviceId(99)));
    assert!(error.is_err(), "there is no such device");
}

#[test]
fn a_head_takes_up_to_32_paths_and_the_numbers_of_those_that_are_gone_again() {
    let mut desk = one(Silence::AtOnce);
    (1..32).for_each(|number| assert_eq!(desk.add(&disk(), Silence::AtOnce).unwrap(), number));
    assert_eq!(desk.add(&disk(), Silence::AtOnce).unwrap_err().to_string(), "33 paths: a disk has 1 to 32");
    desk.tell("remove_path 5");
    assert_eq!(desk.add(&disk(), Silence::AtOnce).unwrap(), 5);
}

#[test]
fn a_removed_path_gets_nothing_new_and_its_device_is_free_when_what_it_had_has_ended() {
    let mut desk = one(Silence::AtOnce);
    desk.add(&disk(), Silence::AtOnce).unwrap();
    (0..4).for_each(|number| desk.submit(Read, number * 8, 8));
    desk.tell("remove_path 0");
    (4..6).for_each(|number| desk.submit(Read, number * 8, 8));
    assert_eq!((desk.on(0).len(), desk.on(1).len()), (2, 4));
    let reports: Vec<_> = desk.head().paths().map(|path| (path.number, path.health, path.in_flight)).collect();
    assert_eq!(reports, [(0, PathHealth::Leaving, 2), (1, PathHealth::Live, 4)]);
    desk.end(0, Status::Ok);
    assert_eq!(desk.stack.remove(desk.paths[0]).err(), Some(StackError::InUse(desk.head)));
    desk.end(0, Status::Ok);
    assert_eq!(desk.done().len(), 2);
    assert_eq!(desk.head().paths().map(|path| path.number).collect::<Vec<_>>(), [1], "the other one keeps its number");
    assert!(desk.stack.remove(desk.paths[0]).is_ok());
}

/// It is what a failover does, and no more is lost or doubled than there.
#[test]
fn what_a_removed_path_gives_up_goes_elsewhere_when_that_is_silent_and_only_then_its_device_is_free() {
    let mut desk = Desk::two();
    desk.submit(Write, 8, 8);
    desk.submit(Write, 16, 8);
    desk.tell("remove_path 0");
    desk.end(0, Status::Timeout);
    assert_eq!((desk.on(1), desk.done()), (vec![(Write, 16, 8)], vec![]));
    assert!(desk.stack.remove(desk.paths[0]).is_err(), "it has to answer");
    desk.silent(0);
    assert_eq!(desk.on(1), [(Write, 16, 8), (Write, 8, 8)]);
    assert!(desk.stack.remove(desk.paths[0]).is_ok());
}

#[test]
fn what_pauses_for_the_disk_on_a_removed_path_goes_over_another_and_a_zone_write_looks_first() {
    let mut desk = Desk::new(&zoned(), &[Silence::AtOnce; 2], options());
    desk.submit(Write, ZONE, 8);
    desk.end(0, Status::DeviceResource);
    desk.tell("remove_path 0");
    assert!(desk.stack.remove(desk.paths[0]).is_err());
    desk.pass(ms(100));
    assert_eq!(desk.on(1), [(ReportZones, ZONE, 0)]);
    desk.report(1, 3);
    assert_eq!(desk.on(1), [(Write, ZONE + 3, 5)]);
    assert!(desk.stack.remove(desk.paths[0]).is_ok());
}

#[test]
fn a_probe_under_way_is_waited_for_too() {
    let mut desk = Desk::two();
    desk.submit(Read, 0, 8);
    desk.end(0, Status::Transport);
    desk.pass(ms(50));
    desk.tell("remove_path 0");
    assert!(desk.stack.remove(desk.paths[0]).is_err());
    desk.end(0, Status::Ok);
    assert!(desk.stack.remove(desk.paths[0]).is_ok());
}

/// It would take the new path for the slow one.
#[test]
fn a_policy_knows_nothing_of_an_earlier_path_of_the_same_number() {
    let mut desk = Desk::by(PolicyKind::HistoricalServiceTime, &disk(), &[Silence::AtOnce; 2], options());
    for _ in 0..8 {
        desk.submit(Read, 0, 8);
        let path = usize::from(desk.on(0).is_empty());
        desk.pass(if path == 0 { ms(900) } else { ms(1) });
        desk.end(path, Status::Ok);
    }
    let sent = |desk: &Desk| desk.head().paths().map(|path| path.counters.sent).collect::<Vec<_>>();
    assert!(sent(&desk)[0] < 3, "{:?}", sent(&desk));
    desk.tell("remove_path 0");
    assert_eq!(desk.add(&disk(), Silence::AtOnce).unwrap(), 0);
    let before = sent(&desk);
    assert_eq!(before[0], 0, "and its counters begin anew");
    desk.paths.swap_remove(0);
    desk.paths.swap(0, 1);
    let mut order = vec![];
    for number in 0..4 {
        desk.submit(Read, number * 8, 8);
        order.push((desk.on(0).len(), desk.on(1).len()));
    }
    assert_eq!(order.last().map(|(one, other)| one + other), Some(4));
    assert!(order[3].0 >= 1 && order[3].1 >= 1, "both get some: {order:?}");
}

/// Two timers of one path once meant twice as many probes for good.
#[test]
fn a_path_that_was_put_in_and_fails_again_is_probed_as_rarely_as_before() {
    let mut desk = Desk::two();
    for _ in 0..4 {
        desk.submit(Read, 8, 8);
        if desk.on(0).is_empty() {
            desk.end(1, Status::Ok);
            desk.submit(Read, 8, 8);
        }
        desk.end(0, Status::Transport);
        desk.tell("reinstate_path 0");
    }
    while desk.on(0).is_empty() {
        desk.submit(Read, 8, 8);
    }
    desk.end(0, Status::Transport);
    let mut probes = 0;
    for _ in 0..100 {
        desk.pass(ms(10));
        while !desk.on(0).is_empty() {
            desk.end(0, Status::Transport);
            probes += 1;
        }
    }
    assert_eq!(probes, 6, "after 50, 150, 350, 550, 750 and 950 ms");
}

#[test]
fn when_the_last_path_is_gone_bios_fail_at_once_unless_a_time_is_set() {
    for gone in ["remove_path 0", "fail_path 0", "state 0 persistent-loss"] {
        let mut desk = one(Silence::AtOnce);
        desk.tell("state 0 inaccessible");
        desk.submit(Read, 0, 8);
        assert_eq!(desk.done(), []);
        desk.tell(gone);
        assert_eq!(desk.done(), [(0, Status::Io)], "{gone}: what waits need not wait any more");
    }
}

#[test]
fn a_delayed_removal_holds_bios_and_goes_on_when_a_path_comes_in_time() {
    let options = HeadOptions { delayed_removal: ms(300), most_waiting: 2, ..options() };
    for comes in [true, false] {
        let mut desk = Desk::new(&disk(), &[Silence::AtOnce], options.clone());
        desk.tell("remove_path 0");
        desk.pass(ms(200));
        (0..3).for_each(|number| desk.submit(Read, number * 8, 8));
        assert_eq!(desk.done(), [(2, Status::Io)], "more than may wait");
        desk.pass(ms(99));
        assert_eq!((desk.done(), desk.head().waiting()), (vec![], 2));
        if comes {
            assert_eq!(desk.add(&disk(), Silence::AtOnce).unwrap(), 0);
            assert_eq!(desk.on(1), [(Read, 0, 8), (Read, 8, 8)]);
            desk.pass(ms(1000));
            assert_eq!(desk.done(), []);
            continue;
        }
        desk.pass(ms(1));
        assert_eq!(desk.done(), [(0, Status::Io), (1, Status::Io)], "since the path went, not since they came");
        desk.submit(Read, 24, 8);
        assert_eq!(desk.done(), [(3, Status::Io)]);
        desk.add(&disk(), Silence::AtOnce).unwrap();
        desk.submit(Read, 32, 8);
        assert_eq!(desk.on(1), [(Read, 32, 8)], "a head without a path can get one again");
    }
}

#[test]
fn who_waits_in_a_delayed_removal_waits_anew_for_a_path_that_may_come_back() {
    let times = HeadOptions { delayed_removal: ms(300), no_path_timeout: Some(ms(1000)), ..options() };
    let mut desk = Desk::new(&disk(), &[Silence::AtOnce], times);
    desk.tell("state 0 persistent-loss");
    desk.submit(Read, 0, 8);
    desk.pass(ms(200));
    desk.tell("state 0 inaccessible");
    desk.pass(ms(999));
    assert_eq!(desk.done(), []);
    desk.pass(ms(1));
    assert_eq!(desk.done(), [(0, Status::Io)]);
}

#[test]
fn a_change_whose_path_never_tells_fails_undecided_after_a_time_and_is_sent_nowhere_else() {
    for (op, limits) in [(Write, disk()), (ZoneAppend, zoned()), (Op::ZoneReset, zoned())] {
        let options = HeadOptions { silence_timeout: Some(ms(700)), may_double_appends: true, ..options() };
        let mut desk = Desk::new(&limits, &[Silence::Told, Silence::AtOnce], options);
        desk.submit(op, ZONE, if op.has_data() { 8 } else { 0 });
        desk.end(0, Status::Timeout);
        desk.pass(ms(699));
        assert_eq!((desk.done(), desk.on(1)), (vec![], vec![]), "{op:?}");
        desk.pass(ms(1));
        let done = desk.completions();
        assert!(done[0].why().unwrap().to_string().ends_with("a path gave it up, and it may be done or not"), "{op:?}");
        assert_eq!((desk.on(1), desk.head().counters().unsettled), (vec![], 1));
        assert_eq!(desk.silent(0), 1, "an answer that comes too late says nothing to anybody");
        assert_eq!((desk.on(1), desk.done()), (vec![], vec![]));
    }
}

#[test]
fn a_path_that_states_a_time_is_waited_for_so_long_however_short_the_other_bound_is() {
    let options = HeadOptions { silence_timeout: Some(ms(100)), ..options() };
    let mut desk = Desk::new(&disk(), &[Silence::After(ms(500)); 2], options);
    desk.submit(Write, 8, 8);
    desk.end(0, Status::Timeout);
    desk.pass(ms(499));
    assert_eq!((desk.on(1), desk.done()), (vec![], vec![]));
    desk.pass(ms(1));
    assert_eq!(desk.on(1), [(Write, 8, 8)]);
}

/// A path that is a table over these devices in a row, and a second path.
fn over_table(of: &[Silence]) -> (Desk, Vec<DeviceId>) {
    let mut stack = Stack::new();
    let part = Limits::new((1 << 16) / of.len() as u64);
    let below: Vec<DeviceId> = of.iter().map(|silence| by_hand(&mut stack, &part, *silence)).collect();
    let part =
        |id: &DeviceId| shingle_core::dm::Mapping::part(*id, stack.limits(*id), 0, stack.limits(*id).capacity).unwrap();
    let parts: Vec<_> = below.iter().map(part).collect();
    let table = stack.add(Box::new(Table::new(&parts).unwrap())).unwrap();
    let other = by_hand(&mut stack, &disk(), Silence::AtOnce);
    (Desk::over(stack, &[table, other], PolicyKind::RoundRobin, options()), below)
}

#[test]
fn a_question_goes_through_a_table_to_all_below_and_their_last_answer_counts() {
    let (mut desk, below) = over_table(&[Silence::Told, Silence::Told]);
    desk.submit(Write, 8, 8);
    let [table, other] = [desk.paths[0], desk.paths[1]];
    desk.paths = below;
    desk.end(0, Status::Timeout);
    assert_eq!(desk.stack.silence(table), Silence::Told);
    desk.answer(1, 0);
    desk.paths.push(other);
    assert_eq!(desk.on(2), [], "one of two has answered");
    desk.answer(0, 0);
    assert_eq!(desk.on(2), [(Write, 8, 8)]);
}

/// The new table leads somewhere else, and who is there knows nothing of commands that went the old way.
#[test]
fn a_question_stays_with_those_who_had_the_command_when_the_table_is_swapped() {
    let (mut desk, below) = over_table(&[Silence::Told]);
    desk.submit(Write, 8, 8);
    let [table, other] = [desk.paths[0], desk.paths[1]];
    desk.paths = vec![below[0], other];
    desk.end(0, Status::Timeout);
    let silent = by_hand(&mut desk.stack, &disk(), Silence::AtOnce);
    let new = Table::linear(silent, desk.stack.limits(silent), 0, 1 << 16).unwrap();
    desk.stack.suspend(table);
    desk.stack.replace(table, Box::new(new)).unwrap();
    desk.stack.resume(table);
    desk.pass(ms(10_000));
    assert_eq!(desk.on(1), []);
    desk.answer(0, 0);
    assert_eq!(desk.on(1), [(Write, 8, 8)]);
}

#[test]
fn a_device_that_is_gone_with_nothing_under_way_has_answered() {
    let (mut desk, below) = over_table(&[Silence::Told, Silence::Told]);
    desk.submit(Write, 8, 8);
    let [table, other] = [desk.paths[0], desk.paths[1]];
    desk.paths = vec![below[0], other];
    desk.end(0, Status::Timeout);
    let new = by_hand(&mut desk.stack, &disk(), Silence::AtOnce);
    let new = Table::linear(new, desk.stack.limits(new), 0, 1 << 16).unwrap();
    desk.stack.suspend(table);
    desk.stack.replace(table, Box::new(new)).unwrap();
    desk.stack.resume(table);
    desk.answer(0, 0);
    assert!(desk.stack.remove(below[1]).is_ok());
    desk.turn();
    assert_eq!(desk.on(1), [(Write, 8, 8)]);
}

fn announce(desk: &mut Desk, from: DeviceId, state: AnaState) {
    desk.stack.with_device(from, |_: &mut ByHand, cx| cx.announce(state)).unwrap();
    desk.turn();
}

fn states(desk: &Desk) -> Vec<AnaState> {
    desk.head().paths().map(|path| path.state).collect()
}

#[test]
fn a_path_that_announces_its_state_is_taken_at_its_word() {
    let mut desk = Desk::two();
    let path = desk.paths[1];
    announce(&mut desk, path, AnaState::NonOptimized);
    (0..2).for_each(|number| desk.submit(Read, number * 8, 8));
    assert_eq!((desk.on(0).len(), desk.on(1).len()), (2, 0));
    let path = desk.paths[0];
    announce(&mut desk, path, AnaState::Change);
    desk.submit(Read, 8, 8);
    assert_eq!(desk.on(1).len(), 1);
    desk.pass(ms(20_000));
    assert_eq!(states(&desk), [AnaState::Inaccessible, AnaState::NonOptimized], "a change ends");
    announce(&mut desk, path, AnaState::Optimized);
    desk.submit(Read, 8, 8);
    assert_eq!(desk.on(0).len(), 3);
}

#[test]
fn an_announcement_goes_up_through_a_table_over_one_device_and_not_through_one_over_two() {
    for (of, heard) in [(&[Silence::AtOnce][..], AnaState::Inaccessible), (&[Silence::AtOnce; 2], AnaState::Optimized)]
    {
        let (mut desk, below) = over_table(of);
        announce(&mut desk, below[0], AnaState::Inaccessible);
        assert_eq!(states(&desk), [heard, AnaState::Optimized]);
    }
}

#[test]
fn a_path_that_is_gone_announces_nothing() {
    let mut desk = Desk::two();
    desk.tell("remove_path 0");
    let gone = desk.paths[0];
    announce(&mut desk, gone, AnaState::Change);
    assert_eq!(states(&desk), [AnaState::Optimized]);
    desk.submit(Write, 8, 8);
    assert_eq!(desk.on(1).len(), 1);
}

#[test]
fn numa_takes_the_path_near_to_the_node_of_the_head() {
    let submitter = HeadOptions { node: Node(1), ..options() };
    let mut desk = Desk::by(PolicyKind::Numa, &disk(), &[Silence::AtOnce; 2], submitter);
    desk.submit(Read, 0, 8);
    assert_eq!(desk.in_flight(), [1, 0], "no path has a node");
    let device = by_hand(&mut desk.stack, &disk(), Silence::AtOnce);
    let near = PathConfig { node: Some(Node(1)), ..PathConfig::new(device) };
    Head::add_path(&mut desk.stack, desk.head, &near).unwrap();
    let set = |desk: &mut Desk, path, node| {
        desk.stack.with_device::<Head, _>(desk.head, |head, _| head.set_node(path, node)).unwrap();
    };
    (0..2).for_each(|path| set(&mut desk, path, Some(Node(0))));
    desk.submit(Read, 8, 8);
    assert_eq!(desk.in_flight(), [1, 0, 1], "only the new one is near");
    assert_eq!(desk.head().paths().map(|path| path.node).collect::<Vec<_>>(), [0, 0, 1].map(|node| Some(Node(node))));
    set(&mut desk, 2, Some(Node(0)));
    desk.submit(Read, 16, 8);
    assert_eq!(desk.in_flight(), [2, 0, 1], "all are as far away");
}

#[test]
fn options_of_a_policy_outlive_a_change_of_paths() {
    let mut desk = Desk::by(PolicyKind::Numa, &disk(), &[Silence::AtOnce; 2], options());
    desk.tell("policy latency decay 10 window 5000 low-water 3");
    let given = PolicyOptions { decay: Some(10), window: Some(Duration::from_micros(5_000)), low_water: Some(3) };
    assert_eq!((desk.head().policy(), desk.head().policy_options()), (PolicyKind::Latency, given));
    desk.tell("remove_path 0");
    desk.add(&disk(), Silence::AtOnce).unwrap();
    assert_eq!((desk.head().policy(), desk.head().policy_options()), (PolicyKind::Latency, given));
    desk.tell("policy latency");
    assert_eq!(desk.head().policy_options(), PolicyOptions::default(), "what is not said is the default");
}

#[test]
fn a_message_with_a_wrong_option_changes_nothing() {
    let mut desk = Desk::by(PolicyKind::Numa, &disk(), &[Silence::AtOnce; 2], options());
    for (words, expected) in [
        ("policy latency decay 101", "allowed: 0 to 100 %"),
        ("policy latency window 99", "allowed: 100 us to 1 h"),
        ("policy adaptive low-water 0", "allowed: 1 to 1000000"),
        ("policy queue-depth decay 5", "policy `queue-depth` has no option `decay`"),
        ("policy latency decay", "`decay` is no option"),
        ("policy latency decay x", "`x` is no option"),
        ("policy latency dcay 5", "`dcay` is no option"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let error = desk.stack.message(desk.head, &words).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(desk.head().policy(), PolicyKind::Numa);
    }
}
