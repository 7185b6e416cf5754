//! `shingle disks test` as its users run it, on a zoned disk in a directory: the rules are those of any zoned disk.

use crate::program::Scratch;

#[test]
fn a_disk_is_tested_without_a_change_unless_that_is_asked_for_and_its_report_is_what_a_fit_reads() {
    let scratch = Scratch::new();
    scratch.ok("create smr --size 64MiB --zone-size 4MiB --max-open 4");
    let said = scratch.ok("disks test smr --runtime 1");
    assert!(said.contains("what is written can be read") && said.contains("not tried"), "{said}");
    assert!(said.contains("only --destructive measures it"), "{said}");
    assert_eq!(scratch.ok("zones report smr --cond em").lines().count(), 16, "nothing was written");
    let said = scratch.ok("disks test smr --runtime 1 --destructive --report smr.json");
    let tried = said.lines().take_while(|line| !line.is_empty()).skip(1);
    assert_eq!(tried.filter(|line| line.contains("  kept")).count(), 11, "an empty disk has nothing to read: {said}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(scratch.0.join("smr.json")).unwrap()).unwrap();
    assert!(report["rules"].as_array().unwrap().iter().all(|rule| rule["result"] != "broken"), "{report:#}");
    let reading = shingle_lab::fit::read(&scratch.0.join("smr.json")).unwrap();
    assert!(reading.measurements.len() == 6 && reading.left_out.is_empty(), "{reading:?}");
}

#[test]
fn what_is_no_zoned_disk_is_not_tested() {
    let scratch = Scratch::new();
    scratch.file("disk.img", &"x".repeat(4096));
    scratch.fails("disks test disk.img", 1, &["disk.img: it has no zones", "shingle disks"]);
    scratch.fails("disks test nothing", 1, &["nothing: there is no such directory", "shingle create"]);
}
