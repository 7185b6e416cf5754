//! `multipath`: the words of its lines, which path a bio takes, what becomes of it when paths fail, and what an operator can say.

use shingle_core::block::{Event, Status};
use shingle_core::harness::MockDevice;

use crate::desk::{append, flush, read, reset, write};
use crate::mapped::{Mapped, ms, refused};

/// Two groups of a path each, as Linux 7.2 was given them in `guest/tests/multipath.sh`.
const TWO_GROUPS: &str = "0 16384 multipath 2 queue_mode bio 0 2 1 round-robin 0 1 1 a 1 service-time 0 1 2 b 1 1 ";
const ONE_GROUP: &str = "0 16384 multipath 0 0 1 1 round-robin 0 2 1 a 1 b 1";
const QUEUES: &str = "0 16384 multipath 1 queue_if_no_path 0 1 1 queue-length 0 2 1 a 1 b 1";

fn over(table: &str) -> Mapped {
    Mapped::over_desks(table)
}

/// Has a read take its way; the desks where it was, with how each ended it.
fn read_over(mapped: &mut Mapped, ends: &[(&str, Status)]) -> Vec<(u64, Status)> {
    mapped.rig.submit(read(0, 8));
    for (desk, status) in ends {
        assert_eq!(mapped.at(desk), ["READ 0+8"]);
        mapped.end(desk, *status);
    }
    mapped.ended()
}

#[test]
fn a_line_is_printed_as_linux_prints_it_and_can_be_read_again() {
    let lines = [
        (TWO_GROUPS, TWO_GROUPS),
        ("0 8 multipath 0 0 1 1 round-robin 0 2 1 a 1000 b 0", "0 8 multipath 0 0 1 1 round-robin 0 2 1 a 1 b 0 "),
        ("0 8 multipath 0 0 1 1 round-robin 0 1 0 a", "0 8 multipath 0 0 1 1 round-robin 0 1 1 a 1 "),
        ("0 8 multipath 0 0 1 1 service-time 0 2 0 a b", "0 8 multipath 0 0 1 1 service-time 0 2 2 a 1 1 b 1 1 "),
        ("0 8 multipath 0 0 1 1 service-time 0 1 2 a 2 5", "0 8 multipath 0 0 1 1 service-time 0 1 2 a 1 5 "),
        (
            "0 8 multipath 7 queue_mode bio pg_init_retries 3 pg_init_delay_msecs 500 queue_if_no_path 0 1 1 queue-length 0 1 1 a 7",
            "0 8 multipath 7 queue_if_no_path pg_init_retries 3 pg_init_delay_msecs 500 queue_mode bio 0 1 1 queue-length 0 1 1 a 1 ",
        ),
        (
            "0 8 multipath 3 retain_attached_hw_handler queue_mode bio 1 alua 1 1 queue-length 0 1 1 a 1",
            "0 8 multipath 2 queue_mode bio 0 1 1 queue-length 0 1 1 a 1 ",
        ),
        (
            "0 8 multipath 3 retain_attached_hw_handler queue_mode mq 1 alua 1 1 queue-length 0 1 1 a 1",
            "0 8 multipath 0 1 alua 1 1 queue-length 0 1 1 a 1 ",
        ),
        (
            "0 8 multipath 0 0 2 2 historical-service-time 0 1 0 a historical-service-time 2 100 3 1 1 b 5",
            "0 8 multipath 0 0 2 2 historical-service-time 2 972 0 1 1 a 0 historical-service-time 2 100 3 1 1 b 0 ",
        ),
    ];
    for (written, printed) in lines {
        assert_eq!(over(written).table(), printed);
        assert_eq!(over(printed).table(), printed);
    }
}

