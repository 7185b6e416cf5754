//! Stack files, right and wrong: what the user sees.

use std::path::{Path, PathBuf};

use shingle_core::plug::WritePolicy;
use shingle_core::scheduler::{SchedulerKind, SchedulerOptions};
use shingle_core::time::Duration;
use shingle_host::config::{Plan, Source};
use shingle_host::daemon::Daemon;

fn parse(text: &str) -> Result<Plan, String> {
    let source = Source { path: PathBuf::from("lab/stack.toml"), text: text.to_owned() };
    Plan::parse(source).map_err(|error| error.to_string())
}

fn complaint(text: &str) -> String {
    parse(text).expect_err("this stack file was accepted")
}

#[track_caller]
fn assert_says(text: &str, expected: &[&str]) {
    let said = complaint(text);
    expected.iter().for_each(|words| assert!(said.contains(words), "{words:?} is missing in:\n{said}"));
}

const NULL: &str = "[disk.d]\ntype = \"null\"\nsize = \"1GiB\"\nzone-size = \"64MiB\"\n";

#[test]
fn the_example_of_the_documentation_is_accepted() {
    let document = include_str!("../../../docs/stack-file.md");
    let example = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let plan = parse(example).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((plan.disks.len(), plan.devices.len(), plan.exports.len(), plan.shards), (2, 1, 2, 1));
    assert_eq!(plan.control, Some(PathBuf::from("lab/control.sock")), "paths are relative to the file");
    assert_eq!((plan.disks[0].kind.name, plan.disks[1].kind.name), ("zoned-dir", "null"));
    let paths: Vec<_> = plan.disks.iter().map(|disk| disk.back_end.path()).collect();
    assert_eq!(paths, [Some(Path::new("lab/disk0")), None]);
}

#[test]
fn an_unknown_key_shows_its_line_and_the_nearest_known_one() {
    let said = complaint("[disk.smr]\ntype = \"zoned-dir\"\npth = \"disk0\"\npath = \"disk0\"\n");
    let expected = "\
error: [disk.smr] has no key `pth`
 --> lab/stack.toml:3:1
  |
3 | pth = \"disk0\"
  | ^^^ did you mean `path`?
  |
  = help: known keys are: type, policy, append, scheduler, queue-depth, max-wait, batch-size, batch-time, \
         hold-back, linger, merge-size, identity, shard, direct, read-only, open-files, timeout, path";
    assert_eq!(said, expected);
}

#[test]
fn an_unknown_type_lists_the_known_ones() {
    let said = complaint("[disk.a]\ntype = \"zoned_dir\"\npath = \"x\"\n");
    let expected = "\
error: `type` of [disk.a] is wrong
 --> lab/stack.toml:2:8
  |
2 | type = \"zoned_dir\"
  |        ^^^^^^^^^^^ did you mean \"zoned-dir\"? known are: zoned-dir, zoned-blk, file, profile, null";
    assert_eq!(said, expected);
}

#[test]
fn an_unknown_target_lists_the_known_ones_at_its_word() {
    let said =
        complaint(&format!("{NULL}[device.m]\ntable = \"\"\"\n0 131072 linear d 0\n131072 131072 cache d 0\n\"\"\"\n"));
    let place = "8 | 131072 131072 cache d 0\n  |               ^^^^^ unknown target `cache`; known targets are: ";
    let known = said.split_once(place).unwrap_or_else(|| panic!("{said}")).1;
    let known: Vec<&str> = known.lines().next().unwrap().split(", ").collect();
    assert!(known.is_sorted() && ["error", "faulty", "linear"].iter().all(|target| known.contains(target)), "{said}");
}

