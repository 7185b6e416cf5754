//! The head of several paths, above paths that do what a test says.

use shingle_core::block::{Bio, DeviceId, Flags, Limits, Op, Payload, Silence, Status};
use shingle_core::multipath::{AnaState, Head, HeadError, HeadOptions, PathConfig, PathHealth, PolicyKind};
use shingle_core::plug::WritePolicy;
use shingle_core::sector::Sector;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use Op::{Flush, Read, ReportZones, Write, ZoneAppend, ZoneReset};

use crate::head_desk::{Desk, ZONE, ms, options, zoned};

#[test]
fn what_a_path_fails_and_may_be_done_twice_is_done_on_another_at_once() {
    for (op, sectors) in [(Read, 8), (Flush, 0)] {
        let limits = Limits { write_cache: true, ..Limits::new(1 << 16) };
        let mut desk = Desk::new(&limits, &[Silence::Told; 2], options());
        desk.submit(op, 0, sectors);
        assert_eq!((desk.on(0).len(), desk.on(1).len()), (1, 0));
        desk.end(0, Status::Transport);
        assert_eq!((desk.on(1), desk.done()), (vec![(op, 0, sectors)], vec![]));
        desk.end(1, Status::Ok);
        assert_eq!(desk.done(), [(0, Status::Ok)]);
    }
}

#[test]
fn an_error_of_the_disk_ends_a_bio_and_says_nothing_of_the_path() {
    let mut desk = Desk::two();
    for status in [Status::Medium, Status::Io, Status::NoSpace, Status::ZoneOpenResource, Status::Invalid] {
        desk.submit(Read, 8, 8);
        let path = usize::from(desk.on(0).is_empty());
        desk.end(path, status);
        assert_eq!(desk.done().len(), 1, "{status}");
    }
    let failures = [0, 1].map(|path| desk.head().path(path).unwrap().failures);
    assert_eq!(failures, [0, 0]);
}

#[test]
fn a_disk_without_time_is_asked_again_on_the_same_path_a_bounded_number_of_times() {
    let mut desk = Desk::two();
    desk.submit(Write, 8, 8);
    for attempt in 0..=5 {
        assert_eq!((desk.on(0), desk.on(1)), (vec![(Write, 8, 8)], vec![]), "attempt {attempt}");
        desk.end(0, Status::DeviceResource);
        desk.pass(ms(100));
    }
    assert_eq!(desk.done(), [(0, Status::DeviceResource)]);
}

/// The old command may land after newer data.
#[test]
fn a_change_is_not_sent_again_before_its_path_is_silent() {
    for op in [Write, Op::Discard, Op::WriteZeroes] {
        let limits = Limits { max_discard: Some(64), max_write_zeroes: Some(64), ..Limits::new(1 << 16) };
        for silence in [Silence::Told, Silence::After(ms(500))] {
            let mut desk = Desk::new(&limits, &[silence; 2], options());
            desk.submit(op, 8, 8);
            desk.end(0, Status::Timeout);
            desk.pass(ms(499));
            assert_eq!((desk.on(1), desk.done()), (vec![], vec![]), "{op:?} {silence:?}");
            if silence == Silence::Told {
                desk.pass(ms(3_600_000));
                assert_eq!((desk.on(1), desk.silent(0)), (vec![], 1));
            } else {
                desk.pass(ms(1));
            }
            assert_eq!(desk.on(1), [(op, 8, 8)]);
            desk.end(1, Status::Ok);
            assert_eq!(desk.done(), [(0, Status::Ok)]);
        }
    }
}

#[test]
fn a_path_that_ends_what_it_gives_up_is_not_waited_for() {
    let mut desk = Desk::new(&Limits::new(1 << 16), &[Silence::AtOnce; 2], options());
    desk.submit(Write, 8, 8);
    desk.end(0, Status::Transport);
    assert_eq!(desk.on(1), [(Write, 8, 8)]);
}

#[test]
fn an_answer_counts_for_that_about_which_it_was_asked_and_comes_in_any_order() {
    let mut desk = Desk::two();
    (0..4).for_each(|number| desk.submit(Write, 8 * number, 8));
    desk.end(0, Status::Transport);
    desk.end(0, Status::Transport);
    let newest = desk.on(1);
    desk.answer(0, 1);
    assert_eq!(desk.on(1), [newest.clone(), vec![(Write, 16, 8)]].concat());
    desk.answer(0, 0);
    assert_eq!(desk.on(1), [newest, vec![(Write, 16, 8), (Write, 0, 8)]].concat());
}