#[test]
fn what_is_wrong_with_a_line_is_said_with_what_can_be_written() {
    for (words, expected) in [
        ("", "feature words is missing"),
        ("9 a b c d e f g h i 0 1 1 round-robin 0 1 1 a 1", "at most 8"),
        ("1 swift 0 1 1 round-robin 0 1 1 a 1", "`swift`: there are queue_if_no_path"),
        ("2 queue_mode fast 0 1 1 round-robin 0 1 1 a 1", "write bio, rq or mq"),
        ("1 queue_mode 0 1 1 round-robin 0 1 1 a 1", "the queue mode is missing"),
        ("2 pg_init_retries 51 0 1 1 round-robin 0 1 1 a 1", "write 1 to 50"),
        ("2 pg_init_delay_msecs 60001 0 1 1 round-robin 0 1 1 a 1", "write 0 to 60000"),
        ("0", "handler words is missing"),
        ("0 1 rdac 1 1 round-robin 0 1 1 a 1", "no hardware handler `rdac`: write `0` or `1 alua`"),
        ("0 2 alua 1 1 1 round-robin 0 1 1 a 1", "at most 1"),
        ("0 0 0 0", "the number of groups is 0: write 1 to 32"),
        ("0 0 1 0 round-robin 0 1 1 a 1", "the first group is 0: write 1 to 1"),
        ("0 0 1 2 round-robin 0 1 1 a 1", "the first group is 2: write 1 to 1"),
        ("0 0 2 1 round-robin 0 1 1 a 1", "the path selector is missing"),
        ("0 0 1 1 rr 0 1 1 a 1", "no path selector `rr`: there are round-robin"),
        ("0 0 1 1 io-affinity 0 1 1 a 1", "comes from one thread"),
        ("0 0 1 1 round-robin 2 5 6 1 1 a 1", "at most 0"),
        ("0 0 1 1 round-robin 0 0 1", "the number of paths is 0: write 1 to 32"),
        ("0 0 1 1 round-robin 0 1 2 a 1 1", "each path is 2: write 0 to 1"),
        ("0 0 1 1 round-robin 0 1 1 a x", "the repeat count is `x`"),
        ("0 0 1 1 round-robin 0 1 1 a", "an argument of `a` is missing"),
        ("0 0 1 1 round-robin 0 1 1 a 1 b", "`b` is too much"),
        ("0 0 1 1 round-robin 0 2 1 a 1 a 1", "`a` is a path twice"),
        ("0 0 1 1 round-robin 0 1 1 c 1", "there is no device `c`"),
        ("0 0 1 1 service-time 0 1 2 a 1 101", "write 0 to 100"),
        ("0 0 1 1 historical-service-time 1 1024 1 1 a 1", "write 0 to 1023"),
        ("0 0 1 1 historical-service-time 3 1 2 3 1 1 a 1", "at most 2"),
    ] {
        refused(&format!("0 16384 multipath {words}"), &[expected]);
    }
    refused("0 2000000 multipath 0 0 1 1 round-robin 0 1 1 a 1", &["`a`", "past the end"]);
}

#[test]
fn within_a_group_paths_take_turns_and_the_others_get_nothing() {
    let mut paths = over("0 16384 multipath 0 0 1 1 round-robin 0 2 1 a 1 b 1");
    (0..4).for_each(|sector| _ = paths.rig.submit(read(sector, 1)));
    assert_eq!(
        (paths.at("a"), paths.at("b")),
        (vec!["READ 0+1".into(), "READ 2+1".into()], vec!["READ 1+1".into(), "READ 3+1".into()])
    );
    let mut groups = over(TWO_GROUPS);
    (0..4).for_each(|sector| _ = groups.rig.submit(read(sector, 1)));
    assert_eq!((groups.at("a").len(), groups.at("b").len()), (4, 0));
}

#[test]
fn an_operator_tells_service_time_which_path_carries_more() {
    let mut paths = over("0 16384 multipath 0 0 1 1 service-time 0 2 2 a 1 1 b 1 3");
    (0..8).for_each(|sector| _ = paths.rig.submit(read(sector, 1)));
    assert_eq!((paths.at("a").len(), paths.at("b").len()), (2, 6));
    assert_eq!(paths.status(), "2 0 0 0 1 1 A 0 2 2 a A 0 1024 1 b A 0 3072 3 ");
}

#[test]
fn historical_service_time_shows_what_it_has_learned_of_each_path() {
    let mut paths = over("0 16384 multipath 0 0 1 1 historical-service-time 1 0 2 0 a b");
    assert_eq!(paths.status(), "2 0 0 0 1 1 E 2 0 0 2 3 a A 0 1024 0 0 b A 0 1024 0 0 ");
    paths.rig.submit(read(0, 8));
    assert_eq!(paths.status(), "2 0 0 0 1 1 A 2 0 0 2 3 a A 0 1024 1 0 b A 0 1024 0 0 ");
    paths.rig.pass(ms(1));
    paths.end_all("a");
    // Nothing of the past stays; and it is stale after as long for each of the two paths.
    assert_eq!(paths.status(), "2 0 0 0 1 1 A 2 0 0 2 3 a A 0 1024000000 0 3000000 b A 0 1024 0 0 ");
}