#[test]
fn a_faulty_line_is_part_of_a_stack_and_its_mistakes_are_shown_at_their_word() {
    let device = |line: &str| format!("{NULL}[device.m]\ntable = \"\"\"\n{line}\n\"\"\"\n");
    let plan = parse(&device("0 131072 faulty d 0 seed=7 error,op=write,rate=1/100 lose,op=flush,count=1"));
    assert_eq!(plan.unwrap_or_else(|error| panic!("{error}")).devices.len(), 1);
    let said = complaint(&device("0 131072 faulty d 0 error,rate=often"));
    assert!(said.contains("^^^^^^^^^^^^^^^^ faulty: `often` is no rate, as in 1/100"), "{said}");
    let said = complaint(&device("0 131072 faulty dd 0 error"));
    assert!(said.contains("there is no `dd`; did you mean `d`?"), "{said}");
    let said = complaint(&device("0 131072 faulty d 8 error"));
    assert!(said.contains("not whole zones"), "{said}");
}

#[test]
fn an_undefined_device_lists_the_defined_ones() {
    assert_says(
        &format!(
            "{NULL}[device.m]\ntable = \"0 131072 linear dd 0\"\n[export.e]\ndevice = \"n\"\n[listen]\nunix = \"s\"\n"
        ),
        &[
            "there is no `dd`; did you mean `d`? defined are: d, m",
            "export `e` has no device",
            "define it as [disk.NAME]",
        ],
    );
}

#[test]
fn several_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let said = complaint(
        "[disk.a]\ntype = \"null\"\nsize = \"big\"\nzoned = 1\n[disk.b]\npath = 5\n[lisen]\n[export]\nx = 1\n",
    );
    let places: Vec<usize> =
        ["`big` is not a size", "write true or false", "has no `type`", "did you mean `listen`?", "has no name here"]
            .iter()
            .map(|words| said.find(words).unwrap_or_else(|| panic!("{words} is missing in:\n{said}")))
            .collect();
    assert!(places.is_sorted(), "{said}");
}

#[test]
fn a_disk_that_cannot_be_so_hides_no_other_mistake() {
    let disk = "[disk.d]\ntype = \"null\"\nsize = \"1GiB\"\nzone-size = \"64MiB\"\nmax-open = 4\nmax-active = 1\n";
    assert_says(
        &format!("{disk}[device.m]\ntable = \"0 8 linear dd 0\"\n[export.e]\ndevice = \"m\"\n"),
        &["null disk `d` cannot be made", "there is no `dd`; did you mean `d`?", "nowhere to connect to"],
    );
}

#[test]
fn a_loop_is_shown_as_one() {
    assert_says(
        &format!(
            "{NULL}[device.x]\ntable = \"0 8 linear y 0\"\n[device.y]\ntable = \"0 8 linear z 0\"\n[device.z]\ntable = \"0 8 linear y 0\"\n"
        ),
        &["is below itself", "loop: y -> z -> y"],
    );
}

#[test]
fn gaps_and_overlaps_in_a_table_show_the_line() {
    assert_says(
        &format!("{NULL}[device.m]\ntable = \"\"\"\n0 131072 linear d 0\n262144 131072 error\n\"\"\"\n"),
        &["stack.toml:8:1", "^^^^^^ it begins at sector 262144 and leaves a gap"],
    );
    assert_says(
        &format!("{NULL}[device.m]\ntable = \"\"\"\n0 131072 linear d 0\n65536 131072 error\n\"\"\"\n"),
        &["overlaps", "131072"],
    );
}

#[test]
fn a_size_that_is_no_power_of_two_is_shown_where_it_is_written() {
    let said = complaint("[disk.d]\ntype = \"null\"\nsize = \"1GiB\"\nzone-size = \"60MiB\"\n");
    assert!(said.contains("4 | zone-size = \"60MiB\""), "{said}");
    assert!(said.contains("power of two"), "{said}");
}

#[test]
fn a_table_past_the_end_of_a_disk_or_across_zones_is_found_without_building_anything() {
    assert_says(
        &format!("{NULL}[device.m]\ntable = \"0 131072 linear d 2031616\"\n"),
        &["2031616 ", "past the end", "^^^^^^^"].map(|s| s.trim_end()),
    );
    assert_says(&format!("{NULL}[device.m]\ntable = \"0 1000 linear d 0\"\n"), &["not whole zones"]);
}

