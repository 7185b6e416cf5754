//! `delay`: when bios go on, where to, in what order, and what becomes of them when the device is suspended.

use shingle_core::block::{Event, Flags, Op, Status};

use crate::desk::{append, flush, read, report, reset, write};
use crate::mapped::{Mapped, bare, ms, refused};

#[test]
fn bios_reach_the_device_after_their_time_and_in_their_order() {
    let mut delay = Mapped::over_desks("0 1000 delay a 100 50");
    let first = delay.rig.submit(write(0, 8));
    delay.rig.pass(ms(20));
    let second = delay.rig.submit(write(8, 8));
    delay.rig.pass(ms(29));
    assert_eq!((delay.at("a").len(), delay.status().as_str()), (0, "0 2 0"));
    delay.rig.pass(ms(1));
    assert_eq!((delay.at("a"), delay.status()), (vec!["WRITE 100+8".into()], "0 1 0".into()));
    delay.rig.pass(ms(20));
    assert_eq!(delay.at("a"), ["WRITE 100+8", "WRITE 108+8"]);
    delay.end_all("a");
    assert_eq!(delay.ended(), [(first, Status::Ok), (second, Status::Ok)]);
}

#[test]
fn no_time_is_no_delay() {
    let mut delay = Mapped::over_desks("0 1000 delay a 0 0 a 0 10");
    delay.rig.submit(read(0, 8));
    delay.rig.submit(write(0, 8));
    assert_eq!((delay.at("a"), delay.status()), (vec!["READ 0+8".into()], "0 1 0".into()));
}

#[test]
fn each_class_has_its_own_device_start_and_time() {
    let mut delay = Mapped::over_desks("0 1000 delay a 0 10 b 200 20 a 400 30");
    for bio in [read(1, 1), write(2, 1), flush(), write(3, 1).with_flags(Flags::PREFLUSH), bare(Op::Discard, 4, 1)] {
        delay.rig.submit(bio);
    }
    assert_eq!(delay.status(), "1 2 2");
    delay.rig.pass(ms(10));
    assert_eq!((delay.at("a"), delay.status()), (vec!["READ 1+1".into()], "0 2 2".into()));
    delay.rig.pass(ms(10));
    assert_eq!((delay.at("b"), delay.status()), (vec!["WRITE 202+1".into(), "DISCARD 204+1".into()], "0 0 2".into()));
    delay.rig.pass(ms(10));
    assert_eq!(delay.at("a"), ["READ 1+1", "FLUSH 0+0", "WRITE 403+1"]);
}

#[test]
fn with_six_arguments_flushes_go_with_writes_and_the_table_is_printed_as_it_was_written() {
    let mut delay = Mapped::over_desks("0 1000 delay a 0 10 b 200 20");
    delay.rig.submit(flush());
    delay.rig.pass(ms(20));
    assert_eq!(delay.at("b"), ["FLUSH 0+0"]);
    for table in ["0 8 delay a 1 2", "0 8 delay a 1 2 b 3 4", "0 8 delay a 1 2 b 3 4 a 5 6"] {
        assert_eq!(Mapped::over_desks(table).table(), table);
    }
}

#[test]
fn a_suspend_sends_everything_on_at_once_and_a_resume_delays_again() {
    let mut delay = Mapped::over_desks("0 1000 delay a 0 50 a 0 20 a 0 1000");
    for bio in [read(0, 1), flush(), write(1, 1), read(2, 1)] {
        delay.rig.submit(bio);
    }
    delay.event(Event::Suspend { push_back: false });
    assert_eq!(delay.at("a"), ["READ 0+1", "FLUSH 0+0", "WRITE 1+1", "READ 2+1"], "in the order in which they came");
    delay.rig.submit(read(3, 1));
    assert_eq!((delay.at("a").len(), delay.status().as_str()), (5, "0 0 0"), "what still comes does not wait");
    delay.event(Event::Resume);
    delay.rig.pass(ms(30));
    delay.rig.submit(read(4, 1));
    delay.rig.pass(ms(20));
    assert_eq!((delay.at("a").len(), delay.status().as_str()), (5, "1 0 0"), "a timer from before means nothing");
    delay.rig.pass(ms(30));
    assert_eq!(delay.at("a").last().unwrap(), "READ 4+1");
}