#[test]
fn what_fails_on_a_path_is_done_on_the_next_one_of_its_group_and_the_path_stays_failed() {
    let mut paths = over(ONE_GROUP);
    assert_eq!(read_over(&mut paths, &[("a", Status::Io), ("b", Status::Ok)]), [(1, Status::Ok)]);
    assert_eq!(paths.status(), "2 0 0 0 1 1 A 0 2 0 a F 1 b A 0 ");
    paths.rig.pass(ms(100_000));
    assert!(paths.at("a").is_empty(), "nobody probes");
    (0..4).for_each(|_| assert_eq!(read_over(&mut paths, &[("b", Status::Ok)]).len(), 1));
}

#[test]
fn writes_go_to_the_other_path_as_well() {
    let mut paths = over(ONE_GROUP);
    let tag = paths.rig.submit(write(0, 8));
    paths.end("a", Status::Transport);
    paths.end("b", Status::Ok);
    let flush = paths.rig.submit(flush());
    paths.end("b", Status::Ok);
    assert_eq!(paths.ended(), [(tag, Status::Ok), (flush, Status::Ok)]);
}

#[test]
fn what_the_disk_says_for_sure_goes_to_who_asked() {
    let sure = [Status::NotSupported, Status::NoSpace, Status::Target, Status::Medium, Status::Protection];
    // The kernel takes these for path errors. They are mistakes of who asked, or want of memory, and so on every path.
    let ours = [
        Status::Invalid,
        Status::ReadOnly,
        Status::Again,
        Status::Resource,
        Status::ZoneOpenResource,
        Status::ZoneActiveResource,
    ];
    for status in sure.into_iter().chain(ours) {
        let mut paths = over(ONE_GROUP);
        assert_eq!(read_over(&mut paths, &[("a", status)]), [(1, status)]);
        assert_eq!(paths.status(), "2 0 0 0 1 1 A 0 2 0 a A 0 b A 0 ", "{status}");
    }
    for status in [Status::Io, Status::Timeout, Status::Transport, Status::Offline, Status::DeviceResource] {
        let mut paths = over(ONE_GROUP);
        assert_eq!(read_over(&mut paths, &[("a", status), ("b", Status::Ok)]), [(1, Status::Ok)], "{status}");
    }
}

#[test]
fn the_next_group_is_taken_when_one_has_no_path_and_kept_when_it_has_one_again() {
    let mut paths = over(TWO_GROUPS);
    assert_eq!(paths.status(), "2 0 0 0 2 1 E 0 1 0 a A 0 E 0 1 2 b A 0 0 1 ", "none is in use before the first I/O");
    read_over(&mut paths, &[("a", Status::Ok)]);
    assert_eq!(paths.status(), "2 0 0 0 2 1 A 0 1 0 a A 0 E 0 1 2 b A 0 0 1 ");
    read_over(&mut paths, &[("a", Status::Io), ("b", Status::Ok)]);
    assert_eq!(paths.status(), "2 0 0 0 2 2 E 0 1 0 a F 1 A 0 1 2 b A 0 0 1 ");
    assert_eq!(paths.table_now(), TWO_GROUPS.replace("0 2 1 round", "0 2 2 round"));
    paths.message("reinstate_path a").unwrap();
    read_over(&mut paths, &[("b", Status::Ok)]);
    assert_eq!(paths.status(), "2 0 0 0 2 2 E 0 1 0 a A 1 A 0 1 2 b A 0 0 1 ");
    paths.message("switch_group 1").unwrap();
    assert_eq!(paths.status(), "2 0 0 0 2 1 E 0 1 0 a A 1 E 0 1 2 b A 0 0 1 ");
    read_over(&mut paths, &[("a", Status::Ok)]);
    assert_eq!(paths.status(), "2 0 0 0 2 1 A 0 1 0 a A 1 E 0 1 2 b A 0 0 1 ");
}

#[test]
fn the_first_group_is_the_one_that_the_line_names() {
    let mut paths = over(&TWO_GROUPS.replace("0 2 1 round", "0 2 2 round"));
    read_over(&mut paths, &[("b", Status::Ok)]);
    assert!(paths.status().starts_with("2 0 0 0 2 2 E"));
}

