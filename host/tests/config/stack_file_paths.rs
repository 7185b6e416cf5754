//! Devices with several paths in stack files, right and wrong: what the user sees.

use std::path::PathBuf;

use shingle_core::multipath::{AnaState, Node, PolicyKind, PolicyOptions};
use shingle_core::time::Duration;
use shingle_host::config::{HeadPlan, MadeOf, Plan, Source};

fn parse(text: &str) -> Result<Plan, String> {
    let source = Source { path: PathBuf::from("lab/stack.toml"), text: text.to_owned() };
    Plan::parse(source).map_err(|error| error.to_string())
}

#[track_caller]
fn assert_says(text: &str, expected: &[&str]) {
    let said = parse(text).expect_err("this stack file was accepted");
    expected.iter().for_each(|words| assert!(said.contains(words), "{words:?} is missing in:\n{said}"));
}

/// Two mapped devices over one disk, in lines 1 to 7; what is added begins in line 8.
const TWO: &str = "\
[disk.d]
type = \"null\"
size = \"1MiB\"
[device.p0]
table = \"0 2048 linear d 0\"
[device.p1]
table = \"0 2048 delay d 0 10\"
";

fn with(lines: &str) -> String {
    format!("{TWO}{lines}")
}

fn head(plan: &Plan) -> &HeadPlan {
    let heads = plan.devices.iter().find_map(|device| match &device.made_of {
        MadeOf::Paths(head) => Some(head),
        MadeOf::Table(_) => None,
    });
    heads.expect("a device with paths")
}

#[test]
fn a_device_with_paths_is_built_behind_them_whatever_the_order_in_the_file() {
    let plan = parse(&format!("[device.a]\npaths = [\"p0\", \"p1\"]\n{TWO}")).unwrap();
    let names: Vec<&str> = plan.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["p0", "p1", "a"]);
    assert_eq!(plan.devices[2].needs(), ["p0", "p1"]);
    assert_eq!(head(&plan).policy(|_| None), PolicyKind::ExpectedDelay);
    assert!(head(&plan).paths.iter().all(|path| path.state == AnaState::Optimized));
}

#[test]
fn the_example_of_the_documentation_is_accepted() {
    let document = include_str!("../../../docs/multipath.md");
    let example = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let plan = parse(example).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(head(&plan).paths[1].state, AnaState::NonOptimized);
}

#[test]
fn every_key_of_paths_is_read() {
    let keys = "[device.m]\npaths = [\"p0\", { device = \"p1\", state = \"non-optimized\" }]\npolicy = \"latency\"\n\
                no-path-timeout = \"5s\"\nattempts = 2\nprobe = \"1s\"\nchange-timeout = \"3s\"\ndouble-appends = true\n\
                delayed-removal = \"7s\"\nsilence-timeout = \"1h\"\n";
    let plan = parse(&with(keys)).unwrap();
    let HeadPlan { paths, options, .. } = head(&plan);
    assert_eq!((paths[1].state, head(&plan).policy(|_| None)), (AnaState::NonOptimized, PolicyKind::Latency));
    let ms = Duration::from_millis;
    assert_eq!((options.no_path_timeout, options.attempts), (Some(ms(5000)), 2));
    assert_eq!((options.probe, options.change_timeout, options.may_double_appends), (ms(1000), ms(3000), true));
    assert_eq!((options.delayed_removal, options.silence_timeout), (ms(7000), Some(ms(3_600_000))));
    let never = "[device.m]\npaths = [\"p0\"]\nno-path-timeout = \"never\"\nsilence-timeout = \"never\"\n";
    let plan = parse(&with(never)).unwrap();
    assert_eq!((head(&plan).options.no_path_timeout, head(&plan).options.silence_timeout), (None, None));
}