#[test]
fn addresses_that_others_can_reach_need_permission() {
    let listen = |line: &str| format!("{NULL}[export.e]\ndevice = \"d\"\n[listen]\n{line}\n");
    assert_says(&listen("tcp = \"0.0.0.0:10809\""), &["can be reached from other machines", "allow-remote = true"]);
    assert_says(&listen("tcp = \"localhost\""), &["is not an address", "127.0.0.1:10809"]);
    assert!(parse(&listen("tcp = \"0.0.0.0:10809\"\nallow-remote = true")).is_ok());
    let limits = "unix = \"s\"\nconnections = 9\nmemory = \"32MiB\"\nclient-memory = \"1MiB\"\nidle-timeout = \"10m\"";
    assert!(parse(&listen(limits)).is_ok());
    assert_says(
        &listen("unix = \"s\"\nmemory = \"31MiB\""),
        &["`memory` is out of range", "one request has up to 32 MiB"],
    );
    assert_says(&listen("unix = \"s\"\nconnections = 0"), &["`connections` is out of range", "1 to 100000 clients"]);
    assert_says(&listen("unix = \"s\"\nidle-timeout = \"0s\""), &["`idle-timeout` is out of range"]);
}

#[test]
fn a_disk_says_how_its_elevator_works() {
    let keys = "max-wait = \"2s\"\nbatch-size = \"8MiB\"\nbatch-time = \"50ms\"\nhold-back = \"7us\"\nlinger = \"0us\"\nmerge-size = \"2MiB\"\n";
    let plan = parse(&format!("{NULL}policy = \"elevator\"\n{keys}")).unwrap();
    let said = plan.disks[0].plug.elevator;
    let ms = Duration::from_millis;
    assert_eq!((said.max_wait, said.batch_sectors, said.batch_time), (ms(2_000), 8 << 11, ms(50)));
    assert_eq!((said.hold_back, said.linger), (Duration::from_micros(7), Duration::ZERO));
    assert_eq!(said.merge_sectors, 2 << 11);
    assert_eq!(plan.disks[0].policy, Some(WritePolicy::Elevator));
}

#[test]
fn a_disk_that_would_stand_still_for_longer_than_a_second_is_refused() {
    for key in ["hold-back", "linger"] {
        let with = |time: &str| format!("{NULL}policy = \"elevator\"\n{key} = \"{time}\"\n");
        assert!(parse(&with("1s")).is_ok());
        assert_says(&with("1001ms"), &[&format!("`{key}` is out of range"), "allowed: up to 1s"]);
        assert_says(&with("600000h"), &["allowed: up to 1s"]);
    }
}

#[test]
fn every_disk_may_have_a_scheduler() {
    let file = "[disk.d]\ntype = \"file\"\npath = \"x\"\n";
    for disk in [NULL, file] {
        let plan = parse(&format!("{disk}scheduler = \"mq-deadline\"\nqueue-depth = 4\n")).unwrap();
        let found = plan.disks[0].scheduler;
        assert_eq!((found.kind, found.queue_depth), (SchedulerKind::MqDeadline, 4));
        assert_eq!(parse(disk).unwrap().disks[0].scheduler, SchedulerOptions::default());
    }
    let wrong = |depth: u32| format!("{NULL}scheduler = \"mq-deadline\"\nqueue-depth = {depth}\n");
    assert_says(&wrong(0), &["`queue-depth` is 0", "1 to 10240"]);
    assert_says(&wrong(10_241), &["`queue-depth` is 10241", "out of range"]);
    assert_says(&format!("{NULL}scheduler = \"none\"\nqueue-depth = 4\n"), &["no effect"]);
    assert_says(&format!("{file}queue-depth = 4\n"), &["has no zones"]);
}

#[test]
fn unknown_scheduler_lists_them_all() {
    assert_says(&format!("{NULL}scheduler = \"mq-dedline\"\n"), &["did you mean \"mq-deadline\"", "none, mq-deadline"]);
}

#[test]
fn an_unknown_policy_lists_them_all() {
    assert_says(
        &format!("{NULL}policy = \"elevatr\"\n"),
        &["did you mean \"elevator\"", "plug, qd1, elevator, zone-lock, none"],
    );
}