#[test]
fn a_suspend_without_flush_puts_them_back_to_the_door_in_their_order() {
    let mut delay = Mapped::over_desks("0 1000 delay a 0 50 a 0 20");
    for bio in [read(0, 1), write(1, 1), read(2, 1)] {
        delay.rig.submit(bio);
    }
    delay.rig.stack.suspend(delay.rig.top);
    delay.event(Event::Suspend { push_back: true });
    assert!(delay.at("a").is_empty() && delay.rig.stack.is_drained(delay.rig.top));
    assert_eq!(delay.status(), "0 0 0");
    delay.event(Event::Resume);
    delay.rig.stack.resume(delay.rig.top);
    delay.rig.pass(ms(50));
    assert_eq!(delay.at("a"), ["WRITE 1+1", "READ 0+1", "READ 2+1"]);
    delay.end_all("a");
    assert_eq!(delay.ended().len(), 3);
}

#[test]
fn an_open_door_takes_nothing_back() {
    let mut delay = Mapped::over_desks("0 1000 delay a 0 50");
    delay.rig.submit(read(0, 1));
    delay.event(Event::Suspend { push_back: true });
    assert_eq!(delay.at("a"), ["READ 0+1"]);
}

#[test]
fn zones_are_reported_at_once_and_their_writes_and_management_keep_their_order() {
    let mut delay = Mapped::over_zones("0 256 delay z 64 0 z 64 10 z 64 0").unwrap();
    delay.end_all("z"); // the report that the plug above asks for
    delay.rig.submit(report());
    assert_eq!(delay.at("z"), ["REPORT_ZONES 64+0"]);
    delay.end_all("z");
    let bios = [write(0, 8), write(8, 8).with_flags(Flags::PREFLUSH), append(0, 8), reset(0), write(0, 8)];
    for bio in bios {
        delay.rig.submit(bio);
    }
    for next in ["WRITE 64+8", "WRITE 72+8", "WRITE 80+8", "ZONE_RESET 64+0", "WRITE 64+8"] {
        assert!(delay.at("z").is_empty());
        delay.rig.pass(ms(10));
        assert_eq!(delay.at("z"), [next]);
        delay.end("z", Status::Ok);
    }
    assert!(delay.ended().iter().all(|(_, status)| status.is_ok()));
}

#[test]
fn a_wrong_line_is_refused_with_its_argument() {
    refused("0 8 delay a 0", &["it has 2 arguments and takes 3, 6 or 9"]);
    refused("0 8 delay a 0 1 b 0", &["it has 5 arguments"]);
    refused("0 8 delay a 0 1 b 0 2 a 0 3 b", &["it has 10 arguments"]);
    refused("0 8 delay a x 1", &["argument 2", "`x`"]);
    refused("0 8 delay a 0 1 b 0 -1", &["argument 6", "`-1`", "number of ms"]);
    refused("0 8 delay a 0 4294967296", &["argument 3", "below 2^32"]);
    refused("0 8 delay c 0 1", &["argument 1", "known devices are: a, b"]);
    refused("0 8 delay a 0 1 b 1048576 1", &["argument 5", "past the end"]);
    let error = Mapped::over_zones("0 128 delay z 0 1 z 128 1").err().unwrap();
    assert!(error.contains("argument 4") && error.contains("the same device and start"), "{error}");
    let error = Mapped::over_zones("0 128 delay z 0 1 a 0 1").err().unwrap();
    assert!(error.contains("`a`") && error.contains("the same device and start"), "{error}");
}