#[test]
fn wrong_values_of_paths_show_their_line_and_what_is_right() {
    let cases: [(&str, &[&str]); 14] = [
        ("paths = [\"p0\", \"p2\"]", &["toml:9:16", "path that is not there", "there is no `p2`; did you mean `p"]),
        ("paths = []", &["toml:9:9", "0 paths", "a disk has 1 to 32"]),
        ("paths = \"p0\"", &["toml:9:9", "write a list such as"]),
        ("paths = [5]", &["toml:9:10", "write a name in quotes, or a table in braces"]),
        ("paths = [{ state = \"optimized\" }]", &["toml:9:10", "`paths` 1 of [device.m] has no `device`"]),
        ("paths = [{ device = \"p0\", state = \"good\" }]", &["toml:9:35", "known are: optimized, non-optimized,"]),
        ("paths = [{ device = \"p0\", weight = 2 }]", &["toml:9:27", "has no key `weight`"]),
        ("paths = [\"p0\"]\npolicy = \"latncy\"", &["toml:10:10", "did you mean \"latency\"", "known are: numa, "]),
        ("paths = [\"p0\"]\nprobe = \"1ms\"", &["toml:10:9", "`probe` is out of range", "50 to 3600000 ms"]),
        ("paths = [\"p0\"]\nattempts = 256", &["toml:10:12", "allowed: 0 to 255"]),
        ("paths = [\"p0\"]\ndelayed-removal = \"25h\"", &["toml:10:19", "`delayed-removal` is out of range"]),
        ("paths = [\"p0\"]\nsilence-timeout = \"0s\"", &["toml:10:19", "`silence-timeout` is out of range", "1000 to"]),
        ("paths = [\"p0\"]\nno-path-timeout = \"ever\"", &["toml:10:19", "or \"never\""]),
        ("paths = [\"p0\"]\ntable = \"0 8 error\"", &["toml:9:9", "has a table and paths"]),
    ];
    for (lines, expected) in cases {
        assert_says(&with(&format!("[device.m]\n{lines}\n")), expected);
    }
}

#[test]
fn nodes_of_a_device_and_of_its_paths_are_read() {
    let keys = "[device.m]\npaths = [\"p0\", { device = \"p1\", node = 1 }]\nnode = 2\n";
    let plan = parse(&with(keys)).unwrap();
    let HeadPlan { paths, node, .. } = head(&plan);
    assert_eq!((paths[0].node, paths[1].node, *node), (None, Some(Node(1)), Some(Node(2))));
    let range = "allowed: 0 to 255 (a NUMA node)";
    assert_says(&with("[device.m]\npaths = [{ device = \"p0\", node = 256 }]\n"), &["toml:9:34", range]);
    assert_says(&with("[device.m]\npaths = [\"p0\"]\nnode = 256\n"), &["toml:10:8", range]);
}

#[test]
fn options_of_latency_and_adaptive_are_read() {
    for policy in ["latency", "adaptive"] {
        let keys = format!("policy = \"{policy}\"\ndecay = 10\nwindow = \"500us\"\nlow-water = 8\n");
        let plan = parse(&with(&format!("[device.m]\npaths = [\"p0\"]\n{keys}"))).unwrap();
        let window = Some(Duration::from_micros(500));
        assert_eq!(head(&plan).policy_options, PolicyOptions { decay: Some(10), window, low_water: Some(8) });
    }
    let plan = parse(&with("[device.m]\npaths = [\"p0\"]\npolicy = \"latency\"\n")).unwrap();
    assert_eq!(head(&plan).policy_options, PolicyOptions::default());
}