#[test]
fn what_cannot_work_together_says_so() {
    assert_says(
        "[disk.d]\ntype = \"file\"\npath = \"x\"\npolicy = \"plug\"\n",
        &["has no zones", "only for zoned disks"],
    );
    assert_says(&format!("{NULL}queue-depth = 4\n"), &["belongs to scheduler \"mq-deadline\" or policy \"zone-lock\""]);
    assert_says(&format!("{NULL}max-wait = \"1s\"\n"), &["belong to policy \"elevator\"", "no effect"]);
    let regular = "[disk.d]\ntype = \"file\"\npath = \"x\"\nlinger = \"1ms\"\n";
    assert_says(regular, &["has no zones", "only for zoned disks"]);
    assert_says(&format!("{NULL}[export.e]\ndevice = \"d\"\n"), &["nowhere to connect to", "[listen]"]);
    assert_says("[listen]\nunix = \"x\"\n", &["defines no disk"]);
    let shards = "[disk.a]\ntype = \"null\"\n[disk.b]\ntype = \"null\"\nshard = 1\n[device.m]\ntable = \"\"\"\n0 8 linear a 0\n8 8 linear b 0\"\"\"\n";
    assert_says(shards, &["lies on two shards", "`a` is on shard 0, `b` on shard 1"]);
    assert_says(&format!("{NULL}[device.d]\ntable = \"0 8 error\"\n"), &["is a disk and a device", "first used here"]);
    assert_says("[disk.\"a b\"]\ntype = \"null\"\n", &["is not a name"]);
    assert_says("[disk.a]\ntype = \"null\"\nshard = 64\n", &["no shard 64"]);
}

#[test]
fn a_zoned_block_device_that_is_none_says_what_it_is() {
    let said = |path: &str| {
        let plan = parse(&format!("[disk.d]\ntype = \"zoned-blk\"\npath = \"{path}\"\n")).unwrap();
        let error = plan.disks[0].back_end.inspect().unwrap_err();
        format!("{} {}", error.message, error.help.unwrap_or_default())
    };
    assert!(
        said("/nonexistent/sdz").contains("there is no such device")
            && said("/nonexistent/sdz").contains("shingle disks")
    );
    assert!(said("/dev/null").contains("it is no block device: a directory is a disk of type `zoned-dir`"));
    assert_says("[disk.d]\ntype = \"zoned-blk\"\n", &["has no `path`", "path = \"/dev/sda\""]);
}

#[test]
fn text_that_is_no_toml_shows_where_it_stops_being_toml() {
    assert_says("[disk.a\ntype = 5", &["this is not TOML", "stack.toml:1"]);
    assert_says("disk = 5", &["`disk` is not a section", "[disk.NAME]"]);
}