#[test]
fn a_disabled_group_is_taken_only_if_no_other_one_can() {
    let mut paths = over(TWO_GROUPS);
    paths.message("disable_group 1").unwrap();
    read_over(&mut paths, &[("a", Status::Ok)]);
    assert!(paths.status().starts_with("2 0 0 0 2 1 D"), "the line has asked for this one first");
    paths.message("disable_group 1").unwrap();
    read_over(&mut paths, &[("b", Status::Ok)]);
    assert_eq!(paths.status(), "2 0 0 0 2 2 D 0 1 0 a A 0 A 0 1 2 b A 0 0 1 ");
    read_over(&mut paths, &[("b", Status::Io), ("a", Status::Ok)]);
    assert_eq!(paths.status(), "2 0 0 0 2 1 D 0 1 0 a A 0 E 0 1 2 b F 1 0 1 ");
    paths.message("reinstate_path b").unwrap();
    paths.message("disable_group 2").unwrap();
    read_over(&mut paths, &[("a", Status::Ok)]);
    paths.message("enable_group 2").unwrap();
    read_over(&mut paths, &[("b", Status::Ok)]);
    paths.message("switch_group 1").unwrap();
    assert_eq!(paths.status(), "2 0 0 0 2 1 E 0 1 0 a A 0 E 0 1 2 b A 1 0 1 ", "a switch enables all");
}

#[test]
fn without_a_path_bios_fail_at_once_unless_the_line_has_them_wait() {
    let mut fails = over(ONE_GROUP);
    assert_eq!(read_over(&mut fails, &[("a", Status::Io), ("b", Status::Timeout)]), [(1, Status::Io)]);
    assert_eq!(read_over(&mut fails, &[]), [(2, Status::Io)]);
    assert_eq!(fails.status(), "2 0 0 0 1 1 E 0 2 0 a F 1 b F 1 ");
    let mut waits = over(QUEUES);
    assert!(read_over(&mut waits, &[("a", Status::Io), ("b", Status::Io)]).is_empty());
    waits.rig.submit(write(8, 8));
    waits.rig.pass(ms(1_000_000));
    assert!(waits.ended().is_empty(), "for however long");
    waits.message("reinstate_path b").unwrap();
    assert_eq!(waits.at("b"), ["READ 0+8", "WRITE 8+8"]);
    waits.end_all("b");
    assert_eq!(waits.ended(), [(1, Status::Ok), (2, Status::Ok)]);
}

#[test]
fn an_operator_says_whether_bios_wait_for_a_path() {
    let mut paths = over(ONE_GROUP);
    paths.message("Queue_If_No_Path").unwrap();
    assert_eq!(paths.table_now(), "0 16384 multipath 1 queue_if_no_path 0 1 1 round-robin 0 2 1 a 1 b 1 ");
    paths.message("fail_path a").unwrap();
    paths.message("fail_path b").unwrap();
    assert!(read_over(&mut paths, &[]).is_empty());
    paths.message("fail_if_no_path").unwrap();
    assert_eq!(paths.ended(), [(1, Status::Io)]);
    assert_eq!(paths.table_now(), ONE_GROUP.to_string() + " ");
}

#[test]
fn a_path_that_an_operator_fails_gets_nothing_more_and_is_counted_once() {
    let mut paths = over(ONE_GROUP);
    (0..2).for_each(|_| _ = paths.message("fail_path a").unwrap());
    assert_eq!(paths.status(), "2 0 0 0 1 1 E 0 2 0 a F 1 b A 0 ");
    (0..2).for_each(|_| _ = read_over(&mut paths, &[("b", Status::Ok)]));
    (0..2).for_each(|_| _ = paths.message("reinstate_path a").unwrap());
    paths.rig.submit(read(0, 1));
    paths.rig.submit(read(0, 1));
    assert_eq!((paths.at("a").len(), paths.at("b").len()), (1, 1));
    assert_eq!(paths.rig.stack.any_device(paths.target).events(), 2, "one each, as nothing changed the other times");
}