#[test]
fn wrong_options_of_a_policy_show_their_range_and_unit() {
    let cases: [(&str, &[&str]); 6] = [
        ("policy = \"latency\"\ndecay = 101", &["toml:11:9", "`decay` of a policy", "is 101 %, allowed: 0 to 100 %"]),
        ("policy = \"adaptive\"\ndecay = 100", &["toml:11:9", "allowed: 0 to 99 %"]),
        ("policy = \"latency\"\nwindow = \"99us\"", &["toml:11:10", "is 99 us, allowed: 100 us to 1 h"]),
        ("policy = \"latency\"\nwindow = 5", &["toml:11:10", "write a string in quotes"]),
        ("policy = \"latency\"\nlow-water = 0", &["toml:11:13", "is 0 samples, allowed: 1 to 1000000"]),
        ("policy = \"numa\"\nwindow = \"1ms\"", &["toml:11:10", "policy `numa` has no option `window`"]),
    ];
    for (lines, expected) in cases {
        assert_says(&with(&format!("[device.m]\npaths = [\"p0\"]\n{lines}\n")), expected);
    }
    assert_says(&with("[device.m]\npaths = [\"p0\"]\ndecay = 5\n"), &["policy `expected-delay` has no option `decay`"]);
}

#[test]
fn a_path_belongs_to_one_device_alone() {
    let heads = "[device.m]\npaths = [\"p0\"]\n";
    assert_says(&with("[device.m]\npaths = [\"p0\", \"p0\"]\n"), &["toml:9:16", "a path of `m` twice", "first named"]);
    assert_says(&with(&format!("{heads}[device.n]\npaths = [\"p0\"]\n")), &["toml:11:10", "path of `n` and of `m`"]);
    assert_says(
        &with(&format!("{heads}[device.n]\ntable = \"0 8 linear p0 0\"\n")),
        &["toml:9:10", "`p0` is a path of `m`, and the table of `n` uses it too"],
    );
    let export = "[export.e]\ndevice = \"p0\"\n[listen]\nunix = \"s\"\n";
    assert_says(&with(&format!("{heads}{export}")), &["toml:9:10", "export `e` uses it too"]);
    parse(&with(&format!("{heads}{}", export.replace("[listen]", "read-only = true\n[listen]")))).unwrap();
    assert_says(&with(&format!("{heads}[device.n]\npaths = [\"m\"]\n")), &["toml:11:10", "`m` has paths itself"]);
}

#[test]
fn a_device_that_is_below_its_own_path_is_shown_as_a_loop() {
    let text = "[disk.d]\ntype = \"null\"\n[device.x]\npaths = [\"y\"]\n[device.y]\ntable = \"0 8 linear x 0\"\n";
    assert_says(text, &["is below itself", "loop: x -> y -> x"]);
}

#[test]
fn paths_to_other_disks_or_other_places_of_one_are_refused_as_far_as_the_file_tells() {
    let other = "[disk.e]\ntype = \"null\"\nsize = \"1MiB\"\n[device.q]\n";
    assert_says(
        &with(&format!("{other}table = \"0 2048 linear e 0\"\n[device.m]\npaths = [\"p0\", \"q\"]\n")),
        &[
            "toml:14:16",
            "do not lead to one disk",
            "`q` leads to disk `e` (memory of `e`), and `p0` to disk `d` (memory of `d`)",
            "if both are one disk, write the same `identity = \"NAME\"` into [disk.d] and [disk.e]",
        ],
    );
    assert_says(&with("[disk.e]\ntype = \"null\"\n[device.m]\npaths = [\"d\", \"e\"]\n"), &["do not lead to one disk"]);
    assert_says(
        "[disk.d]\ntype = \"null\"\nsize = \"1MiB\"\n[device.p]\ntable = \"0 8 linear d 0\"\n[device.q]\n\
         table = \"0 8 linear d 8\"\n[device.m]\npaths = [\"p\", \"q\"]\n",
        &["toml:9:15", "`q` leads to disk `d` +8 (", "and `p` to disk `d` (", "let all paths lead to the same sectors"],
    );
    // Two ways to write down the same sectors.
    let split =
        "table = \"\"\"\n0 1024 linear d 0\n1024 1024 linear d 1024\n\"\"\"\n[device.m]\npaths = [\"p0\", \"q\"]\n";
    parse(&with(&format!("[device.q]\n{split}"))).unwrap();
    // A path that is down at the start does not say where it leads.
    parse(&with("[device.q]\ntable = \"0 2048 error\"\n[device.m]\npaths = [\"q\", \"p0\"]\n")).unwrap();
}