#[test]
fn a_missing_stack_file_is_named() {
    let error = Plan::load(&PathBuf::from("/nonexistent/stack.toml")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/stack.toml") && error.contains("cannot read the stack file"), "{error}");
}

#[test]
fn no_text_makes_the_reader_panic() {
    let text = include_str!("../../../docs/stack-file.md").split("```toml\n").nth(1).unwrap();
    let whole = text.split("```").next().unwrap();
    for end in 0..whole.len() {
        let _ = parse(&whole[..end]);
        let _ = parse(&format!("{}\u{1}{}", &whole[..end], &whole[end..]));
    }
}

#[test]
fn keys_of_a_block_device_are_in_range_and_of_one() {
    let export = |keys: &str| format!("{NULL}[export.e]\ndevice = \"d\"\n{keys}");
    assert!(parse(&export("ublk = true\nublk-number = 3\nublk-queues = 4\nublk-depth = 512\n")).is_ok());
    assert_says(
        &export("ublk-depth = 64\n[listen]\nunix = \"s\"\n"),
        &["`ublk-depth` is for block devices", "add ublk = true"],
    );
    assert_says(&export("ublk = true\nublk-depth = 0\n"), &["ublk-depth", "1"]);
    assert_says(&export("ublk = true\nublk-queues = 3\nublk-depth = 1024\n"), &["3 queues of 1024 requests", "2048"]);
    assert_says(&export("ublk = \"yes\"\n"), &["`ublk` of [export.e] is wrong"]);
    assert_says(&export(""), &["export"]);
}

#[test]
fn a_device_that_ublk_cannot_show_is_refused_when_it_is_offered() {
    let many =
        "[disk.d]\ntype = \"null\"\nsize = \"2TiB\"\nzone-size = \"1MiB\"\n[export.e]\ndevice = \"d\"\nublk = true\n";
    let plan = parse(many).unwrap();
    let error = Daemon::start(plan).err().expect("it has too many zones").to_string();
    assert!(error.contains("2097152 zones, and ublk can report 524288"), "{error}");
}

#[test]
fn a_key_is_shown_nowhere_when_a_table_stands_where_a_name_belongs() {
    let key = "c0ffee00".repeat(4);
    let table = format!("0 8 crypt aes-xts-plain64 {key} 0 d 0");
    for text in [
        format!("{NULL}[export.e]\ndevice = \"{table}\"\n[listen]\nunix = \"s\"\n"),
        format!("{NULL}[export.e]\ndevice = \"0 8 crypt aes c0ffee 0\"\n[listen]\nunix = \"s\"\n"),
        format!("{NULL}[device.h]\npaths = [\"{table}\"]\n"),
        format!("[disk.d]\ntype = \"{table}\"\n"),
        format!("[disk.\"{table}\"]\ntype = \"null\"\n"),
    ] {
        let said = complaint(&text);
        assert!(!said.contains(&key) && !said.contains("c0ffee"), "{said}");
    }
}

#[test]
fn a_simulated_drive_says_where_its_data_is_and_what_bounds_it() {
    let disk = |keys: &str| parse(&format!("[disk.d]\ntype = \"profile\"\n{keys}\n"));
    let plan =
        disk("profile = \"zns-1tb\"\nzones = 4\ndirectory = \"drive\"").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.disks[0].back_end.path(), Some(Path::new("lab/drive")), "relative to the file");
    let plan = disk("profile = \"ram\"\nsize = \"1GiB\"\nmemory = \"1MiB\"").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.disks[0].back_end.path(), None);
    let said = disk("profile = \"ram\"\nmemory = \"1MiB\"\ndirectory = \"drive\"").unwrap_err();
    let expected = "\
error: `memory` is for data in memory, and this disk has a `directory`
 --> lab/stack.toml:4:10
  |
4 | memory = \"1MiB\"
  |          ^^^^^^ leave it out: the file system of the directory is the limit
5 | directory = \"drive\"
  |             ------- the directory";
    assert_eq!(said, expected);
}

#[test]
fn keys_of_a_simulated_drive_that_do_not_go_together_are_shown_at_their_place() {
    let cases = [
        ("profile = \"zns-1tb\"\nsize = \"4GiB\"\nzones = 2", ["stack.toml:5:9", "has `size` or `zones`, not both"]),
        (
            "profile = \"zns-1tb\"\nkeep-data = false\nmemory = \"1MiB\"",
            ["stack.toml:5:10", "`memory` is for data, which this"],
        ),
        (
            "profile = \"zns-1tb\"\nkeep-data = false\ndirectory = \"d\"",
            ["stack.toml:5:13", "`directory` is for data, which"],
        ),
        (
            "profile = \"smr-14tb\"\nmax-active = 4",
            ["stack.toml:4:14", "a limit that SMR disks do not have: use `max-open`"],
        ),
        ("profile = \"smr-15tbb\"", ["stack.toml:3:11", "there is no profile `smr-15tbb`, but `smr-15tb`"]),
        ("profile = \"link-fc32\"", ["stack.toml:3:11", "profile `link-fc32` is not of a drive"]),
        ("profile = \"ram\"\nzones = 4", ["stack.toml:4:9", "use `size`"]),
        ("profile = \"/dev/zero\"", ["stack.toml:3:11", "it is longer than 1048576 bytes"]),
        ("zones = 4", ["has no `profile`", "add a line such as: profile = \"zns-1tb\""]),
    ];
    for (keys, says) in cases {
        assert_says(&format!("[disk.d]\ntype = \"profile\"\n{keys}\n"), &says);
    }
}