#[test]
fn a_reset_runs_again_only_when_the_old_one_cannot_any_more() {
    let mut desk = Desk::new(&zoned(), &[Silence::Told; 2], options());
    desk.submit(ZoneReset, ZONE, 0);
    desk.end(0, Status::Offline);
    assert_eq!(desk.on(1), []);
    desk.silent(0);
    assert_eq!(desk.on(1), [(ZoneReset, ZONE, 0)]);
}

#[test]
fn what_of_a_zone_write_is_done_its_pointer_tells_once_the_path_is_silent() {
    for (written, sent) in [(0, vec![(Write, ZONE, 8)]), (3, vec![(Write, ZONE + 3, 5)]), (8, vec![])] {
        let mut desk = Desk::new(&zoned(), &[Silence::Told; 2], options());
        desk.submit(Write, ZONE, 8);
        desk.end(0, Status::Timeout);
        assert_eq!(desk.on(1), [], "the pointer proves nothing yet");
        desk.silent(0);
        assert_eq!(desk.on(1), [(ReportZones, ZONE, 0)]);
        desk.report(1, written);
        assert_eq!(desk.on(1), sent);
        sent.iter().for_each(|_| desk.end(1, Status::Ok));
        assert_eq!(desk.done(), [(0, Status::Ok)], "{written} sectors");
    }
}

#[test]
fn a_write_that_was_found_done_and_is_to_be_durable_is_flushed() {
    let mut desk = Desk::new(&zoned(), &[Silence::AtOnce; 2], options());
    desk.submit_with(Write, ZONE, 8, Flags::FUA);
    desk.end(0, Status::Timeout);
    desk.report(1, 8);
    assert_eq!((desk.on(1), desk.done()), (vec![(Flush, 0, 0)], vec![]));
    desk.end(1, Status::Ok);
    assert_eq!(desk.done(), [(0, Status::Ok)]);
}

#[test]
fn an_append_whose_fate_nobody_knows_fails_unless_it_may_be_doubled() {
    for may_double_appends in [false, true] {
        let mut desk = Desk::new(&zoned(), &[Silence::Told; 2], HeadOptions { may_double_appends, ..options() });
        desk.submit(ZoneAppend, ZONE, 8);
        desk.end(0, Status::Timeout);
        assert_eq!((desk.on(1), desk.done()), (vec![], vec![]));
        desk.silent(0);
        let counters = desk.head().counters();
        assert_eq!(
            (counters.doubled_appends, counters.uncertain_appends),
            if may_double_appends { (1, 0) } else { (0, 1) }
        );
        if may_double_appends {
            assert_eq!(desk.on(1), [(ZoneAppend, ZONE, 8)]);
        } else {
            let done = desk.completions();
            assert!(done[0].why().unwrap().to_string().ends_with("a path gave it up, and it may be done or not"));
        }
    }
}

#[test]
fn without_a_path_bios_wait_and_fail_after_a_time_and_new_ones_at_once_until_there_is_one() {
    let mut desk = Desk::new(&Limits::new(1 << 16), &[Silence::AtOnce; 1], options());
    desk.submit(Read, 0, 8);
    desk.end(0, Status::Transport);
    desk.submit(Read, 8, 8);
    desk.pass(ms(999));
    assert_eq!(desk.done(), []);
    desk.pass(ms(1));
    assert_eq!(desk.done(), [(0, Status::Io), (1, Status::Io)]);
    desk.submit(Read, 16, 8);
    assert_eq!(desk.done(), [(2, Status::Io)]);
    assert_eq!(desk.on(0), [(Read, 0, 1)], "the probe");
    desk.end(0, Status::Medium);
    desk.submit(Read, 24, 8);
    assert_eq!(desk.on(0), [(Read, 24, 8)], "whoever answers can be reached");
}

#[test]
fn what_waits_for_a_path_goes_in_its_order_when_one_is_back() {
    let mut desk = Desk::two();
    (0..2).for_each(|path| desk.tell(&format!("state {path} inaccessible")));
    (0..3).for_each(|number| desk.submit(Read, number * 8, 8));
    desk.tell("state 1 non-optimized");
    assert_eq!(desk.on(1), [(Read, 0, 8), (Read, 8, 8), (Read, 16, 8)]);
}