/// The paths of one disk, or the members of a volume, in the lines of a table.
const MULTIPATH: &str = "0 2048 multipath 0 0 1 1 round-robin 0 2 1 d 1 e 1";

#[test]
fn paths_of_a_multipath_line_have_to_lead_to_one_disk() {
    let disk = |name: &str, keys: &str| format!("[disk.{name}]\ntype = \"null\"\nsize = \"1MiB\"\n{keys}");
    let stack = |d: &str, e: &str| format!("{}{}[device.m]\ntable = \"{MULTIPATH}\"\n", disk("d", d), disk("e", e));
    let expected =
        ["toml:8:57", "`e` leads to disk `e` (memory of `e`), and `d` to disk `d` (memory of `d`)", "`identity"];
    assert_says(&stack("", ""), &expected);
    assert_says(&stack("identity = \"x\"\n", ""), &["`d` to disk `d` (identity \"x\")"]);
    assert_says(&stack("identity = \"x\"\n", "identity = \"y\"\n"), &["identity \"y\""]);
    parse(&stack("identity = \"x\"\n", "identity = \"x\"\n")).unwrap();
}

#[test]
fn two_disks_of_one_identity_are_paths() {
    let disks = "[disk.a]\ntype = \"null\"\nidentity = \"x\"\n[disk.b]\ntype = \"null\"\nidentity = \"x\"\n";
    parse(&format!("{disks}[device.m]\npaths = [\"a\", \"b\"]\n")).unwrap();
    let volume = format!("{disks}[device.v]\ntable = \"0 8 stl a b\"\n");
    assert_says(&volume, &["`a` and `b` are one disk, disk `a` (identity \"x\"): a disk is in a volume once"]);
    assert_says(&disks.replace("identity = \"x\"", "identity = \"\""), &["toml:3:12", "`identity` is empty"]);
    assert_says(&disks.replace("identity", "identiy"), &["did you mean `identity`"]);
}

#[test]
fn paths_that_leave_one_disk_at_different_sectors_are_refused() {
    let disks = "[disk.a]\ntype = \"null\"\nsize = \"1MiB\"\n[disk.b]\ntype = \"null\"\nsize = \"1MiB\"\n";
    let device = |name: &str, cut: u64| {
        format!("[device.{name}]\ntable = \"\"\"\n0 {cut} linear a 0\n{cut} {} linear b {cut}\n\"\"\"\n", 1024 - cut)
    };
    let stack = |cut| format!("{disks}{}{}[device.m]\npaths = [\"p\", \"q\"]\n", device("p", 512), device("q", cut));
    parse(&stack(512)).unwrap();
    assert_says(&stack(256), &["do not lead to one disk"]);
}

#[test]
fn paths_of_other_sizes_are_refused_before_anything_is_built() {
    assert_says(
        &with("[device.q]\ntable = \"0 1024 linear d 0\"\n[device.m]\npaths = [\"p0\", \"q\"]\n"),
        &["toml:11:16", "path 1 leads to a disk of 1024 sectors, and the others to one of 2048"],
    );
}

#[test]
fn zone_writes_are_ordered_above_the_paths_and_nowhere_else() {
    let zoned = "[disk.d]\ntype = \"null\"\nsize = \"64MiB\"\nzone-size = \"1MiB\"\n";
    let plan = parse(&format!("{zoned}[device.m]\npaths = [\"d\"]\n")).unwrap();
    assert_eq!(plan.disks[0].path_of.as_deref(), Some("m"));
    assert_says(
        &format!("{zoned}policy = \"plug\"\n[device.m]\npaths = [\"d\"]\n"),
        &["toml:5:10", "disk `d` is a path of `m`, where zone writes are ordered"],
    );
}