#[test]
fn messages_that_mean_nothing_are_refused_with_those_that_do() {
    let mut paths = over(TWO_GROUPS);
    for (message, expected) in [
        ("", "write `fail_path DEVICE`"),
        ("nosuch", "`queue_if_no_path` or `fail_if_no_path`"),
        ("fail_path", "write `fail_path DEVICE`"),
        ("fail_path a b", "write `fail_path DEVICE`"),
        ("fail_path c", "there is no path `c`: there are a, b"),
        ("switch_group 0", "there is no group 0: write 1 to 2"),
        ("switch_group 3", "there is no group 3: write 1 to 2"),
        ("disable_group x", "there is no group x"),
    ] {
        let error = paths.message(message).unwrap_err();
        assert!(error.contains(expected), "{message}: {error}");
    }
    paths.event(Event::Suspend { push_back: false });
    assert!(paths.message("fail_path a").unwrap_err().contains("suspended"));
    paths.event(Event::Resume);
    paths.message("fail_path a").unwrap();
}

#[test]
fn a_suspend_fails_what_waits_and_one_without_flush_puts_it_back_to_the_door() {
    let mut paths = over(QUEUES);
    read_over(&mut paths, &[("a", Status::Io), ("b", Status::Io)]);
    paths.rig.stack.suspend(paths.rig.top);
    paths.event(Event::Suspend { push_back: false });
    assert_eq!(paths.ended(), [(1, Status::Io)]);
    paths.event(Event::Resume);
    paths.rig.stack.resume(paths.rig.top);

    paths.message("reinstate_path a").unwrap();
    paths.rig.submit(read(0, 8));
    paths.message("fail_path a").unwrap();
    paths.rig.submit(read(8, 8));
    paths.rig.stack.suspend(paths.rig.top);
    paths.event(Event::Suspend { push_back: true });
    paths.end("a", Status::Io);
    assert!(paths.ended().is_empty() && paths.rig.stack.is_drained(paths.rig.top), "also what fails meanwhile");
    paths.event(Event::Resume);
    paths.rig.stack.resume(paths.rig.top);
    paths.rig.turn();
    paths.message("reinstate_path b").unwrap();
    assert_eq!(paths.at("b").len(), 2);
    paths.end_all("b");
    assert_eq!(paths.ended().len(), 2);
}

fn over_zoned_paths() -> Mapped {
    let disk = || {
        let mut disk = MockDevice::zoned(8, 64, 64, 1);
        disk.limits_mut().zoned.as_mut().unwrap().max_append = Some(64);
        Box::new(disk)
    };
    let mut mapped = Mapped::new(
        "0 512 multipath 0 0 2 1 round-robin 0 1 1 x 1 round-robin 0 1 1 y 1",
        vec![("x", disk()), ("y", disk())],
    );
    // The report that the plug above asks for.
    mapped.end_all("x");
    mapped
}

#[test]
fn of_a_zone_write_that_a_path_gave_up_only_what_is_missing_is_sent() {
    let mut paths = over_zoned_paths();
    let first = paths.rig.submit(write(64, 8));
    paths.rig.submit(write(72, 8));
    assert_eq!(paths.at("x"), ["WRITE 64+8"], "one at a time");
    // It did five sectors, and both paths lead to one disk.
    let id = paths.device("y");
    paths.rig.stack.with_device(id, |disk: &mut MockDevice, _| {
        let zone = disk.zone_mut(1);
        (zone.wp, zone.cond) = (zone.start + 5, shingle_core::zone::Condition::ImplicitOpen);
    });
    paths.end("x", Status::Io);
    assert_eq!(paths.at("y"), ["REPORT_ZONES 64+0"]);
    paths.end("y", Status::Ok);
    assert_eq!(paths.at("y"), ["WRITE 69+3"]);
    paths.end("y", Status::Ok);
    assert_eq!((paths.ended(), paths.at("y")), (vec![(first, Status::Ok)], vec!["WRITE 72+8".into()]));
}

#[test]
fn zoned_paths_take_appends_as_writes_of_which_a_pointer_tells() {
    let mut paths = over_zoned_paths();
    paths.rig.submit(append(1, 8));
    assert_eq!(paths.at("x"), ["WRITE 64+8"]);
    paths.end("x", Status::Transport);
    assert_eq!(paths.at("y"), ["REPORT_ZONES 64+0"]);
    paths.end_all("y");
    paths.rig.submit(reset(1));
    assert_eq!(paths.at("y"), ["ZONE_RESET 64+0"]);
    paths.end_all("y");
    assert_eq!(paths.ended().iter().map(|(_, status)| *status).collect::<Vec<_>>(), [Status::Ok; 2]);
}