#[test]
fn more_bios_than_may_wait_fail() {
    let mut desk = Desk::new(&Limits::new(64), &[Silence::AtOnce], HeadOptions { most_waiting: 2, ..options() });
    desk.tell("state 0 change");
    (0..3).for_each(|number| desk.submit(Read, number * 8, 8));
    assert_eq!(desk.done(), [(2, Status::Io)]);
}

#[test]
fn nobody_waits_for_paths_that_do_not_come_back() {
    for gone in ["fail_path 0", "state 0 persistent-loss"] {
        let mut desk = Desk::new(&Limits::new(64), &[Silence::AtOnce], options());
        desk.tell(gone);
        desk.submit(Read, 0, 8);
        assert_eq!(desk.done(), [(0, Status::Io)], "{gone}");
    }
}

#[test]
fn a_path_that_failed_is_probed_more_and_more_rarely_and_taken_again_when_the_disk_answers() {
    let mut desk = Desk::two();
    desk.submit(Read, 0, 8);
    desk.end(0, Status::Transport);
    for pause in [50, 100, 200, 200] {
        desk.pass(ms(pause - 1));
        assert_eq!(desk.on(0), [], "after {pause} ms");
        desk.pass(ms(1));
        assert_eq!(desk.on(0), [(Read, 0, 1)], "after {pause} ms");
        desk.end(0, Status::Transport);
    }
    desk.pass(ms(200));
    desk.end(0, Status::Ok);
    (0..2).for_each(|_| desk.submit(Read, 0, 8));
    assert_eq!((desk.on(0).len(), desk.on(1).len()), (1, 2));
    assert_eq!(desk.head().path(0).unwrap().probes, 5);
}

#[test]
fn optimized_paths_go_first_and_a_path_that_changes_for_too_long_counts_as_failed() {
    let mut desk = Desk::two();
    desk.tell("state 0 non-optimized");
    (0..3).for_each(|number| desk.submit(Read, number * 8, 8));
    assert_eq!((desk.on(0).len(), desk.on(1).len()), (0, 3));
    desk.tell("state 1 change");
    desk.submit(Read, 0, 8);
    assert_eq!(desk.on(0).len(), 1);
    desk.tell("state 0 inaccessible");
    desk.submit(Read, 0, 8);
    desk.pass(ms(999));
    desk.tell("state 1 optimized");
    assert_eq!(desk.on(1).len(), 4, "what waited goes when the change is over");
}

#[test]
fn a_policy_is_switched_beside_what_is_under_way() {
    let mut desk = Desk::two();
    (0..3).for_each(|_| desk.submit(Read, 0, 8));
    for kind in PolicyKind::ALL {
        desk.tell(&format!("policy {}", kind.name()));
        assert_eq!(desk.head().policy(), kind);
    }
    desk.tell("policy queue-depth");
    desk.submit(Read, 8, 8);
    assert_eq!((desk.on(0).len(), desk.on(1).len()), (2, 2), "it knows what was sent before");
    (0..4).for_each(|number| desk.end(number % 2, Status::Ok));
    assert_eq!(desk.done().len(), 4);
}

/// Linux once took the beginning of a name for it.
#[test]
fn messages_that_make_no_sense_say_what_would() {
    let mut desk = Desk::two();
    let cases = [
        ("policy round", "there is no policy `round`: they are numa, round-robin, "),
        ("fail_path 2", "there is no path 2: those that are there are 0, 1"),
        ("reinstate_path x", "there is no path x: those that are there are 0, 1"),
        ("state 0 good", "there is no state `good`: they are optimized, "),
        ("fail_path", "write `fail_path N`"),
    ];
    for (words, text) in cases {
        let words: Vec<&str> = words.split(' ').collect();
        let told = desk
            .stack
            .with_device::<Head, _>(desk.head, |head, cx| shingle_core::block::BlockDevice::message(head, &words, cx));
        let error = told.unwrap().unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
}

#[test]
fn a_report_says_of_each_path_what_it_is_and_how_long_its_bios_took() {
    let mut desk = Desk::two();
    desk.tell("state 1 non-optimized");
    for time in [ms(3), ms(5)] {
        desk.submit(Read, 8, 8);
        desk.pass(time);
        desk.end(0, Status::Ok);
    }
    desk.submit(Read, 8, 8);
    desk.pass(ms(100));
    desk.end(0, Status::Medium);
    desk.submit(Read, 8, 8);
    let reports: Vec<_> = desk.head().paths().collect();
    assert_eq!(reports[0].counters.latency, ms(8), "what failed says nothing of how long it takes");
    assert_eq!((reports[0].counters.done, reports[0].counters.sent, reports[0].in_flight), (2, 4, 1));
    assert_eq!((reports[0].device, reports[1].device), (desk.paths[0], desk.paths[1]));
    assert_eq!((reports[1].state, reports[1].health), (AnaState::NonOptimized, PathHealth::Live));

    desk.end(0, Status::Transport);
    desk.tell("fail_path 1");
    let health: Vec<_> = desk.head().paths().map(|path| path.health).collect();
    assert_eq!(health, [PathHealth::Failed, PathHealth::Offline]);
    assert_eq!((desk.in_flight(), desk.head().waiting()), (vec![0, 1], 0));
    desk.end(1, Status::Transport);
    assert_eq!(desk.head().waiting(), 1);
}

#[test]
fn paths_to_other_disks_are_refused() {
    let (limits, other) = (Limits::new(64), Limits::new(128));
    let named = |name: &str| PathConfig { identity: Some(name.into()), ..PathConfig::new(DeviceId(0)) };
    let refused = |paths: &[(PathConfig, &Limits)]| {
        Head::new(paths, PolicyKind::Numa, options()).err().expect("they do not belong together").to_string()
    };
    assert_eq!(refused(&[]), HeadError::Count(0).to_string());
    let many: Vec<_> = (0..33).map(|_| (named("a"), &limits)).collect();
    assert_eq!(refused(&many), "33 paths: a disk has 1 to 32");
    assert_eq!(
        refused(&[(named("a"), &limits), (named("b"), &limits)]),
        "path 1 leads to another disk: it says `b`, and the others say `a`"
    );
    assert_eq!(
        refused(&[(named("a"), &limits), (named("a"), &other)]),
        "path 1 leads to a disk of 128 sectors, and the others to one of 64"
    );
    let zoned = Limits { capacity: 64 * ZONE, ..zoned() };
    let regular = Limits::new(64 * ZONE);
    assert!(
        refused(&[(named("a"), &zoned), (named("a"), &regular)]).starts_with("path 1 does not go with the others: ")
    );
}

/// Found by the swarm (paths 6): a write of which a part may be done was tried again as a whole.
#[test]
fn of_a_zone_write_that_is_tried_again_or_zeroes_only_what_is_missing_is_sent() {
    for (op, status) in [(Write, Status::Target), (Op::WriteZeroes, Status::Target), (Op::WriteZeroes, Status::Timeout)]
    {
        let limits = Limits { max_write_zeroes: Some(64), ..zoned() };
        let mut desk = Desk::new(&limits, &[Silence::AtOnce; 2], options());
        desk.submit(op, ZONE, 8);
        desk.end(0, status);
        desk.pass(ms(100));
        let path = usize::from(status == Status::Timeout || desk.on(0).is_empty());
        assert_eq!(desk.on(path), [(ReportZones, ZONE, 0)], "{op:?} {status}");
        desk.report(path, 3);
        let mut rest = [desk.on(0), desk.on(1)].concat();
        rest.retain(|(op, ..)| *op != Read);
        assert_eq!(rest, [(op, ZONE + 3, 5)], "{op:?} {status}");
    }
}

/// A disk that has no time has done nothing; one that failed may have.
#[test]
fn an_append_is_tried_again_only_if_the_disk_refused_it() {
    for (may_double_appends, status, again) in
        [(false, Status::Target, false), (true, Status::Target, false), (false, Status::DeviceResource, true)]
    {
        let options = HeadOptions { may_double_appends, ..options() };
        let mut desk = Desk::new(&zoned(), &[Silence::AtOnce; 2], options);
        desk.submit(ZoneAppend, ZONE, 8);
        desk.end(0, status);
        desk.pass(ms(100));
        let expected = if again { vec![(ZoneAppend, ZONE, 8)] } else { vec![] };
        assert_eq!(desk.on(0), expected, "{may_double_appends} {status}");
        assert_eq!(desk.done().len(), usize::from(!again));
    }
}

/// Found by the swarm (paths 35).
#[test]
fn what_pauses_for_the_disk_takes_another_path_if_its_own_does_not_lead_there_any_more() {
    let mut desk = Desk::two();
    desk.submit(Read, 8, 8);
    desk.end(0, Status::DeviceResource);
    desk.tell("state 0 inaccessible");
    desk.pass(ms(100));
    assert_eq!((desk.on(0), desk.on(1)), (vec![], vec![(Read, 8, 8)]));
}

/// An answer that is on its way when a command is given up says nothing of that.
#[test]
fn an_answer_to_an_older_question_settles_nothing_newer() {
    let mut desk = Desk::new(&Limits::new(1 << 16), &[Silence::After(ms(500)); 2], options());
    desk.submit(Write, 8, 8);
    desk.submit(Write, 16, 8);
    desk.submit(Write, 24, 8);
    assert_eq!(desk.on(0).len(), 2);
    desk.end(0, Status::Timeout);
    desk.pass(ms(500));
    let sent = desk.on(1).len();
    // The first one is settled by time, and its answer is still on its way when the next one comes back.
    desk.end(0, Status::Timeout);
    desk.answer(0, 0);
    assert_eq!(desk.on(1).len(), sent);
    desk.answer(0, 0);
    assert_eq!(desk.on(1).len(), sent + 1);
}

#[test]
fn a_report_that_failed_on_its_way_begins_anew() {
    let mut desk = Desk::new(&zoned(), &[Silence::AtOnce; 2], options());
    let payload = Payload::Zones(Vec::with_capacity(4));
    desk.stack.submit(desk.port, 0, desk.head, Box::new(Bio::new(ReportZones, Sector::ZERO, 0, payload)));
    desk.turn();
    let half = |bio: &mut Bio| {
        let zone = Zone {
            start: Sector::ZERO,
            len: ZONE,
            capacity: ZONE,
            wp: Sector(5),
            kind: ZoneKind::Sequential,
            cond: Condition::ImplicitOpen,
        };
        let Payload::Zones(zones) = &mut bio.payload else { panic!("a report") };
        zones.push(zone);
    };
    desk.end_with(0, Status::Transport, half);
    desk.end_with(1, Status::Ok, half);
    let done = desk.completions();
    let Payload::Zones(zones) = &done[0].bio.payload else { panic!("a report") };
    assert_eq!(zones.len(), 1);
}

/// Found by the swarm (paths 849).
#[test]
fn a_write_that_was_found_done_is_made_durable_on_a_path_that_works_then() {
    let mut desk = Desk::new(&zoned(), &[Silence::AtOnce; 3], options());
    desk.submit_with(Write, ZONE, 8, Flags::FUA);
    desk.end(0, Status::Timeout);
    assert_eq!(desk.on(1), [(ReportZones, ZONE, 0)]);
    desk.tell("state 1 inaccessible");
    desk.report(1, 8);
    assert_eq!((desk.on(1), desk.on(2)), (vec![], vec![(Flush, 0, 0)]));
    desk.tell("state 2 inaccessible");
    desk.end(2, Status::Transport);
    desk.tell("state 1 optimized");
    desk.report(1, 8);
    desk.end(1, Status::Ok);
    assert_eq!(desk.done(), [(0, Status::Ok)]);
}

/// A finish whose answer is lost can have filled its zone. A plug that goes on with its own pointer sends a write there; if the path
/// fails that as well, the head finds the zone written to its end, and takes the write for done.
#[test]
fn a_write_behind_a_finish_that_is_undecided_is_not_taken_for_done() {
    let options = HeadOptions { silence_timeout: Some(ms(50)), ..options() };
    let mut desk = Desk::new(&zoned(), &[Silence::AtOnce, Silence::Told], options);
    desk.put_plug(WritePolicy::Plug);
    desk.submit(Op::ZoneFinish, ZONE, 0);
    desk.end(1, Status::Timeout);
    desk.pass(ms(50));
    assert_eq!(desk.done(), [(0, Status::Io)], "nobody knows whether it is done");
    desk.submit(Write, ZONE, 8);
    assert_eq!(desk.done(), [(1, Status::Io)], "the plug does not trust its pointer");
    assert_eq!(desk.on(0), []);
}
